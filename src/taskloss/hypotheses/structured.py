"""Scores of packed chains and trees: any hypothesis for the nodes, and a table for the edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from ..parallel import SERIAL, Executor
from ..polytopes._forest import Forest
from .base import Array, Hypothesis, train_with_table
from .composed import Composed
from .linear import Linear


@dataclass(frozen=True)
class NodeEdgeScores:
    """Scores of nodes (nodes, K), and of edges: one table (K, K) that all share, or one for each edge (edges, K, K)."""

    nodes: Array
    edges: Array

    def __mul__(self, scale: float) -> NodeEdgeScores:
        return NodeEdgeScores(self.nodes * scale, self.edges * scale)

    def __add__(self, other: NodeEdgeScores) -> NodeEdgeScores:
        return NodeEdgeScores(self.nodes + other.nodes, self.edges + other.edges)


class ForestRows(NamedTuple):
    """Rows of all nodes of some trees, the trees' shape, and the rows on which the scores of their edges depend, if any do."""

    rows: Any
    forest: Forest
    edges: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    @property
    def dtype(self) -> Any:
        return self.rows.dtype


class Structured(Composed):
    """Node scores W x_t + b by any hypothesis; edge scores T, or T + P x_t with the features of the edge's lower end.

    node: a hypothesis or its name. edges: the columns of X on which edge scores depend; None where they are one table.
    ends: scores of their own for roots and for leaves, which in a chain are the first and the last node. all_states: whether a
    feature of sparse rows has a weight for every state, or only for those of nodes that have the feature. all_transitions: whether
    every transition has a weight, or only those that occur.

    theta is (p, K): the rows of the node hypothesis, the table T of transitions [from, to], a row for roots and one for
    leaves, and for each column of `edges` a table of K rows. All but the intercepts are penalised.
    """

    name = "structured"

    def __init__(
        self,
        node: Any = "linear",
        edges: Any = None,
        ends: bool = True,
        all_states: bool = True,
        all_transitions: bool = True,
    ):
        self.node = node
        self.edges = edges
        self.ends = ends
        self.all_states = all_states
        self.all_transitions = all_transitions

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(edges=[1, 0], ends=False), cls("kernel")]

    def read(self, X: Any, estimator: Any, fitting: bool) -> Any:
        raise ValueError(
            f"hypothesis={self!r} scores the positions of sequences and trees, which {type(estimator).__name__} has none of: pass the "
            "hypothesis of the nodes alone."
        )

    def check(self, estimator: str) -> None:
        raise ValueError(
            f"hypothesis={self!r} is what {estimator} makes of a hypothesis for the nodes: pass that one alone."
        )

    def reads(self, inputs: ForestRows) -> ForestRows:
        return inputs._replace(rows=self._node.reads(inputs.rows))

    def agrees(self, other: Hypothesis) -> bool:
        if not isinstance(other, Structured) or self.ends != other.ends:
            return False
        return np.array_equal(self._edges, other._edges) and self._node.agrees(other._node)

    # -- theta -------------------------------------------------------------------------------------------------------

    @property
    def _edges(self) -> np.ndarray:
        return np.asarray([] if self.edges is None else self.edges, dtype=np.int64)

    def parts(self, theta: Array) -> dict[str, Array]:
        """Views of the pieces of theta, or of the coefficients, by name."""
        k = theta.shape[1]
        tables, ends = len(self._edges) * k, 2 * self.ends
        first = len(theta) - k - ends - tables
        found = {"node": theta[:first], "transition": theta[first : first + k]}
        if self.ends:
            found |= {"start": theta[first + k], "end": theta[first + k + 1]}
        if self.edges is not None:
            found["edges"] = theta[first + k + ends :].reshape(-1, k * k)
        return found

    def start(self, inputs: ForestRows, scores: np.ndarray) -> np.ndarray:
        k = len(scores)
        rest = k + 2 * self.ends + len(self._edges) * k
        return np.vstack([self._node.start(inputs.rows, scores), np.zeros((rest, k))])

    def penalised(self, inputs: ForestRows, theta: np.ndarray) -> np.ndarray:
        mask = np.ones(len(theta))
        node = self.parts(theta)["node"]
        mask[: len(node)] = self._node.penalised(inputs.rows, node)
        return mask

    def free(self, inputs: ForestRows, theta: np.ndarray, codes: np.ndarray) -> np.ndarray | None:
        rows, forest = inputs.rows, inputs.forest
        some_states = not self.all_states and self._node.plain and sparse.issparse(rows)
        if self.all_transitions and not some_states:
            return None
        mask = np.ones(theta.shape, dtype=bool)
        if some_states:
            weights = mask[: rows.shape[1]]
            weights[:] = False
            label = np.repeat(codes, np.diff(rows.indptr))
            known = label >= 0
            weights[rows.indices[known], label[known]] = True
            weights[rows.indices[~known]] = True  # a node without a label may be in any state
        if not self.all_transitions:
            k = theta.shape[1]
            seen = np.zeros((k + 1, k + 1), dtype=bool)  # a last row and column for labels that are not known
            seen[codes[forest.parents[forest.children]], codes[forest.children]] = True
            self.parts(mask)["transition"][:] = seen[:k, :k] | seen[k, :k] | seen[:k, k:] | seen[k, k]
        return mask

    # -- scores ------------------------------------------------------------------------------------------------------

    def piece(self, inputs: ForestRows, rows: Any) -> ForestRows:
        """Whole trees: rows that begin and end with one."""
        forest, edges = inputs.forest, inputs.edges
        if isinstance(rows, slice):
            low, high, _ = rows.indices(forest.n_nodes)
            trees: Any = slice(*np.searchsorted(forest.offsets, [low, high]).tolist())
            some = edges if edges is None else edges[low - trees.start : high - trees.stop]
        else:
            trees = forest.tree_of[rows[np.flatnonzero(forest.parents[rows] < 0)]]
            some = edges if edges is None else edges[forest.edge_of[rows[forest.parents[rows] >= 0]]]
        return ForestRows(self._node.piece(inputs.rows, rows), forest.take(trees), some)

    def _edge_rows(self, inputs: ForestRows) -> Any:
        return None if self.edges is None else inputs.rows[:, self._edges][inputs.forest.children]

    def features(self, inputs: ForestRows, executor: Executor = SERIAL) -> ForestRows:
        return ForestRows(self._node.features(inputs.rows, executor), inputs.forest, self._edge_rows(inputs))

    def coordinates(self, inputs: ForestRows) -> ForestRows:
        return ForestRows(self._node.coordinates(inputs.rows), inputs.forest, self._edge_rows(inputs))

    def squared_norms(self, coordinates: ForestRows) -> np.ndarray:
        norms = self._node.squared_norms(coordinates.rows)
        children = coordinates.forest.children
        norms[children] += 1.0
        if coordinates.edges is not None:
            norms[children] += Linear(fit_intercept=False).squared_norms(coordinates.edges)
        if self.ends:
            norms[coordinates.forest.roots] += 1.0
            norms[coordinates.forest.leaves] += 1.0
        return norms

    def expand(self, theta: Array) -> Array:
        return theta.table if self.trained else self._on_nodes(theta, self._node.expand)

    def contract(self, gradient: Array) -> Array:
        return self._on_nodes(gradient, self._node.contract)

    def _on_nodes(self, theta: Array, change: Any) -> Array:
        node = self.parts(theta)["node"]
        changed = change(node)
        return theta if changed is node else np.concatenate([changed, theta[len(node) :]])

    def scores(self, coefficients: Array, features: ForestRows, out: np.ndarray | None = None) -> NodeEdgeScores:
        parts = self.parts(coefficients)
        return self._with_edges(self._node.scores(parts["node"], features.rows, out), parts, features)

    def predict(self, theta: Array, inputs: ForestRows) -> NodeEdgeScores:
        if self.trained:
            return self.join(theta.table, self._node.predict(theta.node, inputs.rows), inputs)
        parts = self.parts(theta)
        shape = ForestRows(inputs.rows, inputs.forest, self._edge_rows(inputs))
        return self._with_edges(self._node.predict(parts["node"], inputs.rows), parts, shape)

    def _with_edges(self, nodes: np.ndarray, parts: dict[str, Array], features: ForestRows) -> NodeEdgeScores:
        nodes, forest, k = np.ascontiguousarray(nodes), features.forest, nodes.shape[1]
        if self.ends:
            nodes[forest.roots] += parts["start"]
            nodes[forest.leaves] += parts["end"]
        if features.edges is None:
            return NodeEdgeScores(nodes, parts["transition"])
        return NodeEdgeScores(nodes, parts["transition"] + (features.edges @ parts["edges"]).reshape(-1, k, k))

    def pullback(self, features: ForestRows, dv: NodeEdgeScores, out: np.ndarray | None = None) -> np.ndarray:
        nodes, edges, forest = dv.nodes, dv.edges, features.forest
        k = nodes.shape[1]
        if out is None:
            rest = k + 2 * self.ends + len(self._edges) * k
            out = np.empty((features.rows.shape[1] + 1 + rest, k), dtype=nodes.dtype)
        parts = self.parts(out)
        self._node.pullback(features.rows, nodes, parts["node"])
        parts["transition"][:] = edges if edges.ndim == 2 else edges.sum(axis=0)
        if self.ends:
            parts["start"][:] = nodes[forest.roots].sum(axis=0)
            parts["end"][:] = nodes[forest.leaves].sum(axis=0)
        if features.edges is not None:
            parts["edges"][:] = features.edges.T @ edges.reshape(len(edges), k * k)
        return out

    # -- a learner that trains itself, with a table fitted beside it -------------------------------------------------

    def train(self, inputs: ForestRows, risk: Any, options: Any) -> Any:
        if self.edges is not None:
            raise ValueError(
                f"{self._node!r} trains itself, and edge scores that depend on features do not: leave out transition_features."
            )
        return train_with_table(self, inputs, risk, options)

    def node_inputs(self, inputs: ForestRows) -> Any:
        return inputs.rows

    def inputs_around(self, nodes: Any, shape: Any) -> ForestRows:
        return ForestRows(nodes, shape.forest)

    def parted(self, theta: Any, entries: tuple[int, ...]) -> tuple[Any, np.ndarray]:
        if self.trained:
            return super().parted(theta, entries)
        node = self.parts(theta)["node"]  # which keeps its constants
        return node, np.vstack([np.zeros((1, theta.shape[1])), theta[len(node) :]])

    def table_start(self, scores: np.ndarray) -> np.ndarray:
        """Rows: a constant for each state, then as in theta transitions, and scores of roots and of leaves."""
        k = len(scores)
        constants = scores if self.fit_intercept else np.zeros(k)
        return np.vstack([constants, np.zeros((k + 2 * self.ends, k))])

    def table_masks(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which entries of the table are fitted, and which are penalised."""
        free, penalised = np.ones((len(table), 1)), np.ones((len(table), 1))
        free[0], penalised[0] = self.fit_intercept, 0.0
        return free, penalised

    def join(self, table: np.ndarray, nodes: np.ndarray, shape: Any) -> NodeEdgeScores:
        """Scores from the table and the nodes' scores; shape has the forest."""
        return self._with_edges(nodes + table[0], self.parts(table), ForestRows(nodes, shape.forest))

    def lifted(self, nodes: np.ndarray, shape: Any) -> NodeEdgeScores:
        """The scores that node scores make without a table."""
        return NodeEdgeScores(nodes, np.zeros((nodes.shape[1], nodes.shape[1])))

    def split(self, dv: NodeEdgeScores, shape: Any) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives in the nodes' scores and in the table."""
        forest = shape.forest
        rows = [dv.nodes.sum(axis=0)[None], dv.edges]
        if self.ends:
            rows += [dv.nodes[ends].sum(axis=0)[None] for ends in (forest.roots, forest.leaves)]
        return dv.nodes, np.concatenate(rows)

    def table_curvature(self, risk: Any, v: NodeEdgeScores) -> np.ndarray:
        """About the diagonal of the second derivatives in the table: steps vary as if states next to each other were independent."""
        each, forest = risk.diagonal(v, None), risk.forest
        total = each.sum(axis=0)
        rows = [total[None], np.outer(total, total) / risk.row_weights.sum()]
        if self.ends:
            rows += [each[ends].sum(axis=0)[None] for ends in (forest.roots, forest.leaves)]
        return np.concatenate(rows).ravel()
