"""Kernels beside scikit-learn: time, memory and growth with n.

Every run is a process of its own, so that its peak memory is its own: python -m benchmarks.kernels [NAME ...]. Runs are
kept in results/kernels.json, the fastest of each, so that they can be measured one at a time; the table has all of them.
python -m benchmarks.kernels passes counts the evaluations of fits under weak penalties.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, write_table

CLASSES = 10
STORE = RESULTS / "kernels.json"
SLOW = ("path-8000", "growth-1e6", "growth-3e5", "million")  # measured once
SIZES = {
    "growth-1e4": 10_000,
    "growth-3e4": 31_623,
    "nystrom-100k": 100_000,
    "growth-3e5": 316_228,
    "growth-1e6": 1_000_000,
}


def data(n: int, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes with curved borders and label noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    scores = np.sin(X @ rng.normal(size=(d, CLASSES)) * (1.5 / np.sqrt(d)))
    return X, (scores + 0.3 * rng.normal(size=scores.shape)).argmax(1)


def ours(n: int, m: int, tol: float = 1e-6, surrogate: str = "quadratic") -> dict[str, Any]:
    import taskloss as tl

    X, y = data(n + 5000)
    hypothesis = tl.hypotheses.Nystrom(m, gamma=1 / 40)
    model = tl.TaskLossEstimator("zero-one", surrogate, hypothesis, alpha=1e-6, tol=tol)
    return timed(lambda: model.fit(X[:n], y[:n]), lambda: model.predict_moments(X[n:]), y[n:])


def nystroem_ridge(n: int, m: int) -> dict[str, Any]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    X, y = data(n + 5000)
    model = make_pipeline(Nystroem(gamma=1 / 40, n_components=m, random_state=0), Ridge(alpha=n * 1e-6))
    return timed(lambda: model.fit(X[:n], np.eye(CLASSES)[y[:n]]), lambda: model.predict(X[n:]), y[n:])


def kernel_ridge(n: int) -> dict[str, Any]:
    from sklearn.kernel_ridge import KernelRidge

    X, y = data(n + 5000)
    model = KernelRidge(alpha=n * 1e-4, kernel="rbf", gamma=1 / 40)
    return timed(lambda: model.fit(X[:n], np.eye(CLASSES)[y[:n]]), lambda: model.predict(X[n:]), y[n:])


def whole_path(n: int) -> dict[str, Any]:
    import taskloss as tl

    X, y = data(n + 5000)
    model = tl.KernelPredictor("zero-one", gamma=1 / 40)
    found = timed(lambda: model.fit(X[:n], y[:n]), lambda: model.predict_moments(X[n:]), y[n:])
    return {**found, "strengths": len(model.alphas_), "loo": float(model.loo_risks_.min())}


def timed(fit: Callable[[], Any], predict: Callable[[], np.ndarray], y: np.ndarray) -> dict[str, Any]:
    """Seconds to fit, squared error of the class indicators and error rate on new points, and peak memory in GB."""
    before = _peak()
    start = time.perf_counter()
    fit()
    seconds = time.perf_counter() - start
    memory = _peak() - before
    mu = predict()
    squared = float(((mu - np.eye(CLASSES)[y]) ** 2).sum(1).mean())
    return {"seconds": seconds, "squared": squared, "error": float((mu.argmax(1) != y).mean()), "memory": memory}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "path-8000": lambda: whole_path(8000),
    "ridge-8000": lambda: kernel_ridge(8000),
    "nystrom-100k": lambda: ours(100_000, 1000),
    "nystrom-100k-tight": lambda: ours(100_000, 1000, tol=1e-8),
    "nystrom-100k-logistic": lambda: ours(100_000, 1000, surrogate="multinomial"),
    "nystroem-100k": lambda: nystroem_ridge(100_000, 1000),
    "growth-1e4": lambda: ours(10_000, 1000),
    "growth-3e4": lambda: ours(31_623, 1000),
    "growth-3e5": lambda: ours(316_228, 1000),
    "growth-1e6": lambda: ours(1_000_000, 1000),
    "million": lambda: ours(1_000_000, 2000),
}
NAMES = {
    "path-8000": "KernelPredictor, exact, n=8,000: all strengths of penalty with leave-one-out task risk",
    "ridge-8000": "scikit-learn KernelRidge, n=8,000: one strength",
    "nystrom-100k": "Nystrom, quadratic, n=100,000, m=1,000, gap 1e-6",
    "nystrom-100k-tight": "the same, gap 1e-8",
    "nystrom-100k-logistic": "Nystrom, multinomial, n=100,000, m=1,000, gap 1e-6",
    "nystroem-100k": "scikit-learn Nystroem + Ridge, n=100,000, m=1,000",
    "growth-1e4": "Nystrom, quadratic, n=10,000, m=1,000",
    "growth-3e4": "Nystrom, quadratic, n=31,623, m=1,000",
    "growth-3e5": "Nystrom, quadratic, n=316,228, m=1,000",
    "growth-1e6": "Nystrom, quadratic, n=1,000,000, m=1,000",
    "million": "Nystrom, quadratic, n=1,000,000, m=2,000",
}


def run(name: str) -> dict[str, Any]:
    """One run, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.kernels", "inner", name]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def passes() -> None:
    """Evaluations of a Nystrom fit as the penalty falls, on real data."""
    import taskloss as tl
    from benchmarks.datasets import tabular

    rows = []
    for name, centres in (("optdigits", 500), ("satimage", 500), ("satimage", 2000), ("letter", 500)):
        found = tabular.load("multiclass", name)
        train = found.splits[0][0]
        X = found.X[train]
        spread = X.std(0)
        X = (X - X.mean(0)) / np.where(spread > 0, spread, 1.0)
        for alpha in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
            model = tl.CostSensitiveClassifier(hypothesis=tl.hypotheses.Nystrom(centres), alpha=alpha, tol=1e-6)
            solution = model.fit(X, found.y[train]).solution_
            rows.append(
                [name, len(train), len(model.classes_), centres, f"{alpha:g}", solution.evaluations, solution.value]
            )
            print(rows[-1], flush=True)
    note = "Multinomial surrogate, gap 1e-6. Counts do not depend on the machine's load."
    header = ["data", "rows", "labels", "centres", "alpha", "evaluations", "objective"]
    write_table("kernel_passes", "Evaluations of Nystrom fits as the penalty falls", header, rows, note=note)


def main(names: list[str]) -> None:
    if names == ["passes"]:
        passes()
        return
    if names[:1] == ["inner"]:
        print(json.dumps(RUNS[names[1]]()))
        return
    RESULTS.mkdir(exist_ok=True)
    for name in names or RUNS:
        for _ in range(1 if name in SLOW else 3):
            keep(name, run(name))
    report(json.loads(STORE.read_text()))


def keep(name: str, one: dict[str, Any]) -> None:
    """Store a run if it is the fastest of its name."""
    print(name, one, flush=True)
    found = json.loads(STORE.read_text()) if STORE.exists() else {}
    if name not in found or one["seconds"] < found[name]["seconds"]:
        STORE.write_text(json.dumps({**found, name: one}, indent=1, sort_keys=True) + "\n")


def report(found: dict[str, dict[str, Any]]) -> None:
    rows = [
        [NAMES[name], *(found[name][key] for key in ("seconds", "memory", "squared", "error"))]
        for name in RUNS
        if name in found
    ]
    note = "Ten classes on 20 inputs, Gaussian kernel. Seconds are the fit's, memory its peak above that of the data."
    known = [(size, found[name]["seconds"]) for name, size in SIZES.items() if name in found]
    if len(known) > 2:
        n, seconds = np.array(known).T
        slope = np.polyfit(np.log(n), np.log(seconds), 1)[0]
        note += f" With 1,000 centres time grows as n^{slope:.2f} from n = {n[0]:,.0f} to {n[-1]:,.0f}."
    if "path-8000" in found and "ridge-8000" in found:
        path, ridge = found["path-8000"], found["ridge-8000"]
        note += (
            f" The exact path compares {path['strengths']} strengths of the penalty in the time of "
            f"{path['seconds'] / ridge['seconds']:.1f} KernelRidge fits at one."
        )
    write_table(
        "kernels",
        "Kernels: time, memory and growth",
        ["method", "seconds", "memory (GB)", "squared error", "error rate"],
        rows,
        note=note,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
