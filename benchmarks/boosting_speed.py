"""Time and memory of a round of boosting beside the library's own softmax objective: python -m benchmarks.boosting_speed.

10^6 rows with 20 features and 10 classes, 31 leaves (XGBoost: depth 5), one thread. Times are medians over ten rounds of each, taken in turns in one
process after two that do not count, in seconds of the processor, since other work ran on the machine; a round of ours is the library's scores,
the risk's derivatives and the library's trees. Memory is the peak of a process that makes the data and fits 3 rounds.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .common import write_table

N, D, K = 1_000_000, 20, 10
WARM, COUNTED = 2, 10
SHAPES: dict[str, dict[str, Any]] = {"lightgbm": {"num_leaves": 31}, "xgboost": {"max_depth": 5}}


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    scores = X[:, :K] + np.sin(2 * X[:, K : 2 * K])
    return X, (scores + rng.gumbel(size=(N, K))).argmax(1)


def rounds(library: str) -> tuple[float, float]:
    """Seconds of the processor for a round of the library's own and for one of ours."""
    from taskloss.hypotheses.boosters import Library
    from taskloss.objectives import Rows
    from taskloss.surrogates import Multinomial

    X, y = data()
    parameters = {**SHAPES[library], "learning_rate": 0.1, "n_jobs": 1}
    ours, own = Library.resolve(library).grow(parameters, X, [], K, None), start(library, X, y, parameters)
    risk = Rows(Multinomial(K), np.eye(K, dtype=np.int8)[y], np.ones(N))
    risk = risk.shifted(np.broadcast_to(risk.best_constant(), (N, K)))
    steps = risk.steps(Library.resolve(library).softmax_factor(K))
    times: list[list[float]] = []
    for i in range(WARM + COUNTED):
        first = time.process_time()
        own(i)
        second = time.process_time()
        step = steps(ours.scores)
        ours.step(step.gradient, step.curvature)
        times.append([second - first, time.process_time() - second])
    a, b = np.median(times[WARM:], axis=0)
    return float(a), float(b)


def start(library: str, X: np.ndarray, y: np.ndarray, parameters: dict[str, Any]) -> Callable[[int], Any]:
    """The library's own booster, as a function that takes its i-th round."""
    if library == "lightgbm":
        import lightgbm as lgb

        params = {**parameters, "objective": "multiclass", "num_class": K, "verbosity": -1}
        booster = lgb.Booster(params, lgb.Dataset(X, y, params=params))
        return lambda i: booster.update()
    import xgboost as xgb

    matrix = xgb.DMatrix(X, y, nthread=1)
    model = xgb.Booster({**parameters, "objective": "multi:softprob", "num_class": K}, [matrix])
    return lambda i: model.update(matrix, i)


def peak(library: str, who: str) -> None:
    """In a process of its own: the peak of memory in MB."""
    X, y = data()
    parameters = {**SHAPES[library], "learning_rate": 0.1, "n_jobs": 1}
    if who == "taskloss":
        import taskloss as tl

        tl.TaskLossEstimator(hypothesis=tl.hypotheses.Boosting(library, n_estimators=3, **parameters)).fit(X, y)
    else:
        own = start(library, X, y, parameters)
        for i in range(3):
            own(i)
    # Not ru_maxrss, which a process has from its parent.
    status = pathlib.Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def main() -> None:
    from threadpoolctl import threadpool_limits

    rows = []
    for library in SHAPES:
        with threadpool_limits(1):
            a, b = rounds(library)
        peaks = []
        for who in ("its own", "taskloss"):
            command = [sys.executable, "-m", "benchmarks.boosting_speed", library, who]
            env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            peaks.append(float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout))
        cells = [f"{v:.2f}" for v in (a, b, b / a)]
        rows.append([library, *cells, *(f"{p:.0f}" for p in peaks), f"{peaks[1] / peaks[0]:.2f}"])
        print(rows[-1], flush=True)
    header = ["library", "its own, s a round", "taskloss, s a round", "ratio", "its own, MB", "taskloss, MB", "ratio"]
    note = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    write_table("boosting_speed", "A round of boosting, softmax over 10 classes", header, rows, list(SHAPES), note)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        peak(*sys.argv[1:])
    else:
        main()
