"""What learning costs: averaged stochastic gradient descent, sample sizes, and the comparison with Osokin et al. 2017."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import explained
from ..polytopes.base import Polytope
from ..surrogates.base import Surrogate
from .calibration import Calibration, calibration
from .distances import _diameter

# -- what all bounds share -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearningBound:
    """What an estimator guarantees after n examples, and every constant in it.

    excess_risk: the bound on the true excess risk, through the exact zeta**. surrogate_excess: the bound on the
    surrogate's excess risk. gradient: M, the bound on the gradients' norm. confidence: the probability with which both
    bounds hold, None for bounds in expectation.
    """

    n: float
    excess_risk: float
    surrogate_excess: float
    gradient: float
    constants: dict[str, float]
    confidence: float | None


# -- averaged stochastic gradient descent ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ASGDBound(LearningBound):
    """What n steps of projected averaged SGD guarantee.

    paper: the theorem's own bound, 4 kappa c_psi beta D C / n^(1/4) (None where the surrogate is not of Legendre type, or
    with a confidence, of which the theorem says nothing). step: the constant step size.
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
    """The theorem on averaged SGD in a kernel's space, its constants computed from the loss and the surrogate.

    radius: D, a bound on the norm of the best g. kappa^2: a bound on k(x, x). The step is 2 D / (M sqrt(n)); the
    bound uses the exact envelope zeta**, and so is never worse than the theorem's, which uses a quadratic below it.
    The gradient's bound M is the theorem's, kappa (kappa beta D + max |phi(y) - grad h*(0)|), or what the bounded
    domain gives, whichever is less.

    confidence: None for the expected excess risk, or the probability 1 - a with which the bound is to hold. Then the
    surrogate's excess risk is at most 2 D M / sqrt(n) (1 + sqrt(2 log(1/a))). *Proof.* With G_i the gradient at the
    i-th step, the regret sum_i <G_i, g_(i-1) - g*> is at most (2 D)^2 / (2 eta) + n eta M^2 / 2 = 2 D M sqrt(n) on every
    path. Given the past, <G_i, g_(i-1) - g*> lies in an interval of length 4 D M around a mean that is at least the
    excess risk of g_(i-1). By Azuma and Hoeffding the means exceed the regret by at most 4 D M sqrt(n log(1/a) / 2) in
    sum, but for probability a; and the average g has at most the mean excess risk. The step needs no change. []
    """
    zeta = calibration(loss, surrogate)
    _positive(n=n, radius=radius, kappa=kappa)
    gradient, constants = _gradient(zeta, radius, kappa)
    excess = 2 * radius * gradient / math.sqrt(n) * _tail(confidence)
    return ASGDBound(
        n=n,
        excess_risk=zeta.excess_risk(excess),
        surrogate_excess=excess,
        gradient=gradient,
        constants=constants,
        confidence=confidence,
        paper=_paper(constants, n, radius, kappa) if confidence is None else None,
        step=2 * radius / (gradient * math.sqrt(n)),
    )


def _tail(confidence: float | None) -> float:
    """1 + sqrt(2 log(1/a)) for probability 1 - a: what a mean of n bounded steps pays beyond its expectation; 1 in expectation."""
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
    """The n from which averaged SGD has expected true excess risk at most eps: (2 D M / zeta**(eps))^2.

    With p and gamma_p, under the p-noise condition, zeta^(p) in the place of zeta**. With a confidence, the n from which
    the excess risk is at most eps with that probability. The answer is a whole number, as a float since it can be
    astronomic; 1 where no output can be eps worse than the best.
    """
    zeta = calibration(loss, surrogate)
    if (p is None) != (gamma_p is None):
        raise ValueError("Give both p and gamma_p, or neither.")
    _positive(eps=eps, radius=radius, kappa=kappa)
    level = zeta.envelope(eps) if p is None or gamma_p is None else float(zeta.low_noise(p, gamma_p)(eps))
    return _examples(level, radius, _gradient(zeta, radius, kappa)[0], confidence)


def _examples(level: float, radius: float, gradient: float, confidence: float | None) -> float:
    """The n from which averaged SGD has surrogate excess at most `level`."""
    wanted = 2 * radius * gradient * _tail(confidence)
    if level == 0:
        return math.inf
    count = (wanted / level) ** 2 if math.isfinite(level) else 1.0
    return float(max(1, math.ceil(count))) if math.isfinite(count) else math.inf


def _gradient(zeta: Calibration, radius: float, kappa: float) -> tuple[float, dict[str, float]]:
    """M with |grad S (x) k(x, .)| <= M for every g in the ball, and the constants that it came from."""
    problem = zeta.problem
    surrogate, phi = problem.surrogate, problem.vertices
    constants = {"c_psi": float(np.linalg.norm(problem.psi, axis=1).max())}
    if surrogate.canonical and "l2" in problem.convexity:
        beta = 1 / problem.convexity["l2"]
        bound, more = _canonical_gradient(surrogate, problem.polytope, beta, radius, kappa)
        return bound, constants | more
    margin = problem.form.margin
    if margin is not None:
        # |dS/dv_j| = |Phi'(+-v_j)| is largest at the most wrong score that the ball allows.
        worst = abs(float(margin.derivative(np.array(-kappa * radius))))
        constants["phi_slope"] = worst
        return kappa * worst * math.sqrt(phi.shape[1]), constants
    raise ValueError(
        f"The gradients of {surrogate!r} have no bound that is known here: use a canonical or a coordinatewise surrogate."
    )


def _canonical_gradient(
    surrogate: Surrogate, polytope: Polytope, beta: float, radius: float, kappa: float
) -> tuple[float, dict[str, float]]:
    """M where grad S = grad h*(v) - phi(y) and grad h* is beta-Lipschitz."""
    phi = np.asarray(polytope.vertices(), dtype=float)
    start = surrogate.inverse_link(np.zeros((1, phi.shape[1])))
    c_phi_h = float(np.linalg.norm(phi - start, axis=1).max())
    bound = kappa * beta * radius + c_phi_h
    if surrogate.domain == polytope:
        bound = min(bound, _diameter(phi))  # grad h*(v) lies in M
    elif surrogate.domain is not None:
        # grad h*(v) lies in D: no farther from phi(y) than D's box is
        low, high = surrogate.domain.bounds()
        bound = min(bound, float(np.linalg.norm(np.maximum(phi - low, high - phi), axis=1).max()))
    return kappa * bound, {"beta": beta, "c_phi_h": c_phi_h}


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (isinstance(value, numbers.Real) and 0 < value < math.inf):
            raise ValueError(f"{name} must be positive and finite, got {value!r}.")


# -- Osokin, Bach and Lacoste-Julien 2017 ----------------------------------------------------------------------------


@dataclass(frozen=True)
class OsokinComparison:
    """Quadratic lower bounds coefficient * eps^2 on the calibration functions of the two quadratic surrogates.

    osokin: 1 / (2 max |P_F(e_z - e_z')|^2) for S(w, y) = |F w - L_y|^2 / 2, a sum over all outputs (without their
    normalisation by the number of outputs). ours: 1 / (2 max |F'(e_z - e_z')|^2) for S(v, y) = |v - U_y|^2 / 2 with L
    = F U' + c. Both are equal for F the identity; otherwise theirs is the larger surrogate, and the two are not on
    one scale.
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
    from .decomposition import decompose

    table = np.asarray(matrix, dtype=float)
    base = decompose(table, balance=False)
    f = base.psi if scores is None else np.asarray(scores, dtype=float)
    if f.ndim != 2 or len(f) != len(table):
        raise ValueError(f"The score matrix needs one row per output, {len(table)}, got shape {f.shape}.")
    inverse = np.linalg.pinv(f)
    # their surrogate needs L itself in the span; a constant on all outputs shifts no decision
    constant = base.constant if scores is None else 0.0
    phi = (inverse @ (table - constant)).T
    if not np.allclose(f @ phi.T, table - constant, atol=1e-8 * max(1.0, np.abs(table).max())):
        raise ValueError(
            "The loss is not in the span of this score matrix: the surrogate cannot tell its outputs apart."
        )
    project = f @ inverse
    return OsokinComparison(_coefficient(project), _coefficient(f), f, phi, constant, table - constant)


def _coefficient(rows: np.ndarray) -> float:
    """1 / (2 max |row_z - row_z'|^2)."""
    gram = rows @ rows.T
    squares = np.diag(gram)
    largest = float((squares[:, None] + squares - 2 * gram).max())
    return 1 / (2 * largest) if largest > 0 else math.inf  # all outputs alike: no mistake can be made
