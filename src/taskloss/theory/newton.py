"""Polishing: Newton steps on the active set that a solver found, to a pair's optimum and multipliers up to rounding.

In variables (x, delta) with x' = x + eta delta, eta the size of the step, the divergence over eta^2 and its derivatives
are of order one however small eps is, and the multipliers are accurate to rounding. They must be: a lower bound of order
eps^2 is a difference of terms of order eps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..polytopes.base import normals
from .scaled import Multipliers

if TYPE_CHECKING:
    from .conic import Proposal
    from .programs import Programs


def polished(
    programs: Programs, z: int, other: int, eps: float | None, reward: float, found: Proposal, near: float
) -> Proposal:
    """The polished proposal, or the proposal itself where polishing fails.

    Weights below `near` count as zero.
    """
    if found.diverged:
        return found
    try:
        with np.errstate(all="ignore"):  # a wrong active set may diverge, which is detected
            return _Polish(programs, z, other, eps, reward, found, near).run()
    except np.linalg.LinAlgError:
        return found


class _Polish:
    def __init__(
        self, programs: Programs, z: int, other: int, eps: float | None, reward: float, found: Proposal, near: float
    ):
        self.scaled, self.found, self.eps, self.reward, self.near = programs.scaled, found, eps, reward, near
        scaled, multipliers = self.scaled, found.multipliers
        self.z, self.other = z, other
        d, self.c = scaled.gain(z, other)
        self.length = float(np.linalg.norm(d)) or 1.0
        self.d = d / self.length
        move = found.truth - found.estimate
        size = max(float(np.linalg.norm(move)), 1e-300)
        # a row of H_0(z) is active where its multiplier exceeds its slack, both relative
        self.rows, self.levels, self.which, _ = scaled.optimal(z)
        self.lengths = np.linalg.norm(scaled.psi[self.which] - scaled.psi[z], axis=1)
        duals = multipliers.w[self.which] * self.lengths
        slack = np.maximum(self.rows @ found.estimate - self.levels, 0.0)
        self.active = duals / max(float(duals.max(initial=0.0)), 1e-300) > slack / size
        ahead = float(self.d @ move)
        if eps is not None and ahead > 0 and self.active[self.which == self._tie()].any():
            # from a tie of the two outputs, the step is proportional to eps
            self.eta = min(1.0, eps / self.length)
            self.delta = move / ahead * (eps / self.length / self.eta)
        else:
            self.eta = float(np.clip(size, 1e-12, 1.0))
            self.delta = move / self.eta
        self.x = found.estimate
        self.kept = programs.support(z)
        a, a1 = (scaled.slope @ point + scaled.shift for point in (found.estimate, found.truth))
        top = float(np.abs(a).max(initial=1.0))
        self.zero = ~self.kept | ((a <= self.near * top) & (a1 <= self.near * top))
        self.estimate_only = (
            self.kept & ~self.zero & (a1 <= self.near * top)
        )  # the truth has none: its term is a_j itself
        self.live = ~self.zero & ~self.estimate_only
        self.truth_rows, self.truth_levels = self._truth()

    def _truth(self) -> tuple[np.ndarray, np.ndarray]:
        """Equalities of the smallest face of M that contains the truth."""
        scaled, found = self.scaled, self.found
        if found.law is not None:
            support = scaled.vertices[found.law >= self.near * found.law.max()]
            rows = normals(support) if len(support) > 1 else np.eye(scaled.size)
            return rows, rows @ support[0]
        slope, shift, equal, level = scaled.inner  # type: ignore[misc]
        tight = slope @ found.truth + shift <= self.near
        return np.vstack([equal, slope[tight]]), np.concatenate([level, -shift[tight]])

    # -- one active set ----------------------------------------------------------------------------------------------

    def run(self) -> Proposal:
        best = self.found
        for _ in range(6):
            if not self._converge():
                return best
            s, w, duals, slack = self._unscaled()
            best = best._replace(
                truth=self.x + self.eta * self.delta, estimate=self.x, multipliers=self._multipliers(s, w, duals)
            )
            scale = max(float(np.abs(w * self.lengths).max(initial=0.0)), 1e-300)
            wrong = self.active & (w * self.lengths < -1e-9 * scale)
            short = ~self.active & (slack < -1e-9 * self.eta)
            if not wrong.any() and not short.any():
                return best
            if wrong.any():
                self.active[np.flatnonzero(wrong)[(w * self.lengths)[wrong].argmin()]] = False
            else:
                self.active[int(slack.argmin())] = True
        return best

    def _constraints(self) -> tuple[np.ndarray, np.ndarray]:
        """Equalities on (x, delta). A row of the truth in the span of the estimate's rows becomes one on delta alone."""
        scaled, k = self.scaled, self.scaled.size
        zero = scaled.slope[self.zero], -scaled.shift[self.zero]
        points: list[Any] = []
        if scaled.points is not None and self.found.mix is not None:
            support = scaled.points[self.found.mix > self.near * self.found.mix.max()]
            rows = normals(support) if len(support) > 1 else np.eye(k)
            points = [(rows, rows @ support[0])]
        groups = [(self.rows[self.active], self.levels[self.active]), (scaled.equal, scaled.level), zero, *points]
        self.estimate_rows = np.vstack([rows for rows, _ in groups])
        estimate_levels = np.concatenate([levels for _, levels in groups])
        truth, at = [self.truth_rows], [self.truth_levels]
        self.has_excess = self.eps is not None and bool(self.found.only is None)
        if self.has_excess:
            truth.append(self.d[None])
            at.append(np.array([(self.eps - self.c) / self.length]))  # type: ignore[operator]
        self.all_truth, truth_levels = np.vstack(truth), np.concatenate(at)
        inverse = np.linalg.pinv(self.estimate_rows, rcond=1e-11) if len(self.estimate_rows) else np.zeros((k, 0))
        self.combination = self.all_truth @ inverse
        self.implied = np.linalg.norm(self.combination @ self.estimate_rows - self.all_truth, axis=1) < 1e-10
        rest = truth_levels - self.combination @ estimate_levels
        rest[np.abs(rest) < 1e-12] = 0.0
        tie = np.flatnonzero(self.active & (self.which == self._tie()))
        if self.has_excess and len(tie):
            row = np.zeros(len(self.estimate_rows))
            row[int(self.active[: tie[0]].sum())] = -1.0
            self.combination[-1], self.implied[-1] = row, True
            rest[-1] = self.eps / self.length  # type: ignore[operator]
        on_delta = np.where(self.implied[:, None], self.all_truth, self.eta * self.all_truth)
        on_x = np.where(self.implied[:, None], 0.0, self.all_truth)
        goal = np.where(self.implied, rest / self.eta, truth_levels)
        e = len(self.estimate_rows)
        matrix = np.vstack([np.hstack([self.estimate_rows, np.zeros((e, k))]), np.hstack([on_x, on_delta])])
        return matrix, np.concatenate([estimate_levels, goal])

    def _tie(self) -> int:
        """The output whose row of H_0(z) is that of z', which may be an equal output; -1 where there is none."""
        match = np.abs(self.rows + self.d).max(1) + np.abs(self.levels - self.c / self.length) < 1e-9
        return int(self.which[np.flatnonzero(match)[0]]) if match.any() else -1

    def _derivatives(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient and Hessian in (x, delta) of D/eta^2, and t = (a' - a) / a of the live terms."""
        scaled, k, eta = self.scaled, self.scaled.size, self.eta
        slope = scaled.slope[self.live]
        a, rho = slope @ self.x + scaled.shift[self.live], slope @ self.delta
        t = eta * rho / a
        log = np.log1p(t)
        # log(1 + t) - t cancels where t is small
        bend = np.where(np.abs(t) < 1e-3, -(t**2) * (1 / 2 - t * (1 / 3 - t * (1 / 4 - t * (1 / 5 - t / 6)))), log - t)
        gradient = np.concatenate([slope.T @ (bend / eta**2), slope.T @ (log / eta) + scaled.curvature * self.delta])
        gradient[:k] += scaled.slope[self.estimate_only].sum(0) / eta**2
        gain = self.reward * self.length * self.d / eta**2
        gradient -= np.concatenate([gain, eta * gain])
        hessian = np.zeros((2 * k, 2 * k))
        hessian[:k, :k] = slope.T @ (slope * (rho**2 / (a**3 * (1 + t)))[:, None])
        hessian[:k, k:] = -slope.T @ (slope * (rho / (a**2 * (1 + t)))[:, None])
        hessian[k:, :k] = hessian[:k, k:].T
        hessian[k:, k:] = slope.T @ (slope / (a * (1 + t))[:, None]) + scaled.curvature * np.eye(k)
        return gradient, hessian, t

    def _converge(self) -> bool:
        matrix, goal = self._constraints()
        k, n = self.scaled.size, len(matrix)
        slope, shift = self.scaled.slope[self.live], self.scaled.shift[self.live]
        for i in range(25):
            gradient, hessian, _ = self._derivatives()
            if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
                return False
            y = np.concatenate([self.x, self.delta])
            # near a face the Hessian is large; unscaled, least squares would treat rows of length one as rounding
            unit = max(1.0, float(np.abs(hessian).max(initial=0.0)))
            system = np.block([[hessian / unit, matrix.T], [matrix, np.zeros((n, n))]])
            right = np.concatenate([-gradient / unit, goal - matrix @ y])
            answer = np.linalg.lstsq(system, right, rcond=1e-13)[0]
            answer += np.linalg.lstsq(system, right - system @ answer, rcond=1e-13)[0]
            step, self.duals = answer[: 2 * k], unit * answer[2 * k :]
            size = 1.0
            if len(slope):  # a and a' stay positive
                a, a1 = slope @ self.x + shift, slope @ (self.x + self.eta * self.delta) + shift
                da = slope @ step[:k]
                da1 = da + self.eta * (slope @ step[k:])
                for now, change in ((a, da), (a1, da1)):
                    falls = change < 0
                    size = min(size, 0.9 * float((-now[falls] / change[falls]).min(initial=np.inf)))
            self.x, self.delta = self.x + size * step[:k], self.delta + size * step[k:]
            if size == 1 and np.abs(step).max() < 1e-13 * max(1.0, float(np.abs(self.delta).max())):
                break
            if size == 1 and i >= 12:
                break
        return True

    # -- multipliers -------------------------------------------------------------------------------------------------

    def _unscaled(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """s, w, the multipliers of all rows of estimate and truth, each in units of D; and the slack of H_0(z)'s rows."""
        e, eta = len(self.estimate_rows), self.eta
        truth = np.where(self.implied, eta, eta**2) * self.duals[e:]
        estimate = eta**2 * self.duals[:e] - (truth * self.implied) @ self.combination
        s = self.reward
        if self.has_excess:
            s = -float(truth[-1]) / self.length
        w = np.zeros(len(self.rows))
        w[self.active] = -estimate[: int(self.active.sum())] / self.lengths[self.active]
        return s, w, np.concatenate([estimate, truth]), self.rows @ self.x - self.levels

    def _multipliers(self, s: float, w: np.ndarray, duals: np.ndarray) -> Multipliers:
        scaled, multipliers = self.scaled, self.found.multipliers
        full = np.zeros(len(scaled.psi))
        full[self.which] = np.maximum(w, 0.0)
        log_ratio, less = multipliers.log_ratio.copy(), multipliers.less_ratio.copy()
        slope = scaled.slope[self.live]
        t = self.eta * (slope @ self.delta) / (slope @ self.x + scaled.shift[self.live])
        log_ratio[self.live], less[self.live] = np.log1p(t), -t
        log_ratio[self.estimate_only], less[self.estimate_only] = -700.0, 1.0
        flat_first, flat_second = (
            np.array(part, dtype=float) for part in np.broadcast_arrays(*multipliers.flat, log_ratio)[:2]
        )
        at = int(self.active.sum()) + len(scaled.equal)
        truth = duals[len(self.estimate_rows) :]
        for i, j in enumerate(np.flatnonzero(self.zero)):
            size = float(np.linalg.norm(scaled.slope[j])) or 1.0
            same = np.flatnonzero(np.abs(self.all_truth - scaled.slope[j] / size).max(1) < 1e-9)
            head = float(truth[same].sum()) / size
            tail = float(duals[at + i])
            if not self.kept[j]:
                flat_first[j], flat_second[j] = head, tail
            elif tail < 1:
                # any tangent with log r >= head and 1 - r >= tail will do
                log_ratio[j] = max((head + np.log1p(-tail)) / 2, -700.0)
                less[j] = -np.expm1(log_ratio[j])
        return Multipliers(s, full, log_ratio, less, self.eta * self.delta, (flat_first, flat_second))
