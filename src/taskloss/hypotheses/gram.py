"""Kernel values between blocks of rows and fixed centres, and what one eigendecomposition of them gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._arrays import array_namespace
from .._checks import real_array
from .base import Array, row_blocks
from .places import HOST, Host, place_of

_UNIT_DIAGONAL = ("rbf", "laplacian", "cosine")
_NEGATIVE = 1e-7  # an eigenvalue this far below zero, relative to the largest, is no rounding error
_PAIRS = 64  # rows whose pairs are formed at one time to read a diagonal


class Gram:
    """k(x, c) for any block of rows x and fixed centres c.

    kernel: a name that scikit-learn's `pairwise_kernels` knows, a callable k(A, B) on two blocks that returns
    len(A) x len(B) numbers, or "precomputed" where the rows hold those numbers already. gamma "scale" is 1 / (inputs
    x variance) over the centres' own data, None 1 / inputs. rbf equals scikit-learn's, in one product and one
    exponential.
    """

    _there: tuple[Any, ...] = (None,)  # a place, and there the folded centres and their shift

    def __init__(
        self,
        kernel: Any,
        centres: Any,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        params: Any = None,
        device: Any = None,
    ):
        self.kernel, self.centres, self.device = kernel, centres, device
        self.gamma, self.degree, self.coef0, self.params = gamma, degree, coef0, params or {}
        if isinstance(kernel, str):
            check_name(kernel)
        if kernel == "rbf":
            self._fold(centres)

    def __getstate__(self) -> dict[str, Any]:  # a file need not hold the centres twice
        return {
            key: value for key, value in self.__dict__.items() if key not in ("_inputs", "_ends", "_shift", "_there")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {"device": None} | state
        if self.kernel == "rbf":
            self._fold(self.centres)

    @property
    def size(self) -> int:
        return self.centres.shape[0] if hasattr(self.centres, "shape") else len(self.centres)

    @property
    def place(self) -> Any:
        return place_of(self.device)

    def at(self, X: Any) -> Any:
        """The same values where products with them run. The Gaussian kernel of dense rows is made there, others come from here."""
        if self.kernel == "rbf" and not sparse.issparse(X) and not sparse.issparse(self.centres):
            return self._dense_rbf(X)
        return self.place.put(self(X))

    def __call__(self, X: Any) -> np.ndarray:
        if isinstance(self.kernel, str):
            if self.kernel == "precomputed":
                return X.toarray() if sparse.issparse(X) else X
            return self._rbf(X) if self.kernel == "rbf" else self._named(X, self.centres)
        return _checked(self.kernel(X, self.centres, **self.params), X, self.centres)

    def diagonal(self, X: Any) -> np.ndarray:
        """k(x, x), row by row."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if self.kernel in _UNIT_DIAGONAL:
            return np.ones(n)
        if self.kernel == "precomputed":
            raise ValueError("A precomputed kernel says nothing of k(x, x) for new points: give the kernel itself.")
        pairs = self._named if isinstance(self.kernel, str) else lambda a, b: self.kernel(a, b, **self.params)
        blocks = [X[i : i + _PAIRS] for i in range(0, n, _PAIRS)]
        return np.concatenate([np.diag(np.asarray(pairs(block, block))) for block in blocks])

    def _named(self, X: Any, centres: Any) -> np.ndarray:
        from sklearn.metrics.pairwise import pairwise_kernels

        given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0, **self.params}
        values = pairwise_kernels(X, centres, metric=self.kernel, filter_params=True, **given)
        return values.toarray() if sparse.issparse(values) else np.asarray(values)

    # -- the Gaussian kernel: -gamma |x - c|^2 is one product of (x, |x|^2, 1) with (2 gamma c, -gamma, -gamma |c|^2)

    def _fold(self, centres: Any) -> None:
        gamma = 1 / centres.shape[1] if self.gamma is None else self.gamma
        dense = not sparse.issparse(centres)
        self._shift = np.asarray(centres.mean(axis=0)) if dense else 0.0  # distances lose fewer digits near the origin
        c = centres - self._shift if dense else centres
        self._inputs = 2 * gamma * c.T
        self._ends = np.stack([np.full(c.shape[0], -gamma), -gamma * _squares(c)])

    def _rbf(self, X: Any) -> np.ndarray:
        if not sparse.issparse(X) and not sparse.issparse(self.centres):
            return self.place.get(self._dense_rbf(X))
        k = X @ self._inputs if sparse.issparse(self.centres) else (X @ self._inputs - self._shift @ self._inputs)
        k = k.toarray() if sparse.issparse(k) else np.asarray(k)
        squares = _squares(X - self._shift if not sparse.issparse(X) else X)
        k += squares[:, None] * self._ends[0] + self._ends[1]
        return HOST.exp(k)

    def _dense_rbf(self, X: np.ndarray) -> Any:
        place = self.place
        if self._there[0] is not place:
            self._there = place, place.put(np.vstack([self._inputs, self._ends])), place.put(self._shift)
        _, folded, shift = self._there
        x = place.put(X) - shift
        xp = array_namespace(x)
        squares = xp.sum(x * x, axis=1)[:, None]
        return place.exp(xp.concat([x, squares, xp.ones_like(squares)], axis=1) @ folded)


def gram(
    kernel: Any,
    centres: Any,
    gamma: Any,
    degree: float,
    coef0: float,
    params: Any,
    X: Any,
    weights: np.ndarray | None = None,
    device: Any = None,
) -> Gram:
    """A kernel at its centres, with gamma "scale" taken from the rows of X as they are weighed."""
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):  # from where a choice of the bandwidth starts
            raise ValueError(f"gamma must be a number above zero, 'scale', 'auto' or None, got {gamma!r}.")
        gamma = None if kernel == "precomputed" or callable(kernel) else _scale(X, weights)
    elif gamma is not None and not gamma > 0:
        raise ValueError(f"gamma must be a number above zero, 'scale' or None, got {gamma!r}.")
    return Gram(kernel, centres, gamma, degree, coef0, params, device)


def check_name(kernel: str) -> None:
    from sklearn.metrics.pairwise import kernel_metrics

    known = [*kernel_metrics(), "precomputed"]
    if kernel not in known:
        raise ValueError(
            f"There is no kernel named {kernel!r}; choose one of: {', '.join(sorted(known))}; or a callable."
        )


def spectrum(
    k: np.ndarray, centre: bool, weights: np.ndarray | None = None, place: Host = HOST
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues (zero where rounding hides them), eigenvectors as columns, and the column means of a kernel matrix,
    which it overwrites.

    With `centre`, of H K H with H = I - 1 1'/n, in which an unpenalised intercept has no part left: the eigenvectors
    then sum to zero. With weights w of mean one, of D H K H' D with H = I - 1 w'/n and D the roots of the weights.
    """
    check_symmetric(k)
    n = len(k)
    mean, scale, even = np.zeros(n), n * np.abs(k).max(), weights is None
    weights = np.ones(n) if weights is None else weights
    root = np.sqrt(weights)
    if centre:
        mean = weights @ k / n
        k -= mean
        k -= (k @ weights / n)[:, None]
    if not even:
        k *= root
        k *= root[:, None]
    values, vectors = place.eigh(k)
    if values[0] < -_NEGATIVE * max(values[-1], 1e-7 * scale):
        raise ValueError(
            f"The kernel is not positive definite: its matrix on the training points has eigenvalues from {values[0]:.3g} to "
            f"{values[-1]:.3g}; use another kernel, or other parameters of it."
        )
    if centre:
        constant = root @ vectors / n  # exact where rounding has mixed the constant vector into the null space
        for rows in row_blocks(vectors, 1024):
            vectors[rows] -= np.outer(root[rows], constant)
    values[values < n * np.finfo(float).eps * scale] = 0.0
    return values, vectors, mean


def check_symmetric(k: np.ndarray) -> None:
    """A square, finite and symmetric matrix, or one sentence."""
    if k.ndim != 2 or k.shape[0] != k.shape[1]:
        raise ValueError(
            f"The kernel matrix of the training points must be square, one row and one column each, got shape {k.shape}."
        )
    if not np.isfinite(k).all():
        raise ValueError("The kernel returned NaN or infinite values: check its parameters and the inputs X.")
    largest = np.abs(k).max()
    for rows in row_blocks(k, 1024):
        if np.abs(k[rows] - k[:, rows].T).max() > 1e-8 * largest:
            raise ValueError("The kernel is not symmetric: k(a, b) and k(b, a) differ on the training points.")


def whitening(values: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues above zero, in ascending order, and T = U S^(-1/2) of them, with T' K T = I, in U's memory."""
    first = int(np.searchsorted(values, 0.0, side="right"))
    values, vectors = values[first:], vectors[:, first:]
    vectors /= np.sqrt(values)
    return values, vectors


def _checked(values: Array, X: Any, centres: Any) -> np.ndarray:
    values = real_array("The values of the kernel", values)
    shape = tuple(a.shape[0] if hasattr(a, "shape") else len(a) for a in (X, centres))
    if values.shape != shape:
        raise ValueError(
            f"The kernel must return one number for each pair of its two blocks, shape {shape}, but returned {values.shape}; "
            "a kernel of two single points can be wrapped in a loop."
        )
    if not np.isfinite(values).all():
        raise ValueError("The kernel returned NaN or infinite values: check its parameters and the inputs X.")
    return values


def _squares(X: Any) -> np.ndarray:
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("nd,nd->n", X, X)


def _scale(X: Any, weights: np.ndarray | None) -> float:
    """1 / (inputs x variance), as in scikit-learn's SVC, each row as often as its weight says."""
    if hasattr(X, "variance"):  # rows that lie elsewhere
        variance = X.variance()
    elif weights is not None and weights.min() < weights.max():
        share = weights / weights.sum()
        mean = np.asarray(X.mean(axis=1)).ravel() @ share
        variance = _squares(X if sparse.issparse(X) else X - mean) @ share / X.shape[1]
        variance -= mean**2 if sparse.issparse(X) else 0.0
    elif sparse.issparse(X):
        variance = X.multiply(X).mean() - X.mean() ** 2
    else:
        variance = X.var()
    return 1 / (X.shape[1] * variance) if variance > 0 else 1.0
