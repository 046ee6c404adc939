"""Linear programs as the theory needs them: at a vertex, and to ten digits."""

from __future__ import annotations

from typing import Any

import numpy as np

# HiGHS's own tolerances of 1e-7 take a reduced cost of -1e-7 for none: far vertices then cost 1e-5 too much.
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def linear_program(cost: np.ndarray, **constraints: Any) -> Any:
    """min <cost, x> by the dual simplex method: SciPy's result, for SciPy's arguments A_ub, b_ub, A_eq, b_eq and bounds."""
    from scipy.optimize import linprog

    return linprog(cost, method="highs-ds", options=TIGHT, **constraints)
