"""Learning bounds: averaged stochastic gradient descent over a ball of functions g, and sample sizes."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import explained
from ..polytopes.base import Polytope
from ..surrogates.base import Surrogate
from .calibration import Calibration, calibration
from .distances import diameter

# -- shared by all bounds ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearningBound:
    """The guarantee of an estimator after n examples, with its constants.

    excess_risk: the bound on the task excess risk, through the exact zeta**. surrogate_excess: the bound on the
    surrogate's excess risk. gradient: M, the bound on the gradients' norm. confidence: the probability with which both
    bounds hold, None for bounds in expectation.
    """

    n: float
    excess_risk: float
    surrogate_excess: float
    gradient: float
    constants: dict[str, float]
    confidence: float | None


@dataclass(frozen=True)
class Ball:
    """The ball |g| <= D in a kernel's space with k(x, x) <= kappa^2, and the calibration function of one problem."""

    zeta: Calibration
    radius: float
    kappa: float

    @classmethod
    def of(cls, loss: Any, surrogate: Any, radius: float, kappa: float, **more: float) -> Ball:
        """The ball; ValueError where radius, kappa or one of `more` is not positive and finite."""
        zeta = calibration(loss, surrogate)
        positive(**more, radius=radius, kappa=kappa)
        return cls(zeta, radius, kappa)

    def gradient(self, times: float = 1.0) -> tuple[float, dict[str, float]]:
        """M with |grad S (x) k(x, .)| <= M for every |g| <= times D, and its constants."""
        problem, radius, kappa = self.zeta.problem, times * self.radius, self.kappa
        surrogate, phi = problem.surrogate, problem.vertices
        constants = {"c_psi": float(np.linalg.norm(problem.psi, axis=1).max())}
        if surrogate.canonical and "l2" in problem.convexity:
            beta = 1 / problem.convexity["l2"]
            bound, more = canonical_gradient(surrogate, problem.polytope, beta, radius, kappa)
            return bound, constants | more
        margin = problem.form.margin
        if margin is not None:
            # |dS/dv_j| = |Phi'(+-v_j)| is largest at the score -kappa D, the end of the ball's range.
            worst = abs(float(margin.derivative(np.array(-kappa * radius))))
            constants["phi_slope"] = worst
            return kappa * worst * math.sqrt(phi.shape[1]), constants
        raise ValueError(
            f"The gradients of {surrogate!r} have no bound that is known here: use a canonical or a coordinatewise surrogate."
        )


# -- averaged stochastic gradient descent ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ASGDBound(LearningBound):
    """The guarantee of projected averaged SGD after n steps.

    paper: the theorem's own bound, 4 kappa c_psi beta D C / n^(1/4) (None where the surrogate is not of Legendre type, or
    with a confidence, which the theorem does not cover). step: the constant step size.
    """

    paper: float | None
    step: float


@explained
def asgd_bound(
    loss: Any,
    surrogate: Any = "auto",
    n: float = 10_000,
    radius: float = 1.0,
    kappa: float = 1.0,
    confidence: float | None = None,
) -> ASGDBound:
    """The theorem on averaged SGD in a kernel's space, with its constants for the loss and the surrogate.

    Parameters
    ----------
    loss, surrogate : instances or registered names.
    n : the number of steps, one example each.
    radius : D, a bound on the norm of g*, which minimises the surrogate risk.
    kappa : kappa^2 bounds k(x, x).
    confidence : None for the expected excess risk, or the probability 1 - a with which the bound is to hold.

    Returns
    -------
    ASGDBound

    Notes
    -----
    The step is 2 D / (M sqrt(n)); the bound uses the exact envelope zeta**, and so is never worse than the theorem's,
    which uses a quadratic minorant. The gradient's bound M is the theorem's, kappa (kappa beta D + max |phi(y) - grad
    h*(0)|), or that of a bounded domain, whichever is less.

    *With probability 1 - a* the surrogate's excess risk is at most 2 D M / sqrt(n) (1 + sqrt(2 log(1/a))). *Proof.* With
    G_i the gradient at the i-th step, the regret sum_i <G_i, g_(i-1) - g*> is at most (2 D)^2 / (2 eta) + n eta M^2 / 2 =
    2 D M sqrt(n) on every path. Given the past, <G_i, g_(i-1) - g*> lies in an interval of length 4 D M around a mean that
    is at least the excess risk of g_(i-1). By Azuma and Hoeffding the means exceed the regret by at most 4 D M sqrt(n
    log(1/a) / 2) in sum, but for probability a; and the average g has at most the mean excess risk. The step needs no
    change. []

    Examples
    --------
    >>> import taskloss as tl
    >>> bound = tl.theory.asgd_bound(tl.losses.ZeroOne(3), "multinomial", n=1e6)
    >>> round(bound.surrogate_excess, 5)
    0.00263
    """
    ball = Ball.of(loss, surrogate, radius, kappa, n=n)
    gradient, constants = ball.gradient()
    excess = finite(2 * radius * gradient / math.sqrt(n) * tail(confidence))
    return ASGDBound(
        n=n,
        excess_risk=ball.zeta.excess_risk(excess),
        surrogate_excess=excess,
        gradient=gradient,
        constants=constants,
        confidence=confidence,
        paper=_paper(constants, n, radius, kappa) if confidence is None else None,
        step=2 * radius / (gradient * math.sqrt(n)),
    )


def tail(confidence: float | None) -> float:
    """The factor 1 + sqrt(2 log(1/a)) of a bound with probability 1 - a (Azuma-Hoeffding); 1 in expectation."""
    if confidence is None:
        return 1.0
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, or None for bounds in expectation, got {confidence}.")
    return 1 + math.sqrt(-2 * math.log1p(-confidence))


def _paper(constants: dict[str, float], n: float, radius: float, kappa: float) -> float | None:
    if "beta" not in constants:
        return None
    beta, c_psi = constants["beta"], constants["c_psi"]
    c = math.sqrt(1 + constants["c_phi_h"] / (kappa * beta * radius))
    return 4 * kappa * c_psi * beta * radius * c / n**0.25


@explained
def sample_size(
    loss: Any,
    surrogate: Any = "auto",
    eps: float = 0.1,
    radius: float = 1.0,
    kappa: float = 1.0,
    p: float | None = None,
    gamma_p: float | None = None,
    confidence: float | None = None,
) -> float:
    """The least n for which averaged SGD has expected task excess risk at most eps: (2 D M / zeta**(eps))^2.

    With p and gamma_p, under the p-noise condition, zeta^(p) in the place of zeta**. With a confidence, the least n
    for which the excess risk is at most eps with that probability. A whole number, as a float
    since it can be infinite; 1 where no output can have excess eps.
    """
    if (p is None) != (gamma_p is None):
        raise ValueError("Give both p and gamma_p, or neither.")
    ball = Ball.of(loss, surrogate, radius, kappa, eps=eps)
    zeta = ball.zeta
    level = zeta.envelope(eps) if p is None or gamma_p is None else float(zeta.low_noise(p, gamma_p)(eps))
    return examples_needed(level, radius, ball.gradient()[0], confidence)


def examples_needed(level: float, radius: float, gradient: float, confidence: float | None) -> float:
    """The least n for which averaged SGD has surrogate excess at most `level`."""
    wanted = 2 * radius * gradient * tail(confidence)
    if level == 0:
        return math.inf
    count = (wanted / level) ** 2 if math.isfinite(level) else 1.0
    return float(max(1, math.ceil(count))) if math.isfinite(count) else math.inf


def canonical_gradient(
    surrogate: Surrogate, polytope: Polytope, beta: float, radius: float, kappa: float
) -> tuple[float, dict[str, float]]:
    """M where grad S = grad h*(v) - phi(y) and grad h* is beta-Lipschitz."""
    phi = np.asarray(polytope.vertices(), dtype=float)
    start = surrogate.inverse_link(np.zeros((1, phi.shape[1])))
    c_phi_h = float(np.linalg.norm(phi - start, axis=1).max())
    bound = kappa * beta * radius + c_phi_h
    if surrogate.domain == polytope:
        bound = min(bound, diameter(phi))  # grad h*(v) lies in M
    elif surrogate.domain is not None:
        # grad h*(v) lies in D, and D in its bounding box
        low, high = surrogate.domain.bounds()
        bound = min(bound, float(np.linalg.norm(np.maximum(phi - low, high - phi), axis=1).max()))
    return kappa * bound, {"beta": beta, "c_phi_h": c_phi_h}


def finite(excess: float) -> float:
    """The bound on an excess risk; OverflowError where it is too large to be a number."""
    if not math.isfinite(excess):
        raise OverflowError("the bound is not finite")
    return excess


def positive(**values: float) -> None:
    """ValueError for the first of the named numbers that is not positive and finite."""
    for name, value in values.items():
        if not (isinstance(value, numbers.Real) and 0 < value < math.inf):
            raise ValueError(f"{name} must be positive and finite, got {value!r}.")
