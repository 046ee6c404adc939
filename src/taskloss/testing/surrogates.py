"""Laws of surrogates, against finite differences and the definition of a representation by a potential and a link."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import dirichlet
from sklearn.base import clone

from ..polytopes.base import Polytope
from ..surrogates.base import Surrogate
from .running import Law, applies, close, holds, run

TOLERANCE = 1e-7


def domain_of(part: Surrogate) -> Polytope:
    """A polytope of moments to sample from, also for surrogates with D = R^k."""
    return part.example_domain


def moments(part: Surrogate, rng: Any, rows: int = 6) -> np.ndarray:
    """Random points in the interior of the domain."""
    vertices = domain_of(part).vertices()
    return dirichlet.rvs(np.full(len(vertices), 2.0), rows, random_state=rng) @ vertices


def scores(part: Surrogate, rng: Any, rows: int = 6) -> np.ndarray:
    """Random scores, sorted for surrogates of ordered scores."""
    v = rng.normal(scale=1.5, size=(rows, part.size or domain_of(part).size))
    return np.sort(v, axis=-1) if part.ordered else v


def numeric_gradient(function: Callable[[np.ndarray], np.ndarray], v: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Fourth-order central differences."""
    out = np.empty_like(v)
    for j in range(v.shape[1]):
        e = np.zeros_like(v)
        e[:, j] = step
        near, far = function(v + e) - function(v - e), function(v + 2 * e) - function(v - 2 * e)
        out[:, j] = (8 * near - far) / (12 * step)
    return out


def _off_kinks(part: Surrogate, v: np.ndarray) -> np.ndarray:
    """Scores moved away from the kinks at -1 and 1 of margins that are not calibrated."""
    return v if part.calibrated else np.where(np.abs(np.abs(v) - 1) < 0.05, v + 0.1, v)


def gradient(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """The gradient equals finite differences of the value, at moments and at labels."""
    rng = np.random.default_rng(0)
    v = _off_kinks(part, scores(part, rng))
    for phi in (moments(part, rng), domain_of(part).vertices()[rng.integers(0, 2, 6)]):
        numeric = numeric_gradient(lambda u, phi=phi: part.value(u, phi), v)  # type: ignore[misc]
        close(part.gradient(v, phi), numeric, "the gradient", rtol=tolerance, atol=tolerance)


def hessian(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """Hessian products equal finite differences of the gradient, and what is made of a known gradient equals them."""
    applies(part.smooth, "there is no second derivative")
    rng = np.random.default_rng(1)
    v, phi = _off_kinks(part, scores(part, rng)), moments(part, rng)
    product, step = part.hessian(v, phi), 1e-5
    curved = (part.diagonal if part.separable else part.hessian_matrices)(v, phi, part.gradient(v, phi))
    for u in rng.normal(size=(2, *v.shape)):
        along = curved * u if part.separable else np.einsum("...ij,...j->...i", curved, u)
        close(along, product(u), "the second derivative of a known gradient", rtol=1e-4, atol=1e-5)
        numeric = (part.gradient(v + step * u, phi) - part.gradient(v - step * u, phi)) / (2 * step)
        close(product(u), numeric, "the Hessian's product", rtol=1e-4, atol=1e-5)


def constancy(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """h is equal at all labels, where the surrogate declares it."""
    applies(part.constant_on_vertices, "h may differ between labels")
    values = part.potential(domain_of(part).vertices())
    close(values, np.full_like(values, values[0]), "h at the vertices", atol=1e-12)


def canonical_form(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """The canonical form is canonical and keeps the divergence."""
    applies(part.calibrated, "it has no canonical form")
    form, rng = part.canonical_form(), np.random.default_rng(15)
    holds(form.canonical, "canonical_form() is not canonical")
    holds(form is part or not part.canonical, "a canonical surrogate is its own canonical form")
    mu, nu = moments(part, rng), moments(part, rng)
    close(form.divergence(mu, nu), part.divergence(mu, nu), "the divergence of the canonical form", rtol=1e-9)


def links(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """inverse_link inverts link."""
    mu = moments(part, np.random.default_rng(2))
    if part.smooth:
        close(part.inverse_link(part.link(mu)), mu, "inverse_link(link(mu))", atol=1e-7)
    else:
        holds(np.isin(part.link(mu), [-1.0, 0.0, 1.0]), "the link of a hinge is -1, 0 or 1")


def sign(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """S is zero at the link of its own moments, and nowhere negative."""
    rng = np.random.default_rng(3)
    mu, v = moments(part, rng), scores(part, rng)
    holds(part.value(v, mu) >= -1e-9, f"S is {part.value(v, mu).min():.3g} somewhere")
    close(part.value(part.link(mu), mu), np.zeros(len(mu)), "S at the link of its own moments", atol=1e-8)


def labels(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """Along the link of moments that tend to a label, S tends to zero."""
    domain = domain_of(part)
    phi = domain.vertices()[:2]
    values = [part.value(part.link((1 - d) * phi + d * domain.center()), phi).max() for d in (1e-2, 1e-4, 1e-6)]
    holds(values[0] >= values[1] >= values[2], f"S does not fall towards a label: {values}")
    holds(values[2] < 1e-2, f"S is {values[2]:.3g} near a label")


def representation(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """S(v, mu) is the Bregman divergence of h between mu and the moments of v; without calibration, at links only."""
    rng = np.random.default_rng(4)
    applies(part.smooth, "a hinge has no divergence")
    mu, nu = moments(part, rng), moments(part, rng)
    rough = max(1e-9, 0.1 * tolerance if tolerance > TOLERANCE else 0.0)
    close(part.value(part.link(nu), mu), part.divergence(mu, nu), "S(link(nu), mu)", rtol=rough, atol=rough)
    if part.calibrated:
        v = scores(part, rng)
        there = part.inverse_link(v)
        if part.canonical:  # v is a gradient of h at its moments, the only one where h is differentiable
            gap = part.potential(mu) - part.potential(there) - ((mu - there) * v).sum(-1)
            close(part.value(v, mu), gap, "S(v, mu)", rtol=1e-6, atol=1e-7)
        if part.differentiable:
            close(part.value(v, mu), part.divergence(mu, there), "S(v, mu)", rtol=1e-6, atol=1e-7)


def one_score(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """Two scores with the same moments give the same value everywhere if and only if h is differentiable."""
    applies(part.calibrated and part.canonical, "scores are gradients of h for canonical links alone")
    rng = np.random.default_rng(13)
    v, mu = 0.3 * scores(part, rng, 200), moments(part, rng, 200)
    there = part.inverse_link(v)
    same = np.allclose(part.value(v, mu), part.value(part.link(there), mu), rtol=1e-5, atol=1e-6)
    holds(
        same == part.differentiable,
        f"differentiable is {part.differentiable}, and the values are {'' if same else 'not '}the same",
    )


def convexity(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """S is convex in the scores."""
    applies(part.convex, "it is not convex, and says so")
    rng = np.random.default_rng(5)
    a, b, phi = scores(part, rng, 50), scores(part, rng, 50), domain_of(part).vertices()[rng.integers(0, 2, 50)]
    middle = part.value((a + b) / 2, phi)
    holds(middle <= (part.value(a, phi) + part.value(b, phi)) / 2 + 1e-9, "S between two scores is above its chord")


def large_scores(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """Scores of 1e4 give finite gradients, and values that are not NaN."""
    size = part.size or 3
    v = 1e4 * np.array([np.linspace(-1, 1, size), np.linspace(0.5, 1, size), np.linspace(-1, -0.5, size)])
    if tolerance > TOLERANCE and part.domain is not None:
        v = v / 1e3  # a numerical inverse link is limited by the precision of the potential
    phi = domain_of(part).vertices()[:3]
    with np.errstate(over="raise", invalid="raise"):
        value, slope = part.value_and_gradient(v, np.resize(phi, (3, phi.shape[1])))
    holds(np.isfinite(slope), "the gradient is not finite")
    holds(np.isfinite(value) | part.ordered, "the value is not finite")
    holds(~np.isnan(value), "the value is NaN")


def copies(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """Pickles and clones are equal to the surrogate."""
    applies(type(part).__module__ in sys.modules, "its class is in no module, from which a pickle could take it")
    holds(pickle.loads(pickle.dumps(part)) == part, "a pickle is another surrogate")
    holds(clone(part) == part, "a clone is another surrogate")


def single_precision(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """Scores in single precision give results in single precision, close to those in double."""
    applies(tolerance <= TOLERANCE, "its differences need double precision")
    rng = np.random.default_rng(6)
    v, phi = scores(part, rng), moments(part, rng)
    value, slope = part.risk_and_gradient(v.astype(np.float32), phi.astype(np.float32))
    holds(value.dtype == slope.dtype == np.float32, f"single precision becomes {value.dtype} and {slope.dtype}")
    exact = part.risk_and_gradient(v, phi)
    close(value, exact[0], "the value in single precision", rtol=2e-4, atol=2e-4)
    close(slope, exact[1], "the gradient in single precision", rtol=2e-3, atol=2e-4)


def affinity(part: Surrogate, tolerance: float = TOLERANCE) -> None:
    """S less h(phi) is affine in phi, up to a term free of v: soft labels average."""
    rng = np.random.default_rng(7)
    v = scores(part, rng)
    a, b = moments(part, rng), moments(part, rng)
    ends = [part.risk_and_gradient(v, phi)[0].sum(-1) for phi in (a, b, (a + b) / 2)]
    close(ends[2], (ends[0] + ends[1]) / 2, "the risk between two moments", rtol=1e-9)


LAWS: dict[str, Law] = {
    "gradient": gradient,
    "hessian": hessian,
    "constancy": constancy,
    "canonical form": canonical_form,
    "links": links,
    "sign": sign,
    "labels": labels,
    "representation": representation,
    "one score": one_score,
    "convexity": convexity,
    "large scores": large_scores,
    "copies": copies,
    "single precision": single_precision,
    "affinity": affinity,
}


def check_surrogate(surrogate: Any, *, tolerance: float = TOLERANCE) -> dict[str, str]:
    """Check a user-defined surrogate against the laws of surrogates; results as those of `check_loss`.

    Parameters
    ----------
    surrogate : a surrogate, with its size where it has one.
    tolerance : of gradients against finite differences; a surrogate that uses numerical derivatives needs a larger one,
        which also skips single precision and the largest scores.
    """
    return run(Surrogate.resolve(surrogate), LAWS, tolerance=tolerance)
