"""What the theory of calibration says about the estimated excess of the surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.kernel import KernelPredictor
from ..recalibration import from_laws, laws_of
from .evidence import Evidence
from .intervals import Interval, mean_interval
from .parts import Redecided

_MOST = 400  # cells of the loss: beyond, the calibration function takes minutes
_MIXED = 1e-6  # of the uniform law, so that divergences are finite


@dataclass(frozen=True)
class Guarantee:
    """The most task excess risk that an excess of the surrogate can hide.

    Attributes
    ----------
    surrogate : the surrogate by whose divergence moments are compared.
    excess : how much lower the surrogate's risk is with recalibrated moments, cross-fitted, by the recalibration that may lower it most.
    bound : the most task excess risk over decisions from the recalibrated moments that this excess can hide, at its
        upper end; None where there is no bound.
    why : the reason, in a sentence, where there is none.
    """

    surrogate: Any
    excess: Interval | None
    bound: float | None
    why: str = ""

    def __str__(self) -> str:
        if self.bound is None or self.excess is None:
            return self.why
        return (
            f"Recalibrated moments lower the surrogate risk ({type(self.surrogate).__name__}) by {self.excess}; at the upper end, "
            f"calibration theory says that these decisions cost at most {self.bound:.4g} more than the best from those moments."
        )


def guarantee(evidence: Evidence, redecided: list[Redecided]) -> Guarantee:
    """The guarantee for the surrogate that the model was fitted with, or for the log-loss of probabilities."""
    if not redecided:
        why = f"There is no guarantee here for {type(evidence.loss).__name__}: it is decided by more than moments of single labels."
        return Guarantee(None, None, None, why)
    if evidence.costs is not None:
        return Guarantee(
            None, None, None, "There is no bound where costs differ per example: no one calibration function holds."
        )
    loss, surrogate = evidence.loss, _surrogate(evidence)
    if not surrogate.differentiable:
        return Guarantee(
            surrogate, None, None, f"{surrogate!r} has no divergence between moments, so that there is no bound."
        )
    try:
        cells = len(loss.outputs()) * len(loss.labels()) if _short(evidence) else np.inf
    except ValueError:
        cells = np.inf
    found = (mean_interval(_excess(evidence, one, surrogate), evidence.weights) for one in redecided)
    excess = max(found, key=lambda interval: interval.high)
    if cells > _MOST:
        why = f"{loss!r} has too many outputs and labels for its calibration function to be computed here."
        return Guarantee(surrogate, excess, None, why)
    from ..theory import calibration

    try:
        zeta = calibration(loss, surrogate, time_limit=5.0)
        bound = float(zeta.excess_risk(max(excess.high, 0.0)))
        return Guarantee(surrogate, excess, min(bound, float(zeta.eps_max)))
    except (ValueError, TypeError, ImportError) as error:
        return Guarantee(surrogate, excess, None, f"There is no bound: {error}")


def _short(evidence: Evidence) -> bool:
    return evidence.loss.kind == "classes" or evidence.codes.shape[1] <= 4


def _surrogate(evidence: Evidence) -> Any:
    """The model's own surrogate, or that whose risk is the log-loss."""
    from ..surrogates import Independent, MaxEntropy, Quadratic

    own, polytope = getattr(evidence.model, "surrogate_", None), evidence.loss.polytope
    if own is not None:
        return own
    if isinstance(evidence.model, KernelPredictor):
        return Quadratic().bind(polytope)
    return Independent("logistic").bind(polytope) if evidence.loss.kind == "indicator" else MaxEntropy(polytope)


def _excess(evidence: Evidence, best: Redecided, surrogate: Any) -> np.ndarray:
    """S at the moments, less S at the recalibrated ones, example by example."""
    loss = evidence.loss
    phi = loss.phi(evidence.codes)

    def inside(mu: np.ndarray) -> np.ndarray:
        q = laws_of(loss, mu)
        return from_laws(loss, (1 - _MIXED) * q + _MIXED / q.shape[-1])

    return np.asarray(
        surrogate.divergence(phi, inside(evidence.mu)) - surrogate.divergence(phi, inside(best.mu)), float
    )
