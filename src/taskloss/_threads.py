"""Sums over blocks of rows on the pool's threads, no wider than BLAS may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._blas import blas_threads, pool, serial_blas

__all__ = ["blas_threads", "keep_pages", "pool", "serial_blas", "shared_sum", "total"]


def keep_pages() -> None:
    """Nothing, any more: it tuned the C library's malloc for the whole process, and fits take as long without it."""


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
