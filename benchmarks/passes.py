"""Passes over the data that a multinomial fit takes: python -m benchmarks.passes. Counts, which no load disturbs.

An evaluation of value and gradient is one pass. "one model" is the preconditioner that takes every example to be as curved as the mean,
"two" the one in use, which looks at the true curvature in the directions of the weights. Gaussian rows are those of benchmarks.speed, each fit
to a relative gap of 1e-6; the data sets that come with scikit-learn, as they are and standardised, are fitted to tol = 1e-8 with five strengths of penalty each, and
count by the geometric mean. scikit-learn's L-BFGS, which has no preconditioner, counts in iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import taskloss as tl
from taskloss.objectives import PenalisedRisk

from . import speed
from .common import write_table

ALPHAS = (1e-1, 1e-3, 1e-4, 1e-5, 1e-6)
LADDER = 10.0 ** -np.arange(4, 10, 0.5)  # tolerances to try, the loosest first


def evaluations(X: np.ndarray, y: np.ndarray, alpha: float, tol: float) -> tuple[int, Any]:
    model = tl.CostSensitiveClassifier(alpha=alpha, tol=tol, max_iter=5000, solver="lbfgs").fit(X, y)
    return model.solution_.evaluations, (model.coef_, model.intercept_)


def iterations(X: np.ndarray, y: np.ndarray, alpha: float, tol: float) -> tuple[int, Any]:
    model = LogisticRegression(C=1 / (len(y) * alpha), tol=tol, max_iter=5000).fit(X, y)
    return int(model.n_iter_[0]), (model.coef_, model.intercept_)


def one_model() -> Any:
    return mock.patch.object(
        PenalisedRisk, "corrects", property(lambda self: False, lambda self, value: None), create=True
    )


def to_gap(count: Callable[..., tuple[int, Any]], X: np.ndarray, y: np.ndarray, best: float) -> int:
    """What the loosest tolerance within the gap takes."""
    value = speed.multinomial_value(X, y, 1 / len(y))
    for tol in LADDER:
        found, theta = count(X, y, 1 / len(y), tol)
        if value(theta) / best - 1 <= speed.GAP:
            return found
    raise RuntimeError("No tolerance reached the gap.")


def gaussian_rows() -> list[list]:
    rows = []
    for label, condition in speed.CONDITIONS.items():
        X, y = speed.multinomial_data(condition)
        best = speed.multinomial_value(X, y, 1 / len(y))(evaluations(X, y, 1 / len(y), 1e-13)[1])
        with one_model():
            one = to_gap(evaluations, X, y, best)
        rows.append([f"Gaussian, {label}", one, to_gap(evaluations, X, y, best), to_gap(iterations, X, y, best)])
        print(rows[-1], flush=True)
    return rows


def bundled_rows() -> list[list]:
    rows = []
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        for name, data in (("", X), (", standardised", StandardScaler().fit_transform(X))):
            with one_model():
                one = [evaluations(data, y, alpha, 1e-8)[0] for alpha in ALPHAS]
            two = [evaluations(data, y, alpha, 1e-8)[0] for alpha in ALPHAS]
            means = (np.exp(np.log(counts).mean()) for counts in (one, two))
            rows.append([load.__name__.removeprefix("load_") + name, *(round(float(m), 1) for m in means), ""])
            print(rows[-1], flush=True)
    means = np.exp(np.log([row[1:3] for row in rows]).mean(0))
    return [*rows, ["all of these, geometric mean", *(round(float(m), 1) for m in means), ""]]


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [*gaussian_rows(), *bundled_rows()]
    header = ["data", "one model", "two", "scikit-learn lbfgs"]
    note = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    write_table("passes", "Passes over the data in a multinomial fit", header, rows, ["numba"], note)


if __name__ == "__main__":
    main()
