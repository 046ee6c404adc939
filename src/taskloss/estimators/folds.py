"""Folds of examples of any layout, and estimators fitted without one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, check_cv
from sklearn.utils import _safe_indexing

from .._checks import count_examples, said_of
from ..data.sequences import Packed

FOLDS = 5


def count(X: Any) -> int:
    """The number of examples."""
    return len(X) if isinstance(X, Packed) else count_examples("X", X)


def take(values: Any, rows: np.ndarray) -> Any:
    """Some of the examples."""
    if isinstance(values, Packed):
        return values[rows]
    return [values[i] for i in rows] if isinstance(values, list | tuple) else _safe_indexing(values, rows)


def refitted(estimator: Any, X: Any, y: Any, weights: np.ndarray | None, **params: Any) -> Any:
    """A fresh fit of the same estimator."""
    return clone(estimator).fit(X, y, **({} if weights is None else {"sample_weight": weights}), **params)


def splits(
    cv: Any, n: int, strata: np.ndarray | None, groups: Any = None, random_state: Any = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, held out) of n examples for each fold of `cv`: folds as scikit-learn takes them, None for five, or a share that is held out."""
    cv, places = FOLDS if cv is None else cv, np.zeros(n)
    if isinstance(cv, float) and not 0 < cv < 1:
        raise ValueError(f"cv must be folds, a share between 0 and 1 that is held out, or 'prefit', got {cv!r}.")
    with said_of("cv", f"split {n} examples, as folds or a share that is held out"):
        if isinstance(cv, float):
            kind = ShuffleSplit if strata is None else StratifiedShuffleSplit
            return list(kind(1, test_size=cv, random_state=random_state).split(places, strata))
        found = list(check_cv(cv, strata, classifier=strata is not None).split(places, strata, groups))
        if not found:
            raise ValueError(f"cv must hold one split of the examples at least, got {cv!r}.")
        return [(_places(train, n), _places(test, n)) for train, test in found]


def _places(rows: Any, n: int) -> np.ndarray:
    """The places of the examples that a split lists, or marks by truth values."""
    rows = np.asarray(rows)
    try:
        return np.arange(n)[rows if rows.size else rows.astype(int)]
    except IndexError as error:
        raise ValueError(f"cv must list places of the {n} examples: {error}.") from error
