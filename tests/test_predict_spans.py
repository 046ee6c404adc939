"""Entities with the probability of the whole span, as a tagger reports them."""

import itertools

import numpy as np
import pytest

import taskloss as tl
from taskloss.data.spans import as_precise
from taskloss.polytopes._forest import Forest
from taskloss.polytopes._sum_product import cell_marginals, marginals
from test_spans import conlleval


def read_spans(labels):
    """(first, last, kind)."""
    return {(first, stop - 1, kind) for first, stop, kind in conlleval(labels, False)}


def test_marginals_at_some_cells_are_those_of_all_of_them():
    """Also where scores are so far apart that the compiled recursion hands a chain on."""
    rng, forest = np.random.default_rng(0), Forest.chains([3, 5, 1, 4])
    unary, pairwise = 2 * rng.normal(size=(13, 5)), 1.5 * rng.normal(size=(5, 5))
    unary[4] *= 400
    cells = np.array([[0, 2], [2, 2], [4, 1]])
    _, nodes, edges = marginals(forest, unary, pairwise)
    for compiled in (False, True):
        mu, at = cell_marginals(forest, unary, pairwise, cells, compiled=compiled)
        np.testing.assert_allclose(mu, nodes, atol=1e-12)
        np.testing.assert_allclose(at, edges[:, cells[:, 0], cells[:, 1]], atol=1e-12)


def test_as_many_as_are_precise_enough():
    rng = np.random.default_rng(2)
    for n in range(8):
        p = rng.random(n)
        ordered = np.sort(p)[::-1]
        kept = as_precise(p, 0.6)
        assert len(kept) == max([m for m in range(n + 1) if m == 0 or ordered[:m].mean() >= 0.6])
        assert sorted(p[kept], reverse=True) == ordered[: len(kept)].tolist()


def sentences(rng, count):
    """Words of three kinds that say, with noise, which entity they belong to."""
    X, y = [], []
    for _ in range(count):
        row = []
        while len(row) < 9:
            kind = rng.choice(["A", "B", "O"], p=[0.25, 0.25, 0.5])
            row += ["O"] if kind == "O" else [f"B-{kind}"] + [f"I-{kind}"] * int(rng.integers(0, 3))
        y.append(row)
        X.append(
            [
                [f"w{label[-1]}" if rng.random() < 0.8 else "w?", f"p{label[0]}" if rng.random() < 0.6 else "p?"]
                for label in row
            ]
        )
    return X, y


@pytest.fixture(scope="module")
def tagger():
    X, y = sentences(np.random.default_rng(3), 300)
    return tl.SequenceTagger().fit(X, y)


def test_a_tagger_reports_the_spans_of_its_labels(tagger):
    X, _ = sentences(np.random.default_rng(4), 40)
    labels, spans = tagger.predict(X), tagger.predict_spans(X)
    for row, found in zip(labels, spans, strict=True):
        assert {(s.start, s.end - 1, s.label) for s in found} == read_spans(row.tolist())
    best, drawn = tagger.predict_best(X[:1], 3000), spans[0]
    mass = np.exp(best[0][0])
    assert mass.sum() > 0.999
    for span in drawn:
        held = [(span.start, span.end - 1, span.label) in read_spans(row.tolist()) for row in best[1][0]]
        assert span.probability == pytest.approx(mass[held].sum(), abs=2e-3)


def test_probabilities_are_the_shares_of_spans_that_are_right(tagger):
    """Data of the law itself, drawn from the tagger: in bins of probability, as many are right as it says."""
    X, _ = sentences(np.random.default_rng(5), 600)
    truth = [{*read_spans(row[0].tolist())} for row in tagger.sample(X, 1, random_state=0)]
    found = tagger.predict_spans(X, threshold=0.05)
    pairs = [
        ((s.start, s.end - 1, s.label) in gold, s.probability)
        for gold, spans in zip(truth, found, strict=True)
        for s in spans
    ]
    right, p = np.array(pairs, dtype=float).T
    for low, high in itertools.pairwise([0.05, 0.2, 0.4, 0.6, 0.8, 1.0]):
        bin_ = (p >= low) & (p <= high)
        assert abs(right[bin_].mean() - p[bin_].mean()) < 4 * np.sqrt(0.25 / bin_.sum())


def test_thresholds_by_cost_and_precision(tagger):
    X, _ = sentences(np.random.default_rng(6), 100)
    sure = tagger.predict_spans(X, threshold=0.8)
    assert sure == tagger.predict_spans(X, costs=(4, 1))
    assert all(span.probability >= 0.8 for row in sure for span in row)
    assert sum(map(len, sure)) < sum(map(len, tagger.predict_spans(X, threshold=0.3)))
    for row in tagger.predict_spans(X, threshold=0.1):
        assert all(a.end <= b.start for a, b in itertools.pairwise(row))
    precise = [s.probability for row in tagger.predict_spans(X, precision=0.9) for s in row]
    everything = sorted((s.probability for row in tagger.predict_spans(X, threshold=0.5) for s in row), reverse=True)
    assert np.mean(precise) >= 0.9
    assert len(precise) == len(everything) or np.mean(everything[: len(precise) + 1]) < 0.9
    assert tagger.predict_spans(X, "IOB2") == tagger.predict_spans(X, "BIO")
    packed = tl.Packed(*tagger.reader_.read(X))
    assert tagger.predict_spans(packed) == tagger.predict_spans(X)


def test_a_precision_kept_on_held_out_sentences(tagger):
    """The spans that a controller leaves are those above its threshold, and as many of them are right as it promises."""
    X, _ = sentences(np.random.default_rng(9), 1500)
    y = [row[0] for row in tagger.sample(X, 1, random_state=1)]
    safe = tl.RiskController(tagger, tl.losses.SpanCosts(), 0.1, 0.9).calibrate(X[:1000], y[:1000])
    left = tagger.predict_spans(X[1000:], threshold=max(0.5, 1 - safe.best_predict_param_))
    for tags, spans in zip(safe.predict(X[1000:]), left, strict=True):
        assert {(s.start, s.end - 1, s.label) for s in spans} == read_spans(tags.tolist())
    right = [
        (s.start, s.end - 1, s.label) in read_spans(row.tolist())
        for row, spans in zip(y[1000:], left, strict=True)
        for s in spans
    ]
    assert np.mean(right) > 0.88
    assert len(right) < sum(map(len, tagger.predict_spans(X[1000:], threshold=0.5)))


def test_ignored_labels_are_not_observed_and_do_not_count():
    X, y = sentences(np.random.default_rng(7), 60)
    rng = np.random.default_rng(8)
    hidden = [[-100 if rng.random() < 0.3 else label for label in row] for row in y]
    none = [[None if label == -100 else label for label in row] for row in hidden]
    ours = tl.SequenceTagger(ignore_label=-100, tol=1e-8).fit(X, hidden)
    theirs = tl.SequenceTagger(tol=1e-8).fit(X, none)
    np.testing.assert_array_equal(ours.theta_, theirs.theta_)
    assert "-100" not in map(str, ours.classes_)
    z = ours.predict(X)
    losses = [
        np.mean([a != b for a, b in zip(p, row, strict=True) if b != -100] + [False] * row.count(-100))
        for p, row in zip(z, hidden, strict=True)
    ]
    assert ours.score(X, hidden) == pytest.approx(-np.mean(losses))
    with pytest.raises(ValueError, match="missing labels"):
        ours.score(X, none)


def numbered():
    X, _ = sentences(np.random.default_rng(3), 20)
    return tl.SequenceTagger().fit(X, [[i % 2 for i in range(len(x))] for x in X]).predict_spans(X)


BAD = {
    "scheme": (
        lambda t, X: t.predict_spans(X, "IOB1"),
        "no scheme of spans named 'IOB1'; choose one of: BIO, IO, BIOES, BILOU",
    ),
    "other scheme": (lambda t, X: t.predict_spans(X, "IO"), "tag 'B-A' is not of the scheme IO"),
    "no spans": (lambda t, X: numbered(), "is not of the scheme BIO"),
    "threshold": (
        lambda t, X: t.predict_spans(X, threshold=0),
        "threshold must be a probability, above zero and at most one, got 0",
    ),
    "precision": (
        lambda t, X: t.predict_spans(X, precision=1.5),
        "precision must be a probability, above zero and at most one, got 1.5",
    ),
    "costs": (lambda t, X: t.predict_spans(X, costs=(1, 0)), "costs must be two numbers above zero"),
    "ignored": (
        lambda t, X: tl.SequenceTagger(ignore_label=np.zeros((2, 2))).fit(X, [["O"] * len(x) for x in X]),
        "ignore_label must be a label",
    ),
    "two ways": (
        lambda t, X: t.predict_spans(X, threshold=0.5, precision=0.9),
        "one of threshold, costs and precision",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name, tagger):
    call, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        call(tagger, sentences(np.random.default_rng(3), 2)[0])
