"""How well predictions do on real data, by the loss they are judged by: python -m benchmarks.quality [folder/name ...].

Dense features are standardised on the training part. Every method chooses its penalty from the same grid by the same
three inner folds: taskloss by the task loss, peers by their usual criterion and, a second time, by the task loss. For
ordinal data taskloss also chooses its surrogate there, as a user's grid search would. Over several splits the interval of a difference
is the corrected resampled t interval (Nadeau and Bengio 2003), since training sets overlap; on one official split it is over test
examples. A win or a loss is a 95 % interval without zero. Data sets are kept in results/quality.json, so that they can be
measured one at a time; the table has all of them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.model_selection import KFold, StratifiedKFold

from .common import RESULTS, measure_all, write_table
from .datasets import root, tabular

ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FOLDS = 3
STORE = RESULTS / "quality.json"
PICK = {
    "cost_sensitive": ["german"],
    "multiclass": ["letter", "satimage", "vowel"],
    "hierarchical": ["diatoms", "imclef07a"],
}

Losses = Callable[[Any, Any], np.ndarray]  # predictions, labels -> one loss per row


@dataclass
class Method:
    """A way to fit, its configurations, and the criteria by which to choose among them ("task" is the task loss)."""

    name: str
    make: Callable[..., Any]  # (n, **configuration) -> an estimator with fit and predict
    grid: list[dict[str, Any]]
    criteria: dict[str, Losses | None] = field(default_factory=lambda: {"task": None})


# -- one data set ----------------------------------------------------------------------------------------------------


def evaluate(data: tabular.Dataset, losses: Losses, methods: list[Method]) -> dict[str, list[np.ndarray]]:
    """The test losses of every method under each of its criteria, split by split."""
    out: dict[str, list[np.ndarray]] = {}
    for train, test in data.splits:
        X, X_test = standardise(data.X[train], data.X[test])
        y, y_test = data.y[train], data.y[test]
        folds = inner_folds(y)
        for method in methods:
            # A single configuration needs no folds to be chosen.
            tried = folds if len(method.grid) > 1 else []
            found = [[fitted(method, c, X[a], y[a]).predict(X[b]) for a, b in tried] for c in method.grid]
            tests: dict[int, np.ndarray] = {}
            for label, criterion in method.criteria.items():
                best = choose(criterion or losses, found, [y[b] for _, b in tried])
                if best not in tests:
                    tests[best] = losses(fitted(method, method.grid[best], X, y).predict(X_test), y_test)
                out.setdefault(f"{method.name}, by {label}", []).append(tests[best])
    return out


def choose(judge: Losses, found: list[list[Any]], held: list[np.ndarray]) -> int:
    """The configuration of least mean loss over the held-out folds."""
    if len(found) == 1:
        return 0
    return int(np.argmin([np.concatenate(list(map(judge, f, held))).mean() for f in found]))


def fitted(method: Method, configuration: dict[str, Any], X: Any, y: np.ndarray) -> Any:
    return method.make(X.shape[0], **configuration).fit(X, y)


def standardise(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Mean 0 and deviation 1; sparse features, which are words present or absent, stay as they are."""
    if sparse.issparse(X):
        return X, X_test
    mean, deviation = X.mean(0), X.std(0)
    deviation[deviation < 1e-12] = 1.0
    return (X - mean) / deviation, (X_test - mean) / deviation


def inner_folds(y: np.ndarray) -> list[tabular.Split]:
    kind = StratifiedKFold if y.ndim == 1 else KFold
    return list(kind(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(y)), y))


# -- peers -----------------------------------------------------------------------------------------------------------


def logistic(n: int, alpha: float, **options: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / (n * alpha), max_iter=1000, **options)


class Relabelled:
    """A peer that knows only labels 0..k-1 without gaps, on data where some may be absent."""

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X: Any, y: np.ndarray) -> Relabelled:
        self.seen, codes = np.unique(y, return_inverse=True)
        self.estimator.fit(X, codes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.seen[self.estimator.predict(X).astype(int)]


def mord(n: int, alpha: float) -> Any:
    from mord import LogisticAT

    return Relabelled(LogisticAT(alpha=n * alpha))


class ProportionalOdds:
    """statsmodels' OrderedModel: maximum likelihood without a penalty, and the most likely label."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> ProportionalOdds:
        from scipy.linalg import qr
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        # It refuses columns that add up to a constant, as indicators of all values of a feature do.
        _, r, order = qr(X - X.mean(0), mode="economic", pivoting=True)
        scale = np.abs(np.diag(r))
        self.kept = np.sort(order[: len(scale)][scale > 1e-8 * scale[0]])
        self.result = OrderedModel(y, X[:, self.kept], distr="logit").fit(
            method="bfgs", maxiter=100, disp=0, skip_hessian=True
        )
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.argmax(np.asarray(self.result.predict(X[:, self.kept])), axis=1)


def one_vs_rest(n: int, alpha: float) -> Any:
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(logistic(n, alpha))


def one_vs_rest_sparse(n: int, alpha: float) -> Any:
    """liblinear takes a tenth of the time on words; its intercept is penalised, here a ten-thousandth as much."""
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(logistic(n, alpha, solver="liblinear", intercept_scaling=100.0))


# -- tasks -----------------------------------------------------------------------------------------------------------


def wrong(z: Any, y: Any) -> np.ndarray:
    return (np.asarray(z) != np.asarray(y)).astype(float)


def grid(**more: list[Any]) -> list[dict[str, Any]]:
    """Every penalty, times the other choices."""
    out: list[dict[str, Any]] = [{"alpha": a} for a in ALPHAS]
    for key, values in more.items():
        out = [{**c, key: value} for value in values for c in out]
    return out


def tabular_losses(matrix: np.ndarray, labels: np.ndarray) -> Losses:
    index = {label: code for code, label in enumerate(labels.tolist())}

    def losses(z: Any, y: Any) -> np.ndarray:
        codes = [[index[v] for v in np.asarray(values).tolist()] for values in (z, y)]
        return matrix[codes[0], codes[1]]

    return losses


def classification(data: tabular.Dataset, loss: Any, peers: list[Method]) -> tuple[Losses, list[Method]]:
    import taskloss as tl

    labels = np.unique(data.y)
    bound = loss.bind_names(labels).bind(len(labels))
    names = bound.label_names()

    def make(n: int, alpha: float) -> Any:
        return tl.CostSensitiveClassifier(loss, alpha=alpha, tol=1e-5)

    return tabular_losses(bound.matrix(), labels if names is None else names), [
        Method("taskloss", make, grid()),
        *peers,
    ]


def task(folder: str, name: str) -> tuple[str, tabular.Dataset, Losses, list[Method]]:
    """The loss's name, the data, the losses and the methods, taskloss first."""
    import taskloss as tl

    data = tabular.load(folder, name)
    both = {"accuracy": wrong, "task": None}
    argmax = Method("LogisticRegression", logistic, grid(), both)
    if folder == "cost_sensitive":
        weights = {"bad": 5.0, "good": 1.0}
        weighted = Method(
            "LogisticRegression(class_weight)", lambda n, alpha: logistic(n, alpha, class_weight=weights), grid()
        )
        return "costs 5:1", data, *classification(data, tl.losses.CostMatrix(data.extras["costs"]), [argmax, weighted])
    if folder == "hierarchical":
        return "tree distance", data, *classification(data, tl.losses.TreeDistance(data.extras["tree"]), [argmax])
    if folder == "multiclass":
        argmax = Method("LogisticRegression", logistic, grid())
        return "0-1", data, *classification(data, tl.losses.ZeroOne(), [argmax])
    if folder == "multilabel":

        def subset(z: Any, y: Any) -> np.ndarray:
            return wrong(z, y).any(axis=1).astype(float)

        ours = Method("taskloss", lambda n, alpha: tl.MultilabelClassifier(alpha=alpha, tol=1e-5), grid())
        fit = one_vs_rest_sparse if sparse.issparse(data.X) else one_vs_rest
        peer = Method("OneVsRest", fit, grid(), {"subset accuracy": subset, "task": None})
        return "Hamming", data, lambda z, y: wrong(z, y).mean(axis=1), [ours, peer]
    labels = np.arange(data.y.max() + 1)

    def make(n: int, alpha: float, surrogate: str) -> Any:
        return tl.OrdinalClassifier(surrogate=surrogate, order=labels, alpha=alpha, tol=1e-5)

    methods = [
        Method("taskloss", make, grid(surrogate=["all-thresholds", "cumulative-link", "multinomial"])),
        argmax,
        Method("mord.LogisticAT", mord, grid()),
    ]
    if data.X.shape[0] * data.X.shape[1] < 20_000:
        methods.append(
            Method("statsmodels OrderedModel", lambda n: Relabelled(ProportionalOdds()), [{}], {"likelihood": None})
        )
    return "MAE", data, lambda z, y: np.abs(np.asarray(z, float) - y), methods


# -- statistics --------------------------------------------------------------------------------------------------------


def interval(parts: list[np.ndarray], ratio: float, level: float = 0.95) -> tuple[float, float, float]:
    """Mean, standard error, and half the width of the interval; ratio: test rows per training row."""
    if len(parts) == 1:
        values = parts[0]
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        freedom = len(values) - 1
    else:
        values = np.array([part.mean() for part in parts])
        error = float(values.std(ddof=1) * np.sqrt(1 / len(values) + ratio))
        freedom = len(values) - 1
    return float(values.mean()), error, float(stats.t.ppf((1 + level) / 2, freedom) * error)


def verdict(mean: float, half: float) -> str:
    if mean + half < 0:
        return "win"
    return "LOSS" if mean - half > 0 else "tie"


def measure(folder: str, name: str) -> list[dict[str, Any]]:
    """The rows of one data set: taskloss against each peer."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    loss, data, losses, methods = task(folder, name)
    found = evaluate(data, losses, methods)
    train, test = data.splits[0]
    ratio = len(test) / len(train)
    ours = found["taskloss, by task"]
    mean, error, _ = interval(ours, ratio)
    rows = []
    for key, theirs in found.items():
        if key == "taskloss, by task":
            continue
        peer_mean, peer_error, _ = interval(theirs, ratio)
        difference, _, half = interval([a - b for a, b in zip(ours, theirs, strict=True)], ratio)
        rows.append(
            {
                "data": data.name,
                "loss": loss,
                "splits": f"{len(data.splits)} {'official' if data.official else 'seeded'}",
                "ours": f"{mean:.4f} ± {error:.4f}",
                "peer": key.replace("by task", "by the task loss"),
                "theirs": f"{peer_mean:.4f} ± {peer_error:.4f}",
                "difference": f"{difference:+.4f} [{difference - half:+.4f}, {difference + half:+.4f}]",
                "verdict": verdict(difference, half),
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
    return rows


# -- the table -----------------------------------------------------------------------------------------------------------


def everything() -> list[str]:
    chosen = {**PICK, "multilabel": tabular.names("multilabel"), "ordinal": tabular.names("ordinal")}
    return [f"{folder}/{name}" for folder, names in chosen.items() for name in names]


def main(chosen: list[str]) -> None:
    known = everything()
    if not known or root() is None:
        raise SystemExit("The data sets are absent: set TASKLOSS_DATA to their folder.")
    chosen = [k for k in known if any(k == c or k.startswith(c + "/") for c in chosen)] if chosen else known
    render(measure_all(STORE, chosen, measure))


def render(kept: dict[str, Any]) -> str:
    """The table of every data set that was measured so far."""
    missing = [key for key in everything() if key not in kept]
    columns = ["data", "loss", "splits", "ours", "peer", "theirs", "difference", "verdict"]
    rows = [[r[c] for c in columns] for key in everything() for r in kept.get(key, [])]
    header = ["data", "loss", "splits", "taskloss", "peer", "its loss", "difference [95 %]", "taskloss"]
    return write_table("quality", "Task loss on real data", header, rows, ["mord", "statsmodels"], note(rows, missing))


def note(rows: list[list[str]], missing: list[str]) -> str:
    """How to read the table, how often we win, and what is not in it."""
    counts = {v: sum(r[-1] == v for r in rows) for v in ("win", "tie", "LOSS")}
    text = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    absent = f" Not measured yet: {', '.join(missing)}." if missing else ""
    return f"{text}\n\nIn all: {counts['win']} wins, {counts['tie']} ties, {counts['LOSS']} losses.{absent}"


if __name__ == "__main__":
    main(sys.argv[1:])
