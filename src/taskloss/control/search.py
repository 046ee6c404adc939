"""The boldest threshold at which a loss stays below a level, in expectation or with confidence."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .bounds import binomial, hoeffding_bentkus
from .steps import Steps

GRID = 1000  # thresholds compared where none are given
# Thresholds, in units of the level, at which a sequence of tests begins, and their shares of the error. If expectations are right, the risk of what is
# expected to cost at most the level is below it, and not by much: half of the error is for that threshold. Others are for models that are too sure, or not enough.
_STARTS = np.array([2.0**-8, 2.0**-6, 2.0**-4, 0.25, 1.0, 2.0, 4.0, 8.0, np.inf])
_SHARES = np.where(_STARTS == 1, 0.5, 0.5 / (len(_STARTS) - 1))
_SHARE = 0.1  # of the level, given up for the error of a test where the promise is in expectation
BOUNDS = ("auto", "hoeffding-bentkus", "wsr")


class Promise(NamedTuple):
    """That the loss is at most `level`: with a probability over calibration examples of at least `confidence`, or in expectation (None).

    over : "answers", per unit of amount answered, or "examples", where what is not answered counts as no loss. bound : the test.
    """

    level: float
    confidence: float | None = None
    over: str = "answers"
    bound: str = "auto"


class Choice(NamedTuple):
    """What was found at the thresholds, from the safest to the boldest, and the place of the one that is chosen."""

    thresholds: np.ndarray
    risks: np.ndarray
    amounts: np.ndarray
    p_values: np.ndarray | None
    valid: np.ndarray
    best: int


def grid(top: float, size: int = GRID) -> np.ndarray:
    """Thresholds from 0 to top, closer at both ends, where models are sure of most examples or of most outputs."""
    u = np.linspace(0, 1, size)
    return top * u**2 / (u**2 + (1 - u) ** 2)


def search(steps: Steps, promise: Promise, thresholds: np.ndarray) -> Choice | None:
    """The boldest threshold that keeps the promise, or None where there is none.

    One rule: thresholds are gone through from the safest on, as long as each passes its test. In expectation, for losses that only grow with
    bolder thresholds, the test is conformal risk control's, (sum L + largest L) / (n + 1) <= level. Otherwise it is a p-value of "the loss is
    above the level" below the error allowed, in a fixed sequence (learn then test). Where strict thresholds answer too few
    examples to test, sequences begin at several places and share the error between them; one that passes hands its error on (the
    fallback procedure), so that all errors together have at most the probability allowed, whatever the law.
    """
    thresholds = steps.ordered(thresholds)
    places = steps.places(thresholds)
    cost, amount = steps.sums(places, len(thresholds))
    total = steps.weights.sum()
    per_answer = steps.partial and promise.over == "answers"
    with np.errstate(invalid="ignore", divide="ignore"):
        risks = cost / (amount if per_answer else total)
    p_values = None
    if promise.confidence is None and is_monotone(steps, promise):
        heaviest = steps.weights.max()
        kept = (cost + heaviest * span(steps, promise)[1]) / (total + heaviest) <= promise.level + 1e-12
        valid = np.cumprod(kept).astype(bool)
    else:
        p_values, valid = _tested(steps, promise, thresholds, places)
    if not valid.any():
        return None
    return Choice(thresholds, risks, steps.mean_amount(amount), p_values, valid, int(np.flatnonzero(valid)[-1]))


def is_monotone(steps: Steps, promise: Promise) -> bool:
    """Whether the loss of every example can only grow with bolder thresholds."""
    return not steps.partial or (promise.over == "examples" and steps.low >= 0)


def span(steps: Steps, promise: Promise) -> tuple[float, float]:
    """Bounds on what the promise is about: the loss of an answer, or of an example, for which no answer is a loss of zero."""
    if steps.partial and promise.over == "examples":
        return min(steps.low, 0.0), max(steps.high, 0.0)
    return steps.low, steps.high


def aim(steps: Steps, promise: Promise) -> tuple[float, float]:
    """The level and the error of a test that keeps the promise."""
    if promise.confidence is not None:
        return promise.level, 1 - promise.confidence
    low, high = span(steps, promise)
    level = promise.level - _SHARE * (promise.level - low)
    return level, error_in_expectation((level - low) / (high - low), (promise.level - low) / (high - low))


def error_in_expectation(level: float, wanted: float) -> float:
    """The error of a test that a loss in [0, 1] is above a level, at which what is accepted has an expected loss of at most `wanted`.

    A law with mean t > level passes with a probability of at most error^k(t), k >= 1: for the binomial test and Hoeffding-Bentkus k = log(1 - t) / log(1 -
    level), the case without any loss; for betting, where K^k is a supermartingale as long as t (1 - nu (1 - level))^k + (1 - t) (1 + nu level)^k <= 1, which
    is convex in nu, so that nu = 1 decides. Errors that are shared among sequences lose nothing, since sum error_i^k <= (sum error_i)^k.
    The expectation is then at most level + the integral of error^k(t) over t from the level to 1, here by its upper sum.
    """
    t = level + (1 - level) * np.linspace(0, 1, 201)[:-1] ** 2
    low, high = np.ones(len(t)), np.log1p(-t) / np.log1p(-level)
    for _ in range(50):
        k = (low + high) / 2
        fits = t * level**k + (1 - t) * (1 + level) ** k <= 1
        low, high = np.where(fits, k, low), np.where(fits, high, k)
    widths = np.diff(np.append(t, 1.0))
    least, most = 0.0, 1.0
    for _ in range(50):
        error = (least + most) / 2
        fits_all = level + widths @ error**low <= wanted
        least, most = (error, most) if fits_all else (least, error)
    return least


def least_examples(steps: Steps, promise: Promise) -> int:
    """How many examples without any loss are needed to keep the promise."""
    low, high = span(steps, promise)
    if promise.confidence is None and is_monotone(steps, promise):
        return max(1, math.ceil((high - promise.level) / (promise.level - low) - 1e-9))
    level, error = aim(steps, promise)
    share = (level - low) / (high - low)
    return math.ceil(math.log(error) / math.log1p(-share))


def _tested(
    steps: Steps, promise: Promise, thresholds: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The p-values of the thresholds, and which of them are rejected."""
    level, error = aim(steps, promise)
    own = np.zeros(len(thresholds))
    if steps.partial and promise.over == "answers":
        starts = np.searchsorted(thresholds, steps.low + (level - steps.low) * _STARTS)
        np.add.at(own, np.minimum(starts, len(own) - 1), error * _SHARES)
    else:
        own[0] = error
    even = np.ptp(steps.weights) == 0
    counted = even and promise.bound != "wsr" and (promise.bound != "auto" or (steps.binary and steps.whole))
    if counted and (
        promise.confidence is not None or steps.whole
    ):  # what is said of expectations is of losses of answers
        p = _by_counts(steps, promise, places, len(thresholds), level)
        return p, _in_sequence(p, own)
    return _by_betting(steps, promise, places, level, own, error)


def _in_sequence(p: np.ndarray, own: np.ndarray) -> np.ndarray:
    rejected, carried = np.zeros(len(p), dtype=bool), 0.0
    for j in range(len(p)):
        error = own[j] + carried
        rejected[j] = error > 0 and p[j] <= error
        carried = error if rejected[j] else 0.0
    return rejected


def _by_counts(steps: Steps, promise: Promise, places: np.ndarray, m: int, level: float) -> np.ndarray:
    """Binomial or Hoeffding-Bentkus p-values, from sums alone."""
    cost, amount = (part / steps.weights[0] for part in steps.sums(places, m))
    (low, high), n = span(steps, promise), float(len(steps))
    width, share = high - low, (level - low) / (high - low)
    test = binomial if steps.binary and promise.bound == "auto" else hoeffding_bentkus
    if not steps.partial or promise.over == "examples":
        return test((cost - n * low) / width, n, share)
    if steps.whole:  # given how many are answered, their losses are independent
        return test((cost - amount * low) / width, np.round(amount), share)
    return test((cost - level * amount + n * (level - low)) / width, n, share)


def _by_betting(
    steps: Steps, promise: Promise, places: np.ndarray, level: float, own: np.ndarray, error: float
) -> tuple[np.ndarray, np.ndarray]:
    from .._compiled.betting import sequence_of_tests

    # Betting on examples that are sorted by their labels would lose; in random order they are as good as drawn one by one.
    place = np.random.default_rng(0).permutation(len(steps))
    scale = steps.weights / steps.weights.max()
    partial = steps.partial and promise.over == "answers"
    gains, change = level * (steps.amount if partial else 1.0) - steps.cost, -steps.dcost
    change = change + level * steps.damount if partial else change
    few = len(own) < 1 << 15  # places of two bytes are sorted by counting
    order = np.argsort(places.astype(np.int16) if few else places, kind="stable")
    first = np.searchsorted(places[order], np.arange(len(own) + 1))
    shuffled = np.empty(len(steps))
    shuffled[place] = scale * gains
    row = steps.row[order]
    low, high = span(steps, promise)
    change = (scale[steps.row] * change)[order]
    prior = (high - level) * (level - low)  # the largest variance at this mean
    return sequence_of_tests(shuffled, first, place[row], change, own, high - low, prior, error)
