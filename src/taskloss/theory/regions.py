"""The region H_0(z) where an output is optimal: emptiness, an interior point, the support of a, feasible points."""

from __future__ import annotations

from typing import Any

import numpy as np

from .linear import linear_program
from .problem import Problem
from .scaled import ROUNDING, Scaled


class Regions:
    """H_0(z) in D, by linear programs in scaled coordinates; results are cached."""

    def __init__(self, problem: Problem):
        self.problem, self.scaled = problem, Scaled(problem)
        self._deep: dict[int, tuple[bool, np.ndarray | None, float]] = {}
        self._support: dict[int, np.ndarray] = {}

    def never_optimal(self, z: int) -> bool:
        """Whether z is optimal nowhere in D, certified by a mixture of outputs that beats z on all of D."""
        return self._deepest_of(z)[0]

    def deep(self, z: int) -> np.ndarray | None:
        """The point of D with the largest slack in H_0(z); None where z is never optimal."""
        return self._deepest_of(z)[1]

    def _deepest_of(self, z: int) -> tuple[bool, np.ndarray | None, float]:
        if z not in self._deep:
            self._deep[z] = self._deepest(z)
        return self._deep[z]

    def _domain(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[Any]]:
        """D for a linear program: x = basis y with inside y + shift >= 0, equal y = level, and bounds on y."""
        scaled = self.scaled
        if scaled.points is None:
            sides = [(None, None)] * scaled.size
            return np.eye(scaled.size), scaled.slope, scaled.shift, scaled.equal, scaled.level, sides
        m = len(scaled.points)
        none = np.zeros((0, m)), np.zeros(0)
        return scaled.points.T, *none, np.ones((1, m)), np.ones(1), [(0.0, 1.0)] * m

    def _deepest(self, z: int) -> tuple[bool, np.ndarray | None, float]:
        scaled, problem = self.scaled, self.problem
        rows, levels, _, worst = scaled.optimal(z)
        if worst > problem.rounding:
            return True, None, -worst
        # maximise s <= 1 subject to rows x - s >= levels, inside D
        basis, inside, shift, equal, level, sides = self._domain()
        result = linear_program(
            np.r_[np.zeros(basis.shape[1]), -1.0],
            A_ub=np.vstack([np.c_[-rows @ basis, np.ones(len(rows))], np.c_[-inside, np.zeros(len(inside))]]),
            b_ub=np.r_[-levels, shift],
            A_eq=np.c_[equal, np.zeros(len(equal))] if len(equal) else None,
            b_eq=level if len(equal) else None,
            bounds=[*sides, (None, 1.0)],
        )
        if result.status != 0:
            return False, None, 0.0
        depth = float(result.x[-1])
        if depth < -1e-11:
            # the multipliers weigh a mixture of outputs: z is never optimal if it is worse on all of D
            multipliers = np.maximum(-result.ineqlin.marginals[: len(rows)], 0.0)
            if problem.form.everywhere:
                regret = float(multipliers @ levels)  # constant in u, as multipliers @ rows = 0 up to rounding
                regret = regret if np.abs(multipliers @ rows).max() <= 1e-12 else -np.inf
            else:
                slope = multipliers @ rows
                regret = float(multipliers @ levels - slope @ scaled.minimiser(-slope))
            if regret > ROUNDING * max(float(multipliers @ np.abs(levels)), 1e-300):
                return True, None, depth
        return False, self._off_faces(basis @ result.x[:-1], depth, rows, levels), depth

    def _off_faces(self, x: np.ndarray, depth: float, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """A point with at least half the slack in H_0(z), in the interior of D: a step towards D's centre."""
        scaled = self.scaled
        if depth <= 0 or not len(scaled.slope) or scaled.points is not None:
            return x
        centre = scaled.to_x(np.asarray(self.problem.domain.center(), dtype=float))
        behind = float((levels - rows @ centre).max(initial=0.0))
        return x + depth / (2 * (depth + behind)) * (centre - x)

    def support(self, z: int) -> np.ndarray:
        """Mask of the a_j that can be positive in D where z is optimal."""
        if z not in self._support:
            self._support[z] = self._positive(z)
        return self._support[z]

    def finite_reach(self, z: int, other: int) -> float:
        """The largest excess of z over z' at a truth with finite divergence from some point of H_0(z).

        There the a_j that vanish on H_0(z) are zero; as a_j >= 0 on M, the truth is a mean of vertices where they are
        zero.
        """
        zero = ~self.support(z)
        gains = self.problem.table[z] - self.problem.table[other]
        weights = self.scaled.vertices @ self.scaled.slope[zero].T + self.scaled.shift[zero]
        return float(gains[(weights <= 1e-13).all(1)].max(initial=-np.inf))

    def _positive(self, z: int) -> np.ndarray:
        scaled = self.scaled
        n, k = len(scaled.slope), scaled.size
        if n == 0 or scaled.points is not None or self.never_optimal(z):
            return np.ones(n, dtype=bool)
        deep, depth = self._deepest_of(z)[1:]
        if deep is not None and depth > 1e-9 and (scaled.slope @ deep + scaled.shift > 1e-9).all():
            return np.ones(n, dtype=bool)
        rows, levels, _, _ = scaled.optimal(z)
        levels = levels - max(-depth, 0.0)
        for largest in (1e9, 1e6, 1e3):  # a larger bound on tau allows a thinner region, and is harder for the solver
            # maximise sum s_j subject to s_j <= tau a_j and s_j <= 1: as tau grows, every a_j that can be positive reaches 1
            slack = levels - 1e-13
            above = np.hstack([-rows, slack[:, None], np.zeros((len(rows), n))])
            inside = np.hstack([-scaled.slope, -scaled.shift[:, None], np.eye(n)])
            result = linear_program(
                np.r_[np.zeros(k + 1), -np.ones(n)],
                A_ub=np.vstack([above, inside]),
                b_ub=np.zeros(len(rows) + n),
                A_eq=np.c_[scaled.equal, -scaled.level, np.zeros((len(scaled.equal), n))]
                if len(scaled.equal)
                else None,
                b_eq=np.zeros(len(scaled.equal)) if len(scaled.equal) else None,
                bounds=[*[(None, None)] * k, (0.0, largest), *[(0.0, 1.0)] * n],
            )
            if result.status == 0:
                zero = result.x[k + 1 :] < 0.5
                return ~zero if zero.any() and self._vanish(z, zero, levels) else np.ones(n, dtype=bool)
        return np.ones(n, dtype=bool)

    def _vanish(self, z: int, zero: np.ndarray, levels: np.ndarray) -> bool:
        """Whether these a_j vanish on H_0(z), certified by w >= 0 with sum a_j + w (rows x - levels) <= 0 on D."""
        scaled = self.scaled
        rows = scaled.optimal(z)[0]
        slope, shift = scaled.slope[zero].sum(0), float(scaled.shift[zero].sum())
        result = linear_program(
            -slope,
            A_ub=np.vstack([-rows, -scaled.slope]),
            b_ub=np.r_[-levels, scaled.shift],
            A_eq=scaled.equal if len(scaled.equal) else None,
            b_eq=scaled.level if len(scaled.equal) else None,
            bounds=(None, None),
        )
        if result.status != 0:
            return False
        w = np.maximum(-result.ineqlin.marginals[: len(rows)], 0.0)
        total = slope + w @ rows
        x = scaled.minimiser(-total)
        weight = np.abs(scaled.slope[zero]).sum(0) @ np.abs(x) + np.abs(scaled.shift[zero]).sum()
        weight += w @ (np.abs(rows) @ np.abs(x) + np.abs(levels))
        return bool(float(total @ x + shift - w @ levels) <= ROUNDING * float(weight))

    # -- feasible points ---------------------------------------------------------------------------------------------

    def feasible(self, z: int, other: int, eps: float | None, u1: np.ndarray, u2: np.ndarray) -> bool:
        """Whether u2 lies in D, z is optimal there and eps worse than z' at u1, up to eps / 1e9 and rounding."""
        problem = self.problem
        tolerance = problem.rounding * max(
            1.0, float(np.abs(u2).max()) / max(float(np.abs(problem.vertices).max()), 1e-300)
        )
        tolerance += 1e-9 * (eps or 0.0)
        if not problem.form.inside(u2):
            return False
        if float(problem.excess(z, u2)) > tolerance + (1e-9 * problem.unit if eps is None else 0.0):
            return False
        gain = u1 @ (problem.psi[z] - problem.psi[other]) + problem.offset[z] - problem.offset[other]
        return eps is None or float(gain) >= eps - tolerance

    def repair(
        self, z: int, other: int, eps: float | None, truth: np.ndarray, estimate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A feasible pair near the solver's: u' in M with excess at least eps, u in D with z optimal.

        The estimate is projected onto the rows of H_0(z) and D that it violates; a step towards an interior point,
        feasible by convexity, removes the remaining violation.
        """
        scaled, problem = self.scaled, self.problem
        x1, x2 = self._in_m(truth), estimate
        gains = problem.table[z] - problem.table[other]
        d, c = scaled.gain(z, other)
        top = int(gains.argmax())
        have = float(d @ x1) + c
        if eps is not None and have < eps and gains[top] > have:
            x1 = x1 + min(1.0, (eps - have) / (gains[top] - have)) * (scaled.vertices[top] - x1)
        rows, levels, _, _ = scaled.optimal(z)
        equal, level = scaled.equal, scaled.level
        if scaled.points is None and len(scaled.slope):
            kept = self.support(z)
            rows, levels = np.vstack([rows, scaled.faces[0]]), np.concatenate([levels, scaled.faces[1]])
            equal, level = np.vstack([equal, scaled.faces[0][~kept]]), np.concatenate([level, scaled.faces[1][~kept]])
        for _ in range(6):
            x2 = self._in_d(x2) if scaled.points is not None else x2
            slack = rows @ x2 - levels
            touched = slack < 1e-15
            if slack.min(initial=0.0) >= -1e-15 and np.abs(equal @ x2 - level).max(initial=0.0) <= 1e-15:
                break
            active, goal = np.vstack([rows[touched], equal]), np.concatenate([levels[touched], level])
            x2 = x2 + np.linalg.lstsq(active, goal - active @ x2, rcond=1e-12)[0]
        deep = self.deep(z)
        behind = float((levels - rows @ x2).max(initial=0.0))
        if behind > 1e-15 and deep is not None:
            depth = float((rows @ deep - levels).min(initial=np.inf))
            if depth > 1e-9:
                x2 = x2 + behind / (behind + depth) * (deep - x2)
        if len(scaled.slope):
            # An a_j = 0 with a'_j > 0 has infinite divergence: mixing in a little of the truth makes it positive, and
            # costs z optimality by a negligible share of eps only.
            weight_of_truth = 1e-12 if eps is None else min(1e-12, 1e-10 * eps / (float(np.linalg.norm(d)) or 1.0))
            x2 = x2 + weight_of_truth * (x1 - x2)
        return scaled.to_u(x1), scaled.to_u(x2)

    def _in_m(self, x: np.ndarray) -> np.ndarray:
        scaled = self.scaled
        if scaled.inner is not None:
            slope, shift, equal, level = scaled.inner
            inside = (slope @ x + shift).min(initial=0.0) >= -1e-16
            if inside and np.abs(equal @ x - level).max(initial=0.0) <= 1e-15:
                return x
        return scaled.to_x(np.asarray(self.problem.polytope.project(scaled.to_u(x)), dtype=float))

    def _in_d(self, x: np.ndarray) -> np.ndarray:
        scaled = self.scaled
        if self.problem.form.everywhere:
            return x
        inside = scaled.points is None and (scaled.slope @ x + scaled.shift).min(initial=0.0) >= -1e-16
        if inside and np.abs(scaled.equal @ x - scaled.level).max(initial=0.0) <= 1e-15:
            return x
        return scaled.to_x(np.asarray(self.problem.domain.project(scaled.to_u(x)), dtype=float))
