"""Calibration functions in closed form, each with its proof and a witness that attains it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._arguments import explained
from .._checks import real_levels
from ..margins import Margin
from ..surrogates.form import log_excess
from .certificate import Certificate
from .problem import Problem


@explained
def margin_calibration(margin: Margin, eps: np.ndarray) -> np.ndarray:
    """zeta of a margin loss for binary 0-1 loss: h((1 + eps)/2) - h(1/2), infinite beyond eps = 1.

    Logistic: log 2 - Ent((1 + eps)/2) in natural logarithms. Exponential: 1 - sqrt(1 - eps^2). Square: eps^2. Each
    is evaluated without cancellation for small eps; eps may exceed 1 by rounding.
    """
    margin, eps = Margin.resolve(margin), real_levels("eps", eps)
    e = np.clip(eps, 0.0, 1.0)
    if margin.divergence_form == "entropy":  # D_h at (1 + e)/2 and 1/2, two terms with t = e and t = -e
        value = (log_excess(e) + log_excess(-e)) / 2
    elif margin.divergence_form == "hellinger":
        value = e**2 / (1 + np.sqrt(1 - e**2))
    elif margin.divergence_form == "square":
        value = e**2
    else:
        value = margin.potential((1 + e) / 2) - margin.potential(np.full_like(e, 0.5))
    return np.where(eps <= 1 + 1e-12, value, np.inf)


def closed_form(problem: Problem, eps: float) -> Certificate | None:
    """The certificate where a proved formula covers the problem, else None."""
    for rule in (_one_dimension, _one_vs_all, _hamming, _thresholds):
        found = rule(problem, eps)
        if found is not None:
            return found
    return None


# -- one dimension ---------------------------------------------------------------------------------------------------


def _one_dimension(problem: Problem, eps: float) -> Certificate | None:
    """Where D is a segment or a line, for every potential: D_h grows with distance, so the nearest ends are the minimum.

    With two labels and costs 2 - c and c this is min over signs of D_h((c +- eps)/2, c/2), the paper's proposition
    as corrected in docs/errata.md.
    """
    domain, k = problem.surrogate.domain, problem.psi.shape[1]
    if (k if domain is None else domain.dimension) != 1:
        return None
    ends = problem.vertices if domain is None else np.vstack([problem.vertices, domain.vertices()])
    direction = ends[np.abs(ends - ends[0]).sum(1).argmax()] - ends[0]
    if not direction.any():  # one label only, on the whole line
        direction = np.ones(k)
    place = (ends - ends[0]) @ direction / (direction @ direction)
    truth = place[: len(problem.vertices)]
    low, high = (-np.inf, np.inf) if domain is None else (place.min(), place.max())
    slope = problem.psi @ direction
    level = problem.psi @ ends[0] + problem.offset
    best = Certificate(eps, np.inf, np.inf, method="closed form (one dimension)")
    for z in range(len(slope)):
        left, right = _interval(slope[z] - slope, level[z] - level, low, high, problem.rounding)
        if left > right:
            continue
        for other in range(len(slope)):
            # slope x + level >= eps on M: all of M, nothing, or an interval at one end, a vertex at eps = reach
            a, b, reach = slope[z] - slope[other], level[z] - level[other], problem.reach[z, other]
            if eps > reach + problem.rounding:
                continue
            target = min(eps, float(reach))
            first, last = _interval(np.array([-a]), np.array([target - b]), truth.min(), truth.max(), problem.rounding)
            if other == z or first > last:
                continue
            x, y = (first, right) if first > right else (last, left) if last < left else (max(first, left),) * 2
            u1, u2 = ends[0] + x * direction, ends[0] + y * direction
            value = problem.ceiling(u1, u2) if x != y else 0.0
            if value < best.value:
                floor = (
                    value
                    if problem.form.exact or problem.hellinger
                    else max(2 * float(problem.divergence(u1, u2)) - value, 0.0)
                )
                best = Certificate(eps, value, floor, z, other, u1, u2, best.method)
    return replace(best, exact=best.agree)


def _interval(slope: np.ndarray, level: np.ndarray, low: float, high: float, rounding: float) -> tuple[float, float]:
    """The interval of x in [low, high] with slope x + level <= 0 for every row; (1, 0) where it is empty."""
    flat = np.abs(slope) <= rounding
    if (level[flat] > 2 * rounding).any():
        return 1.0, 0.0
    at = -level[~flat] / slope[~flat]
    last = min(high, float(at[slope[~flat] > 0].min(initial=np.inf)))
    first = max(low, float(at[slope[~flat] < 0].max(initial=-np.inf)))
    # Ends in the wrong order by rounding alone are one point.
    room = 4 * rounding / max(float(np.abs(slope).max(initial=0.0)), rounding) + 1e-15 * max(abs(first), abs(last), 0.0)
    if first > last and np.isfinite(room) and first <= last + room:
        first = last = min(max((first + last) / 2, low), high)
    return (first, last) if first <= last else (1.0, 0.0)


# -- one margin per coordinate ---------------------------------------------------------------------------------------


def _margin(problem: Problem, low: float) -> Margin | None:
    """The margin of a coordinatewise surrogate on coordinates in [low, 1], or None."""
    form = problem.form
    return form.margin if form.margin is not None and form.low == low else None


def _one_vs_all(problem: Problem, eps: float) -> Certificate | None:
    """0-1 loss by one-vs-all: 2 zeta_margin(eps), as the curvature of h increases away from 1/2 for every such margin."""
    margin = _margin(problem, 0.0)
    k = problem.psi.shape[1]
    if margin is None or not np.array_equal(problem.table, 1 - np.eye(k)):
        return None
    value = 2 * float(margin_calibration(margin, np.array(eps)))
    if not np.isfinite(value):
        return Certificate(eps, np.inf, np.inf, method="closed form (one-vs-all)")
    truth, estimate = np.zeros(k), np.zeros(k)
    truth[:2], estimate[:2] = ((1 - eps) / 2, (1 + eps) / 2), 0.5
    return Certificate(eps, value, value, 0, 1, truth, estimate, "closed form (one-vs-all)")


def _sign_weights(problem: Problem) -> tuple[np.ndarray, np.ndarray] | None:
    """(signs, w) where psi(z) = -w sign(z) / 2 and all offsets are equal: Hamming losses on all or some sign vectors."""
    if np.ptp(problem.offset) > 1e-12 * problem.unit:
        return None
    weights = 2 * np.abs(problem.psi)
    if np.ptp(weights, axis=0).max() > 1e-12 * problem.unit or weights.min() < 1e-9 * problem.unit:
        return None
    return -np.sign(problem.psi), weights[0]


def _hamming(problem: Problem, eps: float) -> Certificate | None:
    """Hamming loss with weights w: min sum_j zeta_margin(a_j) over sum_j w_j a_j = eps, a in [0, 1]^n.

    As all sign vectors are outputs, H_0(z) is an orthant and the problem separates into one binary problem per
    coordinate. Equal weights 1/n give a_j = eps and n zeta_margin(eps), the paper's proposition.
    """
    margin, found = _margin(problem, -1.0), _sign_weights(problem)
    if margin is None or found is None or len(problem.psi) != 2 ** problem.psi.shape[1]:
        return None
    signs, weights = found
    if len(problem.vertices) != len(problem.psi):
        return None
    if eps > weights.sum() * (1 + 1e-12):
        return Certificate(eps, np.inf, np.inf, method="closed form (Hamming)")
    a = _water_filling(margin, weights, eps)
    return _certify(problem, eps, signs, a, margin, "closed form (Hamming)")


def _water_filling(margin: Margin, weights: np.ndarray, eps: float) -> np.ndarray:
    """argmin sum_j zeta(a_j) subject to <w, a> = eps, a <= 1: zeta'(a_j) / w_j is equal for all a_j < 1."""
    if np.ptp(weights) < 1e-12 * weights.max():
        return np.full(len(weights), min(eps / weights.sum(), 1.0))

    def slopes(a: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return margin.potential_derivative((1 + a) / 2) / 2

    def allocation(level: float) -> np.ndarray:
        low, high = np.zeros(len(weights)), np.ones(len(weights))
        for _ in range(60):
            middle = (low + high) / 2
            over = slopes(middle) > level * weights
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        return (low + high) / 2

    top, bottom = 1.0, 0.0
    while allocation(top) @ weights < eps and top < 1e12:
        top *= 2
    for _ in range(80):
        middle = (top + bottom) / 2
        bottom, top = (middle, top) if allocation(middle) @ weights < eps else (bottom, middle)
    a = allocation(top)
    return np.minimum(a * (eps / (a @ weights)), 1.0)


def _thresholds(problem: Problem, eps: float) -> Certificate | None:
    """Absolute error on the ordinal signs, by all thresholds: n zeta_margin(eps / n) with n = k - 1 thresholds.

    Here H_0(z) is larger than an orthant, so that the paper's reduction to Hamming loss also needs a supporting plane
    of the margin's divergence at (x*, 0), D(x, y) >= D(x*, 0) + a (x - x*) - b y with a, b >= 0. Summed over the
    thresholds J between z and z', where sum u' >= eps and sum u <= 0, it gives |J| zeta_margin(eps/|J|), least at |J| =
    n. Joint convexity gives the plane for the logistic and the square, a computation for the exponential (see
    docs/errata.md). The witness is u = 0, u' = eps/n: the paper's lower bound is exact.
    """
    margin, found = _margin(problem, -1.0), _sign_weights(problem)
    if margin is None or found is None:
        return None
    signs, weights = found
    n = len(weights)
    chain = 2.0 * np.tri(n + 1, n, -1) - 1
    if (
        np.ptp(weights) > 1e-12 * problem.unit
        or signs.shape != chain.shape
        or not np.array_equal(problem.vertices, chain)
    ):
        return None
    if not np.array_equal(signs, chain):
        return None
    if eps > weights.sum() * (1 + 1e-12):
        return Certificate(eps, np.inf, np.inf, method="closed form (all thresholds)")
    a = np.full(n, min(eps / weights.sum(), 1.0))
    return _certify(problem, eps, signs, a, margin, "closed form (all thresholds)")


def _certify(
    problem: Problem, eps: float, signs: np.ndarray, a: np.ndarray, margin: Margin, method: str
) -> Certificate:
    """The certificate with witness u = 0, a tie of all outputs, and u' = a."""
    worst, best = int(signs.sum(1).argmin()), int(signs.sum(1).argmax())
    value = float(margin_calibration(margin, a).sum())
    return Certificate(eps, value, value, worst, best, a, np.zeros(len(a)), method)


# -- Kullback-Leibler on the simplex ---------------------------------------------------------------------------------


def two_point_bounds(table: np.ndarray, eps: float) -> np.ndarray:
    """A lower bound for each pair [z, z'], where D_h is Kullback-Leibler on laws over the labels.

    Let d_y = L(z, y) - L(z', y), a = max d, -b = min d. The channel that sends y to 1 with probability (d_y + b) / (a
    + b) maps the truth to a Bernoulli law of mean at least (b + eps) / (a + b) and the estimate to one of mean at most b /
    (a + b). By data processing D >= kl((b + eps)/(a + b) | b/(a + b)). Attained by laws on two labels that attain a and
    -b, where z is optimal for the estimate.
    """
    d = table[:, None, :] - table[None, :, :]
    a, b = d.max(-1), -d.min(-1)
    out = np.full(a.shape, np.inf)
    # with b <= 0, z is optimal at most for laws on labels with d = 0, infinitely far from any truth with excess eps
    ok = (a >= eps * (1 - 1e-12)) & (b > 0) & (a > 0)
    a, b = a[ok], b[ok]
    # the Bernoulli divergence, with t = eps/b and t = -eps/a: no cancellation for small eps
    out[ok] = (b * log_excess(eps / b) + a * log_excess(np.maximum(-eps / a, -1.0))) / (a + b)
    return out


def two_point_ceilings(table: np.ndarray, slope: float) -> np.ndarray:
    """Conjugates of `two_point_bounds` at s, rounded up: f(t) = log(1 - q + q e^t) - q t with t = s (a + b), q = b / (a + b).

    f'' is the variance of a coin, at most q (1 - q) e^t, which bounds f where its two terms cancel.
    """
    d = table[:, None, :] - table[None, :, :]
    a, b = d.max(-1), -d.min(-1)
    out = np.zeros(a.shape)
    ok = (a > 0) & (b > 0)
    a, b = a[ok], b[ok]
    t, q, rest = slope * (a + b), b / (a + b), a / (a + b)
    near, far = np.minimum(t, 1e-4), np.maximum(t, 30.0)
    with np.errstate(over="ignore", under="ignore"):
        middle = np.log1p(q * np.expm1(np.minimum(t, 30.0)))
        whole = np.where(t < 30, middle, np.logaddexp(np.log(rest), np.log(q) + far)) - q * t
        out[ok] = np.where(t < 1e-4, q * rest * near**2 / 2 * np.exp(near), np.maximum(whole, 0.0) + 1e-15 * t)
    return out


def two_point_witness(problem: Problem, z: int, other: int, eps: float, bound: float) -> Certificate | None:
    """The pair's bound as an exact value, where z is optimal for one of the two-label laws that attain it; else None."""
    table = problem.table
    d = table[z] - table[other]
    slack = problem.rounding
    tops, bottoms = np.flatnonzero(d >= d.max() - slack), np.flatnonzero(d <= d.min() + slack)
    a, b = d.max(), -d.min()
    if not (a > 0 and b > 0 and eps <= a + slack):
        return None
    for top in tops[:8]:
        for bottom in bottoms[:8]:
            q = np.zeros(table.shape[1])
            q[top], q[bottom] = b / (a + b), a / (a + b)
            risks = table @ q
            if risks[z] <= risks.min() + slack:
                p = np.zeros_like(q)
                p[top], p[bottom] = (b + eps) / (a + b), max(a - eps, 0.0) / (a + b)
                vertices = problem.vertices
                return Certificate(eps, bound, bound, z, other, p @ vertices, q @ vertices, "closed form (two labels)")
    return None
