"""zeta_h: closed forms against programs, programs against brute force, bounds around both, and the defining law."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.parts import label

import taskloss as tl
from taskloss.losses import (
    NDCG,
    Absolute,
    Abstain,
    CostMatrix,
    Hamming,
    Loss,
    MatchingHamming,
    Squared,
    TreeDistance,
    ZeroOne,
)
from taskloss.margins import Exponential, Logistic, Square
from taskloss.polytopes import Hull, Product, Simplex
from taskloss.surrogates import (
    AllThresholds,
    CumulativeLink,
    Independent,
    Legendre,
    Listwise,
    MaxEntropy,
    Mixture,
    Multinomial,
    OneVsAll,
    Quadratic,
    RowMultinomial,
    Surrogate,
)
from taskloss.surrogates.coordinatewise import Coordinatewise
from taskloss.surrogates.form import entropy
from taskloss.theory import calibration, margin_calibration
from taskloss.theory.closed import closed_form
from taskloss.theory.problem import Problem
from taskloss.theory.search import witness

MARGINS = [Logistic(), Exponential(), Square()]
LEVELS = [0.05, 0.3, 0.7, 1.0]


def zeta_bar(eps, margin=None):
    return float(margin_calibration(margin or Logistic(), np.array(eps)))


def matching(m):
    return MatchingHamming(m), RowMultinomial()


def random_loss(seed, shape=(4, 3)):
    return CostMatrix(np.random.default_rng(seed).uniform(0, 1, shape))


# -- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", MARGINS, ids=lambda m: m.name)
@pytest.mark.parametrize("cost", [0.3, 0.7, 1.0])
def test_binary_margins_with_costs(margin, cost):
    """min over signs of D_h((c +- eps)/2, c/2), feasible signs only; the engine agrees without the formula."""
    zeta = calibration(CostMatrix([[0, 2 - cost], [cost, 0]], embedding="cube"), Independent(margin))

    def divergence(a, b):
        a, b = np.array(a), np.array(b)
        return float(margin.potential(a) - margin.potential(b) - (a - b) * margin.potential_derivative(b))

    for eps in (0.05, 0.2, 0.5):
        truths = [(cost + sign * eps) / 2 for sign in (1, -1)]
        expected = min(divergence(q, cost / 2) for q in truths if 0 <= q <= 1)
        assert zeta(eps) == pytest.approx(expected, abs=1e-12)
        numeric = zeta.numeric(eps)
        assert numeric.lower - 1e-8 <= expected <= numeric.value + 1e-8
        assert numeric.value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("margin", MARGINS, ids=lambda m: m.name)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_vs_all(margin, k):
    zeta = calibration(ZeroOne(k), OneVsAll(margin))
    for eps in LEVELS:
        expected = 2 * zeta_bar(eps, margin)
        assert zeta(eps) == pytest.approx(expected, abs=1e-12)
        numeric = zeta.numeric(eps)
        assert numeric.lower - 1e-6 <= expected
        assert numeric.value == pytest.approx(expected, abs=1e-5 if numeric.exact else 3e-3)
    assert zeta(1.01) == np.inf


@pytest.mark.parametrize("margin", MARGINS, ids=lambda m: m.name)
@pytest.mark.parametrize("k", [1, 3])
def test_hamming(margin, k):
    zeta = calibration(Hamming(k), Independent(margin))
    for eps in LEVELS:
        expected = k * zeta_bar(eps, margin)
        assert zeta(eps) == pytest.approx(expected, abs=1e-12)
        assert zeta.numeric(eps).value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("margin", [Logistic(), Square()], ids=lambda m: m.name)
def test_weighted_hamming_fills_the_cheap_labels_first(margin):
    zeta = calibration(Hamming(3, weights=[1.0, 2.0, 0.5]), Independent(margin))
    for eps in (0.2, 1.5, 3.3):
        assert zeta(eps) == pytest.approx(zeta.numeric(eps).value, abs=1e-5)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_multinomial_and_cumulative_link_in_closed_form(k):
    """Beyond the paper, which has lower bounds only: log 2 - Ent((1 + eps)/2), at eps / (k - 1) for absolute error."""
    conic = [pair for pair in ((ZeroOne(k), Multinomial()), (Absolute(k), CumulativeLink()))]
    for (loss, surrogate), scale in zip(conic, (1, k - 1), strict=True):
        zeta = calibration(loss, surrogate)
        for share in LEVELS:
            eps = share * scale
            expected = zeta_bar(eps / scale)
            assert zeta(eps) == pytest.approx(expected, abs=1e-12)
            solved = min(zeta.programs.solve(z, other, eps).value for z, other in itertools.permutations(range(k), 2))
            assert solved == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("margin", MARGINS, ids=lambda m: m.name)
@pytest.mark.parametrize("k", [3, 5])
def test_all_thresholds_in_closed_form(margin, k):
    """The paper's lower bound (k - 1) zeta(eps / (k - 1)) is the exact function."""
    zeta = calibration(Absolute(k), AllThresholds(margin))
    for share in LEVELS:
        eps = share * (k - 1)
        expected = (k - 1) * zeta_bar(share, margin)
        assert zeta.exact(eps).method == "closed form (all thresholds)"
        assert zeta(eps) == pytest.approx(expected, abs=1e-12)
        numeric = zeta.numeric(eps)
        assert numeric.value == pytest.approx(expected, abs=1e-5)
        assert numeric.lower == pytest.approx(expected, rel=2e-4 if share < 1 else 1e-2)


@pytest.mark.parametrize("margin", MARGINS, ids=lambda m: m.name)
def test_a_plane_touches_each_margins_divergence_at_a_tie(margin):
    """D(x, y) >= D(x*, 1/2) + h'(x*)(x - x*) - h''(1/2)(x* - 1/2)(y - 1/2): what the all-thresholds formula rests on."""
    grid = np.r_[1e-6, np.linspace(0.01, 0.99, 99), 1 - 1e-6]
    x, y = np.meshgrid(grid, grid)

    def divergence(a, b):
        return margin.potential(a) - margin.potential(b) - (a - b) * margin.potential_derivative(b)

    curvature = {"logistic": 4, "exponential": 4, "square": 8}[margin.name]
    for truth in (0.51, 0.7, 0.95, 0.999):
        at = divergence(np.array(truth), np.array(0.5))
        slope = margin.potential_derivative(np.array(truth))
        plane = at + slope * (x - truth) - curvature * (truth - 0.5) * (y - 0.5)
        assert (divergence(x, y) >= plane - 1e-9).all()


@pytest.mark.parametrize("m", [2, 3, 4])
def test_matching_in_closed_form(m):
    zeta = calibration(*matching(m))
    for eps in (0.1, 0.5, 0.9):
        found = zeta.exact(eps)
        assert found.value == pytest.approx(m * zeta_bar(eps), abs=1e-6)
        assert found.programs <= 4


def test_listwise_on_classes():
    """With gains that sum to cap it is cap times Kullback-Leibler, but estimates may put some of it on the rest."""
    zeta = calibration(ZeroOne(4), Listwise())
    assert zeta(0.3) <= zeta_bar(0.3) + 1e-9
    assert zeta.exact(0.3).exact
    assert zeta.lower_bound(0.3) <= zeta(0.3)


def test_mixture_adds_up():
    """For 0-1 loss both parts share the witness (a tie of two classes), so that their calibration functions add up."""
    for eps in (0.2, 0.6):
        found = calibration(ZeroOne(4), Mixture(weights=[0.5, 3.0])).exact(eps)
        assert found.method == "conic"
        assert found.exact
        assert found.value == pytest.approx(0.5 * zeta_bar(eps) + 3 * eps**2 / 4, abs=1e-7)


def test_quadratic_on_matching_and_classes():
    assert calibration(ZeroOne(4), Quadratic())(0.3) == pytest.approx(0.3**2 / 4, abs=1e-7)
    assert calibration(matching(3)[0], Quadratic())(0.3) == pytest.approx(3 * 0.3**2 / 4, abs=1e-7)


# -- the engine against brute force ----------------------------------------------------------------------------------


def brute_force(problem, eps, estimates, truths):
    """The least divergence over listed points: an upper bound that closes in as the lists grow."""
    risks_u = estimates @ problem.psi.T + problem.offset
    picks = risks_u.argmin(1)
    risks = truths @ problem.psi.T + problem.offset
    best = np.inf
    for z in np.unique(picks):
        wrong = truths[risks[:, z] - risks.min(1) >= eps]
        right = estimates[picks == z]
        if len(wrong) and len(right):
            best = min(best, float(problem.divergence(wrong[:, None], right[None]).min()))
    return best


@pytest.mark.parametrize(
    "surrogate",
    [Multinomial(), OneVsAll(), OneVsAll("exponential"), Quadratic(), Mixture(weights=[1.0, 3.0])],
    ids=label,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_engine_against_a_grid(surrogate, seed):
    loss = random_loss(seed)
    zeta = calibration(loss, surrogate)
    eps = 0.2 * zeta.eps_max
    grid = np.array([q for q in itertools.product(np.arange(41) / 40, repeat=3) if abs(sum(q) - 1) < 1e-9])
    inside = (grid + 1e-3) / (1 + 3e-3)
    if isinstance(surrogate, OneVsAll):
        inside = np.array(list(itertools.product(np.linspace(0.01, 0.99, 17), repeat=3)))
    found = zeta.exact(eps)
    rough = brute_force(zeta.problem, eps, inside, grid)
    assert found.lower <= rough + 1e-9
    assert found.value <= rough * (1 + 1e-9)
    assert rough <= 2.5 * found.value + 5e-3


@pytest.mark.parametrize("seed", range(4))
def test_two_label_bound_is_below_every_program(seed):
    from taskloss.theory.closed import two_point_bounds

    zeta = calibration(random_loss(seed, (4, 4)), Multinomial())
    bounds = two_point_bounds(zeta.problem.table, 0.15)
    for z, other in itertools.permutations(range(4), 2):
        assert bounds[z, other] <= zeta.programs.solve(z, other, 0.15).value + 1e-9


def test_form_is_the_surrogates_own_divergence():
    rng = np.random.default_rng(0)
    for loss, surrogate in [
        (ZeroOne(4), Multinomial()),
        (ZeroOne(4), OneVsAll()),
        (ZeroOne(4), OneVsAll("square")),
        (Hamming(3), Independent()),
        (Absolute(4), AllThresholds()),
        (Absolute(4, embedding="cube"), MaxEntropy()),
        (NDCG(n_items=3), Listwise()),
        (ZeroOne(4), Mixture()),
        (Hamming(3), Mixture(["max-entropy", Independent("square")], [0.3, 2.0])),
        matching(3),
    ]:
        problem = Problem(loss, surrogate)
        a, b = (rng.dirichlet(np.ones(len(problem.vertices)), 5) @ problem.vertices for _ in range(2))
        np.testing.assert_allclose(problem.form.divergence(a, b), problem.surrogate.divergence(a, b), atol=1e-8)


def test_minorants_are_below():
    rng = np.random.default_rng(0)
    points = [[-1.0, -1], [-1, 1], [1, -1], [1, 1]]
    for loss, surrogate in [(ZeroOne(3), OneVsAll("exponential")), (Hamming(2), MaxEntropy(Hull(points)))]:
        problem = Problem(loss, surrogate)
        assert not problem.form.exact
        a, b = (rng.dirichlet(np.ones(len(problem.vertices)), 50) @ problem.vertices for _ in range(2))
        assert (problem.form.divergence(a, b) <= problem.surrogate.divergence(a, b) + 1e-9).all()


# -- certificates ----------------------------------------------------------------------------------------------------

PAIRS = [
    (random_loss(0, (5, 4)), Multinomial()),
    (random_loss(1, (4, 4)), OneVsAll()),
    (random_loss(2, (4, 4)), Quadratic()),
    (random_loss(3, (3, 3)), OneVsAll("exponential")),
    (Abstain(3, 0.3), Multinomial()),
    (Squared(4, embedding="cube"), Independent()),
    (Squared(4, embedding="cube"), MaxEntropy()),
    (TreeDistance(["a/x", "a/y", "b/u", "b"], embedding="cube"), Independent()),
    matching(3),
]


@pytest.mark.parametrize(("loss", "surrogate"), PAIRS, ids=lambda part: repr(part)[:30])
def test_certificates_hold(loss, surrogate):
    """The witness is feasible and attains the value; bounds lie on their sides; zeta grows."""
    zeta = calibration(loss, surrogate)
    problem, values = zeta.problem, []
    for eps in np.array([0.1, 0.3, 0.6]) * zeta.eps_max:
        found = zeta.exact(eps)
        values.append(found.value)
        assert problem.excess(found.z, found.u_prime) >= eps - 1e-9
        assert problem.excess(found.z, found.u) <= 1e-9
        assert problem.polytope.contains(found.u_prime, tol=1e-8)
        assert float(problem.divergence(found.u_prime, found.u)) == pytest.approx(found.value, rel=1e-7, abs=1e-9)
        assert found.gap <= (1e-6 if found.exact else 1e-2 * found.value)
        assert zeta.lower_bound(eps) <= found.value + 1e-9
        assert zeta.lower_bound(eps, improved=False) <= zeta.lower_bound(eps) + 1e-12
        assert zeta.upper_bound(eps) >= found.lower - 1e-9
        assert zeta.envelope(eps) <= found.value + 1e-9
    assert (np.diff(values) >= -1e-9).all()
    assert zeta(0.0) == 0
    assert zeta(zeta.eps_max * 1.01) == np.inf


@pytest.mark.parametrize("surrogate", [Multinomial(), OneVsAll(), OneVsAll("exponential"), Quadratic()], ids=label)
def test_an_output_that_is_never_best_takes_no_part(surrogate):
    """In the cube such an output is optimal at the origin alone, which is infinitely far: a solver's trap."""
    costs = np.array([[0.64, 0.27, 0.04], [0.54, 0.94, 0.82]])
    levels = np.array([0.1, 0.25, 0.4])
    with_it, without = (
        calibration(CostMatrix(matrix), surrogate)(levels)
        for matrix in (np.vstack([costs, [[0.81, 0.95, 0.83]]]), costs)
    )
    assert (np.diff(with_it) > 0).all()
    if not isinstance(surrogate, Quadratic):
        np.testing.assert_allclose(with_it, without, rtol=1e-4)


def test_upper_bound_is_quadratic_near_zero():
    zeta = calibration(random_loss(0, (3, 3)), Multinomial())
    assert zeta.upper_bound(1e-3) <= 1.5 * zeta.upper_bound(2e-3) / 4
    assert np.isfinite(zeta.upper_bound(1e-3))


def test_symmetry_saves_programs_and_changes_nothing():
    zeta = calibration(Hamming(3), Independent())
    assert len(zeta.representatives) == 3  # Hamming distances 1, 2 and 3
    everyone = min(zeta.programs.solve(z, o, 0.4).value for z, o in itertools.permutations(range(8), 2))
    assert zeta.numeric(0.4).value == pytest.approx(everyone, abs=1e-8)
    assert len(calibration(ZeroOne(12), OneVsAll()).representatives) == 1
    assert len(calibration(*matching(4)).representatives) == 4  # cycle types of a permutation other than the identity
    assert len(calibration(random_loss(0, (5, 5)), Quadratic()).representatives) == 20


# -- envelope and inverse --------------------------------------------------------------------------------------------


def test_envelope_is_the_lower_hull_of_a_zeta_that_is_not_convex():
    from scipy.spatial import ConvexHull

    zeta = calibration(random_loss(0, (4, 4)), Multinomial())
    grid = np.linspace(0, zeta.eps_max, 61)
    values = zeta(grid)
    finite = np.isfinite(values)
    points = np.c_[grid, values][finite]
    hull = points[np.sort(ConvexHull(np.vstack([points, [[0, values[finite].max() + 1]]])).vertices)[:-1]]
    for i in (10, 25, 45, 50):
        assert zeta.envelope(grid[i]) <= values[i] + 1e-8
        assert zeta.envelope(grid[i]) == pytest.approx(np.interp(grid[i], *hull.T), rel=2e-3)
    assert max(values[i] - zeta.envelope(grid[i]) for i in (40, 45, 50)) > 1e-3


@pytest.mark.parametrize(("loss", "surrogate"), PAIRS[:7], ids=lambda part: repr(part)[:30])
def test_excess_risk_inverts_the_envelope(loss, surrogate):
    zeta = calibration(loss, surrogate)
    eps = 0.4 * zeta.eps_max
    assert zeta.excess_risk(zeta.envelope(eps)) == pytest.approx(eps, rel=2e-3)
    assert zeta.excess_risk(0.0) == 0
    assert zeta.excess_risk(1e6) == pytest.approx(zeta.eps_max)


def test_hard_margin_and_low_noise_limits():
    zeta = calibration(ZeroOne(3), Multinomial())
    assert zeta.hard_margin(0.2) == pytest.approx(zeta_bar(0.2))
    assert zeta.low_noise(0.0, 5.0)(0.3) == pytest.approx(zeta.envelope(0.15))
    # as p grows the bound turns from quadratic to linear in eps
    slopes = [np.log(zeta.low_noise(p, 2.0)(2e-3) / zeta.low_noise(p, 2.0)(1e-3)) / np.log(2) for p in (0, 1, 9)]
    np.testing.assert_allclose(slopes, [2.0, 1.5, 1.1], atol=0.02)


# -- the defining law ------------------------------------------------------------------------------------------------


def registered_pairs():
    """Every loss with every surrogate that takes it, by default and by example, and with the margins that calibrate."""
    surrogates = []
    for kind in Surrogate.registry.values():
        margins = [kind(m) for m in ("exponential", "square")] if issubclass(kind, Coordinatewise) else kind.examples()
        surrogates += [kind(), *margins]
    for loss in (example for kind in Loss.registry.values() for example in kind.examples()):
        seen = []
        for surrogate in surrogates:
            try:
                zeta = calibration(loss, surrogate)
            except (ValueError, NotImplementedError):  # they do not belong together, or not every output can be listed
                continue
            if not any(zeta.surrogate == other.surrogate and zeta.loss == other.loss for other in seen):
                seen.append(zeta)
                name = re.sub(r"<function | at 0x\w+>|\s+", " ", f"{loss!r} {zeta.surrogate!r}")
                yield pytest.param(zeta, id=name[:90])


def is_quick(zeta):
    """Whether all pairs together take no time: where outputs are few, or a closed form is known."""
    few = 8 if zeta.problem.form.exact else 4 if zeta.problem.hellinger else 0
    return len(zeta.problem.psi) <= few or closed_form(zeta.problem, zeta.eps_max / 2) is not None


def certify(zeta, eps, z, other):
    """zeta(eps) with its witness; of one pair alone where all of them take long."""
    if is_quick(zeta):
        return zeta.exact(eps)
    programs = zeta.programs
    found = programs.solve(z, other, eps)
    return replace(witness(programs, z, other, eps, found.u_prime, found.u), lower=found.lower)


@pytest.mark.parametrize("zeta", list(registered_pairs()))
def test_no_score_beats_zeta(zeta):
    """zeta(true excess) <= surrogate excess at random laws and scores, and zeta** of the means below the mean."""
    problem, surrogate = zeta.problem, zeta.surrogate
    rng = np.random.default_rng(0)
    n = 100
    mu = rng.dirichlet(np.full(len(problem.vertices), 0.5), n) @ problem.vertices
    estimate = 0.7 * mu + 0.3 * rng.dirichlet(np.full(len(problem.vertices), 0.5), n) @ problem.vertices
    centre = problem.vertices.mean(0) if surrogate.domain is None else surrogate.domain.center()
    estimate = 0.999 * estimate + 0.001 * centre
    if isinstance(surrogate, Legendre):  # there and back is a numerical search; S is the divergence by construction
        price = problem.divergence(mu, estimate)
    else:
        v = np.clip(surrogate.link(estimate), -1e3, 1e3)  # a forbidden transition's score is minus infinity
        estimate, price = surrogate.inverse_link(v), surrogate.value(v, mu)
    picks = (estimate @ problem.psi.T + problem.offset).argmin(1)
    risks = mu @ problem.psi.T + problem.offset
    excess = risks[np.arange(n), picks] - risks.min(1)
    for i in np.argsort(price / np.maximum(excess, 1e-9) ** 2)[:2]:
        if problem.convexity:
            assert zeta.lower_bound(excess[i]) <= price[i] + 1e-7
        if excess[i] > 0:
            assert certify(zeta, excess[i], int(picks[i]), int(risks[i].argmin())).lower <= price[i] + 1e-7
    if is_quick(zeta) and (problem.convexity or zeta._hull._one_dimensional):
        assert zeta.envelope(excess.mean()) <= price.mean() + 1e-7


@pytest.mark.parametrize("zeta", list(registered_pairs()))
def test_witnesses_attain_zeta(zeta):
    """At the witness the output that the estimate picks is eps behind, and the divergence is the value."""
    problem = zeta.problem
    for share in (0.4, 0.1, 0.02):  # what is far behind may be optimal nowhere in D
        eps = share * zeta.eps_max
        z, other = np.unravel_index(np.abs(problem.reach - 1.5 * eps).argmin(), problem.reach.shape)
        found = certify(zeta, eps, int(z), int(other))
        if np.isfinite(found.value):
            break
    if np.isinf(found.value):
        best = (problem.table <= problem.table.min(0) + 1e-12).all(1).any()  # one output is optimal everywhere
        assert best or (problem.table < problem.table[z] - 1e-12).all(1).any()  # or the pair's own is optimal nowhere
        return
    assert found.lower <= found.value * (1 + 1e-12)  # a pair alone was made feasible twice, which costs its last digit
    assert problem.excess(found.z, found.u_prime) >= eps - 1e-9
    assert problem.excess(found.z, found.u) <= 1e-8
    assert problem.polytope.contains(found.u_prime, tol=1e-7)
    assert float(problem.divergence(found.u_prime, found.u)) == pytest.approx(found.value, rel=1e-7, abs=1e-9)
    if found.exact and is_quick(zeta):
        assert found.gap <= 1e-5 * max(1.0, found.value)


# -- what does not belong together -----------------------------------------------------------------------------------


def test_sentences():
    with pytest.raises(ValueError, match="does not fit this loss"):
        calibration(Hamming(3), Multinomial(4))
    with pytest.raises(ValueError, match="is not phi-calibrated"):
        calibration(ZeroOne(3), OneVsAll("hinge"))
    with pytest.raises(ValueError, match="eps must be finite and not negative"):
        calibration(ZeroOne(3), Multinomial())(-0.1)
    with pytest.raises(ValueError, match="delta must be finite and not negative"):
        calibration(ZeroOne(3), Multinomial()).excess_risk(-0.1)
    with pytest.raises(ValueError, match="NaN or infinite"):
        calibration(CostMatrix([[0, np.inf], [1, 0]]), Multinomial())
    with pytest.raises(ValueError, match="norm must be"):
        calibration(ZeroOne(3), Multinomial()).lower_bound(0.1, norm="l3")
    with pytest.raises(ValueError, match="p must be finite and not negative"):
        calibration(ZeroOne(3), Multinomial()).low_noise(-1, 1)
    with pytest.raises(ValueError, match="gamma_p must be at least 1 / eps_max = 1"):
        calibration(ZeroOne(3), Multinomial()).low_noise(2, 0.5)
    with pytest.raises(ValueError, match="No strong convexity constant"):
        calibration(ZeroOne(3), Legendre.examples()[1]).lower_bound(0.1)
    wavy = Legendre(lambda u: (u**2).sum(-1) / 2 - 3 * np.cos(4 * u).sum(-1), Simplex(3))
    with pytest.raises(ValueError, match="potential is not convex"):
        calibration(ZeroOne(3), wavy)(0.1)


def test_legendre_interval_holds_the_multinomials_value():
    found = calibration(ZeroOne(3), Legendre.examples()[1]).exact(0.3)
    assert not found.exact
    assert found.lower <= zeta_bar(0.3) <= found.value <= 1.001 * zeta_bar(0.3)
    assert "in [" in repr(found)
    assert "sampled curvature" in found.method


def test_one_dimension_is_exact_for_any_potential():
    zeta = calibration(ZeroOne(2), Legendre(Legendre.examples()[1].potential, Simplex(2)))
    for eps in (0.1, 0.5):
        assert zeta.exact(eps).method == "closed form (one dimension)"
        assert zeta(eps) == pytest.approx(zeta_bar(eps), abs=1e-8)
    assert zeta.excess_risk(zeta_bar(0.5)) == pytest.approx(0.5, abs=1e-4)


def test_missing_solver(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"taskloss\[theory\]"):
        calibration(random_loss(0), Multinomial())(0.1)


def test_import_is_light():
    import subprocess
    import sys

    code = "import sys, taskloss; print([m for m in ('clarabel', 'cvxpy', 'matplotlib', 'numba', 'torch') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_progress(capsys):
    calibration(random_loss(0), Multinomial(), verbose=True)(0.2)
    assert "zeta" in capsys.readouterr().err
    steps = []
    with tl.progress.callbacks(steps.append):
        calibration(random_loss(0), tl.surrogates.Legendre())(0.2)
    assert steps
    assert all(step.label == "zeta" and 0 <= step.done <= step.total for step in steps)


def test_entropy_forms_cover_the_polytopes():
    for domain in (Simplex(3), tl.polytopes.Cube(2), tl.polytopes.Cube(2, low=0.0), Product([Simplex(2), Simplex(3)])):
        form = entropy(domain)
        u = domain.center()
        assert form.exact
        assert form.divergence(u, u) == pytest.approx(0.0)
        np.testing.assert_allclose(form.equal @ u, form.level)
