"""Bad input gets one clear sentence, and loses nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import LinearSVC

import taskloss as tl

X = np.random.default_rng(0).normal(size=(30, 3))
y = np.arange(30) % 3
Y = (np.random.default_rng(1).random((30, 4)) < 0.5).astype(int)


def broken(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


def tagged(first, min_frequency=1):
    """A fit of a tagger to mappings, of which this is the first."""
    return tl.SequenceTagger(min_frequency=min_frequency).fit([[first, {"c": 1.0}], [{"c": 2.0}]], [["x", "y"], ["y"]])


CASES = {
    "nan": (lambda: tl.TaskLossEstimator().fit(broken(np.nan), y), "contains NaN"),
    "infinite": (lambda: tl.TaskLossEstimator().fit(broken(np.inf), y), "contains infinity"),
    "infinite sparse": (lambda: tl.TaskLossEstimator().fit(csr_matrix(broken(np.inf)), y), "contains infinity"),
    "empty": (lambda: tl.TaskLossEstimator().fit(X[:0], y[:0]), "0 sample"),
    "lengths": (lambda: tl.TaskLossEstimator().fit(X, y[:-1]), "different lengths: 30 and 29"),
    "nan inside a feature mapping": (
        lambda: tagged({"a": {"b": np.nan}}),
        "'a:b' in X is nan: give it a finite number",
    ),
    "infinite feature by name": (lambda: tagged({"a": -np.inf}), "'a' in X is -inf: give it a finite number"),
    "whole number beyond all floats": (lambda: tagged({"a": 10**400}), "'a' in X is inf: give it a finite number"),
    "no feature is frequent": (lambda: tagged({b"a": b"x"}, 9), "min_frequency=9 times: lower it"),
    "no labels": (lambda: tl.TaskLossEstimator().fit(X, None), "y to be passed"),
    "nan label": (lambda: tl.TaskLossEstimator().fit(X, np.where(y, y, np.nan)), "y contains NaN"),
    "missing label": (lambda: tl.TaskLossEstimator().fit(X, np.where(y, y, None)), "y contains NaN or None"),
    "mixed labels": (
        lambda: tl.TaskLossEstimator().fit(X, np.array([1, "a", 2] * 10, dtype=object)),
        "sorted together|unknown",
    ),
    "one class": (lambda: tl.TaskLossEstimator().fit(X, np.zeros(30)), "one class only"),
    "continuous": (lambda: tl.TaskLossEstimator().fit(X, X[:, 0]), "continuous"),
    "width": (lambda: tl.TaskLossEstimator().fit(X, y).predict(X[:, :2]), "2 features.*3 features"),
    "unknown label": (
        lambda: tl.TaskLossEstimator().partial_fit(X, y + 1, classes=[0, 1, 2]),
        r"Unknown label 3: the known ones are 0, 1, 2",
    ),
    "unknown name": (
        lambda: tl.CostSensitiveClassifier(tl.losses.CostMatrix(np.eye(2), labels=["a", "b"])).fit(X, y),
        "Unknown label",
    ),
    "cost shape": (lambda: tl.CostSensitiveClassifier(np.eye(4)).fit(X, y), r"shape \(4, 4\).*3 classes"),
    "cost nan": (lambda: tl.CostSensitiveClassifier([[0, np.nan, 1]]).fit(X, y), "cost matrix contains NaN"),
    "misfit": (lambda: tl.MultilabelClassifier(surrogate="multinomial").fit(X, Y), "does not fit this loss"),
    "misfit classes": (lambda: tl.TaskLossEstimator(surrogate="independent").fit(X, y), "does not fit this loss"),
    "wrong kind": (lambda: tl.TaskLossEstimator("hamming").fit(X, y), "one column of 0 and 1 per label"),
    "sequence loss": (lambda: tl.TaskLossEstimator("chain-hamming").fit([X, X], [y, y]), "use SequenceTagger"),
    "ranking loss": (lambda: tl.CostSensitiveClassifier("ndcg").fit(X, y), "use Ranker"),
    "matching loss": (lambda: tl.DecodedClassifier(loss="matching-hamming").fit(X, y), "use Matcher"),
    "beta": (lambda: tl.MultilabelClassifier(tl.losses.FBeta(beta="1")).fit(X, Y), "beta must be a finite number"),
    "weights at score": (lambda: tl.TaskLossEstimator().fit(X, y).score(X, y, -np.ones(30)), "not negative"),
    "NA label": (
        lambda: tl.TaskLossEstimator().fit(X, np.where(y > 0, y.astype(object), pd.NA)),
        "y contains NaN or None",
    ),
    "set loss on classes": (lambda: tl.CostSensitiveClassifier(tl.losses.Hamming()).fit(X, y), "MultilabelClassifier"),
    "other kind at predict": (lambda: tl.TaskLossEstimator().fit(X, y).predict(X, loss="hamming"), "another kind"),
    "other size at predict": (
        lambda: tl.TaskLossEstimator().fit(X, y).predict(X, loss=tl.losses.ZeroOne(4)),
        "4 labels",
    ),
    "other names at predict": (
        lambda: (
            tl.TaskLossEstimator().fit(X, y).predict(X, loss=tl.losses.CostMatrix(np.eye(3), labels=["a", "b", "c"]))
        ),
        "names its labels",
    ),
    "cost array": (
        lambda: tl.TaskLossEstimator().fit(X, y).predict(X, costs=np.zeros((30, 2, 2))),
        "costs must have shape",
    ),
    "negative weights": (lambda: tl.TaskLossEstimator().fit(X, y, -np.ones(30)), "[Nn]egative"),
    "zero weights": (
        lambda: tl.TaskLossEstimator().fit(X, y, np.zeros(30)),
        "at least one (non-zero|must count|example must count)",
    ),
    "weights shape": (lambda: tl.TaskLossEstimator().fit(X, y, np.ones(29)), "sample_weight"),
    "class weight of sets": (lambda: tl.TaskLossEstimator("hamming", class_weight="balanced").fit(X, Y), "Hamming"),
    "zero class weights": (
        lambda: tl.TaskLossEstimator(class_weight={0: 0.0, 1: 0.0, 2: 0.0}).fit(X, y),
        "weights are zero",
    ),
    "class weight label": (lambda: tl.TaskLossEstimator(class_weight={7: 1.0}).fit(X, y), "Unknown label 7"),
    "alpha zero": (
        lambda: tl.TaskLossEstimator(hypothesis="kernel", alpha=0).fit(X, y),
        "alpha must be a finite number above zero",
    ),
    "alpha negative": (lambda: tl.TaskLossEstimator(alpha=-1.0).fit(X, y), "alpha must be"),
    "alpha text": (lambda: tl.TaskLossEstimator(alpha="1").fit(X, y), "alpha must be"),
    "tol": (lambda: tl.TaskLossEstimator(tol=0).fit(X, y), "tol must be a number above zero"),
    "loss name": (lambda: tl.TaskLossEstimator("0-1").fit(X, y), "no loss named '0-1'; choose one of: absolute"),
    "surrogate name": (lambda: tl.TaskLossEstimator(surrogate="svm").fit(X, y), "no surrogate named 'svm'"),
    "solver name": (lambda: tl.TaskLossEstimator(solver="adam").fit(X, y), "no solver named 'adam'"),
    "no intercept": (
        lambda: tl.OrdinalClassifier(
            surrogate="cumulative-link", hypothesis=tl.hypotheses.Linear(fit_intercept=False)
        ).fit(X, y),
        "thresholds of its own",
    ),
    "indicator values": (lambda: tl.MultilabelClassifier().fit(X, Y + X[:, :1].round()), "0 and 1 only"),
    "indicator width": (lambda: tl.MultilabelClassifier().fit(X, Y).score(X, Y[:, :3]), "4 labels"),
    "unknown set label": (
        lambda: tl.MultilabelClassifier().partial_fit(X, [{"c"}] * 30, classes=["a", "b"]),
        "Unknown label 'c'",
    ),
    "abstain name taken": (
        lambda: tl.TaskLossEstimator(tl.losses.Abstain()).fit(X, y - 1).predict(X),
        "-1 is a label already",
    ),
    "no probabilities": (lambda: tl.DecodedClassifier(LinearSVC()).fit(X, y), "no predict_proba"),
    "prefit nothing": (lambda: tl.DecodedClassifier(prefit=True).predict(X), "needs a fitted estimator"),
    "negative class weight": (
        lambda: tl.TaskLossEstimator(class_weight={0: -1.0}).fit(X, y),
        "class_weight must give each label a finite weight that is not negative",
    ),
    "class weight text": (lambda: tl.TaskLossEstimator(class_weight={0: "a"}).fit(X, y), "class_weight must give"),
    "nan class weight": (lambda: tl.TaskLossEstimator(class_weight={0: np.nan}).fit(X, y), "class_weight must give"),
    "abstain nan": (
        lambda: tl.TaskLossEstimator(tl.losses.Abstain(cost=np.nan)).fit(X, y),
        "cost of abstaining must be a finite number, got nan",
    ),
    "abstain text": (
        lambda: tl.TaskLossEstimator(tl.losses.Abstain(cost="a")).fit(X, y),
        "cost of abstaining must be a finite number, got 'a'",
    ),
    "output names": (
        lambda: tl.CostSensitiveClassifier(tl.losses.CostMatrix(np.eye(3), outputs=["a", "b"])).fit(X, y),
        "2 names were given for the 3 rows",
    ),
    "order and names": (
        lambda: tl.OrdinalClassifier(tl.losses.CostMatrix(np.eye(3), labels=[0, 1, 2]), order=[0, 1, 3]).fit(X, y % 2),
        r"names its labels \[0, 1, 2\], but the labels in use are \[0, 1, 3\]",
    ),
    "missing words": (
        lambda: tl.TaskLossEstimator().fit(X, pd.Series(["a", "b", None] * 10, dtype="string")),
        "y contains NaN or None",
    ),
    "huge features": (lambda: tl.TaskLossEstimator().fit(X * 1e200, y), "squares are not finite: scale them"),
    "order twice": (lambda: tl.OrdinalClassifier(order=[0, 1, 1, 2]).fit(X, y), "twice"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_sentence(case):
    call, sentence = CASES[case]
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    message = str(caught.value).strip()
    assert "\n" not in message or "Input" in message  # scikit-learn adds its own advice on NaN below the sentence


def test_not_fitted():
    for model in (tl.TaskLossEstimator(), tl.DecodedClassifier()):
        with pytest.raises(NotFittedError):
            model.predict(X)
        with pytest.raises(NotFittedError):
            _ = model.classes_


def test_a_failed_fit_keeps_the_old_one():
    model = tl.TaskLossEstimator().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken(np.nan), y)
    with pytest.raises(ValueError, match="different lengths"):
        model.fit(X[:, :2], y[:-1])
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_surrogate_that_is_not_calibrated_warns():
    with pytest.warns(tl.ConsistencyWarning, match="not phi-calibrated"):
        tl.TaskLossEstimator(surrogate=tl.surrogates.OneVsAll("squared-hinge")).fit(X, y)


def test_no_convergence_warns_with_advice():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        tl.TaskLossEstimator(max_iter=1, alpha=1e-6).fit(X, y)


def test_a_search_that_rounding_stops_far_from_the_minimum_warns():
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        model = tl.TaskLossEstimator(solver="lbfgs").fit((X * 1e6).astype(np.float32), y)
    assert model.solution_.optimality > 1e-4
    assert not model.solution_.converged


def test_a_label_that_never_occurs_is_no_harm():
    """Labels named by the loss may be missing from y; they get little probability and no error."""
    costs = tl.losses.CostMatrix(1 - np.eye(4), labels=[0, 1, 2, 3])
    model = tl.CostSensitiveClassifier(costs).fit(X, y)
    assert model.predict_proba(X).shape == (30, 4)
    assert model.predict_proba(X)[:, 3].max() < 0.05
    ordinal = tl.OrdinalClassifier(order=[0, 1, 1.5, 2], surrogate="cumulative-link").fit(X, y)
    assert np.isfinite(ordinal.predict_proba(X)).all()
