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
_MIXED_GAIN = 0.3  # examples, for one that mixes decisions: these only lead the way to better unmixed ones


class Found(NamedTuple):
    """Costs, the measure of their decisions, and the Frank-Wolfe gap, which for a concave measure bounds any further gain."""

    costs: np.ndarray
    value: float
    gap: float


def search(metric: Metric, tally: Tally, observed: bool = False, starts: Sequence[np.ndarray] | None = None) -> Found:
    """Ascent on the measure m: decide by the costs -dm/dC at a confusion C, move C towards that of the decisions, repeat.

    With full steps this is Dinkelbach's iteration where m is a ratio of linear functions of C (its slope is that of the
    numerator less m times the denominator), which reaches the maximum; one step where m is linear. With shorter steps,
    which mix decisions, it is Frank-Wolfe, which reaches the maximum of a concave m. For any other m it is a local
    ascent, from several starts. The result is the costs of the best unmixed decisions.

    starts: costs to start from; None for those that the tally knows.
    observed: use C against the known labels instead of the expected C under the moments. As the moments may then be
    miscalibrated, a price for each output is tuned as well, by coordinate ascent. (Label sets have a better way, an isotonic
    `basis`, on whose expected C all of this is exact.)
    """
    confusion = tally.confusion if observed else tally.expected
    found: Found | None = None
    tried: list[np.ndarray] = []
    for costs in tally.starts() if starts is None else starts:
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
        if np.array_equal(there, here):  # the decisions are best for their own slope
            return best._replace(gap=0.0)
        value, gap = metric.number(tally.value(metric, there)), float((slope * (there - here)).sum())
        if value > best.value + _GAIN:
            best = Found(-slope, value, gap)
        step, reached = (1.0, value) if value > level + _GAIN else _line_search(metric, tally, here, there)
        if not reached > level + (_GAIN if step == 1.0 else _MIXED_GAIN / len(tally)):
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
    vain = 0  # outputs in a row that gained nothing
    for j in [*range(outputs)] * _ROUNDS:
        price, reached, table = _best_price(metric, tally, risks, j, here, value)
        vain += 1
        if reached > value + _GAIN:
            value, here, vain = reached, table, 0
            tally.add(risks, j, price)
            costs[(j,) if costs.ndim == 2 else (j, 1)] += price
        if vain == outputs:
            break
    return Found(costs, value, found.gap)


def _best_price(
    metric: Metric, tally: LabelTally | SpanTally, risks: np.ndarray, j: int, here: np.ndarray, value: float
) -> tuple[float, float, np.ndarray]:
    """The price of output j that maximises the measure, the measure and its confusion; by grid search, refined once where it gains."""
    between, best = (-np.inf, np.inf), (0.0, value, here)
    for _ in range(2):
        prices, tables = tally.priced(risks, j, here, between)
        if not len(prices):
            break
        values = np.asarray(tally.value(metric, tables))
        i = int(np.argmax(values))
        if values[i] <= best[1] + _GAIN:
            break
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
    measure that the moments promise is two standard errors away from the cross-validated one, where its costs are better by as
    much on the examples that they were found on, by which they are judged too well, and as long as they are better on the folds so far.
    """
    parts = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in np.unique(folds)]
    pieces = [(tally.take(rest), tally.take(held), tally.share(held)) for rest, held in parts]

    def judged(found: list[_Costs]) -> _Judged:
        return _judge(metric, [(held, share, one.costs) for (_, held, share), one in zip(pieces, found, strict=False)])

    by_moments = _found(metric, tally, False, [own, *tally.starts()])
    # What maximises the measure expected on all examples is a start for each fold, whose search then takes a step or two.
    of_folds = [_found(metric, rest, False, [by_moments.inner]) for rest, _, _ in pieces]
    costs = {"expected": by_moments.costs, "own": plain_costs(own)}
    values = {
        "expected": judged(of_folds),
        "own": _judge(metric, [(held, share, own) for _, held, share in pieces]),
    }
    if values["expected"].is_off(by_moments.value):
        costs["observed"] = _found(metric, tally, True, [by_moments.costs]).costs
        here = {name: _judge(metric, [(tally, 1.0, costs[name])]) for name in ("expected", "observed")}
        if here["observed"].exceeds(here["expected"]):
            by_labels: list[_Costs] = []
            for (rest, _, _), start in zip(pieces, of_folds, strict=True):
                by_labels.append(_found(metric, rest, True, [start.costs]))
                so_far = judged(by_labels)
                if so_far.value <= judged(of_folds[: len(by_labels)]).value:
                    break
            else:
                values["observed"] = so_far
    chosen = "expected"
    for name in ("observed", "own"):
        if name in values and values[name].exceeds(values[chosen]):
            chosen = name
    return Choice(costs[chosen], chosen, values[chosen].value, values["own"].value)


class _Costs(NamedTuple):
    """Costs for the probabilities as they are, and for those that were recalibrated for the search; and the measure that it promises."""

    costs: np.ndarray
    inner: np.ndarray
    value: float


def _found(metric: Metric, tally: Tally, observed: bool, starts: list[np.ndarray]) -> _Costs:
    """The costs that a search finds; probabilities may be recalibrated for it."""
    basis, observed = tally.basis(observed)
    found = search(metric, basis, observed, starts)
    return _Costs(plain_costs(basis.restored(found.costs)), found.costs, found.value)


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
