"""Laws of hypotheses within the objective: the risk of a surrogate at a hypothesis's scores, as a function of theta."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hypotheses.base import Hypothesis
from ..hypotheses.structured import NodeEdgeScores
from ..objectives import PenalisedRisk, Rows, ScoreRisk
from ..parallel import Executor
from ..surrogates.maxentropy import Multinomial
from ..surrogates.quadratic import Quadratic
from .running import Law, applies, close, holds, run

ALPHA = 0.05


def somewhere(objective: PenalisedRisk, rng: Any, scale: float = 0.02) -> np.ndarray:
    """Random parameters near the start, where ordered scores are in order at every x."""
    return objective.flatten(objective.start + scale * rng.normal(size=objective.start.shape))


def derivatives(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> None:
    """The value equals its definition; gradient and Hessian products equal finite differences."""
    f = PenalisedRisk(hypothesis, inputs, risk, ALPHA)
    rng = np.random.default_rng(4)
    theta = somewhere(f, rng)
    value, gradient = f.value_and_gradient(theta)
    full = f.unflatten(theta)
    by_hand = risk.value_and_gradient(hypothesis.predict(full, inputs))[0].sum()
    by_hand += ALPHA / 2 * (f.penalised * full**2).sum()
    close(value.sum(), by_hand, "the value", rtol=1e-10)
    holds(value.sum() >= 0, "the value is negative")
    direction = rng.normal(size=theta.shape)
    if not hypothesis.fit_intercept:
        direction = f.flatten(f.penalised * f.unflatten(direction))
    step = 1e-5
    up, down = (f.value_and_gradient(theta + s * direction) for s in (step, -step))
    slopes = np.einsum("pb,pb->b", gradient, direction)
    close(slopes, (up[0] - down[0]) / (2 * step), "the slope by the gradient", rtol=1e-5, atol=1e-8)
    product = f.hessian(theta)(direction)
    # a surrogate given by h alone computes second derivatives by finite differences
    if (
        not isinstance(risk, Rows) or risk.surrogate.convex
    ):  # else the Hessian has the absolute values of its eigenvalues
        close(product, (up[1] - down[1]) / (2 * step), "the Hessian's product", atol=2e-4 * np.abs(product).max())
    holds(np.einsum("pb,pb->b", direction, product) >= -1e-10, "the Hessian is not positive semidefinite")


def threads(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> None:
    """Threads and compiled passes agree with the plain pass, and are bit-equal at a given number of threads."""
    plain = PenalisedRisk(hypothesis, inputs, risk, ALPHA)
    theta = somewhere(plain, np.random.default_rng(5))
    value, gradient = plain.value_and_gradient(theta)
    for executor in (Executor(1, compiled=True), Executor(3, compiled=True)):
        other = PenalisedRisk(hypothesis, inputs, risk, ALPHA, executor)
        found = other.value_and_gradient(theta)
        close(found[0], value, "the value on threads", rtol=1e-11, atol=0.0)
        close(found[1], gradient, "the gradient on threads", atol=1e-11)
        again = PenalisedRisk(hypothesis, inputs, risk, ALPHA, executor).value_and_gradient(theta)
        holds(np.array_equal(found[1], again[1]), "two passes with the same number of threads are not bit-equal")
        close(other.hessian(theta)(theta), plain.hessian(theta)(theta), "the Hessian on threads", atol=1e-10)


def parts(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> None:
    """Risks of parts of the data sum to the whole, in any order of the examples."""
    f = PenalisedRisk(hypothesis, inputs, risk, ALPHA)
    theta = f.unflatten(somewhere(f, np.random.default_rng(6)))
    whole = risk.value_and_gradient(hypothesis.predict(theta, inputs))[0]
    cuts = risk.cut(max(1, risk.n_rows // 3))
    holds(len(cuts) > 1, "the risk cannot be cut")
    holds([c.start for c in cuts[1:]] == [c.stop for c in cuts[:-1]], "the cuts leave a gap")
    order = np.random.default_rng(7).permutation(risk.n_examples)
    for pieces in (cuts, [order[:3], order[3:]]):
        total: Any = 0.0
        for some in pieces:
            part, piece = risk.take(some), hypothesis.piece(inputs, risk.rows_of(some))
            holds(part.n_rows == piece.shape[0], "a piece of the inputs has other rows than that of the risk")
            total = total + part.value_and_gradient(hypothesis.predict(theta, piece))[0]
        close(total, whole, "the sum over parts", rtol=1e-10)


def shifts(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> None:
    """The risk shifted by given scores, and the gradient computed in place, equal the plain ones."""
    f = PenalisedRisk(hypothesis, inputs, risk, ALPHA)
    theta = f.unflatten(somewhere(f, np.random.default_rng(8)))
    v = hypothesis.predict(theta, inputs)
    value, gradient = risk.value_and_gradient(v)
    moved_value, moved_gradient = risk.shifted(v * 0.25).value_and_gradient(v * 0.75)
    close(moved_value, value, "the shifted value", rtol=1e-10)
    _same(moved_gradient, gradient, "the shifted gradient")
    _same(risk.value_and_gradient(v, out=v)[1], gradient, "the gradient in place")


def _same(a: Any, b: Any, what: str) -> None:
    if isinstance(a, NodeEdgeScores):
        close(a.nodes, b.nodes, what, atol=1e-10)
        close(a.edges, b.edges, what, atol=1e-10)
    else:
        close(a, b, what, atol=1e-10)


def preconditioning(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> None:
    """The preconditioner is symmetric and positive definite."""
    f = PenalisedRisk(hypothesis, inputs, risk, ALPHA)
    theta = somewhere(f, np.random.default_rng(9))
    apply = f.preconditioner(theta)
    a, b = np.random.default_rng(10).normal(size=(2, *theta.shape))
    close((a * apply(b)).sum(), (b * apply(a)).sum(), "<a, P b>", rtol=1e-6)
    holds((a * apply(a)).sum() > 0, "<a, P a> is not positive")


def columns(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> None:
    """Where columns of theta are problems of their own, some of them alone have the same values, gradients and Hessian products."""
    for executor in (None, Executor(2, compiled=True)):
        f = PenalisedRisk(hypothesis, inputs, risk, ALPHA, executor)
        theta = somewhere(f, np.random.default_rng(11))
        value, gradient = f.value_and_gradient(theta)
        some = np.arange(theta.shape[1])[::-2]
        part = f.columns(some)
        holds((part is None) == (not f.separable), "columns cannot be had alone")
        if part is None:
            return
        found = part.value_and_gradient(np.ascontiguousarray(theta[:, some]))
        close(found[0], value[some], "the value of some columns", rtol=1e-10)
        close(found[1], gradient[:, some], "the gradient of some columns", atol=1e-11)
        of_some = part.hessian(theta[:, some])(theta[:, some])
        close(of_some, f.hessian(theta)(theta)[:, some], "the Hessian of some columns", atol=1e-10)
        close(f.value_and_gradient(theta)[0], value, "the value after that", rtol=1e-12)


WAIST: dict[str, Law] = {
    "columns": columns,
    "derivatives": derivatives,
    "threads": threads,
    "parts": parts,
    "shifts": shifts,
    "preconditioning": preconditioning,
}


def _within_rows(name: str) -> Law:
    """A law of WAIST for a hypothesis alone, with two surrogates on rows."""

    def law(hypothesis: Hypothesis, X: np.ndarray) -> None:
        applies(not hypothesis.trained, "it is trained as a whole, and has no objective in theta")
        rng = np.random.default_rng(0)
        weights, codes = rng.uniform(0.5, 2, len(X)), np.arange(len(X)) % 3
        for surrogate in (Multinomial(3), Quadratic()):
            bound = hypothesis.bind(X, weights)
            risk = Rows(surrogate, np.eye(3)[codes], weights).kept_ordered(bound.shares_weights)
            WAIST[name](bound, X, risk)

    law.__doc__ = WAIST[name].__doc__
    return law


def rows(hypothesis: Hypothesis, X: np.ndarray) -> None:
    """The scores of an example do not depend on the other examples."""
    applies(not hypothesis.trained, "it is trained as a whole")
    weights, codes = np.ones(len(X)), np.arange(len(X)) % 3
    bound = hypothesis.bind(X, weights)
    risk = Rows(Multinomial(3), np.eye(3)[codes], weights).kept_ordered(bound.shares_weights)
    f = PenalisedRisk(bound, X, risk, ALPHA)
    theta = f.unflatten(somewhere(f, np.random.default_rng(1), 0.3))
    whole = np.asarray(bound.predict(theta, X))
    for some in (slice(0, 1), slice(2, 7), np.array([5, 1, 8])):
        close(bound.predict(theta, bound.piece(X, some)), whole[some], "the scores of some of the examples", atol=1e-10)


LAWS: dict[str, Law] = {**{name: _within_rows(name) for name in WAIST}, "rows": rows}


def check_hypothesis(hypothesis: Any, X: Any = None) -> dict[str, str]:
    """Check a user-defined hypothesis against the laws of the objective; results as those of `check_loss`.

    Parameters
    ----------
    hypothesis : a hypothesis, not bound to data, whose inputs are rows of numbers.
    X : rows to check it on, at least nine; 23 random ones of four features where left out.
    """
    rows_of = np.random.default_rng(2).normal(size=(23, 4)) if X is None else np.asarray(X, dtype=float)
    if rows_of.ndim != 2 or len(rows_of) < 9:
        raise ValueError(f"X must be at least nine rows of numbers, got shape {rows_of.shape}.")
    return run(Hypothesis.resolve(hypothesis), LAWS, X=rows_of)
