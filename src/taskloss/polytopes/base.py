"""What a set M = hull phi(Y) can answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from .._arrays import array_namespace
from .._checks import check_floats
from ..registry import Part

Array = Any


class Law(NamedTuple):
    """A polytope as {slope u + shift >= 0, equal u = level}, where a = slope u + shift also gives the entropy, -sum a log a.

    The a_j sum to a constant on the polytope.
    """

    slope: np.ndarray
    shift: np.ndarray
    equal: np.ndarray
    level: np.ndarray


class Polytope(Part):
    """A polytope in R^size, and inference on the exponential family over its vertices.

    Arrays are batch first, coordinates last. One method decides the family, `log_partition_and_marginals`
    (A(v) = log sum over vertices exp<v, phi>, and its gradient); the rest is geometry.
    """

    guarded = ("log_partition_and_marginals", "log_partition", "marginals", "maximiser", "project", "entropy")

    def diagnose(self, given: dict[str, Any], error: Exception) -> None:
        for name in ("n", "n_states", "length"):
            if name in self._get_param_names() and getattr(self, name) is None:
                raise ValueError(f"{type(self).__name__} needs {name}, a whole number.")
        for name, value in given.items():
            check_floats(name, value)
            if isinstance(value, np.ndarray) and not np.isfinite(value).all():
                raise ValueError(f"{name} contains NaN or infinite values.")
            if tuple(value.shape)[-1:] != (self.size,):
                raise ValueError(
                    f"{name} must have the {self.size} coordinates of {self!r} along its last axis, got shape {tuple(value.shape)}."
                )

    @property
    def size(self) -> int:
        """Number of coordinates, k."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        """Dimension of the affine hull, r <= k."""
        raise NotImplementedError

    rows: int | None = None  # how many rows, where the coordinates are a table whose rows each lie in a simplex
    two_valued: bool = False  # whether each coordinate takes two values over the vertices, the ends of its bounds

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3)]  # type: ignore[call-arg]  # most have a size as their first hyperparameter

    def log_partition_and_marginals(self, v: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def log_partition(self, v: Array) -> Array:
        """A(v) = log sum over vertices of exp<v, phi>."""
        return self.log_partition_and_marginals(v)[0]

    def marginals(self, v: Array) -> Array:
        """Mean of phi under p(phi) proportional to exp<v, phi>: the gradient of A."""
        return self.log_partition_and_marginals(v)[1]

    def covariance(self, v: Array) -> Callable[[Array], Array]:
        """The linear map u -> Cov(phi) u under the same law: the Hessian of A."""
        raise NotImplementedError

    def covariance_matrices(self, v: Array, mu: Array | None = None) -> Array | None:
        """The same maps as matrices (..., size, size), where these are quicker to write down; else None. mu: the marginals, where they are known."""
        return None

    def entropy(self, mu: Array) -> Array:
        """Largest entropy of a law on the vertices with mean mu; -A* in convex analysis."""
        raise NotImplementedError

    def entropy_gradient(self, mu: Array) -> Array:
        """Gradient of the entropy within the affine hull; minus a score v with marginals(v) = mu."""
        raise NotImplementedError

    def largest_variance(self) -> float:
        """No law on the vertices gives <u, phi> a larger variance for |u|_2 = 1: a bound on the norm of `covariance`."""
        low, high = self.bounds()
        return float(((high - low) ** 2).sum() / 4)

    def law(self) -> Law | None:
        """The numbers, affine in mu, whose entropy is `entropy(mu)`; None where there are none, or none is known."""
        return None

    def entropy_convexity(self) -> dict[str, float]:
        """sigma for each norm ("l1", "l2", "linf") in which the negative entropy is sigma-strongly convex.

        The covariance of a law on the vertices is at most diameter^2 / 4 in every direction.
        """
        return spread_convexity(4 / diameter(self.vertices()) ** 2, self.size)

    def maximiser(self, v: Array) -> Array:
        """A vertex that maximises <v, phi>."""
        raise NotImplementedError

    def project(self, u: Array) -> Array:
        """The nearest point of the polytope in Euclidean distance."""
        raise NotImplementedError

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest box that holds the polytope, as (low, high)."""
        raise NotImplementedError

    def vertices(self) -> np.ndarray:
        """All vertices as rows; a ValueError where they are too many to list."""
        raise NotImplementedError

    def center(self) -> np.ndarray:
        """The mean of the vertices, a point inside."""
        return self.marginals(np.zeros(self.size))

    def contains(self, mu: Array, tol: float = 1e-9) -> Array:
        """Whether each point lies in the polytope, up to tol."""
        xp = array_namespace(mu)
        return xp.max(xp.abs(self.project(mu) - mu), axis=-1) <= tol

    def includes(self, other: Polytope) -> bool:
        """Whether another polytope lies inside this one."""
        if self == other:
            return True
        if self.size != other.size or not self._holds_box(other):
            return False
        return bool(np.all(self.contains(other.vertices())))

    def _holds_box(self, other: Polytope, tol: float = 1e-9) -> bool:
        """Whether this one's box holds the other's, which listing no vertex can tell."""
        (low, high), (other_low, other_high) = self.bounds(), other.bounds()
        return bool(np.all(other_low >= low - tol) and np.all(other_high <= high + tol))

    def norm(self, order: float) -> float:
        """The largest norm of a vertex."""
        return float(np.linalg.norm(self.vertices(), ord=order, axis=-1).max())


def listable(count: float, limit: int = 1 << 16) -> None:
    """Refuse to list more than a few vertices or outputs."""
    if count > limit:
        raise ValueError(f"{count:.3g} vertices or outputs are too many to list: the limit is {limit}.")


def diameter(points: np.ndarray) -> float:
    """The largest distance between two of the points, in l2; 1 where there is one point only, so that nothing divides by zero."""
    gram = points @ points.T
    squares = np.diag(gram)
    return float(np.sqrt(max((squares[:, None] + squares - 2 * gram).max(), 0.0))) or 1.0


def normals(points: np.ndarray) -> np.ndarray:
    """Orthonormal rows that are constant on the points' affine hull."""
    centred = points - points.mean(0)
    _, singular, rows = np.linalg.svd(centred)
    rank = int((singular > 1e-10 * singular.max(initial=0.0)).sum())
    return rows[rank:]


def spread_convexity(sigma: float, size: int) -> dict[str, float]:
    """sigma-strong convexity in l2, in the other norms: |x|_1^2 <= k |x|_2^2 and |x|_inf <= |x|_2."""
    return {"l1": sigma / size, "l2": sigma, "linf": sigma}
