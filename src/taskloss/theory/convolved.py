"""Calibration of convolved surrogates: linear, with explicit constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import explained
from .._checks import real_levels
from ..losses.base import Loss
from ..surrogates.base import Surrogate
from .problem import matched


@dataclass(frozen=True)
class LinearCalibration:
    """zeta(eps) >= share eps: with surrogate excess risk delta, the task excess risk is at most delta / share.

    Attributes
    ----------
    loss, surrogate : the pair, bound to each other.
    decision : "likeliest" or "drawn", how an output is chosen from the surrogate's law over outputs.
    share : 1 where the output is drawn, one over the number of outputs for the likeliest.
    eps_max : the largest task excess risk of any decision.
    """

    loss: Loss
    surrogate: Surrogate
    decision: str
    share: float
    eps_max: float

    def lower_bound(self, eps: Any) -> np.ndarray:
        """share eps, and infinity beyond the largest task excess risk. Linear, so it bounds the convex envelope as well."""
        eps = real_levels("eps", eps)
        return np.where(eps > self.eps_max, np.inf, self.share * eps)

    def excess_risk(self, delta: Any) -> np.ndarray:
        """The largest task excess risk possible with surrogate excess risk delta."""
        return np.minimum(real_levels("delta", delta) / self.share, self.eps_max)


@explained
def linear_calibration(
    loss: Any, surrogate: Any = "convolutional-fenchel-young", decision: str = "likeliest"
) -> LinearCalibration:
    """The linear calibration of a convolved surrogate, from the identity of its excess risk.

    Parameters
    ----------
    loss : a loss whose outputs can be listed, or its name.
    surrogate : a `ConvolutionalFenchelYoung`, or its name.
    decision : the "likeliest" output of the law pi that the scores define, or an output "drawn" from it.

    Returns
    -------
    LinearCalibration

    Notes
    -----
    The surrogate's excess risk is D_h(mu, mu-hat) + sum_z pi_z e_z, where e_z >= 0 is the task excess risk of z. The
    sum is the excess risk of an output drawn from pi, and at least pi_z e_z >= e_z / (number of outputs) for the
    likeliest z. Both constants are tight: for 0-1 loss, zeta(eps) = share eps + O(eps^2) at a tie of all labels.

    Examples
    --------
    >>> import taskloss as tl
    >>> zeta = tl.theory.linear_calibration(tl.losses.ZeroOne(4), decision="drawn")
    >>> float(zeta.excess_risk(0.01))
    0.01
    """
    loss, bound = matched(Loss.resolve(loss), surrogate)
    if bound.differentiable:
        raise ValueError(f"{bound!r} is not convolved with a loss: its calibration function is tl.theory.calibration.")
    if decision not in ("likeliest", "drawn"):
        raise ValueError(f"decision must be 'likeliest' or 'drawn', got {decision!r}.")
    matrix = loss.matrix()
    worst = float(
        (matrix.max(0) - matrix.min(0)).max()
    )  # at a single label, since the excess risk is convex in the law
    return LinearCalibration(loss, bound, decision, 1.0 if decision == "drawn" else 1 / len(matrix), worst)
