"""What naming the loss is worth, on data bundled with scikit-learn: five tasks, held-out folds, paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .estimators import CostSensitiveClassifier, MultilabelClassifier, OrdinalClassifier
from .losses import Absolute, Abstain, CostMatrix, Hamming, Loss, TreeDistance
from .scoring import losses_of

ALPHA = 3e-4


@dataclass(frozen=True)
class Task:
    """A data set, the loss that judges it, and the estimator that knows that loss."""

    name: str
    data: str
    loss: Loss
    X: np.ndarray
    y: np.ndarray
    ours: Any


@dataclass(frozen=True)
class Result:
    """Mean held-out task loss of both, and the paired difference with the half-width of its 95 % interval."""

    task: Task
    argmax: float
    ours: float
    gain: float
    margin: float


class SetArgmax(ClassifierMixin, BaseEstimator):
    """Cross-entropy over the label sets that occur, and the most likely set: the multilabel form of argmax."""

    def __init__(self, C: float = 1.0):
        self.C = C

    def fit(self, X: np.ndarray, y: np.ndarray) -> SetArgmax:
        self.sets_, codes = np.unique(y, axis=0, return_inverse=True)
        self.model_ = LogisticRegression(C=self.C, max_iter=2000).fit(X, codes.ravel())
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.sets_[self.model_.predict(X)]


def tasks() -> Iterator[Task]:
    """Cost matrix, abstention, ordered labels, label sets and a taxonomy."""
    X, y = load_breast_cancer(return_X_y=True)
    means = X[:, :10]
    diagnosis = np.array(["malignant", "benign"])[y]
    # A missed malignancy costs twenty times a needless biopsy. Columns are benign, malignant; so are the rows.
    costs = CostMatrix([[0, 20], [1, 0]], labels=["benign", "malignant"], outputs=["benign", "malignant"])
    yield Task("cost matrix", "breast cancer", costs, means, diagnosis, CostSensitiveClassifier(costs, alpha=ALPHA))

    images, digit = load_digits(return_X_y=True)
    sums = np.hstack([images.reshape(-1, 8, 8).sum(1), images.reshape(-1, 8, 8).sum(2)])
    abstain = Abstain(cost=0.2)
    yield Task(
        "abstention", "digits, row and column sums", abstain, sums, digit, CostSensitiveClassifier(abstain, alpha=ALPHA)
    )

    features, progression = load_diabetes(return_X_y=True)
    grade = np.digitize(progression, np.quantile(progression, np.arange(1, 8) / 8))
    yield Task("ordinal", "diabetes in 8 grades", Absolute(8), features, grade, OrdinalClassifier(alpha=ALPHA))

    # Which of four measurements are above their median, from the other six and the age.
    targets = np.column_stack([features[:, [2, 3, 8]], progression])
    above = (targets > np.median(targets, axis=0)).astype(int)
    rest = features[:, [0, 1, 4, 5, 6, 7, 9]]
    yield Task("multilabel", "diabetes, 4 labels", Hamming(4), rest, above, MultilabelClassifier(alpha=ALPHA))

    shapes = {"round": "0689", "curved": "235", "straight": "147"}
    path = {d: f"{shape}/{d}" for shape, ds in shapes.items() for d in ds}
    taxonomy = TreeDistance(sorted(path.values()), outputs="nodes")
    leaves = np.array([path[str(d)] for d in digit])
    yield Task("taxonomy", "digits by shape", taxonomy, sums, leaves, CostSensitiveClassifier(taxonomy, alpha=ALPHA))


def run(folds: int = 5, repeats: int = 3, report: Callable[[str], Any] = print) -> list[Result]:
    """Fit both on the same folds with the same penalty, and compare the losses of the same held-out examples."""
    report(f"{'task':<12} {'data':<28} {'argmax':>8} {'taskloss':>9} {'saved':>7}  95 % interval of the difference")
    results = []
    for task in tasks():
        result = compare(task, folds, repeats)
        results.append(result)
        saved = result.gain / result.argmax
        interval = f"{result.gain - result.margin:+.4f} to {result.gain + result.margin:+.4f}"
        report(f"{task.name:<12} {task.data:<28} {result.argmax:8.4f} {result.ours:9.4f} {saved:7.1%}  {interval}")
    return results


def compare(task: Task, folds: int, repeats: int) -> Result:
    """Both models on every fold; each example's loss is averaged over the repeats before examples are compared."""
    size = len(task.X) * (folds - 1) / folds
    C = 1 / (size * ALPHA)
    argmax = SetArgmax(C) if isinstance(task.loss, Hamming) else LogisticRegression(C=C, max_iter=2000)
    total = np.zeros((2, len(task.X)))
    for seed in range(repeats):
        for train, test in KFold(folds, shuffle=True, random_state=seed).split(task.X):
            for row, model in enumerate((argmax, task.ours)):
                fitted = make_pipeline(StandardScaler(), model).fit(task.X[train], task.y[train])
                total[row, test] += losses_of(task.loss, fitted.predict(task.X[test]), task.y[test], np.unique(task.y))
    theirs, ours = total / repeats
    difference = theirs - ours
    margin = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
    return Result(task, float(theirs.mean()), float(ours.mean()), float(difference.mean()), float(margin))


def draw(results: list[Result], path: str) -> None:
    """One bar per task: the share of the argmax's loss that naming the loss saves, with its interval."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("The figure needs matplotlib: pip install 'taskloss[plot]'.") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [f"{r.task.name}\n{r.task.data}" for r in results]
    share = np.array([r.gain / r.argmax for r in results]) * 100
    error = np.array([r.margin / r.argmax for r in results]) * 100
    figure, axes = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
    colours = ["#1b7837" if s - e > 0 else "#999999" for s, e in zip(share, error, strict=True)]
    axes.barh(names, share, xerr=error, color=colours, ecolor="#222222", capsize=3, height=0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("task loss saved against cross-entropy and argmax, % (95 % interval)")
    axes.spines[["top", "right"]].set_visible(False)
    for i, r in enumerate(results):
        axes.annotate(
            f"{r.argmax:.3f} → {r.ours:.3f}",
            (max(share[i] + error[i], 0), i),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.margins(x=0.32)
    figure.savefig(path, dpi=150)
    plt.close(figure)
