"""The penalised risk as a function of theta, wherever its sums over the data are taken."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ..hypotheses.base import Hypothesis, Inputs, Moments, row_blocks
from ..hypotheses.linear import MOMENTS_LIMIT, second_moments_pay
from ..parallel import Executor
from ..solvers.base import Objective, Sides
from .preconditioners import Preconditioner, block_diagonal, kronecker, low_rank_correction, partly_shared, turned
from .scores import Curvature, ScoreRisk

Array = Any

# The steps that L-BFGS remembers: few where the preconditioner is made of all second moments of the features, many where it knows less
# of the curvature (over texts 80 steps take half of the passes of ten).
_FEW_STEPS, _MANY_STEPS = 10, 80
_ROUNDING = 1e-14  # the largest entry of a gradient that is nothing but rounding, where weights sum to one
_LOOK_ROWS = 256  # sampled rows that tell whether the curvature varies from row to row
_SAMPLE_ROWS = 4096  # sampled rows that estimate its mean; more of them where it varies and features are many
_SAMPLE_LEAST = 128  # the fewest of them
_SAMPLE_SCORES = 1 << 14  # the most scores of a first sample
_SAMPLE_NUMBERS = 1 << 22  # the most entries of the second derivatives of a sample
_CORRECTION_EVALUATIONS = 4  # the most evaluations in whose time the low-rank correction may be made
_CORRECTION_PARAMETERS = 400  # the largest order of its matrix
_PENALTY_NUMBERS = 1 << 15  # of theta that the penalty is added to at a time: no temporary is as large as theta
_BLOCK_ROWS = 2, 12  # the fewest and the most rows, for each feature, that estimate the Hessian's diagonal blocks
_BLOCK_CANDIDATES = 4  # times as many rows are looked at, and drawn from in proportion to their curvature
_BLOCK_EVALUATIONS = 48  # evaluations after which the blocks are tried; where features are whitened, at once
_BLOCK_SPEED = 8  # multiplications of a symmetric matrix product in the time of one in an evaluation
_BLOCK_FACTORS = 1 << 26  # the most entries of all Cholesky factors


class Penalised(Objective):
    """f(theta) = sum_i w_i S(g_theta(x_i), phi_i) + alpha/2 |theta|^2, over the rows of theta that are penalised.

    Where the risk and the hypothesis are separable, f is a vector of independent problems, one for each column of theta; elsewhere
    theta is one column. A child class holds the data, in memory or on workers, and takes the sums over them.

    inputs, risk: the data; where these lie on workers, one example of them, which tells types and sizes.
    """

    n_rows: int
    total: float  # of the rows' weights
    work: float  # multiplications for one score of each row
    constant: float  # what no score changes
    executor: Executor
    path_moments: list[Moments] | None = (
        None  # one list for all strengths of a path, with the moments of the last preconditioner
    )

    def __init__(self, hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, alpha: float):
        self.hypothesis, self.inputs, self.risk, self.alpha = hypothesis, inputs, risk, alpha
        self.separable = risk.separable and hypothesis.separable
        self.corrects = not (
            self.separable or hypothesis.shares_weights or hypothesis.whitened or hypothesis.own is not None
        ) and second_moments_pay(inputs)
        dense = isinstance(inputs, np.ndarray) and hypothesis.rank(inputs) <= MOMENTS_LIMIT
        self.blocks = hypothesis.whitened or (dense and risk.cuts_freely and hypothesis.own is None)
        self.refresh = 6 if self.corrects else 12  # steps after which curvature is worth a second look
        self.memory = _FEW_STEPS if hypothesis.whitened or second_moments_pay(inputs) else _MANY_STEPS

    @cached_property
    def start(self) -> np.ndarray:
        return self.hypothesis.start(self.inputs, self.risk.start())

    @cached_property
    def penalised(self) -> np.ndarray:
        return self.hypothesis.penalised(self.inputs, self.start)[:, None]

    @cached_property
    @abstractmethod
    def free(self) -> np.ndarray | None:
        """The places of the entries of theta that are fitted; None where all are."""

    def with_alpha(self, alpha: float) -> Self:
        """The same risk under another penalty, on the same pieces."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | {"alpha": alpha}
        return other

    def columns(self, some: np.ndarray) -> Self | None:
        """The problems of these columns of theta alone, on the same pieces; None where a pass serves all of them or none."""
        return None

    # -- sums over the data ------------------------------------------------------------------------------------------

    @abstractmethod
    def slopes(self, coefficients: Array) -> tuple[np.ndarray, Array]:
        """The risk less its constant, one number for each column of scores or one, and its derivative in the coefficients."""

    @abstractmethod
    def products(self, coefficients: Array) -> Callable[[Array], Array]:
        """The second derivative at these coefficients, as a map from a change of them to that of the derivative."""

    @abstractmethod
    def _moments(self) -> Moments:
        """The features' moments in theta's coordinates under the rows' weights, scaled to sum to one."""

    @abstractmethod
    def _sampled(self, count: int) -> tuple[Inputs, ScoreRisk]:
        """About so many rows, evenly spread, and their risk."""

    @property
    def _makes_features(self) -> bool:
        """Whether every evaluation makes the features anew."""
        return False

    # -- the solver's layout: one column for each independent problem, of the entries that are fitted ----------------

    def flatten(self, theta: Array) -> Array:
        if self.free is not None:
            return theta.ravel()[self.free][:, None]
        return theta if self.separable else theta.reshape(-1, 1)

    def unflatten(self, theta: Array) -> Array:
        if self.free is not None:
            full = np.zeros(self.start.shape)
            full.ravel()[self.free] = theta[:, 0]
            return full
        return theta if self.separable else theta.reshape(self.start.shape)

    def _spread(self, theta: Array) -> Array:
        """`unflatten` into memory that the next call takes again."""
        if self.free is None:
            return self.unflatten(theta)
        self._full.ravel()[self.free] = theta[:, 0]
        return self._full

    @cached_property
    def _full(self) -> np.ndarray:
        return np.zeros(self.start.shape)

    # -- what a solver asks ------------------------------------------------------------------------------------------

    def value_and_gradient(self, theta: Array) -> tuple[np.ndarray, Array]:
        """f, one number per column, and its gradient."""
        value, gradient = self.slopes(self._coefficients(self._spread(theta)))
        value = value if self.separable or len(value) == 1 else np.atleast_1d(value.sum())
        gradient, penalty = self._penalised_gradient(self.hypothesis.contract(gradient), theta)
        return value + (penalty + self.constant / len(value)), gradient

    def hessian(self, theta: Array) -> Callable[[Array], Array]:
        """The linear map direction -> Hessian direction at theta; keeps as many numbers as there are scores."""
        curve = self.products(self._coefficients(self.unflatten(theta)))

        def product(direction: Array) -> Array:
            change = curve(self._coefficients(self._spread(direction)))
            return self._penalise(self.hypothesis.contract(change), direction)

        return product

    def _squares(self, theta: Array) -> np.ndarray:
        """The sum of squares of what is penalised, of each problem."""
        if self.free is not None:
            return np.einsum("pk,pk,pk->k", theta, theta, self._free_penalised)
        full = self.unflatten(theta)
        squares = np.einsum("pk,pk,pi->k", full, full, self.penalised)
        return squares if self.separable else np.atleast_1d(squares.sum())

    def _penalise(self, gradient: Array, theta: Array) -> Array:
        """gradient + alpha theta on what is penalised, in the solver's layout, and in place where that is possible."""
        return self._penalised_gradient(gradient, theta)[0]

    def _penalised_gradient(self, gradient: Array, theta: Array) -> tuple[Array, np.ndarray]:
        """The same, and alpha/2 |theta|^2 of each problem, in one pass."""
        gradient = np.asarray(gradient, dtype=float)
        if self.free is not None:
            gradient = gradient if gradient.shape == theta.shape else self.flatten(gradient)
            return gradient + self.alpha * self._free_penalised * theta, self.alpha / 2 * self._squares(theta)
        full = self.unflatten(theta)
        gradient = gradient.reshape(full.shape)
        squares: Any = 0.0
        whole = full.size <= _PENALTY_NUMBERS
        for rows in [slice(None)] if whole else row_blocks(full, max(1, _PENALTY_NUMBERS // full.shape[1])):
            slope = (self.alpha * self.penalised[rows]) * full[rows]
            gradient[rows] += slope
            slope *= full[rows]
            squares += slope.sum(axis=0 if self.separable else None)
        return self.flatten(gradient), np.atleast_1d(squares) / 2

    @cached_property
    def _free_penalised(self) -> np.ndarray:
        return self.flatten(np.broadcast_to(self.penalised, self.start.shape))

    def _coefficients(self, theta: Array) -> Array:
        return self.hypothesis.expand(theta).astype(self.dtype, copy=False)

    @property
    def dtype(self) -> Any:
        """In which passes over the data compute."""
        return self.inputs.dtype

    # -- how far from the minimum ------------------------------------------------------------------------------------

    @cached_property
    def _bare(self) -> np.ndarray:
        """1 on what is not penalised, in the solver's layout or for all its columns at once."""
        all_alike = self.separable and self.free is None
        return 1.0 - (self.penalised if all_alike else self.flatten(np.broadcast_to(self.penalised, self.start.shape)))

    def sides(self, theta: Array, gradient: Array) -> Sides | None:
        """Newton's step in what is not penalised; None where no bound on the gap is known.

        The curvature is that of some thousands of rows. With the second derivative C of a row x, the Hessian in what is penalised is at
        most the sum of trace(C) |x|^2, and the step turns the gradient there by no more than the root of that times the decrement
        (Cauchy and Schwarz in the Hessian's inner product).
        """
        if self.alpha == 0 or not self.risk.convex:
            return None
        step, zero = self._bare * gradient, np.zeros(gradient.shape[1])
        if np.abs(step).max(initial=0.0) <= _ROUNDING:  # as of scores that may all grow alike
            return Sides(step, zero, zero)
        if not self.risk.exactly_curved:
            return self._one_side(theta, step) if self._bare.sum() == 1 and self.risk.smooth else None
        inputs, curvature = self._curvature(self.unflatten(theta), _SAMPLE_ROWS)
        assert curvature is not None
        weights, matrices = curvature  # of as many scores as there are such parameters
        places = np.flatnonzero(self._bare)
        slopes = gradient[places].ravel()
        total = np.tensordot(weights, matrices, 1)
        if total.ndim == 1:
            solved = np.where(total > 0, slopes / np.where(total > 0, total, 1.0), 0.0)
            lost = (total <= 0) & (slopes != 0)
        else:
            solved = np.linalg.pinv(total, hermitian=True, rcond=1e-10) @ slopes
            lost = np.zeros(1, dtype=bool)
        step[places] = -solved.reshape(step[places].shape)
        each = matrices if matrices.ndim == 2 else np.einsum("nii->ni", matrices)
        if self.hypothesis.shares_weights:
            each = (matrices if matrices.ndim == 2 else matrices.sum(2)).sum(1, keepdims=True)
        largest = (weights * self.hypothesis.squared_norms(self.hypothesis.coordinates(inputs))) @ each + self.alpha
        gain = np.maximum(slopes * solved, 0.0)
        if not self.separable:
            gain, largest, lost = np.array([gain.sum()]), np.array([largest.sum()]), lost.any(keepdims=True)
        gain = np.where(lost, np.inf, gain)
        return Sides(step, gain, np.sqrt(largest * gain))

    def _one_side(self, theta: Array, slopes: Array) -> Sides:
        """`sides` of a single parameter that is not penalised, from one product with the Hessian."""
        bent = self.hessian(theta)(self._bare)
        own, slope = (float((self._bare * part).sum()) for part in (bent, slopes))
        if own <= 0:
            return Sides(slopes, np.array([np.inf]), np.array([np.inf]))
        turn = np.linalg.norm(bent * (1 - self._bare)) * abs(slope) / own
        return Sides(-slopes / own, np.array([slope**2 / own]), np.array([turn]))

    def slack(self, gradient: Array) -> np.ndarray:
        """`certified` as it were if nothing were left in what is not penalised."""
        zero = np.zeros(gradient.shape[1])
        known = self.alpha > 0 and self.risk.convex
        return self.certified(gradient, Sides(gradient, zero, zero)) if known else zero + np.inf

    def certified(self, gradient: Array, sides: Sides) -> np.ndarray:
        """A bound on f - min f of each problem, from its gradient: |g|^2 / (2 alpha) once the rest is minimised over."""
        along = gradient * (1.0 - self._bare)
        norm = np.sqrt(np.einsum("pb,pb->b", along, along)) + sides.bend
        return norm**2 / (2 * self.alpha) + sides.decrement / 2

    # -- the preconditioner ------------------------------------------------------------------------------------------

    def preconditioner(self, theta: Array, evaluations: int = 0) -> Preconditioner:
        """An approximate inverse Hessian at theta: exact for the quadratic surrogate where X is dense and not too wide.

        It is that of one mean curvature for all rows, each weighed by how curved its own term is (at a good fit most are
        flat), with a low-rank correction where curvatures vary and that pays. After some evaluations it is that of the
        Hessian's diagonal blocks, once these cost no more than the evaluations did: at worst the work is doubled.
        """
        if not self.risk.curved:
            return lambda g: g
        hypothesis, theta = self.hypothesis, self.unflatten(theta)
        late = hypothesis.whitened or evaluations >= _BLOCK_EVALUATIONS
        blocks = self._blocks(theta, evaluations) if self.blocks and late else None
        if blocks is not None:
            return lambda gradient: self.flatten(blocks(self.unflatten(gradient)))
        n, d, k = self.n_rows, hypothesis.width(self.inputs.shape[1]), self.risk.n_scores
        most = max(_SAMPLE_LEAST, _SAMPLE_NUMBERS // (k if self.risk.separable else k**2))
        first, more = min(_SAMPLE_ROWS, most, max(512, _SAMPLE_SCORES // k)), most >= min(n, 4 * d)
        inputs, curvature = self._curvature(theta, _LOOK_ROWS if more and n > first else first)
        if curvature is None:
            return lambda g: g
        each = curvature.traces
        varies = more and np.ptp(each) > 1e-6 * each.max()
        if varies:
            if len(each) < n:
                inputs, curvature = self._curvature(theta, min(max(_SAMPLE_ROWS, 16 * d), most))
                assert curvature is not None
            each = np.maximum(curvature.traces, 1e-6 * curvature.traces.max())
        mean = np.tensordot(curvature.weights, curvature.matrices, 1)
        mean = np.maximum(mean, 1e-12) if mean.ndim == 1 else mean
        if varies:
            weights = curvature.weights * each
            total = weights.sum()
            weights = weights / total
            moments = self._weighed_moments(inputs, weights, evaluations)
        else:
            moments = self._moments()
        if hypothesis.own is None:
            apply = kronecker(moments, mean, self.alpha, hypothesis.shares_weights, hypothesis.fit_intercept)
        else:
            apply = partly_shared(moments, mean, self.alpha, hypothesis.own, hypothesis.fit_intercept)
        if varies and curvature.matrices.ndim == 3 and self.corrects and isinstance(moments.second, np.ndarray):
            # An evaluation costs work k multiplications, and the Hessian of q directions over m rows m (k q)^2.
            budget = _CORRECTION_EVALUATIONS * self.work / (len(weights) * k)
            directions = min(k, _CORRECTION_PARAMETERS // k, int(np.sqrt(budget))) - 1
            if directions > 0:
                own = Curvature(weights, curvature.matrices * (total / each)[:, None, None])  # of the same mean
                z = hypothesis.coordinates(inputs)
                apply = low_rank_correction(
                    apply, theta, z, own, moments, self.alpha, hypothesis.fit_intercept, directions
                )
        return lambda gradient: self.flatten(apply(self.unflatten(gradient)))

    def _weighed_moments(self, inputs: Inputs, weights: np.ndarray, evaluations: int) -> Moments:
        """Of rows weighed by their curvature; on a path a search starts with those that the last one ended with, and their eigenvectors."""
        hypothesis, kept = self.hypothesis, self.path_moments
        if kept and evaluations <= 1:
            return kept[-1]
        find = hypothesis.moments if hypothesis.own is None else hypothesis.exact_moments
        moments = find(inputs, weights, self.executor)
        if kept is not None and self.separable:
            kept[:] = [turned(moments, hypothesis.fit_intercept)]
            return kept[-1]
        return moments

    def _blocks(self, theta: Array, evaluations: int) -> Preconditioner | None:
        """The inverse of the Hessian's blocks, from as many rows as the evaluations so far have paid for; None for too few."""
        hypothesis, n, k = self.hypothesis, self.n_rows, self.risk.n_scores
        m, r = hypothesis.width(self.inputs.shape[1]), max(1, hypothesis.rank(self.inputs))
        factors = 1 if hypothesis.shares_weights else k
        evaluation = 2 * self.work * k
        if self._makes_features:
            evaluation += self.work * (self.inputs.shape[1] + 16)  # an exponential counts as so many
        paid = _BLOCK_SPEED * evaluations * evaluation - factors * r**3 / 3
        least, enough = (min(n, rows * r) for rows in _BLOCK_ROWS)
        count = min(enough, int(paid / (factors * r**2 + m * r)))
        if count < least or factors * r**2 > _BLOCK_FACTORS:
            return None
        most = max(_SAMPLE_LEAST, _SAMPLE_NUMBERS // (k if self.risk.separable else k**2))
        inputs, curvature = self._curvature(theta, min(n, most, _BLOCK_CANDIDATES * count))
        if curvature is None or np.ptp(curvature.traces) <= 1e-6 * curvature.traces.max():
            return None
        chosen = _systematic(curvature.weights * np.maximum(curvature.traces, 1e-3 * curvature.traces.mean()), count)
        weights = curvature.weights[chosen.rows] / chosen.shares
        z = hypothesis.coordinates(hypothesis.piece(inputs, chosen.rows))
        own = Curvature(weights, curvature.matrices[chosen.rows])
        shared, fit_intercept = hypothesis.shares_weights, hypothesis.fit_intercept
        try:
            return block_diagonal(z, own, self.alpha, shared, fit_intercept, self.executor)
        except np.linalg.LinAlgError:  # rounding, where the penalty is far below the curvature
            return None

    def _curvature(self, theta: Array, count: int) -> tuple[Inputs, Curvature | None]:
        """The curvature of about so many rows, evenly spread, with weights that sum to those of all rows; and their inputs."""
        inputs, risk = self._sampled(count)
        curvature = risk.curvature(self.hypothesis.predict(theta, inputs))
        if curvature is None:
            return inputs, None
        scale = self.total / curvature.weights.sum()
        return inputs, Curvature(curvature.weights * scale, curvature.matrices)


class _Sample(NamedTuple):
    """Some rows, and with what share of certainty each of them was to be among them."""

    rows: np.ndarray
    shares: np.ndarray


def _systematic(sizes: np.ndarray, count: int) -> _Sample:
    """About so many rows, each taken with a share in proportion to its size, or for certain: the same ones every time."""
    shares = np.ones(len(sizes))
    if count < len(sizes):
        scale = sizes.sum() / count
        for _ in range(8):  # rows that are certain leave the others more
            shares = np.minimum(1.0, sizes / scale)
            scale *= shares.sum() / count
    ends = np.floor(np.cumsum(shares) + 0.5 + 1e-9)
    rows = np.flatnonzero(np.diff(ends, prepend=0.0) > 0)
    return _Sample(rows, shares[rows])
