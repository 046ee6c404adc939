"""A value of zeta_h with its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

AGREE = 1e-6  # relative gap up to which a value counts as exact


@dataclass(frozen=True)
class Certificate:
    """zeta_h(eps) with its proof: `lower` <= zeta_h(eps) <= `value`, the upper end attained by the witness.

    value: D_h(u', u) at the witness, re-evaluated in double precision; infinite where no witness was found. lower: the
    Lagrangian re-evaluated at the solver's multipliers, a proved formula, or the bound of a comparison potential or of
    branch and bound; infinite only with a certificate of infeasibility. `exact`: the two ends agree to a millionth of
    the value; otherwise they bound an interval. `u_prime` (in M) is the truth, `u` (in D) the estimate, `z` the output
    decoded from the estimate and `z_other` the better one, as indices into the loss's outputs.
    """

    eps: float
    value: float
    lower: float
    z: int = -1
    z_other: int = -1
    u_prime: Any = None
    u: Any = None
    method: str = "conic"
    exact: bool = True
    programs: int = 0

    @property
    def gap(self) -> float:
        """value - lower, zero where both are infinite."""
        return 0.0 if self.value == self.lower else self.value - self.lower

    @property
    def agree(self) -> bool:
        """Whether the two ends agree to a millionth of the value."""
        return self.value == self.lower or (
            np.isfinite(self.value) and self.value - self.lower <= AGREE * abs(self.value)
        )

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        if self.lower == np.inf:
            return f"zeta({self.eps:g}) = inf (no output is that wrong anywhere)"
        kind = f"= {self.value:.8g}, gap {self.gap:.1e}" if self.exact else f"in [{self.lower:.8g}, {self.value:.8g}]"
        return f"zeta({self.eps:g}) {kind} by {self.method}, at z = {self.z} against z' = {self.z_other}"
