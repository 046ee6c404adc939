"""The matching of greatest score, for many problems at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..parallel import Executor

_COMPILED = 1 << 15  # scores in all above which loading the compiled solver is worth it
_OPERATION = 4  # multiplications that one costs


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
    """work(slice) over slices of range(count); an operation of a matching counts as several multiplications."""
    executor = Executor.for_work(_OPERATION * operations, count)
    executor.over(work, count, 4 * executor.threads if executor.threads > 1 else 1)


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
