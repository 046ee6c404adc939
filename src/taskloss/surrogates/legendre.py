"""A surrogate from a potential alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from ..polytopes.base import Polytope
from ..polytopes.cube import Cube
from ..polytopes.simplex import Simplex
from .base import Array, Surrogate


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
        return (
            np.asarray(self._gradient(mu)) if self._gradient is not None else self._differences(np.asarray(mu, float))
        )

    def _differences(self, mu: np.ndarray) -> np.ndarray:
        """Fourth-order differences of h along the affine hull of the domain, steps kept inside it."""
        basis = self._basis(mu.shape[-1])
        step = 2e-3 * self._room(mu)
        slopes = []
        for direction in basis:
            near, far = (
                self.potential(mu + s * direction) - self.potential(mu - s * direction) for s in (step, 2 * step)
            )
            slopes.append((8 * near - far) / (12 * step[..., 0]))
        return np.stack(slopes, axis=-1) @ basis

    def _basis(self, k: int) -> np.ndarray:
        """Orthonormal directions of the domain's affine hull, as rows."""
        if self._domain is None or self._domain.dimension == k:
            return np.eye(k)
        vertices = self._domain.vertices()
        return np.linalg.svd(vertices - vertices.mean(0))[2][: self._domain.dimension]

    def _room(self, mu: np.ndarray) -> np.ndarray:
        """How far each point may move and stay in the domain's box; its own scale where there is none."""
        if self._domain is None:
            return np.maximum(np.abs(mu).max(-1, keepdims=True), 1.0)
        low, high = self._domain.bounds()
        return np.clip(np.minimum(mu - low, high - mu).min(-1, keepdims=True), 1e-12, 1.0)

    def _curvature(self, mu: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """The Hessian of h in the basis, by second differences."""
        step = 1e-2 * self._room(mu)
        hessian = np.empty((*mu.shape[:-1], len(basis), len(basis)))
        for i, a in enumerate(basis):
            for j, b in enumerate(basis[: i + 1]):
                up, down = step * (a + b), step * (a - b)
                corners = (
                    self.potential(mu + up)
                    - self.potential(mu + down)
                    - self.potential(mu - down)
                    + self.potential(mu - up)
                )
                hessian[..., i, j] = hessian[..., j, i] = corners / (4 * step[..., 0] ** 2)
        return hessian

    def inverse_link(self, v: Array) -> Array:
        if self.inverse_gradient is not None:
            return np.asarray(self.inverse_gradient(v))
        v = np.asarray(v, dtype=float)
        flat = v.reshape(-1, v.shape[-1])
        center = np.zeros(flat.shape[1]) if self._domain is None else self._domain.center()
        return self._maximise(flat, np.broadcast_to(center, flat.shape).copy()).reshape(v.shape)

    def _maximise(self, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Damped Newton on h(u) - <v, u>, all rows at once."""
        basis = self._basis(v.shape[1])
        for _ in range(100):
            gradient = (self.link(u) - v) @ basis.T
            hessian = self._curvature(u, basis)
            least = np.linalg.eigvalsh(hessian)[:, 0]
            if (least < -1e-3 * np.abs(hessian).max((-1, -2))).any():
                raise ValueError(
                    f"The potential is not convex: its curvature at {u[least.argmin()]} is {least.min():.3g}."
                )
            step = -np.einsum("nij,nj->ni", np.linalg.pinv(hessian, hermitian=True), gradient)
            slope = (gradient * step).sum(-1)
            moved = self._damped(u, step @ basis, slope, v)
            if np.abs(moved - u).max() <= 1e-15 * np.abs(u).max():
                break
            u = moved
        return u

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
            worse = ~(new <= value + 1e-4 * t * slope + 1e-15 * np.abs(value))
            if not worse.any():
                break
            t[worse] /= 2
        return u + t[:, None] * step

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        u = self.inverse_link(v)
        return (((u - phi) * v).sum(-1) - self.potential(u))[..., None], u - phi

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        u = self.inverse_link(v)
        basis = self._basis(u.shape[-1])
        inverse = np.linalg.inv(self._curvature(u, basis))
        return lambda d: np.einsum("...ij,...j->...i", inverse, d @ basis.T) @ basis


def squared_norm(u: Array) -> Array:
    """|u|^2 / 2, the quadratic surrogate's potential."""
    return (u**2).sum(-1) / 2


def negative_entropy(u: Array) -> Array:
    """sum u log u, the multinomial's potential."""
    return (u * np.log(np.where(u > 0, u, 1.0))).sum(-1)


def negative_hellinger(u: Array) -> Array:
    """-2 sum sqrt(u(1 - u)), the exponential margin's potential, here with its canonical link."""
    return -2 * np.sqrt(u * (1 - u)).sum(-1)
