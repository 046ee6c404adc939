"""What a cost matrix implies for decisions of least expected cost, whatever the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..losses import Absolute, Squared, ZeroOne
from ..theory.decomposition import Decomposition, decompose
from ..theory.linear import linear_program

_ROUNDING = 1e-9  # of costs, as a share of the largest difference


@dataclass(frozen=True)
class Implications:
    """Of costs matrix[z, y] with names of the decisions z and of the labels y."""

    matrix: np.ndarray
    outputs: list[Any]
    labels: list[Any]

    @cached_property
    def relative(self) -> np.ndarray:
        """Costs less the least of their column, over the largest of these: what equal decisions have in common."""
        gaps = self.matrix - self.matrix.min(0)
        return gaps / (gaps.max() or 1.0)

    @cached_property
    def known_as(self) -> str | None:
        """The loss that has these costs up to scaling and constants for each label."""
        k = len(self.labels)
        if self.matrix.shape != (k, k) or k < 2 or list(map(str, self.outputs)) != list(map(str, self.labels)):
            return None
        for loss in (ZeroOne(k), Absolute(k), Squared(k)):
            if np.abs(self.relative - loss.matrix() / loss.matrix().max()).max() < _ROUNDING:
                return loss.name
        return None

    @cached_property
    def certain(self) -> list[list[int]]:
        """For each label the decisions that are best where it is certain."""
        return [np.flatnonzero(column <= _ROUNDING).tolist() for column in self.relative.T]

    @cached_property
    def twins(self) -> list[tuple[int, int]]:
        """Decisions that cost the same whatever the label: (the first, another), of which the first is taken."""
        return self._equal(self.relative)

    @cached_property
    def alike(self) -> list[tuple[int, int]]:
        """Labels whose costs differ by a constant, so that no decision depends on which of the two it is."""
        return self._equal(self.relative.T)

    @staticmethod
    def _equal(rows: np.ndarray) -> list[tuple[int, int]]:
        first = [int(np.flatnonzero(np.abs(rows - row).max(1) < _ROUNDING)[0]) for row in rows]
        return [(i, j) for j, i in enumerate(first) if i != j]

    @cached_property
    def never(self) -> dict[int, str]:
        """Decisions that are best for no probabilities, or only in ties, with the reason."""
        found = {}
        for z in range(len(self.outputs)):
            others = [
                o for o in range(len(self.outputs)) if o != z and (o, z) not in self.twins and (z, o) not in self.twins
            ]
            better = [o for o in others if (self.relative[o] <= self.relative[z] + _ROUNDING).all()]
            depth = self._depth(z, others)
            if better:
                found[z] = f"{self.outputs[better[0]]!r} costs no more, whatever the label"
            elif depth < -_ROUNDING:
                found[z] = "for any probabilities some other decision costs less, though none does for all"
            elif depth <= _ROUNDING and others:
                found[z] = "it is at best as good as another, and never better than all"
        return found

    def _depth(self, z: int, others: list[int]) -> float:
        """The most by which z can be cheaper than all others, over all laws of the label."""
        m = len(self.labels)
        if not others:
            return 1.0
        gains = self.relative[others] - self.relative[z]
        result = linear_program(
            np.r_[np.zeros(m), -1.0],
            A_ub=np.c_[-gains, np.ones(len(others))],
            b_ub=np.zeros(len(others)),
            A_eq=np.r_[np.ones(m), 0.0][None],
            b_eq=[1.0],
            bounds=[(0, 1)] * m + [(None, None)],
        )
        return float(result.x[-1])

    @cached_property
    def thresholds(self) -> list[tuple[int, float, float]]:
        """Two labels: (decision, from, to) in terms of the probability of the second, in its order from 0 to 1."""
        if len(self.labels) != 2:
            return []
        at_zero, at_one = self.relative.T
        slope = at_one - at_zero
        found: list[tuple[int, float, float]] = []
        z, p = int(np.lexsort([slope, at_zero])[0]), 0.0
        while True:
            steeper = np.flatnonzero(slope < slope[z] - _ROUNDING)
            crossings = (at_zero[steeper] - at_zero[z]) / (slope[z] - slope[steeper])
            if not len(steeper) or crossings.min() >= 1:
                return [*found, (z, p, 1.0)]
            best = crossings.min()
            level = steeper[crossings <= best + _ROUNDING]
            end = max(float(best), p)
            if end > p:
                found.append((z, p, end))
            z, p = int(level[slope[level].argmin()]), end

    @cached_property
    def ranges(self) -> dict[int, tuple[float, float]]:
        """Decisions named like a label: (the least probability of it with which they can be best, the one above which they always are)."""
        own = {str(label): y for y, label in enumerate(self.labels)}
        found = {}
        for z, output in enumerate(self.outputs):
            y = own.get(str(output))
            if y is not None and z in self.certain[y] and z not in self.never:
                found[z] = (self._least(z, y), self._most_without(z, y))
        return found

    def _least(self, z: int, y: int) -> float:
        m, others = len(self.labels), [o for o in range(len(self.outputs)) if o != z]
        result = linear_program(
            np.eye(m)[y],
            A_ub=self.relative[z] - self.relative[others] if others else None,
            b_ub=np.zeros(len(others)) if others else None,
            A_eq=np.ones((1, m)),
            b_eq=[1.0],
            bounds=[(0, 1)] * m,
        )
        return float(result.fun)

    def _most_without(self, z: int, y: int) -> float:
        """The largest probability of y with which another decision is as good."""
        m, most = len(self.labels), 0.0
        for other in range(len(self.outputs)):
            if other == z or (z, other) in self.twins or (other, z) in self.twins:
                continue
            result = linear_program(
                -np.eye(m)[y],
                A_ub=(self.relative[other] - self.relative[z])[None],
                b_ub=[0.0],
                A_eq=np.ones((1, m)),
                b_eq=[1.0],
                bounds=[(0, 1)] * m,
            )
            most = max(most, -float(result.fun)) if result.status == 0 else most
        return most

    @cached_property
    def decomposition(self) -> Decomposition:
        return decompose(self.matrix)
