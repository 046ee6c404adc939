"""Linear scores W x + b."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._threads import shared_sum
from ._sparse import ThreadedSparse
from .base import Array, Hypothesis, Varying, row_blocks

_PASS_ROWS = 512  # BLAS takes half as long again for few scores of more rows than that
_PASS_BYTES = 1 << 19  # of rows and their scores that stay in a core's cache
_GRAM_LIMIT = 1500  # features up to which the second moments of X are worth their d x d matrix
_GRAM_HEAD = 512  # where there are more, how many of them have their second moments taken together
_GRAM_SHARE = 0.1  # if they hold at least this share of all squares
_CAUTION = 1e-3  # share of the model in a Hessian that a sample of rows estimates


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
        d, k = features.shape[1], dv.shape[1]
        total = dv.sum(axis=1, keepdims=True) if self.shared else dv
        out = np.empty((d + k, 1) if self.shared else (d + 1, k), dtype=dv.dtype)
        if isinstance(features, ThreadedSparse):
            features.T.multiply(total, out[:d])
        else:  # as above: (dv^T X)^T takes BLAS two thirds of the time of X^T dv where scores are few
            out[:d] = (total.T @ features).T if isinstance(features, np.ndarray) else features.T @ total
        out[d:] = (dv.sum(axis=0) if self.fit_intercept else np.zeros(k)).reshape(out[d:].shape)
        return out

    def compiled_pass(self, X: Any) -> Callable | None:
        if not isinstance(X, np.ndarray) or not X.flags.c_contiguous:
            return None
        from .._compiled.pointwise import linear_risk

        def work(coefficients: Array, X: np.ndarray, phi: np.ndarray, w: np.ndarray, risk: Any) -> tuple[Any, Any]:
            d, k = X.shape[1], phi.shape[1]
            weights, b = self.split(coefficients, d)
            weights = np.ascontiguousarray(weights)
            sums, slopes, constants = risk.sums(k), np.zeros(weights.shape[::-1]), np.zeros(k)
            rows = min(_PASS_ROWS, max(64, _PASS_BYTES // (X.itemsize * (d + k))))
            linear_risk(risk.kernel, risk.parameter, X, weights, b, phi, w, rows, sums, slopes, constants)
            constants = constants if self.fit_intercept else np.zeros(k)
            return sums, np.concatenate([slopes.T, constants[:, None] if self.shared else constants[None]])

        return work

    def squared_norms(self, features: Any) -> np.ndarray:
        """|x|^2 of rows in coordinates, with the intercept's constant feature: the bound kappa^2 on kernels."""
        squares = features.multiply(features).sum(axis=1) if sparse.issparse(features) else (features**2).sum(axis=1)
        return np.asarray(squares).ravel() + float(self.fit_intercept)

    def penalised(self, X: Any) -> int:
        return self._rank(X)

    # -- the preconditioner ------------------------------------------------------------------------------------------

    def sharpens(self, X: Any) -> bool:
        return not self.shared and X.shape[1] <= _GRAM_LIMIT

    def preconditioner(
        self,
        X: Any,
        weights: np.ndarray,
        curvature: np.ndarray,
        alpha: float,
        threads: int = 1,
        varying: Varying | None = None,
    ) -> Callable[[Array], Array]:
        """Where every example had the mean curvature A, the Hessian would be A (x) E[x x^T] + alpha: its inverse.

        From the second moments of all of X where d is moderate, and sharpened where curvatures vary; else from those of
        the features with the largest squares, such as the frequent words of a text, and from the squares alone of the others.
        """
        d = X.shape[1]
        build = self._shared if self.shared else self._kronecker
        if d <= _GRAM_LIMIT:
            mean, second = _moments(X, weights, threads)
            whole = build(mean, second, curvature, alpha)
            return whole if varying is None else self._sharpen(whole, X, weights, mean, second, alpha, varying)
        squares = X.multiply(X).T @ weights if sparse.issparse(X) else np.einsum("nd,nd,n->d", X, X, weights)
        head = np.argpartition(squares, d - _GRAM_HEAD)[d - _GRAM_HEAD :]
        if squares[head].sum() < _GRAM_SHARE * squares.sum():
            head = head[:0]  # none stands out
        inner = build(*_moments(X[:, head], weights, threads), curvature, alpha)
        each = curvature if curvature.ndim == 1 else np.diag(curvature)
        scale = 1 / (np.outer(squares, curvature.sum() if self.shared else each) + alpha)

        def apply(g: Array) -> Array:
            out = np.empty_like(g)
            np.multiply(scale, g[:d], out=out[:d])
            solved = inner(np.concatenate([g[head], g[d:]]))
            out[head], out[d:] = solved[: len(head)], solved[len(head) :]
            return out

        return apply

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

    def _sharpen(
        self,
        apply: Callable,
        X: Any,
        weights: np.ndarray,
        mean: np.ndarray,
        second: np.ndarray,
        alpha: float,
        varying: Varying,
    ) -> Callable[[Array], Array]:
        """The inverse `apply` of the model A (x) E[x x^T], made exact in the directions of the weights, where it is wrong.

        Curvatures depend on x through its scores alone. Where x is Gaussian, features that are uncorrelated with all
        scores are independent of them, and the model is exact there; so it needs the true Hessian in few directions
        only: those in the span S of the weights, whitened, and the intercepts. If H and H0 are the true Hessian and the
        model's on that subspace C, C (H^-1 - H0^-1) C^T is what the inverse lacks.
        """
        k = varying.curvatures.shape[1]
        w = varying.theta[:-1]
        mean = mean if self.fit_intercept else np.zeros_like(mean)
        size, turn = np.linalg.eigh(w.T @ (second - np.outer(mean, mean)) @ w)
        size, turn = size[-varying.directions :], turn[:, -varying.directions :]
        keep = size > 1e-8 * size[-1]
        if not keep.any():
            return apply
        s = w @ (turn[:, keep] / np.sqrt(size[keep]))
        z = X @ s - mean @ s
        if self.fit_intercept:
            z = np.column_stack([z, np.ones(len(z))])
        r, q = s.shape[1], z.shape[1]
        true = np.zeros((k * k, q * q))
        for rows in row_blocks(z, 512):
            pairs = (z[rows, :, None] * z[rows, None, :]).reshape(-1, q * q) * weights[rows, None]
            true += varying.curvatures[rows].reshape(-1, k * k).T @ pairs
        true = true.reshape(k, k, q, q).swapaxes(1, 2).reshape(k * q, k * q)
        penalty = np.zeros((q, q))
        penalty[:r, :r] = alpha * (s.T @ s)
        model = np.kron(np.tensordot(weights, varying.curvatures, 1), np.eye(q)) + np.kron(np.eye(k), penalty)
        true += np.kron(np.eye(k), penalty) + _CAUTION * model
        lack = np.linalg.pinv(true, hermitian=True, rcond=1e-10) - np.linalg.pinv(model, hermitian=True, rcond=1e-10)

        def sharper(g: Array) -> Array:
            out = apply(g)
            inside = (s.T @ (g[:-1] - np.outer(mean, g[-1])), g[-1:])[: 1 + (q > r)]
            y = (lack @ np.concatenate(inside).T.ravel()).reshape(k, q).T
            moved = s @ y[:r]
            out[:-1] += moved
            if q > r:
                out[-1] += y[r] - mean @ moved
            return out

        return sharper

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


def _moments(X: Any, weights: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and second moments of the rows, in blocks, in float64."""

    def work(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        root = np.sqrt(weights[rows])
        if sparse.issparse(X):
            block = X[rows].multiply(root[:, None]).tocsr()
            return root @ block, (block.T @ block).toarray()
        block = X[rows] if even else root[:, None] * X[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            second = block.T @ block
            return (root[0] * root if even else root) @ block, weights[0] * second if even else second

    d = X.shape[1]
    even = X.dtype == np.float64 and weights.min() == weights.max()  # then a block needs no copy
    rows = (
        1 << 14 if sparse.issparse(X) else max(1024, (1 << 16) // max(d, 1))
    )  # a block and its copy stay in the cache
    mean, second = shared_sum([(s,) for s in row_blocks(X, rows)], work, threads)
    if not np.isfinite(second).all():
        raise ValueError("The features are so large that their squares are not finite: scale them.")
    return mean, second


def _spectrum(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Eigenvalues and eigenvectors of the score curvature; no vectors where it is diagonal."""
    if curvature.ndim == 1:
        return np.maximum(curvature, 0), None
    a, u = np.linalg.eigh(curvature)
    return np.maximum(a, 0), u
