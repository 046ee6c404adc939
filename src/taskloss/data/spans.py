"""Spans as users see them, and what chooses among them."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

from .._checks import real_array


class Span(NamedTuple):
    """Positions start, ..., end - 1 of a sequence are one entity of this label; with the probability of exactly that."""

    start: int
    end: int
    label: Any
    probability: float


_OVERLAPPING = 0.5  # spans above it exclude each other, and there are few to follow


def span_threshold(threshold: Any, costs: Any, precision: Any) -> float | None:
    """The least probability at which spans are reported, from one of the three, or None where none is given."""
    if costs is not None:
        pair = real_array("costs", costs, "two costs")
        if pair.shape != (2,) or not np.isfinite(pair).all() or not (pair > 0).all():
            raise ValueError(
                f"costs must be two numbers above zero, of a span that is false and of one that is missed, got {costs!r}."
            )
        return float(pair[0] / pair.sum())
    for name, value in (("threshold", threshold), ("precision", precision)):
        if value is not None and not (isinstance(value, numbers.Real) and 0 < float(value) <= 1):
            raise ValueError(f"{name} must be a probability, above zero and at most one, got {value!r}.")
    return float(threshold) if threshold is not None else _OVERLAPPING if precision is not None else None


def as_precise(probability: np.ndarray, precision: float) -> np.ndarray:
    """The places of the most spans, the likeliest first, whose mean probability is at least this."""
    order = np.argsort(-probability, kind="stable")
    means = np.cumsum(probability[order]) / np.arange(1, len(order) + 1)
    return np.sort(order[: int((means >= precision).sum())])  # the means fall
