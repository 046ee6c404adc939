"""One score for each example and a table of thresholds: proportional odds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..parallel import SERIAL, Executor
from .base import Array, Hypothesis, Inputs, Moments, train_with_table
from .composed import Composed


class Thresholds(Composed):
    """g(x)_j = u(x) + b_j: the scores of any hypothesis u in one direction, shared by all thresholds b, which are its own.

    theta is (d + k, 1): the weights of u, then the k thresholds, which are not penalised. Without the intercept of u there
    are no thresholds to fit, and all scores are equal.
    """

    name = "thresholds"

    def __init__(self, node: Any = "linear"):
        self.node = node

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(node) for name in ("linear", "kernel", "nystrom") for node in Hypothesis.registry[name].examples()]

    @property
    def shares_weights(self) -> bool:
        return True

    @property
    def plain(self) -> bool:
        return self._node.plain

    def agrees(self, other: Hypothesis) -> bool:
        return isinstance(other, Thresholds) and self._node.agrees(other._node)

    def start(self, inputs: Inputs, scores: np.ndarray) -> np.ndarray:
        weights = self._node.start(inputs, np.zeros(1))[:-1]
        return np.concatenate([weights, (scores if self.fit_intercept else np.zeros(len(scores)))[:, None]])

    def piece(self, inputs: Inputs, rows: Any) -> Inputs:
        return self._node.piece(inputs, rows)

    def features(self, inputs: Inputs, executor: Executor = SERIAL) -> Any:
        return self._node.features(inputs, executor)

    def coordinates(self, inputs: Inputs) -> Any:
        return self._node.coordinates(inputs)

    def tabulated(self, inputs: Inputs, dtype: Any = np.float64) -> tuple[Hypothesis, Inputs]:
        node, table = self._node.tabulated(inputs, dtype)
        return (self, inputs) if node is self._node else (self.with_params(node=node), table)

    def squared_norms(self, coordinates: Any) -> np.ndarray:
        return self._node.squared_norms(coordinates)

    def moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        return self._node.moments(inputs, weights, executor)

    def expand(self, theta: Array) -> Array:
        return self._node.expand(theta)

    def contract(self, gradient: Array) -> Array:
        return self._node.contract(gradient)

    def scores(self, coefficients: Array, features: Any, out: np.ndarray | None = None) -> np.ndarray:
        d = features.shape[1]
        one = np.concatenate([coefficients[:d], np.zeros_like(coefficients[:1])])
        u = self._node.scores(one, features)
        return (coefficients[d:] + u.T).T

    def pullback(self, features: Any, dv: Array, out: np.ndarray | None = None) -> np.ndarray:
        d, k = features.shape[1], dv.shape[1]
        out = np.empty((d + k, 1), dtype=dv.dtype) if out is None else out
        out[:d] = self._node.pullback(features, dv.sum(axis=1, keepdims=True))[:d]
        out[d:, 0] = dv.sum(axis=0) if self.fit_intercept else 0.0
        return out

    # -- a learner that trains itself, with thresholds fitted beside it ----------------------------------------------

    def train(self, inputs: Inputs, risk: Any, options: Any) -> Any:
        return train_with_table(self, inputs, risk, options)

    def constants(self, theta: Any, inputs: int) -> np.ndarray:
        return theta.table if self.trained else super().constants(theta, inputs)

    def predict(self, theta: Any, inputs: Inputs) -> np.ndarray:
        if not self.trained:
            return super().predict(theta, inputs)
        return self.join(theta.table, self._node.predict(theta.node, inputs), None)

    def parted(self, theta: Any, entries: tuple[int, ...]) -> tuple[Any, np.ndarray]:
        if self.trained:
            return super().parted(theta, entries)
        weights = len(theta) - entries[0]
        return np.vstack([theta[:weights], np.zeros((1, 1))]), theta[weights:, 0]

    def table_start(self, scores: np.ndarray) -> np.ndarray:
        return scores if self.fit_intercept else np.zeros(len(scores))

    def table_masks(self, table: np.ndarray) -> tuple[Any, Any]:
        """Which entries of the table are fitted, and which are penalised."""
        return float(self.fit_intercept), 0.0

    def join(self, table: np.ndarray, nodes: np.ndarray, shape: Any) -> np.ndarray:
        """Scores from the table and the nodes' scores; shape has the forest, where there is one."""
        return np.add(nodes, table, order="F")

    def lifted(self, nodes: np.ndarray, shape: Any) -> np.ndarray:
        """The scores that node scores make without a table."""
        return np.broadcast_to(nodes, (len(nodes), shape.n_scores))

    def split(self, dv: np.ndarray, shape: Any) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives in the nodes' scores and in the table."""
        return dv.sum(axis=1, keepdims=True), dv.sum(axis=0)

    def table_curvature(self, risk: Any, v: np.ndarray) -> np.ndarray:
        """Second derivatives in the table: a matrix, or its diagonal."""
        product = risk.hessian(v)
        if risk.separable:
            return product(np.ones_like(v)).sum(axis=0)
        return np.stack([product(np.broadcast_to(unit, v.shape)).sum(axis=0) for unit in np.eye(v.shape[1])])

    # -- sums over points that come one by one -----------------------------------------------------------------------

    @property
    def grows(self) -> bool:
        return self._node.grows

    def growing(self, inputs: Inputs) -> Self:
        return self.with_params(node=self._node.growing(inputs))

    def expansion(self, centres: Inputs) -> Self:
        return self.with_params(node=self._node.expansion(centres))

    def diagonal(self, inputs: Inputs) -> np.ndarray:
        return self._node.diagonal(inputs)
