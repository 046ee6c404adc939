"""Hamming loss over matchings."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..polytopes.assignment import assign
from ..polytopes.birkhoff import Birkhoff
from .base import Array, Loss, check_prices


class MatchingHamming(Loss):
    """L(z, y) = the share of rows matched to another column than y's, 1 - <X_z, X_y> / n_rows with X the 0/1 tables.

    y and z give each row its column; no column is given twice. With `outliers` a row may match nothing, written -1,
    and the tables have a last column for it. phi(y) = X_y laid row by row, psi(z) = -X_z / n_rows, c = 1; M is
    polytopes.Birkhoff. Decoding is a linear assignment on the moments (the paper's section on graph matching).
    """

    name = "matching-hamming"
    kind = "matching"

    def __init__(self, n_rows: int | None = None, n_columns: int | None = None, outliers: bool = False):
        self.n_rows = n_rows
        self.n_columns = n_columns
        self.outliers = outliers

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3), cls(2, 3), cls(2, 2, outliers=True)]

    def bind(self, size: int, n_columns: int | None = None) -> Self:
        shape = (size, size if n_columns is None else n_columns)
        if self.n_rows is None:
            return self.with_params(n_rows=shape[0], n_columns=shape[1])
        if (self.n_rows, self.n_columns or self.n_rows) != shape:
            raise ValueError(f"{self!r} is a loss over other tables than {shape[0]} rows and {shape[1]} columns.")
        return self

    @property
    def polytope(self) -> Birkhoff:
        if self.n_rows is None:
            raise ValueError(
                "MatchingHamming does not know its sizes yet: give n_rows, or call bind(n_rows, n_columns)."
            )
        return Birkhoff(self.n_rows, self.n_columns, self.outliers)

    def _codes(self, y: Array, what: str) -> np.ndarray:
        """Columns from 0, with the last one for nothing."""
        polytope = self.polytope
        m, n = polytope.n_rows, polytope.columns
        y = np.asarray(y)
        if y.shape[-1:] != (m,):
            raise ValueError(f"{what} must give each of the {m} rows a column, got shape {y.shape}.")
        if y.dtype.kind not in "iu" and not (y == np.floor(y)).all():
            raise ValueError(f"{what} must be numbers of columns, got dtype {y.dtype}.")
        y = y.astype(np.int64)
        low = -1 if self.outliers else 0
        if y.size and (y.min() < low or y.max() >= n):
            hint = "" if self.outliers else "; rows that match nothing (-1) need outliers=True"
            raise ValueError(
                f"{what} must be columns from {low} to {n - 1}, got values from {y.min()} to {y.max()}{hint}."
            )
        ordered = np.sort(y, axis=-1)
        if ((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any():
            raise ValueError(f"{what} match two rows to the same column.")
        return np.where(y < 0, n, y)

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        return self._indicators(self._codes(y, "labels"), dtype)

    def _indicators(self, codes: np.ndarray, dtype: Any = float) -> np.ndarray:
        table = codes[..., None] == np.arange(self.polytope.width)
        return table.astype(dtype).reshape(*codes.shape[:-1], self.polytope.size)

    def psi(self, z: Array) -> np.ndarray:
        return -self._indicators(self._codes(z, "outputs")) / self.polytope.n_rows

    @property
    def constant(self) -> float:
        return 1.0

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        return (self._codes(z, "outputs") != self._codes(y, "labels")).mean(-1)

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """The matching of largest expected overlap; costs (n, rows, columns) are the prices of each pair (the last column: of nothing)."""
        polytope = self.polytope
        mu = np.asarray(mu, dtype=float)
        tables = mu.reshape(-1, polytope.n_rows, polytope.width)
        if costs is not None:
            tables = tables - polytope.n_rows * check_prices(costs, tables.shape, "pair of nodes")
        z = assign(tables, self.outliers)
        return np.where(z == polytope.columns, -1, z).reshape(*mu.shape[:-1], polytope.n_rows)

    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def by_part(self, z: Array, y: Array) -> np.ndarray:
        wrong = self._codes(z, "outputs") != self._codes(y, "labels")
        return wrong / self.polytope.n_rows

    def price(self, z: Array, costs: Array) -> np.ndarray:
        prices = np.take_along_axis(np.asarray(costs), self._codes(z, "outputs")[..., None], axis=-1)
        return prices[..., 0].sum(-1)

    def outputs(self) -> np.ndarray:
        z = self.polytope.matchings()
        return np.where(z == self.polytope.columns, -1, z)

    def labels(self) -> np.ndarray:
        return self.outputs()

    def scorer(self, costs: Any = None) -> Any:
        raise ValueError("Matchings are scored by Matcher.score(X, y): pass scoring=None.")
