"""Held-out moments with known labels: the decisions of any costs on them, and their confusion."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..losses.spans import Scheme, matches
from ..polytopes._forest import Forest
from ..polytopes._spans import Spans, best_spans
from .examples import Labelled, Sets
from .recalibrated import Isotonic, Sigmoid

_PRICES = 24  # of an output compared in one grid search; for many outputs, whose tables are large, as many as make
_PRICED_CELLS, _FEWEST_PRICES = 480, 16  # this number with the outputs, and these at least
_THRESHOLDS = np.linspace(0.04, 0.96, 24)  # of a span's probability

Range = tuple[float, float]


class LabelTally(Labelled):
    """A law p over labels for each example; costs are a table [output, label]."""

    def __init__(self, y: np.ndarray, k: int, weights: np.ndarray, p: np.ndarray):
        super().__init__(y, k, weights)
        self.p = p

    def take(self, rows: np.ndarray) -> Self:
        return type(self)(self.y[rows], self.k, self.weights[rows], self.p[rows])

    def basis(self, observed: bool) -> tuple[LabelTally, bool]:
        """Examples to search on, and whether by their labels."""
        return self, observed

    def restored(self, costs: np.ndarray) -> np.ndarray:
        """Costs found on this basis, for the probabilities as they were."""
        return costs

    def contributions(self, slope: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Each example's part of <slope, confusion>."""
        return self.weights * slope[z, self.y]

    def decide(self, costs: np.ndarray) -> np.ndarray:
        return np.argmin(self.p @ costs.T, axis=1)

    def expected(self, z: np.ndarray) -> np.ndarray:
        """The expected confusion of the outputs under the laws."""
        chosen = sparse.csc_array((self.weights, z, np.arange(len(z) + 1)), shape=(self.k, len(z)))
        return np.asarray(chosen @ self.p)

    def risks(self, costs: np.ndarray) -> np.ndarray:
        """The expected cost of each output, to which prices are added."""
        return self.p @ costs.T

    def add(self, risks: np.ndarray, j: int, price: float) -> None:
        """Add a price to output j, in place."""
        risks[:, j] += price

    def priced(self, risks: np.ndarray, j: int, here: np.ndarray, between: Range) -> tuple[np.ndarray, np.ndarray]:
        """Candidate prices of output j in a range, and the confusion that each leads to."""
        own = risks[:, j].copy()
        risks[:, j] = np.inf
        runner = np.argmin(risks, axis=1)
        margins = risks[np.arange(len(own)), runner] - own
        risks[:, j] = own
        most = min(_PRICES, max(_FEWEST_PRICES, _PRICED_CELLS // self.k))
        prices = _between(margins, between, most)
        # An example leaves output j for its second-best one at the first price above its margin.
        leaves = (np.searchsorted(prices, margins) * self.k + runner) * self.k + self.y
        moved = np.bincount(leaves, self.weights, (len(prices) + 1) * self.k**2).reshape(-1, *self.shape)
        tables = np.cumsum(moved[:-1], axis=0)
        tables[:, j] = np.maximum(self.count - tables.sum(1), 0.0)  # against rounding
        return prices, tables

    def starts(self) -> list[np.ndarray]:
        """Initial costs of a search: 0-1 loss, and 0-1 loss weighted by inverse frequency of the labels."""
        wrong = 1 - np.eye(self.k)
        return [wrong, wrong / np.maximum(self.count, 1 / (len(self) + 1))]

    @cached_property
    def count(self) -> np.ndarray:
        """The weight of each label."""
        return np.bincount(self.y, self.weights, self.k)


class SetTally(Sets):
    """The probability q of each label for each example; costs are a table [predicted, present] for each label."""

    def __init__(self, y: np.ndarray, weights: np.ndarray, q: np.ndarray):
        super().__init__(y, weights)
        self.q = q

    def take(self, rows: np.ndarray) -> Self:
        return type(self)(self.y[rows], self.weights[rows], self.q[rows])

    def decide(self, costs: np.ndarray) -> np.ndarray:
        gain = costs[:, 0] - costs[:, 1]  # of predicting the label, by whether it is present
        return (gain[:, 0] * (1 - self.q) + gain[:, 1] * self.q > 0).astype(np.int64)

    def confusion(self, z: np.ndarray) -> np.ndarray:
        return self._tables(z, self.y)

    def expected(self, z: np.ndarray) -> np.ndarray:
        return self._tables(z, self.q)

    def _tables(self, z: np.ndarray, there: np.ndarray) -> np.ndarray:
        found, true, both = self.weights @ z, self.weights @ there, self.weights @ (z * there)
        rows = [[1 - found - true + both, true - both], [found - both, both]]
        return np.maximum(np.stack([np.stack(row, -1) for row in rows], -2), 0.0)

    def basis(self, observed: bool) -> tuple[SetTally, bool]:
        """The examples with recalibrated probabilities, by whose expected confusion the search goes.

        A threshold decides alike before and after an increasing map, so that the map costs no decision. Isotonic
        regression is the map by which the expected confusions of thresholds that matter are the observed ones.
        """
        law = (Isotonic if observed else Sigmoid)().fit(self.q, self.y, self.weights)
        return RecalibratedSetTally(self.y, self.weights, law.fitted, law), False

    def restored(self, costs: np.ndarray) -> np.ndarray:
        return costs

    def contributions(self, slope: np.ndarray, z: np.ndarray) -> np.ndarray:
        (a, b), (c, d) = np.moveaxis(slope, 0, -1)
        return self.weights * (a.sum() + z @ (c - a) + self.y @ (b - a) + (z * self.y) @ (d - c - b + a))

    def starts(self) -> list[np.ndarray]:
        wrong = np.broadcast_to(1 - np.eye(2), (self.y.shape[1], 2, 2))
        share = np.clip(self.weights @ self.y, 1 / (len(self) + 1), 1 - 1 / (len(self) + 1))
        return [wrong, wrong / np.stack([1 - share, share], -1)[:, None, :]]


class RecalibratedSetTally(SetTally):
    """Label sets whose probabilities were mapped; `restored` gives each label the threshold that decides alike without."""

    def __init__(self, y: np.ndarray, weights: np.ndarray, q: np.ndarray, law: Sigmoid | Isotonic):
        super().__init__(y, weights, q)
        self.law = law

    def restored(self, costs: np.ndarray) -> np.ndarray:
        missed, spurious = costs[:, 0, 1] - costs[:, 1, 1], costs[:, 1, 0] - costs[:, 0, 0]
        worth = missed + spurious
        usual = (worth > 0) & (missed >= 0) & (spurious >= 0)  # others are no thresholds above which a label is there
        cut = self.law.cut(np.where(usual, spurious / np.where(usual, worth, 1.0), 0.5))
        out = np.zeros_like(costs)
        out[:, 0, 1], out[:, 1, 0] = worth * (1 - cut), worth * cut
        return np.where(usual[:, None, None], out, costs)


class SpanTally:
    """Candidate spans of tagged sequences, with probabilities q; costs are a table [predicted, present] for each kind.

    An output is a mask of the predicted spans; true negatives are not counted and cost nothing.
    """

    def __init__(
        self,
        spans: Spans,
        q: np.ndarray,
        hit: np.ndarray,
        sequence: np.ndarray,
        true: np.ndarray,
        weights: np.ndarray,
    ):
        self.spans, self.q, self.hit, self.sequence = spans, q, hit, sequence
        self.true, self.weights = true, weights / weights.sum()
        self.shape = (true.shape[1], 2, 2)

    @classmethod
    def of(
        cls, forest: Forest, y: np.ndarray, scheme: Scheme, weights: np.ndarray, spans: Spans, q: np.ndarray
    ) -> SpanTally:
        """From the codes y of packed sequences and the probabilities of their spans."""
        known = scheme.spans(forest, y)
        cells = forest.tree_of[known.first] * len(scheme.kinds) + known.kind
        true = np.bincount(cells, minlength=len(forest) * len(scheme.kinds)).reshape(len(forest), -1)
        usable = scheme.writable(spans)
        some = Spans(*(part[usable] for part in spans))
        hit = matches(some, known, forest.n_nodes)
        return cls(some, q[usable], hit, forest.tree_of[some.first], true.astype(float), weights)

    def __len__(self) -> int:
        return len(self.weights)

    def share(self, rows: np.ndarray) -> float:
        return float(self.weights[rows].sum())

    def take(self, rows: np.ndarray) -> Self:
        kept = np.zeros(len(self), dtype=bool)
        kept[rows] = True
        some = kept[self.sequence]
        place = np.cumsum(kept) - 1
        spans = Spans(*(part[some] for part in self.spans))
        return type(self)(
            spans, self.q[some], self.hit[some], place[self.sequence[some]], self.true[kept], self.weights[kept]
        )

    def basis(self, observed: bool) -> tuple[SpanTally, bool]:
        return self, observed

    def restored(self, costs: np.ndarray) -> np.ndarray:
        return costs

    def contributions(self, slope: np.ndarray, z: np.ndarray) -> np.ndarray:
        kind = self.spans.kind
        missed, spurious, hit = slope[:, 0, 1], slope[:, 1, 0], slope[:, 1, 1]
        parts = z * (spurious[kind] + self.hit * (hit - spurious - missed)[kind])
        return self.weights * (np.bincount(self.sequence, parts, len(self)) + self.true @ missed)

    def decide(self, costs: np.ndarray) -> np.ndarray:
        kind = self.spans.kind
        missed, spurious = span_prices(costs)
        return best_spans(self.spans, (missed + spurious)[kind] * self.q - spurious[kind])

    def confusion(self, z: np.ndarray) -> np.ndarray:
        return self._tables(z, self.hit, self.weights @ self.true)

    def expected(self, z: np.ndarray) -> np.ndarray:
        weights, kinds = self.weights[self.sequence], self.shape[0]
        return self._tables(z, self.q, np.bincount(self.spans.kind, weights * self.q, kinds))

    def _tables(self, z: np.ndarray, there: np.ndarray, true: np.ndarray) -> np.ndarray:
        some = np.flatnonzero(z)
        weights, kind, kinds = self.weights[self.sequence[some]], self.spans.kind[some], self.shape[0]
        found, both = np.bincount(kind, weights, kinds), np.bincount(kind, weights * there[some], kinds)
        rows = [[np.zeros(kinds), np.maximum(true - both, 0.0)], [np.maximum(found - both, 0.0), both]]
        return np.stack([np.stack(row, -1) for row in rows], -2)

    def risks(self, costs: np.ndarray) -> np.ndarray:
        return np.array(costs)

    def add(self, risks: np.ndarray, j: int, price: float) -> None:
        risks[j, 1] += price

    def priced(self, risks: np.ndarray, j: int, here: np.ndarray, between: Range) -> tuple[np.ndarray, np.ndarray]:
        missed, spurious = (price[j] for price in span_prices(risks))
        prices = _THRESHOLDS * (missed + spurious) - spurious
        prices = prices[(prices >= between[0]) & (prices <= between[1])]
        if not len(prices):
            return prices, np.empty((0, *self.shape))
        tables = []
        for price in prices:
            other = risks.copy()
            self.add(other, j, price)
            tables.append(self.confusion(self.decide(other)))
        return prices, np.stack(tables)

    def starts(self) -> list[np.ndarray]:
        kinds = self.shape[0]
        return [np.broadcast_to([[0.0, missed], [1.0, 0.0]], (kinds, 2, 2)) for missed in (1.0, 4.0)]

    def value(self, metric: Any, confusion: np.ndarray) -> np.ndarray:
        return metric.value_of_sets(confusion)

    def gradient(self, metric: Any, confusion: np.ndarray) -> np.ndarray:
        return metric.gradient_of_sets(confusion)


def span_prices(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cost of a missed span relative to a found one, and of a spurious span."""
    return np.maximum(costs[:, 0, 1] - costs[:, 1, 1], 0.0), np.maximum(costs[:, 1, 0], 0.0)


def _between(margins: np.ndarray, between: Range, most: int) -> np.ndarray:
    """Candidate prices in a range, midpoints of examples' margins, denser at both ends, which decide for rare outputs."""
    some = np.sort(margins[(margins > between[0]) & (margins < between[1])])
    first = np.arange(len(some) - 1) if len(some) <= most else _places(len(some) - 1, most)
    low, high = some[first], some[first + 1]
    return (low[low < high] + high[low < high]) / 2


def _places(n: int, most: int) -> np.ndarray:
    """At most so many places among n, denser at both ends."""
    half = most // 2
    steps = (float(n) ** (np.arange(half) / (half - 1))).astype(int)
    return np.unique(np.concatenate([steps - 1, n - steps]))


Tally = LabelTally | SetTally | SpanTally


def plain_costs(costs: np.ndarray) -> np.ndarray:
    """Equivalent costs, shifted and scaled: zero for the best output of each label, one for the worst mistake."""
    costs = costs - costs.min(axis=-2, keepdims=True)
    return costs / max(costs.max(), 1e-300)
