"""Users' own labels and the codes that losses count in."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._checks import said_of
from ..losses.base import Loss, name_array
from .base import Translator

_ROWS = 1 << 12  # of label sets that are looked at together
_ESTIMATORS = {"sequence": "SequenceTagger", "ranking": "Ranker", "matching": "Matcher"}  # by the kind of their losses


class Classes:
    """One label per row, of any type. Codes follow the order given, the loss's own label names, an ordered category's
    order, or sorting.
    """

    def __init__(self, y: Any, loss: Loss, order: Any = None, ordinal: bool = False, name: str = "y"):
        values = _column(y, name)
        names = order if order is not None else loss.label_names()
        if names is None:
            names = ordered_categories(y)
        if names is None:
            if values.dtype.kind not in "biuUS" and not (len(values) and isinstance(values[0], tuple)):
                with said_of(name, "hold labels of one type"):
                    check_classification_targets(values)
            names = _unique(values)
            names = _in_order(names) if ordinal else names
        given = listed_by(loss, order, name)
        self.classes = name_array(names, given)
        if len(set(self.classes.tolist())) != len(self.classes):
            raise ValueError(f"The labels given by {given} name one of them twice.")

    @property
    def size(self) -> int:
        return len(self.classes)

    def check(self, name: str = "y") -> None:
        if self.size == 0:
            raise ValueError(f"{name} is empty: 0 samples are too few, at least one of each of two classes is needed.")
        if self.size < 2:
            raise ValueError(
                f"{name} has one class only ({self.classes.tolist()[0]!r}): there is nothing to tell apart; at least two classes are needed."
            )

    def encode(self, y: Any) -> np.ndarray:
        return codes_of(_column(y), self.classes, "label")

    def losses(self, loss: Loss, z: np.ndarray, y: Any, costs: Any = None) -> np.ndarray:
        codes = codes_of(_column(y), self.classes, None)
        return _with_worst(loss, z, codes, codes >= 0, costs)

    def outputs(self, loss: Loss) -> np.ndarray:
        return loss.output_names(self.classes)

    def translate(self, z: np.ndarray, loss: Loss) -> np.ndarray:
        return self.outputs(loss)[z]

    def encode_outputs(self, z: Any, loss: Loss) -> np.ndarray:
        return codes_of(_column(z, "outputs"), self.outputs(loss), "output")


class LabelSets:
    """A set of labels per row: an indicator matrix (array, data frame or sparse), or a sequence of sets, lists or tuples of labels."""

    def __init__(self, y: Any, loss: Loss, order: Any = None):
        self.as_sets = _is_sets(y)
        if self.as_sets:
            names = order if order is not None else _unique(name_array([label for row in y for label in row]))
            self.classes = name_array(names, "classes")
        else:
            self.named = hasattr(y, "columns")
            self.classes = np.asarray(y.columns) if self.named else np.arange(y.shape[1])
            # Any two values will do, such as -1 and 1: the larger means that the label is there.
            found = _unique_in_blocks(y.data if sparse.issparse(y) else np.asarray(y))
            found = np.array([-1, 1]) if found.tolist() == [-1] else found
            self.values = found if len(found) == 2 and not sparse.issparse(y) else np.array([0, 1])

    @property
    def size(self) -> int:
        return len(self.classes)

    def check(self, name: str = "y") -> None:
        if self.size < 1:
            raise ValueError(f"{name} names no label at all.")

    def encode(self, y: Any, name: str = "y") -> np.ndarray:
        return self._encode_sets(y, "label", name)[0] if self.as_sets else self._encode_indicators(y, name)

    def losses(self, loss: Loss, z: np.ndarray, y: Any, costs: Any = None) -> np.ndarray:
        if not self.as_sets:
            return loss.realised(z, self._encode_indicators(y), costs)
        return _with_worst(loss, z, *self._encode_sets(y, None), costs)

    def _encode_sets(self, y: Any, what: str | None, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
        """Indicators, and whether every label of a row is known."""
        rows = np.array([i for i, row in enumerate(y) for _ in row], dtype=np.int64)
        columns = codes_of(name_array([label for row in y for label in row]), self.classes, what, name)
        out, known = np.zeros((len(y), self.size), dtype=np.int8), np.ones(len(y), dtype=bool)
        out[rows[columns >= 0], columns[columns >= 0]] = 1
        known[rows[columns < 0]] = False
        return out, known

    def _encode_indicators(self, y: Any, name: str = "y") -> np.ndarray:
        if self.named and hasattr(y, "columns"):
            codes_of(name_array(list(y.columns)), self.classes, f"column of {name}")
            y = y[self.classes.tolist()] if len(y.columns) == self.size else y
        y = y.toarray() if sparse.issparse(y) else _indicators(y, name)
        if y.ndim != 2 or y.shape[1] != self.size:
            raise ValueError(
                f"{name} must have one column of 0 and 1 for each of the {self.size} labels, got shape {y.shape}."
            )
        out = np.empty(y.shape, dtype=np.int8)
        for start in range(0, len(y), _ROWS):
            block = slice(start, start + _ROWS)
            out[block] = there = y[block] == self.values[1]
            if not (there | (y[block] == self.values[0])).all():
                raise ValueError(f"{name} must hold 0 and 1 only (or two values of your own), one column per label.")
        return out

    def outputs(self, loss: Loss) -> np.ndarray:
        return self.classes

    def translate(self, z: np.ndarray, loss: Loss) -> Any:
        if not self.as_sets:
            return self.values[z]
        return [set(self.classes[row.astype(bool)].tolist()) for row in z]

    def encode_outputs(self, z: Any, loss: Loss) -> np.ndarray:
        return self.encode(z)


def listed_by(loss: Loss, order: Any, name: str = "y") -> str:
    """The argument that says which labels there are."""
    if order is not None:
        return "order"
    return name if loss.label_names() is None else "loss"


def labels_for(loss: Loss, y: Any, order: Any = None, ordinal: bool = False, name: str = "y") -> Translator:
    """The translator between y and a loss's codes; with `ordinal`, strings need an order that means something. `name` is the
    argument in which users gave y."""
    if y is None:
        raise ValueError(f"This estimator requires {name} to be passed, but the target {name} is None.")
    if loss.kind == "indicator":
        if not (_is_sets(y) or sparse.issparse(y) or hasattr(y, "columns")):
            y = _indicators(y)
        if not _is_sets(y) and np.ndim(y) != 2:
            raise ValueError(
                f"{type(loss).__name__} needs y with one column of 0 and 1 per label, or one set of labels per row; got shape {np.shape(y)}."
            )
        return LabelSets(y, loss, order)
    check_kind(loss)
    return Classes(y, loss, order, ordinal, name)


def _indicators(y: Any, name: str = "y") -> np.ndarray:
    """Rows as an array of one type; what makes none is refused."""
    try:
        y = np.asarray(y)
        y = np.array(y.tolist()) if y.dtype == object and y.ndim == 2 else y
    except ValueError as error:
        raise ValueError(
            f"{name} must have one column of 0 and 1 per label, or one set of labels per row: {error}."
        ) from error
    if y.dtype == object and y.ndim == 2 and any(map(absent, y.ravel().tolist())):
        raise ValueError(f"Input {name} contains NaN or None: every label of every example must be there or not.")
    return y


def check_kind(loss: Loss) -> None:
    """Refuse losses on structures, which have estimators of their own."""
    if loss.kind not in ("classes", "indicator"):
        other = _ESTIMATORS.get(loss.kind, "an estimator for those")
        raise ValueError(f"{loss!r} is a loss on a {loss.kind}: use {other}.")


def _column(y: Any, name: str = "y") -> np.ndarray:
    if isinstance(y, list) and y and isinstance(y[0], tuple):
        return name_array(y)
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biufUSO":  # as it is, and read twice in a fit
        values = y
    else:
        with said_of(name, "be a list of labels"):
            values = column_or_1d(y, warn=True)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"Input {name} contains NaN or infinity: every example needs a label.")
    if values.dtype.kind == "O" and any(map(absent, values.tolist())):
        raise ValueError(f"Input {name} contains NaN or None: every example needs a label.")
    return values


def absent(value: Any) -> bool:
    """Whether a value stands for a missing label: None, NaN, or NA of pandas."""
    same = value == value  # NaN differs from itself, and NA gives no answer
    return value is None or not (isinstance(same, bool | np.bool_) and same)


def _is_sets(y: Any) -> bool:
    """Whether y is a sequence of label collections, rather than numbers in columns."""
    if hasattr(y, "shape") and (len(y.shape) == 0 or getattr(y, "dtype", None) != np.dtype(object)):
        return False
    first = next(iter(y), None) if isinstance(y, Iterable) else None
    if isinstance(first, set | frozenset):
        return True
    if not isinstance(first, list | tuple):
        return False
    widths = {len(row) for row in y}
    # Rows of one entry each are sets: as indicators they would be of a single label.
    return widths == {1} or len(widths) > 1 or not all(np.isscalar(v) and v in (0, 1) for row in y for v in row)


def _unique(values: np.ndarray, name: str = "y") -> np.ndarray:
    try:
        return np.unique(values)
    except TypeError as error:
        raise ValueError(
            f"The labels in {name} are of types that cannot be sorted together ({error}): make them all strings or all numbers."
        ) from error


def _unique_in_blocks(values: np.ndarray, rows: int = _ROWS) -> np.ndarray:
    """np.unique without its copy of the whole, and for 0 and 1 without its work."""
    if values.size and values.dtype.kind in "biu" and (values.min(), values.max()) == (0, 1):
        return np.array([0, 1], dtype=values.dtype)
    blocks = [np.unique(values[i : i + rows]) for i in range(0, len(values), rows)]
    return np.unique(np.concatenate(blocks)) if blocks else np.unique(values)


def ordered_categories(y: Any) -> np.ndarray | None:
    """The categories of an ordered pandas or polars column, in their order."""
    dtype: Any = getattr(y, "dtype", None)
    if getattr(dtype, "ordered", False) and hasattr(dtype, "categories"):
        return np.asarray(dtype.categories)
    if type(dtype).__name__ == "Enum" and hasattr(dtype, "categories"):
        return np.asarray(dtype.categories.to_list())
    return None


def _in_order(names: np.ndarray) -> np.ndarray:
    """Labels of an ordinal task in their order: numbers in strings as numbers; other strings by the alphabet, with a warning."""
    if names.dtype.kind not in "US" and not any(isinstance(name, str) for name in names.tolist()):
        return names
    try:
        return names[np.argsort([float(name) for name in names.tolist()], kind="stable")]
    except ValueError:
        warnings.warn(
            f"The labels were put in the order of the alphabet, {' < '.join(map(str, names.tolist()))}: if that is not their "
            "order, pass order=[...] or an ordered category.",
            UserWarning,
            stacklevel=6,
        )
        return names


def _with_worst(loss: Loss, z: np.ndarray, y: np.ndarray, known: np.ndarray, costs: Any = None) -> np.ndarray:
    """L(z, y) where the label is known; elsewhere the largest loss that z can have."""
    if known.all():
        return loss.realised(z, y, costs)
    out, costs = np.empty(len(z)), None if costs is None else np.asarray(costs)
    out[known] = loss.realised(z[known], y[known], None if costs is None else costs[known])
    out[~known] = loss.worst(z[~known], None if costs is None else costs[~known])
    return out


def family(values: np.ndarray) -> str:
    """The types whose values can be compared: numbers, words, moments, spans of time."""
    return next((family for family in ("biufc", "US") if values.dtype.kind in family), values.dtype.kind)


def codes_of(values: np.ndarray, known: np.ndarray, what: str | None, name: str = "y") -> np.ndarray:
    """The position of each value among the known ones; an unknown one is refused as `what`, or without that is -1. `name` is the
    argument that holds the values."""
    if values.dtype.kind == "O" or known.dtype.kind == "O":
        try:
            index = {label: code for code, label in enumerate(known.tolist())}
        except TypeError as error:
            raise ValueError(
                f"A label in classes or y must be a string, a number or a tuple of these: {error}."
            ) from error
        try:
            codes = np.fromiter((index.get(v, -1) for v in values.tolist()), dtype=np.int64, count=len(values))
        except TypeError as error:
            raise ValueError(
                f"A label of {name}, or an output, must be a string, a number or a tuple of these: {error}."
            ) from error
    elif not len(known) or family(values) != family(known):
        codes = np.full(len(values), -1)
    else:
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, values, sorter=order), len(known) - 1)
        codes = np.where(known[order[place]] == values, order[place], -1)
    if what is not None and codes.size and codes.min() < 0:
        names = (", ".join(map(repr, known.tolist()[:6])) or "none") + (", ..." if len(known) > 6 else "")
        where = "" if name == "y" else f" in {name}"
        raise ValueError(f"Unknown {what} {values[codes < 0].tolist()[0]!r}{where}: the known ones are {names}.")
    return codes
