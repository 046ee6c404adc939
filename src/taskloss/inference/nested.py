"""Tests of a fit within a larger one: the likelihood ratio, and whether odds are proportional."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from .design import Design, Problem, check_minimum, import_pandas, inverse_of, read_problem


def likelihood_ratio(
    smaller: Any, larger: Any, X: Any, y: Any, sample_weight: Any = None, *, X_smaller: Any = None
) -> Any:
    """The likelihood-ratio test of two nested fits without a penalty, such as proportional odds within partial ones.

    Parameters
    ----------
    smaller, larger : fitted models as `summary` takes them, whose surrogates are the same likelihood. That every law of the
        first is one of the second is the caller's word, as far as the likelihoods do not contradict it.
    X, y, sample_weight : the data of the fits. Weights are frequencies.
    X_smaller : the columns of the smaller fit, where they are not those of X.

    Returns
    -------
    pandas.DataFrame with a row for each fit: parameters, log-likelihood, AIC; and for the larger one statistic, degrees of freedom, p.

    Notes
    -----
    Twice the gain in log-likelihood is chi-square under the smaller model, with as many degrees of freedom as it has parameters less.
    """
    pandas = import_pandas()
    table = []
    for name, model, columns in (("smaller", smaller, X if X_smaller is None else X_smaller), ("larger", larger, X)):
        problem = read_problem(model, columns, y, sample_weight)
        if not problem.risk.surrogate.likelihood:
            raise ValueError(f"{name} was fitted by {problem.risk.surrogate!r}, which is no likelihood.")
        design = Design(problem)
        hessian, gradient, _ = design.hessian_and_gradients(None, "hessian")
        check_minimum(gradient, inverse_of(hessian, design.names))
        value = -float(problem.risk.value_and_gradient(design.scores())[0].sum()) * problem.total
        table.append((problem.risk.surrogate, len(design.names), value))
    (first, few, low), (second, many, high) = table
    if first != second or few >= many or high < low - 1e-6 * abs(low):
        raise ValueError(
            f"smaller must be nested in larger: it has {few} parameters of {first!r} and the log-likelihood {low:.6g}, the other {many} of "
            f"{second!r} and {high:.6g}."
        )
    statistic, nan = max(2 * (high - low), 0.0), float("nan")
    return pandas.DataFrame(
        {
            "parameters": [few, many],
            "log-likelihood": [low, high],
            "AIC": [2 * few - 2 * low, 2 * many - 2 * high],
            "statistic": [nan, statistic],
            "degrees of freedom": [nan, many - few],
            "p": [nan, stats.chi2.sf(statistic, many - few)],
        },
        index=["smaller", "larger"],
    )


def proportional_odds(model: Any, X: Any, y: Any, sample_weight: Any = None, *, method: str = "brant") -> Any:
    """Tests of proportional odds: that the coefficients of Y > j are the same for all thresholds j.

    Parameters
    ----------
    model : a fitted `OrdinalClassifier` with the cumulative logit, alpha=0 and shared weights, on three labels or more.
    X, y, sample_weight : the data of the fit.
    method : "brant", Wald tests between the logistic regressions of Y > j; or "likelihood-ratio", tests against fits in which a column,
        or all, are nominal, as R's nominal_test makes them, for any link. NaN where the labels are separated in such a fit.

    Returns
    -------
    pandas.DataFrame with columns statistic, degrees of freedom, p, a row for all columns of X together, and one for
    each.

    Notes
    -----
    With b_j the coefficients of the j-th regression and V their joint covariance, whose blocks are
    (X'W_j X)^-1 X'W_jl X (X'W_l X)^-1 with W_jl = pi_l (1 - pi_j) for j <= l and pi_j the fitted P(Y > j), (D b)'(D V D')^-1 (D b) is
    chi-square, D b the differences b_1 - b_j.

    References
    ----------
    Brant, Assessing proportionality in the proportional odds model for ordinal logistic regression, 1990.
    """
    pandas = import_pandas()
    if not isinstance(method, str) or method not in ("brant", "likelihood-ratio"):
        raise ValueError(f"method must be 'brant' or 'likelihood-ratio', got {method!r}.")
    problem = read_problem(model, X, y, sample_weight)
    surrogate, labels = problem.risk.surrogate, model.labels_.size
    if method == "likelihood-ratio":
        return _nominal_tests(problem, X, y, sample_weight)
    if not (surrogate.ordered and surrogate.odds and model.hypothesis_.shares_weights and labels > 2):
        raise ValueError(
            "Proportional odds are those of the cumulative logit with shared weights on three labels or more: fit "
            "OrdinalClassifier(surrogate='cumulative-link', alpha=0)."
        )
    rows = _brant(problem, Design(problem).names[: problem.X.shape[1]])
    table = {name: (value, count, stats.chi2.sf(value, count)) for name, (value, count) in rows.items()}
    return pandas.DataFrame.from_dict(table, orient="index", columns=["statistic", "degrees of freedom", "p"])


def _nominal_tests(problem: Problem, X: Any, y: Any, sample_weight: Any) -> Any:
    model, d = problem.model, problem.X.shape[1]
    if not (problem.risk.surrogate.ordered and model.hypothesis_.shares_weights and hasattr(model, "nominal")):
        raise ValueError(
            "model must be an OrdinalClassifier with a cumulative link, alpha=0 and shared weights, which nominal columns are tested against."
        )
    names, rows = Design(problem).names[:d], {}
    for name, columns in [("all", list(range(d))), *((name, [c]) for c, name in enumerate(names))]:
        try:
            larger = clone(model).set_params(nominal=columns).fit(X, y, sample_weight=sample_weight)
            found = likelihood_ratio(model, larger, X, y, sample_weight).loc["larger"]
            rows[name] = found["statistic"], int(found["degrees of freedom"]), found["p"]
        except ValueError as refusal:
            if "separate the labels" not in str(refusal):
                raise
            rows[name] = np.nan, len(columns) * (problem.risk.n_scores - 1), np.nan
    names_of = ["statistic", "degrees of freedom", "p"]
    return import_pandas().DataFrame.from_dict(rows, orient="index", columns=names_of)


def _brant(problem: Problem, names: list[str]) -> dict[str, tuple[float, int]]:
    from ..estimators.faces import CostSensitiveClassifier

    X, codes = problem.X, problem.risk.targets.argmax(1)
    weights, cuts, d = problem.risk.weights * problem.total, range(problem.risk.n_scores), problem.X.shape[1]
    Z = np.column_stack([X, np.ones(len(X))])
    b, pi, inverses = [], [], []
    for j in cuts:
        fit = CostSensitiveClassifier(alpha=0, tol=1e-14).fit(X, codes > j, sample_weight=weights)
        b.append(np.append(fit.coef_[0], fit.intercept_))
        pi.append(fit.predict_proba(X)[:, 1])
        inverses.append(inverse_of((Z * (weights * pi[j] * (1 - pi[j]))[:, None]).T @ Z, [*names, "intercept"]))

    def block(j: int, k: int) -> np.ndarray:
        low, high = min(j, k), max(j, k)
        middle = (Z * (weights * pi[high] * (1 - pi[low]))[:, None]).T @ Z
        return (inverses[j] @ middle @ inverses[k])[:d, :d]

    V = np.block([[block(j, k) for k in cuts] for j in cuts])
    slopes, m = np.concatenate([one[:d] for one in b]), len(cuts)
    D = np.hstack([np.tile(np.eye(d), (m - 1, 1)), -np.eye((m - 1) * d)])

    def wald(rows: np.ndarray) -> tuple[float, int]:
        gap, cov = D[rows] @ slopes, D[rows] @ V @ D[rows].T
        return float(gap @ np.linalg.solve(cov, gap)), len(rows)

    out = {"all": wald(np.arange(len(D)))}
    return out | {name: wald(np.arange(i, len(D), d)) for i, name in enumerate(names)}
