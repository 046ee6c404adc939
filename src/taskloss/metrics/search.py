"""The costs whose decisions maximise a measure on held-out moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .base import Metric
from .tallies import Tally, plain_costs

_MOST = 30  # steps of one ascent
_STEPS = np.linspace(0, 1, 17)[1:-1]  # of the line search's grid, refined once
_ROUNDS = 2  # of coordinate ascent over the prices of outputs
_PRICED_OUTPUTS = 128  # outputs up to which prices are tuned: the work is cubic in their number
_GAIN = 1e-7  # least increase of the measure for a step to count


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
    miscalibrated, a price for each output is tuned as well, by coordinate ascent.
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
    found = _priced(metric, tally, found) if observed else found
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
        if not reached > level + _GAIN:
            break
        here, level = here + step * (there - here), reached
    return best._replace(gap=max(gap, 0.0))


def _priced(metric: Metric, tally: Tally, found: Found) -> Found:
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
    metric: Metric, tally: Tally, risks: np.ndarray, j: int, here: np.ndarray
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
    steps = _STEPS
    best, value = 0.0, -np.inf
    for width in (1.0, 1 / len(_STEPS)):
        mixed = here + steps.reshape(-1, *np.ones(here.ndim, dtype=int)) * (there - here)
        values = np.asarray(tally.value(metric, mixed))
        i = int(np.argmax(values))
        if values[i] > value:
            best, value = float(steps[i]), float(values[i])
        steps = np.clip(best + width / len(_STEPS) * np.linspace(-1, 1, 17), 0, 1)
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
    better by two standard errors (of the jackknife over folds). Where the expected measure is further than that from
    the observed one, the moments are badly calibrated, and any improvement is enough.
    """
    ways = {"expected": False, "observed": True}
    parts = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in np.unique(folds)]
    shares = np.array([tally.share(held) for _, held in parts])
    tables: dict[str, np.ndarray] = {name: np.zeros((len(parts), *tally.shape)) for name in (*ways, "own")}
    for i, (rest, held) in enumerate(parts):
        some, other = tally.take(rest), tally.take(held)
        for name, observed in ways.items():
            costs = search(metric, some, observed, [own]).costs
            tables[name][i] = shares[i] * other.confusion(other.decide(costs))
        tables["own"][i] = shares[i] * other.confusion(other.decide(own))
    values = {name: metric.number(tally.value(metric, table.sum(0))) for name, table in tables.items()}
    left = {name: np.asarray(tally.value(metric, np.maximum(t.sum(0) - t, 0.0))) for name, t in tables.items()}
    by_moments = search(metric, tally, False, [own]).costs
    claim = float(tally.value(metric, tally.expected(tally.decide(by_moments))))
    misled = abs(claim - values["expected"]) > 2 * _error(left["expected"])
    chosen = "expected"
    for name in ("observed", "own"):
        margin = 0.0 if misled else 2 * _error(left[name] - left[chosen])
        if values[name] > values[chosen] + margin + _GAIN:
            chosen = name
    costs = by_moments if chosen == "expected" else own
    costs = search(metric, tally, True, [own]).costs if chosen == "observed" else plain_costs(costs)
    return Choice(costs, chosen, values[chosen], values["own"])


def _error(left: np.ndarray) -> float:
    """The jackknife standard error, from the values with one fold left out."""
    n = len(left)
    return float(np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum()))
