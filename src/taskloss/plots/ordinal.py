"""One score and its thresholds: how ordered labels are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .._checks import check_lengths
from ..surrogates.cumulative import CumulativeLink
from .base import Display
from .style import COLOURS, GREY, INK, MARKERS, TINTS

SAME = 1e-6  # differences between scores that are held to be one and the same threshold


class OrdinalThresholdDisplay(Display):
    """The one score of an ordinal model, its thresholds, and what is decided between them.

    Each grade has a row with the scores of its examples. Dashed lines are the fitted thresholds, where a score of the surrogate
    is zero; tinted bands are the decisions, which for absolute error change at the thresholds and for other losses need not.

    Parameters
    ----------
    scores : array, shape (examples,)
        Higher for higher grades.
    grades : array of int, shape (examples,)
        The place of each true grade in `names`.
    thresholds : array
    bounds : array, shape (bands + 1,)
        Where bands of equal decisions begin and end.
    decided : array of str, shape (bands,)
    names : list of str
        The grades, lowest first.

    Examples
    --------
    >>> import numpy as np, taskloss as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.digitize(X[:, 0] + rng.normal(size=200), [-1, 0, 1])
    >>> display = tl.plots.OrdinalThresholdDisplay.from_estimator(tl.OrdinalClassifier().fit(X, y), X, y)
    >>> len(display.thresholds), display.decided.tolist()
    (3, ['0', '1', '2', '3'])
    """

    def __init__(
        self, scores: Any, grades: Any, thresholds: Any, bounds: Any, decided: Any, names: Sequence[str]
    ) -> None:
        self.scores, self.grades, self.thresholds = np.asarray(scores), np.asarray(grades), np.asarray(thresholds)
        self.bounds, self.decided, self.names = np.asarray(bounds), np.asarray(decided), list(names)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, loss: Any = None, points: int = 2000, ax: Any = None
    ) -> Self:
        """From a fitted `OrdinalClassifier` whose thresholds share one score.

        Parameters
        ----------
        estimator : fitted OrdinalClassifier
        X, y : examples and their grades
        loss : optional
            Another loss to decide for.
        points : int, default 2000
            How finely the decisions are searched for where they change.
        ax : matplotlib Axes, optional

        Returns
        -------
        OrdinalThresholdDisplay
        """
        v = estimator.predict_scores(X)
        check_lengths(len(v), y)
        offsets = v - v.mean(1, keepdims=True)
        if v.shape[1] < 1 or np.ptp(offsets, axis=0).max() > SAME * max(1.0, np.abs(v).max()):
            raise ValueError(
                f"{type(estimator).__name__} has no one score for all thresholds: use OrdinalClassifier(shared=True) with 'all-thresholds' "
                "or 'cumulative-link'."
            )
        sign = -1.0 if isinstance(estimator.surrogate_, CumulativeLink) else 1.0  # scores of P(Y <= j), not of P(Y > j)
        scores, table = sign * v.mean(1), offsets.mean(0)
        names = [str(one) for one in estimator.classes_]
        place = {name: i for i, name in enumerate(names)}
        grades = np.array([place.get(str(one), -1) for one in np.asarray(y)])
        if (grades < 0).any():
            raise ValueError(f"y has grades that the fit has not seen; those are {', '.join(names)}.")
        thresholds = -sign * table
        reach = np.concatenate([scores, thresholds])
        margin = 0.05 * max(float(np.ptp(reach)), 1e-9)
        grid = np.linspace(reach.min() - margin, reach.max() + margin, points)
        mu = estimator.surrogate_.inverse_link(sign * grid[:, None] + table)
        judged = estimator._loss_for(loss)
        decided = np.asarray(
            estimator.labels_.translate(judged.decode(estimator.loss_.moments_for(judged, mu)), judged)
        ).astype(str)
        change = np.flatnonzero(decided[1:] != decided[:-1])
        bounds = np.concatenate([grid[:1], (grid[change] + grid[change + 1]) / 2, grid[-1:]])
        starts = np.append(0, change + 1)
        return cls(scores, grades, np.sort(thresholds), bounds, decided[starts], names).plot(ax)

    @property
    def figure_size(self) -> tuple[float, float]:
        return 7.0, 0.42 * len(self.names) + 1.6

    def draw(self, ax: Any) -> None:
        for left, right, name in zip(self.bounds[:-1], self.bounds[1:], self.decided, strict=True):
            code = self.names.index(name) if name in self.names else len(self.names)
            ax.axvspan(left, right, color=TINTS[code % len(TINTS)], linewidth=0)
            ax.text(
                (left + right) / 2, len(self.names) - 0.35, name, ha="center", va="bottom", fontsize=9, clip_on=False
            )
        for threshold in self.thresholds:
            ax.axvline(threshold, color=INK, linestyle="--", linewidth=1)
        rng = np.random.default_rng(0)
        for code in range(len(self.names)):
            u = self.scores[self.grades == code]
            ax.plot(
                u,
                code + 0.24 * rng.uniform(-1, 1, len(u)),
                MARKERS[code % len(MARKERS)],
                color=COLOURS[code % len(COLOURS)],
                linestyle="none",
                markersize=3.5,
                alpha=0.6,
            )
        ax.set(xlim=self.bounds[[0, -1]], ylim=(-0.6, len(self.names) - 0.4))
        ax.set_yticks(range(len(self.names)), self.names)
        ax.set(xlabel="score", ylabel="true grade")
        ax.set_title("decided", fontsize=9, color=GREY, pad=16)
