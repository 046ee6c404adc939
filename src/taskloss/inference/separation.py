"""Labels that the features separate, which no fit without a penalty has a minimum for."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, sparse

from ..hypotheses.base import Hypothesis
from ..objectives import Rows


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
    ties = ties_of(hypothesis, X.shape[1], risk.n_scores)
    if _separated(Z[few], risk, few, ties) and (len(few) == len(Z) or _separated(Z, risk, np.arange(len(Z)), ties)):
        raise ValueError(
            "The features separate the labels, so that without a penalty the coefficients would grow without bound: use alpha above zero, or leave out the "
            "columns that tell labels apart by themselves."
        )


def ties_of(hypothesis: Hypothesis, d: int, k: int) -> sparse.csr_matrix | None:
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
