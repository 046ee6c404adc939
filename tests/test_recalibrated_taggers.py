"""Taggers recalibrated: laws of the map of scores, against enumeration, and every answer that goes through it."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.special import logsumexp

import taskloss as tl
from taskloss.hypotheses.structured import NodeEdgeScores
from taskloss.objectives import Forests
from taskloss.objectives.rescaling import METHODS, Rescaling, Scored, choose, cross_fitted, rescale, split
from taskloss.polytopes._forest import Forest
from taskloss.surrogates import MaxEntropy

TAGS = ["B-x", "I-x", "O"]


def drawn(rng, count, noise=0.6):
    """Rows of numbers, and tags that depend on them and on their neighbours."""
    X, y = [], []
    for _ in range(count):
        length = int(rng.integers(1, 7))
        tags = ["O"]
        for _ in range(length):
            tags.append(str(rng.choice(["I-x", "O"] if tags[-1] != "O" else ["B-x", "O"])))
        y.append(tags[1:])
        X.append(
            np.array([[TAGS.index(t) == 0, TAGS.index(t) == 1, 1.0] for t in tags[1:]])
            + noise * rng.normal(size=(length, 3))
        )
    return X, y


@pytest.fixture(scope="module")
def data():
    return drawn(np.random.default_rng(0), 400)


@pytest.fixture(scope="module")
def tagger(data):
    return tl.SequenceTagger(alpha=1e-6).fit(data[0][:15], data[1][:15])


@pytest.fixture(scope="module", params=["temperature", "vector"])
def recalibrated(request, data, tagger):
    return tl.Recalibrated(tagger, request.param).fit(data[0][40:], data[1][40:])


def scored_examples(rng, sizes=(1, 3, 2, 4), k=3, scale=1.0, shared=True, weights=None):
    """Random scores, and labels drawn from the law of `scale` times these."""
    forest = Forest.chains(sizes)
    nodes = 2 * rng.normal(size=(forest.n_nodes, k))
    edges = rng.normal(size=(k, k) if shared else (forest.n_edges, k, k))
    codes = []
    for i in range(len(sizes)):
        rows, score = enumerated(nodes, edges, forest, i, scale)
        codes.append(rows[rng.choice(len(rows), p=np.exp(score - logsumexp(score)))])
    weights = np.full(len(sizes), 1 / len(sizes)) if weights is None else weights
    risk = Forests(MaxEntropy(), forest, np.concatenate(codes), weights, k, part=True)
    return Scored(risk, NodeEdgeScores(nodes, edges), np.arange(k), k)


def enumerated(nodes, edges, forest, i, scale=1.0):
    """All labellings of one chain, and their scores."""
    first, stop = forest.offsets[i], forest.offsets[i + 1]
    rows = np.array(list(itertools.product(range(nodes.shape[1]), repeat=int(stop - first))))
    score = nodes[np.arange(first, stop), rows].sum(1)
    for t in range(stop - first - 1):
        table = edges if edges.ndim == 2 else edges[first - i + t]
        score = score + table[rows[:, t], rows[:, t + 1]]
    return rows, scale * score


@pytest.mark.parametrize("shared", [True, False])
def test_the_risk_of_a_map_and_its_slope_are_those_of_enumeration(shared):
    rng = np.random.default_rng(1)
    scored = scored_examples(rng, shared=shared, weights=np.array([0.1, 0.2, 0.3, 0.4]))
    theta = np.array([0.7, 1.4, 0.3, -0.2, 0.5])

    def value(theta):
        v = Rescaling(theta[0], theta[1], theta[2:])(scored.scores)
        forest, total = scored.risk.forest, 0.0
        for i, weight in enumerate(scored.risk.weights):
            rows, score = enumerated(v.nodes, v.edges, forest, i)
            seen = (rows == scored.risk.codes[forest.offsets[i] : forest.offsets[i + 1]]).all(1)
            total += weight * (logsumexp(score) - score[seen][0])
        return total

    found, gradient = scored.value_and_gradient(theta)
    assert found == pytest.approx(value(theta), abs=1e-10)
    for j, step in enumerate(1e-5 * np.eye(5)):
        assert gradient[j] == pytest.approx((value(theta + step) - value(theta - step)) / 2e-5, abs=1e-7)


def test_of_labels_of_the_law_itself_the_temperature_is_near_one():
    rng = np.random.default_rng(2)
    for scale in (1.0, 0.5, 2.0):
        scored = scored_examples(rng, sizes=(3,) * 2000, scale=scale)
        found = rescale("temperature", [scored])
        assert found.nodes == found.edges == pytest.approx(scale, rel=0.1)
        theta = np.array([found.nodes, found.edges, 0.0, 0.0, 0.0])
        assert abs(scored.value_and_gradient(theta)[1][:2].sum()) < 1e-5  # stationary


def test_maps_with_more_numbers_fit_better_and_parts_are_one():
    rng = np.random.default_rng(3)
    scored = scored_examples(rng, sizes=rng.integers(1, 5, 200), scale=0.6)
    values = {}
    for method in METHODS:
        found = rescale(method, [scored])
        theta = np.array([found.nodes, found.edges, *np.broadcast_to(found.offset, 3)])
        values[method] = scored.value_and_gradient(theta)[0]
        other = rescale(method, split(scored))
        np.testing.assert_allclose([other.nodes, other.edges], [found.nodes, found.edges], atol=1e-4)
        np.testing.assert_allclose(other.offset, found.offset, atol=1e-4)
    assert values["none"] > values["temperature"] > values["vector"]
    parts = split(scored)
    assert choose(parts) == min(METHODS, key=lambda method: cross_fitted(method, parts)) != "none"


def test_weights_count_as_repetitions():
    rng = np.random.default_rng(4)
    scored = scored_examples(rng, sizes=(2, 3, 1, 4) * 10, scale=0.7)
    twice = np.concatenate([np.arange(40), np.arange(7)])
    risk = scored.risk
    heavy = Forests(risk.surrogate, risk.forest, risk.codes, np.where(np.arange(40) < 7, 2.0, 1.0), 3)
    repeated = scored.take(twice)
    for method in ("temperature", "vector"):
        a, b = rescale(method, [scored._replace(risk=heavy)]), rescale(method, [repeated])
        np.testing.assert_allclose([a.nodes, a.edges], [b.nodes, b.edges], atol=1e-4)


def test_the_recalibrated_law_is_that_of_rescaled_scores(data, tagger, recalibrated):
    """Marginals, the likeliest labelling and spans by enumeration."""
    X = data[0][:20]
    examples = tagger._read(X)
    v = recalibrated.map_(tagger._free_scores(examples.inputs))
    marginals, spans = recalibrated.predict_marginals(X), recalibrated.predict_spans(X, threshold=1e-6)
    best = recalibrated.predict(X, "sequence-zero-one")
    for i, x in enumerate(X):
        rows, score = enumerated(v.nodes, v.edges, examples.forest, i)
        p = np.exp(score - logsumexp(score))
        np.testing.assert_allclose(
            marginals[i], [[p[rows[:, t] == s].sum() for s in range(3)] for t in range(len(x))], atol=1e-10
        )
        assert best[i].tolist() == tagger.classes_[rows[score.argmax()]].tolist()
        for span in spans[i]:
            inside = rows[:, span.start : span.end]
            after = rows[:, span.end] if span.end < len(x) else np.full(len(rows), 2)
            before = rows[:, span.start - 1] if span.start else np.full(len(rows), 2)
            begins = (inside[:, 0] == 0) | ((inside[:, 0] == 1) & (before == 2))
            held = begins & (inside[:, 1:] == 1).all(1) & (after != 1)
            assert span.probability == pytest.approx(p[held].sum(), abs=1e-10)


def test_a_temperature_keeps_the_likeliest_and_lowers_the_log_loss(data, tagger):
    found = tl.Recalibrated(tagger, "temperature").fit(data[0][40:], data[1][40:])
    fresh, tags = drawn(np.random.default_rng(9), 400)
    assert found.map_.nodes < 0.9  # fitted to few examples with next to no penalty, the tagger is too sure
    for a, b in zip(found.predict(fresh, "sequence-zero-one"), tagger.predict(fresh, "sequence-zero-one"), strict=True):
        assert (a == b).all()

    def log_loss(model):
        best = [
            model.predict_log_proba([x])[0][np.arange(len(t)), [model.classes_.tolist().index(s) for s in t]].sum()
            for x, t in zip(fresh, tags, strict=True)
        ]
        return -np.mean(best)

    assert log_loss(found) < log_loss(tagger)


def test_every_answer_comes_from_the_same_law(data, recalibrated):
    X, y = data[0][:60], data[1][:60]
    cost = tl.losses.ChainCost(np.array([[0, 1, 4], [1, 0, 2], [1, 3, 0]]))
    assert [row.tolist() for row in tl.decide(recalibrated, cost, X=X)] == [
        row.tolist() for row in recalibrated.predict(X, cost)
    ]
    least = [np.mean(1 - law.max(1)) for law in recalibrated.predict_proba(X)]
    np.testing.assert_allclose(recalibrated.expected_loss(X), least, atol=1e-12)
    assert recalibrated.score(X, y) == pytest.approx(-recalibrated.losses(X, y).mean())
    diagnosed = tl.diagnose(recalibrated, X, y)
    np.testing.assert_allclose(diagnosed.evidence.expected, recalibrated.expected_loss(X))
    safe = tl.RiskController(recalibrated, tl.losses.SpanCosts(), 0.6).calibrate(data[0], data[1])
    assert len(safe.predict(X)) == 60
    tuned = tl.TunedDecisionCV(recalibrated, tl.metrics.EntityF(), cv="prefit").fit(X, y)
    assert len(tuned.predict(X)) == 60
    again = tl.Recalibrated(recalibrated, "temperature").fit(data[0][40:], data[1][40:])
    assert again.map_.nodes == pytest.approx(1.0, abs=0.02)  # there is nothing left to recalibrate
    draws = recalibrated.sample(X[:1], 2000, random_state=0)[0]
    share = [(draws == tag).mean(0) for tag in recalibrated.classes_]
    np.testing.assert_allclose(np.transpose(share), recalibrated.predict_proba(X[:1])[0], atol=0.06)
    log_p, best = recalibrated.predict_best(X[:1], 1)
    assert best[0][0].tolist() == recalibrated.predict(X[:1], "sequence-zero-one")[0].tolist()
    assert log_p[0, 0] <= 0


def test_models_are_stored_with_their_map(data, recalibrated, tmp_path):
    X = data[0][:10]
    tl.model_files.save(recalibrated, tmp_path / "model.skops")
    for other in (pickle.loads(pickle.dumps(recalibrated)), tl.model_files.load(tmp_path / "model.skops")):
        assert other.predict_spans(X, threshold=0.2) == recalibrated.predict_spans(X, threshold=0.2)


def test_out_of_fold_sentences_recalibrate_the_fit_to_all():
    """Also where a fold lacks a tag, whose sentences do not count for its map."""
    X, y = drawn(np.random.default_rng(5), 90)
    y[7] = ["I-rare"] * len(y[7])
    found = tl.Recalibrated(tl.SequenceTagger(alpha=1e-5), "vector", cv=3).fit(X, y)
    assert "I-rare" in found.classes_.tolist()
    assert found.map_.offset.shape == (4,)
    whole = tl.SequenceTagger(alpha=1e-5).fit(X, y)
    np.testing.assert_allclose(found.estimator_.theta_, whole.theta_)
    assert found.map_.nodes < 1
    weighted = tl.Recalibrated(tl.SequenceTagger(alpha=1e-5), "temperature", cv=3).fit(X, y, np.full(90, 3.0))
    plain = tl.Recalibrated(tl.SequenceTagger(alpha=1e-5), "temperature", cv=3).fit(X, y)
    assert weighted.map_.nodes == pytest.approx(plain.map_.nodes, rel=1e-4)
    packed = tl.Packed(np.concatenate(X), np.cumsum([0] + [len(x) for x in X]))
    same = tl.Recalibrated(tl.SequenceTagger(alpha=1e-5), "temperature", cv=3).fit(packed, np.concatenate(y))
    assert same.map_.nodes == pytest.approx(plain.map_.nodes, rel=1e-6)


def test_trees_pipelines_missing_labels_and_what_is_forbidden(data):
    X, y = data[0][:80], data[1][:80]
    parents = [np.arange(len(x)) - 1 for x in X]
    trees = tl.Recalibrated(tl.TreeTagger(alpha=1e-4), "temperature", cv=2).fit(X, y, parents=parents)
    chains = tl.Recalibrated(tl.SequenceTagger(alpha=1e-4), "temperature", cv=2).fit(X, y)
    assert trees.map_.nodes == pytest.approx(chains.map_.nodes, rel=1e-5)
    assert len(trees.predict(X, parents=parents)) == 80
    assert not hasattr(trees, "predict_spans")
    forbidden = tl.SequenceTagger(alpha=1e-4, forbidden=[("O", "I-x"), (None, "I-x")]).fit(X[:40], y[:40])
    holes = [[None if i % 3 == 0 else t for i, t in enumerate(row)] for row in y[40:]]
    found = tl.Recalibrated(forbidden, "temperature").fit(X[40:], holes)
    assert all(a != "O" or b != "I-x" for row in found.predict(X) for a, b in itertools.pairwise(["O", *row]))
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(tl.SequenceTagger(), {"alpha": [1e-4, 1e-2]}, cv=2).fit(X[:40], y[:40])
    assert len(tl.Recalibrated(search, "temperature").fit(X[40:], y[40:]).predict_spans(X, threshold=0.5)) == 80


@pytest.mark.parametrize(
    "bad",
    [
        "method",
        "surrogate",
        "one",
        "held",
        "empty",
        "lengths",
        "label",
        "forbidden",
        "tuned",
        "prior",
        "cv",
        "frozen",
        "spans",
    ],
)
def test_what_cannot_be_is_refused(bad, data, tagger):
    from sklearn.frozen import FrozenEstimator

    X, y = data[0][:30], data[1][:30]
    quadratic = tl.SequenceTagger(surrogate="quadratic").fit(X, y)
    strict = tl.SequenceTagger(forbidden=[("O", "I-x"), (None, "I-x")]).fit(X, y)
    call, sentence = {
        "method": (
            lambda: tl.Recalibrated(tagger, "isotonic").fit(X, y),
            "method must be 'auto' or one of .* for a tagger",
        ),
        "surrogate": (
            lambda: tl.Recalibrated(quadratic).fit(X, y),
            "fits moments and no law over whole labellings: to recalibrate it",
        ),
        "one": (lambda: tl.Recalibrated(tagger).fit(X[:1], y[:1]), "at least two examples, and X has 1"),
        "held": (
            lambda: tl.Recalibrated(tagger, cv=[(np.arange(29), np.arange(29, 30))]).fit(X, y),
            "at least two examples that are held out",
        ),
        "empty": (lambda: tl.Recalibrated(tagger).fit([], []), "at least two examples, and X has 0"),
        "lengths": (lambda: tl.Recalibrated(tagger).fit(X, y[:-1]), "different lengths: 30 and 29"),
        "label": (lambda: tl.Recalibrated(tagger).fit([X[0]] * 2, [["new"] * len(X[0])] * 2), "Unknown label 'new'"),
        "forbidden": (lambda: tl.Recalibrated(strict).fit([X[0]] * 2, [["I-x"] * len(X[0])] * 2), "forbidden|never"),
        "tuned": (
            lambda: tl.Recalibrated(tl.TunedDecisionCV(tagger, tl.metrics.EntityF(), cv="prefit").fit(X, y)).fit(X, y),
            "Recalibrate the tagger, and tune the decisions",
        ),
        "prior": (
            lambda: tl.Recalibrated(tagger).fit(X, y).predict(X, class_prior=[1, 1, 1]),
            "a tagger predicts sequences",
        ),
        "cv": (
            lambda: tl.Recalibrated(tagger, cv="folds").fit(X, y),
            "cv must be folds, a share that is held out, or 'prefit'",
        ),
        "frozen": (
            lambda: tl.Recalibrated(FrozenEstimator(tagger), cv=2).fit(X, y),
            "a FrozenEstimator is not fitted again",
        ),
        "spans": (lambda: tl.Recalibrated(tagger).predict_spans(X), "not fitted"),
    }[bad]
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
