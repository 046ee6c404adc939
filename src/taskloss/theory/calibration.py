"""The calibration function zeta_h of a loss and a surrogate: exact, bounded, inverted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from .._checks import check_number, real_array
from .closed import closed_form, two_point_bounds, two_point_witness
from .problem import DUAL, Problem
from .programs import Certificate, Programs
from .search import deepest_tie, interval
from .symmetry import orbits


def calibration(loss: Any, surrogate: Any = "auto", verbose: bool = False) -> Calibration:
    """The calibration function of a loss and a surrogate, instances or registered names.

    >>> import taskloss as tl
    >>> zeta = tl.theory.calibration(tl.losses.Hamming(3), tl.surrogates.Independent())
    >>> print(round(zeta(0.5), 6))
    0.392436
    """
    return Calibration(Problem(loss, surrogate), verbose)


class Calibration:
    """zeta_h(eps), the least surrogate excess risk that an output eps worse than the best can come with.

    zeta_h(eps) = min over z of D_h(H_eps(z)^c in M, H_0(z) in D) (the paper's theorem on exact calibration). The
    complement of H_eps(z) is a union of half-spaces, so that this is a minimum over ordered pairs (z, z') of
    programs in (u', u), convex where D_h is. Calling the object gives numbers; `exact` gives the certificate.
    """

    def __init__(self, problem: Problem, verbose: bool = False):
        self.problem = problem
        self.loss, self.surrogate = problem.loss, problem.surrogate
        self.verbose = verbose
        self._cache: dict[float, Certificate] = {}
        self._conjugates: dict[float, tuple[float, float]] = {}

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
        if eps > self.eps_max * (1 + 1e-12):
            return Certificate(eps, np.inf, np.inf, method="closed form (nothing is that wrong)")
        return closed_form(self.problem, eps) or self.numeric(eps)

    def numeric(self, eps: float) -> Certificate:
        """zeta_h(eps) from the exact formula by programs, whether or not a closed form is known. Where D_h is not jointly
        convex: an interval.
        """
        eps = _level(eps)
        problem, form = self.problem, self.problem.form
        pairs = self._ordered(self._pair_bounds(eps))
        if not form.exact:
            return interval(self._programs, eps, pairs)
        best = Certificate(eps, np.inf, np.inf)
        lower, solved = np.inf, 0
        for z, other, bound in pairs:
            if bound >= best.value:
                lower = min(lower, bound)
                break
            found = two_point_witness(problem, z, other, eps, bound) if form.simplex else None
            if found is None:
                found, solved = self._programs.solve(z, other, eps), solved + 1
            lower = min(lower, max(found.lower, bound))
            if found.value < best.value:
                best = found
        lower = min(lower, best.value)
        agree = best.value == lower or best.value - lower <= 1e-5 * max(1.0, lower)
        return replace(best, lower=lower, programs=solved, exact=agree)

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self.problem)

    @cached_property
    def _representatives(self) -> np.ndarray:
        """One flat pair index for each orbit, pairs that differ only."""
        problem = self.problem
        n = len(problem.psi)
        stands = orbits(problem)
        rows = np.unique(np.c_[problem.psi, problem.offset].round(12), axis=0, return_inverse=True)[1].ravel()
        keep = np.unique(stands[rows[:, None] != rows[None, :]])
        return keep[np.divmod(keep, n)[0] != np.divmod(keep, n)[1]]

    def _pair_bounds(self, eps: float) -> np.ndarray:
        """A quick lower bound on each pair's program."""
        problem = self.problem
        bounds = problem.curvature * eps**2 / 2
        if problem.form.simplex:
            bounds = np.maximum(bounds, two_point_bounds(problem.table, eps))
        return np.where(problem.reach >= eps - 1e-12, bounds, np.inf)

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
        return slope * np.asarray(_levels(eps)) ** 2

    def _quadratic(self, norm: str, sigma: float, improved: bool) -> float:
        if improved:
            return sigma / (2 * self.problem.differences(DUAL[norm]).max() ** 2)
        order = {"l1": np.inf, "l2": 2, "linf": 1}[norm]
        return sigma / (8 * np.linalg.norm(self.problem.psi, ord=order, axis=1).max() ** 2)

    def upper_bound(self, eps: Any) -> Any:
        """D_h(u_eps, u_0) along segments inside M from a tie u_0 of two outputs: O(eps^2), and above zeta_h everywhere.

        Infinite beyond the segments' ends.
        """
        levels = np.asarray(_levels(eps))
        out = np.full(levels.shape, np.inf)
        for tie, target, reach in self._segments:
            step = (levels / reach)[..., None]
            value = self.problem.divergence(
                tie + step * (target - tie), np.broadcast_to(tie, step.shape[:-1] + tie.shape)
            )
            out = np.where(levels <= reach, np.minimum(out, value), out)
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
            for chosen in (gains >= gains.max() - 1e-12, gains > 1e-12):
                if chosen.any():
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
        if slope not in self._conjugates and not self.problem.form.exact and self._line is not None:
            self._conjugates[slope] = self._line_conjugate(slope)
        if slope not in self._conjugates:
            kappa = self.problem.curvature
            reach = self.problem.reach
            with np.errstate(invalid="ignore", divide="ignore"):
                stop = np.where(kappa > 0, np.minimum(slope / kappa, reach), reach)
                ceilings = np.where(reach > 0, slope * stop - kappa * stop**2 / 2, 0.0)
            ceilings[~np.isfinite(ceilings)] = 0.0
            best, at = 0.0, 0.0
            for z, other, ceiling in self._ordered(-ceilings):
                if -ceiling <= best:
                    break
                found = self._programs.solve(z, other, reward=slope)
                if -found.lower > best:
                    best = -found.lower
                    gain = self.problem.psi[z] - self.problem.psi[other]
                    at = float(gain @ found.u_prime + self.problem.offset[z] - self.problem.offset[other])
            self._conjugates[slope] = best, at
        return self._conjugates[slope]

    @cached_property
    def _line(self) -> tuple[np.ndarray, np.ndarray] | None:
        """zeta_h on a grid, where one dimension makes it cheap and exact for every potential."""
        found = closed_form(self.problem, self.eps_max / 2)
        if found is None or "one dimension" not in found.method:
            return None
        grid = np.linspace(0, self.eps_max, 401)
        return grid, self(grid)

    def _line_conjugate(self, slope: float) -> tuple[float, float]:
        from scipy.optimize import minimize_scalar

        grid, values = self._line  # type: ignore[misc]
        i = int((slope * grid - values).argmax())
        around = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
        found = minimize_scalar(lambda e: self.exact(e).value - slope * e, bounds=around, method="bounded")
        return max((-float(found.fun), float(found.x)), (float(slope * grid[i] - values[i]), float(grid[i])))

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
        if eps > self.eps_max * (1 + 1e-12):
            return np.inf
        if self._convex:
            return self.exact(eps).lower
        # s eps - zeta*(s) is concave in s, with slope eps - eps(s): a secant-guarded bisection on that, from the
        # slope of a chord, and with zeta itself as the ceiling where it is at hand.
        known = self.problem.form.exact or self._line is not None
        ceiling = self.exact(eps).lower if known else np.inf
        low, high, best = 0.0, (ceiling if known else max(float(self.lower_bound(eps)), 1e-6)) / eps, 0.0
        for _ in range(60):
            conjugate, at = self._conjugate(high)
            best = max(best, high * eps - conjugate)
            if at >= eps * (1 - 1e-9):
                break
            low, high = high, 2 * high
        for _ in range(40):
            if ceiling - best <= 1e-8 * max(1.0, best) or high - low <= (1e-9 if known else 1e-4) * high:
                break
            middle = (low + high) / 2
            conjugate, at = self._conjugate(middle)
            best = max(best, middle * eps - conjugate)
            low, high = (middle, high) if at < eps else (low, middle)
        return best

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
        if (self.problem.form.exact or self._convex or self._line is not None) and self.exact(top).value <= delta:
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


def _level(eps: Any, name: str = "eps") -> float:
    check_number(name, eps)
    return float(_levels(float(eps), name))


def _levels(eps: Any, name: str = "eps") -> np.ndarray:
    eps = real_array(name, eps)
    if not (np.isfinite(eps).all() and (eps >= 0).all()):
        raise ValueError(f"{name} must be finite and not negative, got {eps}.")
    return eps
