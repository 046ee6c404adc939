"""The loss of every example as a function of one threshold: a step function that begins at its safest value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Steps:
    """Losses and amounts answered of n examples, at the safest threshold and at every step towards bolder ones.

    cost, amount : (n,), at the safest threshold.
    row, at : the example of each step, and the threshold at which it is taken.
    dcost, damount : what each step adds to the example's loss and to its amount.
    rising : whether bolder thresholds are higher. A step is taken where at <= threshold, otherwise where at > threshold.
    partial : whether amounts are shares of an example that is answered, and what is not answered costs nothing; else they
        are sizes of answers that grow to be safe.
    low, high : bounds on the loss per unit of amount, for sizes on the loss itself.
    whole : whether amounts are zero or one. binary : whether losses are `low` or `high` and nothing between.
    weights : (n,).
    """

    cost: np.ndarray
    amount: np.ndarray
    row: np.ndarray
    at: np.ndarray
    dcost: np.ndarray
    damount: np.ndarray
    rising: bool
    partial: bool
    low: float
    high: float
    whole: bool
    binary: bool
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.cost)

    def taken(self, threshold: float) -> np.ndarray:
        """Which steps are taken at a threshold."""
        return is_taken(self.at, threshold, self.rising)

    def ordered(self, thresholds: np.ndarray) -> np.ndarray:
        """Thresholds from the safest to the boldest, each once."""
        found = np.unique(thresholds)
        return found if self.rising else found[::-1]

    def jumps(self) -> np.ndarray:
        """The boldest threshold of each stretch on which no loss changes, from the safest on."""
        found = self.ordered(self.at[self.dcost != 0])
        if self.rising:
            return np.append(np.nextafter(found, -np.inf), self.at.max(initial=0.0))
        return np.append(found, -np.inf)

    def places(self, thresholds: np.ndarray) -> np.ndarray:
        """The first of the ordered thresholds at which each step is taken; their number where none is."""
        if self.rising:
            return np.searchsorted(thresholds, self.at, side="left")
        return np.searchsorted(-thresholds, -self.at, side="right")

    def sums(self, places: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        """The weighted sums of losses and of amounts at m ordered thresholds, where steps are taken at these places."""
        weights = self.weights[self.row]

        def total(start: np.ndarray, change: np.ndarray) -> np.ndarray:
            return self.weights @ start + np.cumsum(np.bincount(places, weights * change, m + 1)[:m])

        return total(self.cost, self.dcost), total(self.amount, self.damount)

    def mean_amount(self, total: Any) -> Any:
        """What a weighted sum of amounts means to users: a share of all that could be answered, or a mean size."""
        if not self.partial:
            return total / self.weights.sum()
        full = self.weights @ self.amount + self.weights[self.row] @ self.damount
        return total / full if full > 0 else 0.0 * total

    def at_threshold(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """The loss and the amount of each example."""
        some = self.taken(threshold)
        row, n = self.row[some], len(self)
        return (
            self.cost + np.bincount(row, self.dcost[some], n),
            self.amount + np.bincount(row, self.damount[some], n),
        )

    def take(self, rows: np.ndarray) -> Self:
        """The same of some examples."""
        place = np.full(len(self), -1)
        place[rows] = np.arange(len(rows))
        some = place[self.row] >= 0
        return replace(
            self,
            cost=self.cost[rows],
            amount=self.amount[rows],
            weights=self.weights[rows],
            row=place[self.row[some]],
            at=self.at[some],
            dcost=self.dcost[some],
            damount=self.damount[some],
        )


def is_taken(at: np.ndarray, threshold: float, rising: bool) -> np.ndarray:
    """Which steps are taken at a threshold."""
    return at <= threshold if rising else at > threshold
