"""Features by name: a mapping or a list of names for each position, as rows of a sparse matrix."""

from __future__ import annotations

import itertools
import numbers
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._checks import check_columns, is_list
from ..polytopes._forest import offsets_of


class _Entries(NamedTuple):
    """The entries of all positions in turn: the code and value of each, the name of each code, and how many a position has.

    Several codes may have one name: those of a number's values.
    """

    codes: np.ndarray
    values: np.ndarray
    names: list[Any]
    lengths: np.ndarray


def named_rows(
    positions: Iterable[Any], vocabulary: dict[Any, int] | None, min_frequency: int = 1, allow_nan: bool = False
) -> tuple[Any, dict[Any, int]]:
    """Rows in CSR, and the vocabulary: the one that is given, or the names that occur so often, in their order.

    A position is a mapping from feature to value (numbers as they are, strings and lists of strings as indicators
    "a=b", the features "a:b" for a mapping of its own under "a"), or a list of feature names; bytes are strings.
    """
    positions = list(positions)
    found = _entries(positions)
    bad = np.isinf(found.values) if allow_nan else ~np.isfinite(found.values)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"The feature {found.names[found.codes[at]]!r} in X is {found.values[at]}: give it a finite number, or leave it out."
        )
    if vocabulary is None:
        vocabulary = vocabulary_of(_counts(found), min_frequency)
    columns = np.fromiter(map(vocabulary.get, found.names, itertools.repeat(-1)), np.int64, len(found.names))
    places, ends, values = columns[found.codes], offsets_of(found.lengths), found.values
    known = places >= 0
    if not known.all():
        places, values, ends = places[known], values[known], offsets_of(known)[ends]
    shape = len(positions), len(vocabulary)
    small = np.int32 if max(len(places), shape[1]) < 1 << 31 else np.int64  # as SciPy would make them
    rows = sparse.csr_matrix((values, places.astype(small), ends.astype(small)), shape=shape)
    rows.sort_indices()
    if not rows.has_canonical_format:
        rows.sum_duplicates()
    return rows, vocabulary


def name_counts(positions: Iterable[Any]) -> dict[Any, int]:
    """How often each named feature occurs."""
    return _counts(_entries(list(positions)))


def vocabulary_of(counts: Mapping[Any, int], min_frequency: int) -> dict[Any, int]:
    """The names that occur so often, in their order."""
    frequent = [name for name, often in counts.items() if often >= min_frequency]
    if counts and not frequent:
        raise ValueError(f"No feature in X occurs min_frequency={min_frequency} times: lower it.")
    try:
        return {name: i for i, name in enumerate(sorted(frequent))}
    except TypeError as error:
        raise ValueError(
            f"The names of features in X are of types that cannot be sorted together ({error}): make them all strings."
        ) from error


def _entries(positions: list[Any]) -> _Entries:
    return _by_unique_entry(positions) or _by_position(positions)


def _counts(found: _Entries) -> dict[Any, int]:
    count: dict[Any, int] = {}
    for name, often in zip(found.names, np.bincount(found.codes, minlength=len(found.names)).tolist(), strict=True):
        count[name] = count.get(name, 0) + often
    return count


def _by_unique_entry(positions: list[Any]) -> _Entries | None:
    """Each entry that occurs is read once, however often it does; None where positions have to be read one by one."""
    kinds = set(map(type, positions))
    if kinds != {dict} and not kinds <= {list, tuple}:
        return None
    mappings = kinds == {dict}
    code: defaultdict[Any, int] = defaultdict()
    code.default_factory = code.__len__  # numbers entries as they come
    lengths = np.fromiter(map(len, positions), np.int64, len(positions))
    entries = itertools.chain.from_iterable(map(dict.items, positions) if mappings else positions)
    try:
        which = np.fromiter(map(code.__getitem__, entries), np.int64, int(lengths.sum()))
    except TypeError:  # a list or a mapping among the values
        return None
    names, values = [], []
    for entry in code:
        key, value = entry if mappings else (entry, 1.0)
        kind, number = type(value), 1.0
        if type(key) is str and kind is str:
            name = f"{key}={value}"
        elif type(key) is str and (kind is float or kind is int):
            name, number = key, _number(value)
        else:
            told = _named(dict([entry]) if mappings else [entry])
            if len(told) != 1 or not isinstance(key, str):  # 1 and True are equal, their words are not
                return None
            name, number = told[0]
        names.append(name)
        values.append(number)
    return _Entries(which, np.array(values, dtype=float)[which], names, lengths)


def _by_position(positions: list[Any]) -> _Entries:
    told = [_named(position) for position in positions]
    names = [name for position in told for name, _ in position]
    values = np.fromiter((value for position in told for _, value in position), float, len(names))
    return _Entries(np.arange(len(names)), values, names, np.fromiter(map(len, told), np.int64, len(told)))


def _named(position: Any) -> list[tuple[Any, float]]:
    """The features of a position, by name, and their values."""
    if not isinstance(position, Mapping):
        if not is_names(position):
            raise ValueError(
                f"Every position in X must be a mapping of features or a list of feature names, got {position!r}."
            )
        return [(_text(name), 1.0) for name in position]
    found: list[tuple[Any, float]] = []
    for key, value in position.items():
        name = _text(key)
        if isinstance(value, str | bytes):
            found.append((f"{name}={_text(value)}", 1.0))
        elif isinstance(value, Mapping):
            found += [(f"{name}:{inner}", number) for inner, number in _named(value)]
        elif isinstance(value, numbers.Real | np.bool_):
            found.append((name, _number(value)))
        elif isinstance(value, list | tuple | set):
            found += [(f"{name}={_text(one)}", 1.0) for one in value]
        else:
            raise ValueError(
                f"The feature {name!r} in X must be a number, a string, a list of strings or a mapping, got {value!r}."
            )
    return found


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats, which is refused as what it would be
        return float("inf")


def is_names(position: Any) -> bool:
    return isinstance(position, list | tuple | set) and not any(isinstance(v, numbers.Number) for v in position)


def _text(name: Hashable) -> Any:
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def column_places(name: str, columns: Any, names: Any, count: int) -> tuple[int, ...]:
    """The places of columns that are given by name or place."""
    if isinstance(columns, str) or not is_list(columns):
        raise ValueError(f"{name} must be a list of columns, got {columns!r}.")
    known = [] if names is None else list(names)
    for column in columns:
        if isinstance(column, str) and column not in known:
            listed = f"those of X are {known}" if known else "X has none: pass a data frame, or places"
            raise ValueError(f"{name} has the name {column!r}, but {listed}.")
    places = [known.index(column) if isinstance(column, str) else column for column in columns]
    check_columns(name, places, count)
    return tuple(int(place) for place in places)
