"""A loss and a surrogate that belong together, as sets and a divergence: what every computation of zeta starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from ..losses.base import Loss
from ..margins import Exponential, Logistic, Square
from ..polytopes.base import Polytope
from ..polytopes.cube import Cube
from ..polytopes.hull import Hull
from ..polytopes.product import Product
from ..polytopes.simplex import Simplex
from ..surrogates.base import Surrogate, automatic
from ..surrogates.coordinatewise import Coordinatewise
from ..surrogates.cumulative import CumulativeLink
from ..surrogates.legendre import Legendre
from ..surrogates.listwise import Listwise
from ..surrogates.maxentropy import MaxEntropy
from ..surrogates.mixture import Mixture
from ..surrogates.quadratic import Quadratic

# -- divergences that a conic solver understands ---------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """D(u', u) = sum_j a'_j log(a'_j / a_j) + curvature/2 |u' - u|^2 with a = slope @ u + shift, jointly convex.

    The domain is {a >= 0, equal @ u = level}, or the hull of `points` where those are given. `exact` says whether
    this is the surrogate's own divergence; otherwise it lies below it, as far as a sample tells where `sampled`.
    `simplex`: a is a law over M's vertices.
    """

    slope: np.ndarray
    shift: np.ndarray
    equal: np.ndarray
    level: np.ndarray
    curvature: float = 0.0
    exact: bool = True
    sampled: bool = False
    simplex: bool = False
    points: np.ndarray | None = None

    def divergence(self, u1: np.ndarray, u2: np.ndarray) -> Any:
        """D(u1, u2); infinite where u2 gives no weight to what u1 needs."""
        a1 = np.maximum(u1 @ self.slope.T + self.shift, 0.0)
        a2 = np.maximum(u2 @ self.slope.T + self.shift, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(a1 > 0, a1 * np.log(np.where(a1 > 0, a1, 1.0) / a2), 0.0)
        return terms.sum(-1) + self.curvature / 2 * ((u1 - u2) ** 2).sum(-1)


def squared(size: int, curvature: float) -> Form:
    """curvature/2 |u' - u|^2 on all of R^size."""
    return Form(np.zeros((0, size)), np.zeros(0), np.zeros((0, size)), np.zeros(0), curvature)


def entropy(domain: Polytope) -> Form:
    """The divergence of the negative entropy: Kullback-Leibler on the law, or the sum of them over a product."""
    k = domain.size
    if isinstance(domain, Simplex):
        return Form(np.eye(k), np.zeros(k), np.ones((1, k)), np.ones(1), simplex=True)
    if isinstance(domain, Cube):
        eye = np.eye(k) / domain.width
        shift = np.r_[np.full(k, -domain.low / domain.width), np.full(k, 1 / domain.width)]
        return Form(np.vstack([eye, -eye]), shift, np.zeros((0, k)), np.zeros(0))
    if isinstance(domain, Product):
        from scipy.linalg import block_diag

        parts = [entropy(factor) for factor in domain.factors]
        if all(part.exact for part in parts):
            return Form(
                block_diag(*[p.slope for p in parts]),
                np.concatenate([p.shift for p in parts]),
                block_diag(*[p.equal for p in parts]),
                np.concatenate([p.level for p in parts]),
            )
    if isinstance(domain, Hull) and domain.independent:
        points = domain.vertices()
        inverse = np.linalg.pinv(np.vstack([points.T, np.ones(len(points))]))
        normal = _normals(points)
        return Form(inverse[:, :-1], inverse[:, -1], normal, normal @ points[0], simplex=True)
    # Elsewhere the largest entropy with given moments is not a sum over an affine image of them, and its divergence
    # need not be jointly convex: the covariance of a law on the vertices is at most diameter^2 / 4 in every
    # direction.
    points = domain.vertices()
    return replace(squared(k, 4 / _diameter(points) ** 2), exact=False, points=points)


def _normals(points: np.ndarray) -> np.ndarray:
    """Orthonormal rows that are constant on the points' affine hull."""
    centred = points - points.mean(0)
    _, singular, rows = np.linalg.svd(centred)
    rank = int((singular > 1e-10 * max(1.0, singular.max(initial=0.0))).sum())
    return rows[rank:]


def _diameter(points: np.ndarray) -> float:
    gram = points @ points.T
    squares = np.diag(gram)
    return float(np.sqrt(max((squares[:, None] + squares - 2 * gram).max(), 0.0)))


@singledispatch
def form_of(surrogate: Surrogate, polytope: Polytope) -> Form:
    """The surrogate's divergence as a Form, or a jointly convex one below it. Register a new kind of surrogate here."""
    raise NotImplementedError(
        f"No convex form is known for the divergence of {type(surrogate).__name__}: register one with theory.form_of.register."
    )


@form_of.register
def _(surrogate: Quadratic, polytope: Polytope) -> Form:
    return squared(polytope.size, 1.0)


@form_of.register(MaxEntropy)
@form_of.register(CumulativeLink)
def _(surrogate: Any, polytope: Polytope) -> Form:
    return entropy(surrogate.domain)


@form_of.register
def _(surrogate: Listwise, polytope: Polytope) -> Form:
    """cap times Kullback-Leibler on the items' shares and the rest's, that is, on mu and cap - sum mu."""
    k, cap = surrogate._sizes()
    return Form(np.vstack([np.eye(k), -np.ones(k)]), np.append(np.zeros(k), cap), np.zeros((0, k)), np.zeros(0))


@form_of.register
def _(surrogate: Coordinatewise, polytope: Polytope) -> Form:
    margin, width = surrogate.phi_margin, 1 - surrogate.low
    if isinstance(margin, Square):
        return squared(polytope.size, 8 / width**2)
    cube = entropy(Cube(polytope.size, low=surrogate.low))
    if isinstance(margin, Logistic):
        return cube
    # The curvature of -2 sqrt(q(1-q)) is that of the negative entropy over 2 sqrt(q(1-q)) <= 1.
    if isinstance(margin, Exponential):
        return replace(cube, exact=False)
    return form_of.dispatch(object)(surrogate, polytope)


@form_of.register
def _(surrogate: Legendre, polytope: Polytope) -> Form:
    """A quadratic below h, its curvature the least that a sample of the domain shows: as good as the sample."""
    domain = surrogate.domain if surrogate.domain is not None else polytope
    rng = np.random.default_rng(0)
    vertices = domain.vertices()
    laws = np.vstack([rng.dirichlet(np.full(len(vertices), a), 200) for a in (0.3, 1.0, 5.0)])
    mu = 0.98 * laws @ vertices + 0.02 * vertices.mean(0)
    least = np.linalg.eigvalsh(surrogate.curvature(mu))[:, 0]
    worst = int(least.argmin())
    if least[worst] < -1e-6:
        raise ValueError(f"The potential is not convex: its curvature at {mu[worst]} is {least[worst]:.3g}.")
    curvature = max(0.99 * float(least[worst]), 0.0)
    points = None if surrogate.domain is None else vertices
    return replace(squared(polytope.size, curvature), exact=False, sampled=True, points=points)


@form_of.register
def _(surrogate: Mixture, polytope: Polytope) -> Form:
    """The parts' forms added up: w a' log(a' / a) is the term of w a' and w a."""
    parts = [(w, form_of(part, polytope)) for w, part in surrogate.terms]
    forms = [form for _, form in parts]
    fixed = max(forms, key=lambda form: len(form.equal))  # the parts with a domain share it
    return Form(
        np.vstack([w * form.slope for w, form in parts]),
        np.concatenate([w * form.shift for w, form in parts]),
        fixed.equal,
        fixed.level,
        sum(w * form.curvature for w, form in parts),
        exact=all(form.exact for form in forms),
        sampled=any(form.sampled for form in forms),
        points=next((form.points for form in forms if form.points is not None), None),
    )


# -- strong convexity ------------------------------------------------------------------------------------------------


def strong_convexity(surrogate: Surrogate, polytope: Polytope) -> dict[str, float]:
    """sigma for each norm in which h is known to be sigma-strongly convex on D: keys "l1", "l2", "linf"."""
    if isinstance(surrogate, MaxEntropy | CumulativeLink):
        return _entropy_convexity(surrogate.domain)  # type: ignore[arg-type]
    if isinstance(surrogate, Quadratic):
        return _spread(1.0, polytope.size)
    if isinstance(surrogate, Listwise):  # |x|_1 is the largest of the three norms
        return dict.fromkeys(("l1", "l2", "linf"), 1 / surrogate._sizes()[1])
    if isinstance(surrogate, Mixture):
        known = [(w, strong_convexity(part, polytope)) for w, part in surrogate.terms]
        return {
            norm: sum(w * part.get(norm, 0.0) for w, part in known) for norm in {n for _, part in known for n in part}
        }
    if isinstance(surrogate, Coordinatewise):
        bar = {Logistic: 4.0, Exponential: 4.0, Square: 8.0}.get(type(surrogate.phi_margin))
        if bar is not None:
            return _spread(bar / (1 - surrogate.low) ** 2, polytope.size)
    return {}


def _spread(sigma: float, size: int) -> dict[str, float]:
    """|x|_1^2 <= k |x|_2^2 and |x|_inf <= |x|_2."""
    return {"l1": sigma / size, "l2": sigma, "linf": sigma}


def _entropy_convexity(domain: Polytope) -> dict[str, float]:
    if isinstance(domain, Simplex):
        # Pinsker; in l2 the covariance of one-hot vectors is at most diameter^2 / 4 = 1/2; and |x|_inf <= |x|_1 / 2
        # for x that sums to zero.
        return {"l1": 1.0, "l2": 2.0, "linf": 4.0}
    if isinstance(domain, Cube):
        return _spread(4 / domain.width**2, domain.size)
    if isinstance(domain, Product):
        parts = [_entropy_convexity(factor) for factor in domain.factors]
        # (sum |x_i|_1)^2 <= (sum 1/sigma_i)(sum sigma_i |x_i|_1^2)
        harmonic = 1 / sum(1 / part["l1"] for part in parts)
        return {"l1": harmonic, **{n: min(part[n] for part in parts) for n in ("l2", "linf")}}
    return _spread(4 / _diameter(domain.vertices()) ** 2, domain.size)


DUAL = {"l1": "linf", "l2": "l2", "linf": "l1"}


# -- the pair --------------------------------------------------------------------------------------------------------


class Problem:
    """H_0(z), M and D for a loss and a surrogate, bound to each other.

    The loss is <psi(z), u> + offset(z); offsets that differ by output act as one more, constant, coordinate of u.
    """

    def __init__(self, loss: Any, surrogate: Any):
        loss = Loss.resolve(loss)
        loss, surrogate = matched(loss, surrogate)
        if not surrogate.calibrated:
            raise ValueError(
                f"{surrogate!r} is not phi-calibrated: its excess risk is no Bregman divergence, so zeta_h is not defined; "
                f"use a logistic, exponential or square margin."
            )
        if not surrogate.differentiable:
            raise ValueError(
                f"{surrogate!r} decides from its mixture over outputs and not from moments, so that zeta_h does not describe it; "
                "its calibration function is at least linear: see tl.theory.linear_calibration."
            )
        self.loss: Loss = loss
        self.surrogate: Surrogate = surrogate
        outputs = loss.outputs()
        self.outputs = outputs
        self.psi = np.asarray(loss.psi(outputs), dtype=float)
        self.offset = np.broadcast_to(np.asarray(loss.offset(outputs), dtype=float), (len(outputs),))
        if not (np.isfinite(self.psi).all() and np.isfinite(self.offset).all()):
            raise ValueError("The loss has costs that are not finite: replace them by finite costs.")
        self.polytope: Polytope = loss.polytope
        self.vertices = np.asarray(self.polytope.vertices(), dtype=float)
        self.table = self.psi @ self.vertices.T + self.offset[:, None]
        self.convexity = strong_convexity(self.surrogate, self.polytope)

    @cached_property
    def form(self) -> Form:
        return form_of(self.surrogate, self.polytope)

    @cached_property
    def reach(self) -> np.ndarray:
        """The largest excess of z over z' at a point of M; entry [z, z']."""
        return np.stack([(row - self.table).max(1) for row in self.table])

    @property
    def eps_max(self) -> float:
        """The largest excess that any output can have at a point of M."""
        return float((self.table - self.table.min(0)).max())

    def excess(self, z: int, u: np.ndarray) -> Any:
        """The excess Bayes risk of output z at moments u."""
        risks = u @ self.psi.T + self.offset
        return risks[..., z] - risks.min(-1)

    def divergence(self, u1: np.ndarray, u2: np.ndarray) -> Any:
        """D_h(u1, u2) of the surrogate itself."""
        if self.form.exact:
            return self.form.divergence(u1, u2)
        with np.errstate(all="ignore"):
            value = self.surrogate.divergence(np.asarray(u1, float), np.asarray(u2, float))
        return np.where(np.isnan(value), np.inf, value)

    def differences(self, norm: str) -> np.ndarray:
        """|psi(z) - psi(z')| in a norm, taken modulo what is constant on D; entry [z, z']."""
        d = self.psi[:, None, :] - self.psi[None, :, :]
        if norm == "l2":
            return np.linalg.norm(d @ self._tangent, axis=-1)
        blocks = self._blocks
        if norm == "linf" and blocks is not None:
            # Of d + c 1 on a block where u sums to a constant, the shortest has half the range.
            return np.max([np.ptp(d[..., b], axis=-1) / 2 for b in blocks], axis=0)
        return np.linalg.norm(d, ord={"linf": np.inf, "l1": 1}[norm], axis=-1)

    @cached_property
    def _tangent(self) -> np.ndarray:
        """The projection onto directions in which D extends."""
        domain = self.surrogate.domain
        if domain is None or domain.dimension == domain.size:
            return np.eye(self.psi.shape[1])
        normal = _normals(domain.vertices())
        return np.eye(self.psi.shape[1]) - normal.T @ normal

    @cached_property
    def _blocks(self) -> list[np.ndarray] | None:
        domain = self.surrogate.domain
        if isinstance(domain, Simplex):
            return [np.arange(domain.n)]
        if isinstance(domain, Product) and all(isinstance(f, Simplex) for f in domain.factors):
            return np.split(np.arange(domain.size), np.cumsum([f.size for f in domain.factors])[:-1])
        return None

    @cached_property
    def curvature(self) -> np.ndarray:
        """kappa[z, z'] with D_h(u', u) >= kappa/2 eps^2 whenever z is optimal at u and eps behind z' at u'.

        <psi(z) - psi(z'), u' - u> >= eps, so that |u' - u| >= eps / |psi(z) - psi(z')|_*; the best norm is taken.
        """
        best = np.zeros((len(self.psi), len(self.psi)))
        with np.errstate(divide="ignore"):
            for norm, sigma in self.convexity.items():
                best = np.maximum(best, sigma / self.differences(DUAL[norm]) ** 2)
        return best


def matched(loss: Loss, surrogate: Any) -> tuple[Loss, Surrogate]:
    """The loss in the first embedding that the surrogate takes, and the surrogate bound to it."""
    if isinstance(surrogate, str) and surrogate == "auto":
        return loss, automatic(loss.polytope).bind(loss.polytope)
    surrogate = Surrogate.resolve(surrogate)
    refusal: ValueError | None = None
    for variant in loss.variants():
        try:
            return variant, surrogate.bind(variant.polytope).bind_outputs(variant)
        except ValueError as error:
            refusal = refusal or error
    raise refusal  # type: ignore[misc]
