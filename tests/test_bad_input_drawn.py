"""Bad input by machine: some hundreds of the draws of `benchmarks/draws.py`; a call works, or refuses with a sentence."""

import inspect
import io
import warnings

import numpy as np
import pandas as pd
import pytest
from benchmarks.draws import ESTIMATORS, NOT_DRAWN, TARGETS, named, outcome, refusal
from benchmarks.draws_parts import PARTS, THEORY

import taskloss as tl
from taskloss._arguments import HYPERPARAMETERS, check_hyperparameters
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


def test_a_sentence_must_name_the_argument_that_was_spoilt():
    assert named("X must hold numbers.", {"X"})
    assert named("The cost matrix must have two dimensions.", {"loss"})
    assert not named("Expected 2D array, got 1D array instead.", {"X"})
    assert not named("Use array.size to ask.", {"size"})
    assert not named("max_iter must be a whole number.", {"iter", "max"})


def test_every_public_callable_is_drawn_or_said_not_to_be():
    """The names of the package and of its public modules, each in a table of draws or in the list of those that are not."""
    drawn = {*ESTIMATORS, *PARTS, *(f"theory.{name}" for name in THEORY)}
    public = {name for name in tl.__all__ if callable(getattr(tl, name)) or name in PARTS}
    public |= {f"theory.{name}" for name in tl.theory.__all__ if inspect.isfunction(getattr(tl.theory, name))}
    public |= {name for name in tl.__all__ if inspect.ismodule(getattr(tl, name)) and name not in ("theory", "plots")}
    covered = drawn | set(NOT_DRAWN) | {name.partition(".")[0] for name in PARTS}
    assert public - covered == set()
    assert set(NOT_DRAWN) <= public


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
        (lambda: multinomial.value(v, np.zeros((2, 4))), "phi must have the 3 coordinates of Multinomial"),
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
        # Each of these was a sentence of scikit-learn's or NumPy's that named no argument, or no sentence at all.
        (lambda: fit().fit(X[:, 0], y), "X must hold numbers, one row for each example: Expected 2D array"),
        (lambda: fit().fit(X, y).score(X, 3.0), "y must hold one entry for each example"),
        (lambda: fit().partial_fit(X, y, classes=3), "classes must be a list of labels"),
        (lambda: tl.DecodedClassifier(cv="a", calibration="sigmoid").fit(X, y), "cv"),
        (lambda: tl.DecodedClassifier(calibration="a").fit(X, y), "calibration must be"),
        (lambda: tl.DecodedClassifier().fit(X, y).predict([["a"]]), "X must be what LogisticRegression takes"),
        (lambda: fit(hypothesis="structured").fit(X, y), "hypothesis=Structured.* scores the positions of sequences"),
        (lambda: fit(hypothesis=tl.hypotheses.Boosting(min_child_samples=0.5)).fit(X, y), "min_child_samples=0.5"),
        (lambda: tl.SequenceTagger(hypothesis="structured").fit([X], [y]), "makes of a hypothesis for the nodes"),
        (lambda: tl.TreeTagger(forbidden=np.array(3.0)).fit(tl.Packed(X, [0, 12], [-1, *range(11)]), [y]), "forbidden"),
        (lambda: tl.margins.Logistic().value([1.0]), "u must be an array of floating-point numbers"),
        (lambda: tl.polytopes.Simplex(3).project(np.zeros((2, 4))), "u must have the 3 coordinates"),
        (lambda: tl.theory.asgd_bound("zero-one", n=1j), "n must be"),
        (lambda: tl.theory.form_of(None, tl.polytopes.Simplex(3)), "Expected a surrogate or the name of one"),
        (lambda: tl.theory.crf_bound(tl.losses.ZeroOne(3), 0.1, improved=pd.DataFrame()), "improved must be True"),
        (lambda: tl.model_files.load(io.BytesIO(b"no model")), "file must be a model that `save` has written"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            call()
    for read in (lambda file: list(tl.streams.from_csv(file)), tl.model_files.load):
        with pytest.raises(TypeError, match="file must be a path or an open file"):
            read(7)


def test_rows_of_one_entry_are_sets_of_labels():
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert tl.MultilabelClassifier().fit(X, [[0], [1]] * 50).classes_.tolist() == [0, 1]
