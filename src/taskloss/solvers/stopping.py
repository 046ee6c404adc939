"""What a search may tell of the gap that is left, and how much of it is tolerated."""

from __future__ import annotations

import numpy as np

_TREND = 10  # a trend is seen over the last so-manieth part of all steps, and the one before
_SLOWEST = 0.9  # the largest ratio of decreases that is believed
_CAUTION = 2  # times what the trend says, since later decreases are slower more often than faster


class Trend:
    """What values that fall geometrically have left to fall: with decreases D over some last steps and D / r over as many before, r / (1 - r) D.

    A direction knows the curvature that its last steps have met; where many directions are flat it takes what it has not seen to be solved.
    """

    def __init__(self) -> None:
        self.values: list[np.ndarray] = []

    def gaps(self, value: np.ndarray, wanted: bool = True) -> np.ndarray:
        """What is left of each column, or zeros where it is not wanted; the values are remembered in any case."""
        self.values.append(value)
        last = len(self.values) - 1
        if last < 2 or not wanted:
            return np.zeros(len(value))
        steps = max(last // _TREND, min(last // 5, 2), 1)  # one step alone is no trend, unless there are few
        now, before = (self.values[i - steps] - self.values[i] for i in (last, last - steps))
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(now > 0, np.clip(now / before, 0, _SLOWEST), 0.0)
        return _CAUTION * np.maximum(now, 0) * rate / (1 - rate)

    def shift(self, change: np.ndarray) -> None:
        """Values are told differently from now on, by so much."""
        self.values = [value + change for value in self.values]

    def keep(self, columns: np.ndarray) -> None:
        self.values = [value[columns] for value in self.values]


def shares(values: np.ndarray) -> np.ndarray:
    """What of the gap that is tolerated falls to each column, times its sum: half by its value, and half to all alike.

    A label that never occurs has its minimum, zero, at infinity, and could not be done by its own value.
    """
    size = np.abs(values)
    return size if len(size) == 1 else (size + size.mean()) / 2
