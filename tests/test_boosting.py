"""Boosted trees: equal to the libraries' own where these have the objective, and right where they have none."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.tasks import TASKS, every_task, queries, rows, sequences
from tests.test_estimators import SETS

import taskloss as tl
from taskloss.hypotheses import Boosting
from taskloss.hypotheses.boosters import Library
from taskloss.objectives import Rows

LIBRARIES = ("lightgbm", "xgboost")
SMALL = {"n_estimators": 12, "n_jobs": 1}
LEAF = {"lightgbm": {"min_child_samples": 3}, "xgboost": {"min_child_weight": 0.1}}
every_library = pytest.mark.parametrize("library", LIBRARIES)


def trees(library="lightgbm", **params):
    return Boosting(library, **{**SMALL, **LEAF[library], **params})


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    latent = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.4 * rng.normal(size=400)
    return X, np.digitize(latent, [-1.0, 0.0, 1.2])


# -- equality with the libraries' own objectives -----------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equal_to_lightgbm(data, fit_intercept):
    print("lightgbm", lgb.__version__)
    X, y = data
    shape = {"num_leaves": 7, "min_child_samples": 5, "learning_rate": 0.1, "n_jobs": 1}
    hypothesis = Boosting(n_estimators=20, curvature="library", fit_intercept=fit_intercept, **shape)

    def own(objective, target, **more):
        params = {**shape, "verbosity": -1, "objective": objective, "boost_from_average": fit_intercept, **more}
        return lgb.train(params, lgb.Dataset(X, target, params=params), 20).predict(X)

    mine = tl.TaskLossEstimator(hypothesis=hypothesis).fit(X, y)
    np.testing.assert_allclose(mine.predict_proba(X), own("multiclass", y, num_class=4), atol=1e-5)
    there = (y > 1).astype(int)
    mine = tl.MultilabelClassifier(hypothesis=hypothesis).fit(X, there[:, None])
    np.testing.assert_allclose(mine.predict_proba(X)[:, 0], own("binary", there), atol=1e-5)
    mine = tl.MultilabelClassifier(surrogate="quadratic", hypothesis=hypothesis).fit(X, there[:, None])
    np.testing.assert_allclose(mine.predict_scores(X)[:, 0], own("regression", 2 * there - 1), atol=1e-5)
    other = tl.TaskLossEstimator(hypothesis=hypothesis.with_params(curvature="bound")).fit(X, y)
    assert np.abs(other.predict_proba(X) - own("multiclass", y, num_class=4)).max() > 1e-3  # the comparison can fail


def test_equal_to_xgboost(data):
    print("xgboost", xgb.__version__)
    X, y = data
    shape = {"max_depth": 3, "learning_rate": 0.1, "n_jobs": 1}
    hypothesis = Boosting("xgboost", n_estimators=20, curvature="library", **shape)

    def own(objective, target, **more):
        params = {**shape, "objective": objective, **more}
        return xgb.train(params, xgb.DMatrix(X, target), 20).predict(xgb.DMatrix(X))

    mine = tl.TaskLossEstimator(hypothesis=hypothesis.with_params(fit_intercept=False)).fit(X, y)
    theirs = own("multi:softprob", y, num_class=4, base_score=0.0)
    np.testing.assert_allclose(mine.predict_proba(X), theirs, atol=1e-5)
    there = (y > 1).astype(int)
    mine = tl.MultilabelClassifier(hypothesis=hypothesis).fit(X, there[:, None])
    theirs = own("binary:logistic", there, base_score=there.mean())
    np.testing.assert_allclose(mine.predict_proba(X)[:, 0], theirs, atol=1e-5)
    mine = tl.MultilabelClassifier(surrogate="quadratic", hypothesis=hypothesis).fit(X, there[:, None])
    theirs = own("reg:squarederror", 2 * there - 1, base_score=(2 * there - 1).mean())
    np.testing.assert_allclose(mine.predict_scores(X)[:, 0], theirs, atol=1e-5)
    other = tl.TaskLossEstimator(hypothesis=hypothesis.with_params(curvature="diagonal", fit_intercept=False))
    difference = other.fit(X, y).predict_proba(X) - own("multi:softprob", y, num_class=4, base_score=0.0)
    assert np.abs(difference).max() > 1e-3


@every_library
def test_without_a_split_the_best_constant_is_predicted(data, library):
    y, flat = data[1], np.zeros((400, 2))
    model = tl.TaskLossEstimator(hypothesis=trees(library)).fit(flat, y)
    np.testing.assert_allclose(model.predict_proba(flat[:1])[0], np.bincount(y) / 400, atol=1e-6)
    model = tl.OrdinalClassifier(hypothesis=trees(library)).fit(flat, y)
    above = [(y > j).mean() for j in range(3)]
    np.testing.assert_allclose(model.intercept_ + model.theta_.node.scores(flat[:1])[0], np.log(above) - np.log1p(-np.array(above)), atol=1e-4)  # fmt: skip


# -- every task --------------------------------------------------------------------------------------------------------


def linear_score(estimator, train, test):
    return clone(estimator).fit(*train).score(*test)


@every_task
def test_the_risk_falls_and_so_does_the_task_loss(task):
    estimator, make = TASKS[task]
    train, test = make(0), make(1)
    model = clone(estimator).set_params(hypothesis=trees(n_estimators=1)).fit(*train)
    more = clone(estimator).set_params(hypothesis=trees(n_estimators=25)).fit(*train)
    assert more.solution_.value < 0.9 * model.solution_.value
    assert more.score(*train) > model.score(*train)
    if task not in ("matching", "abstain"):  # the others have products of features, which no linear score sees
        assert more.score(*test) > linear_score(estimator, train, test)
    assert more.n_estimators_ == more.n_iter_ == 25
    assert more.feature_importances_.sum() == pytest.approx(1)


@every_task
def test_early_stopping_keeps_the_rounds_with_the_least_task_loss(task):
    estimator, make = TASKS[task]
    train, held = make(0), make(1)
    model = clone(estimator).set_params(hypothesis=trees(n_estimators=40, early_stopping=4, learning_rate=0.4))
    model.fit(*train, validation=held)
    curve = model.validation_curve_
    assert model.n_estimators_ == np.argmin(curve)
    assert len(curve) == min(model.n_estimators_ + 4, 40) + 1
    assert -model.score(*held) == pytest.approx(curve.min(), abs=1e-9)
    if model.n_estimators_:
        again = (
            clone(model).set_params(hypothesis=trees(n_estimators=model.n_estimators_, learning_rate=0.4)).fit(*train)
        )
        assert again.score(*held) == pytest.approx(model.score(*held), abs=1e-9)
        assert again.solution_.value == pytest.approx(model.solution_.value, rel=1e-4)
    part = clone(estimator).set_params(hypothesis=trees(n_estimators=40, early_stopping=4, validation_fraction=0.3))
    part.fit(*train)
    assert part.n_estimators_ == np.argmin(part.validation_curve_)


@every_library
@pytest.mark.parametrize("estimator", [tl.TaskLossEstimator(), tl.OrdinalClassifier(), tl.OrdinalClassifier(shared=False)], ids=repr)  # fmt: skip
def test_a_warm_start_adds_rounds(data, library, estimator):
    X, y = data
    whole = clone(estimator).set_params(hypothesis=trees(library, n_estimators=20)).fit(X, y)
    grown = clone(estimator).set_params(hypothesis=trees(library, n_estimators=8), warm_start=True).fit(X, y)
    grown.set_params(hypothesis__n_estimators=20).fit(X, y)
    assert grown.n_estimators_ == 20
    np.testing.assert_allclose(grown.predict_scores(X), whole.predict_scores(X), atol=2e-3)
    np.testing.assert_allclose(grown.feature_importances_, whole.feature_importances_, rtol=1e-2, atol=1e-3)
    same = grown.predict_scores(X)
    np.testing.assert_allclose(grown.fit(X, y).predict_scores(X), same, atol=1e-4)  # no rounds are left to add
    with pytest.raises(ValueError, match="n_estimators=3 is less than the 20 rounds"):
        grown.set_params(hypothesis__n_estimators=3).fit(X, y)
    other = np.minimum(y, 2)  # fewer labels: nothing to go on from
    fresh = clone(grown).set_params(warm_start=False).fit(X, other)
    np.testing.assert_allclose(grown.fit(X, other).predict_scores(X), fresh.predict_scores(X), atol=1e-6)


@pytest.mark.parametrize("surrogate", ["all-thresholds", "cumulative-link"])
def test_thresholds_are_the_best_beside_the_trees(data, surrogate):
    X, y = data
    model = tl.OrdinalClassifier(surrogate=surrogate, hypothesis=trees()).fit(X, y)
    u = model.theta_.node.scores(X)

    def risk(table):
        phi = model.loss_.phi(y)
        return model.surrogate_.value(u + table, phi).mean()

    best = risk(model.intercept_)
    assert best == pytest.approx(model.solution_.value, rel=1e-9)
    for j in range(3):
        for step in (-1e-2, 1e-2):
            moved = model.intercept_.copy()
            moved[j] += step
            assert risk(moved) > best


def test_transitions_are_fitted_beside_the_trees():
    X, y = sequences(60, 0)
    model = tl.SequenceTagger(hypothesis=trees(), alpha=1e-4).fit(X, y)
    stay = np.diag(model.transition_weights_)
    assert (stay > model.transition_weights_.max(axis=1, where=~np.eye(3, dtype=bool), initial=-np.inf)).all()
    assert model.start_weights_.shape == (3,)
    strong = tl.SequenceTagger(hypothesis=trees(), alpha=1e3).fit(X, y)  # alpha acts on the table alone
    assert np.abs(strong.transition_weights_).max() < 1e-2
    assert strong.score(X, y) > -0.2
    tags = tl.SequenceTagger(hypothesis=trees("xgboost")).fit(X, y).predict(X)
    assert [len(t) for t in tags] == [len(t) for t in y]


# -- inputs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=300).astype(np.float32),
            "town": pd.Categorical(np.array(list("abcdefgh"))[rng.integers(0, 8, 300)]),
            "count": pd.array(rng.integers(0, 5, 300), dtype="Int64"),
            "new": rng.random(300) < 0.5,
        }
    )
    frame.loc[::7, "town"] = None
    frame.loc[::11, "count"] = pd.NA
    frame.loc[::13, "size"] = np.nan
    odd = frame["town"].isin(list("adfg")).to_numpy()
    return frame, np.where(odd, 1, 0) + (frame["size"] > 0.5).to_numpy()


@every_library
def test_missing_values_and_categories_are_inputs(mixed, library):
    frame, y = mixed
    model = tl.OrdinalClassifier(hypothesis=trees(library, n_estimators=40, learning_rate=0.3, **CATEGORIES[library]))
    model.fit(frame, y)
    assert -model.score(frame, y) < 0.1
    assert model.feature_names_in_.tolist() == ["size", "town", "count", "new"]
    assert model.feature_importances_[:2].sum() > 0.95
    assert model.feature_importances_[1] > 0.3
    turned = frame.assign(town=frame["town"].cat.set_categories(list("hgfedcba")))  # the same values under other codes
    np.testing.assert_array_equal(model.predict(turned), model.predict(frame))
    text = frame.assign(town=frame["town"].astype(object))
    np.testing.assert_array_equal(model.predict(text), model.predict(frame))
    missing, unseen = (frame.assign(town=pd.Categorical([town] * 300, categories=["zz"])) for town in (None, "zz"))
    np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))
    tables = pl.from_pandas(frame.assign(town=frame["town"].astype(object))).with_columns(pl.col("town").cast(pl.Categorical))  # fmt: skip
    np.testing.assert_allclose(model.predict_scores(tables), model.predict_scores(frame), atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(turned), model.predict(frame))


CATEGORIES = {"lightgbm": {"min_data_per_group": 5, "cat_smooth": 1.0}, "xgboost": {"max_cat_to_onehot": 2}}


def test_categories_as_lightgbm_reads_them(mixed):
    frame, y = mixed
    there = (y > 0).astype(int)
    shape = {"n_estimators": 15, "min_child_samples": 5, "n_jobs": 1, "cat_smooth": 1.0, "min_data_per_group": 5}
    theirs = lgb.LGBMClassifier(verbosity=-1, **shape).fit(frame, there).predict_proba(frame)[:, 1]
    model = tl.MultilabelClassifier(hypothesis=Boosting(**shape)).fit(frame, there[:, None])
    np.testing.assert_allclose(model.predict_proba(frame)[:, 0], theirs, atol=1e-5)


@every_library
def test_arrays_with_holes_and_sparse_rows(data, library):
    X, y = data
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = tl.TaskLossEstimator(hypothesis=trees(library)).fit(holes, y)
    assert model.score(holes, y) > -0.5
    zeros = np.where(np.isnan(holes), 0.0, holes)
    dense = tl.TaskLossEstimator(hypothesis=trees(library)).fit(zeros, y)
    sparse = tl.TaskLossEstimator(hypothesis=trees(library)).fit(csr_matrix(zeros), y)
    if library == "lightgbm":
        np.testing.assert_allclose(sparse.predict_proba(csr_matrix(zeros)), dense.predict_proba(zeros), atol=1e-6)
    else:  # what a sparse matrix leaves out is missing
        np.testing.assert_allclose(sparse.predict_proba(csr_matrix(zeros)), model.predict_proba(holes), atol=1e-5)


def test_positions_of_a_sequence_may_have_holes():
    X, y = sequences(40, 0)
    for row in X:
        row[::4, 2] = np.nan
    model = tl.SequenceTagger(hypothesis=trees()).fit(X, y)
    assert model.score(X, y) > -0.3
    with pytest.raises(ValueError, match="NaN or infinite"):
        tl.SequenceTagger().fit(X, y)


@every_library
def test_threads_predict_with_one_model(data, library):
    X, y = data
    model = tl.OrdinalClassifier(hypothesis=trees(library)).fit(X, y)
    expected, stored = model.predict_scores(X), pickle.dumps(model)
    for _ in range(5):
        again = pickle.loads(stored)
        with ThreadPoolExecutor(8) as pool:  # also while the text is read
            for found in pool.map(lambda i, m=again: m.predict_scores(X), range(16)):
                np.testing.assert_array_equal(found, expected)


def test_items_of_a_ranking_may_have_holes():
    X, y, groups = queries(40, 0)
    X[::5, 2] = np.nan
    model = tl.Ranker(hypothesis=trees()).fit(X, y, groups=groups)
    assert model.score(X, y, groups) > -0.25


@every_library
def test_monotone_constraints_pass_through(data, library):
    X, y = data
    model = tl.OrdinalClassifier(hypothesis=trees(library, monotone_constraints=(1, 0, 0, 0, 0, 0), n_estimators=30))
    model.fit(X, y)
    line = np.repeat(X[:20], 30, axis=0)
    line[:, 0] = np.tile(np.linspace(-3, 3, 30), 20)
    assert (np.diff(model.predict_scores(line)[:, 0].reshape(20, 30)) >= -1e-9).all()
    free = tl.OrdinalClassifier(hypothesis=trees(library, n_estimators=30)).fit(X, y)
    assert (np.diff(free.predict_scores(line)[:, 0].reshape(20, 30)) < -1e-6).any()


@every_library
def test_weights_of_samples_and_classes(data, library):
    X, y = data
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.2, 2, 400)
    weights[::3] = 0.0
    some = weights > 0
    estimator = tl.OrdinalClassifier(hypothesis=trees(library))
    whole = clone(estimator).fit(X, y, weights)
    part = clone(estimator).fit(X[some], y[some], 7.0 * weights[some])
    np.testing.assert_allclose(whole.predict_scores(X), part.predict_scores(X), atol=1e-4)
    by_class = clone(estimator).set_params(class_weight={0: 3.0, 2: 0.5}).fit(X, y)
    by_row = clone(estimator).fit(X, y, np.array([3.0, 1.0, 0.5, 1.0])[y])
    np.testing.assert_allclose(by_class.predict_scores(X), by_row.predict_scores(X), atol=1e-5)
    assert np.abs(by_row.predict_scores(X) - clone(estimator).fit(X, y).predict_scores(X)).max() > 0.1


# -- as a part ---------------------------------------------------------------------------------------------------------


@every_library
def test_files_hold_the_librarys_own_text(data, library, tmp_path):
    X, y = data
    model = tl.OrdinalClassifier(hypothesis=trees(library)).fit(X, y)
    before = model.predict_scores(X)
    state = model.theta_.node.__getstate__()
    assert all(isinstance(text, str) for text in state["texts"])
    assert not any("Booster" in type(value).__name__ for value in state.values())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_scores(X), before)
    tl.model_files.save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(tl.model_files.load(tmp_path / "model.skops").predict_scores(X), before)


def test_parameters_of_the_library_are_parameters(data):
    X, y = data
    hypothesis = Boosting(num_leaves=5, reg_lambda=0.5)
    copy = clone(hypothesis)
    assert copy == hypothesis
    assert copy.get_params()["num_leaves"] == 5
    copy.set_params(num_leaves=9, max_bin=31, n_estimators=3)
    assert (copy.params["num_leaves"], copy.params["max_bin"], copy.n_estimators) == (9, 31, 3)
    assert hypothesis.params["num_leaves"] == 5
    pipeline = make_pipeline(StandardScaler(), tl.OrdinalClassifier(hypothesis=trees(n_estimators=5)))
    grid = {"ordinalclassifier__hypothesis__num_leaves": [2, 15]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_["ordinalclassifier__hypothesis__num_leaves"] == 15
    by_name = tl.OrdinalClassifier(hypothesis="boosting", warm_start=True)
    assert by_name.get_params()["hypothesis"] == "boosting"


def test_progress_is_shown(data, capsys):
    X, y = data
    tl.TaskLossEstimator(hypothesis=trees(), verbose=True).fit(X, y)
    assert "rounds" in capsys.readouterr().err


def test_an_interrupt_keeps_the_rounds_so_far(data, monkeypatch):
    X, y = data
    from taskloss.hypotheses import boosters

    step, calls = boosters._LightGBMRounds.step, []

    def stop(self, *derivatives):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return step(self, *derivatives)

    monkeypatch.setattr(boosters._LightGBMRounds, "step", stop)
    model = tl.OrdinalClassifier(hypothesis=trees(), warm_start=True)
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        model.fit(X, y)
    monkeypatch.undo()
    whole = tl.OrdinalClassifier(hypothesis=trees(n_estimators=5)).fit(X, y)
    np.testing.assert_allclose(model.predict_scores(X), whole.predict_scores(X), atol=1e-9)
    assert model.fit(X, y).n_estimators_ == 12  # and it goes on from there


@pytest.mark.parametrize("face", [tl.OrdinalClassifier(), tl.TaskLossEstimator()], ids=repr)
def test_linear_leaves_pass_through(data, face):
    """The risk that was followed round by round is that of the scores predicted, and less than that of constant leaves."""
    X, y = data
    values = []
    for more in ({}, {"linear_tree": True, "linear_lambda": 0.1}):
        model = clone(face).set_params(hypothesis=trees(num_leaves=4, **more)).fit(X, y)
        phi = model.loss_.phi(model.labels_.encode(y))
        again = Rows(model.surrogate_, phi, np.ones(len(y))).value_and_gradient(model.predict_scores(X))[0].sum()
        assert model.solution_.value == pytest.approx(again, rel=1e-6)
        values.append(again)
    assert values[1] < values[0]


def test_scores_are_those_of_the_text(data):
    """Nothing but the trees in the text and the constants makes the scores."""
    X, y = data
    model = tl.TaskLossEstimator(hypothesis=trees()).fit(X, y)
    booster = lgb.Booster(model_str=model.theta_.texts[0])
    np.testing.assert_allclose(booster.predict(X, raw_score=True) + model.intercept_, model.predict_scores(X))
    with pytest.raises(AttributeError, match="feature_importances_"):
        _ = model.coef_
    with pytest.raises(AttributeError, match="has no trees"):
        _ = tl.TaskLossEstimator().fit(X, y).feature_importances_
    with pytest.raises(AttributeError) as refused:
        model.partial_fit(X, y)
    assert "needs all examples at once" in str(refused.value.__cause__)


ROWS = "the library counts rows in a leaf and in its bins, so that a weight of two is not two rows"
CHECKED = {
    **{f"check_sample_weight_equivalence_on_{kind}_data": ROWS for kind in ("dense", "sparse")},
}


def exceptions(estimator):
    return CHECKED | (SETS if isinstance(estimator, tl.MultilabelClassifier) else {})


@parametrize_with_checks(
    [
        tl.TaskLossEstimator(hypothesis=Boosting(n_estimators=12, min_child_samples=2, n_jobs=1)),
        tl.OrdinalClassifier(hypothesis=Boosting(n_estimators=15, min_child_samples=1, n_jobs=1)),
        tl.MultilabelClassifier(hypothesis=Boosting("xgboost", n_estimators=5, n_jobs=1)),
        tl.CostSensitiveClassifier(hypothesis=Boosting("xgboost", n_estimators=15, n_jobs=1)),
        tl.TaskLossEstimator(hypothesis=Boosting(n_estimators=5, min_child_samples=1, n_jobs=1, start="linear")),
    ],
    expected_failed_checks=exceptions,
    xfail_strict=True,
)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # a linear start on one class, whose best constant is infinite
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- bad input ---------------------------------------------------------------------------------------------------------

X, y = rows(0, 60)


def fitted(face=tl.TaskLossEstimator, X=X, y=y, validation=None, face_params=None, **params):
    return face(hypothesis=trees(**params), **(face_params or {})).fit(X, y, validation=validation)


BAD = {
    "library": (lambda: fitted(library="catboost"), KeyError, "catboost"),
    "unknown library": (lambda: tl.TaskLossEstimator(hypothesis=Boosting("catboost")).fit(X, y), ValueError, "library must be one of 'lightgbm', 'xgboost', got 'catboost'"),
    "rounds": (lambda: fitted(n_estimators=-1), ValueError, "n_estimators must be a whole number"),
    "rate": (lambda: fitted(learning_rate=0), ValueError, "learning_rate must be a finite number above zero"),
    "patience": (lambda: fitted(early_stopping=True), ValueError, "early_stopping must be a number of rounds"),
    "share": (lambda: fitted(validation_fraction=1.5), ValueError, "pass validation="),
    "curvature": (lambda: fitted(curvature="full"), ValueError, "curvature must be one of"),
    "objective": (lambda: fitted(objective="binary"), ValueError, "does not take objective='binary': the surrogate is the objective"),
    "metric": (lambda: fitted(metric="auc"), ValueError, "the task loss is the metric"),
    "rounds twice": (lambda: fitted(num_iterations=3), ValueError, "n_estimators is the number of rounds"),
    "typo": (lambda: fitted(num_leafs=3), ValueError, r"lightgbm \S+ makes no use of the parameter num_leafs=3: did you mean num_leaf, num_leaves"),
    "typo of ours": (lambda: fitted(earl_stopping=3), ValueError, "earl_stopping=3: did you mean early_stopping"),
    "typo, xgboost": (lambda: fitted(library="xgboost", max_dept=3), ValueError, r"xgboost \S+ makes no use of the parameter max_dept=3: did you mean max_depth"),
    "typo beside a wrong value": (lambda: fitted(library="xgboost", max_dept=3, tree_method="hist", monotone_constraints=(1, 0)), ValueError, "max_dept=3"),
    "the other library's": (lambda: fitted(library="xgboost", num_leaves=3), ValueError, "num_leaves=3: did you mean max_leaves"),
    "of another booster": (lambda: fitted(library="xgboost", rate_drop=0.1), ValueError, "makes no use of the parameter rate_drop=0.1"),
    "nothing like it": (lambda: fitted(zzzzz=3), ValueError, "zzzzz=3: its own list of parameters has the names"),
    "value": (lambda: fitted(library="xgboost", tree_method="hst"), ValueError, "cannot be trained on this X with .*tree_method='hst'.*hist"),
    "class weights": (lambda: fitted(is_unbalance=True), ValueError, "does not take is_unbalance=True: the estimator's class_weight"),
    "dart": (lambda: fitted(boosting="dart", early_stopping=3), ValueError, "'dart' changes trees"),
    "no curvature": (lambda: fitted(face_params={"surrogate": tl.surrogates.OneVsAll("hinge")}), ValueError, "no second derivatives"),
    "crossing": (lambda: fitted(tl.OrdinalClassifier, face_params={"surrogate": "cumulative-link", "shared": False}), ValueError, "let scores cross.*shared=True"),
    "infinite": (lambda: fitted(X=np.where(X > 2, np.inf, X)), ValueError, "infinity"),
    "words": (lambda: fitted(X=pd.DataFrame({"a": ["x", "y"] * 30})), ValueError, "Column 'a' of X holds .*astype\\('category'\\)"),
    "dates": (lambda: fitted(X=pd.DataFrame({"a": pd.date_range("2020", periods=60)})), ValueError, "Column 'a' of X holds datetime"),
    "words in polars": (lambda: fitted(X=pl.DataFrame({"a": ["x", "y"] * 30})), ValueError, "Column 'a' of X holds String"),
    "no frame": (lambda: fitted(X=pd.DataFrame({"a": pd.Categorical(list("xy") * 30)})).predict(X[:, :1]), ValueError, "fitted on a data frame with categories"),
    "validation shape": (lambda: fitted(validation=X), ValueError, r"validation must be held-out data \(X, y\)"),
    "validation label": (lambda: fitted(validation=(X, y + 1)), ValueError, "Unknown label 4"),
    "validation without use": (lambda: tl.TaskLossEstimator().fit(X, y, validation=(X, y)), ValueError, "Boosting\\(early_stopping"),
    "one group": (lambda: tl.Ranker(hypothesis=trees(early_stopping=3)).fit(X, y, groups=np.zeros(60)), ValueError, "there is one only: pass validation"),
    "validation size": (lambda: tl.Ranker(hypothesis=trees(early_stopping=3)).fit(X, y, groups=np.arange(60) // 6, validation=(X,)), ValueError, "got tuple of 1"),
    "ranking triple": (lambda: tl.Ranker(hypothesis=trees(early_stopping=3)).fit(X, y, groups=np.arange(60) // 6, validation=(X, y)), ValueError, r"\(X, y, groups\)"),
    "edges": (lambda: tl.SequenceTagger(hypothesis=trees(), transition_features="all").fit(*sequences(5, 0)), ValueError, "leave out transition_features"),
    "partial labels": (lambda: tl.SequenceTagger(hypothesis=trees(early_stopping=3)).fit([X[:5], X[5:9]], [[0, None, 1, 0, 1], [1, 0, 1, 1]]), ValueError, "some labels are missing: pass validation"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    work, kind, sentence = BAD[case]
    with pytest.raises(kind, match=sentence):
        work()


@every_library
def test_a_refused_name_loses_nothing(data, library, recwarn):
    X, y = data
    model = tl.OrdinalClassifier(hypothesis=trees(library)).fit(X, y)
    before = model.predict_scores(X)
    with pytest.raises(ValueError, match="makes no use of the parameter"):
        model.set_params(hypothesis__max_dept=3).fit(X, y)
    np.testing.assert_array_equal(model.predict_scores(X), before)
    assert not [w for w in recwarn if "not used" in str(w.message)]


NAMES = {
    "lightgbm": ("num_leaves", "subsample", "colsample_bytree", "reg_lambda", "min_child_samples", "random_state", "verbose"),
    "xgboost": ("max_depth", "subsample", "colsample_bytree", "reg_lambda", "lambda", "min_child_weight", "nthread", "verbosity"),
}  # fmt: skip


@every_library
def test_names_and_aliases_are_the_librarys_own_list(library):
    known = Library.resolve(library).names
    assert known.issuperset(NAMES[library])
    assert not known & {"num_leafs", "max_dept"}
    given = {name: 1 for name in NAMES[library]}
    assert Library.resolve(library).passed_over({**given, "max_dept": 1}, 5) == ["max_dept"]


def test_no_rounds_are_the_best_constant(data):
    X, y = data
    model = tl.TaskLossEstimator(hypothesis=trees(n_estimators=0)).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:1])[0], np.bincount(y) / 400, atol=1e-6)


def test_a_class_that_is_not_held_out_is_said():
    with pytest.warns(UserWarning, match="held-out part has no example of 2 of the classes.*add some to validation="):
        fitted(early_stopping=3, validation=(X[y < 2], y[y < 2]))
    lonely = y.copy()
    lonely[0] = 9
    with pytest.warns(UserWarning, match="held-out part has no example of 1 of the classes"):
        fitted(y=lonely, early_stopping=3, validation_fraction=0.3)


@every_library
def test_a_library_that_is_not_installed_is_named_with_its_extra(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        ImportError, match=rf"needs {library}, which is not installed: pip install 'taskloss\[boosting\]'"
    ):
        tl.TaskLossEstimator(hypothesis=Boosting(library)).fit(X, y)
