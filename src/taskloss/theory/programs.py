"""One convex program per ordered pair (z, z'): the least divergence between a truth where z is eps worse than z' and an
estimate where z is optimal.

    minimise D(u', u)   over u' in M, u in D and H_0(z), with <psi(z) - psi(z'), u'> + c(z) - c(z') >= eps

The same program serves the conjugate zeta*(s), where a reward s <psi(z) - psi(z'), u'> takes the place of the
constraint. A conic solver's solution (`conic.py`) is a proposal. Newton steps on its active set (`newton.py`) polish it to
rounding, also for an eps far below the solver's tolerance. The upper end is then re-evaluated at a feasible point, and the
lower end as the Lagrangian at the multipliers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .certificate import Certificate
from .conic import ConicProgram, Proposal, Solver
from .newton import polished
from .problem import Problem
from .regions import Regions

NEAR = (1e-7, 1e-5, 1e-9)  # thresholds, tried in turn, below which a weight counts as zero
COARSE = 5e-3  # steps shorter than this in scaled coordinates are reached from here by Newton's method


class Programs(Regions):
    """The programs of one problem, with shared arrays."""

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.solver = Solver()
        self._proposals: dict[tuple[int, int], Proposal] = {}

    def solve(
        self, z: int, other: int, eps: float | None = None, reward: float = 0.0, cutoff: float = np.inf
    ) -> Certificate:
        """The certificate of one pair; both ends are infinite where it has no feasible point.

        With a reward s and no eps, the value is that of D(u', u) - s (excess over z'), the negative of the pair's
        conjugate at s. A lower end beyond `cutoff` is not improved further.
        """
        problem = self.problem
        target = 0.0 if eps is None else eps
        nowhere = Certificate(target, np.inf, np.inf, z, other)
        reach = float(problem.reach[z, other])
        if self.never_optimal(z) or (eps is not None and eps > self.finite_reach(z, other) + problem.rounding):
            return nowhere
        if eps is None:
            found = self._propose(z, other, None, reward)
            return self._certify(z, other, None, reward, found, nowhere, cutoff)
        if eps >= reach - problem.rounding:
            # At eps = reach, the truth must lie on the labels where z is worse than z' by the most.
            top = problem.table[z] - problem.table[other] >= reach - problem.rounding
            found = self._propose(z, other, None, only=top)
            return self._certify(z, other, eps, 0.0, found, nowhere, cutoff)
        coarse = min(0.3 * reach, COARSE * float(np.linalg.norm(self.scaled.gain(z, other)[0])))
        if eps < coarse:
            if (z, other) not in self._proposals:
                self._proposals[z, other] = self._propose(z, other, coarse)
            best = self._certify(z, other, eps, 0.0, self._proposals[z, other], nowhere, cutoff, coarse)
            if best.agree or best.lower >= cutoff:
                return best
            # no tie of the two outputs is near: the step is then not proportional to eps, and large enough for the solver
            direct = self._certify(z, other, eps, 0.0, self._propose(z, other, eps), nowhere, cutoff)
            winner = min(best, direct, key=lambda either: either.value)
            return replace(winner, lower=min(max(best.lower, direct.lower), winner.value))
        return self._certify(z, other, eps, 0.0, self._propose(z, other, eps), nowhere, cutoff)

    def _propose(
        self, z: int, other: int, eps: float | None, reward: float = 0.0, only: np.ndarray | None = None
    ) -> Proposal:
        """The conic solver's solution for a pair; `only`: mask of M's vertices that the truth may use, None for all."""
        return ConicProgram(self.scaled, z, other, self.support(z), eps, reward, only).propose(self.solver)

    def _certify(
        self,
        z: int,
        other: int,
        eps: float | None,
        reward: float,
        found: Proposal,
        nowhere: Certificate,
        cutoff: float,
        start: float = 0.0,
    ) -> Certificate:
        target = nowhere.eps
        if not found.feasible:
            # A dual ray proves infeasibility if its Lagrangian, re-evaluated, is positive: scaled up, it is unbounded.
            if start > target:  # infeasibility at a larger eps proves nothing at this one
                return Certificate(target, np.inf, 0.0, z, other, exact=False)
            proof = self._lower(z, other, target, reward, found, divergence=False)
            return (
                nowhere
                if proof > 0
                else Certificate(target, np.inf, -np.inf if eps is None else 0.0, z, other, exact=False)
            )
        best = self._ends(z, other, eps, reward, found)
        if (best.agree or best.lower >= cutoff) and start <= target:
            return best
        levels = [target] if start <= target else np.geomspace(start, target, 2 + int(np.log10(start / target)))
        for near in NEAR:  # the active set is a guess, confirmed once the gap closes
            fine = found
            for level in levels:
                fine = polished(self, z, other, None if eps is None else float(level), reward, fine, near)
            end = self._ends(z, other, eps, reward, fine)
            winner = min(best, end, key=lambda either: either.value)
            best = replace(winner, lower=min(max(best.lower, end.lower), winner.value))
            if best.agree or best.lower >= cutoff:
                break
        return best

    def _ends(self, z: int, other: int, eps: float | None, reward: float, found: Proposal) -> Certificate:
        """Both ends, re-evaluated: D at a feasible point near the proposal, and the Lagrangian at its multipliers."""
        target = 0.0 if eps is None else eps
        lower = self._lower(z, other, target, reward, found)
        if eps is not None:
            lower = max(lower, 0.0)
        if found.diverged:
            return Certificate(target, np.inf, lower, z, other)
        u1, u2 = self.repair(z, other, eps, found.truth, found.estimate)
        value = np.inf
        if self.feasible(z, other, eps, u1, u2):
            gain = float(
                (self.problem.psi[z] - self.problem.psi[other]) @ u1
                + self.problem.offset[z]
                - self.problem.offset[other]
            )
            value = float(self.problem.form.divergence(u1, u2)) - reward * gain
        return Certificate(target, value, min(lower, value), z, other, u1, u2)

    def _lower(self, z: int, other: int, eps: float, reward: float, found: Proposal, divergence: bool = True) -> float:
        multipliers = found.multipliers
        if not divergence:  # a dual ray: multipliers of the constraints alone
            zero = np.zeros(len(self.scaled.slope))
            s = 0.0 if reward or found.only is not None else multipliers.s
            multipliers = multipliers._replace(s=s, log_ratio=zero, less_ratio=zero, tangent=np.zeros(self.scaled.size))
            if (
                self.problem.form.everywhere
                and np.abs(multipliers.w @ (self.scaled.psi[z] - self.scaled.psi)).max() > 0
            ):
                return -np.inf
        elif reward:
            multipliers = multipliers._replace(s=reward)
        with np.errstate(all="ignore"):  # multipliers of a diverged solver may overflow, and then prove nothing
            lower = self.scaled.lower(z, other, eps, multipliers, self.support(z), found.only)
        return lower if np.isfinite(lower) else -np.inf
