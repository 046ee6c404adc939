"""The base class of measures: functions of the confusion of outputs and labels over all examples."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._checks import check_lengths, check_level, check_whole, count_examples
from ..data.labels import _column, codes_of
from ..data.sequences import SequenceLabels
from ..losses.base import name_array
from ..registry import Part
from ..wrapped import innermost
from .examples import flat, is_sets, read, rows_of

_STEP = 1e-6  # of finite differences, relative to the sum of the confusion
_DRAWN = 1 << 24  # entries of resampled arrays held in memory at a time


class Interval(NamedTuple):
    """A measure's value and the ends of its confidence interval."""

    value: float
    low: float
    high: float


class Metric(Part):
    """A function of the confusion, higher is better. A subclass defines `value`, and `gradient` where it has a formula.

    The confusion of labels is a table (..., k, k) of counts or shares, [output, label]; that of label sets and of spans
    is (..., labels, 2, 2), one table [predicted, present] for each label or kind. A measure depends on proportions
    only.

    Its optimal decisions are those of a loss: where m is smooth in the confusion C, the decisions that maximise m
    minimise the loss -dm/dC[z, y] at their own confusion (Koyejo and others 2014, 2015; Narasimhan and others 2015).
    `TunedDecisionCV` finds it.

    References
    ----------
    O. Koyejo, N. Natarajan, P. Ravikumar, I. Dhillon. Consistent binary classification with generalized performance
    metrics, 2014; and Consistent multilabel classification, 2015. H. Narasimhan, H. Ramaswamy, A. Saha, S. Agarwal.
    Consistent multiclass algorithms for complex performance measures, 2015.
    """

    kinds: ClassVar[tuple[str, ...]] = ("classes", "indicator")  # of labels it applies to: labels, label sets, spans

    # -- the function ------------------------------------------------------------------------------------------------

    def value(self, confusion: Any) -> np.ndarray:
        """The measure of tables (..., k, k), counts or shares."""
        raise NotImplementedError

    def gradient(self, confusion: Any) -> np.ndarray:
        """d value / d confusion, of the same shape; by default, by finite differences."""
        table = np.asarray(confusion, dtype=float)
        flat = table.reshape(-1, table.shape[-2] * table.shape[-1])
        out = np.empty_like(flat)
        step = _STEP * np.maximum(flat.sum(-1), 1e-300)
        for i in range(flat.shape[1]):
            up, down = flat.copy(), flat.copy()
            up[:, i] += step
            down[:, i] = np.maximum(down[:, i] - step, 0.0)  # a function may not accept negative shares
            difference = np.ravel(self.value(up.reshape(table.shape))) - np.ravel(self.value(down.reshape(table.shape)))
            out[:, i] = difference / (up[:, i] - down[:, i])
        return out.reshape(table.shape)

    def value_of_sets(self, tables: Any) -> np.ndarray:
        """The measure of tables (..., labels, 2, 2), by default its mean over labels."""
        return self.value(tables).mean(-1)

    def gradient_of_sets(self, tables: Any) -> np.ndarray:
        """d value_of_sets / d tables."""
        return self.gradient(tables) / np.shape(tables)[-3]

    # -- labels and predictions ----------------------------------------------------------------------------------------

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None, *, labels: Any = None) -> float:
        """The measure of predictions.

        Parameters
        ----------
        y_true, y_pred : labels of any type; for label sets two indicator matrices or two lists of sets; for measures of
            spans two lists of tag sequences.
        sample_weight : one weight for each example.
        labels : the labels in their order, where that matters and is not the sorted one.
        """
        metric, examples, z = read(self, y_true, y_pred, sample_weight, labels)
        return examples.number(metric, z)

    def interval(
        self,
        y_true: Any,
        y_pred: Any,
        confidence_level: float = 0.95,
        n_resamples: int = 2000,
        random_state: Any = 0,
        sample_weight: Any = None,
        *,
        labels: Any = None,
    ) -> Interval:
        """The measure with a percentile bootstrap confidence interval over examples (for spans, over sequences).

        Examples
        --------
        >>> from taskloss.metrics import Matthews
        >>> value, low, high = Matthews().interval([0, 1, 1, 0] * 25, [0, 1, 0, 0] * 25)
        >>> bool(low < value < high)
        True
        """
        check_level("confidence_level", confidence_level)
        check_whole("n_resamples", n_resamples)
        metric, examples, z = read(self, y_true, y_pred, sample_weight, labels)
        rng = np.random.default_rng(random_state)
        step = max(1, _DRAWN // max(len(examples), int(np.prod(examples.shape))))
        sizes = [min(step, n_resamples - first) for first in range(0, n_resamples, step)]
        values = np.concatenate([np.ravel(examples.value(metric, examples.resampled(z, rng, size))) for size in sizes])
        low, high = np.quantile(values, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
        return Interval(examples.number(metric, z), float(low), float(high))

    def bind_names(self, labels: np.ndarray) -> Metric:
        """The measure bound to the labels, in the order of the confusion's columns."""
        return self

    def scheme(self) -> str | None:
        """The tagging scheme of a measure of spans; None for other measures."""
        return None

    def scorer(self) -> MetricScorer:
        """A scikit-learn scorer, for GridSearchCV and cross_val_score."""
        return MetricScorer(self)

    def number(self, value: Any) -> float:
        """A value as a float; ValueError where it is not finite."""
        if not np.isfinite(value):
            raise ValueError(f"{self!r} is {float(value)} on these examples: it must return a finite number.")
        return float(value)


class MetricScorer:
    """scorer(estimator, X, y) = the measure of estimator.predict(X); with the estimator's labels, also those not in y."""

    def __init__(self, metric: Metric):
        self.metric = metric

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        z = estimator.predict(X)
        check_lengths(count_examples("X", rows_of(X, z)), rows_of(X, y))
        if self.metric.scheme() is not None:
            return self._value(rows_of(X, y), rows_of(X, z), sample_weight)
        if isinstance(
            getattr(innermost(estimator)[0], "labels_", None), SequenceLabels
        ):  # each position counts as an example
            y, z = flat(y), flat(z)
        classes = getattr(estimator, "classes_", None)
        if classes is None or np.ndim(classes) != 1 or is_sets(y):
            return self._value(y, z, sample_weight)
        known, values = name_array(classes), _column(y)
        unseen = np.unique(values[codes_of(values, known, None) < 0])
        order = name_array([*known.tolist(), *unseen.tolist()]) if len(unseen) else known
        return self._value(y, z, sample_weight, order)

    def _value(self, y: Any, z: Any, sample_weight: Any, labels: Any = None) -> float:
        metric, examples, codes = read(self.metric, y, z, sample_weight, labels, "y")
        return examples.number(metric, codes)

    def __repr__(self) -> str:
        return f"{self.metric!r}.scorer()"
