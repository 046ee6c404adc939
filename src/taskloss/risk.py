"""The regularised empirical risk: where a hypothesis and a surrogate meet, and all that a solver sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse

from ._threads import blas_threads, keep_pages, pool, shared_sum
from .hypotheses._sparse import ThreadedSparse
from .hypotheses.base import Hypothesis, Varying, row_blocks
from .surrogates.base import Surrogate

Array = Any

_BLOCK_BYTES = 3 << 18  # a block of rows, its scores and the surrogate's temporaries stay in a core's cache
_MADE_BYTES = 1 << 22  # features that are made of a block of rows stay in the cores' common cache
_CHUNK_BYTES = 1 << 23  # features in coordinates that are made at one time for a pass of single examples
_THREAD_WORK = 1 << 24  # multiplications in one pass below which threads, or compiling, cost more than they give
_CALL_WORK = 1 << 22  # multiplications in a block beside which the interpreter's own time is small
_CURVATURE_ROWS = 4096  # rows from which the mean curvature is estimated, more where it varies and features are many
_CURVATURE_NUMBERS = 1 << 14  # scores looked at first
_CURVATURE_WORK = 1 << 22  # and so many numbers at the most in its second derivatives
_CURVATURE_LEAST = 128  # but no fewer rows than that
_CURVATURE_SIZE = 200  # scores up to which the curvature's off-diagonal entries are worth their cost
_SHARPER = 4  # evaluations that a look at curvatures which vary may cost, about
_SHARPER_SIZE = 400  # parameters at which it looks, at the most


class EmpiricalRisk:
    """f(theta) = sum_i w_i S(g_theta(x_i), phi_i) + alpha/2 |theta|^2, w normalised to sum to one.

    Where the surrogate and the hypothesis both fall apart into coordinates, f is a vector of independent problems,
    one for each column of theta; elsewhere theta is one column. Rows are read in blocks that fit the cache, once per
    evaluation, on as many threads as BLAS may use.
    """

    def __init__(
        self, hypothesis: Hypothesis, surrogate: Surrogate, X: Any, phi: np.ndarray, weights: np.ndarray, alpha: float
    ):
        self.hypothesis, self.surrogate = hypothesis, surrogate
        self.alpha = alpha
        self.weights = weights / weights.sum()
        self.dtype = X.dtype
        self.X = X
        # In memory as the scores of a block will be: coordinate by coordinate where X is dense.
        self.phi = np.ascontiguousarray(phi) if sparse.issparse(X) else np.asfortranarray(phi)
        mean = np.zeros(phi.shape[1])
        for rows in row_blocks(phi, max(1, (1 << 17) // len(mean))):
            mean += self.weights[rows] @ phi[rows]
        # Scores that must stay in order do so by themselves where one direction serves all thresholds and every label
        # occurs. Elsewhere a little of every label in each example keeps each gap open, at each x.
        self.smoothing = surrogate.smoothing if hypothesis.separable or not mean.all() else 0.0
        self.center = np.zeros(1) if surrogate.domain is None or not self.smoothing else surrogate.domain.center()
        scores = np.asarray(surrogate.start(mean), dtype=float)
        self.head = hypothesis.penalised(X)
        self.start = hypothesis.start(X, scores)
        self.separable = surrogate.separable and hypothesis.separable
        self.sharpens = not self.separable and hypothesis.sharpens(X)
        self.refresh = 6 if self.sharpens else 12  # steps after which curvature is worth a second look
        self.compiled: Any = surrogate.compiled_risk() if surrogate.remembers else None
        self.blocks = self._blocks(len(scores))
        whole = self.compiled is not None and self.compiled.fused and not self.smoothing
        self.compiled_pass = hypothesis.compiled_pass(X) if whole else None
        # one for each thread, which goes over it in blocks of its own
        self.shares = self._cut(-(-len(phi) // self.threads)) if self.compiled_pass is not None else []
        labels = self.phi.dtype.kind == "i" and not self.smoothing  # whole numbers are vertices
        some = self.phi[:1].astype(float)
        self.constant = float(
            surrogate.potential(some)[0] if labels and surrogate.even else self._sum(self.blocks, self._constant)
        )

    # -- the solver's layout: one column for each independent problem ------------------------------------------------

    def flatten(self, theta: Array) -> Array:
        return theta if self.separable else theta.reshape(-1, 1)

    def unflatten(self, theta: Array) -> Array:
        return theta if self.separable else theta.reshape(self.start.shape)

    # -- blocks and threads ------------------------------------------------------------------------------------------

    def _blocks(self, k: int) -> list[tuple[Any, np.ndarray, np.ndarray]]:
        """(X, phi, weights) for each block of rows."""
        n, d = self.X.shape[0], self.hypothesis.width(self.X.shape[1])
        made = self.hypothesis.makes_features
        entries = self.X.nnz if sparse.issparse(self.X) else n * d
        large = max(entries, n * d if made else 0) * k >= _THREAD_WORK
        self.threads = blas_threads() if large else 1
        if large:
            keep_pages()
            self.compiled = self.compiled or self.surrogate.compiled_risk()
        if sparse.issparse(self.X) and not made:
            # A block's pullback is as large as theta: one block, with the threads inside its products.
            X = ThreadedSparse(self.X, self.threads) if large else self.X
            return [(X, self.phi, self.weights.astype(self.dtype, copy=False))]
        rows = max(64, _BLOCK_BYTES // (self.dtype.itemsize * (d + 6 * k)))
        if self.threads > 1:
            # fewer, longer calls: threads meet at the interpreter's lock; no longer than the work in them asks for
            enough = min(2048, _CALL_WORK // (d * k))
            rows = max(rows, _MADE_BYTES // (self.dtype.itemsize * d) if made else enough)
        return self._cut(rows)

    def _cut(self, rows: int) -> list[tuple[Any, np.ndarray, np.ndarray]]:
        weights = self.weights.astype(self.dtype, copy=False)
        return [(self.X[s], self.phi[s], weights[s]) for s in row_blocks(self.X, rows)]

    def _sum(self, items: list, work: Callable[..., Any]) -> Any:
        return shared_sum(items, work, self.threads)

    def chunks(self, order: np.ndarray) -> Iterable[Chunk]:
        """The examples in this order, a chunk at a time, for solvers that look at a few at a time."""
        check_single_steps(self.surrogate)
        step = max(1, _CHUNK_BYTES // (self.dtype.itemsize * self.hypothesis.width(self.X.shape[1])))
        weights = self.weights * np.count_nonzero(self.weights)
        for rows in row_blocks(order, step):
            some = order[rows]
            yield Chunk(self.hypothesis, self.surrogate, self.X[some], self.phi[some], weights[some])

    # -- what a solver asks ------------------------------------------------------------------------------------------

    def value_and_gradient(self, theta: Array) -> tuple[np.ndarray, Array]:
        """f, one number per column, and its gradient."""
        full = self.unflatten(theta)
        local = self._coefficients(full)

        def work(X: Any, phi: Array, w: Array) -> tuple[np.ndarray, np.ndarray]:
            features = self.hypothesis.features(X)
            v = self.hypothesis.scores(local, features)
            value, dv = self._pointwise(v, phi, w)
            return value, self.hypothesis.pullback(features, dv)

        if self.compiled_pass is None:
            value, gradient = self._sum(self.blocks, work)
        else:
            whole, risk = self.compiled_pass, self.compiled
            value, gradient = self._sum(self.shares, lambda *share: whole(local, *share, risk))
        if not self.separable:
            value = np.atleast_1d(value.sum())
        gradient = self._penalise(self.hypothesis.contract(gradient), full)
        head = full[: self.head]
        penalties = self.alpha / 2 * np.einsum("pk,pk->k", head, head)
        value = value + (penalties if self.separable else penalties.sum())
        return value + self.constant / len(value), self.flatten(gradient)

    def _pointwise(self, v: Array, phi: Array, w: Array) -> tuple[np.ndarray, Array]:
        """Weighted sums of the surrogate's terms, and its weighted gradient in score space."""

        def part(rows: slice) -> tuple[np.ndarray, Array]:
            if self.compiled is not None:
                some = self._lift(phi[rows], v.dtype) if self.smoothing else phi[rows]
                # One memory layout in a block: a copy of a few bytes, and the compiled loops run in vectors.
                return self.compiled(v[rows], some.copy("C" if v.flags.c_contiguous else "F"), w[rows])
            terms, dv = self.surrogate.risk_and_gradient(v[rows], self._lift(phi[rows], v.dtype))
            dv *= w[rows, None]
            return np.asarray(w[rows] @ terms, float), dv

        if self.threads == 1 or len(self.blocks) > 1:
            return part(slice(None))
        sums, gradients = zip(*pool().map(part, row_blocks(v, -(-len(v) // self.threads))), strict=True)
        return sum(sums[1:], sums[0]), np.concatenate(gradients)

    def _penalise(self, gradient: Array, theta: Array) -> Array:
        """gradient + alpha theta on the rows that are penalised, in place where that is possible."""
        gradient = np.asarray(gradient, dtype=float)
        for rows in row_blocks(
            theta[: self.head], max(1, (1 << 15) // theta.shape[1])
        ):  # no temporary as large as theta
            gradient[rows] += self.alpha * theta[rows]
        return gradient

    def _coefficients(self, theta: Array) -> Array:
        return self.hypothesis.expand(theta).astype(self.dtype, copy=False)

    def _lift(self, phi: Array, dtype: Any) -> Array:
        """A block of phi as numbers of the scores' kind."""
        phi = phi.astype(dtype, copy=False)
        if self.smoothing:
            phi = (1 - self.smoothing) * phi + (self.smoothing * self.center).astype(dtype)
        return phi

    def _constant(self, X: Any, phi: Array, w: Array) -> Any:
        return w @ self.surrogate.potential(self._lift(phi, self.dtype))

    def hessian(self, theta: Array) -> Callable[[Array], Array]:
        """The linear map direction -> Hessian direction at theta; keeps n x k numbers."""
        if not self.surrogate.smooth:
            raise ValueError(
                f"{self.surrogate!r} has no second derivative, which solver='newton' needs; use solver='lbfgs'."
            )
        local = self._coefficients(self.unflatten(theta))

        def curve(X: Any, phi: Array, w: Array) -> list:
            v = self.hypothesis.scores(local, self.hypothesis.features(X))
            return [(X, w, self.surrogate.hessian(v, self._lift(phi, v.dtype)))]

        maps = self._sum(self.blocks, curve)

        def product(direction: Array) -> Array:
            full = self.unflatten(direction)
            d = self._coefficients(full)

            def work(X: Any, w: Array, curvature: Callable[[Array], Array]) -> Any:
                features = self.hypothesis.features(X)
                return self.hypothesis.pullback(features, curvature(self.hypothesis.scores(d, features)) * w[:, None])

            return self.flatten(self._penalise(self.hypothesis.contract(self._sum(maps, work)), full))

        return product

    def preconditioner(self, theta: Array) -> Callable[[Array], Array]:
        """An approximate inverse Hessian at theta: exact for the quadratic surrogate where X is dense and not too wide.

        It is that of one mean curvature for all examples, each weighed by how curved its own term is: at a good fit most
        are flat. The hypothesis may look further at how the curvatures vary.
        """
        n, d = self.X.shape[0], self.hypothesis.width(self.X.shape[1])
        k = self.phi.shape[1]
        theta = self.unflatten(theta)
        most = max(_CURVATURE_LEAST, _CURVATURE_WORK // (k if self.surrogate.separable else k**2))
        rows = self._spread(min(_CURVATURE_ROWS, most, max(512, _CURVATURE_NUMBERS // k)))
        own, curvatures = self._curvatures(theta, rows)
        each = _traces(curvatures)
        varies = np.ptp(each) > 1e-6 * each.max() and most >= min(n, 4 * d)
        if varies:
            rows = self._spread(min(max(_CURVATURE_ROWS, 16 * d), most))
            own, curvatures = self._curvatures(theta, rows)
            each = np.maximum(_traces(curvatures), 1e-6 * _traces(curvatures).max())
        mean = np.tensordot(own, curvatures, 1)
        mean = np.maximum(mean, 1e-12) if mean.ndim == 1 else mean
        X, weights, varying = (self.X[rows], own * each, None) if varies else (self.X, self.weights, None)
        if varies and curvatures.ndim == 3 and self.sharpens:
            # An evaluation costs as many products as X has entries times k, a look at q directions of m rows m (k q)^2.
            entries = self.X.nnz if sparse.issparse(self.X) else n * d
            directions = min(k, _SHARPER_SIZE // k, int(np.sqrt(_SHARPER * entries / (len(own) * k)))) - 1
            if directions > 0:
                curvatures *= (weights.sum() / each)[:, None, None]  # the new weights are to give the same mean
                varying = Varying(theta, curvatures, directions)
        apply = self.hypothesis.preconditioner(X, weights / weights.sum(), mean, self.alpha, self.threads, varying)
        return lambda gradient: self.flatten(apply(self.unflatten(gradient)))

    def _spread(self, count: int) -> Any:
        """So many rows, evenly spread."""
        n = self.X.shape[0]
        return slice(None) if count >= n else np.linspace(0, n - 1, count).astype(int)

    def _curvatures(self, theta: Array, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Weights of some rows, which sum to one, and the second derivatives of S in score space there, (k, k) or their diagonal."""
        v = self.hypothesis.predict(theta, self.X[rows])
        n, k = v.shape
        w = self.weights[rows] / self.weights[rows].sum()
        if not self.surrogate.smooth or (k > _CURVATURE_SIZE and not self.surrogate.separable):
            return w, np.full((n, k), 1 / k if self.surrogate.smooth else 1.0)
        product = self.surrogate.hessian(v, self._lift(self.phi[rows], float))
        if self.surrogate.separable:
            return w, product(np.ones_like(v))
        return w, np.stack([product(np.broadcast_to(e, v.shape)) for e in np.eye(k)], axis=1)


def _traces(curvatures: np.ndarray) -> np.ndarray:
    return np.einsum("nii->n", curvatures) if curvatures.ndim == 3 else curvatures.sum(1)


class Chunk:
    """A few examples with their features made, and the gradient of the risk, without a penalty, on any of them."""

    def __init__(self, hypothesis: Hypothesis, surrogate: Surrogate, X: Any, phi: np.ndarray, weights: np.ndarray):
        self.hypothesis, self.surrogate = hypothesis, surrogate
        self.features = hypothesis.coordinates(X)
        self.phi, self.weights = np.ascontiguousarray(phi, dtype=float), weights
        self.kappa = float(np.sqrt(hypothesis.squared_norms(self.features).max()))

    def __len__(self) -> int:
        return len(self.phi)

    @property
    def smoothness(self) -> float | None:
        return self.surrogate.smoothness

    @property
    def slope(self) -> float:
        """The largest norm of the gradient in score space at the score zero."""
        dv = self.surrogate.risk_and_gradient(np.zeros(self._shape), self.phi)[1]
        return float(np.linalg.norm(dv * self.weights[:, None], axis=1).max())

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.phi), self.surrogate.size or self.phi.shape[1]

    def gradient(self, theta: Array, rows: slice) -> Array:
        """The gradient in theta of the mean risk of some of the examples."""
        f = self.features[rows]
        dv = self.surrogate_gradient(self.hypothesis.scores(theta.reshape(-1, self._columns(theta)), f), rows)
        return self.hypothesis.pullback(f, dv).reshape(theta.shape) / dv.shape[0]

    def surrogate_gradient(self, v: Array, rows: slice) -> Array:
        """Weighted gradients in score space."""
        return self.surrogate.risk_and_gradient(v, self.phi[rows])[1] * self.weights[rows, None]

    def _columns(self, theta: Array) -> int:
        return 1 if getattr(self.hypothesis, "shared", False) else self._shape[1]


def check_single_steps(surrogate: Surrogate) -> None:
    """Refuse scores that a step on one example can put out of order."""
    if surrogate.needs_intercept:
        raise ValueError(
            f"{surrogate!r} is finite for ordered scores only, which steps on single examples do not keep: use 'all-thresholds', "
            "or solver='lbfgs' or 'newton'."
        )
