"""What naming the loss is worth, on data bundled with scikit-learn: five tasks, held-out folds, paired intervals."""

from __future__ import annotations

import os
import pathlib
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
    """Mean held-out task loss of both, and the share of the argmax's loss that is saved, with its 95 % interval."""

    task: Task
    argmax: float
    ours: float
    saved: float
    low: float
    high: float


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
    if folds < 2 or repeats < 1:
        raise ValueError(f"The demo needs at least 2 folds and 1 repeat, got {folds} and {repeats}.")
    report(f"{'task':<12} {'data':<28} {'argmax':>8} {'taskloss':>9} {'saved':>7}  95 % interval")
    results = []
    for task in tasks():
        result = compare(task, folds, repeats)
        results.append(result)
        interval = f"{result.low:.1%} to {result.high:.1%}"
        report(
            f"{task.name:<12} {task.data:<28} {result.argmax:8.4f} {result.ours:9.4f} {result.saved:7.1%}  {interval}"
        )
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
    low, high = interval_saved(theirs, ours)
    return Result(task, float(theirs.mean()), float(ours.mean()), 1 - float(ours.mean() / theirs.mean()), low, high)


def interval_saved(theirs: np.ndarray, ours: np.ndarray, draws: int = 4000) -> tuple[float, float]:
    """The 95 % interval of 1 - mean(ours) / mean(theirs), from the percentiles of bootstrap draws of examples.

    Losses are not negative, so that no draw saves more than everything; an interval of mean plus and minus a standard
    error, of losses as skewed as these, would say that it might.
    """
    n, rng = len(ours), np.random.default_rng(0)
    # How often a draw takes each example: the same examples for both, which is what makes the comparison a paired one.
    sums = np.concatenate(
        [rng.multinomial(n, np.full(n, 1 / n), 500) @ np.column_stack([theirs, ours]) for _ in range(draws // 500)]
    )
    sums = sums[sums[:, 0] > 0]
    low, high = np.quantile(1 - sums[:, 1] / sums[:, 0], [0.025, 0.975])
    return float(low), float(high)


def check_figure(path: str) -> None:
    """One sentence about what keeps a figure from being saved there, before there is one."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        raise ImportError("The figure needs matplotlib: pip install 'taskloss[plot]'.") from None
    place, known = pathlib.Path(path), FigureCanvasAgg.get_supported_filetypes()
    if place.suffix and place.suffix[1:].lower() not in known:
        raise ValueError(f"the figure {path} would be of type {place.suffix}; choose one of {', '.join(sorted(known))}")
    if place.is_dir() or not place.absolute().parent.is_dir() or not os.access(place.absolute().parent, os.W_OK):
        raise ValueError(f"the figure cannot be saved to {path}: it must be a file in a directory that can be written")


def draw(results: list[Result], path: str) -> None:
    """One bar per task: the share of the argmax's loss that naming the loss saves, with its interval."""
    check_figure(path)
    from matplotlib.figure import Figure  # without pyplot, whose backend is the user's to choose

    names = [f"{r.task.name}\n{r.task.data}" for r in results]
    share, low, high = (100 * np.array([[r.saved, r.low, r.high] for r in results])).T
    figure = Figure(figsize=(7.5, 3.8), layout="constrained")
    axes = figure.subplots()
    colours = ["#1b7837" if end > 0 else "#999999" for end in low]
    error = np.maximum([share - low, high - share], 0)
    axes.barh(names, share, xerr=error, color=colours, ecolor="#222222", capsize=3, height=0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("task loss saved against cross-entropy and argmax, % (95 % interval)")
    axes.spines[["top", "right"]].set_visible(False)
    for i, r in enumerate(results):
        axes.annotate(
            f"{r.argmax:.3f} → {r.ours:.3f}",
            (max(high[i], 0), i),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.margins(x=0.32)
    figure.savefig(path, dpi=150)
