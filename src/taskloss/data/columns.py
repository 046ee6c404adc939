"""The columns of a data frame by name, as numbers and categories."""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..model_files import Portable
from .labels import absent
from .streams import is_number

# What stands for a missing number; among words all but the empty one are words.
MISSING = frozenset(["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?"])
_WHOLE = re.compile(r"-?[0-9]+\.0")  # a whole number that a reader has made a float, as pandas does beside missing ones


class Columns(Portable, TransformerMixin, BaseEstimator):
    """The first step of a model of files: picks columns by name, and makes them numbers and pandas categories.

    Numbers may come as numbers or as words, and what is missing is NaN. Categories are words; one that is not listed
    is missing. Other columns are left alone, so that a file may have more of them.

    Parameters
    ----------
    numbers : names of the columns that hold numbers.
    categories : a mapping from the names of the other columns to their words.
    target : what a file's target is, for those who read files; nothing here depends on it.

    Examples
    --------
    >>> import pandas as pd
    >>> columns = Columns(["age"], {"sex": ["f", "m"]})
    >>> columns.transform(pd.DataFrame({"sex": ["m", "x"], "id": [7, 8], "age": ["31", "?"]})).values.tolist()
    [[31.0, 'm'], [nan, nan]]
    """

    def __init__(
        self, numbers: Any = (), categories: dict[str, list[str]] | None = None, target: dict[str, Any] | None = None
    ):
        self.numbers = numbers
        self.categories = categories
        self.target = target

    @property
    def names(self) -> list[str]:
        """All columns that are read, in their order in the result."""
        return [*self.numbers, *(self.categories or {})]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learned: the columns are given."""
        return self

    def transform(self, X: Any) -> Any:
        """A pandas frame with one column of float64 or of categories for each name."""
        import pandas as pd

        if not hasattr(X, "columns"):
            raise TypeError(f"X must be a data frame with the columns {', '.join(self.names)}, got {type(X).__name__}.")
        missing = [name for name in self.names if name not in X.columns]
        if missing:
            names = ", ".join(repr(name) for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
            have = ", ".join(repr(name) for name in list(X.columns)[:12]) + (", ..." if len(X.columns) > 12 else "")
            raise ValueError(
                f"The model reads the column{'s' * (len(missing) > 1)} {names}, not found: the columns are {have}."
            )
        found: dict[str, Any] = {name: numbers_of(X[name], name) for name in self.numbers}
        for name, listed in (self.categories or {}).items():
            place = {word: code for code, word in enumerate(listed)}
            codes = [place.get(word_of(value), -1) for value in X[name].to_list()]
            found[name] = pd.Categorical.from_codes(codes, pd.Index(listed, dtype=object))
        return pd.DataFrame(found, index=getattr(X, "index", None))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        return np.array(self.names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def numbers_of(column: Any, name: Any) -> np.ndarray:
    """A column as float64 with NaN where a value is missing."""
    if getattr(column.dtype, "kind", "") in "biuf" and hasattr(column, "iloc"):
        numbers = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        numbers = np.array([_number(v, name, i) for i, v in enumerate(column.to_list())], dtype=float)
    if np.isinf(numbers).any():
        raise ValueError(f"The column {name!r} is infinite in row {int(np.isinf(numbers).argmax()) + 1}.")
    return numbers


def _number(value: Any, name: Any, row: int) -> float:
    if absent(value):
        return np.nan
    if not isinstance(value, str):
        return float(value)
    word = value.strip()
    if word in MISSING:
        return np.nan
    if not is_number(word):
        raise ValueError(
            f"The column {name!r} holds {value!r} in row {row + 1}, where the model reads numbers: mend the file, or fit with "
            "that column as a category."
        )
    return float(word)


def word_of(value: Any) -> str:
    """A category as it is listed, or nothing; 1.0 is the word 1, which pandas reads as a float where others are missing."""
    if absent(value):
        return ""
    return whole(str(value)) if isinstance(value, float) else str(value).strip()


def whole(word: str) -> str:
    """A whole number as it is, without the point and the zero of a reader that has made it a float."""
    return word[:-2] if _WHOLE.fullmatch(word) else word
