"""Decisions tuned for a measure: the best of all on known laws, honest about what to expect, for every kind of estimator."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.test_spans import law_of

import taskloss as tl
from taskloss.estimators.deciding import PositionTally
from taskloss.losses.spans import Scheme, law_spans
from taskloss.metrics import BalancedAccuracy, EntityF, FMeasure, GMean, Kappa, Matthews, OfConfusion
from taskloss.metrics.recalibrated import Sigmoid
from taskloss.metrics.search import _judge, choose, search
from taskloss.metrics.tallies import LabelTally, SetTally, SpanTally
from taskloss.polytopes._forest import Forest

# -- on known laws -----------------------------------------------------------------------------------------------------


EVERY = (-np.inf, np.inf)


def bound(metric, k):
    return metric.bind_names(np.arange(k))


@pytest.mark.parametrize(
    "metric",
    [Kappa(), Kappa("linear"), Kappa(None), BalancedAccuracy(), FMeasure(average="micro", without=[0])],
    ids=repr,
)
def test_ratios_of_linear_measures_reach_the_best_of_all_decisions(metric):
    """Six points, three labels: all 729 decisions are tried. Dinkelbach's iteration needs no luck."""
    rng, metric = np.random.default_rng(0), bound(metric, 3)
    for _ in range(10):
        weights, p = rng.dirichlet(np.ones(6)), rng.dirichlet(np.full(3, 0.7), 6)
        tally = LabelTally(np.arange(6) % 3, 3, weights, p)
        every = max(float(metric.value(tally.expected(np.array(z)))) for z in itertools.product(range(3), repeat=6))
        found = search(metric, tally)
        assert found.value == pytest.approx(every, abs=1e-9)
        assert metric.value(tally.expected(tally.decide(found.costs))) == pytest.approx(every, abs=1e-9)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_label_sets_reach_the_best_of_all_decisions(average):
    rng, metric = np.random.default_rng(1), FMeasure(average=average)
    for _ in range(10):
        weights, q = rng.dirichlet(np.ones(5)), rng.uniform(size=(5, 2))
        tally = SetTally(rng.integers(0, 2, (5, 2)), weights, q)
        every = (np.array(z).reshape(5, 2) for z in itertools.product((0, 1), repeat=10))
        best = max(float(metric.value_of_sets(tally.expected(z))) for z in every)
        assert search(metric, tally).value == pytest.approx(best, abs=1e-9)


def test_entities_reach_the_best_of_all_labellings():
    """Two sequences of three tags: F of expected counts over all 27 x 27 pairs of labellings."""
    rng, tags = np.random.default_rng(2), ["B-a", "I-a", "O"]
    scheme, forest, metric = Scheme(tags), Forest.chains([3, 3]), EntityF()
    for _ in range(5):
        unary, pairwise = 1.5 * rng.normal(size=(6, 3)) - [0, 0, 1], rng.normal(size=(3, 3))
        ((_, spans, q),) = law_spans(forest, unary.copy(), pairwise, scheme, 1e-15)
        tally = SpanTally.of(forest, np.full(6, 2), scheme, np.ones(2), spans, q)
        parts = []
        for i in range(2):
            labellings, law = law_of(unary[3 * i : 3 * i + 3], pairwise)
            copies = Forest.chains([3] * 27)
            own = [scheme.spans(Forest.chains([3]), z) for z in labellings]
            keys = [set(zip(s.first.tolist(), s.stop.tolist(), strict=True)) for s in own]
            assert scheme.spans(copies, labellings.ravel()).first.size == sum(map(len, keys))
            counts = np.array([[len(a & b) for b in keys] for a in keys]) @ law
            parts.append((counts, np.array(list(map(len, keys))), law @ list(map(len, keys))))
        right = parts[0][0][:, None] + parts[1][0]
        predicted = parts[0][1][:, None] + parts[1][1]
        best = (2 * right / (predicted + parts[0][2] + parts[1][2])).max()
        assert search(metric, tally).value == pytest.approx(best, abs=1e-9)


def smooth_law(n, rng, k=3):
    """A rare label, and conditionals that vary with x."""
    x = rng.uniform(-2, 2, n)
    scores = np.stack([1.2 * x, 1.5 - x**2, -0.8 * x - 1.8], axis=1)[:, :k]
    p = np.exp(scores)
    return x, p / p.sum(1, keepdims=True)


@pytest.mark.parametrize("metric", [FMeasure(), Matthews(), GMean(), Kappa(), BalancedAccuracy()], ids=repr)
def test_other_measures_reach_what_a_long_random_search_does(metric):
    rng = np.random.default_rng(3)
    _, p = smooth_law(4000, rng)
    tally = LabelTally(np.zeros(4000, dtype=int), 3, np.ones(4000), p)
    found = search(metric, tally)
    drawn = np.exp(rng.normal(0, 1, (1500, 3, 1))) * (1 - np.eye(3)) + rng.normal(0, 0.3, (1500, 3, 1))
    values = [metric.value(tally.expected(tally.decide(costs))) for costs in drawn]
    assert found.value >= max(values) - 2e-4
    argmax = metric.value(tally.expected(np.argmax(p, axis=1)))
    assert found.value > argmax + 1e-3 or isinstance(metric, Matthews)


def test_the_gap_bounds_a_concave_measure():
    rng = np.random.default_rng(4)
    _, p = smooth_law(3000, rng)
    tally = LabelTally(np.zeros(3000, dtype=int), 3, np.ones(3000), p)
    found = search(GMean(), tally)
    assert 0 <= found.gap < 0.01
    for seed in range(200):
        costs = np.random.default_rng(seed).uniform(size=(3, 3))
        assert GMean().value(tally.expected(tally.decide(costs))) <= found.value + found.gap + 1e-9


@pytest.mark.parametrize("metric", [FMeasure(), Kappa(), GMean(), Matthews()], ids=repr)
def test_the_optimum_is_reached_as_examples_grow(metric):
    """Regret on the true law, of a model that can learn it: it falls to nothing, and argmax keeps its own."""
    rng = np.random.default_rng(5)
    x, p = smooth_law(20000, rng)
    truth = LabelTally(np.zeros(len(x), dtype=int), 3, np.ones(len(x)), p)
    best = search(metric, truth).value

    def features(x):
        return np.stack([x, x**2], axis=1)

    regret = []
    for n in (200, 2000, 20000):
        x_n, p_n = smooth_law(n, rng)
        y = (rng.random(n)[:, None] > np.cumsum(p_n, axis=1)).sum(1)
        model = tl.CostSensitiveClassifier(alpha=1e-4, tol=1e-5)
        tuned = tl.TunedDecisionCV(model, metric, cv=3).fit(features(x_n), y)
        z = tuned.predict(features(x))
        regret.append(best - float(metric.value(truth.expected(z))))
        assert tuned.expected_score_ == pytest.approx(metric.value(truth.expected(z)), abs=5 / np.sqrt(n))
    assert regret[-1] < 0.004
    assert regret[-1] <= regret[0] + 1e-3
    assert best - metric.value(truth.expected(np.argmax(p, 1))) > regret[-1]


def test_labels_take_over_where_moments_mislead():
    """Probabilities that are far too sure of the rare label: the observed confusion sees it, the expected one cannot."""
    rng = np.random.default_rng(6)
    p1 = rng.beta(1, 6, 4000)
    y = (rng.random(4000) < p1).astype(int)
    wrong = p1**4 / (p1**4 + (1 - p1) ** 4)
    tally = LabelTally(y, 2, np.ones(4000), np.stack([1 - wrong, wrong], axis=1))
    metric = bound(FMeasure(average="micro", without=[0]), 2)
    choice = choose(metric, tally, np.arange(4000) % 5, 1 - np.eye(2))
    assert choice.criterion == "observed"
    right = LabelTally(y, 2, np.ones(4000), np.stack([1 - p1, p1], axis=1))
    best = search(metric, right).costs
    assert choice.value > metric.value(right.confusion(right.decide(best))) - 0.02


def test_prices_lead_to_the_confusions_that_they_say():
    rng = np.random.default_rng(8)
    tally = LabelTally(rng.integers(0, 4, 20), 4, rng.uniform(size=20), rng.dirichlet(np.ones(4), 20))
    costs = rng.uniform(size=(4, 4))
    prices, tables = tally.priced(tally.risks(costs), 1, tally.confusion(tally.decide(costs)), EVERY)
    assert len(prices) == 19
    for price, table in zip(prices, tables, strict=True):
        other = costs.copy()
        other[1] += price
        np.testing.assert_allclose(tally.confusion(tally.decide(other)), table, atol=1e-12)


@pytest.mark.parametrize("metric", [FMeasure(average="micro", without=[0]), Kappa(), BalancedAccuracy()], ids=repr)
def test_a_fold_is_searched_as_well_from_what_was_found_on_all(metric):
    rng = np.random.default_rng(9)
    _, p = smooth_law(900, rng)
    y = (rng.random((900, 1)) > np.cumsum(p, axis=1)).sum(1)
    tally, metric = LabelTally(y, 3, np.ones(900), p), metric.bind_names(np.arange(3))
    start = search(metric, tally).costs
    for fold in range(3):
        part = tally.take(np.flatnonzero(np.arange(900) % 3 != fold))
        found = search(metric, part, starts=[start])
        assert found.value == pytest.approx(search(metric, part).value, abs=1e-3)
        assert found.value >= metric.value(part.expected(part.decide(start)))


def test_prices_never_make_the_measure_worse():
    rng = np.random.default_rng(10)
    _, p = smooth_law(300, rng)
    tally = LabelTally(rng.integers(0, 3, 300), 3, rng.uniform(size=300), p)  # labels of which the moments know nothing
    for metric in (FMeasure(), Kappa()):
        costs = search(metric, tally).costs
        found = search(metric, tally, observed=True, starts=[costs])
        assert found.value >= metric.value(tally.confusion(tally.decide(costs)))
        assert found.value == pytest.approx(metric.value(tally.confusion(tally.decide(found.costs))), abs=1e-12)


# -- recalibrated label sets ---------------------------------------------------------------------------------------------


def sets_of(n, k, seed):
    rng = np.random.default_rng(seed)
    truth = expit(1.2 * rng.normal(size=(n, k)) + rng.normal(-1.5, 1, k))
    return truth, (rng.random((n, k)) < truth).astype(int), rng


@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_probabilities_expect_what_labels_show(weighted):
    """By them the search finds, for each label, the best of all thresholds against the labels."""
    truth, y, rng = sets_of(60, 3, 0)
    q = np.round(truth**2, 2)  # far off, with ties
    tally = SetTally(y, rng.uniform(0.2, 2, 60) if weighted else np.ones(60), q)
    basis, observed = tally.basis(True)
    assert not observed
    costs = basis.restored(search(FMeasure(), basis).costs)
    for j in range(3):
        cuts = np.concatenate([[-1.0], np.unique(q[:, j])])
        z = q[:, j] > cuts[:, None]
        w = tally.weights
        best = (2 * (z * y[:, j]) @ w / (z @ w + y[:, j] @ w)).max()
        ours = tally.decide(costs)[:, j]
        assert 2 * (ours * y[:, j]) @ w / (ours @ w + y[:, j] @ w) == pytest.approx(best, abs=1e-12)


def test_the_sigmoid_is_the_posterior_mode_and_thresholds_go_back_through_it():
    truth, y, rng = sets_of(80, 4, 1)
    q, weights = np.clip(truth**3, 1e-4, None), rng.uniform(0.5, 1.5, 80)
    weights /= weights.sum()
    law = Sigmoid().fit(q, y, weights)
    e, w = law._evidence(q), weights / (weights @ weights)

    def loss(slope, shift, j):
        v = law.share[j] + slope * e[:, j] + shift
        return w @ (np.logaddexp(0, v) - y[:, j] * v)

    shared = minimize(lambda t: sum(loss(*t, j) for j in range(4)), [1.0, 0.0]).x
    for j in range(4):
        own = minimize(
            lambda t, j=j: loss(*t, j) + 15 * (t[0] - shared[0]) ** 2 + 5 * (t[1] - shared[1]) ** 2, shared
        ).x
        np.testing.assert_allclose([law.slope[j], law.shift[j]], own, atol=2e-3)
    for t in law.fitted[:20]:
        cut = law.cut(t)
        mapped = expit(law.share + law.slope * law._evidence(cut[None])[0] + law.shift)
        np.testing.assert_allclose(mapped, t, rtol=1e-6)
    basis, _ = SetTally(y, weights, q).basis(False)
    costs = rng.uniform(size=(4, 2, 2)) * (1 - np.eye(2))
    assert np.array_equal(SetTally(y, weights, q).decide(basis.restored(costs)), basis.decide(costs))


def test_rare_labels_gain_by_what_all_labels_say():
    """Thresholds that are tuned label by label chase the noise of a few examples; judged by the law that drew them."""
    ours, tuned = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = expit(1.5 * rng.normal(size=(4000, 30)) - rng.uniform(3, 5, 30))
        q = expit(2 * logit(truth) + 3)  # too sure
        y = (rng.random((300, 30)) < truth[:300]).astype(int)
        tally, law = SetTally(y, np.ones(300), q[:300]), SetTally(np.zeros((3700, 30), int), np.ones(3700), truth[300:])
        for values, observed in ((ours, False), (tuned, True)):
            basis, _ = tally.basis(observed)
            costs = basis.restored(search(FMeasure(), basis).costs)
            z = SetTally(law.y, law.weights, q[300:]).decide(costs)
            values.append(float(FMeasure().value_of_sets(law.expected(z))))
    assert np.mean(ours) > np.mean(tuned) + 0.02


def some_tallies():
    rng = np.random.default_rng(9)
    p, weights = rng.dirichlet(np.ones(3), 30), rng.uniform(0.5, 2, 30)
    sequence = np.repeat(np.arange(6), 5)
    forest, scheme = Forest.chains([3] * 5), Scheme(["B-a", "I-a", "O"])
    ((_, spans, q),) = law_spans(forest, rng.normal(size=(15, 3)), rng.normal(size=(3, 3)), scheme, 1e-15)
    tags = np.tile([0, 1, 2], 5)
    return [
        (Kappa(), LabelTally(rng.integers(0, 3, 30), 3, weights, p), 1 - np.eye(3)),
        (FMeasure(), SetTally(rng.integers(0, 2, (30, 3)), weights, p), np.tile(1 - np.eye(2), (3, 1, 1))),
        (Kappa(), PositionTally(rng.integers(0, 3, 30), 3, np.repeat(weights[:6], 5), p, sequence), 1 - np.eye(3)),
        (EntityF(), SpanTally.of(forest, tags, scheme, weights[:5], spans, q), np.array([[[0.0, 3.0], [1.0, 0.0]]])),
    ]


@pytest.mark.parametrize("case", range(4))
def test_an_influence_is_the_slope_in_an_examples_weight(case):
    metric, tally, costs = some_tallies()[case]
    z = tally.decide(costs)
    found = _judge(metric, [(tally, 1.0, costs)])
    assert found.value == pytest.approx(float(tally.value(metric, tally.confusion(z))))
    rows = getattr(tally, "sequence", None) if case == 2 else np.arange(len(tally.weights))
    assert len(found.influences) == len(np.unique(rows))
    weights = tally.weights.copy()
    for i in range(3):
        values = []
        for step in (1e-5, -1e-5):
            tally.weights = weights * (1 + step * (rows == i))
            values.append(float(tally.value(metric, tally.confusion(z))))
        assert found.influences[i] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


# -- every kind of estimator -------------------------------------------------------------------------------------------

RNG = np.random.default_rng(7)
X = RNG.normal(size=(400, 3))
GRADE = np.digitize(X[:, 0] + 0.8 * RNG.normal(size=400), [-1.2, 0.3, 1.6])
NAMES = np.array(["bad", "fair", "good", "great"])[GRADE]
SETS = (X @ RNG.normal(size=(3, 4)) + RNG.normal(size=(400, 4)) > 1.3).astype(int)
SEQUENCES = [RNG.normal(size=(n, 3)) for n in RNG.integers(1, 8, 150)]
TAGS = [
    [["O", "B-x", "I-x"][i] for i in np.argmax(x + 1.2 * np.eye(3)[0] + RNG.normal(size=x.shape), 1)] for x in SEQUENCES
]
CASES = {
    "classifier": (tl.CostSensitiveClassifier(), FMeasure(), X, NAMES),
    "costs": (tl.CostSensitiveClassifier(1 - np.eye(4) + np.tri(4, k=-1)), Matthews(), X, NAMES),
    "ordinal": (tl.OrdinalClassifier(order=["bad", "fair", "good", "great"]), Kappa(), X, NAMES),
    "kernel": (tl.CostSensitiveClassifier(hypothesis="nystrom"), GMean(), X, GRADE),
    "predictor": (tl.KernelPredictor("absolute"), Kappa(), X[:150], GRADE[:150]),
    "decoded": (tl.DecodedClassifier(RandomForestClassifier(10, random_state=0)), Kappa(), X, GRADE),
    "foreign": (GaussianNB(), BalancedAccuracy(), X, NAMES),
    "pipeline": (make_pipeline(StandardScaler(), tl.OrdinalClassifier()), Kappa(), X, GRADE),
    "foreign pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), FMeasure(), X, NAMES),
    "sets": (tl.MultilabelClassifier(), FMeasure(), X, SETS),
    "sets for F": (tl.MultilabelClassifier("f-beta"), FMeasure(average="micro"), X, SETS),
    "sets of names": (
        tl.MultilabelClassifier(),
        FMeasure(),
        X,
        [{"abcd"[j] for j in np.flatnonzero(row)} for row in SETS],
    ),
    "foreign sets": (OneVsRestClassifier(LogisticRegression()), FMeasure(), X, SETS),
    "outputs": (MultiOutputClassifier(LogisticRegression()), FMeasure(average="micro"), X, SETS),
    "entities": (tl.SequenceTagger(tol=1e-4), EntityF(), SEQUENCES, TAGS),
    "tags": (tl.SequenceTagger(tol=1e-4), FMeasure(), SEQUENCES, TAGS),
}


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_is_tuned(name):
    estimator, metric, inputs, y = CASES[name]
    tuned = tl.TunedDecisionCV(estimator, metric, cv=3).fit(inputs, y)
    assert not hasattr(estimator, "theta_")  # a copy is fitted
    assert 0 <= tuned.expected_score_ <= 1
    assert tuned.expected_score_ >= tuned.untuned_score_ - 0.05
    assert tuned.score(inputs, y) == pytest.approx(metric.scorer()(tuned, inputs, y))
    assert tuned.score(inputs, y) > tuned.expected_score_ - 0.1
    np.testing.assert_allclose(tuned.costs_.max(), 1)
    assert tuned.costs_.min() == 0
    assert (tuned.expected_loss(inputs) >= -1e-9).all()
    again = pickle.loads(pickle.dumps(tuned)).predict(inputs)
    for a, b in zip(again, tuned.predict(inputs), strict=True):
        assert np.array_equal(a, b)
    clone(tuned).fit(inputs, y)


def test_the_loss_that_was_found_decides_alike_without_the_search():
    tuned = tl.TunedDecisionCV(tl.OrdinalClassifier(), "kappa", cv=3).fit(X, GRADE)
    assert np.array_equal(tuned.estimator_.predict(X, loss=tuned.loss_), tuned.predict(X))
    assert np.array_equal(tl.decide(tuned.estimator_.predict_proba(X), tuned.loss_), tuned.predict(X))
    assert np.array_equal(tuned.predict(X, loss="zero-one"), tuned.estimator_.predict(X, loss="zero-one"))
    sets = tl.TunedDecisionCV(tl.MultilabelClassifier(), FMeasure(), cv=3).fit(X, SETS)
    assert np.array_equal(sets.estimator_.predict(X, loss=sets.loss_), sets.predict(X))


def test_a_fitted_estimator_is_not_fitted_again():
    model = tl.OrdinalClassifier().fit(X[:200], GRADE[:200])
    theta = model.theta_
    tuned = tl.TunedDecisionCV(model, "kappa", cv="prefit").fit(X[200:], GRADE[200:])
    assert tuned.estimator_ is model
    assert model.theta_ is theta
    frozen = tl.TunedDecisionCV(FrozenEstimator(model), "kappa", cv=KFold(2)).fit(X[200:], GRADE[200:])
    np.testing.assert_allclose(frozen.costs_, tuned.costs_, atol=0.2)


def test_folds_shares_groups_and_weights():
    groups = np.arange(400) // 4
    by_groups = tl.TunedDecisionCV(LogisticRegression(), "matthews", cv=GroupKFold(4)).fit(X, GRADE, groups=groups)
    share = tl.TunedDecisionCV(LogisticRegression(), "matthews", cv=0.3).fit(X, GRADE)
    assert by_groups.expected_score_ == pytest.approx(share.expected_score_, abs=0.15)
    weights = np.where(GRADE == 3, 20.0, 1.0)
    heavy = tl.TunedDecisionCV(tl.OrdinalClassifier(), "f-measure", cv=3).fit(X, GRADE, sample_weight=weights)
    light = tl.TunedDecisionCV(tl.OrdinalClassifier(), "f-measure", cv=3).fit(X, GRADE)
    assert (heavy.predict(X) == 3).sum() > (light.predict(X) == 3).sum()


@pytest.mark.parametrize("y", [GRADE, SETS], ids=["labels", "sets"])
def test_examples_without_weight_are_left_out(y):
    """Also where they are a whole fold; a quarter of the examples is as good as the others' without it."""
    weights = np.where(np.arange(400) < 100, 0.0, 1.0)
    estimator = tl.OrdinalClassifier() if y.ndim == 1 else tl.MultilabelClassifier()
    folds = [(np.setdiff1d(np.arange(400), part), part) for part in np.split(np.arange(400), 4)]
    some = [(train[train >= 100] - 100, test - 100) for train, test in folds[1:]]
    one = tl.TunedDecisionCV(estimator, "f-measure", cv=folds).fit(X, y, sample_weight=weights)
    two = tl.TunedDecisionCV(estimator, "f-measure", cv=some).fit(X[100:], y[100:])
    assert one.expected_score_ == pytest.approx(two.expected_score_, abs=1e-6)
    np.testing.assert_allclose(one.costs_, two.costs_, atol=1e-5)


def test_an_order_of_ones_own_for_anyones_classifier():
    order = ["bad", "fair", "good", "great"]
    by_name = tl.TunedDecisionCV(LogisticRegression(), "kappa", cv=3, order=order[::-1]).fit(X, NAMES)
    by_code = tl.TunedDecisionCV(LogisticRegression(), "kappa", cv=3).fit(X, GRADE)
    assert by_name.expected_score_ == pytest.approx(by_code.expected_score_)
    assert np.array_equal(by_name.predict(X), np.array(order)[by_code.predict(X)])


def test_on_real_grades_more_agree_than_by_the_likeliest():
    """LEV: lectures judged by students, five grades, an official file; quadratic weighted kappa on one split."""
    from benchmarks.datasets import root, tabular

    if root() is None:
        pytest.skip("the data sets are absent")
    data = tabular.load("ordinal", "LEV")
    train, test = data.splits[0]
    tuned = tl.TunedDecisionCV(tl.CostSensitiveClassifier(), Kappa()).fit(data.X[train], data.y[train])
    likeliest = tuned.estimator_.predict(data.X[test])
    assert tuned.score(data.X[test], data.y[test]) > Kappa()(data.y[test], likeliest) + 0.02
    assert tuned.expected_score_ > tuned.untuned_score_ + 0.02


SENTENCES = {
    "no estimator": (lambda: tl.TunedDecisionCV().fit(X, GRADE), "needs an estimator, got None"),
    "metric": (lambda: tl.TunedDecisionCV(GaussianNB(), "f2").fit(X, GRADE), "no metric named 'f2'"),
    "cv word": (lambda: tl.TunedDecisionCV(GaussianNB(), cv="none").fit(X, GRADE), "or 'prefit', got 'none'"),
    "cv of nothing": (lambda: tl.TunedDecisionCV(GaussianNB(), cv=[None]).fit(X, GRADE), "cv must split"),
    "cv elsewhere": (
        lambda: tl.TunedDecisionCV(GaussianNB(), cv=[([0, 1], [10_000])]).fit(X, GRADE),
        "cv must list places of the",
    ),
    "order of a number": (lambda: tl.TunedDecisionCV(GaussianNB(), order=3).fit(X, GRADE), "order must be a list"),
    "no inputs": (lambda: tl.TunedDecisionCV(GaussianNB()).fit(3.0, GRADE), "X must hold one entry for each example"),
    "labels to score": (
        lambda: tl.TunedDecisionCV(GaussianNB(), cv=2).fit(X, GRADE).score(X, GRADE[:9]),
        "X and y have different lengths",
    ),
    "cv share": (lambda: tl.TunedDecisionCV(GaussianNB(), cv=1.5).fit(X, GRADE), "a share between 0 and 1"),
    "not fitted": (lambda: tl.TunedDecisionCV(GaussianNB(), cv="prefit").fit(X, GRADE), "is not fitted yet"),
    "spans of labels": (lambda: tl.TunedDecisionCV(GaussianNB(), "entity-f").fit(X, GRADE), "use a tagger"),
    "ranker": (
        lambda: tl.TunedDecisionCV(tl.Ranker().fit(X, GRADE, groups=GRADE), cv="prefit").fit(X, GRADE),
        "Ranker predicts no labels that a confusion could count",
    ),
    "NaN": (
        lambda: tl.TunedDecisionCV(GaussianNB(), OfConfusion(lambda c: np.nan)).fit(X, GRADE),
        "is nan on these examples",
    ),
    "unseen": (
        lambda: tl.TunedDecisionCV(tl.OrdinalClassifier().fit(X, GRADE), cv="prefit").fit(X, GRADE + 1),
        "Unknown label 4",
    ),
    "a set of labels": (lambda: tl.TunedDecisionCV(GaussianNB()).fit(X[:2], {1, 2}), "y must hold one entry for each"),
    "lengths": (lambda: tl.TunedDecisionCV(GaussianNB()).fit(X, GRADE[:9]), "different lengths|inconsistent numbers"),
    "one example": (
        lambda: tl.TunedDecisionCV(GaussianNB().fit(X, GRADE), cv="prefit").fit(X[:1], GRADE[:1]),
        "at least two examples are needed",
    ),
    "no weight held out": (
        lambda: tl.TunedDecisionCV(GaussianNB(), cv=[(np.arange(50, 400), np.arange(50))]).fit(
            X, GRADE, sample_weight=np.arange(400) >= 50
        ),
        "Of the 50 examples held out 0 count, in 0 folds",
    ),
    "order": (lambda: tl.TunedDecisionCV(GaussianNB(), order=[0, 1]).fit(X, GRADE), "Unknown label 2"),
    "no law": (
        lambda: tl.TunedDecisionCV(tl.SequenceTagger(surrogate="quadratic"), "entity-f").fit(SEQUENCES, TAGS),
        "no law over whole labellings",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_bad_input_gets_a_sentence(name):
    from sklearn.exceptions import NotFittedError

    work, sentence = SENTENCES[name]
    with pytest.raises((ValueError, TypeError, NotFittedError), match=sentence):
        work()
