"""Hulls of 0/1 tables."""

from __future__ import annotations

import numpy as np

from .._numpy import like, to_numpy
from .base import Array, Polytope
from .hull import Hull


class Table(Hull):
    """A hull of 0/1 tables with one 1 in each row, laid row by row: every row lies in a simplex. A child gives `rows`."""

    rows: int

    def entropy(self, mu: Array) -> Array:
        """Zero at a vertex, which every 0/1 point of the hull is; elsewhere A's conjugate, found numerically."""
        flat = to_numpy(mu).astype(float).reshape(-1, self.size)
        inner = ~np.isin(flat, (0, 1)).all(-1)
        out = np.zeros(len(flat))
        if inner.any():
            out[inner] = super().entropy(flat[inner])
        return like(out.reshape(mu.shape[:-1]), mu)

    def includes(self, other: Polytope) -> bool:
        return self == other or super().includes(other)

    def norm(self, order: float) -> float:
        return float(np.linalg.norm(np.ones(self.rows), ord=order))
