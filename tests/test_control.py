"""Risk control: families of decisions, tests of a mean, the search, and promises kept on laws that are known."""

import functools
import pickle

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskloss as tl
from taskloss._compiled.betting import sequence_of_tests
from taskloss.control import bounds, search
from taskloss.control.search import Promise, aim, error_in_expectation, grid
from taskloss.control.steps import Steps

N = 400


def _points(rng, n=N):
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + rng.normal(size=n)


def _sequences(rng, n=120):
    lengths = rng.integers(2, 8, n)
    X = [rng.normal(size=(T, 3)) for T in lengths]
    tags = np.array(["O", "B-x", "I-x"])
    return X, [tags[np.digitize(x[:, 0] + 0.7 * rng.normal(size=len(x)), [0, 1])] for x in X]


def _groups(rng, n=120):
    sizes = rng.integers(2, 9, n)
    groups = np.repeat(np.arange(n), sizes)
    X = rng.normal(size=(len(groups), 3))
    return X, np.clip(np.round(X[:, 0] + rng.normal(size=len(X))), 0, 3), {"groups": groups}


def _matchings(rng, n=120):
    X, y = [], []
    for _ in range(n):
        a = rng.normal(size=(rng.integers(2, 6), 3))
        p = rng.permutation(len(a))
        X.append((a, (a + 0.6 * rng.normal(size=a.shape))[np.argsort(p)]))
        y.append(p)
    return X, y


@functools.cache
def case(name):
    """(fitted model, loss, knob, X, y, params)"""
    rng = np.random.default_rng(0)
    kind, word = name.split("/")
    if kind in ("labels", "costs", "grades", "forest", "kernel"):
        X, v = _points(rng)
        y = np.digitize(v, [-1, 0, 1]) if kind == "grades" else np.array(["a", "b", "c"])[np.digitize(v, [-0.7, 0.7])]
        costs = [[0, 1, 4], [5, 0, 1], [2, 2, 0]]
        model = {
            "labels": tl.CostSensitiveClassifier(),
            "costs": make_pipeline(StandardScaler(), tl.CostSensitiveClassifier(costs)),
            "grades": tl.OrdinalClassifier(),
            "forest": RandomForestClassifier(20, random_state=0),
            "kernel": tl.KernelPredictor(alpha=1e-2),
        }[kind].fit(X[:200], y[:200])
        return model, costs if kind == "forest" else None, word, X[200:], y[200:], {}
    if kind in ("sets", "named sets", "recall", "missed", "f"):
        X, _ = _points(rng)
        y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(N, 4)) > 0.3).astype(int)
        y = [set("abcd"[j] for j in np.flatnonzero(row)) for row in y] if kind == "named sets" else y
        fitted = tl.losses.FBeta() if kind == "f" else tl.losses.Hamming()
        missed = tl.losses.LabelCosts([[[0, j + 1.0], [0, 0]] for j in range(4)])
        loss = {"recall": "recall", "missed": missed}.get(kind)
        return tl.MultilabelClassifier(fitted).fit(X[:200], y[:200]), loss, word, X[200:], y[200:], {}
    if kind in ("tags", "spans", "sequences"):
        X, y = _sequences(rng)
        loss = {"tags": "chain-hamming", "spans": tl.losses.SpanCosts(), "sequences": "sequence-zero-one"}[kind]
        return tl.SequenceTagger(alpha=1e-2).fit(X[:60], y[:60]), loss, word, X[60:], y[60:], {}
    if kind in ("ndcg", "precision"):
        X, y, params = _groups(rng)
        some = params["groups"] < 60
        loss = tl.losses.NDCG() if kind == "ndcg" else tl.losses.PrecisionAt(2)
        ranker = tl.Ranker(loss, "listwise" if kind == "ndcg" else "logistic")
        ranker.fit(X[some], y[some], groups=params["groups"][some])
        return ranker, None, word, X[~some], y[~some], {"groups": params["groups"][~some]}
    X, y = _matchings(rng)
    return tl.Matcher().fit(X[:60], y[:60]), None, word, X[60:], y[60:], {}


CASES = [
    *("labels/abstain", "labels/set", "costs/abstain", "costs/set", "grades/abstain", "grades/set", "forest/abstain"),
    *("forest/set", "kernel/abstain", "sets/abstain", "sets/parts", "named sets/parts", "named sets/abstain"),
    *("recall/set", "missed/set", "f/abstain", "tags/parts", "tags/abstain", "spans/parts", "sequences/abstain"),
    *("ndcg/set", "ndcg/abstain", "precision/parts", "precision/abstain", "matchings/parts", "matchings/abstain"),
]
every_case = pytest.mark.parametrize("name", CASES)


@functools.cache
def read(name):
    """(knob, what it reads of the inputs, steps)"""
    model, loss, word, X, y, params = case(name)
    controller = tl.RiskController(model, loss, knob=word)
    knob, steps = controller._steps(X, y, None, params)
    return knob, knob.read(controller._face(X)[1], params), steps


def thresholds(steps):
    return np.concatenate([np.quantile(steps.at, [0.0, 0.2, 0.5, 0.8, 1.0]), [-np.inf, np.inf]])


# -- families of decisions ---------------------------------------------------------------------------------------------


@every_case
def test_sums_are_those_of_single_examples(name):
    steps = read(name)[2]
    ordered = steps.ordered(thresholds(steps))
    found = steps.sums(steps.places(ordered), len(ordered))
    plain = [[part.sum() for part in steps.at_threshold(t)] for t in ordered]
    np.testing.assert_allclose(np.transpose(found), plain, atol=1e-9)


@every_case
def test_families_are_monotone_and_within_their_bounds(name):
    """Bolder thresholds answer more, or with smaller sets; where nothing is left out, losses only grow."""
    steps = read(name)[2]
    found = [steps.at_threshold(t) for t in steps.ordered(thresholds(steps))]
    cost, amount = (np.array(part) for part in zip(*found, strict=True))
    assert (np.diff(amount, axis=0) * (1 if steps.partial else -1) >= -1e-12).all()
    unit = amount if steps.partial else 1.0
    assert (cost >= steps.low * unit - 1e-9).all()
    assert (cost <= steps.high * unit + 1e-9).all()
    if steps.partial:
        assert (amount[0] == 0).all()
        assert amount.max() <= 1 + 1e-12
        assert not steps.whole or np.isin(amount, (0, 1)).all()
    else:
        assert (np.diff(cost, axis=0) >= -1e-12).all()
    if steps.binary:
        assert np.isin(cost, (steps.low, steps.high)).all()


def realised(name, outputs, y, params):
    """The loss and the amount of what users are given, from their own labels alone."""
    model, _, word, *_ = case(name)
    kind = name.split("/")[0]
    knob = read(name)[0]
    if kind in ("ndcg", "precision"):
        ids = np.unique(params["groups"])
        groups = [np.flatnonzero(params["groups"] == i) for i in ids]
        if word == "abstain":
            z = model.predict(case(name)[3], groups=params["groups"])
            full = [model.loss_.bind(len(g))(z[g], y[g]) for g in groups]
            amount = np.array([all(v is not None for v in outputs[g]) for g in groups])
            return np.where(amount, full, 0.0), amount
        shown = [[i for i in g if outputs[i] is not None] for g in groups]
        if kind == "precision":
            return [sum(y[i] == 0 for i in s) / 2 for s in shown], [len(s) / 2 for s in shown]
        parts = [model.loss_.bind(len(g)) for g in groups]
        gains = [
            sum(b.weights[outputs[i]] * b.phi(y[g])[list(g).index(i)] for i in s)
            for b, g, s in zip(parts, groups, shown, strict=True)
        ]
        return 1 - np.array(gains), [len(s) for s in shown]
    cost, amount = [], []
    for z, t in zip(outputs, y, strict=True):
        if word == "abstain" and z is None:
            cost.append(0.0)
            amount.append(0.0)
        elif kind in ("tags", "matchings") and word == "parts":
            answered = np.array([v is not None for v in z])
            cost.append((answered & (np.asarray(z) != np.asarray(t))).mean())
            amount.append(answered.mean())
        elif kind == "spans":
            a, b = spans_of(z), spans_of(t)
            cost.append(len(a - b) / len(t))
            amount.append(len(a) / len(t))
        elif word == "parts":
            some = kind == "named sets"
            wrong = (
                [(j in z[0]) != (j in t) for j in "abcd" if j not in z[1]]
                if some
                else [a != b for a, b in zip(z, t, strict=True) if a is not None]
            )
            cost.append(sum(wrong) / 4)
            amount.append(len(wrong) / 4)
        elif kind in ("recall", "missed"):
            missed = (np.asarray(t) == 1) & (np.asarray(z) == 0)
            share = missed.sum() / max(sum(t), 1)
            cost.append(share if kind == "recall" else missed @ np.arange(1, 5))
            amount.append(sum(z))
        elif kind == "grades" and word == "set":
            cost.append(max(z[0] - t, t - z[1], 0))
            amount.append(z[1] - z[0] + 1)
        elif word == "set":
            table, names = knob.loss.matrix(), ["a", "b", "c"]
            cost.append(min(table[names.index(v), names.index(t)] for v in z))
            amount.append(len(z))
        else:
            cost.append(one_loss(kind, knob, z, t))
            amount.append(1.0)
    return cost, amount


def one_loss(kind, knob, z, t):
    if kind == "grades":
        return abs(z - t)
    if kind in ("costs", "forest"):
        return knob.loss.matrix()["abc".index(z), "abc".index(t)]
    if kind in ("labels", "kernel"):
        return float(z != t)
    if kind == "f":
        return 1 - 2 * (z & t).sum() / (z.sum() + t.sum()) if z.sum() + t.sum() else 0.0
    if kind == "named sets":
        return len(z ^ t) / 4
    if kind == "sequences":
        return float((np.asarray(z) != t).any())
    return np.mean(np.asarray(z) != np.asarray(t))


def spans_of(tags):
    from taskloss.losses.spans import Scheme
    from taskloss.polytopes._forest import Forest

    names = ["B-x", "I-x", "O"]
    found = Scheme(names).spans(Forest.chains([len(tags)]), np.array([names.index(t) for t in tags]))
    return set(zip(found.first.tolist(), found.stop.tolist(), found.kind.tolist(), strict=True))


@every_case
def test_what_users_are_given_has_the_loss_that_is_counted(name):
    _, _, _, _, y, params = case(name)
    knob, found, steps = read(name)
    for threshold in thresholds(steps):
        outputs = knob.at_threshold(found, threshold)
        cost, amount = realised(name, outputs, y, params)
        np.testing.assert_allclose(steps.at_threshold(threshold), [cost, amount], atol=1e-9)


# -- tests of a mean ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.02, 0.1, 0.4])
def test_p_values_of_counts_hold_for_every_sum(level):
    """P(p <= d) <= d at the level itself, over all sums of binary losses: the binomial test exactly, Hoeffding-Bentkus with room."""
    for n in (5, 40, 300):
        sums = np.arange(n + 1)
        law = binom.pmf(sums, n, level)
        for test in (bounds.binomial, bounds.hoeffding_bentkus):
            p = test(sums, n, level)
            for d in (0.01, 0.05, 0.1, 0.3):
                assert law[p <= d].sum() <= d + 1e-12
        assert (bounds.binomial(sums, n, level) <= bounds.hoeffding_bentkus(sums, n, level) + 1e-12).all()


def test_hoeffding_bentkus_equals_mapie():
    mapie = pytest.importorskip("mapie.risk_control.methods")
    mean, n = np.array([0.0, 0.01, 0.06, 0.1, 0.4]), 100
    ours = bounds.hoeffding_bentkus(mean * n, n, 0.1)
    np.testing.assert_allclose(ours, np.minimum(mapie.compute_hoeffding_bentkus_p_value(mean, n, 0.1)[:, 0], 1.0))


def _two_points(rng, shape, level):
    return rng.random(shape) < level


def _beta(rng, shape, level):
    return rng.beta(2 * level, 2 * (1 - level), shape)


def _rare(rng, shape, level):
    return 0.5 * (rng.random(shape) < 2 * level)


@pytest.mark.parametrize("law", [_two_points, _beta, _rare])
def test_betting_holds_for_any_law(law):
    """On 2,000 samples of laws whose mean is the level: below d as often as d, with a binomial margin; and it does find what is below."""
    rng, level, d, n = np.random.default_rng(1), 0.1, 0.1, 150
    losses = law(rng, (2000, n), level).astype(float)
    p = np.array([bounds.betting(level - row, 1.0, level * (1 - level), d) for row in losses])
    assert (p <= d).sum() <= binom.ppf(0.9999, 2000, d)
    better = law(rng, (200, n), level / 4).astype(float)
    found = np.array([bounds.betting(level - row, 1.0, level * (1 - level), d) for row in better])
    assert (found <= d).mean() > 0.9


def test_the_compiled_sequence_is_the_plain_one():
    rng = np.random.default_rng(2)
    n, m, level, delta = 300, 12, 0.15, 0.1
    at = rng.random(n)
    losses = rng.random(n) * at
    cuts = np.linspace(0, 1, m)
    order = np.argsort(at)
    first = np.searchsorted(np.searchsorted(cuts, at[order]), np.arange(m + 1))
    own = np.zeros(m)
    own[[2, 6, 11]] = delta / 3
    p, rejected = sequence_of_tests(np.zeros(n), first, order, (level - losses)[order], own, 1.0, 0.1, delta)
    carried = 0.0
    for j, cut in enumerate(cuts):
        error, carried = own[j] + carried, 0.0
        if error == 0:
            assert p[j] == 1
            assert not rejected[j]
            continue
        plain = bounds.betting(np.where(at <= cut, level - losses, 0.0), 1.0, 0.1, delta, 1 / error)
        assert p[j] == pytest.approx(plain)
        assert rejected[j] == (plain <= error)
        carried = error if rejected[j] else 0.0
    assert rejected.any()
    assert not rejected.all()


@pytest.mark.parametrize("level", [0.02, 0.1, 0.4])
def test_errors_in_expectation(level):
    """A test at nine tenths of a level, with the error found, accepts binary laws so that their mean, if accepted, is at most the level."""
    low = 0.9 * level
    error = error_in_expectation(low, level)
    assert error > 0.1
    means = np.linspace(low, 1, 400)
    for n in (10, 50, 300, 2000):
        p = bounds.binomial(np.arange(n + 1), n, low)
        accepted = np.array([binom.pmf(np.arange(n + 1)[p <= error], n, t).sum() for t in means])
        k = np.log1p(-means[1:-1]) / np.log1p(-low)
        assert (accepted[1:-1] <= error**k + 1e-12).all()
        # the worst that any dependence of thresholds on data can do: mean t with the probability that t is accepted
        assert low + np.trapezoid(np.maximum.accumulate(accepted[::-1])[::-1], means) <= level + 1e-6


# -- promises ----------------------------------------------------------------------------------------------------------

PROMISES = [(None, "answers"), (None, "examples"), (0.9, "answers"), (0.8, "examples")]


@pytest.mark.parametrize("name", ["labels/abstain", "costs/set", "grades/set", "sets/parts", "tags/parts", "ndcg/set"])
@pytest.mark.parametrize(("confidence", "over"), PROMISES)
@pytest.mark.parametrize("bound", ["auto", "hoeffding-bentkus"])
def test_promises_are_kept(name, confidence, over, bound):
    """Calibration examples drawn from a finite population, whose risk at each threshold is known: violated no more often than promised."""
    steps = read(name)[2]
    if confidence is None and search.is_monotone(steps, Promise(0, None, over)) and bound != "auto":
        pytest.skip("conformal risk control takes no bound")
    if not steps.partial and over == "examples":
        pytest.skip("all is answered")
    cost, amount = (
        np.array([v.mean() for v in pair]) for pair in zip(*map(steps.at_threshold, (np.inf, -np.inf)), strict=True)
    )
    full = cost[0 if steps.rising else 1] / (amount.max() if steps.partial else 1)
    level = 0.6 * full + 0.4 * cost.min() if not steps.partial else 0.75 * full
    promise, draws, n = Promise(level, confidence, over, bound), 120, 150
    rng, risks, found = np.random.default_rng(3), [], 0
    cuts = grid(read(name)[0].top, 300)
    for _ in range(draws):
        rows = rng.integers(0, len(steps), n)
        choice = search.search(drawn(steps, rows), promise, cuts)
        if choice is None:
            risks.append(0.0)
            continue
        found += 1
        c, a = steps.at_threshold(choice.thresholds[choice.best])
        risks.append(c.mean() / (a.mean() if steps.partial and over == "answers" else 1))
    if confidence is None:
        assert np.mean(risks) <= level + 3 * np.std(risks) / np.sqrt(draws)
    else:
        assert (np.array(risks) > level + 1e-9).sum() <= binom.ppf(0.9999, draws, 1 - confidence)
    assert found > (-1 if bound != "auto" else 0 if steps.partial else draws / 2)


def drawn(steps, rows):
    """Examples drawn with repetition, as examples of their own."""
    some = [steps.take(np.array([i])) for i in rows]
    parts = {
        f: np.concatenate([getattr(s, f) for s in some])
        for f in ("cost", "amount", "at", "dcost", "damount", "weights")
    }
    row = np.repeat(np.arange(len(rows)), [len(s.row) for s in some])
    return Steps(
        row=row, **parts, **{f: getattr(steps, f) for f in ("rising", "partial", "low", "high", "whole", "binary")}
    )


def test_sets_for_zero_one_loss_are_mapies():
    pytest.importorskip("mapie")
    from mapie.classification import SplitConformalClassifier

    rng = np.random.default_rng(4)
    X, v = _points(rng, 900)
    y = np.digitize(v, [-1, 0, 1])
    model = LogisticRegression().fit(X[:300], y[:300])
    ours = tl.RiskController(model, "zero-one", 0.1, knob="set").calibrate(X[300:600], y[300:600]).predict(X[600:])
    peer = SplitConformalClassifier(model, confidence_level=0.9, conformity_score="lac", prefit=True)
    sets = peer.conformalize(X[300:600], y[300:600]).predict_set(X[600:])[1][:, :, 0]
    theirs = [set(np.flatnonzero(row).tolist()) for row in sets]
    assert sum(map(len, theirs)) > 600
    assert all(a == b for a, b in zip(ours, theirs, strict=True) if b)  # MAPIE's may be empty, ours have the best label


def test_supersets_for_recall_are_mapies():
    pytest.importorskip("mapie")
    from mapie.risk_control import MultiLabelClassificationController

    rng = np.random.default_rng(5)
    X, _ = _points(rng, 900)
    y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(900, 4)) > 0.3).astype(int)
    some = y.sum(1) > 0  # MAPIE's condition
    X, y = X[some], y[some]
    model = tl.MultilabelClassifier().fit(X[:200], y[:200])
    cuts = np.arange(0, 1, 0.01)
    ours = tl.RiskController(model, "recall", 0.1, predict_params=cuts).calibrate(X[200:500], y[200:500])
    peer = MultiLabelClassificationController(lambda X: model.predict_proba(X), target_level=0.9, predict_params=cuts)
    theirs = peer.calibrate(X[200:500], y[200:500])
    assert ours.best_predict_param_ == pytest.approx(theirs.best_predict_param[0])
    np.testing.assert_array_equal(ours.predict(X[500:]), theirs.predict(X[500:])[:, :, 0])


# -- the face ----------------------------------------------------------------------------------------------------------


@every_case
def test_calibrated_models_answer_and_are_stored(name):
    model, loss, word, X, y, params = case(name)
    steps = read(name)[2]
    cost, amount = steps.at_threshold(np.inf if steps.rising else -np.inf)
    full = cost.mean() / (amount.mean() if steps.partial else 1)
    level = min(full + 0.85 * (steps.high - full), 0.95 * steps.high)
    controller = tl.RiskController(model, loss, float(level), knob=word)
    assert "level" in repr(clone(controller))
    controller.calibrate(X, y, **params)
    risk, amount, n = controller.evaluate(X, y, **params)
    assert risk == pytest.approx(controller.risk_) == pytest.approx(min(risk, level))
    assert amount == pytest.approx(controller.amount_)
    assert n == controller.n_calibration_ == len(steps)
    assert f"{level:g}" in controller.summary()
    again = pickle.loads(pickle.dumps(controller))
    assert repr(again.predict(X, **params)) == repr(controller.predict(X, **params))


def test_auto_chooses_by_output_and_loss():
    chosen = {
        **{"labels": "AbstainFromLabels", "grades": "Intervals", "kernel": "AbstainFromRows", "sets": "SomeLabels"},
        **{"recall": "LabelSupersets", "f": "AbstainFromLabels", "tags": "SomePositions", "spans": "SomeSpans"},
        **{
            "sequences": "AbstainFromSequences",
            "ndcg": "Shortlists",
            "precision": "SomeItems",
            "matchings": "SomeRows",
        },
    }
    for kind, knob in chosen.items():
        model, loss, _, X, y, params = case(f"{kind}/auto")
        assert type(tl.RiskController(model, loss)._steps(X, y, None, params)[0]).__name__ == knob


def test_weights_of_zero_are_no_examples_and_units_do_not_matter():
    model, loss, _, X, y, _ = case("labels/abstain")
    rng = np.random.default_rng(6)
    heavy = rng.random(len(y)) < 0.7
    make = lambda: tl.RiskController(model, loss, 0.25, over="examples")  # noqa: E731
    dropped = make().calibrate(X[heavy], y[heavy])
    weighted = make().calibrate(X, y, sample_weight=3.0 * heavy)
    assert weighted.best_predict_param_ == dropped.best_predict_param_
    assert weighted.n_calibration_ == heavy.sum()
    uneven = rng.uniform(0.5, 2, len(y))
    for confidence in (None, 0.8):
        one, other = (
            tl.RiskController(model, loss, 0.7, confidence).calibrate(X, y, sample_weight=w)
            for w in (uneven, 9 * uneven)
        )
        assert one.best_predict_param_ == other.best_predict_param_
        assert one.risk_ == pytest.approx(one.evaluate(X, y, sample_weight=uneven).risk)


def test_labels_that_no_fit_has_seen_count_by_the_largest_loss():
    model, _, _, X, y, _ = case("costs/set")
    odd = y.astype(object).copy()
    odd[:20] = "new"
    steps = tl.RiskController(model, knob="set")._steps(X, odd, None, {})[1]
    assert (steps.cost[:20] == 5).all()
    steps = tl.RiskController(model, knob="abstain")._steps(X, odd, None, {})[1]
    worst = np.array([[0, 1, 4], [5, 0, 1], [2, 2, 0]]).max(1)
    assert np.isin(steps.dcost[:20], worst).all()


def test_tuned_taggers_are_controlled_by_their_own_loss():
    X, y = _sequences(np.random.default_rng(0))
    tuned = tl.TunedDecisionCV(case("tags/parts")[0], "entity-f", cv="prefit").fit(X[60:90], y[60:90])
    controller = tl.RiskController(tuned, target_level=tuned.loss_.spurious[0] * 0.9).calibrate(X[90:], y[90:])
    assert type(controller.knob_).__name__ == "SomeSpans"
    assert controller.knob_.loss == tuned.loss_


REFUSED = [
    (dict(target_level="a"), "target_level must be a finite number"),
    (dict(target_level=0.0), "target_level must be above 0, the least that ZeroOne"),
    (dict(target_level=1.5), "target_level must be below 1, the most that ZeroOne"),
    (dict(target_level=0.001), "target_level=0.001 cannot be promised from 200 calibration examples: .* it takes"),
    (dict(target_level=0.02, confidence_level=0.9), "cannot be promised at any threshold"),
    (dict(confidence_level=1.0), "confidence_level must be between 0 and 1"),
    (dict(knob="cut"), "knob must be one of"),
    (dict(knob="parts"), "knob='parts' is not for CostSensitiveClassifier with ZeroOne.*'abstain', 'set'"),
    (dict(over="all"), "over must be one of"),
    (dict(bound="normal"), "bound must be one of"),
    (dict(predict_params=[[0.1]]), "predict_params must be a list of finite numbers"),
    (dict(bounds=(1, 0)), "bounds must be the least and the largest loss"),
    (dict(bounds=(0, 0.5), target_level=0.3), "do not hold: losses go from 0 to 1"),
    (dict(loss="hamming"), "needs labels of another kind"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_cannot_be_promised_is_refused(given, sentence):
    model, _, _, X, y, _ = case("labels/abstain")
    with pytest.raises(ValueError, match=sentence):
        tl.RiskController(model, **given).calibrate(X, y)


def test_data_that_promise_nothing_are_refused():
    model, _, _, X, y, _ = case("labels/abstain")
    controller = tl.RiskController(model, target_level=0.3)
    with pytest.raises(NotFittedError, match="call calibrate"):
        controller.predict(X)
    for bad, sentence in [
        ((X[:0], y[:0]), "X holds no calibration examples"),
        ((X, None), "y must hold the labels"),
        ((X, y[:5]), "different lengths"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            controller.calibrate(*bad)
    with pytest.raises(ValueError, match="estimator must be a fitted model"):
        tl.RiskController().calibrate(X, y)
    with pytest.raises(NotFittedError):
        tl.RiskController(tl.CostSensitiveClassifier()).calibrate(X, y)
    tagger, _, _, X, y, _ = case("tags/parts")
    with pytest.raises(ValueError, match="has no bound, as sequences may be of any length"):
        tl.RiskController(tagger, tl.losses.ChainHamming(normalise=False), knob="abstain").calibrate(X, y)
    ranker, _, _, X, y, _ = case("ndcg/set")
    with pytest.raises(ValueError, match="pass groups"):
        tl.RiskController(ranker).calibrate(X, y)
    with pytest.raises(ValueError, match="the largest answers lose"):
        tl.RiskController(ranker, target_level=0.02).calibrate(X, y, **case("ndcg/set")[5])
    X, y = np.arange(8.0)[:, None], np.array(["a", "bb"] * 4)
    function = tl.KernelPredictor(lambda z, y: abs(len(z) - len(y)), alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match=r"give bounds=\(least, largest\)"):
        tl.RiskController(function).calibrate(X, y)
    assert tl.RiskController(function, target_level=0.9, over="examples", bounds=(0, 1)).calibrate(X, y).risk_ <= 0.9


@pytest.mark.parametrize(
    ("noise", "n", "sentence"),
    [
        (0.5, 2000, r"answers to 5% or more of what is asked lose 0\.[45]"),
        (0.1, 60, "of what is asked the 60 calibration examples have that loss, but too few of them"),
    ],
)
def test_a_refusal_says_what_is_missing(noise, n, sentence):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000 + n, 1))
    y = np.where(rng.random(len(x)) < noise, x[:, 0] < 0, x[:, 0] > 0).astype(int)
    model = tl.CostSensitiveClassifier().fit(x[:1000], y[:1000])
    with pytest.raises(ValueError, match=sentence):
        tl.RiskController(model, target_level=0.2, confidence_level=0.99).calibrate(x[1000:], y[1000:])


def test_the_level_of_a_test_is_that_of_its_promise():
    steps = read("labels/abstain")[2]
    assert aim(steps, Promise(0.1, 0.9)) == (0.1, pytest.approx(0.1))
    level, error = aim(steps, Promise(0.1))
    assert level == pytest.approx(0.09)
    assert 0.1 < error < 0.3


def test_the_picture_is_what_was_found():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    model, _, _, X, y, _ = case("labels/abstain")
    controller = tl.RiskController(model, target_level=0.6, confidence_level=0.8).calibrate(X, y)
    display = controller.plot()
    np.testing.assert_array_equal(display.axes_[0, 0].lines[0].get_ydata(), controller.risks_)
    np.testing.assert_array_equal(display.axes_[1, 0].lines[0].get_ydata(), controller.amounts_)
    assert display.valid.sum() == len(controller.valid_predict_params_) > 0
    matplotlib.pyplot.close("all")
