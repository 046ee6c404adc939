"""Maximum entropy over a polytope: multinomial logistic, independent logistic, conditional random fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self

from .._arrays import array_namespace, device
from ..polytopes.base import Polytope
from ..polytopes.cube import Cube
from ..polytopes.product import Product
from ..polytopes.simplex import Simplex
from .base import Array, Surrogate
from .form import Form, entropy


class MaxEntropy(Surrogate):
    """S(v, phi) = A(v) - <phi, v> + h(phi) with A the log-partition function of a polytope: the CRF of the paper.

    h = -(largest entropy of a law with mean mu); t = grad h; t^-1 = marginal inference. Left without a polytope, it
    takes the loss's own. Equals multinomial logistic on the simplex, logistic per coordinate on Cube(n, low=0),
    softmax per row on a product of simplices. h is 1-strongly convex in l1 on the simplex (Pinsker), and 1/max|phi|^2
    in l2 always.
    """

    name = "max-entropy"
    sized_by: ClassVar[str] = "polytope"  # the hyperparameters that tell its size

    def __init__(self, polytope: Polytope | None = None):
        self.polytope = polytope

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(p) for p in (Simplex(3), Cube(3), Cube(2, low=0.0), Product([Simplex(3), Simplex(3)]))]

    @property
    def domain(self) -> Polytope | None:
        return self.polytope

    def _sized(self, polytope: Polytope) -> Self:
        return self if self.domain is not None else self.with_params(polytope=polytope)

    def potential(self, mu: Array) -> Array:
        return -self._polytope.entropy(mu)

    def link(self, mu: Array) -> Array:
        return -self._polytope.entropy_gradient(mu)

    def inverse_link(self, v: Array) -> Array:
        return self._polytope.marginals(v)

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        xp = array_namespace(v)
        a, mu = self._polytope.log_partition_and_marginals(v)
        return (a - xp.sum(phi * v, axis=-1))[..., None], mu - phi

    def form(self, polytope: Polytope) -> Form:
        return entropy(self._polytope)

    def strong_convexity(self, polytope: Polytope) -> dict[str, float]:
        return self._polytope.entropy_convexity()

    @property
    def constant_on_vertices(self) -> bool:
        return True  # the entropy of a single label is zero

    @property
    def likelihood(self) -> bool:
        return True

    @property
    def odds(self) -> bool:
        return True

    @property
    def smoothness(self) -> float:
        return self._polytope.largest_variance()

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        return self._polytope.covariance(v)

    def hessian_matrices(self, v: Array, phi: Array, gradient: Array | None = None) -> Array:
        found = self._polytope.covariance_matrices(v, None if gradient is None else phi + gradient)
        return super().hessian_matrices(v, phi) if found is None else found

    def diagonal(self, v: Array, phi: Array, gradient: Array | None = None) -> Array:
        # A number that is a or b has the variance (m - a)(b - m) around its mean m.
        if not self._polytope.two_valued:
            return super().diagonal(v, phi, gradient)
        mu = self.inverse_link(v) if gradient is None else phi + gradient
        xp = array_namespace(mu)
        low, high = (xp.asarray(end, dtype=mu.dtype, device=device(mu)) for end in self._polytope.bounds())
        return (mu - low) * (high - mu)

    @property
    def _polytope(self) -> Polytope:
        if self.domain is None:
            raise ValueError(f"{self!r} has no size yet: bind it to a loss's polytope, or give {self.sized_by}.")
        return self.domain


class Multinomial(MaxEntropy):
    """Multinomial logistic regression: S(v, e_y) = logsumexp(v) - v_y. Equals MaxEntropy(Simplex(n_classes))."""

    name = "multinomial"
    sized_by = "n_classes"

    def __init__(self, n_classes: int | None = None):
        self.n_classes = n_classes

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(4)]

    @property
    def domain(self) -> Polytope | None:
        return None if self.n_classes is None else Simplex(self.n_classes)

    def _sized(self, polytope: Polytope) -> Self:
        return self if self.n_classes is not None else self.with_params(n_classes=polytope.size)


class RowMultinomial(MaxEntropy):
    """Multinomial logistic regression in every row of a table: S(v, phi) = sum_i logsumexp(v_i) - <phi_i, v_i>.

    Equals MaxEntropy(Product of n_rows simplices), whose domain holds the matchings (the paper's graph matching) and
    the label-and-size statistics of the F-measure, whose own log-partition functions are costly. h is
    1/n_rows-strongly convex in the l1 norm, not 1- as the paper has it, and 1-strongly convex in the l1 norm of each
    row.
    """

    name = "row-multinomial"
    sized_by = "n_rows and n_columns"

    def __init__(self, n_rows: int | None = None, n_columns: int | None = None):
        self.n_rows = n_rows
        self.n_columns = n_columns

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3, 2)]

    @property
    def domain(self) -> Polytope | None:
        if self.n_rows is None or self.n_columns is None:
            return None
        return Product([Simplex(self.n_columns)] * self.n_rows)

    def bind(self, polytope: Polytope) -> Self:
        """Sized by a polytope whose coordinates are a table; its rows lie in simplices, so that nothing need be listed."""
        if polytope.rows is None:
            raise ValueError(
                f"The surrogate {self!r} does not fit this loss: its embedding is a {type(polytope).__name__.lower()} in "
                f"R^{polytope.size}, and no table whose rows are laws; pass surrogate='auto'."
            )
        sizes = (polytope.rows, polytope.size // polytope.rows)
        if self.domain is not None and sizes != (self.n_rows, self.n_columns):
            raise ValueError(
                f"The surrogate {self!r} does not fit this loss, whose embedding has {sizes[0]} rows and {sizes[1]} columns."
            )
        return self.with_params(n_rows=sizes[0], n_columns=sizes[1])
