"""A surrogate known only as a function S(v, y): its derivatives, minimisers, potential and link, computed numerically."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import real_array
from ..losses.base import Loss
from ..polytopes.hull import nearest_law
from .linear import linear_program


class OutOfTimeError(Exception):
    """Raised once the deadline has passed."""


class BlackBox:
    """S(v, y) through evaluations alone, with a sample of scores and of laws over the labels."""

    def __init__(
        self,
        surrogate: Any,
        phi: Any,
        size: int | None,
        scores: Any,
        laws: int,
        rng: np.random.Generator,
        deadline: float = np.inf,
    ):
        self.rng, self.deadline = rng, deadline
        self.function, self.phi, self.size = as_function(surrogate, phi, size)
        self.count = len(self.phi)
        sample = rng.normal(scale=1.8, size=(400, self.size)) if scores is None else np.atleast_2d(scores)
        sample = sample[np.isfinite(self.values(sample)).all(-1)]
        if len(sample) < 8:
            raise ValueError("S is finite at too few of the scores tried: give scores=..., rows where it is finite.")
        self.frame = np.eye(self.size)  # all directions, until `_frame` finds those that change S
        self.frame = self._frame(sample[:12])
        self.sample = sample[:48] @ self.frame @ self.frame.T
        self.v0 = self.sample[0]
        # M in coordinates of its affine hull: phi = mean + coordinates @ hull; the rows of `normal` are orthogonal to it
        self.mean = self.phi.mean(0)
        _, singular, rows = np.linalg.svd(self.phi - self.mean)
        self.r = int((singular > 1e-10 * max(1.0, singular.max(initial=0.0))).sum())
        self.hull, self.normal = rows[: self.r], rows[self.r :]
        self.coordinates = (self.phi - self.mean) @ self.hull.T
        self.laws = rng.dirichlet(np.ones(self.count), laws)

    def check_deadline(self) -> None:
        """Raise OutOfTimeError once the deadline has passed."""
        if time.monotonic() > self.deadline:
            raise OutOfTimeError

    # -- S, its derivatives and minimisers -----------------------------------------------------------------------------

    def values(self, v: np.ndarray) -> np.ndarray:
        """S(v, y), one row per score and one column per label."""
        with np.errstate(all="ignore"):
            return np.stack([np.asarray(self.function(v, y), dtype=float) for y in range(self.count)], axis=-1)

    def slopes(self, v: np.ndarray, step: float = 1e-5) -> np.ndarray:
        """dS(v, y)/dv along the frame, shape (rows, labels, directions)."""
        moves = step * self.frame.T
        stencil = np.concatenate([v[:, None] + moves, v[:, None] - moves], axis=1)
        values = self.values(stencil.reshape(-1, self.size)).reshape(len(v), 2, len(moves), self.count)
        with np.errstate(invalid="ignore"):
            return np.swapaxes(values[:, 0] - values[:, 1], 1, 2) / (2 * step)

    def _frame(self, sample: np.ndarray) -> np.ndarray:
        """An orthonormal basis, as columns, of the directions of v that change S: for softmax, all but the constant."""
        slopes = self.slopes(sample)
        slopes = slopes[np.isfinite(slopes).all((1, 2))].reshape(-1, self.size)
        _, singular, rows = np.linalg.svd(slopes)
        return rows[: int((singular > 1e-6 * singular.max(initial=1e-300)).sum())].T

    def affine(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """g, b and the residual of -(S(v, .) - S(v0, .)) = <g, coordinates> + b."""
        target = -(self.values(v) - self.values(self.v0[None]))
        design = np.c_[self.coordinates, np.ones(self.count)]
        solution = np.linalg.lstsq(design, target.T, rcond=None)[0]
        return solution[:-1].T, solution[-1], np.abs(design @ solution - target.T).max(0)

    def risk(self, v: np.ndarray, q: np.ndarray) -> np.ndarray:
        """s(v, q) for each row; 1e300 where S is infinite or undefined."""
        return np.nan_to_num((self.values(v) * q).sum(-1), nan=1e300, posinf=1e300, neginf=1e300)

    def minimisers(self, laws: np.ndarray) -> np.ndarray:
        """argmin_v s(v, q) for each law: damped Newton on all of them at once, then cutting planes where S has kinks."""
        costs = np.nan_to_num(self.values(self.sample), nan=1e300, posinf=1e300) @ laws.T
        v = self.sample[costs.argmin(0)]
        for _ in range(60):
            self.check_deadline()
            gradient, hessian = self._derivatives(v, laws)
            if np.abs(gradient).max() < 1e-9:
                break
            least = np.linalg.eigvalsh(hessian)[:, 0]
            ridge = np.maximum(1e-10, 1e-3 - least) * (least < 1e-7)
            step = -np.linalg.solve(hessian + ridge[:, None, None] * np.eye(hessian.shape[1]), gradient[..., None])[
                ..., 0
            ]
            step *= np.minimum(1.0, 4 / np.maximum(np.linalg.norm(step, axis=1), 1e-300))[:, None]
            v = self._damped(v, laws, step @ self.frame.T, (gradient * step).sum(1))
        rough = np.flatnonzero(np.abs(self._derivatives(v, laws)[0]).max(1) > 1e-5)
        for i in rough:
            v[i] = self._cutting_planes(laws[i], v[i])
        if len(rough):  # the minimiser found for one law may be better for another
            costs = np.nan_to_num(self.values(v), nan=1e300, posinf=1e300) @ laws.T
            v = np.where((costs.min(0) < np.diag(costs) - 1e-9)[:, None], v[costs.argmin(0)], v)
        return v

    def _damped(self, v: np.ndarray, laws: np.ndarray, step: np.ndarray, slope: np.ndarray) -> np.ndarray:
        value, size = self.risk(v, laws), np.ones(len(v))
        for _ in range(40):
            worse = self.risk(v + size[:, None] * step, laws) > value + 1e-4 * size * slope + 1e-15 * np.abs(value)
            if not worse.any():
                break
            size[worse] /= 2
        return np.where(worse[:, None], v, v + size[:, None] * step)

    def _derivatives(self, v: np.ndarray, laws: np.ndarray, step: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of s(., q) along the frame, by central differences."""
        d = self.frame.shape[1]
        gradient = np.nan_to_num(np.einsum("nyd,ny->nd", self.slopes(v), laws), posinf=0.0, neginf=0.0)
        pair = self.frame.T[:, None] + self.frame.T[None], self.frame.T[:, None] - self.frame.T[None]
        moves = step * np.stack([pair[0], -pair[0], pair[1], -pair[1]]).reshape(-1, self.size)
        rows = (v[:, None] + moves).reshape(-1, self.size)
        risks = self.risk(rows, np.repeat(laws, len(moves), 0)).reshape(len(v), 4, d, d)
        hessian = (risks[:, 0] + risks[:, 1] - risks[:, 2] - risks[:, 3]) / (4 * step**2)
        wild = ~(np.abs(hessian) < 1e12).all((1, 2))
        hessian[wild] = np.eye(d)
        return gradient, (hessian + np.swapaxes(hessian, 1, 2)) / 2

    def _cutting_planes(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Kelley's method on s(., q): finite where S is piecewise linear and Newton has no Hessian."""
        d = self.frame.shape[1]
        w, best, planes, levels = v @ self.frame, (np.inf, v), [], []
        for _ in range(80):
            self.check_deadline()
            # perturbed: at a kink, central differences in several directions do not make a subgradient
            w = w + 1e-7 * self.rng.normal(size=d)
            at = (self.frame @ w)[None]
            value, slope = float(self.risk(at, q)[0]), self.slopes(at, step=1e-9)[0].T @ q
            best = min(best, (value, at[0]), key=lambda pair: pair[0])
            planes.append(np.append(slope, -1.0))
            levels.append(slope @ w - value)
            found = linear_program(np.eye(d + 1)[d], A_ub=planes, b_ub=levels, bounds=[(-8, 8)] * d + [(None, None)])
            if found.status != 0 or best[0] - found.fun < 1e-7:
                break
            w = found.x[:d]
        return best[1]

    # -- the potential and the link ----------------------------------------------------------------------------------

    def law(self, mu: np.ndarray) -> np.ndarray:
        """A law over the labels whose moments are mu, or nearest to mu."""
        return nearest_law(self.phi, mu)

    def link(self, mu: Any) -> np.ndarray:
        """t(mu): the minimiser of s(., q) for a law q with moments mu."""
        return self.minimisers(np.stack([self.law(row) for row in np.atleast_2d(mu)]))

    def potential(self, mu: Any) -> np.ndarray:
        """h(mu) = s(v0, q) - min_v s(v, q), for a law q with moments mu."""
        laws = np.stack([self.law(row) for row in np.atleast_2d(mu)])
        return self.risk(np.broadcast_to(self.v0, (len(laws), self.size)), laws) - self.risk(
            self.minimisers(laws), laws
        )


def as_function(surrogate: Any, phi: Any, size: int | None) -> tuple[Callable[[np.ndarray, int], Any], np.ndarray, int]:
    """S(v, y) as a function, phi with one row per label, and the number of scores."""
    loss = phi if isinstance(phi, Loss) else None  # in its own embedding
    phi = loss.phi(loss.labels()) if loss is not None else None if phi is None else _embedding(phi)
    if inspect.isclass(surrogate):
        surrogate = surrogate()
    if callable(surrogate):
        table = _embedding(phi)
        if size is None:
            raise ValueError("check needs size, the number of scores, for a surrogate given as a function.")
        return surrogate, table, size
    try:
        write_out = surrogate.as_function
    except AttributeError:
        raise TypeError(
            f"check needs a surrogate, a margin or a function S(v, y), got {type(surrogate).__name__}."
        ) from None
    function, own_table, own = write_out(phi, loss)
    return function, _embedding(own_table), size or own


def _embedding(phi: Any) -> np.ndarray:
    if phi is None:
        raise ValueError("check needs phi: an array with one row per label, or a loss.")
    table = real_array("phi", phi)
    if table.ndim != 2 or len(table) < 2 or not np.isfinite(table).all():
        raise ValueError(f"phi must be a finite array with one row per label, at least two, got shape {table.shape}.")
    return table
