"""What a search may tell of the gap that is left, and how much of it is tolerated."""

from __future__ import annotations

import numpy as np

_TRENDS = (5, 10, 20)  # trends are seen over the last so-manieth parts of all steps, each beside as many steps before
_SLOWEST = 0.9  # the largest ratio of decreases that is believed
_CAUTION = 2  # times what the trend says, since later decreases are slower more often than faster


class Trend:
    """What values that fall geometrically have left to fall: with decreases D over some last steps and D / r over as many before, r / (1 - r) D.

    A direction knows the curvature that its last steps have met; where many directions are flat it takes what it has not seen to be solved.
    A long trend remembers steps that were far larger than those to come, and a short one takes a rest for the end: the one that says more is believed.

    known: what was left of each column when an earlier search ended, believed until there is a trend.
    """

    def __init__(self, known: np.ndarray | None = None) -> None:
        self.values: list[np.ndarray] = []
        self.known = known

    def gaps(self, value: np.ndarray, wanted: bool = True) -> np.ndarray:
        """What is left of each column, or zeros where it is not wanted; the values are remembered in any case."""
        self.values.append(value)
        last = len(self.values) - 1
        left = np.zeros(len(value)) if last >= 2 or self.known is None else self.known
        for part in _TRENDS if wanted and last >= 2 else ():
            steps = max(last // part, 1)
            now, before = (self.values[i - steps] - self.values[i] for i in (last, last - steps))
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = np.where(now > 0, np.clip(now / before, 0, _SLOWEST), 0.0)
            left = np.maximum(left, _CAUTION * np.maximum(now, 0) * rate / (1 - rate))
        return left

    def shift(self, change: np.ndarray) -> None:
        """Values are told differently from now on, by so much."""
        self.values = [value + change for value in self.values]

    def keep(self, columns: np.ndarray) -> None:
        self.values = [value[columns] for value in self.values]
        self.known = None if self.known is None else self.known[columns]


def shares(values: np.ndarray) -> np.ndarray:
    """What of the gap that is tolerated falls to each column, times its sum: half by its value, and half to all alike.

    A label that never occurs has its minimum, zero, at infinity, and could not be done by its own value.
    """
    size = np.abs(values)
    return size if len(size) == 1 else (size + size.mean()) / 2
