"""The penalised risk of data in memory: the objective that solvers see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ..hypotheses.base import Hypothesis, Inputs, Moments, row_blocks
from ..parallel import Executor
from ..solvers.base import RidgeForm, Sides
from .fused import chain_pass, whole_pass
from .penalty import _MANY_STEPS, Penalised
from .preconditioners import Preconditioner, exact_hessian, shared_hessian
from .ridge import ridge_form
from .scores import ScoreRisk
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
# Multiplications that the Hessian's matrix may take: a search then ends before another has warmed up.
_MATRIX_WORK = 1 << 22
_STIFF_WORK = 1 << 29  # and where steps without it are many
_WANTED_WORK = 1 << 25  # and where it is wanted for more than steps
_WIDE = 16  # features from which the Hessian is quicker made pair by pair of scores
_MATRIX_PARAMETERS = 256  # its order at the most, and four times that where the risk is stiff
_LARGEST = 1e18  # value of a feature whose square single precision holds
_ROOT = 1 / 4  # the power of the diagonal that preconditions chains over sparse rows
_ROOT_REFRESH = 30  # steps after which that diagonal is worth a second look


class Piece(NamedTuple):
    """Some examples: inputs of their rows, their features if these are held, their risk, and memory for scores and derivatives."""

    inputs: Inputs
    features: Any
    risk: ScoreRisk
    room: np.ndarray | None
    slopes: np.ndarray | None

    def columns(self, risk: ScoreRisk, count: int) -> Piece:
        """With so many columns of scores, of which this is the risk."""
        room = self.room
        room = None if room is None else room.ravel()[: len(room) * count].reshape(len(room), count)
        return Piece(self.inputs, self.features, risk, room, None)

    def in_single(self) -> Piece:
        """Of sparse rows in double precision, whose passes then compute in single."""
        room, slopes = (None if x is None else np.empty(x.shape, np.float32) for x in (self.room, self.slopes))
        return Piece(self.inputs, self.features.in_single(), self.risk, room, slopes)


class PenalisedRisk(Penalised):
    """The penalised risk of data in memory.

    The data are cut once into pieces, all views: blocks of dense rows that fit the cache; sparse rows one piece for each
    thread, or, where a pullback, which is as large as theta, is large beside them, all in one with the threads inside their
    products.

    part: these are some of the examples of a larger risk, which asks for sums over them alone.
    """

    def __init__(
        self,
        hypothesis: Hypothesis,
        inputs: Inputs,
        risk: ScoreRisk,
        alpha: float,
        executor: Executor | None = None,
        part: bool = False,
    ):
        super().__init__(hypothesis, inputs, risk, alpha)
        self.part, self.work = part, hypothesis.work(inputs)
        size = max(self.work * risk.n_scores, risk.work)
        self.executor = Executor.for_work(size) if executor is None else executor
        here = self.executor.compiled and hypothesis.room is None
        self.fused = whole_pass(hypothesis, inputs, risk) if here else None
        self._matrices_at: tuple[Array, Any] = (None, None)
        self._curve: Any = None  # what makes the curvature of the rows at the scores that were last evaluated
        self._curve_at: tuple[Array, Any] = (None, None)
        self.single = False  # whether compiled passes compute in single precision
        self._coarse: list[Piece] | None = None  # the pieces of such passes
        whole = here and not part
        shape = self.start.shape if whole else ()
        self.chains = chain_pass(hypothesis, inputs, risk, self.free, shape, self.executor) if whole else None
        if self.chains is not None:
            self.refresh, self.memory = _ROOT_REFRESH, _MANY_STEPS
        self.risk = self.risk.arranged("C" if hypothesis.sparse(inputs) else "F")

    @cached_property
    def free(self) -> np.ndarray | None:
        codes = None if self.part else self.risk.row_codes
        free = None if codes is None else self.hypothesis.free(self.inputs, self.start, codes)
        return None if free is None else np.flatnonzero(free)

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.risk.n_rows

    @property
    def total(self) -> float:  # type: ignore[override]
        return float(self.risk.row_weights.sum())

    @cached_property
    def constant(self) -> float:  # type: ignore[override]
        return self.risk.constant

    def with_alpha(self, alpha: float) -> Self:
        if self.matrices_pay:  # made once for all strengths
            _ = self.features_in_coordinates, self._pairs
        other = super().with_alpha(alpha)
        other.pieces, other._coarse = self.pieces, self._coarse
        other._matrices_at = other._curve_at = None, None
        return other

    def columns(self, some: np.ndarray) -> Self | None:
        if not self.separable:
            return None
        other = super().with_alpha(self.alpha)
        other._matrices_at = other._curve_at = None, None
        share = len(some) / self.risk.n_scores
        other.__dict__ |= {"risk": self._of(self.risk, some), "constant": self.constant * share}
        risks = [other.risk if piece.risk is self.risk else self._of(piece.risk, some) for piece in self.pieces]

        def of(pieces: list[Piece]) -> list[Piece]:
            return [piece.columns(risk, len(some)) for piece, risk in zip(pieces, risks, strict=True)]

        other.pieces, other._coarse = of(self.pieces), None if self._coarse is None else of(self._coarse)
        return other

    def _of(self, risk: ScoreRisk, columns: np.ndarray) -> ScoreRisk:
        part = risk.take(slice(None), columns)
        return part.arranged("C" if self.hypothesis.sparse(self.inputs) else "F")

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

    def _sum(self, work: Callable[[Any, Executor], Any], items: list[Any]) -> Any:
        """The sum over pieces, which have the threads where they are several, and the one piece inside where not."""
        if len(items) == 1:
            return work(items[0], self.executor)
        inner = self.executor.inner
        return self.executor.sum(lambda item: work(item, inner), items)

    def _features(self, piece: Piece) -> Any:
        return self.hypothesis.features(piece.inputs) if piece.features is None else piece.features

    @property
    def _makes_features(self) -> bool:
        return self.pieces[0].features is None

    # -- single precision, far from the minimum ----------------------------------------------------------------------

    def coarsen(self) -> bool:
        if self.chains is not None:
            self.single = self.chains.small
        elif self.executor.compiled and self.risk.cuts_freely and self._halves:
            self.single, self._coarse = True, [piece.in_single() for piece in self.pieces]
        return self.single

    @property
    def _halves(self) -> bool:
        """Whether the rows are sparse, in double precision, and as well told in single."""
        hypothesis, inputs = self.hypothesis, self.inputs
        if not (hypothesis.sparse(inputs) and hypothesis.plain and hypothesis.room is None):
            return False
        return inputs.dtype == np.float64 and bool(np.abs(inputs.data).max(initial=0.0) < _LARGEST)

    def refine(self) -> bool:
        was, self.single, self._coarse = self.single, False, None
        return was

    @property
    def dtype(self) -> Any:
        return self.inputs.dtype if self._coarse is None else np.dtype(np.float32)

    @property
    def _passes(self) -> list[Piece]:
        return self.pieces if self._coarse is None else self._coarse

    # -- chains over sparse rows -------------------------------------------------------------------------------------

    def value_and_gradient(self, theta: Array) -> tuple[np.ndarray, Array]:
        found = None if self.chains is None else self.chains(theta, self.single)
        if found is None:
            value, gradient = super().value_and_gradient(theta)
            self._curve_at = theta, self._curve
            return value, gradient
        return found[0] + self.alpha / 2 * self._squares(theta), self._penalise(found[1], theta)

    def preconditioner(self, theta: Array, evaluations: int = 0) -> Preconditioner:
        """Of chains a root of the Hessian's diagonal: all of it helps at first, and hurts at the end.

        The gradient of the risk lies in the span of the rows, and so do the minimiser and steps along gradients. A diagonal leads
        out of that span, into directions that the penalty alone brings back.
        """
        found = None if self.chains is None else self.chains(theta, self.single, squared=True)
        if found is None:
            return super().preconditioner(theta, evaluations)
        scale = (np.maximum(found[1], 0) + self.alpha) ** -_ROOT
        return lambda g: scale * g

    # -- the Hessian as a matrix -------------------------------------------------------------------------------------

    @property
    def has_matrices(self) -> bool:
        """Whether the Hessian's matrix is known."""
        hypothesis = self.hypothesis
        return self.risk.exactly_curved and hypothesis.own is None and hypothesis.room is None and self.free is None

    @property
    def matrix_work(self) -> tuple[float, int]:
        """The multiplications that the Hessian's matrix takes, and its order."""
        hypothesis, risk, k = self.hypothesis, self.risk, self.risk.n_scores
        weights = hypothesis.rank(self.inputs)
        order = weights + (k if hypothesis.shares_weights else 1) if self.separable else self.start.size
        # a label sees the thresholds beside it alone
        alone = self.separable or hypothesis.shares_weights or risk.ordered
        return float(risk.n_rows * (weights + 1) ** 2 * (k if alone else k**2) + order**3 / 3), order

    @cached_property
    def matrices_pay(self) -> bool:
        """Whether Newton's steps, each solved with the Hessian's matrix, cost less than many steps that only guess at it."""
        if not self.has_matrices:
            return False
        work, order = self.matrix_work
        stiff = self.risk.stiff
        most, largest = (_STIFF_WORK, 4 * _MATRIX_PARAMETERS) if stiff else (_MATRIX_WORK, _MATRIX_PARAMETERS)
        return order <= largest and work <= most

    @cached_property
    def _expands(self) -> bool:
        """Whether a pass keeps what makes the curvature at its scores: those of the one piece."""
        return self.matrices_pay and len(self.pieces) == 1 and self.fused is None

    def want_matrices(self) -> None:
        """Searches take Newton's steps with the Hessian's matrix also where this alone would not pay, since it is asked for at their end."""
        self.matrices_pay = self.matrices_pay or self.matrix_work[0] <= _WANTED_WORK

    def hessian_matrices(self, theta: Array) -> np.ndarray:
        """The Hessian of each problem at theta, (problems, parameters, parameters), in the solver's layout; the last answer is kept."""
        if self._matrices_at[0] is theta:
            return self._matrices_at[1]
        hypothesis = self.hypothesis
        at, curve = self._curve_at
        if at is not theta or curve is None:
            curvature = self.risk.curvature(hypothesis.predict(self.unflatten(theta), self.inputs))
        else:
            curvature = curve()
        assert curvature is not None
        z, fit_intercept = self.features_in_coordinates, hypothesis.fit_intercept
        with np.errstate(over="ignore", invalid="ignore"):
            if hypothesis.shares_weights:
                found = shared_hessian(z, *curvature, self.alpha, fit_intercept)[None]
            else:
                found = exact_hessian(z, self._pairs, curvature, self.alpha, self.separable)
        if not np.isfinite(found).all():
            raise ValueError("The features in X are so large that their squares are not finite: scale them.")
        self._matrices_at = theta, found
        return found

    def sides(self, theta: Array, gradient: Array) -> Sides | None:
        """From the matrices, where these pay: then the turn of the gradient is known, too."""
        if not self.matrices_pay or self.alpha == 0:
            return super().sides(theta, gradient)
        bare = np.flatnonzero(self._bare[:, 0])
        hessians, slopes = self.hessian_matrices(theta), gradient[bare].T
        step = np.zeros_like(gradient)
        solved = np.linalg.solve(hessians[:, bare[:, None], bare], slopes[:, :, None])[:, :, 0]
        step[bare] = -solved.T
        turn = np.einsum("bpq,bq->bp", hessians[:, :, bare], solved)
        turn[:, bare] = 0.0
        return Sides(step, np.maximum((slopes * solved).sum(1), 0.0), np.sqrt((turn**2).sum(1)))

    @cached_property
    def features_in_coordinates(self) -> np.ndarray:
        """The features, and a constant where each score has a weight on it."""
        z = self.hypothesis.coordinates(self.inputs)
        z = np.asarray(z if isinstance(z, np.ndarray) else z.toarray(), dtype=float)
        if self.hypothesis.shares_weights:
            return z
        return np.column_stack([z, np.full(len(z), float(self.hypothesis.fit_intercept))])

    @cached_property
    def _pairs(self) -> np.ndarray | None:
        """Products of pairs of features, of each row; where features are many, products for each pair of scores are quicker."""
        z = self.features_in_coordinates
        if self.separable or z.shape[1] > _WIDE:
            return None
        return (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)

    # -- sums --------------------------------------------------------------------------------------------------------

    def slopes(self, coefficients: Array) -> tuple[np.ndarray, Array]:
        def plain(piece: Piece, executor: Executor) -> tuple[np.ndarray, np.ndarray]:
            features = self._features(piece)
            v = self.hypothesis.scores(coefficients, features, piece.room)
            if self._expands:
                value, dv, self._curve = piece.risk.expansion(v)
            else:
                value, dv = piece.risk.risk_and_gradient(v, out=v, executor=executor)
            return value, self.hypothesis.pullback(features, dv, piece.slopes)

        def fused(piece: Piece, executor: Executor) -> tuple[np.ndarray, np.ndarray]:
            return self.fused(coefficients, piece.inputs, piece.risk)  # type: ignore

        return self._sum(plain if self.fused is None else fused, self._passes)

    def products(self, coefficients: Array) -> Callable[[Array], Array]:
        def curve(piece: Piece, executor: Executor) -> list[Any]:
            v = self.hypothesis.scores(coefficients, self._features(piece))
            return [(piece, piece.risk.hessian(v))]

        curved = self._sum(curve, self._passes)

        def product(d: Array) -> Array:
            def work(item: tuple[Piece, Callable[[Any], Any]], executor: Executor) -> Any:
                piece, curvature = item
                features = self._features(piece)
                return self.hypothesis.pullback(features, curvature(self.hypothesis.scores(d, features)))

            return self._sum(work, curved)

        return product

    def _moments(self) -> Moments:
        weights = self.risk.row_weights
        return self.hypothesis.moments(self.inputs, weights / weights.sum(), self.executor)

    def _sampled(self, count: int) -> tuple[Inputs, ScoreRisk]:
        return self.chosen(self.risk.spread(count))

    def chosen(self, examples: Any) -> tuple[Inputs, ScoreRisk]:
        """The inputs of some examples, and their risk."""
        return self.hypothesis.piece(self.inputs, self.risk.rows_of(examples)), self.risk.take(examples)

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
