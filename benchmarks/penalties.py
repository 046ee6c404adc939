"""alpha="auto" beside a grid search over penalties, and beside the default number: python -m benchmarks.penalties.

GridSearchCV fits seven penalties, 10 down to 1e-5 (for kernels 1e-1 down to 1e-7), on three folds by the task loss and then the best on all rows, all at the
estimator's own tolerance of 1e-8. At most 1,500 rows are trained on, on up to five splits. Differences are of test losses, less is better; their intervals are
those of quality.md. "time" is processor time on one thread relative to the grid search's, and to one fit at the penalty that was chosen.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV

import taskloss as tl

from .common import RESULTS, measure_all, write_table
from .datasets import tabular
from .quality import interval, standardise, tabular_losses, verdict

ROWS, SPLITS = 1500, 5
STORE = RESULTS / "penalties.json"
LINEAR, KERNELS = [10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5], [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7]
Losses = Callable[[Any, Any], np.ndarray]


def tasks() -> list[tuple[str, str, str]]:
    """(folder, name, hypothesis)."""
    linear = [
        ("cost_sensitive", "german"),
        *(("multiclass", name) for name in ("satimage", "vowel")),
        *(("multilabel", name) for name in ("emotions", "flags", "scene", "yeast")),
        *(("ordinal", name) for name in tabular.names("ordinal")),
    ]
    kernels = [("multiclass", name) for name in ("optdigits", "satimage", "vehicle", "vowel")]
    return [(*key, "linear") for key in linear] + [(*key, "kernel") for key in kernels]


def parts(folder: str, data: tabular.Dataset) -> tuple[Callable[..., Any], Losses]:
    """The estimator, and the losses of its predictions."""
    if folder == "ordinal":
        labels = np.arange(data.y.max() + 1)
        return lambda **p: tl.OrdinalClassifier(order=labels, **p), lambda z, y: np.abs(np.asarray(z, float) - y)
    if folder == "multilabel":
        return tl.MultilabelClassifier, lambda z, y: (np.asarray(z) != y).mean(axis=1)
    loss = tl.losses.CostMatrix(data.extras["costs"]) if "costs" in data.extras else tl.losses.ZeroOne()
    names = np.unique(data.y)
    return lambda **p: tl.CostSensitiveClassifier(loss, **p), tabular_losses(loss.bind(len(names)).matrix(), names)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def measure(folder: str, name: str, hypothesis: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    data = tabular.load(folder, name)
    make, losses = parts(folder, data)
    found: dict[str, list[np.ndarray]] = {"auto": [], "grid": [], "1e-3": []}
    times: dict[str, float] = {"auto": 0.0, "grid": 0.0, "one": 0.0}
    for train, test in data.splits[:SPLITS]:
        train = np.random.default_rng(0).permutation(train)[:ROWS]
        X, X_test = standardise(data.X[train], data.X[test])
        y, y_test, grid = data.y[train], data.y[test], {"alpha": KERNELS if hypothesis == "kernel" else LINEAR}
        make(hypothesis=hypothesis, alpha=1e-3, tol=1e-2).fit(X[:50], y[:50])  # compiles what is to be compiled
        auto, seconds = timed(lambda X=X, y=y: make(hypothesis=hypothesis, alpha="auto").fit(X, y))
        times["auto"] += seconds
        search = GridSearchCV(make(hypothesis=hypothesis), grid, cv=3)
        _, seconds = timed(lambda search=search, X=X, y=y: search.fit(X, y))
        times["grid"] += seconds
        _, seconds = timed(lambda a=auto.alpha_, X=X, y=y: make(hypothesis=hypothesis, alpha=a).fit(X, y))
        times["one"] += seconds
        plain = make(hypothesis=hypothesis, alpha=1e-3).fit(X, y)
        for key, model in (("auto", auto), ("grid", search), ("1e-3", plain)):
            found[key].append(losses(model.predict(X_test), y_test))
    train, test = data.splits[0]
    ratio = len(test) / min(len(train), ROWS)
    out: dict[str, Any] = {key: interval(v, ratio)[0] for key, v in found.items()} | {"times": times}
    for key in ("grid", "1e-3"):
        pairs = zip(found["auto"], found[key], strict=True)
        mean, _, half = interval([a - b for a, b in pairs], ratio)
        out[f"less {key}"] = [mean, half]
    return out


def row(name: str, hypothesis: str, found: dict[str, Any]) -> list[Any]:
    cells = [name, hypothesis, *(f"{found[key]:.4f}" for key in ("1e-3", "grid", "auto"))]
    for key in ("grid", "1e-3"):
        mean, half = found[f"less {key}"]
        cells += [f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]", verdict(mean, half)]
    times = found["times"]
    return [*cells, f"{times['auto'] / times['grid']:.2f}", f"{times['auto'] / times['one']:.1f}"]


def main() -> None:
    kept = json.loads(STORE.read_text()) if STORE.exists() else {}
    waiting = [key for key in map("/".join, tasks()) if key not in kept]
    if waiting:
        kept = measure_all(STORE, waiting, measure)
    rows = [row(name, hypothesis, kept[f"{folder}/{name}/{hypothesis}"]) for folder, name, hypothesis in tasks()]
    against = [sum(r[6] == v for r in rows) for v in ("win", "tie", "LOSS")]
    default = [sum(r[8] == v for r in rows) for v in ("win", "tie", "LOSS")]
    share = float(np.median([float(r[9]) for r in rows]))
    fits = [float(r[10]) for r in rows]
    text = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    note = (
        f"{text}\n\nAgainst the grid search {against[0]} wins, {against[1]} ties and {against[2]} losses, in {share:.2f} of its time (median), "
        f"at most {max(float(r[9]) for r in rows):.2f}; against 1e-3 {default[0]}, {default[1]} and {default[2]}. In fits: median {np.median(fits):.1f}, "
        f"at most {max(fits):.1f}."
    )
    header = [
        "data",
        "hypothesis",
        "1e-3",
        "grid",
        "auto",
        "auto less grid [95 %]",
        "auto",
        "auto less 1e-3 [95 %]",
        "auto",
        "time / grid's",
        "time / a fit's",
    ]
    write_table("penalties", "The penalty chosen by the task loss", header, rows, (), note)


if __name__ == "__main__":
    sys.exit(main())
