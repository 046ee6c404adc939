"""The program of one pair for Clarabel: exponential cones for the entropy, a quadratic objective for the squared norm."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from .scaled import Multipliers, Scaled


class Proposal(NamedTuple):
    """A solver's primal and dual solution for one pair, not yet verified."""

    truth: np.ndarray
    estimate: np.ndarray
    multipliers: Multipliers
    law: np.ndarray | None  # weights of M's vertices, where these are listed
    mix: np.ndarray | None  # weights of D's points
    only: np.ndarray | None = None  # mask of M's vertices that the truth may use; None for all
    feasible: bool = True

    @property
    def diverged(self) -> bool:
        """Whether the solver diverged: then only its multipliers can be used."""
        return not np.abs(np.concatenate([self.truth, self.estimate])).max() < 1e9


class Solver:
    """Clarabel, for programs given by their arrays."""

    def __init__(self) -> None:
        try:
            import clarabel
            import scipy.sparse as sparse
        except ImportError as error:
            raise ImportError(
                "Calibration functions without a closed form need the solver Clarabel: pip install 'taskloss[theory]'."
            ) from error
        self.clarabel, self.sparse = clarabel, sparse

    def solve(
        self,
        quadratic: np.ndarray,
        objective: np.ndarray,
        equal: tuple[np.ndarray, np.ndarray],
        least: tuple[np.ndarray, np.ndarray],
        cones: tuple[np.ndarray, np.ndarray],
    ) -> Any:
        """min x'Qx/2 + <objective, x> with rows x = level for `equal`, >= for `least`, and rows x + shift in exponential cones."""
        # Clarabel's form: A x + s = b with s in the cone; so s = G x - g is written A = -G, b = -g.
        clarabel, sparse = self.clarabel, self.sparse
        a = sparse.csc_matrix(np.vstack([equal[0], -least[0], -cones[0]]))
        b = np.concatenate([equal[1], -least[1], cones[1]])
        kinds = [clarabel.ZeroConeT(len(equal[0])), clarabel.NonnegativeConeT(len(least[0]))]
        kinds += [clarabel.ExponentialConeT() for _ in range(len(cones[0]) // 3)]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        return clarabel.DefaultSolver(sparse.csc_matrix(np.triu(quadratic)), objective, a, b, kinds, settings).solve()


class ConicProgram:
    """Variables (x', x, t, weights of M's vertices, weights of D's points), in scaled coordinates.

    kept: mask of the a_j that can be positive where z is optimal. only: mask of M's vertices that the truth may use.
    """

    def __init__(
        self,
        scaled: Scaled,
        z: int,
        other: int,
        kept: np.ndarray,
        eps: float | None,
        reward: float = 0.0,
        only: np.ndarray | None = None,
    ):
        self.scaled, self.z, self.eps, self.reward, self.only = scaled, z, eps, reward, only
        self.d, self.c = scaled.gain(z, other)
        self.length = float(np.linalg.norm(self.d)) or 1.0
        self.vertices = scaled.vertices if only is None else scaled.vertices[only]
        self.inner = scaled.inner if only is None else None
        self.rows, self.levels, self.which, _ = scaled.optimal(z)
        present = (self.vertices @ scaled.slope.T + scaled.shift > 1e-13).any(0)
        self.kept = kept
        # the a_j that vanish wherever z is optimal; those with a cone; those that are zero for every truth
        self.vanishing, self.cone, self.estimate_only = (
            np.flatnonzero(where) for where in (~kept, kept & present, kept & ~present)
        )
        k, m = scaled.size, 0 if self.inner is not None else len(self.vertices)
        sizes = [k, k, len(self.cone), m, 0 if scaled.points is None else len(scaled.points)]
        cuts = np.cumsum([0, *sizes])
        self.size = int(cuts[-1])
        self.truth, self.estimate, self.terms, self.weights, self.mix = (
            slice(a, b) for a, b in itertools.pairwise(cuts)
        )

    def propose(self, solver: Solver) -> Proposal:
        """The solver's solution, with multipliers in the problem's own units."""
        equal, least = self._equalities(), self._inequalities()
        unit, quadratic, objective = self._objective()
        solution = solver.solve(quadratic, objective, equal, least, self._cones())
        x, dual = np.asarray(solution.x), unit * np.asarray(solution.z)
        if "Infeasible" in str(solution.status):
            dual = dual / max(float(np.abs(dual).max()), 1e-300)
        duals = np.split(dual, [len(equal[1]), len(equal[1]) + len(least[1])])
        mix = None if self.scaled.points is None else np.maximum(x[self.mix], 0.0)
        return Proposal(
            x[self.truth],
            x[self.estimate],
            self._multipliers(x, *duals),
            self._law(x),
            mix,
            self.only,
            "PrimalInfeasible" not in str(solution.status),
        )

    # -- the program's arrays ----------------------------------------------------------------------------------------

    def _block(self, count: int, *parts: tuple[slice, np.ndarray]) -> np.ndarray:
        out = np.zeros((count, self.size))
        for where, values in parts:
            out[:, where] += values
        return out

    def _equalities(self) -> tuple[np.ndarray, np.ndarray]:
        scaled, k = self.scaled, self.scaled.size
        # a_j = 0 wherever z is optimal, and then a'_j = 0, or the divergence is infinite
        slope, shift = scaled.slope[self.vanishing], scaled.shift[self.vanishing]
        rows = [self._block(len(slope), (where, slope)) for where in (self.truth, self.estimate)]
        rows.append(self._block(len(scaled.equal), (self.estimate, scaled.equal)))
        levels = [-shift, -shift, scaled.level]
        if self.inner is not None:
            rows.append(self._block(len(self.inner[2]), (self.truth, self.inner[2])))
            levels.append(self.inner[3])
        else:
            rows += self._mean(self.truth, self.weights, self.vertices)
            levels += [np.zeros(k), np.ones(1)]
        if scaled.points is not None:
            rows += self._mean(self.estimate, self.mix, scaled.points)
            levels += [np.zeros(k), np.ones(1)]
        return np.vstack(rows), np.concatenate(levels)

    def _mean(self, point: slice, weights: slice, points: np.ndarray) -> list[np.ndarray]:
        """Rows for: a point is the mean of a law over other points."""
        k = self.scaled.size
        sums = self._block(1, (weights, np.ones(len(points))))
        return [self._block(k, (point, np.eye(k)), (weights, -points.T)), sums]

    def _inequalities(self) -> tuple[np.ndarray, np.ndarray]:
        """Optimality of z, the a_j of the estimate alone, the excess, then signs: `_multipliers` relies on this order."""
        scaled, estimate_only = self.scaled, self.estimate_only
        rows = [self._block(len(self.rows), (self.estimate, self.rows))]
        rows.append(self._block(len(estimate_only), (self.estimate, scaled.slope[estimate_only])))
        levels = [self.levels, -scaled.shift[estimate_only]]
        if self.eps is not None:
            rows.append(self._block(1, (self.truth, self.d / self.length)))
            levels.append(np.array([(self.eps - self.c) / self.length]))
        if self.inner is not None:
            rows.append(self._block(len(self.inner[0]), (self.truth, self.inner[0])))
            levels.append(-self.inner[1])
        for weights in (self.weights, self.mix):
            count = weights.stop - weights.start
            rows.append(self._block(count, (weights, np.eye(count))))
            levels.append(np.zeros(count))
        return np.vstack(rows), np.concatenate(levels)

    def _cones(self) -> tuple[np.ndarray, np.ndarray]:
        """Exponential cones y exp(x/y) <= z at (x, y, z) = (-t_j, a'_j, a_j): t_j >= a'_j log(a'_j / a_j)."""
        n = len(self.cone)
        cones, shifts = np.zeros((3 * n, self.size)), np.zeros(3 * n)
        cones[0::3, self.terms] = -np.eye(n)
        cones[1::3, self.truth] = cones[2::3, self.estimate] = self.scaled.slope[self.cone]
        shifts[1::3] = shifts[2::3] = self.scaled.shift[self.cone]
        return cones, shifts

    def _objective(self) -> tuple[float, np.ndarray, np.ndarray]:
        """The unit by which the objective is divided, then its quadratic and its linear part."""
        scaled = self.scaled
        unit = max(scaled.curvature, self.reward * self.length, 1e-300 if not len(self.cone) else 1.0)
        linear = np.zeros(self.size)
        linear[self.terms], linear[self.truth] = 1 / unit, -self.reward * self.d / unit
        quadratic = np.zeros((self.size, self.size))
        eye = scaled.curvature / unit * np.eye(scaled.size)
        quadratic[self.truth, self.truth] = quadratic[self.estimate, self.estimate] = eye
        quadratic[self.truth, self.estimate] = -eye  # Clarabel reads the upper triangle only
        return unit, quadratic, linear

    # -- the solution --------------------------------------------------------------------------------------------------

    def _multipliers(self, x: np.ndarray, equal: np.ndarray, least: np.ndarray, cones: np.ndarray) -> Multipliers:
        scaled, count, vanishing = self.scaled, len(self.rows), self.vanishing
        w = np.zeros(len(scaled.psi))
        lengths = np.linalg.norm(scaled.psi[self.which] - scaled.psi[self.z], axis=1)
        w[self.which] = np.maximum(least[:count], 0.0) / lengths
        s = self.reward if self.eps is None else max(float(least[count + len(self.estimate_only)]), 0.0) / self.length
        # where a'_j is zero for every truth, the tangent is that at ratio 0
        log_ratio, less = np.full(len(self.kept), -700.0), np.ones(len(self.kept))
        ratio = np.maximum(cones[2::3], 1e-300)
        log_ratio[self.cone], less[self.cone] = np.maximum(np.log(ratio), -700.0), 1 - ratio
        flat = np.zeros((2, len(self.kept)))
        flat[:, vanishing] = equal[: 2 * len(vanishing)].reshape(2, -1)
        return Multipliers(s, w, log_ratio, less, x[self.truth] - x[self.estimate], (flat[0], flat[1]))

    def _law(self, x: np.ndarray) -> np.ndarray | None:
        """The truth's weights on all of M's vertices, where these are listed."""
        if self.inner is not None:
            return None
        law = np.zeros(len(self.scaled.vertices))
        law[slice(None) if self.only is None else self.only] = np.maximum(x[self.weights], 0.0)
        return law
