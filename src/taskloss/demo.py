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
from .plots.style import BLUE, GREY, INK
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
    """Mean held-out task loss of both, and the share of the argmax's loss that is saved, with its 95 % interval.

    sizes, parts: the losses that a single example had, and for the argmax and for ours what each adds to the mean.
    """

    task: Task
    argmax: float
    ours: float
    saved: float
    low: float
    high: float
    sizes: np.ndarray
    parts: np.ndarray


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
    losses = np.zeros((2, repeats, len(task.X)))
    for seed in range(repeats):
        for train, test in KFold(folds, shuffle=True, random_state=seed).split(task.X):
            for row, model in enumerate((argmax, task.ours)):
                fitted = make_pipeline(StandardScaler(), model).fit(task.X[train], task.y[train])
                losses[row, seed, test] = losses_of(
                    task.loss, fitted.predict(task.X[test]), task.y[test], np.unique(task.y)
                )
    theirs, ours = losses.mean(1)
    sizes, which = np.unique(losses.round(9), return_inverse=True)
    counts = [np.bincount(one.ravel(), minlength=len(sizes)) for one in which.reshape(losses.shape)]
    parts = np.array(counts) * sizes / losses[0].size
    low, high = interval_saved(theirs, ours)
    saved = 1 - float(ours.mean() / theirs.mean())
    return Result(task, float(theirs.mean()), float(ours.mean()), saved, low, high, sizes, parts)


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
    """Save the picture of the results."""
    check_figure(path)
    picture(results).savefig(path, dpi=150)


def picture(results: list[Result]) -> Any:
    """What is saved, with intervals, above; below, for each task, which mistakes the loss of both is made of."""
    from matplotlib.figure import Figure  # without pyplot, whose backend is the user's to choose

    figure = Figure(figsize=(11, 6.4), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    above, below = parts
    _draw_savings(above.subplots(), results)
    for axes, result in zip(np.atleast_1d(below.subplots(1, len(results))), results, strict=True):
        _draw_parts(axes, result)
    below.supxlabel("loss of an example", fontsize=9)
    below.supylabel("what such examples add\nto the mean loss", fontsize=9)
    below.legend(*below.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure


def _draw_savings(axes: Any, results: list[Result]) -> None:
    """A point with its interval for each task; hollow and grey where the interval holds zero."""
    for i, r in enumerate(results):
        told = r.low > 0 or r.high < 0
        colour = BLUE if told else GREY
        axes.plot([100 * r.low, 100 * r.high], [i, i], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot(100 * r.saved, i, "o", color=colour, markerfacecolor=colour if told else "white", markersize=8)
        axes.annotate(
            f"{r.argmax:.3f} → {r.ours:.3f}", (1, i), xycoords=("axes fraction", "data"), va="center", ha="right"
        )
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(results)), [f"{r.task.name}: {r.task.data}" for r in results])
    axes.set_ylim(len(results) - 0.4, -0.9)
    axes.annotate("mean loss", (1, -0.75), xycoords=("axes fraction", "data"), va="center", ha="right", fontsize=9)
    low, high = 100 * min(0.0, *(r.low for r in results)), 100 * max(0.0, *(r.high for r in results))
    axes.set_xlim(low - 2, high + 0.25 * (high - low))  # the numbers stand to the right of every interval
    axes.set_xlabel("task loss saved against cross-entropy and argmax, % (95 % interval; hollow: may be none)")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_parts(axes: Any, result: Result) -> None:
    """Bars side by side, which add up to the mean loss of each; losses of zero add nothing."""
    some = result.sizes > 0
    places = np.arange(some.sum())
    styles = (
        ("argmax", -0.2, {"color": "white", "edgecolor": INK, "hatch": "///"}),
        ("taskloss", 0.2, {"color": BLUE}),
    )
    for (name, shift, style), heights in zip(styles, result.parts, strict=True):
        axes.bar(places + shift, heights[some], width=0.38, label=name, **style)
    axes.set_xticks(places, [f"{size:.2g}" for size in result.sizes[some]])
    axes.set_title(result.task.name, fontsize=10)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
