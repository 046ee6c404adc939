"""Fits to 50:50 undersampled data with the known shares of the labels, beside fits to all: python -m benchmarks.priors [name ...].

The data, features and costs per example are those of benchmarks.example_costs. The training part is undersampled to as many examples
of the common label as of the rare one; decisions take `class_prior`, the shares of the whole training part.
Every fit chooses its penalty from five by the logarithmic loss of three inner folds. Without it, decisions are
made as if one half were positive. The last column estimates the shares of the test part without its labels (EM, with a third of the
training part as reference), or says that it refused. Intervals of the difference to the fit on all: corrected resampled t, 95 %.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit, train_test_split

import taskloss as tl

from .common import RESULTS, measure_all, write_table
from .example_costs import ALPHAS, BUNDLED, SHARED, SPLITS, TEST, load
from .quality import interval, standardise, verdict

STORE = RESULTS / "priors.json"


def undersampled(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rare = int(np.argmin(np.bincount(y)))
    few, many = np.flatnonzero(y == rare), np.flatnonzero(y != rare)
    return np.sort(np.concatenate([few, rng.choice(many, len(few), replace=False)]))


def fitted(X: np.ndarray, y: np.ndarray) -> Any:
    model = tl.CostSensitiveClassifier(tol=1e-6)
    return GridSearchCV(model, {"alpha": ALPHAS}, scoring="neg_log_loss", cv=3).fit(X, y).best_estimator_


def measure(_: str, name: str) -> dict[str, list[Any]]:
    warnings.simplefilter("ignore")
    X, y, costs = load(name)
    rng = np.random.default_rng(0)
    out: dict[str, list[Any]] = {"full": [], "prior": [], "naive": [], "estimate": []}
    for a, b in StratifiedShuffleSplit(SPLITS, test_size=TEST, random_state=0).split(X, y):
        X_train, X_test = standardise(X[a], X[b])
        half = undersampled(y[a], rng)
        shares = np.bincount(y[a]) / len(a)

        def paid(z: np.ndarray, b: np.ndarray = b) -> float:
            return float(costs[b, z, y[b]].mean())

        full = fitted(X_train, y[a])
        part = fitted(X_train[half], y[a][half])
        out["full"].append(paid(full.predict(X_test, costs=costs[b])))
        out["prior"].append(paid(part.predict(X_test, costs=costs[b], class_prior=shares)))
        out["naive"].append(paid(part.predict(X_test, costs=costs[b])))
        fit, ref = train_test_split(half, test_size=1 / 3, random_state=0, stratify=y[a][half])
        third = fitted(X_train[fit], y[a][fit])
        try:
            laws = third.predict_proba(X_test), third.predict_proba(X_train[ref])
            found = tl.estimate_prior(*laws, y[a][ref], train_prior=third.class_prior_)
            truth = y[b].mean()
            out["estimate"].append([float(found.low[1]), float(found.high[1]), float(truth)])
        except ValueError as refusal:
            out["estimate"].append(str(refusal).split(":")[0])
    return out


def main(names: list[str]) -> None:
    kept = measure_all(STORE, [f"costs/{name}" for name in names or [*SHARED, *BUNDLED]], measure)
    rows = []
    for key, found in kept.items():
        gaps = np.array(found["prior"]) - np.array(found["full"])
        mean, _, half = interval([gaps[i : i + 1] for i in range(len(gaps))], TEST / (1 - TEST))
        given = [e for e in found["estimate"] if not isinstance(e, str)]
        inside = sum(low <= truth <= high for low, high, truth in given)
        estimate = f"{inside} of {len(given)} intervals hold the truth, {len(found['estimate']) - len(given)} refused"
        costs = [float(np.mean(found[kind])) for kind in ("full", "prior", "naive")]
        rows.append((key.split("/")[1], *costs, f"{mean:.3g} ± {half:.2g}", verdict(mean, half), estimate))
    header = [
        "data",
        "all",
        "50:50, shares known",
        "50:50, naive",
        "shares known less all",
        "verdict",
        "estimated shares",
    ]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    write_table("priors", "Undersampling and shares of labels: mean realised cost", header, rows, [], note)


if __name__ == "__main__":
    main(sys.argv[1:])
