"""What boosting asks of the waist: diagonals of second derivatives, steps in blocks, and the risk at the best table."""

import numpy as np
import pytest
from tests.parts import every_surrogate
from tests.test_laws_surrogates import is_kinked, moments, scores
from tests.test_objectives import forest_problem, matching_problem, ranking_problem, rows_problem

from taskloss.hypotheses import Linear, Structured, Thresholds
from taskloss.hypotheses.structured import NodeEdgeScores
from taskloss.objectives import Options, Rows
from taskloss.solvers import LBFGS, Newton
from taskloss.surrogates import (
    AllThresholds,
    ChainCRF,
    CumulativeLink,
    Independent,
    Listwise,
    MaxEntropy,
    Multinomial,
    OneVsAll,
    Quadratic,
    RowMultinomial,
)
from taskloss.surrogates.base import Surrogate


@every_surrogate
def test_the_diagonal_is_that_of_the_hessian(part):
    if is_kinked(part):
        pytest.skip("a surrogate with kinks has no second derivatives")
    rng = np.random.default_rng(0)
    v, phi = scores(part, rng, 4), moments(part, rng, 4)
    product = part.hessian(v, phi)
    k = v.shape[-1]
    by_units = np.stack([product(np.broadcast_to(np.eye(k)[j], v.shape))[..., j] for j in range(k)], axis=-1)
    np.testing.assert_allclose(part.diagonal(v, phi), by_units, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(part.diagonal(v, phi, part.gradient(v, phi)), by_units, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(Surrogate.diagonal(part, v, phi), by_units, rtol=1e-6, atol=1e-8)


@every_surrogate
def test_the_start_is_the_best_constant_where_that_is_finite(part):
    if is_kinked(part):
        pytest.skip("a surrogate with kinks has no gradient to vanish")
    phi = moments(part, np.random.default_rng(1), 9)
    mean = phi.mean(axis=0)
    start = part.start(mean)
    gradient = part.gradient(np.broadcast_to(start, (9, len(start))), phi).mean(axis=0)
    np.testing.assert_allclose(gradient, 0, atol=1e-5)


RISKS = {
    "multinomial": (rows_problem, Multinomial(4)),
    "independent": (rows_problem, Independent("logistic", 3)),
    "quadratic": (rows_problem, AllThresholds("square", 4)),
    "listwise": (ranking_problem, Listwise()),
    "gains": (ranking_problem, Quadratic()),
    "items": (ranking_problem, OneVsAll("logistic")),
    "row-multinomial": (matching_problem, RowMultinomial()),
    "field of matchings": (matching_problem, MaxEntropy()),
    "chains": (forest_problem, ChainCRF()),
    "chains, quadratic": (forest_problem, Quadratic()),
}


def somewhere(risk, rng):
    if isinstance(risk.zeros(), NodeEdgeScores):
        return NodeEdgeScores(rng.normal(size=(risk.n_rows, risk.n_scores)), rng.normal(size=(risk.n_scores,) * 2))
    return rng.normal(size=(risk.n_rows, risk.n_scores))


@pytest.mark.parametrize("name", RISKS)
def test_diagonals_of_risks(name):
    make, surrogate = RISKS[name]
    _, _, risk = make(surrogate, Structured() if make is forest_problem else Linear())
    v = somewhere(risk, np.random.default_rng(0))
    product, shape = risk.hessian(v), (risk.n_rows, risk.n_scores)
    expected = np.empty(shape)
    for place in np.ndindex(shape):
        unit = np.zeros(shape)
        unit[place] = 1.0
        if make is forest_problem:
            expected[place] = product(NodeEdgeScores(unit, np.zeros_like(v.edges))).nodes[place]
        else:
            expected[place] = product(unit)[place]
    found = risk.diagonal(v, risk.value_and_gradient(v)[1])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    coupled = not all(s.separable for s in ([surrogate] if make is rows_problem else [b.surrogate for b in getattr(risk, "batches", [])] or [surrogate]))  # fmt: skip
    assert risk.coupled == (coupled or make is forest_problem)


@pytest.mark.parametrize("surrogate", [Multinomial(5), AllThresholds("logistic", 6), CumulativeLink("logit", 5)], ids=repr)  # fmt: skip
def test_steps_in_blocks_are_the_derivatives(surrogate):
    rng = np.random.default_rng(0)
    n, k = 60_000, surrogate.size
    vertices = surrogate.domain.vertices()
    phi = vertices[rng.integers(0, len(vertices), n)].astype(np.int8)
    weights = rng.uniform(0.5, 2, n)
    risk = Rows(surrogate, phi, weights)
    v = np.sort(rng.normal(size=(n, k)), axis=1)
    if surrogate.ordered:
        risk = risk.kept_ordered(False)
    steps = risk.steps(2.0)
    assert len(steps.parts) > 2
    value, gradient, curvature = steps(v)
    whole, slope = risk.value_and_gradient(v)
    assert value == pytest.approx(whole.sum(), rel=1e-9)
    np.testing.assert_allclose(gradient, n * slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curvature, 2 * n * risk.diagonal(v, slope), rtol=1e-5, atol=1e-6)
    assert gradient.dtype == curvature.dtype == np.float32


OPTIONS = Options(0.01, LBFGS(tol=1e-14))
PROFILES = {
    "all-thresholds": (rows_problem, AllThresholds("logistic", 4), Thresholds()),
    "cumulative": (rows_problem, CumulativeLink("logit", 4), Thresholds()),
    "chains": (forest_problem, ChainCRF(), Structured()),
    "chains without ends": (forest_problem, ChainCRF(), Structured(ends=False)),
    "trees": (lambda *args: forest_problem(*args, trees=True), MaxEntropy(), Structured()),
}


@pytest.mark.parametrize("name", PROFILES)
def test_the_risk_at_the_best_table(name):
    """Its gradient is its slope though the table moves along; its Hessian products are those at the table; no other table is better."""
    make, surrogate, layout = PROFILES[name]
    layout, _, risk = make(surrogate, layout)
    profile = risk.profiled(layout, OPTIONS)
    rng = np.random.default_rng(0)
    u = 0.3 * rng.normal(size=(profile.n_rows, profile.n_scores))
    value, gradient = profile.value_and_gradient(u)
    table = profile.table.copy()
    direction, step = rng.normal(size=u.shape), 1e-4
    up, down = (profile.value_and_gradient(u + s * direction)[0] for s in (step, -step))
    assert (up - down)[0] / (2 * step) == pytest.approx((gradient * direction).sum(), rel=1e-4, abs=1e-7)
    assert np.abs(profile.table - table).max() > 0  # the table did move
    profile.fit(u)
    for _ in range(20):
        problem = profile._problem
        other = table + 1e-3 * problem.free * rng.normal(size=table.shape)
        assert problem.value_and_gradient(other.reshape(-1, 1))[0] >= value - 1e-12
    _, slope, curvature = profile.steps()(u)
    scale = profile.n_rows / profile.row_weights.sum()
    np.testing.assert_allclose(slope, scale * gradient, rtol=1e-3, atol=1e-4)
    product = profile.hessian(u)
    for place in [(0, 0), (profile.n_rows - 1, profile.n_scores - 1)]:
        unit = np.zeros(u.shape)
        unit[place] = 1.0
        assert curvature[place] == pytest.approx(scale * product(unit)[place], rel=1e-4)
    some = profile.take(slice(0, 2))
    assert some.n_rows == risk.take(slice(0, 2)).n_rows
    assert some.table is profile.table


def test_a_profile_moves_with_its_offset():
    layout, _, risk = rows_problem(AllThresholds("logistic", 4), Thresholds())
    rng = np.random.default_rng(0)
    u, offset = rng.normal(size=(2, risk.n_rows, 1))
    there = risk.profiled(layout, OPTIONS).value_and_gradient(u + offset)
    moved = risk.profiled(layout, OPTIONS).shifted(offset).value_and_gradient(u)
    np.testing.assert_allclose(there[0], moved[0])
    np.testing.assert_allclose(there[1], moved[1], atol=1e-8)
    by_newton = risk.profiled(layout, Options(0.01, Newton(tol=1e-14))).value_and_gradient(u + offset)
    np.testing.assert_allclose(by_newton[1], there[1], atol=1e-6)


def test_the_best_constant_of_items():
    for surrogate in (Listwise(), Quadratic(), OneVsAll("logistic")):
        _, _, risk = ranking_problem(surrogate, Linear())
        best = risk.best_constant()
        v = np.full((risk.n_rows, 1), best[0])
        assert risk.value_and_gradient(v)[1].sum() == pytest.approx(0, abs=1e-8)
    _, _, risk = matching_problem(RowMultinomial(), Linear())
    assert risk.best_constant() == 0  # a softmax over each row sees no constant
