"""The exponential margin's branch and bound: remainders against brute force, bounds below every feasible point."""

import itertools

import numpy as np
import pytest

from taskloss.losses import Absolute, CostMatrix
from taskloss.margins import Exponential
from taskloss.surrogates import AllThresholds, OneVsAll
from taskloss.theory import calibration
from taskloss.theory.exponential import Dual, divergence, least_remainder, moment, slope
from taskloss.theory.search import descend


def random_zeta(seed, size=6):
    return calibration(CostMatrix(np.random.default_rng(seed).uniform(0, 1, (size, size))), OneVsAll("exponential"))


def test_divergence_is_the_margins():
    x, y = np.random.default_rng(0).uniform(0.01, 0.99, (2, 50))
    margin = Exponential()
    expected = margin.potential(x) - margin.potential(y) - (x - y) * margin.potential_derivative(y)
    np.testing.assert_allclose(divergence(x, y), expected, atol=1e-12)
    np.testing.assert_allclose(slope(y), margin.potential_derivative(y))
    np.testing.assert_allclose(moment(slope(y)), y)
    np.testing.assert_array_equal(moment(np.array([-np.inf, np.inf])), [0, 1])


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 10.0, 300.0, 1e5])
def test_remainder_is_a_lower_bound_and_tight(scale, boxed):
    """No point of a dense grid in (x, y) lies below the bound, and the point that comes with it lies on it."""
    rng = np.random.default_rng(0)
    a, b = scale * rng.normal(size=(2, 40))
    a[0], b[1], a[2] = 0.0, 0.0, b[2]
    low, high = np.sort(rng.uniform(size=(2, 40)), axis=0) if boxed else (np.zeros(40), np.ones(40))
    bound, x, y = least_remainder(a, b, low, high)
    size = 1 + np.abs(a) + np.abs(b)
    attained = divergence(x, y) - a * x + b * y
    assert (low - 1e-12 <= y).all()
    assert (y <= high + 1e-12).all()
    assert ((attained - bound) / size <= 1e-9).all()
    angles = (1 - np.cos(np.linspace(0, np.pi, 401))) / 2  # denser at the ends, where the divergence is steep
    for i in range(40):
        truth, estimate = np.meshgrid(np.r_[angles, x[i]], np.r_[low[i] + (high[i] - low[i]) * angles, y[i]])
        assert (divergence(truth, estimate) - a[i] * truth + b[i] * estimate).min() >= bound[i]


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_a_coarse_remainder_is_still_a_lower_bound(scale):
    a, b = scale * np.random.default_rng(1).normal(size=(2, 200))
    fine = least_remainder(a, b)[0]
    for tolerance in (1e-6, 1e-3, 1e-1):
        coarse = least_remainder(a, b, tolerance=tolerance)[0]
        assert (coarse <= fine + 1e-11 * (1 + np.abs(a) + np.abs(b))).all()


@pytest.mark.parametrize("seed", range(3))
def test_interval_is_narrow_and_below_local_descent(seed):
    """The lower end is below what another method, descent from each pair's minorant, finds anywhere."""
    zeta = random_zeta(seed)
    found = zeta.exact(0.2)
    assert not found.exact
    assert found.gap <= 1.1e-4 * found.value
    programs = zeta.programs
    starts = [programs.solve(z, other, 0.2) for z, other in itertools.permutations(range(6), 2)]
    ends = [descend(programs, start, 0.2).value for start in starts if start.u is not None and start.lower <= 0.5]
    assert found.lower <= min(ends) * (1 + 1e-9)
    assert found.value <= min(ends) * (1 + 2e-3)


def test_boxes_cover_their_parent_and_raise_the_bound():
    zeta = random_zeta(1, 8)
    found = zeta.exact(0.3)
    start = zeta.programs.solve(found.z, found.z_other, 0.3)
    dual = Dual(zeta.problem, found.z, found.z_other, 0.3)
    node = dual.root(start.u_prime, start.u, np.inf)
    assert node.bound <= found.value
    children = dual.branch(node, np.inf)
    assert (children[0].low == node.low).all()
    assert (children[1].high == node.high).all()
    assert sum(children[0].high != children[1].low) == zeta.problem.psi.shape[1] - 1  # they meet in one coordinate
    assert node.bound - 1e-12 <= min(child.bound for child in children) <= found.value


def test_bound_of_any_multipliers_is_below_zeta():
    """The Lagrangian's value at random multipliers, on a problem whose zeta is proved."""
    zeta = calibration(Absolute(4), AllThresholds("exponential"))
    eps = 1.2
    dual = Dual(zeta.problem, 0, 3, eps)
    node = dual.root(np.full(3, 0.4), np.zeros(3), np.inf)
    assert node.bound == pytest.approx(zeta(eps), rel=1e-4)
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 5.0):
        for _ in range(20):
            assert dual._evaluate(scale * rng.normal(size=dual.size), node, 1e-9)[0] <= zeta(eps)
