"""Boosted trees by the task loss on real data: python -m benchmarks.boosting [folder/name ...].

All trees are LightGBM's, with learning rate 0.1, at least 5 rows in a leaf and one thread. Every method that has trees chooses 4 or 15 leaves
and 5, 10, ..., 100 rounds by the task loss on the same three inner folds. The column 'trees' is made of our surrogates (one ensemble for all thresholds, all-thresholds or cumulative logit; one ensemble for each threshold;
for other tasks the one named); where there are several, it is the decision from the mean of their probabilities, each with the leaves and rounds that it has
chosen, and 'trees, one chosen' is the one of them that had the least loss on the inner folds. Linear and kernel ones (Nyström, 300 centres) choose their
penalty. Sets of up to 200 rows are judged on ten splits, of up to 1,100 on five, others on three, with at
most 3,000 training rows. Intervals of differences are those of `quality.md`. In rankings every method with trees chooses among 7, 15 and
31 leaves at rate 0.05 and stops early (50 rounds, 500 at the most) by NDCG@10 on the validation queries.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np

import taskloss as tl

from . import quality, rankings
from .common import RESULTS, machine
from .datasets import root, tabular

ROUNDS, STEP, LEAVES = 100, 5, (4, 15)
CHECKS = np.arange(STEP, ROUNDS + 1, STEP)
CENTRES, STRENGTHS = 300, (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
TREES: dict[str, Any] = {"learning_rate": 0.1, "min_child_samples": 5, "n_jobs": 1, "verbosity": -1}
STORE = RESULTS / "boosting.json"
Losses = quality.Losses
_GROWN: dict[tuple, list[Any]] = {}  # LightGBM's last fits


@dataclass
class Method:
    """Configurations; curve(configuration, X, y, X held out, y held out) -> losses to choose among; fit(configuration, place on the curve, X, y) -> what predicts."""

    name: str
    configurations: list[dict[str, Any]]
    curve: Callable[..., np.ndarray]
    fit: Callable[..., Any]


@dataclass
class Predictor:
    predict: Callable[[Any], Any]


# -- our trees ---------------------------------------------------------------------------------------------------------


def ours(name: str, make: Callable[[Any], Any]) -> Method:
    """make(hypothesis) -> an estimator."""

    def curve(c: dict[str, Any], X: Any, y: Any, X_held: Any, y_held: Any) -> np.ndarray:
        trees = tl.hypotheses.Boosting(n_estimators=ROUNDS, num_leaves=c["leaves"], **TREES)
        found = make(trees).fit(X, y, validation=(X_held, y_held)).validation_curve_
        return found[np.minimum(CHECKS, len(found) - 1)]

    def fit(c: dict[str, Any], place: int, X: Any, y: Any) -> Any:
        trees = tl.hypotheses.Boosting(n_estimators=int(CHECKS[place]), num_leaves=c["leaves"], **TREES)
        return make(trees).fit(X, y)

    return Method(name, [{"leaves": n} for n in LEAVES], curve, fit)


# -- LightGBM's own ----------------------------------------------------------------------------------------------------


def staged(
    name: str, objective: dict[str, Any], decode: Callable[[np.ndarray], Any], losses: Losses, code: Any
) -> Method:
    """LightGBM with an objective of its own, and decode from what it predicts to outputs; code: labels to its targets, a column for each model."""

    def grow(c: dict[str, Any], X: Any, y: Any, rounds: int) -> list[Any]:
        params = {**TREES, **objective, "num_leaves": c["leaves"]}
        key = (json.dumps(params), rounds, X.shape, float(X.sum()))
        if key not in _GROWN:  # decoders of one fit share it
            targets = np.atleast_2d(np.asarray(code(y), float).T)
            _GROWN[key] = [lgb.train(params, lgb.Dataset(X, t, params=params), rounds) for t in targets]
            while len(_GROWN) > 12:
                del _GROWN[next(iter(_GROWN))]
        return _GROWN[key]

    def outputs(models: list[Any], X: Any, rounds: int) -> Any:
        found = [m.predict(X, num_iteration=rounds) for m in models]
        return decode(found[0] if len(found) == 1 else np.stack(found, axis=1))

    def curve(c: dict[str, Any], X: Any, y: Any, X_held: Any, y_held: Any) -> np.ndarray:
        models = grow(c, X, y, ROUNDS)
        return np.array([losses(outputs(models, X_held, int(r)), y_held).mean() for r in CHECKS])

    def fit(c: dict[str, Any], place: int, X: Any, y: Any) -> Any:
        models = grow(c, X, y, int(CHECKS[place]))
        return Predictor(lambda X_test: outputs(models, X_test, int(CHECKS[place])))

    return Method(name, [{"leaves": n} for n in LEAVES], curve, fit)


def linear(name: str, make: Callable[..., Any], losses: Losses, grid: list[dict[str, Any]]) -> Method:
    def curve(c: dict[str, Any], X: Any, y: Any, X_held: Any, y_held: Any) -> np.ndarray:
        return np.array([losses(make(len(X), **c).fit(X, y).predict(X_held), y_held).mean()])

    def fit(c: dict[str, Any], place: int, X: Any, y: Any) -> Any:
        return make(len(X), **c).fit(X, y)

    return Method(name, grid, curve, fit)


# -- tasks: (loss, losses, our methods, peers) -------------------------------------------------------------------------


def ordinal(data: tabular.Dataset) -> tuple[str, Losses, list[Method], list[Method]]:
    k = int(data.y.max()) + 1
    labels = np.arange(k)

    def losses(z: Any, y: Any) -> np.ndarray:
        return np.abs(np.asarray(z, float) - y)

    def make(**options: Any) -> Callable[[Any], Any]:
        return lambda h: tl.OrdinalClassifier(hypothesis=h, order=labels, **options)

    def median(p: np.ndarray) -> np.ndarray:
        return (np.cumsum(p, axis=1) < 0.5 - 1e-12).sum(axis=1)

    mine = [
        ours("all-thresholds, shared", make()),
        ours("cumulative logit, shared", make(surrogate="cumulative-link")),
        ours("all-thresholds, own", make(shared=False)),
    ]
    classes = {"objective": "multiclass", "num_class": k}

    def plain(y: Any) -> Any:
        return y

    def fit(n: int, alpha: float) -> Any:
        return tl.OrdinalClassifier(order=labels, alpha=alpha, tol=1e-5)

    def kernel(n: int, alpha: float) -> Any:
        centres = tl.hypotheses.Nystrom(min(CENTRES, n))
        return tl.OrdinalClassifier(hypothesis=centres, order=labels, alpha=alpha, tol=1e-5)

    peers = [
        staged("LightGBM argmax", classes, lambda p: p.argmax(1), losses, plain),
        staged("LightGBM median", classes, median, losses, plain),
        staged("LightGBM regression, rounded", {"objective": "regression"}, lambda v: np.clip(np.rint(v), 0, k - 1), losses, plain),
        linear("mord.LogisticAT", quality.mord, losses, quality.grid()),
        linear("our linear", fit, losses, quality.grid()),
        linear("our kernel", kernel, losses, [{"alpha": a} for a in STRENGTHS]),
    ]  # fmt: skip
    return "MAE", losses, mine, peers


def costs(data: tabular.Dataset) -> tuple[str, Losses, list[Method], list[Method]]:
    """german with its costs; bankmarketing, whose authors state none, with 5 for a subscriber not called and 1 for a call in vain."""
    labels = np.unique(data.y)  # bad, good; no, yes
    matrix = np.asarray(data.extras.get("costs", [[0.0, 5.0], [1.0, 0.0]]))
    judge = quality.tabular_losses(matrix, labels)

    def decide(p: np.ndarray) -> np.ndarray:
        return labels[(np.column_stack([1 - p, p]) @ matrix.T).argmin(1)]

    def code(y: Any) -> np.ndarray:
        return y == labels[1]

    def fit(n: int, alpha: float) -> Any:
        return tl.CostSensitiveClassifier(matrix, alpha=alpha, tol=1e-5)

    weight = {"objective": "binary", "scale_pos_weight": float(matrix[0, 1] / matrix[1, 0])}
    mine = [ours("multinomial", lambda h: tl.CostSensitiveClassifier(matrix, hypothesis=h))]
    peers = [
        staged("LightGBM argmax", {"objective": "binary"}, lambda p: labels[(p > 0.5).astype(int)], judge, code),
        staged("LightGBM, least expected cost", {"objective": "binary"}, decide, judge, code),
        staged("LightGBM, weighted classes", weight, lambda p: labels[(p > 0.5).astype(int)], judge, code),
        linear("our linear", fit, judge, quality.grid()),
    ]
    return "cost", judge, mine, peers


def multilabel(data: tabular.Dataset, f1: bool = False) -> tuple[str, Losses, list[Method], list[Method]]:
    loss = tl.losses.FBeta(data.y.shape[1]) if f1 else tl.losses.Hamming(data.y.shape[1])

    def losses(z: Any, y: Any) -> np.ndarray:
        return loss(np.asarray(z).reshape(len(y), -1), y)

    def code(y: Any) -> Any:
        return y

    def fit(n: int, alpha: float) -> Any:
        return tl.MultilabelClassifier(loss, alpha=alpha, tol=1e-5)

    mine = [ours("auto", lambda h: tl.MultilabelClassifier(loss, hypothesis=h))]
    peers = [
        staged("LightGBM for each label", {"objective": "binary"}, lambda p: (p > 0.5).astype(int), losses, code),
        linear("our linear", fit, losses, quality.grid()),
    ]
    return "1 - F1" if f1 else "Hamming", losses, mine, peers


# -- one data set ------------------------------------------------------------------------------------------------------


def measure(folder: str, name: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    base, f1 = name.removesuffix(":f1"), name.endswith(":f1")
    data = tabular.load(folder, base)
    task = {"ordinal": ordinal, "cost_sensitive": costs, "multilabel": multilabel}[folder]
    loss, losses, mine, peers = multilabel(data, True) if f1 else task(data)
    rows = data.X.shape[0]
    splits = data.splits[: 10 if rows <= 200 else 5 if rows <= 1100 else 3]
    found: dict[str, list[np.ndarray]] = {}
    for train, test in splits:
        if len(train) > 3000:
            train = np.random.default_rng(0).permutation(train)[:3000]
        X, X_test = quality.standardise(data.X[train], data.X[test])
        y, folds, inner = data.y[train], quality.inner_folds(data.y[train]), {}
        probabilities = []
        for method in [*mine, *peers]:
            curves = [
                np.mean([method.curve(c, X[a], y[a], X[b], y[b]) for a, b in folds], axis=0)
                for c in method.configurations
            ]
            best = int(np.argmin([c.min() for c in curves]))
            place = int(np.argmin(curves[best]))
            inner[method.name] = float(curves[best][place])
            model = method.fit(method.configurations[best], place, X, y)
            found.setdefault(method.name, []).append(losses(model.predict(X_test), data.y[test]))
            if method in mine and len(mine) > 1:
                probabilities.append(model.predict_proba(X_test))
        chosen = min((m.name for m in mine), key=lambda name: inner[name])
        found.setdefault("trees, one chosen" if probabilities else "trees", []).append(found[chosen][-1])
        if probabilities:
            z = tl.decide(np.mean(probabilities, axis=0), tl.losses.Absolute(probabilities[0].shape[1]))
            found.setdefault("trees", []).append(losses(z, data.y[test]))
    ratio = len(splits[0][1]) / min(len(splits[0][0]), 3000)
    rows = {}
    for method in found:
        mean, error, _ = quality.interval(found[method], ratio)
        difference, _, half = quality.interval(
            [a - b for a, b in zip(found["trees"], found[method], strict=True)], ratio
        )
        rows[method] = [mean, error, difference, half]
    seconds = round(time.perf_counter() - start, 1)
    return {"loss": loss, "splits": len(splits), "rows": rows, "n": data.X.shape[0], "seconds": seconds}


def measure_ranking(name: str) -> dict[str, Any]:
    """NDCG@10 of the trees and of lambdarank, each with the leaves that do best on the validation queries."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    folds = rankings.mq2008() if name == "mq2008" else rankings.example()
    found: dict[str, list[float]] = {}
    for train, valid, test in folds:
        candidates: dict[str, list[tuple[float, Any]]] = {}
        for leaves in (7, 15, 31):
            shape = {**TREES, "learning_rate": 0.05, "num_leaves": leaves, "min_child_samples": 20}
            for surrogate in ("listwise", "logistic", "quadratic"):
                trees = tl.hypotheses.Boosting(n_estimators=500, early_stopping=50, **shape)
                model = tl.Ranker(tl.losses.NDCG(at=10), surrogate, trees).fit(
                    train.X, train.y, groups=train.groups, validation=(valid.X, valid.y, valid.groups)
                )
                value = rankings.ndcg(model.predict_scores(valid.X), valid, 10)
                for key in (f"trees, {surrogate}", "trees"):
                    candidates.setdefault(key, []).append((value, model.predict_scores))
            peer = lgb.LGBMRanker(n_estimators=500, **shape)
            stop = [lgb.early_stopping(50, verbose=False)]
            peer.fit(
                train.X, train.y, group=train.sizes, eval_set=[(valid.X, valid.y)], eval_group=[valid.sizes],
                eval_at=[10], callbacks=stop,
            )  # fmt: skip
            value = rankings.ndcg(peer.predict(valid.X), valid, 10)
            candidates.setdefault("LightGBM lambdarank", []).append((value, peer.predict))
        for key, tried in candidates.items():
            best = max(tried, key=lambda pair: pair[0])[1]
            found.setdefault(key, []).append(rankings.ndcg(np.asarray(best(test.X)), test, 10))
    means = {key: float(np.mean(values)) for key, values in found.items()}
    return {"loss": "NDCG@10", "ndcg": means, "folds": len(folds), "seconds": round(time.perf_counter() - start, 1)}


# -- the page ----------------------------------------------------------------------------------------------------------


def everything() -> list[str]:
    sets = ["pasture", "r_wine", "pyrim10", "triazines", "machine", "autompg", "ESL", "balance-scale", "stock", "LEV"]
    sets += ["SWD", "ERA", "housing", "winequality-red", "car", "melanoma", "abalone", "computer", "mass_housing"]
    sets += ["bank32nh", "r_soup", "wisconsin"]
    some = ["cost_sensitive/german", "multilabel/flags", "multilabel/emotions"]
    last = ["cost_sensitive/bankmarketing", "multilabel/scene", "multilabel/yeast", "multilabel/flags:f1"]
    return ["ranking/lightgbm_rank", *some, "ranking/mq2008", *(f"ordinal/{name}" for name in sets), *last]


def main(chosen: list[str]) -> None:
    if root() is None:
        raise SystemExit("The data sets are absent: set TASKLOSS_DATA to their folder.")
    RESULTS.mkdir(exist_ok=True)
    for key in chosen or everything():
        folder, name = key.split("/")
        result = measure_ranking(name) if folder == "ranking" else measure(folder, name)
        kept = {**(json.loads(STORE.read_text()) if STORE.exists() else {}), key: result}
        STORE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(key, json.dumps(result), flush=True)
        render(kept)


def render(kept: dict[str, Any]) -> str:
    """Every data set that was measured, and how often the trees win and lose."""
    lines = ["# Boosted trees by the task loss", "", machine(["lightgbm", "mord"]), ""]
    lines += [(__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip(), ""]
    missing = [key for key in everything() if key not in kept]
    if missing:
        lines += [f"Not measured: {', '.join(missing)}.", ""]
    for folder, title in (("ordinal", "Ordered labels"), ("cost_sensitive", "Costs"), ("multilabel", "Label sets")):
        found = {k.split("/")[1]: kept[k] for k in everything() if k in kept and k.startswith(folder)}
        single = {name: r for name, r in found.items() if folder == "ordinal" and "trees, one chosen" not in r["rows"]}
        lines += _table(title, {name: r for name, r in found.items() if name not in single})
        lines += _table(f"{title}, where 'trees' is still the one surrogate chosen, on three splits", single)
    ranked = {k.split("/")[1]: kept[k] for k in everything() if k in kept and k.startswith("ranking")}
    if ranked:
        methods = list(next(iter(ranked.values()))["ndcg"])
        lines += [
            "## Rankings, NDCG@10",
            "",
            "| data | " + " | ".join(methods) + " |",
            "|" + " --- |" * (len(methods) + 1),
        ]
        lines += [f"| {n} | " + " | ".join(f"{r['ndcg'][m]:.4f}" for m in methods) + " |" for n, r in ranked.items()]
        lines += [""]
    text = "\n".join(lines)
    (RESULTS / "boosting.md").write_text(text)
    return text


def _table(title: str, results: dict[str, Any]) -> list[str]:
    if not results:
        return []
    methods = ["trees", *sorted({m for r in results.values() for m in r["rows"]} - {"trees"})]
    lines = [
        f"## {title}",
        "",
        "| data | loss | splits | " + " | ".join(methods) + " |",
        "|" + " --- |" * (len(methods) + 3),
    ]
    counts = {m: [0, 0, 0] for m in methods}
    for name, r in results.items():
        cells = []
        for m in methods:
            if m not in r["rows"]:
                cells.append("")
                continue
            mean, _, difference, half = r["rows"][m]
            verdict = quality.verdict(difference, half)
            counts[m][("win", "tie", "LOSS").index(verdict)] += 1
            cells.append(f"{mean:.4f}" + {"win": " +", "LOSS": " -", "tie": ""}[verdict])
        lines.append(f"| {name} | {r['loss']} | {r['splits']} | " + " | ".join(cells) + " |")
    sums = " | ".join("" if m == "trees" else "{} / {} / {}".format(*counts[m]) for m in methods)
    lines.append(f"| trees win / tie / lose | | | {sums} |")
    best = {n: min((v[0], m) for m, v in r["rows"].items()) for n, r in results.items()}
    leads = sum(abs(r["rows"]["trees"][0] - best[n][0]) < 1e-12 for n, r in results.items())
    lines += ["", f"+ and -: 'trees' are better or worse, by a 95 % interval without zero. They have the least mean loss of all columns on {leads} of {len(results)} sets.", ""]  # fmt: skip
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
