"""Distances between decisions, the excess-risk lemma, the CRF bound, and margins estimated from data."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.parts import label

import taskloss as tl
from taskloss.losses import Absolute, Abstain, ChainHamming, CostMatrix, Hamming, MatchingHamming, ZeroOne
from taskloss.surrogates import MaxEntropy, Multinomial, Quadratic
from taskloss.theory import (
    calibration,
    crf_bound,
    decision_distances,
    decompose,
    excess_bound,
    margin_distribution,
)

# -- distances -------------------------------------------------------------------------------------------------------


def offsets_loss(seed):
    """Random costs in an embedding of their own, in which constants differ by output."""
    rng = np.random.default_rng(seed)
    return CostMatrix(rng.uniform(0, 1, (5, 3)), embedding=np.array([[0.0, 0.0], [1.0, 0.0], [0.3, 1.0]]))


def brute_distance(psi, offset, z, eps, rng):
    """min |u' - u| over u in H_0(z), u' not in H_eps(z): a general solver from several starts, pair by pair."""
    best = np.inf
    k = psi.shape[1]
    for other in range(len(psi)):
        if other == z:
            continue
        rules = [
            {"type": "ineq", "fun": lambda x: offset - offset[z] + (psi - psi[z]) @ x[:k]},
            {"type": "ineq", "fun": lambda x, o=other: (psi[z] - psi[o]) @ x[k:] + offset[z] - offset[o] - eps},
        ]
        for _ in range(3):
            found = minimize(
                lambda x: ((x[:k] - x[k:]) ** 2).sum(), rng.normal(size=2 * k), constraints=rules, method="SLSQP"
            )
            if found.success and all(rule["fun"](found.x).min() > -1e-7 for rule in rules):
                best = min(best, np.sqrt(found.fun))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_proposition_on_distances(seed):
    loss = offsets_loss(seed)
    psi = loss.psi(loss.outputs())
    offset = np.asarray(loss.offset(loss.outputs()))
    found = decision_distances(loss)
    rng = np.random.default_rng(seed)
    for z in range(len(psi)):
        brute = brute_distance(psi, offset, z, 0.2, rng)
        if np.isinf(brute):
            assert np.isinf(found(0.2)[z])
        else:
            assert found(0.2)[z] == pytest.approx(brute, rel=1e-3, abs=1e-5)


def test_sets_that_do_not_meet_have_a_positive_delta_and_only_those():
    found = [decision_distances(offsets_loss(seed)) for seed in range(6)]
    assert any((d.delta[np.isfinite(d.delta)] > 1e-3).any() for d in found)
    # without constants by output every set holds the origin
    for loss in (ZeroOne(4), Hamming(3), Absolute(4), CostMatrix(np.random.default_rng(0).uniform(0, 1, (4, 3)))):
        d = decision_distances(loss)
        assert (d.delta == 0).all()
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(d(0.3), 0.3 / d.lengths.max(1))


@pytest.mark.parametrize("seed", range(5))
def test_the_distances_bound_calibration_functions(seed):
    """Between the improved bound, which leaves delta out, and zeta itself."""
    loss = CostMatrix(np.random.default_rng(seed).uniform(0, 1, (5, 3)))
    zeta = calibration(loss, Multinomial())
    found = decision_distances(loss, Multinomial())
    eps = zeta.eps_max * np.array([0.1, 0.3, 0.6])
    ours = found.lower_bound(eps, sigma=2.0)
    assert (ours >= zeta.lower_bound(eps, norm="l2") - 1e-9).all()
    assert (ours <= zeta(eps) + 1e-9).all()


def test_the_distance_is_the_quadratic_surrogates_own_where_ties_lie_in_the_polytope():
    for loss in (Hamming(3), Absolute(4).with_params(embedding="cube")):
        zeta = calibration(loss, Quadratic())
        assert decision_distances(loss, Quadratic()).lower_bound(0.3) == pytest.approx(zeta(0.3), rel=1e-6)


@pytest.mark.parametrize("loss", [ZeroOne(3), Absolute(5), Hamming(3), Abstain(3, 0.2), offsets_loss(1)], ids=label)
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_excess_risk_lemma(loss, norm):
    rng = np.random.default_rng(0)
    vertices, outputs = loss.polytope.vertices(), loss.outputs()
    psi, offset = loss.psi(outputs), np.broadcast_to(loss.offset(outputs), len(outputs))
    mu = rng.dirichlet(np.full(len(vertices), 0.5), 4000) @ vertices
    u = mu + rng.normal(scale=0.2, size=mu.shape) * rng.random((4000, 1))
    risks = mu @ psi.T + offset
    chosen = (u @ psi.T + offset).argmin(1)
    excess = risks[np.arange(4000), chosen] - risks.min(1)
    size = np.linalg.norm(u - mu, ord={"l1": 1, "l2": 2, "linf": np.inf}[norm], axis=1)
    paper, improved = excess_bound(loss, size, norm, improved=False), excess_bound(loss, size, norm)
    assert (excess <= improved + 1e-12).all()
    assert (improved <= paper + 1e-12).all()
    if norm == "l2":
        exact = decision_distances(loss).excess(size)
        assert (excess <= exact + 1e-9).all()
        assert (exact <= improved + 1e-9).all()
        assert (excess / exact.clip(1e-9)).max() > 0.5  # not far from attained


@pytest.mark.parametrize(
    "loss", [ZeroOne(4), Hamming(3), ChainHamming(2, 3), MatchingHamming(3), offsets_loss(0), Absolute(4)], ids=label
)
def test_the_proposition_on_random_fields(loss):
    """Below the divergence of random pairs of moments, computed from scores, and sharper when it is improved."""
    rng = np.random.default_rng(0)
    surrogate = MaxEntropy().bind(loss.polytope)
    outputs = loss.outputs()
    psi, offset = loss.psi(outputs), np.broadcast_to(loss.offset(outputs), len(outputs))
    v, w = rng.normal(scale=2, size=(2, 3000, loss.polytope.size))
    w = v + rng.random((3000, 1)) * (w - v)
    truth, estimate = surrogate.inverse_link(v), surrogate.inverse_link(w)
    # D_h(grad h*(v), grad h*(w)) = h*(w) - h*(v) - <grad h*(v), w - v>
    a, b = (loss.polytope.log_partition(s) for s in (v, w))
    divergence = b - a - ((w - v) * truth).sum(1)
    risks = truth @ psi.T + offset
    excess = risks[np.arange(3000), (estimate @ psi.T + offset).argmin(1)] - risks.min(1)
    paper, improved = crf_bound(loss, excess), crf_bound(loss, excess, improved=True)
    assert (paper <= improved + 1e-12).all()
    assert (improved <= divergence + 1e-9).all()
    assert excess.max() > 0


def test_the_balanced_decomposition_has_the_largest_bound():
    costs = CostMatrix(np.random.default_rng(0).uniform(0, 1, (4, 3)))
    balanced = decompose(costs.matrix())
    assert crf_bound(balanced.loss(), 0.1) >= crf_bound(costs, 0.1)


# -- margins ---------------------------------------------------------------------------------------------------------


def test_margins_are_what_they_say():
    rng = np.random.default_rng(0)
    loss = CostMatrix(rng.uniform(0, 1, (4, 3)))
    q = rng.dirichlet(np.ones(3), 200)
    found = margin_distribution(loss, q)
    risks = np.sort(q @ loss.matrix().T, axis=1)
    np.testing.assert_allclose(found.margins, np.sort(risks[:, 1] - risks[:, 0]), atol=1e-12)
    # moved by less than the distance no decision flips; by a little more along the normal of the nearest tie, one does
    decision = (q @ loss.matrix().T).argmin(1)
    step = rng.normal(size=q.shape)
    step *= 0.999 * found.distances[:, None] / np.linalg.norm(step, axis=1, keepdims=True)
    np.testing.assert_array_equal(((q + step) @ loss.matrix().T).argmin(1), decision)
    flips = 0
    for row, z, reach in zip(q, decision, found.distances, strict=True):
        for other in range(4):
            normal = loss.matrix()[z] - loss.matrix()[other]
            if other != z:
                moved = row + 1.001 * reach * normal / np.linalg.norm(normal)
                if (loss.matrix() @ moved).argmin() != z:
                    flips += 1
                    break
    assert flips == len(q)


def test_equal_outputs_count_as_one():
    twice = CostMatrix([[0, 1], [1, 0], [1, 0]])
    assert margin_distribution(twice, [[0.2, 0.8]]).margins == pytest.approx([0.6])


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.0, 0.5]])
def test_label_sets_need_no_listing(weights):
    mu = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    loss = Hamming(4, weights)
    found = margin_distribution(loss, mu)
    listed = margin_distribution(CostMatrix(loss.matrix(), embedding=loss.phi(loss.labels())), mu)
    np.testing.assert_allclose(found.margins, listed.margins, atol=1e-9)
    np.testing.assert_allclose(found.distances, listed.distances, atol=1e-9)
    assert len(margin_distribution(Hamming(300), np.ones((2, 300)))) == 2


def uniform_margins(rng, n, power=1.0):
    """Moments of two labels whose margins have P(gamma <= t) = t^power."""
    gamma = rng.random(n) ** (1 / power)
    return np.c_[(1 + gamma) / 2, (1 - gamma) / 2]


@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_bands_hold_at_all_levels_at_once(n, power):
    rng = np.random.default_rng(0)
    t = np.r_[np.geomspace(1e-5, 1, 60)]
    outside, widths = 0, []
    for _ in range(300):
        found = margin_distribution(ZeroOne(2), uniform_margins(rng, n, power), confidence=0.8)
        low, high = found.band(t)
        assert (low <= found.cdf(t) + 1e-12).all()
        assert (found.cdf(t) <= high + 1e-12).all()
        outside += bool(((t**power < low - 1e-12) | (t**power > high + 1e-12)).any())
        widths.append(high[0])
    assert outside / 300 <= 0.2
    assert np.mean(widths) < np.sqrt(np.log(20) / (2 * n))  # near zero better than Dvoretzky, Kiefer and Wolfowitz


def test_bands_hold_with_atoms():
    rng = np.random.default_rng(1)
    outside = 0
    for _ in range(200):
        gamma = rng.choice([0.0, 0.1, 0.5], p=[0.05, 0.45, 0.5], size=100)
        found = margin_distribution(ZeroOne(2), np.c_[(1 + gamma) / 2, (1 - gamma) / 2], confidence=0.8)
        low, high = found.band([1e-6, 0.3, 0.6])
        truth = np.array([0.05, 0.5, 1.0])
        outside += bool(((truth < low - 1e-12) | (truth > high + 1e-12)).any())
    assert outside / 200 <= 0.2


def test_an_error_of_the_moments_widens_the_band():
    rng = np.random.default_rng(0)
    truth = uniform_margins(rng, 500)
    noisy = truth + rng.uniform(-0.03, 0.03, (500, 1)) * [1, -1]
    error = excess_bound(ZeroOne(2), 0.03, "linf")
    found = margin_distribution(ZeroOne(2), noisy, error=float(error), confidence=0.9)
    t = np.linspace(0, 1, 30)
    low, high = found.band(t)
    assert ((low <= t) & (t <= high)).all()
    # gamma moves by at most the lemma's bound
    gap = np.abs(margin_distribution(ZeroOne(2), truth).margins - margin_distribution(ZeroOne(2), noisy).margins)
    assert gap.max() <= error + 1e-12


def test_gamma_p_and_the_exponent():
    rng = np.random.default_rng(0)
    found = margin_distribution(ZeroOne(2), uniform_margins(rng, 20_000, power=3.0))
    # E gamma^-p = 3 / (3 - p) for P(gamma <= t) = t^3
    assert found.gamma_p(1.0) == pytest.approx(1.5, rel=0.02)
    assert found.gamma_p(1.0) == pytest.approx(np.mean(1 / found.margins))
    assert found.gamma_p_lower(1.0) <= 1.5
    assert found.gamma_p_lower(1.0) > 1.4
    p, error = found.exponent()
    assert abs(p - 3) < 4 * error
    assert margin_distribution(ZeroOne(2), [[0.5, 0.5], [0.9, 0.1]]).gamma_p(2.0) == np.inf
    many = margin_distribution(ZeroOne(2), np.full((200, 2), 0.5))
    assert many.gamma_p_lower(1.0) == np.inf


def test_margins_sharpen_the_relation_between_risks():
    """The bound holds for estimates of every quality, and beats zeta's own where noise is low."""
    rng = np.random.default_rng(0)
    surrogate = Multinomial(2)
    zeta = calibration(ZeroOne(2), surrogate)
    q = uniform_margins(rng, 4000, power=4.0)
    found = margin_distribution(ZeroOne(2), q, confidence=0.99)
    better = 0
    for scale in (0.02, 0.1, 0.3, 1.0, 3.0):
        estimate = surrogate.inverse_link(surrogate.link(q.clip(1e-9)) + rng.normal(scale=scale, size=q.shape))
        delta = float(surrogate.divergence(q.clip(1e-9), estimate).mean())
        excess = float(((estimate.argmax(1) != q.argmax(1)) * np.abs(q[:, 0] - q[:, 1])).mean())
        bound = found.excess_risk(zeta, delta)
        assert excess <= bound <= zeta.excess_risk(delta)
        better += bound < 0.8 * zeta.excess_risk(delta)
    assert better >= 1


def test_margins_of_a_fitted_model():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), tl.CostSensitiveClassifier("zero-one")).fit(X[::2], y[::2])
    found = margin_distribution(model, X[1::2])
    mu = np.sort(model[-1].predict_moments(model[0].transform(X[1::2])), axis=1)
    np.testing.assert_allclose(found.margins, np.sort(mu[:, -1] - mu[:, -2]), atol=1e-12)
    other = margin_distribution(model, X[1::2], loss=Abstain(cost=0.2))
    assert len(other) == 75
    assert "75 inputs" in repr(other)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got 1"):
        margin_distribution(ZeroOne(2), [[0.5, 0.5]], confidence=1.0)
    with pytest.raises(ValueError, match="error must be finite"):
        margin_distribution(ZeroOne(2), [[0.5, 0.5]], error=-1.0)
    with pytest.raises(ValueError, match="3 columns, and"):
        margin_distribution(ZeroOne(2), [[0.5, 0.5, 0.0]])
    with pytest.raises(ValueError, match="data contains NaN"):
        margin_distribution(ZeroOne(2), [[np.nan, 0.5]])
    with pytest.raises(ValueError, match="no two outputs that differ"):
        margin_distribution(CostMatrix([[0, 1], [0, 1]]), [[0.5, 0.5]])
    found = margin_distribution(ZeroOne(2), [[0.6, 0.4], [0.9, 0.1]])
    with pytest.raises(ValueError, match="p must be a finite number above zero"):
        found.gamma_p(0.0)
    with pytest.raises(ValueError, match="exponent needs positive margins"):
        found.exponent()
    with pytest.raises(ValueError, match="eps must be positive"):
        decision_distances(ZeroOne(3))(0.0)
    with pytest.raises(ValueError, match="norm must be"):
        excess_bound(ZeroOne(3), 1.0, "l3")


def test_the_picture_shows_the_band():
    matplotlib = pytest.importorskip("matplotlib")
    found = margin_distribution(ZeroOne(2), uniform_margins(np.random.default_rng(0), 300))
    ax = found.plot()
    t, share = ax.get_lines()[0].get_data()
    np.testing.assert_allclose(share[share > 0], found.cdf(t)[share > 0])
    assert "300 inputs" in ax.get_legend().get_texts()[0].get_text()
    matplotlib.pyplot.close("all")
    with pytest.raises(ValueError, match="All decisions tie"):
        margin_distribution(ZeroOne(2), [[0.5, 0.5]]).plot()


def test_the_hard_margin_needs_a_strict_inequality():
    """At surrogate excess zeta(delta) exactly, an output that is delta behind can still be chosen."""
    zeta = calibration(ZeroOne(2), Multinomial())
    found = zeta.exact(0.3)
    assert zeta.problem.divergence(found.u_prime, found.u) == pytest.approx(zeta.hard_margin(0.3))
    risks = ZeroOne(2).matrix() @ found.u
    assert risks[found.z] == pytest.approx(risks.min())  # chosen, or tied
    assert zeta.problem.excess(found.z, found.u_prime) == pytest.approx(0.3)
