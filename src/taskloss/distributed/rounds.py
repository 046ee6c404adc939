"""Rounds of named tasks over objects that lie elsewhere: on the workers of the client at hand, or in this process's threads."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Self

import dask.config
from dask.base import compute, persist
from dask.delayed import delayed

from .._blas import serial_blas
from ..parallel import total_of

_FAN_IN = 8  # sums that a task of the tree adds up
_SENT_BYTES = 1 << 20  # arguments above it go to all workers by themselves, those below it with the graph
_ATTEMPTS = 3  # rounds that are tried again where what was sent is lost with its worker
_HELD = 0.4  # share of the memory that shares may take, beside what is made of them


class LostSchedulerError(ConnectionError):
    """The scheduler, or this process's way to it, is gone in the middle of a fit."""


def client() -> Any:
    """The client of `distributed` that Dask would use here; None where it would use this process."""
    try:
        from distributed import default_client
    except ImportError:
        return None
    if dask.config.get("scheduler", None) in ("threads", "threading", "sync", "synchronous", "single-threaded"):
        return None
    try:
        return default_client()
    except ValueError:
        return None


class Cluster:
    """The threads that tasks run on, and the memory beside them."""

    def __init__(self) -> None:
        self.client = client()
        if self.client is None:
            self.workers, self.threads = 1, dask.config.get("num_workers", None) or os.cpu_count() or 1
            self.memory = (
                float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else 2**33
            )
        else:
            workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
            self.workers = max(1, len(workers))
            self.threads = max(1, sum(worker["nthreads"] for worker in workers))
            limits = [worker["memory_limit"] or 2**33 for worker in workers]
            self.memory = float(sum(limits)) if limits else float("inf")

    def holds(self, size: float) -> bool:
        """Whether so many bytes are worth holding in memory between rounds."""
        return size <= _HELD * self.memory

    def compute(self, value: Any) -> Any:
        """The values of some Delayed; what a task raises is raised here, and a lost scheduler is told in one sentence."""
        for attempt in range(_ATTEMPTS):
            try:
                return compute(value)[0]
            except Exception as error:
                if self.client is None or not _is_loss(error):
                    raise
                if not self._lives():
                    raise LostSchedulerError(
                        f"The Dask scheduler at {self.address} was lost in the middle of a fit ({type(error).__name__}): start it again, and call fit again."
                    ) from error
                if attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError

    @property
    def address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return str(getattr(scheduler, "address", "an unknown address"))

    def _lives(self) -> bool:
        """Whether the scheduler still answers."""
        if self.client.status != "running":
            return False
        try:
            self.client.sync(self.client.scheduler.identity, callback_timeout=10)
        except Exception:
            return False
        return True

    def persist(self, items: list[Any]) -> list[Any]:
        """The same values, made where they will lie."""
        return list(persist(*items))

    def sent(self, values: tuple[Any, ...]) -> Any:
        """Arguments of all tasks of a round, sent once."""
        name = f"taskloss-parameters-{uuid.uuid4().hex}"
        if self.client is not None and sum(getattr(v, "nbytes", 0) for v in values) > _SENT_BYTES:
            return delayed(self.client.scatter([values], broadcast=True, hash=False)[0])
        return delayed(_Literal(values), pure=False)(dask_key_name=name)


def _is_loss(error: Exception) -> bool:
    """Whether an error tells of what was lost, rather than of what a task found."""
    from asyncio import CancelledError, TimeoutError

    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    kinds = (CancelledError, FutureCancelledError, CommClosedError, TimeoutError, ConnectionError)
    return isinstance(error, kinds) or type(error).__name__ in ("FuturesCancelledError", "ClosedClientError")


class _Literal:
    """A task that gives what it was made with: lost with a worker, it is there again."""

    def __init__(self, value: Any):
        self.value = value

    def __call__(self) -> Any:
        return self.value


class Shares:
    """Objects that lie elsewhere, each the outcome of a task: an implementation of `objectives.partitioned.Partitions`.

    held: whether they stay in memory; else every round makes them anew from their sources.
    """

    def __init__(self, cluster: Cluster, items: list[Any], held: bool):
        self.cluster, self.held = cluster, held
        self.items = cluster.persist(items) if held else items

    def __len__(self) -> int:
        return len(self.items)

    def made(self, name: str, work: Callable[..., Any], *arguments: Any, held: bool | None = None) -> Self:
        tasks = self._tasks(name, work, arguments, None)
        return type(self)(self.cluster, tasks, self.held if held is None else held)

    def each(self, name: str, work: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> list[Any]:
        return self.cluster.compute(self._tasks(name, work, arguments, own))

    def sum(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        return self.cluster.compute(tree(self._tasks(name, work, arguments, None)))

    def _tasks(
        self, name: str, work: Callable[..., Any], arguments: tuple[Any, ...], own: Sequence[Any] | None
    ) -> list[Any]:
        call, token = delayed(_run, pure=False), uuid.uuid4().hex
        sent = self.cluster.sent(arguments) if arguments else ()
        mine = [()] * len(self.items) if own is None else [None if one is None else (one,) for one in own]
        return [
            None if one is None else call(work, item, one, sent, dask_key_name=f"{name}-{token}-{i}")
            for i, (item, one) in enumerate(zip(self.items, mine, strict=True))
        ]


def tree(parts: list[Any]) -> Any:
    """The sum of the values of some Delayed, in a tree of tasks."""
    add, token = delayed(total_of, pure=False), uuid.uuid4().hex
    level = 0
    while len(parts) > 1 or level == 0:
        groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
        parts = [add(group, dask_key_name=f"taskloss-sum-{token}-{level}-{i}") for i, group in enumerate(groups)]
        level += 1
    return parts[0]


def _run(work: Callable[..., Any], item: Any, own: tuple[Any, ...], sent: tuple[Any, ...]) -> Any:
    """A task has one thread: the tasks beside it have the others."""
    with serial_blas():
        return work(item, *own, *sent)
