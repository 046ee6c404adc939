"""Linear scores of which some columns have a weight for each score and the others one for all: partial proportional odds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._checks import check_columns
from .base import Array, Hypothesis, Inputs
from .linear import Linear


class PartialThresholds(Linear):
    """g(x)_j = <w, x_shared> + <w_j, x_nominal> + b_j: partial proportional odds (Peterson and Harrell 1990).

    nominal: the places of the columns that have a weight for each threshold. Equals `Thresholds("linear")` with none and
    `Linear()` with all columns. theta is a column: the shared weights, those of the nominal columns, one row of k after
    the other, and the k thresholds, which are not penalised.
    """

    name = "partial-thresholds"

    def __init__(self, nominal: Any = (), fit_intercept: bool = True, n_columns: int | None = None, device: Any = None):
        self.nominal = nominal
        self.fit_intercept = fit_intercept
        self.n_columns = n_columns
        self.device = device

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls((0,)), cls((2, 1))]

    @property
    def separable(self) -> bool:
        return False

    @property
    def own(self) -> np.ndarray:
        return np.sort(np.asarray(self.nominal, dtype=np.int64))

    @property
    def _shared(self) -> np.ndarray:
        """The columns that are not nominal."""
        if self.n_columns is None:
            raise ValueError(f"{self!r} does not know its number of columns yet: call bind(X).")
        return np.setdiff1d(np.arange(self.n_columns), self.own)

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        d = inputs.shape[1]
        check_columns("nominal", self.nominal, d)
        return super().bind(inputs, weights).with_params(n_columns=d)

    def agrees(self, other: Hypothesis) -> bool:
        return isinstance(other, PartialThresholds) and np.array_equal(self.own, other.own)

    def _scores_of(self, theta: Array) -> int:
        return (len(theta) - len(self._shared)) // (len(self.own) + 1)

    def start(self, inputs: Inputs, scores: np.ndarray) -> np.ndarray:
        return self.contract(super().start(inputs, scores))

    def penalised(self, inputs: Inputs, theta: np.ndarray) -> np.ndarray:
        return (np.arange(len(theta)) < len(theta) - self._scores_of(theta)).astype(float)

    def expand(self, theta: Array) -> Array:
        shared, own, k = self._shared, self.own, self._scores_of(theta)
        out = np.empty((len(shared) + len(own) + 1, k), dtype=theta.dtype)
        out[shared] = theta[: len(shared)]
        out[np.append(own, -1)] = theta[len(shared) :].reshape(-1, k)
        return out

    def contract(self, gradient: Array) -> Array:
        own = np.append(self.own, -1)
        return np.concatenate([gradient[self._shared].sum(1), gradient[own].ravel()])[:, None]
