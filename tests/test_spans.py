"""Entities with the probability of the whole span."""

import itertools

import numpy as np
import pytest

import taskloss as tl
from taskloss.data.spans import SpanScheme
from taskloss.polytopes._forest import Forest
from taskloss.polytopes._spans import Found, SpanLaw, as_precise, best_apart
from taskloss.polytopes._sum_product import cell_marginals, marginals

LABELS = {
    "BIO": ["B-A", "B-B", "I-A", "I-B", "O"],
    "IO": ["I-A", "I-B", "O"],
    "BIOES": ["B-A", "E-A", "I-A", "O", "S-A"],
    "BILOU": ["B-A", "I-A", "L-A", "O", "U-A"],
}
schemes = pytest.mark.parametrize("scheme", LABELS)


def read_spans(scheme, labels):
    """The spans of one labelling, position by position, as the definition says."""
    out, n = set(), len(labels)
    last, single = {"BIOES": ("E-", "S-"), "BILOU": ("L-", "U-")}.get(scheme, (None, None))
    for s, e in itertools.combinations_with_replacement(range(n), 2):
        for kind in ("A", "B"):
            inside = f"I-{kind}"
            if last is not None:
                if s == e:
                    whole = labels[s] == single + kind
                else:
                    middle = all(labels[t] == inside for t in range(s + 1, e))
                    whole = labels[s] == f"B-{kind}" and middle and labels[e] == last + kind
            else:
                first = inside if scheme == "IO" else f"B-{kind}"
                fresh = scheme != "IO" or s == 0 or labels[s - 1] != inside
                ended = e == n - 1 or labels[e + 1] != inside
                whole = labels[s] == first and fresh and ended and all(labels[t] == inside for t in range(s + 1, e + 1))
            if whole:
                out.add((s, e, kind))
    return out


def drawn(scheme, lengths=(4, 1, 5), seed=0, per_edge=False):
    rng = np.random.default_rng(seed)
    k, forest = len(LABELS[scheme]), Forest.chains(lengths)
    shape = (forest.n_edges, k, k) if per_edge else (k, k)
    return forest, rng.normal(size=(forest.n_nodes, k)) * 2, rng.normal(size=shape) * 1.5


def enumerated(scheme, forest, unary, pairwise):
    """P(span) for all spans by the sum over all labellings: {(tree, start, end, kind): probability}."""
    out = {}
    for tree in range(len(forest)):
        low, high = forest.offsets[tree : tree + 2]
        n, k, total, found = high - low, unary.shape[1], 0.0, {}
        for states in itertools.product(range(k), repeat=int(n)):
            score = sum(unary[low + t, s] for t, s in enumerate(states))
            for t in range(1, n):
                table = pairwise if pairwise.ndim == 2 else pairwise[forest.edge_of[low + t]]
                score += table[states[t - 1], states[t]]
            weight = np.exp(score)
            total += weight
            for span in read_spans(scheme, [LABELS[scheme][s] for s in states]):
                found[span] = found.get(span, 0.0) + weight
        out |= {(tree, *span): weight / total for span, weight in found.items()}
    return out


@schemes
@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_probabilities_are_sums_over_all_labellings(scheme, per_edge, compiled):
    forest, unary, pairwise = drawn(scheme, per_edge=per_edge)
    truth = enumerated(scheme, forest, unary, pairwise)
    read = SpanScheme.read(scheme, np.array(LABELS[scheme]))
    cells = SpanLaw.cells(read.tags)
    law = SpanLaw(forest, *cell_marginals(forest, unary, pairwise, cells, compiled=compiled), read.tags)
    low = forest.offsets
    start, end, kind = (
        np.array(part)
        for part in zip(*[(low[t] + s, low[t] + e, read.labels.index(name)) for t, s, e, name in truth], strict=True)
    )
    np.testing.assert_allclose(law.of(start, end, kind), list(truth.values()), atol=1e-10)
    for threshold in (1e-4, 0.05, 0.5):
        found = law.above(threshold)
        trees = forest.tree_of[found.start]
        named = {
            (int(t), int(s - low[t]), int(e - low[t]), read.labels[k]): p
            for t, s, e, k, p in zip(trees, *found, strict=True)
        }
        expected = {key: p for key, p in truth.items() if p >= threshold}
        assert named.keys() == expected.keys()
        np.testing.assert_allclose([named[key] for key in expected], list(expected.values()), atol=1e-10)


def test_marginals_at_some_cells_are_those_of_all_of_them():
    """Also where scores are so far apart that the compiled recursion hands a chain on."""
    forest, unary, pairwise = drawn("BIO", lengths=[3, 5, 1, 4])
    unary[4] *= 400
    cells = np.array([[0, 2], [2, 2], [4, 1]])
    _, nodes, edges = marginals(forest, unary, pairwise)
    for compiled in (False, True):
        mu, at = cell_marginals(forest, unary, pairwise, cells, compiled=compiled)
        np.testing.assert_allclose(mu, nodes, atol=1e-12)
        np.testing.assert_allclose(at, edges[:, cells[:, 0], cells[:, 1]], atol=1e-12)


def test_labels_that_a_scheme_lacks():
    """Spans of one position only: there is no I-A, and no span goes on."""
    read = SpanScheme.read("BIO", np.array(["B-A", "B-B", "I-B", "O"]))
    forest = Forest.chains([4])
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    law = SpanLaw(forest, *cell_marginals(forest, unary, pairwise, SpanLaw.cells(read.tags)), read.tags)
    found = law.above(1e-6)
    of_a = found.kind == read.labels.index("A")
    np.testing.assert_array_equal(found.start[of_a], found.end[of_a])
    np.testing.assert_allclose(found.probability[of_a], marginals(forest, unary, pairwise)[1][:, 0])


@schemes
def test_spans_of_a_labelling_are_those_of_the_definition(scheme):
    rng = np.random.default_rng(1)
    read = SpanScheme.read(scheme, np.array(LABELS[scheme]))
    lengths = rng.integers(1, 9, 60)
    forest = Forest.chains(lengths)
    states = rng.integers(0, len(LABELS[scheme]), forest.n_nodes)
    found = {(int(s), int(e), read.labels[k]) for s, e, k in zip(*read.spans(states, forest.roots), strict=True)}
    expected = set()
    for low, high in itertools.pairwise(forest.offsets):
        names = [LABELS[scheme][s] for s in states[low:high]]
        expected |= {(low + s, low + e, kind) for s, e, kind in read_spans(scheme, names)}
    assert found == expected


def test_the_kept_spans_are_the_best_that_do_not_overlap():
    rng = np.random.default_rng(2)
    for _ in range(40):
        n = int(rng.integers(1, 8))
        start = rng.integers(0, 8, n)
        found = Found(start, start + rng.integers(0, 4, n), np.zeros(n, int), rng.random(n))
        best = 0.0
        for some in itertools.product([False, True], repeat=n):
            chosen = np.flatnonzero(some)
            apart = all(
                found.end[i] < found.start[j] or found.end[j] < found.start[i]
                for i, j in itertools.combinations(chosen, 2)
            )
            best = max(best, (found.probability[chosen] - 0.2).sum() if apart else 0.0)
        kept = best_apart(found, 0.2)
        assert (found.probability[kept] - 0.2).sum() == pytest.approx(best)
    means = as_precise(found, 0.6)
    ordered = np.sort(found.probability)[::-1]
    assert len(means.start) == max([m for m in range(n + 1) if m == 0 or ordered[:m].mean() >= 0.6])


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
        assert {(s.start, s.end - 1, s.label) for s in found} == read_spans("BIO", row.tolist())
    best, drawn = tagger.predict_best(X[:1], 3000), spans[0]
    mass = np.exp(best[0][0])
    assert mass.sum() > 0.999
    for span in drawn:
        held = [(span.start, span.end - 1, span.label) in read_spans("BIO", row.tolist()) for row in best[1][0]]
        assert span.probability == pytest.approx(mass[held].sum(), abs=2e-3)


def test_probabilities_are_the_shares_of_spans_that_are_right(tagger):
    """Data of the law itself, drawn from the tagger: in bins of probability, as many are right as it says."""
    X, _ = sentences(np.random.default_rng(5), 600)
    truth = [{*read_spans("BIO", row[0].tolist())} for row in tagger.sample(X, 1, random_state=0)]
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
    packed = tl.Packed(*tagger.reader_.read(X))
    assert tagger.predict_spans(packed) == tagger.predict_spans(X)


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
        lambda t, X: t.predict_spans(X, "BILUO"),
        "no scheme of spans named 'BILUO'; choose one of: BIO, IO, BIOES, BILOU",
    ),
    "other scheme": (lambda t, X: t.predict_spans(X, "IO"), "'B-A' is none of the scheme IO"),
    "no spans": (lambda t, X: numbered(), "is none of the scheme BIO"),
    "threshold": (lambda t, X: t.predict_spans(X, threshold=0), "threshold must be a probability above zero, got 0"),
    "precision": (
        lambda t, X: t.predict_spans(X, precision=1.5),
        "precision must be a probability above zero, got 1.5",
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
