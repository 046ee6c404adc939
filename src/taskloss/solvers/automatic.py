"""The solver that suits an objective."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dposv

from .base import Array, Objective
from .descent import LBFGS, _Directions, _Search


class _MatrixDirections(_Directions):
    """Newton's directions, each from the Hessian's matrix, so that the slope along one tells the gap that is left."""

    newton = exact = True

    def __init__(self, objective: Objective):
        self.objective = objective

    def __call__(self, search: _Search) -> Array:
        hessians = self.objective.hessian_matrices(search.theta)
        if len(hessians) == 1:  # in a fifth of the time that NumPy takes for a small one
            step, failed = dposv(hessians[0].T, -search.gradient)[1:]
            if not failed:
                return step
        return -np.linalg.solve(hessians, search.gradient.T[:, :, None])[:, :, 0].T

    def keep(self, columns: np.ndarray, objective: Objective) -> None:
        self.objective = objective


class Automatic(LBFGS):
    """Newton's method where the objective says that the Hessian's matrix pays, L-BFGS elsewhere.

    With its preconditioner L-BFGS needs few passes over large data. On small data a step costs what the interpreter does
    around it, whatever it computes, and Newton's are few.

    Parameters
    ----------
    tol : relative gap to the minimum at which to stop.
    max_iter : most steps.
    memory : steps that L-BFGS remembers; None leaves it to the objective.
    """

    name = "auto"

    def _directions(self, objective: Objective) -> _Directions:
        if objective.matrices_pay:
            return _MatrixDirections(objective)
        return super()._directions(objective)
