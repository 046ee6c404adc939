"""The quadratic surrogate."""

from __future__ import annotations

from collections.abc import Callable

from .._arrays import array_namespace
from ..polytopes.base import Polytope, spread_convexity
from .base import Array, Surrogate
from .form import Form, squared


class Quadratic(Surrogate):
    """S(v, phi) = |v - phi|^2 / 2 on all of R^k, for every loss (the paper's section on quadratic surrogates).

    h(mu) = |mu|^2 / 2, 1-strongly convex in the l2 norm; t is the identity. Its risk minimiser is ridge regression on
    phi(y).
    """

    name = "quadratic"
    squared_distance = True

    def potential(self, mu: Array) -> Array:
        return array_namespace(mu).sum(mu**2, axis=-1) / 2

    def link(self, mu: Array) -> Array:
        return mu

    def inverse_link(self, v: Array) -> Array:
        return v

    def form(self, polytope: Polytope) -> Form:
        return squared(polytope.size, 1.0)

    def strong_convexity(self, polytope: Polytope) -> dict[str, float]:
        return spread_convexity(1.0, polytope.size)

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def separable(self) -> bool:
        return True

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        return (v / 2 - phi) * v, v - phi

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        return lambda u: u
