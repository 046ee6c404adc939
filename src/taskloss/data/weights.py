"""The one way to check weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import real_array


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


def propensities(propensity: Any, n: int) -> np.ndarray:
    """One chance above zero of being seen for each item, or one clear sentence."""
    found = real_array("propensity", propensity, "the chance that each item was seen")
    found = np.full(n, float(found)) if found.ndim == 0 else found
    if found.shape != (n,):
        raise ValueError(f"propensity must be one chance for each of the {n} items, got shape {found.shape}.")
    if not ((found > 0) & (found <= 1)).all():
        wrong = found[~((found > 0) & (found <= 1))][0]
        raise ValueError(
            f"propensity must be above zero and at most one, got {wrong:g}: leave out items that nobody can have seen, and raise "
            "small chances, as by np.maximum(propensity, 0.01), which trades variance for a little bias."
        )
    return found
