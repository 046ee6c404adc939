"""Rows that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .labels import absent


class GroupIds:
    """Rows that belong together, by one id per row, wherever they stand; groups are numbered in the order of their ids."""

    def __init__(self, ids: Any, n_rows: int):
        try:
            ids = np.asarray(ids)
        except ValueError as error:
            raise ValueError(f"groups must name the group of each of the {n_rows} rows: {error}") from error
        if ids.ndim != 1 or len(ids) != n_rows:
            raise ValueError(
                f"groups must name the group of each of the {n_rows} rows, got shape {ids.shape}; from sizes, it is "
                "np.repeat(np.arange(len(sizes)), sizes)."
            )
        if ids.dtype.kind in "fOM" and any(map(absent, ids.tolist())):
            raise ValueError("groups contains NaN or None: every row needs a group.")
        try:
            self.ids, self.group_of = np.unique(ids, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                f"The ids in groups are of types that cannot be sorted together ({error}): make them all strings or all numbers."
            ) from error
        self.sizes = np.bincount(self.group_of, minlength=len(self.ids))
        self._order = np.argsort(self.group_of, kind="stable")
        self._first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def by_size(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(size, numbers of the groups of that size, their rows as one row each): equal sizes are one array."""
        for size in np.unique(self.sizes).tolist():
            which = np.flatnonzero(self.sizes == size)
            yield size, which, self._order[self._first[which][:, None] + np.arange(size)]
