"""One pool of threads for blocks of rows, no wider than BLAS may be."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor


def blas_threads() -> int:
    """How many threads BLAS may use now; users and joblib limit both in one place."""
    from threadpoolctl import threadpool_info

    counts = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
    return max(1, min(max(counts, default=1), os.cpu_count() or 1))


_executor: ThreadPoolExecutor | None = None


def pool() -> ThreadPoolExecutor:
    """The pool, made when it is first asked for."""
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="taskloss")
    return _executor
