"""The general face: any loss, any surrogate that fits it, any hypothesis."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_hyperparameters
from .._checks import said_of
from ..data.base import Translator
from ..data.labels import check_kind, labels_for, listed_by
from ..data.weights import example_weights
from ..distributed import is_collection
from ..hypotheses.base import Hypothesis
from ..inference import refuse_separated
from ..losses.base import Loss
from ..objectives import Rows
from ..surrogates.base import Surrogate, first_fit
from .base import ConsistencyWarning, Decoder, Minimiser, check_features, keep, read_more, warn_of_ties
from .lazily import lazily
from .partition_plans import RowsPlan
from .partitioned import fit_partitioned
from .streaming import Streaming
from .validation import Judge, given_monitor, held_parts, warn_of_lacking


def _scores_are_per_label(estimator: Any) -> bool:
    """Scores are an answer by themselves where each label has one, or two labels have one together; thresholds are not."""
    check_is_fitted(estimator)
    scores = len(estimator.hypothesis_.constants(estimator.theta_, estimator.n_features_in_))
    labels = estimator.labels_.size
    if scores == labels or (scores == 1 and labels == 2):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} has {scores} scores for {labels} labels here: use predict_scores."
    )


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
    alpha : strength of the penalty, above zero, or "auto" (also "loo"): the one of least held-out task loss on a path of
        penalties, by leave-one-out where that is exact (quadratic) and three folds elsewhere, in the time of a few fits. None
        is 1e-3, and with kernels, for which no number serves most data, "auto". Zero for linear scores, where labels that the
        features separate are refused.
    solver : "auto" (Newton's method where data are small, else "lbfgs"), "lbfgs", "newton", "closed-form" (quadratic surrogate), or a solver such as ASGD(radius=...), which takes one pass over the examples and
        looks for theta in a ball in the place of the penalty.
    tol : relative gap to the minimum at which to stop.
    max_iter : most iterations of the solver.
    class_weight : None, "balanced" or a mapping from label to weight. It changes the law that is learned; to change
        what errors cost, change the loss.
    warm_start : start from the last fit's parameters; with a kernel only where X is the same, since its coordinates are, and not
        after a model was stored and loaded.
    verbose : show a progress bar.

    Attributes
    ----------
    loss_, surrogate_, hypothesis_ : the parts, with their sizes.
    theta_, coef_, intercept_ : parameters; scores are coef_ @ x + intercept_ (with a cumulative link intercept_ - coef_ @ x), with a kernel's values at its centres in
        the place of x.
    solution_ : status, iterations, value, and of the relative gap an estimate (`optimality`) and a bound.
    alpha_, alphas_, path_scores_ : the strength in use, those compared, and minus their held-out task loss.
    classes_, outputs_ : labels, and what may be predicted.
    class_prior_ : the shares of the labels that were fitted to, weighed as the examples were.
    """

    loss: Any
    surrogate: Any
    hypothesis: Any
    alpha: Any
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
        alpha: Any = None,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        class_weight: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    # -- fitting -----------------------------------------------------------------------------------------------------

    def _check_numbers(self) -> None:
        if self._unpenalised:
            check_hyperparameters(self)
        else:
            super()._check_numbers()

    @property
    def _unpenalised(self) -> bool:
        """A fit without a penalty: for linear scores, whose minimum is unique where labels are not separated."""
        linear = Hypothesis.resolve(self.hypothesis).plain
        return linear and isinstance(self.alpha, numbers.Real) and float(self.alpha) == 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None, checkpoint: Any = None) -> Self:
        """Fit to X and y; y may be labels of any type, and for losses on label sets an indicator matrix or sets.

        validation: held-out data (X, y), on whose task loss trees stop early; else they hold out some of these.
        checkpoint: a path at which the best parameters so far are kept during the fit, and from which it goes on where the file is there.
        """
        if is_collection(X) or is_collection(y):
            given = {"X": X, "y": y, "sample_weight": sample_weight}
            return fit_partitioned(self, RowsPlan(self), given, validation, checkpoint)
        self._check_numbers()
        loss = self._make_loss()
        check_kind(loss)
        X, features = check_features(self, X, Hypothesis.resolve(self.hypothesis))
        labels = self._make_labels(loss, y)
        codes = labels.encode(y)
        if len(codes) != X.shape[0]:
            raise ValueError(f"X and y have different lengths: {X.shape[0]} and {len(codes)}.")
        weights = self._weights(sample_weight, codes, labels)
        loss, surrogate, hypothesis = self._bound_parts(loss, labels, codes, features)
        hypothesis = hypothesis.bind(X, weights)
        phi = loss.phi(codes, dtype=np.int8 if loss.integral_phi else float)
        risk = Rows(surrogate, phi, weights)

        def losses(v: Any, known: np.ndarray) -> np.ndarray:
            return loss(loss.decode(surrogate.inverse_link(v)), known)

        judge, monitor = None, None
        if validation is not None:
            X_held, y_held = held_parts(validation)
            inputs, held = read_more(self, X_held, hypothesis, features), labels.encode(y_held)
            monitor = given_monitor(hypothesis, inputs, lambda v: losses(v, held))
            if codes.ndim == 1:
                warn_of_lacking(codes, held, "add some to validation=...", stacklevel=3)
        if self._chooses_alpha or (validation is None and hypothesis.holdout is not None):
            known = codes
            judge = Judge(lambda v, which: losses(v, known[which]), known if known.ndim == 1 else None)
        shares = None if codes.ndim != 1 else np.bincount(codes, weights, labels.size) / weights.sum()
        del codes, phi, weights  # the risk keeps what it needs, and label sets are as large as they are wide
        found = features | {"loss_": loss, "surrogate_": surrogate, "labels_": labels, "class_prior_": shares}
        if self._unpenalised:
            refuse_separated(hypothesis, X, risk)
        self._fit_to(hypothesis, X, risk, found, judge, monitor, checkpoint)
        self.close_stream()
        return self

    def summary(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        covariance: str = "hessian",
        groups: Any = None,
        level: float = 0.95,
    ) -> Any:
        """Estimates with standard errors, z, p, intervals and odds ratios, as a data frame; for fits with alpha=0.

        The arguments, and what is refused, are those of `taskloss.inference.summary`.
        """
        from ..inference import summary

        return summary(self, X, y, sample_weight, covariance=covariance, groups=groups, level=level)

    def _bound_parts(
        self, loss: Loss, labels: Translator, codes: np.ndarray, features: dict[str, Any]
    ) -> tuple[Loss, Surrogate, Hypothesis]:
        """The parts with their sizes, which codes that show every label tell; the hypothesis is not bound to inputs yet."""
        loss, surrogate = self._match(loss.bind_names(labels.classes).bind(labels.size).bind_codes(codes))
        hypothesis = self._make_hypothesis(loss, surrogate, features)
        if surrogate.ordered and not hypothesis.fit_intercept:
            raise ValueError(f"{surrogate!r} needs thresholds of its own: use a hypothesis with fit_intercept=True.")
        return loss, surrogate, hypothesis

    def _make_loss(self) -> Loss:
        return Loss.resolve(self.loss)

    def _make_labels(self, loss: Loss, y: Any, name: str = "y") -> Translator:
        """The translator of labels that users gave in the argument `name`."""
        labels = labels_for(loss, y, self._order(), name=name)
        labels.check(listed_by(loss, self._order(), name))
        return labels

    def _make_hypothesis(self, loss: Loss, surrogate: Surrogate, features: dict[str, Any]) -> Hypothesis:
        return Hypothesis.resolve(self.hypothesis).current()

    def _order(self) -> Any:
        return None

    def _variants(self, loss: Loss) -> list[Loss]:
        """The embeddings of the loss to try in turn: two labels need one score only, the one for the second label."""
        if self._automatic and loss.kind == "classes" and len(loss.labels()) == 2:
            return loss.variants(thresholds=True)[::-1]
        return loss.variants()

    @property
    def _automatic(self) -> bool:
        return isinstance(self.surrogate, str) and self.surrogate == "auto"

    def _match(self, loss: Loss) -> tuple[Loss, Surrogate]:
        """The loss in the first of its embeddings that the surrogate fits, and the surrogate with its size."""
        variant, bound = first_fit(self._variants(loss), self.surrogate)
        if not bound.calibrated:
            warnings.warn(
                f"{Surrogate.resolve(self.surrogate)!r} is not phi-calibrated: its scores do not determine the expected loss, and predictions need not be "
                "optimal even with unlimited data; margins 'logistic', 'exponential' and 'square' are.",
                ConsistencyWarning,
                stacklevel=3,
            )
        return variant, bound

    def _weights(self, sample_weight: Any, codes: np.ndarray, labels: Translator) -> np.ndarray:
        weights = example_weights(sample_weight, len(codes))
        if self.class_weight is None:
            return weights
        if codes.ndim != 1:
            raise ValueError(
                "class_weight is for one label per row; weigh the labels of a set with Hamming(weights=...)."
            )
        weights = weights * self._per_class(np.bincount(codes, weights, labels.size), labels)[codes]
        if weights.sum() <= 0:  # sample weights may leave only examples whose class weighs nothing
            raise ValueError("All weights are zero: at least one example must count.")
        return weights

    def _per_class(self, count: np.ndarray, labels: Translator) -> np.ndarray:
        """What class_weight multiplies the weights of each label's examples by; count has the sums of these."""
        given = self.class_weight
        if given is None:
            return np.ones(labels.size)
        if isinstance(given, str) and given == "balanced":
            per_class = count.sum() / ((count > 0).sum() * np.where(count > 0, count, 1.0))
        elif isinstance(given, Mapping):
            if not all(isinstance(w, numbers.Real) and 0 <= float(w) < np.inf for w in given.values()):
                raise ValueError(
                    f"class_weight must give each label a finite weight that is not negative, got {self.class_weight!r}."
                )
            per_class = np.ones(labels.size)
            with said_of("class_weight", "map labels of y to weights"):
                for label, weight in given.items():
                    per_class[labels.encode([label])[0]] = weight
        else:
            raise ValueError(f"class_weight must be None, 'balanced' or a mapping from label to weight, got {given!r}.")
        return np.asarray(per_class)

    # -- predicting --------------------------------------------------------------------------------------------------

    @lazily
    def predict_scores(self, X: Any) -> np.ndarray:
        """The scores v = g(x), before the link."""
        check_is_fitted(self)
        return np.ascontiguousarray(self.hypothesis_.predict(self.theta_, self.hypothesis_.read(X, self, False)))

    @lazily
    def predict_moments(self, X: Any) -> np.ndarray:
        """The estimated moments mu(x) of the label embedding: all that any loss on these labels needs."""
        v = self.predict_scores(X)
        return self.surrogate_.inverse_link(v)

    def _decide(self, X: Any, loss: Any, costs: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        check_is_fitted(self)
        if self.surrogate_.differentiable:
            return super()._decide(X, loss, costs)
        if loss is None and costs is None:
            v = self.predict_scores(X)
            return self.loss_, self.surrogate_.decide(v), self.surrogate_.inverse_link(v)
        warn_of_ties(self.surrogate_, self.loss_)
        return super()._decide(X, loss, costs)

    @lazily
    def predict_proba(self, X: Any) -> np.ndarray:
        """The law over labels, or for label sets the probability of each label. Moments outside the polytope are clipped and rescaled."""
        mu = self.predict_moments(X)
        if self.loss_.kind == "indicator":
            return np.clip(self.loss_.probabilities(mu), 0, 1)
        q = np.clip(self.loss_.probabilities(mu), 0, None)
        total = q.sum(-1, keepdims=True)
        return np.where(total > 0, q / np.where(total > 0, total, 1), 1 / q.shape[-1])

    @available_if(_scores_are_per_label)
    @lazily
    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: one column for each label, or for two labels one number, which is larger for the second."""
        v = self.predict_scores(X)
        if self.loss_.kind != "classes" or self.labels_.size > 2:
            return v
        return v[:, -1] if v.shape[1] == 1 else v[:, 1] - v[:, 0]

    @property
    def coef_(self) -> np.ndarray:
        """The weights of features in the scores, or, where scores are F^-1(P(Y <= j)) and fall as labels rise, minus these: a positive one means a higher label."""
        coef = self.hypothesis_.expand(self.theta_)[: self.hypothesis_.width(self.n_features_in_)].T
        if not self.surrogate_.ordered:
            return coef
        warnings.warn(
            "coef_ of a cumulative link has changed its sign: a positive weight means a higher label, as with every other surrogate, and scores are "
            "intercept_ - coef_ @ x. This warning goes in release 0.3.",
            FutureWarning,
            stacklevel=2,
        )
        return -coef

    @property
    def intercept_(self) -> np.ndarray:
        return self.hypothesis_.constants(self.theta_, self.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = Hypothesis.resolve(self.hypothesis).allow_nan
        tags.input_tags.pairwise = Hypothesis.resolve(self.hypothesis).pairwise
        return tags
