"""Linear programs, solved to a vertex and to ten digits."""

from __future__ import annotations

from typing import Any

import numpy as np

# With HiGHS's default tolerance of 1e-7 on reduced costs, a far vertex can be suboptimal by 1e-5.
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def linear_program(cost: np.ndarray, **constraints: Any) -> Any:
    """min <cost, x> by the dual simplex method: SciPy's result, for SciPy's arguments A_ub, b_ub, A_eq, b_eq and bounds."""
    from scipy.optimize import linprog

    return linprog(cost, method="highs-ds", options=TIGHT, **constraints)
