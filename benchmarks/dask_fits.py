"""Fits over Dask clusters on one machine: overhead, dask-ml, data larger than memory, and what a round costs."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import warnings

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client, LocalCluster, wait

import taskloss as tl
from benchmarks.common import RESULTS, write_table
from taskloss.objectives import PenalisedRisk
from taskloss.progress import callbacks

STORE = RESULTS / "dask_fits.json"


def cluster(workers, **options):
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50, **options)


def rows_of(seed, rows, features, labels):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    return X, np.argmax(X[:, :labels] + rng.normal(size=(rows, labels)), 1)


def collections(X, y, parts):
    n = len(X) // parts
    return da.from_array(X, chunks=(n, -1)), da.from_array(y, chunks=n)


def timed(work):
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def overhead():
    """One process of two threads beside two workers of one thread, data in memory, in turns."""
    X, y = rows_of(0, 2_000_000, 50, 5)
    face = tl.TaskLossEstimator(alpha=1e-4, tol=1e-9)
    with cluster(2) as machines, Client(machines):
        parted = dask.persist(*collections(X, y, 8))
        wait(parted)
        face.fit(X, y), face.fit(*parted)
        turns = [(timed(lambda: face.fit(X, y))[0], timed(lambda: face.fit(*parted))[0]) for _ in range(5)]
    one, two = (min(column) for column in zip(*turns, strict=True))
    return [
        [
            "2,000,000 x 50, 5 labels: two workers beside one process of two threads",
            f"{one:.2f} s",
            f"{two:.2f} s",
            f"{two / one:.2f} times (at most 1.3)",
        ]
    ]


def peers():
    """dask-ml's logistic regression on two labels, each solver, to the same objective."""
    from dask_ml.linear_model import LogisticRegression

    n, d = 1_500_000, 50
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    y = (X @ w + 2 * rng.logistic(size=n) > 0).astype(int)

    def risk(model):
        v = X @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0])
        return float(np.mean(np.logaddexp(0, v) - y * v) + np.sum(model.coef_**2) / (2 * n))

    out = []
    with cluster(2) as machines, Client(machines):
        parted = dask.persist(*collections(X, y, 4))
        wait(parted)
        face = tl.TaskLossEstimator(alpha=1 / n, tol=1e-10)
        face.fit(*parted)
        mine = min(timed(lambda: face.fit(*parted))[0] for _ in range(3))
        for solver in ("admm", "lbfgs", "newton"):
            model = LogisticRegression(C=1.0, solver=solver, max_iter=100, tol=1e-6)
            theirs = min(timed(lambda model=model: model.fit(*parted))[0] for _ in range(3))
            gap = (risk(model) - risk(face)) / risk(face)
            out.append(
                [
                    f"1,500,000 x 50, two labels: dask-ml {solver}, whose objective is {gap:+.0e} beside ours",
                    f"{theirs:.2f} s",
                    f"{mine:.2f} s",
                    f"{theirs / mine:.1f} times as fast",
                ]
            )
    return out


class Files(PenalisedRisk):
    """One process that reads the same files in every evaluation, two threads in each pass."""

    files: list

    def slopes(self, coefficients):
        total = None
        for X, targets in self.files:
            part = type(self.risk)(
                self.risk.surrogate, np.load(targets), np.full(len(np.load(targets)), self.weight), part=True
            )
            found = PenalisedRisk(self.hypothesis, np.load(X), part, 0.0, part=True).slopes(coefficients)
            total = found if total is None else tuple(a + b for a, b in zip(total, found, strict=True))
        return total


def large():
    """Data ten times the memory of a worker, in files."""
    limit, count, n, d, k = 600 << 20, 120, 65_536, 100, 5
    with tempfile.TemporaryDirectory(dir=os.environ.get("TASKLOSS_SCRATCH")) as folder:
        folder = pathlib.Path(folder)
        for i in range(count):
            X, y = rows_of(i, n, d, k)
            np.save(folder / f"X{i}.npy", X), np.save(folder / f"y{i}.npy", y)
            np.save(folder / f"phi{i}.npy", np.eye(k, dtype=np.int8)[y])
        size = sum(f.stat().st_size for f in folder.glob("X*"))
        X = da.concatenate(
            [da.from_delayed(delayed(np.load)(folder / f"X{i}.npy"), (n, d), float) for i in range(count)]
        )
        y = da.concatenate(
            [da.from_delayed(delayed(np.load)(folder / f"y{i}.npy"), (n,), np.int64) for i in range(count)]
        )
        face, most = tl.TaskLossEstimator(alpha=1e-4, tol=1e-7), [0]
        with cluster(2, memory_limit=limit) as machines, Client(machines) as client:
            pids, done = list(client.run(os.getpid).values()), threading.Event()

            def watch():
                while not done.wait(0.05):
                    for statm in (pathlib.Path(f"/proc/{pid}/statm") for pid in pids):
                        words = statm.read_text().split() if statm.exists() else (0, 0)
                        most[0] = max(most[0], int(words[1]) * os.sysconf("SC_PAGE_SIZE"))

            thread = threading.Thread(target=watch)
            thread.start()
            signal.alarm(300)  # in the place of hanging
            seconds, model = timed(lambda: face.fit(X, y))
            signal.alarm(0), done.set(), thread.join()
            alive = pids == list(client.run(os.getpid).values())
        from taskloss.objectives import Rows
        from taskloss.solvers import LBFGS

        start = time.perf_counter()
        for i in range(count):  # a pass that looks at the data, as a fit to partitions has
            np.isfinite(np.load(folder / f"X{i}.npy")).all(), np.unique(np.load(folder / f"y{i}.npy"))
        few = [(np.load(folder / f"X{i}.npy")[::64], np.load(folder / f"phi{i}.npy")[::64]) for i in range(count)]
        inputs, targets = (np.concatenate(part) for part in zip(*few, strict=True))
        surrogate = model.surrogate_
        plain = Files(model.hypothesis_, inputs, Rows(surrogate, targets, np.ones(len(targets))), 1e-4)
        plain.files, plain.weight = (
            [(folder / f"X{i}.npy", folder / f"phi{i}.npy") for i in range(count)],
            1 / (n * count),
        )
        solution = LBFGS(tol=1e-7).minimise(plain, plain.flatten(plain.start))
        one = time.perf_counter() - start
    gap = abs(solution.value - model.solution_.value) / solution.value
    return [
        [
            f"{size / 2**30:.1f} GB in {count} files, two workers of {limit / 2**20:.0f} MB, most in use {most[0] / 2**20:.0f} MB, {'none' if alive else 'some'} restarted; {model.solution_.evaluations} evaluations beside {solution.evaluations}, objectives within {gap:.0e}",
            f"{one:.1f} s",
            f"{seconds:.1f} s",
            f"{seconds / one:.2f} times (at most 1.3)",
        ]
    ]


def rounds():
    """Seconds of a round by the number of workers, beside the model: latency + tasks x per task + rows x per row / cores."""
    X, y = rows_of(0, 1_000_000, 50, 5)
    out, found = [], {}
    for workers in (1, 2, 4):
        for rows in (4_000, 1_000_000):
            with cluster(workers) as machines, Client(machines) as client:
                parted = client.persist(collections(X[:rows], y[:rows], 8))
                wait(parted)
                face = tl.TaskLossEstimator(alpha=1e-6, tol=1e-13)
                face.fit(*parted)
                stamps = []
                with callbacks(lambda step, stamps=stamps: stamps.append(time.perf_counter())):
                    face.fit(*parted)
                found[workers, rows] = float(np.median(np.diff(stamps)))
    each = (found[4, 4_000] - found[1, 4_000]) / 6  # two tasks for each worker
    latency = found[1, 4_000] - 2 * each
    per_row = (found[1, 1_000_000] - found[1, 4_000]) / 1_000_000
    for (workers, rows), seconds in found.items():
        model = latency + 2 * workers * each + per_row * rows / min(workers, os.cpu_count() or 1)
        out.append(
            [
                f"a round: {rows:,} x 50, 5 labels, {workers} workers",
                f"model {1e3 * model:.0f} ms",
                f"{1e3 * seconds:.0f} ms",
                f"{seconds / model:.2f} times",
            ]
        )
    out.append(
        [
            "constants of the model",
            f"{1e3 * latency:.1f} ms a round",
            f"{1e3 * each:.2f} ms a task",
            f"{1e9 * per_row:.0f} ns a row",
        ]
    )
    return out


SECTIONS = {"overhead": overhead, "peers": peers, "large": large, "rounds": rounds}


def main(names):
    warnings.filterwarnings("ignore")
    kept = json.loads(STORE.read_text()) if STORE.exists() else {}
    for name in names or SECTIONS:
        kept[name] = [*SECTIONS[name](), f"{os.getloadavg()[0]:.0f}"]
        STORE.write_text(json.dumps(kept, indent=1) + "\n")
    table = [[*row, kept[name][-1]] for name in SECTIONS if name in kept for row in kept[name][:-1]]
    note = "Workers are processes of one thread on this machine. Each section is one run; the load is that of the machine then, with the run in it."
    write_table(
        "dask_fits",
        "Fits over Dask collections",
        ["what", "beside", "measured", "ratio", "load"],
        table,
        ("dask", "distributed", "dask-ml"),
        note,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
