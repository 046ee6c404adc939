"""Means with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def __contains__(self, number: object) -> bool:
        return isinstance(number, float | int | np.floating) and bool(self.low <= number <= self.high)


def mean_interval(values: np.ndarray, weights: np.ndarray) -> Interval:
    """The weighted mean of values of any sign, with the normal interval."""
    total = weights.sum()
    if total <= 0:
        return Interval(np.nan, np.nan, np.nan)
    w = weights / total
    mean = float(w @ values)
    n = max(1 / float((w**2).sum()), 1.0)
    unit = float(np.abs(values).max()) or 1.0  # squares of large costs would overflow
    error = unit * np.sqrt(float((w**2) @ ((values - mean) / unit) ** 2) * n / max(n - 1, 1.0))
    reach = float(ndtri((1 + LEVEL) / 2)) * error
    return Interval(mean, mean - reach, mean + reach)


def loss_interval(values: np.ndarray, weights: np.ndarray, span: tuple[float, float]) -> Interval:
    """The weighted mean of losses within known ends, with Wilson's interval, generalised to the variance that is seen.

    centre (mean + z^2/n (low + high)/2) / (1 + z^2/n), reach z sqrt(variance/n + (z (high - low) / 2n)^2) / (1 + z^2/n). It does
    not shrink to a point where no example has cost anything, as a rare and large loss may not have been drawn; for 0-1
    losses of equal weights it is Wilson's.
    """
    low, high = span
    total = weights.sum()
    if total <= 0 or not high > low:
        value = float(np.average(values)) if len(values) else np.nan
        return Interval(value, value, value)
    w = weights / total
    n = 1 / float((w**2).sum())
    mean = float(w @ values)
    unit = high - low
    variance = float(w @ ((values - mean) / unit) ** 2)
    z = float(ndtri((1 + LEVEL) / 2))
    centre = (mean + z**2 / n * (low + high) / 2) / (1 + z**2 / n)
    reach = unit * z / (1 + z**2 / n) * np.sqrt(variance / n + (z / (2 * n)) ** 2)
    return Interval(mean, max(low, min(centre - reach, mean)), min(high, max(centre + reach, mean)))
