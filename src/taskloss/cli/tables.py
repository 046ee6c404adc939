"""Files of rows, read without loss, and what kind of column each of their columns is."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from ..data.columns import MISSING, Columns, word_of
from ..data.streams import EXACT, is_number, opened_text, text_rows
from .output import counted, listed

_DELIMITERS = ",;\t|"
_NO_TEXT = "{} is no text file: it must be CSV (also .csv.gz) or Parquet (.parquet)."
# More different words than the first are text or an identifier, unless each has as many rows as the second says.
_REPEATS = ((20, 2), (200, 3))


@dataclass(frozen=True)
class Table:
    """A file's rows as a pandas frame: words where it is text, and a Parquet file's own types.

    left_out: columns that hold neither numbers nor words, with their types.
    """

    path: str
    frame: Any
    left_out: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    def require(self, names: Sequence[str], option: str) -> None:
        for name in names:
            if name in self.left_out:
                raise ValueError(
                    f"{option} names {name!r}, which in {self.path} holds {self.left_out[name]}: it must hold numbers or words."
                )
            if name not in self.frame.columns:
                raise ValueError(
                    f"{option} must name a column: {self.path} has no column {name!r}; its columns are {listed(list(self.frame.columns), 12)}."
                )

    def read(self, columns: Columns) -> Any:
        """The columns that a model reads; what is wrong with them is said of the file."""
        try:
            return columns.transform(self.frame)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error

    def rows(self, keep: np.ndarray) -> Table:
        return Table(self.path, self.frame[keep].reset_index(drop=True), self.left_out)


def read_table(path: str, delimiter: str | None = None, encoding: str = "utf-8-sig") -> Table:
    """A text file of rows with a header, also with .gz, a Parquet file, or - for standard input."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError("Files of rows are read into pandas frames: pip install 'taskloss[files]'.") from None
    if path.endswith((".parquet", ".pq")):
        table = _read_parquet(path)
    else:
        table = _read_text(path, delimiter, encoding)
    if not len(table):
        raise ValueError(f"{table.path} has no rows below its header.")
    return table


def read_words(path: str, delimiter: str | None, encoding: str) -> list[tuple[int, list[str]]]:
    """(line, its words) of a text file, without blank lines and comments, in its own or the given delimiter."""
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"--delimiter must be one character, got {delimiter!r}.")
    if path.endswith((".xlsx", ".xls", ".ods")):
        raise ValueError(f"{path} is a spreadsheet: save it as CSV, or as Parquet, first.")
    with _bytes(path) as data:
        try:
            with opened_text(data, encoding) as text:
                content = text.read()
                content = content if "\n" in content else content.replace("\r", "\n")  # as old spreadsheets end lines
        except UnicodeDecodeError as error:
            if error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise ValueError(f"{path} is text in UTF-16: pass --encoding utf-16.") from error
            if b"\0" in error.object:
                raise ValueError(_NO_TEXT.format(path)) from error
            raise ValueError(
                f"{path} is not text in {error.encoding}: pass its --encoding, such as latin-1."
            ) from error
        except LookupError as error:
            raise ValueError(f"--encoding {encoding} is none that Python knows.") from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path} cannot be unpacked: {error}.") from error
    if "\0" in content:
        raise ValueError(_NO_TEXT.format(path))
    first = content.lstrip().partition("\n")[0]
    delimiter = delimiter or max(_DELIMITERS, key=first.count)
    return list(text_rows(csv.reader(io.StringIO(content), delimiter=delimiter, strict=True), path))


def _bytes(path: str) -> Any:
    if path == "-":
        return io.BytesIO(sys.stdin.buffer.read())
    if os.path.isdir(path):
        raise ValueError(f"{path} is a directory: name a file of rows.")
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def _read_text(path: str, delimiter: str | None, encoding: str) -> Table:
    import pandas as pd

    lines = read_words(path, delimiter, encoding)
    path = "Standard input" if path == "-" else path
    if not lines:
        raise ValueError(f"{path} is empty: its first line must name the columns.")
    (_, names), rows = lines[0], lines[1:]
    names = [name.strip() for name in names]
    numbers = [name for name in names if is_number(name)]
    if 2 * len(numbers) > len(names) and not all(name.isdigit() for name in numbers):  # 0, 1, 2, ... may be names
        raise ValueError(
            f"{path} must name its columns in the first line, and this one holds {listed(numbers, 4)}: put a line of names on top."
        )
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ValueError(
            f"{path} has two columns named {twice!r}: rename one of them, or put a line of names on top if its first line is a row."
        )
    for line, row in rows:
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {line}: {counted(len(row), 'column')} where the header has {len(names)}; every row must be as wide, and text that "
                "holds the delimiter in quotes."
            )
    columns = zip(*(row for _, row in rows), strict=True) if rows else [()] * len(names)
    frame = {name: pd.Series(list(column), dtype=object) for name, column in zip(names, columns, strict=True)}
    return Table(path, pd.DataFrame(frame, columns=names))


def _read_parquet(path: str) -> Table:
    import pandas as pd

    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files are read by pyarrow: pip install 'taskloss[files]'.") from None
    try:
        with open(path, "rb") as file:
            data = pyarrow.parquet.read_table(file)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} is no Parquet file: {error}.") from error
    frame, left_out, kinds = {}, {}, pyarrow.types
    for name in data.column_names:
        column = data.column(name)
        if kinds.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        if kinds.is_boolean(kind):
            column = column.cast(pyarrow.int8())
        elif not (
            kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_string(kind) or kinds.is_large_string(kind)
        ):
            left_out[name] = f"values of type {kind}"
            continue
        if kinds.is_string(column.type) or kinds.is_large_string(column.type):
            frame[name] = pd.Series(["" if v is None else v for v in column.to_pylist()], dtype=object)
        elif kinds.is_integer(column.type) and column.null_count:  # as words, which keep whole numbers exact
            frame[name] = pd.Series(["" if v is None else str(v) for v in column.to_pylist()], dtype=object)
        else:
            frame[name] = column.to_numpy()
    return Table(path, pd.DataFrame(frame), left_out)


def is_missing(column: Any) -> np.ndarray:
    """Where a target or a group has no value: an empty word, or NaN."""
    if column.dtype == object:
        return np.array([word.strip() == "" for word in column], dtype=bool)
    return np.isnan(column.to_numpy(dtype=float))


def choose_columns(
    table: Table, target: dict[str, Any], out: Sequence[str], numeric: Sequence[str], categorical: Sequence[str]
) -> tuple[Columns, dict[str, str]]:
    """The columns to learn from, by what they hold, and why each of the others is left out."""
    table.require([*numeric, *categorical], "--numeric and --categorical")
    numbers, categories, left_out = [], {}, dict(table.left_out)
    for name in table.frame.columns:
        if name in out:
            continue
        column = table.frame[name]
        if name in numeric:
            kind: str = "number"
        elif name in categorical:
            kind = "words"
        else:
            kind = _kind(name, column)
        if kind == "number":
            numbers.append(name)
        elif kind == "words":
            words = {word_of(value) for value in column.to_list()} - {""}
            categories[name] = sorted(words)
        else:
            left_out[name] = kind
    if not numbers and not categories:
        nothing = (
            "all but the target are ignored"
            if len(out) > len(target.get("target", out))
            else "the target is its only one"
        )
        reasons = "; ".join(f"{name!r}: {why}" for name, why in left_out.items())
        raise ValueError(f"{table.path} has no column to learn from ({reasons or nothing}).")
    return Columns(numbers, categories, target), left_out


def _kind(name: str, column: Any) -> str:
    """ "number", "words", or the reason to leave a column out."""
    if column.dtype != object:
        present = column[column == column].to_numpy()
        large = present.dtype.kind in "iu" and present.size and np.abs(present.astype(float)).max() >= EXACT
        found = "words" if large else "number"
        words = [str(v) for v in present.tolist()]
    else:
        words = [word for word in column if word.strip() not in MISSING]
        numeric = all(is_number(word.strip()) and _is_exact(word) for word in words)
        found = "number" if numeric else "words"
        words = words if numeric else [word for word in column if word.strip()]
    different = len(set(words))
    if different == 0:
        return "empty"
    if different == 1 and len(words) == len(column):
        return f"always {words[0]!r}"
    if found == "number":
        return f"numbers the rows{' and has no name' * (not name)}" if _counts_rows(words, len(column)) else found
    if any(different > many and different * rows > len(words) for many, rows in _REPEATS):
        return _why_no_category(words, different)
    return found


def _why_no_category(words: list[str], different: int) -> str:
    """What a column of words is that hardly repeat."""
    odd = [word for word in words if not is_number(word.strip())]
    if odd and all(is_number(word.strip().replace(",", ".", 1)) for word in odd):
        return f"numbers with commas, such as {odd[0]!r}: write them with points"
    if odd and len(odd) * _REPEATS[0][0] <= len(words):
        return f"numbers but for {listed(list(dict.fromkeys(odd)), 3)}: mend these, or leave them empty"
    many = "another word in every row" if different == len(words) else f"{different} different words"
    return f"{many}: an identifier, or text (--categorical keeps it)"


def _is_exact(word: str) -> bool:
    """Whether float64 holds a number; a long whole number that it would round is a code."""
    number = float(word)
    return (
        not np.isfinite(number)
        or abs(number) < EXACT
        or "e" in word.lower()
        or Decimal(word.strip()) == Decimal(number)
    )


def _counts_rows(words: list[str], n: int) -> bool:
    """Whether a column is 0, 1, 2, ... or 1, 2, 3, ..."""
    return n > 2 and len(words) == n and words[0] in ("0", "1") and words == [str(i + int(words[0])) for i in range(n)]
