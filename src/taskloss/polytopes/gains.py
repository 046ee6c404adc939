"""The normalised gains of rankings."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._numpy import like, to_numpy
from .base import Array, Polytope, listable
from .hull import Hull


class Gains(Hull):
    """{mu >= 0 : sum_j D_j mu_(j) <= 1}, mu_(1) >= mu_(2) >= ...: hull of the gains of NDCG, divided by their best DCG.

    `discounts` D are positions' weights, from 1 down. The vertices are 1_S / (D_1 + ... + D_|S|) for the sets S of
    items: binary relevance makes them all. The empty set is the origin, or with `empty` > 0 that share of the vertex
    of all items.
    """

    name = "gains"

    def __init__(self, discounts: Any = (1.0, 0.5), empty: float = 0.0):
        self.discounts = discounts
        self.empty = empty

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls((1.0, 0.6, 0.5)), cls((1.0, 0.6, 0.0), empty=0.5), cls((1.0, 0.6), empty=1.0)]

    @property
    def size(self) -> int:
        return len(self.discounts)

    @property
    def dimension(self) -> int:
        return self.size

    def _vertex(self, chosen: np.ndarray) -> np.ndarray:
        count = chosen.sum(-1, keepdims=True)
        best = np.concatenate([[np.inf], np.cumsum(self.discounts)])
        return np.where(count == 0, self.empty / best[-1], chosen / best[count])

    def vertices(self) -> np.ndarray:
        listable(2.0**self.size)
        points = self._vertex((np.arange(2**self.size)[:, None] >> np.arange(self.size)[::-1]) & 1)
        return points[1:] if self.empty == 1 else points  # all of the vertex of all items is that vertex, not one more

    def maximiser(self, v: Array) -> Array:
        # For each number of items the best set is the top of the order; compare those, and the empty set.
        scores = to_numpy(v).astype(float)
        order = np.argsort(-scores, axis=-1, kind="stable")
        values = np.cumsum(np.take_along_axis(scores, order, -1), -1) / np.cumsum(self.discounts)
        values = np.concatenate([self.empty * values[..., -1:], values], -1)
        rank = np.argsort(order, axis=-1)
        return like(self._vertex((rank < values.argmax(-1)[..., None]).astype(np.int64)), v)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        low = self.empty / np.sum(self.discounts) if self.size == 1 else 0.0
        return np.full(self.size, low), np.ones(self.size)

    def includes(self, other: Polytope) -> bool:
        return self == other or super().includes(other)
