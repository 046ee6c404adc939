"""Whether points lie in a polytope, for many of them at once."""

from __future__ import annotations

import numpy as np


def on_simplex(q: np.ndarray, tolerance: float) -> bool:
    """Whether every row sums to one and its negative entries to nothing, both up to a tolerance, in one compiled pass."""
    from .._compiled.laws import lawful

    return bool(lawful(q, tolerance))
