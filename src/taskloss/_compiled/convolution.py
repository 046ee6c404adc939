"""Infimal convolution of a potential's conjugate with a table of outputs, example by example.

For each row v: min over laws pi on m outputs of F(pi) = h*(v + Psi^T pi) + <c, pi>, by Newton steps on the support of pi,
which outputs enter by their gradient and leave where a step takes their weight to zero. Three conjugates h* are known:
|u|^2 / 2, the log-partition function of a product of simplices, and that of a cube.

Rows go in tiles that lie coordinate by coordinate, so that all laws of a tile are tried in vectors; only rows whose law is not
optimal, few of them where laws come from scores nearby, take Newton steps of their own.
"""

from __future__ import annotations

import math

import numpy as np

from .caching import njit
from .pointwise import _log1p, exp, pull_back, scores

compiled = njit(nogil=True, error_model="numpy", fastmath={"contract"})
inlined = njit(nogil=True, error_model="numpy", fastmath={"contract"}, inline="always")

QUADRATIC, SIMPLICES, CUBE = 0, 1, 2
MOST_STEPS = 200
_TILE = 256  # rows


@inlined
def _dot(a, b, row):
    """<a, b[row]>; a slice would cost as much as the product."""
    s = 0.0
    for j in range(len(a)):
        s += a[j] * b[row, j]
    return s


@inlined
def _largest(u, first, last):
    top = u[first]
    for j in range(first + 1, last):
        top = max(top, u[j])
    return top


@inlined
def _total(u, first, last):
    s = 0.0
    for j in range(first, last):
        s += u[j]
    return s


@inlined
def _conjugate(kind, parameter, u, mu):
    """h*(u), and its gradient in mu; the parameter is the width of each simplex, or the least coordinate of the cube."""
    k = len(u)
    value = 0.0
    if kind == QUADRATIC:
        for j in range(k):
            mu[j] = u[j]
            value += u[j] * u[j] / 2
        return value
    if kind == CUBE:
        width = 1.0 - parameter
        for j in range(k):
            x = width * u[j]
            e = math.exp(-abs(x))
            value += math.log1p(e) + max(x, 0.0) + parameter * u[j]
            mu[j] = parameter + width * (1.0 if x > 0 else e) / (1.0 + e)
        return value
    width = int(parameter)
    for first in range(0, k, width):
        last = first + width
        top = _largest(u, first, last)
        for j in range(first, last):
            mu[j] = math.exp(u[j] - top)
        total = _total(mu, first, last)
        value += top + math.log(total)
        total = 1.0 / total
        for j in range(first, last):
            mu[j] *= total
    return value


@inlined
def _curve(kind, parameter, mu, x, row, out):
    """out = (second derivative of h*) x[row], which mu fixes."""
    k = len(mu)
    if kind == QUADRATIC:
        for j in range(k):
            out[j] = x[row, j]
    elif kind == CUBE:
        for j in range(k):
            out[j] = (mu[j] - parameter) * (1.0 - mu[j]) * x[row, j]
    else:
        width = int(parameter)
        for first in range(0, k, width):
            for j in range(first, first + width):
                out[j] = mu[j] * x[row, j]
            mean = _total(out, first, first + width)
            for j in range(first, first + width):
                out[j] -= mu[j] * mean


@inlined
def _solve(a, n, b):
    """b becomes a^-1 b for the leading n x n block of a positive definite a, which becomes its Cholesky factor."""
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for other in range(j):
                s -= a[i, other] * a[j, other]
            a[i, j] = math.sqrt(max(s, 1e-300)) if i == j else s / a[j, j]
    for i in range(n):
        for other in range(i):
            b[i] -= a[i, other] * b[other]
        b[i] /= a[i, i]
    for i in range(n - 1, -1, -1):
        for other in range(i + 1, n):
            b[i] -= a[other, i] * b[other]
        b[i] /= a[i, i]


@inlined
def _evaluate(kind, parameter, v, psi, offsets, active, count, pi, u, mu, g):
    """F at pi, whose support is among the first `count` of `active`; u, mu and the gradient g there on the way."""
    for j in range(len(v)):
        u[j] = v[j]
    value = 0.0
    for i in range(count):
        z = active[i]
        weight = pi[z]
        if weight > 0:
            value += weight * offsets[z]
            for j in range(len(v)):
                u[j] += weight * psi[z, j]
    value += _conjugate(kind, parameter, u, mu)
    for i in range(count):
        g[active[i]] = _dot(mu, psi, active[i]) + offsets[active[i]]
    return value


@inlined
def _newton(kind, parameter, psi, mu, g, active, count, reference, ridge, d, gram, moved, difference):
    """d on the support: the Newton step of F among laws, the weight of the reference taking up what others leave."""
    base, n = active[reference], 0
    most = 0.0
    for i in range(count):
        if i == reference:
            continue
        z = active[i]
        for j in range(len(mu)):
            difference[n, j] = psi[z, j] - psi[base, j]
        _curve(kind, parameter, mu, difference, n, moved)
        for other in range(n + 1):
            gram[n, other] = _dot(moved, difference, other)
        most = max(most, gram[n, n])
        d[n] = g[base] - g[z]
        n += 1
    for i in range(n):
        gram[i, i] += 1e-13 * most + ridge
    _solve(gram, n, d)
    total = 0.0
    for i in range(n):
        total += d[i]
    for i in range(count - 1, -1, -1):  # from the places of the others to those of the support
        if i > reference:
            d[i] = d[i - 1]
        elif i == reference:
            d[i] = -total


@inlined
def _exchange(kind, parameter, psi, mu, g, active, count, best, worst, ridge, d, moved, difference):
    """d from the worst output to the best, as long as Newton's step along it: always a way down. Returns its slope."""
    for j in range(len(mu)):
        difference[0, j] = psi[active[best], j] - psi[active[worst], j]
    _curve(kind, parameter, mu, difference, 0, moved)
    slope = g[active[best]] - g[active[worst]]
    for i in range(count):
        d[i] = 0.0
    d[best] = -slope / max(_dot(moved, difference, 0), ridge)
    d[worst] = -d[best]
    return slope * d[best]


@inlined
def _row(
    kind, parameter, v, psi, offsets, size, relative, pi, mu, value, u, g, active, d, gram, moved, difference, trial
):
    """Minimise F for one row from the law pi, with mu, F = value and the gradient g of that law given; returns F."""
    m, ridge = len(offsets), 1e-14 * size * size
    count = 0
    for z in range(m):
        if pi[z] > 0:
            active[count] = z
            count += 1
    fresh = True  # whether g is known at outputs beyond the support
    for _ in range(MOST_STEPS):
        low, worst, heaviest = 0, 0, 0
        for i in range(1, count):
            if g[active[i]] < g[active[low]]:
                low = i
            if g[active[i]] > g[active[worst]]:
                worst = i
            if pi[active[i]] > pi[active[heaviest]]:
                heaviest = i
        spread = g[active[worst]] - g[active[low]]
        scale = 1.0
        for j in range(len(mu)):
            scale += abs(mu[j])
        tolerance = relative * size * scale
        entering = False
        if fresh or spread <= max(1e-3 * size, tolerance):
            best = 0
            for z in range(m):
                if not fresh:
                    g[z] = _dot(mu, psi, z) + offsets[z]
                if g[z] < g[best]:
                    best = z
            lack = g[active[low]] - g[best]
            if spread <= tolerance and lack <= tolerance:
                break
            entering = lack > tolerance and lack >= 3.0 * spread  # first settle the support: it is often the right one
            if entering:
                active[count] = best
                count += 1
        _newton(kind, parameter, psi, mu, g, active, count, heaviest, ridge, d, gram, moved, difference)
        slope = 0.0
        for i in range(count):
            slope += d[i] * g[active[i]]
        if (entering and d[count - 1] <= 0) or not slope < 0:
            to = count - 1 if entering else low
            if to == worst:
                break
            slope = _exchange(kind, parameter, psi, mu, g, active, count, to, worst, ridge, d, moved, difference)
        most, blocking = 1.0, -1
        for i in range(count):
            trial[i] = pi[active[i]]
            if d[i] < 0 and trial[i] < -most * d[i]:
                most, blocking = -trial[i] / d[i], i
        t = most
        for attempt in range(61):
            for i in range(count):
                pi[active[i]] = max(trial[i] + t * d[i], 0.0)
            if t == most and blocking >= 0:
                pi[active[blocking]] = 0.0
            new = _evaluate(kind, parameter, v, psi, offsets, active, count, pi, u, mu, g)
            end = 0.0
            for i in range(count):
                end += d[i] * g[active[i]]
            if t == 0.0 or (new <= value + 1e-14 * (1.0 + abs(value)) and end <= -0.9 * slope):
                break
            # The secant through both slopes, kept off the ends; no step at all where none goes down beyond rounding.
            t *= min(max(slope / (slope - end), 0.1), 0.5) if end > 0 else 0.5
            if attempt == 59:
                t = 0.0
        value, fresh = new, False
        if t == 0.0:
            break
        kept, total = 0, 0.0
        for i in range(count):
            z = active[i]
            if pi[z] > 0:
                total += pi[z]
                active[kept] = z
                kept += 1
        count = kept
        for i in range(count):
            pi[active[i]] /= total
    return value


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
    _conjugates(kind, parameter, u, mu, values, room, bits)
    _gradients(psi, offsets, mu, g)
    low, high, scale = room[0], room[1], room[2]
    for t in range(n):
        low[t], high[t], scale[t] = np.inf, -np.inf, 1.0
    for z in range(m):
        for t in range(n):
            low[t] = min(low[t], g[z, t])
            high[t] = max(high[t], g[z, t] if pi[t, z] > 0 else -np.inf)
            values[t] += pi[t, z] * offsets[z]
    for j in range(k):
        for t in range(n):
            scale[t] += abs(mu[j, t])
    row, there, score, gradient = vectors[0, :k], vectors[1, :k], vectors[2, :k], vectors[3, :m]
    step, moved, trial, law = vectors[4], vectors[5, :k], vectors[6], vectors[7, :m]
    gram, difference = tables[0], tables[1]
    for t in range(n):
        if high[t] - low[t] <= relative * size * scale[t]:
            continue
        for j in range(k):
            row[j], there[j] = v[j, t], mu[j, t]
        for z in range(m):
            gradient[z], law[z] = g[z, t], pi[t, z]
        values[t] = _row(
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
