"""One margin loss per coordinate: one-vs-all, independent classifiers, all-thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from .._arrays import array_namespace
from ..margins import Margin
from ..polytopes.base import Polytope, spread_convexity
from ..polytopes.cube import Cube
from .base import Array, Surrogate
from .form import Form, entropy, squared


class Coordinatewise(Surrogate):
    """S(v, phi) = sum_j s(v_j, q_j) + h(q_j), q = (phi - low) / (1 - low) in [0, 1]: at a vertex, sum_j Phi(+-v_j).

    h(mu) = sum_j h_Phi(q_j), t(mu)_j = t_Phi(q_j). The named ones below differ in the coordinates' range and in how
    they count. With the logistic margin it equals MaxEntropy(Cube(n, low)) at scores v / (1 - low).
    """

    low: float = -1.0

    @property
    def example_domain(self) -> Polytope:
        return Cube(self.size or 3, low=self.low)

    canonical = False
    _count = "n_labels"  # the constructor's word for the size
    _extra = 0  # the count less the number of coordinates: k classes have k - 1 thresholds

    margin: Any

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(margin(), 3) for margin in Margin.registry.values()]  # type: ignore[call-arg]  # the named children's

    @property
    def phi_margin(self) -> Margin:
        return Margin.resolve(self.margin)

    @property
    def size(self) -> int | None:
        count = getattr(self, self._count)
        return None if count is None else count - self._extra

    @property
    def domain(self) -> Polytope | None:
        if self.size is None or not self.phi_margin.bounded:
            return None
        return Cube(self.size, low=self.low)

    @property
    def calibrated(self) -> bool:
        return self.phi_margin.calibrated

    @property
    def likelihood(self) -> bool:
        """With one score and the logistic margin; labels of several scores are not taken to be independent."""
        return self.size == 1 and self.odds

    @property
    def odds(self) -> bool:
        return self.phi_margin.name == "logistic"

    @property
    def smooth(self) -> bool:
        return self.phi_margin.smooth

    @property
    def smoothness(self) -> float | None:
        return self.phi_margin.smoothness

    @property
    def separable(self) -> bool:
        return True

    @property
    def constant_on_vertices(self) -> bool:
        return True  # h(q) = h(1 - q) for every margin

    def _sized(self, polytope: Polytope) -> Self:
        if self.size is not None and self.size != polytope.size:
            raise ValueError(
                f"The surrogate {self!r} does not fit this loss: it has {self.size} coordinates and the loss's embedding "
                f"{polytope.size}; leave {self._count} out, or use a loss with another embedding."
            )
        if not self.fits(polytope):
            raise ValueError(
                f"The surrogate {self!r} does not fit this loss: it needs labels embedded in {{{self.low:g}, 1}}^k, and this loss's "
                f"embedding is a {type(polytope).__name__.lower()} in R^{polytope.size}; pass surrogate='auto', or a loss with another embedding."
            )
        return self if self.size is not None else self.with_params(**{self._count: polytope.size + self._extra})

    def fits(self, polytope: Polytope) -> bool:
        low, high = polytope.bounds()
        return bool(np.abs(low - self.low).max() <= 1e-8 and np.abs(high - 1).max() <= 1e-8)

    def canonical_form(self) -> Surrogate:
        if self.size is None or self.phi_margin.name != "logistic":
            return super().canonical_form()
        from .maxentropy import MaxEntropy

        return MaxEntropy(Cube(self.size, low=self.low))

    def form(self, polytope: Polytope) -> Form:
        margin = self.phi_margin
        if margin.divergence_form == "square":
            form = squared(polytope.size, 8 / (1 - self.low) ** 2)
        elif margin.divergence_form in ("entropy", "hellinger"):
            # The curvature of -2 sqrt(q(1-q)) is that of the negative entropy over 2 sqrt(q(1-q)) <= 1.
            form = replace(entropy(Cube(polytope.size, low=self.low)), exact=margin.divergence_form == "entropy")
        else:
            return super().form(polytope)
        return replace(form, margin=margin, low=self.low)

    def strong_convexity(self, polytope: Polytope) -> dict[str, float]:
        sigma = self.phi_margin.convexity
        return {} if sigma is None else spread_convexity(sigma / (1 - self.low) ** 2, polytope.size)

    def _q(self, mu: Array) -> Array:
        return (mu - self.low) / (1 - self.low)

    def potential(self, mu: Array) -> Array:
        return array_namespace(mu).sum(self.phi_margin.potential(self._q(mu)), axis=-1)

    def potential_gradient(self, mu: Array) -> Array:
        return self.phi_margin.potential_derivative(self._q(mu)) / (1 - self.low)

    def link(self, mu: Array) -> Array:
        return self.phi_margin.link(self._q(mu))

    def inverse_link(self, v: Array) -> Array:
        return self.low + (1 - self.low) * self.phi_margin.inverse_link(v)

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        return self.phi_margin.risk_and_derivative(v, self._q(phi))

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        curvature = self.phi_margin.curvature(v, self._q(phi))
        return lambda u: curvature * u

    def diagonal(self, v: Array, phi: Array, gradient: Array | None = None) -> Array:
        return self.phi_margin.curvature(v, self._q(phi))


class Independent(Coordinatewise):
    """One binary classifier per label: S(v, y) = sum_j Phi(y_j v_j) for y in {-1, 1}^n.

    phi-calibrated for Hamming loss; zeta_h(eps) = n zeta_Phi(eps), the paper's proposition on Hamming loss.
    """

    name = "independent"

    def __init__(self, margin: Any = "logistic", n_labels: int | None = None):
        self.margin = margin
        self.n_labels = n_labels


class OneVsAll(Coordinatewise):
    """One binary classifier per class: S(v, y) = Phi(v_y) + sum_{j != y} Phi(-v_j), moments in [0, 1]^n.

    With the logistic margin it equals MaxEntropy(Cube(n, low=0)).
    """

    name = "one-vs-all"
    low = 0.0
    _count = "n_classes"

    def __init__(self, margin: Any = "logistic", n_classes: int | None = None):
        self.margin = margin
        self.n_classes = n_classes


class AllThresholds(Coordinatewise):
    """Ordinal regression by all thresholds: Independent on the n_classes - 1 signs of the ordinal embedding 2 1(y > j) - 1."""

    name = "all-thresholds"
    _count = "n_classes"
    _extra = 1

    def __init__(self, margin: Any = "logistic", n_classes: int | None = None):
        self.margin = margin
        self.n_classes = n_classes
