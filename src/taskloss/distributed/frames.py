"""Data frames with a sequence's id in each row, as bags of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.base import compute
from dask.delayed import delayed

from ..data.showing import together


def sequences(frame: Any, by: str, label: str | None = None) -> Any:
    """The rows of a Dask data frame that have one id as one sequence, a bag of data frames; with a label, and a bag of its values.

    Parameters
    ----------
    frame : a Dask data frame with a row for each position. The rows of a sequence lie in one partition, in order.
    by : the column with the id of each row's sequence; sequences come in the order of their first rows.
    label : the column with the label of each position, if there is one.

    Returns
    -------
    X, or (X, y) with a label : bags with as many partitions, which the taggers take.

    Notes
    -----
    One pass over the ids looks whether a sequence lies in two partitions.

    Examples
    --------
    >>> import dask.dataframe as dd, pandas as pd
    >>> rows = pd.DataFrame({"id": [1, 1, 2], "x": [0.0, 1.0, 2.0], "tag": ["a", "b", "a"]})
    >>> X, y = sequences(dd.from_pandas(rows, npartitions=1), "id", "tag")
    >>> y.compute()
    [['a', 'b'], ['a']]
    """
    import dask.bag as db

    for name in (by, label):
        if name is not None and name not in frame.columns:
            raise ValueError(f"The data frame has no column {name!r}: it has {list(frame.columns)}.")
    seen = compute([delayed(_ids)(part) for part in frame[by].to_delayed(optimize_graph=False)])[0]
    owner = np.repeat(np.arange(len(seen)), [len(ids) for ids in seen])
    ids, first = np.unique(together(seen), return_index=True)
    if len(ids) < len(owner):
        every = together(seen)
        i = next(i for i in range(len(every)) if i not in set(first.tolist()))
        before = int(np.flatnonzero(every[:i] == every[i])[0])
        raise ValueError(
            f"The sequence {every[i].item() if hasattr(every[i], 'item') else every[i]!r} has rows in partition {owner[before]} and in partition "
            f"{owner[i]}: a sequence lies in one partition; set_index on the ids, or repartition by them."
        )
    parts = [delayed(_cut, nout=2)(part, by, label) for part in frame.to_delayed(optimize_graph=False)]
    X = db.from_delayed([part[0] for part in parts])
    return X if label is None else (X, db.from_delayed([part[1] for part in parts]))


def _ids(column: Any) -> np.ndarray:
    return np.asarray(column.unique())


def _cut(part: Any, by: str, label: str | None) -> tuple[list[Any], list[Any]]:
    found = [rows for _, rows in part.groupby(by, sort=False)]
    features = [name for name in part.columns if name not in (by, label)]
    labels = [] if label is None else [rows[label].tolist() for rows in found]
    return [rows[features] for rows in found], labels
