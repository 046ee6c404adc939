"""Spans of tag sequences: read, their probabilities, and the sets of least expected cost, against enumeration."""

import itertools

import numpy as np
import pytest

import taskloss as tl
from taskloss.losses.spans import Scheme, SpanCosts, law_spans
from taskloss.polytopes._forest import Forest, Limits
from taskloss.polytopes._spans import Spans, best_spans, likely_spans, probabilities_of
from taskloss.polytopes._sum_product import cell_marginals

TAGS = {
    "BIO": ["B-a", "B-b", "I-a", "I-b", "O"],
    "BIOES": ["B-a", "E-a", "I-a", "S-a", "O"],
    "BILOU": ["B-a", "I-a", "L-a", "O", "U-a"],
    "IO": ["I-a", "I-b", "I-c", "I-d", "O"],
}


def conlleval(tags, bioes):
    """Spans (first, stop, kind) by conlleval's own rules for ends and starts, written out case by case."""
    found, start, kind = [], None, None
    before, last = "O", ""
    for i, tag in enumerate([*tags, "O"]):
        now, _, what = tag.partition("-")
        now = {"L": "E", "U": "S"}.get(now, now) if bioes else now
        ends = before != "O" and (now in "BSO" or before in "ES" or what != last)
        starts = now != "O" and (now in "BS" or before in "ESO" or what != last)
        if ends:
            found.append((start, i, kind))
        if starts:
            start, kind = i, what
        before, last = now, what
    return found


def scheme_of(name):
    return Scheme(TAGS[name], name)


@pytest.mark.parametrize("name", TAGS)
def test_spans_are_conllevals(name):
    scheme = scheme_of(name)
    sequences = list(itertools.product(range(5), repeat=3))
    forest = Forest.chains([3] * len(sequences))
    spans = scheme.spans(forest, np.array(sequences).ravel())
    ours = {(f // 3, f % 3, s - f, scheme.kinds[k]) for f, s, k in zip(*map(np.ndarray.tolist, spans), strict=True)}
    theirs = {
        (i, first, stop - first, kind)
        for i, codes in enumerate(sequences)
        for first, stop, kind in conlleval([TAGS[name][c] for c in codes], name in ("BIOES", "BILOU"))
    }
    assert ours == theirs


def law_of(unary, pairwise):
    """All labellings of one chain and their probabilities."""
    t, k = unary.shape
    labellings = np.array(list(itertools.product(range(k), repeat=t)))
    score = unary[np.arange(t), labellings].sum(1) + pairwise[labellings[:, :-1], labellings[:, 1:]].sum(1)
    p = np.exp(score - score.max())
    return labellings, p / p.sum()


@pytest.mark.parametrize("name", TAGS)
def test_probabilities_of_spans_equal_enumeration(name):
    rng, scheme = np.random.default_rng(0), scheme_of(name)
    lengths = [4, 1, 5]
    forest = Forest.chains(lengths)
    unary, pairwise = 2 * rng.normal(size=(10, 5)), rng.normal(size=(5, 5))
    ((_, spans, q),) = law_spans(forest, unary.copy(), pairwise, scheme, 1e-15)
    ours = dict(zip(zip(*map(np.ndarray.tolist, spans), strict=True), q, strict=True))
    truth: dict = {}
    for i in range(len(lengths)):
        some = slice(forest.offsets[i], forest.offsets[i + 1])
        labellings, law = law_of(unary[some], pairwise)
        for codes, p in zip(labellings, law, strict=True):
            for f, s, k in zip(*scheme.spans(Forest.chains([len(codes)]), codes), strict=True):
                key = (int(f + some.start), int(s + some.start), int(k))
                truth[key] = truth.get(key, 0.0) + p
    assert ours.keys() == truth.keys()
    np.testing.assert_allclose([ours[key] for key in truth], list(truth.values()), atol=1e-12)
    # Given spans, and those of at least some probability, each way of writing them counted.
    law = forest, *cell_marginals(forest, unary, pairwise, scheme.tags.pairs), scheme.tags
    given = Spans(*np.array(list(truth)).T)
    np.testing.assert_allclose(probabilities_of(given, *law), list(truth.values()), atol=1e-12)
    for least, compiled in itertools.product((1e-4, 0.05, 0.5), (False, True)):
        found, q = likely_spans(*law, least, compiled=compiled)
        named = dict(zip(zip(*map(np.ndarray.tolist, found), strict=True), q, strict=True))
        expected = {key: p for key, p in truth.items() if p >= least}
        assert named.keys() == expected.keys()
        np.testing.assert_allclose([named[key] for key in expected], list(expected.values()), atol=1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        SpanCosts(2.0, 1.0, labels=["B-a", "I-a", "O"]),
        SpanCosts([3.0, 0.5], [0.2, 1.0], labels=TAGS["BIO"]),
        SpanCosts(6.0, 1.0, "BIOES", labels=TAGS["BIOES"]),
    ],
    ids=["even", "by kind", "recall"],
)
def test_decisions_have_the_least_expected_loss_of_all_labellings(loss):
    rng, k = np.random.default_rng(1), loss.n_labels
    t = 4 if k == 3 else 3
    for _ in range(4):
        unary, pairwise = 1.5 * rng.normal(size=(t, k)), rng.normal(size=(k, k))
        forest = Forest.chains([t])
        labellings, law = law_of(unary, pairwise)
        n = len(labellings)
        z, y = np.repeat(labellings, n, axis=0), np.tile(labellings, (n, 1))
        risks = loss(z, y).reshape(n, n) @ law
        z = loss.law_decode(forest, unary.copy(), pairwise, Limits())
        own = risks[(labellings == z).all(1)]
        np.testing.assert_allclose(loss.law_risk(forest, z, unary.copy(), pairwise), own, atol=1e-9)
        np.testing.assert_allclose(own, risks.min(), atol=1e-9)


def test_the_best_spans_equal_enumeration():
    rng = np.random.default_rng(2)
    for _ in range(200):
        first = rng.integers(0, 8, 9)
        spans = Spans(first, first + rng.integers(1, 5, 9), np.zeros(9, dtype=int))
        gains = rng.normal(0.3, 1, 9)
        chosen = best_spans(spans, gains)
        best = 0.0
        for r in range(1, 5):
            for some in itertools.combinations(range(9), r):
                pairs = itertools.combinations(some, 2)
                if all(spans.stop[a] <= spans.first[b] or spans.stop[b] <= spans.first[a] for a, b in pairs):
                    best = max(best, gains[list(some)].sum())
        pairs = itertools.combinations(np.flatnonzero(chosen), 2)
        assert all(spans.stop[a] <= spans.first[b] or spans.stop[b] <= spans.first[a] for a, b in pairs)
        assert gains[chosen].sum() >= best - 1e-12


def test_a_tagger_decides_spans_and_says_what_they_cost():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(6, 3)) for _ in range(60)]
    y = [[["O", "B-x", "I-x"][i] for i in np.argmax(x + 0.7 * rng.normal(size=x.shape), 1)] for x in X]
    tagger = tl.SequenceTagger().fit(X, y)
    many = SpanCosts(missed=10.0)
    few = SpanCosts(spurious=10.0)
    count = [sum(tag != "O" for row in tagger.predict(X, loss=loss) for tag in row) for loss in (many, few)]
    assert count[0] > count[1]
    expected = tagger.expected_loss(X, loss="span-costs")
    assert expected.shape == (60,)
    drawn = tagger.sample(X, 400, random_state=0)
    loss = SpanCosts(labels=tagger.classes_.tolist())
    code = {tag: i for i, tag in enumerate(tagger.classes_.tolist())}
    z = [[code[t] for t in row] for row in tagger.predict(X, loss="span-costs")]
    simulated = [
        loss(np.tile(a, (400, 1)), np.vectorize(code.get)(draws)).mean() for a, draws in zip(z, drawn, strict=True)
    ]
    assert np.abs(expected - simulated).mean() < 0.06


SENTENCES = {
    "scheme": (lambda: Scheme(["O", "B-a"], "IOB1"), "no scheme of spans named 'IOB1'"),
    "tag": (lambda: Scheme(["O", "PER"]), "'PER' is not of the scheme BIO"),
    "no spans": (lambda: Scheme(["O"]), "make no spans"),
    "cost": (lambda: fitted().predict(WORDS, loss=SpanCosts(missed=-1.0)), "missed must be finite costs"),
    "costs": (lambda: fitted().predict(WORDS, loss=SpanCosts(spurious=[1, 2, 3])), "one for each of the 1 kinds"),
    "prices": (lambda: fitted().predict(WORDS, loss=SpanCosts(), costs=[np.zeros((2, 3))]), "no sum over positions"),
    "other tags": (lambda: tl.SequenceTagger(SpanCosts()).fit(WORDS, [["x", "y"]]), "'x' is not of the scheme"),
    "no outside": (lambda: tl.SequenceTagger(SpanCosts()).fit(WORDS, [["B-a", "I-a"]]), "no tag O"),
    "trees": (
        lambda: tl.TreeTagger(SpanCosts()).fit([np.eye(3)], [["O", "B-a", "O"]], parents=[[-1, 0, 0]]),
        "nodes of a tree make no spans",
    ),
    "named otherwise": (
        lambda: fitted().predict(WORDS, loss=SpanCosts(labels=["B-x", "I-x", "O"])),
        "SpanCosts names its tags",
    ),
    "unbound": (lambda: SpanCosts().n_labels, "does not know its tags"),
}
WORDS = [[["a"], ["b"]]]


def fitted():
    return tl.SequenceTagger().fit([[["a"], ["b"], ["c"]]], [["B-a", "I-a", "O"]])


@pytest.mark.parametrize("name", SENTENCES)
def test_bad_input_gets_a_sentence(name):
    work, sentence = SENTENCES[name]
    with pytest.raises(ValueError, match=sentence):
        work()
