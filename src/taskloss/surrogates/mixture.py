"""A weighted sum of potentials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .._checks import said_of
from ..polytopes.base import Polytope
from ..polytopes.cube import Cube
from ..polytopes.simplex import Simplex
from .base import Array, Surrogate
from .form import Form, added
from .legendre import Legendre
from .maxentropy import MaxEntropy
from .quadratic import Quadratic


class Mixture(Legendre):
    """The surrogate of h = sum_i w_i h_i for other surrogates' potentials h_i, with the canonical link t = grad h.

    The parts share one domain, or are finite everywhere. Left without parts, the negative entropy plus half the squared
    norm: an entropy whose curvature never falls below one. Constants of strong convexity add up with the weights. One
    part of weight 1 gives that part's divergence, with the canonical link. NumPy only.
    """

    name = "mixture"
    aliases = {}
    inverse_gradient = None  # found by Legendre's Newton steps

    def __init__(self, parts: Sequence[Any] | None = None, weights: Sequence[float] | None = None):
        self.parts = parts
        self.weights = weights

    @classmethod
    def examples(cls) -> list[Self]:
        pairs: list[list[Surrogate]] = [[MaxEntropy(p), Quadratic()] for p in (Simplex(3), Cube(2))]
        return [cls(pairs[0], [1.0, 0.5]), cls(pairs[1])]

    @property
    def terms(self) -> list[tuple[float, Surrogate]]:
        """(weight, part) of each part."""
        given = (MaxEntropy(), Quadratic()) if self.parts is None else list(self.parts)
        if not given:
            raise ValueError("parts must name at least one surrogate, got none.")
        parts = [Surrogate.resolve(part) for part in given]
        with said_of("weights", "be positive numbers"):
            weights = [1.0] * len(parts) if self.weights is None else [float(w) for w in self.weights]
        if len(weights) != len(parts) or not (np.isfinite(weights).all() and min(weights) > 0):
            raise ValueError(
                f"weights must be one positive number for each of the {len(parts)} parts of a mixture, got {weights}."
            )
        return list(zip(weights, parts, strict=True))

    def diagnose(self, given: dict[str, Any], error: Exception) -> None:
        if self.parts is None:
            raise ValueError(f"{self!r} has no size yet: give parts that have one, or bind it to a loss's polytope.")
        super().diagnose(given, error)

    @property
    def domain(self) -> Polytope | None:
        domains = [part.domain for _, part in self.terms if part.domain is not None]
        if any(domain != domains[0] for domain in domains):
            raise ValueError(f"The parts of a mixture must share their domain, got {domains}.")
        return domains[0] if domains else None

    _domain = domain

    @property
    def calibrated(self) -> bool:
        return all(part.calibrated for _, part in self.terms)

    @property
    def smoothness(self) -> float | None:
        """Where a canonical part's gradient is beta-Lipschitz, its potential is 1/beta-strongly convex."""
        known = [w / part.smoothness for w, part in self.terms if part.canonical and part.smoothness]
        return 1 / sum(known) if known else None

    def _sized(self, polytope: Polytope) -> Self:
        return self.with_params(parts=[part.bind(polytope) for _, part in self.terms])

    def form(self, polytope: Polytope) -> Form:
        parts = [(w, part.form(polytope)) for w, part in self.terms]
        if any(form.sampled for _, form in parts):  # then the sum's own curvature is sampled
            return super().form(polytope)
        return added(parts)

    def strong_convexity(self, polytope: Polytope) -> dict[str, float]:
        known = [(w, part.strong_convexity(polytope)) for w, part in self.terms]
        norms = {norm for _, part in known for norm in part}
        return {norm: sum(w * part.get(norm, 0.0) for w, part in known) for norm in norms}

    def potential(self, mu: Array) -> Array:
        return sum(w * part.potential(mu) for w, part in self.terms)

    def _gradient(self, mu: Array) -> Array:
        return sum(w * part.potential_gradient(mu) for w, part in self.terms)
