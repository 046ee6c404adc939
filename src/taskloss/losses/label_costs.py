"""Costs for each label of a set by itself."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .base import Array, check_prices
from .hamming import Hamming


class LabelCosts(Hamming):
    """L(z, y) = sum_j costs[j, z_j, y_j]: a cost matrix for each label of a set, which decides for that label alone.

    y and z are rows of 0 and 1; phi(y) = 2y - 1 as for Hamming loss, which is costs[j] = w_j (1 - I). psi(z)_j is half
    the difference costs[j, z_j, 1] - costs[j, z_j, 0], and the constant, half their sum over labels, depends on the
    output. A label is predicted where the probability that it is there exceeds a threshold of its own,
    (c10 - c00) / (c10 - c00 + c01 - c11) in terms of c = costs[j].

    Parameters
    ----------
    costs : array (labels, 2, 2), costs[j, z_j, y_j].
    """

    name = "label-costs"
    coordinatewise = False  # labels cost by themselves, but do not tie at even odds
    constant_by_output = True
    aliases = {}

    def __init__(self, costs: Any = None):
        self.costs = costs

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(np.random.default_rng(0).uniform(0, 2, (3, 2, 2)).round(2))]

    def tables(self) -> np.ndarray:
        """costs as an array, or one clear sentence."""
        if self.costs is None:
            raise ValueError("LabelCosts needs its costs[j, z_j, y_j], a 2 x 2 table for each label.")
        try:
            costs = np.asarray(self.costs, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"costs must be a 2 x 2 table of numbers for each label: {error}.") from error
        if costs.ndim != 3 or costs.shape[1:] != (2, 2) or not len(costs) or not np.isfinite(costs).all():
            raise ValueError(f"costs must be a 2 x 2 table of finite numbers for each label, got shape {costs.shape}.")
        return costs

    @property
    def n_labels(self) -> int:  # type: ignore[override]
        return len(self.tables())

    def bind(self, size: int) -> Self:
        if self.n_labels != size:
            raise ValueError(f"LabelCosts has tables for {self.n_labels} labels, but y has {size} columns.")
        return self

    def _weights(self) -> np.ndarray:
        """What there is to lose by each label."""
        return np.ptp(self.tables(), axis=1).max(axis=1)

    def _rows(self, z: Array) -> np.ndarray:
        """costs[j, z_j], a row of two costs for each label of each output."""
        return self.tables()[np.arange(self.n_labels), self._check(z, "outputs").astype(np.int64)]

    def psi(self, z: Array) -> np.ndarray:
        rows = self._rows(z)
        return (rows[..., 1] - rows[..., 0]) / 2

    @property
    def constant(self) -> np.ndarray:  # type: ignore[override]
        """One number for each output, in the order of `outputs`."""
        return self.offset(self.outputs())

    def offset(self, z: Array) -> np.ndarray:
        return self._rows(z).sum((-1, -2)) / 2

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        return self.by_part(z, y).sum(-1)

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """Each label where that is expected to cost less; costs (n, n_labels) are the prices of predicting each label."""
        mu = np.asarray(mu)
        present = (mu + 1) / 2
        gain = np.moveaxis(self.tables()[:, 0] - self.tables()[:, 1], -1, 0)  # of predicting the label, by y_j
        price = 0.0 if costs is None else check_prices(costs, mu.shape, "label that is predicted")
        return (gain[0] * (1 - present) + gain[1] * present > price).astype(np.int64)

    def worst(self, z: Array, costs: Array | None = None) -> np.ndarray:
        worst = self._rows(z).max(-1).sum(-1)
        return worst if costs is None else worst + self.price(z, costs)

    def range(self) -> tuple[float, float]:
        each = self.tables().reshape(-1, 4)
        return float(each.min(1).sum()), float(each.max(1).sum())

    def by_part(self, z: Array, y: Array) -> np.ndarray:
        rows, y = self._rows(z), self._check(y, "labels").astype(np.int64)
        return np.where(y == 1, rows[..., 1], rows[..., 0])
