"""Batches of examples from arrays and files that need not fit in memory, for `fit_stream`."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

__all__ = ["from_arrays", "from_csv"]

_HELD: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), str: (int, float, str)}  # types in one another


def from_arrays(X: Any, y: Any, size: int = 1024) -> Iterator[tuple[Any, Any]]:
    """Consecutive rows of two arrays, frames or lists, or of two .npy files, which are read piece by piece."""
    _check_size(size)
    X, y = (np.load(a, mmap_mode="r") if isinstance(a, str | pathlib.Path) else a for a in (X, y))
    n = _num_samples(X)
    if n != _num_samples(y):
        raise ValueError(f"X and y have different lengths: {n} and {_num_samples(y)}.")
    for start in range(0, n, size):
        rows = (a[start : start + size] for a in (X, y))
        X_rows, y_rows = (np.array(a) if isinstance(a, np.memmap) else a for a in rows)
        yield X_rows, y_rows


def from_csv(
    path: Any, target: str | int = -1, size: int = 1024, delimiter: str = ",", header: bool = True, labels: Any = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of a file of numbers, one of whose columns, by name or place, is the label; labels may be words.

    labels: their type, int, float or str; None is the narrowest that holds those of the first batch. Blank lines are
    skipped.
    """
    _check_size(size)
    with open(path, newline="") as file:
        lines = csv.reader(file, delimiter=delimiter)
        names = next(lines, []) if header else []
        if isinstance(target, str) and target not in names:
            raise ValueError(
                f"{path} has no column named {target!r}; its columns are {', '.join(names) or 'not named'}."
            )
        column = names.index(target) if isinstance(target, str) else target
        line = int(header)
        while batch := list(islice(lines, size)):
            where = f"{path}, in lines {line + 1} to {line + len(batch)}"
            line += len(batch)
            rows = [row for row in batch if row]
            if not rows:
                continue
            try:
                words = np.array([row.pop(column) for row in rows])
                X = np.array(rows, dtype=float)
            except (ValueError, IndexError) as error:
                raise ValueError(f"{where}: every row must hold the same number of numbers ({error}).") from error
            labels = _type(words) if labels is None else labels
            if _type(words) not in _HELD[labels]:
                raise ValueError(
                    f"{where}: the labels are not all of type {labels.__name__}: pass labels=float, or labels=str for words."
                )
            yield X, words if labels is str else words.astype(float).astype(labels)


def _type(words: np.ndarray) -> type:
    """The narrowest of int, float and str that holds these labels."""
    try:
        numbers = words.astype(float)
    except ValueError:
        return str
    return int if np.array_equal(numbers, np.rint(numbers)) else float


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"size must be at least one row, got {size!r}.")
