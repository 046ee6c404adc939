"""A problem in scaled coordinates, so that tolerances do not depend on the units of costs and embedding.

u = centre + radius x puts M's vertices into the unit ball, and every row of H_0(z) has length one. A solver's
solution is only a proposal: `lower` re-evaluates the Lagrangian at its multipliers, a bound for any multipliers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .problem import Problem

ROUNDING = 16 * np.finfo(float).eps


class Multipliers(NamedTuple):
    """Multipliers of one pair's constraints, in the problem's own units.

    s: of the excess over z'. w: of z being no worse than each output. log_ratio, less_ratio: log r_j and 1 - r_j of the
    tangents a' log(a'/a) - a' + a >= a' log r + a (1 - r). tangent: x' - x at which the tangent of the squared norm is
    taken. flat: multipliers of a'_j and a_j for those a_j that vanish wherever z is optimal.
    """

    s: float
    w: np.ndarray
    log_ratio: np.ndarray
    less_ratio: np.ndarray
    tangent: np.ndarray
    flat: tuple[Any, Any] = (0.0, 0.0)


class Scaled:
    """The arrays of a problem in scaled coordinates."""

    def __init__(self, problem: Problem):
        self.problem, form = problem, problem.form
        self.centre = problem.vertices.mean(0)
        self.radius = float(np.linalg.norm(problem.vertices - self.centre, axis=1).max()) or 1.0
        self.vertices = (problem.vertices - self.centre) / self.radius
        self.psi, self.offset = self.radius * problem.psi, problem.offset + problem.psi @ self.centre
        self.slope, self.shift = self.radius * form.slope, form.shift + form.slope @ self.centre
        self.equal, self.level = _rows(self.radius * form.equal, form.level - form.equal @ self.centre)
        self.faces = _rows(self.slope, -self.shift)  # D's inequalities a_j >= 0, as unit rows
        self.curvature = form.curvature * self.radius**2
        self.points = None if form.points is None else (form.points - self.centre) / self.radius
        # coordinates that are constant on D, such as forbidden transitions, where h may have no gradient
        domain = problem.surrogate.domain
        self.fixed = np.zeros(self.size, bool) if domain is None else np.equal(*domain.bounds())
        law = problem.polytope.law()
        self.inner: tuple[np.ndarray, ...] | None = (
            None  # M = {slope x + shift >= 0, equal x = level}, where few rows do
        )
        if law is not None:
            inside = _rows(self.radius * law.slope, law.shift + law.slope @ self.centre)
            self.inner = (*inside, *_rows(self.radius * law.equal, law.level - law.equal @ self.centre))
        self.reach = np.maximum(np.abs(problem.table - problem.table.min(0)).max(), 1e-300)
        self._optimal: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, float]] = {}

    @property
    def size(self) -> int:
        return self.psi.shape[1]

    def to_u(self, x: np.ndarray) -> np.ndarray:
        u = self.centre + self.radius * x
        u[..., self.fixed] = self.problem.vertices[0, self.fixed]
        return u

    def to_x(self, u: np.ndarray) -> np.ndarray:
        return (u - self.centre) / self.radius

    def optimal(self, z: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """H_0(z) as rows x >= levels with unit rows, the output of each row, and the largest constant violation.

        An output that differs from z by a constant gives no row: if that constant is positive, z is never optimal.
        """
        if z not in self._optimal:
            d, c = self.psi - self.psi[z], self.offset[z] - self.offset
            lengths = np.linalg.norm(d, axis=1)
            flat = lengths <= 1e-13 * np.maximum(np.linalg.norm(self.psi, axis=1).max(), 1e-300)
            rows, levels = d[~flat] / lengths[~flat, None], c[~flat] / lengths[~flat]
            _, first = np.unique(np.round(np.c_[rows, levels], 13), axis=0, return_index=True)
            which = np.flatnonzero(~flat)[first]
            self._optimal[z] = rows[first], levels[first], which, float(c[flat].max(initial=0.0))
        return self._optimal[z]

    def lower(
        self, z: int, other: int, eps: float, multipliers: Multipliers, active: np.ndarray, only: Any = None
    ) -> float:
        """The minimum of the Lagrangian over M and D: a lower bound on the pair's divergence for any multipliers.

        s eps + min over M of <log r, a'> + kappa <t, x'> - s gain(x') + min over D of <1 - r, a> - kappa <t, x> + sum_i
        w_i (risk of z - risk of i) - kappa/2 |t|^2, minus a bound on rounding. `active`: mask of the a_j with a
        tangent; the others vanish wherever z is optimal. `only`: mask of the vertices that the truth may use, None for
        all.
        """
        problem, kappa = self.problem, self.curvature
        only = slice(None) if only is None else only
        table, vertices = problem.table[:, only], self.vertices[only]
        s, w = max(multipliers.s, 0.0), np.maximum(multipliers.w, 0.0)
        gains, behind = table[z] - table[other], w @ (table[z] - table)
        heads = np.where(active, multipliers.log_ratio, multipliers.flat[0])
        tails = np.where(active, multipliers.less_ratio, multipliers.flat[1])
        weight = s * (eps + np.abs(gains).max()) + float(np.abs(w @ np.abs(table[z] - table)).max())
        if problem.form.everywhere:
            # u is unconstrained, so that stationarity fixes the tangent: kappa t = sum_i w_i (psi(z) - psi(i)).
            b = w @ (self.psi[z] - self.psi)
            over = float((behind - s * gains).min())
            return s * eps + over - float(b @ b) / (2 * kappa) - ROUNDING * weight
        a = vertices @ self.slope.T + self.shift
        pull = kappa * multipliers.tangent
        first = a @ heads + vertices @ pull - s * gains
        slope = tails @ self.slope - pull + w @ (self.psi[z] - self.psi)
        constant = float(tails @ self.shift + w @ (self.offset[z] - self.offset))
        x = self.minimiser(slope)
        weight += float((np.abs(a) @ np.abs(heads)).max(initial=0.0))
        weight += float(np.abs(pull).sum() + np.abs(slope) @ np.abs(x) + np.abs(tails) @ np.abs(self.shift))
        total = (
            s * eps
            + float(first.min())
            + float(slope @ x)
            + constant
            - kappa / 2 * float(multipliers.tangent @ multipliers.tangent)
        )
        return total - ROUNDING * weight

    def minimiser(self, slope: np.ndarray) -> np.ndarray:
        """A vertex of D with the least <slope, x>."""
        if self.points is not None:
            return self.points[int((self.points @ slope).argmin())]
        return self.to_x(self.problem.domain.maximiser(-slope[None])[0])

    def gain(self, z: int, other: int) -> tuple[np.ndarray, float]:
        """The excess of z over z' as <d, x> + c."""
        return self.psi[z] - self.psi[other], float(self.offset[z] - self.offset[other])


def _rows(rows: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows scaled to unit length, and their levels."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    return rows / lengths[:, None], levels / lengths
