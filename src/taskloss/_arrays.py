"""Namespaces of arrays, and the few elementwise functions that the array API standard lacks; NumPy and torch alike."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["array_namespace", "capped_exp", "device", "expit", "log", "logit", "safe_exp", "softplus", "xlogx"]

Array = Any

# e^500 leaves room for sums and squares below the largest float64; float32 (limit e^88) gets the same treatment at
# 80.
_EXP_LIMIT = {8: 500.0, 4: 80.0}


def array_namespace(*arrays: Any) -> Any:
    """The functions for these arrays, by the names of the standard: NumPy itself keeps it, others are wrapped."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # nearly always, and asked for in every small step
        return np
    if all(isinstance(a, np.ndarray | np.generic) for a in arrays):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(*arrays)


def device(x: Array) -> Any:
    """Where an array lives."""
    if isinstance(x, np.ndarray):
        return "cpu"
    import array_api_compat

    return array_api_compat.device(x)


def expit(v: Array) -> Array:
    """1 / (1 + exp(-v)), without overflow."""
    xp = array_namespace(v)
    e = xp.exp(-xp.abs(v))
    return xp.where(v >= 0, xp.ones_like(e), e) / (1 + e)


def logit(q: Array) -> Array:
    """log(q / (1 - q)), infinite at 0 and 1."""
    xp = array_namespace(q)
    return logit(q * 1.0) if xp.isdtype(q.dtype, ("bool", "integral")) else log(q) - log(1 - q)


def softplus(v: Array) -> Array:
    """log(1 + exp(v)), without overflow."""
    xp = array_namespace(v)
    return xp.log1p(xp.exp(-xp.abs(v))) + xp.where(v > 0, v, xp.zeros_like(v))


def xlogx(q: Array) -> Array:
    """q log q, zero at zero."""
    xp = array_namespace(q)
    return q * xp.log(xp.where(q > 0, q, xp.ones_like(q)))


def safe_exp(v: Array) -> Array:
    """exp(v), continued by its tangent where exp itself would overflow: still convex, smooth once and finite."""
    low = _below_overflow(v)
    return array_namespace(v).exp(low) * (1 + (v - low))


def capped_exp(v: Array) -> Array:
    """The derivative of safe_exp."""
    return array_namespace(v).exp(_below_overflow(v))


def _below_overflow(v: Array) -> Array:
    xp = array_namespace(v)
    limit = _EXP_LIMIT[4 if "32" in str(v.dtype) else 8]
    return xp.where(v < limit, v, xp.full_like(v, limit))


def log(q: Array) -> Array:
    """log with -inf at zero and no warning."""
    xp = array_namespace(q)
    return xp.where(q > 0, xp.log(xp.where(q > 0, q, xp.ones_like(q))), xp.full_like(q, -float("inf")))
