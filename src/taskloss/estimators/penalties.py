"""The strength of the penalty, chosen by held-out task loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._blas import serial_blas
from ..hypotheses.base import Hypothesis
from ..objectives import Path, ScoreRisk, leaves_out, objective
from ..solvers.base import Solver
from ..solvers.closed import left_out
from .validation import Judge

_FOLDS = 3
_ENOUGH = 3000  # held-out examples at most: folds beyond are not used
_DECADES = 9  # strengths tried at most, each a tenth of the one before
_PATIENCE = 2  # strengths in a row without a gain that noise would not make, after which the path stops
_STILL, _CHANGED = (
    0.01,
    0.1,
)  # shares of examples with another loss than a decade before, and than at first, where a path has settled
_WIDTHS = 3  # bound on the number of factors of four by which a kernel is rescaled
_SAMPLE = 500  # examples from which the norm of features is estimated


class Penalties(NamedTuple):
    """The strengths compared, in decreasing order, minus the held-out task loss of each, and the best strength."""

    alphas: np.ndarray
    scores: np.ndarray
    alpha: float


def choose_scale(
    hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk, judge: Judge, solver: Solver
) -> tuple[Hypothesis, Penalties]:
    """The hypothesis with the input scale of least held-out task loss, where it is free to be chosen, and its penalty.

    From the current scale, steps by a factor of four to either side as long as the loss decreases, each with the best
    penalty so far, a tenth of it and ten times it.
    """
    chosen, found = hypothesis, choose_alpha(hypothesis, inputs, risk, judge, solver)
    for factor in (0.25, 4.0):
        for step in range(1, _WIDTHS):
            other = hypothesis.rescaled(factor**step)
            if other is None:
                return chosen, found
            other = other.bind(inputs, risk.row_weights)
            beside = found.alpha * np.array([10.0, 1.0, 0.1])
            tried = choose_alpha(other, inputs, risk, judge, solver, beside)
            if tried.scores.max() <= found.scores.max():
                break
            chosen, found = other, tried
    return chosen, found


def choose_alpha(
    hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk, judge: Judge, solver: Solver, alphas: np.ndarray | None = None
) -> Penalties:
    """The penalty of least held-out task loss; among equal ones the strongest.

    For a quadratic risk, leave-one-out scores have a closed form at any strength. Otherwise a regularisation path goes from strong to
    weak penalties, warm-started, decade by decade until one is worse by more than the standard error of the difference, or two in a row
    gain less than that, once something is learned, the penalty no longer matters or does significant harm. Where examples are many beside
    parameters it is one path of all of them, and one Newton step leaves each example out; elsewhere up to three stratified folds have a path
    each (groups and sequences are kept whole). Weights keep the normalisation of the whole sample, as the best strength falls as 1 / n. All
    folds share the bound hypothesis: a kernel's fit to some of the points lies in the span of all.

    alphas: the strengths to compare; None for the path.
    """
    examples = np.flatnonzero(risk.weights > 0)
    if len(examples) < 2:
        raise ValueError("alpha='auto' holds out examples, and there is one only: give alpha a number.")
    top = _squared_norm(hypothesis, inputs, risk) / 10
    problem = objective(hypothesis, inputs, risk, 1.0)
    exact = problem.ridge_form()
    if exact is not None:
        alphas = top * 10.0 ** -np.arange(0, _DECADES, 0.5) if alphas is None else alphas
        every = np.arange(risk.n_examples)
        means = [_mean(judge.losses(v, every), risk.weights) for v in left_out(exact, alphas)]
        return _best(alphas, np.array(means))
    hypothesis, inputs = hypothesis.tabulated(inputs, np.float32)  # a path is not that accurate
    paths: list[_LeftOut] | list[_Fold]
    if leaves_out(problem):
        paths = [_LeftOut(hypothesis, inputs, risk, judge, solver, examples)]
    else:
        folds = _folds(len(examples), None if judge.strata is None else judge.strata[examples])
        used = range(min(folds.max() + 1, -(-_ENOUGH // (folds == 0).sum())))  # folds that hold _ENOUGH examples
        parts = [(examples[folds != f], examples[folds == f]) for f in used]
        paths = [_Fold(hypothesis, inputs, risk, judge, solver, stay, held) for stay, held in parts]
    found: dict[float, np.ndarray] = {}

    def visit(alpha: float) -> np.ndarray:
        found[alpha] = np.concatenate([path.losses(alpha) for path in paths])
        return found[alpha]

    weights = np.concatenate([path.weights for path in paths])
    with serial_blas():  # held once: to take it costs as much as a step of a small fit
        if alphas is None:
            _walk(visit, top, weights)
        else:
            for alpha in alphas.tolist():
                visit(alpha)
    return _of(found, weights)


def _walk(visit: Callable[[float], np.ndarray], top: float, weights: np.ndarray) -> None:
    """Visit strengths from the top down, decade by decade, as long as there may be something to gain."""
    first = best = before = visit(top)
    vain = 0
    for step in range(1, _DECADES):
        losses = visit(top * 10.0**-step)
        gain, error = _mean(best - losses, weights), _error(losses - best, weights)
        vain, best = (0, losses) if gain > error else (vain + 1, best)
        # Under strong penalties predictions are constant, or no better than that, so that the loss is flat: what is in vain
        # or worse there says nothing, unless it is significantly worse, or the penalty no longer matters.
        learned = _mean(first - best, weights) > 2 * _error(first - best, weights)
        settled = _share(losses != before, weights) < _STILL and _share(losses != first, weights) > _CHANGED
        before = losses
        if (learned and -gain > error) or (vain >= _PATIENCE and (learned or settled or -gain > 2 * error)):
            break


class _LeftOut:
    """The regularisation path of all examples, evaluated on some of them, each by the fit without it."""

    def __init__(
        self, hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk, judge: Judge, solver: Solver, examples: np.ndarray
    ):
        self.path, self.judge = Path(hypothesis, inputs, risk, solver, leaving_out=True), judge
        self.held = examples[np.unique(np.linspace(0, len(examples) - 1, min(_ENOUGH, len(examples))).astype(int))]
        self.weights = risk.weights[self.held]

    def losses(self, alpha: float) -> np.ndarray:
        """The task losses of the held-out examples."""
        return self.judge.losses(self.path.left_out(alpha, self.held), self.held)


class _Fold:
    """The regularisation path of one fold, evaluated on its held-out examples."""

    def __init__(
        self,
        hypothesis: Hypothesis,
        inputs: Any,
        risk: ScoreRisk,
        judge: Judge,
        solver: Solver,
        stay: np.ndarray,
        held: np.ndarray,
    ):
        self.hypothesis, self.judge, self.held = hypothesis, judge, held
        self.path = Path(hypothesis, hypothesis.piece(inputs, risk.rows_of(stay)), risk.take(stay), solver)
        self.inputs = hypothesis.piece(inputs, risk.rows_of(held))
        self.weights = risk.weights[held]

    def losses(self, alpha: float) -> np.ndarray:
        """The task losses of the held-out examples."""
        theta = self.path.at(alpha)
        return self.judge.losses(self.hypothesis.predict(theta, self.inputs), self.held)


def _squared_norm(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> float:
    """The mean squared norm of the features: at a penalty of this size, the fit is nearly constant."""
    examples = np.flatnonzero(risk.weights > 0)
    some = examples[np.unique(np.linspace(0, len(examples) - 1, min(_SAMPLE, len(examples))).astype(int))]
    rows = hypothesis.piece(inputs, risk.rows_of(some))
    return max(float(np.mean(hypothesis.squared_norms(hypothesis.coordinates(rows)))), 1e-300)


def _folds(n: int, strata: np.ndarray | None) -> np.ndarray:
    """The fold of each example, deterministic."""
    order = np.random.default_rng(0).permutation(n)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    folds = np.empty(n, dtype=np.int64)
    folds[order] = np.arange(n) % min(_FOLDS, n)
    return folds


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ values / weights.sum())


def _share(these: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ these / weights.sum())


def _error(values: np.ndarray, weights: np.ndarray) -> float:
    """The standard error of their mean."""
    spread = values - _mean(values, weights)
    return float(np.sqrt((weights**2) @ spread**2) / weights.sum())


def _of(found: dict[float, np.ndarray], weights: np.ndarray) -> Penalties:
    return _best(np.array(list(found)), np.array([_mean(losses, weights) for losses in found.values()]))


def _best(alphas: np.ndarray, losses: np.ndarray) -> Penalties:
    order = np.argsort(-alphas)
    alphas, losses = alphas[order], losses[order]
    return Penalties(alphas, -losses, float(alphas[np.argmin(losses)]))
