"""How long decisions take beside one matrix product: python -m benchmarks.decisions.

10^6 x 10 probabilities and a 10 x 10 cost matrix. The product of both is what any decision needs; `proba @ costs.T` makes memory for
its result, as users write it, and `np.matmul(..., out=...)` is given memory that was used before. Times of one process, on one thread
and on two, taken in turns, the least and the median of 15. Between turns the process rests: the threads of OpenBLAS wait for the next
product by keeping their core busy, and whoever comes next on two threads would have one and a half. (On a machine that others use, run
it by `chrt -f 50`.)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import taskloss as tl

from .common import write_table

REST = 0.3  # seconds


def main(n: int = 1_000_000, k: int = 10, repeats: int = 15) -> None:
    rng = np.random.default_rng(0)
    proba, costs, memory = rng.dirichlet(np.ones(k), n), rng.random((k, k)), np.empty((n, k))
    loss = tl.losses.CostMatrix(costs)
    work: dict[str, Callable[[], Any]] = {
        "proba @ costs.T": lambda: proba @ costs.T,
        "np.matmul(proba, costs.T, out=memory)": lambda: np.matmul(proba, costs.T, out=memory),
        "np.argmin(proba @ costs.T, axis=1)": lambda: np.argmin(proba @ costs.T, axis=1),
        "tl.decide(proba, costs), which checks them": lambda: tl.decide(proba, loss),
        "loss.decode(proba)": lambda: loss.decode(proba),
    }
    rows = [row for threads in (1, 2)[: os.cpu_count()] for row in measured(work, threads, repeats)]
    header = ["threads", "work", "least, ms", "median, ms", "least / product", "median / product"]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    write_table("decisions", "Decisions beside a matrix product", header, rows, [], note)


def measured(work: dict[str, Callable[[], Any]], threads: int, repeats: int) -> list[tuple[Any, ...]]:
    """A row for each kind of work, in turns; the first is what the others are held against."""
    times: dict[str, list[float]] = {name: [] for name in work}
    with threadpool_limits(threads):
        for name, run in [*work.items()] * (repeats + 1):
            time.sleep(REST)
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    summary = {name: (float(min(t[1:])), float(np.median(t[1:]))) for name, t in times.items()}  # the first warms up
    least, median = next(iter(summary.values()))
    return [(threads, name, a, b, a / least, b / median) for name, (a, b) in summary.items()]


if __name__ == "__main__":
    main()
