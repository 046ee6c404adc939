"""The cost explorer in a browser: milliseconds from a change of costs to the page's new numbers, at 100,000 examples.

python -m benchmarks.report_page
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from typing import Any

import numpy as np
from tests.browser import chromium, settled

import taskloss as tl

from .common import write_table

N = 100_000
CHANGES = 12


def problems() -> dict[str, tuple[np.ndarray, np.ndarray, Any]]:
    """name: (probabilities, labels, loss)."""
    rng = np.random.default_rng(0)
    found: dict[str, tuple[np.ndarray, np.ndarray, Any]] = {}
    for k in (2, 3, 10):
        q = rng.dirichlet(np.full(k, 0.7), N)
        y = (q.cumsum(1) < rng.random((N, 1))).sum(1)
        found[f"{k} labels, {k} x {k} costs"] = q, y, np.abs(np.subtract.outer(range(k), range(k))) * 1.0
    p = rng.random((N, 10))
    found["sets of 10 labels"] = p, (rng.random(p.shape) < p).astype(int), "hamming"
    return found


def measured(driver: Any, page: pathlib.Path) -> tuple[float, list[float]]:
    """Seconds to load the page, and milliseconds of each of some changes of a person's price."""
    start = time.perf_counter()
    driver.get(f"file://{page}")
    settled(driver)
    loaded = time.perf_counter() - start
    driver.execute_script("document.getElementById('tl-person').click()")
    times = []
    for i in range(CHANGES):
        price = (
            "const r = document.getElementById('tl-price'); r.value = arguments[0]; r.dispatchEvent(new Event('input'))"
        )
        driver.execute_script(price, 0.1 + 0.05 * i)
        settled(driver)
        times.append(driver.execute_script("return taskloss.timing"))
    return loaded, times


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, chromium(pathlib.Path(folder) / "profile") as driver:
        for name, (proba, y, loss) in problems().items():
            page = pathlib.Path(folder) / "page.html"
            start = time.perf_counter()
            found = tl.diagnose(proba, y=y, loss=loss)
            diagnosed = time.perf_counter() - start
            found.to_html(page, overwrite=True)
            loaded, times = measured(driver, page)
            size = page.stat().st_size / 1e6
            rows.append(
                [
                    name,
                    f"{diagnosed:.1f}",
                    f"{size:.1f}",
                    f"{loaded:.2f}",
                    f"{np.median(times):.0f}",
                    f"{max(times):.0f}",
                ]
            )
            print(rows[-1], flush=True)
    header = ["problem", "diagnose, s", "page, MB", "load, s", "change, median ms", "worst ms"]
    note = (
        f"{N:,} examples; {CHANGES} changes of a price, each with decisions, confusion, cost and flips computed and written into the page, in headless "
        "Chromium. The machine was shared with other work."
    )
    print(write_table("report_page", "The cost explorer at 100,000 examples", header, rows, note=note))


if __name__ == "__main__":
    main()
