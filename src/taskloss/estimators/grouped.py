"""What the faces for examples of many sizes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..grouped import GroupedRisk, Stack
from ..hypotheses.base import Hypothesis
from ..losses.base import Loss
from ..surrogates.base import Surrogate
from .base import Minimiser


class GroupedEstimator(Minimiser, BaseEstimator):
    """One score per row of features, shared by examples of all sizes. A child turns its data into stacks of equal size."""

    loss: Any
    surrogate: Any
    hypothesis: Any
    alpha: float
    theta_: np.ndarray
    n_features_in_: int

    def _surrogate_for(self, loss: Loss) -> Surrogate:
        """The surrogate, sized for a loss of one size."""
        raise NotImplementedError

    def _solve(self, X: Any, stacks: Sequence[Stack]) -> None:
        """Fit theta to stacks whose rows X holds, one stack after the other."""
        self.hypothesis_ = Hypothesis.resolve(self.hypothesis)
        risk = GroupedRisk(self.hypothesis_, stacks, X, self.alpha)
        solution = self._minimise(risk, risk.start, X.dtype)
        self.solution_, self.theta_, self.n_iter_ = solution, solution.theta, solution.iterations

    def _scores(self, X: Any) -> np.ndarray:
        return np.asarray(self.hypothesis_.scores(self.theta_, X)).ravel()

    @property
    def coef_(self) -> np.ndarray:
        """One weight per feature; scores are X @ coef_ + intercept_."""
        return self.theta_[:-1].ravel()

    @property
    def intercept_(self) -> float:
        return float(self.theta_[-1, 0])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")
