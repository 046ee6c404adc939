"""Decisions: where each output is decided for, and what deciding at each threshold costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from .._checks import check_lengths, check_whole, real_array
from ..data.weights import example_weights
from ..decisions import decide
from ..estimators.base import as_loss
from .base import Display
from .style import BLUE, COLOURS, GREEN, GREY, HATCHES, INK, MARKERS, RED, TINTS


def named_losses(losses: Any) -> dict[str, Any]:
    """Losses by the names that a picture gives them; None is the loss that the model was fitted for."""
    if isinstance(losses, Mapping):
        return dict(losses)
    if losses is None or not isinstance(losses, list | tuple) or not any(_is_loss(one) for one in losses):
        losses = [losses]
    return {_name(one): one for one in losses}


def _is_loss(one: Any) -> bool:
    return one is None or isinstance(one, str) or hasattr(one, "decode") or np.ndim(one) == 2


def _name(loss: Any) -> str:
    if loss is None:
        return "as fitted"
    return loss if isinstance(loss, str) else getattr(loss, "name", "costs")


class DecisionRegionDisplay(Display):
    """Where in the plane of two features each output is decided for, one panel for each loss: one fit, many losses.

    Parameters
    ----------
    x0, x1 : arrays, shapes (m,) and (n,)
        The grid of the two features.
    decisions : dict of str to array, shape (n, m)
        For each loss, by its name, the place in `outputs` of what is decided for at each point of the grid.
    outputs : list
        The names of the outputs.
    features : pair of str
        What the axes are called.

    See Also
    --------
    ExpectedCostDisplay : Two labels, by the threshold on a probability.

    Examples
    --------
    >>> import taskloss as tl
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = tl.CostSensitiveClassifier().fit(X[:, :2], y)
    >>> losses = {"0-1": "zero-one", "pass at 0.2": tl.losses.Abstain(cost=0.2)}
    >>> display = tl.plots.DecisionRegionDisplay.from_estimator(model, X[:, :2], losses, y=y)
    >>> display.outputs
    ['0', '1', '2', '-1']
    """

    def __init__(
        self, x0: Any, x1: Any, decisions: Mapping[str, Any], outputs: Sequence[str], features: Sequence[str]
    ) -> None:
        self.x0, self.x1 = np.asarray(x0), np.asarray(x1)
        self.decisions = {name: np.asarray(codes) for name, codes in decisions.items()}
        self.outputs, self.features = list(outputs), tuple(features)
        self.points: np.ndarray | None = None
        self.labels: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        losses: Any = None,
        *,
        y: Any = None,
        features: Sequence[Any] = (0, 1),
        grid: int = 160,
        ax: Any = None,
    ) -> Self:
        """Decide on a grid of two features, for each loss, and draw.

        Parameters
        ----------
        estimator : fitted estimator
            Any that `taskloss.decide` takes.
        X : array or data frame, shape (examples, features)
            Sets the range of the grid; further features are held at their medians.
        losses : a loss, a list of losses or a dict from name to loss, optional
            None is the loss that the estimator was fitted for.
        y : array, optional
            Labels of X, whose points are then drawn.
        features : pair of int or str, default (0, 1)
            The places or names of the two features.
        grid : int, default 160
            Points along each axis.
        ax : array of matplotlib Axes, optional

        Returns
        -------
        DecisionRegionDisplay
        """
        check_whole("grid", grid, 2)
        names, values = _columns(X)
        if len(features) != 2:
            raise ValueError(f"features must be a pair, got {features!r}.")
        places = [_place(one, names, values.shape[1]) for one in features]
        margin = 0.05 * np.maximum(np.ptp(values[:, places], axis=0), 1e-12)
        low, high = values[:, places].min(0) - margin, values[:, places].max(0) + margin
        axes = [np.linspace(low[j], high[j], grid) for j in range(2)]
        rows = np.repeat(np.median(values, axis=0)[None], grid * grid, axis=0)
        mesh = np.meshgrid(*axes)
        for place, one in zip(places, mesh, strict=True):
            rows[:, place] = one.ravel()
        inputs = type(X)(rows, columns=X.columns) if hasattr(X, "columns") else rows
        found = {
            name: np.asarray(decide(estimator, loss, X=inputs)).astype(str)
            for name, loss in named_losses(losses).items()
        }
        outputs = _outputs(estimator, found, y)
        code = {output: i for i, output in enumerate(outputs)}
        codes = {
            name: np.array([code[z] for z in decided.ravel()]).reshape(grid, grid) for name, decided in found.items()
        }
        display = cls(axes[0], axes[1], codes, outputs, [names[place] for place in places])
        if y is not None:
            check_lengths(len(values), y)
            display.points, display.labels = values[:, places], np.asarray(y).astype(str)
        return display.plot(ax)

    @property
    def shape(self) -> tuple[int, int]:
        return 1, len(self.decisions)

    @property
    def figure_size(self) -> tuple[float, float]:
        return 3.6 * len(self.decisions) + 1.2, 3.6

    def draw(self, ax: Any) -> None:
        from matplotlib.patches import Patch

        seen = sorted({int(code) for codes in self.decisions.values() for code in np.unique(codes)})
        for (name, codes), one in zip(self.decisions.items(), self.axes_[0], strict=True):
            for code in np.unique(codes):
                # One set of filled contours for each output: its hatch tells it apart in print.
                one.contourf(
                    self.x0,
                    self.x1,
                    (codes == code).astype(float),
                    levels=[0.5, 1.5],
                    colors=[TINTS[code % len(TINTS)]],
                    hatches=[HATCHES[code // len(TINTS) % len(HATCHES)]],
                )
                one.contour(self.x0, self.x1, codes == code, levels=[0.5], colors=INK, linewidths=0.7, linestyles="-")
            self._draw_points(one)
            one.set(title=name, xlabel=self.features[0], xlim=self.x0[[0, -1]], ylim=self.x1[[0, -1]])
        ax.set_ylabel(self.features[1])
        patches = [
            Patch(
                facecolor=TINTS[code % len(TINTS)],
                hatch=HATCHES[code // len(TINTS) % len(HATCHES)],
                edgecolor=INK,
                linewidth=0.5,
                label=self.outputs[code],
            )
            for code in seen
        ]
        self.axes_[0, -1].legend(handles=patches, title="decided", loc="upper left", bbox_to_anchor=(1.0, 1.0))

    def _draw_points(self, ax: Any) -> None:
        if self.points is None or self.labels is None:
            return
        for label in np.unique(self.labels):
            code = self.outputs.index(label)
            ax.scatter(
                *self.points[self.labels == label].T,
                s=14,
                color=COLOURS[code % len(COLOURS)],
                marker=MARKERS[code % len(MARKERS)],
                edgecolors="white",
                linewidths=0.4,
                label=label,
            )


def _columns(X: Any) -> tuple[list[str], np.ndarray]:
    values = real_array("X", X.to_numpy() if hasattr(X, "to_numpy") else X).astype(float)
    if values.ndim != 2 or values.shape[1] < 2 or not len(values):
        raise ValueError(f"X must have rows, and at least two features, got shape {values.shape}.")
    names = [str(one) for one in X.columns] if hasattr(X, "columns") else [f"x{j}" for j in range(values.shape[1])]
    return names, values


def _place(feature: Any, names: list[str], count: int) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"features names {feature!r}, which is no column of X; there are {', '.join(names)}.")
        return names.index(feature)
    if not -count <= feature < count:
        raise ValueError(f"features must be places below {count}, got {feature!r}.")
    return int(feature) % count


def _outputs(estimator: Any, found: dict[str, np.ndarray], y: Any) -> list[str]:
    """The labels in their order, then outputs that are none, such as one that abstains."""
    known = [str(one) for one in getattr(estimator, "classes_", [])]
    more = {str(z) for decided in found.values() for z in np.unique(decided)}
    more |= set() if y is None else {str(one) for one in np.unique(np.asarray(y))}
    return known + sorted(more - set(known))


class ExpectedCostDisplay(Display):
    """The mean cost of deciding for the second label from each threshold on its probability.

    Two curves: what the decisions did cost, and what the probabilities promise that they cost. They agree where the
    probabilities are calibrated. Vertical lines mark the threshold that the costs ask for, and 1/2, which is argmax's.

    Parameters
    ----------
    thresholds : array
        Thresholds in ascending order; the second label is decided for where its probability is at least that.
    cost, promised : arrays
        The mean cost at each, in fact and as the probabilities have it.
    best : float
        The threshold that the costs ask for.
    positive : str
        The name of the second label.

    Notes
    -----
    With costs C[z, y] the second label is decided for where its probability exceeds
    (C[1, 0] - C[0, 0]) / (C[1, 0] - C[0, 0] + C[0, 1] - C[1, 1]).

    Examples
    --------
    >>> import numpy as np, taskloss as tl
    >>> proba = np.array([0.1, 0.3, 0.4, 0.9])
    >>> display = tl.plots.ExpectedCostDisplay.from_predictions([0, 0, 1, 1], proba, [[0, 4], [1, 0]])
    >>> display.best
    0.2
    """

    def __init__(self, thresholds: Any, cost: Any, promised: Any, best: float, positive: str) -> None:
        self.thresholds, self.cost, self.promised = np.asarray(thresholds), np.asarray(cost), np.asarray(promised)
        self.best, self.positive = float(best), positive

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, costs: Any = None, *, sample_weight: Any = None, ax: Any = None
    ) -> Self:
        """From a fitted classifier of two labels that has `predict_proba`; `costs` None is the loss that it was fitted for."""
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{type(estimator).__name__} has no predict_proba: pass probabilities to from_predictions."
            )
        classes = np.asarray(estimator.classes_)
        if costs is None:
            costs = getattr(estimator, "loss_", None)
            if costs is None:
                raise ValueError(f"{type(estimator).__name__} has no loss of its own: pass costs.")
        proba = estimator.predict_proba(X)
        return cls.from_predictions(y, proba, costs, labels=classes, sample_weight=sample_weight, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, proba: Any, costs: Any, *, labels: Any = (0, 1), sample_weight: Any = None, ax: Any = None
    ) -> Self:
        """From probabilities of the second label.

        Parameters
        ----------
        y_true : array, shape (examples,)
        proba : array, shape (examples,) or (examples, 2)
            Probabilities of the second label, or of both.
        costs : matrix, shape (2, 2), or a loss
            costs[z, y] is the cost of deciding for z where the label is y.
        labels : pair, default (0, 1)
        sample_weight : array, shape (examples,), optional
        ax : matplotlib Axes, optional

        Returns
        -------
        ExpectedCostDisplay
        """
        p = real_array("proba", proba).astype(float)
        p = p[:, 1] if p.ndim == 2 and p.shape[1] == 2 else p
        if p.ndim != 1 or not len(p) or not ((p >= 0) & (p <= 1)).all():
            raise ValueError(f"proba must be probabilities of the second label, got shape {p.shape}.")
        check_lengths(len(p), y_true)
        y = np.asarray(y_true)
        names = list(labels)
        if len(names) != 2 or not np.isin(y, names).all():
            raise ValueError(f"y_true must hold the two labels {names} only: this picture is of two labels.")
        loss = as_loss(costs).bind_names(np.asarray(names)).bind(2)
        matrix = loss.matrix()
        if matrix.shape != (2, 2):
            raise ValueError(f"costs must be of two outputs and two labels, got a matrix of shape {matrix.shape}.")
        w = example_weights(sample_weight, len(p))
        w = w / w.sum()
        second = np.column_stack([y == names[0], y == names[1]]).astype(float)
        thresholds, real = _by_threshold(p, w, second @ matrix.T)
        promised = _by_threshold(p, w, np.column_stack([1 - p, p]) @ matrix.T)[1]
        rise, fall = matrix[1, 0] - matrix[0, 0], matrix[0, 1] - matrix[1, 1]
        if rise + fall <= 0:
            raise ValueError("costs must make right decisions cheaper than wrong ones: they ask for no threshold.")
        return cls(thresholds, real, promised, np.clip(rise / (rise + fall), 0, 1), str(names[1])).plot(ax)

    def draw(self, ax: Any) -> None:
        curves = (
            (self.cost, BLUE, "-", "what it costs"),
            (self.promised, GREY, "--", "what the probabilities promise"),
        )
        for values, colour, dash, label in curves:
            t, heights = np.append(0.0, self.thresholds), np.append(values[0], values)
            ax.step(t, heights, where="pre", color=colour, linestyle=dash, label=label)
        ax.axvline(self.best, color=GREEN, linestyle="-.", label=f"threshold of the costs, {self.best:.3g}")
        ax.axvline(0.5, color=RED, linestyle=":", label="argmax, 0.5")
        ax.set(xlim=(0, 1), xlabel=f"threshold on the probability of {self.positive}", ylabel="mean cost of a decision")
        ax.set_ylim(bottom=min(0.0, float(self.cost.min())))
        ax.legend()


def _by_threshold(p: np.ndarray, weights: np.ndarray, paid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each threshold, and the mean of what is paid where those with p >= it take the second column of `paid`.

    One sort and one cumulative sum: the k-th threshold takes the first column for all smaller p.
    """
    values, place = np.unique(p, return_inverse=True)
    below = np.bincount(place, weights * (paid[:, 0] - paid[:, 1]), len(values))
    cost = weights @ paid[:, 1] + np.concatenate([[0.0], np.cumsum(below)])
    # Costs change just above a value of p, and from the last value on nothing is taken for the second label.
    thresholds = np.append(values, 1.0 if values[-1] < 1 else np.nextafter(1.0, 2.0))
    return thresholds, cost
