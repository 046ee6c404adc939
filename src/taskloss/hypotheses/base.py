"""What a hypothesis g_theta(x) is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..registry import Part

Array = Any

_FEATURE_BYTES = 1 << 26  # features made at one time when predicting


class Hypothesis(Part):
    """Scores g_theta(x) and the way back from score derivatives to parameter derivatives. Knows X and theta alone.

    theta is a 2-d array in whose Euclidean norm the penalty is counted. Scores are linear in it, in two steps: the
    coefficients expand(theta), made once in a pass over the data, and the features of a block of rows, made once for
    each block. `pullback` and `contract` are the adjoints of `scores` and `expand`.
    """

    dtypes: ClassVar[tuple[type, ...]] = (np.float64, np.float32)  # of X, the first where it has another

    def bind(self, X: Any) -> Self:
        """The same hypothesis with what it takes from the training inputs, such as centres and their scale."""
        return self

    def agrees(self, other: Any) -> bool:
        """Whether theta means the same in another hypothesis, bound to other inputs perhaps."""
        return type(self) is type(other)

    def start(self, X: Any, scores: np.ndarray) -> np.ndarray:
        """Parameters whose scores are these constants, as nearly as the hypothesis allows."""
        raise NotImplementedError

    def width(self, inputs: int) -> int:
        """How many features are made of so many inputs."""
        return inputs

    @property
    def makes_features(self) -> bool:
        """Whether the features are more than the inputs themselves: dense, and made anew in every pass."""
        return False

    def features(self, X: Any) -> Any:
        """What of a block of rows the scores are linear in."""
        return X

    def expand(self, theta: Array) -> Array:
        """The coefficients on the features that theta stands for."""
        return theta

    def contract(self, gradient: Array) -> Array:
        """The derivative in theta from the derivative in the coefficients."""
        return gradient

    def scores(self, coefficients: Array, features: Any) -> np.ndarray:
        """v = g_theta(x), one row per example."""
        raise NotImplementedError

    def pullback(self, features: Any, dv: Array) -> np.ndarray:
        """The derivative in the coefficients of the sum over examples of <dv, v>."""
        raise NotImplementedError

    def compiled_pass(self, X: Any) -> Callable | None:
        """(coefficients, X, phi, w, risk) -> sums, and the derivative in the coefficients, in one compiled pass over rows such as X; None without."""
        return None

    def coordinates(self, X: Any) -> Any:
        """Features on which theta itself are the coefficients, for methods that look at one example at a time."""
        return X

    def squared_norms(self, features: Any) -> np.ndarray:
        """The squared norm of the map from theta to one score, for rows in coordinates."""
        raise NotImplementedError

    def predict(self, theta: Array, X: Any) -> np.ndarray:
        """The scores of any number of rows; features are made block by block."""
        coefficients = self.expand(theta)
        if not self.makes_features:
            return self.scores(coefficients, X)
        blocks = row_blocks(X, max(256, _FEATURE_BYTES // (8 * self.width(X.shape[1]))))
        parts = [self.scores(coefficients, self.features(X[rows])) for rows in blocks]
        return np.concatenate(parts) if parts else self.scores(coefficients, self.features(X))

    def penalised(self, X: Any) -> int:
        """How many rows of theta the penalty acts on; they come first."""
        raise NotImplementedError

    @property
    def separable(self) -> bool:
        """Whether column j of theta decides score j and no other."""
        return False

    def sharpens(self, X: Any) -> bool:
        """Whether the preconditioner looks at how curvatures vary, and is worth making anew soon."""
        return False

    def preconditioner(
        self,
        X: Any,
        weights: np.ndarray,
        curvature: np.ndarray,
        alpha: float,
        threads: int = 1,
        varying: Varying | None = None,
    ) -> Callable[[Array], Array]:
        """g -> (approximate inverse Hessian) g, from the mean curvature of the loss in score space, (k, k) or its diagonal (k,).

        Where it varies much, `varying` holds the curvature of each row, whose mean it is; a hypothesis need not look at it.
        """
        return lambda g: g


class Varying(NamedTuple):
    """The curvatures (rows, k, k) at parameters theta, and in how many directions it pays to look at them."""

    theta: np.ndarray
    curvatures: np.ndarray
    directions: int


def row_blocks(X: Any, rows: int) -> list[slice]:
    """Slices of at most so many rows."""
    n = X.shape[0]
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]
