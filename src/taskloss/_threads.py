"""One pool of threads for blocks of rows, no wider than BLAS may be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np


@cache
def _blas() -> Any:
    """The BLAS libraries; looking for them takes milliseconds, so once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """How many threads BLAS may use now; users and joblib limit both in one place."""
    return max(1, min(max((info["num_threads"] for info in _blas().info()), default=1), os.cpu_count() or 1))


def serial_blas(wanted: bool = True) -> contextlib.AbstractContextManager:
    """Hold BLAS at one thread, if wanted: where blocks run on threads of their own, or matrices are small."""
    return _blas().limit(limits=1) if wanted else contextlib.nullcontext()


def keep_pages() -> None:
    """Let the C library keep freed memory for the next temporary instead of handing its pages back each time.

    glibc raises its thresholds for that to the size of the largest mapped block it has freed; by default a temporary of
    128 kB can cost more in page faults than in arithmetic. Elsewhere this does nothing. No page of the block is touched.
    """
    block = np.empty(31 << 20, dtype=np.int8)
    del block


def shared_sum(items: list, work: Callable[..., Any], threads: int) -> Any:
    """The sum of work(*item) over the items, each thread adding up its own share."""
    if threads == 1 or len(items) == 1:
        return total(work(*item) for item in items)
    shares = [items[i::threads] for i in range(threads)]
    return total(pool().map(lambda share: total(work(*item) for item in share), [s for s in shares if s]))


def total(parts: Iterable[Any]) -> Any:
    """The sum of numbers, arrays or lists, or tuples of them."""
    sums: Any = None
    for part in parts:
        if sums is None:
            sums = part
        elif isinstance(part, tuple):
            sums = tuple(a + b for a, b in zip(sums, part, strict=True))
        else:
            sums = sums + part
    return sums


_executor: ThreadPoolExecutor | None = None


def pool() -> ThreadPoolExecutor:
    """The pool, made when it is first asked for."""
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="taskloss")
    return _executor
