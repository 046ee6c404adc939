"""Measures: equal to scikit-learn's and conlleval's, with slopes by finite differences, and intervals that cover."""

import numpy as np
import pytest
from sklearn import metrics as peers
from tests.parts import examples, label

import taskloss as tl
from taskloss.metrics import BalancedAccuracy, EntityF, FMeasure, GMean, Kappa, Matthews, Metric, OfConfusion

every_metric = pytest.mark.parametrize("metric", [p for _, p in examples(Metric)], ids=[i for i, _ in examples(Metric)])
RNG = np.random.default_rng(0)
Y, Z = RNG.integers(0, 4, 300), RNG.integers(0, 4, 300)
Z = np.where(RNG.random(300) < 0.5, Y, Z)
W = RNG.uniform(0.5, 2, 300)
SETS, FOUND = RNG.integers(0, 2, (200, 5)), RNG.integers(0, 2, (200, 5))
AS_SKLEARN = {
    "macro": (FMeasure(), lambda y, z, w: peers.f1_score(y, z, average="macro", sample_weight=w)),
    "macro-2": (FMeasure(2.0), lambda y, z, w: peers.fbeta_score(y, z, beta=2, average="macro", sample_weight=w)),
    "micro": (
        FMeasure(0.5, "micro", without=[0]),
        lambda y, z, w: peers.fbeta_score(y, z, beta=0.5, average="micro", labels=[1, 2, 3], sample_weight=w),
    ),
    "balanced": (BalancedAccuracy(), lambda y, z, w: peers.balanced_accuracy_score(y, z, sample_weight=w)),
    "matthews": (Matthews(), lambda y, z, w: peers.matthews_corrcoef(y, z, sample_weight=w)),
    "quadratic": (Kappa(), lambda y, z, w: peers.cohen_kappa_score(y, z, weights="quadratic", sample_weight=w)),
    "linear": (Kappa("linear"), lambda y, z, w: peers.cohen_kappa_score(y, z, weights="linear", sample_weight=w)),
    "kappa": (Kappa(None), lambda y, z, w: peers.cohen_kappa_score(y, z, sample_weight=w)),
}


@pytest.mark.parametrize("name", AS_SKLEARN)
def test_measures_equal_scikit_learns(name):
    ours, theirs = AS_SKLEARN[name]
    assert ours(Y, Z) == pytest.approx(theirs(Y, Z, None))
    assert ours(Y, Z, W) == pytest.approx(theirs(Y, Z, W))
    names = np.array(["d", "c", "b", "a"])
    if name != "micro":
        assert ours(names[Y], names[Z], labels=names) == pytest.approx(theirs(Y, Z, None))


def test_measures_of_sets_equal_scikit_learns():
    assert FMeasure()(SETS, FOUND) == pytest.approx(peers.f1_score(SETS, FOUND, average="macro"))
    assert FMeasure(average="micro")(SETS, FOUND) == pytest.approx(peers.f1_score(SETS, FOUND, average="micro"))
    for ours, theirs in ((Matthews(), peers.matthews_corrcoef), (BalancedAccuracy(), peers.balanced_accuracy_score)):
        assert ours(SETS, FOUND) == pytest.approx(np.mean([theirs(a, b) for a, b in zip(SETS.T, FOUND.T, strict=True)]))
    as_sets = [[set(np.flatnonzero(row).tolist()) for row in rows] for rows in (SETS, FOUND)]
    assert FMeasure()(*as_sets) == pytest.approx(FMeasure()(SETS, FOUND))


def test_the_geometric_mean_is_that_of_recalls():
    recalls = peers.recall_score(Y, Z, average=None)
    assert GMean()(Y, Z) == pytest.approx(np.prod(recalls) ** (1 / 4))
    assert GMean()([0, 1, 1], [0, 0, 0]) == 0


def test_entities_are_counted_as_conlleval_counts():
    from tests.test_spans import TAGS, conlleval

    rng = np.random.default_rng(1)
    for scheme, name in (("BIO", "BIO"), ("BIOES", "BIOES"), ("BIOES", "BILOU")):
        y, z = (
            [rng.choice(TAGS[name], n).tolist() for n in rng.integers(1, 9, 40)],
            None,
        )
        z = [[t if rng.random() < 0.7 else rng.choice(TAGS[name]) for t in row] for row in y]
        true, found = ([conlleval(row, scheme != "BIO") for row in rows] for rows in (y, z))
        right = sum(len(set(a) & set(b)) for a, b in zip(true, found, strict=True))
        total = sum(map(len, true)) + sum(map(len, found))
        assert EntityF(scheme)(y, z) == pytest.approx(2 * right / total)


@every_metric
def test_slopes_equal_finite_differences(metric):
    rng = np.random.default_rng(2)
    table = rng.dirichlet(np.ones(9)).reshape(3, 3)
    cases = [(metric.value, metric.gradient, table)] if "classes" in metric.kinds else []
    cases.append((metric.value_of_sets, metric.gradient_of_sets, rng.dirichlet(np.ones(4), 3).reshape(3, 2, 2)))
    for value, gradient, at in cases:
        found = gradient(at)
        for _ in range(4):
            direction = rng.normal(size=at.shape)
            slope = (value(at + 1e-6 * direction) - value(at - 1e-6 * direction)) / 2e-6
            np.testing.assert_allclose((found * direction).sum(), slope, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(value(17 * at), value(at))  # counts or shares
        np.testing.assert_allclose(value(np.stack([at, at])), [value(at)] * 2)
        np.testing.assert_allclose(gradient(np.stack([at, at]))[1], found, atol=1e-9)


@every_metric
def test_intervals_are_those_of_resampled_examples(metric):
    rng = np.random.default_rng(3)
    if metric.scheme() is not None:
        tags = ["B-x", "I-x", "O"] if metric.scheme() == "BIO" else ["S-x", "B-x", "E-x", "O"]
        y = [rng.choice(tags, 5).tolist() for _ in range(80)]
        z = [[t if rng.random() < 0.8 else "O" for t in row] for row in y]
    else:
        y, z = Y[:80].tolist(), Z[:80].tolist()
    value, low, high = metric.interval(y, z, 0.9, 500)
    assert low <= value <= high
    assert value == pytest.approx(metric(y, z))
    samples = [rng.integers(0, 80, 80) for _ in range(300)]
    kept = metric.scheme() is None and dict(labels=[0, 1, 2, 3])
    values = [metric([y[i] for i in s], [z[i] for i in s], **(kept or {})) for s in samples]
    np.testing.assert_allclose([low, high], np.quantile(values, [0.05, 0.95]), atol=0.05)
    weighted = metric.interval(y, z, 0.9, 200, sample_weight=rng.uniform(0.5, 2, 80))
    assert weighted.low <= weighted.value <= weighted.high


def test_intervals_cover():
    """The true value of a known table, 95 times in a hundred, less what 200 trials may miss by chance."""
    rng = np.random.default_rng(4)
    table = np.array([[0.3, 0.1, 0.02], [0.05, 0.2, 0.03], [0.05, 0.05, 0.2]])
    for metric in (Kappa(), FMeasure(), Matthews()):
        truth, covered = metric.value(table), 0
        for _ in range(200):
            cells = rng.choice(9, 400, p=table.ravel())
            _, low, high = metric.interval(cells % 3, cells // 3, 0.95, 300, random_state=rng)
            covered += low <= truth <= high
        assert covered >= 200 * 0.95 - 3 * np.sqrt(200 * 0.95 * 0.05)


def test_scorers_work_in_searches_and_with_labels_that_a_fold_lacks():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    X = RNG.normal(size=(120, 3))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=FMeasure().scorer(), cv=3).fit(X, y)
    z = search.predict(X)
    assert search.score(X, y) == pytest.approx(peers.f1_score(y, z, average="macro"))
    model = tl.OrdinalClassifier(order=["low", "middle", "high"]).fit(X, y)
    codes = {"low": 0, "middle": 1, "high": 2}
    expected = peers.cohen_kappa_score([codes[v] for v in y], [codes[v] for v in model.predict(X)], weights="quadratic")
    assert Kappa().scorer()(model, X, y) == pytest.approx(expected)
    assert Matthews().scorer()(model, X[:5], ["low", "high", "low", "new", "low"]) < 1
    assert "Matthews" in repr(Matthews().scorer())
    tagger = tl.SequenceTagger().fit([X[:60], X[60:]], [y[:60], y[60:]])
    found = np.concatenate(tagger.predict([X]))
    assert Matthews().scorer()(tagger, [X], [y]) == pytest.approx(peers.matthews_corrcoef(y, found))


SENTENCES = {
    "lengths": (lambda: Matthews()([0, 1], [0]), "different lengths: 2 and 1"),
    "set lengths": (lambda: FMeasure()(SETS, FOUND[:5]), "different lengths: 200 and 5"),
    "tag lengths": (lambda: EntityF()([["O", "O"]], [["O"]]), "of the same lengths"),
    "empty": (lambda: Matthews()([], []), "y_true is empty"),
    "no tags": (lambda: EntityF()([], []), "y_true is empty"),
    "only outside": (lambda: EntityF()([["O", "O"]], [["O", "O"]]), "make no spans"),
    "tag": (lambda: EntityF()([["PER"]], [["O"]]), "not of the scheme BIO"),
    "scheme": (lambda: EntityF("IOB1")([["B-x"]], [["O"]]), "no scheme of spans named"),
    "NaN": (lambda: OfConfusion(lambda c: np.nan)([0, 1], [0, 1]), "is nan on these examples"),
    "two numbers": (lambda: OfConfusion(lambda c: c[0])([0, 1], [0, 1]), "must return one number"),
    "no function": (lambda: OfConfusion("f1")([0, 1], [0, 1]), "function"),
    "weights of kappa": (lambda: Kappa("cubic")([0, 1], [0, 1]), "weights must be 'quadratic'"),
    "average": (lambda: FMeasure(average="weighted")([0, 1], [0, 1]), "average must be 'macro' or 'micro'"),
    "beta": (lambda: FMeasure(0.0)([0, 1], [0, 1]), "beta must be"),
    "a beta without a square": (lambda: FMeasure(1e308)([0, 1], [0, 1]), "beta must be"),
    "without": (lambda: FMeasure(without=["x"])([0, 1], [0, 1]), "without names 'x'"),
    "without all": (lambda: FMeasure(without=[0, 1])([0, 1], [0, 1]), "leaves no label"),
    "level": (lambda: Matthews().interval([0, 1], [0, 1], 1.5), "confidence_level must lie between 0 and 1"),
    "resamples": (lambda: Matthews().interval([0, 1], [0, 1], 0.9, 0), "n_resamples must be"),
    "table": (lambda: Matthews().value(np.zeros((2, 3))), "must be a square table"),
    "types": (lambda: Matthews()(["a", "b"], [0, 1]), "y_true and y_pred must hold labels of one type"),
    "a list for a set": (
        lambda: FMeasure()([{"a"}, {"b"}], [0, 1]),
        "y_true and y_pred must be two indicator matrices",
    ),
    "columns": (lambda: FMeasure()(SETS, FOUND[:, :1]), "y_true and y_pred must be two indicator matrices"),
    "missing": (lambda: Matthews()([0, 1], [0, None]), "Input y_pred contains NaN or None"),
    "no labels": (lambda: Matthews()([0, 1], [0, 1], labels=[]), "Unknown label 0 in y_true: the known ones are none"),
    "kappa of a list": (lambda: Kappa([0, 1])([0, 1], [0, 1]), "weights must be 'quadratic'"),
    "without of none": (lambda: FMeasure(without=None)([0, 1], [0, 1]), "without must be a list"),
    "vectorised": (lambda: OfConfusion(np.trace, "no")([0, 1], [0, 1]), "vectorised must be True or False"),
    "words": (lambda: OfConfusion(lambda c: "high")([0, 1], [0, 1]), "What function returns must be numbers"),
    "unknown label": (lambda: Matthews()([0, 5], [0, 1], labels=[0, 1]), "Unknown label 5"),
    "weights": (lambda: Matthews()([0, 1], [0, 1], [1.0]), "sample_weight must be one number for each of the 2"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_bad_input_gets_a_sentence(name):
    work, sentence = SENTENCES[name]
    with pytest.raises(ValueError, match=sentence):
        work()


def test_parts_are_named():
    assert {label(m).split("(")[0] for _, m in examples(Metric)} >= {"Kappa", "FMeasure", "EntityF", "GMean"}
