"""Decompositions, the phi-calibration check, learning bounds and the comparison with Osokin et al."""

import itertools

import numpy as np
import pytest
from tests.parts import label

from taskloss.losses import Absolute, Abstain, CostMatrix, Hamming, Loss, Squared, ZeroOne
from taskloss.margins import Exponential, Hinge, Logistic, ModifiedHuber, Square, SquaredHinge
from taskloss.polytopes import Cube, Simplex
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
)
from taskloss.surrogates.legendre import negative_entropy, negative_hellinger
from taskloss.theory import asgd_bound, calibration, check, decompose, osokin_comparison, sample_size

# -- decompose -------------------------------------------------------------------------------------------------------


def small_losses():
    out = []
    for kind in Loss.registry.values():
        for loss in kind.examples():
            try:
                if loss.matrix().size <= 1024:
                    out.append(pytest.param(loss, id=label(loss)[:60]))
            except (NotImplementedError, ValueError):
                continue
    return out


@pytest.mark.parametrize("loss", small_losses())
def test_decomposition_is_the_loss_in_the_least_dimension(loss):
    matrix = loss.matrix()
    d = decompose(matrix)
    np.testing.assert_allclose(d.matrix, matrix, atol=1e-9 * max(1, np.abs(matrix).max()))
    ranks = [np.linalg.matrix_rank(matrix - c, tol=1e-8) for c in np.append(np.linspace(-3, 3, 61), d.constant)]
    assert d.k == min(ranks)
    assert d.r == np.linalg.matrix_rank(matrix - matrix.mean(1, keepdims=True), tol=1e-8)
    assert d.full_dimensional == (d.r == d.k)
    assert d.balance_gap <= 1e-3 * max(1.0, d.c_psi["l2"] * d.c_phi["l2"])
    for rows, norms in ((d.psi, d.c_psi), (d.phi, d.c_phi)):
        for name, order in (("l1", 1), ("l2", 2), ("linf", np.inf)):
            assert norms[name] == pytest.approx(max(np.linalg.norm(row, order) for row in rows))


def test_known_decompositions():
    assert (decompose(ZeroOne(5).matrix()).k, decompose(ZeroOne(5).matrix()).constant) == (4, pytest.approx(0.8))
    assert decompose(ZeroOne(5).matrix(), constant=1.0).k == 5
    hamming = decompose(Hamming(4).matrix())
    assert (hamming.k, hamming.r, hamming.constant) == (4, 4, pytest.approx(0.5))
    absolute = decompose(Absolute(6).matrix())
    assert (absolute.k, absolute.constant) == (5, pytest.approx(2.5))
    assert decompose(Squared(6).matrix()).r == 2  # z^2 - 2 z y + y^2 is affine in (y, y^2)
    assert decompose(Abstain(4, 0.3).matrix()).r == 3


@pytest.mark.parametrize("seed", range(3))
def test_balance_is_the_gamma_2_norm(seed):
    """No other factorisation in the same dimension does better; the semidefinite program agrees where it is at hand."""
    matrix = np.random.default_rng(seed).uniform(0, 1, (5, 4))
    d, plain = decompose(matrix), decompose(matrix, balance=False)
    product = d.c_psi["l2"] * d.c_phi["l2"]
    assert d.c_psi["l2"] == pytest.approx(d.c_phi["l2"])
    assert product <= plain.c_psi["l2"] * plain.c_phi["l2"] + 1e-9
    rng = np.random.default_rng(0)
    for _ in range(200):
        a = np.eye(d.k) + 0.1 * rng.normal(size=(d.k, d.k))
        psi, phi = d.psi @ a, d.phi @ np.linalg.inv(a).T
        assert np.linalg.norm(psi, axis=1).max() * np.linalg.norm(phi, axis=1).max() >= product - d.balance_gap - 1e-9
    cp = pytest.importorskip("cvxpy")
    gram = cp.Variable((9, 9), PSD=True)
    program = cp.Problem(cp.Minimize(cp.max(cp.diag(gram))), [gram[:5, 5:] == matrix - d.constant])
    program.solve(solver=cp.CLARABEL)
    assert product == pytest.approx(program.value, rel=1e-4)


def test_decomposition_as_a_loss():
    matrix = np.random.default_rng(0).uniform(0, 1, (4, 3))
    loss = decompose(matrix).loss()
    np.testing.assert_allclose(loss.matrix(), matrix)
    np.testing.assert_allclose(
        loss.psi(loss.outputs()) @ loss.phi(loss.labels()).T + np.reshape(loss.constant, (-1, 1)), matrix
    )


def test_decompose_sentences():
    with pytest.raises(ValueError, match="NaN or infinite"):
        decompose([[0, np.nan], [1, 0]])
    with pytest.raises(ValueError, match="two dimensions"):
        decompose([1.0, 2.0])


# -- check -----------------------------------------------------------------------------------------------------------


def crammer_singer(v, y):
    return ((np.arange(v.shape[1]) != y) + v).max(1) - v[:, y]


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [
        (Logistic(), "calibrated"),
        (Exponential(), "calibrated"),
        (Square(), "calibrated"),
        (SquaredHinge(), "represented on t(M) only"),
        (ModifiedHuber(), "represented on t(M) only"),
        (Hinge(), "link not injective"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_margins(margin, verdict):
    report = check(margin)
    assert report.verdict == verdict
    assert bool(report) == margin.calibrated
    assert report.reason
    if margin.calibrated:
        q = np.array([0.2, 0.5, 0.9])
        mu = 2 * q[:, None] - 1
        np.testing.assert_allclose(report.link(mu)[:, 0], margin.link(q), atol=1e-5)
        np.testing.assert_allclose(report.inverse_link(margin.link(q)[:, None]), mu, atol=1e-5)
        # h up to an affine function: second differences agree
        h, theirs = (
            report.potential(2 * np.array([[0.2], [0.4], [0.6]]) - 1),
            margin.potential(np.array([0.2, 0.4, 0.6])),
        )
        assert h[0] - 2 * h[1] + h[2] == pytest.approx(theirs[0] - 2 * theirs[1] + theirs[2], abs=1e-6)


@pytest.mark.parametrize(
    ("surrogate", "loss", "verdict", "extension"),
    [
        (Quadratic(), ZeroOne(3), "calibrated", "canonical"),
        (Quadratic(), Hamming(2), "calibrated", ""),
        (Multinomial(), ZeroOne(3), "calibrated", ""),
        (OneVsAll(), ZeroOne(3), "calibrated", "canonical"),
        (OneVsAll("exponential"), ZeroOne(3), "calibrated", "coordinatewise"),
        (OneVsAll("squared-hinge"), ZeroOne(3), "represented on t(M) only", "coordinatewise"),
        (AllThresholds(), Absolute(4, embedding="cube"), "calibrated", ""),
        (AllThresholds("exponential"), Absolute(3, embedding="cube"), "calibrated", ""),
        (AllThresholds("modified-huber"), Absolute(3, embedding="cube"), "represented on t(M) only", ""),
        (CumulativeLink(), Absolute(4), "calibrated", ""),
        (MaxEntropy(), Hamming(2), "calibrated", ""),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_surrogates(surrogate, loss, verdict, extension):
    report = check(surrogate, loss)
    assert (report.verdict, report.extension) == (verdict, extension)
    if report.calibrated:
        bound = surrogate.bind(loss.polytope)
        mu = np.random.default_rng(0).dirichlet(np.ones(len(loss.labels())), 4) @ loss.phi(loss.labels())
        v = bound.link(mu)
        np.testing.assert_allclose(report.inverse_link(v), mu, atol=1e-5)


@pytest.mark.parametrize(
    ("surrogate", "extension"),
    [
        (Legendre(negative_entropy, Simplex(2)), ""),
        (Legendre(negative_hellinger, Cube(2, low=0.0)), "canonical"),
        (Mixture(), ""),
    ],
    ids=["entropy", "hellinger", "mixture"],
)
def test_surrogates_from_potentials(surrogate, extension):
    """Calibrated by construction: the canonical link of a potential of Legendre type."""
    report = check(surrogate, ZeroOne(2), laws=6)
    assert (report.verdict, report.extension) == ("calibrated", extension)
    mu = np.array([[0.3, 0.7], [0.8, 0.2]])
    np.testing.assert_allclose(report.inverse_link(surrogate.bind(Simplex(2)).link(mu)), mu, atol=1e-5)


def test_extension_gives_moments_off_the_hull():
    """One-vs-all has D the cube and M the simplex: the extended inverse link is the surrogate's own, off M as well."""
    v = np.random.default_rng(0).normal(size=(5, 3))
    for margin in ("exponential", "square"):
        surrogate = OneVsAll(margin, 3)
        found = check(surrogate, ZeroOne(3)).inverse_link(v)
        np.testing.assert_allclose(found, surrogate.inverse_link(v), atol=1e-5)
        assert np.abs(found.sum(1) - 1).max() > 0.1


def test_hinges_over_classes_are_not_calibrated():
    for surrogate in (crammer_singer, lambda v, y: np.maximum(0, 1 + v - v[:, [y]]).sum(1) - 1):
        report = check(surrogate, np.eye(3), size=3)
        assert not report.calibrated
        assert report.verdict == "link not injective"
    # the evidence: v is best for the law q, and for another law with other moments
    report = check(crammer_singer, np.eye(3), size=3)
    risks = np.array([crammer_singer(report.v[None], y)[0] for y in range(3)]) @ report.q
    rivals = np.random.default_rng(0).normal(size=(4000, 3))
    assert risks <= (np.stack([crammer_singer(rivals, y) for y in range(3)], -1) @ report.q).min() + 1e-6


def test_a_surrogate_that_needs_more_than_phi():
    multinomial = Multinomial(3)

    def softmax(v, y):
        return multinomial.value(v, np.broadcast_to(np.eye(3)[y], v.shape))

    report = check(softmax, np.array([[0.0], [1.0], [2.0]]), size=3)
    assert report.verdict == "needs more than phi"
    assert report.violation > 1e-3
    assert check(softmax, np.eye(3), size=3).calibrated


def test_check_sentences():
    with pytest.raises(ValueError, match="needs phi"):
        check(crammer_singer)
    with pytest.raises(ValueError, match="needs size"):
        check(crammer_singer, np.eye(3))
    with pytest.raises(ValueError, match="finite array with one row per label"):
        check(crammer_singer, np.array([[np.nan], [1.0]]), size=1)
    with pytest.raises(TypeError, match="a surrogate, a margin or a function"):
        check(3, np.eye(2), size=2)
    with pytest.raises(ValueError, match="finite at too few"):
        check(lambda v, y: np.full(len(v), np.inf), np.eye(2), size=2)


# -- learning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "surrogate"), [(ZeroOne(4), "quadratic"), (ZeroOne(4), "multinomial"), (Hamming(3), "max-entropy")]
)
def test_asgd_bound_is_at_most_the_papers(loss, surrogate):
    for n, radius, kappa in itertools.product((1e3, 1e6), (0.5, 4.0), (1.0, 2.0)):
        bound = asgd_bound(loss, surrogate, n=n, radius=radius, kappa=kappa)
        c = bound.constants
        big_c = np.sqrt(1 + c["c_phi_h"] / (kappa * c["beta"] * radius))
        assert bound.paper == pytest.approx(4 * kappa * c["c_psi"] * c["beta"] * radius * big_c / n**0.25)
        assert bound.excess_risk <= bound.paper * (1 + 1e-6)
        assert bound.surrogate_excess == pytest.approx(2 * radius * bound.gradient / np.sqrt(n))
        assert bound.step == pytest.approx(2 * radius / (bound.gradient * np.sqrt(n)))


@pytest.mark.parametrize(
    ("loss", "surrogate"),
    [
        (ZeroOne(3), Quadratic()),
        (ZeroOne(3), Multinomial()),
        (Hamming(2), Independent()),
        (ZeroOne(3), OneVsAll("exponential")),
    ],
    ids=lambda part: repr(part)[:30],
)
def test_gradients_keep_to_their_bound(loss, surrogate):
    bound = asgd_bound(loss, surrogate, n=100, radius=2.0)
    v = np.random.default_rng(0).normal(size=(500, loss.polytope.size))
    v *= 2.0 / np.linalg.norm(v, axis=1, keepdims=True)
    bound_surrogate = surrogate.bind(loss.polytope)
    for phi in loss.phi(loss.labels()):
        gradient = bound_surrogate.gradient(v, np.broadcast_to(phi, v.shape))
        assert np.linalg.norm(gradient, axis=1).max() <= bound.gradient + 1e-9


def test_sample_size_is_where_the_bound_reaches_eps():
    for surrogate in ("quadratic", "multinomial"):
        n = sample_size(ZeroOne(3), surrogate, eps=0.1, radius=2.0)
        assert asgd_bound(ZeroOne(3), surrogate, n=n, radius=2.0).excess_risk <= 0.1 + 1e-6
        assert asgd_bound(ZeroOne(3), surrogate, n=0.98 * n, radius=2.0).excess_risk > 0.1
    zeta = calibration(ZeroOne(3), "quadratic")
    noisy = sample_size(ZeroOne(3), "quadratic", eps=1e-3, radius=2.0, p=3.0, gamma_p=2.0)
    assert noisy < sample_size(ZeroOne(3), "quadratic", eps=1e-3, radius=2.0)
    gradient = asgd_bound(ZeroOne(3), "quadratic", n=10, radius=2.0).gradient
    assert noisy == pytest.approx((4 * gradient / zeta.low_noise(3.0, 2.0)(1e-3)) ** 2, rel=1e-3)
    assert sample_size(ZeroOne(3), "quadratic", eps=5.0) == 1


def test_learning_sentences():
    with pytest.raises(ValueError, match="radius must be positive"):
        asgd_bound(ZeroOne(3), "quadratic", radius=-1)
    with pytest.raises(ValueError, match="both p and gamma_p"):
        sample_size(ZeroOne(3), "quadratic", p=1.0)
    with pytest.raises(ValueError, match="no bound that is known"):
        asgd_bound(Absolute(3), "cumulative-link")


# -- Osokin et al. ---------------------------------------------------------------------------------------------------


def test_osokin_equals_ours_for_the_identity():
    found = osokin_comparison(ZeroOne(4).matrix(), np.eye(4))
    assert found.osokin == pytest.approx(found.ours)
    assert found.ours == pytest.approx(1 / 4)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_osokin_on_hamming_loss_grows_like_outputs_over_labels(n):
    """Theirs is 2^n / (8 n) and ours n / 2 in the unit sign embedding: not one scale, as the paper says."""
    loss = Hamming(n)
    signs = loss.phi(loss.outputs())
    scores = np.c_[np.ones(2**n), -signs / (2 * n)]
    found = osokin_comparison(loss.matrix(), scores)
    assert found.osokin == pytest.approx(2**n / (8 * n))
    assert found.ours == pytest.approx(n / 2)


def test_osokin_bound_holds_for_their_surrogate():
    rng = np.random.default_rng(0)
    matrix = rng.uniform(0, 1, (5, 4))
    found = osokin_comparison(matrix)
    for _ in range(300):
        q, w = rng.dirichlet(np.ones(4)), rng.normal(size=(1, found.scores.shape[1]))
        risk = found.surrogate(w, np.zeros(1, int)) * 0
        for y in range(4):
            risk = risk + q[y] * found.surrogate(w, np.array([y]))
        best = np.linalg.lstsq(found.scores, found.matrix @ q, rcond=None)[0][None]
        least = sum(q[y] * found.surrogate(best, np.array([y])) for y in range(4))
        costs = matrix @ q
        excess = costs[(w @ found.scores.T).argmin()] - costs.min()
        assert found.osokin * excess**2 <= float((risk - least)[0]) + 1e-9


def test_osokin_sentences():
    with pytest.raises(ValueError, match="not in the span"):
        osokin_comparison(ZeroOne(3).matrix(), np.ones((3, 1)))
    with pytest.raises(ValueError, match="one row per output"):
        osokin_comparison(ZeroOne(3).matrix(), np.eye(4))


def test_osokin_defaults_to_the_smallest_decomposition():
    found = osokin_comparison(CostMatrix([[0, 1, 4], [5, 0, 1], [2, 2, 0]]).matrix())
    np.testing.assert_allclose(
        found.scores @ found.phi.T + found.constant, [[0, 1, 4], [5, 0, 1], [2, 2, 0]], atol=1e-9
    )


# -- verdicts under maps of scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [5, 23, 46, 56])
def test_invertible_maps_of_scores_change_no_verdict(seed):
    """Softmax of scores that are mapped: in its tails it is flat, steep or a difference of large terms."""
    rng = np.random.default_rng(seed)
    size = 2 + seed % 2
    square, shift = rng.normal(size=(size, size)) + np.eye(size), rng.normal(size=size)
    for unit in (1.0, 2.0):

        def softmax(v, y, unit=unit):
            w = unit * (v @ square + shift)
            return np.logaddexp.reduce(w, axis=1) - w[:, y]

        report = check(softmax, phi=np.eye(size), size=size, laws=10, seed=seed)
        assert report.calibrated, report
