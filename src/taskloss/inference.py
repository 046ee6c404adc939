"""Inference for linear fits without a penalty: standard errors, tests and intervals of coefficients."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, sparse, stats
from sklearn.base import clone

from .hypotheses.base import Hypothesis
from .objectives import Rows

__all__ = ["likelihood_ratio", "proportional_odds", "refuse_separated", "summary"]

_BLOCK = 1 << 13  # rows in a block
_FAR = 0.02  # standard errors from the minimum beyond which a fit is refused
_SINGULAR = 1e-12  # least eigenvalue of the scaled Hessian, relative to the largest


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
    pandas = _pandas()
    if not isinstance(covariance, str) or covariance not in ("hessian", "sandwich"):
        raise ValueError(f"covariance must be 'hessian' or 'sandwich', got {covariance!r}.")
    problem = _problem(model, X, y, sample_weight)
    if covariance == "hessian" and groups is None and not problem.risk.surrogate.likelihood:
        raise ValueError(
            f"{problem.risk.surrogate!r} is no likelihood, and its inverse Hessian no covariance: use covariance='sandwich'."
        )
    design = _Design(problem)
    hessian, gradient, sums = design.hessian_and_gradients(
        None if covariance == "hessian" and groups is None else groups, covariance
    )
    inverse = _inverse(hessian, design.names)
    _check_minimum(gradient, inverse)
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
    pandas = _pandas()
    table = []
    for name, model, columns in (("smaller", smaller, X if X_smaller is None else X_smaller), ("larger", larger, X)):
        problem = _problem(model, columns, y, sample_weight)
        if not problem.risk.surrogate.likelihood:
            raise ValueError(f"{name} was fitted by {problem.risk.surrogate!r}, which is no likelihood.")
        design = _Design(problem)
        hessian, gradient, _ = design.hessian_and_gradients(None, "hessian")
        _check_minimum(gradient, _inverse(hessian, design.names))
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
    pandas = _pandas()
    if not isinstance(method, str) or method not in ("brant", "likelihood-ratio"):
        raise ValueError(f"method must be 'brant' or 'likelihood-ratio', got {method!r}.")
    problem = _problem(model, X, y, sample_weight)
    surrogate, labels = problem.risk.surrogate, model.labels_.size
    if method == "likelihood-ratio":
        return _nominal_tests(problem, X, y, sample_weight)
    if not (surrogate.ordered and surrogate.odds and model.hypothesis_.shares_weights and labels > 2):
        raise ValueError(
            "Proportional odds are those of the cumulative logit with shared weights on three labels or more: fit "
            "OrdinalClassifier(surrogate='cumulative-link', alpha=0)."
        )
    rows = _brant(problem, _Design(problem).names[: problem.X.shape[1]])
    table = {name: (value, count, stats.chi2.sf(value, count)) for name, (value, count) in rows.items()}
    return pandas.DataFrame.from_dict(table, orient="index", columns=["statistic", "degrees of freedom", "p"])


def _nominal_tests(problem: _Problem, X: Any, y: Any, sample_weight: Any) -> Any:
    model, d = problem.model, problem.X.shape[1]
    if not (problem.risk.surrogate.ordered and model.hypothesis_.shares_weights and hasattr(model, "nominal")):
        raise ValueError(
            "model must be an OrdinalClassifier with a cumulative link, alpha=0 and shared weights, which nominal columns are tested against."
        )
    names, rows = _Design(problem).names[:d], {}
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
    return _pandas().DataFrame.from_dict(rows, orient="index", columns=names_of)


def _brant(problem: _Problem, names: list[str]) -> dict[str, tuple[float, int]]:
    from .estimators.faces import CostSensitiveClassifier

    X, codes = problem.X, problem.risk.targets.argmax(1)
    weights, cuts, d = problem.risk.weights * problem.total, range(problem.risk.n_scores), problem.X.shape[1]
    Z = np.column_stack([X, np.ones(len(X))])
    b, pi, inverses = [], [], []
    for j in cuts:
        fit = CostSensitiveClassifier(alpha=0, tol=1e-14).fit(X, codes > j, sample_weight=weights)
        b.append(np.append(fit.coef_[0], fit.intercept_))
        pi.append(fit.predict_proba(X)[:, 1])
        inverses.append(_inverse((Z * (weights * pi[j] * (1 - pi[j]))[:, None]).T @ Z, [*names, "intercept"]))

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


class _Problem(NamedTuple):
    """A fitted model with its data as arrays."""

    model: Any
    X: np.ndarray
    risk: Rows
    total: float  # the sum of the weights: the number of examples


def _problem(model: Any, X: Any, y: Any, sample_weight: Any) -> _Problem:
    model._check_fitted()
    hypothesis = model.hypothesis_
    if not hypothesis.plain:
        raise ValueError(f"{hypothesis!r} has no coefficients of the columns of X: use hypothesis='linear'.")
    if model.alpha != 0:
        raise ValueError(
            f"This fit has the penalty alpha={model.alpha!r}, which biases coefficients towards zero and voids their standard errors: fit with alpha=0."
        )
    inputs = hypothesis.read(X, model, False)
    inputs = inputs.toarray() if sparse.issparse(inputs) else np.asarray(inputs, dtype=float)
    codes = model.labels_.encode(y)
    if len(codes) != len(inputs):
        raise ValueError(f"X and y have different lengths: {len(inputs)} and {len(codes)}.")
    weights = model._weights(sample_weight, codes, model.labels_)
    risk = Rows(model.surrogate_, model.loss_.phi(codes), weights)
    return _Problem(model, inputs, risk, float(weights.sum()))


class _Design:
    """Free parameters of a fit: their names, estimates, and the derivative of scores in them.

    Shared weights: (w, thresholds), v = x w + b; where some columns are nominal, their weights in v_j come in between. Otherwise a column
    (w, b) for each free score: a softmax is invariant to a shift of all scores, and its first score is the reference.
    """

    def __init__(self, problem: _Problem):
        self.problem = problem
        model, surrogate = problem.model, problem.risk.surrogate
        self.theta = np.asarray(model.hypothesis_.expand(model.theta_), dtype=float)
        d, labels = problem.X.shape[1], [str(label) for label in model.labels_.classes]
        names = getattr(model, "feature_names_in_", None)
        columns = [f"x{j}" for j in range(d)] if names is None else [str(name) for name in names]
        self.shared, self.own = model.hypothesis_.shares_weights, model.hypothesis_.own
        k = problem.risk.n_scores
        self.ties = None if self.own is None else _ties(model.hypothesis_, d, k)
        self.free = slice(1, None) if k == len(labels) and not self.shared else slice(None)
        # a cumulative link's score F^-1(P(Y <= j)) = <theta, x> + b_j falls as labels rise: w = -theta
        self.sign = -1.0 if surrogate.ordered else 1.0
        self.logistic = surrogate.odds
        if self.own is not None:
            cuts, own = [f"{a}|{b}" for a, b in pairwise(labels)], self.own.tolist()
            each = [f"{cut}: {columns[c]}" for c in own for cut in cuts]
            self.names = [name for c, name in enumerate(columns) if c not in own] + each + cuts
            self.is_slope = np.arange(len(self.names)) < len(self.names) - k
        elif self.shared or k == 1:
            cuts = [f"{a}|{b}" for a, b in pairwise(labels)] if self.shared else ["intercept"]
            self.names = columns + cuts
            self.is_slope = np.arange(len(self.names)) < d
        else:
            kinds = labels[self.free] if k == len(labels) else [f"{a}|{b}" for a, b in pairwise(labels)]
            self.names = [f"{kind}: {column}" for kind in kinds for column in [*columns, "intercept"]]
            self.is_slope = np.tile(np.arange(d + 1) < d, len(kinds))

    def estimates(self) -> np.ndarray:
        d = self.problem.X.shape[1]
        if self.ties is not None:
            theta = np.asarray(self.problem.model.theta_, dtype=float)[:, 0]
            return self.sign * np.where(self.is_slope, theta, -theta)
        if self.shared:
            # P(Y <= j) = F(threshold - <w, x>); scores of all-thresholds are those of P(Y > j), with the opposite sign
            return np.concatenate([self.sign * self.theta[:d, 0], -self.sign * self.theta[d:, 0]])
        free = self.theta[:, self.free] - (self.theta[:, :1] if self.free.start else 0.0)
        return self.sign * free.T.ravel() if self.problem.risk.n_scores > 1 else free[:, 0]

    def scores(self) -> np.ndarray:
        """The scores of all examples."""
        model = self.problem.model
        return np.ascontiguousarray(model.hypothesis_.predict(model.theta_, self.problem.X))

    def hessian_and_gradients(self, groups: Any, covariance: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """H and the gradient of the summed loss, and gradients by example or by cluster, with respect to `estimates`."""
        problem, p = self.problem, len(self.names)
        X, risk, n = problem.X, problem.risk, len(problem.X)
        v = self.scores()
        scaled = risk.weights * problem.total
        hessian = np.zeros((p, p))
        sandwich = covariance == "sandwich" or groups is not None
        gradients = np.empty((n, p)) if sandwich else None
        total = np.zeros(p)
        for start in range(0, n, _BLOCK):
            rows = slice(start, min(start + _BLOCK, n))
            phi, surrogate = np.asarray(risk.targets[rows], dtype=float), risk.surrogate
            dv = surrogate.gradient(v[rows], phi)
            product = surrogate.hessian(v[rows], phi)
            units = np.eye(v.shape[1])
            M = np.stack([product(np.broadcast_to(unit, dv.shape)) for unit in units], axis=-1)
            Z, w = np.column_stack([X[rows], np.ones(len(dv))]), scaled[rows]
            hessian += self._assemble_hessian(Z, M * w[:, None, None])
            G = self._assemble_gradient(Z, dv) * w[:, None]
            total += G.sum(0)
            if gradients is not None:
                gradients[rows] = G
        if gradients is not None and groups is not None:
            codes = np.unique(np.asarray(groups), return_inverse=True)[1]
            if len(codes) != n:
                raise ValueError(f"groups must have one value for each of the {n} examples, got {len(codes)}.")
            sums = np.zeros((codes.max() + 1, p))
            np.add.at(sums, codes, gradients)
            return hessian, total, sums
        return hessian, total, gradients

    def _assemble_hessian(self, Z: np.ndarray, M: np.ndarray) -> np.ndarray:
        d, k = Z.shape[1] - 1, M.shape[1]
        if self.shared:
            cross = np.einsum("ni,nj->ij", Z[:, :d], M.sum(2))
            top = (Z[:, :d] * M.sum((1, 2))[:, None]).T @ Z[:, :d]
            # v = x w + b; estimates are s w and -s b, which flips the sign of the cross terms
            return np.block([[top, -cross], [-cross.T, M.sum(0)]])
        M = M[:, self.free, self.free]
        k = M.shape[1]
        out = np.empty((k, d + 1, k, d + 1))
        for a in range(k):
            for b in range(k):
                out[a, :, b] = (Z * M[:, a, b, None]).T @ Z
        out = out.reshape(k * (d + 1), k * (d + 1))
        return out if self.ties is None else self._tied(self._tied(out).T)

    def _tied(self, derivatives: np.ndarray) -> np.ndarray:
        """Derivatives in the estimates of a fit that shares some weights, from those in the weights of each score."""
        assert self.ties is not None
        return (derivatives @ self.ties) * np.where(self.is_slope, self.sign, -self.sign)

    def _assemble_gradient(self, Z: np.ndarray, dv: np.ndarray) -> np.ndarray:
        d = Z.shape[1] - 1
        if self.shared:
            return np.hstack([self.sign * dv.sum(1, keepdims=True) * Z[:, :d], -self.sign * dv])
        each = (dv[:, self.free, None] * Z[:, None, :]).reshape(len(Z), -1)
        if self.ties is not None:
            return self._tied(each)
        return self.sign * each if dv.shape[1] > 1 else each


def _check_minimum(gradient: np.ndarray, inverse: np.ndarray) -> None:
    """ValueError where sqrt(g' H^-1 g), which bounds a Newton step in standard errors of each estimate, is large."""
    far = float(np.sqrt(max(gradient @ inverse @ gradient, 0.0)))
    if not far < _FAR:
        raise ValueError(
            f"The fit is not at its minimum on these data ({far:.2g} standard errors away): give the X, y and sample_weight of the fit, and fit with a "
            "smaller tol."
        )


def _inverse(hessian: np.ndarray, names: list[str]) -> np.ndarray:
    """H^-1; ValueError that names the dependent columns where H is singular."""
    scale = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    if values[0] < _SINGULAR * values[-1]:
        loose = [name for name, size in zip(names, np.abs(vectors[:, 0]), strict=True) if size > 0.1]
        raise ValueError(
            f"The Hessian is singular: {', '.join(loose)} are not determined by the data, as where columns are sums of others or constant; leave one out."
        )
    return (vectors / values) @ vectors.T / np.outer(scale, scale)


def refuse_separated(hypothesis: Hypothesis, X: Any, risk: Rows) -> None:
    """ValueError where the features separate the labels: without a penalty the likelihood then has no maximum.

    Labels are separated if scores exist, not all zero, that are right or tied at every example. Then those of a subset
    are separated, too, so that a linear program over a small subset usually rules it out.
    """
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
    spread = X.std(0)
    Z = np.column_stack([(X - X.mean(0)) / np.where(spread > 0, spread, 1.0), np.ones(len(X))])
    codes = np.unique(np.asarray(risk.targets), axis=0, return_inverse=True)[1].ravel()
    few, size = np.random.default_rng(0).permutation(len(Z)), 30 * (Z.shape[1] + risk.n_scores)
    place = np.empty(len(Z), dtype=int)  # rank of each example within its label, so that the subset has all labels
    for label in range(codes.max() + 1):
        place[few[codes[few] == label]] = np.arange((codes == label).sum())
    few = np.argsort(place, kind="stable")[:size]
    ties = _ties(hypothesis, X.shape[1], risk.n_scores)
    if _separated(Z[few], risk, few, ties) and (len(few) == len(Z) or _separated(Z, risk, np.arange(len(Z)), ties)):
        raise ValueError(
            "The features separate the labels, so that without a penalty the coefficients would grow without bound: use alpha above zero, or leave out the "
            "columns that tell labels apart by themselves."
        )


def _ties(hypothesis: Hypothesis, d: int, k: int) -> sparse.csr_matrix | None:
    """The map from the parameters of a fit that shares weights, as theta has them, to those of one that shares none, score by score."""
    if not hypothesis.shares_weights and hypothesis.own is None:
        return None
    own = np.zeros(0, dtype=int) if hypothesis.own is None else hypothesis.own
    shared = np.setdiff1d(np.arange(d), own)
    scores = np.arange(k) * (d + 1)
    rows = np.concatenate([(shared[:, None] + scores).ravel(), (np.append(own, d)[:, None] + scores).ravel()])
    columns = np.concatenate([np.repeat(np.arange(len(shared)), k), len(shared) + np.arange((len(own) + 1) * k)])
    shape = (d + 1) * k, len(shared) + (len(own) + 1) * k
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)


def _separated(Z: np.ndarray, risk: Rows, rows: np.ndarray, ties: sparse.csr_matrix | None) -> bool:
    """Whether max sum_c min(a_c, 1) > 0 over parameters in a box, a_c >= 0 the slack of constraint c on the scores."""
    phi, d, k = np.asarray(risk.targets[rows], dtype=float), Z.shape[1] - 1, risk.n_scores
    if risk.surrogate.ordered:  # labels are rows of the identity: v_y >= 0 and v_{y-1} <= 0
        asks = [(phi[:, j] == 1, j, 1.0) for j in range(k)] + [(phi[:, j + 1] == 1, j, -1.0) for j in range(k)]
    elif phi.shape[1] == k and not np.isin(phi, (-1.0, 1.0)).all():  # one score for each label: v_y >= v_c
        asks = []
    else:
        asks = [(phi[:, j] == side, j, side) for j in range(k) for side in (-1.0, 1.0)]
    blocks = []
    if asks:
        for here, j, side in asks:
            part = np.zeros((int(here.sum()), (d + 1) * k))
            part[:, j * (d + 1) : (j + 1) * (d + 1)] = side * Z[here]
            blocks.append(part if ties is None else part @ ties)
    else:
        labels = phi.argmax(1)
        for c in range(1, k):
            other = (labels + c) % k
            part = np.zeros((len(Z), k, d + 1))
            part[np.arange(len(Z)), labels] = Z
            part[np.arange(len(Z)), other] -= Z
            blocks.append(part.reshape(len(Z), -1))
    A = np.vstack(blocks)
    # maximise sum a, 0 <= a <= 1, a <= A theta
    m, p = A.shape
    program = optimize.linprog(
        np.concatenate([np.zeros(p), -np.ones(m)]),
        A_ub=sparse.hstack([sparse.csr_matrix(-A), sparse.identity(m)], format="csr"),
        b_ub=np.zeros(m),
        bounds=[(-1, 1)] * p + [(0, 1)] * m,
        method="highs",
    )
    return program.status == 0 and -program.fun > 1e-6


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("A summary is a data frame of pandas: pip install pandas.") from None
    return pandas
