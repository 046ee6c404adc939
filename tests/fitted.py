"""Every estimator, fitted on a little data in the ways that give it different attributes, for laws over all of them."""

from functools import cache

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

import taskloss as tl

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
CODES = np.digitize(X[:, 0] + rng.normal(size=60), [-0.5, 0.5])
NAMES = np.array(["a", "b", "c"])[CODES]
SETS = (X + rng.normal(size=X.shape) > 0).astype(int)
WORDS = [{word for word, on in zip("uvw", row, strict=True) if on} for row in SETS]
GROUPS = np.repeat(np.arange(6), 10)
SEQUENCES = [rng.normal(size=(4, 3)) for _ in range(10)]
TAGS = [rng.choice(["N", "V"], 4).tolist() for _ in range(10)]
TREES = tl.Packed(np.concatenate(SEQUENCES), 4 * np.arange(11), np.tile([2, 2, -1, 0], 10))
MAPPINGS = [[{"word": "x", "bias": 1.0}, {"word": "y"}]] * 5
TABLES = rng.normal(size=(20, 3, 3, 2))
MATCHINGS = np.array([rng.permutation(3) for _ in range(20)])
FRAME = pd.DataFrame(X, columns=["p", "q", "r"])
PAIRS = np.empty(60, dtype=object)
PAIRS[:] = [("t", int(code)) for code in CODES]


def difference(z, y):
    """A loss that is only a function."""
    return abs(z - y)


# name: (estimator, what fit takes, what predict takes)
CASES = {
    "general": (tl.TaskLossEstimator("zero-one"), (X, NAMES), X),
    "abstaining, of a frame": (tl.CostSensitiveClassifier(tl.losses.Abstain(cost=0.3)), (FRAME, NAMES), FRAME),
    "cost matrix": (tl.CostSensitiveClassifier([[0, 1, 2], [3, 0, 1], [1, 1, 0]]), (X, NAMES), X),
    "labels that are tuples": (tl.CostSensitiveClassifier(), (X, PAIRS), X),
    "sparse": (tl.CostSensitiveClassifier(), (sparse.csr_matrix(X), NAMES), sparse.csr_matrix(X)),
    "kernel hypothesis": (tl.CostSensitiveClassifier(hypothesis="kernel", alpha=1e-3), (X, NAMES), X),
    "nystrom": (tl.CostSensitiveClassifier(hypothesis=tl.hypotheses.Nystrom(10), alpha=1e-3), (X, NAMES), X),
    "network": (tl.CostSensitiveClassifier(hypothesis=tl.hypotheses.Torch(max_epochs=3)), (X, NAMES), X),
    "taxonomy": (
        tl.CostSensitiveClassifier(tl.losses.TreeDistance(["x/a", "x/b", "c"])),
        (X, np.array(["x/a", "x/b", "c"])[CODES]),
        X,
    ),
    "averaged": (tl.CostSensitiveClassifier(solver="asgd"), (X, NAMES), X),
    "ordinal": (tl.OrdinalClassifier(), (X, CODES), X),
    "probit": (tl.OrdinalClassifier(surrogate=tl.surrogates.CumulativeLink("probit")), (X, CODES), X),
    "indicators": (tl.MultilabelClassifier(), (X, SETS), X),
    "sets of words": (tl.MultilabelClassifier(tl.losses.FBeta()), (X, WORDS), X),
    "decoded": (tl.DecodedClassifier(DecisionTreeClassifier(max_depth=3, random_state=0)), (X, NAMES), X),
    "kernel": (tl.KernelPredictor("zero-one"), (X, NAMES), X),
    "kernel, function": (tl.KernelPredictor(difference, alpha="loo"), (X, CODES), X),
    "tuned": (tl.TunedDecisionCV(tl.OrdinalClassifier(), "kappa", cv=2), (X, CODES), X),
    "recalibrated": (
        tl.Recalibrated(FrozenEstimator(tl.CostSensitiveClassifier().fit(X, NAMES)), "vector"),
        (X, NAMES),
        X,
    ),
    "tagger": (tl.SequenceTagger(), (SEQUENCES, TAGS), SEQUENCES),
    "tagger of mappings": (tl.SequenceTagger(transition_features="all"), (MAPPINGS, [["A", "B"]] * 5), MAPPINGS),
    "tree tagger": (tl.TreeTagger(), (TREES, TAGS), TREES),
    "recalibrated tagger": (
        tl.Recalibrated(FrozenEstimator(tl.SequenceTagger().fit(SEQUENCES, TAGS)), "vector"),
        (SEQUENCES, TAGS),
        SEQUENCES,
    ),
    "ranker": (tl.Ranker(), (X, CODES, GROUPS), X),
    "matcher": (tl.Matcher(), (TABLES, MATCHINGS), TABLES),
}


@cache
def fitted(name):
    """A fitted estimator, shared: do not change it."""
    from sklearn.base import clone

    estimator, data, _ = CASES[name]
    return clone(estimator).fit(*data)


def fail_at(monkeypatch, moment, error):
    """From now on the risk raises an error at its evaluation of that number; a list that grows with each evaluation."""
    from taskloss.objectives import PenalisedRisk

    evaluate, calls = PenalisedRisk.value_and_gradient, []

    def failing(self, theta):
        calls.append(len(calls) + 1)
        if len(calls) == moment:
            raise error
        return evaluate(self, theta)

    monkeypatch.setattr(PenalisedRisk, "value_and_gradient", failing)
    return calls


def answers(name, model):
    """All that a model says about its case's inputs, as arrays and lists that can be compared bit by bit."""
    inputs = CASES[name][2]
    found = [model.predict(inputs)]
    for method in ("predict_moments", "predict_proba", "expected_loss", "predict_scores"):
        if hasattr(model, method):
            found.append(getattr(model, method)(inputs))
    return found


def same(a, b):
    """Bit by bit: types, shapes and values."""
    if isinstance(a, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and same_items(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(p, q) for p, q in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


def same_items(a, b):
    return same(a.tolist(), b.tolist()) if a.dtype == object else a.tobytes() == b.tobytes()


def count(data):
    """How many examples there are."""
    if isinstance(data, tl.Packed):
        return len(data.offsets) - 1
    return len(data) if isinstance(data, list) else data.shape[0]


def take(data, examples):
    """Examples by their numbers, in the form in which they came."""
    if isinstance(data, tl.Packed):
        cuts = data.offsets
        rows = np.concatenate([np.arange(cuts[i], cuts[i + 1]) for i in examples])
        offsets = np.concatenate([[0], np.cumsum([cuts[i + 1] - cuts[i] for i in examples])])
        return tl.Packed(data.rows[rows], offsets, data.parents[rows])
    if isinstance(data, list):
        return [data[i] for i in examples]
    return data.iloc[examples] if hasattr(data, "iloc") else data[examples]


def with_rows(data, change):
    """The same inputs with another array in the place of each array of theirs."""
    if isinstance(data, tl.Packed):
        return tl.Packed(change(data.rows), data.offsets, data.parents)
    return [change(x) for x in data] if isinstance(data, list) else change(data)
