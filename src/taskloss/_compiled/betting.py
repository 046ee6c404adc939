"""Fixed-sequence testing by betting on step functions of many examples; its definition is `taskloss.control.bounds.betting`."""

from __future__ import annotations

import numpy as np

from .caching import njit

_BLOCK = 64


@njit(nogil=True)
def _p_value(gains, worst, scale, aim, enough):
    capital, best, square, seen = 1.0, 1.0, scale, 1.0
    n = len(gains)
    start = 0
    while start < n:
        stop = min(start + _BLOCK, n)
        bet = min(np.sqrt(aim * seen / square), 1 / worst)
        for i in range(start, stop):
            g = gains[i]
            capital *= 1 + bet * g
            best = max(best, capital)
            square += g * g
        if best >= enough:
            break
        seen += stop - start
        start = stop
    return 1 / best


@njit(nogil=True)
def sequence_of_tests(gains, first, row, change, own, worst, scale, delta):
    """p-values of thresholds, in their order, and whether each is rejected; one that is not tested has p-value 1.

    gains : (n,), at the safest threshold, changed in place. first : where the steps of each threshold begin in row and change.
    own : the error that each threshold has of its own; it also takes over that of the one before, where this was rejected.
    """
    m = len(own)
    aim = 2 * np.log(1 / delta) / max(len(gains), 1)
    p, rejected, carried = np.ones(m), np.zeros(m, dtype=np.bool_), 0.0
    for j in range(m):
        for s in range(first[j], first[j + 1]):
            gains[row[s]] += change[s]
        error = own[j] + carried
        carried = 0.0
        if error > 0:
            p[j] = _p_value(gains, worst, scale, aim, 1 / error)
            if p[j] <= error:
                rejected[j] = True
                carried = error
    return p, rejected
