"""Boosted trees by the task loss on real data: python -m benchmarks.boosting [folder/name | folder ...].

All trees are LightGBM's, with learning rate 0.1, at least 5 rows in a leaf and one thread. Every method that has trees chooses 4 or 15 leaves
and 0, 5, 10, ..., 100 rounds by the task loss on the same three inner folds. The column 'trees' is made of our surrogates (one ensemble for all thresholds, all-thresholds or cumulative logit; one ensemble for each threshold;
for other tasks the one named). Those folds also choose where they start from: the best constant, linear scores, or a kernel's (Nyström, 300 centres), with the penalty
of least loss of the start by itself; so 'trees' may be no trees at all. In 'trees, from the constant' there is no such choice. Where there are several surrogates, it is the decision from the mean of their probabilities, each as
it was chosen, and 'trees, one chosen' is the one of them that had the least loss on the inner folds. The last column says how often each start was chosen: constant, linear, kernel. Linear and kernel peers choose their
penalty from the same strengths. Sets of up to 200 rows are judged on ten splits, of up to 1,100 on five, others on three, with at
most 3,000 training rows. Intervals of differences are those of `quality.md`. In rankings every method with trees chooses among 7, 15 and
31 leaves at rate 0.05 and stops early (50 rounds, 500 at the most) by NDCG@10 on the validation queries, which also choose between a constant and a linear start.

Splits that are kept may come from several machines; the line above names the one that wrote this page.

Options: --jobs N, processes of one thread each that share out the splits of all sets; --minutes M, after which no further split is begun and the rest is left for another run;
--parts FOLDER, where finished splits are kept until a set has all of them, so that the next run goes on from there; --table, which only writes the page.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np

import taskloss as tl

from . import quality, rankings
from .common import RESULTS, machine, one_thread
from .datasets import root, tabular

ROUNDS, STEP, LEAVES = 100, 5, (4, 15)
CHECKS = np.arange(0, ROUNDS + 1, STEP)
CENTRES, STRENGTHS = 300, (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
TREES: dict[str, Any] = {"learning_rate": 0.1, "min_child_samples": 5, "n_jobs": 1, "verbosity": -1}
STORE = RESULTS / "boosting.json"
Losses = quality.Losses
_GROWN: dict[tuple, list[Any]] = {}  # LightGBM's last fits


@dataclass
class Method:
    """configurations(X, y, folds) -> those to choose among; curve(configuration, X, y, X held out, y held out) -> losses to choose among; fit(configuration, place on the curve, X, y) -> what predicts."""

    name: str
    configurations: Callable[..., list[dict[str, Any]]]
    curve: Callable[..., np.ndarray]
    fit: Callable[..., Any]


@dataclass
class Predictor:
    predict: Callable[[Any], Any]


# -- our trees ---------------------------------------------------------------------------------------------------------


def starts(n: int) -> dict[str, tuple[Any, tuple[float, ...]]]:
    """Hypotheses to start from for so many training rows, and the strengths of the penalty to choose among."""
    return {
        "linear": (tl.hypotheses.Linear(), quality.ALPHAS),
        "kernel": (tl.hypotheses.Nystrom(min(CENTRES, n)), STRENGTHS),
    }


def ours(name: str, make: Callable[[Any], Any], losses: Losses) -> Method:
    """make(hypothesis) -> an estimator."""

    def estimator(c: dict[str, Any], rows: int, rounds: int) -> Any:
        start, alpha = c.get("start"), c.get("alpha", 1e-3)
        hypothesis = None if start is None else starts(rows)[start][0]
        trees = tl.hypotheses.Boosting(n_estimators=rounds, num_leaves=c["leaves"], start=hypothesis, **TREES)
        return make(trees).set_params(alpha=alpha, tol=1e-5)

    def configurations(X: Any, y: Any, folds: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{"leaves": n} for n in LEAVES]
        for start, (_, strengths) in starts(len(X)).items():
            alone = [np.mean([_alone(start, alpha, X[a], y[a], X[b], y[b]) for a, b in folds]) for alpha in strengths]
            found += [{"leaves": n, "start": start, "alpha": strengths[int(np.argmin(alone))]} for n in LEAVES]
        return found

    def _alone(start: str, alpha: float, X: Any, y: Any, X_held: Any, y_held: Any) -> float:
        model = make(starts(len(X))[start][0]).set_params(alpha=alpha, tol=1e-5).fit(X, y)
        return float(losses(model.predict(X_held), y_held).mean())

    def curve(c: dict[str, Any], X: Any, y: Any, X_held: Any, y_held: Any) -> np.ndarray:
        found = estimator(c, len(X), ROUNDS).fit(X, y, validation=(X_held, y_held)).validation_curve_
        return found[np.minimum(CHECKS, len(found) - 1)]

    def fit(c: dict[str, Any], place: int, X: Any, y: Any) -> Any:
        return estimator(c, len(X), int(CHECKS[place])).fit(X, y)

    return Method(name, configurations, curve, fit)


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
        return np.array([losses(outputs(models, X_held, int(r)), y_held).mean() for r in CHECKS[1:]])

    def fit(c: dict[str, Any], place: int, X: Any, y: Any) -> Any:
        rounds = int(CHECKS[1:][place])
        models = grow(c, X, y, rounds)
        return Predictor(lambda X_test: outputs(models, X_test, rounds))

    return Method(name, lambda X, y, folds: [{"leaves": n} for n in LEAVES], curve, fit)


def linear(name: str, make: Callable[..., Any], losses: Losses, grid: list[dict[str, Any]]) -> Method:
    def curve(c: dict[str, Any], X: Any, y: Any, X_held: Any, y_held: Any) -> np.ndarray:
        return np.array([losses(make(len(X), **c).fit(X, y).predict(X_held), y_held).mean()])

    def fit(c: dict[str, Any], place: int, X: Any, y: Any) -> Any:
        return make(len(X), **c).fit(X, y)

    return Method(name, lambda X, y, folds: grid, curve, fit)


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
        ours("all-thresholds, shared", make(), losses),
        ours("cumulative logit, shared", make(surrogate="cumulative-link"), losses),
        ours("all-thresholds, own", make(shared=False), losses),
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
    mine = [ours("multinomial", lambda h: tl.CostSensitiveClassifier(matrix, hypothesis=h), judge)]
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

    mine = [ours("auto", lambda h: tl.MultilabelClassifier(loss, hypothesis=h), losses)]
    peers = [
        staged("LightGBM for each label", {"objective": "binary"}, lambda p: (p > 0.5).astype(int), losses, code),
        linear("our linear", fit, losses, quality.grid()),
    ]
    return "1 - F1" if f1 else "Hamming", losses, mine, peers


# -- one split of a data set -------------------------------------------------------------------------------------------

STARTS = (None, "linear", "kernel")


@dataclass
class Tuned:
    """A method's choice on the inner folds: the configuration, its place on the curve, and its loss there."""

    configuration: dict[str, Any]
    place: int
    loss: float


def tune(method: Method, X: Any, y: Any, folds: Any, also_constant: bool) -> list[Tuned]:
    """The best of all configurations, and the best of those without a start."""
    configurations = method.configurations(X, y, folds)
    curves = [np.mean([method.curve(c, X[a], y[a], X[b], y[b]) for a, b in folds], axis=0) for c in configurations]

    def best(some: list[int]) -> Tuned:
        i = min(some, key=lambda i: curves[i].min())
        return Tuned(configurations[i], int(np.argmin(curves[i])), float(curves[i].min()))

    every = list(range(len(curves)))
    constant = [i for i in every if configurations[i].get("start") is None]
    return [best(every), best(constant)] if also_constant else [best(every)]


def tasks(folder: str, name: str) -> tuple[tabular.Dataset, str, Losses, list[Method], list[Method]]:
    base, f1 = name.removesuffix(":f1"), name.endswith(":f1")
    data = tabular.load(folder, base)
    make = {"ordinal": ordinal, "cost_sensitive": costs, "multilabel": multilabel}[folder]
    return data, *(multilabel(data, True) if f1 else make(data))


def judged(data: tabular.Dataset) -> list[tabular.Split]:
    rows = data.X.shape[0]
    return data.splits[: 10 if rows <= 200 else 5 if rows <= 1100 else 3]


def measure_split(folder: str, name: str, place: int) -> dict[str, Any]:
    """The test losses of every method, and the starts that ours have chosen."""
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    data, _, losses, mine, peers = tasks(folder, name)
    train, test = judged(data)[place]
    if len(train) > 3000:
        train = np.random.default_rng(0).permutation(train)[:3000]
    X, X_test = quality.standardise(data.X[train], data.X[test])
    y, y_test, folds = data.y[train], data.y[test], quality.inner_folds(data.y[train])
    found, chosen = {}, []
    tuned = {m.name: tune(m, X, y, folds, also_constant=True) for m in mine}
    for suffix, which in (("", 0), (", from the constant", 1)):
        models = {m.name: m.fit(tuned[m.name][which].configuration, tuned[m.name][which].place, X, y) for m in mine}
        each = {key: losses(model.predict(X_test), y_test) for key, model in models.items()}
        one = each[min(each, key=lambda key: tuned[key][which].loss)]
        found["trees" + suffix] = one
        if len(mine) > 1:
            p = np.mean([model.predict_proba(X_test) for model in models.values()], axis=0)
            found["trees" + suffix] = losses(tl.decide(p, tl.losses.Absolute(p.shape[1])), y_test)
        if not which:
            found |= each | ({"trees, one chosen": one} if len(mine) > 1 else {})
            chosen = [tuned[key][0].configuration.get("start") for key in models]
    for method in peers:
        [best] = tune(method, X, y, folds, also_constant=False)
        found[method.name] = losses(method.fit(best.configuration, best.place, X, y).predict(X_test), y_test)
    return {"losses": found, "starts": chosen, "seconds": time.perf_counter() - begin}


def joined(folder: str, name: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A row of the table from all splits of a data set."""
    data, loss, *_ = tasks(folder, name)
    splits = judged(data)
    ratio = len(splits[0][1]) / min(len(splits[0][0]), 3000)
    rows = {}
    for method in parts[0]["losses"]:
        found, trees = ([p["losses"][key] for p in parts] for key in (method, "trees"))
        mean, error, _ = quality.interval(found, ratio)
        difference, _, half = quality.interval([a - b for a, b in zip(trees, found, strict=True)], ratio)
        rows[method] = [mean, error, difference, half]
    starts = [sum(p["starts"].count(start) for p in parts) for start in STARTS]
    seconds = round(sum(p["seconds"] for p in parts), 1)
    return {
        "loss": loss, "splits": len(splits), "rows": rows, "starts": starts, "n": data.X.shape[0], "seconds": seconds
    }  # fmt: skip


def ranking_folds(name: str) -> Any:
    return rankings.mq2008() if name == "mq2008" else rankings.example()


def measure_fold(name: str, place: int) -> dict[str, Any]:
    """NDCG@10 of the trees and of lambdarank on one fold, each with the leaves that do best on the validation queries."""
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    train, valid, test = ranking_folds(name)[place]
    train, valid, test = rankings.standard(train, valid, test)
    candidates: dict[str, list[tuple[float, Any]]] = {}

    def fitted(surrogate: str, hypothesis: Any, alpha: float, **options: Any) -> tuple[float, Any]:
        model = tl.Ranker(tl.losses.NDCG(at=10), surrogate, hypothesis, alpha=alpha, tol=1e-6)
        model.fit(train.X, train.y, groups=train.groups, **options)
        return rankings.ndcg(model.predict_scores(valid.X), valid, 10), model.predict_scores

    for surrogate in ("listwise", "logistic", "quadratic"):
        alone = [fitted(surrogate, "linear", a)[0] for a in rankings.ALPHAS]
        alpha = rankings.ALPHAS[int(np.argmax(alone))]
        for leaves in (7, 15, 31):
            for start in (None, "linear"):
                shape = {**TREES, "learning_rate": 0.05, "num_leaves": leaves, "min_child_samples": 20, "start": start}
                trees = tl.hypotheses.Boosting(n_estimators=500, early_stopping=50, **shape)
                pair = fitted(surrogate, trees, alpha, validation=(valid.X, valid.y, valid.groups))
                kinds = ["trees", f"trees, {surrogate}"] + (["trees, from the constant"] if start is None else [])
                for key in kinds:
                    candidates.setdefault(key, []).append(pair)
    for leaves in (7, 15, 31):
        shape = {**TREES, "learning_rate": 0.05, "num_leaves": leaves, "min_child_samples": 20}
        peer = lgb.LGBMRanker(n_estimators=500, **shape)
        stop = [lgb.early_stopping(50, verbose=False)]
        peer.fit(
            train.X, train.y, group=train.sizes, eval_set=[(valid.X, valid.y)], eval_group=[valid.sizes],
            eval_at=[10], callbacks=stop,
        )  # fmt: skip
        value = rankings.ndcg(peer.predict(valid.X), valid, 10)
        candidates.setdefault("LightGBM lambdarank", []).append((value, peer.predict))
    found = {}
    for key, tried in sorted(candidates.items()):
        best = max(tried, key=lambda pair: pair[0])[1]
        found[key] = rankings.ndcg(np.asarray(best(test.X)), test, 10)
    return {"ndcg": found, "seconds": time.perf_counter() - begin}


def joined_folds(parts: list[dict[str, Any]]) -> dict[str, Any]:
    means = {key: float(np.mean([p["ndcg"][key] for p in parts])) for key in parts[0]["ndcg"]}
    seconds = round(sum(p["seconds"] for p in parts), 1)
    return {"loss": "NDCG@10", "ndcg": means, "folds": len(parts), "seconds": seconds}


# -- all of them, in parallel ------------------------------------------------------------------------------------------


def work(key: str, place: int, file: pathlib.Path, end: float) -> None:
    """One split, kept in a file, unless it is too late to begin."""
    if time.time() > end:
        return
    folder, name = key.split("/")
    found = measure_fold(name, place) if folder == "ranking" else measure_split(folder, name, place)
    part = file.with_suffix(".part")
    part.write_bytes(pickle.dumps(found))
    part.replace(file)


def file_of(folder: pathlib.Path, key: str, place: int) -> pathlib.Path:
    return folder / f"{key.replace('/', '-').replace(':', '-')}-{place}.pickle"


def run(keys: list[str], jobs: int, minutes: float, folder: pathlib.Path) -> None:
    """Measure the splits that are not there yet, and keep each set in STORE as soon as it has all of them."""
    end = time.time() + 60 * minutes
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for key in keys:
        kind, name = key.split("/")
        counts[key] = len(ranking_folds(name)) if kind == "ranking" else len(judged(tasks(kind, name)[0]))
    todo = [(k, i) for k in keys for i in range(counts[k]) if not file_of(folder, k, i).exists()]
    before = json.loads(STORE.read_text()) if STORE.exists() else {}
    # The longest first, so that none is left over at the end.
    todo.sort(key=lambda pair: -before.get(pair[0], {}).get("seconds", 1e9) / counts[pair[0]])
    if jobs == 1:
        for key, i in todo:
            work(key, i, file_of(folder, key, i), end)
    else:
        with ProcessPoolExecutor(jobs, initializer=one_thread) as pool:
            waiting = {pool.submit(work, k, i, file_of(folder, k, i), end): k for k, i in todo}
            for done, future in enumerate(as_completed(waiting), 1):
                future.result()
                print(f"[{done}/{len(todo)}] {waiting[future]}", flush=True)
    for key in keys:
        collect(key, counts[key], folder)
    left = [k for k in keys if not all(file_of(folder, k, i).exists() for i in range(counts[k]))]
    print(f"Left for another run: {', '.join(left) or 'nothing'}.", flush=True)


def collect(key: str, count: int, folder: pathlib.Path) -> None:
    """Keep a set that has all its splits, and write the page."""
    files = [file_of(folder, key, i) for i in range(count)]
    if not all(f.exists() for f in files):
        return
    kind, name = key.split("/")
    parts = [pickle.loads(f.read_bytes()) for f in files]
    result = joined_folds(parts) if kind == "ranking" else joined(kind, name, parts)
    kept = {**(json.loads(STORE.read_text()) if STORE.exists() else {}), key: result}
    STORE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(key, json.dumps(result), flush=True)
    render(kept)


# -- the page ----------------------------------------------------------------------------------------------------------


def everything() -> list[str]:
    sets = ["pasture", "r_wine", "pyrim10", "triazines", "machine", "autompg", "ESL", "balance-scale", "stock", "LEV"]
    sets += ["SWD", "ERA", "housing", "winequality-red", "car", "melanoma", "abalone", "computer", "mass_housing"]
    sets += ["bank32nh", "r_soup", "wisconsin"]
    some = ["cost_sensitive/german", "multilabel/flags", "multilabel/emotions"]
    last = ["cost_sensitive/bankmarketing", "multilabel/scene", "multilabel/yeast", "multilabel/flags:f1"]
    return ["ranking/lightgbm_rank", *some, "ranking/mq2008", *(f"ordinal/{name}" for name in sets), *last]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chosen", nargs="*", help="sets as folder/name, or whole folders; all where left out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--parts", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        render(json.loads(STORE.read_text()))
        return
    if root() is None:
        raise SystemExit("The data sets are absent: set TASKLOSS_DATA to their folder.")
    RESULTS.mkdir(exist_ok=True)
    every = everything()
    unknown = [c for c in given.chosen if not any(key == c or key.startswith(f"{c}/") for key in every)]
    if unknown:
        raise SystemExit(f"There is no set or folder {unknown[0]!r}; choose from: {', '.join(every)}.")
    keys = [key for key in every if not given.chosen or any(key == c or key.startswith(f"{c}/") for c in given.chosen)]
    with tempfile.TemporaryDirectory() as temporary:
        run(keys, given.jobs, given.minutes, given.parts or pathlib.Path(temporary))


def render(kept: dict[str, Any]) -> str:
    """Every data set that was measured, and how often the trees win and lose."""
    lines = ["# Boosted trees by the task loss", "", machine(["lightgbm", "mord"]), ""]
    lines += [(__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip(), ""]
    missing = [key for key in everything() if key not in kept]
    if missing:
        lines += [f"Not measured: {', '.join(missing)}.", ""]
    for folder, title in (("ordinal", "Ordered labels"), ("cost_sensitive", "Costs"), ("multilabel", "Label sets")):
        found = {k.split("/")[1]: kept[k] for k in everything() if k in kept and k.startswith(folder)}
        earlier = {name: r for name, r in found.items() if "starts" not in r}
        lines += _table(title, {name: r for name, r in found.items() if name not in earlier})
        lines += _table(f"{title}, measured earlier, with trees from the constant alone", earlier)
    ranked = {k.split("/")[1]: kept[k] for k in everything() if k in kept and k.startswith("ranking")}
    if ranked:
        methods = sorted({m for r in ranked.values() for m in r["ndcg"]})
        lines += [
            "## Rankings, NDCG@10",
            "",
            "| data | " + " | ".join(methods) + " |",
            "|" + " --- |" * (len(methods) + 1),
        ]
        for name, r in ranked.items():
            cells = [f"{r['ndcg'][m]:.4f}" if m in r["ndcg"] else "" for m in methods]
            lines += [f"| {name} | " + " | ".join(cells) + " |"]
        lines += [""]
    text = "\n".join(lines)
    (RESULTS / "boosting.md").write_text(text)
    return text


def _table(title: str, results: dict[str, Any]) -> list[str]:
    if not results:
        return []
    methods = ["trees", *sorted({m for r in results.values() for m in r["rows"]} - {"trees"})]
    chosen = {name: " / ".join(map(str, r.get("starts", []))) for name, r in results.items()}
    lines = [
        f"## {title}",
        "",
        "| data | loss | splits | " + " | ".join(methods) + " | starts |",
        "|" + " --- |" * (len(methods) + 4),
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
        lines.append(f"| {name} | {r['loss']} | {r['splits']} | " + " | ".join(cells) + f" | {chosen[name]} |")
    sums = " | ".join("" if m == "trees" else "{} / {} / {}".format(*counts[m]) for m in methods)
    lines.append(f"| trees win / tie / lose | | | {sums} | |")
    best = {n: min((v[0], m) for m, v in r["rows"].items()) for n, r in results.items()}
    leads = sum(abs(r["rows"]["trees"][0] - best[n][0]) < 1e-12 for n, r in results.items())
    lines += ["", f"+ and -: 'trees' are better or worse, by a 95 % interval without zero. They have the least mean loss of all columns on {leads} of {len(results)} sets.", ""]  # fmt: skip
    return lines


if __name__ == "__main__":
    main()
