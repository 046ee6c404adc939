"""Decisions tuned for a measure on real data, beside what is usual: python -m benchmarks.metrics [kappa|macro|sets|chunks ...].

Held-out probabilities of three folds of the training part serve all methods, and the same model is fitted once on all of it. kappa: quadratic weighted kappa on
ordered labels, beside the most likely label, the rounded mean, and the mean cut at thresholds that Nelder and Mead's search tunes on held-out examples,
from halves on. macro: macro-F1 of labels, beside the most likely one and a factor for each label's probability, tuned in turn on held-out examples.
sets: macro-F1 of label sets, beside 1/2 and a threshold for each label, tuned on held-out examples. chunks: F1 of CoNLL-2000's chunks, beside MAP.
Every set is split anew 30 times, a quarter for testing (respondents of r_soup stay whole), with at most 2,500 rows to train on and a third as many to test on.
The interval of a difference is the corrected resampled t interval over splits (Nadeau and Bengio 2003); that of chunks, on the official split, comes from 1,000 paired bootstrap
samples of its test part. "search" is the processor time of the search for the costs, with its own cross-validation, relative to that of the fits (those of the folds and the last one).
Rows that are kept may come from several machines; the line above names the one that wrote this page.
"""

from __future__ import annotations

import functools
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

import taskloss as tl
from taskloss.metrics import EntityF, FMeasure, Kappa
from taskloss.metrics.examples import Labelled
from taskloss.metrics.search import choose
from taskloss.metrics.tallies import LabelTally, SetTally

from .common import RESULTS, measure_all, write_table
from .datasets import sequences, tabular
from .quality import interval, standardise

ROWS, FOLDS, SPLITS = 2500, 3, 30
MULTICLASS = [
    *(("multiclass", name) for name in ("dna", "letter", "optdigits", "satimage", "segment", "vehicle", "vowel")),
    ("hierarchical", "imclef07a"),
    ("ordinal", "ERA"),
    ("ordinal", "LEV"),
    ("ordinal", "car"),
    ("ordinal", "winequality-red"),
]
SETS = ["bibtex", "cal500", "emotions", "enron", "flags", "medical", "scene", "yeast"]
Decide = Callable[[np.ndarray], np.ndarray]  # probabilities -> outputs


def logistic() -> Any:
    return tl.CostSensitiveClassifier(alpha=1e-3, tol=1e-4)


def multilabel() -> Any:
    return tl.MultilabelClassifier(alpha=1e-3, tol=1e-4)


def trees() -> Any:
    from lightgbm import LGBMClassifier

    return tl.DecodedClassifier(LGBMClassifier(n_estimators=60, num_leaves=7, verbose=-1, n_jobs=1))


def proba(model: Any, X: Any, k: int) -> np.ndarray:
    found = model.predict_proba(X)
    if model.loss_.kind == "indicator":
        return found
    out = np.zeros((len(found), k))
    out[:, model.classes_] = found
    return out


# -- what is usual -----------------------------------------------------------------------------------------------------


def rounding(p: np.ndarray, y: np.ndarray) -> Decide:
    """Thresholds of the mean, tuned by Nelder and Mead's search from halves on."""
    k = p.shape[1]
    known, mean = Labelled(y, k, np.ones(len(y))), p @ np.arange(k)

    def loss(cuts: np.ndarray) -> float:
        return -float(Kappa().value(known.confusion(np.digitize(mean, np.sort(cuts)))))

    cuts = np.sort(minimize(loss, np.arange(k - 1) + 0.5, method="Nelder-Mead", options={"maxiter": 1000}).x)
    return lambda q: np.digitize(q @ np.arange(k), cuts)


def factors(p: np.ndarray, y: np.ndarray) -> Decide:
    """A factor for each label's probability, tuned in turn, three times."""
    k = p.shape[1]
    known, w = Labelled(y, k, np.ones(len(y))), np.ones(k)
    best = FMeasure().value(known.confusion(np.argmax(p, 1)))
    for _ in range(3):
        for j in range(k):
            others = p * w
            others[:, j] = -1
            tops = others.max(1) / np.maximum(p[:, j], 1e-12)
            for factor in np.quantile(tops, np.linspace(0.005, 0.995, 40)):
                z = np.where(p[:, j] * factor > others.max(1), j, np.argmax(others, 1))
                value = FMeasure().value(known.confusion(z))
                if value > best + 1e-9:
                    best, w[j] = value, factor
    return lambda q: np.argmax(q * w, axis=1)


def thresholds(q: np.ndarray, y: np.ndarray) -> Decide:
    """For each label the threshold of largest F1 on held-out examples."""
    cuts = np.full(q.shape[1], 0.5)
    for j in range(q.shape[1]):
        order = np.argsort(-q[:, j])
        right, n = np.cumsum(y[order, j]), np.arange(1, len(y) + 1)
        f = 2 * right / (n + max(y[:, j].sum(), 1))
        i = int(np.argmax(f))
        after = q[order[i + 1], j] if i + 1 < len(order) else 0.0
        cuts[j] = (q[order[i], j] + after) / 2
    return lambda p: (p > cuts).astype(np.int64)


# -- one data set ------------------------------------------------------------------------------------------------------


def resplits(data: tabular.Dataset) -> list[tuple[np.ndarray, np.ndarray]]:
    """Seeded splits of all rows, a quarter for testing, stratified but for classes of one row, each of bounded size."""
    y, some = data.y, {"n_splits": SPLITS, "test_size": 0.25, "random_state": 2}
    if "groups" in data.extras:
        splits = GroupShuffleSplit(**some).split(y, groups=data.extras["groups"])
    elif y.ndim == 2:
        splits = ShuffleSplit(**some).split(y)
    else:
        values, counts = np.unique(y, return_counts=True)
        splits = StratifiedShuffleSplit(**some).split(
            y, np.where(np.isin(y, values[counts < 2]), values[np.argmax(counts)], y)
        )
    rng = np.random.default_rng(0)
    return [(rng.permutation(train)[:ROWS], rng.permutation(test)[: ROWS // 3]) for train, test in splits]


def measure(table: str, folder: str, name: str, model: str) -> dict[str, Any]:
    """Values of every method on every split, and the time of the search relative to the fits."""
    warnings.simplefilter("ignore")
    make, metric, usual = MODELS[model], *MEASURED[table]
    data = tabular.load(folder, name)
    sets = data.y.ndim == 2
    y = data.y if sets else np.unique(data.y, return_inverse=True)[1]
    k = y.shape[1] if sets else int(y.max()) + 1
    out: dict[str, list[float]] = {}
    times, splits = [], resplits(data)
    for train, test in splits:
        X, X_test = standardise(data.X[train], data.X[test])
        start = time.process_time()
        folds = np.arange(len(train)) % FOLDS
        held = np.zeros((len(train), k))
        for f in range(FOLDS):
            held[folds == f] = proba(make().fit(X[folds != f], y[train][folds != f]), X[folds == f], k)
        p = proba(make().fit(X, y[train]), X_test, k)
        fits, start = time.process_time() - start, time.process_time()
        ones = np.ones(len(train))
        tally = SetTally(y[train], ones, held) if sets else LabelTally(y[train], k, ones, held)
        costs = choose(metric, tally, folds, tally.starts()[0]).costs
        times.append((time.process_time() - start) / fits)
        unit = np.ones(len(test))
        new = SetTally(y[test], unit, p) if sets else LabelTally(y[test], k, unit, p)
        found = {"taskloss": new.decide(costs)} | {key: make(held, y[train])(p) for key, make in usual.items()}
        for key, z in found.items():
            out.setdefault(key, []).append(float(new.value(metric, new.confusion(z))))
    train, test = splits[0]
    return {"values": out, "ratio": float(np.median(times)), "share": len(test) / len(train)}


def paired(metric: Any, known: Any, ours: np.ndarray, theirs: np.ndarray, draws: int = 1000) -> list[float]:
    """The 95 % interval of a difference over bootstrap samples of one test part."""
    rng, n = np.random.default_rng(0), len(known)
    a, b = known.statistics(ours), known.statistics(theirs)
    values = []
    for _ in range(draws):
        counts = np.bincount(rng.integers(0, n, n), minlength=n).astype(float)
        pair = [np.asarray(counts @ s).reshape(known.shape) for s in (a, b)]
        values.append(float(known.value(metric, pair[0]) - known.value(metric, pair[1])))
    return np.quantile(values, [0.025, 0.975]).tolist()


def row(name: str, model: str, found: dict[str, Any]) -> list[Any]:
    """The methods' means, and our difference to the last of the usual ones, with its verdict."""
    values = {key: np.array(v) for key, v in found["values"].items()}
    names = [key for key in values if key != "taskloss"]
    mean, _, half = interval([np.array([d]) for d in values["taskloss"] - values[names[-1]]], found["share"])
    verdict = "win" if mean > half else "LOSS" if mean < -half else "tie"
    means = [f"{values[key].mean():.4f}" for key in (*names, "taskloss")]
    return [
        name,
        model,
        *means,
        f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]",
        verdict,
        f"{found['ratio']:.0%}",
    ]


def table(name: str, title: str, tasks: list[tuple[str, str, str]]) -> None:
    """Measure what is not in the store yet, a process for each core, and write the table of all."""
    store = RESULTS / f"metrics_{name}.json"
    kept = json.loads(store.read_text()) if store.exists() else {}
    waiting = ["/".join(task) for task in tasks if "/".join(task) not in kept]
    if waiting:
        kept = measure_all(store, waiting, functools.partial(measure, name))
    rows = [row(data, model, kept[f"{folder}/{data}/{model}"]) for folder, data, model in tasks]
    counts = {v: sum(r[-2] == v for r in rows) for v in ("win", "tie", "LOSS")}
    above = sum(r[-3].startswith("+") for r in rows)
    last = list(MEASURED[name][1])[-1]
    shares = [kept["/".join(task)]["ratio"] for task in tasks]
    text = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    note = (
        f"{text}\n\nAgainst {last}: {counts['win']} wins, {counts['tie']} ties and {counts['LOSS']} losses by their intervals; the mean is no lower on "
        f"{above} of {len(rows)} rows. The search takes {np.median(shares):.0%} of the fits' time in the median and {max(shares):.0%} at most."
    )
    header = ["data", "model", *MEASURED[name][1], "taskloss", f"difference to {last} [95 %]", "taskloss", "search"]
    write_table(f"metrics_{name}", title, header, rows, ["lightgbm"], note)


def likeliest(p: np.ndarray, y: np.ndarray) -> Decide:
    return lambda q: np.argmax(q, axis=1)


def rounded(p: np.ndarray, y: np.ndarray) -> Decide:
    return lambda q: np.rint(q @ np.arange(q.shape[1])).astype(int)


def halves(p: np.ndarray, y: np.ndarray) -> Decide:
    return lambda q: (q > 0.5).astype(np.int64)


MODELS = {"logistic": logistic, "trees": trees, "sets": multilabel}
MEASURED: dict[str, tuple[Any, dict[str, Any]]] = {
    "kappa": (Kappa(), {"most likely": likeliest, "rounded mean": rounded, "tuned rounding": rounding}),
    "macro": (FMeasure(), {"most likely": likeliest, "tuned factors": factors}),
    "sets": (FMeasure(), {"1/2": halves, "tuned thresholds": thresholds}),
}


def kappa() -> None:
    tasks = [("ordinal", name, model) for model in ("logistic", "trees") for name in tabular.names("ordinal")]
    table("kappa", "Quadratic weighted kappa on ordered labels", tasks)


def macro() -> None:
    table("macro", "Macro-F1 of labels", [(folder, name, "logistic") for folder, name in MULTICLASS])


def sets() -> None:
    table("sets", "Macro-F1 of label sets", [("multilabel", name, "sets") for name in SETS])


def chunks(sentences: int = 3000) -> None:
    """F1 of chunks: MAP, spans likelier than 1/2, and the tuned price of a missed chunk."""
    split = sequences.conll2000()
    X, y = split.X[:sentences], split.y[:sentences]
    known = {tag for row in y for tag in row}
    test = [i for i, row in enumerate(split.y_test) if known.issuperset(row)]
    X_test, y_test = [split.X_test[i] for i in test], [split.y_test[i] for i in test]
    tagger = tl.SequenceTagger(alpha=1 / sentences, tol=1e-3)
    start = time.process_time()
    fitted = tl.SequenceTagger(alpha=1 / sentences, tol=1e-3).fit(X[: sentences * 4 // 5], y[: sentences * 4 // 5])
    fit, start = time.process_time() - start, time.process_time()
    metric = EntityF()
    held = tl.TunedDecisionCV(fitted, metric, cv="prefit").fit(X[sentences * 4 // 5 :], y[sentences * 4 // 5 :])
    search = time.process_time() - start
    model = tagger.fit(X, y)
    decoders = {
        "MAP": "sequence-zero-one",
        "likeliest tags": "chain-hamming",
        "spans, missed = spurious": tl.losses.SpanCosts(),
        "tuned for F1": held.loss_,
    }
    found = {name: [list(row) for row in model.predict(X_test, loss=loss)] for name, loss in decoders.items()}
    rows = []
    from taskloss.metrics.examples import read

    _, known_tags, base = read(metric, y_test, found["MAP"])
    for name, tags in found.items():
        _, examples, z = read(metric, y_test, tags)
        low, high = paired(metric, known_tags, z, base) if examples.shape == known_tags.shape else (np.nan, np.nan)
        value = metric(y_test, tags)
        rows.append([name, f"{100 * value:.2f}", f"[{100 * low:+.2f}, {100 * high:+.2f}]"])
    missed, spurious = np.array(held.loss_.missed), np.array(held.loss_.spurious)
    price = float(np.median(missed / np.maximum(spurious, 1e-12)))
    note = (
        f"{sentences} sentences to train on, {len(X_test)} to test on (those without tags that training lacks). The loss was found on the last fifth of the training sentences, by a fit "
        f"on the others: a missed chunk costs {price:.2f} of a spurious one ({held.criterion_}); the search with its span probabilities took "
        f"{search / fit:.1%} of that fit's time. Expected chunk F1 of the tuned decisions {100 * held.expected_score_:.2f}, of equal costs {100 * held.untuned_score_:.2f}."
    )
    write_table(
        "metrics_chunks", "Chunk F1 on CoNLL-2000", ["decoder", "chunk F1", "less MAP's [95 %]"], rows, (), note
    )


TABLES = {"kappa": kappa, "macro": macro, "sets": sets, "chunks": chunks}


def main(chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in chosen or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
