"""Costs that differ per example, from the data frame to the search."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.fitted import CODES, MATCHINGS, NAMES, SEQUENCES, SETS, TABLES, TAGS, WORDS, fitted
from tests.fitted import X as X3

import taskloss as tl

rng = np.random.default_rng(0)
FORMULA = {"miss": "amount", "review": 4}
FRAME = pd.DataFrame(rng.normal(size=(240, 3)), columns=["a", "b", "c"]).assign(amount=rng.exponential(20, 240))
Y = (FRAME["a"] + rng.normal(size=240) > 1).to_numpy().astype(int)
TABLE = np.zeros((240, 2, 2))
TABLE[:, 0, 1], TABLE[:, 1] = FRAME["amount"], 4.0
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
ALPHAS = [1e-3, 1e-1, 10.0]


def test_prices_of_pairs():
    """Expected prices of matchings are means of realised ones; the law for other losses is among those of taskloss.testing."""
    for loss in tl.losses.MatchingHamming.examples():
        labels, shape = loss.labels(), (6, loss.polytope.n_rows, loss.polytope.width)
        q, costs = rng.dirichlet(np.ones(len(labels)), 6), rng.normal(size=shape)
        mu, z = q @ loss.phi(labels), loss.outputs()[rng.integers(0, len(loss.outputs()), 6)]
        each = np.stack([loss.realised(z, np.repeat(y[None], 6, axis=0), costs) for y in labels], axis=1)
        np.testing.assert_allclose(loss.risk(z, mu, costs), (q * each).sum(1), atol=1e-9)


def test_a_formula_is_the_table_written_by_hand():
    np.testing.assert_array_equal(tl.example_costs(FRAME, FORMULA), TABLE)
    np.testing.assert_array_equal(tl.example_costs(pl.from_pandas(FRAME), FORMULA), TABLE)
    np.testing.assert_array_equal(tl.example_costs(FRAME, lambda X: {"miss": X["amount"], "review": 4.0}), TABLE)
    by_cells = {("no", "yes"): "amount", ("yes", "no"): lambda X: np.full(len(X), 4), ("yes", "yes"): 4}
    np.testing.assert_array_equal(tl.example_costs(FRAME, by_cells, labels=["no", "yes"]), TABLE)
    amount = FRAME["amount"].to_numpy()
    third = tl.example_costs(
        FRAME,
        {"pass": "-min(amount, 30) / 2 + b ** 2", ("block", "bad"): "3 * (a - 1)"},
        ["ok", "bad"],
        ["pass", "block", "ask"],
    )
    expected = np.zeros((240, 3, 2))
    expected[:, 0] = (-np.minimum(amount, 30) / 2 + FRAME["b"] ** 2).to_numpy()[:, None]
    expected[:, 1, 1] = 3 * (FRAME["a"] - 1)
    np.testing.assert_allclose(third, expected)
    spaced = FRAME.rename(columns={"amount": "amount in euro"})
    np.testing.assert_array_equal(tl.example_costs(spaced, {"miss": "amount in euro", "review": 4}), TABLE)
    assert tl.example_costs(FRAME, TABLE) is TABLE


def test_estimators_take_formulas_where_they_take_arrays():
    model = tl.CostSensitiveClassifier().fit(FRAME, Y)
    p = model.predict_proba(FRAME)
    z = (p[:, 1] * FRAME["amount"] > 4).to_numpy().astype(int)
    for costs in (TABLE, FORMULA, lambda X: {"miss": X["amount"], "review": 4}):
        np.testing.assert_array_equal(model.predict(FRAME, costs=costs), z)
        least = np.minimum(4, p[:, 1] * FRAME["amount"])
        np.testing.assert_allclose(model.expected_loss(FRAME, costs=costs), least)
        paid = np.where(z == 1, 4, np.where(Y == 1, FRAME["amount"], 0))
        assert model.score(FRAME, Y, costs=costs) == pytest.approx(-paid.mean())
        weights = rng.random(240)
        assert model.score(FRAME, Y, weights, costs=costs) == pytest.approx(-np.average(paid, weights=weights))
    np.testing.assert_array_equal(tl.decide(model.predict_proba(FRAME), costs=FORMULA, X=FRAME), z)


def test_a_label_that_no_fit_has_seen_costs_the_most():
    model = tl.CostSensitiveClassifier().fit(FRAME, Y)
    z = model.predict(FRAME, costs=TABLE)
    unseen = np.where(np.arange(240) < 5, 7, Y)
    paid = TABLE[np.arange(240), z, Y]
    paid[:5] = TABLE[np.arange(5), z[:5]].max(1)
    assert model.score(FRAME, unseen, costs=TABLE) == pytest.approx(-paid.mean())


def by_hand(estimator, scaled=True):
    """The mean cost of each alpha over the folds, in plain NumPy but for the fits."""
    out = []
    for alpha in ALPHAS:
        costs = []
        for a, b in FOLDS.split(FRAME, Y):
            scaler = StandardScaler().fit(FRAME.iloc[a])
            model = clone(estimator).set_params(alpha=alpha).fit(scaler.transform(FRAME.iloc[a]), Y[a])
            p = model.predict_proba(scaler.transform(FRAME.iloc[b]))[:, 1]
            amount = FRAME["amount"].to_numpy()[b]
            costs.append(np.where(p * amount > 4, 4.0, np.where(Y[b] == 1, amount, 0.0)).mean())
        out.append(-np.mean(costs))
    return np.array(out)


def grid(estimator, **options):
    pipeline = make_pipeline(StandardScaler(), estimator)
    return GridSearchCV(pipeline, {"costsensitiveclassifier__alpha": ALPHAS}, cv=FOLDS, error_score="raise", **options)


@pytest.mark.parametrize("scoring", ["own", "scorer"])
def test_a_search_on_amounts_is_a_loop_written_by_hand(scoring):
    """With costs as metadata, requested by default, through a pipeline."""
    estimator = tl.CostSensitiveClassifier(tol=1e-12)
    with sklearn.config_context(enable_metadata_routing=True):
        search = grid(estimator, scoring=None if scoring == "own" else tl.losses.ZeroOne().scorer())
        search.fit(FRAME, Y, costs=TABLE)
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand(estimator), rtol=1e-12)
        pipeline = search.best_estimator_
        z = pipeline.predict(FRAME, costs=TABLE)
        assert pipeline.score(FRAME, Y, costs=TABLE) == pytest.approx(-TABLE[np.arange(240), z, Y].mean())
        np.testing.assert_array_equal(tl.decide(search, None, FORMULA, X=FRAME), z)
    assert len(set(search.cv_results_["mean_test_score"])) == 3


def test_a_search_with_a_formula_needs_no_routing():
    """The scorer reads the formula from X as it was given, before the scaler."""
    estimator = tl.CostSensitiveClassifier(tol=1e-12)
    search = grid(estimator, scoring=tl.losses.ZeroOne().scorer(FORMULA)).fit(FRAME, Y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand(estimator), rtol=1e-12)


def test_classifiers_of_others_are_judged_by_what_they_predict():
    scorer = tl.losses.ZeroOne().scorer(FORMULA)
    found = cross_val_score(LogisticRegression(max_iter=1000), FRAME, Y, scoring=scorer, cv=FOLDS)
    for (a, b), score in zip(FOLDS.split(FRAME, Y), found, strict=True):
        z = LogisticRegression(max_iter=1000).fit(FRAME.iloc[a], Y[a]).predict(FRAME.iloc[b])
        assert score == pytest.approx(-TABLE[b, z, Y[b]].mean())
    decoded = tl.DecodedClassifier(LogisticRegression(max_iter=1000))
    assert (cross_val_score(decoded, FRAME, Y, scoring=scorer, cv=FOLDS) > found).all()


def test_scores_of_other_estimators_add_the_prices_that_decisions_were_made_for():
    prices = rng.normal(size=(60, 3))
    for name, y in (("sets of words", WORDS), ("indicators", SETS)):
        model = fitted(name)
        z = model.labels_.encode(model.predict(X3, costs=prices))
        paid = model.loss_(z, model.labels_.encode(y)) + (prices * z).sum(1)
        assert model.score(X3, y, costs=prices) == pytest.approx(-paid.mean())
    for name, y in (("kernel", NAMES), ("kernel, function", CODES)):
        model = fitted(name)
        z = model.predict(X3, costs=prices)
        classes = list(model.classes_)
        of = np.array([classes.index(one) for one in z])
        unit = np.abs(z - y) if name.endswith("function") else (z != y)
        assert model.score(X3, y, costs=prices) == pytest.approx(-(unit + prices[np.arange(60), of]).mean())
    model, on = fitted("tagger"), [rng.normal(size=(4, 2)) for _ in SEQUENCES]
    z = model.predict(SEQUENCES, costs=on)
    paid = [
        np.mean(np.array(y) != a) + p[np.arange(4), (a == "V").astype(int)].sum()
        for a, y, p in zip(z, TAGS, on, strict=True)
    ]
    assert model.score(SEQUENCES, TAGS, costs=on) == pytest.approx(-np.mean(paid))
    model, on = fitted("matcher"), rng.normal(size=(20, 3, 3))
    z = np.array(model.predict(TABLES, costs=on))
    paid = (z != MATCHINGS).mean(1) + np.take_along_axis(on, z[..., None], 2)[..., 0].sum(1)
    assert model.score(TABLES, MATCHINGS, costs=on) == pytest.approx(-paid.mean())


def test_words_of_detection_and_the_alphabet():
    """Who has not said which of two words is to be found is told which one is taken, and how to say it."""
    y = np.where(Y == 1, "fraud", "genuine")
    ordered = tl.losses.CostMatrix([[0, 1], [1, 0]], labels=["genuine", "fraud"])
    words, pairs = {"miss": "amount", "false_alarm": 4}, {("genuine", "fraud"): "amount", ("fraud", "genuine"): 4}
    by_alphabet = tl.CostSensitiveClassifier().fit(FRAME, y)
    with pytest.warns(
        UserWarning, match=r"takes 'genuine' for the label to be found, .* such as \('fraud', 'genuine'\)"
    ):
        by_alphabet.predict(FRAME, costs=words)
    expected = by_alphabet.predict(FRAME, costs=pairs)
    assert 0 < (expected == "fraud").sum() < len(y)
    np.testing.assert_array_equal(
        tl.CostSensitiveClassifier(ordered).fit(FRAME, y).predict(FRAME, costs=words), expected
    )
    by_numbers = tl.CostSensitiveClassifier().fit(FRAME, Y).predict(FRAME, costs=words)
    np.testing.assert_array_equal(np.where(by_numbers == 1, "fraud", "genuine"), expected)


def test_prices_in_a_data_frame_go_by_their_names():
    """Its columns are outputs, in any order, of models and of probabilities."""
    y = np.where(Y == 1, "fraud", "genuine")
    fitted = tl.CostSensitiveClassifier().fit(FRAME, y)
    prices = rng.normal(size=(len(y), 2))
    expected = fitted.predict(FRAME, costs=prices)
    assert set(expected) == {"fraud", "genuine"}
    for names in (["fraud", "genuine"], ["genuine", "fraud"]):
        frame = pd.DataFrame(prices, columns=["fraud", "genuine"])[names]
        for costs in (frame, pl.from_pandas(frame)):
            np.testing.assert_array_equal(fitted.predict(FRAME, costs=costs), expected)
            q = fitted.predict_proba(FRAME)
            np.testing.assert_array_equal(tl.decide(q, costs=costs, labels=["fraud", "genuine"]), expected)
    numbered = pd.DataFrame(prices[:, ::-1], columns=["1", "0"])  # as read from a file
    by_number = tl.CostSensitiveClassifier().fit(FRAME, 1 - Y).predict(FRAME, costs=numbered)
    np.testing.assert_array_equal(np.where(by_number == 0, "fraud", "genuine"), expected)
    with pytest.raises(ValueError, match=r"costs has the columns \['a', 'b', 'c', 'amount'\], and the outputs are"):
        fitted.predict(FRAME, costs=FRAME)
    with pytest.raises(ValueError, match="X has 9 rows, from which costs are read, and proba has 240"):
        tl.decide(fitted.predict_proba(FRAME), costs={1: "amount"}, X=FRAME[:9])


def search_with(costs, scoring=None):
    with sklearn.config_context(enable_metadata_routing=True):
        grid(tl.CostSensitiveClassifier(), scoring=scoring).fit(FRAME, Y, costs=costs)


def model():
    return tl.CostSensitiveClassifier().fit(FRAME, Y)


BAD = {
    "no examples": (lambda: tl.example_costs(3.0, {"miss": 1.0}), "X must hold one entry for each example"),
    "labels": (lambda: tl.example_costs([[1.0]], {"miss": 1.0}, ["a", []]), "labels must be a list of labels"),
    "shape in a search": (
        lambda: search_with(TABLE[:, :, :1]),
        r"costs must have shape \(80, 2, 2\) or \(80, 2\), prices for each of the 80 examples, got \(80, 2, 1\)",
    ),
    "length in a search": (
        lambda: search_with(TABLE[:9]),
        r"costs must have shape \(80, 2, 2\) or \(80, 2\), prices for each of the 80 examples, got \(9, 2, 2\)",
    ),
    "formula in a pipeline": (lambda: search_with(FORMULA), "inside a pipeline the last step sees"),
    "nan": (lambda: model().score(FRAME, Y, costs=np.full((240, 2), np.nan)), "costs contains NaN"),
    "text": (lambda: model().score(FRAME, Y, costs="amount"), "costs must be prices in an array"),
    "key": (lambda: tl.example_costs(FRAME, {"mis": 1}), "a term for 'mis', which is no output.*'miss'"),
    "key of three": (lambda: tl.example_costs(FRAME, {"miss": 1}, [0, 1, 2]), r"no output \(0, 1, 2\) and no pair"),
    "no terms": (lambda: tl.example_costs(FRAME, {}), "costs has no term"),
    "column": (
        lambda: tl.example_costs(FRAME, {"miss": "amont"}),
        "'amont' is no column of X; there are 'a', 'b', 'c', 'amount'",
    ),
    "syntax": (lambda: tl.example_costs(FRAME, {"miss": "amount *"}), "no column of X and no arithmetic on columns"),
    "calls": (lambda: tl.example_costs(FRAME, {"miss": "open('x')"}), "cannot be read"),
    "attributes": (lambda: tl.example_costs(FRAME, {"miss": "a.__class__"}), "cannot be read"),
    "arguments": (lambda: tl.example_costs(FRAME, {"miss": "min(a)"}), "min takes other arguments"),
    "words": (lambda: tl.example_costs(FRAME.assign(a="x"), {"miss": "a"}), "The column 'a' of X must be numbers"),
    "missing": (lambda: tl.example_costs(FRAME.assign(a=np.nan), {"miss": "a"}), "'miss', 'a', contains NaN"),
    "infinite": (lambda: tl.example_costs(FRAME, {"miss": "1 / (a - a)"}), "contains NaN or infinite"),
    "lengths": (lambda: tl.example_costs(FRAME, {"miss": np.ones(3)}), "has 3 values for the 240 examples of X"),
    "dimensions": (lambda: tl.example_costs(FRAME, {"miss": np.ones((240, 2))}), "one number for each example"),
    "no frame": (lambda: tl.example_costs(FRAME.to_numpy(), FORMULA), "X has no columns by name here"),
    "read from nothing": (
        lambda: tl.decide(model().predict_proba(FRAME), costs=FORMULA),
        "These costs are read from X",
    ),
    "sets": (lambda: tl.MultilabelClassifier().fit(X3, SETS).predict(X3, costs={0: 1}), "price for each label"),
    "sequences": (lambda: tl.losses.ChainHamming().scorer(FORMULA), "score"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name):
    call, sentence = BAD[name]
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
