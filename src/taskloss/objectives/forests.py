"""The risk of packed chains and trees as a function of their node and edge scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ..hypotheses.structured import NodeEdgeScores
from ..parallel import SERIAL, Executor
from ..polytopes._forest import Forest, Limits
from ..surrogates.base import Surrogate
from .over_forests import over_forests
from .scores import ScoreRisk

Array = Any

_BLOCK_EDGES = 1 << 22  # numbers in edge scores that are held at one time
_MESSAGE = 4  # multiplications that a product of messages counts for


class Forests(ScoreRisk):
    """Node and edge scores of packed trees; an example is a tree, with a row for each of its nodes.

    codes: the state of each node, -1 where it was not observed. Where some were not, S becomes that of what was observed,
    -log p(observed): phi(y_i) is replaced by its mean given the observed states, and the risk is no longer convex, as
    with any latent variable. limits: what states may follow each other, begin and end.

    A surrogate that is the maximum entropy of the trees goes by one packed recursion, others by trees of equal shape.
    """

    def __init__(
        self,
        surrogate: Surrogate,
        forest: Forest,
        codes: np.ndarray,
        weights: np.ndarray,
        n_states: int,
        limits: Limits | None = None,
        *,
        part: bool = False,
        offset: NodeEdgeScores | None = None,
    ):
        self.surrogate, self.forest, self.codes, self.n_states = surrogate, forest, codes, n_states
        self.limits, self.offset = Limits() if limits is None else limits, offset
        self.weights = weights if part else weights / weights.sum()
        self.inference = over_forests(surrogate, n_states, self.limits)
        if not self.convex and not self.inference.exponential:
            raise ValueError(
                f"{surrogate!r} needs every label, and some are missing: give them, or use surrogate='auto'."
            )

    # -- shape -------------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return self.forest.n_nodes

    @property
    def n_scores(self) -> int:
        return self.n_states

    @cached_property
    def convex(self) -> bool:
        return not (self.codes < 0).any()

    @property
    def smooth(self) -> bool:
        return self.surrogate.smooth

    @property
    def smoothness(self) -> float | None:
        return self.inference.smoothness(self.forest)

    @property
    def work(self) -> float:
        return float(_MESSAGE * self.n_rows * self.n_states**2)

    @cached_property
    def row_weights(self) -> np.ndarray:
        return self.weights[self.forest.tree_of]

    @property
    def row_codes(self) -> np.ndarray:
        return self.codes

    def start(self) -> np.ndarray:
        return np.zeros(self.n_states)

    def zeros(self) -> NodeEdgeScores:
        return NodeEdgeScores(np.zeros((self.n_rows, self.n_states)), np.zeros((self.n_states, self.n_states)))

    def slopes(self) -> np.ndarray:
        """With a table of its own for each edge, so that the gradients of trees are told apart; blocks keep those few."""
        found, k = [], self.n_states
        for some in self.cut(_BLOCK_EDGES // k**2):
            part = self.take(some)
            v = NodeEdgeScores(np.zeros((part.n_rows, k)), np.zeros((part.forest.n_edges, k, k)))
            found.append(part.example_norms(part.risk_and_gradient(v)[1]))
        return np.concatenate(found)

    def example_sums(self, rows: np.ndarray) -> np.ndarray:
        return np.add.reduceat(rows, self.forest.offsets[:-1])

    def example_norms(self, v: NodeEdgeScores) -> np.ndarray:
        """With one table for all edges, its norm counts for each tree: a bound."""
        squares = self.example_sums((v.nodes**2).sum(1))
        edges = (v.edges**2).sum((-2, -1))
        squares += (
            edges
            if v.edges.ndim == 2
            else np.bincount(self.forest.tree_of[self.forest.children], edges, len(self.forest))
        )
        return np.sqrt(squares)

    # -- parts -------------------------------------------------------------------------------------------------------

    def rows_of(self, examples: Any) -> Any:
        if isinstance(examples, slice):
            low, high, _ = examples.indices(self.n_examples)
            return slice(int(self.forest.offsets[low]), int(self.forest.offsets[max(low, high)]))
        return self.forest.nodes_of(np.arange(self.n_examples)[examples])

    def cut(self, rows: int) -> list[slice]:
        n, offsets = self.n_examples, self.forest.offsets
        count = -(-self.n_rows // max(rows, 1))
        inner = np.searchsorted(offsets[:-1], self.n_rows * np.arange(1, count) / count)
        cuts = np.unique(np.concatenate([[0], inner, [n]])).tolist()
        return [slice(a, b) for a, b in pairwise(cuts)]

    def take(self, examples: Any, columns: Any = None) -> Forests:
        examples = examples if isinstance(examples, slice) else np.arange(self.n_examples)[examples]
        return Forests(
            self.surrogate,
            self.forest.take(examples),
            self.codes[self.rows_of(examples)],
            self.weights[examples],
            self.n_states,
            self.limits,
            part=True,
            offset=None if self.offset is None else self.view(self.offset, examples),
        )

    def view(self, v: NodeEdgeScores, examples: Any) -> NodeEdgeScores:
        """The scores of some trees; views where they are a slice."""
        rows = self.rows_of(examples)
        if v.edges.ndim == 2:
            return NodeEdgeScores(v.nodes[rows], v.edges)
        if isinstance(examples, slice):
            low, high, _ = examples.indices(self.n_examples)
            return NodeEdgeScores(v.nodes[rows], v.edges[rows.start - low : rows.stop - high])
        edges = self.forest.edge_of[rows[self.forest.parents[rows] >= 0]]
        return NodeEdgeScores(v.nodes[rows], v.edges[edges])

    def shifted(self, offset: NodeEdgeScores) -> Forests:
        whole = offset if self.offset is None else self.offset + offset
        return Forests(
            self.surrogate, self.forest, self.codes, self.weights, self.n_states, self.limits, part=True, offset=whole
        )

    # -- values ------------------------------------------------------------------------------------------------------

    def _limited(self, v: NodeEdgeScores, copy: bool = True) -> NodeEdgeScores:
        """The scores that inference sees: around the offset, and with what is forbidden at -inf."""
        if self.offset is not None:
            v = v + self.offset
        elif copy and self.limits:
            v = NodeEdgeScores(v.nodes.copy(), v.edges)
        return NodeEdgeScores(*self.limits.apply(self.forest, v.nodes, v.edges))

    @cached_property
    def _splits(self) -> dict[int, list[tuple[slice, Forests]]]:
        return {}

    def _split(self, threads: int) -> list[tuple[slice, Forests]]:
        """Consecutive trees for each thread, and their risk."""
        if threads == 1:
            return [(slice(0, self.n_examples), self)]
        if threads not in self._splits:
            cuts = self.cut(-(-self.n_rows // threads))
            self._splits[threads] = [(some, self.take(some)) for some in cuts]
        return self._splits[threads]

    def _join(self, parts: list[NodeEdgeScores], shared: bool, nodes: np.ndarray | None = None) -> NodeEdgeScores:
        """Scores of consecutive trees as one; the edges are summed where they share a table."""
        if len(parts) == 1:
            return parts[0]
        edges = [part.edges for part in parts]
        nodes = np.concatenate([part.nodes for part in parts]) if nodes is None else nodes
        return NodeEdgeScores(nodes, sum(edges[1:], edges[0]) if shared else np.concatenate(edges))

    def risk_and_gradient(
        self, v: NodeEdgeScores, out: Any = None, executor: Executor = SERIAL
    ) -> tuple[np.ndarray, NodeEdgeScores]:
        threads = min(executor.threads, self.n_examples)
        if threads == 1:
            return self._evaluate(v, None if out is None else v.nodes)
        nodes = np.empty_like(v.nodes) if out is None else v.nodes

        def work(part: tuple[slice, Forests]) -> tuple[np.ndarray, NodeEdgeScores]:
            some, risk = part
            return risk._evaluate(self.view(v, some), nodes[self.rows_of(some)])

        values, parts = zip(*executor.map(work, self._split(threads)), strict=True)
        return sum(values[1:], values[0]), self._join(list(parts), v.edges.ndim == 2, nodes)

    def _evaluate(self, v: NodeEdgeScores, room: np.ndarray | None) -> tuple[np.ndarray, NodeEdgeScores]:
        """The gradient of the nodes in `room`, which may be the memory of their scores."""
        limited = self._limited(v, copy=room is not v.nodes)
        return self.inference.risk_and_gradient(self, limited, room)

    @cached_property
    def constant(self) -> float:
        return self.inference.constant(self)

    @cached_property
    def gold(self) -> Gold:
        """What the labels say."""
        return Gold(self)

    def hessian(self, v: NodeEdgeScores) -> Callable[[NodeEdgeScores], NodeEdgeScores]:
        executor = Executor.for_work(self.work, self.n_examples)
        parts = self._split(executor.threads)
        maps = executor.map(lambda part: part[1]._hessian(self.view(v, part[0])), parts)

        def product(u: NodeEdgeScores) -> NodeEdgeScores:
            work = zip(parts, maps, strict=True)
            found = executor.map(lambda item: item[1](self.view(u, item[0][0])), list(work))
            return self._join(found, u.edges.ndim == 2)

        return product

    def _hessian(self, v: NodeEdgeScores) -> Callable[[NodeEdgeScores], NodeEdgeScores]:
        return self.inference.hessian(self, self._limited(v))

    def diagonal(self, v: NodeEdgeScores, gradient: NodeEdgeScores) -> np.ndarray:
        """Of the nodes' scores alone."""
        return self.row_weights[:, None] * self.inference.diagonal(self, self._limited(v))


class Gold:
    """What the labels of a forest say, once: the places of observed states among the node scores with their weights, counts of
    observed steps, and the trees that are labelled in part."""

    def __init__(self, risk: Forests):
        forest, codes, k = risk.forest, risk.codes, risk.n_states
        self.partial = np.unique(forest.tree_of[codes < 0])
        whole = ~np.isin(forest.tree_of, self.partial)
        nodes = np.flatnonzero(whole)
        self.places, self.weights = nodes * k + codes[nodes], risk.row_weights[nodes]
        self.edges = np.flatnonzero(whole[forest.children])
        lower = forest.children[self.edges]
        self.steps = (codes[forest.parents[lower]], codes[lower])
        self.step_weights = risk.row_weights[lower]
        self.counts = np.zeros((k, k))
        np.add.at(self.counts, self.steps, self.step_weights)
