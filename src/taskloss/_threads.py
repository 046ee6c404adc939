"""One pool of threads for blocks of rows, no wider than BLAS may be."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def blas_threads() -> int:
    """How many threads BLAS may use now; users and joblib limit both in one place."""
    from threadpoolctl import threadpool_info

    counts = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
    return max(1, min(max(counts, default=1), os.cpu_count() or 1))


def keep_pages() -> None:
    """Let the C library keep freed memory for the next temporary instead of handing its pages back each time.

    glibc raises its thresholds for that to the size of the largest mapped block it has freed; by default a temporary of
    128 kB can cost more in page faults than in arithmetic. Elsewhere this does nothing. No page of the block is touched.
    """
    block = np.empty(31 << 20, dtype=np.int8)
    del block


_executor: ThreadPoolExecutor | None = None


def pool() -> ThreadPoolExecutor:
    """The pool, made when it is first asked for."""
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="taskloss")
    return _executor
