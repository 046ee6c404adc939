"""What a hypothesis g_theta(x) is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import validate_data

from .._checks import said_of
from ..parallel import SERIAL, Executor
from ..registry import Part
from ..solvers.base import Interrupted
from .mixed import only_numbers
from .places import Room

Array = Any
Inputs = Any  # what a hypothesis reads: rows of X, or packed rows with the shape of their trees
Scores = Any  # an array (rows, scores), or NodeEdgeScores

_FEATURE_BYTES = 1 << 26  # features made at one time when predicting


class Principal(NamedTuple):
    """A covariance as that along a few directions, vectors (d, r), and what each feature varies by beside them, rest (d,):
    vectors diag(values) vectors^T + diag(rest).
    """

    values: np.ndarray
    vectors: np.ndarray
    rest: np.ndarray


class Turned(NamedTuple):
    """Second moments around the mean, by their eigenvalues and eigenvectors (columns)."""

    values: np.ndarray
    vectors: np.ndarray


class Moments(NamedTuple):
    """Weighted mean and second moments of the features that theta's penalised rows weigh.

    second is a matrix (d, d), or its diagonal (d,) where the features are known to be uncorrelated. Where a matrix would cost
    more than it is worth it is the features' covariance instead, about the mean, along a few directions.
    """

    mean: np.ndarray
    second: Any


class Holdout(NamedTuple):
    """The share of the examples that is held out, and the seed of the draw."""

    share: float
    seed: int


@dataclass(frozen=True)
class WithTable:
    """The parameters of a trained learner of node scores, and the table that is joined to them."""

    node: Any
    table: np.ndarray


class Hypothesis(Part):
    """Scores g_theta(x) and the way back from score derivatives to parameter derivatives. Knows X and theta alone.

    theta is a 2-d array in whose Euclidean norm the penalty is counted: rows of weights, one for each feature, then rows
    of constants, which are not penalised. Scores are linear in it, in two steps: the coefficients expand(theta), made once
    in a pass over the data, and the features of a block of rows, made once for each block. `pullback` and `contract` are
    the adjoints of `scores` and `expand`.
    """

    fit_intercept: bool

    @property
    def dtypes(self) -> tuple[type, ...]:
        """Of X: the first where it has another."""
        return (np.float64, np.float32)

    @property
    def default_alpha(self) -> Any:
        """The penalty where an estimator is given none: a number, or "auto" where no number serves most data."""
        return 1e-3

    @property
    def whitened(self) -> bool:
        """Whether features are uncorrelated in theta's coordinates, with second moments that are known once it is bound."""
        return False

    def current(self) -> Hypothesis:
        """The hypothesis in today's terms, where an older name of a hyperparameter was used."""
        return self

    # -- reading users' inputs ---------------------------------------------------------------------------------------

    @property
    def allow_nan(self) -> bool:
        """Whether missing values are inputs like any other."""
        return False

    def read(self, X: Any, estimator: Any, fitting: bool) -> Inputs:
        """Users' X as this hypothesis takes it; the estimator learns the names of features at a fit, and is held to them after."""
        with said_of("X", "hold numbers, one row for each example"):
            return validate_data(estimator, X, accept_sparse="csr", dtype=list(self.dtypes), reset=fitting)

    def reads(self, inputs: Inputs) -> Inputs:
        """Rows that another hypothesis has read, as this one takes them: what it cannot read is said in one sentence."""
        values = only_numbers(inputs, f"start={self!r}")
        return values if values.dtype in self.dtypes else values.astype(self.dtypes[0])

    # -- binding to data ---------------------------------------------------------------------------------------------

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        """The same hypothesis with what it takes from the training inputs, such as centres and their scale."""
        return self

    def rescaled(self, factor: float) -> Self | None:
        """The same hypothesis, not bound yet, at another scale of its inputs; None where no scale is to be chosen."""
        return None

    def agrees(self, other: Hypothesis) -> bool:
        """Whether theta means the same in another hypothesis, bound to other inputs perhaps."""
        return type(self) is type(other)

    @property
    def pairwise(self) -> bool:
        """Whether rows hold values for pairs of points, such as a kernel matrix."""
        return False

    def check(self, estimator: str) -> None:
        """Refuse, in one sentence, what an estimator that makes rows of its own cannot use."""

    @property
    def plain(self) -> bool:
        """Whether theta has one coefficient for each column of the inputs and score, or each column, and constants."""
        return False

    # -- learners that train themselves ------------------------------------------------------------------------------

    @property
    def trained(self) -> bool:
        """Whether parameters are found by `train`, as those of trees and networks are, and not by a solver over theta."""
        return False

    @property
    def begins(self) -> Hypothesis | None:
        """The hypothesis, not bound to data, from whose scores one that trains itself goes on; None from the best constant."""
        return None

    def beginning_with(self, start: Hypothesis) -> Self:
        """The same hypothesis, with another one in the place of `begins`."""
        raise NotImplementedError

    @property
    def holdout(self) -> Holdout | None:
        """What part of the examples the estimator is to hold out, whose task loss says when to stop."""
        return None

    def train(self, inputs: Inputs, risk: Any, options: Any) -> Any:
        """A Solution whose theta are the parameters found; risk is a ScoreRisk, options are `objectives.Options`."""
        raise NotImplementedError

    def self_trained(self, theta: Any) -> Any:
        """What a learner that trains itself found, trees or a network; None where theta is an array."""
        return None

    def expanded(self) -> Self:
        """The same hypothesis whose theta are the coefficients `expand(theta)`: all that prediction needs, and what is stored."""
        return self

    # -- shape -------------------------------------------------------------------------------------------------------

    def start(self, inputs: Inputs, scores: np.ndarray) -> np.ndarray:
        """Parameters whose scores are these constants, as nearly as the hypothesis allows."""
        raise NotImplementedError

    def rank(self, inputs: Inputs) -> int:
        """How many weights a score has, in theta's coordinates."""
        return self.width(inputs.shape[1])

    def penalised(self, inputs: Inputs, theta: np.ndarray) -> np.ndarray:
        """1 for each row of theta on which the penalty acts, and 0 for the others: the weights come first."""
        return (np.arange(len(theta)) < self.rank(inputs)).astype(float)

    def free(self, inputs: Inputs, theta: np.ndarray, codes: np.ndarray) -> np.ndarray | None:
        """Whether each entry of theta is fitted or stays zero; None where all are. codes: the label of each row, -1 where unknown."""
        return None

    @property
    def separable(self) -> bool:
        """Whether column j of theta decides score j and no other."""
        return False

    @property
    def shares_weights(self) -> bool:
        """Whether all scores share one column of weights and differ by their constants alone."""
        return False

    @property
    def own(self) -> np.ndarray | None:
        """The columns that each score weighs by itself, where scores share the weights of the others; None elsewhere."""
        return None

    def width(self, inputs: int) -> int:
        """How many features are made of so many inputs."""
        return inputs

    def work(self, inputs: Inputs) -> float:
        """Multiplications for one score of each row."""
        return float(inputs.shape[0] * self.width(inputs.shape[1]))

    # -- scores, and their adjoint -----------------------------------------------------------------------------------

    def piece(self, inputs: Inputs, rows: Any) -> Inputs:
        """The inputs of some rows; a view where rows are a slice."""
        return inputs[rows]

    def sparse(self, inputs: Inputs) -> bool:
        """Whether products with the features read a sparse matrix."""
        return False

    @property
    def room(self) -> Room | None:
        """The room for features, where products with them run on a device; None on the host."""
        return None

    @property
    def makes_features(self) -> bool:
        """Whether the features are more than the inputs themselves: dense, and made anew in every pass."""
        return False

    def features(self, inputs: Inputs, executor: Executor = SERIAL) -> Any:
        """What the scores of these inputs are linear in; products with it may use the executor's threads."""
        return inputs

    def expand(self, theta: Array) -> Array:
        """The coefficients on the features that theta stands for; rows of constants may be any number."""
        return theta

    def contract(self, gradient: Array) -> Array:
        """The derivative in theta from the derivative in the coefficients."""
        return gradient

    def scores(self, coefficients: Array, features: Any, out: np.ndarray | None = None) -> Scores:
        """v = g_theta(x), one row per row of the inputs; in the memory of `out` where that can be used."""
        raise NotImplementedError

    def pullback(self, features: Any, dv: Scores, out: np.ndarray | None = None) -> np.ndarray:
        """The derivative in the coefficients of the sum over rows of <dv, v>; in the memory of `out` where that is given."""
        raise NotImplementedError

    def constants(self, theta: Array, inputs: int) -> np.ndarray:
        """What is added to the scores of all rows alike."""
        return self.expand(theta)[self.width(inputs) :].ravel()

    def predict(self, theta: Array, inputs: Inputs) -> Scores:
        """The scores of any number of rows; features are made block by block."""
        coefficients = self.expand(theta).astype(inputs.dtype, copy=False)
        if not self.makes_features and (self.room is None or self.sparse(inputs)):
            executor = Executor.for_work(self.work(inputs) * coefficients.shape[-1])
            return self.scores(coefficients, self.features(inputs, executor))
        size = _FEATURE_BYTES if self.room is None else self.room.block
        blocks = row_blocks(inputs, max(256, size // (8 * self.width(inputs.shape[-1]))))
        parts = [self.scores(coefficients, self.features(inputs[rows])) for rows in blocks]
        return np.concatenate(parts) if parts else self.scores(coefficients, self.features(inputs))

    # -- sums over points that come one by one -----------------------------------------------------------------------

    @property
    def grows(self) -> bool:
        """Whether on a stream it is a sum over all points seen, rather than of a fixed number of features."""
        return False

    def growing(self, inputs: Inputs) -> Self:
        """The same hypothesis with what it takes from a stream's first inputs, other than points."""
        raise NotImplementedError

    def expansion(self, centres: Inputs) -> Self:
        """The hypothesis whose theta are plain coefficients on these centres, then the constants."""
        raise NotImplementedError

    def diagonal(self, inputs: Inputs) -> np.ndarray:
        """The inner product of each point's features with themselves."""
        raise NotImplementedError

    # -- what preconditioners and stochastic solvers ask -------------------------------------------------------------

    def coordinates(self, inputs: Inputs) -> Any:
        """Features on which theta itself are the coefficients."""
        return inputs

    def coordinates_of(self, inputs: Inputs, rows: slice) -> Any:
        """`coordinates` of some rows of the training inputs, at which they may be known already."""
        return self.coordinates(self.piece(inputs, rows))

    def tabulated(self, inputs: Inputs, dtype: Any = np.float64) -> tuple[Hypothesis, Inputs]:
        """A hypothesis with the same parameters and the same scores on the training inputs, and what it reads of them, of this
        type, where that makes a fit cheaper; else this one.
        """
        return self, inputs

    def squared_norms(self, coordinates: Any) -> np.ndarray:
        """The squared norm of the map from theta to one score, for rows in coordinates."""
        raise NotImplementedError

    def moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        """The features' moments in theta's coordinates under weights that sum to one."""
        raise NotImplementedError

    def exact_moments(self, inputs: Inputs, weights: np.ndarray, executor: Executor = SERIAL) -> Moments:
        """`moments`, where these may be an estimate from some of the rows, from all of them."""
        return self.moments(inputs, weights, executor)


def train_with_table(layout: Any, inputs: Inputs, risk: Any, options: Any) -> Any:
    """Train the node hypothesis of `Thresholds` or `Structured` on the risk at the best table beside its scores, which is
    fitted anew each time the risk is asked for; a Solution whose theta is a WithTable."""
    start, monitor = options.start, options.monitor
    if start is not None and start.table.shape != layout.table_start(risk.start()).shape:
        start = None  # of another number of labels
    profile = risk.profiled(layout, options, None if start is None else start.table)
    if monitor is not None:
        held = monitor.inputs
        monitor = replace(
            monitor,
            inputs=layout.node_inputs(held),
            loss=lambda u: options.monitor.loss(layout.join(profile.table, u, held)),
        )
    inner = replace(options, start=None if start is None else start.node, monitor=monitor)
    try:
        solution = layout._node.train(layout.node_inputs(inputs), profile, inner)
    except Interrupted as interrupt:
        so_far = interrupt.solution
        raise Interrupted(replace(so_far, theta=WithTable(so_far.theta, profile.table))) from interrupt
    return replace(solution, theta=WithTable(solution.theta, profile.table))


def row_blocks(X: Any, rows: int) -> list[slice]:
    """Slices of at most so many rows."""
    n = X.shape[0]
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]
