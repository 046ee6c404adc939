"""The risk as a function of scores: sum_i w_i S(v_i, phi_i). Above it are tasks, below it are learners.

Three layouts of scores: `rows.Rows`, one row of scores for each example (labels, label sets, ordered labels);
`groups.Groups`, one score for each item, examples of each size a batch (rankings, matchings); `forests.Forests`, node and
edge scores of packed chains and trees (sequences, trees).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ..hypotheses.base import Scores, row_blocks
from ..parallel import SERIAL, Executor

Array = Any


class Curvature(NamedTuple):
    """Weights of some rows of scores, and the second derivatives of S there: (rows, k, k), or their diagonals (rows, k)."""

    weights: np.ndarray
    matrices: np.ndarray

    @property
    def traces(self) -> np.ndarray:
        c = self.matrices
        return np.einsum("nii->n", c) if c.ndim == 3 else c.sum(1)


class NewtonStep(NamedTuple):
    """The risk at some scores, and its gradient and curvature there, in single precision, with rows that weigh one on average."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray


class ScoreRisk(ABC):
    """sum_i w_i S(v_i, phi_i) as a function of the scores v alone; the weights of the whole sum to one.

    A row is a row of scores and of the inputs they are made of; an example owns one row or several.
    """

    weights: np.ndarray  # of the examples; those of a part keep the whole's normalisation
    table: np.ndarray | None = None  # of constants that are fitted beside the scores, where there is one

    # -- shape -------------------------------------------------------------------------------------------------------

    @property
    def n_examples(self) -> int:
        return len(self.weights)

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows of scores the examples own."""

    @property
    @abstractmethod
    def n_scores(self) -> int:
        """How many scores a row has."""

    @property
    def separable(self) -> bool:
        """Whether each column of scores is a problem of its own."""
        return False

    @property
    def convex(self) -> bool:
        return True

    @property
    def smooth(self) -> bool:
        """Whether second derivatives exist."""
        return True

    @property
    def coupled(self) -> bool:
        """Whether the Hessian in the scores of an example has entries off its diagonal, so that Newton steps on each score alone go too far."""
        return not self.separable

    @property
    def ordered(self) -> bool:
        """Whether the risk is finite for ordered scores only."""
        return False

    @property
    def cuts_freely(self) -> bool:
        """Whether small blocks of examples cost no more than large ones."""
        return False

    @property
    def curved(self) -> bool:
        """Whether `curvature`, of which preconditioners are made, is known."""
        return False

    @property
    def exactly_curved(self) -> bool:
        """Whether `curvature` is the whole Hessian in the scores, and no estimate of it."""
        return False

    @property
    def stiff(self) -> bool:
        """Whether curvatures differ by orders of magnitude, as near a barrier, so that Newton's method pays for larger problems, too."""
        return False

    @property
    def smoothness(self) -> float | None:
        """A Lipschitz constant of the gradient of an example's S in its scores; None where there is none."""
        return None

    @property
    def work(self) -> float:
        """Multiplications of one evaluation at given scores; zero where it costs less than the scores."""
        return 0.0

    @property
    @abstractmethod
    def row_weights(self) -> np.ndarray:
        """The weight of each row's example."""

    @property
    def row_codes(self) -> np.ndarray | None:
        """The label of each row as a code below n_scores, -1 where it is not known; None where rows have no such label."""
        return None

    def kept_ordered(self, one_direction: bool) -> ScoreRisk:
        """A risk whose minimum has ordered scores, where only those are in its domain."""
        return self

    def check_single_steps(self) -> None:
        """Refuse steps on single examples, in one sentence, where they would leave the risk's domain."""
        return None

    @abstractmethod
    def start(self) -> np.ndarray:
        """The scores of the best constant prediction."""

    def best_constant(self) -> np.ndarray:
        """The scores of the best constant prediction, where `start` is only near it."""
        return self.start()

    # -- examples that lie in several places ------------------------------------------------------------------------

    def moment_sum(self) -> Any:
        """sum_i w_i phi_i, of which `start` is made; None where it is made of no data."""
        return None

    def standing_for(self, moment_sum: Any) -> ScoreRisk:
        """This example as one that starts as a whole of these moments would."""
        return self

    def in_form_of(self, other: ScoreRisk) -> ScoreRisk:
        """The same risk, kept ordered as another one of its kind is."""
        return self

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> ScoreRisk:
        """The risk of the examples of several parts in turn."""
        raise NotImplementedError

    def penalised(self, hypothesis: Any, inputs: Any, alpha: float) -> Any:
        """The function of theta that solvers see."""
        from .penalised import PenalisedRisk

        return PenalisedRisk(hypothesis, inputs, self, alpha)

    # -- parts -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def take(self, examples: Any, columns: Any = None) -> Self:
        """The risk of some examples (a slice or numbers), and for separable risks of some columns; views for slices."""

    @abstractmethod
    def rows_of(self, examples: Any) -> Any:
        """The rows that some examples own."""

    def spread(self, rows: int) -> Any:
        """Examples with at least so many rows, evenly spread, where some of them can stand for all; else all."""
        return slice(None)

    def example_sums(self, rows: np.ndarray) -> np.ndarray:
        """One number for each row, added up for each example."""
        return rows

    def example_norms(self, v: Scores) -> np.ndarray:
        """The l2 norm of each example's scores."""
        return np.sqrt(self.example_sums((v**2).sum(axis=1)))

    def zeros(self) -> Scores:
        """Scores of zero."""
        return np.zeros((self.n_rows, self.n_scores))

    def slopes(self) -> np.ndarray:
        """The l2 norm of each example's gradient at the score zero."""
        return self.example_norms(self.risk_and_gradient(self.zeros())[1])

    def cut(self, rows: int) -> list[slice]:
        """Slices of examples with about so many rows each; an example is never cut."""
        return row_blocks(self.weights[:, None], max(1, rows * self.n_examples // max(self.n_rows, 1)))

    def arranged(self, order: str) -> Self:
        """The same risk with targets in memory as the scores will be: "C" by rows, "F" by columns."""
        return self

    def squared_distance_targets(self) -> np.ndarray | None:
        """t, where the risk is sum_i w_i |v_i - t_i|^2 / 2; None where it is no such sum."""
        return None

    # -- values ------------------------------------------------------------------------------------------------------

    def value_and_gradient(self, v: Scores, out: Any = None) -> tuple[np.ndarray, Scores]:
        """One value for each independent problem, and the gradient; with out=v the gradient takes the scores' place."""
        value, gradient = self.risk_and_gradient(v, out)
        return value + self.constant / len(value), gradient

    @abstractmethod
    def risk_and_gradient(self, v: Scores, out: Any = None, executor: Executor = SERIAL) -> tuple[np.ndarray, Scores]:
        """The value less `constant`, which no score changes, and the gradient: what a solver loops on."""

    @cached_property
    def constant(self) -> float:
        """sum_i w_i h(phi_i)."""
        return 0.0

    @abstractmethod
    def hessian(self, v: Scores) -> Callable[[Scores], Scores]:
        """The linear map u -> (second derivative) u; positive semidefinite, also where the risk is not convex."""

    def expansion(self, v: Scores) -> tuple[np.ndarray, Scores, Callable[[], Curvature | None]]:
        """`risk_and_gradient`, and what makes `curvature` at the same scores."""
        value, gradient = self.risk_and_gradient(v)
        return value, gradient, lambda: self.curvature(v)

    def curvature(self, v: Scores) -> Curvature | None:
        """Second derivatives row by row, for preconditioners; None where a layout has none that pays."""
        return None

    def diagonal(self, v: Scores, gradient: Scores) -> np.ndarray:
        """The diagonal of the second derivative in the rows' scores, at scores whose gradient is known."""
        raise NotImplementedError

    @abstractmethod
    def shifted(self, offset: Scores) -> Self:
        """The same risk around given scores, v -> risk(offset + v), for learners that add up."""

    # -- learners that train themselves ------------------------------------------------------------------------------

    def fitted(self, hypothesis: Any, inputs: Any, options: Any) -> Any:
        """The parameters of least penalised risk of the hypothesis from whose scores a learner of these inputs goes on."""
        from .minimise import fit_start

        return fit_start(hypothesis, inputs, self, options)

    def steps(self, factor: float = 1.0) -> Callable[[Array], NewtonStep]:
        """The function scores -> value, gradient and `factor` times the diagonal curvature, for one Newton step a round."""
        from .steps import Steps

        return Steps(self, factor)

    def profiled(self, layout: Any, options: Any, table: np.ndarray | None = None) -> Any:
        """The least risk over a table of constants, as a function of the scores that the table is joined to."""
        from .profiled import Profiled

        return Profiled(self, layout, options, table)

    def at_table(self) -> ScoreRisk:
        """The same risk with the table held where it is, for learners that take many small steps between its fits."""
        return self
