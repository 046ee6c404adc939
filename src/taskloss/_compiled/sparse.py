"""Rows of a CSR matrix times a dense matrix, without Python's lock: callers run ranges of rows on threads."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def dot_rows(indptr, indices, data, w, out, start, stop):
    """out[start:stop] = X[start:stop] @ w. Rows of w are contiguous, so that the inner loop runs in vectors."""
    k = w.shape[1]
    for i in range(start, stop):
        for c in range(k):
            out[i, c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            x, j = data[p], indices[p]
            for c in range(k):
                out[i, c] += x * w[j, c]
