"""Cumulative link models for ordered labels: proportional odds and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from .._arrays import array_namespace, capped_exp, expit, logit, safe_exp, softplus
from ..polytopes.base import Polytope
from ..polytopes.simplex import Simplex
from ..registry import Part
from .base import Array, Surrogate
from .form import Form, entropy


class Link(Part):
    """A distribution function F on the line, in logarithms, so that no tail underflows. `log_concave`: its density is."""

    log_concave: ClassVar[bool] = True

    def log_cdf(self, v: Array) -> Array:
        """log F(v)."""
        raise NotImplementedError

    def log_survival(self, v: Array) -> Array:
        """log(1 - F(v))."""
        raise NotImplementedError

    def log_density(self, v: Array) -> Array:
        """log F'(v)."""
        raise NotImplementedError

    def score(self, v: Array) -> Array:
        """The derivative of log F'(v)."""
        raise NotImplementedError

    def quantile(self, q: Array) -> Array:
        """F^-1(q)."""
        raise NotImplementedError

    def log_gap(self, a: Array, b: Array) -> Array:
        """log(F(b) - F(a)), taken in the tail where it is accurate; -inf unless a < b."""
        xp = array_namespace(a)
        below, above = self.log_cdf(b), self.log_survival(a)
        left = below + _log1mexp(below - self.log_cdf(a))
        right = above + _log1mexp(above - self.log_survival(b))
        return xp.where(below < above, left, right)


class Logit(Link):
    """F = expit: the proportional odds model."""

    name = "logit"

    def log_cdf(self, v: Array) -> Array:
        return -softplus(-v)

    def log_survival(self, v: Array) -> Array:
        return -softplus(v)

    def log_density(self, v: Array) -> Array:
        xp = array_namespace(v)
        return -xp.abs(v) - 2 * xp.log1p(xp.exp(-xp.abs(v)))

    def score(self, v: Array) -> Array:
        return 1 - 2 * expit(v)

    def quantile(self, q: Array) -> Array:
        return logit(q)

    def log_gap(self, a: Array, b: Array) -> Array:
        # F(b) - F(a) = F(b) (1 - F(a)) (1 - exp(a - b)): two logistic losses and a barrier on the gap.
        return _log1mexp(b - a) - softplus(-b) - softplus(a)


class Probit(Link):
    """F = the standard normal distribution function."""

    name = "probit"

    def log_cdf(self, v: Array) -> Array:
        return _special(v).log_ndtr(v)

    def log_survival(self, v: Array) -> Array:
        return _special(v).log_ndtr(-v)

    def log_density(self, v: Array) -> Array:
        return -(v**2) / 2 - 0.5 * float(np.log(2 * np.pi))

    def score(self, v: Array) -> Array:
        return -v

    def quantile(self, q: Array) -> Array:
        return _special(q).ndtri(q)


class CLogLog(Link):
    """F(v) = 1 - exp(-exp(v)): grouped proportional hazards."""

    name = "cloglog"

    def log_cdf(self, v: Array) -> Array:
        # For a small rate x = exp(v), log(1 - exp(-x)) is log x, which does not underflow with x.
        xp = array_namespace(v)
        return xp.where(v < -35, v, _log1mexp(safe_exp(v)))

    def log_survival(self, v: Array) -> Array:
        return -safe_exp(v)

    def log_density(self, v: Array) -> Array:
        return v - safe_exp(v)

    def score(self, v: Array) -> Array:
        return 1 - safe_exp(v)

    def quantile(self, q: Array) -> Array:
        xp = array_namespace(q)
        return xp.log(-xp.log1p(-q))

    def log_gap(self, a: Array, b: Array) -> Array:
        xp = array_namespace(a)
        rate = safe_exp(a)
        return xp.where(b < -35, b + _log1mexp(b - a), _log1mexp(safe_exp(b) - rate) - rate)


class LogLog(Link):
    """F(v) = exp(-exp(-v)): cloglog for labels in the opposite order."""

    name = "loglog"
    _mirror = CLogLog()

    def log_cdf(self, v: Array) -> Array:
        return self._mirror.log_survival(-v)

    def log_survival(self, v: Array) -> Array:
        return self._mirror.log_cdf(-v)

    def log_density(self, v: Array) -> Array:
        return self._mirror.log_density(-v)

    def score(self, v: Array) -> Array:
        return -self._mirror.score(-v)

    def quantile(self, q: Array) -> Array:
        xp = array_namespace(q)
        return -xp.log(-xp.log(q))

    def log_gap(self, a: Array, b: Array) -> Array:
        return self._mirror.log_gap(-b, -a)


class Cauchit(Link):
    """F(v) = 1/2 + arctan(v) / pi: heavy tails, so that single examples far off weigh little. S is not convex."""

    name = "cauchit"
    log_concave = False

    def log_cdf(self, v: Array) -> Array:
        xp = array_namespace(v)
        return xp.log(xp.atan2(xp.ones_like(v), -v)) - float(np.log(np.pi))

    def log_survival(self, v: Array) -> Array:
        return self.log_cdf(-v)

    def log_density(self, v: Array) -> Array:
        xp = array_namespace(v)
        return -2 * xp.log(xp.hypot(xp.ones_like(v), v)) - float(np.log(np.pi))

    def score(self, v: Array) -> Array:
        return -2 * v / (1 + v**2)

    def quantile(self, q: Array) -> Array:
        xp = array_namespace(q)
        half = xp.full_like(q, 0.5)
        return xp.where(q == half, xp.zeros_like(q), -1 / xp.tan(float(np.pi) * q))


class CumulativeLink(Surrogate):
    """S(v, e_y) = -log(F(v_y) - F(v_{y-1})): the likelihood of a law on n_classes labels whose cumulative sums are
    F(v).

    Domain: scores v in R^(n_classes - 1) in increasing order; S is infinite unless the gap around y is open, and training
    keeps all gaps open by a little of the uniform law in each label where nothing else does (`Rows.kept_ordered`). Where new inputs have scores out of order, `inverse_link` takes the nearest ordered ones. Moments in the simplex; h is
    the negative entropy, 1-strongly convex in the l1 norm; the link is t(q)_j = F^-1(q_1 + ... + q_j). Scores stand for
    P(Y <= j): a larger score means a smaller label, the other way round from all-thresholds. S is convex where the link's
    density is log-concave, as that of all links here but cauchit is.
    """

    name = "cumulative-link"
    canonical = False
    ordered = True
    aliases = {"link": "_link"}

    def __init__(self, link: Any = "logit", n_classes: int | None = None):
        self._link = link
        self.n_classes = n_classes

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(link, n) for link in Link.registry for n in (2, 4)]

    @property
    def domain(self) -> Polytope | None:
        return None if self.n_classes is None else Simplex(self.n_classes)

    @property
    def size(self) -> int | None:
        return None if self.n_classes is None else self.n_classes - 1

    @property
    def constant_on_vertices(self) -> bool:
        return True

    @property
    def likelihood(self) -> bool:
        return True

    @property
    def convex(self) -> bool:
        return self.distribution.log_concave

    @property
    def odds(self) -> bool:
        return self.distribution.name == "logit"

    def _sized(self, polytope: Polytope) -> Self:
        return self if self.n_classes is not None else self.with_params(n_classes=polytope.size)

    def form(self, polytope: Polytope) -> Form:
        return entropy(Simplex(polytope.size))

    def strong_convexity(self, polytope: Polytope) -> dict[str, float]:
        return Simplex(polytope.size).entropy_convexity()

    @property
    def distribution(self) -> Link:
        return Link.resolve(self._link)

    def potential(self, mu: Array) -> Array:
        return -Simplex(mu.shape[-1]).entropy(mu)

    def potential_gradient(self, mu: Array) -> Array:
        return -Simplex(mu.shape[-1]).entropy_gradient(mu)

    def link(self, mu: Array) -> Array:
        xp = array_namespace(mu)
        return self.distribution.quantile(xp.clip(xp.cumulative_sum(mu[..., :-1], axis=-1), 0.0, 1.0))

    def inverse_link(self, v: Array) -> Array:
        """Class probabilities; scores out of order are first replaced by the nearest ordered ones."""
        return array_namespace(v).exp(self._log_probabilities(_ordered(v)))

    def _log_probabilities(self, v: Array) -> Array:
        xp = array_namespace(v)
        link = self.distribution
        first, last = link.log_cdf(v[..., :1]), link.log_survival(v[..., -1:])
        return xp.concat([first, link.log_gap(v[..., :-1], v[..., 1:]), last], axis=-1)

    def _ratios(self, v: Array, phi: Array) -> tuple[Array, Array, Array]:
        """log q, and the density at each threshold over the probability of the class below and of the class above, where phi > 0."""
        xp = array_namespace(v)
        log_q = self._log_probabilities(v)
        density = self.distribution.log_density(v)

        def ratio(chosen: Array, log_p: Array) -> Array:
            seen = (chosen > 0) & xp.isfinite(log_p)
            return xp.where(
                seen, capped_exp(xp.where(seen, density - log_p, xp.zeros_like(density))), xp.zeros_like(density)
            )

        return log_q, ratio(phi[..., :-1], log_q[..., :-1]), ratio(phi[..., 1:], log_q[..., 1:])

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        xp = array_namespace(v)
        if bool(xp.all(xp.max(phi, axis=-1) == 1)):
            return self._at_labels(v, phi)
        log_q, below, above = self._ratios(v, phi)
        terms = -xp.sum(phi * xp.where(phi > 0, log_q, xp.zeros_like(log_q)), axis=-1, keepdims=True)
        return terms, phi[..., 1:] * above - phi[..., :-1] * below

    def _at_labels(self, v: Array, phi: Array) -> tuple[Array, Array]:
        """The same where every row of phi is one label: it sees the thresholds above and below itself, and no other."""
        xp = array_namespace(v)
        link = self.distribution
        upper, lower = xp.sum(phi[..., :-1] * v, axis=-1), xp.sum(phi[..., 1:] * v, axis=-1)
        first, last = phi[..., 0] == 1, phi[..., -1] == 1
        log_p = xp.where(
            first, link.log_cdf(upper), xp.where(last, link.log_survival(lower), link.log_gap(lower, upper))
        )

        def ratio(threshold: Array, none: Array) -> Array:
            seen = ~none & xp.isfinite(log_p)
            exponent = xp.where(seen, link.log_density(threshold) - log_p, xp.zeros_like(log_p))
            return xp.where(seen, capped_exp(exponent), xp.zeros_like(log_p))[..., None]

        return -log_p[..., None], phi[..., 1:] * ratio(lower, first) - phi[..., :-1] * ratio(upper, last)

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        # Class j sees its two thresholds only, so that the Hessian is tridiagonal.
        xp = array_namespace(v)
        _, below, above = self._ratios(v, phi)
        score = self.distribution.score(v)
        diagonal = phi[..., :-1] * below * (below - score) + phi[..., 1:] * above * (above + score)
        beside = -phi[..., 1:-1] * above[..., :-1] * below[..., 1:]

        def product(u: Array) -> Array:
            edge = xp.zeros_like(u[..., :1])
            right = xp.concat([beside * u[..., 1:], edge], axis=-1)
            left = xp.concat([edge, beside * u[..., :-1]], axis=-1)
            return diagonal * u + right + left

        return product


def _log1mexp(x: Array) -> Array:
    """log(1 - exp(-x)) for x > 0, -inf elsewhere."""
    xp = array_namespace(x)
    inside = xp.where(x > 0, x, xp.ones_like(x))
    value = xp.log(-xp.expm1(-inside))
    return xp.where(x > 0, value, xp.full_like(x, -float("inf")))


def _special(v: Array) -> Any:
    """The module with the normal distribution's functions for this kind of array."""
    if isinstance(v, np.ndarray | np.generic):
        import scipy.special

        return scipy.special
    return array_namespace(v).special


def _ordered(v: Array) -> Array:
    """The nearest increasing scores: isotonic regression by the min-max formula, on the rows that need it."""
    xp = array_namespace(v)
    if v.shape[-1] < 2 or bool(xp.all(v[..., 1:] >= v[..., :-1])):
        return v
    k = v.shape[-1]
    total = xp.concat([xp.zeros_like(v[..., :1]), xp.cumulative_sum(v, axis=-1)], axis=-1)
    columns = []
    for j in range(k):
        # max over starts a <= j of min over ends b >= j of mean(v_a..v_b)
        best = None
        for a in range(j + 1):
            means = [(total[..., b + 1] - total[..., a]) / (b + 1 - a) for b in range(j, k)]
            low = xp.min(xp.stack(means, axis=-1), axis=-1)
            best = low if best is None else xp.maximum(best, low)
        columns.append(best)
    return xp.stack(columns, axis=-1)
