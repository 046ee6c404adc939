"""Estimates with standard errors, tests and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from .._checks import check_level
from .design import Design, check_minimum, import_pandas, inverse_of, read_problem


def summary(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    covariance: str = "hessian",
    groups: Any = None,
    level: float = 0.95,
) -> Any:
    """Estimates of a linear or ordinal fit without a penalty, with standard errors, z, p, intervals and odds ratios.

    Parameters
    ----------
    model : a fitted `CostSensitiveClassifier`, `OrdinalClassifier` or `TaskLossEstimator` with alpha=0 and a linear hypothesis.
    X, y, sample_weight : the data of the fit. Weights are frequencies.
    covariance : "hessian", the inverse Hessian of minus the log-likelihood, for surrogates that are likelihoods; or "sandwich",
        which is valid for any surrogate, and under misspecification.
    groups : the cluster of each example, for a sandwich over clusters.
    level : the confidence level of the intervals.

    Returns
    -------
    pandas.DataFrame with a row for each coefficient and threshold: estimate, standard error, z, p, low, high, odds ratio.

    Notes
    -----
    A positive coefficient raises the label, whatever the surrogate's sign convention: for ordered labels F^-1(P(Y <=
    j)) = threshold_j - <w, x>, as in R's polr and clm. With k > 2 unordered labels, rows are contrasts to the first
    label. With scores v = g_theta(x), J the derivative of v and M the Hessian of S, H = sum_i w_i J_i' M_i J_i; the
    sandwich is H^-1 (sum_c s_c s_c') H^-1, s_c the sum of J_i' dS_i over a cluster, times c / (c - 1) for c clusters.
    """
    pandas = import_pandas()
    if not isinstance(covariance, str) or covariance not in ("hessian", "sandwich"):
        raise ValueError(f"covariance must be 'hessian' or 'sandwich', got {covariance!r}.")
    check_level("level", level)
    problem = read_problem(model, X, y, sample_weight)
    if covariance == "hessian" and groups is None and not problem.risk.surrogate.likelihood:
        raise ValueError(
            f"{problem.risk.surrogate!r} is no likelihood, and its inverse Hessian no covariance: use covariance='sandwich', or for ordered labels "
            "fit with surrogate='cumulative-link'."
        )
    design = Design(problem)
    hessian, gradient, sums = design.hessian_and_gradients(
        None if covariance == "hessian" and groups is None else groups, covariance
    )
    inverse = inverse_of(hessian, design.names)
    check_minimum(gradient, inverse)
    if sums is None:
        found = inverse
    else:
        if len(sums) < 2:
            raise ValueError("A sandwich over clusters needs at least two of them: groups has one value only.")
        found = inverse @ (sums.T @ sums) @ inverse * (len(sums) / (len(sums) - 1) if groups is not None else 1.0)
    estimate, error = design.estimates(), np.sqrt(np.diag(found))
    z, quantile = estimate / error, stats.norm.ppf((1 + level) / 2)
    table = {
        "estimate": estimate,
        "standard error": error,
        "z": z,
        "p": 2 * stats.norm.sf(np.abs(z)),
        "low": estimate - quantile * error,
        "high": estimate + quantile * error,
        "odds ratio": np.where(design.is_slope & design.logistic, np.exp(estimate), np.nan),
    }
    return pandas.DataFrame(table, index=design.names)
