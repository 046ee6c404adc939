"""Products with a large sparse matrix, without Python's lock."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..parallel import Executor


class ThreadedSparse:
    """A CSR matrix for products X @ w and X.T @ v with dense w and v of several columns.

    SciPy's products hold the interpreter's lock and take one core. Here each thread owns a range of output rows, in X and,
    by a copy of X in CSC, in its transpose: nothing is added up across threads.
    """

    def __init__(self, rows: Any, executor: Executor):
        self.rows, self.executor = rows, executor
        self.shape, self.dtype = rows.shape, rows.dtype

    @cached_property
    def T(self) -> ThreadedSparse:
        """The transpose: the CSC form of X is its CSR form."""
        return ThreadedSparse(sparse.csr_matrix(self.rows.tocsc().T), self.executor)

    def in_single(self) -> ThreadedSparse:
        """The same in single precision; it shares the places of the entries, and so does its transpose."""
        other = ThreadedSparse(_in_single(self.rows), self.executor)
        other.T = ThreadedSparse(_in_single(self.T.rows), self.executor)
        return other

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        return self.multiply(w, np.empty((self.shape[0], w.shape[1]), dtype=self.dtype))

    def multiply(self, w: np.ndarray, out: np.ndarray) -> np.ndarray:
        """out = X w."""
        from .._compiled.sparse import dot_rows

        X, threads = self.rows, self.executor.threads
        w = np.ascontiguousarray(w, dtype=self.dtype)
        # Equal shares of the entries, not of the rows.
        cuts = np.searchsorted(X.indptr, np.linspace(0, X.nnz, threads + 1))
        cuts[0], cuts[-1] = 0, self.shape[0]
        self.executor.map(lambda i: dot_rows(X.indptr, X.indices, X.data, w, out, cuts[i], cuts[i + 1]), range(threads))
        return out


def _in_single(X: Any) -> Any:
    return sparse.csr_matrix((X.data.astype(np.float32), X.indices, X.indptr), X.shape)


def product(X: Any, w: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """X w, in the memory of `out` where that is given: fresh memory can cost as much as the product."""
    if isinstance(X, ThreadedSparse):
        return X @ w if out is None else X.multiply(w, out)
    if out is None:
        return X @ w
    if isinstance(X, np.ndarray):
        return np.matmul(X, w, out=out)
    out[:] = X @ w
    return out
