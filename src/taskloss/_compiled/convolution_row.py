"""Infimal convolution for one row of scores: Newton steps on the support of its law over outputs.

For a row v: min over laws pi on m outputs of F(pi) = h*(v + Psi^T pi) + <c, pi>. Outputs enter the support by their gradient
and leave it where a step takes their weight to zero. Three conjugates h* are known: |u|^2 / 2, the log-partition function of
a product of simplices, and that of a cube. `convolution` does whole tables of rows, most of which need no step of their own.
"""

from __future__ import annotations

import math

from .caching import njit

inlined = njit(nogil=True, error_model="numpy", fastmath={"contract"}, inline="always")

QUADRATIC, SIMPLICES, CUBE = 0, 1, 2
MOST_STEPS = 200


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
def _search_line(kind, parameter, v, psi, offsets, active, count, value, slope, pi, u, mu, g, d, trial):
    """The step t along d, from F = value with this slope, and F there; pi, mu and g become those of the law at t.

    The first to be tried is Newton's, t = 1, or the largest at which all weights are at least zero.
    """
    most, blocking = 1.0, -1
    for i in range(count):
        trial[i] = pi[active[i]]
        if d[i] < 0 and trial[i] < -most * d[i]:
            most, blocking = -trial[i] / d[i], i
    t, new = most, value
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
    return t, new


@inlined
def _drop_weightless(active, count, pi):
    """How many outputs have weight; they come first in `active`, and their weights sum to one."""
    kept, total = 0, 0.0
    for i in range(count):
        z = active[i]
        if pi[z] > 0:
            total += pi[z]
            active[kept] = z
            kept += 1
    for i in range(kept):
        pi[active[i]] /= total
    return kept


@inlined
def minimise_row(
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
        t, new = _search_line(kind, parameter, v, psi, offsets, active, count, value, slope, pi, u, mu, g, d, trial)
        value, fresh = new, False
        if t == 0.0:
            break
        count = _drop_weightless(active, count, pi)
    return value
