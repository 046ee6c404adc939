"""Inference on many trees at once: sums, maxima, the k best and samples from one recursion.

Trees travel packed: the nodes of all of them in one array, each tree's root first and every parent before its
children. A chain is the tree whose nodes are in a row. Scores are `unary` (nodes, states) and `pairwise`, a matrix
[parent's state, child's state] that all edges share, or one for each edge in the order of their lower ends; -inf
forbids. Every answer passes values up to the root and decisions down; the plain path does so level by level over all
trees, in logarithms, for NumPy and torch alike, and the compiled path tree by tree. Chains of one length that come as
tensors go to `_compiled.torch_chain`, which has gradients of its own and a kernel for GPUs.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._arrays import array_namespace, log

Array = Any

_COMPILED_WORK = 1 << 20  # products of messages below which compiling (a second, once per machine) is not worth it
_MATRICES = 1 << 21  # numbers in the matrices of a block of trees whose edges have their own
_SPREAD = 230.0  # differences of scores up to which exp stays above 1e-100, as the compiled recursion needs


class Forest:
    """The shape of packed trees: each node's parent (-1 at a root), and where each tree starts and ends.

    `numbers` are those by which the user counts the trees, where they are some of many.
    """

    def __init__(self, parents: np.ndarray, offsets: np.ndarray, numbers: np.ndarray | None = None):
        self.parents, self.offsets = parents, offsets
        self.numbers = np.arange(len(offsets) - 1) if numbers is None else numbers
        self._blocks: tuple[int, list[tuple[slice, Forest]]] | None = None

    @classmethod
    def chains(cls, lengths: Any, numbers: np.ndarray | None = None) -> Forest:
        offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])
        parents = np.arange(-1, offsets[-1] - 1)
        parents[offsets[:-1]] = -1
        return cls(parents, offsets, numbers)

    @classmethod
    def copies(cls, parents: np.ndarray, count: int) -> Forest:
        """So many trees of one shape."""
        size = len(parents)
        starts = size * np.arange(count)
        nodes = (parents + starts[:, None]).reshape(-1)
        nodes[starts] = -1
        return cls(nodes, size * np.arange(count + 1))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_nodes(self) -> int:
        return len(self.parents)

    @property
    def n_edges(self) -> int:
        return self.n_nodes - len(self)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @cached_property
    def tree_of(self) -> np.ndarray:
        """The tree of each node."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def children(self) -> np.ndarray:
        """The lower end of each edge."""
        return np.flatnonzero(self.parents >= 0)

    @cached_property
    def edge_of(self) -> np.ndarray:
        """The edge above each node; at a root, which has none, that of the node before."""
        return np.maximum(np.cumsum(self.parents >= 0) - 1, 0)

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """Nodes by their depth."""
        position = np.arange(self.n_nodes) - self.offsets[self.tree_of]
        depth = position.copy()
        if (self.parents[self.children] != self.children - 1).any():  # not chains: parents come first
            for t in range(1, int(position.max()) + 1):
                nodes = np.flatnonzero(position == t)
                depth[nodes] = depth[self.parents[nodes]] + 1
        order = np.argsort(depth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(depth))[:-1])

    @cached_property
    def chain_length(self) -> int | None:
        """The length of the trees where all are chains of one length."""
        same = self.lengths[0] if len(self) and (self.lengths == self.lengths[0]).all() else None
        return None if same is None or (self.parents[self.children] != self.children - 1).any() else int(same)

    @cached_property
    def place(self) -> np.ndarray:
        """Each node's place in its level."""
        place = np.empty(self.n_nodes, dtype=np.int64)
        for nodes in self.levels:
            place[nodes] = np.arange(len(nodes))
        return place

    @cached_property
    def birth(self) -> np.ndarray:
        """How many siblings come before each node."""
        order = np.argsort(self.parents, kind="stable")
        group = self.parents[order]
        first = np.concatenate([[True], group[1:] != group[:-1]])
        rank = np.arange(self.n_nodes) - np.maximum.accumulate(np.where(first, np.arange(self.n_nodes), 0))
        out = np.empty(self.n_nodes, dtype=np.int64)
        out[order] = rank
        return out

    def above(self, depth: int) -> np.ndarray:
        """The places, one level up, of the parents of a level."""
        return self.place[self.parents[self.levels[depth]]]

    def blocks(self, nodes: int) -> list[tuple[slice, Forest]]:
        """Consecutive trees with about so many nodes, and their shape; the last answer is kept."""
        if self._blocks is None or self._blocks[0] != nodes:
            cuts = [*np.flatnonzero(np.diff(self.offsets[1:] // max(nodes, 1), prepend=-1)).tolist(), len(self)]
            found = []
            for a, b in itertools.pairwise(cuts):
                parents = self.parents[self.offsets[a] : self.offsets[b]] - self.offsets[a]
                offsets = self.offsets[a : b + 1] - self.offsets[a]
                found.append((slice(a, b), Forest(np.maximum(parents, -1), offsets, self.numbers[a:b])))
            self._blocks = nodes, found
        return self._blocks[1]

    def nodes_of(self, trees: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.isin(self.tree_of, trees))

    def subset(self, trees: np.ndarray) -> Forest:
        """Some of the trees, in ascending order."""
        nodes = self.nodes_of(trees)
        offsets = np.concatenate([[0], np.cumsum(self.lengths[trees])])
        shift = np.repeat(self.offsets[trees] - offsets[:-1], self.lengths[trees])
        parents = np.where(self.parents[nodes] < 0, -1, self.parents[nodes] - shift)
        return Forest(parents, offsets, self.numbers[trees])

    def refuse(self, values: np.ndarray) -> None:
        """One clear sentence where a tree's log-partition or best score says that nothing is allowed on it."""
        if np.isneginf(values).any():
            number = self.numbers[np.argmax(np.isneginf(values))]
            raise ValueError(
                f"No assignment of states is allowed on sequence or tree {number}: what is forbidden leaves none; allow more."
            )


def check_offsets(offsets: Any, rows: int | None = None) -> np.ndarray:
    """Where packed sequences begin and end, of so many rows; or one clear sentence."""
    offsets = np.asarray(offsets)
    whole = offsets.ndim == 1 and len(offsets) > 1 and offsets.dtype.kind in "iu" and offsets[0] == 0
    if not whole or rows not in (None, offsets[-1]):
        end = "the number of rows" if rows is None else f"the number of rows, {rows}"
        raise ValueError(f"offsets must be integers that rise from 0 to {end}.")
    steps = np.diff(offsets.astype(np.int64))
    if (steps < 1).any():
        raise ValueError(f"Sequence {int(np.argmax(steps < 1))} of X is empty: drop it, there is nothing to label.")
    return offsets.astype(np.int64)


class Limits(NamedTuple):
    """0 where a transition, a root's state or the state of a tree's last node is allowed and -inf where not; None where all are."""

    transition: np.ndarray | None = None
    start: np.ndarray | None = None
    end: np.ndarray | None = None

    def apply(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores with what is forbidden at -inf; unary is changed in place."""
        if self.start is not None:
            unary[forest.offsets[:-1]] += self.start
        if self.end is not None:
            unary[forest.offsets[1:] - 1] += self.end
        return unary, pairwise if self.transition is None else pairwise + self.transition

    def __bool__(self) -> bool:
        return any(part is not None for part in self)


# -- the plain recursion ----------------------------------------------------------------------------------------------


def _lse(x: Array, axis: int) -> Array:
    """log sum exp, -inf where nothing is allowed."""
    xp = array_namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return xp.squeeze(top, axis=axis) + log(xp.sum(xp.exp(x - top), axis=axis))


def _rows(x: Array, index: np.ndarray) -> Array:
    xp = array_namespace(x)
    return x[index] if isinstance(x, np.ndarray) else xp.take(x, xp.asarray(index, device=x.device), axis=0)


def _pairs(forest: Forest, pairwise: Array, nodes: np.ndarray) -> Array:
    return pairwise[None, ...] if pairwise.ndim == 2 else _rows(pairwise, forest.edge_of[nodes])


def _gather(values: Array, index: np.ndarray, size: int) -> Array:
    """Sums of rows that share an index."""
    if isinstance(values, np.ndarray):
        out = np.zeros((size, *values.shape[1:]), values.dtype)
        np.add.at(out, index, values)
        return out
    xp = array_namespace(values)
    zeros = xp.zeros((size, *values.shape[1:]), dtype=values.dtype, device=values.device)
    return zeros.index_add(0, xp.asarray(index, device=values.device), values)


def _floor(x: Array) -> Array:
    """x, and zero where it is infinite."""
    xp = array_namespace(x)
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


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
        b = _rows(unary, nodes)
        b = b if incoming is None else b + incoming
        tops[d] = _floor(xp.max(b, axis=-1))
        beliefs[d] = b = b - tops[d][:, None]
        if d:
            messages[d] = _lse(_pairs(forest, pairwise, nodes) + b[:, None, :], axis=-1)
            incoming = _gather(messages[d], forest.above(d), len(forest.levels[d - 1]))
    trees = forest.tree_of[np.concatenate(forest.levels)]
    return beliefs, messages, _gather(xp.concat(tops, axis=0), trees, len(forest))


def _plain(forest: Forest, unary: Array, pairwise: Array, weights: Array | None, pairs: str) -> tuple:
    xp = array_namespace(unary)
    beliefs, messages, scale = _upward(forest, unary, pairwise)
    root = _lse(beliefs[0], axis=-1)
    log_mu, joints = [beliefs[0] - _floor(root)[:, None]], []
    for d in range(1, len(forest.levels)):
        nodes, m = forest.levels[d], messages[d]
        parent = _rows(log_mu[d - 1], forest.above(d))
        r = xp.where(xp.isfinite(m), parent - _floor(m), xp.full_like(m, -float("inf")))
        joint = r[:, :, None] + _pairs(forest, pairwise, nodes) + beliefs[d][:, None, :]
        below = _lse(joint, axis=1)
        total = _floor(_lse(below, axis=-1))  # zero but for rounding, which would pile up on the way down
        log_mu.append(below - total[:, None])
        if pairs != "none":
            share = xp.exp(joint - total[:, None, None])
            joints.append(share if weights is None else share * weights[forest.tree_of[nodes], None, None])
    log_z = root + scale
    order = np.concatenate(forest.levels)
    mu = _rows(xp.exp(xp.concat(log_mu, axis=0)), np.argsort(order))
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
    return log_z, mu, _rows(xp.concat(joints, axis=0), lower)


# -- the answers ------------------------------------------------------------------------------------------------------


def marginals(
    forest: Forest,
    unary: Array,
    pairwise: Array,
    pairs: str = "all",
    weights: np.ndarray | None = None,
    compiled: bool | None = None,
    out: np.ndarray | None = None,
) -> tuple:
    """log-partition of each tree, marginals of nodes and of edges ("all", their "sum", or "none"), times the weight of each tree.

    `out` is room for the nodes' marginals, which the compiled path uses.
    """
    if compiled is None:
        compiled = forest.n_nodes * unary.shape[1] ** 2 >= _COMPILED_WORK
    if "torch" in array_namespace(unary).__name__ and forest.chain_length is not None:
        return _tensors(forest, unary, pairwise, weights, pairs)
    if not (compiled and isinstance(unary, np.ndarray) and unary.dtype == np.float64):
        log_z, mu, pair = _plain(forest, unary, pairwise, weights, pairs)
    else:
        log_z, mu, pair = _compiled(forest, unary, pairwise, weights, pairs, out)
    if isinstance(log_z, np.ndarray):
        forest.refuse(log_z)
    return log_z, mu, pair


def _tensors(forest: Forest, unary: Array, pairwise: Array, weights: Array | None, pairs: str) -> tuple:
    """Chains of one length as a padded batch; scores that are shared stay one table."""
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
) -> tuple:
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
    from .._compiled.forest import sum_product

    shared, k = pairwise.ndim == 2, unary.shape[1]
    fine = np.ones(len(forest), dtype=bool)
    with np.errstate(invalid="ignore"):
        shift = pairwise.max(axis=(-1, -2), keepdims=True)
        e = np.ascontiguousarray(pairwise - shift).reshape(-1, k, k)
        if not e.min(initial=0.0) >= -_SPREAD:  # wide spreads, and matrices of -inf alone, go the plain way
            wild = ~((e >= -_SPREAD) | np.isneginf(e)).all(axis=(1, 2))
            fine[forest.tree_of[forest.children[np.broadcast_to(wild, forest.n_edges)]]] = False
    e = np.exp(e)
    mode = 0 if pairs == "none" else 1 if pairs == "sum" and shared else 2
    pair = np.zeros((0 if mode == 0 else 1 if mode == 1 else forest.n_edges, k, k))
    turned = np.ascontiguousarray(e.transpose(0, 2, 1))
    shape = (forest.edge_of, forest.parents, forest.offsets)
    sum_product(unary, e, turned, 0 if shared else 1, *shape, weights, mu, mode, pair, log_z, fine)
    if shared:
        log_z += (forest.lengths - 1) * float(shift.squeeze())
    else:
        np.add.at(log_z, forest.tree_of[forest.children], shift.ravel())
    result = None if mode == 0 else e[0] * pair[0] if mode == 1 else pair if pairs == "all" else pair.sum(axis=0)
    if not fine.all():
        result = _mend(forest, unary, pairwise, weights, pairs, np.flatnonzero(~fine), log_z, mu, result)
    return result


def _mend(
    forest: Forest, unary: Any, pairwise: Any, weights: Any, pairs: str, trees: Any, log_z: Any, mu: Any, pair: Any
) -> Any:
    """Fill in the trees that need logarithms."""
    some, nodes = forest.subset(trees), forest.nodes_of(trees)
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


def maximise(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, compiled: bool | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The best score of each tree and the states that reach it, ties to the first."""
    if compiled is None:
        compiled = forest.n_nodes * unary.shape[1] ** 2 >= _COMPILED_WORK
    if not compiled:
        best, states = k_best(forest, unary, pairwise, 1)
        forest.refuse(best[:, 0])
        return best[:, 0], states[0]
    from .._compiled.forest import max_product

    unary = np.array(unary, dtype=float)
    states, score = np.empty(len(unary), dtype=np.int64), np.empty(len(forest))
    matrices = np.ascontiguousarray(pairwise, dtype=float).reshape(-1, *pairwise.shape[-2:])
    stride = 0 if pairwise.ndim == 2 else 1
    max_product(unary, matrices, stride, forest.edge_of, forest.parents, forest.offsets, states, score)
    forest.refuse(score)
    return score, states


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
    chosen = np.zeros((forest.n_nodes, n_states, k), dtype=np.int64)  # the child's state and rank, for each entry
    merged = np.zeros((forest.n_nodes, n_states, k), dtype=np.int64)  # the parent's earlier rank and the child's entry
    for nodes in reversed(forest.levels[1:]):
        cand = _pairs(forest, pairwise, nodes)[..., None] + best[nodes][:, None]
        message, chosen[nodes] = _top(cand.reshape(len(nodes), n_states, n_states * k), k)
        for turn in range(int(forest.birth[nodes].max()) + 1):
            here = forest.birth[nodes] == turn
            parents = forest.parents[nodes[here]]
            sums = best[parents][..., None] + message[here][:, :, None, :]
            best[parents], merged[nodes[here]] = _top(sums.reshape(len(parents), n_states, k * k), k)
    roots = forest.levels[0]
    score, at = _top(best[roots].reshape(len(roots), -1), k)
    states, rank = np.empty((forest.n_nodes, k), dtype=np.int64), np.empty((forest.n_nodes, k), dtype=np.int64)
    states[roots], rank[roots] = np.divmod(at, k)
    for nodes in forest.levels[1:]:
        for turn in reversed(range(int(forest.birth[nodes].max()) + 1)):
            these = nodes[forest.birth[nodes] == turn]
            parents = forest.parents[these]
            row = np.arange(len(these))[:, None]
            earlier, entry = np.divmod(merged[these][row, states[parents], rank[parents]], k)
            states[these], rank[these] = np.divmod(chosen[these][row, states[parents], entry], k)
            rank[parents] = earlier
    return score, states.T


def sample(forest: Forest, unary: np.ndarray, pairwise: np.ndarray, count: int, rng: Any) -> np.ndarray:
    """States drawn from the law, (count, nodes): the root from its belief, every other node given its parent."""
    beliefs, _, _ = _upward(forest, np.asarray(unary, dtype=float), pairwise)
    forest.refuse(beliefs[0].max(axis=-1))
    states = np.empty((count, forest.n_nodes), dtype=np.int64)
    for d, nodes in enumerate(forest.levels):
        logits = np.broadcast_to(beliefs[d], (count, *beliefs[d].shape))
        if d:
            pair = np.broadcast_to(_pairs(forest, pairwise, nodes), (len(nodes), *pairwise.shape[-2:]))
            logits = logits + pair[np.arange(len(nodes)), states[:, forest.parents[nodes]]]
        # The largest of logits with Gumbel noise is a draw from their softmax.
        states[:, nodes] = np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)
    return states
