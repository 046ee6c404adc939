"""What a fit leaves behind: on success, on failure, on an interrupt; and the decisions that follow."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from tests.fitted import fail_at
from tests.parts import label

import taskloss as tl
from taskloss.losses import FBeta, Hamming, MatchingHamming, ZeroOne
from taskloss.polytopes._forest import Forest
from taskloss.solvers import ASGD


def rows(rng, n=90, k=3):
    X = rng.normal(size=(n, 4))
    return X, (X[:, :k] + rng.gumbel(size=(n, k))).argmax(1)


def ranked(rng):
    groups = np.repeat(np.arange(12), rng.integers(2, 6, 12))
    X = rng.normal(size=(len(groups), 4))
    return X, np.clip(np.round(X[:, 0] + 1), 0, 3), groups


def matched(rng, n=12):
    X, y = [], []
    for _ in range(n):
        a, z = rng.normal(size=(4, 3)), rng.permutation(4)
        b = np.empty_like(a)
        b[z] = a + 0.2 * rng.normal(size=a.shape)
        X.append((a, b))
        y.append(z)
    return X, y


def sequences(rng, n=15):
    X = [rng.normal(size=(rng.integers(1, 6), 3)) for _ in range(n)]
    return X, [(x[:, 0] > 0).astype(int).tolist() for x in X]


def cases(rng):
    """(estimator, arguments of fit, what to compare of a fitted one)."""
    X, y = rows(rng)
    Xr, yr, groups = ranked(rng)
    return {
        "labels": (tl.CostSensitiveClassifier(), (X, y), lambda m: m.predict_moments(X)),
        "ordinal": (tl.OrdinalClassifier(), (X, y), lambda m: m.predict_moments(X)),
        "sets": (tl.MultilabelClassifier(), (X, np.eye(3, dtype=int)[y]), lambda m: m.predict_moments(X)),
        "kernel": (tl.CostSensitiveClassifier(hypothesis="kernel"), (X, y), lambda m: m.predict_moments(X)),
        "ranking": (tl.Ranker(), (Xr, yr, groups), lambda m: m.predict_scores(Xr)),
        "matching": (tl.Matcher(), matched(rng), lambda m: m.theta_.copy()),
        "sequences": (tl.SequenceTagger(), sequences(rng), lambda m: m.theta_.copy()),
    }


NAMES = list(cases(np.random.default_rng(0)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("moment", [1, 2, 4])
def test_an_interrupt_is_raised_and_leaves_the_earlier_model(name, moment, monkeypatch):
    model, args, answer = cases(np.random.default_rng(0))[name]
    model.fit(*args)
    before, state = answer(model), set(vars(model))
    calls = fail_at(monkeypatch, moment, KeyboardInterrupt)
    other = cases(np.random.default_rng(1))[name][1]
    with pytest.raises(KeyboardInterrupt):
        model.fit(*other)
    assert len(calls) == moment
    assert set(vars(model)) == state
    np.testing.assert_array_equal(answer(model), before)
    calls.clear()
    with pytest.raises(KeyboardInterrupt) as stop:
        model.set_params(warm_start=True).fit(*other)
    if moment > 1:  # before the first evaluation there is nothing to keep
        assert model.theta_ is stop.value.solution.theta


def test_ctrl_c_ends_a_grid_search(monkeypatch):
    X, y = rows(np.random.default_rng(0))

    fail_at(monkeypatch, 1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(tl.CostSensitiveClassifier(), {"alpha": [1e-3, 1e-2]}, cv=2).fit(X, y)


def test_a_failed_batch_leaves_the_model_as_it_was():
    X, y = rows(np.random.default_rng(0))
    model = tl.CostSensitiveClassifier(solver=ASGD(step=0.1)).fit(X, y)
    before = model.predict_moments(X)
    for bad in (
        lambda: model.partial_fit(X[:, :2], ["a"] * len(X), classes=["b", "c"]),
        lambda: model.partial_fit(X[:, :2], y[:-1]),
        lambda: model.partial_fit(X, [*y[:-1], 9]),
        lambda: model.partial_fit(X, y, sample_weight=-np.ones(len(y))),
        lambda: model.fit_stream([(X[:, :2], ["a"] * len(X))], classes=["b", "c"]),
        lambda: model.fit_stream([(X[:, :3], [*y[:-1], 9])], classes=[0, 1, 2]),
    ):
        with pytest.raises(ValueError):
            bad()
        assert model.n_features_in_ == 4
        assert model.classes_.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(model.predict_moments(X), before)


# -- labels that no fit has seen ---------------------------------------------------------------------------------------


def test_a_label_that_a_fold_lacks_is_a_mistake_and_no_error():
    X, y = rows(np.random.default_rng(0))
    y = np.array(["a", "b", "c"])[y]
    y[0] = "rare"
    search = GridSearchCV(tl.CostSensitiveClassifier(), {"alpha": [10.0, 1e-2]}, cv=KFold(3)).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["alpha"] == 1e-2
    model = tl.CostSensitiveClassifier().fit(X[1:], y[1:])
    losses = model.labels_.losses(model.loss_, model.loss_.decode(model.predict_moments(X)), y)
    assert losses[0] == 1
    assert -model.score(X, y) == pytest.approx(losses.mean())
    assert tl.losses.ZeroOne().scorer()(model, X, y) == pytest.approx(model.score(X, y))


def test_the_worst_loss_is_that_of_the_output():
    X, y = rows(np.random.default_rng(0))
    model = tl.CostSensitiveClassifier(tl.losses.Abstain(cost=0.25)).fit(X, y)
    unseen = np.full(len(X), 7)
    expected = np.where(model.predict(X) == -1, 0.25, 1.0)
    assert -model.score(X, unseen) == pytest.approx(expected.mean())
    costs = pd.DataFrame([[0, 1, 9], [1, 0, 5], [2, 2, 0]], columns=[0, 1, 2], index=[0, 1, 2])
    named = tl.CostSensitiveClassifier(costs).fit(
        X[y < 2], y[y < 2]
    )  # the costs of 2 are known without an example of it
    z = named.predict(X)
    assert -named.score(X, np.full(len(X), 2)) == pytest.approx(costs.to_numpy()[z, 2].mean())


@pytest.mark.parametrize("loss", [Hamming(3), Hamming(3, weights=[1, 2, 0.5]), FBeta(3), ZeroOne(3)], ids=label)
def test_worst_is_the_largest_over_all_labels(loss):
    z = loss.outputs()
    np.testing.assert_allclose(loss.worst(z), loss.matrix().max(1))


def test_a_set_with_an_unseen_label_counts_by_the_worst():
    X = np.random.default_rng(0).normal(size=(40, 2))
    sets = [{"a"} if x[0] > 0 else {"b"} for x in X]
    model = tl.MultilabelClassifier().fit(X, sets)
    assert model.score(X[:2], [sets[0], {"new"}]) == pytest.approx(model.score(X[:1], sets[:1]) / 2 - 0.5)


def test_a_position_with_an_unseen_label_is_a_mistake():
    X, y = sequences(np.random.default_rng(0))
    tagger = tl.SequenceTagger().fit(X, y)
    z = tagger.predict(X[:1])[0].tolist()
    assert tagger.score(X[:1], [z]) == 0
    assert tagger.score(X[:1], [["new", *z[1:]]]) == pytest.approx(-1 / len(z))
    assert tagger.score(X[:1], [["new", *z[1:]]], loss="sequence-zero-one") == -1
    unary, pairwise = np.array([[0.0, 1], [3, 0]]), np.arange(16.0).reshape(2, 2, 2, 2)
    loss = tl.losses.ChainCost(unary, pairwise)
    forest = Forest.chains([3])
    found = loss.packed_loss(forest, np.array([0, 1, 1]), np.array([1, -1, 0]))
    assert found == unary[0, 1] + unary[1].max() + unary[1, 0] + pairwise[0, 1].max() + pairwise[1, 1].max()


# -- the order of ordinal labels ---------------------------------------------------------------------------------------


def test_strings_of_numbers_are_ordered_as_numbers_and_words_only_with_a_warning():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    grade = np.digitize(X[:, 0], [-0.5, 0.5])
    numbers = np.array(["2", "10", "30"])[grade]
    assert tl.OrdinalClassifier().fit(X, numbers).classes_.tolist() == ["2", "10", "30"]
    words = np.array(["low", "medium", "high"])[grade]
    with pytest.warns(UserWarning, match="high < low < medium: if that is not their order, pass order="):
        tl.OrdinalClassifier().fit(X, words)
    told = tl.OrdinalClassifier(order=["low", "medium", "high"]).fit(X, words)
    category = pd.Series(pd.Categorical(words, ["low", "medium", "high"], ordered=True))
    np.testing.assert_array_equal(told.predict(X), tl.OrdinalClassifier().fit(X, category).predict(X))
    assert -told.score(X, words) < 0.1


# -- two labels take one score -----------------------------------------------------------------------------------------


def test_two_labels_are_scikit_learns_logistic_regression():
    X, y = rows(np.random.default_rng(0), 200, 2)
    y = np.array(["no", "yes"])[y]
    ours = tl.CostSensitiveClassifier(alpha=0.01, tol=1e-14).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10).fit(X, y)
    assert ours.coef_.shape == (1, 4)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    two = tl.CostSensitiveClassifier(surrogate="multinomial", alpha=0.02, tol=1e-14).fit(
        X, y
    )  # two scores, twice the penalty
    assert two.coef_.shape == (2, 4)
    np.testing.assert_allclose(two.decision_function(X), ours.decision_function(X), atol=1e-5)


def test_scores_that_are_no_answer_by_themselves_are_no_decision_function():
    X, y = rows(np.random.default_rng(0))
    model = tl.OrdinalClassifier().fit(X, y)
    with pytest.raises(AttributeError, match="decision_function"):
        model.decision_function(X)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


# -- prices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss", [Hamming(4), Hamming(4, weights=[1, 2, 0.5, 1]), FBeta(4), FBeta(4, beta=2)], ids=label
)
def test_priced_label_sets_are_the_best_by_enumeration(loss):
    rng = np.random.default_rng(3)
    mu = rng.dirichlet(np.ones(len(loss.labels())), 30) @ loss.phi(loss.labels())
    costs = rng.normal(scale=0.2, size=(30, 4))
    z = loss.decode(mu, costs)
    every = loss.outputs()
    table = np.stack([loss.risk(np.tile(one, (30, 1)), mu, costs) for one in every], axis=1)
    by_hand = np.stack([loss.bayes_risk(np.tile(one, (30, 1)), mu) + costs @ one for one in every], axis=1)
    np.testing.assert_allclose(table, by_hand)
    np.testing.assert_allclose(loss.risk(z, mu, costs), table.min(1), atol=1e-12)
    with pytest.raises(ValueError, match="a price for each label that is predicted"):
        loss.decode(mu, costs[:, :2])


@pytest.mark.parametrize("outliers", [False, True])
def test_priced_matchings_are_the_best_by_enumeration(outliers):
    rng = np.random.default_rng(4)
    loss = MatchingHamming(3, 3, outliers=outliers)
    every = loss.outputs()
    mu = rng.dirichlet(np.ones(len(every)), 20) @ loss.phi(every)
    costs = rng.normal(scale=0.3, size=(20, 3, loss.polytope.width))
    z = loss.decode(mu, costs)
    table = np.stack([loss.risk(np.tile(one, (20, 1)), mu, costs) for one in every], axis=1)
    np.testing.assert_allclose(loss.risk(z, mu, costs), table.min(1), atol=1e-12)


def test_matcher_takes_prices():
    X, y = matched(np.random.default_rng(0))
    model = tl.Matcher().fit(X, y)
    free = model.predict(X)
    costs = [np.zeros((4, 4)) for _ in X]
    costs[0][0, free[0][0]] = 5.0
    priced = model.predict(X, costs=costs)
    assert priced[0][0] != free[0][0]
    for a, b in itertools.islice(zip(priced, free, strict=True), 1, None):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="one array of prices"):
        model.predict(X, costs=costs[:3])
    with pytest.raises(ValueError, match="takes no costs"):
        tl.Matcher(decoding="map").fit(X, y).predict(X, costs=costs)


# -- streams of groups -------------------------------------------------------------------------------------------------


def test_a_step_on_a_group_is_the_gradient_step():
    X, y, groups = ranked(np.random.default_rng(5))
    one = groups == 3
    model = tl.Ranker(surrogate="quadratic", solver=ASGD(radius=1e6, step=0.1)).partial_fit(X[one], y[one], groups[one])
    loss = tl.losses.NDCG(n_items=int(one.sum()))
    features = np.column_stack([X[one], np.ones(one.sum())])
    np.testing.assert_allclose(model.theta_[:, 0], 0.1 * features.T @ loss.phi(y[one]))


def test_groups_and_matchings_stream():
    X, y, groups = ranked(np.random.default_rng(6))
    ranker = tl.Ranker(surrogate="quadratic", solver=ASGD(radius=5.0))
    for _ in range(40):
        ranker.partial_fit(X, y, groups)
    whole = tl.Ranker(surrogate="quadratic").fit(X, y, groups)
    assert ranker.score(X, y, groups) > whole.score(X, y, groups) - 0.02
    with pytest.raises(ValueError, match="2 features, but the stream began with 4"):
        ranker.partial_fit(X[:, :2], y, groups)
    with pytest.raises(ValueError, match="use hypothesis='nystrom'"):
        tl.Ranker(hypothesis="kernel").partial_fit(X, y, groups)
    pairs, z = matched(np.random.default_rng(7))
    matcher = tl.Matcher(solver=ASGD(radius=5.0)).partial_fit(pairs, z).partial_fit(pairs, z)
    assert matcher.score(pairs, z) > -0.2
    assert tl.Ranker(surrogate="quadratic", solver=ASGD(radius=5.0)).fit(X, y, groups).score(X, y, groups) > -0.3


@pytest.mark.parametrize("name", ["ranking", "matching"])
def test_warm_starts_of_groups_begin_at_the_last_parameters(name):
    model, args, _ = cases(np.random.default_rng(8))[name]
    model.fit(*args)
    again = model.set_params(warm_start=True).fit(*args)
    assert again.solution_.iterations == 0


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_bad_hyperparameters_and_weights_get_one_sentence():
    X, y = rows(np.random.default_rng(0))
    for change, sentence in (
        ({"class_weight": 1.0}, "class_weight must be None, 'balanced' or a mapping"),
        ({"class_weight": "even"}, "class_weight must be None, 'balanced' or a mapping"),
        ({"class_weight": {0: -1}}, "finite weight that is not negative"),
        ({"tol": "a"}, "tol must be a number above zero"),
        ({"max_iter": 1.5}, "max_iter must be a whole number"),
        ({"alpha": None}, "alpha must be a finite number above zero"),
    ):
        with pytest.raises(ValueError, match=sentence):
            tl.CostSensitiveClassifier().set_params(**change).fit(X, y)
    for weight, sentence in (
        (np.full(len(y), 1e308), "its sum is not finite"),
        (-np.ones(len(y)), "NaN or negative"),
        (np.zeros(len(y)), "at least one must count"),
        (np.ones(3), "one number for each of the 90 examples"),
        (["a"] * len(y), "sample_weight must be one number"),
    ):
        with pytest.raises(ValueError, match=sentence):
            tl.CostSensitiveClassifier().fit(X, y, sample_weight=weight)


def test_balanced_weights_are_scikit_learns():
    from sklearn.utils import compute_class_weight

    X, y = rows(np.random.default_rng(0))
    own = np.random.default_rng(1).uniform(0.5, 2, len(y))
    weights = own * compute_class_weight("balanced", classes=np.arange(3), y=np.repeat(y, 1))[y]
    a = tl.CostSensitiveClassifier(class_weight="balanced", tol=1e-12).fit(X, y)
    b = tl.CostSensitiveClassifier(tol=1e-12).fit(X, y, sample_weight=weights / own)
    np.testing.assert_allclose(a.theta_, b.theta_, atol=1e-6)


def test_lists_of_one_label_each_are_sets():
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = tl.MultilabelClassifier().fit(X, [[0], [1]] * 50)
    assert model.classes_.tolist() == [0, 1]


def test_weights_shared_by_name_are_thresholds_with_a_warning():
    from taskloss.hypotheses import Linear, Thresholds

    X, y = rows(np.random.default_rng(0))
    with pytest.warns(FutureWarning, match=r"Linear\(shared=True\) is now Thresholds\(Linear\(\)\)"):
        old = tl.TaskLossEstimator("absolute", "all-thresholds", Linear(shared=True)).fit(X, y)
    new = tl.TaskLossEstimator("absolute", "all-thresholds", Thresholds()).fit(X, y)
    np.testing.assert_array_equal(old.theta_, new.theta_)
