"""One score for each example and a table of thresholds: proportional odds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..parallel import SERIAL, Executor
from .base import Array, Hypothesis, Inputs, Moments


class Thresholds(Hypothesis):
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
    def _node(self) -> Hypothesis:
        return Hypothesis.resolve(self.node)

    @property
    def dtypes(self) -> tuple[type, ...]:
        return self._node.dtypes

    @property
    def whitened(self) -> bool:
        return self._node.whitened

    @property
    def fit_intercept(self) -> bool:  # type: ignore[override]
        return self._node.fit_intercept

    @property
    def shares_weights(self) -> bool:
        return True

    @property
    def makes_features(self) -> bool:
        return self._node.makes_features

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        return self.with_params(node=self._node.bind(inputs, weights))

    def agrees(self, other: Hypothesis) -> bool:
        return isinstance(other, Thresholds) and self._node.agrees(other._node)

    @property
    def pairwise(self) -> bool:
        return self._node.pairwise

    def check(self, estimator: str) -> None:
        self._node.check(estimator)

    def start(self, inputs: Inputs, scores: np.ndarray) -> np.ndarray:
        weights = self._node.start(inputs, np.zeros(1))[:-1]
        return np.concatenate([weights, (scores if self.fit_intercept else np.zeros(len(scores)))[:, None]])

    def rank(self, inputs: Inputs) -> int:
        return self._node.rank(inputs)

    def width(self, inputs: int) -> int:
        return self._node.width(inputs)

    def work(self, inputs: Inputs) -> float:
        return self._node.work(inputs)

    def piece(self, inputs: Inputs, rows: Any) -> Inputs:
        return self._node.piece(inputs, rows)

    def sparse(self, inputs: Inputs) -> bool:
        return self._node.sparse(inputs)

    def features(self, inputs: Inputs, executor: Executor = SERIAL) -> Any:
        return self._node.features(inputs, executor)

    def coordinates(self, inputs: Inputs) -> Any:
        return self._node.coordinates(inputs)

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
