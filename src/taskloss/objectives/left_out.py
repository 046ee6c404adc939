"""Scores of examples by the fit without them, approximated from the fit to all.

Without example i, under the same weights, the penalised risk has the gradient g - J_i' w_i s_i and the Hessian H - J_i' w_i C_i J_i at
the parameters of the fit to all, where J_i is the derivative of the example's scores, and s_i and C_i are the gradient and the Hessian of
its surrogate. One Newton step from there leads to the scores

    v_i + (I - w_i G_i C_i)^-1 (w_i G_i s_i - J_i H^-1 g),    G_i = J_i H^-1 J_i',

which are exact for a quadratic risk. At the minimum g is zero; elsewhere its term makes good for a search that ended early.

References
----------
K. Rahnama Rad, A. Maleki. A scalable estimate of the out-of-sample prediction error via approximate leave-one-out, 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .penalised import PenalisedRisk

Map = Callable[[np.ndarray], np.ndarray]

_WORK = 1 << 27  # multiplications for the Hessian's matrix up to which leaving out costs less than fits to folds
_PARAMETERS = 1024  # and its order at the most
_TERMS, _CLOSE = 6, 1e-3  # of the series: at most so many, until one adds no more than that share of all
_EXAMPLES = 5  # for each parameter, the fewest: the Hessian without one of fewer is another


def leaves_out(problem: Any) -> bool:
    """Whether `left_out_scores` approximates what fits without each example would give, at a cost that pays."""
    if not (isinstance(problem, PenalisedRisk) and problem.alpha > 0 and problem.has_matrices):
        return False
    risk, (work, order) = problem.risk, problem.matrix_work
    if problem.n_rows != risk.n_examples or work > _WORK or order > _PARAMETERS:
        return False
    return int(np.count_nonzero(risk.weights)) >= _EXAMPLES * order


def left_out_scores(problem: PenalisedRisk, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The scores of these examples, each by the fit without it; theta is that of the fit to all, in the solver's layout."""
    _, gradient = problem.value_and_gradient(theta)
    inverses = np.linalg.inv(problem.hessian_matrices(theta))
    step = np.einsum("bpq,qb->pb", inverses, gradient)
    inputs, risk = problem.chosen(rows)
    v, moved = (problem.hypothesis.predict(problem.unflatten(t), inputs) for t in (theta, step))
    _, slopes = risk.risk_and_gradient(np.array(v))
    curvature = risk.curvature(v)
    assert curvature is not None
    across = _leverage(problem, inverses, rows, v.shape[1])
    weights, matrices = curvature

    def curved(u: np.ndarray) -> np.ndarray:
        return weights[:, None] * (matrices * u if matrices.ndim == 2 else np.einsum("nab,nb->na", matrices, u))

    # (I - w G C)^-1 as a geometric series, which is short where examples are many beside parameters
    first = across(slopes) - moved
    change = first
    for _ in range(_TERMS):
        last, change = change, first + across(curved(change))
        if np.abs(change - last).sum() <= _CLOSE * np.abs(change).sum():
            break
    return v + change


def _leverage(problem: PenalisedRisk, inverses: np.ndarray, rows: np.ndarray, k: int) -> Map:
    """u -> G_i u_i for each of these examples."""
    z = problem.features_in_coordinates[rows]
    if problem.separable:
        diagonal = np.stack([_squares(z, inverse) for inverse in inverses], axis=1)
        return lambda u: diagonal * u
    inverse, d = inverses[0], z.shape[1]
    if problem.hypothesis.shares_weights:  # J_i = (1 z_i', I)
        along = _squares(z, inverse[:d, :d])
        if not problem.hypothesis.fit_intercept:
            return lambda u: np.broadcast_to((along * u.sum(1))[:, None], u.shape)
        mixed, own = z @ inverse[:d, d:], inverse[d:, d:]

        def across(u: np.ndarray) -> np.ndarray:
            total = u.sum(1)
            return (along * total + (mixed * u).sum(1))[:, None] + mixed * total[:, None] + u @ own

        return across
    blocks = inverse.reshape(d, k, d, k)
    full = np.empty((len(z), k, k))
    for a in range(k):
        for b in range(a, k):
            full[:, a, b] = full[:, b, a] = _squares(z, blocks[:, a, :, b])
    return lambda u: np.einsum("nab,nb->na", full, u)


def _squares(z: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """z_i' M z_i of each row."""
    return np.einsum("nd,nd->n", z @ matrix, z)
