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
from ..polytopes._sum_product import cell_marginals, covariance_map, marginals
from ..polytopes.chain import Chain
from ..polytopes.tree import Tree
from ..surrogates.base import Surrogate
from . import fused
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


def over_forests(surrogate: Surrogate, n_states: int, limits: Limits) -> MaximumEntropy | ByShape:
    """How a surrogate goes over packed trees."""
    if fused.packed(surrogate):
        return MaximumEntropy()
    if limits:
        raise ValueError(f"{surrogate!r} knows no forbidden transitions: leave them out, or use surrogate='auto'.")
    return ByShape(surrogate, n_states)


class MaximumEntropy:
    """A(v) - <v, phi> of all trees in one packed recursion: the conditional random field."""

    exponential = (
        True  # scores are those of an exponential family: unobserved states can be summed over, and samples drawn
    )

    def constant(self, risk: Forests) -> float:
        return 0.0

    def smoothness(self, forest: Forest) -> float:
        """<u, phi> varies by |u| times the diameter of phi(Y) at the most, and its variance by a quarter of the square."""
        return float(2 * forest.lengths.max() - 1) / 2

    def moments(self, forest: Forest, v: NodeEdgeScores, edges: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Marginals of nodes, and of edges if asked."""
        return marginals(forest, v.nodes, v.edges, "all" if edges else "none")[1:]

    def moments_at(self, forest: Forest, v: NodeEdgeScores, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Marginals of nodes, and of edges at some pairs of states."""
        return cell_marginals(forest, v.nodes, v.edges, cells)

    def risk_and_gradient(
        self, risk: Forests, v: NodeEdgeScores, room: np.ndarray | None
    ) -> tuple[np.ndarray, NodeEdgeScores]:
        gold, shared = risk.gold, v.edges.ndim == 2
        value = -float(gold.weights @ v.nodes.ravel().take(gold.places))
        if shared:
            seen = gold.counts > 0
            value -= float((v.edges[seen] * gold.counts[seen]).sum())
        else:
            value -= float(gold.step_weights @ v.edges[gold.edges, *gold.steps])
        observed = self._observed(risk, v) if len(gold.partial) else None
        log_z, d_nodes, d_edges = marginals(
            risk.forest, v.nodes, v.edges, "sum" if shared else "all", risk.weights, out=room
        )
        if room is not None and d_nodes is not room:  # the plain recursion makes memory of its own
            room[:] = d_nodes
            d_nodes = room
        value += float(risk.weights @ log_z)
        flat = d_nodes.reshape(-1)
        flat[gold.places] = flat.take(gold.places) - gold.weights
        if shared:
            d_edges = d_edges - gold.counts
        else:
            d_edges[gold.edges, *gold.steps] -= gold.step_weights
        if observed is not None:
            taken, nodes, mu, edges, pairs = observed
            value -= taken
            d_nodes[nodes] -= mu
            if shared:
                d_edges -= pairs
            else:
                d_edges[edges] -= pairs
        return np.atleast_1d(value), NodeEdgeScores(d_nodes, d_edges)

    def _observed(self, risk: Forests, v: NodeEdgeScores) -> tuple[Any, ...]:
        """Of the trees that are labelled in part: the weighted log-partition given what was observed, their nodes and edges, and the marginals there."""
        forest, trees, shared = risk.forest, risk.gold.partial, v.edges.ndim == 2
        nodes = forest.nodes_of(trees)
        edges = forest.edge_of[nodes[forest.parents[nodes] >= 0]]
        codes, weights = risk.codes[nodes], risk.weights[trees]
        other = (codes[:, None] >= 0) & (np.arange(risk.n_states) != codes[:, None])
        clamped = np.where(other, -np.inf, v.nodes[nodes])
        pairwise_scores = v.edges if shared else v.edges[edges]
        log_z, mu, pairs = marginals(forest.take(trees), clamped, pairwise_scores, "sum" if shared else "all", weights)
        return float(weights @ log_z), nodes, mu, edges, pairs

    def diagonal(self, risk: Forests, v: NodeEdgeScores) -> np.ndarray:
        """The variance of each node's indicators, without weights."""
        mu, _ = self.moments(risk.forest, v, False)
        return mu * (1 - mu)

    def hessian(self, risk: Forests, v: NodeEdgeScores) -> Callable[[NodeEdgeScores], NodeEdgeScores]:
        """The covariance of phi. Where labels are partial, that given what was observed is not taken off, which keeps it semidefinite."""
        product = covariance_map(risk.forest, v.nodes, v.edges, risk.weights)
        return lambda u: NodeEdgeScores(*product(u.nodes, u.edges))


class ByShape:
    """Any surrogate that fits a tree's polytope, on trees of equal shape at a time: the plain definition."""

    exponential = False

    def __init__(self, surrogate: Surrogate, n_states: int):
        self.surrogate, self.n_states = surrogate, n_states
        self._kept: tuple[Forest, list[Any]] | None = None

    def _shapes(self, forest: Forest) -> list[tuple[Tree, Surrogate, np.ndarray, np.ndarray]]:
        """(polytope, surrogate of it, nodes (N, T), edges (N, T - 1)) of the trees of each shape; kept for the last forest."""
        kept = self._kept
        if kept is None or kept[0] is not forest:
            kept = self._kept = (forest, self._found_shapes(forest))
        return kept[1]

    def _found_shapes(self, forest: Forest) -> list[tuple[Tree, Surrogate, np.ndarray, np.ndarray]]:
        shapes: dict[bytes, list[int]] = {}
        for i in range(len(forest)):
            local = forest.parents[forest.offsets[i] : forest.offsets[i + 1]] - forest.offsets[i]
            shapes.setdefault(np.maximum(local, -1).tobytes(), []).append(i)
        found = []
        for key, trees in shapes.items():
            parents = np.frombuffer(key, dtype=forest.parents.dtype)
            row = (parents == np.arange(-1, len(parents) - 1)).all()
            k = self.n_states
            polytope = Chain(k, len(parents)) if row else Tree(k, parents.tolist())
            nodes = forest.offsets[trees][:, None] + np.arange(len(parents))
            found.append((polytope, self.surrogate.bind(polytope), nodes, forest.edge_of[nodes[:, 1:]]))
        return found

    def _each(self, forest: Forest, v: NodeEdgeScores) -> Any:
        for polytope, surrogate, nodes, edges in self._shapes(forest):
            shape = (*edges.shape, self.n_states, self.n_states)
            pairs = np.broadcast_to(v.edges, shape) if v.edges.ndim == 2 else v.edges[edges]
            yield polytope, surrogate, nodes, edges, polytope.join(v.nodes[nodes], pairs)

    def smoothness(self, forest: Forest) -> float | None:
        found = [surrogate.smoothness for _, surrogate, _, _ in self._shapes(forest)]
        return None if any(s is None for s in found) else max(s for s in found if s is not None)

    def constant(self, risk: Forests) -> float:
        total = 0.0
        for polytope, surrogate, nodes, _ in self._shapes(risk.forest):
            weights = risk.row_weights[nodes[:, 0]]
            total += float(weights @ surrogate.potential(polytope.embed(risk.codes[nodes])))
        return total

    def moments(self, forest: Forest, v: NodeEdgeScores, edges: bool) -> tuple[np.ndarray, np.ndarray | None]:
        k = self.n_states
        mu_nodes, mu_edges = np.empty((forest.n_nodes, k)), np.empty((forest.n_edges, k, k))
        for polytope, surrogate, nodes, at, scores in self._each(forest, v):
            mu_nodes[nodes], mu_edges[at] = polytope.split(surrogate.inverse_link(scores))
        return mu_nodes, mu_edges

    def decide(self, forest: Forest, v: NodeEdgeScores) -> np.ndarray:
        """The outputs that scores choose themselves, for a surrogate that is bound to outputs."""
        z = np.empty(forest.n_nodes, dtype=np.int64)
        for _, surrogate, nodes, _, scores in self._each(forest, v):
            z[nodes] = surrogate.decide(scores)
        return z

    def moments_at(self, forest: Forest, v: NodeEdgeScores, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nodes, edges = self.moments(forest, v, True)
        assert edges is not None
        return nodes, edges[:, cells[:, 0], cells[:, 1]]

    def _gather(self, forest: Forest, shared: bool, parts: list[Any]) -> NodeEdgeScores:
        k = self.n_states
        nodes, edges = np.empty((forest.n_nodes, k)), np.zeros((forest.n_edges, k, k))
        for polytope, at, lower, scores in parts:
            nodes[at], edges[lower] = polytope.split(scores)
        return NodeEdgeScores(nodes, edges.sum(axis=0) if shared else edges)

    def risk_and_gradient(
        self, risk: Forests, v: NodeEdgeScores, room: np.ndarray | None
    ) -> tuple[np.ndarray, NodeEdgeScores]:
        value, parts = 0.0, []
        for polytope, surrogate, nodes, edges, scores in self._each(risk.forest, v):
            weights = risk.row_weights[nodes[:, 0]]
            terms, dv = surrogate.risk_and_gradient(scores, polytope.embed(risk.codes[nodes]))
            value += float(weights @ terms.sum(-1))
            parts.append((polytope, nodes, edges, weights[:, None] * dv))
        gradient = self._gather(risk.forest, v.edges.ndim == 2, parts)
        if room is not None:
            room[:] = gradient.nodes
            gradient = NodeEdgeScores(room, gradient.edges)
        return np.atleast_1d(value), gradient

    def diagonal(self, risk: Forests, v: NodeEdgeScores) -> np.ndarray:
        out = np.empty((risk.n_rows, self.n_states))
        for polytope, surrogate, nodes, _, scores in self._each(risk.forest, v):
            each = surrogate.diagonal(scores, polytope.embed(risk.codes[nodes]).astype(float))
            out[nodes] = polytope.split(each)[0]
        return out

    def hessian(self, risk: Forests, v: NodeEdgeScores) -> Callable[[NodeEdgeScores], NodeEdgeScores]:
        forest, shared = risk.forest, v.edges.ndim == 2
        maps = [
            (risk.row_weights[nodes[:, 0]], surrogate.hessian(scores, polytope.embed(risk.codes[nodes])))
            for polytope, surrogate, nodes, _, scores in self._each(forest, v)
        ]

        def product(u: NodeEdgeScores) -> NodeEdgeScores:
            parts = [
                (polytope, nodes, edges, weights[:, None] * curvature(scores))
                for (weights, curvature), (polytope, _, nodes, edges, scores) in zip(
                    maps, self._each(forest, u), strict=True
                )
            ]
            return self._gather(forest, shared, parts)

        return product
