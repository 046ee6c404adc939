"""Intervals for zeta_h where D_h is not jointly convex, by branch and bound or descent; ties for upper bounds."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..polytopes.hull import nearest_law
from ..progress import Progress
from .blackbox import OutOfTimeError
from .certificate import Certificate
from .exponential import Dual
from .linear import linear_program
from .problem import Problem
from .programs import Programs


def deepest_tie(problem: Problem, z: int, other: int) -> np.ndarray | None:
    """A point of M where z and z' are both optimal, with the largest least probability; None where none exists."""
    table = problem.table
    m = table.shape[1]
    table = table / problem.unit
    others = np.flatnonzero(np.abs(table - table[z]).max(1) > 1e-12)
    # maximise s subject to q >= s, q a law, z no worse than any output and equal to z'
    result = linear_program(
        np.r_[np.zeros(m), -1.0],
        A_ub=np.vstack([np.c_[table[z] - table[others], np.zeros(len(others))], np.c_[-np.eye(m), np.ones(m)]]),
        b_ub=np.zeros(len(others) + m),
        A_eq=np.vstack([np.r_[table[z] - table[other], 0.0], np.r_[np.ones(m), 0.0]]),
        b_eq=[0.0, 1.0],
        bounds=[(0, None)] * m + [(0, None)],
    )
    return result.x[:m] @ problem.vertices if result.status == 0 else None


def interval(
    programs: Programs,
    eps: float,
    pairs: Iterable[tuple[int, int, float]],
    deadline: float = np.inf,
    progress: Progress | None = None,
) -> Certificate:
    """lower <= zeta_h(eps) <= value, where D_h itself is not jointly convex.

    For the exponential margin by branch and bound, to a relative gap of 1e-4 or a limit on the number of boxes. For
    other potentials the lower end of each pair is a convex program with a minorant of D_h, and the upper end local
    descent; the minorant of a user's potential uses its curvature at a sample of points, which the certificate's method
    states.
    """
    pairs = list(pairs)
    if programs.problem.hellinger:
        return _branch_and_bound(programs, eps, pairs, deadline, progress)
    best, lower = Certificate(eps, np.inf, np.inf), np.inf
    unsolved = Certificate(eps, np.inf, 0.0)
    minorants = []
    for i, (z, other, bound) in enumerate(pairs):
        found = programs.solve(z, other, eps) if time.monotonic() < deadline else unsolved
        minorants.append((max(bound, 0.0), found))
        if progress is not None:
            progress.count(i + 1, len(pairs), "lower bounds of pairs of outputs")
    found_lower = [
        replace(found, lower=max(_rescaled(programs.problem, found.lower), bound)) for bound, found in minorants
    ]
    for i, found in enumerate(sorted(found_lower, key=lambda certificate: certificate.lower)):
        lower = min(lower, found.lower)
        if progress is not None:
            progress.count(i, len(pairs), "upper bounds of pairs of outputs")
        if found.lower >= best.value or np.isinf(found.lower):
            break
        if found.u is not None and (time.monotonic() < deadline or best.u is None):
            first = witness(programs, found.z, found.z_other, eps, found.u_prime, found.u)
            best = min(best, first, key=lambda end: end.value)
            if time.monotonic() < deadline:
                best = min(best, descend(programs, found, eps, deadline), key=lambda end: end.value)
    method = "interval search" + (" (sampled curvature)" if programs.problem.form.sampled else "")
    return replace(best, lower=min(lower, best.value), method=method, exact=False, programs=len(pairs))


def _rescaled(problem: Problem, lower: float) -> float:
    """A pair's lower bound for D_h from that for the squared distance, where the form has curvature 1 in place of h's.

    D_h(u', .) increases along rays from u'. An estimate at distance rho or more thus has at least the divergence of the
    point at rho on its ray, and up to there h has at least the least curvature within rho of M.
    """
    least = problem.form.least_curvature
    if least is None or not 0 < lower < np.inf:
        return lower
    return lower * least(float(np.sqrt(2 * lower)))


def _branch_and_bound(
    programs: Programs,
    eps: float,
    pairs: list[tuple[int, int, float]],
    deadline: float,
    progress: Progress | None = None,
    precision: float = 1e-4,
    most: int = 200,
) -> Certificate:
    """Best-first search over pairs and boxes, until the least bound is within `precision` of the best witness.

    Stops after `most` steps beyond one per pair, which keeps 30 outputs under two minutes.
    """
    best, lower, steps, stuck = Certificate(eps, np.inf, np.inf), np.inf, 0, np.inf
    queue = [(bound, z, other, _Pair(programs, z, other, eps, bound)) for z, other, bound in pairs]
    heapq.heapify(queue)
    while queue:
        lower, z, other, pair = queue[0]
        cutoff = (1 - precision) * best.value
        if progress is not None:
            progress.count(steps, len(pairs) + most, "boxes at most")
        if time.monotonic() > deadline and best.u is not None:
            break
        if lower >= cutoff or np.isinf(lower) or steps == len(pairs) + most or pair.tight:
            break
        best, steps = min([best, *pair.improve(cutoff)], key=lambda end: end.value), steps + 1
        if pair.stuck and np.isfinite(
            pair.bound
        ):  # neither a feasible point nor a proof of infeasibility: keep its bound
            stuck = min(stuck, pair.bound)
            heapq.heappop(queue)
        else:
            heapq.heapreplace(queue, (pair.bound, z, other, pair))
    return replace(best, lower=min(lower, stuck, best.value), method="branch and bound", exact=False, programs=steps)


class _Pair:
    """One pair in the search. Its bounds, in turn: a cheap one, a convex minorant's, the Lagrangian dual's, that of boxes."""

    def __init__(self, programs: Programs, z: int, other: int, eps: float, bound: float):
        self.programs, self.z, self.other, self.eps, self.bound = programs, z, other, eps, bound
        self.first: Certificate | None = None
        self.dual: Dual | None = None
        self.nodes: list[Any] = []
        self.order = itertools.count()

    def improve(self, cutoff: float) -> list[Certificate]:
        """Tighten the bound by one step; returns the witnesses found."""
        if self.first is None:
            self.first = self.programs.solve(self.z, self.other, self.eps)
            self.bound = max(self.bound, self.first.lower)
            if self.first.u is None:  # infeasible, or the solver found no feasible point
                return []
            return [self._witness(self.first.u_prime, self.first.u)]
        if self.dual is None:
            self.dual = Dual(self.programs.problem, self.z, self.other, self.eps)
            new = [self.dual.root(self.first.u_prime, self.first.u, cutoff)]
        else:
            new = self.dual.branch(heapq.heappop(self.nodes)[-1], cutoff)
        for node in new:
            heapq.heappush(self.nodes, (node.bound, next(self.order), node))
        self.bound = max(self.bound, self.nodes[0][0])
        return [self._witness(node.truth, node.estimate) for node in new]

    @property
    def stuck(self) -> bool:
        """Whether the solver found no initial point."""
        return self.first is not None and self.first.u is None

    @property
    def tight(self) -> bool:
        """Whether the envelopes equal the divergence: the gap is the solver's, and boxes do not help."""
        return bool(self.nodes) and float(self.nodes[0][-1].loose.sum()) <= 1e-5 * self.bound

    def _witness(self, u1: Any, u2: Any) -> Certificate:
        return witness(self.programs, self.z, self.other, self.eps, u1, u2)


def witness(programs: Programs, z: int, other: int, eps: float, u1: Any, u2: Any) -> Certificate:
    """The certificate of a feasible point near (u1, u2), without a lower bound; infinite where none is found."""
    problem, value = programs.problem, np.inf
    if u2 is not None:
        u1, u2 = programs.repair(z, other, eps, programs.scaled.to_x(u1), programs.scaled.to_x(u2))
        if programs.feasible(z, other, eps, u1, u2):
            value = problem.ceiling(u1, u2)
    return Certificate(eps, value, -np.inf, z, other, u1, u2)


def descend(programs: Programs, start: Certificate, eps: float, deadline: float = np.inf) -> Certificate:
    """An upper end by local descent on D_h(u', u) from a feasible pair, until the deadline."""
    from scipy.optimize import minimize

    problem, k = programs.problem, programs.scaled.size
    z, other = start.z, start.z_other
    domain = problem.surrogate.domain
    faces = None if domain is None else domain.law()
    points = None if domain is None or faces is not None else domain.vertices()
    m = len(problem.vertices)
    rows = problem.psi - problem.psi[z]
    gains = problem.table[z] - problem.table[other]
    # x = (law over M's vertices, u or a law over D's vertices), moved off the faces, where gradients are infinite
    n = k if points is None else len(points)
    q = nearest_law(problem.vertices, start.u_prime)
    p = start.u if points is None else nearest_law(points, start.u)
    centre = problem.vertices.mean(0) if domain is None else domain.center()
    pulled = 0.999 * p + 0.001 / n if points is not None else 0.999 * p + 0.001 * centre
    x0 = np.concatenate([0.999 * q + 0.001 / m, pulled])
    estimate = (lambda x: x[m:]) if points is None else (lambda x: x[m:] @ points)

    last = [x0]

    def value(x: np.ndarray) -> float:
        if time.monotonic() > deadline:
            raise OutOfTimeError
        out = float(problem.divergence(x[:m] @ problem.vertices, estimate(x)))
        return out if np.isfinite(out) else 1e6

    unit = problem.unit
    constraints = [
        {"type": "ineq", "fun": lambda x: (gains @ x[:m] - eps) / unit},
        {"type": "ineq", "fun": lambda x: (rows @ estimate(x) + problem.offset - problem.offset[z]) / unit},
        {"type": "eq", "fun": lambda x: x[:m].sum() - 1},
    ]
    least = 1e-5  # off the faces of D, where the gradient of h is only known numerically
    if points is not None:
        constraints.append({"type": "eq", "fun": lambda x: x[m:].sum() - 1})
    elif faces is not None:
        constraints.append({"type": "ineq", "fun": lambda x: faces.slope @ x[m:] + faces.shift - least})
        if len(faces.equal):
            constraints.append({"type": "eq", "fun": lambda x: faces.equal @ x[m:] - faces.level})
    sides: list[Any] = [(None, None)] * n if points is None else [(least, 1.0)] * n
    limits = [(0, 1)] * m + sides
    with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.suppress(OutOfTimeError):
        warnings.simplefilter("ignore")
        options = {"maxiter": 200}
        found = minimize(
            value, x0, (), "SLSQP", bounds=limits, constraints=constraints, callback=last.append, options=options
        )
        last.append(found.x)
    x = np.array(last[-1])
    law = np.maximum(x[:m], 0.0)
    if not (np.isfinite(x).all() and law.sum() > 0):
        return Certificate(eps, np.inf, -np.inf, z, other)
    return witness(programs, z, other, eps, law / law.sum() @ problem.vertices, estimate(x))
