"""The surrogates that fit a loss, with calibration function, constants, sample sizes and cost of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..losses.base import Loss
from ..margins import Margin
from ..registry import Part
from ..surrogates.base import Surrogate
from ..surrogates.cumulative import Link
from .calibration import Calibration, calibration
from .certificate import Certificate
from .closed import closed_form
from .convolved import linear_calibration
from .costs import Cost, pass_cost
from .learning import Ball, canonical_gradient, examples_needed
from .problem import matched

FEW = 8  # outputs up to which the envelope, a dozen programs per pair, takes seconds
# constructor arguments with a registry of their own: each of its entries gives a surrogate to compare
CHOICES: dict[str, type[Part]] = {"margin": Margin, "link": Link}
# (loss, surrogate) -> an object with lower_bound(eps), eps_max, loss and surrogate; the first that does not raise is used
CALIBRATIONS: list[Callable[[Loss, Surrogate], Any]] = [calibration, linear_calibration]


@dataclass(frozen=True)
class Candidate:
    """One surrogate for the loss.

    Attributes
    ----------
    name : its name, with its choice of margin or link.
    same : names of other registered surrogates that are the same function S(v, y) here.
    surrogate, loss : bound to each other.
    zeta : the calibration function, None where unknown. certificates : its certificate at each eps; the interval from 0
        to infinity where unknown.
    scores : the number of scores of a prediction.
    constants : "beta", the Lipschitz constant of S's gradient; "sigma_l1", "sigma_l2", "sigma_linf", strong convexity of
        h; "c_psi" and "c_phi", largest l2 norms; "spread", the largest |psi(z) - psi(z')|_2. Unknown ones are left out.
    radius : D, the bound on the norm of g* in the learning bound. gradient : M, the bound on the gradients, None where
        unknown.
    examples : the sample size at each eps, NaN where M is unknown.
    cost : operations per example, None where unknown.
    """

    name: str
    same: tuple[str, ...]
    surrogate: Surrogate = field(repr=False)
    loss: Loss = field(repr=False)
    zeta: Any = field(repr=False)
    certificates: tuple[Certificate, ...] = field(repr=False)
    scores: int
    constants: dict[str, float] = field(repr=False)
    radius: float
    gradient: float | None
    examples: tuple[float, ...]
    cost: Cost | None

    @property
    def operations(self) -> float:
        return math.nan if self.cost is None else self.cost.operations


def fitted(loss: Loss, surrogate: Surrogate) -> tuple[Loss, Surrogate]:
    """`matched`, with a ValueError where the surrogate is not phi-calibrated."""
    variant, bound = matched(loss, surrogate)
    if not bound.calibrated:
        raise ValueError(f"{surrogate!r} is not phi-calibrated: its excess risk is no Bregman divergence.")
    return variant, bound


def builders(loss: Loss, surrogates: Sequence[Any] | None) -> list[tuple[str, Any]]:
    """(name, function that builds the surrogate) for each candidate."""
    if surrogates is not None:
        chosen = [surrogates] if isinstance(surrogates, str | Surrogate) else list(surrogates)
        return [(_name(s), lambda s=s: s) for s in map(Surrogate.resolve, chosen)]
    out: list[tuple[str, Any]] = []
    registry: dict[str, Any] = Surrogate.registry
    for name, kind in sorted(registry.items()):
        choices = [(key, part) for key, part in CHOICES.items() if key in kind._get_param_names()]
        if choices:
            key, part = choices[0]
            out += [(f"{name} ({o})", lambda kind=kind, key=key, o=o: kind(**{key: o})) for o in part.registry]
        else:
            out.append((name, lambda kind=kind: kind.for_loss(loss)))
    return out


def generality(name: str, loss: Loss) -> int:
    """A sort key by which, among names of one function, the special case comes first."""
    if name.startswith("independent"):
        return -1 if loss.kind == "indicator" else 1
    return {"max-entropy": 2, "mixture": 2, "legendre": 3}.get(name, 0)


def _name(surrogate: Surrogate) -> str:
    """Its registered name, with its choice of margin or link; its repr where it is not registered."""
    params = surrogate.get_params(deep=False)
    chosen = [part.resolve(params[key]).name for key, part in CHOICES.items() if key in params]
    name = surrogate.name or repr(surrogate)
    return f"{name} ({chosen[0]})" if chosen else name


def same_function(first: tuple[Loss, Surrogate], second: tuple[Loss, Surrogate]) -> bool:
    """Whether two surrogates agree as functions S(v, y) on a sample of scores."""
    phi, other = (np.asarray(loss.polytope.vertices(), dtype=float) for loss, _ in (first, second))
    size, count = (surrogate.size or phi.shape[1] for _, surrogate in (first, second))
    if phi.shape != other.shape or not np.array_equal(phi, other) or size != count:
        return False
    v = np.sort(np.random.default_rng(0).normal(size=(12, size)), axis=1)  # increasing, as cumulative links require
    rows = phi[np.arange(12) % len(phi)]
    mine, theirs = (np.asarray(surrogate.value(v, rows), dtype=float) for _, surrogate in (first, second))
    return bool(np.allclose(mine, theirs, rtol=1e-7, atol=1e-9))


def describe(
    name: str,
    same: list[str],
    loss: Loss,
    surrogate: Surrogate,
    levels: tuple[float, ...],
    noise: float,
    radius: float | None,
    kappa: float,
    confidence: float | None,
    search: bool,
) -> Candidate:
    """The Candidate of one surrogate; the arguments are those of `compare`."""
    phi, psi = np.asarray(loss.polytope.vertices(), dtype=float), np.asarray(loss.psi(loss.outputs()), dtype=float)
    size = surrogate.size or phi.shape[1]
    if radius is None:
        mu = (1 - noise) * phi + noise * phi.mean(0)
        radius = float(np.linalg.norm(np.asarray(surrogate.link(mu)), axis=-1).max()) / kappa
    constants = {"c_psi": float(np.linalg.norm(psi, axis=1).max()), "c_phi": float(np.linalg.norm(phi, axis=1).max())}
    constants["spread"] = float(np.linalg.norm(psi[:, None] - psi, axis=-1).max())
    if surrogate.smoothness is not None:
        constants["beta"] = float(surrogate.smoothness)
    zeta = _calibration(loss, surrogate)
    if isinstance(zeta, Calibration):
        constants |= {f"sigma_{norm}": value for norm, value in zeta.problem.convexity.items()}
    found, heights = zip(*(_certified(zeta, e, search) for e in levels), strict=True)
    gradient = _gradient_bound(zeta, loss, surrogate, radius, kappa) if math.isfinite(radius) else None
    examples = (math.nan,) * len(levels)
    if gradient is not None and zeta is not None:
        examples = tuple(examples_needed(height, radius, gradient, confidence) for height in heights)
    cost = pass_cost(surrogate, size)
    return Candidate(name, tuple(same), surrogate, loss, zeta, found, size, constants, radius, gradient, examples, cost)


def _calibration(loss: Loss, surrogate: Surrogate) -> Any:
    """The calibration function from the first of CALIBRATIONS that has one, or None."""
    for calibrate in CALIBRATIONS:
        try:
            zeta = calibrate(loss, surrogate)
            if isinstance(zeta, Calibration):
                zeta.problem.form  # noqa: B018  raises where the divergence has no Form
            return zeta
        except (ValueError, TypeError, NotImplementedError):
            continue
    return None


def _gradient_bound(zeta: Any, loss: Loss, surrogate: Surrogate, radius: float, kappa: float) -> float | None:
    """M, the bound on the gradients' norm, or None where unknown."""
    if isinstance(zeta, Calibration):
        try:
            return Ball(zeta, radius, kappa).gradient()[0]
        except ValueError:
            return None
    if surrogate.canonical and surrogate.smoothness is not None:
        return canonical_gradient(surrogate, loss.polytope, surrogate.smoothness, radius, kappa)[0]
    return None


def _certified(zeta: Any, eps: float, search: bool) -> tuple[Certificate, float]:
    """The certificate of zeta(eps), and the value at eps of a convex minorant of zeta."""
    if not isinstance(zeta, Calibration):
        lower = 0.0 if zeta is None else float(zeta.lower_bound(eps))
        return Certificate(eps, math.inf, lower, method="bound", exact=False), lower
    problem = zeta.problem
    known = eps > zeta.eps_max or closed_form(problem, eps) is not None
    if search or known or (problem.form.exact and len(problem.psi) <= FEW):
        return zeta.exact(eps), float(zeta.envelope(eps))
    lower = float(zeta.lower_bound(eps)) if problem.convexity else 0.0
    if problem.form.exact:
        return zeta.exact(eps), lower
    return Certificate(eps, float(zeta.upper_bound(eps)), lower, method="bounds", exact=False), lower
