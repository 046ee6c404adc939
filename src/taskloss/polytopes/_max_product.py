"""The best states of packed trees: one labelling, the best with each state at each node, the k best."""

from __future__ import annotations

import numpy as np

from ._forest import COMPILED_WORK, Forest, edge_scores, finite_or_zero


def maximise(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, compiled: bool | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The best score of each tree and the states that reach it, ties to the first."""
    if compiled is None:
        compiled = forest.n_nodes * unary.shape[1] ** 2 >= COMPILED_WORK
    if not compiled:
        return _viterbi(forest, unary, pairwise)
    from .._compiled.forest import max_product

    unary = np.array(unary, dtype=float)
    states, score = np.empty(len(unary), dtype=np.int64), np.empty(len(forest))
    matrices = np.ascontiguousarray(pairwise, dtype=float).reshape(-1, *pairwise.shape[-2:])
    stride = 0 if pairwise.ndim == 2 else 1
    max_product(unary, matrices, stride, forest.edge_of, forest.parents, forest.offsets, states, score)
    forest.refuse(score)
    return score, states


def _viterbi(forest: Forest, unary: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    best = np.array(unary, dtype=float)
    back = np.empty(best.shape, dtype=np.int64)
    for level in reversed(forest.levels[1:]):
        sums = edge_scores(forest, pairwise, level) + best[level][:, None, :]
        back[level] = sums.argmax(axis=-1)
        message = sums.max(axis=-1)
        if forest.most_children == 1:
            best[forest.parents[level]] += message
        else:
            np.add.at(best, forest.parents[level], message)
    states = np.empty(forest.n_nodes, dtype=np.int64)
    states[forest.roots] = best[forest.roots].argmax(axis=-1)
    for level in forest.levels[1:]:
        states[level] = back[level, states[forest.parents[level]]]
    score = best[forest.roots, states[forest.roots]]
    forest.refuse(score)
    return score, states


def max_marginals(forest: Forest, unary: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
    """The best score of a tree with each state at each node, (nodes, states): the largest at a node are the best of all."""
    best, messages = np.array(unary, dtype=float), np.empty(unary.shape)
    for nodes in reversed(forest.levels[1:]):
        messages[nodes] = (edge_scores(forest, pairwise, nodes) + best[nodes][:, None, :]).max(axis=-1)
        np.add.at(best, forest.parents[nodes], messages[nodes])
    for nodes in forest.levels[1:]:
        rest = best[forest.parents[nodes]] - finite_or_zero(
            messages[nodes]
        )  # -inf stays: no state of the child is allowed
        best[nodes] += (rest[:, :, None] + edge_scores(forest, pairwise, nodes)).max(axis=1)
    forest.refuse(best[forest.roots].max(axis=-1))
    return best


def _top(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest along the last axis in falling order, ties to the first, and where they were."""
    at = np.argmax(x, axis=-1)[..., None] if k == 1 else np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, at, axis=-1), at


def k_best(forest: Forest, unary: np.ndarray, pairwise: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best scores of each tree, (trees, k) in falling order, and their states (k, nodes); -inf where there are fewer.

    The sum of the recursion becomes a list of the k largest, and the product all sums of two lists, cut to k.
    """
    unary = np.asarray(unary, dtype=float)
    n_states = unary.shape[1]
    best = np.full((forest.n_nodes, n_states, k), -np.inf)
    best[:, :, 0] = unary
    messages = np.empty_like(best)
    chosen = np.zeros((forest.n_nodes, n_states, k), dtype=np.int64)  # the child's state and rank, for each entry
    merged = np.zeros((forest.n_nodes, n_states, k), dtype=np.int64)  # the parent's earlier rank and the child's entry
    for nodes in reversed(forest.levels[1:]):
        cand = edge_scores(forest, pairwise, nodes)[..., None] + best[nodes][:, None]
        messages[nodes], chosen[nodes] = _top(cand.reshape(len(nodes), n_states, n_states * k), k)
        for these in forest.turns(nodes):
            parents = forest.parents[these]
            sums = best[parents][..., None] + messages[these][:, :, None, :]
            best[parents], merged[these] = _top(sums.reshape(len(parents), n_states, k * k), k)
    roots = forest.levels[0]
    score, at = _top(best[roots].reshape(len(roots), -1), k)
    states, rank = np.empty((forest.n_nodes, k), dtype=np.int64), np.empty((forest.n_nodes, k), dtype=np.int64)
    states[roots], rank[roots] = np.divmod(at, k)
    for nodes in forest.levels[1:]:
        for these in reversed(forest.turns(nodes)):
            parents = forest.parents[these]
            row = np.arange(len(these))[:, None]
            earlier, entry = np.divmod(merged[these][row, states[parents], rank[parents]], k)
            states[these], rank[these] = np.divmod(chosen[these][row, states[parents], entry], k)
            rank[parents] = earlier
    return score, states.T
