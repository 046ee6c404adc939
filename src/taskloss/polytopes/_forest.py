"""Many trees at once: their packed shape, and what is forbidden on them.

The nodes of all trees lie in one array, each tree's root first and every parent before its children. A chain is the tree
whose nodes are in a row. Scores are `unary` (nodes, states) and `pairwise`, a matrix [parent's state, child's state] that
all edges share, or one for each edge in the order of their lower ends; -inf forbids. `_sum_product` and `_max_product`
pass values up to the root and decisions down: the plain paths do so level by level over all trees, and the compiled ones
tree by tree.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._arrays import array_namespace

Array = Any

COMPILED_WORK = 1 << 20  # products of messages below which compiling (a second, once per machine) is not worth it


class Forest:
    """The shape of packed trees: each node's parent (-1 at a root), and where each tree starts and ends.

    `numbers` are those by which the user counts the trees, where they are some of many.
    """

    def __init__(self, parents: np.ndarray, offsets: np.ndarray, numbers: np.ndarray | None = None):
        self.parents, self.offsets = parents, offsets
        self.numbers = np.arange(len(offsets) - 1) if numbers is None else numbers
        self._blocks: tuple[int, list[tuple[slice, Forest]]] | None = None

    @classmethod
    def chains(cls, lengths: Any) -> Forest:
        return cls.chains_at(offsets_of(lengths))

    @classmethod
    def chains_at(cls, offsets: np.ndarray) -> Forest:
        """Chains that begin and end at these places."""
        parents = np.arange(-1, offsets[-1] - 1)
        parents[offsets[:-1]] = -1
        forest = cls(parents, offsets)
        forest.leaves, forest.most_children = offsets[1:] - 1, 1
        if len(forest) == 1:
            forest.chain_length = len(parents)
        return forest

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

    @property
    def roots(self) -> np.ndarray:
        return self.offsets[:-1]

    @cached_property
    def leaves(self) -> np.ndarray:
        """Nodes without children: the last of each chain."""
        childless = np.ones(self.n_nodes, dtype=bool)
        childless[self.parents[self.children]] = False
        return np.flatnonzero(childless)

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
    def rungs(self) -> list[tuple[Any, Any, list[tuple[Any, Any]] | None]]:
        """For each level below the roots its nodes, their parents, and where siblings must take turns those of each turn."""
        found: list[tuple[Any, Any, list[tuple[Any, Any]] | None]] = []
        for level in self.levels[1:]:
            turns = None if self.most_children == 1 else [(some, self.parents[some]) for some in self.turns(level)]
            found.append((level, self.parents[level], turns))
        return found

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

    @cached_property
    def most_children(self) -> int:
        return int(self.birth[self.children].max(initial=0)) + 1

    def turns(self, nodes: np.ndarray) -> list[np.ndarray]:
        """Nodes of a level in lists in which no two have the same parent."""
        if self.most_children == 1:
            return [nodes]
        births = self.birth[nodes]
        return [nodes[births == turn] for turn in range(int(births.max()) + 1)]

    def above(self, depth: int) -> np.ndarray:
        """The places, one level up, of the parents of a level."""
        return self.place[self.parents[self.levels[depth]]]

    def blocks(self, nodes: int) -> list[tuple[slice, Forest]]:
        """Consecutive trees with about so many nodes, and their shape; the last answer is kept."""
        if self._blocks is None or self._blocks[0] != nodes:
            cuts = [*np.flatnonzero(np.diff(self.offsets[1:] // max(nodes, 1), prepend=-1)).tolist(), len(self)]
            parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
            self._blocks = nodes, [(part, self.take(part)) for part in parts]
        return self._blocks[1]

    def nodes_of(self, trees: np.ndarray) -> np.ndarray:
        """The nodes of some trees, tree by tree in the given order."""
        lengths = self.lengths[trees]
        stops = np.cumsum(lengths)
        return np.arange(stops[-1] if len(stops) else 0) + np.repeat(self.offsets[trees] - (stops - lengths), lengths)

    def take(self, trees: Any) -> Forest:
        """Some of the trees, by a slice or by their numbers, in the given order."""
        if isinstance(trees, slice):
            low, high, _ = trees.indices(len(self))
            first = self.offsets[low]
            parents = np.maximum(self.parents[first : self.offsets[high]] - first, -1)
            return Forest(parents, self.offsets[low : high + 1] - first, self.numbers[low:high])
        nodes, lengths = self.nodes_of(trees), self.lengths[trees]
        offsets = offsets_of(lengths)
        shift = np.repeat(self.offsets[trees] - offsets[:-1], lengths)
        parents = np.where(self.parents[nodes] < 0, -1, self.parents[nodes] - shift)
        return Forest(parents, offsets, self.numbers[trees])

    def refuse(self, values: np.ndarray) -> None:
        """One clear sentence where a tree's log-partition or best score says that nothing is allowed on it."""
        if np.isneginf(values).any():
            number = self.numbers[np.argmax(np.isneginf(values))]
            raise ValueError(
                f"No assignment of states is allowed on sequence or tree {number}: what is forbidden leaves none, or scores are too large; "
                "allow more, or scale X."
            )


def offsets_of(lengths: Any) -> np.ndarray:
    """Where packed parts of these lengths begin, and where the last one ends."""
    lengths = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


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
    """0 where a transition, a root's state (start) or a leaf's (end) is allowed and -inf where not; None where all are."""

    transition: np.ndarray | None = None
    start: np.ndarray | None = None
    end: np.ndarray | None = None

    def apply(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores with what is forbidden at -inf; unary is changed in place."""
        if self.start is not None:
            unary[forest.roots] += self.start
        if self.end is not None:
            unary[forest.leaves] += self.end
        return unary, pairwise if self.transition is None else pairwise + self.transition

    def __bool__(self) -> bool:
        return any(part is not None for part in self)


def edge_scores(forest: Forest, pairwise: Array, nodes: np.ndarray) -> Array:
    """The matrices of the edges above these nodes; one for all where they share it."""
    return pairwise[None, ...] if pairwise.ndim == 2 else rows_at(pairwise, forest.edge_of[nodes])


def rows_at(x: Array, index: np.ndarray) -> Array:
    xp = array_namespace(x)
    return x[index] if isinstance(x, np.ndarray) else xp.take(x, xp.asarray(index, device=x.device), axis=0)


def finite_or_zero(x: Array) -> Array:
    xp = array_namespace(x)
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))
