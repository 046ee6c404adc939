"""Rankings: NDCG on MQ2008 and LightGBM's example, beside LightGBM's lambdarank and ridge regression on the grades.

python -m benchmarks.rankings
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

import taskloss as tl
from taskloss.data.groups import GroupIds
from taskloss.losses import NDCG

from .common import write_table
from .datasets.rankings import Queries, lightgbm_rank, mq2008

DEPTHS = (1, 3, 5, 10)
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
Model = Callable[[np.ndarray], np.ndarray]  # features to scores


def ndcg(scores: np.ndarray, data: Queries, at: int, empty: float = 0.0) -> float:
    """Mean NDCG at a depth over queries, gains 2^y - 1; `empty` is what a query without relevant documents counts as."""
    values = np.empty(0)
    for size, _, rows in GroupIds(data.groups, len(scores)).by_size():
        loss = NDCG(at=at, empty=empty, n_items=size)
        values = np.append(values, 1 - loss(loss.decode(scores[rows]), data.y[rows]))
    return float(values.mean())


def standard(train: Queries, *others: Queries) -> list[Queries]:
    """Features less their training mean, in training standard deviations."""
    mean, spread = train.X.mean(0), train.X.std(0)
    spread = np.where(spread > 0, spread, 1)
    return [Queries((q.X - mean) / spread, q.y, q.groups) for q in (train, *others)]


def ours(surrogate: str) -> Callable[[Queries, Queries], Model]:
    def fit(train: Queries, valid: Queries) -> Model:
        models = [
            tl.Ranker(NDCG(at=10), surrogate, alpha=a, tol=1e-6).fit(train.X, train.y, groups=train.groups)
            for a in ALPHAS
        ]
        return max(models, key=lambda m: m.score(valid.X, valid.y, valid.groups)).predict_scores

    return fit


def ridge(train: Queries, valid: Queries) -> Model:
    """Regression on the grades themselves."""
    models = [Ridge(alpha=a * len(train.y)).fit(train.X, train.y) for a in ALPHAS]
    return max(models, key=lambda m: ndcg(m.predict(valid.X), valid, 10)).predict


def lambdarank(train: Queries, valid: Queries) -> Model:
    """LightGBM's trees, stopped by NDCG@10 on the validation queries."""
    import lightgbm

    model = lightgbm.LGBMRanker(
        objective="lambdarank",
        n_estimators=500,
        learning_rate=0.05,
        num_leaves=15,
        min_child_samples=20,
        n_jobs=2,
        verbose=-1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions have another name for eval_set
        model.fit(
            train.X,
            train.y,
            group=train.sizes,
            eval_set=[(valid.X, valid.y)],
            eval_group=[valid.sizes],
            eval_at=[10],
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )
    return model.predict


METHODS: dict[str, Callable[[Queries, Queries], Model]] = {
    "Ranker, quadratic": ours("quadratic"),
    "Ranker, logistic": ours("logistic"),
    "Ranker, listwise": ours("listwise"),
    "ridge on grades": ridge,
    "LightGBM lambdarank": lambdarank,
}


def compare(splits: list[tuple[Queries, Queries, Queries]]) -> list[list[Any]]:
    rows = []
    for name, fit in METHODS.items():
        if "LightGBM" in name and importlib.util.find_spec("lightgbm") is None:
            continue
        results, seconds = [], 0.0
        for split in splits:
            train, valid, test = standard(*split)
            start = time.perf_counter()
            model = fit(train, valid)
            seconds += time.perf_counter() - start
            scores = np.asarray(model(test.X))
            results.append([ndcg(scores, test, k) for k in DEPTHS] + [ndcg(scores, test, 10, empty=1.0)])
        rows.append([name, *np.mean(results, axis=0).tolist(), f"{seconds / len(splits):.2f}"])
    return rows


def example() -> list[tuple[Queries, Queries, Queries]]:
    """LightGBM's example has no validation queries: the last fifth of the training queries serves."""
    train, test = lightgbm_rank()
    last = train.groups >= 0.8 * (train.groups.max() + 1)
    parts = [Queries(train.X[m], train.y[m], train.groups[m]) for m in (~last, last)]
    return [(parts[0], parts[1], test)]


def main() -> None:
    peers = ["lightgbm"] if importlib.util.find_spec("lightgbm") is not None else []
    header = ["method", *[f"NDCG@{k}" for k in DEPTHS], "NDCG@10, empty = 1", "seconds to fit and tune"]
    note = (
        "Gains 2^grade - 1, discount 1 / log2(2 + position), ties to the first document. A query without relevant documents counts as 0, as in "
        "scikit-learn and the LETOR tools; the column 'empty = 1' counts it as 1, as LightGBM does. Linear models choose alpha among five on the "
        "validation queries, lambdarank its number of trees. Rankers are fitted to NDCG@10's moments. "
    )
    write_table(
        "rankings_mq2008",
        "MQ2008, mean of the five folds' test queries",
        header,
        compare(mq2008()),
        peers,
        note + "784 queries, 15,211 documents, 46 features; 220 queries have no relevant document.",
    )
    write_table(
        "rankings_lightgbm",
        "LightGBM's ranking example, 50 test queries",
        header,
        compare(example()),
        peers,
        note + "161 queries train, 40 validate; 300 sparse features.",
    )


if __name__ == "__main__":
    main()
