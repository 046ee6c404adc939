"""What small things cost that are done often: python -m benchmarks.small. Fits on iris in a loop, one row, one sentence.

Processor time on one thread, ours and theirs in turn, the least of three hundred rounds (fifteen of the search). scikit-learn's estimators are as they come: their gradient's tolerance of
1e-4 and C = 1 is a looser search under a stronger penalty than ours, of a relative gap of 1e-8 at alpha = 1e-3; the rows with "same" give both
the same objective, and scikit-learn a tolerance of 1e-8. On iris as it comes scikit-learn stops at its 100 iterations. Two species are versicolor and
virginica, and "apart" setosa and versicolor, which a line separates; both are standardised. The search has penalties from 1e-4 to 1 and their C. Label sets are
three thresholded features with noise, against OneVsRestClassifier. Predictions are those of one row, against predict and predict_proba together, and for more rows and
kernels, whose peer is KernelRidge, against predict. The sentence has 20
words of five named features each and 20 labels; it has no peer here, and a goal in milliseconds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import taskloss as tl

from .common import write_table

ROUNDS = 300


def in_turn(*works: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """The least processor time of each, in milliseconds."""
    least = [np.inf] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            start = time.process_time()
            work()
            least[i] = min(least[i], 1e3 * (time.process_time() - start))
    return least


def fits() -> list[list]:
    X, y = load_iris(return_X_y=True)
    scaled = StandardScaler().fit_transform(X)
    noise = np.random.default_rng(0).logistic(size=(len(X), 3))
    Y = (X[:, :3] - X[:, :3].mean(0) + noise > 0).astype(int)
    hard, last = y > 0, y == 2
    plain = LogisticRegression()
    same, same_two = (LogisticRegression(C=1 / (n * 1e-3), tol=1e-8, max_iter=5000) for n in (len(X), hard.sum()))
    pairs = [
        ("CostSensitiveClassifier, iris", tl.CostSensitiveClassifier(), plain, X, y),
        ("CostSensitiveClassifier, iris, same", tl.CostSensitiveClassifier(), same, X, y),
        ("CostSensitiveClassifier, iris standardised", tl.CostSensitiveClassifier(), plain, scaled, y),
        ("CostSensitiveClassifier, iris standardised, same", tl.CostSensitiveClassifier(), same, scaled, y),
        ("CostSensitiveClassifier, two species", tl.CostSensitiveClassifier(), plain, scaled[hard], y[hard]),
        ("CostSensitiveClassifier, two species, same", tl.CostSensitiveClassifier(), same_two, scaled[hard], y[hard]),
        ("CostSensitiveClassifier, two species apart", tl.CostSensitiveClassifier(), plain, scaled[~last], y[~last]),
        ("OrdinalClassifier, iris standardised", tl.OrdinalClassifier(), plain, scaled, y),
        ("MultilabelClassifier, iris standardised", tl.MultilabelClassifier(), OneVsRestClassifier(plain), scaled, Y),
    ]
    rows = []
    for name, mine, theirs, data, target in pairs:
        a, b = in_turn(lambda m=mine, d=data, t=target: m.fit(d, t), lambda m=theirs, d=data, t=target: m.fit(d, t))
        rows.append([f"fit: {name}", a, b, a / b, "1"])
    return rows


def search() -> list[list]:
    X, y = load_iris(return_X_y=True)
    X, strengths = StandardScaler().fit_transform(X), np.logspace(-4, 0, 20)
    fits = len(X) * 2 / 3
    mine = GridSearchCV(tl.CostSensitiveClassifier(), {"alpha": strengths}, cv=3)
    theirs = GridSearchCV(LogisticRegression(), {"C": 1 / (fits * strengths)}, cv=3)
    a, b = in_turn(lambda: mine.fit(X, y), lambda: theirs.fit(X, y), rounds=ROUNDS // 20)
    return [["search: GridSearchCV of 20 penalties in 3 folds", a, b, a / b, "1"]]


def predictions() -> list[list]:
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    one, theirs = X[:1], LogisticRegression().fit(X, y)
    rows = []
    for model in (tl.CostSensitiveClassifier().fit(X, y), tl.OrdinalClassifier().fit(X, y)):
        for verb in ("predict", "predict_moments"):
            answer = getattr(model, verb)
            a, b = in_turn(
                lambda f=answer: f(one), lambda: (theirs.predict(one), theirs.predict_proba(one)), rounds=2 * ROUNDS
            )
            rows.append([f"one row: {type(model).__name__}.{verb}", a, b, a / b, "1"])
    Y = np.column_stack([y == 1, y > 0, X[:, 0] > 0]).astype(int)
    sets, ours = OneVsRestClassifier(LogisticRegression()).fit(X, Y), tl.MultilabelClassifier().fit(X, Y)
    a, b = in_turn(lambda: ours.predict(X[:5]), lambda: sets.predict(X[:5]), rounds=2 * ROUNDS)
    rows.append(["five rows: MultilabelClassifier.predict", a, b, a / b, "1"])
    kernel, ridge = tl.KernelPredictor("zero-one").fit(X, y), KernelRidge(kernel="rbf").fit(X, np.eye(3)[y])
    a, b = in_turn(lambda: kernel.predict(one), lambda: ridge.predict(one), rounds=2 * ROUNDS)
    rows.append(["one row: KernelPredictor.predict", a, b, a / b, "1"])
    return rows


def without_peers() -> list[list]:
    rng = np.random.default_rng(0)
    X, relevance, groups = rng.normal(size=(200, 6)), rng.integers(0, 3, 200), np.repeat(np.arange(20), 10)
    ranker = tl.Ranker().fit(X, relevance, groups=groups)
    laws, costs = rng.dirichlet(np.ones(3), 5), [[0, 1, 2], [3, 0, 1], [2, 2, 0]]
    works = {
        "one group of 10: Ranker.predict": lambda: ranker.predict(X[:10], groups=groups[:10]),
        "five rows: decide, 3 x 3 costs": lambda: tl.decide(laws, costs),
    }
    return [[name, *in_turn(work, rounds=2 * ROUNDS), "", "", ""] for name, work in works.items()]


def _sentence(rng: np.random.Generator, words: int) -> list[dict[str, Any]]:
    kinds = ("w", "suffix", "before", "after")
    return [{"bias": 1.0, **{kind: str(rng.integers(3000)) for kind in kinds}} for _ in range(words)]


def sentence() -> list[list]:
    rng = np.random.default_rng(0)
    X = [_sentence(rng, 20) for _ in range(500)]
    y = [[f"t{rng.integers(20)}" for _ in x] for x in X]
    tagger = tl.SequenceTagger(max_iter=5).fit(X, y)
    (mine,) = in_turn(lambda: tagger.predict(X[:1]), rounds=2 * ROUNDS)
    return [["one sentence of 20 words: SequenceTagger.predict", mine, "", "", "0.2 ms"]]


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        rows = [*fits(), *search(), *predictions(), *without_peers(), *sentence()]
    note = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    write_table(
        "small", "Small things, often", ["what", "taskloss, ms", "peer, ms", "ratio", "at most"], rows, (), note
    )


if __name__ == "__main__":
    main()
