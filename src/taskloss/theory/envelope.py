"""The convex envelope zeta** of a calibration function, its conjugate and its inverse, as valid bounds."""

from __future__ import annotations

import heapq
import itertools
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .closed import closed_form, two_point_ceilings
from .screening import FEW
from .separable import coin_bounds

if TYPE_CHECKING:
    from .calibration import Calibration


class Envelope:
    """zeta** by its conjugate: zeta**(eps) = max over slopes s of s eps - zeta*(s)."""

    def __init__(self, zeta: Calibration):
        self.zeta, self.problem = zeta, zeta.problem
        self._conjugates: dict[float, tuple[float, float]] = {}
        self._ceilings: dict[float, np.ndarray] = {}

    def conjugate(self, slope: float) -> tuple[float, float]:
        """An upper bound on zeta*(s), and the eps that attains it."""
        if slope <= 0:
            return 0.0, 0.0
        if slope not in self._conjugates and not self.problem.form.exact and self._one_dimensional:
            self._conjugates[slope] = self._bisected_conjugate(slope)
        if slope not in self._conjugates:
            unit = self._unit
            if unit == 0:  # the only known lower bound is zeta >= 0
                return slope * self.problem.eps_max, self.problem.eps_max
            if unit != 1:  # zeta >= unit * zeta of the squared distance
                slope, whole = slope / unit, slope
                conjugate, at = self._program_conjugate(slope)
                self._conjugates[whole] = unit * conjugate, at
                return self._conjugates[whole]
            self._conjugates[slope] = self._program_conjugate(slope)
        return self._conjugates[slope]

    def _program_conjugate(self, slope: float) -> tuple[float, float]:
        """The conjugate for the form's divergence: pairs by decreasing upper bound, until none can raise the maximum."""
        ceilings = self._screened(self._pair_ceilings(slope), slope)
        best, at = 0.0, 0.0
        for z, other, ceiling in self.zeta.ordered(-ceilings):
            if -ceiling <= best:
                break
            found = self.zeta.programs.solve(z, other, reward=slope, cutoff=-best)
            ceilings[z, other] = min(max(-found.lower, 0.0), -ceiling)
            if ceilings[z, other] > best:
                best = float(ceilings[z, other])
                if found.u_prime is None:
                    continue
                gain = self.problem.psi[z] - self.problem.psi[other]
                at = float(gain @ found.u_prime + self.problem.offset[z] - self.problem.offset[other])
        self._ceilings[slope] = ceilings
        return best, at

    def _screened(self, ceilings: np.ndarray, slope: float) -> np.ndarray:
        """Screening: better bounds for the pairs that may still be the maximum, where there are many of them."""
        problem, n = self.problem, len(self.problem.psi)
        z, other = np.divmod(self.zeta.representatives, n)
        if problem.coins is None or len(z) <= FEW:
            return ceilings
        likeliest = int(ceilings[z, other].argmax())
        found = self.zeta.programs.solve(int(z[likeliest]), int(other[likeliest]), reward=slope, cutoff=0.0)
        open_ = ceilings[z, other] > max(-found.value, 0.0)
        if open_.sum() <= FEW:
            return ceilings
        z, other = z[open_], other[open_]
        ceilings = ceilings.copy()
        bounds = coin_bounds(problem.coins, z, other, -ceilings[z, other], min(found.value, 0.0), None, slope)
        ceilings[z, other] = np.maximum(-bounds, 0.0)
        return ceilings

    def _pair_ceilings(self, slope: float) -> np.ndarray:
        """A cheap upper bound on each pair's conjugate.

        From strong convexity; from `two_point_ceilings`, for Kullback-Leibler; and from slopes already evaluated, since
        each conjugate is convex in the slope, zero at zero and has slope at most the pair's reach.
        """
        reach = np.maximum(self.problem.reach, 0.0)
        kappa = np.zeros_like(reach) if self._unit != 1 else self.problem.curvature
        with np.errstate(invalid="ignore", divide="ignore"):
            stop = np.where(kappa > 0, np.minimum(slope / kappa, reach), reach)
            ceilings = np.where(reach > 0, slope * stop - kappa * stop**2 / 2, 0.0)
        ceilings[~np.isfinite(ceilings)] = 0.0
        if self.problem.kullback:
            ceilings = np.minimum(ceilings, two_point_ceilings(self.problem.table, slope))
        below = max((s for s in self._ceilings if s < slope), default=0.0)
        above = min((s for s in self._ceilings if s > slope), default=np.inf)
        first = self._ceilings.get(below, np.zeros_like(reach))
        if np.isfinite(above):
            share = (slope - below) / (above - below)
            return np.minimum(ceilings, (1 - share) * first + share * self._ceilings[above])
        return np.minimum(ceilings, first + (slope - below) * reach)

    @cached_property
    def _unit(self) -> float:
        """The factor c with zeta_h >= c zeta of the form: 1, unless the form has curvature 1 in place of that of h.

        Then it is the least curvature of h within rho, the largest distance in a pair's program at eps = reach: at no
        eps is the distance larger, and D_h >= c |u' - u|^2 / 2 up to there.
        """
        least = self.problem.form.least_curvature
        if least is None:
            return 1.0
        n = len(self.problem.psi)
        ends = [divmod(int(pair), n) for pair in self.zeta.representatives]
        ends = [
            (z, other)
            for z, other in ends
            if self.problem.reach[z, other] > 0 and not self.zeta.programs.never_optimal(z)
        ]
        far = [self.zeta.programs.solve(z, other, float(self.problem.reach[z, other])).value for z, other in ends]
        widest = float(np.sqrt(2 * max(far, default=0.0)))
        return least(widest) if np.isfinite(widest) else 0.0

    @cached_property
    def _one_dimensional(self) -> bool:
        """Whether zeta_h has the closed form in one dimension, for every potential."""
        found = closed_form(self.problem, self.problem.eps_max / 2)
        return found is not None and "one dimension" in found.method

    def _bisected_conjugate(self, slope: float) -> tuple[float, float]:
        """By branch and bound over eps: as zeta increases, s eps - zeta <= s right - zeta(left) on [left, right]."""
        grid = np.linspace(0, self.problem.eps_max, 33)
        best, at, cells = 0.0, 0.0, []
        for left, right in itertools.pairwise(grid):
            cells.append((-(slope * right - self.zeta.exact(float(left)).lower), float(left), float(right)))
        heapq.heapify(cells)
        for _ in range(20_000):
            ceiling, left, right = cells[0]
            if -ceiling <= best * (1 + 1e-5) or right - left < 1e-9 * self.problem.eps_max:
                break
            middle = (left + right) / 2
            value = slope * middle - self.zeta.exact(middle).lower
            best, at = max((best, at), (value, middle))
            heapq.heapreplace(cells, (-(slope * middle - self.zeta.exact(left).lower), left, middle))
            heapq.heappush(cells, (-(slope * right - self.zeta.exact(middle).lower), middle, right))
        return max(-cells[0][0], 0.0), at

    def value(self, eps: float) -> float:
        """A lower bound on zeta**(eps)."""
        if eps == 0:
            return 0.0
        if eps > self.problem.eps_max + self.problem.rounding:
            return np.inf
        if self._convex:
            return self.zeta.exact(eps).lower
        # s eps - zeta*(s) is concave in s, with derivative eps - eps(s): bisection on its sign, from the slope of a
        # chord, with zeta(eps) as an upper bound where it is known.
        known = self.problem.form.exact or self._one_dimensional
        ceiling = self.zeta.exact(eps).lower if known else np.inf
        if known and ceiling == np.inf:  # no pair has a feasible point, here or beyond
            return np.inf
        first = ceiling if known else float(self.zeta.lower_bound(eps)) if self.problem.convexity else 0.0
        low, high, best = 0.0, (first or self.zeta.exact(eps).value) / eps, 0.0
        if not np.isfinite(high):
            return 0.0
        for _ in range(60):
            conjugate, at = self.conjugate(high)
            best = max(best, _below(high * eps, conjugate))
            if at >= eps * (1 - 1e-7):
                break
            low, high = high, 2 * high
        for _ in range(40):
            if ceiling - best <= 1e-8 * best or high - low <= (1e-9 if known else 1e-4) * high:
                break
            middle = (low + high) / 2
            conjugate, at = self.conjugate(middle)
            best = max(best, _below(middle * eps, conjugate))
            low, high = (middle, high) if at < eps else (low, middle)
        if self.problem.convexity:
            best = max(best, float(self.zeta.lower_bound(eps)))  # convex, and below zeta
        return min(best, ceiling)

    def inverse(self, delta: float) -> float:
        """An upper bound on the largest eps with zeta**(eps) <= delta."""
        from scipy.optimize import brentq, minimize_scalar

        if delta == 0:
            return 0.0
        top = self.problem.eps_max
        if (self.problem.form.exact or self._convex or self._one_dimensional) and self.zeta.exact(top).value <= delta:
            return top
        if self._convex:
            # zeta is nearly a square: its root is nearly linear, at every size of delta
            root = float(np.sqrt(delta))
            found = float(
                brentq(
                    lambda e: np.sqrt(self.zeta.exact(e).lower) - root, 0.0, top, xtol=1e-300, rtol=1e-15, maxiter=5000
                )
            )
            return min(found * (1 + 1e-12), top)

        def bound(log_slope: float) -> float:
            slope = float(np.exp(log_slope))
            return min((delta + self.conjugate(slope)[0]) / slope, 2 * top)

        # The minimising slope is that of zeta** at the result: at least delta / result, and in practice not much steeper.
        widest = top if not self.problem.convexity else min(top, float(np.sqrt(delta / self.zeta.lower_bound(1.0))))
        start = np.log(delta / widest)
        found = minimize_scalar(bound, bounds=(start, start + 6), method="bounded", options={"xatol": 1e-7})
        return min(float(found.fun), top)

    # -- convex closed forms -------------------------------------------------------------------------------------------

    @cached_property
    def _convex(self) -> bool:
        """Whether zeta_h has a closed form that is convex in eps."""
        found = closed_form(self.problem, self.problem.eps_max / 2)
        return found is not None and found.method in (
            "closed form (one-vs-all)",
            "closed form (Hamming)",
            "closed form (all thresholds)",
        )


def _below(a: float, b: float) -> float:
    """a - b minus its rounding error, so that it stays a lower bound when two large numbers cancel."""
    return a - b - 1e-15 * (a + b)
