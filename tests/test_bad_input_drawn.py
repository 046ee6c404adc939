"""Bad input by machine: some hundreds of the draws of `benchmarks/draws.py`; a call works, or refuses with a sentence."""

import warnings

import numpy as np
import pandas as pd
import pytest
from benchmarks.draws import TARGETS, outcome, refusal

import taskloss as tl
from taskloss._checks import HYPERPARAMETERS, check_hyperparameters
from taskloss.hypotheses import Hypothesis
from taskloss.losses import Loss
from taskloss.solvers import Solver
from taskloss.surrogates import Surrogate


@pytest.mark.parametrize("target", TARGETS)
def test_drawn_calls_work_or_refuse_with_a_sentence(target):
    # Legendre's Newton steps and huge features may warn; what is asked here is only what is raised.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [outcome(target, [2026, i]) for i in range(15)]
    assert not [said for result, said in found if result == "else"]
    assert {result for result, _ in found} <= {"accepted", "refused"}


def raised(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def test_refusals_are_told_from_errors_that_only_surface():
    X, y = np.eye(3), [0, 1, 2]
    assert refusal(raised(lambda: tl.TaskLossEstimator(alpha=-1).fit(X, y)))
    assert refusal(raised(lambda: tl.TaskLossEstimator().fit(X * np.nan, y)))
    assert not refusal(raised(lambda: np.zeros(3) + np.zeros(2)))
    assert not refusal(raised(lambda: tl.losses.CostMatrix(np.eye(2)).matrix("a")))
    assert not refusal(raised(lambda: [][1]))


@pytest.mark.parametrize("kind", [Loss, Surrogate, Solver, Hypothesis], ids=lambda kind: kind.__name__)
def test_every_default_and_example_passes_the_table(kind):
    for cls in kind.registry.values():
        if cls.__module__.startswith("taskloss"):
            for part in cls.examples():
                check_hyperparameters(part)


@pytest.mark.parametrize("name", sorted(HYPERPARAMETERS))
def test_every_check_names_its_hyperparameter(name):
    for bad in (object(), np.zeros((2, 2, 2)) * np.nan, pd.NA, 1j):
        try:
            HYPERPARAMETERS[name](name, bad)
        except ValueError as error:
            assert str(error).startswith(name)  # noqa: PT017
            assert str(error).endswith(".")  # noqa: PT017
            return
    raise AssertionError(f"{name} may be anything")


def test_a_part_says_which_argument_made_it_fail():
    multinomial, zero_one = tl.surrogates.Multinomial(3), tl.losses.ZeroOne(3)
    v = np.zeros((2, 3))
    convolved = tl.surrogates.ConvolutionalFenchelYoung(tl.surrogates.Quadratic(), zero_one)
    for call, sentence in (
        (lambda: multinomial.value([[1, 2, 3]], v), "v must be an array"),
        (lambda: multinomial.value(v, np.zeros((4, 3))), "v and phi must have the same rows"),
        (lambda: multinomial.value(v, np.zeros((2, 4))), "phi must have 3 coordinates"),
        (lambda: tl.surrogates.RowMultinomial("a", 3).inverse_link(v), "n_rows must be a whole number"),
        # Compiled code looks at no bounds: this wrote beyond its memory.
        (lambda: convolved.inverse_link(np.zeros((2, 3, 1))), "v must have 3 coordinates"),
        (lambda: zero_one.decode("a"), "mu must be moments"),
        (lambda: zero_one.decode(np.zeros((2, 4))), "mu must have the 3 moments"),
        (lambda: zero_one([0, 1], [0, 1, 2]), "takes one row for each example"),
        (lambda: tl.losses.ZeroOne(2.5).matrix(), "n_classes must be a whole number"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


def test_raw_errors_that_users_met():
    """Each of these raised an error of Python's or NumPy's own."""
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 3
    fit = tl.TaskLossEstimator
    for call, sentence in (
        (lambda: fit(class_weight=1.0).fit(X, y), "class_weight must be None, 'balanced' or a mapping"),
        (lambda: fit(tol="a").fit(X, y), "tol must be a number above zero"),
        (lambda: fit(max_iter=1.5).fit(X, y), "max_iter must be a whole number"),
        (lambda: fit(warm_start=pd.DataFrame()).fit(X, y), "warm_start must be True or False"),
        (lambda: fit(solver=tl.solvers.LBFGS(memory=[])).fit(X, y), "memory must be a whole number"),
        (lambda: fit().fit(X, y, sample_weight=np.full(12, 1e308)), "sum is not finite"),
        (lambda: fit().fit(X, y).score(X, y[:-1]), "different lengths: 12 and 11"),
        (lambda: fit().fit_stream([(X, y)], classes=[0, 1, 2], n_samples="a"), "n_samples must be a whole number"),
        (lambda: tl.KernelPredictor().score(X, y), "not fitted"),
        (lambda: tl.KernelPredictor().fit(X, y).score(X, y, np.ones(3)), "one number for each of the 12"),
        (lambda: tl.SequenceTagger().predict_moments([X]), "not fitted"),
        (lambda: list(tl.streams.from_csv("none.csv", labels=bool)), "labels must be int, float, str or None"),
        (lambda: list(tl.streams.from_csv("none.csv", delimiter=len)), "delimiter must be one character"),
        (lambda: list(tl.streams.from_arrays(X, y, size=2.5)), "size must be a whole number"),
        (lambda: tl.theory.decompose(np.eye(3), tol="a"), "tol must be a finite number above zero"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    with pytest.raises(TypeError, match="file must be a path or an open file"):
        list(tl.streams.from_csv(7))


def test_rows_of_one_entry_are_sets_of_labels():
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert tl.MultilabelClassifier().fit(X, [[0], [1]] * 50).classes_.tolist() == [0, 1]
