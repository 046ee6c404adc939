"""What the faces for examples of many sizes share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..hypotheses.base import Hypothesis
from ..objectives import Batch, Groups, Monitor
from ..surrogates.base import Surrogate
from .base import Minimiser
from .validation import Judge


class GroupedEstimator(Minimiser, BaseEstimator):
    """One score per row of features, shared by examples of all sizes. A child turns its data into batches of equal size."""

    loss: Any
    surrogate: Any
    hypothesis: Any
    alpha: float
    short: ClassVar[dict[str, Any]] = {}  # a child's own words for surrogates
    n_features_in_: int
    surrogate_: Surrogate

    def _make_surrogate(self) -> Surrogate:
        """The surrogate, still without a size; a copy, which set_params does not reach."""
        spec = self.short.get(self.surrogate, self.surrogate) if isinstance(self.surrogate, str) else self.surrogate
        return clone(Surrogate.resolve(spec))

    def _make_hypothesis(self) -> Hypothesis:
        hypothesis = Hypothesis.resolve(self.hypothesis)
        hypothesis.check(type(self).__name__)
        return clone(hypothesis)

    def _solve(
        self,
        hypothesis: Hypothesis,
        X: Any,
        batches: Sequence[Batch],
        weights: np.ndarray,
        judge: Judge,
        held: Callable[[Hypothesis], Monitor] | None = None,
    ) -> None:
        """Fit theta to batches whose rows X holds, one batch after the other; held makes what watches given data, if any are."""
        risk = Groups(batches, weights)
        hypothesis = hypothesis.bind(X, risk.row_weights)
        monitor = None if held is None else held(hypothesis)
        self._keep_solution(hypothesis, self._minimise(hypothesis, X, risk, judge, monitor))

    def _scores(self, X: Any) -> np.ndarray:
        return np.asarray(self.hypothesis_.predict(self.theta_, X)).ravel()

    @property
    def coef_(self) -> np.ndarray:
        """One weight per feature; scores are X @ coef_ + intercept_, with a kernel's values at its centres in the place of X."""
        check_is_fitted(self)
        return self.hypothesis_.expand(self.theta_)[:-1].ravel()

    @property
    def intercept_(self) -> float:
        check_is_fitted(self)
        return float(self.hypothesis_.constants(self.theta_, self.n_features_in_)[0])
