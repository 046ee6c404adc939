"""One convex program per ordered pair (z, z'): the least divergence from z-is-optimal to z-is-eps-worse-than-z'.

    minimise D(u', u)   over u' in M, u in D and H_0(z), with <psi(z) - psi(z'), u'> + c(z) - c(z') >= eps

Clarabel solves it in scaled coordinates: the entropy by exponential cones, the squared norm as a quadratic objective.
The same builder serves the conjugate zeta*(s), where a reward s <psi(z) - psi(z'), u'> takes the place of the
constraint. What the solver says is a proposal. Newton steps on its active constraints take it to rounding, also for an
eps much smaller than a solver can see; the value is evaluated anew at a point that is feasible, and the lower end is
the Lagrangian evaluated anew.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .certificate import Certificate
from .newton import polished
from .problem import Problem
from .regions import Regions
from .scaled import Multipliers

NEAR = (1e-7, 1e-5, 1e-9)
COARSE = 5e-3  # a step shorter than this in scaled coordinates is reached by Newton steps from there


class Proposal(NamedTuple):
    """What a solver found for a pair: the point, the multipliers, and which constraints are active."""

    truth: np.ndarray
    estimate: np.ndarray
    price: Multipliers
    law: np.ndarray | None  # weights of M's vertices, where M is listed
    mix: np.ndarray | None  # weights of D's points
    only: np.ndarray | None = None  # which of M's vertices the truth may use, where these are not all
    feasible: bool = True


class Programs(Regions):
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
        super().__init__(problem)
        self._proposals: dict[tuple[int, int], Proposal] = {}

    def solve(
        self, z: int, other: int, eps: float | None = None, reward: float = 0.0, enough: float = np.inf
    ) -> Certificate:
        """The certificate of one pair; both ends are infinite where it has no feasible point.

        With a reward s and no eps, the value is that of D(u', u) - s (excess over z'), minus the pair's share of
        zeta*(s). A lower end beyond `enough` is not made any better.
        """
        problem = self.problem
        target = 0.0 if eps is None else eps
        nowhere = Certificate(target, np.inf, np.inf, z, other)
        reach = float(problem.reach[z, other])
        if self.never(z) or (eps is not None and eps > reach + problem.rounding):
            return nowhere
        if eps is None:
            found = self._propose(z, other, None, reward, self.scaled.vertices)
            return self._certify(z, other, None, reward, found, nowhere, enough)
        if eps >= reach - problem.rounding:
            # At the end of the pair's range the truth has no choice but the labels that tell z and z' apart the most.
            top = problem.table[z] - problem.table[other] >= reach - problem.rounding
            found = self._propose(z, other, None, 0.0, self.scaled.vertices[top])._replace(only=top)
            return self._certify(z, other, eps, 0.0, found, nowhere, enough)
        coarse = min(0.3 * reach, COARSE * float(np.linalg.norm(self.scaled.gain(z, other)[0])))
        if eps < coarse:
            if (z, other) not in self._proposals:
                self._proposals[z, other] = self._propose(z, other, coarse, 0.0, self.scaled.vertices)
            best = self._certify(z, other, eps, 0.0, self._proposals[z, other], nowhere, enough, coarse)
            if best.agree or best.lower >= enough:
                return best
            # no tie of the two outputs is near: then the step is not of the size of eps, and the solver sees it
            direct = self._certify(
                z, other, eps, 0.0, self._propose(z, other, eps, 0.0, self.scaled.vertices), nowhere, enough
            )
            winner = min(best, direct, key=lambda either: either.value)
            return replace(winner, lower=min(max(best.lower, direct.lower), winner.value))
        return self._certify(
            z, other, eps, 0.0, self._propose(z, other, eps, 0.0, self.scaled.vertices), nowhere, enough
        )

    def _certify(
        self,
        z: int,
        other: int,
        eps: float | None,
        reward: float,
        found: Proposal,
        nowhere: Certificate,
        enough: float,
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
        if (best.agree or best.lower >= enough) and start <= target:
            return best
        levels = [target] if start <= target else np.geomspace(start, target, 2 + int(np.log10(start / target)))
        for near in NEAR:  # which weights are zero is a guess: the one that closes the gap is right
            fine = found
            for level in levels:
                fine = polished(self, z, other, None if eps is None else float(level), reward, fine, near)
            end = self._ends(z, other, eps, reward, fine)
            winner = min(best, end, key=lambda either: either.value)
            best = replace(winner, lower=min(max(best.lower, end.lower), winner.value))
            if best.agree or best.lower >= enough:
                break
        return best

    def _ends(self, z: int, other: int, eps: float | None, reward: float, found: Proposal) -> Certificate:
        """Both ends, evaluated anew: a feasible point near the proposal, and the Lagrangian at its multipliers."""
        target = 0.0 if eps is None else eps
        lower = self._lower(z, other, target, reward, found)
        if eps is not None:
            lower = max(lower, 0.0)
        if not np.abs(np.concatenate([found.truth, found.estimate])).max() < 1e9:  # the solver ran off
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
        price = found.price
        if not divergence:  # a ray: prices of the constraints alone
            zero = np.zeros(len(self.scaled.slope))
            s = 0.0 if reward or found.only is not None else price.s
            price = price._replace(s=s, log_ratio=zero, less_ratio=zero, tangent=np.zeros(self.scaled.size))
            if self.problem.form.everywhere and np.abs(price.w @ (self.scaled.psi[z] - self.scaled.psi)).max() > 0:
                return -np.inf
        elif reward:
            price = price._replace(s=reward)
        with np.errstate(all="ignore"):  # where the solver ran off, its multipliers overflow and prove nothing
            lower = self.scaled.lower(z, other, eps, price, self.support(z), found.only)
        return lower if np.isfinite(lower) else -np.inf

    # -- the solver --------------------------------------------------------------------------------------------------

    def _propose(self, z: int, other: int, eps: float | None, reward: float, vertices: np.ndarray) -> Proposal:
        """The solver's answer for variables (x', x, t, weights of M's vertices, weights of D's points)."""
        scaled, k = self.scaled, self.scaled.size
        everyone = len(vertices) == len(scaled.vertices)
        inner = scaled.inner if everyone else None
        d, c = scaled.gain(z, other)
        length = float(np.linalg.norm(d)) or 1.0
        rows, levels, which, _ = scaled.optimal(z)
        kept = self.support(z)
        present = (vertices @ scaled.slope.T + scaled.shift > 1e-13).any(0)
        cone = np.flatnonzero(kept & present)
        n, m = len(cone), 0 if inner is not None else len(vertices)
        p = 0 if scaled.points is None else len(scaled.points)
        cuts = np.cumsum([0, k, k, n, m, p])
        first, second, terms, weights, mix = (slice(a, b) for a, b in itertools.pairwise(cuts))
        size = int(cuts[-1])

        def block(count: int, *parts: tuple[slice, np.ndarray]) -> np.ndarray:
            out = np.zeros((count, size))
            for where, values in parts:
                out[:, where] += values
            return out

        # what is zero wherever z is optimal: a_j, and then a'_j, or the divergence is infinite
        gone = np.flatnonzero(~kept)
        equal = [block(len(gone), (first, scaled.slope[gone])), block(len(gone), (second, scaled.slope[gone]))]
        level = [-scaled.shift[gone], -scaled.shift[gone]]
        equal.append(block(len(scaled.equal), (second, scaled.equal)))
        level.append(scaled.level)
        rest = np.flatnonzero(kept & ~present)
        least = [block(len(rows), (second, rows)), block(len(rest), (second, scaled.slope[rest]))]
        bound = [levels, -scaled.shift[rest]]
        if eps is not None:
            least.append(block(1, (first, d / length)))
            bound.append(np.array([(eps - c) / length]))
        if inner is not None:
            least.append(block(len(inner[0]), (first, inner[0])))
            bound.append(-inner[1])
            equal.append(block(len(inner[2]), (first, inner[2])))
            level.append(inner[3])
        else:
            equal += [block(k, (first, np.eye(k)), (weights, -vertices.T)), block(1, (weights, np.ones(m)))]
            level += [np.zeros(k), np.ones(1)]
            least.append(block(m, (weights, np.eye(m))))
            bound.append(np.zeros(m))
        if scaled.points is not None:
            equal += [block(k, (second, np.eye(k)), (mix, -scaled.points.T)), block(1, (mix, np.ones(p)))]
            level += [np.zeros(k), np.ones(1)]
            least.append(block(p, (mix, np.eye(p))))
            bound.append(np.zeros(p))
        # Exponential cones y exp(x/y) <= z at (x, y, z) = (-t_j, a'_j, a_j): t_j >= a'_j log(a'_j / a_j).
        cones, shifts = np.zeros((3 * n, size)), np.zeros(3 * n)
        cones[0::3, terms] = -np.eye(n)
        cones[1::3, first] = cones[2::3, second] = scaled.slope[cone]
        shifts[1::3] = shifts[2::3] = scaled.shift[cone]
        steep = reward * length
        unit = max(scaled.curvature, steep, 1e-300 if not n else 1.0)
        objective = np.zeros(size)
        objective[terms], objective[first] = 1 / unit, -reward * d / unit
        quadratic = np.zeros((size, size))
        eye = scaled.curvature / unit * np.eye(k)
        quadratic[first, first] = quadratic[second, second] = eye
        quadratic[first, second] = -eye  # the upper triangle is all that is read
        solution = self._run(
            quadratic,
            objective,
            np.vstack(equal),
            np.concatenate(level),
            np.vstack(least),
            np.concatenate(bound),
            cones,
            shifts,
        )
        x, dual = np.asarray(solution.x), unit * np.asarray(solution.z)
        if "Infeasible" in str(solution.status):
            dual = dual / max(float(np.abs(dual).max()), 1e-300)
        e, i = sum(map(len, level)), sum(map(len, bound))
        w = np.zeros(len(self.problem.psi))
        prices = dual[e : e + i]
        outputs, lengths = which, np.linalg.norm(scaled.psi[which] - scaled.psi[z], axis=1)
        w[outputs] = np.maximum(prices[: len(rows)], 0.0) / lengths
        s = reward if eps is None else max(float(prices[len(rows) + len(rest)]), 0.0) / length
        # where the truth cannot have an a_j its tangent is that at ratio 0
        log_ratio, less = np.full(len(kept), -700.0), np.ones(len(kept))
        ratio = np.maximum(dual[e + i :][2::3], 1e-300)
        log_ratio[cone], less[cone] = np.maximum(np.log(ratio), -700.0), 1 - ratio
        flat_first, flat_second = np.zeros(len(kept)), np.zeros(len(kept))
        flat_first[gone], flat_second[gone] = dual[: len(gone)], dual[len(gone) : 2 * len(gone)]
        price = Multipliers(s, w, log_ratio, less, x[first] - x[second], (flat_first, flat_second))
        law = None if inner is not None else np.maximum(x[weights], 0.0)
        if law is not None and not everyone:
            full = np.zeros(len(scaled.vertices))
            where = (scaled.vertices[:, None] == vertices[None]).all(-1)
            full[where.any(1)] = law[where.argmax(1)[where.any(1)]]
            law = full
        points = None if scaled.points is None else np.maximum(x[mix], 0.0)
        feasible = "PrimalInfeasible" not in str(solution.status)
        return Proposal(x[first], x[second], price, law, points, feasible=feasible)

    def _run(
        self,
        quadratic: np.ndarray,
        objective: np.ndarray,
        equal: np.ndarray,
        level: np.ndarray,
        least: np.ndarray,
        bound: np.ndarray,
        cones: np.ndarray,
        shifts: np.ndarray,
    ) -> Any:
        # Clarabel's form: A x + s = b with s in the cone; so s = G x - g is written A = -G, b = -g.
        clarabel, sparse = self.clarabel, self.sparse
        a = sparse.csc_matrix(np.vstack([equal, -least, -cones]))
        b = np.concatenate([level, -bound, shifts])
        kinds = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(least))]
        kinds += [clarabel.ExponentialConeT() for _ in range(len(cones) // 3)]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        return clarabel.DefaultSolver(sparse.csc_matrix(np.triu(quadratic)), objective, a, b, kinds, settings).solve()
