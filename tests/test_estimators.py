"""The faces: scikit-learn's own checks, users' labels, other losses on the same fit, model selection."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import taskloss as tl

TIGHT = {"solver": "newton", "tol": 1e-20}
MEDIAN = {
    "check_classifiers_train": "the check asks for the most likely label; under absolute error the answer is the median",
}
UNORDERED = {"check_classifiers_classes": "the check asks for the most likely label of labels that are not in order"}


ONE_LABEL = "the check gives one label per row, and this estimator takes a set of labels per row"
SETS = {
    "check_classifiers_one_label": ONE_LABEL,
    "check_classifiers_one_label_sample_weights": ONE_LABEL,
    "check_classifiers_classes": ONE_LABEL,
    "check_classifiers_train": ONE_LABEL,
    "check_classifiers_regression_target": ONE_LABEL,
    "check_classifier_not_supporting_multiclass": ONE_LABEL,
    "check_estimator_sparse_array": ONE_LABEL + "; sparse X itself is tested below",
    "check_estimator_sparse_matrix": ONE_LABEL + "; sparse X itself is tested below",
}


TUNED = {
    "check_classifier_multioutput": "the check asks for the labels of probability one half or more; tuned decisions have thresholds of their own"
}


def exceptions(estimator):
    """The checks that an estimator may fail, each with its reason."""
    if isinstance(estimator, tl.TunedDecisionCV):
        return exceptions(estimator.estimator) | (TUNED if estimator.metric == "f-measure" else {})
    if isinstance(estimator, tl.OrdinalClassifier):
        return MEDIAN | (UNORDERED if estimator.surrogate == "cumulative-link" else {})
    return SETS if isinstance(estimator, tl.MultilabelClassifier) else {}


@parametrize_with_checks(
    [
        tl.TaskLossEstimator(**TIGHT),
        tl.TaskLossEstimator(surrogate="quadratic", **TIGHT),
        tl.CostSensitiveClassifier(**TIGHT),
        tl.OrdinalClassifier(**TIGHT),
        tl.OrdinalClassifier(surrogate="cumulative-link", **TIGHT),
        tl.MultilabelClassifier(**TIGHT),
        tl.DecodedClassifier(LogisticRegression(tol=1e-12, max_iter=10_000)),
        tl.TunedDecisionCV(LogisticRegression(tol=1e-12, max_iter=10_000), "balanced-accuracy"),
        tl.TunedDecisionCV(tl.OrdinalClassifier(**TIGHT), "kappa"),
        tl.TunedDecisionCV(tl.MultilabelClassifier(**TIGHT), "f-measure"),
    ],
    expected_failed_checks=exceptions,
    xfail_strict=True,
)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # a tolerance of 1e-20, for bit-equal fits, is out of reach
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y


# -- labels as they are ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        np.array([10, 20, 30]),
        np.array([1.0, 2.0, 3.0]),
        np.array(["setosa", "versicolor", "virginica"]),
        np.array(["setosa", "versicolor", "virginica"], dtype=object),
        np.array([True, False, True])[:2],
    ],
    ids=["int", "float", "str", "object", "bool"],
)
def test_labels_of_any_type(iris, names):
    X, y = iris
    if len(names) == 2:
        X, y = X[:100], y[:100]
    model = tl.TaskLossEstimator().fit(X, names[y])
    predicted = model.predict(X)
    assert predicted.dtype == model.classes_.dtype
    assert set(predicted.tolist()) <= set(names.tolist())
    assert (predicted == names[y]).mean() > 0.95
    assert model.score(X, names[y]) == pytest.approx(-(predicted != names[y]).mean())


def test_tuples_are_labels(iris):
    X, y = iris
    paths = [[("animal", "cat"), ("animal", "dog"), ("plant", "oak")][i] for i in y]
    loss = tl.losses.TreeDistance([("animal", "cat"), ("animal", "dog"), ("plant", "oak")])
    model = tl.TaskLossEstimator(loss).fit(X, paths)
    assert model.predict(X[:1])[0] == ("animal", "cat")
    assert model.score(X, paths) > -0.2


def test_tuples_are_labels_without_a_tree_too(iris):
    X, y = iris
    pairs = [[("a", 0), ("a", 1), ("b", 0)][i] for i in y]
    for loss in ("zero-one", tl.losses.TreeDistance(), tl.losses.CostMatrix(1 - np.eye(3), labels=sorted(set(pairs)))):
        model = tl.TaskLossEstimator(loss).fit(X, pairs)
        assert model.classes_.tolist() == [("a", 0), ("a", 1), ("b", 0)]
        assert model.predict(X[:1])[0] == ("a", 0)
    listed = tl.OrdinalClassifier(order=[("b", 0), ("a", 1), ("a", 0)]).fit(X, pd.Series(pairs))
    assert listed.classes_.tolist() == [("b", 0), ("a", 1), ("a", 0)]


def test_pandas_and_polars_in(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    reference = tl.TaskLossEstimator().fit(X, names)
    for frame, column in ((pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series)):
        table = frame({f"f{j}": X[:, j] for j in range(4)})
        model = tl.TaskLossEstimator().fit(table, column(names))
        np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-2)
        assert model.feature_names_in_.tolist() == ["f0", "f1", "f2", "f3"]
        np.testing.assert_array_equal(model.predict(table), reference.predict(X))


def test_a_cost_frame_brings_its_own_names(iris):
    X, y = iris
    names = np.array(["low", "mid", "high"])[y]
    costs = pd.DataFrame(
        [[0, 9, 9], [1, 0, 1], [9, 9, 0]], index=["pay", "ask", "refuse"], columns=["high", "low", "mid"]
    )
    model = tl.CostSensitiveClassifier(costs, alpha=0.1).fit(X, names)
    assert model.classes_.tolist() == ["high", "low", "mid"]
    assert model.outputs_.tolist() == ["pay", "ask", "refuse"]
    expected = costs.index.to_numpy()[(model.predict_proba(X) @ costs.to_numpy().T).argmin(1)]
    np.testing.assert_array_equal(model.predict(X), expected)


def test_a_frames_default_index_names_nothing(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])
    costs = pd.DataFrame([[0, 1, 2], [1, 0, 3], [5, 1, 0]], columns=names)
    model = tl.CostSensitiveClassifier(costs).fit(X, names[y])
    assert model.outputs_.tolist() == names.tolist()
    np.testing.assert_array_equal(
        model.predict(X), tl.CostSensitiveClassifier(costs.to_numpy()).fit(X, names[y]).predict(X)
    )
    np.testing.assert_array_equal(
        model.predict(X), tl.CostSensitiveClassifier(pd.DataFrame(costs.to_numpy())).fit(X, names[y]).predict(X)
    )


def test_a_rectangular_matrix_without_names_answers_with_row_numbers(iris):
    X, y = iris
    model = tl.CostSensitiveClassifier([[0, 2, 2], [1, 1, 1], [2, 0, 2], [2, 2, 0]]).fit(X, y)
    assert set(model.predict(X)) <= {0, 1, 2, 3}


def test_order_of_ordinal_labels(iris):
    X, y = iris
    names = np.array(["small", "medium", "large"])[y]
    numbers = tl.OrdinalClassifier().fit(X, y)
    listed = tl.OrdinalClassifier(order=["small", "medium", "large"]).fit(X, names)
    category = pd.Series(pd.Categorical(names, categories=["small", "medium", "large"], ordered=True))
    enum = pl.Series(names, dtype=pl.Enum(["small", "medium", "large"]))
    by_category, by_enum = tl.OrdinalClassifier().fit(X, category), tl.OrdinalClassifier().fit(X, enum)
    for model in (listed, by_category, by_enum):
        np.testing.assert_allclose(model.coef_, numbers.coef_)
        assert model.predict(X[:1]).tolist() == ["small"]


def test_order_and_a_losss_own_names_may_differ(iris):
    """The costs of a label stay with it, wherever `order` puts it."""
    X, y = iris
    order = ["small", "medium", "large"]
    costs = pd.DataFrame([[0, 1, 4], [2, 0, 1], [9, 3, 0]], index=order, columns=order)
    shuffled = costs.loc[["large", "small", "medium"], ["medium", "large", "small"]]
    options = {"order": order, "alpha": 0.1}
    one, other = (tl.OrdinalClassifier(tl.losses.CostMatrix(c), **options) for c in (costs, shuffled))
    names = np.array(order)[y]
    np.testing.assert_array_equal(one.fit(X, names).predict(X), other.fit(X, names).predict(X))
    assert other.classes_.tolist() == order
    assert other.score(X, names) == pytest.approx(one.score(X, names))
    tree = tl.losses.TreeDistance(["medium", "large", "small"])
    np.testing.assert_array_equal(
        tl.OrdinalClassifier(tree, **options).fit(X, names).loss_.label_names().tolist(), order
    )


def test_columns_of_label_frames_are_known_by_name():
    X, y = make_multilabel_classification(100, n_classes=3, random_state=1)
    frame = pd.DataFrame(y, columns=["a", "b", "c"])
    model = tl.MultilabelClassifier().fit(X, frame)
    assert model.score(X, frame[["c", "a", "b"]]) == model.score(X, frame)
    with pytest.raises(ValueError, match="Unknown column of y 'd'"):
        model.score(X, frame.rename(columns={"c": "d"}))


def test_lists_of_labels_need_not_be_words():
    X = np.random.default_rng(0).normal(size=(40, 2))
    lists = [[j for j in (0, 1) if x[j] > 0] for x in X]
    model = tl.MultilabelClassifier().fit(X, lists)
    assert model.classes_.tolist() == [0, 1]
    assert model.score(X, lists) > -0.1


def test_label_sets_in_and_out():
    X, y = make_multilabel_classification(200, n_classes=4, random_state=1)
    names = np.array(["news", "sport", "art", "food"])
    sets = [set(names[row.astype(bool)]) for row in y]
    by_matrix = tl.MultilabelClassifier().fit(X, y)
    by_sets = tl.MultilabelClassifier().fit(X, sets)
    by_frame = tl.MultilabelClassifier().fit(X, pd.DataFrame(y, columns=names))
    by_sparse = tl.MultilabelClassifier().fit(X, csr_matrix(y))
    predicted = by_sets.predict(X)
    assert isinstance(predicted[0], set)
    order = [by_sets.classes_.tolist().index(n) for n in names]
    np.testing.assert_allclose(by_sets.coef_[order], by_matrix.coef_, atol=1e-6)
    on_sparse = tl.MultilabelClassifier(tol=1e-12).fit(csr_matrix(X), y)
    np.testing.assert_allclose(on_sparse.predict_proba(csr_matrix(X)), by_matrix.predict_proba(X), atol=1e-3)
    signs = tl.MultilabelClassifier().fit(X, 2 * y - 1)
    np.testing.assert_array_equal(signs.predict(X), 2 * by_matrix.predict(X) - 1)
    for model in (by_frame, by_sparse):
        np.testing.assert_array_equal(model.predict(X), by_matrix.predict(X))
    assert by_frame.classes_.tolist() == names.tolist()
    assert by_sets.score(X, sets) == pytest.approx(by_matrix.score(X, y))


# -- one fit, many losses ------------------------------------------------------------------------------------------------


def test_other_losses_on_the_same_fit(iris):
    X, y = iris
    model = tl.TaskLossEstimator(alpha=0.1).fit(X, y)
    q = model.predict_proba(X)
    costs = np.array([[0, 1, 8], [4, 0, 1], [1, 2, 0]])
    np.testing.assert_array_equal(model.predict(X, loss=tl.losses.CostMatrix(costs)), (q @ costs.T).argmin(1))
    np.testing.assert_array_equal(model.predict(X, loss="absolute"), (np.cumsum(q, 1) < 0.5).sum(1))
    abstained = model.predict(X, loss=tl.losses.Abstain(cost=0.2))
    np.testing.assert_array_equal(abstained == -1, q.max(1) < 0.8)
    assert 0 < (abstained == -1).mean() < 1


def test_other_losses_on_an_ordinal_fit(iris):
    X, y = iris
    model = tl.OrdinalClassifier(alpha=0.1).fit(X, y)
    q = model.predict_proba(X)
    np.testing.assert_allclose(q.sum(1), 1)
    np.testing.assert_array_equal(model.predict(X, loss="zero-one"), q.argmax(1))
    np.testing.assert_array_equal(model.predict(X, loss="squared"), np.rint(q @ np.arange(3)))


def test_other_losses_as_matrices_and_in_another_order(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])
    model = tl.TaskLossEstimator(alpha=0.1).fit(X, names[y])
    costs = pd.DataFrame([[0, 1, 8], [4, 0, 1], [1, 2, 0]], index=names, columns=names)
    expected = names[(model.predict_proba(X) @ costs.to_numpy().T).argmin(1)]
    for loss in (costs.to_numpy(), costs, costs.loc[["c", "b", "a"], ["b", "c", "a"]]):
        np.testing.assert_array_equal(model.predict(X, loss=loss), expected)


def test_other_losses_that_need_another_embedding(iris):
    """Thresholds and the edges of a tree are different moments; both give the law over labels."""
    X, y = iris
    names = np.array(["a/x", "a/y", "b"])
    tree = tl.losses.TreeDistance(list(names))
    in_tree = tl.TaskLossEstimator(tree, surrogate="independent", alpha=0.1).fit(X, names[y])
    ordinal = tl.OrdinalClassifier(order=names, alpha=0.1).fit(X, names[y])
    for model in (in_tree, ordinal):
        q = model.loss_.probabilities(model.predict_moments(X))
        for loss in ("zero-one", "absolute", tree):
            matrix = tl.losses.Loss.resolve(loss).bind(3).matrix()
            np.testing.assert_array_equal(model.predict(X, loss=loss), names[(q @ matrix.T).argmin(1)])


def test_costs_per_example_through_predict(iris):
    X, y = iris
    model = tl.TaskLossEstimator(alpha=0.1).fit(X, y)
    costs = np.random.default_rng(0).uniform(0, 3, (len(X), 3, 3))
    np.testing.assert_array_equal(
        model.predict(X, costs=costs), np.einsum("nzy,ny->nz", costs, model.predict_proba(X)).argmin(1)
    )
    np.testing.assert_allclose(
        model.expected_loss(X, costs=costs), np.einsum("nzy,ny->nz", costs, model.predict_proba(X)).min(1)
    )


def test_expected_loss_is_the_risk_of_the_prediction(iris):
    X, y = iris
    costs = np.array([[0, 1, 8], [4, 0, 1], [1, 2, 0]])
    model = tl.CostSensitiveClassifier(costs, alpha=1e-4).fit(X, y)
    np.testing.assert_allclose(model.expected_loss(X), (model.predict_proba(X) @ costs.T).min(1))
    assert model.expected_loss(X).mean() == pytest.approx(-model.score(X, y), abs=0.1)


def test_ordinal_moments_are_in_the_papers_cube(iris):
    X, y = iris
    model = tl.OrdinalClassifier().fit(X, y)
    mu = model.predict_moments(X)
    assert mu.shape == (150, 2)
    assert (np.abs(mu) <= 1).all()
    assert (mu[:, 0] >= mu[:, 1]).all()
    free, shared = (tl.OrdinalClassifier(shared=s, alpha=1e-6).fit(X, y) for s in (False, True))
    assert free.coef_.shape == (2, 4)
    assert shared.coef_.shape == (1, 4)
    assert not np.allclose(*free.coef_, atol=0.1)


# -- decoding others' probabilities ------------------------------------------------------------------------------------------


def test_decoded_classifier(iris):
    X, y = iris
    costs = np.array([[0, 1, 8], [4, 0, 1], [1, 2, 0]])
    forest = RandomForestClassifier(20, max_depth=2, random_state=0)
    model = tl.DecodedClassifier(forest, costs).fit(X, y)
    fitted = clone(forest).fit(X, y)
    expected = (fitted.predict_proba(X) @ costs.T).argmin(1)
    np.testing.assert_array_equal(model.predict(X), expected)
    prefit = tl.DecodedClassifier(fitted, costs, prefit=True)
    np.testing.assert_array_equal(prefit.predict(X), expected)
    np.testing.assert_array_equal(prefit.fit(X, y).predict(X), expected)
    assert prefit.estimator_ is fitted
    assert (model.predict(X, loss=tl.losses.Abstain(cost=0.05)) == -1).any()
    price = np.zeros((150, 3))
    price[:, 0] = 100
    assert (model.predict(X, costs=price) != 0).all()
    for method in ("sigmoid", "isotonic"):
        calibrated = tl.DecodedClassifier(forest, costs, calibration=method, cv=3).fit(X, y)
        assert not np.allclose(calibrated.predict_proba(X), model.predict_proba(X))
        np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1)
        tl.DecodedClassifier(fitted, costs, calibration=method, prefit=True).fit(X, y).predict(X)


def test_decoded_probabilities_follow_the_losss_order(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    costs = pd.DataFrame([[0, 1, 5], [1, 0, 5], [1, 1, 0]], index=["c", "a", "b"], columns=["c", "a", "b"])
    model = tl.DecodedClassifier(LogisticRegression(max_iter=1000), costs).fit(X, names)
    proba = LogisticRegression(max_iter=1000).fit(X, names).predict_proba(X)[:, [2, 0, 1]]
    np.testing.assert_allclose(model.predict_proba(X), proba)
    np.testing.assert_array_equal(model.predict(X), np.array(["c", "a", "b"])[(proba @ costs.to_numpy().T).argmin(1)])


def test_decoded_labels_in_their_order(iris):
    X, y = iris
    order = ["low", "mid", "high"]
    names = np.array(order)[y]
    category = pd.Series(pd.Categorical(names, categories=order, ordered=True))
    base = LogisticRegression(max_iter=1000)
    q = LogisticRegression(max_iter=1000).fit(X, y).predict_proba(X)
    expected = np.array(order)[(np.cumsum(q, 1) < 0.5).sum(1)]
    fitted = clone(base).fit(X, names)
    models = (
        tl.DecodedClassifier(base, "absolute").fit(X, category),
        tl.DecodedClassifier(base, "absolute", order=order).fit(X, names),
        tl.DecodedClassifier(fitted, "absolute", order=order, prefit=True),
    )
    for model in models:
        assert model.classes_.tolist() == order
        np.testing.assert_array_equal(model.predict(X), expected)
        assert model.score(X, names) == pytest.approx(-np.abs((np.cumsum(q, 1) < 0.5).sum(1) - y).mean())


def test_decoding_a_fitted_classifier_needs_no_fit(iris):
    X, y = iris
    fitted = LogisticRegression(max_iter=1000).fit(X, y)
    abstain = tl.losses.Abstain(cost=0.1)
    expected = tl.DecodedClassifier(fitted, abstain, prefit=True).fit(X, y).score(X, y)
    assert tl.DecodedClassifier(fitted, abstain, prefit=True).score(X, y) == expected
    assert tl.DecodedClassifier(fitted, abstain, prefit=True).classes_.tolist() == [0, 1, 2]
    assert tl.DecodedClassifier(fitted, abstain, prefit=True).outputs_.tolist() == [0, 1, 2, -1]
    assert tl.DecodedClassifier(fitted, abstain, prefit=True).expected_loss(X).max() == pytest.approx(0.1)
    with pytest.raises(NotFittedError, match="prefit=True needs a fitted estimator"):
        tl.DecodedClassifier(LogisticRegression(), abstain, prefit=True).predict(X)


def test_calibration_gives_probabilities_to_what_has_none(iris):
    X, y = iris
    model = tl.DecodedClassifier(LinearSVC(), tl.losses.Abstain(cost=0.2), calibration="sigmoid", cv=3).fit(X, y)
    assert model.score(X, y) > -0.2


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_decoded_boosting(iris, library):
    X, y = iris
    module = pytest.importorskip(library)
    params = {"n_estimators": 20, "n_jobs": 1}
    booster = module.LGBMClassifier(verbose=-1, **params) if library == "lightgbm" else module.XGBClassifier(**params)
    model = tl.DecodedClassifier(booster, tl.losses.Abstain(cost=0.3)).fit(X, y)
    assert set(model.predict(X)) <= {-1, 0, 1, 2}
    assert model.score(X, y) > -0.3


# -- in the company of scikit-learn ---------------------------------------------------------------------------------------------


def test_pipeline_grid_search_and_output_containers():
    X, y = load_wine(return_X_y=True, as_frame=True)
    pipe = make_pipeline(
        StandardScaler(), tl.TaskLossEstimator("absolute", surrogate=tl.surrogates.OneVsAll())
    ).set_output(transform="pandas")
    grid = {"tasklossestimator__surrogate__margin": ["logistic", "square"], "tasklossestimator__alpha": [1e-3, 1e-1]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert search.best_score_ > -0.1
    assert set(search.best_params_) == set(grid)
    assert search.best_estimator_[-1].feature_names_in_.tolist() == X.columns.tolist()


def test_scorer_selects_on_the_task_loss(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    loss = tl.losses.CostMatrix([[0, 1, 9], [1, 0, 1], [9, 1, 0]])
    scores = cross_val_score(LogisticRegression(max_iter=1000), X, names, scoring=loss.scorer(), cv=3)
    assert ((scores >= -9) & (scores <= 0)).all()
    forest = RandomForestClassifier(5, random_state=0).fit(X, names)
    codes = {"a": 0, "b": 1, "c": 2}
    wrong = [loss.matrix()[codes[z], codes[t]] for z, t in zip(forest.predict(X), names, strict=True)]
    assert loss.scorer()(forest, X, names) == pytest.approx(-np.mean(wrong))
    GridSearchCV(LogisticRegression(max_iter=1000), {"C": [0.1, 1]}, scoring=tl.losses.Absolute().scorer(), cv=3).fit(
        X, y
    )
    own = tl.TaskLossEstimator(tl.losses.Abstain(cost=0.2)).fit(X, names)
    assert own.loss.scorer()(own, X, names) == pytest.approx(own.score(X, names))
    Xm, ym = make_multilabel_classification(100, random_state=0)
    many = tl.MultilabelClassifier().fit(Xm, ym)
    assert tl.losses.Hamming().scorer()(many, Xm, ym) == pytest.approx(many.score(Xm, ym))
    assert pickle.loads(pickle.dumps(loss.scorer())).loss == loss


def test_scorer_knows_the_labels_of_the_fit(iris):
    X, y = iris
    order = ["low", "mid", "high"]
    category = pd.Series(pd.Categorical(np.array(order)[y], categories=order, ordered=True))
    scorer = tl.losses.Absolute().scorer()
    logistic = LogisticRegression(max_iter=1000).fit(X, category)
    codes = {name: i for i, name in enumerate(order)}
    off = [abs(codes[z] - codes[t]) for z, t in zip(logistic.predict(X[40:60]), category[40:60], strict=True)]
    assert scorer(logistic, X[40:60], category[40:60]) == pytest.approx(-np.mean(off))
    ordinal = make_pipeline(StandardScaler(), tl.OrdinalClassifier(order=order)).fit(X, category.astype(str))
    assert scorer(ordinal, X, category.astype(str)) == ordinal.score(X, category.astype(str))

    rows = np.random.default_rng(0).normal(size=(60, 2))
    sets = np.empty(60, dtype=object)
    sets[:] = [{name for name, x in zip("ab", row, strict=True) if x > 0} for row in rows]
    hamming = tl.losses.Hamming().scorer()
    for model in (tl.MultilabelClassifier(), make_pipeline(StandardScaler(), tl.MultilabelClassifier())):
        assert np.isfinite(cross_val_score(model, rows, sets, scoring=hamming, error_score="raise")).all()
        model.fit(rows, sets)
        some = [i for i, row in enumerate(sets) if row == {"a"}]
        assert hamming(model, rows[some], sets[some]) == model.score(rows[some], sets[some])
    signs = np.where(rows > 0, 1, -1)
    model = tl.MultilabelClassifier().fit(rows, signs)
    none = (signs < 0).all(1)
    assert hamming(model, rows[none], signs[none]) == model.score(rows[none], signs[none])
    predictor = tl.KernelPredictor(tl.losses.Hamming()).fit(rows, sets)
    assert hamming(predictor, rows[some], sets[some]) == predictor.score(rows[some], sets[some])
    assert scorer(tl.KernelPredictor("absolute").fit(X, category), X, category) > -0.1


def test_clone_pickle_and_repr(iris):
    X, y = iris
    model = tl.OrdinalClassifier(surrogate=tl.surrogates.CumulativeLink("probit"), alpha=0.1)
    assert "CumulativeLink(link='probit')" in repr(model)
    copy = clone(model).set_params(surrogate__link="cloglog")
    assert copy.surrogate.get_params()["link"] == "cloglog"
    assert model.surrogate.get_params()["link"] == "probit"
    model.fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_warm_start_and_fitted_attributes(iris):
    X, y = iris
    model = tl.TaskLossEstimator(warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.solution_.converged
    model.fit(X, y)
    assert model.n_iter_ <= 1 < first
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    np.testing.assert_allclose(model.predict_scores(X), X @ model.coef_.T + model.intercept_)


def test_fit_leaves_constructor_parameters_alone(iris):
    X, y = iris
    surrogate, loss = tl.surrogates.OneVsAll(), tl.losses.ZeroOne()
    model = tl.TaskLossEstimator(loss, surrogate).fit(X, y)
    assert surrogate.n_classes is None
    assert loss.n_classes is None
    assert model.surrogate_.n_classes == model.loss_.n_classes == 3


def test_verbose_shows_progress(iris, capsys):
    X, y = iris
    tl.TaskLossEstimator(verbose=True).fit(X, y)
    assert "iterations, objective" in capsys.readouterr().err


def test_a_label_that_never_occurs_does_not_keep_the_others_waiting():
    """Its intercept has its minimum at minus infinity; the fit still ends, and the others are those without it."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 4))
    Y = (X[:, :3] + rng.logistic(size=(200, 3)) > 0).astype(int)
    model = tl.MultilabelClassifier(alpha=0.01, tol=1e-8)
    alone = model.fit(X, Y).coef_
    both = model.fit(X, np.c_[Y, np.zeros(200, dtype=int)])
    assert both.solution_.converged
    assert both.n_iter_ < 50
    np.testing.assert_allclose(both.coef_[:3], alone, atol=1e-3)
    assert not both.predict(X)[:, 3].any()
