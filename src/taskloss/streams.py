"""Batches of examples from arrays and files that need not fit in memory, for `fit_stream`."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

__all__ = ["from_arrays", "from_csv"]


def from_arrays(X: Any, y: Any, size: int = 1024) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Consecutive rows of two arrays, or of two .npy files, which are read piece by piece."""
    X, y = (np.load(a, mmap_mode="r") if isinstance(a, str | pathlib.Path) else a for a in (X, y))
    if X.shape[0] != y.shape[0]:
        raise ValueError(f"X and y have different lengths: {X.shape[0]} and {y.shape[0]}.")
    for start in range(0, X.shape[0], size):
        rows = X[start : start + size]
        yield (np.array(rows) if isinstance(rows, np.memmap) else rows), np.array(y[start : start + size])


def from_csv(
    path: Any, target: str | int = -1, size: int = 1024, delimiter: str = ",", header: bool = True
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of a file of numbers, one of whose columns, by name or place, is the label; labels may be words."""
    with open(path, newline="") as file:
        lines = csv.reader(file, delimiter=delimiter)
        names = next(lines, []) if header else []
        if isinstance(target, str) and target not in names:
            raise ValueError(
                f"{path} has no column named {target!r}; its columns are {', '.join(names) or 'not named'}."
            )
        column = names.index(target) if isinstance(target, str) else target
        line = int(header)
        while rows := list(islice(lines, size)):
            try:
                y = np.array([row.pop(column) for row in rows])
                yield np.array(rows, dtype=float), _labels(y)
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"{path}, in lines {line + 1} to {line + len(rows)}: every row must hold the same number of numbers ({error})."
                ) from error
            line += len(rows)


def _labels(y: np.ndarray) -> np.ndarray:
    try:
        numbers = y.astype(float)
    except ValueError:
        return y
    return numbers.astype(int) if np.array_equal(numbers, np.rint(numbers)) else numbers
