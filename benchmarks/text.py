"""Taggers on real text beside CRFsuite, to the same gaps of the same objective: python -m benchmarks.text.

CoNLL-2000 chunking and UD English EWT parts of speech at full size; weights for the pairs of feature and label that occur, as CRFsuite has them. The least
value is that of a fit of ours to 1e-9.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import taskloss as tl
from taskloss.data.sequences import SequenceReader

from .common import write_table
from .datasets import sequences as data

PEERS = ("numba", "python-crfsuite")
GAPS = (1e-3, 1e-5)
C2 = 0.5


class Trace:
    """CRFsuite's losses after each iteration with the CPU seconds so far, on one thread, and seconds to hand it the data."""

    def __init__(self, split: data.Split, algorithm: str, iterations: int):
        import pycrfsuite

        trainer = pycrfsuite.Trainer(verbose=False, algorithm=algorithm)
        stop = {"c1": 0.0, "epsilon": 1e-12, "delta": 1e-12} if algorithm == "lbfgs" else {"delta": 1e-12}
        trainer.set_params({"c2": C2, "max_iterations": iterations, "feature.possible_transitions": True} | stop)
        start = time.process_time()
        for x, y in zip(split.X, split.y, strict=True):
            trainer.append(x, y)
        self.reading = time.process_time() - start
        with tempfile.NamedTemporaryFile() as file:
            start = time.process_time()
            trainer.train(file.name)
            self.whole = time.process_time() - start
        steps = [i for i in trainer.logparser.iterations if "loss" in i]
        self.losses = np.array([i["loss"] for i in steps])
        self.seconds = np.cumsum([i["time"] for i in steps])
        self.reading += max(0.0, self.whole - self.seconds[-1])  # which makes the features

    def to(self, value: float) -> float:
        """Seconds to this value; infinity where it was not reached."""
        reached = np.flatnonzero(self.losses <= value)
        return float(self.seconds[reached[0]]) if len(reached) else np.inf


def fit(X: Any, y: Any, n: int, tol: float, threads: int, repeats: int = 2) -> tuple[float, tl.SequenceTagger]:
    """The least wall-clock seconds of a few fits, and the last model."""
    options = {"fit_intercept": False, "boundaries": False, "all_possible_states": False}
    best, model = np.inf, tl.SequenceTagger(alpha=2 * C2 / n, tol=tol, **options)
    with threadpool_limits(threads):
        for _ in range(repeats):
            start = time.perf_counter()
            model.fit(X, y)
            best = min(best, time.perf_counter() - start)
    return best, model


def rows_of(name: str) -> list[list[Any]]:
    split = getattr(data, name)()
    n = len(split.X)
    rows, offsets = SequenceReader().fit_read(split.X)
    packed, labels = tl.Packed(rows, offsets), np.concatenate([np.array(y, dtype=object) for y in split.y])
    fit(packed, labels, n, 1e-1, 2, 1)  # compiled
    measured = {}
    for gap in GAPS:
        for threads in (2, 1):
            measured[gap, threads] = fit(packed, labels, n, gap, threads, threads)
        measured[gap, "reading"] = fit(split.X, split.y, n, gap, 2, 1)
    least = n * fit(packed, labels, n, 1e-9, 2, 1)[1].solution_.value
    lbfgs, sgd = Trace(split, "lbfgs", 400), Trace(split, "l2sgd", 50)
    found = []
    for gap in GAPS:
        value = (1 + gap) * least
        two, one, whole = (measured[gap, what] for what in (2, 1, "reading"))
        theirs = lbfgs.to(value)
        reached = n * two[1].solution_.value / least - 1
        sgd_seconds = sgd.to(value)
        by_sgd = (
            f"{sgd_seconds:.3g}"
            if np.isfinite(sgd_seconds)
            else f"not in {sgd.seconds[-1]:.3g} s, {sgd.losses.min() / least - 1:.1e}"
        )
        found.append(
            [
                name,
                gap,
                f"{reached:.1e}",
                theirs,
                by_sgd,
                two[0],
                theirs / two[0],
                one[0],
                theirs / one[0],
                theirs + lbfgs.reading,
                whole[0],
                (theirs + lbfgs.reading) / whole[0],
                two[1].solution_.evaluations,
            ]
        )
        print(found[-1], flush=True)
    return found


def main() -> None:
    header = [
        "data",
        "gap",
        "our gap",
        "CRFsuite lbfgs, s",
        "CRFsuite l2sgd, s",
        "2 threads, s",
        "times",
        "1 thread, s",
        "times",
    ]
    header += ["CRFsuite with reading, s", "ours with reading, s", "times", "evaluations"]
    note = (
        f"Gaps are relative to the least value. c2 = {C2}; the same weights, for the pairs of feature and label that occur and for all transitions. CRFsuite runs on one thread; its seconds are the CPU's, by its "
        "own count, so that other work on the machine counts for us alone, whose seconds are those of the wall clock, from packed rows to fitted model, on two threads the better of two. Its time to a gap is that of the first iteration below it, ours that of a fit with "
        "tol at the gap, which says itself when to stop: `our gap` is what was then left. Reading: from lists of names."
    )
    write_table(
        "text",
        "Taggers on real text",
        header,
        [row for name in ("conll2000", "ud_ewt") for row in rows_of(name)],
        PEERS,
        note,
    )


if __name__ == "__main__":
    main()
