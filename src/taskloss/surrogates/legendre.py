"""A surrogate from a potential alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Self

import numpy as np

from ..polytopes.base import Polytope
from ..polytopes.cube import Cube
from ..polytopes.simplex import Simplex
from .base import Array, Surrogate
from .form import Form, squared

_EDGE = 1024  # units in the last place that moments keep from the faces of their domain, where gradients are infinite


class Legendre(Surrogate):
    """S(v, phi) = h*(v) + h(phi) - <phi, v> for a user's h of Legendre type, with the canonical link t = grad h.

    `potential` takes an array with coordinates last and returns one number per row; outside `domain` (None: all of
    R^k) it may return anything that is not finite. The gradient is taken by central differences, and the inverse link
    (the maximiser of <v, u> - h(u)) by damped Newton steps inside the domain's affine hull, unless `gradient` and
    `inverse_gradient` are given. Equals Multinomial for the negative entropy on the simplex. NumPy only.
    """

    name = "legendre"
    aliases = {"domain": "_domain", "gradient": "_gradient"}

    def __init__(
        self,
        potential: Callable[[Array], Array] | None = None,
        domain: Polytope | None = None,
        gradient: Callable[[Array], Array] | None = None,
        inverse_gradient: Callable[[Array], Array] | None = None,
    ):
        # A surrogate's method `potential` and a Legendre surrogate's hyperparameter `potential` are the same
        # function.
        self.potential = squared_norm if potential is None else potential  # type: ignore[assignment, method-assign]
        self._domain = domain
        self._gradient = gradient
        self.inverse_gradient = inverse_gradient

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(negative_entropy, Simplex(3)), cls(negative_hellinger, Cube(2, low=0.0))]

    @property
    def domain(self) -> Polytope | None:
        return self._domain

    def link(self, mu: Array) -> Array:
        if self._gradient is not None:
            return np.asarray(self._gradient(mu))
        mu = np.asarray(mu, dtype=float)
        flat = mu.reshape(-1, mu.shape[-1])
        directions, lengths = self._directions(flat)
        # The slopes along directions that span the affine hull fix the gradient within it.
        slopes = self._slopes(flat, directions) / lengths
        units = directions / lengths[..., None]
        return np.einsum("nki,ni->nk", np.linalg.pinv(units), slopes).reshape(mu.shape)

    def _directions(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moves (n, r, k) that span the affine hull, each as long as the domain leaves room for, and their lengths.

        Near a face the room differs between coordinates by many orders of magnitude; differences with one common step
        would see nothing but rounding.
        """
        k = u.shape[1]
        if self._domain is None:
            lengths = np.maximum(np.abs(u).max(-1, keepdims=True), 1.0) * np.ones(k)
            return lengths[..., None] * np.eye(k), lengths
        low, high = self._domain.bounds()
        room = np.maximum(np.minimum(u - low, high - u), 1e-300)
        if self._domain.dimension == k:
            return room[..., None] * np.eye(k), room
        if self._domain is not None and self._domain.name == "simplex":  # exchanges with the largest coordinate
            top = u.argmax(-1)
            others = np.stack([np.delete(np.arange(k), t) for t in range(k)])[top]
            moves = np.eye(k)[others] - np.eye(k)[top][:, None]
            lengths = np.minimum(np.take_along_axis(u, others, -1), 1 - u.max(-1, keepdims=True) + 0.1)
            lengths = np.maximum(lengths, 1e-300)
            return lengths[..., None] * moves, lengths
        vertices = self._domain.vertices()
        basis = np.linalg.svd(vertices - vertices.mean(0))[2][: self._domain.dimension]
        lengths = room.min(-1, keepdims=True) * np.ones(len(basis))
        return lengths[..., None] * basis, lengths

    def _slopes(self, u: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """The derivative of h along each direction, by fourth-order differences where no gradient is given."""
        if self._gradient is not None:
            return np.einsum("nik,nk->ni", directions, self._gradient(u))
        step = 2e-3
        moves = np.moveaxis(directions, 1, 0)
        near, far = (self.potential(u + s * moves) - self.potential(u - s * moves) for s in (step, 2 * step))
        return np.moveaxis((8 * near - far) / (12 * step), 0, -1)

    def _curvature(self, u: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """The Hessian of h in the directions, by second differences, of the gradient where one is given."""
        if self._gradient is not None:
            moves = 1e-4 * np.moveaxis(directions, 1, 0)
            with np.errstate(invalid="ignore"):  # infinite on both sides, at a face
                change = (np.asarray(self._gradient(u + moves)) - self._gradient(u - moves)) / 2e-4
            hessian = np.einsum("nik,jnk->nij", directions, change)
            return (hessian + np.swapaxes(hessian, 1, 2)) / 2
        step = 1e-2
        r = directions.shape[1]
        hessian = np.empty((len(u), r, r))
        for i in range(r):
            for j in range(i + 1):
                up, down = step * (directions[:, i] + directions[:, j]), step * (directions[:, i] - directions[:, j])
                ends = self.potential(u + up) + self.potential(u - up)
                hessian[:, i, j] = hessian[:, j, i] = (ends - self.potential(u + down) - self.potential(u - down)) / (
                    4 * step**2
                )
        return hessian

    def curvature(self, mu: Array) -> np.ndarray:
        """The Hessian of h within the affine hull, (n, r, r) in an orthonormal basis of it, by differences."""
        u = np.asarray(mu, dtype=float)
        directions, lengths = self._directions(u)
        units = directions / lengths[..., None]
        hessian = self._curvature(u, directions) / (lengths[:, :, None] * lengths[:, None, :])
        # units = change @ basis with an orthonormal basis; the Hessian turns by the inverse of that change.
        basis = np.linalg.svd(units[0])[2][: units.shape[1]]
        change = np.linalg.inv(units @ basis.T)
        return np.einsum("nij,njk,nlk->nil", change, hessian, change)

    # -- for the theory ----------------------------------------------------------------------------------------------

    def form(self, polytope: Polytope) -> Form:
        """A quadratic below D_h, its curvature the least that a search of the domain finds: as good as the search."""
        vertices = (polytope if self.domain is None else self.domain).vertices()
        if self.domain is not None:
            curvature = self._least_curvature(vertices, 0.0)
            return replace(squared(polytope.size, curvature), exact=False, sampled=True, points=vertices)

        @lru_cache
        def least(power: int) -> float:
            return self._least_curvature(vertices, 2 ** (power / 4))

        def within(radius: float) -> float:
            return least(int(np.ceil(4 * np.log2(max(radius, 1e-12)))))  # at least that far: the curvature is no larger

        return replace(squared(polytope.size, 1.0), exact=False, sampled=True, least_curvature=within)

    def _least_curvature(self, vertices: np.ndarray, radius: float) -> float:
        """The least eigenvalue of the Hessian of h within `radius` of the hull, by sampling and then local steps.

        A tenth is taken off for what the search has missed.
        """
        rng = np.random.default_rng(0)
        m, k = vertices.shape
        laws = np.vstack([rng.dirichlet(np.full(m, a), 120) for a in (0.1, 0.3, 1.0, 5.0)] + [np.eye(m)])
        out = np.zeros((len(laws), k))
        if radius > 0:
            moves = np.vstack([np.eye(k), -np.eye(k), rng.normal(size=(2 * k, k))])
            moves *= radius / np.linalg.norm(moves, axis=1, keepdims=True)
            starts = np.vstack([laws[:: max(1, len(laws) // 40)], np.eye(m)])
            laws = np.vstack([laws, np.repeat(starts, len(moves), 0)])
            out = np.vstack([out, np.tile(moves, (len(starts), 1))])
        best, least = np.inf, np.zeros(0)
        for step in (0.0, 0.3, 0.1, 0.03, 0.01):
            if step:  # around the worst so far, in the hull and in the ball
                worst = np.repeat(np.argsort(least)[:6], 30)
                laws = (1 - step) * laws[worst] + step * rng.dirichlet(np.full(m, 0.3), len(worst))
                out = out[worst] + step * radius * rng.normal(size=(len(worst), k))
                out *= np.minimum(1.0, radius / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-300))
            mu = laws @ vertices + out
            if radius == 0:  # off the faces, where differences have no room
                mu = 0.98 * mu + 0.02 * vertices.mean(0)
            hessian = self.curvature(mu)
            finite = np.isfinite(hessian).all((1, 2))
            least = np.full(len(mu), np.inf)
            least[finite] = np.linalg.eigvalsh(hessian[finite])[:, 0]
            low = int(least.argmin())
            if least[low] < -1e-6 * max(1.0, float(np.abs(least[finite]).max(initial=0.0))):
                raise ValueError(f"The potential is not convex: its curvature at {mu[low]} is {least[low]:.3g}.")
            best = min(best, float(least[low]))
        return max(0.9 * best, 0.0)

    def inverse_link(self, v: Array) -> Array:
        if self.inverse_gradient is not None:
            return np.asarray(self.inverse_gradient(v))
        v = np.asarray(v, dtype=float)
        flat = v.reshape(-1, v.shape[-1])
        center = np.zeros(flat.shape[1]) if self._domain is None else self._domain.center()
        return self._maximise(flat, np.broadcast_to(center, flat.shape).copy()).reshape(v.shape)

    def _maximise(self, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Damped Newton on h(u) - <v, u>, all rows at once, in the directions' coordinates."""
        last = 200
        for i in range(last):
            directions, lengths = self._directions(u)
            gradient = self._slopes(u, directions) - np.einsum("nik,nk->ni", directions, v)
            hessian = self._curvature(u, directions)
            gradient[self._set_apart(u, lengths, hessian)] = 0.0
            # Unit diagonal: what is left of the room's differences in scale.
            scale = np.sqrt(np.maximum(np.abs(np.einsum("nii->ni", hessian)), 1e-200))
            least = np.linalg.eigvalsh(hessian / (scale[:, :, None] * scale[:, None, :]))[:, 0]
            rounding = 1e-11 * (1 + np.abs(self.potential(u))) / np.min(scale, axis=-1) ** 2
            if (least < -0.1 - rounding).any():
                at = u[np.argmin(least + rounding)]
                raise ValueError(f"The potential is not convex: its curvature at {at} is negative.")
            normal = hessian / (scale[:, :, None] * scale[:, None, :]) + 1e-10 * np.eye(hessian.shape[1])
            step = -np.einsum("nij,nj->ni", np.linalg.pinv(normal, hermitian=True), gradient / scale) / scale
            slope = (gradient * step).sum(-1)
            moved = self._damped(u, np.einsum("ni,nik->nk", step, directions), slope, v)
            settled = (np.abs(slope) <= 1e-12) | (moved == u).all(-1)
            u = moved
            if settled.all():  # steps square what is left: two more take it to rounding
                last = min(last, i + 2)
            if i >= last:
                break
        return u

    def _set_apart(self, u: np.ndarray, lengths: np.ndarray, hessian: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rows and coordinates as near to a face as numbers go, cut off in the Hessian: they must not hold up the others."""
        if self._domain is None or self._domain.dimension < u.shape[1]:
            return np.nonzero(np.zeros((0, 0)))
        row, at = np.nonzero(lengths <= 2 * _EDGE * np.spacing(np.abs(u)))
        hessian[row, at, :] = hessian[row, :, at] = 0.0
        hessian[row, at, at] = 1.0
        return row, at

    def _damped(self, u: np.ndarray, step: np.ndarray, slope: np.ndarray, v: np.ndarray) -> np.ndarray:
        value = self.potential(u) - (v * u).sum(-1)
        t = np.ones(len(u))
        if self._domain is not None:  # never more than most of the way to the boundary
            low, high = self._domain.bounds()
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(step < 0, (low - u) / step, np.where(step > 0, (high - u) / step, np.inf))
            t = np.minimum(1.0, 0.99 * room.min(-1))
        for _ in range(50):
            trial = u + t[:, None] * step
            with np.errstate(all="ignore"):
                new = self.potential(trial) - (v * trial).sum(-1)
            worse = ~(new <= value + 1e-4 * t * slope + 1e-15 * (1 + np.abs(value)))
            if not worse.any():
                break
            t[worse] /= 2
        moved = np.where(worse[:, None], u, u + t[:, None] * step)
        # Rounding may still put it on a face, where gradients are infinite.
        return (
            moved
            if self._domain is None
            else np.clip(moved, low + _EDGE * np.spacing(np.abs(low)), high - _EDGE * np.spacing(high))
        )

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        u = self.inverse_link(v)
        return (((u - phi) * v).sum(-1) - self.potential(u))[..., None], u - phi

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        u = self.inverse_link(v)
        directions, lengths = self._directions(u)
        # In unit directions, the curvature of h* is the inverse of h's.
        units = directions / lengths[..., None]
        curvature = self._curvature(u, directions)
        self._set_apart(u, lengths, curvature)
        inverse = np.linalg.inv(curvature) * (lengths[:, :, None] * lengths[:, None, :])
        return lambda d: np.einsum("nik,nij,njl,nl->nk", units, inverse, units, np.asarray(d, dtype=float))


def squared_norm(u: Array) -> Array:
    """|u|^2 / 2, the quadratic surrogate's potential."""
    return (u**2).sum(-1) / 2


def negative_entropy(u: Array) -> Array:
    """sum u log u, the multinomial's potential."""
    return (u * np.log(np.where(u > 0, u, 1.0))).sum(-1)


def negative_hellinger(u: Array) -> Array:
    """-2 sum sqrt(u(1 - u)), the exponential margin's potential, here with its canonical link."""
    return -2 * np.sqrt(u * (1 - u)).sum(-1)
