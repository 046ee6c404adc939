"""Increasing maps of the probabilities of single labels, fitted to known labels, and thresholds pulled back through them."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

_LEAST = 1e-9  # of a probability and of its complement, where a logarithm is taken
_MOST_EVIDENCE = 4.0  # logarithm of the odds ratio beyond which a model is not believed: a factor of 55
_TAIL = 1e-3  # slope of evidence beyond that: the map is strictly increasing
_SLOPE_PRIOR, _SHIFT_PRIOR = 30.0, 10.0  # precisions of a label's deviation from all labels' map
_LEAST_SLOPE = 0.02
_STEPS, _CLOSE = 25, 1e-3  # of Newton's method
_LARGEST = 700.0  # argument of an exponential
_BLOCK = 1 << 13  # numbers of each array of a block of rows, so that all stay in a core's cache


class Sigmoid:
    """logit t = logit c + a e + b: c is the label's share, e = logit q - logit c the evidence, cut off at +-4.

    One a and b for all labels maximise the likelihood; those of each label that with a Gaussian prior around them, of
    precision 30 for a and 10 for b, so that a rare label is mapped as the others are and a frequent one by its own examples.
    Platt's map with a prior; cutting off keeps the few examples of which a model is far too sure from deciding the slope.

    References
    ----------
    J. Platt. Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods, 1999.
    """

    share: np.ndarray
    slope: np.ndarray
    shift: np.ndarray
    fitted: np.ndarray

    def fit(self, q: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Self:
        """Fit to probabilities and labels (n, labels); weights sum to one."""
        w = weights / (weights @ weights)  # to the effective number of examples
        self.share = logit((w @ y + 0.5) / (w.sum() + 1))
        e = self._evidence(q)
        fit = _Newton(e, np.asarray(y, dtype=float), w, self.share)
        k = q.shape[1]
        slope, shift = fit(np.ones(k), np.zeros(k), (0.0, 0.0), True)
        slope = np.maximum(slope, _LEAST_SLOPE)
        slope, shift = fit(slope, shift, (_SLOPE_PRIOR, _SHIFT_PRIOR), False)
        self.slope, self.shift = np.maximum(slope, _LEAST_SLOPE), shift
        self.fitted = expit(self.share + self.slope * e + self.shift)
        return self

    def _evidence(self, q: np.ndarray) -> np.ndarray:
        e = logit(np.clip(q, _LEAST, 1 - _LEAST)) - self.share
        return np.clip(e, -_MOST_EVIDENCE, _MOST_EVIDENCE) + _TAIL * e

    def cut(self, t: np.ndarray) -> np.ndarray:
        """The probability of each label that is mapped to t."""
        v = (logit(np.clip(t, _LEAST, 1 - _LEAST)) - self.share - self.shift) / self.slope
        corner = _MOST_EVIDENCE * (1 + _TAIL)
        e = np.where(
            np.abs(v) <= corner,
            v / (1 + _TAIL),
            np.sign(v) * (_MOST_EVIDENCE + (np.abs(v) - corner) / _TAIL),
        )
        return expit(self.share + e)


class _Newton:
    """Logistic regressions with offset on one feature each, by Newton's method side by side; weights count examples.

    With a sign s for each label, one where it is present and minus one elsewhere, the loss is log(1 + exp(-s v)).
    """

    def __init__(self, e: np.ndarray, y: np.ndarray, w: np.ndarray, offset: np.ndarray):
        self.w, self.offset = w, offset
        self.sign = 2.0 * y - 1.0
        self.signed = self.sign * e

    def __call__(
        self, slope: np.ndarray, shift: np.ndarray, ridge: tuple[float, float], shared: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slopes and shifts; ridge: the precisions of a prior around the start. shared: one of each for all columns."""
        centre = np.stack([slope, shift])
        precision = np.array(ridge)[:, None]
        here = centre
        value, gradient, hessian = self._sums(here, shared)
        for _ in range(_STEPS):
            slopes = gradient + precision * (here - centre)
            a, b, c = hessian[0] + ridge[0] + _LEAST, hessian[1], hessian[2] + ridge[1] + _LEAST
            step = np.stack([c * slopes[0] - b * slopes[1], a * slopes[1] - b * slopes[0]]) / (a * c - b * b)
            risk = value + (precision * (here - centre) ** 2).sum(0) / 2
            length = np.ones_like(slope)
            for _ in range(_STEPS):
                there = here - length * step
                value, gradient, hessian = self._sums(there, shared)
                worse = value + (precision * (there - centre) ** 2).sum(0) / 2 > risk + 1e-9 * np.abs(risk)
                if not worse.any():
                    break
                length = np.where(worse, length / 2, length)
            here = there
            if np.abs(length * step).max() < _CLOSE:
                break
        return here[0], here[1]

    def _sums(self, theta: np.ndarray, shared: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The negative log-likelihood, its gradient and the entries of its Hessian, by column or of all together."""
        sums = np.zeros((6, len(self.offset)))
        step = max(1, _BLOCK // len(self.offset))
        for i in range(0, len(self.w), step):
            w, sign, signed = self.w[i : i + step], self.sign[i : i + step], self.signed[i : i + step]
            odds = np.exp(np.minimum(-(signed * theta[0] + sign * (self.offset + theta[1])), _LARGEST))
            wrong = odds / (1 + odds)
            spread = wrong * (1 - wrong)
            along = spread * signed
            parts = (np.log(1 + odds), -wrong * signed, -wrong * sign, along * signed, along * sign, spread)
            sums += [w @ part for part in parts]
        if shared:
            sums = np.broadcast_to(sums.sum(1, keepdims=True), sums.shape)
        return sums[0], sums[1:3], sums[3:]


class Isotonic:
    """For each label the non-decreasing function of least squared error.

    Its steps lie where thresholds on q are best for some weights of present and absent labels, and at these the sums of
    t are those of y.
    """

    fitted: np.ndarray

    def fit(self, q: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Self:
        order = np.lexsort((-y, q), axis=0)  # among equal q the present first: they are pooled
        self.q = np.take_along_axis(q, order, 0)
        known, w = np.take_along_axis(y, order, 0).astype(float), np.maximum(weights, 1e-300)
        self.t = np.empty_like(self.q)
        for j in range(q.shape[1]):
            self.t[:, j] = isotonic_regression(known[:, j], weights=w[order[:, j]]).x
        self.fitted = np.empty_like(self.t)
        np.put_along_axis(self.fitted, order, self.t, 0)
        return self

    def cut(self, t: np.ndarray) -> np.ndarray:
        """For each label, midway between the probabilities that are mapped to at most t and to more."""
        below = (self.t <= t).sum(0)[None]
        padded = np.vstack([np.zeros(len(t)), self.q, np.ones(len(t))])
        low, high = np.take_along_axis(padded, below, 0)[0], np.take_along_axis(padded, below + 1, 0)[0]
        return (low + high) / 2
