"""What a hypothesis g_theta(x) is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..registry import Part

Array = Any


class Hypothesis(Part):
    """Scores g_theta(x) and the way back from score derivatives to parameter derivatives. Knows X and theta alone.

    theta is a 2-d array and X any block of rows. Scores are linear in theta, so that `pullback` is their adjoint and
    a direction in theta has scores of its own.
    """

    def start(self, X: Any, scores: np.ndarray) -> np.ndarray:
        """Parameters whose scores are these constants, as nearly as the hypothesis allows."""
        raise NotImplementedError

    def scores(self, theta: Array, X: Any) -> np.ndarray:
        """v = g_theta(x), one row per example."""
        raise NotImplementedError

    def pullback(self, X: Any, dv: Array) -> np.ndarray:
        """The derivative in theta of the sum over examples of <dv, v>."""
        raise NotImplementedError

    def penalised(self, X: Any, size: int) -> np.ndarray:
        """Ones for the rows of theta that the penalty acts on and zeros for the others, as a column."""
        raise NotImplementedError

    @property
    def separable(self) -> bool:
        """Whether column j of theta decides score j and no other."""
        return False

    def preconditioner(
        self, X: Any, weights: np.ndarray, curvature: np.ndarray, alpha: float
    ) -> Callable[[Array], Array]:
        """g -> (approximate inverse Hessian) g, from the mean curvature of the loss in score space, (k, k) or its diagonal (k,)."""
        return lambda g: g


def row_blocks(X: Any, rows: int) -> list[slice]:
    """Slices of at most so many rows."""
    n = X.shape[0]
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]
