"""What the faces for examples of many sizes share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..hypotheses.base import Hypothesis
from ..model_files import Portable
from ..objectives import Groups, Monitor
from ..surrogates.base import Surrogate
from .base import Minimiser
from .showing import Shown
from .streaming import Averaging, open_stream
from .validation import Judge


class GroupedEstimator(Shown, Portable, Averaging, Minimiser, BaseEstimator):
    """One score per row of features, shared by examples of all sizes. A child turns its data into batches of equal size."""

    loss: Any
    surrogate: Any
    hypothesis: Any
    alpha: Any
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
        risk: Groups,
        found: dict[str, Any],
        judge: Judge,
        validation: Any,
        checkpoint: Any,
    ) -> None:
        """Fit theta to groups whose rows X holds; then keep what was found."""
        hypothesis = hypothesis.bind(X, risk.row_weights)
        monitor = None if validation is None else self._monitor(hypothesis, found, validation)
        self._fit_to(hypothesis, X, risk, found, judge, monitor, checkpoint)
        self.close_stream()

    def _monitor(self, hypothesis: Hypothesis, found: dict[str, Any], validation: Any) -> Monitor:
        """What watches data that the user holds out."""
        raise NotImplementedError

    def _solve_more(self, hypothesis: Hypothesis, X: Any, risk: Groups, found: dict[str, Any], judge: Judge) -> None:
        """Take groups whose rows X holds into the running average."""
        stream = self._stream
        if stream is None:
            if hypothesis.grows:
                raise ValueError(
                    f"{type(self).__name__}.partial_fit needs a fixed number of features: use hypothesis='nystrom'."
                )
            stream = open_stream(self._stream_solver(None), hypothesis, X, 1, found)
        elif found["n_features_in_"] != stream.found["n_features_in_"]:
            raise ValueError(
                f"X has {found['n_features_in_']} features, but the stream began with {stream.found['n_features_in_']}."
            )
        # In a stream weights count as they are; only a whole fit can divide by their sum.
        self._take(stream, X, Groups(risk.batches, risk.weights * risk.n_examples, part=True))

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
