"""Margin losses: the paper's appendix F, with its errata."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.parts import every_margin

from taskloss import margins
from taskloss.margins import Margin

grid_q = np.linspace(0.02, 0.98, 25)
grid_v = np.linspace(-3.3, 3.3, 34)


def risk(margin, v, q):
    return q * margin.value(v) + (1 - q) * margin.value(-v)


@every_margin
def test_derivatives(part):
    step = 1e-6
    numeric = (part.value(grid_v + step) - part.value(grid_v - step)) / (2 * step)
    np.testing.assert_allclose(part.derivative(grid_v), numeric, atol=1e-7)
    if part.smooth:
        numeric = (part.derivative(grid_v + step) - part.derivative(grid_v - step)) / (2 * step)
        np.testing.assert_allclose(part.second_derivative(grid_v), numeric, atol=1e-6)
    assert (
        part.derivative(grid_v[grid_v <= 1]) <= 0
    ).all()  # the square loss turns up again beyond 1, whatever the paper asks of Phi


@every_margin
def test_potential_and_link_come_from_the_conditional_risk(part):
    for q in grid_q:
        found = minimize_scalar(
            lambda v, q=q: risk(part, np.float64(v), q), bounds=(-8, 8), method="bounded", options={"xatol": 1e-10}
        )
        assert -part.potential(q) == pytest.approx(found.fun, abs=1e-7)
        if part.smooth:
            assert part.link(q) == pytest.approx(found.x, abs=1e-4)
            assert part.inverse_link(part.link(q)) == pytest.approx(q)


@every_margin
def test_risk_and_excess(part):
    v, q = np.meshgrid(grid_v, grid_q)
    value, derivative = part.risk_and_derivative(v, q)
    np.testing.assert_allclose(value, risk(part, v, q), atol=1e-12)
    np.testing.assert_allclose(derivative, q * part.derivative(v) - (1 - q) * part.derivative(-v), atol=1e-12)
    excess = part.excess_risk(v, q)
    assert excess.min() >= -1e-12
    if part.smooth:
        np.testing.assert_allclose(
            part.curvature(v, q), q * part.second_derivative(v) + (1 - q) * part.second_derivative(-v)
        )


@every_margin
def test_potential_derivative(part):
    q = grid_q[np.abs(grid_q - 0.5) > 1e-3]
    numeric = (part.potential(q + 1e-6) - part.potential(q - 1e-6)) / 2e-6
    np.testing.assert_allclose(part.potential_derivative(q), numeric, rtol=1e-5, atol=1e-6)


@every_margin
def test_what_margins_say_of_themselves(part):
    calibrated = {"logistic", "exponential", "square"}
    assert part.calibrated == (part.name in calibrated)
    assert part.calibrated or "NOT phi-calibrated" in type(part).__doc__


def test_equal_on_the_unit_interval():
    """Square, squared hinge and modified Huber agree where |u| <= 1, and so have one potential and link there."""
    u = np.linspace(-1, 1, 41)
    q = grid_q
    for other in (margins.SquaredHinge(), margins.ModifiedHuber()):
        np.testing.assert_allclose(other.value(u), margins.Square().value(u))
        np.testing.assert_allclose(other.potential(q), margins.Square().potential(q))


def test_closed_forms_of_the_excess_risk():
    v, q = np.meshgrid(grid_v, grid_q)
    squared = (2 * q - 1 - v) ** 2 - q * np.maximum(v - 1, 0) ** 2 - (1 - q) * np.minimum(0, v + 1) ** 2
    np.testing.assert_allclose(margins.SquaredHinge().excess_risk(v, q), squared, atol=1e-12)
    t = np.clip(v, -1, 1)
    huber = (2 * q - 1 - t) ** 2 + 2 * np.abs(2 * q - 1 - t) * np.abs(v - t)
    np.testing.assert_allclose(margins.ModifiedHuber().excess_risk(v, q), huber, atol=1e-12)
    # The paper prints |q - T(v)| for |v - T(v)|: at q = 0.8, v = 0 that gives 1.32 where the excess is 0.36.
    assert margins.ModifiedHuber().excess_risk(np.float64(0.0), 0.8) == pytest.approx(0.36)
    assert pytest.approx(1.32) == (0.6**2 + 2 * 0.6 * 0.8)


def test_signs_and_logarithms_of_the_paper():
    q = np.array([0.6, 0.9])
    derivative = margins.Exponential().potential_derivative(q)
    np.testing.assert_allclose(derivative, (2 * q - 1) / np.sqrt(q * (1 - q)))
    assert (
        derivative > 0
    ).all()  # h is convex and symmetric about 1/2, so that it increases beyond; the paper has the sign reversed
    assert margins.Logistic().value(np.float64(0)) == pytest.approx(np.log(2))  # 1 in base 2, as the paper counts


def test_exponential_goes_on_along_its_tangent():
    margin = margins.Exponential()
    u = np.array([-499.9, -500.0, -500.1, -1e4])
    value, derivative = margin.value(u), margin.derivative(u)
    assert np.isfinite(value).all()
    assert (np.diff(value) > 0).all()
    assert (np.diff(derivative) <= 0).all()


def test_registry_resolves_names_and_refuses_others():
    assert Margin.resolve("logistic") == margins.Logistic()
    assert Margin.resolve(margins.Hinge) == margins.Hinge()
    with pytest.raises(ValueError, match="no margin named 'huber'; choose one of: exponential, hinge"):
        Margin.resolve("huber")
    with pytest.raises(TypeError, match="Expected a margin"):
        Margin.resolve(3)
