"""Margin losses Phi for two labels: S(v, y) = Phi(y v) with y in {-1, 1}, the paper's appendix F.

With q = P(y = 1), s(v, q) = q Phi(v) + (1 - q) Phi(-v) is the conditional risk, -h(q) its least value over v and t(q)
its minimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ._arrays import Array, array_namespace, capped_exp, expit, logit, safe_exp, softplus, xlogx
from ._checks import check_floats
from .registry import Part

__all__ = ["Exponential", "Hinge", "Logistic", "Margin", "ModifiedHuber", "Square", "SquaredHinge"]


class Margin(Part):
    """A convex Phi, non-increasing up to u = 1 at least. A new one gives value, derivative, potential, potential_derivative, link and
    inverse_link.

    `calibrated` says whether S is phi-calibrated: whether its excess risk is a Bregman divergence for every score v.
    """

    guarded = ("value", "derivative", "second_derivative", "potential", "potential_derivative", "link", "inverse_link")
    calibrated: ClassVar[bool] = True
    bounded: ClassVar[bool] = True  # whether the domain of h is [0, 1] (True) or the whole line (False)
    smooth: ClassVar[bool] = True
    smoothness: ClassVar[float | None] = None  # the largest second derivative, where there is one
    convexity: ClassVar[float | None] = None  # the least second derivative of h, where it is known
    divergence_form: ClassVar[str | None] = (
        None  # what D_h is: "entropy", "square" or "hellinger"; None: something else
    )

    def diagnose(self, given: dict[str, Any], error: Exception) -> None:
        for name, value in given.items():
            check_floats(name, value)

    def as_function(self, phi: Any = None, loss: Any = None) -> tuple[Callable[[Any, int], Any], np.ndarray, int]:
        """S(v, y) = Phi(y v) for rows of one score and a label's code 0 or 1, the signs as rows, and one score."""
        signs = np.array([[-1.0], [1.0]])
        return (lambda v, y: self.value(signs[y, 0] * v[:, 0])), signs, 1

    def value(self, u: Array) -> Array:
        """Phi(u)."""
        raise NotImplementedError

    def derivative(self, u: Array) -> Array:
        """Phi'(u)."""
        raise NotImplementedError

    def second_derivative(self, u: Array) -> Array:
        """Phi''(u), where it exists."""
        raise NotImplementedError

    def potential(self, q: Array) -> Array:
        """h(q) = -min_v s(v, q)."""
        raise NotImplementedError

    def potential_derivative(self, q: Array) -> Array:
        """h'(q), the canonical link."""
        raise NotImplementedError

    def link(self, q: Array) -> Array:
        """t(q) = argmin_v s(v, q)."""
        raise NotImplementedError

    def inverse_link(self, v: Array) -> Array:
        """The q that the score v stands for."""
        raise NotImplementedError

    def risk_and_derivative(self, v: Array, q: Array) -> tuple[Array, Array]:
        """s(v, q) and its derivative in v."""
        value = q * self.value(v) + (1 - q) * self.value(-v)
        return value, q * self.derivative(v) - (1 - q) * self.derivative(-v)

    def curvature(self, v: Array, q: Array) -> Array:
        """The second derivative of s in v."""
        return q * self.second_derivative(v) + (1 - q) * self.second_derivative(-v)

    def excess_risk(self, v: Array, q: Array) -> Array:
        """s(v, q) - min_v s(v, q) >= 0."""
        return self.risk_and_derivative(v, q)[0] + self.potential(q)


class Logistic(Margin):
    """Phi(u) = log(1 + exp(-u)). Domain [0, 1]; h = -entropy; t(q) = log(q / (1 - q)), the canonical link.

    h is 4-strongly convex. With natural logarithms Phi(0) = log 2, where the paper's formulas hold in base 2.
    """

    name = "logistic"
    smoothness = 0.25
    convexity = 4.0
    divergence_form = "entropy"

    def value(self, u: Array) -> Array:
        return softplus(-u)

    def derivative(self, u: Array) -> Array:
        return -expit(-u)

    def second_derivative(self, u: Array) -> Array:
        xp = array_namespace(u)
        e = xp.exp(-xp.abs(u))
        return e / (1 + e) ** 2

    def potential(self, q: Array) -> Array:
        return xlogx(q) + xlogx(1 - q)

    def potential_derivative(self, q: Array) -> Array:
        return logit(q)

    def link(self, q: Array) -> Array:
        return logit(q)

    def inverse_link(self, v: Array) -> Array:
        return expit(v)

    def risk_and_derivative(self, v: Array, q: Array) -> tuple[Array, Array]:
        # Phi(-v) = Phi(v) + v makes s linear in q, and one exponential serves value and derivative.
        xp = array_namespace(v)
        e = xp.exp(-xp.abs(v))
        positive = v > 0
        p = xp.where(positive, xp.ones_like(e), e) / (1 + e)
        return xp.log1p(e) + xp.where(positive, v, xp.zeros_like(v)) - q * v, p - q

    def curvature(self, v: Array, q: Array) -> Array:
        return self.second_derivative(v)


class Exponential(Margin):
    """Phi(u) = exp(-u). Domain [0, 1]; h(q) = -2 sqrt(q(1 - q)); t(q) = log(q / (1 - q)) / 2.

    The link is not the canonical one, h'(q) = (2q - 1) / sqrt(q(1 - q)) (the paper has the sign reversed). Below u =
    -500, where exp would overflow, Phi goes on along its tangent. h is 4-strongly convex.
    """

    name = "exponential"
    convexity = 4.0
    divergence_form = "hellinger"

    def value(self, u: Array) -> Array:
        return safe_exp(-u)

    def derivative(self, u: Array) -> Array:
        return -capped_exp(-u)

    def second_derivative(self, u: Array) -> Array:
        return -self.derivative(u)

    def potential(self, q: Array) -> Array:
        return -2 * array_namespace(q).sqrt(q * (1 - q))

    def potential_derivative(self, q: Array) -> Array:
        return (2 * q - 1) / array_namespace(q).sqrt(q * (1 - q))

    def link(self, q: Array) -> Array:
        return logit(q) / 2

    def inverse_link(self, v: Array) -> Array:
        return expit(2 * v)


class Square(Margin):
    """Phi(u) = (1 - u)^2. Domain the whole line; h(q) = -4q(1 - q), 8-strongly convex; t(q) = 2q - 1."""

    name = "square"
    smoothness = 2.0
    bounded = False
    convexity = 8.0
    divergence_form = "square"

    def value(self, u: Array) -> Array:
        return (1 - u) ** 2

    def derivative(self, u: Array) -> Array:
        return -2 * (1 - u)

    def second_derivative(self, u: Array) -> Array:
        return 2 * array_namespace(u).ones_like(u)

    def potential(self, q: Array) -> Array:
        return -4 * q * (1 - q)

    def potential_derivative(self, q: Array) -> Array:
        return 4 * (2 * q - 1)

    def link(self, q: Array) -> Array:
        return 2 * q - 1

    def inverse_link(self, v: Array) -> Array:
        return (v + 1) / 2


class SquaredHinge(Square):
    """Phi(u) = max(1 - u, 0)^2. NOT phi-calibrated: it is the square loss for v in [-1, 1] and no Bregman divergence
    beyond.

    Consistent for 0-1 loss all the same; `inverse_link` clips scores to [-1, 1] first.
    """

    name = "squared-hinge"
    calibrated = False
    bounded = True
    convexity = None  # type: ignore[assignment]
    divergence_form = None  # type: ignore[assignment]

    def value(self, u: Array) -> Array:
        return _positive(1 - u) ** 2

    def derivative(self, u: Array) -> Array:
        return -2 * _positive(1 - u)

    def second_derivative(self, u: Array) -> Array:
        return 2.0 * array_namespace(u).astype(u < 1, u.dtype)

    def inverse_link(self, v: Array) -> Array:
        return (array_namespace(v).clip(v, -1.0, 1.0) + 1) / 2


class ModifiedHuber(SquaredHinge):
    """Phi(u) = max(1 - u, 0)^2 for u >= -1 and -4u below. NOT phi-calibrated, for the same reason as the squared
    hinge.

    With T(v) = v clipped to [-1, 1], its excess risk is (2q - 1 - T)^2 + 2|2q - 1 - T||v - T| (Zhang 2004; the paper
    has |q - T|).
    """

    name = "modified-huber"

    def value(self, u: Array) -> Array:
        xp = array_namespace(u)
        return xp.where(u >= -1, _positive(1 - xp.clip(u, -1.0, None)) ** 2, -4 * u)

    def derivative(self, u: Array) -> Array:
        return -2 * array_namespace(u).clip(1 - u, 0.0, 2.0)

    def second_derivative(self, u: Array) -> Array:
        return 2.0 * array_namespace(u).astype((u < 1) & (u > -1), u.dtype)


class Hinge(Margin):
    """Phi(u) = max(1 - u, 0). NOT phi-calibrated: t(q) = sign(2q - 1) is not injective, so that scores do not give q.

    `inverse_link` is the squared hinge's, a monotone score and no probability; only 0-1 decisions rest on it.
    """

    name = "hinge"
    calibrated = False
    smooth = False

    def value(self, u: Array) -> Array:
        return _positive(1 - u)

    def derivative(self, u: Array) -> Array:
        return -1.0 * array_namespace(u).astype(u < 1, u.dtype)

    def potential(self, q: Array) -> Array:
        return array_namespace(q).abs(2 * q - 1) - 1

    def potential_derivative(self, q: Array) -> Array:
        return 2 * array_namespace(q).sign(2 * q - 1)

    def link(self, q: Array) -> Array:
        return array_namespace(q).sign(2 * q - 1)

    def inverse_link(self, v: Array) -> Array:
        return (array_namespace(v).clip(v, -1.0, 1.0) + 1) / 2


def _positive(u: Array) -> Array:
    xp = array_namespace(u)
    return xp.where(u > 0, u, xp.zeros_like(u))
