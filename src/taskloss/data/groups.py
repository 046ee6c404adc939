"""Rows that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._checks import real_array
from .labels import absent


def group_ids(groups: Any, group: Any, qid: Any, n_rows: int) -> Any:
    """The id of each row's group, in whichever of the three forms it is given; None where in none.

    groups, qid: an id for each row. group: the sizes of groups whose rows stand together, in their order.
    """
    given = {name: value for name, value in (("groups", groups), ("group", group), ("qid", qid)) if value is not None}
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} say the same thing in other words: give one of them.")
    if group is None:
        return groups if qid is None else qid
    sizes = real_array("group", group, "the sizes of the groups")
    if sizes.ndim != 1 or not (sizes == np.round(sizes)).all() or not (sizes > 0).all() or sizes.sum() != n_rows:
        total = f", which sum to {sizes.sum():g}" if sizes.ndim == 1 and np.isfinite(sizes).all() else ""
        raise ValueError(
            f"group must be the sizes of the groups, whole numbers above zero that sum to the {n_rows} rows, got "
            f"{len(sizes) if sizes.ndim else 1} of them{total}; an id for each row is groups=... or qid=..."
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64))


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

    def means(self, rows: np.ndarray) -> np.ndarray:
        """The mean of each group's rows."""
        return np.bincount(self.group_of, rows) / self.sizes

    def by_size(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(size, numbers of the groups of that size, their rows as one row each): equal sizes are one array."""
        for size in np.unique(self.sizes).tolist():
            which = np.flatnonzero(self.sizes == size)
            yield size, which, self._order[self._first[which][:, None] + np.arange(size)]
