"""A quadratic risk of a linear hypothesis in principal coordinates: what a closed form needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hypotheses.base import Hypothesis, Inputs, Moments, Principal, row_blocks
from ..parallel import Executor
from ..solvers.base import RidgeForm
from .scores import ScoreRisk

_BLOCK_NUMBERS = 1 << 21  # features in coordinates that are made at one time


def ridge_form(
    hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, alpha: float, executor: Executor
) -> RidgeForm | None:
    """The penalised risk as ridge regression; None where it is no sum of squares, or features are too many."""
    if not squares_of(hypothesis, risk):
        return None
    targets, weights = risk.squared_distance_targets(), risk.weights
    assert targets is not None
    moments = hypothesis.exact_moments(inputs, weights, executor)
    if isinstance(moments.second, Principal):
        return None

    def correlate(rows: slice) -> np.ndarray:
        return hypothesis.coordinates_of(inputs, rows).T @ (weights[rows, None] * targets[rows])

    blocks = row_blocks(weights[:, None], max(64, _BLOCK_NUMBERS // max(len(moments.mean), 1)))
    correlations = executor.sum(correlate, blocks)
    return principal(hypothesis, alpha, moments, correlations, weights @ targets, inputs, targets, weights)


def squares_of(hypothesis: Hypothesis, risk: ScoreRisk) -> bool:
    """Whether the risk is a sum of squares, each of which has parameters of its own."""
    return hypothesis.separable and risk.squared_distance_targets() is not None


def principal(
    hypothesis: Hypothesis,
    alpha: float,
    moments: Moments,
    correlations: np.ndarray,
    total: np.ndarray,
    inputs: Inputs = None,
    targets: Any = None,
    weights: Any = None,
) -> RidgeForm:
    """Ridge regression in principal coordinates, from the features' moments, sum_i w_i z_i t_i' and sum_i w_i t_i.

    inputs, targets, weights: of the examples, where these are here to be asked for one by one.
    """
    fit_intercept = hypothesis.fit_intercept
    mean = moments.mean if fit_intercept else np.zeros_like(moments.mean)
    turn: np.ndarray | None = None
    values = moments.second
    if values.ndim == 2:
        values, turn = np.linalg.eigh(values - np.outer(mean, mean))
        values = np.where(values > len(values) * np.finfo(float).eps * values[-1], values, 0.0)

    def rotated(features: Any) -> Any:
        return features if turn is None else turn.T @ features

    def coordinates(rows: slice) -> np.ndarray:
        z = hypothesis.coordinates_of(inputs, rows)
        z = z if isinstance(z, np.ndarray) else z.toarray()
        return z if turn is None else (z - mean) @ turn

    def theta(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = a if turn is None else turn @ a
        return np.vstack([a, b - mean @ a])

    def pullback(gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rotated(gradient[:-1] - np.outer(mean, gradient[-1])), gradient[-1]

    # Under the weights the coordinates have mean zero, or there is no intercept: the targets need not be centred.
    correlations = rotated(correlations - np.outer(mean, total))
    centre = total if fit_intercept else np.zeros_like(total, dtype=float)
    return RidgeForm(alpha, values, correlations, centre, targets, weights, fit_intercept, coordinates, theta, pullback)
