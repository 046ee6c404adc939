"""A surrogate's divergence, written so that a conic solver understands it: what `Surrogate.form` hands to the theory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..margins import Margin
from ..polytopes.base import Polytope, diameter


@dataclass(frozen=True)
class Form:
    """D(u', u) = sum_j a'_j log(a'_j / a_j) + curvature/2 |u' - u|^2 with a = slope @ u + shift, jointly convex.

    The domain is {a >= 0, equal @ u = level}, on which the a_j sum to a constant, or the hull of `points` where those
    are given; without terms and points it is all of R^k.

    exact: this is the surrogate's own divergence; otherwise it lies below it, for as much as a sample of the
    potential's curvature tells where `sampled`.
    least_curvature: where D is everything and h a user's, curvature 1 is a unit only, and least_curvature(r) is the
    least second derivative of h within r of M.
    margin, low: where h is a sum over coordinates of the margin's own, at q = (u - low) / (1 - low).
    """

    slope: np.ndarray
    shift: np.ndarray
    equal: np.ndarray
    level: np.ndarray
    curvature: float = 0.0
    exact: bool = True
    sampled: bool = False
    points: np.ndarray | None = None
    least_curvature: Callable[[float], float] | None = None
    margin: Margin | None = None
    low: float = 0.0

    @property
    def everywhere(self) -> bool:
        """Whether the domain is all of R^k."""
        return self.points is None and not len(self.slope) and not len(self.equal)

    def divergence(self, u1: np.ndarray, u2: np.ndarray) -> Any:
        """D(u1, u2); infinite off the domain, and where u2 gives no weight to what u1 needs.

        As the a_j sum to a constant, sum a' log(a'/a) = sum a ((1 + t) log(1 + t) - t) with t = (a' - a) / a: no term
        is negative, and nothing cancels where the two points are close.
        """
        move = u1 - u2
        a1, a2 = (self._weights(np.asarray(u)) for u in (u1, u2))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            t = np.maximum(np.where(a2 > 0, (move @ self.slope.T) / a2, np.where(a1 > 0, np.inf, 0.0)), -1.0)
            terms = np.where(a2 > 0, a2 * log_excess(t), np.where(a1 > 0, np.inf, 0.0))
            terms = np.where((a1 < 0) | (a2 < 0), np.inf, terms)
        return terms.sum(-1) + self.curvature / 2 * (move**2).sum(-1)

    def inside(self, u: np.ndarray) -> Any:
        """Whether every a_j is positive or zero at u, to rounding."""
        return (self._weights(np.asarray(u)) >= 0).all(-1)

    def _weights(self, u: np.ndarray) -> np.ndarray:
        """a at u, with what is no more than rounding taken for zero: a face of D is a face."""
        a = u @ self.slope.T + self.shift
        size = (np.abs(u) @ np.abs(self.slope).T + np.abs(self.shift)).max(-1, keepdims=True, initial=0.0)
        noise = 100 * np.finfo(float).eps * size
        return np.where(np.abs(a) > noise, a, 0.0)


def log_excess(t: np.ndarray) -> np.ndarray:
    """(1 + t) log(1 + t) - t for t >= -1, by its series where it would cancel."""
    small = np.abs(t) < 0.02
    x = np.where(small, t, 0.0)
    series = x**2 * (1 / 2 - x * (1 / 6 - x * (1 / 12 - x * (1 / 20 - x * (1 / 30 - x * (1 / 42 - x / 56))))))
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.where(t > -1, (1 + t) * np.log1p(t), 0.0) - t
    return np.where(small, series, plain)


def squared(size: int, curvature: float) -> Form:
    """curvature/2 |u' - u|^2 on all of R^size."""
    return Form(np.zeros((0, size)), np.zeros(0), np.zeros((0, size)), np.zeros(0), curvature)


def entropy(domain: Polytope) -> Form:
    """The divergence of the negative entropy: Kullback-Leibler on the law, or the sum of them over a product."""
    law = domain.law()
    if law is not None:
        return Form(*law)
    # Elsewhere the largest entropy with given moments is not a sum over an affine image of them, and its divergence
    # need not be jointly convex: the covariance of a law on the vertices is at most diameter^2 / 4 in every
    # direction.
    points = domain.vertices()
    return replace(squared(domain.size, 4 / diameter(points) ** 2), exact=False, points=points)


def added(parts: list[tuple[float, Form]]) -> Form:
    """The forms of a weighted sum of potentials: w a' log(a' / a) is the term of w a' and w a."""
    forms = [form for _, form in parts]
    fixed = max(forms, key=lambda form: len(form.equal))  # the parts with a domain share it
    return Form(
        np.vstack([w * form.slope for w, form in parts]),
        np.concatenate([w * form.shift for w, form in parts]),
        fixed.equal,
        fixed.level,
        sum(w * form.curvature for w, form in parts),
        exact=all(form.exact for form in forms),
        points=next((form.points for form in forms if form.points is not None), None),
    )
