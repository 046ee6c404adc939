"""Clicks with position bias, simulated from relevance: python -m benchmarks.clicks.

Two sources of relevance: 2,000 queries of 10 items with 8 features, drawn from a logistic law; and MQ2008's first fold, where it is
present, its grades as chances of relevance. The old ranker that made the log sorts by a random direction of the features. Each query is
shown 20, 200 and 2,000 times, position i (from 1) is looked at with chance 1 / i, and what is looked at and relevant is clicked. Fits take the
rate of clicks of each item; `propensity` is that chance. What variance is behind a gap falls with the number of times, and what bias is stays. LightGBM's lambdarank takes the number of clicks as grades, with linear gains, and the positions
themselves (`position=`), whose bias it estimates. Linear fits and boosted ones are taskloss.Ranker with DCG, all trees 50 rounds with
15 leaves. Mean DCG@10 of the chances of relevance on held-out queries, and less that of the fit to the true relevance, over 10 simulations, with
half of a 95 % interval.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

import taskloss as tl
from taskloss.data.groups import GroupIds
from taskloss.losses import DCG

from .common import write_table

SHOWN, SIMULATIONS = (20, 200, 2000), 10
Scores = Callable[[np.ndarray], np.ndarray]


def simulated(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(20_000, 8))
    v = X @ [1.2, -0.8, 0.6, 0.4, 0, 0, 0, 0] + 0.7 * X[:, 0] * X[:, 4] - 1.5
    return X, expit(v), np.repeat(np.arange(2000), 10)


def mq2008(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    from .datasets.rankings import mq2008 as folds

    try:
        parts = next(iter(folds()))
    except (SystemExit, FileNotFoundError, StopIteration, TypeError):
        return None
    X = np.vstack([part.X for part in parts])
    groups = np.concatenate([part.groups + 100_000 * i for i, part in enumerate(parts)])
    spread = X.std(0)
    X = (X - X.mean(0)) / np.where(spread > 0, spread, 1)
    grades = np.concatenate([part.y for part in parts])
    return X, np.array([0.05, 0.5, 0.9])[grades.astype(int)], groups


def positions(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    place = np.empty(len(scores), dtype=np.int64)
    for _, _, rows in GroupIds(groups, len(scores)).by_size():
        place[rows] = (-scores[rows]).argsort(1, kind="stable").argsort(1)
    return place


def linear(X: np.ndarray, y: np.ndarray, groups: np.ndarray, propensity: Any = None) -> Scores:
    return tl.Ranker(DCG("linear", top=1), tol=1e-6).fit(X, y, groups, propensity=propensity).predict_scores


def trees(X: np.ndarray, y: np.ndarray, groups: np.ndarray, propensity: Any = None) -> Scores:
    grown = tl.hypotheses.Boosting(n_estimators=50, num_leaves=15)
    return tl.Ranker(DCG("linear", top=1), "logistic", grown).fit(X, y, groups, propensity=propensity).predict_scores


def lambdarank(X: np.ndarray, clicks: np.ndarray, groups: np.ndarray, place: Any = None) -> Scores:
    import lightgbm

    order = np.argsort(groups, kind="stable")
    sizes = np.unique(groups, return_counts=True)[1]
    at = None if place is None else place[order]
    data = lightgbm.Dataset(X[order], clicks[order], group=sizes, position=at)
    gains = list(range(int(clicks.max()) + 1))
    options = {"objective": "lambdarank", "label_gain": gains, "num_leaves": 15, "verbose": -1, "num_threads": 1}
    return lightgbm.train(options, data, 50).predict


def simulate(source: Callable[[np.random.Generator], Any], seed: int) -> dict[tuple[str, Any], float]:
    """The DCG of every fit, by its name and how often each query was shown."""
    rng = np.random.default_rng(seed)
    X, chance, groups = source(rng)
    ids = rng.permutation(np.unique(groups))
    train, test = (np.isin(groups, part) for part in np.split(ids, [int(0.7 * len(ids))]))
    y = (rng.random(len(X)) < chance).astype(float)
    place = positions(X @ rng.normal(size=X.shape[1]), groups)[train]
    seen = 1 / (1 + place)
    full = X[train], y[train], groups[train]
    fits: dict[tuple[str, Any], Scores] = {
        ("linear: relevance", ""): linear(*full),
        ("trees: relevance", ""): trees(*full),
        ("lambdarank: relevance", ""): lambdarank(*full),
    }
    for shown in SHOWN:
        clicks = y[train] * rng.binomial(shown, seen)
        log = X[train], clicks / shown, groups[train]
        counts = X[train], clicks, groups[train]
        fits |= {
            ("linear: clicks, propensity", shown): linear(*log, propensity=seen),
            ("linear: clicks, naive", shown): linear(*log),
            ("trees: clicks, propensity", shown): trees(*log, propensity=seen),
            ("trees: clicks, naive", shown): trees(*log),
            ("lambdarank: clicks, position=", shown): lambdarank(*counts, place=place),
            ("lambdarank: clicks, naive", shown): lambdarank(*counts),
        }
    out = {}
    for name, scores in fits.items():
        gained = 0.0
        v = np.asarray(scores(X[test]))
        for size, _, rows in GroupIds(groups[test], int(test.sum())).by_size():
            loss = DCG("linear", at=10, n_items=size)
            gained += float((loss.constant - loss.bayes_risk(loss.decode(v[rows]), chance[test][rows])).sum())
        out[name] = gained / len(np.unique(groups[test]))
    return out


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name, source in (("simulated", simulated), ("MQ2008", mq2008)):
        if source(np.random.default_rng(0)) is None:
            continue
        runs = [simulate(source, seed) for seed in range(SIMULATIONS)]
        for fit, shown in sorted(runs[0], key=lambda key: (key[0].split(":")[0], "relevance" not in key[0], key[0])):
            values = np.array([run[fit, shown] for run in runs])
            gaps = values - np.array([run[f"{fit.split(':')[0]}: relevance", ""] for run in runs])
            half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5
            gap = f"{gaps.mean():+.4f} ± {half:.4f}" if shown else ""
            rows.append((name, fit, shown, float(values.mean()), gap))
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    header = ["data", "fit", "shown", "DCG@10", "less the fit to relevance"]
    write_table("clicks", "Clicks with position bias", header, rows, ["lightgbm"], note)


if __name__ == "__main__":
    main()
