"""minimise(hypothesis, inputs, risk, options) -> Solution: the one verb of fitting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._blas import serial_blas
from ..checkpoints import Checkpoint, Watched
from ..hypotheses.base import Hypothesis, Inputs, Scores
from ..progress import Progress, warn
from ..solvers.base import Interrupted, Solution, Solver
from .left_out import left_out_scores
from .scores import ScoreRisk

Array = Any


@dataclass(frozen=True)
class Monitor:
    """Held-out inputs, and their task loss as a function of their scores: made by the estimator, for learners that stop early."""

    inputs: Inputs
    loss: Callable[[Scores], float]


@dataclass(frozen=True)
class Options:
    """How to minimise: the strength of the penalty, the solver, parameters to start from, where to show progress, what to watch, and where to keep the best parameters."""

    alpha: float
    solver: Solver
    start: Array | None = None
    progress: Progress | None = None
    monitor: Monitor | None = None
    checkpoint: Checkpoint | None = None


def objective(hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, alpha: float) -> Any:
    """The function of theta that `minimise` minimises; the hypothesis is bound to the inputs."""
    # Without a penalty the fit is maximum likelihood, which a barrier would bias: it keeps the gap around each label open itself.
    return risk.kept_ordered(hypothesis.shares_weights or alpha == 0).penalised(hypothesis, inputs, alpha)


class Path:
    """Minimisers under penalties that change little by little, each found from the last one; the data are cut once.

    leaving_out: whether `left_out` will be asked for, of a problem of which `leaves_out` is true.
    """

    def __init__(
        self, hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, solver: Solver, leaving_out: bool = False
    ):
        self.problem = objective(hypothesis, inputs, risk, 1.0)
        self.problem.path_moments = []
        if leaving_out:
            self.problem.want_matrices()
        self.solver, self.theta = solver, self.problem.start

    def at(self, alpha: float) -> Array:
        """The parameters of least penalised risk at this strength."""
        self._minimise(alpha)
        return self.theta

    def left_out(self, alpha: float, rows: np.ndarray) -> Scores:
        """The scores of these examples at this strength, each by the fit without it."""
        return left_out_scores(*self._minimise(alpha), rows)

    def _minimise(self, alpha: float) -> tuple[Any, Array]:
        """The problem at this strength, and its solution in the solver's layout."""
        problem = self.problem.with_alpha(alpha)
        with serial_blas():
            solution = self.solver.minimise(problem, problem.flatten(self.theta), None)
        self.theta = problem.unflatten(solution.theta)
        return problem, solution.theta


def fit_start(hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, options: Options) -> Any:
    """Parameters of the hypothesis from whose scores a learner goes on; the inputs, and those of the monitor, are as that learner reads them."""
    monitor = options.monitor
    if monitor is not None:
        monitor = replace(monitor, inputs=hypothesis.reads(monitor.inputs))
    try:
        own = replace(options, start=None, monitor=monitor)
        solution = minimise(hypothesis, hypothesis.reads(inputs), risk, own)
    except Interrupted as interrupt:
        raise KeyboardInterrupt("Interrupted while the start was fitted: there are no parameters yet.") from interrupt
    if not solution.converged:
        warn(f"{solution.status.value} That was the fit of start={hypothesis!r}.", ConvergenceWarning, stacklevel=3)
    return solution.theta


def minimise(hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, options: Options) -> Solution:
    """The parameters of least penalised risk, in the hypothesis's own shape; the hypothesis is bound to the inputs."""
    if hypothesis.trained:
        if options.checkpoint is not None:
            raise ValueError(
                f"checkpoint keeps the parameters of a solver, and {hypothesis!r} trains itself: leave it out."
            )
        some = np.flatnonzero(risk.weights > 0)
        if len(some) < risk.n_examples:  # a learner may count examples, and those without weight do not count
            inputs, risk = hypothesis.piece(inputs, risk.rows_of(some)), risk.take(some)
        return hypothesis.train(inputs, risk.kept_ordered(hypothesis.shares_weights), options)
    problem = objective(hypothesis, inputs, risk, options.alpha)
    last = options.start
    start = problem.start if last is None or last.shape != problem.start.shape else last
    if options.checkpoint is not None:
        kept = options.checkpoint.read(problem.start.shape)
        start = start if kept is None else kept
        problem = Watched(problem, options.checkpoint)
    try:
        with (
            serial_blas()
        ):  # large passes have threads of their own, and elsewhere BLAS waits longer for its threads than they help
            solution = options.solver.minimise(problem, problem.flatten(start), options.progress)
    except Interrupted as interrupt:
        so_far = interrupt.solution
        raise Interrupted(replace(so_far, theta=problem.unflatten(so_far.theta))) from interrupt
    except ConnectionError as error:
        if options.checkpoint is None:
            raise
        where = f"The best parameters so far are in {options.checkpoint.path!r}: with the same checkpoint=... the next fit goes on from there."
        raise type(error)(f"{error} {where}") from error
    finally:
        if options.checkpoint is not None:
            options.checkpoint.write()
    return replace(solution, theta=problem.unflatten(solution.theta))
