"""The penalised risk as a function of theta: the one objective that solvers see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..hypotheses.base import Hypothesis, Inputs, row_blocks
from ..hypotheses.linear import MOMENTS_LIMIT
from ..parallel import Executor
from ..solvers.base import RidgeForm
from .fused import whole_pass
from .preconditioners import Preconditioner, block_diagonal, kronecker, low_rank_correction, partly_shared
from .ridge import ridge_form
from .scores import Curvature, ScoreRisk
from .stochastic import Chunk

Array = Any

_BLOCK_BYTES = 3 << 18  # a block of rows, its scores and the surrogate's temporaries stay in a core's cache
_MADE_BYTES = 1 << 22  # features that are made of a block of rows stay in the cores' common cache
_HELD_BYTES = 1 << 26  # features that are made are held up to this size
_CHUNK_BYTES = 1 << 23  # features in coordinates that are made at one time for a pass of single examples
_CALL_WORK = 1 << 22  # multiplications in a block beside which the interpreter's own time is small
_CALL_ROWS = (
    8192  # but no more rows than that: with 2,048 a fit of ordered thresholds took twice as long on two threads
)
_OWN_GRADIENT = 1 / 4  # parameters for each entry of sparse rows up to which every thread has a gradient of its own
_KEPT_SCORES = 1 << 17  # scores of a piece from which their memory is kept between evaluations

_SAMPLE_ROWS = 4096  # rows from which the mean curvature is estimated, more where it varies and features are many
_SAMPLE_SCORES = 1 << 14  # but no more scores than that at first
_LOOK_ROWS = 256  # rows that tell whether it varies at all
_SAMPLE_NUMBERS = 1 << 22  # nor numbers in all second derivatives
_SAMPLE_LEAST = 128  # nor fewer rows than that
_CORRECTION_EVALUATIONS = 4  # the low-rank correction may cost about as much as so many evaluations
_CORRECTION_PARAMETERS = 400  # and has a matrix of this order at the most
_BLOCK_ROWS = 2, 12  # rows for each feature from which the Hessian's blocks are estimated, the fewest and the most
_BLOCK_CANDIDATES = 4  # rows for each of them, among which those of most curvature are chosen
_BLOCK_EVALUATIONS = 48  # after which they pay for features that are read and not made, too
_BLOCK_SPEED = 8  # multiplications of a symmetric matrix product in the time of one in an evaluation
_BLOCK_FACTORS = 1 << 24  # numbers in all their factors


class Piece(NamedTuple):
    """Some examples: inputs of their rows, their features if these are held, their risk, and memory for scores and derivatives."""

    inputs: Inputs
    features: Any
    risk: ScoreRisk
    room: np.ndarray | None
    slopes: np.ndarray | None


class PenalisedRisk:
    """f(theta) = sum_i w_i S(g_theta(x_i), phi_i) + alpha/2 |theta|^2, over the rows of theta that are penalised.

    Where the risk and the hypothesis both fall apart into columns, f is a vector of independent problems, one for each
    column of theta; elsewhere theta is one column. The data are cut once into pieces, all views: blocks of dense rows that
    fit the cache; sparse rows one piece for each thread, or, where a pullback, which is as large as theta, is large beside
    them, all in one with the threads inside their products.
    """

    def __init__(
        self,
        hypothesis: Hypothesis,
        inputs: Inputs,
        risk: ScoreRisk,
        alpha: float,
        executor: Executor | None = None,
    ):
        self.hypothesis, self.inputs, self.risk, self.alpha = hypothesis, inputs, risk, alpha
        self.start = hypothesis.start(inputs, risk.start())
        self.penalised = hypothesis.penalised(inputs, self.start)[:, None]
        free = None if risk.row_codes is None else hypothesis.free(inputs, self.start, risk.row_codes)
        self.free = None if free is None else np.flatnonzero(free)
        self.separable = risk.separable and hypothesis.separable
        work = hypothesis.work(inputs) * risk.n_scores
        self.executor = Executor.for_work(max(work, risk.work)) if executor is None else executor
        self.corrects = (
            not (self.separable or hypothesis.shares_weights or hypothesis.whitened or hypothesis.own is not None)
            and hypothesis.width(inputs.shape[1]) <= MOMENTS_LIMIT
        )
        dense = isinstance(inputs, np.ndarray) and hypothesis.rank(inputs) <= MOMENTS_LIMIT
        self.blocks = hypothesis.whitened or (dense and risk.cuts_freely and hypothesis.own is None)
        self.refresh = 6 if self.corrects else 12  # steps after which curvature is worth a second look
        here = self.executor.compiled and hypothesis.room is None
        self.fused = whole_pass(hypothesis, inputs, risk) if here else None
        self.risk = self.risk.arranged("C" if hypothesis.sparse(inputs) else "F")

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

    def with_alpha(self, alpha: float) -> PenalisedRisk:
        """The same risk under another penalty, on the same pieces."""
        other = object.__new__(PenalisedRisk)
        other.__dict__ |= self.__dict__ | {"alpha": alpha, "pieces": self.pieces}
        return other

    # -- pieces ------------------------------------------------------------------------------------------------------

    @cached_property
    def pieces(self) -> list[Piece]:
        hypothesis, risk, n = self.hypothesis, self.risk, self.risk.n_rows
        d, k = hypothesis.width(self.inputs.shape[1]), risk.n_scores
        itemsize, threads = self.inputs.dtype.itemsize, self.executor.threads
        made, room = hypothesis.makes_features or hypothesis.room is not None, hypothesis.room
        held = not made or hypothesis.sparse(self.inputs) or 8 * n * d <= (_HELD_BYTES if room is None else room.held)
        if self.fused is not None:
            rows = -(-n // threads)  # a thread goes over its share in blocks of its own
        elif hypothesis.sparse(self.inputs):
            # Whole passes side by side, each with a gradient of its own, where that is small beside the data.
            small = self.start.size < _OWN_GRADIENT * hypothesis.work(self.inputs)
            rows = -(-n // threads) if small else n
        elif room is not None:
            rows = max(64, room.block // (8 * d)) if risk.cuts_freely or not held else -(-n // threads)
        elif made and not held:
            rows = max(64, (_MADE_BYTES if threads > 1 else _BLOCK_BYTES) // (itemsize * d))
        elif risk.cuts_freely:
            rows = max(64, _BLOCK_BYTES // (itemsize * (d + 6 * k)))
            if threads > 1:  # fewer, longer calls: threads meet at the interpreter's lock
                rows = max(rows, min(_CALL_ROWS, _CALL_WORK // (d * k)))
        else:
            rows = -(-n // threads)
        cuts = [slice(0, risk.n_examples)] if rows >= n else risk.cut(rows)
        return [self._piece(examples, held, len(cuts) == 1) for examples in cuts]

    def _piece(self, examples: slice, held: bool, only: bool) -> Piece:
        risk = self.risk if only else self.risk.take(examples)
        inputs = self.inputs if only else self.hypothesis.piece(self.inputs, self.risk.rows_of(examples))
        executor = self.executor if only else self.executor.inner
        features = self.hypothesis.features(inputs, executor) if held else None
        large = self.hypothesis.sparse(inputs) and risk.n_rows * risk.n_scores >= _KEPT_SCORES
        room = np.empty((risk.n_rows, risk.n_scores), self.inputs.dtype) if large else None
        # Where some entries are fitted alone, these are copied from the derivatives at once, and the memory is free again.
        slopes = None if self.free is None else np.empty(self.start.shape, self.inputs.dtype)
        return Piece(inputs, features, risk, room, slopes)

    def _sum(self, work: Callable[[Piece, Executor], Any]) -> Any:
        """The sum over pieces, which have the threads where they are several, and the one piece inside where not."""
        if len(self.pieces) == 1:
            return work(self.pieces[0], self.executor)
        inner = self.executor.inner
        return self.executor.sum(lambda piece: work(piece, inner), self.pieces)

    def _features(self, piece: Piece) -> Any:
        return self.hypothesis.features(piece.inputs) if piece.features is None else piece.features

    # -- what a solver asks ------------------------------------------------------------------------------------------

    def value_and_gradient(self, theta: Array) -> tuple[np.ndarray, Array]:
        """f, one number per column, and its gradient."""
        coefficients = self._coefficients(self._spread(theta))

        def plain(piece: Piece, executor: Executor) -> tuple[np.ndarray, np.ndarray]:
            features = self._features(piece)
            v = self.hypothesis.scores(coefficients, features, piece.room)
            value, dv = piece.risk.risk_and_gradient(v, out=v, executor=executor)
            return value, self.hypothesis.pullback(features, dv, piece.slopes)

        def fused(piece: Piece, executor: Executor) -> tuple[np.ndarray, np.ndarray]:
            return self.fused(coefficients, piece.inputs, piece.risk)  # type: ignore

        value, gradient = self._sum(plain if self.fused is None else fused)
        value = value if self.separable else np.atleast_1d(value.sum())
        gradient = self._penalise(self.hypothesis.contract(gradient), theta)
        value = value + self.alpha / 2 * self._squares(theta)
        return value + self.risk.constant / len(value), gradient

    def _squares(self, theta: Array) -> np.ndarray:
        """The sum of squares of what is penalised, of each problem."""
        if self.free is not None:
            return np.einsum("pk,pk,pk->k", theta, theta, self._free_penalised)
        full = self.unflatten(theta)
        squares = np.einsum("pk,pk,pi->k", full, full, self.penalised)
        return squares if self.separable else np.atleast_1d(squares.sum())

    def _penalise(self, gradient: Array, theta: Array) -> Array:
        """gradient + alpha theta on what is penalised, in the solver's layout, and in place where that is possible."""
        gradient = np.asarray(gradient, dtype=float)
        if self.free is not None:
            return self.flatten(gradient) + self.alpha * self._free_penalised * theta
        full = self.unflatten(theta)
        for rows in row_blocks(full, max(1, (1 << 15) // full.shape[1])):  # no temporary as large as theta
            gradient[rows] += (self.alpha * self.penalised[rows]) * full[rows]
        return self.flatten(gradient)

    @cached_property
    def _free_penalised(self) -> np.ndarray:
        return self.flatten(np.broadcast_to(self.penalised, self.start.shape))

    def _coefficients(self, theta: Array) -> Array:
        return self.hypothesis.expand(theta).astype(self.inputs.dtype, copy=False)

    def hessian(self, theta: Array) -> Callable[[Array], Array]:
        """The linear map direction -> Hessian direction at theta; keeps as many numbers as there are scores."""
        coefficients = self._coefficients(self.unflatten(theta))

        def curve(piece: Piece, executor: Executor) -> list[Any]:
            v = self.hypothesis.scores(coefficients, self._features(piece))
            return [(piece, piece.risk.hessian(v))]

        maps = dict((id(piece), product) for piece, product in self._sum(curve))

        def product(direction: Array) -> Array:
            d = self._coefficients(self._spread(direction))

            def work(piece: Piece, executor: Executor) -> Any:
                features = self._features(piece)
                return self.hypothesis.pullback(features, maps[id(piece)](self.hypothesis.scores(d, features)))

            return self._penalise(self.hypothesis.contract(self._sum(work)), direction)

        return product

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
        n, d, k = self.risk.n_rows, hypothesis.width(self.inputs.shape[1]), self.risk.n_scores
        most = max(_SAMPLE_LEAST, _SAMPLE_NUMBERS // (k if self.risk.separable else k**2))
        first, more = min(_SAMPLE_ROWS, most, max(512, _SAMPLE_SCORES // k)), most >= min(n, 4 * d)
        rows, curvature = self._curvature(theta, _LOOK_ROWS if more and n > first else first)
        if curvature is None:
            return lambda g: g
        each = curvature.traces
        varies = more and np.ptp(each) > 1e-6 * each.max()
        if varies:
            if len(each) < n:
                rows, curvature = self._curvature(theta, min(max(_SAMPLE_ROWS, 16 * d), most))
                assert curvature is not None
            each = np.maximum(curvature.traces, 1e-6 * curvature.traces.max())
        mean = np.tensordot(curvature.weights, curvature.matrices, 1)
        mean = np.maximum(mean, 1e-12) if mean.ndim == 1 else mean
        inputs = hypothesis.piece(self.inputs, rows) if varies else self.inputs
        weights = curvature.weights * each if varies else self.risk.row_weights
        total = weights.sum()
        weights = weights / total
        moments = hypothesis.moments(inputs, weights, self.executor)
        if hypothesis.own is None:
            apply = kronecker(moments, mean, self.alpha, hypothesis.shares_weights, hypothesis.fit_intercept)
        else:
            apply = partly_shared(moments, mean, self.alpha, hypothesis.own, hypothesis.fit_intercept)
        if varies and curvature.matrices.ndim == 3 and self.corrects:
            # An evaluation costs work k multiplications, and the Hessian of q directions over m rows m (k q)^2.
            budget = _CORRECTION_EVALUATIONS * hypothesis.work(self.inputs) / (len(weights) * k)
            directions = min(k, _CORRECTION_PARAMETERS // k, int(np.sqrt(budget))) - 1
            if directions > 0:
                own = Curvature(weights, curvature.matrices * (total / each)[:, None, None])  # of the same mean
                z = hypothesis.coordinates(inputs)
                apply = low_rank_correction(
                    apply, theta, z, own, moments, self.alpha, hypothesis.fit_intercept, directions
                )
        return lambda gradient: self.flatten(apply(self.unflatten(gradient)))

    def _blocks(self, theta: Array, evaluations: int) -> Preconditioner | None:
        """The inverse of the Hessian's blocks, from as many rows as the evaluations so far have paid for; None for too few."""
        hypothesis, n, k = self.hypothesis, self.risk.n_rows, self.risk.n_scores
        m, r = hypothesis.width(self.inputs.shape[1]), max(1, hypothesis.rank(self.inputs))
        factors = 1 if hypothesis.shares_weights else k
        evaluation = 2 * hypothesis.work(self.inputs) * k
        if self.pieces[0].features is None:
            evaluation += hypothesis.work(self.inputs) * (self.inputs.shape[1] + 16)  # an exponential counts as so many
        paid = _BLOCK_SPEED * evaluations * evaluation - factors * r**3 / 3
        least, enough = (min(n, rows * r) for rows in _BLOCK_ROWS)
        count = min(enough, int(paid / (factors * r**2 + m * r)))
        if count < least or factors * r**2 > _BLOCK_FACTORS:
            return None
        most = max(_SAMPLE_LEAST, _SAMPLE_NUMBERS // (k if self.risk.separable else k**2))
        rows, curvature = self._curvature(theta, min(n, most, _BLOCK_CANDIDATES * count))
        if curvature is None or np.ptp(curvature.traces) <= 1e-6 * curvature.traces.max():
            return None
        chosen = _systematic(curvature.weights * np.maximum(curvature.traces, 1e-3 * curvature.traces.mean()), count)
        weights = curvature.weights[chosen.rows] / chosen.shares
        at = np.arange(n)[rows][chosen.rows]
        z = hypothesis.coordinates(hypothesis.piece(self.inputs, at))
        own = Curvature(weights, curvature.matrices[chosen.rows])
        shared, fit_intercept = hypothesis.shares_weights, hypothesis.fit_intercept
        try:
            return block_diagonal(z, own, self.alpha, shared, fit_intercept, self.executor)
        except np.linalg.LinAlgError:  # rounding, where the penalty is far below the curvature
            return None

    def _curvature(self, theta: Array, count: int) -> tuple[Any, Curvature | None]:
        """The curvature of about so many rows, evenly spread, with weights that sum to those of all rows; and which rows."""
        examples = self.risk.spread(count)
        rows = self.risk.rows_of(examples)
        v = self.hypothesis.predict(theta, self.hypothesis.piece(self.inputs, rows))
        curvature = self.risk.take(examples).curvature(v)
        if curvature is None:
            return rows, None
        scale = self.risk.row_weights.sum() / curvature.weights.sum()
        return rows, Curvature(curvature.weights * scale, curvature.matrices)

    def ridge_form(self) -> RidgeForm | None:
        """The same function as ridge regression in principal coordinates; None where it is not."""
        return ridge_form(self.hypothesis, self.inputs, self.risk, self.alpha, self.executor)

    # -- what a stochastic solver asks -------------------------------------------------------------------------------

    @property
    def weights(self) -> np.ndarray:
        """Of the examples."""
        return self.risk.weights

    def chunks(self, order: np.ndarray) -> Iterable[Chunk]:
        """The examples in this order, a chunk at a time, for solvers that look at a few at a time."""
        self.risk.check_single_steps()
        width = self.hypothesis.width(self.inputs.shape[1]) * self.risk.n_rows / self.risk.n_examples
        step = max(1, int(_CHUNK_BYTES / (self.inputs.dtype.itemsize * width)))
        scale = float(np.count_nonzero(self.weights))
        for some in row_blocks(order, step):
            examples = order[some]
            inputs = self.hypothesis.piece(self.inputs, self.risk.rows_of(examples))
            yield Chunk(self.hypothesis, inputs, self.risk.take(examples), scale)


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
