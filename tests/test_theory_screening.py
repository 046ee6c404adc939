"""Screening: bounds for all pairs of outputs at once, against a program for each pair and against draws."""

import sys

import numpy as np
import pytest
from scipy.special import rel_entr

from taskloss.losses import CostMatrix
from taskloss.surrogates import AllThresholds, Independent, Multinomial, OneVsAll
from taskloss.theory import calibration
from taskloss.theory.screening import kullback_bounds
from taskloss.theory.separable import coin_bounds

COINS = {
    "one-vs-all": ("canonical", OneVsAll()),
    "one-vs-all, exponential": ("canonical", OneVsAll("exponential")),
    "all-thresholds": ("cube", AllThresholds()),
    "independent": ("cube", Independent()),
}


@pytest.mark.parametrize("eps", [1e-6, 1e-3, 0.1, 0.5])
@pytest.mark.parametrize("kind", ["uniform", "integer", "dominated"])
def test_screening_bounds_lie_below_the_programs(kind, eps):
    """Bounds for all pairs at once, against one program for each; and most of what a program finds is found."""
    rng = np.random.default_rng(0)
    costs = rng.integers(0, 4, (7, 4)).astype(float) if kind == "integer" else rng.uniform(0, 1, (7, 4))
    if kind == "dominated":
        costs[0] = costs.max(0) + 0.1
    zeta = calibration(CostMatrix(costs), Multinomial())
    first = zeta._pair_bounds(eps)
    z, other = np.nonzero(np.isfinite(first) & (first > 0))
    values = np.array([zeta.programs.solve(*pair, eps).value for pair in zip(z, other, strict=True)])
    bounds = kullback_bounds(zeta.problem.table, eps, z, other, first[z, other], ceiling=np.inf)
    assert (bounds <= values * (1 + 1e-9)).all()
    assert (bounds >= first[z, other]).all()
    # a bound that is far above the least value has done its work
    enough = 3 * values.min()
    assert np.median(np.minimum(bounds, enough) / np.minimum(values, enough)) > 0.9


def test_screening_leaves_the_value_as_it_was(monkeypatch):
    costs = np.random.default_rng(1).uniform(0, 1, (12, 6))
    found = calibration(CostMatrix(costs), Multinomial()).numeric(0.3)
    monkeypatch.setattr(sys.modules["taskloss.theory.calibration"], "FEW", 10**9)
    plain = calibration(CostMatrix(costs), Multinomial()).numeric(0.3)
    assert found.value == pytest.approx(plain.value, rel=1e-9)
    assert found.lower == pytest.approx(plain.lower, rel=1e-6)
    assert found.exact
    assert found.programs < plain.programs


def _coin_case(name, seed, unit=1.0):
    embedding, surrogate = COINS[name]
    rng = np.random.default_rng(seed)
    costs = rng.uniform(0, unit, (6, 5)) if seed % 2 else unit * rng.integers(0, 4, (6, 5))
    return calibration(CostMatrix(costs, embedding=embedding), surrogate)


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("name", COINS)
def test_bounds_of_coins_lie_below_the_programs(name, unit, share):
    """Where the divergence is a sum of coins'; the exponential margin's programs are those of the minorant."""
    zeta = _coin_case(name, 1, unit)
    eps = share * zeta.eps_max
    first = zeta._pair_bounds(eps)
    z, other = np.nonzero(np.isfinite(first) & (first > 0) & ~np.eye(len(first), dtype=bool))
    values = np.array([zeta.programs.solve(*pair, eps).value for pair in zip(z, other, strict=True)])
    bounds = coin_bounds(zeta.problem.coins, z, other, first[z, other], np.inf, eps)
    assert (bounds <= values * (1 + 1e-9)).all()
    assert (bounds >= first[z, other]).all()
    enough = 3 * values.min()
    assert np.median(np.minimum(bounds, enough) / np.minimum(values, enough)) > 0.9


@pytest.mark.parametrize("slope", [0.03, 0.3, 3.0])
@pytest.mark.parametrize("name", COINS)
def test_bounds_of_conjugates_lie_above_the_programs(name, slope):
    zeta = _coin_case(name, 3)
    z, other = np.divmod(zeta.representatives, 6)
    first = -zeta._hull._pair_ceilings(slope)[z, other]
    values = np.array([zeta.programs.solve(*pair, reward=slope).value for pair in zip(z, other, strict=True)])
    bounds = coin_bounds(zeta.problem.coins, z, other, first, 0.0, None, slope)
    assert (bounds <= values + 1e-9 * np.abs(values)).all()
    assert (bounds >= first).all()
    least = values < -1e-9
    assert np.median(values[least] / bounds[least]) > 0.9


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_coins_lie_below_draws(seed):
    """Laws and predictions drawn at random, near ties and anywhere, with the divergence from its definition."""
    rng, n, m = np.random.default_rng(seed), 5, 4
    costs = rng.uniform(0, 1, (n, m)) if seed % 2 else rng.integers(0, 4, (n, m)).astype(float)
    zeta = calibration(CostMatrix(costs), OneVsAll())
    truth = rng.dirichlet(np.full(m, 0.5), 20_000)
    near = np.clip(truth + 0.1 * rng.normal(size=truth.shape), 0, 1)
    estimate = np.where(rng.random((len(truth), 1)) < 0.5, near, rng.random(truth.shape))
    divergence = (rel_entr(truth, estimate) + rel_entr(1 - truth, 1 - estimate)).sum(1)
    picked = (estimate @ costs.T).argmin(1)
    for share in (0.05, 0.3):
        eps = share * zeta.eps_max
        first = zeta._pair_bounds(eps)
        z, other = np.nonzero(np.isfinite(first) & (first > 0) & ~np.eye(n, dtype=bool))
        bounds = coin_bounds(zeta.problem.coins, z, other, first[z, other], np.inf, eps)
        for a, b, bound in zip(z, other, bounds, strict=True):
            met = (picked == a) & (truth @ (costs[a] - costs[b]) >= eps)
            assert divergence[met].min(initial=np.inf) >= bound


@pytest.mark.parametrize("name", COINS)
def test_screening_of_coins_leaves_values_as_they_were(name, monkeypatch):
    embedding, surrogate = COINS[name]
    costs = CostMatrix(np.random.default_rng(1).uniform(0, 1, (10, 5)), embedding=embedding)
    screened, plain = (calibration(costs, surrogate) for _ in range(2))
    eps, delta = 0.3 * plain.eps_max, 0.05
    found, risk = screened.numeric(eps), screened.excess_risk(delta)
    for module in ("calibration", "envelope"):
        monkeypatch.setattr(sys.modules[f"taskloss.theory.{module}"], "FEW", 10**9)
    expected = plain.numeric(eps)
    precision = 1e-8 if expected.exact else 2e-4  # branch and bound
    assert found.value == pytest.approx(expected.value, rel=precision)
    assert found.lower == pytest.approx(expected.lower, rel=max(precision, 1e-6))
    assert found.programs < expected.programs
    assert risk == pytest.approx(plain.excess_risk(delta), rel=1e-6)


def test_only_sums_over_coordinates_are_coins():
    costs = np.random.default_rng(0).uniform(0, 1, (4, 4))
    for name, (embedding, surrogate) in COINS.items():
        assert calibration(CostMatrix(costs, embedding=embedding), surrogate).problem.coins is not None, name
    assert calibration(CostMatrix(costs), OneVsAll("square")).problem.coins is None
    assert calibration(CostMatrix(costs), Multinomial()).problem.coins is None
