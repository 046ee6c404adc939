"""Inference on packed trees, sequence by sequence, without Python's lock: callers run blocks of sequences on threads.

Rows of states are contiguous. Four rows of the transition matrix are read at a time, so that a state's value is
loaded once for all four; the reordering that `_FAST` allows lets the compiler add up in vectors. It leaves infinities
and NaN alone.
"""

from __future__ import annotations

import math

import numba
import numpy as np

_FAST = {"reassoc", "contract", "nsz"}
_SMALLEST = 1e-100  # see sum_product


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def sum_product(b, e, stride, edge_of, parents, offsets, weights, m, mu, r, log_z, fine):
    """Beliefs up to the root, marginals down: mu[i] = b[i] * (r[i] e), r[i] = mu[parent] / m[i], m[i] = e b[i].

    b holds exp(unary - row maximum) and becomes the upward beliefs, each scaled to a maximum of one; e holds
    exp(pairwise - maximum), shared (stride 0) or one for each edge (stride 1). Every number that is not zero is kept
    at 1e-100 or above: then e b >= 1e-200 and b (e b) >= 1e-300, and nothing underflows. A sequence where that fails
    is marked in `fine` and left to the caller, as is one without any allowed assignment.
    """
    n_states = b.shape[1]
    fours = n_states - n_states % 4
    s = np.empty(n_states)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        z = 0.0
        good = fine[q]
        for i in range(high - 1, low, -1):
            if not good:
                break
            t = e[edge_of[i] * stride]
            for a in range(0, fours, 4):
                m0 = m1 = m2 = m3 = 0.0
                for c in range(n_states):
                    x = b[i, c]
                    m0 += t[a, c] * x
                    m1 += t[a + 1, c] * x
                    m2 += t[a + 2, c] * x
                    m3 += t[a + 3, c] * x
                m[i, a], m[i, a + 1], m[i, a + 2], m[i, a + 3] = m0, m1, m2, m3
            for a in range(fours, n_states):
                m0 = 0.0
                for c in range(n_states):
                    m0 += t[a, c] * b[i, c]
                m[i, a] = m0
            p = parents[i]
            top = 0.0
            for a in range(n_states):
                b[p, a] *= m[i, a]
                top = max(top, b[p, a])
            if top == 0.0:
                good = False
                break
            inverse = 1 / top
            least = 1.0
            for a in range(n_states):
                b[p, a] *= inverse
                least = min(least, b[p, a] if b[p, a] > 0.0 else 1.0)
            good = least >= _SMALLEST
            z += math.log(top)
        total = 0.0
        for c in range(n_states):
            total += b[low, c]
        fine[q] = good and total > 0.0
        if not fine[q]:
            r[low:high] = 0.0
            continue
        log_z[q] = z + math.log(total)
        for c in range(n_states):
            mu[low, c] = b[low, c] * (weights[q] / total)
            r[low, c] = 0.0
        for i in range(low + 1, high):
            t = e[edge_of[i] * stride]
            p = parents[i]
            for a in range(n_states):
                r[i, a] = mu[p, a] / m[i, a] if mu[p, a] > 0.0 else 0.0
                s[a] = 0.0
            for a in range(0, fours, 4):
                r0, r1, r2, r3 = r[i, a], r[i, a + 1], r[i, a + 2], r[i, a + 3]
                for c in range(n_states):
                    s[c] += r0 * t[a, c] + r1 * t[a + 1, c] + r2 * t[a + 2, c] + r3 * t[a + 3, c]
            for a in range(fours, n_states):
                r0 = r[i, a]
                for c in range(n_states):
                    s[c] += r0 * t[a, c]
            for c in range(n_states):
                mu[i, c] = b[i, c] * s[c]


@numba.njit(nogil=True, cache=True)
def max_product(unary, pairwise, stride, edge_of, parents, offsets, back, states, score):
    """The best assignment of each sequence, ties to the first state; unary is overwritten by the best scores below."""
    n_states = unary.shape[1]
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        for i in range(high - 1, low, -1):
            t = pairwise[edge_of[i] * stride]
            p = parents[i]
            for a in range(n_states):
                best, at = t[a, 0] + unary[i, 0], 0
                for c in range(1, n_states):
                    x = t[a, c] + unary[i, c]
                    if x > best:
                        best, at = x, c
                back[i, a] = at
                unary[p, a] += best
        at = 0
        for c in range(1, n_states):
            if unary[low, c] > unary[low, at]:
                at = c
        states[low], score[q] = at, unary[low, at]
        for i in range(low + 1, high):
            states[i] = back[i, states[parents[i]]]
