"""Verdicts and bounds within a time limit, where the entropy is found numerically: python -m benchmarks.time_limits.

The 16 spanning trees of a graph with four nodes, as vertices of a `Hull` of six edges; the surrogate is `MaxEntropy(Hull(trees))`, the loss the share of edges that are
wrong. `check` says whether the surrogate is calibrated for every loss that is affine in the edges. `calibration(...).exact(1/3)` is cut off by its `time_limit`: its lower end is proved, its value is
the divergence at a witness, and the truth lies between them. One thread.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import taskloss as tl
from taskloss.polytopes import Hull

from .common import write_table


def spanning_trees(nodes: int) -> np.ndarray:
    """The indicator vectors, over the edges of the complete graph, of its spanning trees."""
    edges = list(itertools.combinations(range(nodes), 2))
    incidence = np.array([np.eye(nodes)[a] - np.eye(nodes)[b] for a, b in edges])
    some = itertools.combinations(range(len(edges)), nodes - 1)
    rows = [np.isin(np.arange(len(edges)), chosen) for chosen in some]
    return np.array([row for row in rows if np.linalg.matrix_rank(incidence[row]) == nodes - 1], dtype=float)


def timed(work: Callable[[], Any]) -> tuple[Any, tuple[str, str]]:
    """What work returns, with its seconds on the wall and of the processor."""
    wall, own = time.perf_counter(), time.process_time()
    found = work()
    return found, (f"{time.perf_counter() - wall:.1f}", f"{time.process_time() - own:.1f}")


def main() -> None:
    trees = spanning_trees(4)
    surrogate = tl.surrogates.MaxEntropy(Hull(trees))
    loss = tl.losses.CostMatrix((3 - trees @ trees.T) / 3, embedding=trees)
    rows: list[tuple[Any, ...]] = []
    report, seconds = timed(lambda: tl.theory.check(surrogate, trees, time_limit=10))
    rows.append(("check", 10, *seconds, report.verdict, "", ""))
    for limit in (1, 10, 60):
        run = tl.theory.calibration(loss, surrogate, time_limit=limit)
        found, seconds = timed(lambda run=run: run.exact(1 / 3))
        verdict = "exact" if found.gap < 1e-6 * found.value else "bounded"
        rows.append(("calibration at 1/3", limit, *seconds, verdict, f"{found.lower:.6f}", f"{found.value:.6f}"))
    header = ["work", "time limit, s", "seconds", "of processor time", "verdict", "lower end", "value"]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    write_table("time_limits", "Spanning trees in time", header, rows, ["clarabel"], note)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
