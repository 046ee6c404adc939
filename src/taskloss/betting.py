"""Whether the mean of a stream has risen above that of a reference sample: an e-process by betting, and intervals of means."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

__all__ = ["RiseTest", "chernoff_interval"]

_BETS = 0.9 * 2.0 ** -np.arange(7)  # shares of the wealth at stake, 0.9 down to 0.014
_IDLE = 0.1  # share of the capital on the reference that is not bet
_EARLY = 10.0  # batches until half of the capital is bet
_MEANS = 40  # at which the evidence is evaluated
_PRODUCT = 32  # factors multiplied before a logarithm is taken; none of them is below 0.1 or above 10^7
_LEAST = 1e-7


class RiseTest:
    """Evidence that the mean of a stream of numbers in [0, 1] is larger than the mean of a reference sample.

    Notes
    -----
    For a hypothesised mean m, wealth that stakes a share f on each x of the stream is multiplied by 1 - f + f x / m; as long as
    the stream's conditional means are at most m, it is a supermartingale, and decreases in m for any data. Likewise prod
    1 - f + f (1 - x) / (1 - m) over the reference is an e-value against a mean of m or more, and increases in m. Averages
    over f of both, multiplied, are an e-process for the m that is the reference's mean, and so is their infimum over all m.
    The logarithms of both are convex in m, as sums and log-sums of log(1 - f + f x / m) are: between two neighbours of a grid the
    evidence lies above the chords of the intervals on either side.
    Bets start with every batch: the t-th is given the share c / ((t + c - 1) (t + c)) of the capital, c = 10, so that a rise is
    found however long the stream was stable before it. By Ville's inequality the chance that the evidence ever reaches 1 / level
    is at most `level`.

    References
    ----------
    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2024.
    Podkopaev and Ramdas, Tracking the risk of a deployed model and detecting harmful distribution shifts, 2022.
    """

    def __init__(self, reference: np.ndarray):
        x = np.asarray(reference, dtype=float)
        spread = max(float(x.std()), 1 / len(x)) / np.sqrt(len(x))
        near = x.mean() + spread * np.linspace(-3, 9, _MEANS - 4)
        far = x.mean() + (1 - x.mean()) * np.array([0.1, 0.25, 0.5, 0.75])
        self.means = np.unique(np.clip(np.concatenate([near, far]), _LEAST, 1 - _LEAST))
        won = logsumexp(_log_wealth(1 - x, 1 - np.concatenate([[0.0], self.means])), axis=1) - np.log(len(_BETS))
        self.reference = np.logaddexp(won + np.log1p(-_IDLE), np.log(_IDLE))  # at 0 and at the means
        self.wealth = np.full((len(self.means) + 1, len(_BETS)), -np.inf)  # at the means and at 1
        self.batches = 0
        self.log_evidence = self.highest = 0.0

    def update(self, x: np.ndarray) -> float:
        """Take the next numbers of the stream; returns the logarithm of the evidence."""
        if not len(x):
            return self.log_evidence
        self.batches += 1
        later = self.batches + _EARLY
        new = np.log(_EARLY / (later * (later - 1)))
        self.wealth = np.logaddexp(self.wealth, new) + _log_wealth(x, np.append(self.means, 1.0))
        left = np.log(_EARLY / later)  # what is not bet yet
        capital = np.logaddexp(logsumexp(self.wealth, axis=1) - np.log(len(_BETS)), left)
        self.log_evidence = self._least(capital)
        self.highest = max(self.highest, self.log_evidence)
        return self.log_evidence

    def _least(self, capital: np.ndarray) -> float:
        """A lower bound on the evidence over all means, given that on the stream at the means and at 1."""
        low = self.reference + capital  # each at the end of the interval where it is smaller
        known, widths = self.reference[1:] + capital[:-1], np.diff(self.means)
        slopes = np.diff(known) / widths
        left, right, before, after, width = known[1:-2], known[2:-1], slopes[:-2], slopes[2:], widths[1:-1]
        falls = (before < 0) & (after > 0)
        meet = (right - left - after * width) / np.where(
            falls, before - after, -1.0
        )  # of both chords, from the left end
        chords = np.where(falls, left + before * np.clip(meet, 0.0, width), np.minimum(left, right))
        low[2:-2] = np.maximum(low[2:-2], chords)
        return float(low.min())

    def state(self) -> dict[str, Any]:
        """All of it as numbers and lists, for JSON."""
        return {
            "means": self.means.tolist(),
            "reference": self.reference.tolist(),
            "wealth": self.wealth.tolist() if self.batches else None,
            "batches": self.batches,
            "log_evidence": self.log_evidence,
            "highest": self.highest,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The test that `state` was taken of."""
        new = cls.__new__(cls)
        new.means, new.reference = np.array(state["means"]), np.array(state["reference"])
        empty = np.full((len(new.reference), len(_BETS)), -np.inf)
        new.wealth = empty if state["wealth"] is None else np.array(state["wealth"])
        new.batches, new.log_evidence, new.highest = state["batches"], state["log_evidence"], state["highest"]
        return new


def _log_wealth(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    """sum_i log(1 - f + f x_i / m) for each mean m and share f."""
    pay = _BETS / np.maximum(means, _LEAST)[:, None]
    values, counts = np.unique(x, return_counts=True)
    out = np.zeros(pay.shape)
    if 8 * len(values) <= len(x):
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            out += count * np.log(1 - _BETS + pay * value)
        return out
    for start in range(0, len(x), _PRODUCT):
        block = x[start : start + _PRODUCT, None, None]
        out += np.log(np.prod(1 - _BETS + pay * block, axis=0))
    return out


def chernoff_interval(total: float, n: int, level: float) -> tuple[float, float]:
    """An interval that holds the mean of n independent numbers in [0, 1], given their sum, at least at this level.

    The means m with n kl(total / n, m) <= log(2 / (1 - level)): Chernoff's bound, by bisection.
    """
    if not n:
        return 0.0, 1.0
    found, limit = min(max(total / n, 0.0), 1.0), np.log(2 / (1 - level)) / n

    def beyond(m: float) -> bool:
        with np.errstate(divide="ignore", invalid="ignore"):
            hit = found * np.log(found / m) if found else 0.0
            miss = (1 - found) * np.log((1 - found) / (1 - m)) if found < 1 else 0.0
        return bool(hit + miss > limit)

    ends = []
    for far in (0.0, 1.0):
        near = found
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (near, middle) if beyond(middle) else (middle, far)
        ends.append(far)
    return ends[0], ends[1]
