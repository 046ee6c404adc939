"""What the benchmarks share: timing side by side, and tables that say on what they were measured."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

RESULTS = pathlib.Path(__file__).parent / "results"


def best_time(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The least of a few wall-clock times, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def measure_all(store: pathlib.Path, keys: Sequence[str], measure: Callable[[str, str], Any]) -> dict[str, Any]:
    """measure(folder, name) for every "folder/name", a process for each core, each result kept as soon as it is there."""
    RESULTS.mkdir(exist_ok=True)
    kept: dict[str, Any] = {}
    start = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), initializer=one_thread) as pool:
        waiting = {pool.submit(measure, *key.split("/")): key for key in keys}
        for done, future in enumerate(as_completed(waiting), 1):
            key = waiting[future]
            # Read anew: another run may have kept something meanwhile.
            kept = {**(json.loads(store.read_text()) if store.exists() else {}), key: future.result()}
            store.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            print(f"[{done}/{len(keys)}, {time.perf_counter() - start:.0f} s] {key}: {kept[key]}", flush=True)
    return kept


def one_thread() -> None:
    """For a process of its own: one thread in each library that is loaded."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def write_table(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    peers: Sequence[str] = (),
    note: str = "",
) -> str:
    """Write results/<name>.md with the machine and the versions, and return the text."""
    lines = [f"# {title}", "", machine(peers), ""]
    if note:
        lines += [note, ""]
    lines += ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in rows]
    text = "\n".join(lines) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
    return text


def machine(peers: Sequence[str] = ()) -> str:
    """One line on the machine, Python and the packages that matter."""
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("numpy", "scipy", "scikit-learn", *peers))
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"Measured on {os.cpu_count()} cores ({platform.machine()}, {_cpu()}; load average {load} at the end), "
        f"Python {platform.python_version()}, {versions}."
    )


def _cpu() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
