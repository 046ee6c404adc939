"""Batches of examples from arrays and files that need not fit in memory, for `fit_stream`."""

from .data.streams import from_arrays, from_csv, from_parquet

__all__ = ["from_arrays", "from_csv", "from_parquet"]
