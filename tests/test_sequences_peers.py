"""The tagger beside CRFsuite, its consistency on laws that are known, and what it says to bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import taskloss as tl
from taskloss.losses import ChainCost, ChainHamming, SequenceZeroOne

# -- CRFsuite ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [6, 90])
def test_objective_equals_crfsuite_s_at_equal_parameters(names, tmp_path):
    """With few names every pair of feature and label occurs in the data, with many names not."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(0)
    X = [
        [{f"f{rng.integers(names)}": 1.0, "v": float(rng.exponential())} for _ in range(rng.integers(1, 9))]
        for _ in range(80)
    ]
    y = [[f"s{rng.integers(4)}" for _ in x] for x in X]
    c2 = 0.7  # CRFsuite drops a feature whose values sum to less than zero with a label: all are positive here
    options = {"c1": 0.0, "c2": c2, "max_iterations": 2000, "epsilon": 1e-12, "delta": 1e-14}
    trainer = pycrfsuite.Trainer(verbose=False, algorithm="lbfgs", params=options)
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, labels)
    path = str(tmp_path / "model")
    trainer.train(path)
    info = pycrfsuite.Tagger()
    info.open(path)
    found = info.info()

    tagger = tl.SequenceTagger(
        alpha=2 * c2 / len(X), fit_intercept=False, boundaries=False, all_possible_states=names == 6, tol=1e-12
    )
    risk = tagger.fit(X, y).objective(X, y)
    theta = np.zeros_like(risk.start)
    parts = risk.hypothesis.parts(theta)
    labels, features = tagger.labels_.classes.tolist(), tagger.feature_names_in_.tolist()
    assert len(found.transitions) == 4 * 4
    assert (len(found.state_features) == 4 * len(features)) == (names == 6)
    assert (
        len(risk.flatten(theta)) == len(found.state_features) + 4 * 4 + 4
    )  # transitions, and intercepts that stay zero
    for (name, label), weight in found.state_features.items():
        parts["node"][features.index(name), labels.index(label)] = weight
    for (before, after), weight in found.transitions.items():
        parts["transition"][labels.index(before), labels.index(after)] = weight
    theirs = trainer.logparser.last_iteration["loss"]
    # CRFsuite prints parameters and objective with six digits after the point.
    assert len(X) * risk.value_and_gradient(risk.flatten(theta))[0][0] == pytest.approx(theirs, rel=1e-6)
    assert len(X) * tagger.solution_.value == pytest.approx(theirs, rel=1e-6)
    assert len(X) * tagger.solution_.value <= theirs * (1 + 1e-8)
    for x, marginals in list(zip(X, tagger.predict_marginals(X), strict=True))[:20]:
        info.set(x)
        theirs_here = [[info.marginal(label, t) for label in labels] for t in range(len(x))]
        np.testing.assert_allclose(marginals, theirs_here, atol=1e-4)
    maps = tagger.predict(X, "sequence-zero-one")
    assert np.mean([m.tolist() == info.tag(x) for m, x in zip(maps, X, strict=True)]) > 0.97  # near ties may differ


def test_real_letters_beside_crfsuite():
    from benchmarks.datasets import root
    from benchmarks.datasets.sequences import ocr_letters

    pytest.importorskip("pycrfsuite")
    if root() is None:
        pytest.skip("the data sets are not here")
    from benchmarks.sequences import crfsuite, ours, shares

    split = ocr_letters(large=False)
    X, y, X_test, y_test = split.X[:150], split.y[:150], split.X_test[:400], split.y_test[:400]
    maps, maps_test = (
        [[{str(j): 1.0 for j in np.flatnonzero(row)} for row in x] for x in part] for part in (X, X_test)
    )
    options = {"all_possible_states": True, "all_possible_transitions": True, "max_iterations": 1000}
    peer = crfsuite(maps, y, 1.0, epsilon=1e-9, delta=1e-9, **options)
    model = ours(X, y, 1.0, tol=1e-9)
    by_marginals = [[max(law, key=law.get) for law in row] for row in peer.predict_marginals(maps_test)]
    for theirs, found in (
        (peer.predict(maps_test), model.predict(X_test, "sequence-zero-one")),
        (by_marginals, model.predict(X_test)),
    ):
        assert shares(found, y_test) == pytest.approx(shares(theirs, y_test), abs=0.3)  # per cent


def test_chunks_are_counted_as_conlleval_does():
    from benchmarks.datasets.sequences import chunk_f1, chunks

    tags = ["B-NP", "I-NP", "O", "I-VP", "I-VP", "B-VP", "I-NP", "B-NP"]
    assert chunks(tags) == {(0, 2, "NP"), (3, 5, "VP"), (5, 6, "VP"), (6, 7, "NP"), (7, 8, "NP")}
    assert chunk_f1([tags], [tags]) == 1.0
    assert chunk_f1([["B-NP", "O"]], [["B-NP", "I-NP"]]) == 0.0


# -- consistency ------------------------------------------------------------------------------------------------------


class Laws:
    """Pairs of labels given one of four inputs: any law on pairs is a chain's, so that the tagger can fit all of them."""

    n_inputs, k = 4, 3

    def __init__(self, seed: int):
        self.pairs = np.array(list(itertools.product(range(self.k), repeat=2)))
        self.law = np.random.default_rng(seed).dirichlet(np.full(self.k**2, 0.5), size=self.n_inputs)
        self.X = [np.kron(np.eye(2), np.eye(self.n_inputs)[x]) for x in range(self.n_inputs)]

    def fit(self, n: int, seed: int) -> tl.SequenceTagger:
        """A fit to n draws, told as weights of the different pairs, with a penalty that fades."""
        counts = np.random.default_rng(seed).multinomial(n // self.n_inputs, self.law)
        X = [x for x in self.X for _ in self.pairs]
        y = [pair for _ in self.X for pair in self.pairs]
        tagger = tl.SequenceTagger(transition_features="all", alpha=0.1 / n, tol=1e-10, max_iter=5000)
        return tagger.fit(X, y, sample_weight=counts.ravel())

    def excess(self, tagger: tl.SequenceTagger, loss, decoded_for=None) -> float:
        """The risk under the true law, above Bayes."""
        matrix = loss(self.pairs[:, None], self.pairs[None])
        z = np.array(tagger.predict(self.X, loss if decoded_for is None else decoded_for)) @ [self.k, 1]
        risks = self.law @ matrix.T
        return float((risks[np.arange(self.n_inputs), z] - risks.min(1)).mean())


LOSSES = {
    "hamming": ChainHamming(3),
    "cost": ChainCost(1 - np.eye(3), np.random.default_rng(5).uniform(0, 4, (3, 3, 3, 3))),
    "zero-one": SequenceZeroOne(3),
}


@pytest.mark.parametrize("name", list(LOSSES))
def test_risk_falls_to_bayes(name):
    worlds = [Laws(seed) for seed in range(8)]
    excess = [np.mean([w.excess(w.fit(n, 0), LOSSES[name]) for w in worlds]) for n in (40, 400, 40_000, 4_000_000)]
    assert excess[0] > 0.005
    assert excess[0] > excess[1] > excess[2]
    assert excess[-1] < 1e-9


@pytest.mark.parametrize(
    ("name", "decoder"), [("hamming", "zero-one"), ("cost", "zero-one"), ("cost", "hamming"), ("zero-one", "hamming")]
)
def test_the_wrong_decoder_stays_above_bayes(name, decoder):
    worlds = [Laws(seed) for seed in range(8)]
    stays = np.mean([w.excess(w.fit(4_000_000, 0), LOSSES[name], LOSSES[decoder]) for w in worlds])
    assert stays > 0.01


# -- bad input --------------------------------------------------------------------------------------------------------

GOOD = [np.eye(3), np.ones((2, 3))]
TAGS = [["a", "b", "a"], ["b", "a"]]


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        ([], [], "X has no sequences"),
        ([np.eye(3), np.empty((0, 3))], TAGS, r"Sequence 1 of X is empty: drop it"),
        (GOOD, [["a", "b"], ["b", "a"]], r"Sequence 0 has 3 positions in X, but 2 labels in y"),
        (GOOD, [["a", "b", "a"]], r"X has 2 sequences, but y has 1"),
        (GOOD, ["aba", "ba"], r"y must hold one sequence of labels"),
        (GOOD, None, r"requires y"),
        (GOOD, [["a"] * 3, ["a"] * 2], r"y has 1 different labels: there is nothing to tell apart"),
        ([np.eye(3), np.ones((2, 4))], TAGS, r"Sequence 1 of X has 4 features per position, but sequence 0 has 3"),
        (
            [np.eye(3), np.ones(2)],
            TAGS,
            r"Sequence 1 of X must have one row of features per position, got shape \(2,\)",
        ),
        ([np.eye(3), np.full((2, 3), np.nan)], TAGS, r"X contains NaN or infinite values"),
        (
            [sparse.csr_matrix(np.eye(3)), np.ones((2, 3))],
            TAGS,
            r"Sequence 0 is a sparse matrix, but sequence 1 is not",
        ),
        (sparse.csr_matrix(np.eye(3)), TAGS, r"X must be a list of sequences, or Packed"),
        (["word", "words"], TAGS, r"Sequence 0 of X must be an array or a list"),
        ([[{"a": 1}, {"a": 2}, 3], [{"a": 1}] * 2], TAGS, r"Every position in X must be a mapping of features"),
        (GOOD, [["a", 1, "b"], ["a", "b"]], r"of types that cannot be sorted together"),
        (GOOD, 5, r"y must hold one sequence of labels"),
        (GOOD, [[["a"], ["b"], ["a"]], [["b"], ["a"]]], r"A label must be a string, a number or a tuple.*list"),
        (GOOD, [np.array(["a", np.nan, "b"]), ["b", "a"]], r"the text 'nan', which NumPy makes of NaN"),
        ([{"a": 1}, {"b": 1}], TAGS, r"mapping of features: a single sequence goes in a list of its own"),
        (
            [[{"a": 1, 3: 1}] * 3, [{"b": 1}] * 2],
            TAGS,
            r"names of features in X are of types that cannot be sorted.*make them all strings",
        ),
        ([pd.DataFrame(np.eye(3), columns=list("pqr")), GOOD[1]], TAGS, r"Sequence 1 of X must be a data frame with"),
        (pd.DataFrame(np.eye(3)), TAGS, r"X must be a list of sequences"),
        (
            tl.Packed(np.ones((5, 2)), [0, 3]),
            np.array(list("abaab")),
            r"offsets must be integers that rise from 0 to the number of rows, 5",
        ),
        (tl.Packed(np.ones((5, 2)), [0, 3, 3, 5]), np.array(list("abaab")), r"Sequence 1 of X is empty"),
        (tl.Packed(np.ones((5, 2)), [0, 3, 5]), np.array(list("aba")), r"X has 5 positions, but y has 3 labels"),
        (tl.Packed(np.ones(5), [0, 3, 5]), np.array(list("abaab")), r"must have two dimensions"),
    ],
)
def test_bad_data_at_fit(X, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        tl.SequenceTagger().fit(X, y)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": 0.0}, r"alpha must be a finite number above zero"),
        ({"tol": 0.0}, r"tol must be a number above zero"),
        ({"forbidden": [("a", "b")]}, r"The training data go from 'a' to 'b', which is forbidden"),
        ({"forbidden": [(None, "b")]}, r"The training data go from the start to 'b', which is forbidden"),
        ({"forbidden": [("a", None)]}, r"The training data go from 'a' to the end, which is forbidden"),
        ({"forbidden": [("a", "b", "a")]}, r"forbidden must list pairs"),
        ({"forbidden": "ab"}, r"forbidden must list pairs"),
        ({"forbidden": 3}, r"forbidden must list pairs"),
        ({"forbidden": [(None, None)]}, r"forbidden must list pairs"),
        ({"forbidden": np.array([["a", "b"]])}, r"The training data go from 'a' to 'b', which is forbidden"),
        ({"transition_features": "some"}, r"transition_features must be None, 'all' or a list"),
        ({"transition_features": [7]}, r"transition_features names 7, which is not among the 3 features"),
        ({"transition_features": [0.5]}, r"transition_features names 0.5, which is not among"),
        ({"loss": "zero-one"}, r"is no loss on sequences"),
        ({"loss": "nonsense"}, r"There is no loss named 'nonsense'"),
        ({"loss": ChainHamming(5)}, r"is a loss over 5 states, but y has 2"),
        ({"loss": ChainCost(np.eye(3))}, r"The costs are tables over 3 states, but y has 2"),
        ({"loss": ChainCost(np.eye(2), np.ones((2, 2)))}, r"pairwise must be a table"),
        ({"loss": ChainCost(np.eye(2), outputs=["a"])}, r"1 names were given for 2 outputs"),
        ({"loss": ChainCost(np.eye(2), outputs=["a", "a"])}, r"outputs must name every row of unary differently"),
        ({"loss": ChainHamming(state_weights=[1.0])}, r"state_weights must be 2 finite numbers"),
        ({"loss": ChainHamming(weights=[1.0])}, r"weights must be finite numbers"),
        ({"loss": SequenceZeroOne(allowed=np.ones(3))}, r"allowed must be a 2 x 2 table"),
    ],
)
def test_bad_options(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        tl.SequenceTagger(**options).fit(GOOD, TAGS)


def test_losses_are_checked_before_the_fit(monkeypatch):
    monkeypatch.setattr(tl.SequenceTagger, "_fit_to", lambda *_: pytest.fail("the fit began"))
    for loss in (ChainCost(np.eye(2), np.ones((2, 2))), ChainHamming(state_weights=[1.0])):
        with pytest.raises(ValueError, match="must be"):
            tl.SequenceTagger(loss).fit(GOOD, TAGS)


def test_bad_weights():
    tagger = tl.SequenceTagger().fit(GOOD, TAGS)
    scorer = ChainHamming().scorer()
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0]):
        for call in (tagger.fit, tagger.score, lambda X, y, w: scorer(tagger, X, y, w)):
            with pytest.raises(
                ValueError,
                match=r"sample_weight (must be one number for each of the 2|contains NaN or negative|is zero for all of the 2)",
            ):
                call(GOOD, TAGS, weights)


def test_bad_input_at_predict():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        tl.SequenceTagger().predict(GOOD)
    tagger = tl.SequenceTagger().fit(GOOD, TAGS)
    with pytest.raises(ValueError, match=r"X has 4 features per position, but the tagger was fitted with 3"):
        tagger.predict([np.ones((2, 4))])
    with pytest.raises(ValueError, match="X holds feature mappings, but the tagger was fitted on rows of numbers"):
        tagger.predict([[{"a": 1}]])
    assert tagger.score(GOOD, [["a", "b", "c"], ["b", "a"]]) < 0  # a label that was never seen is a mistake
    with pytest.raises(ValueError, match="y has missing labels"):
        tagger.score(GOOD, [["a", "b", None], ["b", "a"]])
    with pytest.raises(ValueError, match="k must be at least 1"):
        tagger.predict_best(GOOD, 0)
    with pytest.raises(ValueError, match="empty"):
        tagger.predict([np.empty((0, 3))])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ChainHamming().phi([[0]]), r"does not know its number of states yet"),
        (lambda: ChainHamming(2).labels(), r"is for sequences of any length"),
        (lambda: ChainHamming(2, 3).phi([[0, 1]]), r"labels must be rows of 3 codes"),
        (lambda: ChainHamming(2, 3).phi([[0, 1, 2]]), r"labels must be codes from 0 to 1"),
        (lambda: ChainHamming(2, weights=[1.0])([[0, 1]], [[0, 1]]), r"weights must be finite numbers"),
        (lambda: ChainHamming(2, state_weights=[1.0])([[0, 1]], [[0, 1]]), r"state_weights must be 2 finite numbers"),
        (lambda: ChainHamming(2).decode(np.ones((1, 7))), r"No chain over 2 states has 7 coordinates"),
        (
            lambda: ChainHamming(2, 2).decode(np.ones((1, 8)), costs=1),
            r"costs must have shape .*, a price for each output at each position",
        ),
        (lambda: ChainCost(length=2).labels(), r"ChainCost needs unary"),
        (lambda: ChainCost([1.0], length=2).labels(), r"unary must be a table"),
        (lambda: ChainCost(np.eye(2), np.eye(2))([[0]], [[0]]), r"pairwise must be a table"),
        (lambda: ChainCost(np.eye(2), outputs=["a"]).output_names(np.array(["a", "b"])), r"1 names were given for 2"),
        (lambda: SequenceZeroOne(2, 2, allowed=np.eye(2)).phi([[0, 1]]), r"forbidden transition"),
        (lambda: ChainHamming(2, 2, allowed=np.eye(2)).phi([[0, 1]]), r"forbidden transition"),
        (lambda: tl.polytopes.Chain(2, 0).size, r"A chain has at least one position"),
        (lambda: tl.polytopes.Tree(2, (0, 1)).size, r"parents must be -1 for the first node"),
        (lambda: tl.polytopes.Chain(2, 2, np.ones(3)).vertices(), r"allowed must be a 2 x 2 table"),
        (lambda: tl.polytopes.Chain(2, 2).marginals(np.ones(7)), r"must have the 8 coordinates of Chain"),
        (lambda: tl.polytopes.Chain(9, 30).vertices(), r"too many to list"),
    ],
)
def test_bad_losses_and_polytopes(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
