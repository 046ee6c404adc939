"""Probabilities of labels, from anyone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import real_array
from ..parallel import Executor
from ..polytopes._membership import on_simplex

_TOLERANCE = 1e-5  # of a sum of probabilities: a few roundings of single precision
_ROWS = 1 << 14  # checked together: smaller blocks wait for each other on threads


def read_laws(name: str, proba: Any, sets: bool = False) -> np.ndarray:
    """Probabilities of labels, one row for each example, or one clear sentence."""
    q = real_array(name, proba, "probabilities")
    if q.ndim != 2 or q.shape[1] < (1 if sets else 2):
        raise ValueError(
            f"{name} must have one row for each example and one column for each label, got shape {q.shape}"
            + (": for two labels give both columns, np.column_stack([1 - p, p])." if q.ndim == 1 else ".")
        )
    executor = Executor.for_work(10.0 * q.size, -(-len(q) // _ROWS))
    quick = executor.compiled and not sets

    def check(rows: slice) -> None:
        if not (quick and on_simplex(q[rows], _TOLERANCE)):  # what else they are is looked at anew
            _refuse_unlawful(name, q, rows, sets)

    executor.over(check, len(q))
    return q


def _refuse_unlawful(name: str, q: np.ndarray, rows: slice, sets: bool) -> None:
    """One sentence on what is no probability or sums to something else, if any of these rows does."""
    one = np.ones(q.shape[1])
    for start in range(rows.start, rows.stop, _ROWS):  # while a block is in the cache
        block = q[start : min(start + _ROWS, rows.stop)]
        low, high = block.min(), block.max()
        if not (low >= -_TOLERANCE and high <= 1 + _TOLERANCE):
            raise ValueError(
                f"{name} must be probabilities, from 0 to 1, got {low if not low >= -_TOLERANCE else high}."
            )
        total = block @ one
        if not sets and (abs(total.max() - 1) > _TOLERANCE or abs(total.min() - 1) > _TOLERANCE):
            worst = int(np.argmax(np.abs(total - 1)))
            raise ValueError(
                f"Each row of {name} must sum to one, but row {start + worst} sums to {total[worst]:.6g}: divide by the sums, or "
                "pass probabilities in the place of scores."
            )
