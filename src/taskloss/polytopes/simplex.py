"""The probability simplex."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._arrays import array_namespace, device, log, xlogx
from .base import Array, Law, Polytope


class Simplex(Polytope):
    """{mu >= 0, sum mu = 1} in R^n: laws over n labels.

    A(v) = logsumexp(v), marginals = softmax(v), entropy = Shannon's. The negative entropy is 1-strongly convex in the
    l1 norm (Pinsker).
    """

    name = "simplex"
    two_valued = True

    def __init__(self, n: int = 2):
        self.n = n

    @property
    def size(self) -> int:
        return self.n

    @property
    def dimension(self) -> int:
        return self.n - 1

    def log_partition_and_marginals(self, v: Array) -> tuple[Array, Array]:
        xp = array_namespace(v)
        top = xp.max(v, axis=-1, keepdims=True)
        e = xp.exp(v - top)
        z = xp.sum(e, axis=-1, keepdims=True)
        return (top + xp.log(z))[..., 0], e / z

    def covariance(self, v: Array) -> Callable[[Array], Array]:
        mu = self.marginals(v)
        xp = array_namespace(mu)
        return lambda u: mu * (u - xp.sum(mu * u, axis=-1, keepdims=True))

    def covariance_matrices(self, v: Array, mu: Array | None = None) -> Array:
        mu = self.marginals(v) if mu is None else mu
        xp = array_namespace(mu)
        return mu[..., :, None] * (xp.eye(self.n, dtype=mu.dtype, device=device(mu)) - mu[..., None, :])

    def largest_variance(self) -> float:
        return 0.5  # half of each of two vertices, which are sqrt(2) apart

    def entropy(self, mu: Array) -> Array:
        return -array_namespace(mu).sum(xlogx(mu), axis=-1)

    def entropy_gradient(self, mu: Array) -> Array:
        # Centred: of the scores that differ by a constant, the one that sums to zero, as in the paper.
        xp = array_namespace(mu)
        score = log(mu)
        finite = xp.where(xp.isfinite(score), score, xp.zeros_like(score))
        return xp.mean(finite, axis=-1, keepdims=True) - score

    def law(self) -> Law:
        return Law(np.eye(self.n), np.zeros(self.n), np.ones((1, self.n)), np.ones(1))

    def entropy_convexity(self) -> dict[str, float]:
        # Pinsker; in l2 the covariance of one-hot vectors is at most diameter^2 / 4 = 1/2; and |x|_inf <= |x|_1 / 2
        # for x that sums to zero.
        return {"l1": 1.0, "l2": 2.0, "linf": 4.0}

    def maximiser(self, v: Array) -> Array:
        xp = array_namespace(v)
        best = xp.argmax(v, axis=-1, keepdims=True)
        return xp.astype(xp.arange(self.n, device=device(v)) == best, v.dtype)

    def project(self, u: Array) -> Array:
        # Sort-based: the threshold tau solves sum(max(u - tau, 0)) = 1 (Held, Wolfe and Crowder 1974).
        xp = array_namespace(u)
        s = -xp.sort(-u, axis=-1)
        tau = (xp.cumulative_sum(s, axis=-1) - 1) / xp.astype(xp.arange(1, self.n + 1, device=device(u)), u.dtype)
        rho = xp.sum(xp.astype(s > tau, xp.int64), axis=-1, keepdims=True) - 1
        kept = xp.arange(self.n, device=device(u)) == rho
        at = xp.sum(xp.where(kept, tau, xp.zeros_like(tau)), axis=-1, keepdims=True)
        return xp.where(u > at, u - at, xp.zeros_like(u))

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.n), np.ones(self.n)

    def vertices(self) -> np.ndarray:
        return np.eye(self.n)

    def norm(self, order: float) -> float:
        return 1.0
