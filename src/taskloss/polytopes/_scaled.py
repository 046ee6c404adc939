"""The recursion over packed trees in probabilities, scaled on the way, for work that is too small to compile for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._forest import Forest

SPREAD = 230.0  # differences of scores up to which exp stays above 1e-100, as products of messages need
_SMALLEST = 1e-100


def scaled(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, weights: np.ndarray | None, pairs: str
) -> tuple[Any, ...] | None:
    """The recursion in probabilities, as the compiled one has it (see there), all trees at a time; None where it could underflow."""
    shared = pairwise.ndim == 2
    top, shift = unary.max(axis=1), pairwise.max(axis=(-2, -1), keepdims=True)
    with np.errstate(invalid="ignore"):
        low, e = unary - top[:, None], pairwise - shift
    depth = _depth(low) + _depth(e)
    if not depth < np.inf:
        return None
    # A level shrinks beliefs by no more than the spread of scores and raises them to the number of states times itself at the
    # most: single children are scaled anew only as often as that takes.
    spread = depth + np.log(unary.shape[1])
    every = 1 if forest.most_children > 1 else max(1, int(SPREAD / max(spread, 1.0)))
    b, e = np.exp(low), np.exp(e)
    m, scale = np.ones(b.shape), np.ones(len(b))
    up, down = (_up_chain, _down_chain) if len(forest) == 1 and forest.chain_length is not None else (_up, _down)
    with np.errstate(invalid="ignore"):  # a belief of zeros, found at the end
        if not up(forest, e, b, m, scale, every):
            return None
    mass = b[forest.roots].sum(axis=1)
    if not (scale.all() and mass.all()) or _sinks(b):
        return None
    scores = top + np.log(scale)
    scores[forest.children] += np.ravel(shift)  # the table's own maximum, or each edge's
    log_z = np.log(mass) + np.add.reduceat(scores, forest.roots)
    mu, r, inverse = np.empty(b.shape), np.zeros(b.shape), np.divide(1.0, m, out=np.ones(m.shape), where=m > 0)
    mu[forest.roots] = b[forest.roots] / mass[:, None]
    down(forest, e, b, inverse, r, mu)
    if weights is not None:
        per_node = weights[forest.tree_of, None]
        mu *= per_node
        r *= per_node
    if pairs == "none":
        return log_z, mu, None
    if pairs == "sum" and shared:
        return log_z, mu, e * (r.T @ b)
    joint = r[forest.children][:, :, None] * e * b[forest.children][:, None, :]
    return log_z, mu, joint if pairs == "all" else joint.sum(axis=0)


def _up(forest: Forest, e: np.ndarray, b: np.ndarray, m: np.ndarray, scale: np.ndarray, every: int) -> bool:
    """Beliefs b and messages m from the leaves to the roots, in place; False where they could underflow."""
    turned = e.T
    for step, (level, above, turns) in enumerate(reversed(forest.rungs), 1):
        x = b[level]
        m[level] = x @ turned if e.ndim == 2 else (e[forest.edge_of[level]] @ x[:, :, None])[:, :, 0]
        for nodes, parents in ((level, above),) if turns is None else turns:
            x = b[parents] * m[nodes]
            if step % every:
                b[parents] = x
                continue
            largest = np.maximum.reduce(x, axis=1, keepdims=True)
            scale[nodes] = largest[:, 0]
            b[parents] = x = x / largest
            if turns is not None and (not largest.all() or _sinks(x)):
                return False
    return True


def _down(forest: Forest, e: np.ndarray, b: np.ndarray, inverse: np.ndarray, r: np.ndarray, mu: np.ndarray) -> None:
    """What parents leave to their children, r, and marginals mu from the roots to the leaves, in place; inverse: of the messages."""
    for level, parents, _ in forest.rungs:
        r[level] = x = mu[parents] * inverse[level]
        mu[level] = b[level] * (x @ e if e.ndim == 2 else (x[:, None, :] @ e[forest.edge_of[level]])[:, 0])


def _up_chain(forest: Forest, e: np.ndarray, b: np.ndarray, m: np.ndarray, scale: np.ndarray, every: int) -> bool:
    """`_up` on a single chain, node by node: on one sentence, lists of one node each would take most of the time."""
    beliefs, messages, tables = list(b), list(m), [e] * len(b) if e.ndim == 2 else list(e)
    for i in range(len(b) - 1, 0, -1):
        above = beliefs[i - 1]
        above *= tables[i - 1].dot(beliefs[i], messages[i])
        if (len(b) - i) % every == 0:
            scale[i] = largest = above.max()
            above /= largest
    return True


def _down_chain(
    forest: Forest, e: np.ndarray, b: np.ndarray, inverse: np.ndarray, r: np.ndarray, mu: np.ndarray
) -> None:
    """`_down` on a single chain, node by node: r_{i+1} = (b_i / m_{i+1}) (e^T r_i), and mu_i = b_i (e^T r_i)."""
    rests, shares, tables = list(r), list(b[:-1] * inverse[1:]), [e] * len(b) if e.ndim == 2 else list(e)
    told = list(mu)
    np.multiply(mu[:1], inverse[1:2], r[1:2])
    for i in range(1, len(b)):
        rests[i].dot(tables[i - 1], told[i])
        if i + 1 < len(b):
            np.multiply(shares[i], told[i], rests[i + 1])
    mu[1:] *= b[1:]


def _sinks(b: np.ndarray) -> bool:
    """Whether a belief is so small that its next product could underflow."""
    return not b.min() >= _SMALLEST and bool(((b < _SMALLEST) & (b > 0)).any())


def _depth(x: np.ndarray) -> float:
    """How far what is not forbidden lies below zero, the maximum of all; infinite where that is too far."""
    least = x.min(initial=0.0)
    if not least >= -SPREAD:  # something is forbidden, or too low
        least = x[~np.isneginf(x)].min(initial=0.0)
    return -float(least) if least >= -SPREAD else np.inf
