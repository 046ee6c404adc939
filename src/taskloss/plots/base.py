"""What a display is: numbers that are kept, and a picture of them that can be drawn again."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from .style import look, pyplot


class Display:
    """A picture, in scikit-learn's manner: made by `from_estimator`, `from_predictions` or the like, drawn by `plot`.

    A display keeps what is drawn as attributes, so that it can be drawn again elsewhere, and its numbers can be read.
    A new one keeps its numbers in `__init__` and draws them in `draw`; one of several panels says how many in `shape`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes of the last `plot`; of several panels the first.
    axes_ : array of matplotlib Axes
        All panels, by row and column.
    figure_ : matplotlib Figure
        The figure that they are in.
    """

    size: ClassVar[tuple[float, float]] = (6.0, 4.2)
    ax_: Any
    axes_: np.ndarray
    figure_: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of panels."""
        return 1, 1

    @property
    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return self.size

    def plot(self, ax: Any = None) -> Self:
        """Draw, within the look that all pictures share.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw, for a picture of several panels an array of them; None is a new figure.

        Returns
        -------
        Display
            This display, with `ax_`, `axes_` and `figure_`.
        """
        rows, columns = self.shape
        with look():
            if ax is None:
                table = pyplot().subplots(rows, columns, figsize=self.figure_size, squeeze=False)[1]
            else:
                table = np.asarray(ax, dtype=object).reshape(-1)
                if table.size != rows * columns:
                    raise ValueError(f"ax must hold {rows * columns} axes, {rows} by {columns}, got {table.size}.")
            self.axes_ = table.reshape(rows, columns)
            self.ax_ = self.axes_[0, 0]
            self.figure_ = self.ax_.figure
            self.draw(self.ax_)
        return self

    def draw(self, ax: Any) -> None:
        """Put the artists on the axes, the first of `axes_`; `plot` calls it within the look."""
        raise NotImplementedError
