"""Learners that go on from another hypothesis's scores: trees and networks with a start."""

import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from tests.tasks import TASKS, every_task, rows, sequences

import taskloss as tl
from taskloss.estimators.validation import _drawn
from taskloss.hypotheses import Boosting, Kernel, Linear, Nystrom, Structured, Thresholds, Torch
from taskloss.hypotheses.base import Holdout

SHAPE = {"n_jobs": 1, "min_child_samples": 3}


def trees(n=12, start="linear", **params):
    return Boosting(n_estimators=n, start=start, **{**SHAPE, **params})


def scores(model, task, X):
    """The scores of all rows, whatever the task, as one array."""
    if task in ("sequence", "whole sequence"):
        return np.concatenate([np.asarray(m) for m in model.predict_moments(X)])
    if task == "matching":
        return np.concatenate([np.ravel(m) for m in model.predict_moments(X)])
    return model.predict_scores(X)


@every_task
def test_without_trees_it_is_the_starts_own_fit(task):
    estimator, make = TASKS[task]
    train, test = make(0), make(1)
    own = clone(estimator).set_params(hypothesis="linear", alpha=1e-2).fit(*train)
    model = clone(estimator).set_params(hypothesis=trees(0), alpha=1e-2).fit(*train)
    assert model.n_estimators_ == 0
    np.testing.assert_allclose(scores(model, task, test[0]), scores(own, task, test[0]), atol=1e-6)
    assert model.score(*test) == pytest.approx(own.score(*test), abs=1e-9)


@every_task
def test_the_objective_is_never_above_the_starts(task):
    estimator, make = TASKS[task]
    train = make(0)
    values = [
        clone(estimator).set_params(hypothesis=trees(n), alpha=1e-2).fit(*train).solution_.value for n in (0, 1, 3, 20)
    ]
    assert np.diff(values).max() < 1e-9
    assert values[-1] < 0.95 * values[0]


@every_task
def test_no_tree_at_all_may_be_the_best(task):
    """Early stopping judges the start first; where nothing is to be gained its fit is what remains."""
    estimator, make = TASKS[task]
    train, held = make(0), make(1)
    model = clone(estimator).set_params(hypothesis=trees(30, early_stopping=3, learning_rate=0.5), alpha=1e-2)
    model.fit(*train, validation=held)
    own = clone(estimator).set_params(hypothesis="linear", alpha=1e-2).fit(*train)
    assert model.validation_curve_[0] == pytest.approx(-own.score(*held), abs=1e-9)
    assert model.n_estimators_ == np.argmin(model.validation_curve_)
    assert -model.score(*held) == pytest.approx(model.validation_curve_.min(), abs=1e-9)


def test_early_stopping_can_leave_the_start_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.digitize(X @ [1.0, -1.0, 0.5], [-1.0, 0.0, 1.0])  # what a linear score can say, and trees can only spoil
    model = tl.OrdinalClassifier(hypothesis=trees(20, early_stopping=3, learning_rate=1.0), alpha=1e-4)
    model.fit(X[:200], y[:200], validation=(X[200:], y[200:]))
    assert model.n_estimators_ == 0
    assert model.feature_importances_.sum() == 0
    own = tl.OrdinalClassifier(alpha=1e-4).fit(X[:200], y[:200])
    np.testing.assert_allclose(model.predict_scores(X), own.predict_scores(X), atol=1e-4)
    np.testing.assert_allclose(model.intercept_, own.intercept_, atol=1e-4)


# -- the risk is shifted by the start's scores, as the libraries' own init_score and base_margin shift it ---------------


def test_equal_to_lightgbm_from_the_same_scores():
    X, y = rows(0)
    shape = {"num_leaves": 7, "min_child_samples": 5, "learning_rate": 0.1, "n_jobs": 1}
    for estimator, objective, target in (
        (tl.TaskLossEstimator(alpha=1e-2), {"objective": "multiclass", "num_class": 4}, y),
        (tl.TaskLossEstimator(alpha=1e-2), {"objective": "binary"}, (y > 1).astype(int)),
    ):
        before = clone(estimator).fit(X, target).predict_scores(X)
        model = clone(estimator).set_params(hypothesis=Boosting(n_estimators=20, start=Linear(), curvature="library", **shape))  # fmt: skip
        model.fit(X, target)
        params = {**shape, **objective, "verbosity": -1}
        data = lgb.Dataset(X, target, init_score=before if before.shape[1] > 1 else before[:, 0], params=params)
        added = lgb.train(params, data, 20).predict(X, raw_score=True).reshape(len(X), -1)
        np.testing.assert_allclose(model.predict_scores(X), before + added, atol=1e-5)
        assert np.abs(added).max() > 0.1


def test_equal_to_xgboost_from_the_same_scores():
    X, y = rows(0)
    shape = {"max_depth": 3, "learning_rate": 0.1, "n_jobs": 1}
    estimator = tl.TaskLossEstimator(alpha=1e-2)
    before = clone(estimator).fit(X, y).predict_scores(X)
    hypothesis = Boosting("xgboost", n_estimators=20, start="linear", curvature="library", **shape)
    model = clone(estimator).set_params(hypothesis=hypothesis).fit(X, y)
    data = xgb.DMatrix(X, y, base_margin=before)
    theirs = xgb.train({**shape, "objective": "multi:softprob", "num_class": 4}, data, 20)
    np.testing.assert_allclose(model.predict_scores(X), theirs.predict(data, output_margin=True), atol=1e-5)


# -- what a start may be -----------------------------------------------------------------------------------------------

STARTS = {
    "linear": "linear",
    "no intercept": Linear(fit_intercept=False),
    "nystrom": Nystrom(40),
    "kernel": Kernel("laplacian"),
    "xgboost": Boosting("xgboost", n_estimators=4, n_jobs=1),
    "a start with a start": Boosting("xgboost", n_estimators=4, start="linear", n_jobs=1),
    "network": Torch(max_epochs=3),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("shared", [True, False])
def test_any_hypothesis_may_be_the_start(start, shared):
    X, y = rows(0)
    own = tl.OrdinalClassifier(hypothesis=STARTS[start], shared=shared, alpha=1e-3).fit(X, y)
    none, some = (
        tl.OrdinalClassifier(hypothesis=trees(n, STARTS[start]), shared=shared, alpha=1e-3).fit(X, y) for n in (0, 8)
    )
    if not (shared and start == "no intercept"):  # where trees have thresholds, and the start by itself has none
        np.testing.assert_allclose(none.predict_scores(X), own.predict_scores(X), atol=1e-5)
    assert some.solution_.value < none.solution_.value
    again = pickle.loads(pickle.dumps(some))
    np.testing.assert_allclose(again.predict_scores(X), some.predict_scores(X), atol=1e-12)


def test_thresholds_of_their_own_may_start_from_shared_ones():
    X, y = rows(0)
    own = tl.OrdinalClassifier(alpha=1e-3).fit(X, y)
    model = tl.OrdinalClassifier(hypothesis=trees(0, Thresholds()), shared=False, alpha=1e-3).fit(X, y)
    np.testing.assert_allclose(model.predict_scores(X), own.predict_scores(X), atol=1e-8)


def test_the_estimators_alpha_is_the_starts_penalty():
    X, y = rows(0)
    strong, weak = (tl.OrdinalClassifier(hypothesis=trees(0), alpha=a).fit(X, y) for a in (1e3, 1e-3))
    assert np.ptp(strong.predict_scores(X)[:, 0]) < 0.1 < np.ptp(weak.predict_scores(X)[:, 0])
    chosen = tl.OrdinalClassifier(hypothesis=trees(5, Nystrom(40)), alpha="auto").fit(X, y)
    own = tl.OrdinalClassifier(hypothesis=Nystrom(40), alpha="auto").fit(X, y)
    assert chosen.alpha_ == own.alpha_
    np.testing.assert_array_equal(chosen.path_scores_, own.path_scores_)
    by_default = tl.OrdinalClassifier(hypothesis=trees(5, Nystrom(40))).fit(X, y)  # as for the kernel itself
    np.testing.assert_allclose(by_default.predict_scores(X), chosen.predict_scores(X), atol=1e-9)
    scaled = tl.OrdinalClassifier(hypothesis=trees(0, Nystrom(40, gamma="auto")), alpha="auto").fit(X, y)
    alone = tl.OrdinalClassifier(hypothesis=Nystrom(40, gamma="auto"), alpha="auto").fit(X, y)
    np.testing.assert_allclose(scaled.predict_scores(X), alone.predict_scores(X), atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-3, "auto"])
def test_the_start_sees_nothing_of_what_is_held_out(alpha):
    X, y = rows(0)
    sets = np.column_stack([y > 0, y > 1]).astype(int)
    held = np.zeros(len(X), dtype=bool)
    held[_drawn(len(X), None, Holdout(0.3, 0))] = True
    hypothesis = trees(10, Nystrom(30), early_stopping=2, validation_fraction=0.3)
    model = tl.MultilabelClassifier(hypothesis=hypothesis, alpha=alpha).fit(X, sets)
    changed = np.where(held[:, None], 7.0 - X, X), np.where(held[:, None], 1 - sets, sets)
    other = tl.MultilabelClassifier(hypothesis=hypothesis, alpha=alpha).fit(*changed)
    np.testing.assert_array_equal(model.theta_.begun.theta, other.theta_.begun.theta)
    assert np.abs(model.validation_curve_[:1] - other.validation_curve_[:1]).max() > 0.1
    if alpha != "auto":  # which counts against all examples, held out or not
        given = tl.MultilabelClassifier(hypothesis=hypothesis, alpha=alpha / 0.7)
        given.fit(X[~held], sets[~held], validation=(X[held], sets[held]))
        np.testing.assert_allclose(model.predict_scores(X), given.predict_scores(X), atol=1e-4)


def test_weights_count_in_the_start():
    X, y = rows(0)
    weights = np.random.default_rng(0).uniform(0.2, 2, len(X))
    weights[::3] = 0.0
    some = weights > 0
    whole = tl.OrdinalClassifier(hypothesis=trees()).fit(X, y, weights)
    part = tl.OrdinalClassifier(hypothesis=trees()).fit(X[some], y[some], 7.0 * weights[some])
    np.testing.assert_allclose(whole.predict_scores(X), part.predict_scores(X), atol=1e-4)
    own = tl.OrdinalClassifier().fit(X, y, weights)
    none = tl.OrdinalClassifier(hypothesis=trees(0)).fit(X, y, weights)
    np.testing.assert_allclose(none.predict_scores(X), own.predict_scores(X), atol=1e-6)


def test_a_network_goes_on_from_a_start():
    X, y = rows(0)
    own = tl.OrdinalClassifier(alpha=1e-3).fit(X, y)
    still = Torch(max_epochs=1, lr=1e-12, module__hidden=(), start="linear")
    model = tl.OrdinalClassifier(hypothesis=still, alpha=1e-3).fit(X, y)
    module = model.hypothesis_._node.with_params(start=None).predict(_without_start(model.theta_.node), X)
    np.testing.assert_allclose(
        model.predict_scores(X) - module, model.theta_.node.begun.scores(X) + model.intercept_, atol=1e-6
    )
    moving = tl.OrdinalClassifier(hypothesis=Torch(max_epochs=15, start="linear"), alpha=1e-3).fit(X, y)
    assert moving.solution_.value < own.solution_.value
    watched = tl.OrdinalClassifier(hypothesis=Torch(max_epochs=15, start="linear", early_stopping=3), alpha=1e-3)
    watched.fit(X, y, validation=(X, y))
    assert -watched.score(X, y) == pytest.approx(watched.validation_curve_.min(), abs=1e-9)
    again = pickle.loads(pickle.dumps(watched))
    np.testing.assert_allclose(again.predict_scores(X), watched.predict_scores(X), atol=1e-6)


def _without_start(network):
    return type(network)(network.start, None, network.n_inputs, network.state, network.epochs, network.curve)


# -- as a part ---------------------------------------------------------------------------------------------------------


def test_a_warm_start_keeps_the_start():
    X, y = rows(0)
    whole = tl.OrdinalClassifier(hypothesis=trees(12)).fit(X, y)
    model = tl.OrdinalClassifier(hypothesis=trees(5), warm_start=True).fit(X, y)
    begun = model.theta_.node.begun
    model.set_params(hypothesis__n_estimators=12).fit(X, y)
    assert model.theta_.node.begun is begun
    np.testing.assert_allclose(model.predict_scores(X), whole.predict_scores(X), atol=1e-4)
    model.set_params(hypothesis__start=Nystrom(20)).fit(X, y)  # another start, and so a fit anew
    assert model.theta_.node.begun.hypothesis.name == "nystrom"
    assert model.n_estimators_ == 12


def test_parameters_of_the_start_are_parameters():
    X, y = rows(0)
    model = tl.OrdinalClassifier(hypothesis=trees(5, Nystrom(20)), alpha=1e-3)
    assert model.get_params()["hypothesis__start__n_centres"] == 20
    copy = clone(model).set_params(hypothesis__start__gamma=0.3, hypothesis__num_leaves=4)
    assert (copy.hypothesis.first.gamma, copy.hypothesis.params["num_leaves"]) == (0.3, 4)
    assert model.hypothesis.first.gamma == "scale"
    grid = {"hypothesis__start": [None, "linear", Nystrom(20)], "hypothesis__num_leaves": [3, 7]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert len(search.cv_results_["params"]) == 6
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0
    nested = GridSearchCV(model, {"hypothesis__start__n_centres": [5, 40]}, cv=3).fit(X, y)
    assert np.ptp(nested.cv_results_["mean_test_score"]) > 0
    with pytest.raises(ValueError, match="start='linear' is no hypothesis that has parameters: set start to one"):
        trees().set_params(start__fit_intercept=False)


@pytest.mark.parametrize("start", ["linear", "nystrom", "xgboost"])
def test_model_files(start, tmp_path):
    X, y = rows(0)
    model = tl.OrdinalClassifier(hypothesis=trees(5, STARTS[start]), alpha=1e-3).fit(X, y)
    tl.model_files.save(model, tmp_path / "model.skops")
    again = tl.model_files.load(tmp_path / "model.skops")
    np.testing.assert_allclose(again.predict_scores(X), model.predict_scores(X), atol=1e-12)


def test_a_stored_kernel_start_has_no_matrix():
    X, y = rows(0, 400)
    model = tl.OrdinalClassifier(hypothesis=trees(2, Kernel()), alpha=1e-3).fit(X, y)
    assert len(pickle.dumps(model)) < 400 * 400 * 8 / 4


def test_an_interrupt_in_the_start_leaves_nothing_behind(monkeypatch):
    X, y = rows(0)
    from taskloss.solvers import LBFGS
    from taskloss.solvers.base import Interrupted, Solution, Status

    def stop(self, *arguments):
        raise Interrupted(Solution(np.zeros((8, 1)), 0.0, Status.INTERRUPTED, 0, 0, np.nan))

    monkeypatch.setattr(LBFGS, "minimise", stop)
    model = tl.OrdinalClassifier(hypothesis=trees(), warm_start=True)
    with pytest.raises(KeyboardInterrupt, match="while the start was fitted"):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.fit(X, y).n_estimators_ == 12


def test_a_start_that_has_not_converged_is_said():
    X, y = rows(0)
    with pytest.warns(ConvergenceWarning, match=r"Stopped at max_iter.*That was the fit of start=Thresholds"):
        tl.OrdinalClassifier(hypothesis=trees(2), max_iter=2, alpha=1e-4).fit(X, y)


def test_single_precision_and_sparse_rows():
    X, y = rows(0)
    from scipy.sparse import csr_matrix

    plain = tl.OrdinalClassifier(hypothesis=trees(), alpha=1e-3).fit(X, y).predict_scores(X)
    for other in (X.astype(np.float32), csr_matrix(X)):
        model = tl.OrdinalClassifier(hypothesis=trees(), alpha=1e-3).fit(other, y)
        assert np.corrcoef(model.predict_scores(other)[:, 0], plain[:, 0])[0, 1] > 0.99
    kernel = tl.OrdinalClassifier(hypothesis=trees(5, Nystrom(30)), alpha=1e-3).fit(X.astype(np.float32), y)
    assert kernel.predict_scores(X.astype(np.float32)).shape == (len(X), 3)


# -- bad input ---------------------------------------------------------------------------------------------------------

X, y = rows(0, 60)
HOLES = X.copy()
HOLES[7, 2] = np.nan
FRAME = pd.DataFrame({"size": X[:, 0], "town": pd.Categorical(list("abc") * 20)})


def fitted(X=X, start="linear", face=tl.OrdinalClassifier, **params):
    return face(**params, hypothesis=trees(3, start)).fit(X, y)


BAD = {
    "missing": (lambda: fitted(HOLES), r"start=Linear\(\) reads numbers alone, and column 2 of X has missing values.*SimpleImputer"),
    "missing, by name": (lambda: fitted(pd.DataFrame(HOLES, columns=list("abcde"))), "column 'c' of X has missing values"),
    "missing, to a kernel": (lambda: fitted(HOLES, Nystrom(5)), r"start=Nystrom\(n_centres=5\) reads numbers alone"),
    "missing at prediction": (lambda: fitted().predict(HOLES), "column 2 of X has missing values"),
    "categories": (lambda: fitted(FRAME), r"start=Linear\(\) reads numbers alone, and column 'town' of X holds categories: encode it"),
    "categories, after trees": (lambda: fitted(FRAME, Boosting(n_estimators=2, start="linear")), "column 'town' of X holds categories"),
    "unknown": (lambda: fitted(start="liner"), "start is another hypothesis to go on from: There is no hypothesis named 'liner'; choose one of"),
    "number": (lambda: fitted(start=0.5), "start is another hypothesis to go on from: Expected a hypothesis or the name of one, got float"),
    "matrix": (lambda: fitted(X @ X.T, Kernel("precomputed")), "pass the kernel itself"),
    "structure": (lambda: fitted(start=Structured()), "for the nodes: pass that one alone"),
    "two tables": (lambda: fitted(start=Thresholds()), r"start=Thresholds\(node=Linear\(\)\) has a table of its own.*pass its node alone"),
    "too many centres": (lambda: fitted(start=Nystrom(500)), "n_centres=500 is more than the 60 training points"),
    "auto without a penalty": (lambda: fitted(start=Torch(max_epochs=1), alpha="auto"), "Thresholds has other means: give alpha a number"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    work, sentence = BAD[case]
    with pytest.raises((ValueError, TypeError), match=sentence):
        work()


def test_categories_are_inputs_of_a_start_that_reads_them():
    model = fitted(FRAME, Boosting("xgboost", n_estimators=2, n_jobs=1))
    assert model.predict(FRAME).shape == y.shape


def test_holes_in_sequences_are_said():
    words, tags = sequences(10, 0)
    words[3][0, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        tl.SequenceTagger(hypothesis=trees(2)).fit(words, tags)


@pytest.mark.parametrize("start", [Torch(max_epochs=8, early_stopping=2), Boosting("xgboost", early_stopping=2, n_jobs=1)], ids=repr)  # fmt: skip
def test_a_start_that_stops_early_has_examples_held_out(start):
    X, y = rows(0)
    model = tl.OrdinalClassifier(hypothesis=trees(6, start)).fit(X, y)
    before, after = model.theta_.node.begun.theta.curve, model.validation_curve_
    assert len(before) < 101
    assert len(after) == 7  # the trees themselves take all their rounds
    assert before.min() == pytest.approx(after[0], abs=1e-9)
    alone = tl.OrdinalClassifier(hypothesis=start).fit(X, y)
    np.testing.assert_allclose(before, alone.validation_curve_, atol=1e-9)
