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

from typing import Any

import numpy as np

from .penalised import PenalisedRisk

_WORK = 1 << 27  # multiplications for the Hessian's matrix up to which leaving out costs less than fits to folds
_PARAMETERS = 1024  # and its order at the most
_EXAMPLES = 5  # for each parameter, the fewest: the Hessian without one of fewer is another


def leaves_out(problem: Any) -> bool:
    """Whether `left_out_scores` approximates what fits without each example would give, at a cost that pays."""
    if not (isinstance(problem, PenalisedRisk) and problem.alpha > 0 and problem.has_matrices):
        return False
    work, order = problem.matrix_work
    enough = problem.n_rows == problem.risk.n_examples >= _EXAMPLES * order
    return enough and work <= _WORK and order <= _PARAMETERS


def left_out_scores(problem: PenalisedRisk, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The scores of these examples, each by the fit without it; theta is that of the fit to all, in the solver's layout."""
    _, gradient = problem.value_and_gradient(theta)
    inverses = np.linalg.inv(problem.hessian_matrices(theta))
    step = np.einsum("bpq,qb->pb", inverses, gradient)
    inputs, risk = problem.chosen(rows)
    v = problem.hypothesis.predict(problem.unflatten(theta), inputs)
    moved = problem.hypothesis.predict(problem.unflatten(step), inputs)
    curvature = risk.curvature(v)
    assert curvature is not None
    weights, matrices = curvature
    _, slopes = risk.risk_and_gradient(np.array(v))
    if problem.separable:
        z = problem.features_in_coordinates[rows]
        leverage = np.stack([((z @ inverse) * z).sum(1) for inverse in inverses], axis=1)
        return v + (leverage * slopes - moved) / _free(1 - weights[:, None] * leverage * matrices)
    leverage = _leverage(problem, inverses[0], rows, v.shape[1])
    bound = leverage @ matrices if matrices.ndim == 3 else leverage * matrices[:, None]
    free = np.eye(v.shape[1]) - weights[:, None, None] * bound
    change = np.einsum("nab,nb->na", leverage, slopes) - moved
    return v + np.linalg.solve(free, change[:, :, None])[:, :, 0]


def _leverage(problem: PenalisedRisk, inverse: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    """G_i of each of these examples, (rows, k, k)."""
    z = problem.features_in_coordinates[rows]
    if problem.hypothesis.shares_weights:  # J_i = (1 z_i', I)
        d = z.shape[1]
        along = ((z @ inverse[:d, :d]) * z).sum(1)[:, None, None]
        if not problem.hypothesis.fit_intercept:
            return np.broadcast_to(along, (len(z), k, k))
        across = z @ inverse[:d, d:]
        return along + across[:, :, None] + across[:, None] + inverse[d:, d:]
    blocks = inverse.reshape(z.shape[1], k, z.shape[1], k)
    out = np.empty((len(z), k, k))
    for a in range(k):
        for b in range(a, k):
            out[:, a, b] = out[:, b, a] = ((z @ blocks[:, a, :, b]) * z).sum(1)
    return out


def _free(share: np.ndarray) -> np.ndarray:
    """1 - leverage, away from zero: an example that alone decides its own score."""
    return np.maximum(share, 1e-12)
