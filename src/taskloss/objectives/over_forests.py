"""How surrogates go over packed chains and trees: values, moments and second derivatives from node and edge scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..hypotheses.structured import NodeEdgeScores
from ..polytopes._forest import Forest, Limits
from ..polytopes._sum_product import cell_marginals, covariance_map, marginals
from ..polytopes.chain import Chain
from ..polytopes.tree import Tree
from ..surrogates.base import Surrogate
from . import fused

if TYPE_CHECKING:
    from .forests import Forests


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
