"""Guarantees of regularised estimators, in expectation or with high probability; exponential rates under a hard margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import explained
from .calibration import Calibration
from .learning import Ball, LearningBound, finite, tail


@dataclass(frozen=True)
class RegularisedBound(LearningBound):
    """The guarantee of the minimiser of mean S + alpha/2 |g|^2. alpha: the penalty for which it holds."""

    alpha: float
    method: str


@explained
def regularised_bound(
    loss: Any,
    surrogate: Any = "auto",
    n: float = 10_000,
    radius: float = 1.0,
    kappa: float = 1.0,
    confidence: float | None = None,
) -> RegularisedBound:
    """A bound on the excess risk of regularised empirical risk minimisation, with its constants.

    Parameters
    ----------
    loss, surrogate : instances or registered names.
    n : the number of examples.
    radius : D, a bound on the norm of g*, which minimises the surrogate risk.
    kappa : kappa^2 bounds k(x, x).
    confidence : None for bounds in expectation, or the probability 1 - a with which they are to hold.

    Returns
    -------
    RegularisedBound

    Notes
    -----
    R is the surrogate risk, F = R + alpha/2 |g|^2, F_n its empirical version and g the minimiser of F_n.

    *In expectation, bounded slopes.* If gradients never exceed M, replacing one example moves g by at most 2 M / (alpha n)
    and its loss by 2 M^2 / (alpha n), so that E R(g) <= R(g*) + alpha D^2 / 2 + 2 M^2 / (alpha n). With alpha = 2 M / (D
    sqrt(n)) that is 2 D M / sqrt(n), averaged SGD's bound.

    *In expectation, smooth.* S is not negative and beta-smooth, so that |grad S|^2 <= 2 beta S, and with b = kappa^2 beta
    and alpha n >= 2 b replacing one example costs at most 16 b / (alpha n) times the empirical risk in expectation: E R(g)
    <= (1 + 16 b / (alpha n)) (R(g*) + alpha D^2 / 2), with R(g*) at most the largest S(0, y).

    *With probability 1 - a.* Let M bound the gradients at |g| <= 4 D, k be the number of scores, and

        Delta = 3 D M / sqrt(n) (2 sqrt(2 k) + sqrt(2 log(1/a))),   alpha = 2 Delta / (3 D^2).

    Then R(g) - R(g*) <= 4 Delta / 3. *Proof.* On the ball B of radius 3 D around g*, (R - R_n)(g) - (R - R_n)(g*) has
    bounded differences 6 D M / n and, by Maurer's contraction for vectors, expected supremum at most 6 D M sqrt(2 k / n):
    it exceeds Delta with probability at most a (McDiarmid). Otherwise, were g outside B, the point where the segment to
    g* leaves B would have F - F(g*) < Delta as F_n is convex, yet F - F(g*) >= alpha/2 ((3 D - |g*|)^2 - |g*|^2) >= 3 alpha
    D^2 / 2 = Delta. So g is in B, and R(g) - R(g*) <= Delta + alpha D^2 / 2. []

    This is larger than averaged SGD's bound by a factor of about 4 + 4 sqrt(2 k), which comes from uniform convergence
    over the ball and not from the estimator.

    References
    ----------
    Bousquet and Elisseeff, "Stability and generalization" (2002). Srebro, Sridharan and Tewari, "Smoothness, low noise and
    fast rates" (2010). Maurer, "A vector-contraction inequality for Rademacher complexities" (2016).

    Examples
    --------
    >>> import taskloss as tl
    >>> bound = tl.theory.regularised_bound(tl.losses.ZeroOne(3), "multinomial", n=1e6)
    >>> round(bound.surrogate_excess, 5), bound.method
    (0.00283, 'bounded slopes')
    """
    ball = Ball.of(loss, surrogate, radius, kappa, n=n)
    zeta = ball.zeta
    if confidence is None:
        excess, alpha, gradient, constants, method = _expected(ball, n)
    else:
        gradient, constants = ball.gradient(times=4)
        scores = zeta.surrogate.size or zeta.problem.psi.shape[1]
        spread = 2 * math.sqrt(2 * scores) + tail(confidence) - 1
        delta = 3 * radius * gradient / math.sqrt(n) * spread
        excess, alpha, method = 4 * delta / 3, 2 * delta / (3 * radius**2), "uniform convergence"
        constants = constants | {"scores": float(scores)}
    return RegularisedBound(n, zeta.excess_risk(finite(excess)), excess, gradient, constants, confidence, alpha, method)


def _expected(ball: Ball, n: float) -> tuple[float, float, float, dict[str, float], str]:
    """The better of the two bounds in expectation: excess, alpha, M, constants, method."""
    options, zeta, radius = [], ball.zeta, ball.radius
    with np.errstate(over="ignore", invalid="ignore"):
        slope, constants = ball.gradient(times=math.inf)
    if slope < 1e100:  # an exponential margin's slope overflows
        alpha = 2 * slope / (radius * math.sqrt(n))
        options.append((2 * radius * slope / math.sqrt(n), alpha, slope, constants, "bounded slopes"))
    beta = zeta.surrogate.smoothness
    if beta is not None:
        b, start = ball.kappa**2 * beta, _largest_start(zeta)
        alpha = max(math.sqrt(32 * b * start / n) / radius, 2 * b / n)
        excess = 16 * b * start / (alpha * n) + (1 + 16 * b / (alpha * n)) * alpha * radius**2 / 2
        more = constants | {"beta": beta, "start": start}
        options.append((excess, alpha, ball.gradient()[0], more, "smooth"))
    if not options:
        raise ValueError(
            f"{zeta.surrogate!r} has neither bounded slopes nor a known smoothness: use asgd_bound, which needs a ball only."
        )
    return min(options, key=lambda option: option[0])


def _largest_start(zeta: Calibration) -> float:
    """max_y S(0, y)."""
    phi = zeta.problem.vertices
    size = zeta.surrogate.size or phi.shape[1]
    return float(np.max(zeta.surrogate.value(np.zeros((len(phi), size)), phi)))


# -- exponential rates -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExponentialBound:
    """With probability at least 1 - `failure`, every decision is optimal.

    Attributes
    ----------
    failure : the probability that some decision is not optimal.
    excess_risk : the bound on the expected excess risk, the largest excess times `failure`.
    reach : the distance of scores from g*(x) below which no decision changes, sqrt(2 zeta(margin) / beta).
    rate : c, where the bound on failure decreases like exp(-c n) for large n.
    """

    n: float
    failure: float
    excess_risk: float
    reach: float
    rate: float
    gradient: float
    alpha: float
    estimator: str


@explained
def exponential_bound(
    loss: Any,
    surrogate: Any = "auto",
    n: float = 10_000,
    margin: float = 0.1,
    alpha: float = 0.01,
    bias: float = 0.0,
    radius: float = 1.0,
    kappa: float = 1.0,
    estimator: str = "regularised",
) -> ExponentialBound:
    """A bound, exponentially small in n, on the probability of any wrong decision under a hard margin.

    Parameters
    ----------
    loss, surrogate : instances or registered names; the surrogate's gradient must be Lipschitz.
    margin : the hard margin delta; gamma(x) >= delta almost surely.
    alpha : the penalty, which does not shrink with n.
    bias : a bound on |g_alpha(x) - g*(x)|_2 over x, g_alpha the minimiser of the penalised surrogate risk R + alpha/2
        |g|^2. If R is mu-strongly convex, kappa alpha D / mu is one.
    radius, kappa : D bounds |g*| and kappa^2 bounds k(x, x).
    estimator : "regularised", the minimiser of the empirical penalised risk, or "asgd", averaged projected SGD with n
        steps on the penalised risk.

    Returns
    -------
    ExponentialBound

    Notes
    -----
    g*(x) minimises s(., rho(.|x)), which is beta-smooth, so that the surrogate's pointwise excess at g is at most beta/2
    |g(x) - g*(x)|^2. Below zeta(delta) no decision is wrong (the paper's theorem, part 2). So it is enough that sup_x
    |g(x) - g_alpha(x)| < rho = sqrt(2 zeta(delta) / beta) - bias, and |g(x) - g_alpha(x)| <= kappa |g - g_alpha|.

    *Regularised.* F_n is alpha-strongly convex, hence |g - g_alpha| <= |grad F_n(g_alpha)| / alpha, the mean of n centred
    vectors bounded by M at the fixed point |g_alpha| <= D: at most M / sqrt(n) (1 + sqrt(2 log(1/a))), but for probability
    a (McDiarmid). With x = sqrt(n) alpha rho / (kappa M) that leaves failure <= exp(-(x - 1)^2 / 2) for x > 1.

    *Averaged SGD.* On F over the ball, gradients are at most M + alpha D, and |g - g_alpha|^2 <= 2/alpha (F(g) -
    F(g_alpha)); `asgd_bound` with its confidence gives the same failure with x = sqrt(n) alpha rho^2 / (4 kappa^2 D (M +
    alpha D)).

    References
    ----------
    Cabannes, Rudi and Bach, "Fast rates in structured prediction" (2021). Pillaud-Vivien, Rudi and Bach, "Exponential
    convergence of testing error for stochastic gradient methods" (2018). Koltchinskii and Beznosova (2005). Audibert and
    Tsybakov (2007).

    Examples
    --------
    >>> import taskloss as tl
    >>> few, many = (
    ...     tl.theory.exponential_bound(tl.losses.ZeroOne(3), n=n, margin=0.4, alpha=0.05).failure for n in (2e4, 4e4)
    ... )
    >>> many < few**1.5 < 1
    True
    """
    if estimator not in ("regularised", "asgd"):
        raise ValueError(f"estimator must be 'regularised' or 'asgd', got {estimator!r}.")
    ball = Ball.of(loss, surrogate, radius, kappa, n=n, margin=margin, alpha=alpha)
    zeta = ball.zeta
    if not (np.isfinite(bias) and bias >= 0):
        raise ValueError(f"bias must be finite and not negative, got {bias}.")
    beta = zeta.surrogate.smoothness
    if beta is None:
        raise ValueError(f"No smoothness is known for {zeta.surrogate!r}: its scores bound no surrogate excess.")
    level = zeta.hard_margin(margin)
    gradient, _ = ball.gradient()
    if not math.isfinite(level):  # no output has excess `margin` anywhere: every decision is optimal
        return ExponentialBound(n, 0.0, 0.0, math.inf, math.inf, gradient, alpha, estimator)
    reach = math.sqrt(2 * level / beta)
    rho = max(reach - bias, 0.0)
    if estimator == "regularised":
        slope = alpha * rho / (kappa * gradient)
    else:
        slope = alpha * rho**2 / (4 * kappa**2 * radius * (gradient + alpha * radius))
    failure = math.exp(-(max(math.sqrt(n) * slope - 1, 0.0) ** 2) / 2)
    return ExponentialBound(n, failure, zeta.eps_max * failure, reach, slope**2 / 2, gradient, alpha, estimator)
