"""Sets of labels with their sizes."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from .._numpy import like, to_numpy
from .base import Array, listable
from .table import Table


class SizedSets(Table):
    """The statistics of sets of at most max_size among n labels: a table with n + 1 rows and max_size + 1 columns.

    Row j < n of a set y is e_0 where j is not in y, and e_|y| where it is; the last row is e_|y|. Every row lies in a
    simplex. Its maximiser sorts the labels once per size; log-partition and entropy go by listing the sets.
    """

    name = "sized-sets"

    def __init__(self, n: int = 2, max_size: int | None = None):
        self.n = n
        self.max_size = max_size

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3), cls(3, max_size=1)]

    @property
    def sizes(self) -> int:
        return self.n if self.max_size is None else self.max_size

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.n + 1

    @property
    def columns(self) -> int:
        return self.sizes + 1

    @property
    def size(self) -> int:
        return self.rows * self.columns

    def statistics(self, sets: np.ndarray, dtype: type = float) -> np.ndarray:
        """The tables of sets given as rows of 0 and 1."""
        count = sets.sum(-1, dtype=np.int64)[..., None]
        code = np.concatenate([np.where(sets > 0, count, 0), count], axis=-1)
        return (code[..., None] == np.arange(self.columns)).astype(dtype).reshape(*sets.shape[:-1], self.size)

    def sets(self) -> np.ndarray:
        """All sets, as rows of 0 and 1."""
        listable(sum(math.comb(self.n, s) for s in range(self.sizes + 1)))
        listable(2.0**self.n)
        every = (np.arange(2**self.n)[:, None] >> np.arange(self.n)[::-1]) & 1
        return every[every.sum(-1) <= self.sizes]

    def vertices(self) -> np.ndarray:
        return self.statistics(self.sets())

    def maximiser(self, v: Array) -> Array:
        tables = to_numpy(v).astype(float).reshape(-1, self.rows, self.columns)
        best = tables[:, -1, 0].copy()
        chosen = np.zeros((len(tables), self.n), dtype=np.int64)
        for s in range(1, self.columns):
            # Of the sets of size s, the labels that gain most by being in.
            gain = tables[:, :-1, s] - tables[:, :-1, 0]
            order = np.argsort(-gain, axis=-1, kind="stable")[:, :s]
            value = np.take_along_axis(gain, order, -1).sum(-1) + tables[:, -1, s]
            better = value > best
            best = np.where(better, value, best)
            member = np.zeros_like(chosen)
            np.put_along_axis(member, order, 1, axis=-1)
            chosen = np.where(better[:, None], member, chosen)
        return like(self.statistics(chosen).reshape(v.shape), v)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.size), np.ones(self.size)
