"""One convex program per ordered pair (z, z'): the least divergence from z-is-optimal to z-is-eps-worse-than-z'.

    minimise D(u', u)   over u' in M, u in D and H_0(z), with <psi(z) - psi(z'), u'> + c(z) - c(z') >= eps

The same program serves the conjugate zeta*(s), where a reward s <psi(z) - psi(z'), u'> takes the place of the
constraint. What a conic solver finds (`conic.py`) is a proposal. Newton steps on its active constraints take it to rounding, also for an
eps much smaller than a solver can see; the value is evaluated anew at a point that is feasible, and the lower end is
the Lagrangian evaluated anew.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .certificate import Certificate
from .conic import ConicProgram, Proposal, Solver
from .newton import polished
from .problem import Problem
from .regions import Regions

NEAR = (1e-7, 1e-5, 1e-9)
COARSE = 5e-3  # a step shorter than this in scaled coordinates is reached by Newton steps from there


class Programs(Regions):
    """The programs of one problem; what they share is built once."""

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.solver = Solver()
        self._proposals: dict[tuple[int, int], Proposal] = {}

    def solve(
        self, z: int, other: int, eps: float | None = None, reward: float = 0.0, cutoff: float = np.inf
    ) -> Certificate:
        """The certificate of one pair; both ends are infinite where it has no feasible point.

        With a reward s and no eps, the value is that of D(u', u) - s (excess over z'), minus the pair's share of
        zeta*(s). A lower end beyond `cutoff` is not made any better.
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
            # At the end of the pair's range the truth has no choice but the labels that tell z and z' apart the most.
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
            # no tie of the two outputs is near: then the step is not of the size of eps, and the solver sees it
            direct = self._certify(z, other, eps, 0.0, self._propose(z, other, eps), nowhere, cutoff)
            winner = min(best, direct, key=lambda either: either.value)
            return replace(winner, lower=min(max(best.lower, direct.lower), winner.value))
        return self._certify(z, other, eps, 0.0, self._propose(z, other, eps), nowhere, cutoff)

    def _propose(
        self, z: int, other: int, eps: float | None, reward: float = 0.0, only: np.ndarray | None = None
    ) -> Proposal:
        """What the conic solver finds for a pair; `only`: which of M's vertices the truth may use, None for all."""
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
            # The solver's ray proves it, once its Lagrangian, evaluated anew, is positive: then it has no bound.
            if start > target:  # infeasible at a larger eps says nothing here
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
        for near in NEAR:  # which weights are zero is a guess: the one that closes the gap is right
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
        """Both ends, evaluated anew: a feasible point near the proposal, and the Lagrangian at its multipliers."""
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
        if not divergence:  # a ray: prices of the constraints alone
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
        with np.errstate(all="ignore"):  # where the solver ran off, its multipliers overflow and prove nothing
            lower = self.scaled.lower(z, other, eps, multipliers, self.support(z), found.only)
        return lower if np.isfinite(lower) else -np.inf
