"""What a first use costs: python -m benchmarks.footprint. Import, first fit on small data, and peak memory.

Each number comes from processes of its own, the least of fifteen for times, ours and theirs in turn. Python may keep the
byte code of every package, as it does for installed ones. A first fit counts everything from the
interpreter's first line: imports, compilation if any, and the fit. Peak memory is the highest resident size during a
fit less that before it, over the size of X and y; "1 + that" is the whole, inputs included. It is measured after a fit
on a corner of the data, so that code and thread stacks do not count.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from .common import write_table

SOURCE = pathlib.Path(__file__).parents[1] / "src"

FIRST = """
import time; start = time.perf_counter()
import json, numpy as np
with np.load({file!r}) as data: X, y = data["X"], data["y"]
{load}
imported = time.perf_counter()
model = {make}
model.fit(X, y)
print(json.dumps([time.perf_counter() - start, time.perf_counter() - imported]))
"""

IMPORT = "import time; start = time.perf_counter(); import {name}; print(time.perf_counter() - start)"

MEMORY = """
import json, numpy as np, warnings
from scipy import sparse
warnings.simplefilter("ignore")
{load}

def resident(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))

rng = np.random.default_rng(0)
{data}
small = slice(0, 300)
model = {make}
model.fit(X[small], y[small])
{after}
before = resident("VmRSS")
with open("/proc/self/clear_refs", "w") as clear: clear.write("5")
model.fit(X, y)
size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse.issparse(X) else X.nbytes) + y.nbytes
print(json.dumps([(resident("VmHWM") - before) / size, size / 2**20]))
"""

LOGISTIC = "from sklearn.linear_model import LogisticRegression"
TASKLOSS = "import taskloss as tl"
# The corner takes the way of large data too: compiled, on threads.
COMPILED = TASKLOSS + "; from taskloss import parallel; usual, parallel.THREAD_WORK = parallel.THREAD_WORK, 0"
MULTINOMIAL = "y = np.argmax(X[:, :{k}] + rng.gumbel(size=(len(X), {k})), axis=1)"
PROBLEMS = {
    "multinomial, 100k x 100, k=10": (
        "X = rng.standard_normal((100_000, 100)); " + MULTINOMIAL.format(k=10),
        "tl.CostSensitiveClassifier(alpha=1e-5, tol=1e-6)",
        "LogisticRegression(max_iter=200)",
    ),
    "multilabel, 50k x 100, 100 labels": (
        "X = rng.standard_normal((50_000, 100)); y = (X + rng.logistic(size=X.shape) > 0).astype(int)",
        "tl.MultilabelClassifier(alpha=1e-5, tol=1e-6)",
        None,
    ),
    "all-thresholds, 50k x 50, k=10": (
        "X = rng.standard_normal((50_000, 50)); v = X[:, 0] + rng.logistic(size=len(X)); "
        "y = np.searchsorted(np.quantile(v, np.arange(1, 10) / 10), v)",
        "tl.OrdinalClassifier(alpha=1e-5, tol=1e-6)",
        None,
    ),
    "multinomial, CSR 20k x 50k, 0.1 %, k=20 (theta: 8 MB)": (
        "X = sparse.csr_matrix((np.ones(10**6), (rng.integers(0, 20_000, 10**6), rng.integers(0, 50_000, 10**6))), "
        "shape=(20_000, 50_000)); y = rng.integers(0, 20, 20_000)",
        "tl.CostSensitiveClassifier(alpha=1e-4, tol=1e-6)",
        "LogisticRegression(max_iter=200, solver='newton-cg')",
    ),
}


def python(code: str) -> str:
    """What a fresh process prints."""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment(), timeout=200
    )
    return run.stdout


BYTE_CODE = tempfile.TemporaryDirectory()  # gone when the benchmark ends


def _environment() -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    found["PYTHONPATH"] = f"{SOURCE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    found["PYTHONPYCACHEPREFIX"] = BYTE_CODE.name
    return found


def least(*codes: str, repeats: int = 15) -> list[np.ndarray]:
    """The least of what each prints over some rounds, after one to warm up."""
    rounds = [[np.atleast_1d(json.loads(python(code))) for code in codes] for _ in range(repeats + 1)]
    return [np.min(times[1:], axis=0) for times in zip(*rounds, strict=True)]


def first_rows() -> list[list]:
    from sklearn.datasets import load_digits, load_iris

    rows = []
    for name, load in (("iris", load_iris), ("digits", load_digits)):
        X, y = load(return_X_y=True)
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/data.npz"
            np.savez(file, X=X, y=y)
            theirs, ours = least(
                FIRST.format(file=file, load=LOGISTIC, make="LogisticRegression(max_iter=5000)"),
                FIRST.format(
                    file=file, load=TASKLOSS, make=f"tl.CostSensitiveClassifier(alpha=1 / {len(y)}, tol=1e-6)"
                ),
            )
        rows += [
            [f"first fit on {name}, imports included, s", ours[0], theirs[0], ours[0] / theirs[0], "1"],
            [f"first fit on {name}, after imports, s", ours[1], theirs[1], ours[1] / theirs[1], "1"],
        ]
        print(rows[-2:], flush=True)
    return rows


def import_rows() -> list[list]:
    ours, theirs = (float(x[0]) for x in least(*(IMPORT.format(name=name) for name in ("taskloss", "sklearn"))))
    return [["import, s", ours, theirs, ours / theirs, "1.5"]]


def memory_rows() -> list[list]:
    rows = []
    for name, (data, ours, peer) in PROBLEMS.items():
        mine, size = json.loads(
            python(MEMORY.format(load=COMPILED, data=data, make=ours, after="parallel.THREAD_WORK = usual"))
        )
        theirs = ""
        if peer is not None:
            theirs = f"{1 + json.loads(python(MEMORY.format(load=LOGISTIC, data=data, make=peer, after='')))[0]:.2f}"
        rows.append([f"peak memory over inputs ({size:.0f} MB), {name}", f"{1 + mine:.2f}", theirs, "", "1.3"])
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    rows = [*import_rows(), *first_rows(), *memory_rows()]
    note = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    header = ["what", "taskloss", "scikit-learn", "ratio", "at most"]
    write_table("footprint", "First use and memory", header, rows, ["numba"], note)


if __name__ == "__main__":
    main()
