"""Products with a large sparse matrix on threads."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from .._threads import pool


class ThreadedSparse:
    """A CSR matrix and its transpose, for products X @ w and X.T @ v with dense w and v of several columns.

    SciPy's products hold the interpreter's lock and take one core. Here each thread owns a range of output rows, in X and,
    by a copy of X in CSC, in its transpose: nothing is added up across threads.
    """

    def __init__(self, rows: Any, columns: Any, threads: int):
        self.rows, self.columns, self.threads = rows, columns, threads
        self.shape, self.dtype = rows.shape, rows.dtype

    @classmethod
    def of(cls, X: Any, threads: int) -> Self:
        # The CSC form of X is the CSR form of its transpose.
        return cls(X, sparse.csr_matrix(X.tocsc().T), threads)

    @property
    def T(self) -> ThreadedSparse:
        return ThreadedSparse(self.columns, self.rows, self.threads)

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        return self.multiply(w, np.empty((self.shape[0], w.shape[1]), dtype=self.dtype))

    def multiply(self, w: np.ndarray, out: np.ndarray) -> np.ndarray:
        """out = X w."""
        from .._compiled.sparse import dot_rows

        X = self.rows
        w = np.ascontiguousarray(w, dtype=self.dtype)
        # Equal shares of the entries, not of the rows.
        cuts = np.searchsorted(X.indptr, np.linspace(0, X.nnz, self.threads + 1))
        cuts[0], cuts[-1] = 0, self.shape[0]
        list(
            pool().map(
                lambda i: dot_rows(X.indptr, X.indices, X.data, w, out, cuts[i], cuts[i + 1]), range(self.threads)
            )
        )
        return out
