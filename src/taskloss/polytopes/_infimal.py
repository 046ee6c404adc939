"""Infimal convolution of a polytope's log-partition function, or of half a squared norm, with a table of outputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import Polytope
from .cube import Cube
from .product import Product
from .simplex import Simplex


class TableConvolution(NamedTuple):
    """For rows v: min over laws pi on the outputs of A(v + sum_z pi_z psi_z) + sum_z pi_z c_z, by the compiled solver.

    kernel: the number of A in `_compiled.convolution_row`. parameter: the lower end of a cube, or the width of each simplex.
    """

    kernel: int
    parameter: float
    psi: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, polytope: Polytope | None, psi: np.ndarray, offsets: np.ndarray) -> TableConvolution | None:
        """With A the log-partition function of a polytope, or |u|^2 / 2 without one; None where A is not compiled."""
        if polytope is None:
            return cls(0, 0.0, psi, offsets)
        if isinstance(polytope, Cube):
            return cls(2, float(polytope.low), psi, offsets)
        factors = polytope.factors if isinstance(polytope, Product) else [polytope]
        widths = {f.size if isinstance(f, Simplex) else 0 for f in factors}
        return cls(1, float(factors[0].size), psi, offsets) if len(widths) == 1 and 0 not in widths else None

    def solve(
        self, v: np.ndarray, pi: np.ndarray | None = None, tolerance: float = 1e-13
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The minima, the gradients of A there, and the laws; pi, which is overwritten, is where to start."""
        from .._compiled.convolution import convolve

        if v.shape[1] != self.psi.shape[1]:  # compiled code looks at no bounds
            raise ValueError(f"v must have {self.psi.shape[1]} coordinates along its last axis, got {v.shape[1]}.")
        pi = np.zeros((len(v), len(self.psi))) if pi is None else pi
        mu, values = np.empty_like(v), np.empty(len(v))
        convolve(self.kernel, self.parameter, v, self.psi, self.offsets, tolerance, pi, mu, values)
        return values, mu, pi
