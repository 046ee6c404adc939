"""Log-partition functions, marginals, covariances and samples of packed trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import array_namespace, log
from ._forest import COMPILED_WORK, Array, Forest, edge_scores, finite_or_zero, rows_at
from ._scaled import SPREAD, scaled

_MATRICES = 1 << 21  # numbers in the matrices of a block of trees whose edges have their own


def _lse(x: Array, axis: int) -> Array:
    """log sum exp, -inf where nothing is allowed."""
    xp = array_namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return xp.squeeze(top, axis=axis) + log(xp.sum(xp.exp(x - top), axis=axis))


def _gather(values: Array, index: np.ndarray, size: int) -> Array:
    """Sums of rows that share an index."""
    if isinstance(values, np.ndarray):
        out = np.zeros((size, *values.shape[1:]), values.dtype)
        np.add.at(out, index, values)
        return out
    xp = array_namespace(values)
    zeros = xp.zeros((size, *values.shape[1:]), dtype=values.dtype, device=values.device)
    return zeros.index_add(0, xp.asarray(index, device=values.device), values)


def _upward(forest: Forest, unary: Array, pairwise: Array) -> tuple[list[Array], list[Array], Array]:
    """By depth: beliefs, the log-sum over the tree below a node, and what each node tells its parent; and trees' scales.

    Each node's belief is brought to a maximum of zero, so that on long chains no digits are lost, and what that takes
    off adds up to the scale of its tree.
    """
    xp = array_namespace(unary)
    depth = len(forest.levels)
    beliefs: list[Any] = [None] * depth
    messages, tops = beliefs.copy(), beliefs.copy()
    incoming = None
    for d in reversed(range(depth)):
        nodes = forest.levels[d]
        b = rows_at(unary, nodes)
        b = b if incoming is None else b + incoming
        tops[d] = finite_or_zero(xp.max(b, axis=-1))
        beliefs[d] = b = b - tops[d][:, None]
        if d:
            messages[d] = _lse(edge_scores(forest, pairwise, nodes) + b[:, None, :], axis=-1)
            incoming = _gather(messages[d], forest.above(d), len(forest.levels[d - 1]))
    trees = forest.tree_of[np.concatenate(forest.levels)]
    return beliefs, messages, _gather(xp.concat(tops, axis=0), trees, len(forest))


def _plain(forest: Forest, unary: Array, pairwise: Array, weights: Array | None, pairs: str) -> tuple[Any, ...]:
    xp = array_namespace(unary)
    beliefs, messages, scale = _upward(forest, unary, pairwise)
    root = _lse(beliefs[0], axis=-1)
    log_mu, joints = [beliefs[0] - finite_or_zero(root)[:, None]], []
    for d in range(1, len(forest.levels)):
        nodes, m = forest.levels[d], messages[d]
        parent = rows_at(log_mu[d - 1], forest.above(d))
        r = xp.where(xp.isfinite(m), parent - finite_or_zero(m), xp.full_like(m, -float("inf")))
        joint = r[:, :, None] + edge_scores(forest, pairwise, nodes) + beliefs[d][:, None, :]
        below = _lse(joint, axis=1)
        total = finite_or_zero(_lse(below, axis=-1))  # zero but for rounding, which would pile up on the way down
        log_mu.append(below - total[:, None])
        if pairs != "none":
            share = xp.exp(joint - total[:, None, None])
            joints.append(share if weights is None else share * weights[forest.tree_of[nodes], None, None])
    log_z = root + scale
    order = np.concatenate(forest.levels)
    mu = rows_at(xp.exp(xp.concat(log_mu, axis=0)), np.argsort(order))
    mu = mu if weights is None else mu * weights[forest.tree_of, None]
    k = unary.shape[1]
    if pairs == "none":
        return log_z, mu, None
    if not joints:
        empty = xp.zeros((0, k, k), dtype=unary.dtype)
        return log_z, mu, empty if pairs == "all" else xp.sum(empty, axis=0)
    if pairs == "sum":
        return log_z, mu, sum(xp.sum(j, axis=0) for j in joints)
    lower = np.argsort(forest.edge_of[np.concatenate(forest.levels[1:])])
    return log_z, mu, rows_at(xp.concat(joints, axis=0), lower)


def marginals(
    forest: Forest,
    unary: Array,
    pairwise: Array,
    pairs: str = "all",
    weights: np.ndarray | None = None,
    compiled: bool | None = None,
    out: np.ndarray | None = None,
) -> tuple[Any, ...]:
    """log-partition of each tree, marginals of nodes and of edges ("all", their "sum", or "none"), times the weight of each tree.

    `out` is room for the nodes' marginals, which the compiled path uses.
    """
    if compiled is None:
        compiled = forest.n_nodes * unary.shape[1] ** 2 >= COMPILED_WORK
    if "torch" in array_namespace(unary).__name__ and forest.chain_length is not None:
        return _tensors(forest, unary, pairwise, weights, pairs)
    if not (compiled and isinstance(unary, np.ndarray) and unary.dtype == np.float64):
        double = isinstance(unary, np.ndarray) and unary.dtype == np.float64
        found = scaled(forest, unary, pairwise, weights, pairs) if double else None
        log_z, mu, pair = _plain(forest, unary, pairwise, weights, pairs) if found is None else found
    else:
        log_z, mu, pair = _compiled(forest, unary, pairwise, weights, pairs, out)
    if isinstance(log_z, np.ndarray):
        forest.refuse(log_z)
    return log_z, mu, pair


def _tensors(forest: Forest, unary: Array, pairwise: Array, weights: Array | None, pairs: str) -> tuple[Any, ...]:
    """Chains of one length that come as tensors, as a padded batch, with gradients of their own and a kernel for GPUs."""
    from .._compiled.torch_chain import chain
    from .._compiled.torch_definition import EACH, SUMS

    count, length, k = len(forest), forest.chain_length, unary.shape[1]
    table = pairwise if pairwise.ndim == 2 else pairwise.reshape(count, -1, k, k)
    scores = unary.reshape(count, length, k), table
    log_z, mu, pair = chain(*scores, what=EACH if pairs == "all" else SUMS)
    if weights is not None:
        each = array_namespace(unary).asarray(weights, dtype=mu.dtype, device=mu.device)
        mu, pair = (x * each.reshape(-1, *[1] * (x.ndim - 1)) for x in (mu, pair))
    mu, pair = mu.reshape(-1, k), pair.reshape(-1, k, k)
    return log_z, mu, None if pairs == "none" else pair if pairs == "all" else pair.sum(0)


def _compiled(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, weights: Any, pairs: str, out: np.ndarray | None
) -> tuple[Any, ...]:
    """The compiled recursion; where each edge has its own matrix, in blocks, so that their exponentials stay few."""
    k = unary.shape[1]
    log_z, mu = np.zeros(len(forest)), np.empty(unary.shape) if out is None else out
    weights = np.ones(len(forest)) if weights is None else np.ascontiguousarray(weights, dtype=float)
    unary = np.ascontiguousarray(unary)
    if pairwise.ndim == 2:
        return log_z, mu, _compiled_block(forest, unary, pairwise, weights, pairs, log_z, mu)
    found = []
    for trees, some in forest.blocks(_MATRICES // k**2):
        nodes = slice(forest.offsets[trees.start], forest.offsets[trees.stop])
        step = pairwise[nodes.start - trees.start : nodes.stop - trees.stop]
        found.append(_compiled_block(some, unary[nodes], step, weights[trees], pairs, log_z[trees], mu[nodes]))
    return log_z, mu, None if pairs == "none" else sum(found) if pairs == "sum" else np.concatenate(found)


def _compiled_block(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, weights: np.ndarray, pairs: str, log_z: Any, mu: Any
) -> Any:
    """Fills log_z and mu, and returns what was asked of the edges."""
    from .._compiled.forest import NO_CELLS, sum_product

    shared, k = pairwise.ndim == 2, unary.shape[1]
    e, shift, fine = _exponentials(forest, pairwise)
    mode = 0 if pairs == "none" else 1 if pairs == "sum" and shared else 2
    pair = np.zeros((0 if mode == 0 else 1 if mode == 1 else forest.n_edges, k, k))
    turned = _turned(e)
    shape = (forest.edge_of, forest.parents, forest.offsets)
    sum_product(unary, e, turned, 0 if shared else 1, *shape, weights, mu, mode, pair, log_z, fine, NO_CELLS)
    if shared:
        log_z += (forest.lengths - 1) * float(shift.squeeze())
    else:
        np.add.at(log_z, forest.tree_of[forest.children], shift.ravel())
    result = None if mode == 0 else e[0] * pair[0] if mode == 1 else pair if pairs == "all" else pair.sum(axis=0)
    if not fine.all():
        result = _mend(forest, unary, pairwise, weights, pairs, np.flatnonzero(~fine), log_z, mu, result)
    return result


def cell_marginals(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, cells: np.ndarray, compiled: bool | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Marginals of nodes, and of edges at some pairs of states, (edges, cells): all of them would be most of the work."""
    if compiled is None:
        compiled = forest.n_nodes * unary.shape[1] ** 2 >= COMPILED_WORK
    if not compiled or pairwise.ndim == 3:
        _, mu, pair = marginals(forest, unary, pairwise, compiled=compiled)
        return mu, pair[:, cells[:, 0], cells[:, 1]]
    from .._compiled.forest import sum_product

    unary = np.ascontiguousarray(unary, dtype=float)
    e, _, fine = _exponentials(forest, pairwise)
    mu, log_z, pair = np.empty(unary.shape), np.zeros(len(forest)), np.empty((1, forest.n_edges, len(cells)))
    shape, weights = (forest.edge_of, forest.parents, forest.offsets), np.ones(len(forest))
    sum_product(unary, e, _turned(e), 0, *shape, weights, mu, 3, pair, log_z, fine, cells)
    if not fine.all():
        trees = np.flatnonzero(~fine)
        some, nodes = forest.take(trees), forest.nodes_of(trees)
        edges = forest.edge_of[nodes[forest.parents[nodes] >= 0]]
        mu[nodes], pair[0, edges] = cell_marginals(some, unary[nodes], pairwise, cells, compiled=False)
    return mu, pair[0]


def _exponentials(forest: Forest, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exp(pairwise - maximum) as a stack of matrices, the maxima, and the trees on which no product of these can underflow."""
    fine, k = np.ones(len(forest), dtype=bool), pairwise.shape[-1]
    with np.errstate(invalid="ignore"):
        shift = pairwise.max(axis=(-1, -2), keepdims=True)
        e = np.ascontiguousarray(pairwise - shift).reshape(-1, k, k)
        if not e.min(initial=0.0) >= -SPREAD:  # wide spreads, and matrices of -inf alone, go the plain way
            wild = ~((e >= -SPREAD) | np.isneginf(e)).all(axis=(1, 2))
            fine[forest.tree_of[forest.children[np.broadcast_to(wild, forest.n_edges)]]] = False
    return np.exp(e), shift, fine


def _turned(e: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(e.transpose(0, 2, 1))


def _mend(
    forest: Forest, unary: Any, pairwise: Any, weights: Any, pairs: str, trees: Any, log_z: Any, mu: Any, pair: Any
) -> Any:
    """Fill in the trees that need logarithms."""
    some, nodes = forest.take(trees), forest.nodes_of(trees)
    edges = forest.edge_of[nodes[forest.parents[nodes] >= 0]]
    part = pairwise if pairwise.ndim == 2 else pairwise[edges]
    log_z[trees], mu[nodes], joint = _plain(
        some, unary[nodes], part, None if weights is None else weights[trees], pairs
    )
    if pairs == "sum":
        return pair + joint
    if pairs == "all":
        pair[edges] = joint
    return pair


def covariance(
    forest: Forest, nodes: np.ndarray, edges: np.ndarray, u_nodes: np.ndarray, u_edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cov(phi) u under the law with these marginals, for u of nodes and of edges (one for each, or one table for all).

    Each coordinate is mu times (E[<u, phi> | that coordinate is on] - <u, mu>). The law is Markov: the expectation given a
    node's state is what lies below it, f, plus what lies beside and above it, g; both pass along the edges.
    """
    f, g, from_child = u_nodes.copy(), np.zeros_like(u_nodes), np.zeros_like(u_nodes)
    given_edges = np.empty_like(edges)
    for level in reversed(forest.levels[1:]):
        parents, e = forest.parents[level], forest.edge_of[level]
        down = _ratio(edges[e], nodes[parents][:, :, None])
        from_child[level] = (down * (edge_scores(forest, u_edges, level) + f[level][:, None, :])).sum(-1)
        np.add.at(f, parents, from_child[level])
    for level in forest.levels[1:]:
        parents, e = forest.parents[level], forest.edge_of[level]
        up = _ratio(edges[e], nodes[level][:, None, :])
        outside = f[parents] + g[parents] - from_child[level]
        given = outside[:, :, None] + edge_scores(forest, u_edges, level)
        g[level] = (up * given).sum(-2)
        given_edges[e] = given + f[level][:, None, :]
    mean = np.bincount(forest.tree_of, (u_nodes * nodes).sum(-1), len(forest))
    if forest.n_edges:
        tree_of = forest.tree_of[forest.children]
        mean += np.bincount(tree_of, (u_edges * edges).sum((-2, -1)), len(forest))
        given_edges -= mean[tree_of][:, None, None]
    return nodes * (f + g - mean[forest.tree_of][:, None]), edges * given_edges


def _ratio(joint: np.ndarray, marginal: np.ndarray) -> np.ndarray:
    return joint / np.where(marginal > 0, marginal, 1.0)


def covariance_map(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, weights: np.ndarray, compiled: bool | None = None
) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(u_nodes, u_edges) -> Cov(phi) u of each tree under the law with these scores, times its weight.

    Where u_edges is one table for all edges the answer is their sum. The compiled path keeps no marginals.
    """
    if compiled is None:
        compiled = forest.n_nodes * unary.shape[1] ** 2 >= COMPILED_WORK
    unary, k = np.ascontiguousarray(unary), unary.shape[1]
    if not compiled:
        return _plain_covariance(forest, unary, pairwise, weights)

    def product(u_nodes: np.ndarray, u_edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nodes, u_nodes = np.empty_like(unary), np.ascontiguousarray(u_nodes, dtype=float)
        if pairwise.ndim == u_edges.ndim == 2:
            return nodes, _covariance_block(forest, unary, pairwise, weights, u_nodes, u_edges, nodes)
        shape, found = (forest.n_edges, k, k), []
        own, given = np.broadcast_to(pairwise, shape), np.broadcast_to(u_edges, shape)
        for trees, some in forest.blocks(_MATRICES // k**2):
            at = slice(forest.offsets[trees.start], forest.offsets[trees.stop])
            edges = slice(at.start - trees.start, at.stop - trees.stop)
            block = some, unary[at], own[edges], weights[trees], u_nodes[at], given[edges], nodes[at]
            found.append(_covariance_block(*block))
        edges_of_all = np.concatenate(found)
        return nodes, edges_of_all if u_edges.ndim == 3 else edges_of_all.sum(axis=0)

    return product


def _plain_covariance(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, weights: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    _, nodes, edges = marginals(forest, unary, pairwise, compiled=False)
    per_node, per_edge = weights[forest.tree_of][:, None], weights[forest.tree_of[forest.children]][:, None, None]

    def product(u_nodes: np.ndarray, u_edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b = covariance(forest, nodes, edges, u_nodes, u_edges)
        b *= per_edge
        return a * per_node, b if u_edges.ndim == 3 else b.sum(axis=0)

    return product


def _covariance_block(
    forest: Forest, unary: Any, pairwise: Any, weights: np.ndarray, u_nodes: Any, u_edges: Any, out: np.ndarray
) -> np.ndarray:
    """Fills `out` for the nodes, and returns the edges."""
    from .._compiled.forest import covariance_product

    each, k = pairwise.ndim == 3, unary.shape[1]
    e, _, fine = _exponentials(forest, pairwise)
    eu = e * u_edges.reshape(-1, k, k)
    pairs = np.zeros((forest.n_edges if each else 2, k, k))
    shape = (int(each), forest.edge_of, forest.parents, forest.offsets, weights)
    covariance_product(unary, e, _turned(e), eu, _turned(eu), *shape, u_nodes, out, each, pairs, fine)
    result = pairs if each else e[0] * pairs[0] + eu[0] * pairs[1]
    if not fine.all():
        trees = np.flatnonzero(~fine)
        some, nodes = forest.take(trees), forest.nodes_of(trees)
        edges = forest.edge_of[nodes[forest.parents[nodes] >= 0]]
        own, given = (pairwise[edges], u_edges[edges]) if each else (pairwise, u_edges)
        out[nodes], more = _plain_covariance(some, unary[nodes], own, weights[trees])(u_nodes[nodes], given)
        if each:
            result[edges] = more
        else:
            result += more
    return result


def sample(forest: Forest, unary: np.ndarray, pairwise: np.ndarray, count: int, rng: Any) -> np.ndarray:
    """States drawn from the law, (count, nodes): the root from its belief, every other node given its parent."""
    beliefs, _, _ = _upward(forest, np.asarray(unary, dtype=float), pairwise)
    forest.refuse(beliefs[0].max(axis=-1))
    states = np.empty((count, forest.n_nodes), dtype=np.int64)
    for d, nodes in enumerate(forest.levels):
        logits = np.broadcast_to(beliefs[d], (count, *beliefs[d].shape))
        if d:
            pair = np.broadcast_to(edge_scores(forest, pairwise, nodes), (len(nodes), *pairwise.shape[-2:]))
            logits = logits + pair[np.arange(len(nodes)), states[:, forest.parents[nodes]]]
        # The largest of logits with Gumbel noise is a draw from their softmax.
        states[:, nodes] = np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)
    return states
