"""A quadratic risk of a linear hypothesis in principal coordinates: what a closed form needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hypotheses.base import Hypothesis, Inputs, row_blocks
from ..parallel import Executor
from ..solvers.base import RidgeForm
from .scores import ScoreRisk

_BLOCK_NUMBERS = 1 << 21  # features in coordinates that are made at one time


def ridge_form(
    hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, alpha: float, executor: Executor
) -> RidgeForm | None:
    """The penalised risk as ridge regression; None where it is no sum of squares, or features are too many."""
    targets = risk.squared_distance_targets()
    if targets is None or not hypothesis.separable:
        return None
    weights, fit_intercept = risk.weights, hypothesis.fit_intercept
    moments = hypothesis.exact_moments(inputs, weights, executor)
    if moments.squares is not None:
        return None
    mean = moments.mean if fit_intercept else np.zeros_like(moments.mean)
    turn: np.ndarray | None = None
    values = moments.second
    if values.ndim == 2:
        values, turn = np.linalg.eigh(values - np.outer(mean, mean))
        values = np.where(values > len(values) * np.finfo(float).eps * values[-1], values, 0.0)

    def rotated(features: Any) -> Any:
        return features if turn is None else turn.T @ features

    def correlate(rows: slice) -> np.ndarray:
        return hypothesis.coordinates_of(inputs, rows).T @ (weights[rows, None] * targets[rows])

    def coordinates(rows: slice) -> np.ndarray:
        z = hypothesis.coordinates_of(inputs, rows)
        z = z if isinstance(z, np.ndarray) else z.toarray()
        return z if turn is None else (z - mean) @ turn

    def theta(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = a if turn is None else turn @ a
        return np.vstack([a, b - mean @ a])

    def pullback(gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rotated(gradient[:-1] - np.outer(mean, gradient[-1])), gradient[-1]

    blocks = row_blocks(weights[:, None], max(64, _BLOCK_NUMBERS // max(len(mean), 1)))
    total = weights @ targets
    # Under the weights the coordinates have mean zero, or there is no intercept: the targets need not be centred.
    correlations = rotated(executor.sum(correlate, blocks) - np.outer(mean, total))
    centre = total if fit_intercept else np.zeros_like(total, dtype=float)
    return RidgeForm(alpha, values, correlations, centre, targets, weights, fit_intercept, coordinates, theta, pullback)
