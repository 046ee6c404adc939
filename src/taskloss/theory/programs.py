"""One convex program per ordered pair (z, z'): the least divergence from z-is-optimal to z-is-eps-worse-than-z'.

    minimise D(u', u)   over u' in M, u in D and H_0(z), with <psi(z) - psi(z'), u'> + c(z) - c(z') >= eps

Clarabel solves it: the entropy by exponential cones, the squared norm as a quadratic objective. The same builder
serves the conjugate zeta*(s), where a reward s <psi(z) - psi(z'), u'> takes the place of the constraint.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..polytopes.cube import Cube
from ..polytopes.simplex import Simplex
from .problem import Problem


@dataclass(frozen=True)
class Certificate:
    """zeta_h(eps) with its proof: `lower` <= zeta_h(eps) <= `value`, the upper end attained by the witness.

    value: D_h(u', u) at the witness, evaluated anew in double precision. lower: the dual value (up to the solver's
    feasibility, 1e-9), a proved formula, or the bound of a comparison potential or of branch and bound. `exact`: both
    ends agree by construction; False means an honest interval. `u_prime` (in M) is the truth, `u` (in D) the estimate,
    `z` the output that the estimate picks and `z_other` the better one; indices into the loss's outputs.
    """

    eps: float
    value: float
    lower: float
    z: int = -1
    z_other: int = -1
    u_prime: Any = None
    u: Any = None
    method: str = "conic"
    exact: bool = True
    programs: int = 0

    @property
    def gap(self) -> float:
        """value - lower, zero where both are infinite."""
        return 0.0 if self.value == self.lower else self.value - self.lower

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        if not np.isfinite(self.lower):
            return f"zeta({self.eps:g}) = inf (no output is that wrong anywhere)"
        kind = f"= {self.value:.8g}, gap {self.gap:.1e}" if self.exact else f"in [{self.lower:.8g}, {self.value:.8g}]"
        return f"zeta({self.eps:g}) {kind} by {self.method}, at z = {self.z} against z' = {self.z_other}"


class Programs:
    """The programs of one problem; what they share is built once."""

    def __init__(self, problem: Problem):
        try:
            import clarabel
            import scipy.sparse as sparse
        except ImportError as error:
            raise ImportError(
                "Calibration functions without a closed form need the solver Clarabel: pip install 'taskloss[theory]'."
            ) from error
        self.clarabel, self.sparse = clarabel, sparse
        self.problem = problem
        self._deep: dict[int, np.ndarray | None] = {}
        self._support: dict[int, np.ndarray] = {}
        self._lay_out()

    # -- what all pairs share ----------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Variables x = (u', u, t, weights of M's vertices, weights of D's points), and the rows that never change."""
        problem, form = self.problem, self.problem.form
        k, n = problem.psi.shape[1], len(form.slope)
        listed = not isinstance(problem.polytope, Simplex | Cube)
        m = len(problem.vertices) if listed else 0
        p = 0 if form.points is None else len(form.points)
        self.k = k
        starts = np.cumsum([0, k, k, n, m, p])
        self.first, self.second, self.terms, self.weights, self.mix = (
            slice(a, b) for a, b in itertools.pairwise(starts)
        )
        self.size = int(starts[-1])
        equal, level, least, bound = [], [], [], []

        def row(count: int, **parts: np.ndarray) -> np.ndarray:
            out = np.zeros((count, self.size))
            for name, block in parts.items():
                out[:, getattr(self, name)] = block
            return out

        if listed:
            equal += [row(k, first=np.eye(k), weights=-problem.vertices.T), row(1, weights=np.ones(m))]
            level += [np.zeros(k), np.ones(1)]
            least += [row(m, weights=np.eye(m))]
            bound += [np.zeros(m)]
        else:
            low, high = problem.polytope.bounds()
            least += [row(k, first=np.eye(k))]
            bound += [low]
            if isinstance(problem.polytope, Simplex):
                equal, level = [row(1, first=np.ones(k))], [np.ones(1)]
            else:
                least += [row(k, first=-np.eye(k))]
                bound += [-high]
        if len(form.equal):
            equal += [row(len(form.equal), second=form.equal)]
            level += [form.level]
        if p:
            equal += [row(k, second=np.eye(k), mix=-form.points.T), row(1, mix=np.ones(p))]  # type: ignore[union-attr]
            level += [np.zeros(k), np.ones(1)]
            least += [row(p, mix=np.eye(p))]
            bound += [np.zeros(p)]
        self.equal, self.level = np.vstack([np.zeros((0, self.size)), *equal]), np.concatenate([np.zeros(0), *level])
        self.least, self.bound = np.vstack(least), np.concatenate(bound)
        # Exponential cones y exp(x/y) <= z at (x, y, z) = (-t_j, a'_j, a_j): t_j >= a'_j log(a'_j / a_j).
        cones = np.zeros((3 * n, self.size))
        cones[0::3, self.terms] = -np.eye(n)
        cones[1::3, self.first] = form.slope
        cones[2::3, self.second] = form.slope
        self.cones, self.cone_shift = cones, np.zeros(3 * n)
        self.cone_shift[1::3] = self.cone_shift[2::3] = form.shift
        quadratic = np.zeros((self.size, self.size))
        eye = form.curvature * np.eye(k)
        quadratic[self.first, self.first] = quadratic[self.second, self.second] = eye
        quadratic[self.first, self.second] = -eye  # the upper triangle is all that is read
        self.quadratic = self.sparse.csc_matrix(np.triu(quadratic))

    def _optimal(self, z: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of H_0(z): (psi(j) - psi(z)) u >= c(z) - c(j) for every j."""
        problem = self.problem
        rows = np.unique(np.c_[problem.psi - problem.psi[z], problem.offset[z] - problem.offset], axis=0)
        return rows[:, :-1], rows[:, -1]

    # -- one pair ----------------------------------------------------------------------------------------------------

    def solve(self, z: int, other: int, eps: float | None = None, reward: float = 0.0) -> Certificate:
        """The certificate of one pair; `value` is infinite where the pair has no feasible point.

        With a reward s and no eps, the value is that of D(u', u) - s (excess over z'), minus the pair's share of
        zeta*(s).
        """
        problem = self.problem
        target = 0.0 if eps is None else eps
        nowhere = Certificate(target, np.inf, np.inf, z, other)
        if self.deep(z) is None:
            return nowhere
        d, c = problem.psi[z] - problem.psi[other], problem.offset[z] - problem.offset[other]
        rows, levels = self._optimal(z)
        optimal = np.zeros((len(rows), self.size))
        optimal[:, self.second] = rows
        least, bound = [self.least, optimal], [self.bound, levels]
        if eps is not None:
            behind = np.zeros((1, self.size))
            behind[0, self.first] = d
            least.append(behind)
            bound.append(np.array([eps - c]))
        objective = np.zeros(self.size)
        objective[self.terms] = 1.0
        objective[self.first] = -reward * d
        scale = max(1.0, reward)  # a steep reward would drown the divergence in the solver's tolerances
        solution = self._run(z, objective / scale, np.vstack(least), np.concatenate(bound), self.quadratic / scale)
        status = str(solution.status)
        if "Infeasible" in status:
            return nowhere
        u1, u2 = self.repair(z, other, eps, *self._inside(np.asarray(solution.x)))
        value = float(problem.form.divergence(u1, u2)) - reward * float(u1 @ d + c)
        lower = min(scale * float(solution.obj_val_dual) - reward * c, value)
        if status != "Solved":  # short of its tolerance the dual value is not to be trusted to the last digits
            lower -= 1e-5 * max(1.0, abs(lower)) if status == "AlmostSolved" else np.inf
        if float(problem.excess(z, u2)) > 1e-8 or (eps is not None and float(u1 @ d + c) < eps - 1e-9):
            value = np.inf  # no witness: what the solver stopped at is not feasible
        return Certificate(target, value, lower, z, other, u1, u2)

    def _run(self, z: int, objective: np.ndarray, least: np.ndarray, bound: np.ndarray, quadratic: Any) -> Any:
        # Clarabel's form: A x + s = b with s in the cone; so s = G x - g is written A = -G, b = -g.
        clarabel, sparse = self.clarabel, self.sparse
        equal, level, kept = self.equal, self.level, self.support(z)
        cones = np.repeat(kept, 3)
        if not kept.all():
            # Where z is optimal the estimate has no weight on some a_j; then the truth may not have any either, or the
            # divergence is infinite. Said in so many words, as a cone without interior stalls the solver.
            form = self.problem.form
            bare = np.zeros((2 * (~kept).sum(), self.size))
            bare[: (~kept).sum(), self.first] = form.slope[~kept]
            bare[(~kept).sum() :, self.terms] = np.eye(len(kept))[~kept]
            equal = np.vstack([equal, bare])
            level = np.concatenate([level, -form.shift[~kept], np.zeros((~kept).sum())])
        a = sparse.csc_matrix(np.vstack([equal, -least, -self.cones[cones]]))
        b = np.concatenate([level, -bound, self.cone_shift[cones]])
        kinds = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(least))]
        kinds += [clarabel.ExponentialConeT() for _ in range(int(kept.sum()))]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        return clarabel.DefaultSolver(quadratic, objective, a, b, kinds, settings).solve()

    # -- making the witness exact ------------------------------------------------------------------------------------

    def repair(
        self, z: int, other: int, eps: float | None, u1: np.ndarray, u2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """u' in M with its excess at least eps, u in D with z optimal, whatever digits the solver left off.

        Both sets are convex: a step towards a point deep inside mends a small violation.
        """
        problem = self.problem
        if eps is not None:
            gains = problem.table[z] - problem.table[other]
            top = int(gains.argmax())
            have = float(u1 @ (problem.psi[z] - problem.psi[other]) + problem.offset[z] - problem.offset[other])
            if have < eps and gains[top] > have:
                step = min(1.0, (eps - have) / (gains[top] - have))
                u1 = u1 + step * (problem.vertices[top] - u1)
        behind = float(problem.excess(z, u2))
        if behind > 0:
            deep = self.deep(z)
            if deep is not None:
                slack = -float((deep @ problem.psi[z] + problem.offset[z]) - _second_best(problem, z, deep))
                if slack > 1e-7:
                    u2 = u2 + behind / (behind + slack) * (deep - u2)
        return u1, u2

    def _inside(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        problem, form = self.problem, self.problem.form
        if self.weights.stop > self.weights.start:
            q = np.maximum(x[self.weights], 0.0)
            u1 = q / q.sum() @ problem.vertices
        elif isinstance(problem.polytope, Simplex):
            q = np.maximum(x[self.first], 0.0)
            u1 = q / q.sum()
        else:
            u1 = problem.polytope.project(x[self.first])
        u2 = x[self.second]
        if form.points is not None:
            q = np.maximum(x[self.mix], 0.0)
            u2 = q / q.sum() @ form.points
        elif problem.surrogate.domain is not None:
            # A projection may cut a weight to zero of which the truth has some: infinitely far. Keep a speck of each.
            u2 = problem.surrogate.domain.project(u2)
            u2 = u2 + 1e-12 * (problem.surrogate.domain.center() - u2)
        return u1, u2

    def deep(self, z: int) -> np.ndarray | None:
        """A point of D that prefers z to every other output by as much as one can; None where z is never optimal."""
        if z not in self._deep:
            self._deep[z] = self._deepest(z)
        return self._deep[z]

    def support(self, z: int) -> np.ndarray:
        """Which of the a_j can be positive in D where z is optimal."""
        if z not in self._support:
            self._support[z] = self._positive(z)
        return self._support[z]

    def _region(self, z: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """H_0(z) in D for a linear program: u = basis @ x, rows of H_0(z) that say something, and D's constraints."""
        problem, form = self.problem, self.problem.form
        rows, levels = self._optimal(z)
        keep = np.abs(rows).max(1) > 1e-12
        low, high = problem.polytope.bounds()
        if form.points is None:
            basis, sides = np.eye(self.k), list(zip(2 * low - high, 2 * high - low, strict=True))
            inside, equal, level = form.slope, form.equal, form.level
        else:
            m = len(form.points)
            basis, sides = form.points.T, [(0.0, 1.0)] * m
            inside, equal, level = np.zeros((0, m)), np.ones((1, m)), np.ones(1)
        domain = {"inside": inside, "equal": equal, "level": level, "sides": sides}
        return basis, rows[keep], levels[keep], domain

    def _deepest(self, z: int) -> np.ndarray | None:
        from scipy.optimize import linprog

        # maximise s subject to rows u - s >= levels, inside D, or in a box around M where D is everything
        basis, rows, levels, domain = self._region(z)
        inside, equal = domain["inside"], domain["equal"]
        result = linprog(
            np.r_[np.zeros(basis.shape[1]), -1.0],
            A_ub=np.vstack([np.c_[-rows @ basis, np.ones(len(rows))], np.c_[-inside, np.zeros(len(inside))]]),
            b_ub=np.r_[-levels, self.problem.form.shift],
            A_eq=np.c_[equal, np.zeros(len(equal))] if len(equal) else None,
            b_eq=domain["level"] if len(equal) else None,
            bounds=[*domain["sides"], (None, 1.0)],
        )
        return basis @ result.x[:-1] if result.status == 0 and result.x[-1] >= -1e-9 else None

    def _positive(self, z: int) -> np.ndarray:
        from scipy.optimize import linprog

        form = self.problem.form
        n = len(form.slope)
        if n == 0 or form.points is not None:
            return np.ones(n, dtype=bool)
        # maximise sum s_j subject to s_j <= a_j and s_j <= 1e-4: by mixing, every a_j that can be positive is
        _, rows, levels, domain = self._region(z)
        result = linprog(
            np.r_[np.zeros(self.k), -np.ones(n)],
            A_ub=np.vstack([np.c_[-rows, np.zeros((len(rows), n))], np.c_[-form.slope, np.eye(n)]]),
            b_ub=np.r_[-levels + 1e-12, form.shift],
            A_eq=np.c_[form.equal, np.zeros((len(form.equal), n))] if len(form.equal) else None,
            b_eq=form.level if len(form.equal) else None,
            bounds=[*domain["sides"], *[(0.0, 1e-4)] * n],
        )
        return result.x[self.k :] > 1e-8 if result.status == 0 else np.ones(n, dtype=bool)


def _second_best(problem: Problem, z: int, u: np.ndarray) -> float:
    """The least risk at u among outputs that are not z's twins."""
    risks = u @ problem.psi.T + problem.offset
    twin = (np.abs(problem.psi - problem.psi[z]).max(1) < 1e-12) & (np.abs(problem.offset - problem.offset[z]) < 1e-12)
    return float(risks[~twin].min(initial=np.inf))
