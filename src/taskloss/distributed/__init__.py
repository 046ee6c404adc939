"""Data beyond one machine: rounds of tasks over the partitions of Dask collections.

Dask itself is imported when an estimator is given a Dask collection.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_collection", "sequences"]


def is_collection(value: Any) -> bool:
    """Whether a value is a Dask array, data frame, series or bag; Dask is not imported to tell."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "__dask_graph__")


def __getattr__(name: str) -> Any:
    if name == "sequences":
        try:
            from .frames import sequences
        except ImportError:
            raise ImportError("Dask collections need Dask: pip install 'taskloss[dask]'.") from None
        return sequences
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
