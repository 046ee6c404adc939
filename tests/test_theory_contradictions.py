"""Certificates that an independent search has tried to contradict, and those that one once did."""

import itertools
import time
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.contradictions import contradictions, decompositions, outcome, run
from benchmarks.independent import KINDS, Case, Search, barycentric, draw_case, draw_eps, law
from scipy.special import rel_entr
from tests.parts import every_surrogate, label

from taskloss.losses import CostMatrix, ZeroOne
from taskloss.margins import Margin
from taskloss.polytopes import Hull, Simplex
from taskloss.surrogates import (
    AllThresholds,
    Independent,
    Legendre,
    MaxEntropy,
    Mixture,
    Multinomial,
    OneVsAll,
    Quadratic,
    Surrogate,
)
from taskloss.theory import Calibration, asgd_bound, calibration, check, decompose, osokin_comparison

# -- what was contradicted once --------------------------------------------------------------------------------------


def test_weights_of_the_balance_may_reach_zero():
    """The dual's laws give no weight to a row here; the factors must reach it all the same."""
    matrix = np.array([[3.0, 3, 1], [1, 2, 1], [2, 2, 0]])
    d = decompose(matrix)
    np.testing.assert_allclose(d.matrix, matrix, atol=1e-12)
    assert 0 <= d.balance_gap <= 1e-5


def test_estimates_are_not_boxed_where_the_domain_is_the_whole_space():
    costs = [[0.7436, 0.2682, 0.2155], [0.8483, 0.6002, 0.1477], [0.9154, 0.6914, 0.2882]]
    loss = CostMatrix(costs, embedding=[[-0.373, 0.083], [-0.37, -0.081], [0.057, -0.087]])
    zeta = calibration(loss, Quadratic())
    u1, u2, z = np.array([-0.37025, -0.0672]), np.array([-0.6384, 0.3384]), 2
    problem = zeta.problem
    assert problem.excess(z, u2) <= 1e-4
    assert problem.excess(z, u1) >= 0.402 - 1e-4
    found = zeta.exact(0.402)
    assert found.exact
    assert found.value == pytest.approx(((u1 - u2) ** 2).sum() / 2, rel=1e-2)
    assert zeta.excess_risk(0.12) >= 0.402


def test_curvature_is_looked_for_where_estimates_may_go():
    """h = sum exp(3u) flattens out far from M, where the estimate of the dominated output lies."""
    costs = np.vstack([1 - np.eye(3), np.full((1, 3), 1.3)])
    zeta = calibration(CostMatrix(costs), Legendre(lambda u: np.exp(3 * u).sum(-1)))
    u1, u2 = np.array([0.935 + 1e-9, 0, 0.065 - 1e-9]), np.array([0.935, -4.2, 0.065])
    problem = zeta.problem
    assert problem.excess(3, u2) <= 1e-9
    assert problem.excess(3, u1) >= 1.235
    found = zeta.exact(1.235)
    assert found.lower <= 0.99995
    assert not found.exact
    assert "sampled" in found.method


@pytest.mark.parametrize("surrogate", [AllThresholds("logistic"), Independent("exponential"), Quadratic()], ids=label)
def test_the_end_point_is_reached(surrogate):
    zeta = calibration(CostMatrix([[0, 3], [1, 0], [2, 2]], embedding="cube"), surrogate)
    assert np.isfinite(zeta(3.0))
    assert zeta(3.0) == pytest.approx(zeta(3 * (1 - 1e-9)), rel=1e-4)  # the exponential's slope is infinite there
    assert zeta.envelope(3.0) <= zeta(3.0)
    assert zeta.envelope(3.0) == pytest.approx(zeta.envelope(3 * (1 - 1e-9)), rel=1e-2)
    assert zeta(3.0 * (1 + 1e-9)) == np.inf


@pytest.mark.parametrize("eps", [1e-8, 1e-6, 1e-5, 1e-3])
def test_small_eps(eps):
    found = calibration(ZeroOne(3), Quadratic()).exact(eps)
    assert found.exact
    assert found.value == pytest.approx(eps**2 / 4, rel=1e-6)
    assert found.lower == pytest.approx(eps**2 / 4, rel=1e-6)


@pytest.mark.parametrize("least", [0.3, 1e-3, 1e-6])
def test_a_region_may_be_thin(least):
    """Output 0 is optimal on laws with q_0 + 3 q_2 <= least: thin, but no face, and q_2 need not be zero there."""
    zeta = calibration(CostMatrix([[1.0, 0, 3], [least] * 3]), Mixture(weights=[1.0, 1.0]))
    found = zeta.exact(0.2)
    assert found.exact

    def laws(risk):  # the least divergence lies on both ties, where costs are `risk`: by how label 0 and 2 share it
        zero, two = risk * np.linspace(0, 1, 401), risk * np.linspace(1, 0, 401) / 3
        return np.stack([zero, 1 - zero - two, two], -1)

    truth, estimate = laws(least + 0.2)[:, None], laws(least)[None]
    brute = (rel_entr(truth, estimate) + (truth - estimate) ** 2 / 2).sum(-1).min()
    assert found.value <= brute * (1 + 1e-9)
    assert found.value == pytest.approx(brute, rel=1e-3)


@pytest.mark.parametrize("case", [512, 1546, 1936])
def test_witnesses_lie_in_the_domain(case):
    """Weights of -2e-12, and once of -3e-4, have been: by the battery's own arithmetic such a point is no estimate."""
    assert outcome(0, case).stories == []


@pytest.mark.parametrize("case", [304, 1812])
def test_where_the_solver_runs_off_a_proof_does(case):
    """An output that is optimal on a face only: truths off that face are infinitely far, whatever a solver makes of it."""
    assert outcome(0, case).stories == []


@pytest.mark.parametrize("case", [1595, 2705, 4967])
def test_infinities_are_not_contradicted_by_the_rounding_of_psi(case):
    assert outcome(0, case).stories == []


@pytest.mark.parametrize("surrogate", [Multinomial(), Mixture(weights=[1.0, 1.0])], ids=label)
def test_an_output_that_is_optimal_on_a_face_only(surrogate):
    """Output 1 is optimal where q_0 = 0, and a truth with some q_0 is infinitely far from there; rounding is not a law."""
    zeta = calibration(CostMatrix([[1.0, 1.0], [2.0, 1.0]]), surrogate)
    assert zeta.exact(0.25).lower == np.inf
    costs, phi = np.array([[1.0, 1.0], [2.0, 1.0]]), np.eye(2)
    search = Search(Case("", "", costs, phi, CostMatrix(costs), surrogate, law(phi)), 0.25, None, strict=True)
    off, q = np.array([1e-15, 1 - 1e-15]), np.array([0.3, 0.7])
    search.note(1, q, off, q - off)
    assert search.pair is None


# -- certificates scale with the problem -----------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", [Quadratic(), Multinomial(), OneVsAll(), OneVsAll("square")], ids=label)
def test_costs_may_have_any_unit(surrogate):
    """zeta of c L at c eps is zeta of L at eps: value, lower end and the word exact."""
    costs = np.random.default_rng(3).uniform(0, 1, (4, 3))
    for share in (1e-6, 0.01, 0.4, 1.0):
        plain = None
        for unit in (1.0, 1e-6, 1e6):
            zeta = calibration(CostMatrix(unit * costs), surrogate)
            found = zeta.exact(share * zeta.eps_max)
            plain = plain or found
            assert found.exact == plain.exact
            assert found.value == pytest.approx(plain.value, rel=1e-6)
            assert found.lower == pytest.approx(plain.lower, rel=3e-6)


def test_the_embedding_may_have_any_unit():
    """Quadratic in an embedding c times as large is c^2 times as large."""
    rng = np.random.default_rng(0)
    costs, phi = rng.uniform(0, 1, (4, 3)), rng.normal(size=(3, 2))
    values = [
        calibration(CostMatrix(costs, embedding=unit * phi), Quadratic()).exact(0.2).value / unit**2
        for unit in (1.0, 1e-4, 1e4)
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


# -- losses that leave nothing to decide -----------------------------------------------------------------------------


@pytest.mark.parametrize("costs", [np.ones((3, 3)), np.zeros((2, 3)), [[0.0, 1.0]], [[1.0]]], ids=str)
@pytest.mark.parametrize("surrogate", [Quadratic(), Multinomial(), OneVsAll("square")], ids=label)
def test_constant_losses(costs, surrogate):
    zeta = calibration(CostMatrix(costs), surrogate)
    assert zeta.eps_max == 0
    assert zeta(0.3) == np.inf
    assert zeta.lower_bound(0.3) == np.inf
    assert zeta.lower_bound(0.0) == 0
    assert zeta.upper_bound(0.3) == np.inf
    assert zeta.excess_risk(0.5) == 0
    assert zeta.envelope(0.0) == 0
    assert decompose(costs).k <= 1
    assert osokin_comparison(costs).ours == np.inf
    assert asgd_bound(CostMatrix(costs), "quadratic").excess_risk == 0


def test_a_surrogate_that_ignores_its_scores():
    report = check(lambda v, y: np.full(len(v), 1.0), np.eye(2), size=2)
    assert report.verdict == "link not injective"


# -- convexity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phi",
    [lambda u: 1 / (1 + np.exp(np.clip(2 * u, -500, 500))) ** 2, lambda u: (2 * np.arctan(u) - 1) ** 2],
    ids=["Savage", "tangent"],
)
def test_losses_that_are_not_convex_are_told(phi):
    """Savage and tangent loss are proper, and their excess risk a Bregman divergence; the definition asks for more."""
    report = check(
        lambda v, y: phi((2 * y - 1) * v[:, 0]),
        np.array([[-1.0], [1.0]]),
        size=1,
        scores=np.linspace(-0.8, 0.8, 41)[:, None],
    )
    assert not report.convex
    assert report.verdict == "not convex"
    assert not report
    assert "convex" in report.reason


@pytest.mark.parametrize("margin", [kind() for kind in Margin.registry.values()], ids=lambda m: m.name)
def test_convex_margins_are_told_so(margin):
    assert check(margin).convex


# -- limits of time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", [Multinomial(), OneVsAll(), OneVsAll("exponential"), Legendre()], ids=label)
def test_bounds_at_the_time_limit_hold(surrogate):
    costs = np.random.default_rng(0).uniform(0, 1, (6, 5))
    hurried = calibration(CostMatrix(costs), surrogate, time_limit=1e-9).exact(0.2)
    patient = calibration(CostMatrix(costs), surrogate).exact(0.2)
    assert hurried.lower <= patient.value
    assert hurried.value >= patient.lower
    assert not hurried.exact


def test_spanning_trees_are_checked_and_bounded_in_time():
    """The 16 spanning trees of four nodes, whose entropy is found numerically: a verdict, and bounds that hold when time is up."""
    edges = list(itertools.combinations(range(4), 2))
    rows = np.array([np.isin(np.arange(6), some) for some in itertools.combinations(range(6), 3)], dtype=float)
    incidence = np.array([np.eye(4)[a] - np.eye(4)[b] for a, b in edges])
    trees = rows[[np.linalg.matrix_rank(incidence[row > 0]) == 3 for row in rows]]
    assert len(trees) == 16
    surrogate = MaxEntropy(Hull(trees))
    assert check(surrogate, trees, time_limit=60).calibrated
    loss = CostMatrix((3 - trees @ trees.T) / 3, embedding=trees)
    start = time.process_time()
    hurried = calibration(loss, surrogate, time_limit=0.5).exact(1 / 3)
    assert time.process_time() - start < 20  # of half a second, on a machine that does other things
    assert 0 < hurried.lower <= hurried.value < np.inf
    # h is the entropy of the law over trees: the truth lies on its two-point bound or above
    value = float(surrogate.divergence(hurried.u_prime[None], hurried.u[None])[0])
    np.testing.assert_allclose(hurried.value, value, rtol=1e-6)


def test_check_in_time(capsys):
    assert check(Multinomial(), ZeroOne(3), time_limit=1e-9).verdict == "undecided in time"
    assert check(Multinomial(), ZeroOne(3), time_limit=600, verbose=True).calibrated
    assert "continuous" in capsys.readouterr().err
    for call in (
        lambda: check(Multinomial(), ZeroOne(3), time_limit=0),
        lambda: calibration(ZeroOne(3), time_limit=-1),
    ):
        with pytest.raises(ValueError, match="time_limit must be a finite number above zero"):
            call()


# -- the battery -----------------------------------------------------------------------------------------------------


def test_nothing_is_contradicted():
    """A few hundred attempts of benchmarks/contradictions.py, which makes 10^5."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes = run(400, seed=1)
    assert [story for found in outcomes for story in found.stories] == []
    assert sum(found.attempts for found in outcomes) >= 400


def test_an_output_that_one_rounding_makes_best_has_a_finite_zeta():
    """Row 2 is below row 0 at the second label by 4e-16 alone: zeta is finite, and its estimate has a weight of 5e-16 on the first label."""
    assert outcome(20261119, 2454).stories == []


def test_the_battery_can_fail(monkeypatch):
    """A lower end that is one part in a thousand too high is contradicted."""
    true = Calibration.exact
    monkeypatch.setattr(
        Calibration, "exact", lambda self, eps: replace(true(self, eps), lower=1.001 * true(self, eps).lower)
    )
    assert any(found.stories for found in run(150, seed=2))


def test_a_run_goes_on_from_its_log(tmp_path):
    log = tmp_path / "log"
    first = run(20, seed=1, log=str(log))
    assert len(log.read_text().splitlines()) == len(first)
    again = run(40, seed=1, log=str(log))
    assert [list(found) for found in again[: len(first)]] == [list(found) for found in first]
    assert len(log.read_text().splitlines()) == len(again) > len(first)


def test_barycentric_coordinates():
    rng = np.random.default_rng(0)
    corners, weights = rng.normal(size=(4, 3)), rng.dirichlet(np.ones(4))
    found = barycentric(corners, [Fraction(float(x)) for x in weights @ corners])
    assert sum(found) == 1
    np.testing.assert_allclose([float(w) for w in found], weights, atol=1e-12)


def test_every_kind_of_cost_is_drawn():
    for i, kind in enumerate(KINDS):
        rng = np.random.default_rng(i)
        case = draw_case(rng, kind, i)
        assert case.kind == kind
        assert draw_eps(rng, 1.0) > 0
        events = list(contradictions(case, 0.3, rng, starts=1))
        assert [why for what, why in events if what == "contradiction"] == []


def test_decompositions_are_the_matrix_in_the_least_dimension():
    worst, wrong, _ = decompositions(150, seed=5)
    assert worst <= 1e-10
    assert wrong == 0


# -- the contract between surrogates and the theory ------------------------------------------------------------------


@every_surrogate
def test_every_calibrated_surrogate_gives_a_form_that_is_not_above_its_divergence(part):
    if not (part.calibrated and part.differentiable):
        pytest.skip("it has no divergence that decides")
    domain = part.domain or Simplex(part.size or 3)
    form = part.form(domain)
    vertices = domain.vertices()
    a, b = (np.random.default_rng(i).dirichlet(np.ones(len(vertices)), 20) @ vertices for i in (0, 1))
    below, own = form.divergence(a, b), part.divergence(a, b)
    if form.least_curvature is not None:
        below = below * form.least_curvature(float(np.linalg.norm(a - b, axis=1).max()))
    assert (below <= own * (1 + 1e-6) + 1e-9).all()
    if form.exact:
        np.testing.assert_allclose(below, own, rtol=1e-6, atol=1e-9)
    if not form.sampled:
        sigma = part.strong_convexity(domain)["l2"]
        assert (sigma / 2 * ((a - b) ** 2).sum(1) <= own + 1e-9).all()


def test_a_surrogate_without_a_form_is_named():
    with pytest.raises(NotImplementedError, match=r"No convex form is known .* give it a method form"):
        Surrogate().form(Simplex(3))
