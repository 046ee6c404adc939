"""Rows of numbers, some of whose columns are categories: what trees read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from .._checks import said_of

_TYPES = (np.float64, np.float32)


@dataclass(frozen=True)
class MixedRows:
    """Values (rows, columns), dense with NaN where they are missing, or CSR; and the categories of columns that hold codes."""

    values: Any
    categories: dict[int, list[Any]]
    names: tuple[Any, ...] | None = None  # of the columns, where they have names

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> MixedRows:
        return MixedRows(self.values[rows], self.categories, self.names)


def only_numbers(inputs: Any, reader: str) -> Any:
    """The values of rows, mixed or not, for a reader that takes neither categories nor missing values."""
    mixed = inputs if isinstance(inputs, MixedRows) else MixedRows(inputs, {})
    values = mixed.values
    for j in sorted(mixed.categories):
        raise ValueError(
            f"{reader} reads numbers alone, and {_column(mixed, j)} holds categories: encode it, as OneHotEncoder does, or leave out {reader}."
        )
    missing = np.isnan(values.data if sparse.issparse(values) else values)
    if missing.any():
        j = int(values.indices[missing][0] if sparse.issparse(values) else np.argmax(missing.any(axis=0)))
        raise ValueError(
            f"{reader} reads numbers alone, and {_column(mixed, j)} has missing values (NaN): fill them in, as SimpleImputer does, or leave out {reader}."
        )
    return values


def _column(rows: MixedRows, j: int) -> str:
    return f"column {j if rows.names is None else repr(rows.names[j])} of X"


def read_mixed(X: Any, estimator: Any, fitting: bool, known: dict[int, list[Any]]) -> MixedRows:
    """X with missing values as NaN and categories as codes: at a fit in the order of each column's own categories, after
    it in the known ones, and what was not known then is missing.
    """
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        if known and not fitting:
            raise ValueError(
                f"{type(estimator).__name__} was fitted on a data frame with categories in column {min(known)}: give a frame here, too."
            )
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": list(_TYPES), "ensure_all_finite": "allow-nan"}
        with said_of("X", "hold numbers, one row for each example"):
            return MixedRows(validate_data(estimator, X, reset=fitting, **options), {})
    validate_data(estimator, X, reset=fitting, skip_check_array=True)  # names of features
    columns, categories = [], {}
    for j, name in enumerate(X.columns):
        column = X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]
        listed = _categories(column)
        if listed is not None and fitting:
            categories[j] = listed
        if j in known and not fitting:
            columns.append(_codes(column, listed, known[j]))
        elif listed is not None:
            columns.append(_codes(column, listed, listed if fitting else []))
        else:
            columns.append(_numbers(column, name))
    single = bool(columns) and all(c.dtype == np.float32 for c in columns)
    values = np.empty((len(X), len(columns)), np.float32 if single else np.float64)
    for j, column in enumerate(columns):
        values[:, j] = column
    with said_of("X", "hold numbers, one row for each example"):
        values = check_array(
            values, ensure_all_finite="allow-nan", dtype=list(_TYPES), estimator=estimator, input_name="X"
        )
    return MixedRows(values, categories if fitting else known, tuple(X.columns))


def _categories(column: Any) -> list[Any] | None:
    """The categories of a pandas or polars column, or None where it holds none."""
    if hasattr(column.dtype, "categories") and hasattr(column, "cat") and hasattr(column.cat, "codes"):
        return list(column.cat.categories)
    kind = type(column.dtype).__name__  # polars
    if kind == "Enum":
        return column.dtype.categories.to_list()
    return column.cast(str).drop_nulls().unique().sort().to_list() if kind == "Categorical" else None


def _codes(column: Any, listed: list[Any] | None, known: list[Any]) -> np.ndarray:
    """The place of each value among known categories, NaN where it has none."""
    place = {value: float(i) for i, value in enumerate(known)}
    if listed is None:
        return np.array([place.get(value, np.nan) for value in column.to_list()])
    if not hasattr(column.cat, "codes"):
        return np.array([place.get(value, np.nan) for value in column.cast(str).to_list()], dtype=float)
    own = np.array([place.get(value, np.nan) for value in listed] + [np.nan])  # the last is for missing values, -1
    return own[np.asarray(column.cat.codes)]


def _numbers(column: Any, name: Any) -> np.ndarray:
    """A column of numbers, with NaN where they are missing."""
    if column.dtype == np.float32 or type(column.dtype).__name__ == "Float32":
        return np.asarray(column.to_numpy(), dtype=np.float32)
    kind = getattr(column.dtype, "kind", None)  # of NumPy's and pandas's own; polars says is_numeric
    numeric = column.dtype.is_numeric() or str(column.dtype) == "Boolean" if kind is None else kind in "biuf"
    if not numeric:
        raise ValueError(
            f"Column {name!r} of X holds {column.dtype}, which is no number: make it a category, X[{name!r}].astype('category'), or a number."
        )
    if hasattr(column, "iloc"):
        return column.to_numpy(dtype=float, na_value=np.nan)
    return column.cast(float).to_numpy()
