"""A fitted model with its data, and the derivatives of its risk in the parameters that are free."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..objectives import Rows
from .separation import ties_of

_BLOCK = 1 << 13  # rows in a block
_FAR = 0.02  # standard errors from the minimum beyond which a fit is refused
_SINGULAR = 1e-12  # least eigenvalue of the scaled Hessian, relative to the largest


class Problem(NamedTuple):
    """A fitted model with its data as arrays."""

    model: Any
    X: np.ndarray
    risk: Rows
    total: float  # the sum of the weights: the number of examples


def read_problem(model: Any, X: Any, y: Any, sample_weight: Any) -> Problem:
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
    return Problem(model, inputs, risk, float(weights.sum()))


class Design:
    """Free parameters of a fit: their names, estimates, and the derivative of scores in them.

    Shared weights: (w, thresholds), v = x w + b; where some columns are nominal, their weights in v_j come in between. Otherwise a column
    (w, b) for each free score: a softmax is invariant to a shift of all scores, and its first score is the reference.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        model, surrogate = problem.model, problem.risk.surrogate
        self.theta = np.asarray(model.hypothesis_.expand(model.theta_), dtype=float)
        d, labels = problem.X.shape[1], [str(label) for label in model.labels_.classes]
        names = getattr(model, "feature_names_in_", None)
        columns = [f"x{j}" for j in range(d)] if names is None else [str(name) for name in names]
        self.shared, self.own = model.hypothesis_.shares_weights, model.hypothesis_.own
        k = problem.risk.n_scores
        self.ties = None if self.own is None else ties_of(model.hypothesis_, d, k)
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


def check_minimum(gradient: np.ndarray, inverse: np.ndarray) -> None:
    """ValueError where sqrt(g' H^-1 g), which bounds a Newton step in standard errors of each estimate, is large."""
    far = float(np.sqrt(max(gradient @ inverse @ gradient, 0.0)))
    if not far < _FAR:
        raise ValueError(
            f"The fit is not at its minimum on these data ({far:.2g} standard errors away): give the X, y and sample_weight of the fit, and fit with a "
            "smaller tol."
        )


def inverse_of(hessian: np.ndarray, names: list[str]) -> np.ndarray:
    """H^-1; ValueError that names the dependent columns where H is singular."""
    scale = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    if values[0] < _SINGULAR * values[-1]:
        loose = [name for name, size in zip(names, np.abs(vectors[:, 0]), strict=True) if size > 0.1]
        raise ValueError(
            f"The Hessian is singular: {', '.join(loose)} {'is' if len(loose) == 1 else 'are'} not determined by the data, as where columns are sums of others or constant; leave one out."
        )
    return (vectors / values) @ vectors.T / np.outer(scale, scale)


def import_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("A summary is a data frame of pandas: pip install pandas.") from None
    return pandas
