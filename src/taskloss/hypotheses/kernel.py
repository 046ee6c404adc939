"""Scores in a reproducing kernel Hilbert space, with one centre at every training point."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..parallel import SERIAL, Executor
from .base import Array, Hypothesis, Inputs, Moments, row_blocks
from .gram import Gram, gram, spectrum, whitening
from .linear import Linear

_LIMIT = 20_000  # training points whose n x n matrix is still worth its eigendecomposition
_BLOCK_NUMBERS = 1 << 22  # features in coordinates that are made at one time
_TABLE_NUMBERS = 1 << 24  # features in coordinates of all training points that are held for a fit


class Kernel(Linear):
    """g(x) = sum_i a_i k(x, x_i) + b with the penalty |g - b|^2 in the kernel's Hilbert space; b is not penalised.

    kernel: "rbf", "laplacian", "polynomial", "linear", ..., as scikit-learn names them, a callable k(A, B) on two
    blocks of rows, or "precomputed" (X is then the kernel matrix: training points as rows and columns, and new points
    as rows against training points as columns). `kernel_params` go to a callable, or to a named kernel with others
    than gamma, degree and coef0. gamma: a number, "scale" (one over the inputs' number and variance), or "auto", chosen by the
    task loss together with the penalty of an estimator whose alpha is "auto"; None is scikit-learn's own.

    theta are the coordinates in the eigenvectors of the (centred) kernel matrix in which the penalty is Euclidean and
    the features are uncorrelated under the weights of the rows, so that the Hessian of the quadratic surrogate is diagonal:
    `solvers.ClosedForm` divides by it. With it and fit_intercept=False this equals scikit-learn's KernelRidge at its alpha = n alpha; kernel="linear" equals
    `Linear`. One eigendecomposition, of order n^3: for more than a few thousand points, `Nystrom`.
    """

    name = "kernel"
    basis_: Any
    scale_: float  # the mean of k(x, x), in units of which a penalty is weak or strong
    device = None
    weights_: np.ndarray | None = None  # of the training points, where these are the centres; one on average

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        shared: Any = "deprecated",
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
        return [cls(), cls("laplacian", gamma=0.3), cls("polynomial", degree=2, fit_intercept=False)]

    @property
    def dtypes(self) -> tuple[type, ...]:
        return (np.float64,)

    @property
    def default_alpha(self) -> Any:
        return "auto"

    @property
    def whitened(self) -> bool:
        return True

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        super().bind(inputs, weights)
        bound = self.with_params()
        bound._settle(inputs, weights)
        return bound

    def agrees(self, other: Hypothesis) -> bool:
        return isinstance(other, Kernel) and self == other and np.array_equal(self.basis_, other.basis_)

    @property
    def pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def check(self, estimator: str) -> None:
        if self.pairwise:
            raise ValueError(f"{estimator} builds its own rows of features: pass the kernel itself, not its matrix.")

    @property
    def grows(self) -> bool:
        return True

    def growing(self, inputs: Inputs) -> Self:
        if self.kernel == "precomputed":
            raise ValueError("A stream cannot use a precomputed kernel, which knows only its training points.")
        return self.with_params(gamma=self.expansion(inputs).gram_.gamma)

    def expansion(self, centres: Inputs) -> Self:
        return self._with_coefficients(self._gram(centres, centres, None))

    def expanded(self) -> Self:
        return self if self.basis_ is None else self._with_coefficients(self.gram_)

    def _with_coefficients(self, gram: Gram) -> Self:
        bound = self.with_params()
        bound.gram_, bound.mean_, bound.basis_ = gram, np.zeros(gram.size), None
        return bound

    def diagonal(self, inputs: Inputs) -> np.ndarray:
        return self.gram_.diagonal(inputs)

    def rescaled(self, factor: float) -> Self | None:
        if not isinstance(self.gamma, str) or self.gamma != "auto" or self.gram_.gamma is None:
            return None
        return self.with_params(gamma=factor * self.gram_.gamma)

    def _settle(self, X: Any, weights: np.ndarray | None) -> None:
        """Centres, coordinates and their second moments, under weights on the rows."""
        n = X.shape[0]
        if n > _LIMIT:
            raise ValueError(
                f"hypothesis='kernel' decomposes an n x n matrix, and n = {n} is above {_LIMIT}; use hypothesis='nystrom'."
            )
        weights = np.ones(n) if weights is None else weights / weights.sum() * n
        self.gram_ = self._gram(X, X, weights)
        k = np.array(self.gram_(X), dtype=float)
        diagonal = np.diag(k).copy()
        values, vectors, self.mean_ = spectrum(k, self.fit_intercept, weights)
        self.scale_ = max(float(weights @ diagonal) / n, 1e-300)
        values, self.basis_ = whitening(values, vectors)
        self.basis_ *= np.sqrt(weights)[:, None]
        self.moments_, self.weights_ = values / n, weights

    def _gram(self, centres: Any, X: Any, weights: np.ndarray | None) -> Gram:
        params = (self.gamma, self.degree, self.coef0, self.kernel_params)
        return gram(self.kernel, centres, *params, X, weights, self.device)

    # -- from coordinates to coefficients on the centres, and back ---------------------------------------------------

    def rank(self, inputs: Inputs) -> int:
        return self.basis_.shape[1]

    def work(self, inputs: Inputs) -> float:
        return float(inputs.shape[0] * len(self.mean_))

    def width(self, inputs: int) -> int:
        return len(self.mean_)

    @property
    def makes_features(self) -> bool:
        return not (isinstance(self.kernel, str) and self.kernel == "precomputed")

    def sparse(self, inputs: Inputs) -> bool:
        return False

    def features(self, inputs: Inputs, executor: Executor = SERIAL) -> np.ndarray:
        return self.gram_(inputs) if self.room is None else self._place.rows(self.gram_.at(inputs))

    @property
    def _basis(self) -> Any:
        """The basis where products with it run, to which a device is sent it once."""
        if self.room is None:
            return self.basis_
        if "_sent" not in self.__dict__:
            self._sent = self._place.rows(self.basis_)
        return self._sent

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_sent"}

    def expand(self, theta: Array) -> Array:
        # The intercept in theta is the one at the mean of the features, which makes it uncorrelated with them.
        if self.basis_ is None:
            return theta
        rank = self.basis_.shape[1]
        a = self._basis @ theta[:rank]
        return np.concatenate([a, theta[rank:] - self.mean_ @ a])

    def contract(self, gradient: Array) -> Array:
        m = len(self.mean_)
        constants = gradient[m:]
        return np.concatenate([self._basis.T @ (gradient[:m] - self.mean_[:, None] * constants.sum(0)), constants])

    def coordinates(self, inputs: Inputs) -> np.ndarray:
        place = self._place
        basis = self.basis_ if self.room is None else self._basis.rows
        return place.get((self.gram_.at(inputs) - place.put(self.mean_)) @ basis)

    def coordinates_of(self, inputs: Inputs, rows: slice) -> np.ndarray:
        # At the centres H K T = D^-1 U S^(1/2), which needs no kernel values and loses no digits where S is small.
        if self.weights_ is None or inputs is not self.gram_.centres:
            return super().coordinates_of(inputs, rows)
        weights = self.weights_[rows, None]
        z = self.basis_[rows] * (len(self.weights_) * self.moments_)
        z /= np.where(weights > 0, weights, 1.0)
        free = np.flatnonzero(weights == 0)
        if len(free):
            z[free] = self.coordinates(inputs[free + rows.start])
        return z

    def tabulated(self, inputs: Inputs, dtype: Any = np.float64) -> tuple[Hypothesis, Inputs]:
        # Four products with n x n matrices and the kernel's values become two products and none.
        if self.basis_ is None or inputs is not self.gram_.centres or self.room is not None:
            return self, inputs
        if self.basis_.size > _TABLE_NUMBERS:
            return self, inputs
        table = self.coordinates_of(inputs, slice(0, len(self.basis_))).astype(dtype, copy=False)
        other = _Coordinates(self.moments_, self.fit_intercept)
        other.table, other.weights = table, self.weights_
        return other, table

    def moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        return Moments(np.zeros(len(self.moments_)), self.moments_)

    def exact_moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        if _alike(weights, self.weights_ if inputs is self.gram_.centres else None):
            return self.moments(inputs, weights, executor)

        def work(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            z = self.coordinates_of(inputs, rows)
            weighted = weights[rows, None] * z
            return weighted.sum(axis=0), z.T @ weighted

        return Moments(*executor.sum(work, row_blocks(inputs, max(256, _BLOCK_NUMBERS // len(self.mean_)))))


def _alike(weights: np.ndarray, mine: np.ndarray | None) -> bool:
    """Whether weights that sum to one are those, one on average, under which the coordinates were made."""
    return mine is not None and np.allclose(weights * len(weights), mine, rtol=1e-12, atol=0)


class _Coordinates(Linear):
    """A kernel's functions on its training points, whose rows are their features in coordinates; `moments_` are the second ones."""

    table: Any = None  # all rows, and their weights
    weights: np.ndarray | None = None

    def __init__(self, moments_: np.ndarray, fit_intercept: bool):
        super().__init__(fit_intercept=fit_intercept)
        self.moments_ = moments_

    @property
    def whitened(self) -> bool:
        return True

    def moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        return Moments(np.zeros(len(self.moments_)), self.moments_)

    def exact_moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        if _alike(weights, self.weights if inputs is self.table else None):
            return self.moments(inputs, weights, executor)
        return super().exact_moments(inputs, weights, executor)
