"""The Birkhoff polytope of matchings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from .._numpy import like, to_numpy, with_gradient
from .assignment import assign, assign_with_duals, check_scores, in_threads
from .base import Array, listable
from .table import Table

LIMIT = 16  # columns up to which exact marginals are offered: time and memory grow with 2^columns


class Birkhoff(Table):
    """The hull of matching matrices, n_rows x n_columns laid row by row: one 1 in each row, at most one in each column.

    Square, these are permutation matrices and the hull is the doubly stochastic matrices, of dimension (m - 1)^2. With
    more columns than rows some columns are left over. With `outliers` the last of n_columns + 1 columns means "matches
    nothing" and may hold many.

    A(v) is the logarithm of the permanent of exp(v), exact by a sum over sets of columns in time rows 2^columns
    columns, up to 16 columns; beyond that it is refused (the permanent is #P-hard). Before the sum, v is shifted by
    the duals of its best matching, after which every entry is at most one and that matching's product is one: no
    overflow, no loss of digits. The maximiser is a linear assignment, at any size.
    """

    name = "birkhoff"
    two_valued = True

    def __init__(self, n_rows: int = 3, n_columns: int | None = None, outliers: bool = False):
        self.n_rows = n_rows
        self.n_columns = n_columns
        self.outliers = outliers

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3), cls(2, 3), cls(3, 2, outliers=True)]

    @property
    def columns(self) -> int:
        if self.n_rows is None:
            raise ValueError(f"{self!r} does not know its size yet: give n_rows.")
        n = self.n_rows if self.n_columns is None else self.n_columns
        if self.n_rows < 1 or n < (1 if self.outliers else self.n_rows):
            raise ValueError(
                f"n_rows={self.n_rows} rows cannot all be matched to n_columns={n} columns: pass outliers=True so that rows may match nothing."
            )
        return n

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.n_rows

    @property
    def width(self) -> int:
        return self.columns + self.outliers

    @property
    def size(self) -> int:
        return self.n_rows * self.width

    @property
    def dimension(self) -> int:
        # Square: rows and columns sum to one. Elsewhere only rows do, the columns' sums being at most one.
        square = not self.outliers and self.columns == self.n_rows
        return (self.n_rows - 1) ** 2 if square else self.n_rows * (self.width - 1)

    def _tables(self, v: Array) -> np.ndarray:
        return v.reshape(-1, self.n_rows, self.width)

    # -- inference ---------------------------------------------------------------------------------------------------

    def log_partition_and_marginals(self, v: Array) -> tuple[Array, Array]:
        totals, mu = self._permanents(to_numpy(v))
        marginals = like(mu.reshape(v.shape), v)
        return with_gradient(like(totals.reshape(v.shape[:-1]), v), marginals, v), marginals

    def _entries(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """exp(v) divided by the duals of its best matching, the factors of columns left over, and the shift of A."""
        n = self.columns
        if n > LIMIT:
            raise ValueError(
                f"Exact marginals of matchings are offered up to {LIMIT} columns, and these have {n}: their time grows with "
                "2^columns. Use RowMultinomial() or Quadratic(), which need none."
            )
        tables = self._tables(v)
        tables = tables if np.iscomplexobj(tables) else tables.astype(float, copy=False)
        _, u, w = assign_with_duals(check_scores(tables.real, self.outliers), self.outliers)
        entries = tables - u[..., None]
        entries[..., :n] -= w[:, None, :]
        return np.exp(entries), np.exp(-w).astype(tables.dtype), u.sum(-1) + w.sum(-1)

    def _permanents(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from .._compiled import assignment

        entries, left, shift = self._entries(v)
        totals, mu = np.empty(len(entries), entries.dtype), np.empty_like(entries)
        in_threads(
            lambda p: assignment.permanent(entries[p], left[p], self.columns, totals[p], mu[p]),
            len(entries),
            len(entries) * self.n_rows * 2.0**self.columns,
        )
        return np.log(totals) + shift, mu

    def sample(self, v: Array, count: int = 1, random_state: Any = None) -> np.ndarray:
        """Matchings drawn from the law with scores v, (count, N, n_rows): the column of each row, -1 for nothing."""
        from .._compiled import assignment

        entries, left, _ = self._entries(to_numpy(v))
        uniforms = check_random_state(random_state).random_sample((len(entries), count, self.n_rows))
        columns = np.zeros(uniforms.shape, np.int64)
        assignment.sample(entries, left, self.columns, uniforms, columns)
        return np.swapaxes(np.where(columns == self.columns, -1, columns), 0, 1)

    def covariance(self, v: Array) -> Callable[[Array], Array]:
        # The marginals are analytic in v, so that the imaginary part of marginals(v + i h u) / h is their derivative
        # along u, to all digits, for h so small that h^2 vanishes.
        start, step = to_numpy(v).astype(float), 1e-30

        def product(u: Array) -> Array:
            change = self._permanents(start + 1j * step * to_numpy(u))[1].imag / step
            return like(change.reshape(start.shape), v)

        return product

    @property
    def independent(self) -> bool:
        return self.dimension == self.count - 1

    def maximiser(self, v: Array) -> Array:
        columns = assign(self._tables(to_numpy(v)), self.outliers)
        return like((columns[..., None] == np.arange(self.width)).astype(float).reshape(v.shape), v)

    # -- geometry ----------------------------------------------------------------------------------------------------

    def contains(self, mu: Array, tol: float = 1e-9) -> Any:
        tables = self._tables(to_numpy(mu))
        inside = (
            (tables >= -tol).all((-1, -2))
            & (np.abs(tables.sum(-1) - 1) <= tol).all(-1)
            & (tables[..., : self.columns].sum(-2) <= 1 + tol).all(-1)
        )
        return like(inside.reshape(mu.shape[:-1]), mu)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        fixed = self.size == 1
        return np.full(self.size, float(fixed)), np.ones(self.size)

    @property
    def count(self) -> int:
        """The number of matchings."""
        m, n = self.n_rows, self.columns
        if not self.outliers:
            return math.perm(n, m)
        return sum(math.comb(m, k) * math.perm(n, k) for k in range(min(m, n) + 1))

    def matchings(self) -> np.ndarray:
        """All matchings, as the column of each row; column n_columns stands for nothing."""
        listable(self.count)
        n = self.columns
        partial: list[tuple[int, ...]] = [()]
        for _ in range(self.n_rows):
            partial = [(*z, j) for z in partial for j in range(self.width) if j == n or j not in z]
        return np.array(partial, dtype=np.int64)

    def vertices(self) -> np.ndarray:
        z = self.matchings()
        return (z[..., None] == np.arange(self.width)).astype(float).reshape(len(z), self.size)
