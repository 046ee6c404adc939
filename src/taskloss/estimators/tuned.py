"""Decisions tuned for a measure that is not a mean of losses."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import indexable
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_hyperparameters
from .._checks import check_lengths
from ..data.weights import example_weights
from ..decisions import find
from ..metrics.base import Metric, MetricScorer
from ..metrics.examples import rows_of
from ..metrics.search import choose
from .base import Decoder
from .deciding import task_for
from .folds import FOLDS, count, refitted, splits, take
from .labelling import no_priors
from .lazily import lazily, lazily_scored, refuse_collections


class TunedDecisionCV(MetaEstimatorMixin, Decoder):
    """Any classifier or tagger, with decisions that maximise a measure of all examples together.

    F over a corpus, balanced accuracy, G-mean, Matthews' correlation, quadratic weighted kappa and the F of entities
    are not means of a loss, but their optimal decisions are those of some loss. That loss is found on held-out or
    cross-fitted moments, in less time than their fits (see `taskloss.metrics`), and decodes the estimator, which is refitted on all
    examples unless it was fitted before.

    Parameters
    ----------
    estimator : any estimator of this library on labels, label sets or sequences, or any classifier with `predict_proba`;
        fitted, if cv="prefit".
    metric : a measure of `taskloss.metrics` or its name.
    cv : folds as scikit-learn takes them, None for five; a share between 0 and 1 that is held out; or "prefit": the
        estimator was fitted on other examples, and is not refitted.
    order : the labels in their order, where the measure needs one and the estimator does not know it.
    random_state : seed of the split where a share is held out.

    Attributes
    ----------
    loss_ : the loss that was found; on labels a cost matrix [output, label] whose worst mistake costs one, on label
        sets such a table for each label, on spans the costs of a missed and of a spurious one. The estimator's own
        `predict` takes it, too.
    costs_ : its costs as an array.
    expected_score_ : the cross-validated measure: each fold decided by costs found on the others.
    untuned_score_ : the same for the estimator's own decisions (for spans, those of probability above one half).
    model_score_ : the measure expected under the moments; if far from `expected_score_`, these are badly calibrated.
    criterion_ : "expected" where the costs maximise the measure expected under the moments (on label sets, recalibrated ones),
        "observed" where that against the known labels, which must be better by two standard errors, "own" where the estimator's own
        costs are, by as much.
    estimator_, labels_, classes_, n_features_in_, feature_names_in_.

    Notes
    -----
    With C(z) the confusion of decisions z, and m the measure, costs are -dm/dC at a confusion C that is updated until m
    stops increasing: Dinkelbach's iteration for ratios of linear measures, Frank-Wolfe for concave ones.

    The probabilities q of the labels of sets are recalibrated before, logit t = logit c + a e + b, with a label's share c and evidence e =
    logit q - logit c; one a and b for all labels, from which a label departs as far as its own examples say. Thresholds on t are
    thresholds on q, which `costs_` are for.

    References
    ----------
    See `taskloss.metrics.Metric`. After scikit-learn's TunedThresholdClassifierCV.

    Examples
    --------
    >>> import taskloss as tl
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.digitize(X[:, 0] + np.random.default_rng(1).normal(size=300), [-1, 0, 1])
    >>> tuned = tl.TunedDecisionCV(tl.OrdinalClassifier(), "kappa").fit(X, y)
    >>> tuned.costs_.shape, bool(tuned.expected_score_ > 0.5)
    ((4, 4), True)
    """

    def __init__(
        self,
        estimator: Any = None,
        metric: Any = "f-measure",
        cv: Any = None,
        *,
        order: Any = None,
        random_state: Any = 0,
    ):
        self.estimator = estimator
        self.metric = metric
        self.cv = cv
        self.order = order
        self.random_state = random_state

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Find the loss, and fit the estimator on all examples unless cv="prefit".

        groups: passed to the splitter.
        """
        refuse_collections(self, X, y)
        metric = Metric.resolve(self.metric)
        check_hyperparameters(self)
        if self.estimator is None or not hasattr(self.estimator, "fit"):
            raise ValueError(f"TunedDecisionCV needs an estimator, got {self.estimator!r}.")
        y = rows_of(X, y)
        check_lengths(count(X), y)
        X, y = indexable(X)[0], indexable(y)[0]
        prefit = isinstance(self.cv, str)
        if prefit and self.cv != "prefit":
            raise ValueError(f"cv must be folds, a share that is held out, or 'prefit', got {self.cv!r}.")
        weights = None if sample_weight is None else example_weights(sample_weight, count(X))
        if count(X) < 2:
            raise ValueError(
                f"Decisions are tuned on examples that are held out: at least two examples are needed, and X has n_samples = {count(X)}."
            )
        if prefit:
            model = self.estimator
            check_is_fitted(model)
        else:
            model = refitted(self.estimator, X, y, weights)
        task = task_for(find(model, X)[0], y, metric, self.order)
        parts = (
            [(np.arange(0), np.arange(count(X)))]
            if prefit
            else splits(self.cv, count(X), task.strata(y), groups, self.random_state)
        )
        found, held = [], []
        for train, test in parts:
            if not prefit:
                part = None if weights is None else weights[train]
                some = refitted(self.estimator, take(X, train), take(y, train), part)
            found.append(task.moments(model if prefit else some, take(X, test)))
            held.append(test)
        rows = np.concatenate(held)
        if not len(rows):
            raise ValueError("No example is held out: there is nothing to tune decisions on.")
        y_held, held_weights = take(y, rows), np.ones(len(rows)) if weights is None else weights[rows]
        # An example of weight zero says nothing, and a fold of them has no measure.
        counts = np.flatnonzero(held_weights > 0)
        folds = np.repeat(np.arange(len(held)), [len(part) for part in held])[counts]
        if len(held) == 1 and len(counts):
            folds = np.random.default_rng(self.random_state).permutation(len(counts)) % min(FOLDS, len(counts))
        if len(np.unique(folds)) < 2:
            raise ValueError(
                f"Of the {len(rows)} examples held out {len(counts)} count, in {len(np.unique(folds))} folds: at least two examples and two folds are needed to tune decisions."
            )
        tally = task.tally(found, y_held, held_weights).take(counts)
        metric = metric.bind_names(task.labels.classes)
        choice = choose(metric, tally, folds, task.own)
        claim = metric.number(tally.value(metric, tally.expected(tally.decide(choice.costs))))
        loss = task.loss(choice.costs)
        # Nothing can fail from here on: a fit that fails leaves the earlier one.
        self.estimator_, self.labels_, self._task, self.loss_, self.costs_ = (
            model,
            task.labels,
            task,
            loss,
            choice.costs,
        )
        self.criterion_, self.expected_score_, self.untuned_score_ = choice.criterion, choice.value, choice.untuned
        self.model_score_ = claim
        return self

    # -- predicting --------------------------------------------------------------------------------------------------

    @lazily
    def predict_moments(self, X: Any) -> Any:
        """The moments of the estimator, in the embedding of the loss that was found."""
        check_is_fitted(self)
        found = self._task.moments(self.estimator_, X)
        return found if self._task.tags else self.loss_.moments(found)

    @lazily
    def predict(
        self, X: Any, loss: Any = None, costs: Any = None, class_prior: Any = None, train_prior: Any = None
    ) -> Any:
        check_is_fitted(self)
        if self._task.tags:
            no_priors(class_prior, train_prior)
            face, inputs = find(self.estimator_, X)
            return face.predict(inputs, loss=self.loss_ if loss is None else loss, costs=costs)
        return super().predict(X, loss, costs, class_prior, train_prior)

    predict.__doc__ = Decoder.predict.__doc__

    @lazily
    def expected_loss(
        self, X: Any, loss: Any = None, costs: Any = None, class_prior: Any = None, train_prior: Any = None
    ) -> np.ndarray:
        """The expected loss of each prediction, by default in the loss that was found; loss and costs as in `predict`."""
        check_is_fitted(self)
        if self._task.tags:
            face, inputs = find(self.estimator_, X)
            no_priors(class_prior, train_prior)
            return face.expected_loss(inputs, loss=self.loss_ if loss is None else loss, costs=costs)
        return super().expected_loss(X, loss, costs, class_prior, train_prior)

    @lazily
    def predict_proba(self, X: Any) -> Any:
        """The probabilities of the estimator."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @lazily_scored
    def score(self, X: Any, y: Any, sample_weight: Any = None, costs: Any = None) -> float:
        """The measure of the predictions; higher is better. Costs of outputs are refused, as a measure has none."""
        check_is_fitted(self)
        if costs is not None:
            raise ValueError(f"{self.metric!r} takes no costs: to be judged by them, score the estimator itself.")
        return MetricScorer(Metric.resolve(self.metric))(self, X, y, sample_weight)

    @property
    def n_features_in_(self) -> int:
        """The number of features of the estimator."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the features of the estimator, where they have some."""
        return np.asarray(self.estimator_.feature_names_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = self.estimator.__sklearn_tags__()
            tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
            tags.classifier_tags = inner.classifier_tags
        return tags
