"""Infimal convolution of a potential's conjugate with a table of outputs, example by example.

For each row v: min over laws pi on m outputs of F(pi) = h*(v + Psi^T pi) + <c, pi>, by Newton steps on the support of pi,
which outputs enter by their gradient and leave where a step takes their weight to zero. Three conjugates h* are known:
|u|^2 / 2, the log-partition function of a product of simplices, and that of a cube.
"""

from __future__ import annotations

import math

import numba
import numpy as np

compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
reordered = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})

QUADRATIC, SIMPLICES, CUBE = 0, 1, 2
TOLERANCE = 1e-13  # of the size of the terms that the gradient in pi is made of
MOST_STEPS = 200


@reordered
def _dot(a, b):
    s = 0.0
    for j in range(len(a)):
        s += a[j] * b[j]
    return s


@compiled
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
        top = u[first]
        for j in range(first + 1, first + width):
            top = max(top, u[j])
        total = 0.0
        for j in range(first, first + width):
            mu[j] = math.exp(u[j] - top)
            total += mu[j]
        for j in range(first, first + width):
            mu[j] /= total
        value += top + math.log(total)
    return value


@compiled
def _curve(kind, parameter, mu, x, out):
    """out = (second derivative of h*) x, which mu fixes."""
    k = len(mu)
    if kind == QUADRATIC:
        for j in range(k):
            out[j] = x[j]
    elif kind == CUBE:
        for j in range(k):
            out[j] = (mu[j] - parameter) * (1.0 - mu[j]) * x[j]
    else:
        width = int(parameter)
        for first in range(0, k, width):
            mean = 0.0
            for j in range(first, first + width):
                mean += mu[j] * x[j]
            for j in range(first, first + width):
                out[j] = mu[j] * (x[j] - mean)


@compiled
def _solve(a, n, b):
    """b becomes a^-1 b for the leading n x n block of a positive definite a, which becomes its Cholesky factor."""
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for l in range(j):
                s -= a[i, l] * a[j, l]
            a[i, j] = math.sqrt(max(s, 1e-300)) if i == j else s / a[j, j]
    for i in range(n):
        for l in range(i):
            b[i] -= a[i, l] * b[l]
        b[i] /= a[i, i]
    for i in range(n - 1, -1, -1):
        for l in range(i + 1, n):
            b[i] -= a[l, i] * b[l]
        b[i] /= a[i, i]


@compiled
def _evaluate(kind, parameter, v, psi, offsets, active, count, pi, u, mu, g):
    """F at pi, whose support is among the first `count` of `active`; u, mu and the gradient g in pi on the way."""
    m, k = psi.shape
    for j in range(k):
        u[j] = v[j]
    value = 0.0
    for i in range(count):
        z = active[i]
        if pi[z] > 0:
            value += pi[z] * offsets[z]
            for j in range(k):
                u[j] += pi[z] * psi[z, j]
    value += _conjugate(kind, parameter, u, mu)
    for z in range(m):
        g[z] = _dot(psi[z], mu) + offsets[z]
    return value


@compiled
def _newton(kind, parameter, psi, mu, g, active, count, reference, ridge, d, gram, moved, difference):
    """d on the support: the Newton step of F among laws, the weight of the reference taking up what others leave."""
    k = psi.shape[1]
    base, n = active[reference], 0
    for i in range(count):
        if i == reference:
            continue
        z = active[i]
        for j in range(k):
            difference[n, j] = psi[z, j] - psi[base, j]
        _curve(kind, parameter, mu, difference[n], moved)
        for l in range(n + 1):
            gram[n, l] = _dot(moved, difference[l])
        d[n] = g[base] - g[z]
        n += 1
    most = 0.0
    for i in range(n):
        most = max(most, gram[i, i])
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


@compiled
def _row(kind, parameter, v, psi, offsets, size, pi, mu, u, g, active, d, gram, moved, difference, trial):
    """Minimise F for one row, from the law pi, or from no law where it is zero; returns F."""
    m, k = psi.shape
    count = 0
    for z in range(m):
        if pi[z] > 0:
            active[count] = z
            count += 1
    if count == 0:
        # The output that is best for the moments at the even mixture of all: where no output is likelier, so near the truth.
        for j in range(k):
            u[j] = v[j]
        for z in range(m):
            for j in range(k):
                u[j] += psi[z, j] / m
        _conjugate(kind, parameter, u, mu)
        best = 0
        for z in range(m):
            g[z] = _dot(psi[z], mu) + offsets[z]
            if g[z] < g[best]:
                best = z
        pi[best] = 1.0
        active[0] = best
        count = 1
    value = _evaluate(kind, parameter, v, psi, offsets, active, count, pi, u, mu, g)
    for _ in range(MOST_STEPS):
        scale = 0.0
        for j in range(k):
            scale += abs(mu[j])
        tolerance = TOLERANCE * size * (1.0 + scale)
        best = 0
        for z in range(1, m):
            if g[z] < g[best]:
                best = z
        low, worst, heaviest = 0, 0, 0
        for i in range(count):
            if g[active[i]] < g[active[low]]:
                low = i
            if g[active[i]] > g[active[worst]]:
                worst = i
            if pi[active[i]] > pi[active[heaviest]]:
                heaviest = i
        spread = g[active[worst]] - g[active[low]]
        lack = g[active[low]] - g[best]
        if spread <= tolerance and lack <= tolerance:
            break
        entering = lack > tolerance and lack >= 0.5 * spread
        if entering:
            active[count] = best
            count += 1
        _newton(
            kind, parameter, psi, mu, g, active, count, heaviest, 1e-14 * size * size, d, gram, moved, difference
        )
        slope = 0.0
        for i in range(count):
            slope += d[i] * g[active[i]]
        if (entering and d[count - 1] <= 0) or not slope < 0:
            # Exchange weight between the worst and the best output: always a way down.
            to = count - 1 if entering else low
            if to == worst:
                break
            for i in range(count):
                d[i] = 0.0
            _curve(kind, parameter, mu, psi[active[to]] - psi[active[worst]], moved)
            bend = _dot(moved, psi[active[to]] - psi[active[worst]])
            slope = g[active[to]] - g[active[worst]]
            d[to] = -slope / max(bend, 1e-14 * size * size)
            d[worst] = -d[to]
            slope *= d[to]
        most, blocking = 1.0, -1
        for i in range(count):
            if d[i] < 0 and pi[active[i]] < -most * d[i]:
                most, blocking = -pi[active[i]] / d[i], i
        t = most
        for i in range(count):
            trial[i] = pi[active[i]]
        accepted = False
        for _ in range(60):
            for i in range(count):
                pi[active[i]] = max(trial[i] + t * d[i], 0.0)
            if t == most and blocking >= 0:
                pi[active[blocking]] = 0.0
            new = _evaluate(kind, parameter, v, psi, offsets, active, count, pi, u, mu, g)
            end = 0.0
            for i in range(count):
                end += d[i] * g[active[i]]
            if new <= value + 1e-14 * (1.0 + abs(value)) and end <= -0.9 * slope:
                accepted = True
                break
            # The secant through both slopes, kept off the ends.
            t *= min(max(slope / (slope - end), 0.1), 0.5) if end > 0 else 0.5
        if not accepted:
            for i in range(count):
                pi[active[i]] = trial[i]
            value = _evaluate(kind, parameter, v, psi, offsets, active, count, pi, u, mu, g)
            break
        value = new
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
def convolve(kind, parameter, v, psi, offsets, pi, mu, values):
    """For each row of v: the law pi (where it is a law already, the start), the moments mu = grad h*(v + Psi^T pi), F(pi)."""
    m, k = psi.shape
    u, g, moved = np.empty(k), np.empty(m), np.empty(k)
    active, d, trial = np.empty(m + 1, np.int64), np.empty(m + 1), np.empty(m + 1)
    gram, difference = np.empty((m + 1, m + 1)), np.empty((m + 1, k))
    size = 1e-300
    for z in range(m):
        size = max(size, abs(offsets[z]))
        for j in range(k):
            size = max(size, abs(psi[z, j]))
    row = np.empty(k)
    for i in range(len(v)):
        for j in range(k):
            row[j] = v[i, j]
        values[i] = _row(
            kind, parameter, row, psi, offsets, size, pi[i], mu[i], u, g, active, d, gram, moved, difference, trial
        )
