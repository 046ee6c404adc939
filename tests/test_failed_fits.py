"""A fit that fails, wherever it does, leaves the earlier model as it was, bit by bit."""

import copy
import inspect
import pathlib
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.fitted import CASES, answers, count, fail_at, fitted, same, take, with_rows

import taskloss as tl
from taskloss import _blas
from taskloss.solvers import ASGD, LBFGS

OURS = str(pathlib.Path(tl.__file__).parent)
every_case = pytest.mark.parametrize("name", CASES)


class Fault:
    """Raises an error at the n-th call of a function of this package; counts them where n is None."""

    def __init__(self, at=None, error=MemoryError):
        self.at, self.error, self.calls = at, error, 0

    def __call__(self, frame, event, arg):
        # A generator is also called when it is thrown away, where nothing can be raised.
        whole = not frame.f_code.co_flags & inspect.CO_GENERATOR
        if event == "call" and whole and frame.f_code.co_filename.startswith(OURS):
            self.calls += 1
            if self.calls == self.at:
                raise self.error("injected")

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def other_data(name):
    """Data of the same kind that give another model."""
    X, y, *groups = CASES[name][1]
    turned = [*y[1:], y[0]] if isinstance(y, list) else np.roll(y, 1, axis=0)
    return (X, turned, *groups)


def state(model):
    return {key: id(value) for key, value in vars(model).items()}


@every_case
def test_a_failure_at_any_step_leaves_the_earlier_model_or_the_whole_new_one(name):
    """Memory that cannot be had, an interrupt, a part that raises: at calls from the first to the last of a fit."""
    data = other_data(name)
    new = copy.deepcopy(fitted(name))
    with Fault() as count:
        new.fit(*data)
    before, after = answers(name, fitted(name)), answers(name, new)
    last, rng = count.calls, np.random.default_rng(0)
    moments = {*rng.integers(1, last, 8).tolist(), *range(max(1, last - 12), last + 1, 2)}
    failed = 0
    for i, moment in enumerate(sorted(moments)):
        model = copy.deepcopy(fitted(name))
        kept = state(model)
        error = (MemoryError, KeyboardInterrupt)[i % 2]
        with Fault(moment, error), pytest.raises(error):
            model.fit(*data)
        found = answers(name, model)
        if state(model) == kept:
            failed += 1
            assert same(found, before)
        else:
            assert same(found, after), f"a mixture of two models, at call {moment} of {last}"
        assert not _blas._hold.holders, f"BLAS is held for good, at call {moment} of {last}"
    assert failed > 4


BAD = {
    "y is short": lambda X, y, *g: (X, y[:-1], *g),
    "y is missing": lambda X, y, *g: (X, None, *g),
    "X is short": lambda X, y, *g: (take(X, range(count(X) - 1)), y, *g),
    "X is not finite": lambda X, y, *g: (spoilt(X), y, *g),
    "weights are negative": lambda X, y, *g: (X, y, *(g or ()), -np.ones(len(y))),
    "weights are short": lambda X, y, *g: (X, y, *(g or ()), np.ones(len(y) - 1)),
}


def spoilt(X):
    """NaN in the first number of each array."""

    def spoil(x):
        x = x.copy()
        if hasattr(x, "iloc"):
            x.iloc[0, 0] = np.nan
        elif hasattr(x, "nnz"):
            x.data[0] = np.nan
        else:
            x.flat[0] = np.nan
        return x

    if isinstance(X, list) and isinstance(X[0], list):
        return [[{"word": np.nan}, *X[0][1:]], *X[1:]]
    return with_rows(X, spoil)


@every_case
@pytest.mark.parametrize("how", BAD)
def test_bad_data_leave_the_earlier_model(name, how):
    data = BAD[how](*CASES[name][1])
    if name == "decoded" and how in ("X is not finite", "weights are negative"):
        pytest.skip("a tree takes these")
    model = copy.deepcopy(fitted(name))
    kept, before = state(model), answers(name, model)
    with pytest.raises((ValueError, TypeError)):
        model.fit(*data)
    assert state(model) == kept
    assert same(answers(name, model), before)


class Stubborn(LBFGS):
    """A solver that gives up."""

    def minimise(self, objective, theta, progress=None):
        super().minimise(objective, theta, progress)
        raise ArithmeticError("no minimum in sight")


@pytest.mark.parametrize("name", [n for n in CASES if hasattr(CASES[n][0], "solver") and n != "network"])
def test_a_solver_that_raises_leaves_the_earlier_model(name):
    model = copy.deepcopy(fitted(name))
    before = answers(name, model)
    model.set_params(solver=Stubborn())
    kept = state(model)
    with pytest.raises(ArithmeticError, match="no minimum"):
        model.fit(*other_data(name))
    assert state(model) == kept
    assert same(answers(name, model), before)


@pytest.mark.parametrize("moment", [1, 3])
@pytest.mark.parametrize("name", ["general", "ranker", "matcher", "tagger", "kernel hypothesis", "indicators"])
def test_an_evaluation_without_memory_leaves_the_earlier_model(name, moment, monkeypatch):
    model = copy.deepcopy(fitted(name))
    kept, before = state(model), answers(name, model)
    fail_at(monkeypatch, moment, MemoryError)
    with pytest.raises(MemoryError):
        model.fit(*other_data(name))
    monkeypatch.undo()
    assert state(model) == kept
    assert same(answers(name, model), before)


class Raising(tl.surrogates.Multinomial):
    """A surrogate whose gradient raises at its n-th call."""

    calls = 0

    def risk_and_gradient(self, v, phi):
        type(self).calls += 1
        if type(self).calls == 4:
            raise FloatingPointError("a gradient that fails")
        return super().risk_and_gradient(v, phi)


def test_a_surrogate_whose_gradient_raises_leaves_the_earlier_model():
    X, y = CASES["general"][1]
    model = copy.deepcopy(fitted("general")).set_params(surrogate=Raising())
    kept, before = state(model), answers("general", model)
    Raising.calls = 0
    with pytest.raises(FloatingPointError, match="a gradient that fails"):
        model.fit(X, np.roll(y, 1))
    assert state(model) == kept
    assert same(answers("general", model), before)


def test_a_failed_fit_keeps_the_stream_open():
    X, y = CASES["general"][1]
    halves = [(X[:30], y[:30]), (X[30:], y[30:])]
    whole, broken = (tl.CostSensitiveClassifier(solver=ASGD(step=0.1)) for _ in range(2))
    for model in (whole, broken):
        model.partial_fit(*halves[0], classes=["a", "b", "c"])
    with pytest.raises(ArithmeticError):
        broken.set_params(solver=Stubborn()).fit(X, y)
    broken.set_params(solver=ASGD(step=0.1))
    for model in (whole, broken):
        model.partial_fit(*halves[1])
    assert same(broken.theta_, whole.theta_)


def test_a_classifier_that_cannot_be_decoded_leaves_the_earlier_one():
    X, y = CASES["general"][1]
    model = tl.DecodedClassifier(LogisticRegression(), 1 - np.eye(3)).fit(X, y)
    kept, before = state(model), model.predict_proba(X)
    with pytest.raises(ValueError, match="2 classes"):
        model.fit(X, np.where(y == "a", "b", y))
    assert state(model) == kept
    assert same(model.predict_proba(X), before)
