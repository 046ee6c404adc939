"""The general face: any loss, any surrogate that fits it, any hypothesis."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ..hypotheses.base import Hypothesis
from ..labels import check_kind, labels_for
from ..losses.base import Loss
from ..objectives import Rows
from ..surrogates.base import Surrogate, automatic
from .base import Decoder, Minimiser, check_features, keep, keep_features, read_more
from .streaming import Streaming
from .validation import Judge, given_monitor, held_parts


class ConsistencyWarning(UserWarning):
    """The surrogate does not determine the moments that decoding needs."""


class TaskLossEstimator(Streaming, Minimiser, Decoder):
    """Fit a surrogate's scores to data, and predict what minimises a discrete loss in expectation.

    theta minimises mean_i S(g_theta(x_i), y_i) + alpha/2 |theta|^2 (the intercept is not penalised): scikit-learn's C
    is 1 / (n alpha).

    Parameters
    ----------
    loss : a loss or its name. What you are judged by.
    surrogate : "auto", a surrogate or its name. "auto" is multinomial logistic on labels and independent logistic on
        label sets.
    hypothesis : a hypothesis or its name.
    alpha : strength of the penalty, above zero.
    solver : "auto", "lbfgs", "newton", or a solver such as ASGD(radius=...), which takes one pass over the examples and
        looks for theta in a ball in the place of the penalty.
    tol : relative gap to the minimum at which to stop.
    max_iter : most iterations of the solver.
    class_weight : None, "balanced" or a mapping from label to weight. It changes the law that is learned; to change
        what errors cost, change the loss.
    warm_start : start from the last fit's parameters; with a kernel only where X is the same, since its coordinates are.
    verbose : show a progress bar.

    Attributes
    ----------
    loss_, surrogate_, hypothesis_ : the parts, with their sizes.
    theta_, coef_, intercept_ : parameters; scores are coef_ @ x + intercept_, with a kernel's values at its centres in
        the place of x.
    solution_ : status, iterations, value and estimated relative gap of the fit.
    classes_, outputs_ : labels, and what may be predicted.
    """

    loss: Any
    surrogate: Any
    hypothesis: Any
    alpha: float
    solver: Any
    tol: float
    max_iter: int
    class_weight: Any = None
    warm_start: bool
    verbose: bool

    def __init__(
        self,
        loss: Any = "zero-one",
        surrogate: Any = "auto",
        hypothesis: Any = "linear",
        *,
        alpha: float = 1e-3,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        class_weight: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
        """Fit to X and y; y may be labels of any type, and for losses on label sets an indicator matrix or sets.

        validation: held-out data (X, y), on whose task loss trees stop early; else they hold out some of these.
        """
        self._check_numbers()
        self.close_stream()
        loss = self._make_loss()
        check_kind(loss)
        X, features = check_features(self, X, Hypothesis.resolve(self.hypothesis))
        labels = labels_for(loss, y, self._order())
        labels.check()
        codes = labels.encode(y)
        if len(codes) != X.shape[0]:
            raise ValueError(f"X and y have different lengths: {X.shape[0]} and {len(codes)}.")
        weights = self._weights(sample_weight, codes, labels, X)
        loss, surrogate = self._match(loss.bind_names(labels.classes).bind(labels.size).bind_codes(codes))
        hypothesis = self._make_hypothesis(loss, surrogate)
        if surrogate.ordered and not hypothesis.fit_intercept:
            raise ValueError(f"{surrogate!r} needs thresholds of its own: use a hypothesis with fit_intercept=True.")
        hypothesis = hypothesis.bind(X, weights)
        phi = loss.phi(codes, dtype=np.int8 if loss.integral_phi else float)
        risk = Rows(surrogate, phi, weights)

        def losses(v: Any, known: np.ndarray) -> np.ndarray:
            return loss(loss.decode(surrogate.inverse_link(v)), known)

        monitor = None
        if validation is not None:
            X_held, y_held = held_parts(validation)
            held = labels.encode(y_held)
            monitor = given_monitor(
                hypothesis, read_more(self, X_held, hypothesis, features), lambda v: losses(v, held)
            )
        judge: Judge | None = Judge(lambda v, which: losses(v, codes[which]), codes if codes.ndim == 1 else None)
        if hypothesis.holdout is None or monitor is not None:
            judge = None
            del codes  # the risk keeps what it needs, and label sets are as large as they are wide
        del phi, weights
        solution = self._minimise(hypothesis, X, risk, judge, monitor)
        keep_features(self, features)
        self.loss_, self.surrogate_, self.labels_ = loss, surrogate, labels
        self._keep_solution(hypothesis, solution)
        return self

    def _make_loss(self) -> Loss:
        return Loss.resolve(self.loss)

    def _make_hypothesis(self, loss: Loss, surrogate: Surrogate) -> Hypothesis:
        return Hypothesis.resolve(self.hypothesis)

    def _order(self) -> Any:
        return None

    def _match(self, loss: Loss) -> tuple[Loss, Surrogate]:
        """The loss in the first of its embeddings that the surrogate fits, and the surrogate with its size."""
        problem: ValueError | None = None
        for variant in loss.variants():
            polytope = variant.polytope
            surrogate = (
                automatic(polytope)
                if isinstance(self.surrogate, str) and self.surrogate == "auto"
                else Surrogate.resolve(self.surrogate)
            )
            try:
                bound = surrogate.bind(polytope)
            except ValueError as error:
                problem = problem or error
                continue
            if not bound.calibrated:
                warnings.warn(
                    f"{surrogate!r} is not phi-calibrated: its scores do not determine the expected loss, and predictions need not be optimal "
                    "even with unlimited data; margins 'logistic', 'exponential' and 'square' are.",
                    ConsistencyWarning,
                    stacklevel=3,
                )
            return variant, bound
        raise problem or ValueError("The loss has no embedding.")

    def _weights(self, sample_weight: Any, codes: np.ndarray, labels: Any, X: Any) -> np.ndarray:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            if codes.ndim != 1:
                raise ValueError(
                    "class_weight is for one label per row; weigh the labels of a set with Hamming(weights=...)."
                )
            present = np.unique(codes)
            given = self.class_weight
            if not isinstance(given, str):
                if not all(isinstance(w, numbers.Real) and 0 <= float(w) < np.inf for w in given.values()):
                    raise ValueError(
                        f"class_weight must give each label a finite weight that is not negative, got {self.class_weight!r}."
                    )
                given = {int(labels.encode([label])[0]): weight for label, weight in given.items()}
                given = {code: given.get(code, 1.0) for code in present.tolist()}
            per_class = np.ones(labels.size)
            per_class[present] = compute_class_weight(
                given, classes=present, y=codes, sample_weight=weights if isinstance(given, str) else None
            )
            weights = weights * per_class[codes]
        if weights.sum() <= 0:  # sample weights may leave only examples whose class weighs nothing
            raise ValueError("All weights are zero: at least one example must count.")
        return weights

    # -- predicting --------------------------------------------------------------------------------------------------

    def predict_scores(self, X: Any) -> np.ndarray:
        """The scores v = g(x), before the link."""
        check_is_fitted(self)
        return np.ascontiguousarray(self.hypothesis_.predict(self.theta_, self.hypothesis_.read(X, self, False)))

    def predict_moments(self, X: Any) -> np.ndarray:
        """The estimated moments mu(x) of the label embedding: all that any loss on these labels needs."""
        v = self.predict_scores(X)
        return self.surrogate_.inverse_link(v)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The law over labels, or for label sets the probability of each label. Moments outside the polytope are clipped and rescaled."""
        mu = self.predict_moments(X)
        if self.loss_.kind == "indicator":
            return np.clip(self.loss_.probabilities(mu), 0, 1)
        q = np.clip(self.loss_.probabilities(mu), 0, None)
        total = q.sum(-1, keepdims=True)
        return np.where(total > 0, q / np.where(total > 0, total, 1), 1 / q.shape[-1])

    @property
    def outputs_(self) -> np.ndarray:
        """What may be predicted, in the order of the loss's rows."""
        return self.labels_.outputs(self.loss_)

    @property
    def coef_(self) -> np.ndarray:
        return self.hypothesis_.expand(self.theta_)[: self.hypothesis_.width(self.n_features_in_)].T

    @property
    def intercept_(self) -> np.ndarray:
        return self.hypothesis_.constants(self.theta_, self.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = Hypothesis.resolve(self.hypothesis).allow_nan
        tags.input_tags.pairwise = getattr(self.hypothesis, "kernel", None) == "precomputed"
        return tags
