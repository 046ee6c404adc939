"""Rows of a CSR matrix times a dense matrix, without Python's lock: callers run ranges of rows on threads."""

from __future__ import annotations

from .caching import njit


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def dot_rows(indptr, indices, data, w, out, start, stop):
    """out[start:stop] = X[start:stop] @ w. Rows of w are contiguous, so that the inner loops run in vectors, over four entries of X at a time."""
    k = w.shape[1]
    for i in range(start, stop):
        row, p, last = out[i], indptr[i], indptr[i + 1]
        row[:] = 0
        while p + 4 <= last:
            x0, x1, x2, x3 = data[p], data[p + 1], data[p + 2], data[p + 3]
            w0, w1, w2, w3 = w[indices[p]], w[indices[p + 1]], w[indices[p + 2]], w[indices[p + 3]]
            for c in range(k):
                row[c] += x0 * w0[c] + x1 * w1[c] + x2 * w2[c] + x3 * w3[c]
            p += 4
        while p < last:
            x0, w0 = data[p], w[indices[p]]
            for c in range(k):
                row[c] += x0 * w0[c]
            p += 1
