"""Users' forbidden transitions, and the limits on states that inference reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._checks import is_list
from ..polytopes._forest import Forest, Limits


def read_forbidden(forbidden: Any, classes: np.ndarray) -> Limits:
    """Limits from pairs (label, next label), None standing for the start or the end; pairs with other labels are passed over."""
    if forbidden is None:
        return Limits()
    k = len(classes)
    table = np.zeros((k + 1, k + 1))  # the last row is the start, the last column the end
    index = {label: i for i, label in enumerate(classes.tolist())} | {None: k}
    many = isinstance(forbidden, Iterator) or is_list(forbidden)
    for pair in forbidden if many else [forbidden]:
        if isinstance(pair, str) or np.shape(pair)[:1] != (2,) or all(label is None for label in pair):
            raise ValueError(f"forbidden must list pairs (label, next label), with None for an end; got {pair!r}.")
        try:
            before, after = (index.get(label) for label in pair)
        except TypeError as error:
            raise ValueError(f"forbidden must list pairs of labels, and {pair!r} holds what is none.") from error
        if before is not None and after is not None:  # a fold may lack a rare label
            table[before, after] = -np.inf
    parts = table[:k, :k], table[k, :k], table[:k, k]
    return Limits(*(part if np.isneginf(part).any() else None for part in parts))


def check_transitions(limits: Limits, forest: Forest, codes: np.ndarray, classes: np.ndarray) -> None:
    """Refuse labels that the limits hold to be impossible; a code of -1 is a missing label."""
    names, nowhere = classes.tolist(), np.zeros(1, dtype=np.int64)
    steps = (
        (limits.transition, codes[forest.parents[forest.children]], codes[forest.children]),
        (None if limits.start is None else limits.start[None], nowhere, codes[forest.roots]),
        (None if limits.end is None else limits.end[:, None], codes[forest.leaves], nowhere),
    )
    for table, before, after in steps:
        if table is None:
            continue
        before, after = np.broadcast_arrays(before, after)
        bad = np.flatnonzero((before >= 0) & (after >= 0) & np.isneginf(table[before, after]))
        if len(bad):
            a = "the start" if len(table) == 1 else repr(names[before[bad[0]]])
            b = "the end" if table.shape[1] == 1 else repr(names[after[bad[0]]])
            raise ValueError(
                f"The training data go from {a} to {b}, which is forbidden: correct the labels, or allow it."
            )
