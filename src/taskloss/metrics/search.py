"""The costs whose decisions maximise a measure on held-out moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .base import Metric
from .tallies import LabelTally, SetTally, SpanTally, Tally, plain_costs

_MOST = 30  # steps of one ascent
_STEPS = np.linspace(0, 1, 17)[1:-1]  # of the line search's grid, refined once
_FINER = np.linspace(-1, 1, 17) / 16
_ROUNDS = 2  # of coordinate ascent over the prices of outputs
_PRICED_OUTPUTS = 128  # outputs up to which prices are tuned: the work is cubic in their number
_GAIN = 1e-7  # least increase of the measure for a step to count
_MIXED_GAIN = 1e-5  # and for one that mixes decisions: these only lead the way to better unmixed ones


class Found(NamedTuple):
    """Costs, the measure of their decisions, and the Frank-Wolfe gap, which for a concave measure bounds any further gain."""

    costs: np.ndarray
    value: float
    gap: float


def search(metric: Metric, tally: Tally, observed: bool = False, starts: Sequence[np.ndarray] = ()) -> Found:
    """Ascent on the measure m: decide by the costs -dm/dC at a confusion C, move C towards that of the decisions, repeat.

    With full steps this is Dinkelbach's iteration where m is a ratio of linear functions of C (its slope is that of the
    numerator less m times the denominator), which reaches the maximum; one step where m is linear. With shorter steps,
    which mix decisions, it is Frank-Wolfe, which reaches the maximum of a concave m. For any other m it is a local
    ascent, from several starts. The result is the costs of the best unmixed decisions.

    observed: use C against the known labels instead of the expected C under the moments. As the moments may then be
    miscalibrated, a price for each output is tuned as well, by coordinate ascent. (Label sets have a better way, an isotonic
    `basis`, on whose expected C all of this is exact.)
    """
    confusion = tally.confusion if observed else tally.expected
    found: Found | None = None
    tried: list[np.ndarray] = []
    for costs in [*starts, *tally.starts()]:
        if any(np.array_equal(costs, other) for other in tried):
            continue
        tried.append(costs)
        one = _ascend(metric, tally, confusion, costs)
        if found is None or one.value > found.value + _GAIN:
            found = one
    assert found is not None
    if observed and not isinstance(tally, SetTally):
        found = _priced(metric, tally, found)
    return found._replace(costs=plain_costs(found.costs))


def _ascend(metric: Metric, tally: Tally, confusion: object, costs: np.ndarray) -> Found:
    assert callable(confusion)
    here = confusion(tally.decide(costs))
    level = metric.number(tally.value(metric, here))
    best, gap = Found(costs, level, np.inf), np.inf
    for _ in range(_MOST):
        slope = tally.gradient(metric, here)
        if not np.isfinite(slope).all():
            raise ValueError(f"{metric!r} has a slope that is not finite: it must be smooth in the confusion.")
        there = confusion(tally.decide(-slope))
        value, gap = metric.number(tally.value(metric, there)), float((slope * (there - here)).sum())
        if value > best.value + _GAIN:
            best = Found(-slope, value, gap)
        step, reached = (1.0, value) if value > level + _GAIN else _line_search(metric, tally, here, there)
        if not reached > level + (_GAIN if step == 1.0 else _MIXED_GAIN):
            break
        here, level = here + step * (there - here), reached
    return best._replace(gap=max(gap, 0.0))


def _priced(metric: Metric, tally: LabelTally | SpanTally, found: Found) -> Found:
    """Coordinate ascent over the prices of outputs, on the measure against the known labels."""
    costs, value = np.array(found.costs), found.value
    outputs = tally.shape[0]
    if costs.ndim == 2 and outputs > _PRICED_OUTPUTS:
        return found
    risks, here = tally.risks(costs), tally.confusion(tally.decide(costs))
    for _ in range(_ROUNDS):
        before = value
        for j in range(outputs):
            price, reached, table = _best_price(metric, tally, risks, j, here)
            if reached > value + _GAIN:
                value, here = reached, table
                tally.add(risks, j, price)
                costs[(j,) if costs.ndim == 2 else (j, 1)] += price
        if value <= before:
            break
    return Found(costs, value, found.gap)


def _best_price(
    metric: Metric, tally: LabelTally | SpanTally, risks: np.ndarray, j: int, here: np.ndarray
) -> tuple[float, float, np.ndarray]:
    """The price of output j that maximises the measure, the measure and its confusion; by grid search, refined once."""
    between, best = (-np.inf, np.inf), (0.0, -np.inf, here)
    for _ in range(2):
        prices, tables = tally.priced(risks, j, here, between)
        if not len(prices):
            break
        values = np.asarray(tally.value(metric, tables))
        i = int(np.argmax(values))
        if values[i] > best[1]:
            best = (float(prices[i]), float(values[i]), tables[i])
        between = (float(prices[max(i - 1, 0)]), float(prices[min(i + 1, len(prices) - 1)]))
    return best


def _line_search(metric: Metric, tally: Tally, here: np.ndarray, there: np.ndarray) -> tuple[float, float]:
    """The step from here to there that maximises the measure, and the measure."""
    steps, towards = _STEPS, there - here
    best, value = 0.0, -np.inf
    for _ in range(2):
        mixed = here + steps.reshape(-1, *[1] * here.ndim) * towards
        values = np.asarray(tally.value(metric, mixed))
        i = int(np.argmax(values))
        if values[i] > value:
            best, value = float(steps[i]), float(values[i])
        steps = np.clip(best + _FINER, 0, 1)
    return best, value


class Choice(NamedTuple):
    """Costs, the confusion by which they were found, the cross-validated measure, and that of the estimator's own costs."""

    costs: np.ndarray
    criterion: str
    value: float
    untuned: float


def choose(metric: Metric, tally: Tally, folds: np.ndarray, own: np.ndarray) -> Choice:
    """Costs found on all examples, by the criterion with the best cross-validated measure.

    The expected confusion has less variance and is the default; the observed one, or the estimator's own costs, must be
    better by two standard errors of the difference. The observed one is looked at only where it can matter: where the
    measure that the moments promise is two standard errors away from the cross-validated one, and where its costs are better by as
    much on the examples that they were found on, by which they are judged too well.
    """
    parts = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in np.unique(folds)]
    pieces = [(tally.take(rest), tally.take(held), tally.share(held)) for rest, held in parts]

    def validated(observed: bool) -> _Judged:
        found = [_found(metric, some, observed, own)[0] for some, _, _ in pieces]
        return _judge(metric, [(other, share, c) for (_, other, share), c in zip(pieces, found, strict=True)])

    by_moments, promised = _found(metric, tally, False, own)
    costs = {"expected": by_moments, "own": plain_costs(own)}
    values = {
        "expected": validated(False),
        "own": _judge(metric, [(other, share, own) for _, other, share in pieces]),
    }
    if values["expected"].is_off(promised):
        costs["observed"], _ = _found(metric, tally, True, own)
        here = {name: _judge(metric, [(tally, 1.0, costs[name])]) for name in ("expected", "observed")}
        if here["observed"].exceeds(here["expected"]):
            values["observed"] = validated(True)
    chosen = "expected"
    for name in ("observed", "own"):
        if name in values and values[name].exceeds(values[chosen]):
            chosen = name
    return Choice(costs[chosen], chosen, values[chosen].value, values["own"].value)


def _found(metric: Metric, tally: Tally, observed: bool, own: np.ndarray) -> tuple[np.ndarray, float]:
    """The costs that a search finds, and its measure; probabilities may be recalibrated for it, the costs are for them as
    they are.
    """
    basis, observed = tally.basis(observed)
    found = search(metric, basis, observed, [own])
    return plain_costs(basis.restored(found.costs)), found.value


class _Judged(NamedTuple):
    """A measure of decisions on examples that the search for their costs had not seen, and each example's influence on it.

    To first order the measure is the sum of the influences, so that the standard error of a difference between two
    measures is the norm of the difference of their influences.
    """

    value: float
    influences: np.ndarray

    def exceeds(self, other: _Judged) -> bool:
        """Whether it is larger by more than two standard errors of the difference."""
        error = float(np.linalg.norm(self.influences - other.influences))
        return self.value > other.value + 2 * error + _GAIN

    def is_off(self, promised: float) -> bool:
        """Whether it is more than two standard errors from what was promised."""
        return abs(self.value - promised) > 2 * float(np.linalg.norm(self.influences))


def _judge(metric: Metric, parts: list[tuple[Tally, float, np.ndarray]]) -> _Judged:
    """The measure over all (examples, their share of the weight, costs)."""
    outputs = [tally.decide(costs) for tally, _, costs in parts]
    tables = [share * tally.confusion(z) for (tally, share, _), z in zip(parts, outputs, strict=True)]
    table, tally = np.sum(tables, axis=0), parts[0][0]
    slope = tally.gradient(metric, table)
    slope = np.where(np.isfinite(slope), slope, 0.0)
    slope = slope - (slope * table).sum() / table.sum()  # proportions count: equal contributions change nothing
    influences = [share * tally.contributions(slope, z) for (tally, share, _), z in zip(parts, outputs, strict=True)]
    return _Judged(metric.number(tally.value(metric, table)), np.concatenate(influences))
