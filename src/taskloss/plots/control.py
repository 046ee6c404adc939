"""What each threshold of a risk controller costs and answers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .base import Display
from .style import BLUE, GREEN, GREY, RED


class RiskControlDisplay(Display):
    """Mean loss and amount answered on the calibration examples, by threshold, with the level and the threshold in use.

    Parameters
    ----------
    thresholds, risks, amounts : array
        One number for each threshold; thresholds that are not finite are left out.
    level, threshold : float
        The target level, and the threshold in use.
    valid : array of bool, optional
        Which thresholds keep the promise.
    word : str
        What the amount is of.

    Attributes
    ----------
    thresholds, risks, amounts, valid : array
        What is drawn.
    """

    size = (6.0, 5.4)

    def __init__(
        self,
        thresholds: Any,
        risks: Any,
        amounts: Any,
        level: float,
        threshold: float,
        valid: Any = None,
        word: str = "answered",
    ):
        parts = [np.asarray(part, dtype=float) for part in (thresholds, risks, amounts)]
        kept = np.zeros(len(parts[0]), dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
        some = np.isfinite(parts[0])
        self.thresholds, self.risks, self.amounts, self.valid = (part[some] for part in (*parts, kept))
        self.level, self.threshold, self.word = level, threshold, word

    @property
    def shape(self) -> tuple[int, int]:
        return 2, 1

    @classmethod
    def from_estimator(cls, controller: Any, *, ax: Any = None) -> Self:
        """Of a calibrated `RiskController`; ax: an array of two axes, or None for a new figure."""
        controller._check_calibrated()
        c = controller
        found = c.predict_params_, c.risks_, c.amounts_
        valid = np.isin(c.predict_params_, c.valid_predict_params_)
        return cls(*found, c.target_level, c.best_predict_param_, valid, c.knob_.word).plot(ax)

    def draw(self, ax: Any) -> None:
        top, below = self.axes_[:, 0]
        top.plot(self.thresholds, self.risks, color=BLUE, linestyle="-", marker="", label="mean loss")
        held = np.where(self.valid, self.risks, np.nan)
        if self.valid.any():
            top.plot(
                self.thresholds, held, color=GREEN, linestyle="-", linewidth=4, alpha=0.5, marker="", label="promised"
            )
        top.axhline(self.level, color=RED, linestyle=(0, (5, 3)), linewidth=1.2, label=f"level {self.level:g}")
        below.plot(self.thresholds, self.amounts, color=BLUE, linestyle="-", marker="")
        for axes in (top, below):
            if np.isfinite(self.threshold):
                axes.axvline(self.threshold, color=GREY, linewidth=1.2, linestyle=(0, (1, 1.2)))
        top.set(ylabel="mean loss")
        top.legend(loc="best")
        below.set(xlabel="threshold on the expected loss", ylabel=self.word)
