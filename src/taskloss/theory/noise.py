"""The noise condition from data: the distribution of margins with confidence bands, and the excess risk bound from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from .._arguments import explained
from .._checks import check_number, check_whole, real_array, real_level
from ..losses.base import Loss
from .calibration import Calibration


@dataclass(frozen=True)
class MarginDistribution:
    """The margins gamma(x) of a sample of inputs, the gap between the best output's expected loss and the next one's.

    Attributes
    ----------
    margins : one for each input, in increasing order.
    distances : l2 distance from the moments to the nearest tie, in the order of the inputs.
    confidence : the probability with which the bands hold, simultaneously for all t.
    error : a bound on the error of the margins, as moments are estimates; it widens the bands.
    """

    margins: np.ndarray = field(repr=False)
    distances: np.ndarray = field(repr=False)
    confidence: float
    error: float = 0.0

    def __len__(self) -> int:
        return len(self.margins)

    def __repr__(self) -> str:
        low, middle, high = np.quantile(self.margins, [0.1, 0.5, 0.9])
        return (
            f"MarginDistribution({len(self)} inputs: margins of {low:.3g}, {middle:.3g}, {high:.3g} at 10, 50 and 90 %)"
        )

    # -- P(gamma <= t) -----------------------------------------------------------------------------------------------

    def cdf(self, t: Any) -> np.ndarray:
        """The share of inputs with margin at most t."""
        return np.searchsorted(self.margins, _levels(t), side="right") / len(self)

    def band(self, t: Any) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on P(gamma <= t) that hold for all t at once with probability `confidence`.

        Notes
        -----
        Each side takes half of the error probability a, and spends half of that on the Dvoretzky-Kiefer-Wolfowitz
        inequality with Massart's constant, sqrt(log(4 / a) / (2 n)), and half on Clopper and Pearson's bounds at m
        order statistics whose ranks grow geometrically. P(gamma <= gamma_(i)) stochastically dominates a Beta(i, n - i
        + 1) variable (and equals one where gamma has no atoms), so that these bounds shrink with 1/n near t = 0, where
        the noise condition matters and the first inequality gives only 1/sqrt(n). The better of the two is returned.
        """
        levels = _levels(t)
        n, quarter = len(self), (1 - self.confidence) / 4
        width = np.sqrt(np.log(1 / quarter) / (2 * n))
        knots, above, below = self._knots
        # P(gamma <= t) <= P(gamma < gamma_(i)) for t < gamma_(i), and >= P(gamma <= gamma_(i)) for t >= gamma_(i)
        moved = levels + self.error
        high = np.append(above, 1.0)[np.searchsorted(knots, moved, side="right")]
        lowered = levels - self.error
        low = np.append(0.0, below)[np.searchsorted(knots, lowered, side="right")]
        high = np.minimum(high, np.minimum(self.cdf(moved) + width, 1.0))
        return np.maximum(low, np.maximum(self.cdf(lowered) - width, 0.0)), high

    @cached_property
    def _knots(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Order statistics, the upper bounds to their left and the lower bounds to their right."""
        from scipy.stats import beta

        n = len(self)
        ranks = np.unique(np.minimum(np.ceil(1.3 ** np.arange(np.log(n) / np.log(1.3) + 1)).astype(int), n))
        level = (1 - self.confidence) / 4 / len(ranks)
        bounds = beta(ranks, n - ranks + 1)
        return self.margins[ranks - 1], bounds.isf(level), bounds.ppf(level)

    # -- the noise condition -----------------------------------------------------------------------------------------

    def gamma_p(self, p: float) -> float:
        """The L_p norm of 1/gamma over the sample: an estimate, infinite where decisions tie.

        No sample bounds the norm itself from above, as rare margins near zero can make it arbitrarily large: use
        `gamma_p_lower`, `exponent`, and `excess_risk`, which does not need the norm.
        """
        self._check_p(p)
        least = self.margins[0]
        return _norm(np.full(len(self), 1 / len(self)), 0.0, self.margins / least, p) / least if least > 0 else np.inf

    def gamma_p_lower(self, p: float) -> float:
        """A lower confidence bound on the L_p norm of 1/gamma.

        E gamma^-p = integral of p t^(-p-1) P(gamma <= t) dt, with the band's lower end, a step function, in the place of P.
        """
        self._check_p(p)
        if self.band(0.0)[0] > 0:
            return np.inf
        knots = np.unique(self.margins) + self.error
        knots = knots[knots > 0]
        low = self.band(knots)[0]
        return _norm(np.diff(low, prepend=0.0), 1 - low[-1], knots / knots[0], p) / float(knots[0])

    def exponent(self, share: float = 0.1) -> tuple[float, float]:
        """The p with P(gamma <= t) ~ t^p near zero, by Hill's estimator on the least margins, and its standard error.

        gamma_p is finite for smaller p only. share: the fraction of the sample that counts as near zero.
        """
        check_number("share", share)
        count = max(int(share * len(self)), 1)
        if not 0 < share < 1 or count + 1 >= len(self) or self.margins[0] <= 0:
            raise ValueError(
                f"The exponent needs positive margins and a share of them between 0 and 1, got share = {share} of {len(self)} "
                f"with least margin {self.margins[0]:.3g}."
            )
        mean = float(np.log(self.margins[count] / self.margins[:count]).mean())
        found = np.inf if mean == 0 else 1 / mean
        return found, found / np.sqrt(count)

    @staticmethod
    def _check_p(p: float) -> None:
        check_number("p", p, above=0)

    # -- the excess risk -----------------------------------------------------------------------------------------------

    def excess_risk(self, zeta: Calibration, delta: float, points: int = 60) -> float:
        """The largest task excess risk possible with surrogate excess risk delta, given these margins.

        Parameters
        ----------
        zeta : the calibration function of the loss and the surrogate.
        delta : the surrogate's excess risk.
        points : the number of thresholds t.

        Notes
        -----
        For every t, with P the upper band,

            excess risk <= t P(gamma <= t) + t / zeta**(t) delta.

        A wrong decision has excess at least gamma(x). Where its excess is at most t, gamma(x) <= t, and these inputs
        contribute at most t P(gamma <= t); where it is more, it is at most t / zeta**(t) times its zeta**, as zeta** is
        convex and 0 at 0. This is the paper's proof for low noise, one step before Tsybakov's lemma, so that it needs
        neither p nor gamma_p. The bound is never above `zeta.excess_risk(delta)`, which does not use margins.

        It assumes that the margins are true up to `error`, and that the inputs are a sample from the test distribution.
        """
        delta = real_level("delta", delta)
        check_whole("points", points)
        plain = float(zeta.excess_risk(delta))
        if plain == 0:
            return 0.0
        top = zeta.eps_max
        levels = np.geomspace(min(plain, top) * 1e-3, top * (1 - 1e-9), points)
        heights = np.asarray(zeta.envelope(levels))
        with np.errstate(divide="ignore"):
            bounds = levels * self.band(levels)[1] + np.where(heights > 0, levels * delta / heights, np.inf)
        return min(plain, float(bounds.min()))

    def plot(self, ax: Any = None) -> Any:
        """The distribution of margins with its band (needs matplotlib); returns the axes."""
        from ..plots.curves import margins_plot

        return margins_plot(self, ax)


@explained
def margin_distribution(
    source: Any, data: Any, loss: Any = None, confidence: float = 0.95, error: float = 0.0
) -> MarginDistribution:
    """The margins of a fitted model's decisions, or of an array of moments.

    Parameters
    ----------
    source : a fitted estimator (a pipeline that ends in one), or a loss.
    data : for an estimator, inputs X that it was not fitted on; for a loss, moments, one row per input.
    loss : a loss on the same labels, in the place of the estimator's.
    confidence : of the bands, over the draw of the inputs.
    error : a bound on the error of the margins, as moments are estimates: `excess_bound(loss, r, norm)` for moments
        within r of the truth.

    Returns
    -------
    MarginDistribution

    Notes
    -----
    gamma(x) = min over z' of <psi(z') - psi(z), mu(x)> + c(z') - c(z), z the decision; outputs with equal costs on
    every label count as one. If mu moves to u, each such difference moves by at most max |<psi(z) - psi(z'), u - mu>|,
    and so does gamma. The distance to the nearest tie is the least of these differences over |psi(z') - psi(z)|_2. This
    is the paper's p-noise condition on a sample, with the model's margins for the true ones up to `error`.

    Examples
    --------
    >>> import numpy as np, taskloss as tl
    >>> found = tl.theory.margin_distribution(tl.losses.ZeroOne(3), [[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]])
    >>> found.margins.round(6)
    array([0.2, 0.8])
    """
    check_number("confidence", confidence)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
    if not (np.isfinite(error) and error >= 0):
        raise ValueError(f"error must be finite and not negative, got {error}.")
    if isinstance(source, Pipeline):
        source, data = source[-1], source[:-1].transform(data)
    if isinstance(source, str | type):
        source = Loss.resolve(source)
    try:
        answer = source._loss_and_moments
    except AttributeError:
        raise TypeError(
            f"margin_distribution needs a fitted estimator of taskloss or a loss, got {type(source).__name__}."
        ) from None
    judge, mu = answer(loss, data)
    mu = real_array("data", mu)
    if mu.ndim != 2 or not len(mu) or not np.isfinite(mu).all():
        raise ValueError(f"The moments must be finite, one row per input and at least one, got shape {mu.shape}.")
    margins, distances = margins_of(judge, mu)
    return MarginDistribution(np.sort(margins), distances, confidence, error)


def _levels(t: Any) -> np.ndarray:
    levels = real_array("t", t)
    if np.isnan(levels).any():
        raise ValueError(f"t contains NaN, got {t!r}.")
    return levels


def _norm(shares: np.ndarray, rest: float, x: np.ndarray, p: float) -> float:
    """(sum of shares x^-p)^(1/p) for x of at least one and shares whose sum is 1 - rest; for small and for large p."""
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        return float(np.exp(np.log1p(max(float(shares @ np.expm1(-p * np.log(x))) - rest, -1.0)) / p))


def margins_of(loss: Loss, mu: np.ndarray, rows: int = 4096) -> tuple[np.ndarray, np.ndarray]:
    """gamma and the l2 distance to the nearest tie, for each row of moments."""
    if loss.coordinatewise:
        return _coordinatewise_margins(loss, mu)
    outputs = loss.outputs()
    psi = np.asarray(loss.psi(outputs), dtype=float)
    if mu.shape[1] != psi.shape[1]:
        raise ValueError(f"The moments have {mu.shape[1]} columns, and {loss!r} needs {psi.shape[1]}.")
    offset = np.broadcast_to(np.asarray(loss.offset(outputs), dtype=float), (len(psi),))
    whole = np.unique(np.c_[psi, offset].round(12), axis=0)
    psi, offset = whole[:, :-1], whole[:, -1]
    if len(psi) < 2:
        raise ValueError(f"{loss!r} has no two outputs that differ: no decision can flip.")
    lengths = np.linalg.norm(psi[:, None] - psi, axis=-1)
    margins, distances = [], []
    for start in range(0, len(mu), rows):
        risks = mu[start : start + rows] @ psi.T + offset
        best = risks.argmin(1)
        gaps = risks - risks.min(1, keepdims=True)
        gaps[np.arange(len(gaps)), best] = np.inf
        margins.append(gaps.min(1))
        with np.errstate(divide="ignore"):  # outputs that differ by a constant alone never tie
            reach = np.where(lengths[best] > 0, gaps / np.maximum(lengths[best], 1e-300), np.inf)
        distances.append(reach.min(1))
    return np.concatenate(margins), np.concatenate(distances)


def _coordinatewise_margins(loss: Loss, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`margins_of` without listing label sets: the second best differs in one label, and so does the nearest tie."""
    size = loss.polytope.size
    if mu.shape[1] != size:
        raise ValueError(f"The moments have {mu.shape[1]} columns, and {loss!r} needs {size}.")
    weights = 2 * np.abs(loss.psi(np.zeros((1, size), dtype=int)))[0]
    counts = weights > 0
    if not counts.any():
        raise ValueError(f"{loss!r} has no two outputs that differ: no decision can flip.")
    reach = np.abs(mu[:, counts])
    return (weights[counts] * reach).min(1), reach.min(1)
