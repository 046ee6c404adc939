"""Laws that every surrogate assert_obeys."""

import numpy as np
import pytest
from tests.parts import assert_obeys, every_law, every_surrogate, examples, label

from taskloss import losses
from taskloss.margins import Margin
from taskloss.polytopes import Cube, Hull, Product, Simplex
from taskloss.surrogates import (
    AllThresholds,
    CumulativeLink,
    Independent,
    Legendre,
    MaxEntropy,
    Mixture,
    Multinomial,
    OneVsAll,
    Quadratic,
    Surrogate,
    automatic,
)
from taskloss.surrogates.base import first_fit
from taskloss.surrogates.legendre import negative_entropy
from taskloss.testing.surrogates import LAWS, TOLERANCE, domain_of, moments, scores


def is_kinked(part):
    return isinstance(getattr(part, "phi_margin", None), Margin) and not part.calibrated


@every_surrogate
@every_law(LAWS)
def test_laws(part, law):
    assert_obeys(law, part, tolerance=1e-5 if isinstance(part, Legendre) else TOLERANCE)


@pytest.mark.parametrize(
    "part", [Independent("exponential", 3), OneVsAll("square", 3), CumulativeLink("probit", 4)], ids=label
)
def test_the_base_derives_value_and_gradient_from_potential_and_links(part):
    rng = np.random.default_rng(2)
    v, phi = scores(part, rng), moments(part, rng)
    value, gradient = Surrogate.value_and_gradient(_Bare(part), v, phi)
    np.testing.assert_allclose(value, part.value(v, phi), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, part.gradient(v, phi), rtol=1e-6, atol=1e-7)


class _Bare(Surrogate):
    """Another surrogate's potential and links, and no more."""

    canonical = False

    def __init__(self, part):
        self.potential, self.potential_gradient = part.potential, part.potential_gradient
        self.link, self.inverse_link = part.link, part.inverse_link


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_a_label_sees_its_own_thresholds_only(link):
    """The short way at labels agrees with the one for any moments, which 1e-300 of another label asks for."""
    part, rng = CumulativeLink(link, 5), np.random.default_rng(8)
    v, phi = scores(part, rng, 40), np.eye(5)[rng.integers(0, 5, 40)]
    nearly = np.where(phi == 1, 1 - 1e-16, 1e-300)
    for short, long in zip(part.risk_and_gradient(v, phi), part.risk_and_gradient(v, nearly), strict=True):
        np.testing.assert_allclose(short, long, rtol=1e-9, atol=1e-12)


uncalibrated = [(name, part) for name, part in examples(Surrogate) if not part.calibrated]


@pytest.mark.parametrize("part", [p for _, p in uncalibrated], ids=[n for n, _ in uncalibrated])
def test_margins_that_are_not_calibrated_break_the_representation_beyond_the_link(part):
    v = np.full((1, part.size), 3.0)
    mu = domain_of(part).center()[None]
    assert not np.allclose(part.value(v, mu), part.divergence(mu, part.inverse_link(v)))


# -- what the docstrings say is equal ----------------------------------------------------------------------------------


def assert_same(first, second, v, phi, scale=1.0, psi=None):
    """S_1(v, phi) = S_2(v scale, psi)."""
    psi = phi if psi is None else psi
    one, two = first.value_and_gradient(v, phi), second.value_and_gradient(v * scale, psi)
    np.testing.assert_allclose(one[0], two[0], atol=1e-7)
    np.testing.assert_allclose(one[1], two[1] * scale, atol=1e-7)


def test_equalities():
    rng = np.random.default_rng(8)
    v = rng.normal(size=(5, 3))
    one_hot = np.eye(3)[[0, 1, 2, 1, 0]]
    signs = np.sign(rng.normal(size=(5, 3)))
    assert_same(Multinomial(3), MaxEntropy(Simplex(3)), v, one_hot)
    assert_same(OneVsAll("logistic", 3), MaxEntropy(Cube(3, low=0)), v, one_hot)
    assert_same(Independent("logistic", 3), MaxEntropy(Cube(3)), v, signs, scale=0.5)
    assert_same(AllThresholds("exponential", 4), Independent("exponential", 3), v, signs)
    assert_same(Legendre(negative_entropy, Simplex(3)), Multinomial(3), v, one_hot)
    assert_same(Legendre(), Quadratic(), v, signs)
    product = MaxEntropy(Product([Simplex(3), Simplex(3)]))
    rows = rng.normal(size=(5, 6))
    both = np.hstack([one_hot, one_hot[::-1]])
    parts = Multinomial(3).value(rows[:, :3], one_hot) + Multinomial(3).value(rows[:, 3:], one_hot[::-1])
    np.testing.assert_allclose(product.value(rows, both), parts)
    # On affinely independent points maximum entropy is a multinomial in other coordinates.
    points = 2.0 * np.tri(4, 3, -1) - 1
    hull = MaxEntropy(Hull(points))
    np.testing.assert_allclose(
        hull.value(v, points[[0, 1, 2, 3, 0]]), Multinomial(4).value(v @ points.T, np.eye(4)[[0, 1, 2, 3, 0]])
    )
    # Two classes: the cumulative logit is logistic regression on P(Y <= 0).
    binary = CumulativeLink("logit", 2).value(v[:, :1], np.eye(2)[[0, 1, 0, 1, 1]])
    np.testing.assert_allclose(binary, np.logaddexp(0, np.where([1, 0, 1, 0, 0], -v[:, 0], v[:, 0])))


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_cumulative_link_against_scipy(link):
    from scipy import stats

    cdf = {"logit": stats.logistic.cdf, "probit": stats.norm.cdf, "cloglog": lambda v: 1 - np.exp(-np.exp(v))}[link]
    v = np.sort(np.random.default_rng(9).normal(size=(20, 4)), axis=1)
    q = np.diff(cdf(v), axis=1, prepend=0, append=1)
    np.testing.assert_allclose(CumulativeLink(link, 5).inverse_link(v), q, atol=1e-12)
    # Deep in a tail the difference of two nearly equal numbers keeps its digits.
    tail = np.array([[-31.0, -30.0, 0.0, 30.0]]) if link == "logit" else np.array([[-9.0, -8.5, 0.0, 1.0]])
    tiny = CumulativeLink(link, 5).inverse_link(tail)[0, 1]
    exact = {
        "logit": np.exp(-30) - np.exp(-31),
        "probit": stats.norm.cdf(-8.5) - stats.norm.cdf(-9),
        "cloglog": np.exp(-8.5) - np.exp(-9),
    }[link]
    assert tiny == pytest.approx(exact, rel=1e-3)


def test_cumulative_scores_out_of_order_are_put_back():
    from sklearn.isotonic import isotonic_regression

    part = CumulativeLink("logit", 5)
    v = np.random.default_rng(10).normal(size=(30, 4))
    ordered = np.array([isotonic_regression(row) for row in v])
    np.testing.assert_allclose(part.inverse_link(v), part.inverse_link(ordered), atol=1e-12)
    assert np.isinf(part.value(np.array([[1.0, 0.0, 2.0, 3.0]]), np.eye(5)[[1]])).all()


def test_cumulative_decoding_counts_thresholds_below_one_half():
    """1 + sum 1(P(Y <= j) < 1/2): the paper has the inequality, which is all-thresholds', the other way round."""
    part, loss = CumulativeLink("logit", 5), losses.Absolute(5)
    v = np.sort(np.random.default_rng(11).normal(size=(40, 4)), axis=1)
    z = loss.decode(part.inverse_link(v))
    np.testing.assert_array_equal(z, (v < 0).sum(1))
    assert not np.array_equal(z, (v >= 0).sum(1))


# -- binding --------------------------------------------------------------------------------------------------------------


def test_automatic_choice_and_binding():
    assert automatic(Simplex(4)) == Multinomial()
    assert automatic(Cube(4)) == Independent()
    assert automatic(losses.Absolute(4, embedding="cube").polytope) == Independent()
    assert automatic(Hull([[0.0, 2.0], [1.0, 0.0]])) == Quadratic()
    assert Multinomial().bind(Simplex(4)).n_classes == 4
    assert OneVsAll().bind(Simplex(4)).n_classes == 4
    assert AllThresholds().bind(losses.Absolute(4, embedding="cube").polytope).n_classes == 4
    assert CumulativeLink("probit").bind(Simplex(4)).size == 3
    assert MaxEntropy().bind(Cube(2)).domain == Cube(2)


def test_what_visibly_does_not_fit_is_refused():
    """Embeddings are tried in turn, and passed over where `fits` says no: there binding would have refused."""
    polytopes = [Simplex(3), Cube(3), Cube(3, low=0.0), losses.Absolute(4, embedding="cube").polytope]
    refused = 0
    for _, surrogate in examples(Surrogate):
        for polytope in polytopes:
            if not surrogate.fits(polytope):
                refused += 1
                with pytest.raises(ValueError):
                    surrogate.bind(polytope)
    assert refused > 0


def test_the_first_embedding_that_fits_is_taken_and_what_the_first_of_all_lacks_is_said():
    variants = losses.Absolute(4).variants(thresholds=True)
    assert [variant.polytope.name for variant in variants] == ["simplex", "hull"]
    assert first_fit(variants, "multinomial")[0] is variants[0]
    assert first_fit(variants, "all-thresholds")[0] is variants[1]
    with pytest.raises(ValueError, match="embedding 4;"):  # the simplex, which comes first
        first_fit(variants, Independent("logistic", 7))


@pytest.mark.parametrize(
    ("surrogate", "polytope"),
    [
        (Multinomial(), Cube(3)),
        (Multinomial(4), Simplex(3)),
        (Independent(), Simplex(3)),
        (OneVsAll(), Cube(3)),
        (Independent("logistic", 2), Cube(3)),
        (CumulativeLink(), Cube(3)),
        (MaxEntropy(Simplex(3)), Cube(3)),
        (Multinomial(), Cube(50)),
    ],
)
def test_a_surrogate_that_does_not_fit_says_so(surrogate, polytope):
    with pytest.raises(ValueError, match="does not fit this loss"):
        surrogate.bind(polytope)


def test_a_potential_that_is_not_convex_says_so():
    with pytest.raises(ValueError, match="not convex"):
        Legendre(lambda u: -(u**2).sum(-1)).inverse_link(np.ones((1, 2)))


def test_unbound_maximum_entropy_says_so():
    with pytest.raises(ValueError, match="no size yet"):
        MaxEntropy().value(np.zeros((1, 2)), np.zeros((1, 2)))


def test_legendre_reaches_far_scores_and_its_curvature_is_the_potentials():
    part = Legendre(negative_entropy, Simplex(3))
    v = 8 * np.random.default_rng(12).normal(size=(50, 3))
    np.testing.assert_allclose(part.inverse_link(v), Multinomial(3).inverse_link(v), atol=1e-9)
    mu = np.array([[0.2, 0.3, 0.5], [0.9, 0.09, 0.01]])
    # Within the plane sum = 0 the Hessian diag(1 / mu) has these eigenvalues, whatever the basis.
    plane = np.linalg.svd(np.ones((1, 3)))[2][1:]
    exact = np.linalg.eigvalsh(plane @ (np.eye(3) / mu[:, None]) @ plane.T)
    np.testing.assert_allclose(np.linalg.eigvalsh(part.curvature(mu)), exact, rtol=1e-3)


def test_mixture_of_one_part_is_that_part():
    rng = np.random.default_rng(0)
    for part in (Multinomial(3), MaxEntropy(Cube(2)), OneVsAll("exponential", 3), Quadratic()):
        mixed = Mixture([part], [1.0])
        mu, nu = moments(part, rng), moments(part, rng)
        np.testing.assert_allclose(mixed.divergence(mu, nu), part.divergence(mu, nu), atol=1e-12)
        np.testing.assert_allclose(mixed.link(mu), part.potential_gradient(mu))
        if part.canonical:
            np.testing.assert_allclose(mixed.inverse_link(part.link(mu)), mu, atol=1e-9)


def test_mixture_sentences():
    with pytest.raises(ValueError, match="weights must be one positive number for each of the 2 parts"):
        Mixture(["quadratic", "multinomial"], [1.0]).bind(Simplex(3))
    with pytest.raises(ValueError, match="one positive number"):
        Mixture(["quadratic", "multinomial"], [1.0, -1.0]).bind(Simplex(3))
    with pytest.raises(ValueError, match="must share their domain"):
        Mixture([Multinomial(3), OneVsAll("logistic", 3)]).bind(Simplex(3))


@pytest.mark.parametrize("scale", [1, 10, 30, 100, 300])
def test_moments_of_large_scores_are_found_at_the_faces_of_the_domain(scale):
    """A mixture's numeric inverse link beside softmax, and beside bisection in each coordinate of a cube."""
    v = scale * np.random.default_rng(9).normal(size=(40, 3))
    alone = Mixture([MaxEntropy(Simplex(3))], [1.0]).inverse_link(v)
    np.testing.assert_allclose(alone, Simplex(3).marginals(v), atol=1e-6)
    part = Mixture([MaxEntropy(Cube(3)), Quadratic()], [1.0, 0.5])
    low, high = np.full(v.shape, -1.0), np.full(v.shape, 1.0)
    for _ in range(45):
        middle = (low + high) / 2
        below = np.arctanh(middle) + 0.5 * middle < v
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    np.testing.assert_allclose(part.inverse_link(v), (low + high) / 2, atol=2e-5)
