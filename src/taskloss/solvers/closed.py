"""Ridge regression in closed form, and its leave-one-out predictions at any strength of the penalty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from ..progress import Progress
from .base import Array, Objective, RidgeForm, Solution, Solver, Status
from .descent import LBFGS

_BLOCK_NUMBERS = 1 << 21  # entries of the principal coordinates in a block of rows
_SCORE_NUMBERS = 1 << 23  # the most leave-one-out scores in memory


class ClosedForm(Solver):
    """The minimum of a quadratic risk, in the principal coordinates in which its Hessian is diagonal.

    With second moments m and correlations C with the targets it is A = C / (m + alpha), b = mean: no iterations, and
    every other alpha is a division away. The gradient at the solution bounds the gap that rounding has left (features whose
    mean is far larger than their spread lose digits): where that is above tol, L-BFGS goes on from there.

    Parameters
    ----------
    tol : relative gap that is accepted.
    max_iter : most iterations of L-BFGS, where rounding asks for them.
    """

    name = "closed-form"
    needs = ("value_and_gradient", "ridge_form")

    def __init__(self, tol: float = 1e-8, max_iter: int = 1000):
        self.tol = tol
        self.max_iter = max_iter

    def within(self, tol: float, max_iter: int) -> Self:
        return self.with_params(tol=tol, max_iter=max_iter)

    def form(self, objective: Any) -> RidgeForm:
        """The objective in principal coordinates, or one sentence about what it lacks."""
        self.check(objective)
        form = objective.ridge_form()
        if form is None:
            raise ValueError(
                "The closed-form solver minimises quadratic risks of scores with weights of their own, over features few enough "
                "for a matrix of their second moments: use surrogate='quadratic', or solver='lbfgs'."
            )
        return form

    def minimise(self, objective: Objective, theta: Array, progress: Progress | None = None) -> Solution:
        form = self.form(objective)
        theta = form.minimiser()
        value, gradient = objective.value_and_gradient(theta)
        slopes, sides = form.pullback(gradient)  # the Hessian is at least alpha in A, and the identity in b
        gap = (np.vdot(slopes, slopes) / form.alpha + sides @ sides) / (2 * max(float(value.sum()), 1e-300))
        if not gap <= self.tol:
            return LBFGS(self.tol, self.max_iter).minimise(objective, theta, progress)
        if progress is not None:
            progress.close(Status.CONVERGED)
        return Solution(theta, float(value.sum()), Status.CONVERGED, 0, 1, float(gap), float(gap))


def left_out(form: RidgeForm, alphas: np.ndarray) -> Iterator[np.ndarray]:
    """For each strength of the penalty, the scores of every example by the fit without it, under the same weights.

    With H_ii = w_i (1 + sum_j z_ij^2 / (m_j + alpha)), the one for the intercept, they are t_i - (t_i - v_i) / (1 - H_ii).
    """
    k = form.targets.shape[1]
    free = _free(form, alphas)
    step = max(1, _SCORE_NUMBERS // max(form.targets.size, 1))
    for first in range(0, len(alphas), step):
        group = alphas[first : first + step]
        solved = form.correlations[:, None, :] / (form.moments[:, None] + group)[:, :, None]
        solved = solved.reshape(len(form.moments), len(group) * k)
        scores = np.concatenate([form.coordinates(rows) @ solved for rows in _blocks(form)])
        for i in range(len(group)):
            residuals = form.targets - scores[:, i * k : (i + 1) * k]
            residuals -= form.mean
            residuals /= free[:, first + i, None]
            yield np.subtract(form.targets, residuals, out=residuals)


def _free(form: RidgeForm, alphas: np.ndarray) -> np.ndarray:
    """1 - H_ii, example by strength, as a sum of terms that are not negative.

    H_ii at alpha = 0 is the share of example i that the features explain, and 1 / (m + alpha) falls short of 1 / m by
    alpha / (m (m + alpha)): a difference of numbers near one is taken once, where it does not depend on alpha.
    """
    live = form.moments > 0
    inverse = np.where(live, 1 / np.where(live, form.moments, 1.0), 0.0)
    shrinkage = inverse[:, None] * alphas / (form.moments[:, None] + alphas)
    columns = np.column_stack([inverse, shrinkage])
    sums = np.concatenate([form.coordinates(rows) ** 2 @ columns for rows in _blocks(form)])
    sums *= form.weights[:, None]
    unexplained = np.maximum(1 - sums[:, 0] - (form.weights if form.fit_intercept else 0.0), 0.0)
    free = unexplained[:, None] + sums[:, 1:]
    return np.where(free > 0, free, 1.0)  # zero where one example has all the weight


def _blocks(form: RidgeForm) -> list[slice]:
    n = len(form.weights)
    rows = max(64, _BLOCK_NUMBERS // max(len(form.moments), 1))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]
