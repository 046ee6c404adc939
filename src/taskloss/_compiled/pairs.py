"""Products with the many vectors that L-BFGS remembers, each read once, block by block of a point that stays in the nearest cache."""

from __future__ import annotations

import numpy as np

from .caching import njit

_BLOCK = 2048  # numbers of the point

compiled = njit(nogil=True, error_model="numpy", fastmath={"contract"})


@compiled
def inner(vectors, x, out, start, stop):
    """out[i] += sum_r vectors[i, r] x[r] over the rows r = start, ..., stop - 1, lane by lane, in double precision."""
    lanes = x.shape[1]
    step = max(1, _BLOCK // lanes)
    total = np.empty(lanes)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        for i in range(len(vectors)):
            total[:] = 0.0
            for r in range(first, last):
                v, xr = vectors[i, r], x[r]
                for c in range(lanes):
                    total[c] += v[c] * xr[c]
            for c in range(lanes):
                out[i, c] += total[c]


@compiled
def add(vectors, coefficients, x, start, stop):
    """x[r] += sum_i coefficients[i] vectors[i, r] on the rows r = start, ..., stop - 1, lane by lane."""
    lanes = x.shape[1]
    step = max(1, _BLOCK // lanes)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        for i in range(len(vectors)):
            w = coefficients[i]
            for r in range(first, last):
                v, xr = vectors[i, r], x[r]
                for c in range(lanes):
                    xr[c] += w[c] * v[c]
