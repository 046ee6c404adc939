"""To NumPy and back, for work that is compiled or combinatorial and has no array-API form."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import array_namespace, device

Array = Any


def to_numpy(v: Array) -> np.ndarray:
    """The same numbers as a NumPy array; a torch tensor's without its graph."""
    if hasattr(v, "detach"):
        v = v.detach().cpu()
    return np.asarray(v)


def like(result: np.ndarray, v: Array) -> Array:
    """A result computed in NumPy, in v's namespace and on its device."""
    if isinstance(v, np.ndarray):
        return result
    kind = v.dtype if result.dtype.kind == "f" else None
    return array_namespace(v).asarray(result, dtype=kind, device=device(v))


def with_gradient(value: Array, gradient: Array, v: Array) -> Array:
    """A value computed outside torch's graph, given back its gradient in v: the added term is zero and has that slope."""
    if not getattr(v, "requires_grad", False):
        return value
    return value + (gradient * (v - v.detach())).sum(-1)
