"""Linear scores W x + b."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..parallel import SERIAL, Executor
from .base import Array, Hypothesis, Inputs, Moments, Principal, row_blocks
from .places import Room, place_of
from .sparse_products import ThreadedSparse, product

MOMENTS_LIMIT = 1500  # features up to which their d x d second moments are worth their cost
_FEW = 1 << 14  # pairs of features that always are
_DIRECTIONS = 24  # of most variance, where there are more
_DIRECTIONS_SHARE = 0.1  # if they hold at least this share of it


class Linear(Hypothesis):
    """g(x) = W x + b, for dense or CSR rows. The intercept b is not penalised.

    device: where products with the rows run, such as "cuda" (`pip install "taskloss[torch]"`); None is this machine's cores. The fit is the
    same; rows are held on the device where they fit, and go there block by block in each pass where they do not.

    theta is (d + 1, k): the weights as columns, then a row of intercepts.
    """

    name = "linear"
    device: Any = None
    shared: Any = "deprecated"  # of kernels too, which are linear in their coordinates

    def __init__(self, fit_intercept: bool = True, shared: Any = "deprecated", device: Any = None):
        self.fit_intercept = fit_intercept
        self.shared = shared
        self.device = device

    def current(self) -> Hypothesis:
        """`shared=True` became `Thresholds(node)`, for any node."""
        if isinstance(self.shared, str):
            return self
        from .thresholds import Thresholds

        name = type(self).__name__
        warnings.warn(
            f"{name}(shared={self.shared}) is now {f'Thresholds({name}())' if self.shared else f'{name}()'}; shared goes in release 0.3.",
            FutureWarning,
            stacklevel=4,
        )
        plain = self.with_params(shared="deprecated")
        return Thresholds(plain) if self.shared else plain

    @property
    def separable(self) -> bool:
        return True

    @property
    def _place(self) -> Any:
        return place_of(self.device)

    @property
    def room(self) -> Room | None:
        return self._place.room

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        place_of(self.device, fitting=True)  # a device that is not here is said at once
        return self

    def start(self, inputs: Inputs, scores: np.ndarray) -> np.ndarray:
        constants = scores if self.fit_intercept else np.zeros(len(scores))
        return np.vstack([np.zeros((self.rank(inputs), len(scores))), constants])

    def work(self, inputs: Inputs) -> float:
        return float(inputs.nnz) if sparse.issparse(inputs) else super().work(inputs)

    def sparse(self, inputs: Inputs) -> bool:
        return sparse.issparse(inputs)

    def features(self, inputs: Inputs, executor: Executor = SERIAL) -> Any:
        if self.room is not None:
            return self._place.rows(inputs)
        return ThreadedSparse(inputs, executor) if sparse.issparse(inputs) and executor.compiled else inputs

    def scores(self, coefficients: Array, features: Any, out: np.ndarray | None = None) -> np.ndarray:
        w, b = coefficients[:-1], coefficients[-1]
        if self.room is not None:
            return features.affine(w, b)
        # (W^T X^T)^T keeps the scores of a block coordinate by coordinate, so that reductions over coordinates run
        # along contiguous rows.
        dense = isinstance(features, np.ndarray)
        v = (w.T @ features.T).T if dense else product(features, np.ascontiguousarray(w), out)
        if b.any():  # without intercepts a pass over the scores is worth leaving out
            v += b
        return v

    def pullback(self, features: Any, dv: Array, out: np.ndarray | None = None) -> np.ndarray:
        d, k = features.shape[1], dv.shape[1]
        out = np.empty((d + 1, k), dtype=dv.dtype) if out is None else out
        if self.room is not None:
            features.pull_back(dv, out)
            out[d] *= self.fit_intercept
            return out
        if isinstance(features, np.ndarray):  # as above: (dv^T X)^T takes BLAS two thirds of the time of X^T dv
            out[:d] = (dv.T @ features).T
        else:
            product(features.T, dv, out[:d])
        out[d] = dv.sum(axis=0) if self.fit_intercept else 0.0
        return out

    @property
    def plain(self) -> bool:
        return not self.makes_features

    def squared_norms(self, coordinates: Any) -> np.ndarray:
        """|x|^2 of rows in coordinates, with the intercept's constant feature: the bound kappa^2 on kernels."""
        f = coordinates
        squares = f.multiply(f).sum(axis=1) if sparse.issparse(f) else (f**2).sum(axis=1)
        return np.asarray(squares).ravel() + float(self.fit_intercept)

    def moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        """Of all pairs of features where a product with these costs no more than a pass; else along a few directions."""
        if second_moments_pay(inputs):
            return Moments(*_moments(inputs, weights, executor))
        return _principal(inputs, self.features(inputs, executor), weights, self.fit_intercept)

    def exact_moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        if inputs.shape[1] > MOMENTS_LIMIT:
            return self.moments(inputs, weights, executor)
        return Moments(*_moments(inputs, weights, executor))


def second_moments_pay(X: Any) -> bool:
    """Whether the d x d second moments of the rows are worth their cost in a preconditioner."""
    d, entries = X.shape[1], X.nnz if sparse.issparse(X) else math.prod(X.shape)
    return d <= MOMENTS_LIMIT and d * d <= max(entries, _FEW)


def _principal(X: Any, features: Any, weights: np.ndarray, centred: bool) -> Moments:
    """By one step of subspace iteration (Halko, Martinsson and Tropp 2011), always the same."""
    d, rank = X.shape[1], min(_DIRECTIONS, *X.shape)
    mean = X.T @ weights if centred else np.zeros(d)
    squares = X.multiply(X).T @ weights if sparse.issparse(X) else np.einsum("nd,nd,n->d", X, X, weights)
    variances = np.maximum(squares - mean**2, 0.0)

    def covary(q: np.ndarray) -> np.ndarray:
        along = product(features, q.astype(X.dtype, copy=False)) * weights[:, None]
        return np.asarray(product(features.T, along), dtype=float) - np.outer(mean, mean @ q)

    none = Moments(np.zeros(d), squares)
    sketch = covary(np.random.default_rng(0).standard_normal((d, rank)))
    # |C g|^2 is about tr C^2, and the largest r eigenvalues add up to sqrt(r tr C^2) at the most
    if np.linalg.norm(sketch) < _DIRECTIONS_SHARE * variances.sum():
        return none
    q = np.linalg.qr(sketch)[0]
    values, turn = np.linalg.eigh(q.T @ covary(q))
    kept = values > 1e-6 * values[-1]
    values, vectors = values[kept], q @ turn[:, kept]
    if values.sum() < _DIRECTIONS_SHARE * variances.sum():
        return none
    rest = np.maximum(variances - vectors**2 @ values, 0.0)
    return Moments(mean, Principal(values, vectors, rest))


def _moments(X: Any, weights: np.ndarray, executor: Executor) -> tuple[np.ndarray, np.ndarray]:
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
    # a block and its copy stay in the cache
    rows = 1 << 14 if sparse.issparse(X) else max(1024, (1 << 16) // max(d, 1))
    mean, second = executor.sum(work, row_blocks(X, rows))
    if not np.isfinite(second).all():
        raise ValueError("The features in X are so large that their squares are not finite: scale them.")
    return mean, second
