"""A numerical check of phi-calibration that needs only evaluations of S(v, y)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._arguments import explained
from .._checks import check_flag, check_number, check_whole
from .blackbox import BlackBox, OutOfTimeError
from .maxmargin import KINDS, MaxMarginReport, check_max_margin

VERDICTS = {
    "calibrated": "the excess risk is a Bregman divergence of the moments for every score",
    "represented on t(M) only": "the excess risk is a Bregman divergence for the scores that some law asks for, not beyond them",
    "link not injective": "laws with different moments share their best score, so that scores do not give the moments",
    "link not continuous": "the best score jumps where the moments do not",
    "not convex": "the excess risk is a Bregman divergence, but S is not convex in the scores, as the definition asks",
    "needs more than phi": "the best score, or the loss of a score, is no function of the moments of this phi",
    "undecided in time": "time was up before every condition was tried; those that were tried hold",
    "undecided off t(M)": "represented on t(M); neither a canonical nor a coordinatewise extension to all scores was found",
}


@dataclass(frozen=True)
class Report:
    """The result of `check`: a verdict, the evidence, and h, t and t^-1 as functions.

    violation: the violation of the failing condition (for "calibrated", the largest residual of all conditions), at the
    score `v` and the law `q` over labels. `convex`: whether S(., y) was convex on the sample, as phi-calibration
    requires; reported with every verdict. `potential` and `link` take moments in M and `inverse_link` takes scores, one
    row each; h is defined up to an affine function, chosen so that its tangent at v0 is zero.
    """

    verdict: str
    violation: float
    v: np.ndarray | None
    q: np.ndarray | None
    potential: Callable[[Any], np.ndarray] = field(repr=False)
    link: Callable[[Any], np.ndarray] = field(repr=False)
    inverse_link: Callable[[Any], np.ndarray] | None = field(repr=False)
    extension: str = ""
    convex: bool = True

    @property
    def calibrated(self) -> bool:
        return self.verdict == "calibrated"

    @property
    def reason(self) -> str:
        return VERDICTS[self.verdict]

    def __bool__(self) -> bool:
        return self.calibrated


@explained
def check(
    surrogate: Any,
    phi: Any = None,
    size: int | None = None,
    scores: Any = None,
    laws: int = 30,
    seed: int = 0,
    time_limit: float | None = None,
    verbose: bool = False,
) -> Report | MaxMarginReport:
    """Whether S is phi-calibrated, for a surrogate, a margin, or any function S(v, y).

    The max-margin losses "max-margin", "restricted" and "max-min" are not phi-calibrated but may be consistent:
    `check("max-margin", loss)` is `check_max_margin(loss)`.

    surrogate: a function takes scores v, rows of length `size`, and one label's code y, and returns one number per
    row. phi: the embedding, one row per label, or a loss that has one (a margin needs none). scores: rows at which
    the conditions are tested, by default a normal sample; those where S is not finite are dropped.

    The tests, in order: t(q) = argmin_v s(v, q) depends on q through the moments only; it is injective; it is
    continuous; -(S(v, .) - S(v0, .)) is an affine function <g, phi> + b of the embedding; and -b is a strictly convex
    function h* of the slope g over all scores, with t^-1(v) = grad h*(g(v)) injective. Where scores outnumber M's
    dimension, the tangents are determined on M's hull only: the check then looks for an extension in which S is linear
    in the scores up to a common term (quadratic, one-vs-all logistic), or a sum over coordinates (one-vs-all). Last,
    S(., y) is tested for convexity along segments between scores. All conditions are tested on samples: a negative
    verdict comes with its counterexample, a positive one holds as far as the sample shows. time_limit: seconds after
    which the verdict is "undecided in time", unless a condition has failed before. verbose: print a line for each
    condition.
    """
    if isinstance(surrogate, str) and surrogate in KINDS:
        return check_max_margin(phi, surrogate)
    if time_limit is not None:
        check_number("time_limit", time_limit, above=0, why=": leave it out for none")
    check_flag("verbose", verbose)
    deadline = time.monotonic() + (time_limit or np.inf)
    check_whole("laws", laws, 6)
    check_whole("seed", seed, 0)
    return _Checker(surrogate, phi, size, scores, laws, np.random.default_rng(seed), deadline, verbose=verbose).report()


class _Checker(BlackBox):
    """The conditions of the definition, tested in turn on a sample."""

    def __init__(self, *args: Any, verbose: bool = False):
        super().__init__(*args)
        self.verbose = verbose
        self.nonconvexity, self.nonconvex_at, self.nonconvex_label = self._nonconvexity()

    def report(self) -> Report:
        if not self.frame.shape[1]:  # S does not depend on v: every score minimises every risk
            self.best = np.repeat(self.v0[None], len(self.laws), 0)
            return self._report("link not injective", 0.0, self.v0, self.laws[0], inverse=None)
        try:
            return self._conditions()
        except OutOfTimeError:
            self.deadline = np.inf  # the returned functions have no deadline
            return self._report("undecided in time", np.nan, None, None, inverse=None)

    def _conditions(self) -> Report:
        self.best = self.minimisers(self.laws)
        self.least = self.risk(self.best, self.laws)
        for test in (self._moments_suffice, self._affine, self._injective, self._continuous):
            if self.verbose:
                print(f"check: {test.__name__.strip('_').replace('_', ' ')}", file=sys.stderr, flush=True)
            failed = test()
            if failed is not None:
                return self._report(*failed, inverse=None)
        return self._everywhere()

    def _report(self, verdict: str, violation: float, v: Any, q: Any, inverse: Any, extension: str = "") -> Report:
        if verdict == "calibrated" and self.nonconvexity > 1e-9:
            verdict, violation, v, q = (
                "not convex",
                self.nonconvexity,
                self.nonconvex_at,
                np.eye(self.count)[self.nonconvex_label],
            )
        return Report(
            verdict, float(violation), v, q, self.potential, self.link, inverse, extension, self.nonconvexity <= 1e-9
        )

    def _nonconvexity(self) -> tuple[float, np.ndarray, int]:
        """The largest relative excess of S(., y) over a chord at its midpoint, the midpoint and the label."""
        sample = self.sample
        # chords of three lengths: convexity may fail only in the tails, or only in a narrow region
        ends = [(sample[i], sample[(i + j) % len(sample)]) for j in (1, 5) for i in range(len(sample))]
        first, last = (np.array(part) for part in zip(*ends, strict=True))
        first = np.vstack([first, 4 * first, first])
        last = np.vstack([last, 4 * last, first[: len(ends)] + 0.2 * (last - first[: len(ends)])])
        left, middle, right = (self.values(v) for v in (first, (first + last) / 2, last))
        with np.errstate(invalid="ignore"):
            # S may be a difference of terms as large as its largest value, and is then known up to their rounding
            largest = np.max([np.abs(part).max(-1) for part in (left, middle, right)], axis=0)
            scale = np.abs(left) + np.abs(right) + 1e-5 * largest[:, None] + 1e-300
            rise = (middle - (left + right) / 2) / scale
        # an exponential may overflow, and S may be infinite off its domain: such chords are ignored
        rise[~(np.isfinite(left) & np.isfinite(right) & np.isfinite(middle) & (scale < 1e100))] = -np.inf
        i, y = np.unravel_index(rise.argmax(), rise.shape)
        return max(float(rise[i, y]), 0.0), (first[i] + last[i]) / 2, int(y)

    def _moments_suffice(self) -> tuple[str, float, np.ndarray, np.ndarray] | None:
        """Two laws with equal moments must share their minimiser."""
        null = np.linalg.svd(np.c_[self.phi, np.ones(self.count)].T)[2][self.r + 1 :]
        twins, scores = [], []
        for q, v in zip(self.laws[:8], self.best[:8], strict=True):
            for direction in null[:3]:
                reach = np.min(np.where(np.abs(direction) > 1e-12, q / np.maximum(np.abs(direction), 1e-12), np.inf))
                twins.append(np.maximum(q + 0.9 * reach * direction, 0.0))
                scores.append(v)
        if not twins:
            return None
        laws, shared = np.array(twins), np.array(scores)
        excess = self.risk(shared, laws) - self.risk(self.minimisers(laws), laws)
        i = int(excess.argmax())
        worst = float(excess[i]), shared[i], laws[i]
        return ("needs more than phi", *worst) if worst[0] > 1e-5 * max(1.0, np.abs(self.least).max()) else None

    def _affine(self) -> tuple[str, float, np.ndarray, np.ndarray] | None:
        residual = self.affine(self.sample)[2] / np.maximum(np.abs(self.values(self.sample)).max(-1), 1.0)
        i = int(residual.argmax())
        self.residual = float(residual[i])
        q = np.full(self.count, 1 / self.count)
        return ("needs more than phi", self.residual, self.sample[i], q) if self.residual > 1e-6 else None

    def _injective(self) -> tuple[str, float, np.ndarray, np.ndarray] | None:
        """A law's minimiser must have positive excess under other laws, relative to the squared distance of moments."""
        excess = self.values(self.best) @ self.laws.T - self.least
        mu = self.laws @ self.phi
        distance = ((mu[:, None] - mu) ** 2).sum(-1)
        apart = distance > 1e-3 * distance.max()
        ratio = np.where(apart, excess / np.maximum(distance, 1e-300), np.inf)
        i, j = np.unravel_index(ratio.argmin(), ratio.shape)
        found = "link not injective", float(ratio[i, j]), self.best[i], self.laws[j]
        return found if ratio[i, j] < 1e-5 else None

    def _continuous(self) -> tuple[str, float, np.ndarray, np.ndarray] | None:
        """Bisect a segment of laws towards the half where the minimiser moves more: only a jump does not shrink.

        A link that is infinite at a vertex moves fast near it, and takes more halvings.
        """
        for a, b in ((0, 1), (2, 3), (4, 5)):
            ends = [(self.laws[a], self.best[a]), (self.laws[b], self.best[b])]
            first = float(np.linalg.norm(ends[0][1] - ends[1][1]))
            jump = first
            for i in range(40):
                if i >= 10 and not (jump > 0.2 * first and jump > 1e-2):
                    break
                q = (ends[0][0] + ends[1][0]) / 2
                middle = q, self.minimisers(q[None])[0]
                halves = [[ends[0], middle], [middle, ends[1]]]
                ends = max(halves, key=lambda half: float(np.linalg.norm(half[0][1] - half[1][1])))
                jump = float(np.linalg.norm(ends[0][1] - ends[1][1]))
            if jump > 0.2 * first and jump > 1e-2:
                return "link not continuous", jump, ends[0][1], ends[0][0]
        return None

    # -- beyond t(M) -------------------------------------------------------------------------------------------------

    def _everywhere(self) -> Report:
        scores = np.vstack([self.sample, self.best])
        scores = scores[np.isfinite(self.slopes(scores)).all((1, 2))]
        directions = self.frame.shape[1]
        if directions <= self.r:
            return self._check_extension(scores, lambda v: self._moments(v), "")
        if self._is_canonical(scores):
            return self._check_extension(scores, self._canonical_moments, "canonical")
        if self._is_separable(scores):
            return self._check_coordinates(scores)
        return self._report("undecided off t(M)", np.nan, None, None, None)

    def _parts(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """g, b and their derivatives along the frame: (n, r), (n,), (n, r, d), (n, d)."""
        g, b, _ = self.affine(v)
        inverse = np.linalg.pinv(np.c_[self.coordinates, np.ones(self.count)])
        change = -np.einsum("ry,nyd->nrd", inverse, self.slopes(v))
        return g, b, change[:, :-1], change[:, -1]

    def _moments(self, v: np.ndarray) -> np.ndarray:
        """t^-1(v): the u at which <g(v), u> + b(v) is stationary in v."""
        _, _, dg, db = self._parts(v)
        x = -np.einsum("nrd,nd->nr", np.linalg.pinv(np.swapaxes(dg, 1, 2), rcond=1e-10), db)
        return self.mean + x @ self.hull

    def _check_extension(
        self, scores: np.ndarray, moments: Callable[[np.ndarray], np.ndarray], extension: str
    ) -> Report:
        """h* = -b must lie above its tangents, and its gradient be injective in the scores."""
        u = moments(scores)
        g, b, _, _ = self._parts(scores)
        if extension:  # slopes in the extended space: with components along the normals of M's hull
            g = np.c_[g, self._extra(scores)]
        x = (
            np.c_[(u - self.mean) @ self.hull.T, (u - self.mean) @ self._used.T]
            if extension
            else (u - self.mean) @ self.hull.T
        )
        gap = -b[None, :] + b[:, None] - np.einsum("ir,ijr->ij", x, g[None, :] - g[:, None])
        scale = np.maximum(1.0, np.abs(b[None, :] - b[:, None]))
        distance = np.linalg.norm((scores[:, None] - scores) @ self.frame, axis=-1)
        moved = np.linalg.norm(u[:, None] - u, axis=-1)
        apart = distance > 0.2
        ratio = np.where(apart, moved / np.maximum(distance, 1e-12), np.inf)
        found = self._flat(scores, ratio, moments)
        if found is not None:
            i, j = found
            return self._report("represented on t(M) only", ratio[i, j], scores[i], self.law(u[i]), moments, extension)
        i, j = np.unravel_index((gap / scale).argmin(), gap.shape)
        if gap[i, j] < -1e-5 * scale[i, j]:
            return self._report("represented on t(M) only", -gap[i, j], scores[i], self.law(u[i]), moments, extension)
        worst = max(self.residual, float(-(gap / scale).min()))
        return self._report("calibrated", worst, scores[i], self.law(u[i]), moments, extension)

    def _flat(
        self, scores: np.ndarray, ratio: np.ndarray, moments: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[int, int] | None:
        """A pair of scores with the same moments; None where moments only saturate, and move apart nearer to the centre."""
        first, second = np.unravel_index(ratio.ravel().argsort(kind="stable")[:64], ratio.shape)
        still = ratio[first, second] < 1e-6
        first, second = first[still], second[still]
        if not len(first):
            return None
        inner = self.best.mean(0) + 0.9 * (scores - self.best.mean(0))
        u = moments(inner)
        nearer = np.linalg.norm(u[first] - u[second], axis=-1)
        nearer /= np.linalg.norm((inner[first] - inner[second]) @ self.frame, axis=-1)
        stuck = nearer <= 2 * ratio[first, second] + 1e-14
        return (int(first[stuck][0]), int(second[stuck][0])) if stuck.any() else None

    def _is_canonical(self, scores: np.ndarray) -> bool:
        """Whether S(v, y) - S(v, y') is linear in v, so that S = A(v) - <B v, phi(y)> up to terms without v."""
        dg = self._parts(scores)[2]
        return self.frame.shape[1] <= self.phi.shape[1] and bool(np.abs(dg - dg[0]).max() < 1e-5)

    def _extra(self, v: np.ndarray) -> np.ndarray:
        """Slopes along the normals of M's hull, where they are free: the directions of v on which g does not depend."""
        return v @ self.frame @ self._rest.T

    @property
    def _rest(self) -> np.ndarray:
        dg = self._parts(self.sample[:1])[2][0]
        _, singular, rows = np.linalg.svd(dg)
        rest = rows[self.r :]
        if self.size == self.phi.shape[1]:  # scores and moments share their axes: extend along the same ones
            natural = self._used @ self.frame
            if np.abs(natural @ rows[: self.r].T).max() < 1e-6:
                rest = natural
        return singular.mean() * rest

    @property
    def _used(self) -> np.ndarray:
        return self.normal[: self.frame.shape[1] - self.r]

    def _canonical_moments(self, v: np.ndarray) -> np.ndarray:
        _, _, dg, db = self._parts(v)
        square = np.vstack([dg[0], self._rest])
        x = -db @ np.linalg.inv(square)
        return self.mean + x[:, : self.r] @ self.hull + x[:, self.r :] @ self._used

    def _is_separable(self, scores: np.ndarray) -> bool:
        """Whether dS(v, y)/dv_j depends on v_j and phi_j(y) alone."""
        if self.size != self.phi.shape[1] or self.frame.shape[1] != self.size:
            return False
        eye = np.eye(self.size)
        shuffled = np.stack([self.rng.permutation(scores[:, j]) for j in range(self.size)], axis=-1)
        step = 1e-5
        for j in range(self.size):
            mixed = shuffled.copy()
            mixed[:, j] = scores[:, j]
            here, there = (
                (self.values(at + step * eye[j]) - self.values(at - step * eye[j])) / (2 * step)
                for at in (scores, mixed)
            )
            scale = max(1.0, float(np.abs(here).max()))
            same = self.phi[:, j][:, None] == self.phi[:, j]
            spread = np.abs(here[:, :, None] - here[:, None, :])[:, same].max()
            if np.abs(here - there).max() > 1e-5 * scale or spread > 1e-5 * scale:
                return False
        return True

    def _check_coordinates(self, scores: np.ndarray) -> Report:
        """h = sum_j h_j: each coordinate is checked as a surrogate in one dimension."""
        inverses, worst = [], 0.0
        for j in range(self.size):
            kinds, first = np.unique(self.phi[:, j], return_index=True)

            def one(v: np.ndarray, y: int, j: int = j, first: np.ndarray = first) -> np.ndarray:
                whole = np.repeat(self.v0[None], len(v), 0)
                whole[:, j] = v[:, 0]
                return self.values(whole)[:, first[y]]

            inner = _Checker(one, kinds[:, None], 1, scores[:, [j]], 8, self.rng, self.deadline)._conditions()
            if inner.verdict == "not convex":
                self.nonconvexity = max(self.nonconvexity, inner.violation)
            elif not inner.calibrated:
                v = self.v0.copy() if inner.v is None else np.where(np.arange(self.size) == j, inner.v, self.v0)
                return self._report("represented on t(M) only", inner.violation, v, inner.q, None, "coordinatewise")
            inverses.append(inner.inverse_link)
            worst = max(worst, inner.violation)

        def inverse(v: np.ndarray) -> np.ndarray:
            return np.concatenate([f(v[:, [j]]) for j, f in enumerate(inverses)], axis=1)  # type: ignore[misc]

        return self._report("calibrated", max(worst, self.residual), self.v0, self.laws[0], inverse, "coordinatewise")
