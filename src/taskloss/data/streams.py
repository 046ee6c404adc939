"""Batches of examples from arrays and files that need not fit in memory, for `fit_stream`."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np

from .._checks import check_file, check_flag, check_place, check_whole, count_examples

__all__ = ["from_arrays", "from_csv", "from_parquet"]

# for each declared type, the types whose values it takes
_HELD: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), str: (int, float, str)}
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")  # written as `str` writes it: 007, +7 and 7 are three words
_INT64 = np.iinfo(np.int64)
EXACT = 1 << 53  # below it every whole number is a floating-point number

Batch = tuple[np.ndarray, np.ndarray]


def _loaded(name: str, array: Any) -> Any:
    """A file's array as it lies on disk, or what was given."""
    if not isinstance(array, str | os.PathLike):
        return array
    if not os.path.exists(array):
        raise FileNotFoundError(
            f"{name} must be an array or the path of a .npy file, and there is no file {str(array)!r}."
        )
    return np.load(array, mmap_mode="r")


def from_arrays(X: Any, y: Any, size: int = 1024) -> Iterator[tuple[Any, Any]]:
    """Consecutive rows of two arrays, frames or lists, or of two .npy files, which are read piece by piece."""
    _check_size(size)
    X, y = _loaded("X", X), _loaded("y", y)
    for name, rows in (("X", X), ("y", y)):
        if isinstance(rows, Mapping):
            raise TypeError(f"{name} must be an array, a frame or a list, got a mapping.")
    n, labels = count_examples("X", X), count_examples("y", y)
    if n != labels:
        raise ValueError(f"X and y have different lengths: {n} and {labels}.")
    for start in range(0, n, size):
        rows = (a[start : start + size] for a in (X, y))
        X_rows, y_rows = (np.array(a) if isinstance(a, np.memmap) else a for a in rows)
        yield X_rows, y_rows


def from_csv(
    file: Any,
    target: str | int = -1,
    size: int = 1024,
    delimiter: str = ",",
    header: bool = True,
    labels: type | None = None,
    encoding: str = "utf-8-sig",
) -> Iterator[Batch]:
    """Rows of a text file of numbers, one of whose columns is the label.

    Parameters
    ----------
    file : a path, or an open file, of text or of bytes.
    target : the label's column, by name or by place.
    size : rows in a batch.
    delimiter : between columns.
    header : whether the first line names the columns.
    labels : the type of the labels, int, float or str. None is the narrowest that holds those of the first batch without loss:
        int where every one is written as Python writes whole numbers, float where every one is a number that is not; so
        postal codes such as 00501 are words, and 9007199254740993 is not rounded. A later batch that does not fit is
        refused, never converted.
    encoding : of the text; the default is UTF-8 with or without a byte-order mark.

    Yields
    ------
    X, y : float64 features and the labels of up to `size` rows. Blank lines are skipped.

    Notes
    -----
    The reader is Python's `csv` in its strict mode. It is slower than pyarrow's or pandas' (a fifth of their speed on 50
    columns) and refuses what they let pass: a quote that is never closed, which swallows the rest of the file, and rows wider
    than the header. For large files there is `from_parquet`.

    Examples
    --------
    >>> import io, taskloss as tl
    >>> text = io.StringIO("age,postcode\\n31,00501\\n64,501\\n")
    >>> [y.tolist() for X, y in tl.streams.from_csv(text, "postcode")]
    [['00501', '501']]
    """
    _check_size(size)
    check_flag("header", header)
    if not (isinstance(delimiter, str) and len(delimiter) == 1):
        raise ValueError(f"delimiter must be one character, got {delimiter!r}.")
    if not any(labels is kind for kind in (None, int, float, str)):
        raise ValueError(f"labels must be int, float, str or None, got {labels!r}.")
    check_file(file)
    name = _name(file)
    with opened_text(file, encoding) as text:
        lines = csv.reader(text, delimiter=delimiter, strict=True)
        rows = text_rows(lines, name)
        first = next(rows, None) if header else None
        names = first[1] if first else []
        column = _column(target, names, name)
        width = len(names)
        while batch := list(islice(rows, size)):
            width = width or len(batch[0][1])
            where = f"{name}, lines {batch[0][0]} to {batch[-1][0]}"
            for line, row in batch:
                if len(row) != width:
                    raise ValueError(
                        f"{name}, line {line}: {len(row)} columns where the {'header' if header else 'first line'} has {width}; every row "
                        "must be as wide, and text that holds the delimiter in quotes."
                    )
            if not -width <= column < width:
                raise ValueError(f"{name} has no column {column}: it has {width} columns.")
            words = [row.pop(column) for _, row in batch]
            X = _numbers([row for _, row in batch], where)
            found = type_of_labels(words)
            if labels is None and "" in words:
                raise ValueError(f"{where}: a label is missing; pass labels=str if nothing is a label too.")
            labels = found if labels is None else labels
            if found not in _HELD[labels]:
                raise ValueError(
                    f"{where}: the labels are not all of type {labels.__name__}, as {_misfit(words, labels)!r} shows: "
                    f"pass labels={'float, or labels=str for words' if labels is int else 'str'}."
                )
            yield X, labels_of(words, labels, where)


def from_parquet(file: Any, target: str | int = -1, size: int = 1024) -> Iterator[Batch]:
    """Rows of a Parquet file, one of whose columns is the label; types are those that the file declares.

    Parameters
    ----------
    file : a path, or a file opened for bytes.
    target : the label's column, by name or by place; whole numbers, numbers, words, truth values or categories of these.
    size : rows in a batch, fewer at the end of each of the file's row groups.

    Yields
    ------
    X, y : float64 features and labels. A value that is missing, or a whole number that float64 would round, is refused.

    Notes
    -----
    Needs pyarrow: pip install 'taskloss[files]'.

    Examples
    --------
    >>> import io, pyarrow, pyarrow.parquet, taskloss as tl
    >>> file = io.BytesIO()
    >>> pyarrow.parquet.write_table(pyarrow.table({"age": [31, 64], "answer": ["yes", "no"]}), file)
    >>> [(X.tolist(), y.tolist()) for X, y in tl.streams.from_parquet(file, "answer")]
    [([[31.0], [64.0]], ['yes', 'no'])]
    """
    _check_size(size)
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files are read by pyarrow: pip install 'taskloss[files]'.") from None
    check_file(file)
    name = _name(file)
    with contextlib.ExitStack() as opened:
        source = opened.enter_context(open(file, "rb")) if isinstance(file, str | os.PathLike) else file
        if not isinstance(source.read(0), bytes):
            raise TypeError(f"file must be opened for bytes, got {file!r}.")
        table = pyarrow.parquet.ParquetFile(source)
        names = table.schema_arrow.names
        column = _column(target, names, name)
        if not -len(names) <= column < len(names):
            raise ValueError(f"{name} has no column {column}: it has {len(names)} columns.")
        column %= len(names)
        row = 0
        for batch in table.iter_batches(size):
            where = f"{name}, rows {row + 1} to {row + batch.num_rows}"
            row += batch.num_rows
            if batch.num_rows:
                X = [
                    _arrow(c, n, where, True) for i, (c, n) in enumerate(zip(batch, names, strict=True)) if i != column
                ]
                y = _arrow(batch.column(column), names[column], where, False)
                yield np.column_stack(X) if X else np.empty((len(y), 0)), y


def _name(file: Any) -> str:
    return str(file if isinstance(file, str | os.PathLike) else getattr(file, "name", "the file"))


@contextlib.contextmanager
def opened_text(file: Any, encoding: str) -> Iterator[Any]:
    """A file as text, with its line ends as they are; one that was given open stays open."""
    if isinstance(file, str | os.PathLike):
        with open(file, newline="", encoding=encoding) as text:
            yield text
    elif isinstance(file, io.TextIOBase) or not isinstance(file.read(0), bytes):
        yield _without_mark(file)
    else:
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        try:
            yield text
        finally:
            text.detach()


def _without_mark(lines: Any) -> Iterator[str]:
    """Lines of an open text file, which may have been opened without a word about its byte-order mark."""
    for i, line in enumerate(lines):
        yield line.removeprefix("\ufeff") if i == 0 else line


def text_rows(lines: Any, name: str) -> Iterator[tuple[int, list[str]]]:
    """(line, its columns) of a file, without its blank lines."""
    while True:
        start = lines.line_num + 1
        try:
            row = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            endless = "unexpected end of data" in str(error) or "field larger than" in str(error)
            what = "a quote that is never closed" if endless else str(error)
            raise ValueError(f"{name}, line {start}: {what}.") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not text in {error.encoding} ({error}): pass its encoding=....") from error
        if row:
            yield start, row


def _column(target: str | int, names: list[str], file: str) -> int:
    if not isinstance(target, str):
        check_place("target", target)
        return int(target)
    if target not in names:
        raise ValueError(
            f"target must be a column: {file} has no column named {target!r}; its columns are {', '.join(names) or 'not named'}."
        )
    if names.count(target) > 1:
        raise ValueError(
            f"{file} has {names.count(target)} columns named {target!r}: pass as target the place of the label's."
        )
    return names.index(target)


def _numbers(rows: list[list[str]], where: str) -> np.ndarray:
    try:
        X = np.array(rows, dtype=float)
    except ValueError as error:
        raise ValueError(f"{where}: every column but the label's must hold numbers ({error}).") from error
    return _without_infinity(X, where)


def _without_infinity(numbers: np.ndarray, where: str) -> np.ndarray:
    """NaN may pass: some learners take it, and the others say so."""
    if np.isinf(numbers).any():
        raise ValueError(f"{where}: numbers must not be infinite, got {numbers[np.isinf(numbers)][0]}.")
    return numbers


def type_of_labels(words: list[str]) -> type:
    """The narrowest of int, float and str that holds these labels, each distinct from the others."""
    if all(_WHOLE.fullmatch(word) for word in words):
        return int
    return float if all(is_number(word) for word in words) else str


def is_number(word: str) -> bool:
    """Whether a word is a number that is not a code: 1.5, 2 and 1e-3, and not 00501. Infinity and NaN are, to be refused."""
    if re.match(r"[-+]?0[0-9]", word.strip()):
        return False
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def _misfit(words: list[str], labels: type) -> str:
    return next(word for word in words if type_of_labels([word]) not in _HELD[labels])


def labels_of(words: list[str], labels: type, where: str) -> np.ndarray:
    if labels is str:
        return np.array(words)
    numbers = [labels(word) for word in words]
    for word, number in zip(words, numbers, strict=True):
        if labels is int and not _INT64.min <= number <= _INT64.max:
            raise ValueError(f"{where}: the label {word} does not fit in 64 bits: pass labels=str.")
        if labels is float and not np.isfinite(number):
            raise ValueError(f"{where}: the label {word!r} is not a finite number: pass labels=str if it is a word.")
        if labels is float and abs(number) >= EXACT and Decimal(word) != Decimal(number):
            raise ValueError(
                f"{where}: the label {word} is not a floating-point number: pass labels=int or labels=str."
            )
    return np.array(numbers, dtype=np.int64 if labels is int else float)


def _arrow(column: Any, name: str, where: str, feature: bool) -> np.ndarray:
    """A column of a batch as NumPy has it, without loss."""
    import pyarrow

    what = f"{where}, column {name!r}"
    if column.null_count:
        raise ValueError(f"{what}: {column.null_count} values are missing; fill them in, or leave out their rows.")
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kinds = pyarrow.types
    if feature or kinds.is_floating(column.type):
        if not (kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_boolean(column.type)):
            raise ValueError(f"{what}: features must be numbers, got {column.type}.")
        try:
            numbers = column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{what}: a whole number is not a floating-point number ({error}).") from error
        if not feature and np.isnan(numbers).any():
            raise ValueError(f"{what}: a label must be a number, got nan.")
        return _without_infinity(numbers, what)
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        return np.array(column.to_pylist())
    if kinds.is_integer(column.type) or kinds.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False)
    raise ValueError(f"{what}: labels must be whole numbers, numbers, words or truth values, got {column.type}.")


def _check_size(size: int) -> None:
    check_whole("size", size)
