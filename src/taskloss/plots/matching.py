"""Matchings, drawn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._checks import real_array
from .base import Display
from .style import BLUE, GREEN, GREY, INK, ORANGE, RED


class MatchingDisplay(Display):
    """A matching, drawn between two images or graphs: a line from each node on the left to the one that it is matched with.

    Lines are as strong as the match is probable. Where the truth is known, right matches are green and wrong ones red and dashed.

    Parameters
    ----------
    left, right : arrays, shape (nodes, 2)
        Where the nodes lie.
    matching : array of int, shape (left nodes,)
        The node on the right for each on the left, -1 for none.
    truth : array of int, optional
    proba : array, shape (left nodes, right nodes), optional
        The probability of each match.
    images : pair of arrays, optional
        What the nodes lie on; coordinates are then pixels, columns first.
    edges : pair of lists of pairs, optional
        The edges of the two graphs.

    Examples
    --------
    >>> import taskloss as tl
    >>> square = [[0, 0], [1, 0], [1, 1], [0, 1]]
    >>> display = tl.plots.MatchingDisplay.from_predictions(square, square, [1, 0, 2, 3], truth=[0, 1, 2, 3])
    >>> display.wrong
    2
    """

    size = (7.5, 3.6)

    def __init__(
        self,
        left: Any,
        right: Any,
        matching: Any,
        truth: Any = None,
        proba: Any = None,
        images: Any = None,
        edges: Any = None,
    ) -> None:
        self.left, self.right, self.matching = np.asarray(left), np.asarray(right), np.asarray(matching)
        self.truth = None if truth is None else np.asarray(truth)
        self.proba = None if proba is None else np.asarray(proba)
        self.images, self.edges = images, edges

    @property
    def wrong(self) -> int | None:
        """How many nodes are matched wrongly; None where the truth is not known."""
        return None if self.truth is None else int((self.matching != self.truth).sum())

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        left: Any,
        right: Any,
        *,
        y: Any = None,
        images: Any = None,
        edges: Any = None,
        ax: Any = None,
    ) -> Self:
        """From a fitted `Matcher` and one pair of graphs, whose nodes lie at `left` and `right`; `y` is the true matching."""
        return cls.from_predictions(
            left,
            right,
            estimator.predict([x])[0],
            truth=y,
            proba=estimator.predict_moments([x])[0],
            images=images,
            edges=edges,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        left: Any,
        right: Any,
        matching: Any,
        *,
        truth: Any = None,
        proba: Any = None,
        images: Any = None,
        edges: Any = None,
        ax: Any = None,
    ) -> Self:
        """From a matching; the parameters are those of the class."""
        places = {name: real_array(name, value).astype(float) for name, value in (("left", left), ("right", right))}
        for name, value in places.items():
            if value.ndim != 2 or value.shape[1] != 2:
                raise ValueError(f"{name} must have two coordinates for each node, got shape {value.shape}.")
        for name, value in (("matching", matching), ("truth", truth)):
            if value is None:
                continue
            z = np.asarray(value)
            if (
                z.shape != (len(places["left"]),)
                or z.dtype.kind not in "iu"
                or z.max(initial=-1) >= len(places["right"])
            ):
                raise ValueError(
                    f"{name} must hold, for each of the {len(places['left'])} nodes on the left, the place of one of the "
                    f"{len(places['right'])} on the right, or -1."
                )
        return cls(places["left"], places["right"], matching, truth, proba, images, edges).plot(ax)

    def draw(self, ax: Any) -> None:
        sides = [self.left, self.right]
        if self.images is None:  # graphs: both in a unit square, the second beside the first
            sides = [(s - s.min(0)) / np.maximum(np.ptp(s, axis=0).max(), 1e-12) for s in sides]
            shift = 1.5
        else:
            shift = float(np.shape(self.images[0])[1]) * 1.05
            for image, start in zip(self.images, (0.0, shift), strict=True):
                height, width = np.shape(image)[:2]
                ax.imshow(image, cmap="gray", extent=(start, start + width, height, 0))
        a, b = sides[0], sides[1] + np.array([shift, 0.0])
        for places, pairs in zip((a, b), self.edges or ((), ()), strict=True):
            for i, j in pairs:
                ax.plot(*places[[i, j]].T, color=GREY, linewidth=0.8, linestyle="-", zorder=1)
        for i, j in enumerate(self.matching):
            if j < 0:
                continue
            right = None if self.truth is None else self.truth[i] == j
            colour, dash = {None: (BLUE, "-"), True: (GREEN, "-"), False: (RED, "--")}[
                right if right is None else bool(right)
            ]
            sure = 1.0 if self.proba is None else float(self.proba[i, j])
            ax.plot(
                *np.array([a[i], b[j]]).T,
                color=colour,
                linestyle=dash,
                linewidth=0.6 + 1.8 * sure,
                alpha=0.35 + 0.65 * sure,
            )
        for places in (a, b):
            ax.scatter(*places.T, s=22, color=ORANGE, edgecolors=INK, linewidths=0.6, zorder=3)
        ax.set_aspect("equal")
        if self.images is not None:
            ax.set(xlim=(0, shift + np.shape(self.images[1])[1]))
        ax.axis("off")
        if self.wrong is not None:
            ax.set_title(f"{self.wrong} of {len(self.matching)} nodes matched wrongly")
