"""Pairs of graphs and their matchings, as rows of features and columns of codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import is_list, real_array

_FEATURES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "squared": lambda a, b: (a[:, None] - b[None]) ** 2,
    "absolute": lambda a, b: np.abs(a[:, None] - b[None]),
    "product": lambda a, b: a[:, None] * b[None],
}


def pair_tables(X: Any, features: Any, unmatched: str | None) -> list[np.ndarray]:
    """The features of pairs of nodes, (rows, columns, p), example by example."""
    if not is_list(X):
        raise ValueError(f"X must be a list of examples, each a pair of graphs, got {X!r}.")
    tables = [_table(x, features, i) for i, x in enumerate(X)]
    if not tables:
        raise ValueError("X has no examples: at least one pair of graphs is needed.")
    for i, table in enumerate(tables):
        if table.ndim != 3 or 0 in table.shape:
            raise ValueError(
                f"Example {i} of X must be a pair of node-feature arrays, or an array (rows, columns, features), none of them empty; got shape {table.shape}."
            )
        if not np.isfinite(table).all():
            raise ValueError(f"Example {i} of X contains NaN or infinite features.")
        if table.shape[2] != tables[0].shape[2]:
            raise ValueError(
                f"Example {i} of X has {table.shape[2]} features and the first example {tables[0].shape[2]}."
            )
        m, n = table.shape[:2]
        if (unmatched is None and m != n) or (unmatched == "columns" and m > n):
            raise ValueError(
                f"Example {i} of X has {m} rows and {n} columns, so that not every node can be matched: pass unmatched='columns' where "
                "columns may be left over, or unmatched='both' where rows may match nothing too."
            )
    return tables


def _table(x: Any, features: Any, i: int) -> np.ndarray:
    if not isinstance(x, tuple | list) or len(x) != 2 or _dimensions(x[0]) != 2:
        return real_array(f"Example {i} of X", x)
    a, b = (real_array(f"Example {i} of X", nodes.toarray() if sparse.issparse(nodes) else nodes) for nodes in x)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(
            f"Example {i} of X must be two arrays of one row per node, got shapes {a.shape} and {b.shape}."
        )
    make = features if callable(features) else _FEATURES.get(features)
    if make is None:
        raise ValueError(f"features must be one of {', '.join(_FEATURES)} or a function, got {features!r}.")
    if not callable(features) and a.shape[1:] != b.shape[1:]:
        raise ValueError(f"Example {i} of X: the nodes of its two graphs have {a.shape[1]} and {b.shape[-1]} features.")
    return real_array("The result of features", make(a, b))


def _dimensions(x: Any) -> int:
    """How many dimensions something has as an array; ragged lists, which make none, have one."""
    try:
        return np.ndim(x)
    except ValueError:
        return 1


def matchings(y: Any, tables: Sequence[np.ndarray], unmatched: str | None) -> list[np.ndarray]:
    """The column of each row, example by example."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    if not is_list(y):
        raise ValueError(f"y must hold a matching for each example, got {y!r}.")
    y = [real_array(f"Example {i}: its y", row, "numbers of columns") for i, row in enumerate(y)]
    if len(y) != len(tables):
        raise ValueError(f"X and y have different lengths: {len(tables)} and {len(y)}.")
    low = -1 if unmatched == "both" else 0
    for i, (row, table) in enumerate(zip(y, tables, strict=True)):
        m, n = table.shape[:2]
        if row.shape != (m,):
            raise ValueError(
                f"Example {i} has {m} rows to match, but its y has shape {row.shape}: one column number per row."
            )
        if row.dtype.kind not in "iuf" or not (row == np.floor(row)).all():
            raise ValueError(f"Example {i}: its y must be numbers of columns, got {row.tolist()}.")
        if row.min() < low or row.max() >= n:
            hint = "" if unmatched == "both" else "; rows that match nothing (-1) need unmatched='both'"
            raise ValueError(f"Example {i}: its y must be columns from {low} to {n - 1}, got {row.tolist()}{hint}.")
        used = row[row >= 0]
        if len(np.unique(used)) < len(used):
            raise ValueError(f"Example {i}: its y matches two rows to the same column.")
    return y


def spread_of(tables: Sequence[np.ndarray]) -> tuple[int, np.ndarray, np.ndarray]:
    """How many pairs of nodes there are, the mean of each of their features, and the sum of squares about it."""
    count = sum(t.shape[0] * t.shape[1] for t in tables)
    mean = sum(t.sum((0, 1)) for t in tables) / count
    return count, mean, np.asarray(sum(((t - mean) ** 2).sum((0, 1)) for t in tables))


def scale_of(spreads: Sequence[tuple[int, np.ndarray, np.ndarray]]) -> np.ndarray:
    """The standard deviation of each feature over all parts; one where it does not vary."""
    total = sum(count for count, _, _ in spreads)
    mean = sum(count * m for count, m, _ in spreads) / total
    squares = sum(s + count * (m - mean) ** 2 for count, m, s in spreads)
    spread = np.sqrt(squares / total)
    return np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)


def pair_rows(tables: Sequence[np.ndarray], scale: np.ndarray, outliers: bool) -> np.ndarray:
    """One row of features per pair of nodes; "matches nothing" is one more column, with a feature of its own."""
    stacked = np.stack(tables) / scale
    if outliers:
        stacked = np.pad(stacked, [(0, 0), (0, 0), (0, 1), (0, 1)])
        stacked[:, :, -1, -1] = 1
    return stacked.reshape(-1, stacked.shape[-1])
