"""Hamming loss over label sets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..polytopes.cube import Cube
from .base import Array, Loss, check_prices, check_sets, price_of_sets


class Hamming(Loss):
    """L(z, y) = sum_j w_j 1(z_j != y_j), by default w = 1/n_labels: the mean number of wrong labels.

    y and z are rows of 0 and 1; phi(y) = 2y - 1, psi(z) = -w (2z - 1) / 2, c = sum(w) / 2; M is the cube [-1, 1]^n.
    Decoding is the sign of each moment, whatever the weights, as long as they are positive.
    """

    name = "hamming"
    kind = "indicator"
    signs = True
    coordinatewise = True

    def __init__(self, n_labels: int | None = None, weights: Any = None):
        self.n_labels = n_labels
        self.weights = weights

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3), cls(3, weights=[1.0, 2.0, 0.5])]

    def bind(self, size: int) -> Self:
        if self.n_labels is None:
            return self.with_params(n_labels=size)
        if self.n_labels != size:
            raise ValueError(f"{self!r} is a loss over {self.n_labels} labels, but y has {size} columns.")
        return self

    def _weights(self) -> np.ndarray:
        if self.n_labels is None:
            raise ValueError("Hamming does not know its number of labels yet: give n_labels, or call bind(n_labels).")
        if self.weights is None:
            return np.full(self.n_labels, 1 / self.n_labels)
        weights = np.asarray(self.weights, dtype=float)
        if weights.shape != (self.n_labels,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                f"weights must be finite numbers that are not negative, one for each of the n_labels={self.n_labels} labels."
            )
        return weights

    def _check(self, y: Array, what: str) -> np.ndarray:
        return check_sets(y, len(self._weights()), what)

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        return 2 * self._check(y, "labels").astype(dtype) - np.ones((), dtype)

    def psi(self, z: Array) -> np.ndarray:
        return -self._weights() * (2.0 * self._check(z, "outputs") - 1) / 2

    @property
    def constant(self) -> float:
        return float(self._weights().sum() / 2)

    @property
    def polytope(self) -> Cube:
        return Cube(len(self._weights()))

    def probabilities(self, mu: Array) -> np.ndarray:
        """P(y_j = 1), label by label; outside M, some lie outside [0, 1]."""
        return (mu + 1) / 2

    def moments(self, proba: Array) -> Array:
        return 2 * np.asarray(proba) - 1

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        return (self._check(z, "outputs") != self._check(y, "labels")) @ self._weights()

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """The sign of each moment; costs (n, n_labels) are the prices of predicting each label."""
        mu = np.asarray(mu)
        # A label is worth predicting where w P(y = 0) + price < w P(y = 1).
        price = 0.0 if costs is None else check_prices(costs, mu.shape, "label that is predicted")
        return (self._weights() * mu > price if costs is not None else mu > 0).astype(np.int64)

    def price(self, z: Array, costs: Array) -> np.ndarray:
        return price_of_sets(z, costs)

    def worst(self, z: Array, costs: Array | None = None) -> np.ndarray:
        worst = np.full(len(z), self._weights().sum())
        return worst if costs is None else worst + self.price(z, costs)

    def range(self) -> tuple[float, float]:
        return 0.0, float(self._weights().sum())

    def by_part(self, z: Array, y: Array) -> np.ndarray:
        return (self._check(z, "outputs") != self._check(y, "labels")) * self._weights()

    def outputs(self) -> np.ndarray:
        return (self.polytope.vertices() > 0).astype(np.int64)

    def labels(self) -> np.ndarray:
        return self.outputs()
