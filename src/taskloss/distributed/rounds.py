"""Rounds of named tasks over objects that lie elsewhere: on the workers of the client at hand, or in this process's threads."""

from __future__ import annotations

import contextlib
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import dask.config
import numpy as np
from dask._task_spec import Alias, Task, convert_legacy_graph
from dask.base import annotate, compute, persist
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from .._blas import serial_blas
from ..parallel import total_of

_FAN_IN = 8  # sums that a task of the tree adds up
_SMALL_BYTES = 1 << 20  # of all copies of a round's arguments, up to which they go beside the tasks
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

    def compute(self, make: Callable[[], Any]) -> Any:
        """The values of the tasks that `make` names; what a task raises is raised here, and a lost scheduler is told in one sentence."""
        for attempt in range(_ATTEMPTS):
            try:
                with _large_graphs():
                    return compute(make())[0]
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

    def lots(self, sizes: Sequence[float], where: Sequence[Any], each: int) -> tuple[list[list[int]], list[str] | None]:
        """Items of these sizes in lots, so many for each thread, and each lot's worker: the one that has its items, as far as all are loaded alike.

        where: the worker that has an item; None for an item that nobody has, which stays with its neighbours.
        """
        workers = {} if self.client is None else self.client.scheduler_info(n_workers=-1)["workers"]
        threads: dict[Any, int] = {name: worker["nthreads"] for name, worker in workers.items()} or {None: self.threads}
        room = {name: sum(sizes) * count / sum(threads.values()) for name, count in threads.items()}
        own: dict[Any, list[int]] = {name: [] for name in threads}

        def give(name: Any, item: int) -> None:
            own[name].append(item)
            room[name] -= sizes[item]

        others = []
        for item, name in enumerate(where):
            if name is not None and room.get(name, 0.0) >= sizes[item] / 2:
                give(name, item)
            else:
                others.append(item)
        for item in others:
            give(next((name for name in room if room[name] >= sizes[item] / 2), max(room, key=room.__getitem__)), item)
        lots: list[list[int]] = []
        places: list[Any] = []
        for name, mine in own.items():
            items = np.sort(np.array(mine, dtype=int))
            size = np.asarray(sizes, dtype=float)[items]
            lot = ((np.cumsum(size) - size / 2) / max(size.sum(), 1.0) * each * threads[name]).astype(int)
            lots += [items[lot == one].tolist() for one in np.unique(lot)]
            places += [name] * (len(lots) - len(places))
        return lots, places if workers else None

    def persist(self, items: list[Any]) -> list[Any]:
        """The same values, made where they will lie."""
        with _large_graphs():
            return list(persist(*items))

    def has(self, items: Any) -> bool:
        """Whether workers have some of these values' inputs already."""
        if self.client is None:
            return False
        from distributed.client import futures_of

        return bool(futures_of(items))

    def sent(self, values: tuple[Any, ...], tasks: int, lasting: bool) -> Any:
        """Arguments of all tasks of a round: beside each task where they are small; else once, to all workers.

        lasting: as a task of their own, which a worker that comes later can make again.
        """
        if self.client is None or self.small(values, tasks):
            return _Sent(values)
        if lasting:
            return delayed(_Sent(values), name=f"taskloss-parts-{uuid.uuid4().hex}", traverse=False)
        return delayed(self.client.scatter([_Sent(values)], broadcast=True, hash=False)[0])

    def small(self, values: tuple[Any, ...], tasks: int) -> bool:
        """Whether so many copies cost less than one more way between processes."""
        return tasks * sum(getattr(value, "nbytes", 0) for value in values) <= _SMALL_BYTES


@contextlib.contextmanager
def _large_graphs() -> Iterator[None]:
    """Graphs hold what workers that come later need, and Dask warns of their size."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        yield


def _is_loss(error: Exception) -> bool:
    """Whether an error tells of what was lost, rather than of what a task found."""
    from asyncio import CancelledError, TimeoutError

    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    kinds = (CancelledError, FutureCancelledError, CommClosedError, TimeoutError, ConnectionError)
    return isinstance(error, kinds) or type(error).__name__ in ("FuturesCancelledError", "ClosedClientError")


def worker() -> str | None:
    """Where this task runs; None within this process."""
    try:
        from distributed import get_worker

        return str(get_worker().address)
    except (ImportError, ValueError):
        return None


class _Sent:
    """Arguments as they are: Dask looks into tuples, and not into these."""

    def __init__(self, values: tuple[Any, ...] = ()):
        self.values = values


class Shares:
    """Objects that lie elsewhere, each the outcome of a task: an implementation of `objectives.partitioned.Partitions`.

    held: whether they stay in memory; else every round makes them anew from their sources.
    """

    def __init__(self, cluster: Cluster, items: list[Any], held: bool):
        self.cluster, self.held = cluster, held
        self.items = cluster.persist(items) if held else fused(items)

    def __len__(self) -> int:
        return len(self.items)

    def made(
        self,
        name: str,
        work: Callable[..., Any],
        *arguments: Any,
        held: bool | None = None,
        places: list[str] | None = None,
    ) -> Self:
        """places: workers on which to make them, if these are there."""
        tasks = self._tasks(name, work, arguments, None, True, places)
        return type(self)(self.cluster, tasks, self.held if held is None else held)

    def each(self, name: str, work: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> list[Any]:
        return self.cluster.compute(lambda: self._tasks(name, work, arguments, own))

    def sum(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        small = self.cluster.small(arguments, len(self))  # then their sums are, and the last are added here
        return total_of(self.cluster.compute(lambda: tree(self._tasks(name, work, arguments, None), not small)))

    def _tasks(
        self,
        name: str,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
        own: Sequence[Any] | None,
        lasting: bool = False,
        places: list[str] | None = None,
    ) -> list[Any]:
        call, token = delayed(_run, pure=False), uuid.uuid4().hex
        sent = self.cluster.sent(arguments, len(self), lasting)
        mine = [_Sent()] * len(self.items) if own is None else [None if one is None else _Sent((one,)) for one in own]
        tasks = []
        for i, (item, one) in enumerate(zip(self.items, mine, strict=True)):
            at = {} if places is None else {"workers": [places[i]], "allow_other_workers": True}
            with annotate(**at):
                key = (
                    f"{name}-{token}",
                    i,
                )  # a group for each round: of one that grows Dask believes that its inputs lie nowhere
                tasks.append(None if one is None else call(work, item, one, sent, dask_key_name=key))
        return tasks if self.held or lasting else fused(tasks)


def tree(parts: list[Any], whole: bool = True) -> list[Any]:
    """The sum of the values of some Delayed, in a tree of tasks: one, or where not `whole` the few of its last level."""
    add, token = delayed(total_of, pure=False), uuid.uuid4().hex
    level = 0
    while len(parts) > (1 if whole else _FAN_IN) or (whole and level == 0):
        groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
        parts = [add(group, dask_key_name=(f"taskloss-sum-{token}", level, i)) for i, group in enumerate(groups)]
        level += 1
    return parts


def fused(items: list[Any]) -> list[Any]:
    """The same values, each by one task with all that it alone needs, so that a partition is read where and when it is used.

    As tasks of their own, workers read ahead, and write what fills their memory to disk. What several items need stays a
    task, as does what workers hold; and all do where a collection says on which workers its tasks run.
    """
    ends = [item for item in items if isinstance(item, Delayed)]
    layers = {id(layer): layer for end in ends for layer in end.dask.layers.values()}.values()
    if any(layer.annotations for layer in layers):
        return items
    given = {key: task for layer in layers for key, task in layer.items()}
    tasks = {key: _named(key, task) for key, task in convert_legacy_graph(given).items()}
    owner: dict[Any, Any] = {}  # of a task, the only item that needs it; else None
    for end in ends:
        waiting = [(end.key, end.key)]
        while waiting:
            key, one = waiting.pop()
            if key not in given or owner.get(key, ...) in (None, one):
                continue
            needs = tasks[key].dependencies if key in tasks else frozenset()  # what is held is a Future, and no task
            held = key not in tasks or not given.keys() >= needs
            owner[key] = one = None if key in owner or held else one
            waiting += [(needed, one) for needed in needs]
    own: dict[Any, list[Any]] = {key: [] for key in owner.values()}
    for key, one in owner.items():
        own[one].append(key)
    alone = own.pop(None, [])
    found = {key: given[key] for key in alone} | {end: Task.fuse(*(tasks[key] for key in own[end])) for end in own}
    name = f"taskloss-fused-{uuid.uuid4().hex}"
    graph = HighLevelGraph({name: MaterializedLayer(found)}, {name: set()})
    return [Delayed(item.key, graph, layer=name) if isinstance(item, Delayed) else item for item in items]


def _named(key: Any, task: Any) -> Any:
    """A task under the key that its graph has for it: Dask's data frames have others there under names of their own."""
    if task.key == key:
        return task
    return Alias(key, task.target) if isinstance(task, Alias) else task.substitute({}, key=key)


def _run(work: Callable[..., Any], item: Any, own: _Sent, sent: _Sent) -> Any:
    """A task has one thread: the tasks beside it have the others."""
    with serial_blas():
        return work(item, *own.values, *sent.values)
