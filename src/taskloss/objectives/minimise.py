"""minimise(hypothesis, inputs, risk, options) -> Solution: the one verb of fitting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .._blas import serial_blas
from ..hypotheses.base import Hypothesis, Inputs
from ..progress import Progress
from ..solvers.base import Interrupted, Solution, Solver
from .penalised import PenalisedRisk
from .scores import ScoreRisk

Array = Any


@dataclass(frozen=True)
class Options:
    """How to minimise: the strength of the penalty, the solver, parameters to start from, and where to show progress."""

    alpha: float
    solver: Solver
    start: Array | None = None
    progress: Progress | None = None


def objective(hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, alpha: float) -> PenalisedRisk:
    """The function of theta that `minimise` minimises; the hypothesis is bound to the inputs."""
    return PenalisedRisk(hypothesis, inputs, risk.kept_ordered(hypothesis.shares_weights), alpha)


def minimise(hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, options: Options) -> Solution:
    """The parameters of least penalised risk, in the hypothesis's own shape; the hypothesis is bound to the inputs."""
    if hypothesis.trained:
        return hypothesis.train(inputs, risk.kept_ordered(hypothesis.shares_weights), options)
    problem = objective(hypothesis, inputs, risk, options.alpha)
    last = options.start
    start = problem.start if last is None or last.shape != problem.start.shape else last
    try:
        with serial_blas(problem.executor.threads > 1):
            solution = options.solver.minimise(problem, problem.flatten(start), options.progress)
    except Interrupted as interrupt:
        so_far = interrupt.solution
        raise Interrupted(replace(so_far, theta=problem.unflatten(so_far.theta))) from interrupt
    return replace(solution, theta=problem.unflatten(solution.theta))
