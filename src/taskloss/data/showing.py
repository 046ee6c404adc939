"""A few rows of y that show every label of a partition, and those of all partitions as one y."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .labels import _column, _indicators, _is_sets, _unique, family


def showing(y: Any, kind: str) -> tuple[Any, np.ndarray]:
    """Rows of y in which every label occurs, and a largest set of labels; and for one label a row the places of all rows' labels there."""
    if kind == "indicator":
        rows = _of_sets(y) if _is_sets(y) else _of_indicators(y)
        return _rows(y, rows), np.zeros(0, dtype=np.int64)
    values = _column(y)
    if values.dtype.kind == "O":
        _unique(values)  # refuses what cannot be sorted
        index: dict[Any, int] = {}
        places = np.fromiter((index.setdefault(v, len(index)) for v in values.tolist()), np.int64, len(values))
        rows = np.unique(places, return_index=True)[1]
    else:
        _, rows, places = np.unique(values, return_index=True, return_inverse=True)
    return _rows(y, rows), places


def together(parts: list[Any]) -> Any:
    """Rows of several partitions as one y."""
    first = parts[0]
    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    if sparse.issparse(first):
        return sparse.vstack(parts, format="csr")
    if isinstance(first, list):
        return [row for part in parts for row in part]
    arrays = [np.asarray(part) for part in parts]
    if len({family(a) for a in arrays}) > 1:  # NumPy would write numbers as words
        arrays = [a.astype(object) for a in arrays]
    return np.concatenate(arrays)


def _of_sets(y: Any) -> np.ndarray:
    y = list(y)
    first: dict[Any, int] = {}
    largest = 0
    for i, row in enumerate(y):
        for label in row:
            first.setdefault(label, i)
        largest = i if len(row) > len(y[largest]) else largest
    return np.array(sorted({largest, *first.values()}), dtype=np.int64)


def _of_indicators(y: Any) -> np.ndarray:
    table: Any = y.tocsr() if sparse.issparse(y) else _indicators(y)
    if table.ndim != 2:
        raise ValueError(f"y must have one column of 0 and 1 per label, got shape {table.shape}.")
    if sparse.issparse(table):
        return np.array([int(np.argmax(np.diff(table.indptr)))])
    values, places = np.unique(table, return_index=True)
    there = (table == values[-1]).sum(axis=1)
    return np.unique([int(np.argmax(there)), *(places // table.shape[1]).tolist()])


def _rows(y: Any, rows: np.ndarray) -> Any:
    if isinstance(y, list | tuple):
        return [y[i] for i in rows]
    return y.iloc[rows] if hasattr(y, "iloc") else y[rows]
