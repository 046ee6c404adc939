"""The calibration function zeta_h of a loss and a surrogate: exact, bounded, inverted."""

from __future__ import annotations

import heapq
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from .._checks import explained, real_array
from .certificate import Certificate
from .closed import closed_form, two_point_bounds, two_point_ceilings, two_point_witness
from .problem import DUAL, Problem, inverse_square
from .programs import Programs
from .search import deepest_tie, interval
from .symmetry import orbits


@explained
def calibration(
    loss: Any, surrogate: Any = "auto", verbose: bool = False, time_limit: float | None = None
) -> Calibration:
    """The calibration function of a loss and a surrogate, instances or registered names.

    verbose: a line of progress for each pair of outputs. time_limit: seconds after which `exact` returns the bounds that
    it has, valid and as an interval.

    >>> import taskloss as tl
    >>> zeta = tl.theory.calibration(tl.losses.Hamming(3), tl.surrogates.Independent())
    >>> print(round(zeta(0.5), 6))
    0.392436
    """
    return Calibration(Problem(loss, surrogate), verbose, time_limit)


class Calibration:
    """zeta_h(eps), the least surrogate excess risk that an output eps worse than the best can come with.

    zeta_h(eps) = min over z of D_h(H_eps(z)^c in M, H_0(z) in D) (the paper's theorem on exact calibration). The
    complement of H_eps(z) is a union of half-spaces, so that this is a minimum over ordered pairs (z, z') of
    programs in (u', u), convex where D_h is. Calling the object gives numbers; `exact` gives the certificate.
    """

    def __init__(self, problem: Problem, verbose: bool = False, time_limit: float | None = None):
        if time_limit is not None and not time_limit > 0:
            raise ValueError(
                f"time_limit must be a positive number of seconds, got {time_limit}: leave it out for none."
            )
        self.problem, self.time_limit = problem, time_limit
        self.loss, self.surrogate = problem.loss, problem.surrogate
        self.verbose = verbose
        self._cache: dict[float, Certificate] = {}
        self._conjugates: dict[float, tuple[float, float]] = {}
        self._ceilings: dict[float, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"Calibration({self.loss!r}, {self.surrogate!r})"

    def __call__(self, eps: Any) -> Any:
        """zeta_h at each eps (the upper end where `exact` gives an interval)."""
        eps = real_array("eps", eps)
        values = np.array([self.exact(float(e)).value for e in eps.ravel()]).reshape(eps.shape)
        return float(values) if values.ndim == 0 else values

    @property
    def eps_max(self) -> float:
        """The largest eps at which zeta_h may be finite: no output is worse than the best by more, anywhere in M."""
        return self.problem.eps_max

    # -- exact -------------------------------------------------------------------------------------------------------

    def exact(self, eps: float) -> Certificate:
        """zeta_h(eps) with lower end, gap and witness; by closed form, else by programs, else as an interval."""
        eps = _level(eps)
        if eps not in self._cache:
            self._cache[eps] = self._exact(eps)
        return self._cache[eps]

    def _exact(self, eps: float) -> Certificate:
        if eps == 0:
            mean = self.problem.vertices.mean(0)
            z = int((self.problem.psi @ mean + self.problem.offset).argmin())
            return Certificate(0.0, 0.0, 0.0, z, z, mean, mean, "closed form (zero)")
        if eps > self.eps_max + self.problem.rounding:
            return Certificate(eps, np.inf, np.inf, method="closed form (nothing is that wrong)")
        return closed_form(self.problem, eps) or self.numeric(eps)

    def numeric(self, eps: float) -> Certificate:
        """zeta_h(eps) from the exact formula by programs, whether or not a closed form is known. Where D_h is not jointly
        convex: an interval.
        """
        eps = _level(eps)
        problem, form = self.problem, self.problem.form
        pairs = self._ordered(self._pair_bounds(eps))
        deadline = time.monotonic() + (self.time_limit or np.inf)
        if not form.exact:
            return interval(self._programs, eps, pairs, deadline)
        best = Certificate(eps, np.inf, np.inf)
        lower, solved = np.inf, 0
        for z, other, bound in pairs:
            if bound >= best.value or time.monotonic() > deadline:
                lower = min(lower, bound)  # no pair from here on has a smaller bound
                break
            found = two_point_witness(problem, z, other, eps, bound) if problem.kullback else None
            if found is None:
                found, solved = self._programs.solve(z, other, eps, enough=best.value), solved + 1
            lower = min(lower, max(found.lower, bound))
            if found.value < best.value:
                best = found
        best = replace(best, lower=min(lower, best.value), programs=solved)
        return replace(best, exact=best.agree)

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self.problem)

    @cached_property
    def _representatives(self) -> np.ndarray:
        """One flat pair index for each orbit, pairs that differ only."""
        problem = self.problem
        n = len(problem.psi)
        stands = orbits(problem)
        alike = (
            np.round(problem.table / problem.unit, 12),
            np.round(problem.psi / max(np.abs(problem.psi).max(), 1e-300), 12),
        )
        rows = np.unique(np.hstack(alike), axis=0, return_inverse=True)[1].ravel()
        keep = np.unique(stands[rows[:, None] != rows[None, :]])
        return keep[np.divmod(keep, n)[0] != np.divmod(keep, n)[1]]

    def _pair_bounds(self, eps: float) -> np.ndarray:
        """A quick lower bound on each pair's program."""
        problem = self.problem
        bounds = problem.curvature * eps**2 / 2
        if problem.kullback:
            bounds = np.maximum(bounds, two_point_bounds(problem.table, eps))
        return np.where(problem.reach >= eps - problem.rounding, bounds, np.inf)

    def _ordered(self, bounds: np.ndarray) -> Iterator[tuple[int, int, float]]:
        """Pairs with a finite bound, the least bound first; a line of progress on the way where verbose."""
        n = len(self.problem.psi)
        flat = bounds.ravel()[self._representatives]
        pairs = self._representatives[np.argsort(flat, kind="stable")]
        pairs = pairs[np.isfinite(bounds.ravel()[pairs])]
        try:
            for i, pair in enumerate(pairs):
                if self.verbose:
                    print(f"\rzeta: {i + 1} of at most {len(pairs)} programs", end="", file=sys.stderr, flush=True)
                yield int(pair // n), int(pair % n), float(bounds.ravel()[pair])
        finally:
            if self.verbose:
                print(file=sys.stderr)

    # -- bounds ------------------------------------------------------------------------------------------------------

    def lower_bound(self, eps: Any, norm: str | None = None, improved: bool = True) -> Any:
        """Quadratic lower bounds from strong convexity of h in a norm ("l1", "l2", "linf"; None: the best).

        improved: sigma eps^2 / (2 max |psi(z) - psi(z')|_*^2), the paper's improved l2 bound, which holds in every
        norm, and modulo what is constant on D. Not improved: sigma eps^2 / (8 max |psi(z)|_*^2), its user-friendly
        one.
        """
        constants = self.problem.convexity
        if norm is not None and norm not in ("l1", "l2", "linf"):
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {norm!r}.")
        if not constants:
            raise ValueError(
                f"No strong convexity constant is known for {self.surrogate!r}: use exact(eps), which needs none."
            )
        names = list(constants) if norm is None else [norm]
        slope = max(self._quadratic(name, constants[name], improved) for name in names)
        levels = np.asarray(_levels(eps))
        # outputs that are all alike have an infinite slope: no eps but zero is ever reached
        return np.where(levels > 0, slope, 0.0) * levels**2

    def _quadratic(self, norm: str, sigma: float, improved: bool) -> float:
        if improved:
            return float(inverse_square(self.problem.differences(DUAL[norm]).max(), sigma)) / 2
        order = {"l1": np.inf, "l2": 2, "linf": 1}[norm]
        return float(inverse_square(np.linalg.norm(self.problem.psi, ord=order, axis=1).max(), sigma)) / 8

    def upper_bound(self, eps: Any) -> Any:
        """D_h(u_eps, u_0) along segments inside M from a tie u_0 of two outputs: O(eps^2), and above zeta_h everywhere.

        Infinite beyond the segments' ends.
        """
        levels = np.asarray(_levels(eps))
        out = np.full(levels.shape, np.inf)
        for tie, target, reach in self._segments:
            step = np.minimum(levels / reach, 1.0)[..., None]
            value = self.problem.divergence(
                tie + step * (target - tie), np.broadcast_to(tie, step.shape[:-1] + tie.shape)
            )
            out = np.where(levels <= reach + self.problem.rounding, np.minimum(out, value), out)
        return float(out) if out.ndim == 0 else out

    @cached_property
    def _segments(self) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """(tie, target, excess at the target): from the deepest tie of a pair towards the labels that tell it apart."""
        problem = self.problem
        n, table = len(problem.psi), problem.table
        spread = problem.differences("l2").ravel()[self._representatives]
        segments = []
        for pair in self._representatives[np.argsort(-spread, kind="stable")][:64]:
            z, other = int(pair // n), int(pair % n)
            tie = deepest_tie(problem, z, other)
            if tie is None:
                continue
            gains = table[z] - table[other]
            for chosen in (gains >= gains.max() - problem.rounding, gains > 1e-12 * problem.unit):
                if chosen.any() and gains[chosen].mean() > problem.rounding:
                    target = problem.vertices[chosen].mean(0)
                    segments.append((tie, target, float(gains[chosen].mean())))
        return segments

    # -- the convex envelope and what follows from it ----------------------------------------------------------------

    def conjugate(self, slope: float) -> float:
        """zeta*(s) = max over eps of s eps - zeta_h(eps), from above: one convex program per pair, no grid.

        Every s then gives zeta**(eps) >= s eps - zeta*(s), and at most (delta + zeta*(s)) / s excess risk.
        """
        return self._conjugate(slope)[0]

    def _conjugate(self, slope: float) -> tuple[float, float]:
        """zeta*(s), and an eps at which it is attained."""
        if slope <= 0:
            return 0.0, 0.0
        if slope not in self._conjugates and not self.problem.form.exact and self._line:
            self._conjugates[slope] = self._line_conjugate(slope)
        if slope not in self._conjugates:
            unit = self._unit
            if unit == 0:  # nothing is known from below but that zeta is not negative
                return slope * self.eps_max, self.eps_max
            if unit != 1:  # zeta >= unit * zeta of the squared distance
                slope, whole = slope / unit, slope
                conjugate, at = self._program_conjugate(slope)
                self._conjugates[whole] = unit * conjugate, at
                return self._conjugates[whole]
            self._conjugates[slope] = self._program_conjugate(slope)
        return self._conjugates[slope]

    def _program_conjugate(self, slope: float) -> tuple[float, float]:
        """The conjugate for the form's divergence, pair by pair, those that may give the most first."""
        ceilings = self._pair_ceilings(slope)
        best, at = 0.0, 0.0
        for z, other, ceiling in self._ordered(-ceilings):
            if -ceiling <= best:
                break
            found = self._programs.solve(z, other, reward=slope, enough=-best)
            ceilings[z, other] = min(max(-found.lower, 0.0), -ceiling)
            if ceilings[z, other] > best:
                best = float(ceilings[z, other])
                if found.u_prime is None:
                    continue
                gain = self.problem.psi[z] - self.problem.psi[other]
                at = float(gain @ found.u_prime + self.problem.offset[z] - self.problem.offset[other])
        self._ceilings[slope] = ceilings
        return best, at

    def _pair_ceilings(self, slope: float) -> np.ndarray:
        """A quick upper bound on each pair's share of the conjugate.

        From strong convexity; from two labels, for Kullback-Leibler; and from slopes that have been looked at, since
        each share is convex in the slope, zero at zero and grows by no more than the pair's reach.
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
        """How many times the form's zeta lies below the true one: 1, but where curvature 1 is a unit only.

        Then it is the least curvature of h within the largest distance that a pair's program has at the end of its reach:
        at any eps the distance rho is no larger, and D_h >= curvature rho^2 / 2.
        """
        least = self.problem.form.least_curvature
        if least is None:
            return 1.0
        n = len(self.problem.psi)
        ends = [divmod(int(pair), n) for pair in self._representatives]
        ends = [(z, other) for z, other in ends if self.problem.reach[z, other] > 0 and not self._programs.never(z)]
        far = [self._programs.solve(z, other, float(self.problem.reach[z, other])).value for z, other in ends]
        widest = float(np.sqrt(2 * max(far, default=0.0)))
        return least(widest) if np.isfinite(widest) else 0.0

    @cached_property
    def _line(self) -> bool:
        """Whether one dimension makes zeta_h cheap and exact for every potential."""
        found = closed_form(self.problem, self.eps_max / 2)
        return found is not None and "one dimension" in found.method

    def _line_conjugate(self, slope: float) -> tuple[float, float]:
        """By bisection of the range of eps: zeta grows, so that s eps - zeta is at most s (right end) - zeta(left end)."""
        grid = np.linspace(0, self.eps_max, 33)
        best, at, cells = 0.0, 0.0, []
        for left, right in itertools.pairwise(grid):
            cells.append((-(slope * right - self.exact(float(left)).lower), float(left), float(right)))
        heapq.heapify(cells)
        for _ in range(20_000):
            ceiling, left, right = cells[0]
            if -ceiling <= best * (1 + 1e-5) or right - left < 1e-9 * self.eps_max:
                break
            middle = (left + right) / 2
            value = slope * middle - self.exact(middle).lower
            best, at = max((best, at), (value, middle))
            heapq.heapreplace(cells, (-(slope * middle - self.exact(left).lower), left, middle))
            heapq.heappush(cells, (-(slope * right - self.exact(middle).lower), middle, right))
        return max(-cells[0][0], 0.0), at

    def envelope(self, eps: Any) -> Any:
        """zeta**(eps), the largest convex function below zeta_h, from below and within 1e-7 or so of it.

        Where zeta_h is only known as an interval, the envelope for the jointly convex divergence below D_h.
        """
        levels = np.asarray(_levels(eps))
        out = np.array([self._envelope(float(e)) for e in levels.ravel()]).reshape(levels.shape)
        return float(out) if out.ndim == 0 else out

    def _envelope(self, eps: float) -> float:
        if eps == 0:
            return 0.0
        if eps > self.eps_max + self.problem.rounding:
            return np.inf
        if self._convex:
            return self.exact(eps).lower
        # s eps - zeta*(s) is concave in s, with slope eps - eps(s): a secant-guarded bisection on that, from the
        # slope of a chord, and with zeta itself as the ceiling where it is at hand.
        known = self.problem.form.exact or self._line
        ceiling = self.exact(eps).lower if known else np.inf
        if known and ceiling == np.inf:  # no pair has a feasible point, here or beyond
            return np.inf
        first = ceiling if known else float(self.lower_bound(eps)) if self.problem.convexity else 0.0
        low, high, best = 0.0, (first or self.exact(eps).value) / eps, 0.0
        if not np.isfinite(high):
            return 0.0
        for _ in range(60):
            conjugate, at = self._conjugate(high)
            best = max(best, _below(high * eps, conjugate))
            if at >= eps * (1 - 1e-7):
                break
            low, high = high, 2 * high
        for _ in range(40):
            if ceiling - best <= 1e-8 * best or high - low <= (1e-9 if known else 1e-4) * high:
                break
            middle = (low + high) / 2
            conjugate, at = self._conjugate(middle)
            best = max(best, _below(middle * eps, conjugate))
            low, high = (middle, high) if at < eps else (low, middle)
        return min(best, ceiling)

    @cached_property
    def _convex(self) -> bool:
        """Whether zeta_h is known to be convex: a convex function of eps by formula."""
        found = closed_form(self.problem, self.eps_max / 2)
        return found is not None and found.method in (
            "closed form (one-vs-all)",
            "closed form (Hamming)",
            "closed form (all thresholds)",
        )

    def excess_risk(self, delta: Any) -> Any:
        """The most true excess risk that surrogate excess risk delta can hide: the inverse of zeta**.

        Equals the least (delta + zeta*(s)) / s over slopes s, each of which is a valid bound by itself.
        """
        levels = np.asarray(_levels(delta, "delta"))
        out = np.array([self._excess_risk(float(x)) for x in levels.ravel()]).reshape(levels.shape)
        return float(out) if out.ndim == 0 else out

    def _excess_risk(self, delta: float) -> float:
        from scipy.optimize import brentq, minimize_scalar

        if delta == 0:
            return 0.0
        top = self.eps_max
        if (self.problem.form.exact or self._convex or self._line) and self.exact(top).value <= delta:
            return top
        if self._convex:
            return float(brentq(lambda e: self.exact(e).lower - delta, 0.0, top, xtol=1e-13))

        def bound(log_slope: float) -> float:
            slope = float(np.exp(log_slope))
            return min((delta + self.conjugate(slope)) / slope, 1e12)

        # The best slope is that of zeta** at the answer: at least delta over the answer, and not much steeper.
        widest = top if not self.problem.convexity else min(top, float(np.sqrt(delta / self.lower_bound(1.0))))
        start = np.log(delta / widest)
        found = minimize_scalar(bound, bounds=(start, start + 6), method="bounded", options={"xatol": 1e-7})
        return min(float(found.fun), top)

    # -- less noise --------------------------------------------------------------------------------------------------

    def low_noise(self, p: float, gamma_p: float) -> Callable[[Any], Any]:
        """The calibration between risks under the p-noise condition, gamma_p the L_p norm of 1/gamma.

        zeta^(p)(eps) = (gamma_p eps)^(p/(p+1)) zeta**( (gamma_p^-p eps)^(1/(p+1)) / 2 ). The exponents are not the
        paper's: Hölder gives rho(f wrong) <= (gamma_p excess)^(p/(p+1)). p = 0 gives zeta**(eps / 2).
        """
        if not p >= 0 or not gamma_p > 0:
            raise ValueError(f"low_noise needs p >= 0 and gamma_p > 0, got p = {p} and gamma_p = {gamma_p}.")

        def improved(eps: Any) -> Any:
            levels = np.asarray(_levels(eps))
            inner = (levels * gamma_p**-p) ** (1 / (p + 1)) / 2
            return (gamma_p * levels) ** (p / (p + 1)) * np.asarray(self.envelope(inner))

        return improved

    def hard_margin(self, delta: float) -> float:
        """The pointwise surrogate excess below which every prediction is optimal, if none but the best is within delta."""
        return self.exact(delta).lower

    # -- picture -----------------------------------------------------------------------------------------------------

    def plot(self, ax: Any = None, points: int = 41) -> Any:
        """zeta_h with its bounds and its envelope (needs matplotlib); returns the axes."""
        from .plots import calibration_plot

        return calibration_plot(self, ax, points)


def _below(a: float, b: float) -> float:
    """a - b less its rounding: what a steep slope leaves of two large numbers is no bound otherwise."""
    return a - b - 1e-15 * (a + b)


def _level(eps: Any, name: str = "eps") -> float:
    eps = _levels(eps, name)
    if eps.ndim:
        raise ValueError(f"{name} must be one number, got an array of shape {eps.shape}.")
    return float(eps)


def _levels(eps: Any, name: str = "eps") -> np.ndarray:
    eps = real_array(name, eps)
    if not (np.isfinite(eps).all() and (eps >= 0).all()):
        raise ValueError(f"{name} must be finite and not negative, got {eps}.")
    return eps
