"""Surrogates of a block of rows in one pass: weighted sums of their terms, and scores replaced by weighted derivatives.

`risk` is the way in, by the number of a pass; `linear_risk` is the same with linear scores made and pulled back on the way.

Work goes tile by tile, coordinate by coordinate within a tile, so that every inner loop runs in vectors over rows and in
the nearest cache; rows may lie in memory either way. Divisions follow NumPy: one that could raise would keep a loop
from running in vectors. Loops touch few arrays each, because the compiler gives up on telling many apart.
"""

from __future__ import annotations

import numpy as np

from .caching import njit

_TILE = 512  # rows

# Sums may be reordered in `_dot` alone: the reduction by multiples of log 2, in two parts, must stay in its order.
compiled = njit(nogil=True, error_model="numpy", fastmath={"contract"})
reordered = njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@compiled
def exp(x, bits, powers):
    """x <= 700 becomes exp(x) within 1e-15, zero below -600; `powers` is `bits` seen as floating-point numbers."""
    for c in range(len(x)):
        y = x[c] if x[c] > -600.0 else -600.0
        n = np.floor(y * 1.4426950408889634 + 0.5)
        t = (y - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
        p = 1.6059043836821613e-10
        p = p * t + 2.08767569878681e-09
        p = p * t + 2.505210838544172e-08
        p = p * t + 2.755731922398589e-07
        p = p * t + 2.7557319223985893e-06
        p = p * t + 2.48015873015873e-05
        p = p * t + 0.0001984126984126984
        p = p * t + 0.001388888888888889
        p = p * t + 0.008333333333333333
        p = p * t + 0.041666666666666664
        p = p * t + 0.16666666666666666
        p = p * t + 0.5
        p = p * t + 1.0
        powers[c] = n + 4503599627371519.0  # 2^52 + 1023: the exponent's bits come to lie in the lowest places
        x[c] = p * t + 1.0 if x[c] > -600.0 else 0.0
    for c in range(len(x)):
        bits[c] <<= 52
    for c in range(len(x)):
        x[c] *= powers[c]


@compiled
def _log1p(e, out):
    """out = log(1 + e) for e in [0, 1], by the series of 2 artanh(e / (2 + e)), whose argument is at most a third."""
    for i in range(len(e)):
        z = e[i] / (2.0 + e[i])
        s = z * z
        p = 1 / 33
        p = p * s + 1 / 31
        p = p * s + 1 / 29
        p = p * s + 1 / 27
        p = p * s + 1 / 25
        p = p * s + 1 / 23
        p = p * s + 1 / 21
        p = p * s + 1 / 19
        p = p * s + 1 / 17
        p = p * s + 1 / 15
        p = p * s + 1 / 13
        p = p * s + 1 / 11
        p = p * s + 1 / 9
        p = p * s + 1 / 7
        p = p * s + 1 / 5
        p = p * s + 1 / 3
        out[i] = 2 * z * (p * s + 1)


@reordered
def _dot(a, b):
    s = 0.0
    for i in range(len(a)):
        s += a[i] * b[i]
    return s


@reordered
def _sum(a):
    s = 0.0
    for i in range(len(a)):
        s += a[i]
    return s


@compiled
def _affine(x, shift, scale, out):
    """out = (x - shift) scale, also where x has gaps in memory."""
    for i in range(len(x)):
        out[i] = (x[i] - shift) * scale


@compiled
def _minus_abs(x, out):
    for i in range(len(x)):
        out[i] = -abs(x[i])


@compiled
def _log(x):
    for i in range(len(x)):
        x[i] = np.log(x[i])


@compiled
def _maximum(x, out):
    for i in range(len(x)):
        out[i] = max(out[i], x[i])


@compiled
def _add(x, out):
    for i in range(len(x)):
        out[i] += x[i]


@compiled
def _subtract(x, out):
    for i in range(len(x)):
        out[i] -= x[i]


@compiled
def _add_product(x, y, out):
    for i in range(len(x)):
        out[i] += x[i] * y[i]


@compiled
def _product(x, y, out):
    for i in range(len(x)):
        out[i] = x[i] * y[i]


@compiled
def _quotient(x, y, out):
    for i in range(len(x)):
        out[i] = x[i] / y[i]


@compiled
def _logistic_end(x, e, q, term):
    """From e = exp(-|x|) and term = log(1 + e) to the risk, in `term`, and its derivative, in `x`."""
    for i in range(len(x)):
        term[i] += (x[i] if x[i] > 0 else 0.0) - q[i] * x[i]
    for i in range(len(x)):
        x[i] = (1.0 if x[i] > 0 else e[i]) / (1.0 + e[i]) - q[i]


@compiled
def logistic(v, phi, w, low, sums):
    """sums[j] += sum_i w_i (log(1 + exp(v_ij)) - q_ij v_ij), and v becomes w (expit(v) - q), q = (phi - low) / (1 - low)."""
    n, k = v.shape
    tiles, bits = np.empty((4, _TILE)), np.empty(_TILE, dtype=np.int64)
    powers = bits.view(np.float64)
    for start in range(0, n, _TILE):
        rows = slice(start, min(start + _TILE, n))
        weight, m = w[rows], min(_TILE, n - start)
        x, e, term, q = tiles[0, :m], tiles[1, :m], tiles[2, :m], tiles[3, :m]
        for j in range(k):
            _affine(v[rows, j], 0.0, 1.0, x)
            _affine(phi[rows, j], low, 1 / (1 - low), q)
            _minus_abs(x, e)
            exp(e, bits, powers)
            _log1p(e, term)
            _logistic_end(x, e, q, term)
            sums[j] += _dot(term, weight)
            _product(x, weight, v[rows, j])


@compiled
def softmax(v, phi, w, width, sums):
    """sums[0] += sum_i w_i (logsumexp(v_i) - <phi_i, v_i>) over each `width` coordinates, and v becomes w (softmax(v) - phi)."""
    n, k = v.shape
    tiles, bits = np.empty((width + 4, _TILE)), np.empty(_TILE, dtype=np.int64)
    powers = bits.view(np.float64)
    for start in range(0, n, _TILE):
        rows = slice(start, min(start + _TILE, n))
        weight, m = w[rows], min(_TILE, n - start)
        top, total, term, f = tiles[0, :m], tiles[1, :m], tiles[2, :m], tiles[3, :m]
        for first in range(0, k, width):
            top[:], total[:], term[:] = -np.inf, 0.0, 0.0
            for j in range(width):
                x = tiles[4 + j, :m]
                _affine(v[rows, first + j], 0.0, 1.0, x)
                _maximum(x, top)
            for j in range(width):
                x = tiles[4 + j, :m]
                _subtract(top, x)
                _affine(phi[rows, first + j], 0.0, -1.0, f)
                _add_product(f, x, term)
                exp(x, bits, powers)
                _add(x, total)
            _quotient(weight, total, top)
            _log(total)
            _add(total, term)
            sums[0] += _dot(term, weight)
            for j in range(width):
                x = tiles[4 + j, :m]
                _affine(phi[rows, first + j], 0.0, -1.0, f)
                _product(f, weight, f)
                _add_product(x, top, f)
                _affine(f, 0.0, 1.0, v[rows, first + j])


@compiled
def risk(kernel, parameter, v, phi, w, sums):
    """The pass of this number, see `objectives.fused.Pointwise`."""
    if kernel == 0:
        logistic(v, phi, w, parameter, sums)
    else:
        softmax(v, phi, w, int(parameter), sums)


@compiled
def linear_risk(kernel, parameter, X, weights, intercepts, phi, w, rows, sums, slopes, constants):
    """The risk of the scores X weights + intercepts, so many rows at a time, in `sums`; its derivatives in the others.

    weights is (d, k), or (d, 1) where all scores share one, and slopes their transpose.
    """
    n, k = len(X), len(intercepts)
    moved = weights.any()
    room, line, part = np.empty(k * rows, X.dtype), np.empty(rows, X.dtype), np.empty(slopes.shape, X.dtype)
    for start in range(0, n, rows):
        m = min(rows, n - start)
        block, v, u = X[start : start + m], room[: k * m].reshape(k, m), line[:m]
        scores(block, weights, intercepts, moved, v, u)
        risk(kernel, parameter, v.T, phi[start : start + m], w[start : start + m], sums)
        pull_back(block, v, u, part, slopes, constants)


# Shapes are those for which BLAS has the quickest way where scores are few: both products read the block as it lies.


@compiled
def scores(block, weights, intercepts, moved, v, u):
    """v (k, m) becomes the scores of a block of m rows; without weights, as at the start of most fits, they are the intercepts."""
    shared = weights.shape[1] < len(intercepts)
    u[:] = 0
    if shared and moved:
        np.dot(block, weights.reshape(len(weights)), u)
    elif moved:
        np.dot(weights.T, block.T, v)
    for j in range(len(intercepts)):
        _affine(u if shared or not moved else v[j], -intercepts[j], 1.0, v[j])


@compiled
def pull_back(block, v, u, part, slopes, constants):
    """Derivatives v (k, m) in a block's scores, added to those in the weights and intercepts; u and part are room."""
    shared = len(slopes) < len(v)
    u[:] = 0
    for j in range(len(v)):
        constants[j] += _sum(v[j])
        if shared:
            _add(v[j], u)
    if shared:
        np.dot(u, block, part[0])
    else:
        np.dot(v, block, part)
    for j in range(len(slopes)):
        _add(part[j], slopes[j])
