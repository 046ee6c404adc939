"""Products with a large sparse matrix, without Python's lock."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._threads import pool


class ThreadedSparse:
    """A CSR matrix for products X @ w and X.T @ v with dense w and v of several columns.

    SciPy's products hold the interpreter's lock and take one core. Here each thread owns a range of output rows, in X and,
    by a copy of X in CSC, in its transpose: nothing is added up across threads. With one thread, callers run several
    such matrices side by side.
    """

    def __init__(self, rows: Any, threads: int):
        self.rows, self.threads = rows, threads
        self.shape, self.dtype = rows.shape, rows.dtype

    @cached_property
    def T(self) -> ThreadedSparse:
        """The transpose: the CSC form of X is its CSR form."""
        return ThreadedSparse(sparse.csr_matrix(self.rows.tocsc().T), self.threads)

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        return self.multiply(w, np.empty((self.shape[0], w.shape[1]), dtype=self.dtype))

    def multiply(self, w: np.ndarray, out: np.ndarray) -> np.ndarray:
        """out = X w."""
        from .._compiled.sparse import dot_rows

        X = self.rows
        w = np.ascontiguousarray(w, dtype=self.dtype)
        if self.threads == 1:
            dot_rows(X.indptr, X.indices, X.data, w, out, 0, self.shape[0])
            return out
        # Equal shares of the entries, not of the rows.
        cuts = np.searchsorted(X.indptr, np.linspace(0, X.nnz, self.threads + 1))
        cuts[0], cuts[-1] = 0, self.shape[0]
        parts = range(self.threads)
        list(pool().map(lambda i: dot_rows(X.indptr, X.indices, X.data, w, out, cuts[i], cuts[i + 1]), parts))
        return out
