"""The calibration function zeta_h of a loss and a surrogate: exact values, bounds and inverse."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from .._arguments import explained
from .._checks import check_flag, check_number, real_level, real_levels
from ..progress import follow
from .certificate import AGREE, Certificate
from .closed import closed_form, two_point_bounds, two_point_witness
from .envelope import Envelope
from .problem import DUAL, Problem, inverse_square
from .programs import Programs
from .screening import FEW, kullback_bounds
from .search import deepest_tie, interval, witness
from .separable import coin_bounds
from .symmetry import orbits

TINY = float(np.finfo(float).tiny)
LEAST_STEP = 1e-9  # of a segment, at which its divergence is still told from rounding


@explained
def calibration(
    loss: Any, surrogate: Any = "auto", verbose: bool = False, time_limit: float | None = None
) -> Calibration:
    """The calibration function of a loss and a surrogate, instances or registered names.

    verbose: print progress for each pair of outputs. time_limit: seconds after which `exact` returns the interval of
    its current bounds, which is valid.

    >>> import taskloss as tl
    >>> zeta = tl.theory.calibration(tl.losses.Hamming(3), tl.surrogates.Independent())
    >>> print(round(zeta(0.5), 6))
    0.392436
    """
    return Calibration(Problem(loss, surrogate), verbose, time_limit)


class Calibration:
    """zeta_h(eps), the least surrogate excess risk of an estimate whose output has task excess risk at least eps.

    zeta_h(eps) = min over z of D_h(H_eps(z)^c in M, H_0(z) in D) (the paper's theorem on exact calibration). The
    complement of H_eps(z) is a union of half-spaces, so that this is a minimum over ordered pairs (z, z') of
    programs in (u', u), convex where D_h is. Calling the object gives values; `exact` gives the certificate.
    """

    def __init__(self, problem: Problem, verbose: bool = False, time_limit: float | None = None):
        check_flag("verbose", verbose)
        if time_limit is not None:
            check_number("time_limit", time_limit, above=0, why=": leave it out for none")
        self.problem, self.time_limit = problem, time_limit
        self.loss, self.surrogate = problem.loss, problem.surrogate
        self.verbose = verbose
        self._cache: dict[float, Certificate] = {}

    def __repr__(self) -> str:
        return f"Calibration({self.loss!r}, {self.surrogate!r})"

    def __call__(self, eps: Any) -> Any:
        """zeta_h at each eps; the upper end where `exact` gives an interval."""
        return _each(lambda e: self.exact(e).value, real_levels("eps", eps))

    @property
    def eps_max(self) -> float:
        """The largest excess risk of any output at any point of M; zeta_h is infinite beyond it."""
        return self.problem.eps_max

    # -- exact -------------------------------------------------------------------------------------------------------

    def exact(self, eps: float) -> Certificate:
        """zeta_h(eps) with lower end, gap and witness: by closed form, else by programs, else an interval."""
        eps = real_level("eps", eps)
        if eps not in self._cache:
            found = self._at_an_end(eps) or closed_form(self.problem, eps) or self._rounded(self._by_programs(eps))
            if eps > 0 and found.value < TINY:  # underflow
                found = replace(found, value=TINY, lower=0.0, exact=False)
            self._cache[eps] = found
        return self._cache[eps]

    def _at_an_end(self, eps: float) -> Certificate | None:
        if eps == 0:
            mean = self.problem.vertices.mean(0)
            z = int((self.problem.psi @ mean + self.problem.offset).argmin())
            return Certificate(0.0, 0.0, 0.0, z, z, mean, mean, "closed form (zero)")
        if eps > self.eps_max + self.problem.rounding:
            return Certificate(eps, np.inf, np.inf, method="closed form (nothing is that wrong)")
        return None

    def numeric(self, eps: float) -> Certificate:
        """zeta_h(eps) by programs, even where a closed form is known; an interval where D_h is not jointly convex."""
        eps = real_level("eps", eps)
        return self._at_an_end(eps) or self._rounded(self._by_programs(eps))

    def _rounded(self, found: Certificate) -> Certificate:
        """The certificate with its upper end raised by what rounding hides at a level that is near it.

        A witness has its excess up to `rounding` only, a share of eps. Drawn out to the excess that is asked for, its
        divergence grows by the square of that. Where rounding is most of eps, zeta of a larger level takes its place.
        """
        share, least = self.problem.rounding / found.eps, min(10 * self.problem.rounding, self.eps_max)
        if share < 1e-6 or not np.isfinite(found.value):
            return found
        if found.eps < least:
            value = max(self.numeric(least).value, found.lower)
            return replace(found, value=value, u_prime=None, u=None, exact=False)
        value = max(found.value * (1 + 2 * share) ** 2, found.lower)
        return replace(found, value=value, exact=value - found.lower <= AGREE * value)

    def _by_programs(self, eps: float) -> Certificate:
        problem, form = self.problem, self.problem.form
        bounds = self._pair_bounds(eps)
        deadline = time.monotonic() + (self.time_limit or np.inf)
        progress = follow("zeta", 1.0, self.verbose)
        pairs = self.ordered(self._screened(bounds, eps))
        if not form.exact:
            return interval(self.programs, eps, pairs, deadline, progress)
        best = Certificate(eps, np.inf, np.inf)
        lower, solved = np.inf, 0
        for i, (z, other, bound) in enumerate(pairs):
            if progress is not None:
                progress.count(i, len(pairs), "pairs of outputs at most")
            if bound >= best.value or time.monotonic() > deadline:
                lower = min(lower, bound)  # pairs come in order of their bounds
                break
            found = two_point_witness(problem, z, other, eps, bound) if problem.kullback else None
            if found is None:
                found, solved = self.programs.solve(z, other, eps, cutoff=best.value), solved + 1
            lower = min(lower, max(found.lower, bound))
            if found.value < best.value:
                best = found
        value = max(best.value, lower) if np.isfinite(lower) else best.value
        best = replace(best, value=value, lower=min(lower, value), programs=solved)
        return replace(best, exact=best.agree)

    @cached_property
    def programs(self) -> Programs:
        return Programs(self.problem)

    @cached_property
    def representatives(self) -> np.ndarray:
        """The flat index of one pair (z, z') for each orbit, without pairs of equal outputs."""
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
        """A cheap lower bound on each pair's program."""
        problem = self.problem
        bounds = problem.curvature * eps * eps / 2  # in this order, infinity times zero cannot occur
        if problem.kullback:
            bounds = np.maximum(bounds, two_point_bounds(problem.table, eps))
        return np.where(problem.reach >= eps - problem.rounding, bounds, np.inf)

    def _screened(self, bounds: np.ndarray, eps: float) -> np.ndarray:
        """Screening: better bounds for the pairs that may still be the minimum, where there are many of them."""
        problem, n = self.problem, len(self.problem.psi)
        z, other = np.divmod(self.representatives, n)
        first = bounds[z, other]
        coins = problem.coins
        if not (problem.kullback or coins is not None) or np.isfinite(first).sum() <= FEW:
            return bounds
        likeliest = int(first.argmin())
        found = self.programs.solve(int(z[likeliest]), int(other[likeliest]), eps)
        ceiling = found.value
        if not problem.form.exact:
            ceiling = witness(self.programs, found.z, found.z_other, eps, found.u_prime, found.u).value
        open_ = (first > 0) & (first < ceiling)
        z, other, first = z[open_], other[open_], first[open_]
        bounds = bounds.copy()
        if coins is not None:
            bounds[z, other] = coin_bounds(coins, z, other, first, ceiling, eps)
        else:
            bounds[z, other] = kullback_bounds(problem.table, eps, z, other, first, ceiling)
        return bounds

    def ordered(self, bounds: np.ndarray) -> list[tuple[int, int, float]]:
        """Pairs with a finite bound, in increasing order of their bounds."""
        n = len(self.problem.psi)
        flat = bounds.ravel()[self.representatives]
        pairs = self.representatives[np.argsort(flat, kind="stable")]
        pairs = pairs[np.isfinite(bounds.ravel()[pairs])]
        return [(int(pair // n), int(pair % n), float(bounds.ravel()[pair])) for pair in pairs]

    # -- bounds ------------------------------------------------------------------------------------------------------

    def lower_bound(self, eps: Any, norm: str | None = None, improved: bool = True) -> Any:
        """Quadratic lower bounds from strong convexity of h in a norm ("l1", "l2", "linf"; None: the best).

        improved: sigma eps^2 / (2 max |psi(z) - psi(z')|_*^2), the paper's improved l2 bound, which holds in every
        norm, the differences taken modulo functionals that are constant on D. Not improved: sigma eps^2 / (8 max
        |psi(z)|_*^2), its user-friendly bound.
        """
        constants = self.problem.convexity
        check_flag("improved", improved)
        if norm is not None and not (isinstance(norm, str) and norm in ("l1", "l2", "linf")):
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {norm!r}.")
        if not constants:
            raise ValueError(
                f"No strong convexity constant is known for {self.surrogate!r}: use exact(eps), which needs none."
            )
        names = list(constants) if norm is None else [norm]
        slope = max(self._quadratic(name, constants[name], improved) for name in names)
        levels = real_levels("eps", eps)
        # if all outputs are equal the slope is infinite: no eps > 0 can occur
        with np.errstate(over="ignore"):  # where no excess is that large
            return (np.where(levels > 0, np.sqrt(slope), 0.0) * levels) ** 2

    def _quadratic(self, norm: str, sigma: float, improved: bool) -> float:
        if improved:
            return float(inverse_square(self.problem.differences(DUAL[norm]).max(), sigma)) / 2
        order = {"l1": np.inf, "l2": 2, "linf": 1}[norm]
        return float(inverse_square(np.linalg.norm(self.problem.psi, ord=order, axis=1).max(), sigma)) / 8

    def upper_bound(self, eps: Any) -> Any:
        """An upper bound, O(eps^2): D_h(u_eps, u_0) along segments in M from a tie u_0 of two outputs.

        Infinite beyond the segments' ends. Below a billionth of a segment D_h, which is convex along it, is at most
        proportional to the step, and rounding hides that it is less.
        """
        levels = real_levels("eps", eps)
        out = np.full(levels.shape, np.inf)
        for tie, target, reach in self._segments:
            share = np.minimum(levels / reach, 1.0)
            step = np.maximum(share, LEAST_STEP)[..., None]
            value = self.problem.divergence(
                tie + step * (target - tie), np.broadcast_to(tie, step.shape[:-1] + tie.shape)
            ) * np.minimum(share / LEAST_STEP, 1.0)
            out = np.where(levels <= reach + self.problem.rounding, np.minimum(out, value), out)
        return float(out) if out.ndim == 0 else out

    @cached_property
    def _segments(self) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """(tie, target, excess at the target): from the deepest tie of a pair towards labels where z is worse."""
        problem = self.problem
        n, table = len(problem.psi), problem.table
        spread = problem.differences("l2").ravel()[self.representatives]
        segments = []
        for pair in self.representatives[np.argsort(-spread, kind="stable")][:64]:
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

    # -- the convex envelope, its conjugate and its inverse ------------------------------------------------------------

    @cached_property
    def _hull(self) -> Envelope:
        return Envelope(self)

    def conjugate(self, slope: float) -> float:
        """An upper bound on zeta*(s) = max over eps of s eps - zeta_h(eps): one convex program per pair, no grid.

        For every s, zeta**(eps) >= s eps - zeta*(s), and the excess risk is at most (delta + zeta*(s)) / s.
        """
        return self._hull.conjugate(real_level("slope", slope))[0]

    def envelope(self, eps: Any) -> Any:
        """A lower bound, within about 1e-7, on zeta**(eps), the largest convex function below zeta_h.

        Where zeta_h is known only as an interval, this is the envelope for the jointly convex minorant of D_h.
        """
        return _each(self._hull.value, real_levels("eps", eps))

    def excess_risk(self, delta: Any) -> Any:
        """The largest task excess risk possible with surrogate excess risk delta: the inverse of zeta**.

        Equals the minimum over slopes s of (delta + zeta*(s)) / s, a valid bound for each s.
        """
        return _each(self._hull.inverse, real_levels("delta", delta))

    # -- low noise -----------------------------------------------------------------------------------------------------

    def low_noise(self, p: float, gamma_p: float) -> Callable[[Any], Any]:
        """The calibration function between risks under the p-noise condition, gamma_p the L_p norm of 1/gamma.

        zeta^(p)(eps) = (gamma_p eps)^(p/(p+1)) zeta**( (gamma_p^-p eps)^(1/(p+1)) / 2 ). The exponents are not the
        paper's: Hölder gives rho(f wrong) <= (gamma_p excess)^(p/(p+1)). p = 0 gives zeta**(eps / 2). As no margin is
        larger than eps_max, gamma_p is at least 1 / eps_max.
        """
        p = real_level("p", p)
        check_number("gamma_p", gamma_p, above=0)
        if p and gamma_p * self.eps_max < 1 - 1e-9:
            raise ValueError(
                f"gamma_p must be at least 1 / eps_max = {1 / self.eps_max:.6g}, as no margin is above {self.eps_max:.6g}, got {gamma_p}."
            )

        def improved(eps: Any) -> Any:
            levels = real_levels("eps", eps)
            with np.errstate(divide="ignore"):
                log, own = np.log(levels), np.log(gamma_p)
            inner = np.exp((log - p * own) / (p + 1)) / 2
            return np.exp(p / (p + 1) * (log + own)) * np.asarray(self.envelope(inner))

        return improved

    def hard_margin(self, delta: float) -> float:
        """The pointwise surrogate excess below which every prediction is optimal, if gamma(x) >= delta almost surely."""
        return self.exact(real_level("delta", delta)).lower

    # -- plot ----------------------------------------------------------------------------------------------------------

    def plot(self, ax: Any = None, points: int = 41) -> Any:
        """zeta_h with its bounds and its envelope (needs matplotlib); returns the axes."""
        from ..plots.curves import calibration_plot

        return calibration_plot(self, ax, points)


def _each(function: Callable[[float], float], levels: np.ndarray) -> Any:
    """The function at each level: a number for a number, an array for an array."""
    out = np.array([function(float(x)) for x in levels.ravel()]).reshape(levels.shape)
    return float(out) if out.ndim == 0 else out
