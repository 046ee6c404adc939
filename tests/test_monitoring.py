"""Monitoring: e-processes, intervals, alarms at their level, and states that survive a restart."""

import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskloss as tl
from taskloss.betting import _BETS, RiseTest, chernoff_interval

COSTS = [[0, 5], [1, 0]]
W = np.array([1.5, -1.0])


def draw(rng, n, scale=1.0, flip=0.0):
    X = scale * rng.normal(size=(n, 2))
    p = expit(X @ W - 1)
    return X, (rng.random(n) < (1 - flip) * p + flip * (1 - p)).astype(int)


@pytest.fixture(scope="module")
def model():
    return tl.CostSensitiveClassifier(COSTS).fit(*draw(np.random.default_rng(0), 4000))


def evidence(reference, stream, m):
    """The e-process of one mean by its definition, batch by batch."""
    bets = 0.9 / 2.0 ** np.arange(7)

    def won(x, m):
        return logsumexp([np.log(1 - bet + bet * x / m).sum() for bet in bets]) - np.log(7)

    known = np.logaddexp(np.log(0.9) + won(1 - reference, 1 - m), np.log(0.1))
    capital = [np.log(10 / (10 + len(stream)))]  # what is not bet
    for start in range(len(stream)):
        share = 10 / (10 + start) - 10 / (11 + start)
        capital.append(np.log(share) + won(np.concatenate(stream[start:]), m))
    return known + logsumexp(capital)


@pytest.mark.parametrize("rise", [0.0, 0.05, 0.12])
@pytest.mark.parametrize("few", [True, False])
def test_the_evidence_bounds_the_infimum_over_means_from_below(few, rise):
    rng = np.random.default_rng(1)
    reference, stream = rng.beta(1, 4, 200), [rng.beta(1, 4, 40) * (1 - rise) + rise for _ in range(4)]
    if few:
        reference, stream = np.round(reference, 1), [np.round(x, 1) for x in stream]
    test = RiseTest(reference)
    for x in stream:
        test.update(x)
    exact = min(evidence(reference, stream, m) for m in np.linspace(0.01, 0.99, 2000))
    assert exact - (0.2 if exact > 1 else 1.0) < test.log_evidence <= exact + 1e-3


def test_wealth_at_the_true_mean_is_a_supermartingale():
    """The expectation of a batch's factor is one at the mean itself and at most one above it, for any law."""
    values, law = np.array([0.0, 0.3, 1.0]), np.array([0.6, 0.3, 0.1])
    for m in (values @ law, 0.5, 0.9):
        factors = 1 - _BETS + _BETS * values[:, None] / m
        assert (law @ factors <= 1 + 1e-12).all()


@pytest.mark.parametrize("mean", [0.02, 0.3])
def test_false_alarms_are_at_most_the_level(mean):
    """300 streams of 20 batches from the reference's own law; benchmarks/monitoring.py does 1,000 longer ones with models."""
    rng, raised = np.random.default_rng(2), 0
    for _ in range(300):
        test = RiseTest((rng.random(300) < mean).astype(float))
        for _ in range(20):
            test.update((rng.random(20) < mean).astype(float))
        raised += test.highest >= np.log(1 / 0.05)
    assert raised <= stats.binom.ppf(0.99, 300, 0.05)


def test_intervals_of_means_hold_the_mean():
    rng = np.random.default_rng(3)
    for mean, n in ((0.01, 50), (0.3, 20), (0.5, 400)):
        found = [chernoff_interval(float(k), n, 0.95) for k in rng.binomial(n, mean, 500)]
        assert np.mean([low <= mean <= high for low, high in found]) >= 0.95
    assert chernoff_interval(0.0, 0, 0.95) == (0.0, 1.0)
    low, high = chernoff_interval(0.0, 100, 0.95)  # (1 - high)^100 = 0.025
    assert low == 0.0
    np.testing.assert_allclose(high, 1 - 0.025**0.01, rtol=1e-9)


def watched(model, rng, scale=1.0, flip=0.0, batches=30, before=5):
    monitor = tl.LossMonitor(model, *draw(rng, 2000))
    for batch in range(batches):
        X, y = draw(rng, 100, *((scale, flip) if batch >= before else ()))
        monitor.update(X)
        monitor.label(y)
    return monitor


def test_each_shift_raises_the_alarms_that_it_should(model):
    rng = np.random.default_rng(4)
    assert watched(model, rng).alarms_ == {}
    covariate = watched(model, rng, scale=0.4)
    assert {"expected", "realised"} <= set(covariate.alarms_)  # inputs near the threshold
    assert "excess" not in covariate.alarms_
    concept = watched(model, rng, flip=0.3)
    assert {"realised", "excess"} <= set(concept.alarms_)
    assert "expected" not in concept.alarms_


def test_reports_are_the_losses(model):
    rng = np.random.default_rng(5)
    monitor = tl.LossMonitor(model, *draw(rng, 500))
    X, y = draw(rng, 200)
    report = monitor.update(X, ids=[f"t{i}" for i in range(200)])
    np.testing.assert_allclose(report.expected, model.expected_loss(X).mean())
    assert report.labelled == 0
    assert np.isnan(report.realised)
    late = rng.permutation(200)
    for part in np.split(late, 4):  # labels by name, in any order
        monitor.label(y[part], ids=[f"t{i}" for i in part])
    report = monitor.batches_[0]
    np.testing.assert_allclose(report.realised, -model.score(X, y))
    assert report.realised_low < report.realised < report.realised_high
    assert report.labelled == 200
    assert monitor.report()["waiting"] == 0


def test_intervals_before_labels_hold_the_realised_loss(model):
    """Also where inputs have shifted and labels given X have not."""
    rng, inside = np.random.default_rng(6), []
    for _ in range(100):
        monitor = tl.LossMonitor(model, *draw(rng, 500))
        X, y = draw(rng, 200, scale=0.5)
        report = monitor.update(X)
        inside.append(report.expected_low <= -model.score(X, y) <= report.expected_high)
    assert np.mean(inside) >= stats.binom.ppf(0.01, 100, 0.95) / 100


def test_a_state_goes_on_where_it_was(model):
    rng = np.random.default_rng(7)
    whole = tl.LossMonitor(model, *draw(rng, 500))
    again = tl.LossMonitor.from_state(model, json.loads(json.dumps(whole.state())))
    for batch in range(8):
        X, y = draw(rng, 50, flip=0.4)
        for monitor in (whole, again):
            monitor.update(X)
            monitor.label(y[: 50 - 10 * (batch == 5)])
        again = tl.LossMonitor.from_state(model, json.loads(json.dumps(again.state(), allow_nan=False)))
    assert again.state() == whole.state()
    assert again.to_json() == whole.to_json()
    assert "realised" in whole.alarms_


def test_what_is_kept_is_bounded(model):
    rng = np.random.default_rng(8)
    monitor = tl.LossMonitor(model, *draw(rng, 100), keep=30)
    monitor.update(draw(rng, 50)[0])
    assert monitor.report()["waiting"] == 30
    with pytest.raises(ValueError, match=r"ids names 3: every label is of one example"):
        monitor.label([1], ids=[3])
    size = len(json.dumps(monitor.state()))
    assert size < 60_000


def test_models_of_others_and_label_sets_and_plain_losses():
    rng = np.random.default_rng(9)
    X, y = draw(rng, 600)
    names = np.where(y == 1, "fraud", "genuine")
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0)).fit(X[:200], names[:200])
    monitor = tl.LossMonitor(forest, X[200:400], names[200:400])
    monitor.update(X[400:])
    monitor.label(names[400:])
    realised = monitor.report()["realised"]
    np.testing.assert_allclose(realised, np.mean(forest.predict(X[400:]) != names[400:]))
    Y = np.column_stack([y, 1 - y, y])
    sets = tl.MultilabelClassifier().fit(X, Y)
    monitor = tl.LossMonitor(sets, X, Y)
    monitor = tl.LossMonitor.from_state(sets, json.loads(json.dumps(monitor.state())))
    monitor.update(X)
    monitor.label(Y)
    np.testing.assert_allclose(monitor.report()["realised"], -sets.score(X, Y))
    groups = np.repeat(np.arange(60), 10)
    ranker = tl.Ranker().fit(X, y, groups=groups)
    expected, losses = ranker.expected_loss(X, groups), ranker.group_losses(X, y, groups)
    monitor = tl.LossMonitor(None, expected[:30], losses[:30])
    monitor.update(expected[30:])
    monitor.label(losses[30:])
    np.testing.assert_allclose(monitor.report()["realised"], losses[30:].mean())
    with pytest.raises(ValueError, match="decides for structures: pass model=None"):
        tl.LossMonitor(ranker, X, y)


def test_only_realised_losses_are_enough_for_their_alarm():
    rng = np.random.default_rng(10)
    monitor = tl.LossMonitor(None, None, rng.random(500) * 40, bounds=(0, 50))
    monitor.label(rng.random(500) * 50)
    assert set(monitor.alarms_) == {"realised"}


def test_prometheus_text_is_what_its_format_says(model):
    import re

    rng = np.random.default_rng(11)
    monitor = tl.LossMonitor(model, *draw(rng, 100))
    monitor.update(draw(rng, 50)[0])
    text = monitor.to_prometheus({"model": 'a "b"\\'})
    sample = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)*\})? (NaN|[-+.e0-9]+)')
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines
    assert all(sample.fullmatch(line) for line in lines)
    assert 'taskloss_alarm{model="a \\"b\\"\\\\",kind="excess"} 0' in lines
    assert text.endswith("\n")


def test_bad_input_is_refused_in_a_sentence(model):
    rng = np.random.default_rng(12)
    X, y = draw(rng, 100)
    for arguments, words in [
        ({"level": 0}, "level must be a finite number above zero"),
        ({"level": 1.5}, "level must lie between 0 and 1"),
        ({"bounds": (1, 0)}, "bounds must be the least and the largest loss"),
        ({"keep": 0}, "keep must be a whole number"),
    ]:
        with pytest.raises(ValueError, match=words):
            tl.LossMonitor(model, X, y, **arguments)
    with pytest.raises(ValueError, match="y_ref has 50 labels for the 100 examples of X_ref"):
        tl.LossMonitor(model, X, y[:50])
    with pytest.raises(ValueError, match="y_ref must be the labels of at least 20 examples"):
        tl.LossMonitor(model, X[:5], y[:5])
    with pytest.raises(ValueError, match="no predict_proba"):
        tl.LossMonitor(StandardScaler().fit(X), X, y)
    monitor = tl.LossMonitor(model, X, y)
    monitor.update(X)
    with pytest.raises(ValueError, match="y has 101 labels and 100 examples wait"):
        monitor.label(np.append(y, 1))
    with pytest.raises(ValueError, match="ids names 3, which an earlier example has"):
        monitor.update(X[:1], ids=[3])
    with pytest.raises(ValueError, match="ids must be a name of its own for each of the 2"):
        monitor.update(X[:2], ids=["a", "a"])
    with pytest.raises(ValueError, match="ids must be strings or whole numbers"):
        monitor.update(X[:1], ids=[1.5])
    with pytest.raises(ValueError, match=r"X_ref must be a list of losses, finite numbers"):
        tl.LossMonitor(None, [np.nan] * 30, np.full(30, 0.5))
    with pytest.raises(ValueError, match=r"y must be losses from 0 to 1: for others pass bounds"):
        tl.LossMonitor(None, None, np.full(30, 0.5)).label([7.0])
    for state in ({}, "x", None, monitor.to_json()):
        with pytest.raises(ValueError, match=r"state must be what state\(\) of a LossMonitor returned"):
            tl.LossMonitor.from_state(model, state)
    logistic = LogisticRegression().fit(X, y)
    assert tl.LossMonitor(logistic, X, y, loss=COSTS).high == 5
