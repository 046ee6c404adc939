"""Measures that are functions of the confusion of outputs and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._checks import check_flag, real_array
from .base import Metric

_LEAST_RECALL = (
    1e-3  # recall at which the geometric mean is differentiated where recall is below: at zero it has no derivative
)


def _table(confusion: Any) -> np.ndarray:
    table = np.asarray(confusion, dtype=float)
    if table.ndim < 2 or table.shape[-1] != table.shape[-2]:
        raise ValueError(f"The confusion must be a square table [output, label], got shape {table.shape}.")
    return table


def ratio(above: Any, below: Any) -> np.ndarray:
    """above / below, and zero where below is zero."""
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), 0.0)


class BalancedAccuracy(Metric):
    """The mean recall of the labels that occur: linear in the confusion, sum_y C[y, y] / c_y / k.

    It equals sklearn's balanced_accuracy_score, and on label sets is its mean over labels.
    """

    name = "balanced-accuracy"

    def value(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        count = table.sum(-2)
        recalls = ratio(np.diagonal(table, axis1=-2, axis2=-1), count)
        return ratio(recalls.sum(-1), (count > 0).sum(-1))

    def gradient(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        count, right = table.sum(-2), np.diagonal(table, axis1=-2, axis2=-1)
        present = np.maximum((count > 0).sum(-1), 1)[..., None, None]
        slope = np.eye(table.shape[-1]) - ratio(right, count)[..., None, :]
        return slope * ratio(1.0, count)[..., None, :] / present


class GMean(Metric):
    """The geometric mean of the recalls of the labels that occur, (prod_y C[y, y] / c_y)^(1/k): concave in the confusion."""

    name = "g-mean"

    def value(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        count, right = table.sum(-2), np.diagonal(table, axis1=-2, axis2=-1)
        return _geometric(np.where(count > 0, ratio(right, count), 1.0), count > 0)

    def gradient(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        count, right = table.sum(-2), np.diagonal(table, axis1=-2, axis2=-1)
        there = count > 0
        recalls = np.where(there, np.maximum(ratio(right, count), _LEAST_RECALL), 1.0)
        present = np.maximum(there.sum(-1), 1)
        slopes = (_geometric(recalls, there) / present)[..., None] * np.where(there, 1 / recalls, 0.0)
        change = np.eye(table.shape[-1]) - ratio(right, count)[..., None, :]
        return (slopes * ratio(1.0, count))[..., None, :] * change


def _geometric(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.exp(ratio(np.log(values).sum(-1), there.sum(-1)))


class Matthews(Metric):
    """Matthews' correlation of outputs and labels, cov(z, y) / sqrt(cov(z, z) cov(y, y)), for any number of labels.

    With cov(z, y) = n sum_y C[y, y] - <r, c> of the counts r of outputs and c of labels. It equals sklearn's
    matthews_corrcoef, and is zero where all outputs, or all labels, are the same.
    """

    name = "matthews"

    def value(self, confusion: Any) -> np.ndarray:
        both, own, other, _ = self._parts(_table(confusion))
        return ratio(both, np.sqrt(own * other))

    def _parts(self, table: np.ndarray) -> tuple[np.ndarray, ...]:
        total = table.sum((-1, -2))
        table = table / np.where(total > 0, total, 1.0)[..., None, None]
        r, c = table.sum(-1), table.sum(-2)
        both = np.trace(table, axis1=-2, axis2=-1) - (r * c).sum(-1)
        spread = [np.maximum(1 - (x * x).sum(-1), 0.0) for x in (r, c)]
        own, other = (np.where(s > 1e-15, s, 0.0) for s in spread)
        return both, own, other, table

    def gradient(self, confusion: Any) -> np.ndarray:
        both, own, other, table = self._parts(_table(confusion))
        total = np.asarray(confusion, dtype=float).sum((-1, -2))[..., None, None]
        r, c = table.sum(-1)[..., :, None], table.sum(-2)[..., None, :]
        scale = ratio(1.0, np.sqrt(own * other))
        if not scale.all():  # all outputs, or all labels, equal: use the gradient of the covariance alone
            scale = np.where(scale > 0, scale, 1.0)
        value = both * scale
        slope = np.eye(table.shape[-1]) - np.swapaxes(c, -1, -2) - np.swapaxes(r, -1, -2)
        own_slope, other_slope = -2 * r * ratio(1.0, own)[..., None, None], -2 * c * ratio(1.0, other)[..., None, None]
        slope = scale[..., None, None] * slope - value[..., None, None] / 2 * (own_slope + other_slope)
        # The measure is homogeneous of degree zero in the table, so that its gradient is orthogonal to it.
        return (slope - (slope * table).sum((-1, -2), keepdims=True)) / np.where(total > 0, total, 1.0)


class Kappa(Metric):
    """Cohen's kappa with weights, one less the ratio of the mean weight to that of independent outputs and labels.

    1 - n sum C[z, y] w_zy / sum r_z c_y w_zy, with w_zy = (z - y)^2 ("quadratic"), |z - y| ("linear") or 1(z != y) (None).
    With the labels' counts c given it is one less a ratio of linear functions of the confusion. It equals sklearn's
    cohen_kappa_score, and is zero where outputs and labels are all the same.

    Parameters
    ----------
    weights : "quadratic", "linear" or None.
    """

    name = "kappa"

    def __init__(self, weights: str | None = "quadratic"):
        self.weights = weights

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls("linear"), cls(None)]

    def _table_of_weights(self, k: int) -> np.ndarray:
        if not (self.weights is None or (isinstance(self.weights, str) and self.weights in ("quadratic", "linear"))):
            raise ValueError(f"weights must be 'quadratic', 'linear' or None, got {self.weights!r}.")
        places = np.arange(float(k))
        gap = np.subtract.outer(places, places)
        return gap**2 if self.weights == "quadratic" else np.abs(gap) if self.weights == "linear" else (gap != 0) * 1.0

    def value(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        w = self._table_of_weights(table.shape[-1])
        r, c = table.sum(-1), table.sum(-2)
        chance = (r @ w * c).sum(-1)
        found = table.reshape(*r.shape[:-1], w.size) @ w.ravel()
        return np.where(chance > 0, 1 - ratio(r.sum(-1) * found, chance), 0.0)

    def gradient(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        w = self._table_of_weights(table.shape[-1])
        total, found = (x[..., None, None] for x in (table.sum((-1, -2)), (table * w).sum((-1, -2))))
        r, c = table.sum(-1), table.sum(-2)
        chance = (r @ w * c).sum(-1)[..., None, None]
        slope = (c @ w.T)[..., :, None] + (r @ w)[..., None, :]
        # With no disagreement by chance the ratio has no gradient: use the direction of less weight.
        return np.where(
            chance > 0, -ratio(found + total * w, chance) + total * found * slope * ratio(1.0, chance**2), -w
        )


class OfConfusion(Metric):
    """Any function of the confusion: function(table) of one k x k table of shares [output, label], higher is better.

    Its gradient is by finite differences. A callable that takes tables (..., k, k) at once is `vectorised`.

    Parameters
    ----------
    function : the callable.
    vectorised : whether it takes many tables along leading axes.

    Examples
    --------
    >>> import numpy as np
    >>> worst_recall = OfConfusion(lambda c: (np.diag(c) / c.sum(0)).min())
    >>> worst_recall([0, 0, 1, 1], [0, 0, 1, 0])
    0.5
    """

    name = "of-confusion"

    def __init__(self, function: Callable[[np.ndarray], Any] | None = None, vectorised: bool = False):
        self.function = function
        self.vectorised = vectorised

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(_accuracy, True)]

    def value(self, confusion: Any) -> np.ndarray:
        if not callable(self.function):
            raise ValueError(
                f"function must be a function of the table of outputs against labels, got {self.function!r}."
            )
        table = _table(confusion)
        total = table.sum((-1, -2), keepdims=True)
        table = table / np.where(total > 0, total, 1.0)
        check_flag("vectorised", self.vectorised)
        if self.vectorised:
            return self._numbers(self.function(table), table.shape[:-2])
        flat = table.reshape(-1, *table.shape[-2:])
        found = [self.function(one) for one in flat]
        return np.array([self._numbers(one, ()) for one in found]).reshape(table.shape[:-2])

    def _numbers(self, found: Any, shape: tuple[int, ...]) -> np.ndarray:
        values = real_array("What function returns", found)
        if values.shape != shape:
            raise ValueError(
                f"function must return one number for each table, shape {shape}, got shape {values.shape}."
            )
        return values


def _accuracy(table: np.ndarray) -> np.ndarray:
    return np.trace(table, axis1=-2, axis2=-1)
