"""Each slip of the paper that the library departs from: what holds, and that the paper's version does not."""

import itertools

import numpy as np
import pytest

from taskloss.losses import Absolute, CostMatrix, Hamming
from taskloss.margins import Exponential, Logistic, ModifiedHuber, SquaredHinge
from taskloss.polytopes import Product, Simplex
from taskloss.surrogates import AllThresholds, CumulativeLink, Independent, MaxEntropy, Quadratic
from taskloss.surrogates.form import entropy as entropy_form
from taskloss.theory import calibration, margin_calibration


def entropy(q):
    return -q * np.log(q) - (1 - q) * np.log(1 - q)


def test_logistic_in_natural_logarithms():
    zeta = calibration(CostMatrix([[0, 1], [1, 0]], embedding="cube"), Independent("logistic"))
    for eps in (0.1, 0.5):
        assert zeta.numeric(eps).value == pytest.approx(np.log(2) - entropy((1 + eps) / 2), abs=1e-7)
        paper = 1 - entropy((1 + eps) / 2)
        assert abs(zeta(eps) - paper) > 0.3
        bits = entropy((1 + eps) / 2) / np.log(2)
        assert zeta(eps) / np.log(2) == pytest.approx(1 - bits)  # the paper's formula is right in base 2
    assert Logistic().value(np.array(0.0)) == pytest.approx(np.log(2))


@pytest.mark.parametrize("cost", [0.4, 0.8])
def test_binary_costs_tie_at_half_the_cost(cost):
    margin, eps = Logistic(), 0.2
    zeta = calibration(CostMatrix([[0, 2 - cost], [cost, 0]], embedding="cube"), Independent(margin))

    def divergence(a, b):
        return margin.potential(a) - margin.potential(b) - (a - b) * margin.potential_derivative(b)

    truths = np.array([(cost + eps) / 2, (cost - eps) / 2])
    engine = zeta.numeric(eps).value
    assert engine == pytest.approx(divergence(truths, np.array(cost / 2)).min(), abs=1e-7)
    assert abs(engine - divergence(truths, np.array(cost)).min()) > 5e-3


def test_binary_costs_leave_out_a_truth_that_is_no_probability():
    """For eps > c the paper's minimum counts (c - eps)/2 < 0; only the other sign is a law."""
    margin, cost, eps = "square", 0.4, 0.6
    zeta = calibration(CostMatrix([[0, 2 - cost], [cost, 0]], embedding="cube"), Independent(margin))
    found = zeta.exact(eps)
    assert (found.u_prime >= -1).all()
    assert zeta.numeric(eps).value == pytest.approx(found.value, abs=1e-7)


def test_exponential_canonical_link_increases():
    margin, q, step = Exponential(), np.array([0.1, 0.4, 0.9]), 1e-6
    slope = (margin.potential(q + step) - margin.potential(q - step)) / (2 * step)
    np.testing.assert_allclose(margin.potential_derivative(q), slope, rtol=1e-6)
    paper = (1 - 2 * q) / np.sqrt(q * (1 - q))
    np.testing.assert_allclose(paper, -slope, rtol=1e-6)
    inverse = (1 + slope / np.sqrt(4 + slope**2)) / 2
    np.testing.assert_allclose(inverse, q, rtol=1e-6)
    assert np.abs((1 - slope / np.sqrt(4 + slope**2)) / 2 - q).max() > 0.5


def test_modified_huber_excess():
    margin = ModifiedHuber()
    for q, v in itertools.product((0.1, 0.5, 0.8), (-3.0, -0.5, 0.0, 0.7, 2.0)):
        clipped = np.clip(v, -1, 1)
        scores = np.linspace(-4, 4, 80001)
        brute = q * margin.value(np.array(v)) + (1 - q) * margin.value(np.array(-v))
        brute -= (q * margin.value(scores) + (1 - q) * margin.value(-scores)).min()
        holds = (2 * q - 1 - clipped) ** 2 + 2 * abs(2 * q - 1 - clipped) * abs(v - clipped)
        assert holds == pytest.approx(brute, abs=1e-6)
    paper = (0.6 - 0) ** 2 + 2 * abs(0.6 - 0) * abs(0.8 - 0)
    assert paper == pytest.approx(1.32)
    assert margin.excess_risk(np.array(0.0), np.array(0.8)) == pytest.approx(0.36)


def test_squared_hinge_excess_as_printed():
    """This one is right as printed, beyond [-1, 1] as well."""
    margin, q = SquaredHinge(), 0.3
    v = np.linspace(-3, 3, 13)
    printed = (2 * q - 1 - v) ** 2 - q * np.maximum(v - 1, 0) ** 2 - (1 - q) * np.minimum(0, v + 1) ** 2
    np.testing.assert_allclose(margin.excess_risk(v, np.full_like(v, q)), printed, atol=1e-12)


# -- low noise -------------------------------------------------------------------------------------------------------


def random_margins(rng, n=6):
    """A discrete law over x with margins gamma(x), a set of errors, and the excess risk of those errors."""
    weights = rng.dirichlet(np.ones(n))
    gamma = rng.uniform(0.01, 1.0, n)
    errors = rng.uniform(size=n) < 0.5
    excess = gamma * rng.uniform(1.0, 1.3, n) * errors
    return weights, gamma, errors, excess


def test_tsybakov_lemma_has_the_exponent_of_hoelder():
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(300):
        weights, gamma, errors, excess = random_margins(rng)
        p = rng.uniform(0.2, 4)
        gamma_p = (weights @ gamma**-p) ** (1 / p)
        error, risk = weights @ errors, weights @ excess
        assert error <= gamma_p ** (p / (p + 1)) * risk ** (p / (p + 1)) + 1e-12
        broken += error > gamma_p ** (1 / (p + 1)) * risk ** (p / (p + 1))
    assert broken > 40


def test_low_noise_calibration_between_risks():
    """zeta^(p)(excess risk) <= surrogate excess risk, over laws of x; with the paper's exponents it can fail."""
    rng = np.random.default_rng(1)
    zeta = calibration(CostMatrix([[0, 1], [1, 0]], embedding="cube"), Independent())

    def paper(p, gamma_p, risk):
        inner = (risk / gamma_p) ** (1 / (p + 1)) / 2
        return (gamma_p * risk**p) ** (1 / (p + 1)) * float(margin_calibration(Logistic(), np.array(inner)))

    for _ in range(30):
        p, weights, gamma = rng.uniform(0.5, 6), rng.dirichlet(np.full(5, 0.3)), rng.uniform(0.02, 1.0, 5)
        wrong = rng.uniform(size=5) < 0.7
        if wrong.any():
            # the cheapest wrong score at each x is the tie: its surrogate excess is zeta(gamma)
            price = weights @ (wrong * margin_calibration(Logistic(), gamma))
            risk, gamma_p = weights @ (wrong * gamma), (weights @ gamma**-p) ** (1 / p)
            assert zeta.low_noise(p, gamma_p)(risk) <= price + 1e-9
    # every x with the same small margin, every prediction wrong
    gamma, p = 1e-3, 9.0
    price = float(margin_calibration(Logistic(), np.array(gamma)))
    assert zeta.low_noise(p, 1 / gamma)(gamma) <= price
    assert paper(p, 1 / gamma, gamma) > price


def test_small_o_does_not_make_the_norm_finite():
    """P(gamma <= e) = e^p / log(e/..) is o(e^p), and E gamma^-p is infinite: the noise lemma needs a little more."""
    tails = [
        np.trapezoid(1 / (t * np.log(np.e * t)), t) for t in (np.geomspace(1, top, 200001) for top in (1e4, 1e16, 1e64))
    ]
    # integral of p t^(p-1) P(gamma < 1/t) dt up to T is p log log(e T)-like: it keeps growing
    np.testing.assert_allclose(tails, np.log1p(np.log([1e4, 1e16, 1e64])), rtol=1e-3)
    assert tails[2] - tails[1] > 1.3


# -- quadratic surrogate and bounds ----------------------------------------------------------------------------------


def test_quadratic_formula_is_only_a_lower_bound():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(12):
        psi, phi = rng.normal(size=(3, 2)), rng.uniform(1, 2, (3, 2))
        zeta = calibration(CostMatrix(psi @ phi.T, embedding=phi), Quadratic())
        assert zeta.problem.polytope.dimension == 2  # full-dimensional, as the theorem asks
        eps = 0.05 * zeta.eps_max
        longest = max(((psi[a] - psi[b]) ** 2).sum() for a, b in itertools.combinations(range(3), 2))
        ratios.append(zeta(eps) / (eps**2 / (2 * longest)))
    assert min(ratios) >= 1 - 1e-6
    assert max(ratios) > 1.5
    around = calibration(Hamming(2), Quadratic())  # ties inside M: there the formula is exact
    assert around(0.1) == pytest.approx(0.1**2 / (2 * 0.5), rel=1e-6)


def test_difference_of_embeddings_is_up_to_four_times():
    psi = Hamming(3).psi(Hamming(3).outputs())
    longest = max(((a - b) ** 2).sum() for a in psi for b in psi)
    largest = (psi**2).sum(1).max()
    assert longest > 2 * largest * 1.5
    assert longest <= 4 * largest + 1e-12


# -- ordinal ---------------------------------------------------------------------------------------------------------


def test_ordinal_embedding_needs_a_strict_inequality():
    k = 5
    labels = np.arange(1, k + 1)
    absolute = np.abs(labels[:, None] - labels)
    for strict, right in ((True, True), (False, False)):
        at = labels[:, None] > np.arange(1, k) if strict else labels[:, None] >= np.arange(1, k)
        phi = 2.0 * at - 1
        assert np.array_equal((k - 1) / 2 - phi @ phi.T / 2, absolute) == right
    np.testing.assert_array_equal(Absolute(k, embedding="cube").table, 2.0 * (labels[:, None] > np.arange(1, k)) - 1)


def test_cumulative_link_decodes_the_other_way_round():
    loss, surrogate = Absolute(5), CumulativeLink("logit", 5)
    v = np.sort(np.random.default_rng(0).normal(size=(200, 4)), axis=1)
    decoded = loss.decode(surrogate.inverse_link(v))
    np.testing.assert_array_equal(decoded, (v < 0).sum(1))
    assert (decoded != (v >= 0).sum(1)).mean() > 0.5


def test_cumulative_link_scores_must_be_ordered():
    surrogate = CumulativeLink("logit", 4)
    v = np.array([[1.0, 0.0, 2.0]])
    assert not np.isfinite(surrogate.value(v, np.eye(4)[[1]])).all()
    assert np.isfinite(surrogate.value(np.sort(v), np.eye(4)[[1]])).all()


def test_counting_thresholds_is_not_decoding_off_the_polytope():
    """1 + sum 1(v_j >= 0) is the argmin only where the moments are in order; H_0(1) is larger than an orthant."""
    loss = Absolute(3, embedding="cube")
    u = np.array([[-0.5, 0.3]])
    assert loss.decode(u)[0] == 0
    assert (u >= 0).sum() == 1
    ordered = -np.sort(-np.random.default_rng(0).uniform(-1, 1, (100, 2)), axis=1)
    np.testing.assert_array_equal(loss.decode(ordered), (ordered > 0).sum(1))


def test_all_thresholds_beat_cumulative_link():
    for eps in (0.1, 1.0, 3.0):
        at, cl = calibration(Absolute(5), AllThresholds())(eps), calibration(Absolute(5), CumulativeLink())(eps)
        assert at == pytest.approx(4 * cl)


# -- matching and random fields --------------------------------------------------------------------------------------


def permutations(m):
    return np.array([np.eye(m)[list(p)].ravel() for p in itertools.permutations(range(m))])


@pytest.mark.parametrize("m", [2, 3, 4])
def test_matching_dimensions(m):
    vertices = permutations(m)
    assert np.linalg.matrix_rank(vertices - vertices.mean(0)) == (m - 1) ** 2
    rows = Product([Simplex(m)] * m)
    assert rows.dimension == m**2 - m
    k = m**2
    assert (m - 1) ** 2 != k**2 - 2 * k + 1
    assert m**2 - m != k**2 - k


@pytest.mark.parametrize("m", [5, 6, 8])
def test_matching_bound_of_the_paper_fails_from_five_on(m):
    eps, here, there = 0.1, np.eye(m), np.roll(np.eye(m), 1, axis=1)
    truth, estimate = (1 - eps) / 2 * here + (1 + eps) / 2 * there, (here + there) / 2
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-estimate)
    assert estimate[rows, columns].sum() == pytest.approx((here * estimate).sum())  # the identity is optimal at u
    assert ((there - here) * truth).sum() / m == pytest.approx(eps)  # and eps behind at u'
    divergence = float(entropy_form(Product([Simplex(m)] * m)).divergence(truth.ravel(), estimate.ravel()))
    assert divergence == pytest.approx(m * float(margin_calibration(Logistic(), np.array(eps))))
    assert m * eps**2 / 8 <= divergence < m**2 * eps**2 / 8
    if m == 6:
        assert divergence == pytest.approx(0.0301, abs=1e-4)


def test_sum_of_row_entropies_is_one_over_m_strongly_convex():
    m = 6
    surrogate = MaxEntropy(Product([Simplex(m)] * m))
    rng = np.random.default_rng(0)
    a, b = (rng.dirichlet(np.ones(m), (50, m)).reshape(50, -1) for _ in range(2))
    distance = np.abs(a - b).sum(1) ** 2
    assert (surrogate.divergence(a, b) >= distance / (2 * m)).all()
    assert (surrogate.divergence(a, b) < distance / 2).any()


def test_random_field_is_written_with_phi():
    loss, rng = Hamming(2), np.random.default_rng(0)
    outputs = loss.outputs()
    phi, psi = loss.phi(outputs), loss.psi(outputs)
    surrogate = MaxEntropy(loss.polytope)
    v, q = rng.normal(size=2), rng.dirichlet(np.ones(4))

    def risk(features, scores):
        return np.log(np.exp(features @ scores).sum()) - (q @ features) @ scores

    np.testing.assert_allclose(
        surrogate.value(np.tile(v, (4, 1)), phi), [np.log(np.exp(phi @ v).sum()) - f @ v for f in phi], atol=1e-12
    )
    best = surrogate.link(q @ phi)
    trials = best + rng.normal(scale=0.3, size=(100, 2))
    assert (np.array([risk(phi, t) for t in trials]) >= risk(phi, best)).all()
    assert (np.array([risk(psi, t) for t in trials]) < risk(psi, best)).any()


def test_covariance_of_a_random_field_is_at_most_a_quarter_of_the_squared_diameter():
    """Tighter than the paper's max |phi|^2: h is 4 / diameter^2-strongly convex."""
    zeta = calibration(Absolute(4, embedding="cube"), MaxEntropy())
    phi = zeta.problem.vertices
    diameter = max(np.linalg.norm(a - b) for a in phi for b in phi)
    assert zeta.problem.convexity["l2"] == pytest.approx(4 / diameter**2)
    assert 4 / diameter**2 >= 1 / (phi**2).sum(1).max()
    rng = np.random.default_rng(0)
    a, b = (rng.dirichlet(np.ones(4), 200) @ phi for _ in range(2))
    assert (zeta.problem.divergence(a, b) >= 2 / diameter**2 * ((a - b) ** 2).sum(1) - 1e-12).all()
