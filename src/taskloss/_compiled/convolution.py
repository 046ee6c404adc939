"""Infimal convolution of a potential's conjugate with a table of outputs, for all rows of scores.

Rows go in tiles that lie coordinate by coordinate, so that all laws of a tile are tried in vectors. Most optimal laws are on
one or two outputs: a few rounds of Newton steps along edges of the simplex find these for the tile at once, and only the rows
whose law is still not optimal take the steps of `convolution_row`.
"""

from __future__ import annotations

import math

import numpy as np

from .caching import njit
from .convolution_row import CUBE, QUADRATIC, minimise_row
from .pointwise import _log1p, exp, pull_back, scores

compiled = njit(nogil=True, error_model="numpy", fastmath={"contract"})

_TILE = 256  # rows
_ROUNDS = 6  # of steps along edges, as long as they serve an eighth of the tile


@compiled
def _conjugates(kind, parameter, u, mu, values, room, bits):
    """`_conjugate` of every column of u."""
    k, powers = len(u), bits.view(np.float64)
    for t in range(len(values)):
        values[t] = 0.0
    if kind == QUADRATIC:
        for j in range(k):
            for t in range(len(values)):
                mu[j, t] = u[j, t]
                values[t] += u[j, t] * u[j, t] / 2
        return
    if kind == CUBE:
        width, e, term = 1.0 - parameter, room[0], room[1]
        for j in range(k):
            for t in range(len(values)):
                e[t] = -abs(width * u[j, t])
            exp(e, bits, powers)
            _log1p(e, term)
            for t in range(len(values)):
                x = width * u[j, t]
                values[t] += term[t] + max(x, 0.0) + parameter * u[j, t]
                mu[j, t] = parameter + width * (1.0 if x > 0 else e[t]) / (1.0 + e[t])
        return
    width, top, total = int(parameter), room[0], room[1]
    for first in range(0, k, width):
        for t in range(len(values)):
            top[t], total[t] = u[first, t], 0.0
        for j in range(first + 1, first + width):
            for t in range(len(values)):
                top[t] = max(top[t], u[j, t])
        for j in range(first, first + width):
            x = mu[j]
            for t in range(len(values)):
                x[t] = u[j, t] - top[t]
            exp(x, bits, powers)
            for t in range(len(values)):
                total[t] += x[t]
        for t in range(len(values)):
            values[t] += top[t] + math.log(total[t])
            total[t] = 1.0 / total[t]
        for j in range(first, first + width):
            for t in range(len(values)):
                mu[j, t] *= total[t]


@compiled
def _gradients(psi, offsets, mu, g):
    np.dot(psi, mu, g)
    for z in range(len(offsets)):
        for t in range(g.shape[1]):
            g[z, t] += offsets[z]


@compiled
def _start(kind, parameter, v, psi, offsets, pi, u, mu, g, values, room, bits):
    """Rows without a law get the output that is best for the moments at the even mixture of all outputs."""
    m, k = psi.shape
    n = len(values)
    total, cold = room[2], False
    for t in range(n):
        total[t] = 0.0
        for z in range(m):
            total[t] += pi[t, z]
        cold |= total[t] == 0.0
    if not cold:
        return
    for j in range(k):
        shift = 0.0
        for z in range(m):
            shift += psi[z, j] / m
        for t in range(n):
            u[j, t] = v[j, t] + shift
    _conjugates(kind, parameter, u, mu, values, room, bits)
    _gradients(psi, offsets, mu, g)
    for t in range(n):
        if total[t] == 0.0:
            best = 0
            for z in range(1, m):
                if g[z, t] < g[best, t]:
                    best = z
            pi[t, best] = 1.0


@compiled
def _spreads(pi, mu, g, low, high, scale):
    """The least gradient of a row's outputs, the largest of those in its law, and the scale of its moments."""
    for t in range(len(low)):
        low[t], high[t], scale[t] = np.inf, -np.inf, 1.0
    for z in range(len(g)):
        for t in range(len(low)):
            low[t] = min(low[t], g[z, t])
            high[t] = max(high[t], g[z, t] if pi[t, z] > 0 else -np.inf)
    for j in range(len(mu)):
        for t in range(len(low)):
            scale[t] += abs(mu[j, t])


@compiled
def _bend(kind, parameter, mu, psi, t, first, second):
    """The second derivative of h* along psi[first] - psi[second] at row t."""
    k, bend = len(mu), 0.0
    if kind in (QUADRATIC, CUBE):
        for j in range(k):
            d = psi[first, j] - psi[second, j]
            bend += d * d * ((mu[j, t] - parameter) * (1.0 - mu[j, t]) if kind == CUBE else 1.0)
        return bend
    width = int(parameter)
    for start in range(0, k, width):
        mean, square = 0.0, 0.0
        for j in range(start, start + width):
            d = psi[first, j] - psi[second, j]
            mean += mu[j, t] * d
            square += mu[j, t] * d * d
        bend += square - mean * mean
    return bend


@compiled
def _step_along_edges(kind, parameter, psi, pi, u, mu, g, low, high, tolerance):
    """Newton's step for each row whose law is on two outputs, or on one that another should join; how many rows moved."""
    (m, k), moved = psi.shape, 0
    for t in range(len(low)):
        if high[t] - low[t] <= tolerance[t]:
            continue
        first, second, count, best = -1, -1, 0, 0
        for z in range(m):
            if pi[t, z] > 0:
                first, second, count = z, first, count + 1
            if g[z, t] < g[best, t]:
                best = z
        if count == 1:
            second = best
        gap = g[first, t] - g[second, t]
        if count > 2 or abs(gap) <= tolerance[t]:  # more outputs, or a third that should join
            continue
        bend = _bend(kind, parameter, mu, psi, t, first, second)
        step = -gap / bend if bend > 0 else -np.inf if gap > 0 else np.inf
        step = min(max(step, -pi[t, first]), pi[t, second])
        pi[t, first] += step
        pi[t, second] -= step
        for j in range(k):
            u[j, t] += step * (psi[first, j] - psi[second, j])
        moved += 1
    return moved


@compiled
def _tile(kind, parameter, v, psi, columns, offsets, size, relative, pi, mu, values, rooms):
    """For a tile of scores v (k, n): laws pi (n, m) become optimal, mu (k, n) their moments, values F."""
    n, (m, k) = len(values), psi.shape
    spaces, room, bits, (vectors, whole, tables) = rooms
    u, g, room, bits = spaces[2, : k * n].reshape(k, n), spaces[3, : m * n].reshape(m, n), room[:3, :n], bits[:n]
    _start(kind, parameter, v, psi, offsets, pi, u, mu, g, values, room, bits)
    np.dot(columns, pi.T, u)
    for j in range(k):
        for t in range(n):
            u[j, t] += v[j, t]
    low, high, tolerance = room[0], room[1], room[2]
    moved = n
    for attempt in range(_ROUNDS + 1):
        _conjugates(kind, parameter, u, mu, values, room, bits)
        _gradients(psi, offsets, mu, g)
        _spreads(pi, mu, g, low, high, tolerance)
        for t in range(n):
            tolerance[t] *= relative * size
        if attempt == _ROUNDS or 8 * moved <= n:
            break
        moved = _step_along_edges(kind, parameter, psi, pi, u, mu, g, low, high, tolerance)
        if moved == 0:
            break
    for z in range(m):
        for t in range(n):
            values[t] += pi[t, z] * offsets[z]
    row, there, score, gradient = vectors[0, :k], vectors[1, :k], vectors[2, :k], vectors[3, :m]
    step, moved, trial, law = vectors[4], vectors[5, :k], vectors[6], vectors[7, :m]
    gram, difference = tables[0], tables[1]
    for t in range(n):
        if high[t] - low[t] <= tolerance[t]:
            continue
        for j in range(k):
            row[j], there[j] = v[j, t], mu[j, t]
        for z in range(m):
            gradient[z], law[z] = g[z, t], pi[t, z]
        values[t] = minimise_row(
            kind,
            parameter,
            row,
            psi,
            offsets,
            size,
            relative,
            law,
            there,
            values[t],
            score,
            gradient,
            whole,
            step,
            gram,
            moved,
            difference,
            trial,
        )
        for j in range(k):
            mu[j, t] = there[j]
        for z in range(m):
            pi[t, z] = law[z]


@compiled
def _size(psi, offsets):
    """The largest number of the outputs' vectors and offsets, beside which errors are judged."""
    size = 1e-300
    for z in range(len(offsets)):
        size = max(size, abs(offsets[z]))
        for j in range(psi.shape[1]):
            size = max(size, abs(psi[z, j]))
    return size


@compiled
def _rooms(m, k):
    """Memory for a tile (its rows' vectors and tables, then its columns), for `_tile`."""
    most = max(m, k) + 1
    own = np.empty((8, most)), np.empty(most, np.int64), np.empty((2, most, most))
    return np.empty((4, most * _TILE)), np.empty((4, _TILE)), np.empty(_TILE, np.int64), own


@compiled
def convolve(kind, parameter, v, psi, offsets, relative, pi, mu, values):
    """For each row of v: the law pi (where it is a law already, the start), the moments mu = grad h*(v + Psi^T pi), F(pi)."""
    (m, k), n = psi.shape, len(v)
    columns, size, rooms = np.ascontiguousarray(psi.T), _size(psi, offsets), _rooms(m, k)
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        tile, moments = (
            rooms[0][0, : k * (stop - start)].reshape(k, -1),
            rooms[0][1, : k * (stop - start)].reshape(k, -1),
        )
        for j in range(k):
            for i in range(start, stop):
                tile[j, i - start] = v[i, j]
        _tile(
            kind,
            parameter,
            tile,
            psi,
            columns,
            offsets,
            size,
            relative,
            pi[start:stop],
            moments,
            values[start:stop],
            rooms,
        )
        for j in range(k):
            for i in range(start, stop):
                mu[i, j] = moments[j, i - start]


@compiled
def linear_convolution(
    kind, parameter, X, weights, intercepts, phi, w, psi, offsets, relative, pi, sums, slopes, constants
):
    """`pointwise.linear_risk` of the convolved surrogate: h_L*(v) - <phi, v> at the scores v = X weights + intercepts."""
    (m, k), n = psi.shape, len(X)
    columns, size, rooms = np.ascontiguousarray(psi.T), _size(psi, offsets), _rooms(m, k)
    line, part, moved = np.empty(_TILE, X.dtype), np.empty(slopes.shape, X.dtype), weights.any()
    room, values = np.empty(k * _TILE, X.dtype), rooms[1][3]
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        t = stop - start
        block, v, u = X[start:stop], room[: k * t].reshape(k, t), line[:t]
        scores(block, weights, intercepts, moved, v, u)
        tile, moments = rooms[0][0, : k * t].reshape(k, t), rooms[0][1, : k * t].reshape(k, t)
        for j in range(k):
            for i in range(t):
                tile[j, i] = v[j, i]
        _tile(kind, parameter, tile, psi, columns, offsets, size, relative, pi[start:stop], moments, values[:t], rooms)
        for i in range(t):
            sums[0] += w[start + i] * values[i]
        for j in range(k):
            for i in range(t):
                weight, target = w[start + i], phi[start + i, j]
                sums[0] -= weight * target * tile[j, i]
                v[j, i] = weight * (moments[j, i] - target)
        pull_back(block, v, u, part, slopes, constants)
