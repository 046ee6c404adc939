"""Whether every row is a law over labels, in one pass; the definition is `data.laws._refuse_unlawful`."""

from __future__ import annotations

from .caching import njit


@njit(nogil=True)
def lawful(q, tolerance):
    """Whether every row sums to one and its negative entries to nothing, both up to a tolerance; NaN does not."""
    n, k = q.shape
    wrong = False
    for i in range(n):
        total = below = 0.0
        for j in range(k):
            total += q[i, j]
            below += min(q[i, j], 0.0)
        wrong |= not (abs(total - 1.0) <= tolerance and below >= -tolerance)
    return not wrong
