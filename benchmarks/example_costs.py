"""Costs that differ per example, on real data, beside empulse and a tuned threshold: python -m benchmarks.example_costs [name ...].

Every method sees the same features, numbers standardised on the training part and words as indicators, and pays the realised
costs of its decisions on the test part. Linear: taskloss chooses its penalty by the costs of three inner folds from five, and
decides each example by its own costs; empulse's CSLogitClassifier fits the costs themselves, its CSThresholdClassifier calibrates
logistic regression and has a threshold for each example; scikit-learn's TunedThresholdClassifierCV tunes one threshold for all by
the costs. Trees: XGBoost as it comes, calibrated by sigmoids and decided by taskloss, beside empulse's CSBoostClassifier. The
interval of a difference is the corrected resampled t interval (Nadeau and Bengio 2003); a win or a loss is a 95 % interval
without zero. Costs: those that empulse brings with its data; for german a bad credit that is granted costs three quarters of its
amount and a good one that is refused a tenth, and for bankmarketing a call costs 1 and a client missed the interest on a quarter of
the balance, as empulse has it on its own copy of these data.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit, TunedThresholdClassifierCV

import taskloss as tl

from .common import RESULTS, measure_all, write_table
from .datasets import root
from .datasets.tabular import _columns, _features, _text
from .quality import interval, standardise, verdict

ALPHAS = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
SPLITS = 5
TEST = 0.25
STORE = RESULTS / "example_costs.json"
BUNDLED = {
    "churn": "load_churn_tv_subscriptions",
    "pakdd": "load_credit_scoring_pakdd",
    "vub": "load_vub_credit_scoring",
}
SHARED = ("german", "bankmarketing")
PEERS = {
    "taskloss, linear": ["argmax", "tuned threshold", "empulse CSThreshold", "empulse CSLogit"],
    "taskloss, trees": ["empulse CSBoost"],
}


def load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels 0 and 1, and costs (n, 2, 2) of decisions 0 and 1."""
    if name in BUNDLED:
        import empulse.datasets
        import pandas

        data = getattr(empulse.datasets, BUNDLED[name])(backend=pandas)
        X = _features({column: data.data[column].to_numpy() for column in data.data})
        given = {key: np.asarray(value, dtype=float) for key, value in (data.instance_costs or {}).items()}
        cells = {cell: given.get(cell, np.zeros(len(X))) for cell in ("tn_cost", "fn_cost", "fp_cost", "tp_cost")}
        if "cl" in given:
            cells["fn_cost"] = 0.75 * given["cl"]  # the loss given default that both sets of loans come with
        return X, np.asarray(data.target, dtype=int), _table(**cells)
    base = root()
    if base is None:
        raise SystemExit(f"{name} is among the shared data, which are not here.")
    folder = base / "cost_sensitive" / name
    if name == "german":
        rows = np.loadtxt(folder / "german.data", dtype=str)
        columns = {str(j): rows[:, j] for j in range(rows.shape[1])}
        y, amount = (columns.pop("20") == "2").astype(int), columns["4"].astype(float)
        return _features(columns), y, _table(fn_cost=0.75 * amount, fp_cost=0.1 * amount)
    columns = _columns(_text(folder / "bankmarketing.csv.gz"), ";")
    y, balance = (columns.pop("y") == "yes").astype(int), columns["balance"].astype(float)
    columns.pop("duration")  # known only after the call
    one = np.ones(len(y))
    return _features(columns), y, _table(tp_cost=one, fp_cost=one, fn_cost=np.maximum(0.02463333 * 0.25 * balance, 1))


def _table(**cells: np.ndarray) -> np.ndarray:
    n = len(next(iter(cells.values())))
    table = np.zeros((n, 2, 2))
    for cell, (z, y) in {"tn_cost": (0, 0), "fn_cost": (0, 1), "fp_cost": (1, 0), "tp_cost": (1, 1)}.items():
        table[:, z, y] = cells.get(cell, 0.0)
    return table


def _by_name(costs: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "tn_cost": costs[:, 0, 0],
        "fn_cost": costs[:, 0, 1],
        "fp_cost": costs[:, 1, 0],
        "tp_cost": costs[:, 1, 1],
    }


def saved(y: Any, z: Any, costs: np.ndarray) -> float:
    """Minus the mean cost, for scikit-learn's tuner."""
    return -float(costs[np.arange(len(y)), np.asarray(z), np.asarray(y)].mean())


def logistic() -> Any:
    return LogisticRegression(max_iter=1000)


# Each: (training X, y, costs, test X, test costs) -> decisions.
def ours(X: Any, y: Any, costs: Any, X_test: Any, test_costs: Any) -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(tl.CostSensitiveClassifier(tol=1e-6), {"alpha": ALPHAS}, cv=3).fit(X, y, costs=costs)
    return tl.decide(search, costs=test_costs, X=X_test)


def argmax(X: Any, y: Any, costs: Any, X_test: Any, test_costs: Any) -> Any:
    return logistic().fit(X, y).predict(X_test)


def tuned(X: Any, y: Any, costs: Any, X_test: Any, test_costs: Any) -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = sklearn.metrics.make_scorer(saved).set_score_request(costs=True)
        return TunedThresholdClassifierCV(logistic(), scoring=scorer, cv=3).fit(X, y, costs=costs).predict(X_test)


def threshold(X: Any, y: Any, costs: Any, X_test: Any, test_costs: Any) -> Any:
    from empulse.models import CSThresholdClassifier

    model = CSThresholdClassifier(logistic(), random_state=0).fit(X, y, **_by_name(costs))
    return model.predict(X_test, **_by_name(test_costs))


def fitted_costs(X: Any, y: Any, costs: Any, X_test: Any, test_costs: Any) -> Any:
    from empulse.models import CSLogitClassifier

    return CSLogitClassifier().fit(X, y, **_by_name(costs)).predict(X_test)


def boosted_costs(X: Any, y: Any, costs: Any, X_test: Any, test_costs: Any) -> Any:
    from empulse.models import CSBoostClassifier
    from xgboost import XGBClassifier

    return CSBoostClassifier(XGBClassifier(n_jobs=1)).fit(X, y, **_by_name(costs)).predict(X_test)


def our_trees(X: Any, y: Any, costs: Any, X_test: Any, test_costs: Any) -> Any:
    from xgboost import XGBClassifier

    model = tl.DecodedClassifier(XGBClassifier(n_jobs=1), calibration="sigmoid", cv=3).fit(X, y)
    return model.predict(X_test, costs=test_costs)


METHODS: dict[str, Callable[..., Any]] = {
    "taskloss, linear": ours,
    "argmax": argmax,
    "tuned threshold": tuned,
    "empulse CSThreshold": threshold,
    "empulse CSLogit": fitted_costs,
    "taskloss, trees": our_trees,
    "empulse CSBoost": boosted_costs,
}


def measure(_: str, name: str) -> dict[str, list[float]]:
    """The mean realised cost of every method, split by split."""
    warnings.simplefilter("ignore")
    X, y, costs = load(name)
    out: dict[str, list[float]] = {method: [] for method in METHODS}
    for a, b in StratifiedShuffleSplit(SPLITS, test_size=TEST, random_state=0).split(X, y):
        X_train, X_test = standardise(X[a], X[b])
        for method, run in METHODS.items():
            z = np.asarray(run(X_train, y[a], costs[a], X_test, costs[b])).astype(int)
            out[method].append(float(costs[b, z, y[b]].mean()))
    return out


def main(names: list[str]) -> None:
    keys = [f"costs/{name}" for name in names or [*SHARED, *BUNDLED]]
    kept = measure_all(STORE, keys, measure)
    rows = []
    for key, found in kept.items():
        for mine, peers in PEERS.items():
            for peer in peers:
                gaps = np.array(found[mine]) - np.array(found[peer])
                mean, _, half = interval([gaps[i : i + 1] for i in range(len(gaps))], TEST / (1 - TEST))
                rows.append(
                    (
                        key.split("/")[1],
                        mine,
                        float(np.mean(found[mine])),
                        peer,
                        float(np.mean(found[peer])),
                        f"{mean:.3g} ± {half:.2g}",
                        verdict(mean, half),
                    )
                )
    header = ["data", "ours", "cost", "peer", "cost", "difference, 95 % interval", "verdict"]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    write_table("example_costs", "Costs per example: mean realised cost", header, rows, ["empulse", "xgboost"], note)


if __name__ == "__main__":
    main(sys.argv[1:])
