"""Users' Dask collections as partitions that belong together: rows, labels, weights and groups of the same examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import is_collection

_WHAT = {"sample_weight": "weights", "groups": "groups", "y": "labels"}


def aligned(collections: dict[str, Any]) -> list[tuple[Any, ...]]:
    """For each partition the part of every argument, as Delayed; None and numbers are every partition's.

    The first argument says how examples are parted. Arrays whose rows are known are cut as it is; where rows are unknown,
    parts belong together by their place.
    """
    (first, leader), *others = collections.items()
    _check_clients(collections)
    if not is_collection(leader):
        given = next(name for name, value in others if is_collection(value))
        raise TypeError(
            f"{given} is a Dask collection and {first} is none: give both in partitions, such as dask.array.from_array({first}, chunks=...)."
        )
    rows = _rows(leader)
    parts = [_delayed(first, leader)]
    for name, value in others:
        if value is None or (np.ndim(value) == 0 and not is_collection(value)):
            parts.append([value] * len(parts[0]))
            continue
        parts.append(_delayed(name, _cut_as(value, name, first, rows)))
        if len(parts[-1]) != len(parts[0]):
            raise ValueError(
                f"{first} has {len(parts[0])} partitions and {name} has {len(parts[-1])}, and it is unknown which rows they hold: part {name} as {first} "
                "is, or call compute_chunk_sizes() on both."
            )
    return list(zip(*parts, strict=True))


def _rows(value: Any) -> tuple[float, ...] | None:
    """How many rows each partition has; None where nobody knows."""
    chunks = getattr(value, "chunks", None)
    return None if chunks is None or any(np.isnan(n) for n in chunks[0]) else tuple(chunks[0])


def _cut_as(value: Any, name: str, first: str, rows: tuple[float, ...] | None) -> Any:
    """A collection cut as the first argument is, where both are arrays whose rows are known."""
    if not is_collection(value):
        if rows is None:
            raise ValueError(
                f"The chunk sizes of {first} are unknown, so that {name}, which is no Dask collection, cannot be cut as it is: call "
                f"{first}.compute_chunk_sizes(), or give {name} in the same partitions."
            )
        import dask.array

        value = np.asarray(value)
        if len(value) != sum(rows):
            raise ValueError(f"{first} and {name} have different lengths: {int(sum(rows))} and {len(value)}.")
        return dask.array.from_array(value, chunks=(rows, *([-1] * (value.ndim - 1))))
    own = _rows(value)
    if rows is None or own is None or own == rows:
        return value
    if sum(own) != sum(rows):
        raise ValueError(f"{first} and {name} have different lengths: {int(sum(rows))} and {int(sum(own))}.")
    return value.rechunk({0: rows})


def _delayed(name: str, value: Any) -> list[Any]:
    """The partitions of one collection; a row is never cut."""
    if hasattr(value, "numblocks") and value.ndim > 1 and max(value.numblocks[1:]) > 1:
        if _rows(value) is None:
            raise ValueError(
                f"{name} is cut between its columns, and its chunk sizes are unknown: call {name}.compute_chunk_sizes(), then {name}.rechunk({{1: -1}})."
            )
        value = value.rechunk(dict.fromkeys(range(1, value.ndim), -1))
    if not hasattr(value, "to_delayed"):
        raise TypeError(f"{name} must be a Dask array, data frame, series or bag, got {type(value).__name__}.")
    return list(np.ravel(value.to_delayed(optimize_graph=False)))  # columns of one file are then read once


def _check_clients(collections: dict[str, Any]) -> None:
    """Refuse data that only a closed client has."""
    try:
        from distributed.client import futures_of
    except ImportError:
        return
    for name, value in collections.items():
        if is_collection(value) and any(future.client.status != "running" for future in futures_of(value)):
            raise ValueError(
                f"{name} lies with a client that is closed: read it again from its source, or persist it with the client in use."
            )
