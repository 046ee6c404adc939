"""Approximate inverses of the Hessian of a penalised risk, from moments of the features and curvatures of the surrogate.

If every example had the mean curvature A (k, k) in score space, the Hessian would be the Kronecker product of A with the
second moments of the features, plus alpha: `kronecker` is its inverse. `low_rank_correction` mends it in the few
directions in which curvatures vary with x, and `block_diagonal` leaves it for the Hessian's own blocks, one for each score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from ..hypotheses.base import Moments, Principal, Turned, row_blocks
from ..parallel import SERIAL, Executor
from .scores import Curvature

Array = Any
Preconditioner = Callable[[Array], Array]

_RIDGE = 1e-3
_LEAST = 1e-8  # in the place of a penalty of zero, in units of the mean curvature


def kronecker(
    moments: Moments, curvature: np.ndarray, alpha: float, shares_weights: bool, fit_intercept: bool
) -> Preconditioner:
    """The inverse of A (x) E[x x^T] + alpha on theta: weights, then intercepts (or thresholds, with shared weights).

    curvature is A, (k, k) or its diagonal (k,). In the coordinates (w, b + <mean, w>) the constants are uncorrelated with the centred
    features: there the Hessian falls apart into the weights' and A.
    """
    if alpha == 0:  # directions that the risk does not see, such as adding to all scores of a softmax, need some number
        each = curvature if curvature.ndim == 1 else np.diag(curvature)
        alpha = _LEAST * float(_variances(moments).mean() * each.mean())
    mean = moments.mean if fit_intercept else np.zeros_like(moments.mean)
    if shares_weights:
        return _shared_inverse(moments, mean, curvature, alpha)
    a, u = _spectrum(curvature)
    weights = _along(moments, mean, a, alpha)
    inverse_a = np.where(a > 1e-10 * a.max(), 1 / np.maximum(a, 1e-300), 0.0)

    def apply(g: Array) -> Array:
        turned = g.copy() if u is None else g @ u
        if mean.any():
            turned[:-1] -= np.outer(mean, turned[-1])
        turned[:-1] = weights(turned[:-1])
        turned[-1] = inverse_a * turned[-1] - mean @ turned[:-1]
        return turned if u is None else turned @ u.T

    return apply


def _shared_inverse(moments: Moments, mean: np.ndarray, curvature: np.ndarray, alpha: float) -> Preconditioner:
    """With one column of weights, which all scores share, and a constant for each."""
    full = np.diag(curvature) if curvature.ndim == 1 else curvature
    weights, d = _along(moments, mean, np.array([full.sum()]), alpha), len(mean)
    across = np.linalg.pinv(full, hermitian=True, rcond=1e-10)

    def apply(g: Array) -> Array:
        w = weights(g[:d] - mean[:, None] * g[d:].sum())
        return np.concatenate([w, across @ g[d:] - mean @ w])

    return apply


def _along(moments: Moments, mean: np.ndarray, a: np.ndarray, alpha: float) -> Preconditioner:
    """The inverse of a_j C + alpha on column j, where C are the second moments around the mean."""
    if not isinstance(moments.second, Principal):
        c, q = moments.second if isinstance(moments.second, Turned) else _centred_spectrum(moments.second, mean)
        scale = 1 / (c[:, None] * a + alpha)
        return lambda g: scale * g if q is None else q @ (scale * (q.T @ g))
    values, q, rest = moments.second
    scale = 1 / (np.outer(rest, a) + alpha)
    # Woodbury's identity: (E + a q c q^T)^-1 = E^-1 - E^-1 q (1 / (a c) + q^T E^-1 q)^-1 q^T E^-1 for a diagonal E
    cores = np.empty((len(a), len(values), len(values)))
    for j, each in enumerate(np.maximum(a, 1e-12 * a.max())):
        cores[j] = np.linalg.inv(np.diag(1 / (each * values)) + (q * scale[:, j, None]).T @ q)

    def apply(g: Array) -> Array:
        w = scale * g
        inside = (cores @ (q.T @ w).T[:, :, None])[:, :, 0].T
        lack = q @ inside
        w -= np.multiply(scale, lack, out=lack)
        return w

    return apply


def turned(moments: Moments, fit_intercept: bool) -> Moments:
    """The same moments by their eigenvectors, where they are a matrix, so that further preconditioners need not find these."""
    if not isinstance(moments.second, np.ndarray):
        return moments
    mean = moments.mean if fit_intercept else np.zeros_like(moments.mean)
    values, vectors = _centred_spectrum(moments.second, mean)
    return moments if vectors is None else Moments(moments.mean, Turned(values, vectors))


def _centred_spectrum(second: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    return _spectrum(second if second.ndim == 1 else second - np.outer(mean, mean))


def _variances(moments: Moments) -> np.ndarray:
    """Of each feature, up to the square of its mean."""
    if isinstance(moments.second, Principal):
        values, vectors, rest = moments.second
        return rest + vectors**2 @ values
    if isinstance(moments.second, Turned):
        return moments.second.vectors**2 @ moments.second.values
    return moments.second if moments.second.ndim == 1 else np.diag(moments.second)


def partly_shared(
    moments: Moments, curvature: np.ndarray, alpha: float, own: np.ndarray, fit_intercept: bool
) -> Preconditioner:
    """`kronecker` where scores share the weights of all features but those of `own`, whose theta comes after the shared one."""
    if isinstance(moments.second, Principal):
        return lambda g: g
    A = np.diag(curvature) if curvature.ndim == 1 else curvature
    mean, d, k = moments.mean * fit_intercept, len(moments.mean), len(A)
    second = np.block([[moments.second, mean[:, None]], [mean[None], np.ones((1, 1))]])
    shared, each = np.setdiff1d(np.arange(d), own), np.append(own, d)
    s, r = len(shared), len(own)
    hessian = np.block(
        [
            [A.sum() * second[np.ix_(shared, shared)], np.kron(second[np.ix_(shared, each)], A.sum(0)[None])],
            [np.kron(second[np.ix_(each, shared)], A.sum(1)[:, None]), np.kron(second[np.ix_(each, each)], A)],
        ]
    )
    diagonal = hessian.reshape(-1)[:: len(hessian) + 1]
    diagonal[: s + r * k] += max(alpha, _LEAST * float(diagonal.mean()))
    diagonal[s + r * k :] += 1e-10 * float(diagonal.sum())
    inverse = np.linalg.pinv(hessian, hermitian=True, rcond=1e-14)
    return lambda g: inverse @ g


def low_rank_correction(
    apply: Preconditioner,
    theta: np.ndarray,
    X: Any,
    curvature: Curvature,
    moments: Moments,
    alpha: float,
    fit_intercept: bool,
    directions: int,
    ridge: float = _RIDGE,
) -> Preconditioner:
    """The inverse `apply` of the Kronecker model, made exact along the weights, where the model is wrong.

    Curvatures depend on x through its scores alone. Where x is Gaussian, features that are uncorrelated with all scores are
    independent of them, and the model is exact there; so it needs the true Hessian in few directions only: the largest
    `directions` in the span S of the weights, whitened, and the intercepts. If H and H0 are the true Hessian and the
    model's on that subspace C, C (H^-1 - H0^-1) C^T is what the inverse lacks. X are the rows of `curvature`, whose weights
    sum to one and are those of `moments`; `ridge` is the share of the model that is mixed into H, which a sample estimates.
    """
    weights, matrices = curvature
    k, w = matrices.shape[1], theta[:-1]
    mean = moments.mean if fit_intercept else np.zeros_like(moments.mean)
    size, turn = np.linalg.eigh(w.T @ (moments.second - np.outer(mean, mean)) @ w)
    size, turn = size[-directions:], turn[:, -directions:]
    keep = size > 1e-8 * size[-1]
    if not keep.any():
        return apply
    s = w @ (turn[:, keep] / np.sqrt(size[keep]))
    z = X @ s - mean @ s
    if fit_intercept:
        z = np.column_stack([z, np.ones(len(z))])
    r, q = s.shape[1], z.shape[1]
    true = np.zeros((k * k, q * q))
    for rows in row_blocks(z, 512):
        pairs = (z[rows, :, None] * z[rows, None, :]).reshape(-1, q * q) * weights[rows, None]
        true += matrices[rows].reshape(-1, k * k).T @ pairs
    true = true.reshape(k, k, q, q).swapaxes(1, 2).reshape(k * q, k * q)
    penalty = np.zeros((q, q))
    penalty[:r, :r] = alpha * (s.T @ s)
    model = np.kron(np.tensordot(weights, matrices, 1), np.eye(q)) + np.kron(np.eye(k), penalty)
    true += np.kron(np.eye(k), penalty) + ridge * model
    lack = np.linalg.pinv(true, hermitian=True, rcond=1e-10) - np.linalg.pinv(model, hermitian=True, rcond=1e-10)

    def corrected(g: Array) -> Array:
        out = apply(g)
        inside = (s.T @ (g[:-1] - np.outer(mean, g[-1])), g[-1:])[: 1 + (q > r)]
        y = (lack @ np.concatenate(inside).T.ravel()).reshape(k, q).T
        moved = s @ y[:r]
        out[:-1] += moved
        if q > r:
            out[-1] += y[r] - mean @ moved
        return out

    return corrected


def block_diagonal(
    z: np.ndarray,
    curvature: Curvature,
    alpha: float,
    shares_weights: bool,
    fit_intercept: bool,
    executor: Executor = SERIAL,
) -> Preconditioner:
    """The inverse of the Hessian's diagonal blocks, one for each score, from rows of features z (n, d) and their curvature.

    At a confident fit most examples are flat, and which ones are not differs from score to score, so that no mean
    curvature serves all. The blocks do (as in Marteau-Ferey, Bach and Rudi 2019, who precondition with the Hessian on a
    sample). With shared weights there is one block, and it is exact.

    In directions of score space in which no example is curved, as that in which all scores of a softmax grow alike,
    the Hessian is alpha on the weights; the blocks are projected onto the others.
    """
    weights, matrices = curvature
    z = np.column_stack([z, np.ones(len(z))])
    if shares_weights:
        return _shared_block(z, weights, matrices, alpha, fit_intercept)
    d, k = z.shape[1] - 1, matrices.shape[1]
    each = matrices if matrices.ndim == 2 else np.einsum("nii->ni", matrices)

    def factor(j: int) -> Any:
        rows = z * np.sqrt(weights * np.maximum(each[:, j], 0.0))[:, None]
        return _cholesky(rows.T @ rows, alpha, fit_intercept)

    factors = executor.map(factor, range(k))
    project = None
    if matrices.ndim == 3:
        a, u = np.linalg.eigh(np.tensordot(weights, matrices, 1))
        flat = u[:, a < 1e-10 * a[-1]]
        project = flat @ flat.T if flat.shape[1] else None

    def apply(g: Array) -> Array:
        along = None if project is None else g @ project
        rest = (g if along is None else g - along).astype(np.float32)
        solved = [linalg.cho_solve(f, rest[:, j], check_finite=False) for j, f in enumerate(factors)]
        out = np.stack(solved, axis=1).astype(float)
        if along is not None:
            out -= out @ project
            out[:d] += along[:d] / alpha
        if not fit_intercept:
            out[d] = 0.0
        return out

    return apply


def _shared_block(
    z: np.ndarray, weights: np.ndarray, matrices: np.ndarray, alpha: float, fit_intercept: bool
) -> Preconditioner:
    """The inverse Hessian for one function u and k thresholds."""
    hessian = shared_hessian(z[:, :-1], weights, matrices, alpha, fit_intercept)
    d = z.shape[1] - 1
    factor = linalg.cho_factor(hessian, overwrite_a=True, check_finite=False)

    def apply(g: Array) -> Array:
        out = linalg.cho_solve(factor, g, check_finite=False)
        if not fit_intercept:
            out[d:] = 0.0
        return out

    return apply


def shared_hessian(
    z: np.ndarray, weights: np.ndarray, matrices: np.ndarray, alpha: float, fit_intercept: bool
) -> np.ndarray:
    """The Hessian for one function u and k thresholds: second derivatives 1'C1, C1 and C of the scores u + b."""
    d, k = z.shape[1], matrices.shape[1]
    across = weights[:, None] * (matrices if matrices.ndim == 2 else matrices.sum(axis=2))
    hessian = np.empty((d + k, d + k))
    # a product of a matrix with its own transpose takes BLAS half of the time of another
    rows = z * np.sqrt(np.maximum(across.sum(axis=1), 0.0))[:, None]
    hessian[:d, :d] = rows.T @ rows
    hessian[:d, d:] = z.T @ across if fit_intercept else 0.0
    hessian[d:, :d] = hessian[:d, d:].T
    if not fit_intercept:  # thresholds that stay at zero
        hessian[d:, d:] = np.eye(k)
    else:
        hessian[d:, d:] = np.diag(across.sum(axis=0)) if matrices.ndim == 2 else np.tensordot(weights, matrices, 1)
    _add_penalty(hessian, d, alpha)
    return hessian


def exact_hessian(
    z: np.ndarray, pairs: np.ndarray | None, curvature: Curvature, alpha: float, separable: bool
) -> np.ndarray:
    """The Hessians of independent problems, (problems, parameters, parameters).

    z: features (n, d + 1) that each score weighs for itself, the last one constant. pairs: their products, where they are kept.
    """
    (weights, matrices), d = curvature, z.shape[1] - 1
    if separable or matrices.shape[1] == 1:
        each = matrices if matrices.ndim == 2 else matrices[:, :, 0]
        hessians = np.empty((each.shape[1], d + 1, d + 1))
        for j, hessian in enumerate(hessians):
            np.matmul((z * (weights * each[:, j])[:, None]).T, z, out=hessian)
    elif pairs is None:
        hessians = _by_pairs_of_scores(z, weights, matrices)
    else:
        k = matrices.shape[1]
        sums = (matrices.reshape(-1, k * k) * weights[:, None]).T @ pairs
        hessians = sums.reshape(k, k, d + 1, d + 1).transpose(2, 0, 3, 1).reshape(1, (d + 1) * k, (d + 1) * k)
    for hessian in hessians:
        _add_penalty(hessian, len(hessian) * d // (d + 1), alpha)
    return hessians


def _by_pairs_of_scores(z: np.ndarray, weights: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """The Hessian without a penalty, one product for each pair of scores that any row curves together."""
    k, p = matrices.shape[1], z.shape[1]
    hessian = np.zeros((p, k, p, k))
    for i in range(k):
        for j in range(i, k):
            each = weights * matrices[:, i, j]
            if each.any():
                hessian[:, i, :, j] = hessian[:, j, :, i] = (z * each[:, None]).T @ z
    return hessian.reshape(1, p * k, p * k)


def _add_penalty(hessian: np.ndarray, penalised: int, alpha: float) -> None:
    """Add alpha on the first parameters, and to the rest a little, since the risk need not see all of their directions."""
    diagonal = hessian.reshape(-1)[:: len(hessian) + 1]
    diagonal[penalised:] += 1e-8 * (diagonal[penalised:].sum() + (alpha or 1.0))
    diagonal[:penalised] += alpha if alpha else 1e-10 * diagonal.mean()


def _cholesky(hessian: np.ndarray, alpha: float, fit_intercept: bool) -> Any:
    """A factor of a block with its penalty, with an intercept in the last row; in single precision, which a guess can bear."""
    diagonal = hessian.reshape(-1)[:: len(hessian) + 1]
    diagonal[:-1] += alpha
    if not fit_intercept:
        hessian[-1], hessian[:, -1] = 0.0, 0.0
    diagonal[-1] += 1e-10 * max(float(diagonal[-1]), alpha) if fit_intercept else 1.0
    factor, lower = linalg.cho_factor(hessian, overwrite_a=True, check_finite=False)
    return factor.astype(np.float32), lower


def _spectrum(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Eigenvalues, none below zero, and eigenvectors of a matrix; no vectors where it is given as its diagonal."""
    if matrix.ndim == 1:
        return np.maximum(matrix, 0), None
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0), vectors
