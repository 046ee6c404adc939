"""The hull of listed points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array

from .._arrays import array_namespace, device
from .._checks import said_of
from .._numpy import like, to_numpy
from .base import Array, Law, Polytope, normals
from .simplex import Simplex


def nearest_law(points: np.ndarray, u: np.ndarray) -> np.ndarray:
    """A law over the points whose mean is u, or nearest to u.

    That mean is u plus the least-norm point of the hull of P - u, which is q (P - u) with q the normalised solution of
    min |(P - u)^T x|^2 + (1 - sum x)^2 over x >= 0: scaling x = s q and minimising over s leaves |.|^2 / (1 + |.|^2),
    which is increasing in the norm.
    """
    from scipy.optimize import nnls

    rows = (points - u).T
    rows = rows / (np.abs(rows).max(initial=0.0) or 1.0)
    x = nnls(np.vstack([rows, np.ones(len(points))]), np.append(np.zeros(len(u)), 1.0))[0]
    return x / x.sum()


class Hull(Polytope):
    """hull{p_1, ..., p_m} in R^k, the points given as rows: any small marginal polytope, by enumeration.

    A(v) = logsumexp over the points of <v, p>. Where the points are affinely independent (as in the ordinal
    embedding) every mu is the mean of one law q over them, `weights(mu)`, and the entropy is that of q; elsewhere the
    entropy is A's conjugate, found numerically.
    """

    name = "hull"

    def __init__(self, points: Any = ((0.0,), (1.0,))):
        self.points = points

    @classmethod
    def examples(cls) -> list[Self]:
        chain = 2.0 * np.tri(4, 3, -1) - 1
        square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        return [cls(chain), cls(square)]

    @property
    def size(self) -> int:
        return self.vertices().shape[1]

    @property
    def dimension(self) -> int:
        points = self.vertices()
        return int(np.linalg.matrix_rank(points - points.mean(0)))

    @property
    def independent(self) -> bool:
        """Whether the points are affinely independent, so that a mean fixes its law."""
        return self.dimension == len(self.vertices()) - 1

    def weights(self, mu: Array) -> Array:
        """The law q with mean mu; affine in mu. Needs affinely independent points."""
        if not self.independent:
            raise ValueError("The points are affinely dependent: a mean does not fix the law over them.")
        xp = array_namespace(mu)
        points = self.vertices()
        # [P^T; 1^T] q = [mu; 1] has full column rank, so its pseudo-inverse solves it.
        inverse = np.linalg.pinv(np.vstack([points.T, np.ones(len(points))]))
        inverse = xp.asarray(inverse, dtype=mu.dtype, device=device(mu))
        return mu @ inverse[:, :-1].T + inverse[:, -1]

    def _points(self, v: Array) -> Array:
        xp = array_namespace(v)
        return xp.asarray(self.vertices(), dtype=v.dtype, device=device(v))

    def log_partition_and_marginals(self, v: Array) -> tuple[Array, Array]:
        points = self._points(v)
        a, q = Simplex(points.shape[0]).log_partition_and_marginals(v @ points.T)
        return a, q @ points

    def covariance(self, v: Array) -> Callable[[Array], Array]:
        points = self._points(v)
        inner = Simplex(points.shape[0]).covariance(v @ points.T)
        return lambda u: inner(u @ points.T) @ points

    def entropy(self, mu: Array) -> Array:
        if self.independent:
            return Simplex(len(self.vertices())).entropy(self.weights(mu))
        v = -self.entropy_gradient(mu)
        return self.log_partition(v) - array_namespace(mu).sum(v * mu, axis=-1)

    def entropy_gradient(self, mu: Array) -> Array:
        """Damped Newton on A(v) - <v, mu>, batched; at the boundary of the hull the scores run off and stop large."""
        given, mu = mu, to_numpy(mu).astype(float)
        flat = mu.reshape(-1, self.size)
        v = np.zeros_like(flat)
        for _ in range(100):
            a, mean = self.log_partition_and_marginals(v)
            gradient = mean - flat
            if np.abs(gradient).max(initial=0.0) < 1e-12:
                break
            product = self.covariance(v)
            basis = np.eye(self.size)
            hessian = np.stack([product(np.broadcast_to(e, flat.shape)) for e in basis], axis=-1)
            step = np.einsum("nij,nj->ni", np.linalg.pinv(hessian, rcond=1e-13, hermitian=True), -gradient)
            step *= np.minimum(1.0, 20.0 / np.maximum(np.abs(step).max(-1, keepdims=True), 1e-300))
            slope = (gradient * step).sum(-1)
            value = a - (v * flat).sum(-1)
            t = np.ones(len(flat))
            for _ in range(40):
                trial = v + t[:, None] * step
                worse = self.log_partition(trial) - (trial * flat).sum(-1) > value + 1e-4 * t * slope + 1e-15
                if not worse.any():
                    break
                t[worse] /= 2
            v = v + t[:, None] * step
        return like(-v.reshape(mu.shape), given)

    def law(self) -> Law | None:
        if not self.independent:
            return None
        points = self.vertices()
        inverse = np.linalg.pinv(np.vstack([points.T, np.ones(len(points))]))
        normal = normals(points)
        return Law(inverse[:, :-1], inverse[:, -1], normal, normal @ points[0])

    def maximiser(self, v: Array) -> Array:
        xp = array_namespace(v)
        points = self._points(v)
        return xp.take(points, xp.reshape(xp.argmax(v @ points.T, axis=-1), (-1,)), axis=0).reshape(v.shape)

    def project(self, u: Array) -> Array:
        given, u = u, to_numpy(u).astype(float)
        points = self.vertices()
        out = np.empty((u.size // self.size, self.size))
        for i, row in enumerate(u.reshape(-1, self.size)):
            out[i] = nearest_law(points, row) @ points
        return like(out.reshape(u.shape), given)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        points = self.vertices()
        return points.min(0), points.max(0)

    def vertices(self) -> np.ndarray:
        points = self.points
        if isinstance(points, np.ndarray) and points.dtype == float and points.ndim == 2 and np.isfinite(points).all():
            return points  # asked for in every pass: the whole check would take most of it
        with said_of("points", "be rows of numbers"):
            return check_array(self.points, dtype=float, input_name="points")
