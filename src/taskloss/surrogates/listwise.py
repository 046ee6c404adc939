"""Entropy over the items of a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._arrays import array_namespace, device, log, xlogx
from ..polytopes.base import Polytope
from ..polytopes.hull import Hull
from ..polytopes.simplex import Simplex
from .base import Array, Surrogate
from .form import Form


class Listwise(Surrogate):
    """S(v, phi) = cap log(m + sum_j exp(v_j)) - <phi, v> + h(phi): a softmax over the m items of a list and a rest.

    Domain: mu >= 0 with sum mu <= cap, which holds the gains of rankings; with q = mu / cap and q_0 = 1 - sum q,
    h(mu) = cap (sum_j q_j log q_j + q_0 log(q_0 / m)), t(mu)_j = log(q_j m / q_0), canonical. The rest counts m-fold,
    so that scores mean the same in short lists and in long ones. Equals cap times MaxEntropy over the hull of the
    domain's corners, at the scores (v - log m) / cap; where the gains sum to cap it is ListNet's cross-entropy. h is
    1/cap-strongly convex in the l1 norm. Left without sizes, it takes them from the loss.
    """

    name = "listwise"

    def __init__(self, n_items: int | None = None, cap: float | None = None):
        self.n_items = n_items
        self.cap = cap

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3, 1.4)]

    @property
    def domain(self) -> Polytope | None:
        if self.n_items is None or self.cap is None:
            return None
        return Hull(np.vstack([np.zeros(self.n_items), self.cap * np.eye(self.n_items)]))

    @property
    def size(self) -> int | None:
        return self.n_items

    def bind(self, polytope: Polytope) -> Self:
        """Sized by a polytope of numbers that are not negative; the cap is the largest sum, which one maximiser finds."""
        if self.n_items not in (None, polytope.size) or polytope.bounds()[0].min() < 0:
            raise ValueError(
                f"The surrogate {self!r} does not fit this loss: it needs {self.n_items or 'some'} moments that are not negative, "
                f"and the loss's embedding is a {type(polytope).__name__.lower()} in R^{polytope.size}; pass surrogate='auto'."
            )
        most = float(polytope.maximiser(np.ones(polytope.size)).sum())
        if self.cap is not None and self.cap < most - 1e-9:
            raise ValueError(
                f"cap={self.cap:g} is less than the largest sum of this loss's moments, {most:g}: leave it out."
            )
        return self.with_params(n_items=polytope.size, cap=most if self.cap is None else self.cap)

    def _sizes(self) -> tuple[int, float]:
        if self.n_items is None or self.cap is None:
            raise ValueError(f"{self!r} has no size yet: bind it to a loss's polytope, or give n_items and cap.")
        return self.n_items, self.cap

    def form(self, polytope: Polytope) -> Form:
        """cap times Kullback-Leibler on the items' shares and the rest's, that is, on mu and cap - sum mu."""
        k, cap = self._sizes()
        return Form(np.vstack([np.eye(k), -np.ones(k)]), np.append(np.zeros(k), cap), np.zeros((0, k)), np.zeros(0))

    def strong_convexity(self, polytope: Polytope) -> dict[str, float]:
        return dict.fromkeys(("l1", "l2", "linf"), 1 / self._sizes()[1])  # |x|_1 is the largest of the three norms

    def _with_rest(self, v: Array) -> Array:
        xp = array_namespace(v)
        rest = xp.full((*v.shape[:-1], 1), float(np.log(self._sizes()[0])), dtype=v.dtype, device=device(v))
        return xp.concat([v, rest], axis=-1)

    def potential(self, mu: Array) -> Array:
        xp = array_namespace(mu)
        m, cap = self._sizes()
        q = mu / cap
        rest = 1 - xp.sum(q, axis=-1)
        return cap * (xp.sum(xlogx(q), axis=-1) + xlogx(rest) - rest * float(np.log(m)))

    def link(self, mu: Array) -> Array:
        m, cap = self._sizes()
        q = mu / cap
        return log(q) - log(1 - array_namespace(mu).sum(q, axis=-1, keepdims=True)) + float(np.log(m))

    def _share(self, v: Array) -> tuple[Any, Array]:
        a, q = Simplex(self._sizes()[0] + 1).log_partition_and_marginals(self._with_rest(v))
        return a, q[..., :-1]

    def inverse_link(self, v: Array) -> Array:
        return self._sizes()[1] * self._share(v)[1]

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        xp = array_namespace(v)
        a, q = self._share(v)
        cap = self._sizes()[1]
        return (cap * a - xp.sum(phi * v, axis=-1))[..., None], cap * q - phi

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        xp = array_namespace(v)
        q = self._share(v)[1]
        return lambda u: self._sizes()[1] * q * (u - xp.sum(q * u, axis=-1, keepdims=True))
