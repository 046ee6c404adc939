"""Bounds with high probability and exponential rates, against simulations in which every quantity is known."""

import math

import numpy as np
import pytest
from tests.parts import label

from taskloss.losses import Absolute, Hamming, ZeroOne
from taskloss.surrogates import CumulativeLink, Multinomial, OneVsAll, Quadratic
from taskloss.theory import (
    asgd_bound,
    calibration,
    exponential_bound,
    regularised_bound,
    sample_size,
)

# Four inputs as one-hot features: k(x, x') = 1(x = x'), kappa = 1, g is a table with one row of scores per input.
LAWS = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.7, 0.2], [0.5, 0.15, 0.35]])
LOSS = ZeroOne(3)
PHI = np.eye(3)


def best(surrogate):
    g = np.asarray(surrogate.bind(LOSS.polytope).link(LAWS))
    return g, float(np.linalg.norm(g))


def excess(surrogate, g):
    """The surrogate's excess risk of tables g (..., inputs, scores): the mean divergence from the truth."""
    bound = surrogate.bind(LOSS.polytope)
    mu = bound.inverse_link(g)
    return bound.divergence(np.broadcast_to(LAWS, mu.shape), mu).mean(-1)


def draws(rng, repeats, n):
    x = rng.integers(len(LAWS), size=(repeats, n))
    y = (rng.random((repeats, n))[..., None] > np.cumsum(LAWS, 1)[x]).sum(-1)
    return x, y


def averaged_sgd(surrogate, rng, repeats, n, step, radius, alpha=0.0):
    bound = surrogate.bind(LOSS.polytope)
    g = np.zeros((repeats, 4, 3))
    total = np.zeros_like(g)
    rows = np.arange(repeats)
    x, y = draws(rng, repeats, n)
    for i in range(n):
        g *= 1 - alpha * step
        g[rows, x[:, i]] -= step * bound.gradient(g[rows, x[:, i]] / (1 - alpha * step), PHI[y[:, i]])
        norm = np.linalg.norm(g, axis=(1, 2), keepdims=True)
        g *= np.minimum(1, radius / np.maximum(norm, 1e-300))
        total += g
    return total / n


def regularised(surrogate, weights, alpha):
    """argmin of sum weights[x, y] S(g[x], y) + alpha/2 |g|^2, by Newton on all tables at once."""
    bound = surrogate.bind(LOSS.polytope)
    mass = weights.sum(-1, keepdims=True)
    mean = weights / np.maximum(mass, 1e-300)
    v = np.zeros_like(weights)
    for _ in range(50):
        gradient = mass * bound.gradient(v, mean) + alpha * v
        apply = bound.hessian(v, mean)
        hessian = np.stack([mass * apply(np.broadcast_to(e, v.shape)) for e in PHI], -1) + alpha * PHI
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        v = v - step
        if np.abs(step).max() < 1e-12:
            break
    assert np.abs(mass * bound.gradient(v, mean) + alpha * v).max() < 1e-9
    return v


def samples(rng, repeats, n):
    x, y = draws(rng, repeats, n)
    flat = (np.arange(repeats)[:, None] * 12 + x * 3 + y).ravel()
    return np.bincount(flat, minlength=12 * repeats).reshape(repeats, 4, 3) / n


def exceeds(values, level, confidence):
    """Whether a share of values above the level is more than chance allows at this confidence."""
    share, a = (values > level).mean(), 1 - confidence
    return share > a + 3 * math.sqrt(a * (1 - a) / len(values))


@pytest.mark.parametrize("surrogate", [Multinomial(), Quadratic(), OneVsAll("logistic")], ids=label)
def test_averaged_sgd_keeps_its_promises(surrogate):
    radius = best(surrogate)[1]
    rng = np.random.default_rng(0)
    n = 300
    expected = asgd_bound(LOSS, surrogate, n, radius)
    found = excess(surrogate, averaged_sgd(surrogate, rng, 200, n, expected.step, radius))
    assert found.mean() <= expected.surrogate_excess
    for confidence in (0.5, 0.9):
        likely = asgd_bound(LOSS, surrogate, n, radius, confidence=confidence)
        assert likely.step == expected.step
        assert likely.paper is None
        assert likely.surrogate_excess > expected.surrogate_excess
        assert not exceeds(found, likely.surrogate_excess, confidence)


def test_the_martingale_bound_is_met_by_the_worst_walk():
    """Signs that no strategy can predict: the sum of n steps of length 2 D M exceeds its bound with probability at most a."""
    rng = np.random.default_rng(0)
    n, a = 100, 0.1
    steps = rng.choice([-1.0, 1.0], size=(20_000, n)).sum(1) * 2  # 2 D M = 2
    level = 4 * math.sqrt(n * math.log(1 / a) / 2)
    assert 0.001 < (steps > level).mean() <= a


@pytest.mark.parametrize("surrogate", [Multinomial(), Quadratic(), OneVsAll("logistic")], ids=label)
@pytest.mark.parametrize("n", [50, 2000])
def test_the_regularised_estimator_keeps_its_promises(surrogate, n):
    radius = best(surrogate)[1]
    weights = samples(np.random.default_rng(1), 300, n)
    bound = regularised_bound(LOSS, surrogate, n, radius)
    found = excess(surrogate, regularised(surrogate, weights, bound.alpha))
    assert found.mean() <= bound.surrogate_excess
    for confidence in (0.5, 0.95):
        likely = regularised_bound(LOSS, surrogate, n, radius, confidence=confidence)
        found = excess(surrogate, regularised(surrogate, weights, likely.alpha))
        assert not exceeds(found, likely.surrogate_excess, confidence)


def test_replacing_one_example_moves_the_estimate_as_little_as_the_proof_says():
    """|g - g'| <= 2 M / (alpha n), M the diameter of the simplex."""
    rng = np.random.default_rng(2)
    n, alpha = 20, 0.05
    weights = samples(rng, 200, n)
    moved = weights.copy()
    for table in moved:
        x, y = np.argwhere(table > 0)[rng.integers((table > 0).sum())]
        table[x, y] -= 1 / n
        table[rng.integers(4), rng.integers(3)] += 1 / n
    g, other = (regularised(Multinomial(), np.maximum(w, 0), alpha) for w in (weights, moved))
    shift = np.linalg.norm(g - other, axis=(1, 2))
    limit = 2 * math.sqrt(2) / (alpha * n)
    assert 0.2 * limit < shift.max() <= limit


@pytest.mark.parametrize("surrogate", [Multinomial(), OneVsAll("logistic"), Quadratic()], ids=label)
def test_no_wrong_decision_but_for_an_exponentially_small_probability(surrogate):
    margin = 0.15  # the least of LAWS
    risks = np.sort(LAWS, 1)
    assert (risks[:, -1] - risks[:, -2]).min() == pytest.approx(margin)
    star, radius = best(surrogate)
    alpha = 0.02
    bias = np.linalg.norm(regularised(surrogate, LAWS[None] / 4, alpha)[0] - star, axis=1).max()
    rng = np.random.default_rng(3)
    right = LAWS.argmax(1)
    seen = []
    for n in (30, 300, 3000):
        bound = exponential_bound(LOSS, surrogate, n, margin, alpha, bias, radius)
        g = regularised(surrogate, samples(rng, 400, n), alpha)
        wrong = (surrogate.bind(LOSS.polytope).inverse_link(g).argmax(-1) != right).any(-1)
        seen.append(wrong.mean())
        assert seen[-1] <= bound.failure + 3 * math.sqrt(bound.failure * (1 - bound.failure) / 400)
    assert seen[0] > 0.05  # small samples do fail
    assert seen[-1] < seen[0]


def test_the_failure_is_small_before_it_is_certain():
    """A wide margin, known to the bound: it is informative, it holds, and the estimate stays within reach of the truth."""
    laws = np.array([[0.96, 0.02, 0.02], [0.02, 0.96, 0.02], [0.02, 0.02, 0.96], [0.96, 0.02, 0.02]])
    surrogate, alpha = Quadratic(), 0.5
    rng = np.random.default_rng(4)
    radius = float(np.linalg.norm(laws))
    bias = np.linalg.norm(laws / 4 / (0.25 + alpha) - laws, axis=1).max()
    bound = exponential_bound(LOSS, surrogate, 4000, 0.94, alpha, 0.0, radius)
    assert bound.failure < 0.05
    weights = np.stack([rng.multinomial(4000, laws.ravel() / 4).reshape(4, 3) / 4000 for _ in range(300)])
    g = regularised(surrogate, weights, alpha)
    population = laws / 4 / (0.25 + alpha)
    off = np.linalg.norm(g - population, axis=-1).max(-1)
    assert (off >= bound.reach).mean() <= bound.failure
    assert exponential_bound(LOSS, surrogate, 4000, 0.94, alpha, bias, radius).failure >= bound.failure


def test_exponential_bounds_of_averaged_sgd():
    surrogate, alpha, margin, n = Quadratic(), 0.1, 0.15, 400
    star, radius = best(surrogate)
    bias = np.linalg.norm(regularised(surrogate, LAWS[None] / 4, alpha)[0] - star, axis=1).max()
    bound = exponential_bound(LOSS, surrogate, n, margin, alpha, bias, radius, estimator="asgd")
    g = averaged_sgd(surrogate, np.random.default_rng(5), 100, n, 2 * radius / (bound.gradient * 20), radius, alpha)
    wrong = (g.argmax(-1) != LAWS.argmax(1)).any(-1)
    assert wrong.mean() <= bound.failure
    # exponential in n: doubling n squares the failure, up to the constant
    many = [exponential_bound(LOSS, surrogate, m, 0.5, 0.5, 0.0, radius, estimator="asgd") for m in (4e6, 8e6)]
    assert many[1].failure < many[0].failure ** 1.8 < 1
    assert many[0].rate == many[1].rate > 0


def test_the_reach_keeps_decisions_right():
    """Scores within the reach of the best ones never decode wrong, and the reach is not far from the largest such."""
    for loss, surrogate in ((ZeroOne(3), Multinomial()), (Absolute(4), Multinomial()), (Hamming(2), "independent")):
        zeta = calibration(loss, surrogate)
        bound, problem = zeta.surrogate, zeta.problem
        rng = np.random.default_rng(0)
        margin = 0.2
        q = rng.dirichlet(np.ones(len(problem.vertices)), 3000)
        mu = q @ problem.vertices
        risks = mu @ problem.psi.T + problem.offset
        gaps = np.sort(risks, 1)
        keep = gaps[:, 1] - gaps[:, 0] >= margin
        mu, risks = mu[keep], risks[keep]
        reach = exponential_bound(loss, surrogate, margin=margin).reach
        step = rng.normal(size=mu.shape)
        step *= reach * rng.random((len(mu), 1)) ** 0.1 / np.linalg.norm(step, axis=1, keepdims=True)
        moved = bound.inverse_link(bound.link(mu) + step)
        choice = (moved @ problem.psi.T + problem.offset).argmin(1)
        assert (choice == risks.argmin(1)).all()


def test_sample_sizes_with_confidence():
    n = sample_size(LOSS, "multinomial", 0.1)
    likely = sample_size(LOSS, "multinomial", 0.1, confidence=0.95)
    assert likely == pytest.approx(n * (1 + math.sqrt(2 * math.log(20))) ** 2, rel=1e-5)
    assert asgd_bound(LOSS, "multinomial", likely, confidence=0.95).excess_risk == pytest.approx(0.1, rel=1e-4)


def test_bad_input_is_named():
    for confidence in (0.0, 1.0, 2.0):
        with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
            asgd_bound(LOSS, "multinomial", confidence=confidence)
    with pytest.raises(ValueError, match="estimator must be 'regularised' or 'asgd'"):
        exponential_bound(LOSS, estimator="svm")
    with pytest.raises(ValueError, match="bias must be finite"):
        exponential_bound(LOSS, bias=-1.0)
    with pytest.raises(ValueError, match="No smoothness is known"):
        exponential_bound(Absolute(3), CumulativeLink())
    with pytest.raises(ValueError, match="neither bounded slopes nor a known smoothness"):
        regularised_bound(LOSS, OneVsAll("exponential"))
    assert exponential_bound(LOSS, margin=2.0).failure == 0
