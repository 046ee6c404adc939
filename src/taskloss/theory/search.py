"""Local search, where a divergence is not jointly convex, and the ties from which upper bounds start."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..margins import Exponential
from ..polytopes.cube import Cube
from ..surrogates.coordinatewise import Coordinatewise
from ..surrogates.legendre import Legendre
from .problem import Problem
from .programs import Certificate, Programs


def deepest_tie(problem: Problem, z: int, other: int) -> np.ndarray | None:
    """The point of M where z and z' are both optimal, with as even a law over the labels as there is; None without."""
    from scipy.optimize import linprog

    table = problem.table
    m = table.shape[1]
    others = np.flatnonzero(np.abs(table - table[z]).max(1) > 1e-12)
    # maximise s subject to q >= s, q a law, z no worse than any output and equal to z'
    result = linprog(
        np.r_[np.zeros(m), -1.0],
        A_ub=np.vstack([np.c_[table[z] - table[others], np.zeros(len(others))], np.c_[-np.eye(m), np.ones(m)]]),
        b_ub=np.zeros(len(others) + m),
        A_eq=np.vstack([np.r_[table[z] - table[other], 0.0], np.r_[np.ones(m), 0.0]]),
        b_eq=[0.0, 1.0],
        bounds=[(0, None)] * m + [(0, None)],
    )
    return result.x[:m] @ problem.vertices if result.status == 0 else None


def interval(programs: Programs, eps: float, pairs: Iterable[tuple[int, int, float]]) -> Certificate:
    """lower <= zeta_h(eps) <= value, where D_h itself is not jointly convex.

    Each pair: a convex program with a minorant of D_h gives a lower end, local descent on D_h an upper end, and where
    h is the exponential margin's the Lagrangian dual a better lower end. The minorant of a user's potential rests on
    its curvature at a sample of points, and the certificate's method says so.
    """
    problem = programs.problem
    best, lower = Certificate(eps, np.inf, np.inf), np.inf
    minorants = [(max(bound, 0.0), programs.solve(z, other, eps)) for z, other, bound in pairs]
    feasible = [replace(found, lower=max(found.lower, bound)) for bound, found in minorants if found.u is not None]
    for found in sorted(feasible, key=lambda certificate: certificate.lower):
        if found.lower >= best.value:
            lower = min(lower, found.lower)
            break
        starts = [found, *reweighted(programs, found, eps)]
        ends = [descend(programs, start, eps) for start in starts[:: max(1, len(starts) - 1)]]
        if problem.surrogate.separable:  # the starts themselves count where h is known up to the faces of D
            ends += [
                (c.u_prime, c.u, float(problem.divergence(c.u_prime, c.u))) for c in starts if np.isfinite(c.value)
            ]
        u1, u2, value = min(ends, key=lambda end: end[2])
        lower = min(lower, max(found.lower, lagrangian(problem, found.z, found.z_other, eps, u1, u2)))
        if value < best.value:
            best = replace(found, value=value, u_prime=u1, u=u2)
    lower = min(lower, best.value)
    method = "interval search" + (" (sampled curvature)" if isinstance(problem.surrogate, Legendre) else "")
    return replace(best, lower=lower, method=method, exact=False, programs=len(minorants))


def reweighted(programs: Programs, start: Certificate, eps: float, rounds: int = 8) -> list[Certificate]:
    """Witnesses of the minorant with each term weighed by how far D_h exceeds it at the last one: they close in on D_h."""
    problem = programs.problem
    out: list[Certificate] = []
    if not _exponential(problem):
        return out
    form, last = problem.form, start
    width, low = 1 - problem.surrogate.low, problem.surrogate.low
    for _ in range(rounds):
        x, y = (np.clip((u - low) / width, 1e-12, 1 - 1e-12) for u in (last.u_prime, last.u))
        root = np.sqrt((1 - y) / y)
        true = x * root + (1 - x) / root - 2 * np.sqrt(x * (1 - x))
        below = x * np.log(x / y) + (1 - x) * np.log((1 - x) / (1 - y))
        ratio = np.where(below > 1e-12, true / np.maximum(below, 1e-12), 1 / (2 * np.sqrt(y * (1 - y))))
        weights = np.tile(np.clip(ratio, 1.0, 1e3), len(form.slope) // len(x))
        last = programs.solve(start.z, start.z_other, eps, weights=weights)
        if last.u is None or not np.isfinite(last.value):
            break
        out.append(last)
    return out


def _exponential(problem: Problem) -> bool:
    surrogate = problem.surrogate
    return isinstance(surrogate, Coordinatewise) and isinstance(surrogate.phi_margin, Exponential)


def lagrangian(problem: Problem, z: int, other: int, eps: float, u1: np.ndarray, u2: np.ndarray) -> float:
    """A lower bound on the pair's program by its Lagrangian dual, for the exponential margin in each coordinate.

    For any a, w >= 0, s >= 0 and b = sum_i w_i (psi(z) - psi(i)), with every constraint of (u', u) priced,
      D >= s eps' + min over M of <a - s d, u'> + sum_j m(a_j, b_j) + const, m(a, b) = min D_j(x, y) - a x + b y.
    The remainder m is searched globally, see `_coordinate`. The best multipliers come from cutting planes: a linear
    program in (a, w, s), with each coordinate's minimiser as a new cut.
    """
    if not _exponential(problem):
        return -np.inf
    from scipy.optimize import linprog

    low, k = problem.surrogate.low, len(u1)
    width = 1 - low
    rows = problem.psi[z] - problem.psi
    n, m = rows.shape[0], len(problem.vertices)
    d, c = rows[other], problem.offset[z] - problem.offset[other]
    # x = (a, w, s, value of the minimum over M, values of the coordinates)
    goal = -np.r_[np.zeros(k), problem.offset[z] - problem.offset, eps - c, 1.0, np.ones(k)]
    over = np.c_[-problem.vertices, np.zeros((m, n)), problem.vertices @ d, np.ones(m), np.zeros((m, k))]
    grid = np.clip(np.linspace(0, 1, 13), 1e-6, 1 - 1e-6)
    q1, q2 = (np.clip((u - low) / width, 1e-9, 1 - 1e-9) for u in (u1, u2))
    cuts = [(j, x, y) for j in range(k) for x, y in [*itertools.product(grid, grid), (q1[j], q2[j])]]
    sides = [(-1e3, 1e3)] * k + [(0, 1e4)] * (n + 1) + [(None, None)] * (1 + k)
    best, matrix, levels = -np.inf, [over], [np.zeros(m)]
    for _ in range(30):
        index, x, y = (np.array(part) for part in zip(*cuts, strict=True))
        index = index.astype(int)
        hot = np.eye(k)[index]
        truth, estimate = low + width * x, low + width * y
        matrix.append(np.c_[hot * truth[:, None], -estimate[:, None] * rows[:, index].T, np.zeros((len(x), 2)), hot])
        root = np.sqrt((1 - y) / y)
        levels.append(x * root + (1 - x) / root - 2 * np.sqrt(x * (1 - x)))
        found = linprog(goal, A_ub=np.vstack(matrix), b_ub=np.concatenate(levels), bounds=sides)
        if found.status != 0:
            break
        a, w = found.x[:k], found.x[k : k + n]
        b = w @ rows
        least = [_coordinate(width * a[j], width * b[j]) for j in range(k)]
        exact = sum(value for value, _, _ in least) + low * (b - a).sum()
        best = max(best, float(-found.fun - found.x[-k:].sum() + exact))
        if -found.fun - best <= 1e-7 * max(abs(best), 1e-3):
            break
        cuts = [(j, x, y) for j, (_, x, y) in enumerate(least)]
    return best


def _coordinate(a: float, b: float) -> tuple[float, float, float]:
    """(min, x, y) of D(x, y) - a x + b y over [0, 1]^2 for h = -2 sqrt(q(1-q)), searched on a fine grid and refined.

    Minimising over x leaves h*(g) - h*(g + a) + b y, with h*(g) = (g + sqrt(4 + g^2)) / 2 and g = h'(y) = 2
    tan(theta).
    """

    def value(theta: np.ndarray) -> np.ndarray:
        g = 2 * np.tan(theta)
        # h*(g + a) - h*(g) without cancellation for large g
        gap = a / 2 * (1 + (2 * g + a) / (np.sqrt(4 + g**2) + np.sqrt(4 + (g + a) ** 2)))
        return b * (1 + np.sin(theta)) / 2 - gap

    edge = np.pi / 2 - 1e-6
    theta = np.linspace(-edge, edge, 4001)
    step, values = theta[1] - theta[0], value(theta)
    for _ in range(3):
        centre = theta[np.argsort(values)[:4]]
        theta = np.clip((centre[:, None] + np.linspace(-step, step, 201)).ravel(), -edge, edge)
        step, values = step / 100, value(theta)
    i = int(values.argmin())
    tilted = 2 * np.tan(theta[i]) + a
    return float(values[i]), float((1 + tilted / np.sqrt(4 + tilted**2)) / 2), float((1 + np.sin(theta[i])) / 2)


def descend(programs: Programs, start: Certificate, eps: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Local descent on D_h(u', u) itself from a feasible pair: an upper end, and its witness."""
    from scipy.optimize import minimize

    problem, k = programs.problem, programs.k
    z, other = start.z, start.z_other
    domain: Any = problem.surrogate.domain
    points = None if domain is None or isinstance(domain, Cube) else domain.vertices()
    m = len(problem.vertices)
    rows = problem.psi - problem.psi[z]
    gains = problem.table[z] - problem.table[other]
    # x = (law over M's vertices, u or a law over D's vertices); pulled off the faces, where gradients are infinite
    n = k if points is None else len(points)
    q = _law(problem.vertices, start.u_prime)
    p = start.u if points is None else _law(points, start.u)
    pulled = 0.999 * p + 0.001 / n if points is not None else 0.999 * p + 0.001 * problem.vertices.mean(0)
    x0 = np.concatenate([0.999 * q + 0.001 / m, pulled])
    estimate = (lambda x: x[m:]) if points is None else (lambda x: x[m:] @ points)

    def value(x: np.ndarray) -> float:
        out = float(problem.divergence(x[:m] @ problem.vertices, estimate(x)))
        return out if np.isfinite(out) else 1e6

    constraints = [
        {"type": "ineq", "fun": lambda x: gains @ x[:m] - eps},
        {"type": "ineq", "fun": lambda x: rows @ estimate(x) + problem.offset - problem.offset[z]},
        {"type": "eq", "fun": lambda x: x[:m].sum() - 1},
    ]
    if points is not None:
        constraints.append({"type": "eq", "fun": lambda x: x[m:].sum() - 1})
    least = 1e-5  # off the faces of D, where the gradient of h is only known numerically
    sides = [(least, 1.0)] * n if points is not None else [(domain.low, 1.0)] * n if domain is not None else None
    bounds = [(0, 1)] * m + (sides or [(None, None)] * n)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = minimize(value, x0, method="SLSQP", bounds=bounds, constraints=constraints, options={"maxiter": 200})
    law = np.maximum(found.x[:m], 0.0)
    u2 = estimate(found.x)
    if domain is not None:
        u2 = domain.project(u2)
    u1, u2 = programs.repair(z, other, eps, law / law.sum() @ problem.vertices, u2)
    feasible = float(problem.excess(z, u1)) >= eps - 1e-12 and float(problem.excess(z, u2)) <= 1e-12
    return u1, u2, float(problem.divergence(u1, u2)) if feasible else np.inf


def _law(points: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Some law over the points with mean u."""
    from scipy.optimize import nnls

    q = nnls(np.vstack([points.T, np.ones(len(points))]), np.append(u, 1.0))[0]
    return q / q.sum()
