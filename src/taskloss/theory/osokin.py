"""The comparison with the quadratic surrogates of Osokin, Bach and Lacoste-Julien (2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import explained
from .._checks import real_array
from .decomposition import decompose
from .distances import diameter
from .problem import inverse_square


@dataclass(frozen=True)
class OsokinComparison:
    """Quadratic lower bounds coefficient * eps^2 on the calibration functions of the two quadratic surrogates.

    osokin: 1 / (2 max |P_F(e_z - e_z')|^2) for S(w, y) = |F w - L_y|^2 / 2, a sum over all outputs (without their
    normalisation by the number of outputs). ours: 1 / (2 max |F'(e_z - e_z')|^2) for S(v, y) = |v - U_y|^2 / 2 with L
    = F U' + c. They are equal for F the identity; otherwise theirs is the larger surrogate, and the two have different
    units.
    """

    osokin: float
    ours: float
    scores: np.ndarray
    phi: np.ndarray
    constant: float
    matrix: np.ndarray

    def surrogate(self, w: np.ndarray, y: Any) -> np.ndarray:
        """Their S(w, y), for scores w as rows and labels y as codes."""
        return ((w @ self.scores.T - self.matrix[:, y].T) ** 2).sum(-1) / 2


@explained
def osokin_comparison(matrix: Any, scores: Any = None) -> OsokinComparison:
    """Osokin et al.'s quadratic surrogate with score matrix F against the paper's, by their lower bounds.

    scores: F with one row per output, whose columns must span those of the loss up to a constant (None: the smallest
    decomposition's psi).
    """
    table = real_array("matrix", matrix, "costs")
    base = decompose(table, balance=False)
    f = base.psi if scores is None else real_array("scores", scores)
    if f.ndim != 2 or len(f) != len(table):
        raise ValueError(f"The score matrix needs one row per output, {len(table)}, got shape {f.shape}.")
    inverse = np.linalg.pinv(f)
    # their surrogate needs L itself in the span; a constant on all outputs changes no decision
    constant = base.constant if scores is None else 0.0
    phi = (inverse @ (table - constant)).T
    if not np.allclose(f @ phi.T, table - constant, atol=1e-8 * max(1.0, np.abs(table).max())):
        raise ValueError(
            "The loss is not in the span of this score matrix: the surrogate cannot tell its outputs apart."
        )
    project = f @ inverse
    return OsokinComparison(_coefficient(project), _coefficient(f), f, phi, constant, table - constant)


def _coefficient(rows: np.ndarray) -> float:
    """1 / (2 max |row_z - row_z'|^2), infinite where all outputs are equal and no excess can occur."""
    return float(inverse_square(diameter(rows), 1.0)) / 2
