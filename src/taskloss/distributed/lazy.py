"""Predictions for Dask collections: lazy, partition by partition."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from dask.delayed import delayed

from . import is_collection
from .collections import aligned
from .rounds import tree

_PER_ROW = ("y", "sample_weight", "groups", "qid", "costs", "parents", "propensity")


class _Call:
    """A method of a fitted model, with what its partitions share; of an empty partition nothing is asked."""

    def __init__(self, method: Callable[..., Any], names: list[str], shared: dict[str, Any], empty: Any):
        self.method, self.names, self.shared, self.empty = method, names, shared, empty

    def __call__(self, model: Any, parts: tuple[Any, ...]) -> Any:
        parts = tuple(list(part) if _is_iterator(part) else part for part in parts)
        if not (parts[0].shape[0] if hasattr(parts[0], "shape") else len(parts[0])):
            return self.empty
        return self.method(model, **dict(zip(self.names, parts, strict=True)), **self.shared)


def _is_iterator(part: Any) -> bool:
    return hasattr(part, "__next__") or isinstance(part, tuple)


def _tasks(
    method: Callable[..., Any], work: Callable[..., Any], model: Any, given: dict[str, Any], empty: Any
) -> list[Any]:
    """A task for each partition."""
    given = {name: value for name, value in given.items() if value is not None}
    names = [n for n, v in given.items() if is_collection(v) or (n in _PER_ROW and isinstance(v, np.ndarray | list))]
    names = ["X", *(name for name in names if name != "X")]
    shared = {name: value for name, value in given.items() if name not in names}
    call, token = delayed(_Call(work, names, shared, empty), pure=False), uuid.uuid4().hex
    there = delayed(model, name=f"taskloss-model-{token}", traverse=False)
    parts = aligned({name: given[name] for name in names})
    name = f"taskloss-{method.__name__.strip('_').replace('_', '')}-{token}"
    return [call(there, part, dask_key_name=(name, i)) for i, part in enumerate(parts)]


def mapped(method: Callable[..., Any], model: Any, given: dict[str, Any], rows: bool) -> Any:
    """A method of X on every partition: an array or a bag with an answer for each row or item; else an array of numbers."""
    X = given["X"]
    items = hasattr(X, "to_textfiles")
    probe = np.zeros(0) if not rows else [] if items else method(model, **_few(given))
    if isinstance(probe, list):
        return _bag(_tasks(method, method, model, given, []))
    tasks = _tasks(method, method, model, given, probe[:0])
    known = getattr(X, "chunks", None) if rows else None
    return _array(tasks, [np.nan] * len(tasks) if known is None else list(known[0]), probe)


def scored(method: Callable[..., Any], model: Any, given: dict[str, Any], weigh: Callable[..., float]) -> Any:
    """A mean over all examples, as an array without dimensions; weigh(model, arguments) is what a partition's examples weigh together."""
    import dask.array as da

    def work(model: Any, **parts: Any) -> np.ndarray:
        weight = weigh(model, parts)
        return np.array([weight * method(model, **parts) if weight > 0 else 0.0, weight])

    sums = tree(_tasks(method, work, model, given, np.zeros(2)))[0]
    mean = delayed(lambda found: found[0] / found[1], pure=False)(
        sums, dask_key_name=f"taskloss-score-{uuid.uuid4().hex}"
    )
    return da.from_delayed(mean, shape=(), dtype=float)


def bound(
    method: Callable[..., Any], model: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name."""
    given = dict(inspect.signature(method).bind(model, *arguments, **options).arguments)
    given.pop("self")
    return given


def _few(given: dict[str, Any]) -> dict[str, Any]:
    """Two rows in the place of a collection's, of which the kind of an answer is seen."""
    return {
        name: _two(value) if is_collection(value) else value
        for name, value in given.items()
        if name not in _PER_ROW or name == "costs"
    }


def _two(value: Any) -> Any:
    if hasattr(value, "_meta_nonempty"):
        return value._meta_nonempty
    return np.ones((2, *(1 if np.isnan(n) else int(n) for n in value.shape[1:])), dtype=value.dtype)


def _array(tasks: list[Any], rows: list[Any], probe: np.ndarray) -> Any:
    import dask.array as da

    blocks = [
        da.from_delayed(task, shape=(n, *probe.shape[1:]), dtype=probe.dtype)
        for task, n in zip(tasks, rows, strict=True)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _bag(tasks: list[Any]) -> Any:
    import dask.bag as db

    return db.from_delayed(tasks)
