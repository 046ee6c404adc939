"""Sums and maps over pieces of work, serial or on threads, and the one rule for when threads pay.

The module stands beside the folders because both inference (`polytopes/`) and fitting (`objectives/`) run on threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from ._blas import blas_threads, pool, serial_blas

T = TypeVar("T")

# Multiplications in one pass below which handing work to threads, or compiling for it, costs more than it gives.
# What costs more than a multiplication, such as a message in a chain, counts as several.
THREAD_WORK = 1 << 24


class Executor:
    """Runs work over pieces on so many threads; results do not depend on which thread is done first.

    `compiled` says whether the work is large enough to pay for compiled passes, on however many threads.
    """

    def __init__(self, threads: int = 1, compiled: bool = False):
        self.threads, self.compiled = threads, compiled

    @classmethod
    def for_work(cls, multiplications: float, pieces: int | None = None) -> Executor:
        """As many threads as BLAS may use, no more than pieces, where the work pays for them; else one."""
        if multiplications < THREAD_WORK:
            return SERIAL
        threads = blas_threads()
        return cls(threads if pieces is None else max(1, min(threads, pieces)), compiled=True)

    @property
    def inner(self) -> Executor:
        """What runs inside one piece, where the pieces have the threads."""
        return self if self.threads == 1 else Executor(1, self.compiled)

    def map(self, work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """[work(item) for each item]."""
        items = list(items)
        if self.threads == 1 or len(items) < 2 or _inside_pool():
            return [work(item) for item in items]
        with serial_blas():
            return list(pool().map(work, items))

    def sum(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Any:
        """The sum of work(item); each thread adds up every threads-th item, and their sums are added in order."""
        shares = [items[i :: self.threads] for i in range(min(self.threads, len(items)))]
        return total_of(self.map(lambda share: total_of(map(work, share)), shares))

    def over(self, work: Callable[[slice], Any], count: int, pieces: int | None = None) -> None:
        """work(slice) over slices that cover range(count): one for each thread, or so many."""
        for_each = self.threads if pieces is None else pieces
        stops = [count * i // for_each for i in range(for_each + 1)]
        self.map(work, [slice(a, b) for a, b in pairwise(stops) if a < b])


SERIAL = Executor(1)


def _inside_pool() -> bool:
    """A thread of the pool must not wait for the pool."""
    return threading.current_thread().name.startswith("taskloss")


def total_of(parts: Iterable[Any]) -> Any:
    """The sum of numbers, arrays or lists, or tuples of them; what is None is left out."""
    sums: Any = None
    for part in parts:
        if part is None:
            continue
        if sums is None:
            sums = part
        elif isinstance(part, tuple):
            sums = tuple(a + b for a, b in zip(sums, part, strict=True))
        else:
            sums = sums + part
    return sums
