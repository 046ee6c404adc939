"""Scores in a reproducing kernel Hilbert space, with one centre at every training point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .base import Array, Varying
from .gram import gram, spectrum, whitening
from .linear import Linear, _spectrum

_LIMIT = 20_000  # training points whose n x n matrix is still worth its eigendecomposition


class Kernel(Linear):
    """g(x) = sum_i a_i k(x, x_i) + b with the penalty |g - b|^2 in the kernel's Hilbert space; b is not penalised.

    kernel: "rbf", "laplacian", "polynomial", "linear", ..., as scikit-learn names them, a callable k(A, B) on two
    blocks of rows, or "precomputed" (X is then the kernel matrix: training points as rows and columns, and new points
    as rows against training points as columns). `kernel_params` go to a callable, or to a named kernel with others
    than gamma, degree and coef0.

    theta are the coordinates in the eigenvectors of the (centred) kernel matrix in which the penalty is Euclidean and
    the features are uncorrelated, so that the preconditioner is a diagonal, exact for the quadratic surrogate. With it
    and fit_intercept=False this equals scikit-learn's KernelRidge at its alpha = n alpha; kernel="linear" equals
    `Linear`. One eigendecomposition, of order n^3: for more than a few thousand points, `Nystrom`.
    """

    name = "kernel"
    dtypes = (np.float64,)
    basis_: Any

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        fit_intercept: bool = True,
        shared: bool = False,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.shared = shared

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls("laplacian", gamma=0.3, shared=True), cls("polynomial", degree=2, fit_intercept=False)]

    def bind(self, X: Any) -> Self:
        bound = self.with_params()
        bound._settle(X)
        return bound

    def agrees(self, other: Any) -> bool:
        return self == other and np.array_equal(self.basis_, other.basis_)

    def expansion(self, centres: Any) -> Self:
        """The hypothesis whose theta are plain coefficients on these centres, then the intercepts; for growing sums."""
        bound = self.with_params()
        bound.gram_ = bound._gram(centres, centres)
        bound.mean_, bound.basis_ = np.zeros(bound.gram_.size), None
        return bound

    def _settle(self, X: Any) -> None:
        """Centres, coordinates and their second moments."""
        n = X.shape[0]
        if n > _LIMIT:
            raise ValueError(
                f"hypothesis='kernel' decomposes an n x n matrix, and n = {n} is above {_LIMIT}; use hypothesis='nystrom'."
            )
        self.gram_ = self._gram(X, X)
        k = np.array(self.gram_(X), dtype=float)
        values, vectors, self.mean_ = spectrum(k, self.fit_intercept)
        values, self.basis_ = whitening(values, vectors)
        self.moments_ = values / n

    def _gram(self, centres: Any, X: Any) -> Any:
        return gram(self.kernel, centres, self.gamma, self.degree, self.coef0, self.kernel_params, X)

    # -- from coordinates to coefficients on the centres, and back ---------------------------------------------------

    def _rank(self, X: Any) -> int:
        return self.basis_.shape[1]

    def width(self, inputs: int) -> int:
        return len(self.mean_)

    @property
    def makes_features(self) -> bool:
        return self.kernel != "precomputed"

    def features(self, X: Any) -> np.ndarray:
        return self.gram_(X)

    def compiled_pass(self, X: Any) -> None:
        return None  # that of linear scores reads the inputs themselves

    def expand(self, theta: Array) -> Array:
        # The intercept in theta is the one at the mean of the features, which makes it uncorrelated with them.
        if self.basis_ is None:
            return theta
        rank = self.basis_.shape[1]
        a = self.basis_ @ theta[:rank]
        return np.concatenate([a, theta[rank:] - self.mean_ @ a])

    def contract(self, gradient: Array) -> Array:
        m = len(self.mean_)
        constants = gradient[m:]
        return np.concatenate([self.basis_.T @ (gradient[:m] - self.mean_[:, None] * constants.sum(0)), constants])

    def coordinates(self, X: Any) -> np.ndarray:
        return (self.gram_(X) - self.mean_) @ self.basis_

    def sharpens(self, X: Any) -> bool:
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
        """Where every example had the mean curvature A, the Hessian would be A (x) diag(moments) + alpha: its inverse."""
        rank = self.basis_.shape[1]
        if self.shared:
            full = np.diag(curvature) if curvature.ndim == 1 else curvature
            across = np.linalg.pinv(full, hermitian=True, rcond=1e-10)
            along = 1 / (full.sum() * self.moments_ + alpha)[:, None]
            return lambda g: np.concatenate([along * g[:rank], across @ g[rank:]])
        a, u = _spectrum(curvature)
        inverse = np.where(a > 1e-10 * a.max(), 1 / np.maximum(a, 1e-300), 0.0)
        scale = np.vstack([1 / (np.outer(self.moments_, a) + alpha), inverse])
        return (lambda g: scale * g) if u is None else (lambda g: (scale * (g @ u)) @ u.T)
