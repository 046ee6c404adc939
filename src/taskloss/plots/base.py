"""What a display is: numbers that are kept, and a picture of them that can be drawn again."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from .style import axes, look


class Display:
    """A picture, in scikit-learn's manner: made by `from_estimator` or `from_predictions`, drawn by `plot`.

    A display keeps what is drawn as attributes, so that it can be drawn again elsewhere, and its numbers can be read.
    A new one keeps its numbers in `__init__` and draws them in `draw`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes of the last `plot`.
    figure_ : matplotlib Figure
        The figure that they are in.
    """

    size: ClassVar[tuple[float, float]] = (6.0, 4.2)
    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw, within the look that all pictures share.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None is a new figure.

        Returns
        -------
        Display
            This display, with `ax_` and `figure_`.
        """
        with look():
            self.ax_ = axes(ax, self.size)
            self.figure_ = self.ax_.figure
            self.draw(self.ax_)
        return self

    def draw(self, ax: Any) -> None:
        """Put the artists on these axes; `plot` calls it within the look."""
        raise NotImplementedError
