"""No public function of tl.theory returns a number that is none, or that nobody checked."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
from benchmarks.draws import named
from benchmarks.draws_parts import COSTS, THEORY, THEORY_METHODS, theory_method

import taskloss as tl
from taskloss.theory import calibration, decompose, linear_calibration, margin_distribution, sample_size

NO_NUMBERS = {  # methods that take none: figures, tables, and what indexes them
    *("Calibration.plot", "Calibration.ordered", "Comparison.plot", "Comparison.to_frame", "Comparison.rows"),
    *("Comparison.explain", "Comparison.total", "MarginDistribution.plot", "Decomposition.loss"),
    "OsokinComparison.surrogate",  # of arrays, a definition
}
OF = {
    "calibration": "Calibration",
    "linear_calibration": "LinearCalibration",
    "decision_distances": "DecisionDistances",
    "margin_distribution": "MarginDistribution",
    "check_max_margin": "MaxMarginReport",
}
BAD = {"NaN": math.nan, "infinity": math.inf, "minus one": -1.0, "None": None, "word": "word", "complex": 1j}
SIZES = {"tiny": 1e-300, "small": 1e-30, "little": 1e-15, "huge": 1e300}
ACCEPTED = {  # costs, scores and moments may be negative, a probability is asked for at any place, and None is the default
    *((name, "minus one") for name in ("matrix", "constant", "v", "data", "scores", "t")),
    *((name, "None") for name in ("constant", "p", "confidence")),
    ("t", "infinity"),
}
CALLS = {
    **{name: (getattr(tl.theory, name), good) for name, good in THEORY.items()},
    **{name: (lambda name=name, **given: theory_method(name, **given), good) for name, good in THEORY_METHODS.items()},
}


def numbers(found):
    """All numbers in what a function returned."""
    if isinstance(found, bool | str | bytes | None | tl.losses.Loss | tl.surrogates.Surrogate) or callable(found):
        return []
    if dataclasses.is_dataclass(found):
        return [x for field in dataclasses.fields(found) for x in numbers(getattr(found, field.name))]
    if isinstance(found, dict):
        return [x for value in found.values() for x in numbers(value)]
    if isinstance(found, list | tuple):
        return [x for value in found for x in numbers(value)]
    array = np.asarray(found)
    return array.astype(float).ravel().tolist() if array.dtype.kind in "fiu" else []


def test_every_method_of_the_theory_is_here():
    found = set()
    for name in tl.theory.__all__:
        kind = getattr(tl.theory, name)
        if inspect.isclass(kind) and name not in ("Cost", "Report"):
            own = [m for m, f in vars(kind).items() if inspect.isfunction(f) and (m[0] != "_" or m == "__call__")]
            found |= {f"{name}.{method}" for method in own}
    assert {
        f"{OF[of]}.{method}" for of, _, method in (name.partition(".") for name in THEORY_METHODS)
    } | NO_NUMBERS == found


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_number_is_none(name):
    """A bad value is refused by name, or changes nothing that a number could be wrong by."""
    call, good = CALLS[name]
    for argument, value in good.items():
        if not isinstance(value, float | int | np.ndarray) or isinstance(value, bool):
            continue
        for how, bad in {**BAD, **SIZES}.items():
            spoilt = bad if np.ndim(value) == 0 else np.full(np.shape(value), bad)
            try:
                found = call(**{**good, argument: spoilt})
            except (ValueError, TypeError) as error:
                assert named(str(error), good), f"{argument} {how}: {error}"  # noqa: PT017
                continue
            fine = how in SIZES or (argument, how) in ACCEPTED
            assert fine, f"{argument} may be {how}"
            assert not any(math.isnan(x) for x in numbers(found)), f"{argument} {how}: {found}"


# -- far below rounding, and far beyond every cost ------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["one-vs-all", "multinomial", "quadratic"])
def test_levels_below_rounding_are_intervals(surrogate):
    """zeta(1e-15) of costs up to 5 was called exact, and below its own lower bound; zeta(1e-30) was zero, and exact."""
    zeta = calibration(tl.losses.CostMatrix(COSTS), surrogate)
    curve = zeta.exact(1e-4).value / 1e-8
    for eps in (1e-9, 1e-12, 1e-14, 1e-15, 1e-30, 1e-300):
        found = zeta.exact(eps)
        assert 0 <= found.lower <= found.value < np.inf
        assert zeta.lower_bound(eps) * (1 - 1e-12) <= found.value
        assert found.value >= curve * eps * eps * (1 - 1e-6)
        assert found.value > 0
        assert found.lower <= curve * eps * eps * (1 + 1e-3)
        if found.exact:
            assert found.value == pytest.approx(curve * eps**2, rel=1e-3)
        assert zeta.upper_bound(eps) >= curve * eps * eps * (1 - 1e-6)
        assert zeta.envelope(eps) <= curve * eps * eps * (1 + 1e-3)
    assert math.isfinite(sample_size(tl.losses.CostMatrix(COSTS), surrogate, eps=1e-30))


@pytest.mark.parametrize("surrogate", ["one-vs-all", "multinomial", "quadratic"])
@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e15])
def test_excess_risk_turns_zeta_around_at_every_size(surrogate, unit):
    """excess_risk(1e-30) of one-vs-all was zero, and that of costs beyond 1e12 was 1e12."""
    zeta = calibration(tl.losses.CostMatrix(unit * (1 - np.eye(3))), surrogate)
    for eps in (1e-12 * unit, 1e-6 * unit, 0.3 * unit):
        delta = zeta.exact(eps).value if eps > 1e-8 * unit else float(zeta.lower_bound(eps))
        assert zeta.excess_risk(delta) >= eps * (1 - 1e-9)
        assert zeta.excess_risk(delta) <= 1.01 * eps
    assert zeta.excess_risk(1e300) == zeta.eps_max


def test_gamma_p_is_the_norm_for_small_and_large_p():
    """For p = 1e-15 the sum of powers rounds to one, and its p-th root was noise."""
    margins = np.array([0.1, 0.3, 0.5, 0.9])
    found = margin_distribution(tl.losses.ZeroOne(2), np.c_[0.5 + margins / 2, 0.5 - margins / 2])
    geometric = math.exp(-np.log(margins).mean())
    assert found.gamma_p(1e-300) == pytest.approx(geometric)
    assert found.gamma_p(1e-15) == pytest.approx(geometric)
    assert found.gamma_p(2.0) == pytest.approx(np.mean(margins**-2.0) ** 0.5)
    assert found.gamma_p(1e300) == pytest.approx(10)
    for p in (1e-300, 0.5, 3.0, 1e300):
        assert found.gamma_p_lower(p) <= found.gamma_p(p)


def test_a_cost_needs_a_number_of_scores():
    """Without one, surrogates of any size were said to cost nothing."""
    for surrogate in (tl.surrogates.OneVsAll(), tl.surrogates.Listwise(), tl.surrogates.CumulativeLink()):
        assert tl.theory.pass_cost(surrogate) is None
        assert tl.theory.pass_cost(surrogate, 4).operations > 0
        with pytest.raises(ValueError, match="size must be a whole number"):
            tl.theory.pass_cost(surrogate, math.nan)


def test_a_constant_that_swallows_the_costs_is_refused():
    assert np.abs(decompose(COSTS, constant=100.0).matrix - COSTS).max() < 1e-10
    with pytest.raises(ValueError, match="constant must be comparable to the costs of matrix"):
        decompose(COSTS, constant=1e12)


def test_a_tolerance_that_makes_all_costs_equal_is_refused():
    """With tol=1e300 hinge loss was consistent with 0-1 loss on three labels."""
    with pytest.raises(ValueError, match=r"tol must be at most 0.001"):
        tl.theory.check_max_margin(tl.losses.ZeroOne(3), tol=1e300)


def test_a_convolved_surrogate_has_no_negative_excess():
    zeta = linear_calibration(tl.losses.ZeroOne(3))
    for call in (zeta.excess_risk, zeta.lower_bound):
        with pytest.raises(ValueError, match="must be finite and not negative"):
            call(-1.0)
