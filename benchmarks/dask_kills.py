"""Workers that are killed in the middle of a fit over Dask: whether it ends, where, and how much later."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import tempfile
import warnings

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client

import taskloss as tl
from benchmarks.common import RESULTS, write_table
from benchmarks.dask_fits import cluster, timed
from taskloss.progress import callbacks

STORE = RESULTS / "dask_kills.json"
ROWS, PARTS, FEATURES, LABELS, WORKERS = 1_600_000, 16, 50, 8, 4
DEADLINE = 120  # seconds, after which a fit counts as one that hangs
SHORT = {"distributed.comm.timeouts.connect": "3s"}  # in the place of Dask's 30
FACE = tl.TaskLossEstimator(alpha=1e-9, tol=1e-12)


def save(folder):
    """Heavy tails and hardly a penalty, so that a fit takes some 70 evaluations."""
    for i in range(PARTS):
        rng = np.random.default_rng(i)
        X = rng.standard_t(2, size=(ROWS // PARTS, FEATURES))
        np.save(folder / f"X{i}.npy", X)
        np.save(folder / f"y{i}.npy", np.argmax(3 * X[:, :LABELS] + rng.gumbel(size=(len(X), LABELS)), 1))


def read(folder, name):
    """One file; the process that finds the order to die with it dies when half of it is read."""
    file, order = folder / f"{name}.npy", folder / f"die-{name}"
    if order.exists():
        order.unlink()  # so that the next reads on
        np.fromfile(file, count=ROWS // PARTS * FEATURES // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    return np.load(file)


def collections(folder):
    def whole(name, shape, dtype):
        n = ROWS // PARTS
        parts = (delayed(read)(folder, f"{name}{i}") for i in range(PARTS))
        return da.concatenate([da.from_delayed(part, (n, *shape), dtype) for part in parts])

    return whole("X", (FEATURES,), float), whole("y", (), np.int64)


def kill(client, count, rng):
    for pid in rng.choice(list(client.run(os.getpid).values()), count, replace=False):
        os.kill(int(pid), signal.SIGKILL)


def struck(client, folder, data, evaluations, seed, count):
    """A fit in which workers die: `count` at a random evaluation, or with none one that reads a random file."""
    rng, seen = np.random.default_rng(seed), []
    if not count:
        (folder / f"die-X{rng.integers(PARTS)}").touch()
    at = int(rng.integers(1, evaluations))

    def strike(step):
        seen.append(step)
        if count and len(seen) == at:
            kill(client, count, rng)

    signal.alarm(DEADLINE)
    try:
        with callbacks(strike):
            seconds, model = timed(lambda: FACE.fit(*data))
    except TimeoutError:
        return np.inf, np.nan, at
    finally:
        signal.alarm(0)
    return seconds, model.solution_.value, at


CASES = {
    "one of four at a random evaluation": (range(20), 1, SHORT),
    "two of four at a random evaluation": (range(5), 2, SHORT),
    "one of four halfway through a file": (range(5), 0, SHORT),
    "one of four at a random evaluation, Dask's own timeouts": (range(5), 1, {}),
}


def late(*_):
    raise TimeoutError(f"not done after {DEADLINE} s")


def measure(name, seeds, keep):
    """A fit undisturbed, and at once one that is struck."""
    _, count, timeouts = CASES[name]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TASKLOSS_SCRATCH")) as folder:
        folder = pathlib.Path(folder)
        save(folder)
        data = collections(folder)
        here = [np.concatenate([np.load(folder / f"{v}{i}.npy") for i in range(PARTS)]) for v in "Xy"]
        value = FACE.fit(*here).solution_.value
        del here
        for seed in seeds:  # on a cluster of its own, which is whole when it starts
            with dask.config.set(timeouts), cluster(WORKERS) as machines, Client(machines) as client:
                # A process that has just started imports and compiles.
                tl.TaskLossEstimator(alpha=1.0, tol=1e-2).fit(*data)
                calm, model = timed(lambda: FACE.fit(*data))
                seconds, found, at = struck(client, folder, data, model.solution_.iterations, seed, count)
            gap = abs(found - value) / value
            keep(name, seed, [calm, seconds, gap, at, model.solution_.iterations, os.getloadavg()[0]])


def table(kept):
    rows = []
    for name in CASES:
        if name in kept:
            runs = np.array(list(kept[name].values()))
            ratio = runs[:, 1] / runs[:, 0]
            rows.append(
                [
                    name,
                    f"{np.isfinite(runs[:, 1]).sum()} of {len(runs)}",
                    f"{runs[:, 2].max():.0e}",
                    f"{np.median(runs[:, 0]):.1f} s",
                    f"{np.median(runs[:, 1]):.1f} s",
                    f"{np.median(ratio):.2f}",
                    f"{ratio.max():.2f}",
                    f"{np.median(runs[:, 5]):.0f}",
                ]
            )
    write_table(
        "dask_kills",
        "Workers killed in the middle of a fit over Dask",
        ["killed", "ended", "objective within", "undisturbed", "struck", "ratio", "largest", "load"],
        rows,
        ("dask", "distributed"),
        f"A multinomial logistic fit to {ROWS:,} x {FEATURES} rows of {LABELS} labels in {PARTS} files, by {WORKERS} worker processes of one thread, to tol 1e-12. Each seed is a fit undisturbed and "
        f"then one in which workers get SIGKILL, with a deadline of {DEADLINE} s; ratios are of such pairs, seconds their medians; the objective is compared with that of one process that has all rows. The fits are "
        "chosen to last some seconds, since a nanny's new worker takes seconds of these two cores to start. Other workers wait for a dead one 3 seconds "
        "(distributed.comm.timeouts.connect), in the last row as long as Dask does by default, 30.",
    )


def main(words):
    """Cases and seeds, all if none are named; what was measured before is kept."""
    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGALRM, late)
    kept = json.loads(STORE.read_text()) if STORE.exists() else {}

    def keep(name, seed, found):
        kept.setdefault(name, {})[str(seed)] = found
        STORE.write_text(json.dumps(kept, indent=1) + "\n")
        print(name, seed, [f"{x:.3g}" for x in found], f"{found[1] / found[0]:.2f}", flush=True)

    for name in [word for word in words if word in CASES] or CASES:
        seeds = [int(word) for word in words if word.isdigit()] or CASES[name][0]
        measure(name, seeds, keep)
    table(kept)


if __name__ == "__main__":
    main(sys.argv[1:])
