"""Tests of "the mean loss is above the level" on independent examples: p-values that are valid for any law, without asymptotics."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy
from scipy.stats import binom

_BLOCK = 64  # examples between two updates of the bet


def binomial(total: Any, n: Any, level: float) -> np.ndarray:
    """P(Bin(n, level) <= total), the exact test where every loss is 0 or 1; one where there is no example."""
    return np.where(np.asarray(n) > 0, binom.cdf(np.round(total), n, level), 1.0)


def hoeffding_bentkus(total: Any, n: Any, level: float) -> np.ndarray:
    """min(exp(-n kl(mean, level)), e P(Bin(n, level) <= ceil(total))) for n losses in [0, 1] with this sum.

    References
    ----------
    Bates, Angelopoulos, Lei, Malik and Jordan, Distribution-free, risk-controlling prediction sets, 2021.
    """
    total, n = np.asarray(total, dtype=float), np.asarray(n, dtype=float)
    mean = np.minimum(total / np.maximum(n, 1.0), level)
    kl = xlogy(mean, mean / level) + xlogy(1 - mean, (1 - mean) / (1 - level))
    bentkus = np.e * binom.cdf(np.ceil(total - 1e-9), n, level)  # sums of many losses are not exact
    return np.where(n > 0, np.minimum(1.0, np.minimum(np.exp(-n * kl), bentkus)), 1.0)


def betting(gains: np.ndarray, worst: float, scale: float, delta: float, enough: float = np.inf) -> float:
    """One over the largest capital of a gambler who bets, example by example, that gains have a mean above zero.

    gains : (n,), of examples in random order, the level less the loss; from -worst up.
    worst : the largest loss of a gain.
    scale : the second moment expected before any gain is seen.
    delta : the error at which bets are aimed.
    enough : the capital at which to stop.

    Notes
    -----
    K_t = prod_(i <= t) (1 + nu_i g_i), with bets nu_i >= 0 that know the examples before i only, is a supermartingale where the mean
    gain is at most zero, so that P(sup K >= 1 / delta) <= delta. The bets are sqrt(2 log(1 / delta) / (n s)), s the mean square of
    the gains so far, which shortens the confidence interval most (Waudby-Smith and Ramdas, Estimating means of bounded random
    variables by betting, 2024). They change every 64 examples.
    """
    n, capital, best = len(gains), 1.0, 1.0
    aim, square, seen = 2 * np.log(1 / delta) / max(n, 1), scale, 1.0
    for start in range(0, n, _BLOCK):
        block = gains[start : start + _BLOCK]
        bet = min(np.sqrt(aim * seen / square), 1 / worst)
        path = capital * np.cumprod(1 + bet * block)
        capital, best = path[-1], max(best, path.max())
        if best >= enough:
            break
        square, seen = square + block @ block, seen + len(block)
    return 1 / best
