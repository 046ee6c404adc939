"""The one way to check weights."""

from __future__ import annotations

from typing import Any

import numpy as np


def example_weights(sample_weight: Any, n: int, what: str = "examples", part: bool = False) -> np.ndarray:
    """One weight for each example, or one clear sentence; of a part of the examples none need count."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be one number for each of the {n} {what}: {error}.") from error
    if weights.ndim == 0 and np.isfinite(weights) and weights > 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be one number for each of the {n} {what}, got an array of shape {weights.shape}."
        )
    if np.isnan(weights).any() or (weights < 0).any():
        raise ValueError("sample_weight contains NaN or negative values: weights must be finite and not negative.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        raise ValueError("sample_weight is so large that its sum is not finite: divide the weights by their mean.")
    if total <= 0 and not part:
        raise ValueError(f"sample_weight is zero for all of the {n} {what}: at least one must count.")
    return weights
