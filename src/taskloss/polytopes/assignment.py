"""The matching of greatest score, for many problems at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .._threads import blas_threads, pool

_COMPILED = 1 << 15  # scores in all above which loading the compiled solver is worth it
_THREAD_WORK = 1 << 22  # operations in all below which threads cost more than they give


def assign(scores: Any, outliers: bool = False, method: str = "auto") -> np.ndarray:
    """argmax over matchings of the sum over rows i of scores[p, i, z_i], for each problem p; returns z, (N, m).

    scores (N, m, n), n >= m: every row gets a column of its own. With outliers the last column means "matches
    nothing" and is open to any number of rows. method: "scipy", a loop over SciPy's solver; "compiled", all problems
    in one call on all threads; "auto", the second where the problems are many.
    """
    scores = check_scores(scores, outliers)
    if method == "auto":
        method = "compiled" if scores.size > _COMPILED else "scipy"
    if method == "compiled":
        return assign_with_duals(scores, outliers)[0]
    if method != "scipy":
        raise ValueError(f"method must be 'auto', 'compiled' or 'scipy', got {method!r}.")
    from scipy.optimize import linear_sum_assignment

    n = scores.shape[2] - outliers
    if outliers:  # one column of nothing for each row
        scores = np.concatenate([scores, np.repeat(scores[..., -1:], scores.shape[1] - 1, axis=-1)], axis=-1)
    columns = [linear_sum_assignment(s, maximize=True)[1] for s in scores]
    return np.minimum(np.reshape(columns, scores.shape[:2]), n).astype(np.int64)


def assign_with_duals(scores: np.ndarray, outliers: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matchings, and the duals u (N, m) and w (N, n) that prove them best."""
    from .._compiled import assignment

    problems, m, width = scores.shape
    columns = np.empty((problems, m), np.int64)
    u, w = np.empty((problems, m)), np.empty((problems, width - outliers))
    scores = np.ascontiguousarray(scores)
    in_threads(
        lambda p: assignment.assign(scores[p], bool(outliers), columns[p], u[p], w[p]),
        problems,
        problems * m * m * width,
    )
    return columns, u, w


def in_threads(work: Callable[[slice], Any], count: int, operations: float) -> None:
    """work(slice) over slices of range(count), on as many threads as BLAS may use where the work is worth it."""
    inside = threading.current_thread().name.startswith("taskloss")  # a thread of the pool must not wait for the pool
    threads = 1 if inside or operations < _THREAD_WORK else min(blas_threads(), count)
    if threads == 1:
        work(slice(0, count))
        return
    stops = [count * t // (4 * threads) for t in range(4 * threads + 1)]
    list(pool().map(work, [slice(a, b) for a, b in pairwise(stops) if a < b]))


def check_scores(scores: Any, outliers: bool) -> np.ndarray:
    """Finite scores of a shape that can be matched, or one clear sentence."""
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 3:
        raise ValueError(f"scores must have one table of rows and columns per problem, got shape {scores.shape}.")
    _, m, width = scores.shape
    if width - outliers < (0 if outliers else m):
        raise ValueError(
            f"{m} rows cannot all be matched to {width} columns: let rows match nothing, with a column for it and outliers=True."
        )
    if not (np.abs(scores) < 1e300).all():
        raise ValueError("scores contains NaN or infinite values, or some above 1e300.")
    return scores
