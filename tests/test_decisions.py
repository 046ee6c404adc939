"""Probabilities in, decisions out: arrays of anyone's, and fitted models wherever they sit."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.parts import every_loss

import taskloss as tl
from taskloss.decisions import moments_of
from taskloss.losses._minimum import least

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
CODES = np.digitize(X[:, 0] + rng.normal(size=120), [-0.5, 0.5])
NAMES = np.array(["low", "mid", "top"])[CODES]
COSTS = tl.losses.CostMatrix(
    [[0, 1, 9], [4, 0, 1], [3, 3, 0], [0.8, 0.8, 0.8]], ["low", "mid", "top", "ask"], ["low", "mid", "top"]
)
LOSSES = {
    "none": None,
    "name": "zero-one",
    "matrix": COSTS,
    "turned": tl.losses.CostMatrix(
        [[0, 1, 2], [3, 0, 1], [1, 1, 0]], labels=["top", "low", "mid"], outputs=["top", "low", "mid"]
    ),
    "abstain": tl.losses.Abstain(cost=0.3),
    "cube": tl.losses.Absolute(embedding="cube"),
}
every_choice = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


class Said:
    """A classifier that says what it is told."""

    def __init__(self, proba, classes):
        self.proba, self.classes_ = proba, np.asarray(classes)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X):
        return self.proba


def assert_same(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


@every_choice
@pytest.mark.parametrize("costs", [False, True])
def test_probabilities_are_decided_as_by_the_decoded_classifier_bit_by_bit(loss, costs):
    q = rng.dirichlet([0.5] * 3, 200)
    decoded = tl.DecodedClassifier(Said(q, ["low", "mid", "top"]), "zero-one" if loss is None else loss, prefit=True)
    decoded.predict(q)
    prices = rng.normal(size=(200, len(decoded.outputs_))) if costs else None
    assert_same(tl.decide(q, loss, prices, ["low", "mid", "top"]), decoded.predict(q, costs=prices))
    assert_same(tl.expected_loss(q, loss, prices, ["low", "mid", "top"]), decoded.expected_loss(q, costs=prices))
    for frame in (pd.DataFrame(q, columns=["low", "mid", "top"]), pl.DataFrame(q, schema=["low", "mid", "top"])):
        assert_same(tl.decide(frame, loss, prices), decoded.predict(q, costs=prices))


@every_loss
def test_decisions_are_the_least_expected_losses(part):
    """Over all losses on labels, against the sum over the law of every output's loss."""
    if part.kind != "classes":
        pytest.skip("a law over labels is a law over single labels")
    matrix = part.matrix()
    q = rng.dirichlet(np.ones(matrix.shape[1]), 50)
    risks = q @ matrix.T
    found = tl.expected_loss(q, part)
    np.testing.assert_allclose(found, risks.min(1), atol=1e-9)
    _, loss, labels = moments_of(q, part)
    z = labels.encode_outputs(tl.decide(q, part), loss)
    np.testing.assert_allclose(np.take_along_axis(risks, z[:, None], 1)[:, 0], risks.min(1), atol=1e-9)


def test_many_are_decided_as_few():
    """Blocks on threads, against one product and argmin; ties go to the first output."""
    loss = tl.losses.CostMatrix([[0, 1, 2], [1, 0, 1], [2, 1, 0], [1, 1, 1]])
    q = rng.integers(1, 4, (1_700_001, 3)) / 8.0
    q[:, 2] = 1 - q[:, :2].sum(1)  # multiples of an eighth: sums are exact, and ties are many
    risks = q @ loss.matrix().T
    assert (risks == risks.min(1, keepdims=True)).sum(1).max() > 1
    assert_same(tl.decide(q, loss), np.argmin(risks, axis=1))
    q[150_000] *= 0.5
    with pytest.raises(ValueError, match=r"row 150000 sums to 0\.5"):
        tl.decide(q, loss)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (-0.2, r"from 0 to 1, got -0\.2"),
        (1.2, r"from 0 to 1, got 1\.2"),
        (np.nan, r"got nan"),
        (np.inf, r"got inf"),
        (0.35, r"row 150001 sums to 1\.1"),
    ],
)
def test_one_row_among_many_that_is_no_law_is_named(value, sentence):
    """As among few, where nothing is compiled; roundings of single precision are none."""
    q = np.full((1_700_000, 4), 0.25, dtype=np.float32)
    q[::2] = 0.1, 0.2, 0.3, 0.4
    assert tl.decide(q, "zero-one").tolist() == [3, 0] * 850_000
    q[150_001, 2] = value
    with pytest.raises(ValueError, match=sentence):
        tl.decide(q, "zero-one")
    with pytest.raises(ValueError, match=sentence.replace("150001", "1")):
        tl.decide(q[150_000:150_010], "zero-one")


@pytest.mark.parametrize("outputs", [1, 40])
def test_the_compiled_least_is_numpys(outputs):
    """Constants for each output, ties, and a last block of its own size."""
    mu, psi = rng.integers(-4, 5, (2**17 + 3, 5)) / 4.0, rng.integers(-4, 5, (outputs, 5)) / 4.0
    constants = rng.integers(0, 3, outputs) / 4.0
    if outputs == 1:
        mu = np.tile(mu, (20, 1))
    assert_same(least(mu, psi, constants), np.argmin(mu @ psi.T + constants, axis=1))
    assert_same(least(mu.astype(np.float32), psi, constants), np.argmin(mu @ psi.T + constants, axis=1))


def test_label_sets():
    q = rng.random((40, 4))
    assert_same(tl.decide(q, "hamming"), (q > 0.5).astype(int))
    named = tl.decide(q, "hamming", labels=list("abcd"))
    assert named == [{c for c, p in zip("abcd", row, strict=True) if p > 0.5} for row in q]
    np.testing.assert_allclose(tl.expected_loss(q, "hamming"), np.minimum(q, 1 - q).mean(1))


def test_columns_that_a_loss_names_in_another_order():
    q = rng.dirichlet(np.ones(3), 50)
    turned = q[:, [2, 0, 1]]
    assert_same(
        tl.decide(q, COSTS, labels=["low", "mid", "top"]), tl.decide(turned, COSTS, labels=["top", "low", "mid"])
    )
    assert_same(tl.decide(q, COSTS), tl.decide(q, COSTS, labels=["low", "mid", "top"]))


def test_out_of_fold_probabilities():
    q = cross_val_predict(LogisticRegression(), X, NAMES, cv=3, method="predict_proba")
    expected = (q @ COSTS.matrix().T).argmin(1)
    assert_same(tl.decide(q, COSTS), np.array(["low", "mid", "top", "ask"])[expected])


FACES = {
    "bare": lambda model: model.fit(X, NAMES),
    "pipeline": lambda model: make_pipeline(StandardScaler(), model).fit(X, NAMES),
    "one step": lambda model: Pipeline([("only", model)]).fit(X, NAMES),
    "search": lambda model: GridSearchCV(
        make_pipeline(StandardScaler(), model), {"standardscaler__with_mean": [True]}, cv=2
    ).fit(X, NAMES),
    "frozen": lambda model: FrozenEstimator(model.fit(X, NAMES)),
    "frozen in a pipeline": lambda model: make_pipeline(
        StandardScaler().fit(X), FrozenEstimator(model.fit(X, NAMES))
    ).fit(X, NAMES),
}


@pytest.mark.parametrize("face", FACES)
@every_choice
def test_a_model_is_found_wherever_it_sits(face, loss):
    model = FACES[face](tl.CostSensitiveClassifier(COSTS))
    seen = StandardScaler().fit_transform(X) if face in ("pipeline", "search", "frozen in a pipeline") else X
    last = {"bare": lambda: model, "search": lambda: model.best_estimator_[-1], "frozen": lambda: model.estimator}.get(
        face, lambda: getattr(model[-1], "estimator", model[-1])
    )()
    assert_same(tl.decide(model, loss, X=X), last.predict(seen, loss=loss))
    assert_same(tl.expected_loss(model, loss, X=X), last.expected_loss(seen, loss=loss))
    costs = rng.random((120, 4, 3))
    assert_same(tl.decide(model, None, costs, X=X), last.predict(seen, costs=costs))
    theirs = FACES[face](LogisticRegression())
    decoded = tl.DecodedClassifier(theirs, "zero-one" if loss is None else loss, prefit=True)
    assert_same(tl.decide(theirs, loss, X=X), decoded.predict(X))
    assert_same(tl.expected_loss(theirs, loss, X=X), decoded.expected_loss(X))


def test_forests_are_models():
    forest = RandomForestClassifier(5, random_state=0).fit(X, NAMES)
    assert_same(tl.decide(forest, COSTS, X=X), tl.decide(forest.predict_proba(X), COSTS, labels=forest.classes_))


def test_models_of_structures_decide_by_themselves():
    groups = np.repeat(np.arange(12), 10)
    ranker = tl.Ranker().fit(X, CODES, groups)
    assert_same(tl.decide(ranker, X=X, groups=groups), ranker.predict(X, groups))
    with pytest.raises(ValueError, match="Ranker has moments of structures"):
        moments_of(ranker, X=X)


Q = np.full((4, 2), 0.5)
BAD = {
    "sums": (lambda: tl.decide(Q * [[1.0], [1], [0.5], [1]]), r"must sum to one, but row 2 sums to 0.5"),
    "negative": (lambda: tl.decide([[-1.0, 2.0]]), "must be probabilities, from 0 to 1, got -1.0"),
    "nan": (lambda: tl.decide([[np.nan, 1.0]]), "must be probabilities, from 0 to 1, got nan"),
    "infinite": (lambda: tl.decide([[np.inf, 1.0]]), "got inf"),
    "one column": (lambda: tl.decide(Q[:, 0]), r"column_stack\(\[1 - p, p\]\)"),
    "text": (lambda: tl.decide([["a", "b"]]), "proba must be probabilities in an array"),
    "labels": (lambda: tl.decide(Q, labels=["a"]), "labels names 1 labels, but proba has 2 columns"),
    "labels twice": (lambda: tl.decide(Q, labels=["a", "a"]), r"labels must name each column once, got \['a', 'a'\]"),
    "sparse": (lambda: tl.decide(csr_array(Q)), r"proba must be .* got a sparse matrix: pass its \.toarray\(\)"),
    "label of no type": (lambda: tl.decide(Q, labels=["a", {}]), "labels must be a list of labels"),
    "label missing": (lambda: tl.decide(Q, labels=["a", None]), "Input labels contains NaN or None"),
    "label of no loss": (
        lambda: tl.decide(Q, tl.losses.CostMatrix(np.eye(2), labels=["a", "b"]), labels=["a", "c"]),
        r"Unknown label 'c' in labels: those that the loss names are \['a', 'b'\]",
    ),
    "a class": (
        lambda: tl.decide(LogisticRegression, X=X),
        "LogisticRegression is a class: pass probabilities, or a fitted",
    ),
    "not fitted": (lambda: tl.decide(make_pipeline(LogisticRegression()), X=X), "This Pipeline is not fitted yet"),
    "size": (lambda: tl.decide(Q, np.eye(3)), "3.*2 classes"),
    "inputs": (lambda: tl.decide(Q, X=X), "X=... is for a fitted model"),
    "params": (lambda: tl.expected_loss(Q, groups=X), "groups=... is for a fitted model"),
    "no inputs": (lambda: tl.decide(LogisticRegression().fit(X, NAMES)), "LogisticRegression is a model: pass X="),
    "no probabilities": (lambda: tl.decide(LinearSVC().fit(X, NAMES), X=X), "LinearSVC has no predict_proba"),
    "labels of a model": (
        lambda: tl.decide(tl.CostSensitiveClassifier().fit(X, NAMES), X=X, labels=["a"]),
        "knows its labels from its fit",
    ),
    "sets above one": (lambda: tl.decide([[0.5, 1.5]], "hamming"), "from 0 to 1, got 1.5"),
    "more moments": (lambda: tl.decide(Q, "f-beta"), "more than the probability of each label"),
    "structures": (lambda: tl.decide(Q, "ndcg"), "use Ranker"),
    "costs": (
        lambda: tl.decide(Q, costs=np.ones((4, 3))),
        r"costs must have shape \(4, 2, 2\) or \(4, 2\), prices for each of the 4 examples, got \(4, 3\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name):
    call, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        call()
