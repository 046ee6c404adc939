"""Linear scores W x + b."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .base import Array, Hypothesis, row_blocks

_GRAM_LIMIT = 1500  # features up to which the second moments of X are worth their d x d matrix


class Linear(Hypothesis):
    """g(x) = W x + b, for dense or CSR rows. The intercept b is not penalised.

    theta is (d + 1, k): the weights as columns, then a row of intercepts. With `shared`, all scores share one weight
    vector and keep an intercept each (proportional odds): theta is (d + k, 1).
    """

    name = "linear"

    def __init__(self, fit_intercept: bool = True, shared: bool = False):
        self.fit_intercept = fit_intercept
        self.shared = shared

    @property
    def separable(self) -> bool:
        return not self.shared

    def start(self, X: Any, scores: np.ndarray) -> np.ndarray:
        d, k = self._rank(X), len(scores)
        constants = scores if self.fit_intercept else np.zeros(k)
        if self.shared:
            return np.concatenate([np.zeros(d), constants])[:, None]
        return np.vstack([np.zeros((d, k)), constants])

    def _rank(self, X: Any) -> int:
        """How many parameters a score has besides its intercept."""
        return X.shape[1]

    def split(self, theta: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Weights (d, k) or (d, 1), and the k intercepts."""
        return theta[:d], theta[d:].ravel()

    def scores(self, coefficients: Array, features: Any) -> np.ndarray:
        X = features
        w, b = self.split(coefficients, X.shape[1])
        # (W^T X^T)^T keeps the scores of a block coordinate by coordinate, so that reductions over coordinates run
        # along contiguous rows.
        v = (w.T @ X.T).T if isinstance(X, np.ndarray) else X @ np.ascontiguousarray(w)
        if self.shared:
            return (b[:, None] + v.T).T
        v += b
        return v

    def pullback(self, features: Any, dv: Array) -> np.ndarray:
        weights = features.T @ (dv.sum(axis=1, keepdims=True) if self.shared else dv)
        constants = dv.sum(axis=0) if self.fit_intercept else np.zeros(dv.shape[1], dv.dtype)
        return np.concatenate([weights, constants.reshape(-1, 1) if self.shared else constants.reshape(1, -1)])

    def squared_norms(self, features: Any) -> np.ndarray:
        """|x|^2 of rows in coordinates, with the intercept's constant feature: the bound kappa^2 on kernels."""
        squares = features.multiply(features).sum(axis=1) if sparse.issparse(features) else (features**2).sum(axis=1)
        return np.asarray(squares).ravel() + float(self.fit_intercept)

    def penalised(self, X: Any) -> int:
        return self._rank(X)

    # -- the preconditioner ------------------------------------------------------------------------------------------

    def preconditioner(
        self, X: Any, weights: np.ndarray, curvature: np.ndarray, alpha: float
    ) -> Callable[[Array], Array]:
        """Where every example had the mean curvature A, the Hessian would be A (x) E[x x^T] + alpha: its inverse.

        From the second moments of X where d is moderate, from their diagonal otherwise.
        """
        if sparse.issparse(X) or X.shape[1] > _GRAM_LIMIT:
            return self._diagonal(X, weights, curvature, alpha)
        mean, second = _moments(X, weights)
        return (
            self._shared(mean, second, curvature, alpha)
            if self.shared
            else self._kronecker(mean, second, curvature, alpha)
        )

    def _kronecker(
        self, mean: np.ndarray, second: np.ndarray, curvature: np.ndarray, alpha: float
    ) -> Callable[[Array], Array]:
        # In the coordinates (W, b + W mean) the intercept is uncorrelated with the centred features, and both factors
        # are diagonal in their eigenvectors: H^-1 = (U (x) Q) diag(1 / (a c + alpha)) (U (x) Q)^T.
        if not self.fit_intercept:
            mean = np.zeros_like(mean)
        c, q = np.linalg.eigh(second - np.outer(mean, mean))
        a, u = _spectrum(curvature)
        scale = 1 / (np.maximum(c, 0)[:, None] * a + alpha)
        inverse_a = np.where(a > 1e-10 * a.max(), 1 / np.maximum(a, 1e-300), 0.0)

        def apply(g: Array) -> Array:
            gw, gb = g[:-1] - np.outer(mean, g[-1]), g[-1]
            w = q @ (scale * (q.T @ (gw if u is None else gw @ u)))
            b = inverse_a * (gb if u is None else gb @ u)
            if u is not None:
                w, b = w @ u.T, b @ u.T
            return np.vstack([w, b - mean @ w])

        return apply

    def _shared(
        self, mean: np.ndarray, second: np.ndarray, curvature: np.ndarray, alpha: float
    ) -> Callable[[Array], Array]:
        full = np.diag(curvature) if curvature.ndim == 1 else curvature
        d, k = len(mean), len(full)
        hessian = np.empty((d + k, d + k))
        hessian[:d, :d] = full.sum() * second + alpha * np.eye(d)
        hessian[:d, d:] = np.outer(mean, full.sum(0))
        hessian[d:, :d] = hessian[:d, d:].T
        hessian[d:, d:] = full + 1e-10 * np.trace(full) * np.eye(k)
        inverse = np.linalg.pinv(hessian, hermitian=True, rcond=1e-14)
        return lambda g: inverse @ g

    def _diagonal(self, X: Any, weights: np.ndarray, curvature: np.ndarray, alpha: float) -> Callable[[Array], Array]:
        squares = X.multiply(X).T @ weights if sparse.issparse(X) else np.einsum("nd,nd,n->d", X, X, weights)
        full = curvature if curvature.ndim == 1 else np.diag(curvature)
        if self.shared:
            total = curvature.sum()
            scale = np.concatenate([1 / (total * squares + alpha), 1 / np.maximum(full, 1e-10 * full.max())])[:, None]
        else:
            scale = np.vstack([1 / (np.outer(squares, full) + alpha), 1 / np.maximum(full, 1e-10 * full.max())])
        return lambda g: scale * g


def _moments(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and second moments of the rows, in blocks, in float64."""
    d = X.shape[1]
    mean, second = np.zeros(d), np.zeros((d, d))
    for rows in row_blocks(X, max(1024, (1 << 17) // max(d, 1))):  # a block and its weighted copy stay in the cache
        block = np.sqrt(weights[rows])[:, None] * X[rows]
        mean += np.sqrt(weights[rows]) @ block
        second += block.T @ block
    return mean, second


def _spectrum(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Eigenvalues and eigenvectors of the score curvature; no vectors where it is diagonal."""
    if curvature.ndim == 1:
        return np.maximum(curvature, 0), None
    a, u = np.linalg.eigh(curvature)
    return np.maximum(a, 0), u
