"""Calibration for a loss: whether what decisions were expected to cost is what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .base import Display
from .style import BLUE, GREY, RED


class LossReliabilityDisplay(Display):
    """Realised loss against the expected one, by bins of the expectation, with 95 % intervals.

    On the diagonal the model costs what it expects to; above it, it is too sure. Bins whose gap cannot be chance are
    squares.

    Parameters
    ----------
    rows : list of mappings
        One for each bin, the rows of `Diagnosis.reliability`.
    name : str
        The model's, for the title.

    Attributes
    ----------
    expected, realised, low, high : array
        What is drawn, one number for each bin.
    """

    def __init__(self, rows: Sequence[dict[str, Any]], name: str = ""):
        self.name = name
        self.expected, self.realised, self.low, self.high, self.share = (
            np.array([row[key] for row in rows], dtype=float)
            for key in ("expected", "realised", "realised_low", "realised_high", "share")
        )
        self.off = np.array([not row["gap_low"] <= 0 <= row["gap_high"] for row in rows], dtype=bool)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, loss: Any = None, *, ax: Any = None, **options: Any
    ) -> Self:
        """Of a fitted model on labelled examples; arguments as `taskloss.diagnose` takes them."""
        from ..diagnosis import diagnose

        found = diagnose(estimator, X, y, loss, **options)
        return cls(found.reliability_rows, found.evidence.name).plot(ax)

    @classmethod
    def from_predictions(cls, y: Any, proba: Any, loss: Any = None, *, ax: Any = None, **options: Any) -> Self:
        """Of probabilities and labels; other arguments as `taskloss.diagnose` takes them."""
        from ..diagnosis import diagnose

        found = diagnose(proba, y=y, loss=loss, **options)
        return cls(found.reliability_rows, found.evidence.name).plot(ax)

    def draw(self, ax: Any) -> None:
        ends = [min(0.0, *self.expected, *self.low), 1.04 * max(*self.expected, *self.high)]
        ax.plot(ends, ends, color=GREY, linestyle=(0, (5, 3)), linewidth=1.2, marker="", label="as expected")
        for off, colour, marker, label in (
            (False, BLUE, "o", "within chance of it"),
            (True, RED, "s", "off by more than chance"),
        ):
            some = self.off == off
            if some.any():
                reach = np.stack([self.realised - self.low, self.high - self.realised])[:, some]
                ax.errorbar(
                    self.expected[some],
                    self.realised[some],
                    yerr=np.maximum(reach, 0),
                    fmt=marker,
                    color=colour,
                    linestyle="none",
                    elinewidth=1.4,
                    label=label,
                )
        ax.set(xlabel="expected loss", ylabel="realised loss", title=self.name)
        ax.legend(loc="upper left")
