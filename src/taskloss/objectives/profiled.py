"""The least risk over a table of constants, as a function of the scores that the table is joined to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..parallel import SERIAL, Executor
from ..solvers.base import Objective
from ..solvers.descent import LBFGS, Descent
from .scores import Array, NewtonStep, ScoreRisk
from .steps import Steps

_SLOW = 3  # iterations of a fit from which the table's preconditioner is worth making anew


class AtTable(ScoreRisk):
    """u -> risk(join(table, u)) for a fixed table: what the nodes' learner sees.

    layout: a hypothesis that joins node scores and a table into scores (`Thresholds`, `Structured`).
    """

    table: np.ndarray

    def __init__(self, risk: ScoreRisk, layout: Any, table: np.ndarray):
        self.risk, self.layout, self.table = risk, layout, table
        self.weights = risk.weights

    @property
    def n_rows(self) -> int:
        return self.risk.n_rows

    @property
    def n_scores(self) -> int:
        return 1 if self.layout.shares_weights else self.risk.n_scores

    @property
    def smooth(self) -> bool:
        return self.risk.smooth

    @property
    def coupled(self) -> bool:
        return self.risk.coupled and not self.layout.shares_weights

    @property
    def cuts_freely(self) -> bool:
        return self.risk.cuts_freely

    @property
    def work(self) -> float:
        return max(self.risk.work, float(16 * self.risk.n_rows * self.risk.n_scores))

    @property
    def row_weights(self) -> np.ndarray:
        return self.risk.row_weights

    @property
    def constant(self) -> float:
        return self.risk.constant

    def start(self) -> np.ndarray:
        return np.zeros(self.n_scores)  # the table has the constants

    def rows_of(self, examples: Any) -> Any:
        return self.risk.rows_of(examples)

    def cut(self, rows: int) -> list[slice]:
        return self.risk.cut(rows)

    def take(self, examples: Any, columns: Any = None) -> AtTable:
        return AtTable(self.risk.take(examples), self.layout, self.table)

    def shifted(self, offset: np.ndarray) -> AtTable:
        return AtTable(self.risk.shifted(self.layout.lifted(offset, self.risk)), self.layout, self.table)

    def scores(self, u: Array) -> Any:
        return self.layout.join(self.table, u, self.risk)

    def risk_and_gradient(self, u: Array, out: Any = None, executor: Executor = SERIAL) -> tuple[np.ndarray, Array]:
        v = self.scores(u)
        value, dv = self.risk.risk_and_gradient(v, out=v, executor=executor)
        return np.atleast_1d(value.sum()), self.layout.split(dv, self.risk)[0]

    def hessian(self, u: Array) -> Callable[[Array], Array]:
        product = self.risk.hessian(self.scores(u))
        return lambda d: self.layout.split(product(self.layout.lifted(d, self.risk)), self.risk)[0]

    def diagonal(self, u: Array, gradient: Array) -> np.ndarray:
        v = self.scores(u)
        if self.layout.shares_weights:  # one score for all: its curvature is the sum over all pairs
            return np.array(self.risk.hessian(v)(np.ones_like(v)).sum(axis=1, keepdims=True))
        return self.risk.diagonal(v, None)


class Profiled(AtTable):
    """u -> min over tables of risk(join(table, u)) + alpha/2 |table|^2, over the rows of the table that are penalised.

    At the best table the derivative in u is that at the table held fixed, by the envelope theorem. The curvature is that
    at the fixed table too, which is at least the profile's own. `table` is the best one at the scores seen last; each fit
    starts from it.
    """

    def __init__(self, risk: ScoreRisk, layout: Any, options: Any, table: np.ndarray | None = None):
        super().__init__(risk, layout, np.array(layout.table_start(risk.start()) if table is None else table))
        self.options = options
        self.solver = options.solver if isinstance(options.solver, Descent) else LBFGS()

    def take(self, examples: Any, columns: Any = None) -> Profiled:
        return self._with(self.risk.take(examples))

    def shifted(self, offset: np.ndarray) -> Profiled:
        return self._with(self.risk.shifted(self.layout.lifted(offset, self.risk)))

    def _with(self, risk: ScoreRisk) -> Profiled:
        """Another risk on the same table, whichever of the two fits it."""
        other = Profiled(risk, self.layout, self.options)
        other.table = self.table
        return other

    @cached_property
    def _problem(self) -> _TableProblem:
        return _TableProblem(self)

    def fit(self, u: Array) -> None:
        """The best table beside these scores."""
        self._problem.nodes = u
        solution = self.solver.minimise(self._problem, self.table.reshape(-1, 1))
        self.table[:] = solution.theta.reshape(self.table.shape)  # in place: parts of this risk share it
        if solution.iterations > _SLOW:
            self._problem.inverse = None

    def risk_and_gradient(self, u: Array, out: Any = None, executor: Executor = SERIAL) -> tuple[np.ndarray, Array]:
        self.fit(u)
        value, gradient = super().risk_and_gradient(u, out, executor)
        return value + self._problem.penalty(self.table), gradient

    def fitted(self, hypothesis: Any, inputs: Any, options: Any) -> Any:
        """It is fitted together with a table of its own, from which this one goes on."""
        if hypothesis.shares_weights:
            raise ValueError(
                f"start={hypothesis!r} has a table of its own, and so have the scores that go on from it: pass its node alone."
            )
        layout = self.layout.with_params(node=hypothesis)
        theta = self.risk.fitted(layout, layout.inputs_around(inputs, self.risk), self.options)
        node, self.table[:] = layout.parted(theta, self.table.shape)
        return node

    def at_table(self) -> AtTable:
        return AtTable(self.risk, self.layout, self.table)

    def steps(self, factor: float = 1.0) -> Callable[[Array], NewtonStep]:
        at_table = Steps(self.at_table(), factor)

        def step(u: Array) -> NewtonStep:
            self.fit(u)
            found = at_table(u)
            return found._replace(value=found.value + self._problem.penalty(self.table))

        return step


class _TableProblem(Objective):
    """The penalised risk as a function of the table, beside fixed scores of the nodes: a solver's objective."""

    refresh = 1 << 30  # one preconditioner for a fit, and for the next ones as long as fits are short
    memory = 10

    def __init__(self, profile: Profiled):
        self.layout, self.shape, self.alpha = profile.layout, profile.table.shape, profile.options.alpha
        self.free, self.penalised = profile.layout.table_masks(profile.table)
        self.constant = profile.constant
        cut = Steps(profile.at_table())
        self.parts = [(rows, part.risk) for rows, part in cut.parts if isinstance(part, AtTable)]
        self.executor = cut.executor
        self.inverse: Callable[[Array], Array] | None = None
        self.nodes: Any = None

    def penalty(self, table: np.ndarray) -> float:
        return self.alpha / 2 * float((self.penalised * table**2).sum())

    def _sum(self, theta: Array, work: Callable[[ScoreRisk, Any, Executor], Any]) -> Any:
        """The sum over blocks of work(risk, scores, executor)."""
        inner = self.executor if len(self.parts) == 1 else self.executor.inner

        def one(part: tuple[Any, ScoreRisk]) -> Any:
            rows, risk = part
            nodes = np.asarray(self.nodes[rows], dtype=float)
            return work(risk, self.layout.join(theta.reshape(self.shape), nodes, risk), inner)

        return self.executor.sum(one, self.parts)

    def value_and_gradient(self, theta: Array) -> tuple[np.ndarray, Array]:
        def work(risk: ScoreRisk, v: Any, executor: Executor) -> tuple[float, np.ndarray]:
            value, dv = risk.risk_and_gradient(v, out=v, executor=executor)
            return float(value.sum()), self.layout.split(dv, risk)[1]

        table = theta.reshape(self.shape)
        value, gradient = self._sum(theta, work)
        gradient = self.free * (gradient + self.alpha * self.penalised * table)
        return np.atleast_1d(value + self.constant + self.penalty(table)), gradient.reshape(-1, 1)

    def hessian(self, theta: Array) -> Callable[[Array], Array]:
        """By central differences of the gradient: a table has few entries, and a fit from the last table few steps."""

        def product(d: Array) -> Array:
            step = 1e-5 / max(float(np.abs(d).max()), 1e-300)
            up, down = (self.value_and_gradient(theta + s * d)[1] for s in (step, -step))
            return (up - down) / (2 * step)

        return product

    def preconditioner(self, theta: Array, evaluations: int = 0) -> Callable[[Array], Array]:
        if self.inverse is None:
            curvature = self._sum(theta, lambda risk, v, executor: self.layout.table_curvature(risk, v))
            penalty = self.alpha * np.broadcast_to(self.penalised, self.shape).ravel()
            if curvature.ndim == 1:
                scale = 1 / np.maximum(curvature + penalty, 1e-12)[:, None]
                self.inverse = lambda g: scale * g
            else:
                inverse = np.linalg.pinv(curvature + np.diag(penalty), hermitian=True, rcond=1e-10)
                self.inverse = lambda g: inverse @ g
        return self.inverse
