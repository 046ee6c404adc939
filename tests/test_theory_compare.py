"""compare: every registered surrogate that fits, by the registry and the public contract alone."""

import doctest
import importlib
import pkgutil
import sys

import numpy as np
import pytest
from tests.parts import label

from taskloss import theory
from taskloss.losses import Absolute, ChainHamming, CostMatrix, Hamming, MatchingHamming, ZeroOne
from taskloss.surrogates import Multinomial, OneVsAll, Quadratic, Surrogate
from taskloss.theory import calibration, compare, pass_cost, sample_size

LOSSES = [ZeroOne(3), Absolute(4), Hamming(2), CostMatrix([[0, 2], [1, 0], [0.3, 0.4]])]


@pytest.fixture(scope="module", params=LOSSES, ids=label)
def found(request):
    return compare(request.param, eps=[0.1, 0.2])


def test_every_registered_surrogate_is_listed_or_refused_with_a_reason(found):
    names = {name.split(" (")[0] for c in found.candidates for name in (c.name, *c.same)}
    names |= {name.split(" (")[0] for name in found.refused}
    assert names == set(Surrogate.registry)
    assert all(reason for reason in found.refused.values())


def test_numbers_are_those_of_the_parts(found):
    for c in found.candidates:
        assert c.surrogate.calibrated
        if not c.surrogate.differentiable:
            assert all(f.lower == f.eps / len(found.loss.outputs()) for f in c.certificates)
            continue
        zeta = calibration(found.loss, c.surrogate)
        for f, e in zip(c.certificates, found.eps, strict=True):
            assert f.eps == e
            if f.exact:
                assert f.value == pytest.approx(zeta(e), rel=1e-4)
            else:  # zeta's own upper end lies between the bounds
                assert f.lower <= zeta(e) * (1 + 1e-6)
                assert f.value >= zeta.exact(e).lower * (1 - 1e-6)
        if c.gradient is not None and c.certificates[0].exact:
            assert c.examples[0] == pytest.approx(
                sample_size(found.loss, c.surrogate, found.eps[0], c.radius), rel=1e-3
            )
        assert c.examples[0] >= c.examples[1] or np.isnan(c.examples[0])


def test_the_fewest_examples_come_first_and_the_verdict_says_so(found):
    counts = [c.examples[0] for c in found.candidates if not np.isnan(c.examples[0])]
    assert counts == sorted(counts)
    assert found.best.name in found.verdict
    assert found.verdict.endswith(".")
    for c in found.candidates:
        assert found.explain(c.name).startswith(c.name)
    for name in found.refused:
        assert "left out" in found.explain(name)
    text = repr(found)
    assert all(c.name in text for c in found.candidates)
    assert found.verdict in text


def test_one_function_is_listed_once():
    found = compare(ZeroOne(3), eps=0.1)
    assert "max-entropy" in found["multinomial"].same
    assert "legendre" in found["quadratic"].same
    assert found["max-entropy"] is found["multinomial"]
    assert compare(Hamming(2), eps=0.1)["independent (logistic)"].name == "independent (logistic)"


def test_sample_sizes_do_not_depend_on_a_surrogates_units():
    """Twice the surrogate has twice the zeta and twice the gradient: the same n."""
    from taskloss.surrogates import Mixture

    twice = Mixture([Quadratic()], [2.0])
    found = compare(ZeroOne(3), [Quadratic(), twice], eps=0.1, radius=None)
    one, other = (found[name] for name in ("quadratic", "mixture"))
    # h = |u|^2: scores are twice as large, zeta twice; D M / zeta: 2 D (M with beta 1/2) / (2 zeta)
    assert other.certificates[0].value == pytest.approx(2 * one.certificates[0].value, rel=1e-6)
    assert other.examples[0] == pytest.approx(one.examples[0], rel=1e-4)


def test_a_surrogate_registered_later_appears(monkeypatch):
    monkeypatch.setattr(Surrogate, "registry", dict(Surrogate.registry))

    class Convolutional(Multinomial):
        name = "convolutional-test"

    class Needy(Quadratic):
        name = "needs-the-loss"

        def __init__(self, loss):
            self.loss = loss

        @classmethod
        def for_loss(cls, loss):
            return cls(loss)

        def value_and_gradient(self, v, phi):
            value, gradient = super().value_and_gradient(v, phi)
            return 2 * value, 2 * gradient

    found = compare(ZeroOne(3), eps=0.1)
    names = [name for c in found.candidates for name in (c.name, *c.same)]
    assert "convolutional-test" in names
    assert "needs-the-loss" in names


def test_a_surrogate_that_decides_by_itself(monkeypatch):
    """No calibration function by moments: listed all the same, and with numbers once one of CALIBRATIONS knows it."""
    from types import SimpleNamespace

    from taskloss.theory import candidates as module

    monkeypatch.setattr(Surrogate, "registry", dict(Surrogate.registry))

    class Own(Multinomial):
        name = "convolutional-own"

        def value_and_gradient(self, v, phi):
            value, gradient = super().value_and_gradient(v, phi)
            return value + 1.0, gradient

    def refuses(loss, surrogate):
        if isinstance(surrogate, Own):
            raise ValueError("decides by itself")
        return calibration(loss, surrogate)

    monkeypatch.setattr(module, "CALIBRATIONS", [refuses])
    found = compare(ZeroOne(3), eps=0.1)
    assert found["convolutional-own"].zeta is None
    assert np.isnan(found["convolutional-own"].examples[0])
    assert "no calibration function is known" in found.explain("convolutional-own")
    assert "unknown" in repr(found)

    def linear(loss, surrogate):
        return SimpleNamespace(loss=loss, surrogate=surrogate, eps_max=1.0, lower_bound=lambda eps: eps / 3)

    monkeypatch.setattr(module, "CALIBRATIONS", [refuses, linear])
    found = compare(ZeroOne(3), eps=0.1)
    own, usual = found["convolutional-own"], found["multinomial"]
    assert own.gradient == pytest.approx(usual.gradient)
    assert own.examples[0] == pytest.approx((2 * own.radius * own.gradient / (0.1 / 3)) ** 2, rel=1e-3)
    assert found.best is own
    assert "quadratic takes 4.7 times fewer operations per example" in found.verdict
    monkeypatch.setattr(module, "pass_cost", lambda surrogate, size: None)
    assert compare(ZeroOne(3), eps=0.1).verdict.endswith("what an example costs is not known.")
    assert ">= 0.0333" in found.explain("convolutional-own")


def test_structures():
    found = compare(ChainHamming(2, 2), ["chain-crf", "quadratic"], eps=0.2)
    assert {c.name for c in found.candidates} == {"chain-crf", "quadratic"}
    found = compare(MatchingHamming(2), ["row-multinomial", "quadratic", "max-entropy"], eps=0.2)
    assert "row-multinomial" in [c.name for c in found.candidates]


def test_tables(found):
    pd = pytest.importorskip("pandas")
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == [c.name for c in found.candidates]
    assert frame.loc[found.best.name, "examples(0.1)"] == found.best.examples[0]
    assert {frozenset(row) for row in found.rows()} == {frozenset(found.rows()[0])}


def test_rows_need_no_pandas(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame needs pandas: pip install pandas, or use rows\(\)"):
        found.to_frame()
    assert found.rows()[0]["surrogate"] == found.best.name


def test_a_picture(found):
    matplotlib = pytest.importorskip("matplotlib")
    axes = found.plot()
    curves = {line.get_label(): line.get_ydata() for line in axes[1].get_lines()}
    np.testing.assert_allclose(curves[found.best.name], found.best.examples)
    matplotlib.pyplot.close("all")


def test_costs_grow_as_they_should():
    assert pass_cost(Multinomial(20)).operations == 2 * pass_cost(Multinomial(10)).operations
    assert pass_cost(OneVsAll("logistic", 4)).operations > pass_cost(Multinomial(4)).operations
    with_model = compare(ZeroOne(3), ["multinomial"], eps=0.1, features=50)
    assert with_model.total(with_model.best) == with_model.best.operations + 4 * 50 * 3
    for name, kind in Surrogate.registry.items():
        for part in kind.examples():
            cost = pass_cost(part, part.size or 3)
            assert cost is None or cost.operations > 0, name


def test_confidence_asks_for_more():
    plain, sure = (compare(ZeroOne(3), ["multinomial"], eps=0.1, confidence=c) for c in (None, 0.9))
    assert sure.best.examples[0] > plain.best.examples[0]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="eps must be one or more positive numbers"):
        compare(ZeroOne(3), ["quadratic"], eps=-0.1)
    with pytest.raises(ValueError, match="noise must be between 0 and 1"):
        compare(ZeroOne(3), ["quadratic"], noise=0.0)
    with pytest.raises(ValueError, match="radius must be positive"):
        compare(ZeroOne(3), ["quadratic"], radius=-1.0)
    with pytest.raises(ValueError, match="No surrogate fits"):
        compare(Hamming(2), ["multinomial"])
    with pytest.raises(ValueError, match="no surrogate named 'hinge'"):
        compare(ZeroOne(3), ["hinge"])
    with pytest.raises(KeyError, match="is for chains"):
        compare(ZeroOne(3), ["quadratic", "chain-crf"], eps=0.1)["chain-crf"]


def test_examples_run():
    attempted = 0
    for module in pkgutil.iter_modules(theory.__path__):
        found = doctest.testmod(importlib.import_module(f"taskloss.theory.{module.name}"))
        assert found.failed == 0
        attempted += found.attempted
    assert attempted > 20
