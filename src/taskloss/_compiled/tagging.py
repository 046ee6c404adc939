"""Value and gradient of chains over sparse rows in one pass: scores, forward-backward, and derivatives in the weights.

Sequences of about one length go side by side in lanes, so that loops and matrix products run over lanes, and the scores of a group stay in
the cache until their derivatives have gone back to the weights. Positions come in the order of their use: group by group, step by step,
lane by lane. Tables of weights and all scores are in one precision; sums over positions are in double.
"""

from __future__ import annotations

import math

import numpy as np

from .caching import njit
from .pointwise import exp

_FAST = {"reassoc", "contract", "nsz", "nnan"}


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def exp_single(x, bits, powers):
    """x <= 0 in single precision becomes exp(x) within 3e-7, and exp(-80) below; `powers` is `bits` seen as floating-point numbers."""
    for c in range(len(x)):
        y = max(x[c], np.float32(-80.0))
        n = np.floor(y * np.float32(1.44269504) + np.float32(0.5))
        t = (y - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * t + np.float32(1.3981999507e-3)
        p = p * t + np.float32(8.3334519073e-3)
        p = p * t + np.float32(4.1665795894e-2)
        p = p * t + np.float32(1.6666665459e-1)
        p = p * t + np.float32(0.5)
        p = p * (t * t) + t
        powers[c] = n + np.float32(8388735.0)  # 2^23 + 127: the exponent's bits come to lie in the lowest places
        x[c] = p + np.float32(1.0)
    for c in range(len(x)):
        bits[c] <<= 23
    for c in range(len(x)):
        x[c] *= powers[c]


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _scores(wide, narrow, entries, i, row):
    """row += the weights of position i's features: rows of `wide`, and of features with few labels one by one."""
    wide_ptr, wide_at, wide_x, narrow_ptr, narrow_at, narrow_label, narrow_x = entries
    p, stop = wide_ptr[i], wide_ptr[i + 1]
    while p + 4 <= stop:
        w0, w1, w2, w3 = wide[wide_at[p]], wide[wide_at[p + 1]], wide[wide_at[p + 2]], wide[wide_at[p + 3]]
        x0, x1, x2, x3 = wide_x[p], wide_x[p + 1], wide_x[p + 2], wide_x[p + 3]
        for c in range(len(row)):
            row[c] += x0 * w0[c] + x1 * w1[c] + x2 * w2[c] + x3 * w3[c]
        p += 4
    while p < stop:
        w0, x0 = wide[wide_at[p]], wide_x[p]
        for c in range(len(row)):
            row[c] += x0 * w0[c]
        p += 1
    for p in range(narrow_ptr[i], narrow_ptr[i + 1]):
        row[narrow_label[p]] += narrow_x[p] * narrow[narrow_at[p]]


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _pull_back(wide, narrow, entries, i, row, squared):
    """The adjoint of `_scores`, or that with squares of the features' values."""
    wide_ptr, wide_at, wide_x, narrow_ptr, narrow_at, narrow_label, narrow_x = entries
    for p in range(wide_ptr[i], wide_ptr[i + 1]):
        w, x = wide[wide_at[p]], np.float64(wide_x[p])
        x = x * x if squared else x
        for c in range(len(row)):
            w[c] += x * row[c]
    for p in range(narrow_ptr[i], narrow_ptr[i + 1]):
        x = np.float64(narrow_x[p])
        narrow[narrow_at[p]] += (x * x if squared else x) * row[narrow_label[p]]


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _exponentials(u, top, logs, active, bits, powers, single_bits, single_powers):
    """u becomes exp(u - the maximum of its lane), which logs adds up."""
    n_states, lanes = u.shape
    top[:] = u[0]
    for c in range(1, n_states):
        for j in range(lanes):
            top[j] = max(top[j], u[c, j])
    for c in range(n_states):
        for j in range(lanes):
            u[c, j] -= top[j]
    if u.itemsize == 4:
        exp_single(u.reshape(-1), single_bits, single_powers)
    else:
        exp(u.reshape(-1), bits, powers)
    for j in range(active):
        logs[j] += top[j]


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _forward(a, u, et, active, logs):
    """a[t] becomes the law of the state of step t given what came up to there, and u what the way back needs; logs adds up what was divided out."""
    n_states, lanes = u.shape[1:]
    total = np.empty(lanes, u.dtype)
    for t in range(len(active) - 1):
        if t:
            np.dot(et, a[t - 1], a[t])
        else:
            a[0] = 1.0
        total[:] = 0.0
        for c in range(n_states):
            for j in range(lanes):
                a[t, c, j] *= u[t, c, j]
            for j in range(lanes):
                total[j] += a[t, c, j]
        for j in range(active[t]):
            logs[j] += math.log(total[j])
        for j in range(lanes):
            total[j] = 1 / total[j]
        for c in range(n_states):
            for j in range(lanes):
                a[t, c, j] *= total[j]
            for j in range(lanes):
                u[t, c, j] *= total[j]


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _backward(a, u, e, active, w, pairs):
    """a[t] becomes the marginals of step t times the sequences' weights w; pairs adds up what times e are those of the edges."""
    n_states, lanes = u.shape[1:]
    after, r = np.ones((n_states, lanes), u.dtype), np.zeros((n_states, lanes), u.dtype)
    some = np.empty((n_states, n_states), u.dtype)
    for t in range(len(active) - 2, -1, -1):
        if t + 2 < len(active):
            np.dot(e, r, after)
        n = active[t]
        for c in range(n_states):
            for j in range(active[t + 1], n):  # sequences that end here
                after[c, j] = 1.0
            for j in range(n):
                r[c, j] = u[t, c, j] * after[c, j]
            for j in range(n):
                a[t, c, j] *= after[c, j] * w[j]
        if t:
            for c in range(n_states):
                for j in range(n):
                    after[c, j] = r[c, j] * w[j]
                for j in range(n, lanes):
                    after[c, j] = 0.0
            np.dot(a[t - 1], after.T, some)
            for c in range(n_states):
                for d in range(n_states):
                    pairs[c, d] += some[c, d]


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _read(wide, narrow, entries, constants, codes, i, active, u, logs, top, row, memory):
    """Scores of a group, step by step, as exponentials; logs takes those of the labels off."""
    bits, powers, single_bits, single_powers = memory
    n_states, lanes = u.shape[1:]
    for t in range(len(active) - 1):
        for j in range(active[t]):
            for c in range(n_states):
                row[c] = constants[0, c]
                if t == 0:
                    row[c] += constants[1, c]
                if j >= active[t + 1]:
                    row[c] += constants[2, c]
            _scores(wide, narrow, entries, i, row)
            logs[j] -= row[codes[i]]
            for c in range(n_states):
                u[t, c, j] = row[c]
            i += 1
        for c in range(n_states):
            for j in range(active[t], lanes):
                u[t, c, j] = 0.0
        _exponentials(u[t], top, logs, active[t], bits, powers, single_bits, single_powers)


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def chain_pass(tables, entries, e, codes, weights, groups, steps, first, last, lanes, slopes, value, squared):
    """Adds the risk of the groups first, ..., last - 1 to value[0], and its derivatives to `slopes`.

    tables: weights of features, (rows, K) and single ones; scores of every position, of the first and of the last one of a sequence, (3, K).
    slopes: of these, and in the place of transitions what times e is the sum of edges' marginals; e = exp(transitions - their maximum). Transitions on the
    labels and that maximum are left to the caller. groups: the first position, sequence and entry of `steps` of each group; steps: how many of a
    group's sequences have a first, second, ... position, and a zero. `squared`: in the place of derivatives, the sums of w x^2 mu (1 - mu).

    Where entries of e are at least exp(-40) in single precision, exp(-230) in double, nothing that counts is lost: from any state each other one
    is reached at that price, so that a state whose probability underflows has no share in what follows above its square.
    """
    wide, narrow, constants = tables
    d_wide, d_narrow, d_constants, pairs = slopes
    n_states, longest = wide.shape[1], 1
    for g in range(first, last):
        longest = max(longest, groups[g + 1, 2] - groups[g, 2] - 1)
    u, a = np.empty((longest, n_states, lanes), wide.dtype), np.empty((longest, n_states, lanes), wide.dtype)
    et, row, slope = np.ascontiguousarray(e.T), np.empty(n_states, wide.dtype), np.empty(n_states)
    bits, single_bits = np.empty(n_states * lanes, np.int64), np.empty(n_states * lanes, np.int32)
    memory = bits, bits.view(np.float64), single_bits, single_bits.view(np.float32)
    logs, w, top = np.empty(lanes), np.zeros(lanes, wide.dtype), np.empty(lanes, wide.dtype)
    for g in range(first, last):
        i, s = groups[g, 0], groups[g, 1]
        active = steps[groups[g, 2] : groups[g + 1, 2]]
        logs[:] = 0.0
        for j in range(active[0]):
            w[j] = weights[s + j]
        _read(wide, narrow, entries, constants, codes, i, active, u, logs, top, row, memory)
        _forward(a, u, et, active, logs)
        _backward(a, u, e, active, w, pairs)
        for j in range(active[0]):
            value[0] += weights[s + j] * logs[j]
        for t in range(len(active) - 1):
            for j in range(active[t]):
                for c in range(n_states):
                    slope[c] = a[t, c, j]
                if squared:
                    for c in range(n_states):
                        slope[c] *= 1.0 - slope[c] / w[j] if w[j] > 0.0 else 0.0
                else:
                    slope[codes[i]] -= w[j]
                for c in range(n_states):
                    d_constants[0, c] += slope[c]
                    if t == 0:
                        d_constants[1, c] += slope[c]
                    if j >= active[t + 1]:
                        d_constants[2, c] += slope[c]
                _pull_back(d_wide, d_narrow, entries, i, slope, squared)
                i += 1
