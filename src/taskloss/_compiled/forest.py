"""Inference on packed trees, sequence by sequence, without Python's lock: callers run blocks of sequences on threads.

Rows of states are contiguous. Four rows of the transition matrix are read at a time, so that a state's value is
loaded once for all four; the reordering that `_FAST` allows lets the compiler add up and compare in vectors. It
leaves infinities alone; NaN must not come in.
"""

from __future__ import annotations

import math

import numpy as np

from .caching import njit
from .pointwise import exp

_FAST = {"reassoc", "contract", "nsz", "nnan"}
NO_CELLS = np.zeros((0, 2), dtype=np.int64)  # for modes of sum_product that need none
_SMALLEST = 1e-100  # see sum_product
_SPREAD = 230.0  # the logarithm of its inverse


@njit(nogil=True, error_model="numpy", fastmath=_FAST, inline="always")
def _product(t, x, out):
    """out = t x."""
    n = len(x)
    fours = n - n % 4
    for a in range(0, fours, 4):
        s0 = s1 = s2 = s3 = 0.0
        for c in range(n):
            y = x[c]
            s0 += t[a, c] * y
            s1 += t[a + 1, c] * y
            s2 += t[a + 2, c] * y
            s3 += t[a + 3, c] * y
        out[a], out[a + 1], out[a + 2], out[a + 3] = s0, s1, s2, s3
    for a in range(fours, n):
        s0 = 0.0
        for c in range(n):
            s0 += t[a, c] * x[c]
        out[a] = s0


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _add_outer(r, b, length, total):
    """total += the sum over i = 1, ..., length - 1 of r[i] b[i]'."""
    n_states = b.shape[1]
    fours = 1 + (length - 1) // 4 * 4
    for i in range(1, fours, 4):
        for a in range(n_states):
            x0, x1, x2, x3 = r[i, a], r[i + 1, a], r[i + 2, a], r[i + 3, a]
            for c in range(n_states):
                total[a, c] += x0 * b[i, c] + x1 * b[i + 1, c] + x2 * b[i + 2, c] + x3 * b[i + 3, c]
    for i in range(fours, length):
        for a in range(n_states):
            x0 = r[i, a]
            for c in range(n_states):
                total[a, c] += x0 * b[i, c]


@njit(nogil=True, error_model="numpy", fastmath=_FAST, inline="always")
def _upward(unary, e, stride, edge_of, parents, low, length, b, m, bits, powers):
    """Beliefs b of a tree's nodes, scaled to a maximum of one, and messages m[i] = e b[i] to their parents.

    Returns the sum of what scaling took off, and whether every number that is not zero stayed at 1e-100 or above: then
    e b >= 1e-200 and b (e b) >= 1e-300, and nothing underflows.
    """
    n_states = unary.shape[1]
    z, good = 0.0, True
    for i in range(length):
        top, least = -np.inf, np.inf
        for c in range(n_states):
            x = unary[low + i, c]
            top = max(top, x)
            least = min(least, x if x > -np.inf else np.inf)
        good = good and top > -np.inf and least >= top - _SPREAD
        z += top
        for c in range(n_states):
            b[i, c] = unary[low + i, c] - top
    if good:
        exp(b.reshape(-1)[: length * n_states], bits, powers)
    for i in range(length - 1, 0, -1):
        if not good:
            break
        _product(e[edge_of[low + i] * stride], b[i], m[i])
        p = parents[low + i] - low
        top = 0.0
        for a in range(n_states):
            b[p, a] *= m[i, a]
            top = max(top, b[p, a])
        inverse = 1 / top if top > 0.0 else 0.0
        least = 1.0
        for a in range(n_states):
            b[p, a] *= inverse
            least = min(least, b[p, a] if b[p, a] > 0.0 else 1.0)
        good = top > 0.0 and least >= _SMALLEST
        z += math.log(top)
    return z, good


@njit(nogil=True, inline="always")
def _longest(offsets):
    longest = 1
    for q in range(len(offsets) - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _to_the_root(unary, e, stride, edge_of, parents, low, length, b, m, bits, powers, fine, q):
    """Beliefs up to the root of tree q, the logarithm of what was divided out, and the sum of the root's; marks in `fine` whether they can be used."""
    z, fine[q] = _upward(unary, e, stride, edge_of, parents, low, length, b, m, bits, powers)
    total = 0.0
    for c in range(b.shape[1]):
        total += b[0, c]
    return z, total


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def sum_product(unary, e, et, stride, edge_of, parents, offsets, weights, mu, mode, pairs, log_z, fine, cells):
    """Beliefs up to the root, marginals down: mu[i] = b[i] * (et r[i]), r[i] = mu[parent] / m[i], m[i] = e b[i].

    e holds exp(pairwise - maximum) and et its transpose, shared (stride 0) or one for each edge (stride 1). A tree that
    could underflow is marked in `fine` and left to the caller, as is one without any allowed assignment. In `pairs`,
    mode 1 adds up r[i] b[i]', in one table or in one for each tree, (e times that is the sum of the edges' marginals) and mode 2 sets each edge's marginals; mode 3 sets those of some pairs of states, `cells`,
    as pairs[0, edge, cell].
    """
    n_states, longest = unary.shape[1], _longest(offsets)
    b, m, r = np.empty((longest, n_states)), np.empty((longest, n_states)), np.empty((longest, n_states))
    s, bits = np.empty(n_states), np.empty(longest * n_states, dtype=np.int64)
    powers = bits.view(np.float64)
    for q in range(len(offsets) - 1):
        if not fine[q]:
            continue
        low = offsets[q]
        length = offsets[q + 1] - low
        z, total = _to_the_root(unary, e, stride, edge_of, parents, low, length, b, m, bits, powers, fine, q)
        if not fine[q]:
            continue
        log_z[q] = z + math.log(total)
        for c in range(n_states):
            mu[low, c] = b[0, c] * (weights[q] / total)
        for i in range(1, length):
            t = edge_of[low + i]
            p = parents[low + i]
            for a in range(n_states):
                r[i, a] = mu[p, a] / (m[i, a] if m[i, a] > 0.0 else 1.0)
            _product(et[t * stride], r[i], s)
            for c in range(n_states):
                mu[low + i, c] = b[i, c] * s[c]
            if mode == 2:
                for a in range(n_states):
                    x = r[i, a]
                    for c in range(n_states):
                        pairs[t, a, c] = x * e[t * stride, a, c] * b[i, c]
            elif mode == 3:
                for j in range(len(cells)):
                    pairs[0, t, j] = r[i, cells[j, 0]] * e[t * stride, cells[j, 0], cells[j, 1]] * b[i, cells[j, 1]]
        if mode == 1:
            _add_outer(r, b, length, pairs[q if len(pairs) > 1 else 0])


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def covariance_product(unary, e, et, eu, eut, stride, edge_of, parents, offsets, weights, u, nodes, each, pairs, fine):
    """Cov(phi) u by the recursion of `polytopes._sum_product.covariance`, with b, m and r as in `sum_product`.

    The law of a child given its parent is e b / m, and that of a parent given its child r e / (et r); eu is e times the
    direction's edge scores, and eut its transpose. Of the edges: (e x) b' + (e r) (b f)' + (eu r) b' of each, where f is
    the mean of <u, phi> below a node given its state, and x is r times what lies beside the edge, less the mean. With
    `each`, pairs[t] is set for each edge; else pairs[0] adds up x b' + r (b f)' and pairs[1] adds up r b'.
    """
    n_states, longest = unary.shape[1], _longest(offsets)
    shape = (longest, n_states)
    b, m, r, s, mu = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    f, g, below, x, bf = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    one, two, bits = np.empty(n_states), np.empty(n_states), np.empty(longest * n_states, dtype=np.int64)
    powers = bits.view(np.float64)
    for q in range(len(offsets) - 1):
        if not fine[q]:
            continue
        low, w = offsets[q], weights[q]
        length = offsets[q + 1] - low
        _, total = _to_the_root(unary, e, stride, edge_of, parents, low, length, b, m, bits, powers, fine, q)
        if not fine[q]:
            continue
        _marginals_down(et, stride, edge_of, parents, low, length, total, b, m, r, s, mu)
        mean = _means_below(e, eu, stride, edge_of, parents, low, length, u, b, m, mu, f, below, bf, one, two)
        for c in range(n_states):
            g[0, c] = 0.0
        for i in range(length):
            t = edge_of[low + i]
            if i:
                p = parents[low + i] - low
                for a in range(n_states):
                    x[i, a] = r[i, a] * (f[p, a] + g[p, a] - below[i, a])
                _product(et[t * stride], x[i], one)
                _product(eut[t * stride], r[i], two)
                for c in range(n_states):
                    g[i, c] = (one[c] + two[c]) / (s[i, c] if s[i, c] > 0.0 else 1.0)
                for a in range(n_states):
                    x[i, a] = w * (x[i, a] - mean * r[i, a])
                    r[i, a] *= w
            for c in range(n_states):
                nodes[low + i, c] = w * mu[i, c] * (f[i, c] + g[i, c] - mean)
            if i and each:
                for a in range(n_states):
                    for c in range(n_states):
                        pairs[t, a, c] = (
                            e[t * stride, a, c] * (x[i, a] * b[i, c] + r[i, a] * bf[i, c])
                            + eu[t * stride, a, c] * r[i, a] * b[i, c]
                        )
        if not each:
            _add_outer(x, b, length, pairs[0])
            _add_outer(r, bf, length, pairs[0])
            _add_outer(r, b, length, pairs[1])


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _marginals_down(et, stride, edge_of, parents, low, length, total, b, m, r, s, mu):
    """mu of one tree from its beliefs, with r and s = et r of each edge; rows count from the tree's first."""
    n_states = b.shape[1]
    for c in range(n_states):
        mu[0, c] = b[0, c] / total
    for i in range(1, length):
        p = parents[low + i] - low
        for a in range(n_states):
            r[i, a] = mu[p, a] / (m[i, a] if m[i, a] > 0.0 else 1.0)
        _product(et[edge_of[low + i] * stride], r[i], s[i])
        for c in range(n_states):
            mu[i, c] = b[i, c] * s[i, c]


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _means_below(e, eu, stride, edge_of, parents, low, length, u, b, m, mu, f, below, bf, one, two):
    """f, the mean of <u, phi> at and below each node given its state, and what of it comes through each edge; the whole's mean."""
    n_states = b.shape[1]
    for i in range(length):
        for c in range(n_states):
            f[i, c] = u[low + i, c]
    for i in range(length - 1, 0, -1):
        t = edge_of[low + i] * stride
        p = parents[low + i] - low
        for c in range(n_states):
            bf[i, c] = b[i, c] * f[i, c]
        _product(e[t], bf[i], one)
        _product(eu[t], b[i], two)
        for a in range(n_states):
            below[i, a] = (one[a] + two[a]) / (m[i, a] if m[i, a] > 0.0 else 1.0)
            f[p, a] += below[i, a]
    mean = 0.0
    for c in range(n_states):
        mean += mu[0, c] * f[0, c]
    return mean


@njit(nogil=True, error_model="numpy", fastmath=_FAST, inline="always")
def _largest_sums(t, x, out):
    """out[a] += max over c of t[a, c] + x[c]."""
    n = len(x)
    fours = n - n % 4
    for a in range(0, fours, 4):
        s0 = s1 = s2 = s3 = -np.inf
        for c in range(n):
            y = x[c]
            v0, v1, v2, v3 = t[a, c] + y, t[a + 1, c] + y, t[a + 2, c] + y, t[a + 3, c] + y
            s0 = v0 if v0 > s0 else s0
            s1 = v1 if v1 > s1 else s1
            s2 = v2 if v2 > s2 else s2
            s3 = v3 if v3 > s3 else s3
        out[a] += s0
        out[a + 1] += s1
        out[a + 2] += s2
        out[a + 3] += s3
    for a in range(fours, n):
        s0 = -np.inf
        for c in range(n):
            v0 = t[a, c] + x[c]
            s0 = v0 if v0 > s0 else s0
        out[a] += s0


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def max_product(unary, pairwise, stride, edge_of, parents, offsets, states, score):
    """The best assignment of each sequence, ties to the first state; unary is overwritten by the best scores below.

    On the way up only the maxima are taken, which is done in vectors; on the way down each node looks for where its
    parent's state had it.
    """
    n_states = unary.shape[1]
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        for i in range(high - 1, low, -1):
            _largest_sums(pairwise[edge_of[i] * stride], unary[i], unary[parents[i]])
        at = 0
        for c in range(1, n_states):
            if unary[low, c] > unary[low, at]:
                at = c
        states[low], score[q] = at, unary[low, at]
        for i in range(low + 1, high):
            t = pairwise[edge_of[i] * stride, states[parents[i]]]
            at, best = 0, t[0] + unary[i, 0]
            for c in range(1, n_states):
                x = t[c] + unary[i, c]
                if x > best:
                    at, best = c, x
            states[i] = at
