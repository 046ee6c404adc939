"""Products of polytopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._arrays import array_namespace
from .base import Array, Law, Polytope, listable
from .cube import Cube
from .simplex import Simplex


class Product(Polytope):
    """M_1 x ... x M_n, coordinates laid end to end: A, entropy and dimension add up.

    Equal factors are computed in one call on a reshaped array, so that n rows of softmax cost one.
    """

    name = "product"

    def __init__(self, factors: Sequence[Polytope] = ()):
        self.factors = factors

    @classmethod
    def examples(cls) -> list[Product]:
        return [cls([Simplex(3), Simplex(3)]), cls([Simplex(2), Cube(2)])]

    @property
    def size(self) -> int:
        return sum(f.size for f in self.factors)

    @property
    def dimension(self) -> int:
        return sum(f.dimension for f in self.factors)

    def _groups(self, u: Array) -> list[tuple[Polytope, Array]]:
        """Pairs of a factor and its coordinates; equal factors as one pair with an extra axis before the last."""
        first = self.factors[0]
        if all(f is first or f == first for f in self.factors):
            return [(first, array_namespace(u).reshape(u, (*u.shape[:-1], len(self.factors), first.size)))]
        stops = np.cumsum([f.size for f in self.factors])
        return [(f, u[..., None, stop - f.size : stop]) for f, stop in zip(self.factors, stops, strict=True)]

    def _join(self, parts: list[Array]) -> Array:
        xp = array_namespace(parts[0])
        flat = [xp.reshape(p, (*p.shape[:-2], p.shape[-2] * p.shape[-1])) for p in parts]
        return flat[0] if len(flat) == 1 else xp.concat(flat, axis=-1)

    def _each(self, method: str, u: Array) -> Array:
        return self._join([getattr(f, method)(x) for f, x in self._groups(u)])

    def _total(self, values: list[Array]) -> Array:
        xp = array_namespace(values[0])
        return sum(xp.sum(x, axis=-1) for x in values)

    def log_partition_and_marginals(self, v: Array) -> tuple[Array, Array]:
        pairs = [f.log_partition_and_marginals(x) for f, x in self._groups(v)]
        return self._total([a for a, _ in pairs]), self._join([mu for _, mu in pairs])

    def covariance(self, v: Array) -> Callable[[Array], Array]:
        maps = [f.covariance(x) for f, x in self._groups(v)]

        def product(u: Array) -> Any:
            return self._join([m(x) for m, (_, x) in zip(maps, self._groups(u), strict=True)])

        return product

    def largest_variance(self) -> float:
        return max(f.largest_variance() for f in self.factors)

    def entropy(self, mu: Array) -> Array:
        return self._total([f.entropy(x) for f, x in self._groups(mu)])

    def entropy_gradient(self, mu: Array) -> Array:
        return self._each("entropy_gradient", mu)

    def law(self) -> Law | None:
        from scipy.linalg import block_diag

        parts = [factor.law() for factor in self.factors]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return Law(
            block_diag(*[part.slope for part in known]),
            np.concatenate([part.shift for part in known]),
            block_diag(*[part.equal for part in known]),
            np.concatenate([part.level for part in known]),
        )

    def entropy_convexity(self) -> dict[str, float]:
        parts = [factor.entropy_convexity() for factor in self.factors]
        # (sum |x_i|_1)^2 <= (sum 1/sigma_i)(sum sigma_i |x_i|_1^2)
        harmonic = 1 / sum(1 / part["l1"] for part in parts)
        return {"l1": harmonic, **{norm: min(part[norm] for part in parts) for norm in ("l2", "linf")}}

    def maximiser(self, v: Array) -> Array:
        return self._each("maximiser", v)

    def project(self, u: Array) -> Array:
        return self._each("project", u)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        lows, highs = zip(*[f.bounds() for f in self.factors], strict=True)
        return np.concatenate(lows), np.concatenate(highs)

    def includes(self, other: Polytope) -> bool:
        if isinstance(other, Product) and [f.size for f in self.factors] == [f.size for f in other.factors]:
            return all(mine.includes(theirs) for mine, theirs in zip(self.factors, other.factors, strict=True))
        return super().includes(other)

    def vertices(self) -> np.ndarray:
        parts = [f.vertices() for f in self.factors]
        listable(float(np.prod([float(len(p)) for p in parts])))
        index = np.indices([len(p) for p in parts]).reshape(len(parts), -1)
        return np.hstack([p[i] for p, i in zip(parts, index, strict=True)])

    def norm(self, order: float) -> float:
        return float(np.linalg.norm([f.norm(order) for f in self.factors], ord=order))
