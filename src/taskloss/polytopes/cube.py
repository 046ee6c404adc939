"""The cube."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._arrays import array_namespace, expit, logit, softplus, xlogx
from .base import Array, Law, Polytope, listable, spread_convexity


class Cube(Polytope):
    """[low, 1]^n; the paper's cube is [-1, 1]^n (low = -1), one-vs-all lives in [0, 1]^n (low = 0).

    With q = (mu - low) / (1 - low): A(v) = sum_j log(exp(low v_j) + exp(v_j)), marginals = low + (1 - low) expit((1 -
    low) v), entropy = sum of binary entropies of q. In the l2 norm the negative entropy is 4 / (1 - low)^2-strongly
    convex.
    """

    name = "cube"

    def __init__(self, n: int = 1, low: float = -1.0):
        self.n = n
        self.low = low

    @property
    def size(self) -> int:
        return self.n

    @property
    def dimension(self) -> int:
        return self.n

    @classmethod
    def examples(cls) -> list[Cube]:
        return [cls(3), cls(2, low=0.0)]

    @property
    def width(self) -> float:
        return 1.0 - self.low

    def log_partition_and_marginals(self, v: Array) -> tuple[Array, Array]:
        xp = array_namespace(v)
        a = xp.sum(softplus(self.width * v) + self.low * v, axis=-1)
        return a, self.low + self.width * expit(self.width * v)

    def covariance(self, v: Array) -> Callable[[Array], Array]:
        q = expit(self.width * v)
        variance = self.width**2 * q * (1 - q)
        return lambda u: variance * u

    def largest_variance(self) -> float:
        return self.width**2 / 4

    def entropy(self, mu: Array) -> Array:
        q = (mu - self.low) / self.width
        return -array_namespace(mu).sum(xlogx(q) + xlogx(1 - q), axis=-1)

    def entropy_gradient(self, mu: Array) -> Array:
        return -logit((mu - self.low) / self.width) / self.width

    def law(self) -> Law:
        eye = np.eye(self.n) / self.width
        shift = np.r_[np.full(self.n, -self.low / self.width), np.full(self.n, 1 / self.width)]
        return Law(np.vstack([eye, -eye]), shift, np.zeros((0, self.n)), np.zeros(0))

    def entropy_convexity(self) -> dict[str, float]:
        return spread_convexity(4 / self.width**2, self.n)

    def maximiser(self, v: Array) -> Array:
        xp = array_namespace(v)
        return xp.where(v >= 0, xp.ones_like(v), xp.full_like(v, self.low))

    def project(self, u: Array) -> Array:
        return array_namespace(u).clip(u, self.low, 1.0)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self.n, self.low), np.ones(self.n)

    def includes(self, other: Polytope) -> bool:
        return self.size == other.size and self._holds_box(other)

    def vertices(self) -> np.ndarray:
        listable(2.0**self.n)
        bits = (np.arange(2**self.n)[:, None] >> np.arange(self.n)[::-1]) & 1
        return np.where(bits == 1, 1.0, self.low)

    def norm(self, order: float) -> float:
        return float(np.linalg.norm(np.full(self.n, max(abs(self.low), 1.0)), ord=order))
