"""How long decisions take beside one matrix product: python -m benchmarks.decisions.

10^6 x 10 probabilities and a 10 x 10 cost matrix. The product of both is what any decision needs; `proba @ costs.T` makes memory for
its result, as users write it, and `np.matmul(..., out=...)` is given memory that was used before. Times of one process on one thread,
taken in turns, the least and the median of 15.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import taskloss as tl

from .common import write_table


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
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    first = next(iter(times.values()))
    rows = [
        (name, float(min(t)), float(np.median(t)), float(min(t) / min(first)), float(np.median(t) / np.median(first)))
        for name, t in times.items()
    ]
    header = ["work", "least, ms", "median, ms", "least / product", "median / product"]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    write_table("decisions", "Decisions beside a matrix product", header, rows, [], note)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
