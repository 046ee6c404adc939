"""Users' own sequences, and the packed rows and codes that the rest counts in."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import is_list
from ..losses.base import name_array
from ..polytopes._forest import check_offsets, offsets_of
from .features import is_names, named_rows
from .labels import _unique, absent, codes_of
from .trees import read_forest
from .weights import example_weights


@dataclass(frozen=True, eq=False)
class Packed:
    """Sequences laid end to end: the rows of all positions, and offsets; sequence i is rows[offsets[i]:offsets[i + 1]].

    It counts and indexes as a list of sequences does, so that it can be cross-validated: packed[i] are the rows of one
    sequence, and packed[a:b] or packed[[2, 0]] some sequences, packed. A single tree stays packed, and keeps its parents.

    Parameters
    ----------
    rows : array or sparse matrix (positions, features).
    offsets : integers that rise from 0 to the number of rows.
    parents : for trees, the parent of each row, counted from the first row of its own tree, and -1 at a root.

    Examples
    --------
    >>> words = Packed(np.zeros((5, 2)), [0, 2, 5])
    >>> len(words), words[1].shape, words[[1]].offsets.tolist()
    (2, (3, 2), [0, 3])
    """

    rows: Any
    offsets: Any
    parents: Any = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        which = np.arange(len(self))[key]
        if which.ndim == 0 and self.parents is not None:
            return self[[int(which)]]
        if which.ndim == 0:
            return self.rows[self.offsets[which] : self.offsets[which + 1]]
        offsets = np.asarray(self.offsets)
        lengths = np.diff(offsets)[which]
        ends = offsets_of(lengths)
        rows = np.arange(ends[-1]) + np.repeat(offsets[which] - ends[:-1], lengths)
        return Packed(self.rows[rows], ends, None if self.parents is None else np.asarray(self.parents)[rows])


class SequenceReader:
    """Turns sequences into packed rows of numbers, the same way at predict as at fit.

    A sequence is an array, a sparse matrix or a data frame with one row per position, or a list with one item per
    position: a mapping from feature to value (numbers as they are, strings and lists of strings as indicators, the
    features "a:b" for a mapping of its own under "a"), or a list of feature names. Packed(rows, offsets) is taken as it
    is. Names that occur less than `min_frequency` times in a fit are left out.
    """

    def __init__(self, allow_nan: bool = False, min_frequency: int = 1) -> None:
        self.allow_nan, self.min_frequency = allow_nan, min_frequency
        self.vocabulary: dict[str, int] | None = None  # the columns of named features
        self.columns: list[Any] | None = None  # the columns of data frames
        self.n_features: int | None = None

    def fit_read(self, X: Any) -> tuple[Any, np.ndarray]:
        """Read the sequences of a fit, and learn the features' number or names."""
        rows, offsets = self.read(X)
        self.n_features = rows.shape[1]
        return rows, offsets

    def read(self, X: Any) -> tuple[Any, np.ndarray]:
        """Rows of all positions, dense or CSR, and offsets."""
        if isinstance(X, Packed):
            rows, offsets = X.rows, check_offsets(X.offsets, np.shape(X.rows)[0])
        else:
            if not is_list(X) or isinstance(X, str | Mapping) or sparse.issparse(X) or hasattr(X, "columns"):
                raise ValueError(
                    f"X must be a list of sequences, or Packed(rows, offsets); got {type(X).__name__}. A single sequence goes in a list of its own."
                )
            X = [x.rows if isinstance(x, Packed) else x for x in X]
            offsets = offsets_of([_length(x, i) for i, x in enumerate(X)])
            rows = self._stack(X)
        if len(offsets) < 2:
            raise ValueError("X has no sequences.")
        return self._check(rows), offsets

    def _stack(self, X: Any) -> Any:
        if not len(X):
            return np.empty((0, 0))
        if any(hasattr(x, "columns") for x in X):
            X = self._unframe(X)
        first = next(iter(X))
        if sparse.issparse(first):
            kinds = [i for i, x in enumerate(X) if not sparse.issparse(x)]
            if kinds:
                raise ValueError(
                    f"Sequence 0 is a sparse matrix, but sequence {kinds[0]} is not: give all in one form."
                )
            _check_widths([x.shape[1] for x in X])
            return sparse.vstack(X, format="csr")
        if isinstance(first[0], Mapping) or (isinstance(first, list) and is_names(first[0])):
            return self._vectorise(X)
        arrays = [_array(x, i) for i, x in enumerate(X)]
        _check_widths([x.shape[1] for x in arrays])
        return np.concatenate(arrays)

    def _unframe(self, X: Any) -> list[Any]:
        """The values of data frames, which must all have the same columns in the same order."""
        for i, x in enumerate(X):
            found = list(getattr(x, "columns", []))
            if self.columns is None and self.n_features is None:
                self.columns = found
            if found != self.columns:
                raise ValueError(
                    f"Sequence {i} of X must be a data frame with the columns of the first one that was fitted, {self.columns}; got {found}."
                )
        return [x.to_numpy() for x in X]

    def _vectorise(self, X: Any) -> Any:
        if self.vocabulary is None and self.n_features is not None:
            raise ValueError("X holds feature mappings, but the tagger was fitted on rows of numbers.")
        positions = itertools.chain.from_iterable(X)
        rows, self.vocabulary = named_rows(positions, self.vocabulary, self.min_frequency, self.allow_nan)
        return rows

    def _check(self, rows: Any) -> Any:
        if sparse.issparse(rows):
            if type(rows) is not sparse.csr_matrix or rows.dtype != np.float64:
                rows = sparse.csr_matrix(rows, dtype=np.float64)
            values = rows.data
        else:
            rows = values = np.ascontiguousarray(rows, dtype=np.float64)
            if rows.ndim != 2:
                raise ValueError(f"The rows of packed sequences must have two dimensions, got shape {rows.shape}.")
        if np.isinf(values).any() if self.allow_nan else not np.isfinite(values).all():
            raise ValueError("X contains NaN or infinite values: replace them by numbers.")
        if self.n_features is not None and rows.shape[1] != self.n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features per position, but the tagger was fitted with {self.n_features}."
            )
        return rows


class SequenceLabels:
    """One label per position, of any type; None, NaN or the label to be ignored where it was not observed."""

    def __init__(self, y: Any, classes: Any = None, ignore: Any = None):
        self.ignore = ignore
        values, _ = _distinct(_flat(y))
        seen = values[~self._missing(values)]
        name = "y" if classes is None else "classes"
        self.classes = name_array(_unique(seen).tolist() if classes is None else classes, name)
        if len(self.classes) < 2:
            raise ValueError(
                f"{name} has {len(self.classes)} different labels: there is nothing to tell apart; at least two are needed."
            )

    @property
    def size(self) -> int:
        return len(self.classes)

    def _missing(self, values: np.ndarray) -> np.ndarray:
        return _missing(values) | self.ignored(values)

    def ignored(self, y: Any) -> np.ndarray:
        """Whether each label is the one to be ignored."""
        values = y if isinstance(y, np.ndarray) and y.dtype == object else _flat(y)
        if self.ignore is None:
            return np.zeros(len(values), dtype=bool)
        pairs = zip(values, _missing(values), strict=True)  # pandas' NA compares to no truth value
        return np.fromiter((not missing and value == self.ignore for value, missing in pairs), bool, len(values))

    def encode(self, y: Any, offsets: np.ndarray, partial: bool = False, unseen: bool = False) -> np.ndarray:
        """Codes of all positions, -1 where a label is missing, or one that no fit has seen, and may be."""
        values = _flat(y)
        if not _is_flat(y):
            lengths, wanted = [len(row) for row in y], np.diff(offsets)
            if len(lengths) != len(wanted):
                raise ValueError(f"X has {len(wanted)} sequences, but y has {len(lengths)}.")
            wrong = np.flatnonzero(np.asarray(lengths) != wanted)
            if len(wrong):
                i = wrong[0]
                raise ValueError(f"Sequence {i} has {wanted[i]} positions in X, but {lengths[i]} labels in y.")
        if len(values) != offsets[-1]:
            raise ValueError(f"X has {offsets[-1]} positions, but y has {len(values)} labels.")
        names, place = _distinct(values)
        missing = self._missing(names)
        if (missing & ~self.ignored(names)).any() and not partial:
            raise ValueError("y has missing labels (None or NaN), which only fit can use: give every label here.")
        codes = np.full(len(names), -1)
        codes[~missing] = codes_of(name_array(names[~missing].tolist()), self.classes, None if unseen else "label")
        return codes[place]


def labels_seen(y: Any) -> list[Any]:
    """The different labels that occur, in the order in which they come."""
    values, _ = _distinct(_flat(y))
    return values[~_missing(values)].tolist()


class SequenceScorer:
    """scorer(estimator, X, y) = minus the mean loss of estimator.predict(X) over examples, for any tagger; higher is better."""

    def __init__(self, loss: Any):
        self.loss = loss

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, parents: Any = None) -> float:
        y = as_labels(X, y)
        offsets = check_offsets(X.offsets, len(_flat(y))) if isinstance(X, Packed) else offsets_of([len(x) for x in y])
        forest, order = read_forest(offsets, parents_of(X) if parents is None else parents)
        labels = SequenceLabels(y, getattr(estimator, "classes_", None))
        loss = self.loss.bind(labels.size)
        z = name_array(_flat(estimator.predict(X, **({} if parents is None else {"parents": parents}))).tolist())
        codes = codes_of(z, loss.output_names(labels.classes), "output")
        losses = loss.packed_loss(forest, codes[order], labels.encode(y, offsets, unseen=True)[order])
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses), "sequences")))

    def __repr__(self) -> str:
        return f"{self.loss!r}.scorer()"


def parents_of(X: Any) -> Any:
    """The parents that packed trees bring along, one by one or together; None where there are none."""
    if isinstance(X, Packed):
        return X.parents
    found = [x.parents for x in X if isinstance(x, Packed)] if isinstance(X, list) else []
    return found if found and len(found) == len(X) else None


def as_labels(X: Any, y: Any) -> Any:
    """y as one array, where X is packed and y names its labels one by one; otherwise as it is."""
    if not isinstance(X, Packed) or isinstance(y, np.ndarray) or not is_list(y):
        return y
    values = list(y)
    return y if values and _is_row(values[0]) else _as_objects(values)


def _is_row(value: Any) -> bool:
    """Whether a value is a sequence of labels, and no label."""
    return is_list(value) and not isinstance(value, str)


def _is_flat(y: Any) -> bool:
    """Whether y is one array of labels, as goes with packed sequences."""
    return isinstance(y, np.ndarray) and y.ndim == 1 and not (y.dtype == object and len(y) and _is_row(y[0]))


def _as_objects(values: list[Any]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _flat(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("The tagger requires y: one sequence of labels for each sequence of X.")
    if _is_flat(y):
        return _as_objects(_labels_of(y))
    values: list[Any] = []
    for i, row in enumerate(y if is_list(y) else [y]):
        if not _is_row(row):
            raise ValueError(f"y must hold one sequence of labels for each sequence of X, but y[{i}] is {row!r}.")
        values.extend(_labels_of(row))
    odd = [kind.__name__ for kind in set(map(type, values)) if kind.__hash__ is None]
    if odd:
        raise ValueError(f"A label must be a string, a number or a tuple, but y holds a label of type {odd[0]}.")
    return _as_objects(values)


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different values in the order in which they come, and the place of each value among these."""
    listed = values.tolist()
    try:
        places = {value: i for i, value in enumerate(dict.fromkeys(listed))}
    except TypeError as error:
        raise ValueError(f"A label must be a string, a number or a tuple of these: {error}.") from error
    return _as_objects(list(places)), np.fromiter(map(places.__getitem__, listed), np.int64, len(listed))


def _labels_of(row: Any) -> list[Any]:
    if not isinstance(row, np.ndarray):
        return list(row)
    if row.dtype.kind == "U" and (row == "nan").any():
        raise ValueError(
            "y holds the text 'nan', which NumPy makes of NaN beside strings: mark missing labels in a list or in an array of dtype object."
        )
    return row.tolist()


def _missing(values: np.ndarray) -> np.ndarray:
    return np.fromiter(map(absent, values), dtype=bool, count=len(values))


def _length(x: Any, i: int) -> int:
    if isinstance(x, Mapping):
        raise ValueError(
            f"Sequence {i} of X must be a list of positions, but it is a mapping of features: a single sequence goes in a list of its own."
        )
    if isinstance(x, str) or not (hasattr(x, "shape") or hasattr(x, "__len__")):
        raise ValueError(f"Sequence {i} of X must be an array or a list with one item per position, got {x!r}.")
    length = x.shape[0] if hasattr(x, "shape") else len(x)
    if length == 0:
        raise ValueError(f"Sequence {i} of X is empty: drop it, there is nothing to label.")
    return length


def _array(x: Any, i: int) -> np.ndarray:
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Sequence {i} of X cannot be read as rows of numbers: {error}.") from error
    if array.ndim != 2:
        raise ValueError(f"Sequence {i} of X must have one row of features per position, got shape {array.shape}.")
    return array


def _check_widths(widths: list[int]) -> None:
    odd = [i for i, width in enumerate(widths) if width != widths[0]]
    if odd:
        raise ValueError(
            f"Sequence {odd[0]} of X has {widths[odd[0]]} features per position, but sequence 0 has {widths[0]}."
        )
