"""Checks of single values, each of which refuses what it should not be in one sentence."""

from __future__ import annotations

import contextlib
import numbers
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Sized
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

_LARGEST = 1 << 31  # sizes beyond it are no sizes of anything that fits in memory


def check_number(name: str, value: Any, above: float = -np.inf, why: str = "") -> None:
    """A finite number above a bound."""
    if not (is_real(value) and above < value < np.inf):
        bound = "" if above == -np.inf else f" above {'zero' if above == 0 else above}"
        raise ValueError(f"{name} must be a finite number{bound}, got {value!r}{why}.")
    if is_whole(value) and abs(value) >= 1 << 63:  # an object to NumPy, no number
        raise ValueError(f"{name} must be below 2**63 where it is a whole number, got {value!r}: write 1e19, say.")


def check_level(name: str, value: Any) -> None:
    """A chance of its own: above zero and below one."""
    check_number(name, value, above=0)
    if not value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}.")


def check_beta(beta: Any) -> float:
    """The square of an F-measure's beta."""
    if not (is_real(beta) and 0 < beta < 1e150):
        raise ValueError(f"beta must be a finite number above zero, whose square is finite as well, got {beta!r}.")
    return float(beta) ** 2


def is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral)


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """A whole number of at least a bound."""
    if isinstance(value, bool) or not (is_whole(value) and least <= value < _LARGEST):
        word = {0: "zero", 1: "one"}.get(least, str(least))
        raise ValueError(f"{name} must be a whole number of at least {word}, got {value!r}.")


def check_place(name: str, value: Any) -> None:
    """A place among columns, counted from either end."""
    if not (is_whole(value) and abs(value) < _LARGEST):
        raise ValueError(f"{name} must be the name or the place of a column, got {value!r}.")


def check_columns(name: str, columns: Any, count: int) -> None:
    """Places of columns, counted from 0, each once."""
    if not is_list(columns) or isinstance(columns, str | bytes):
        raise ValueError(f"{name} must be a list of columns, got {columns!r}.")
    for column in columns:
        check_whole(name, column, 0)
        if column >= count:
            raise ValueError(f"{name} has the column {column}, but X has {count}, counted from 0.")
    if len(set(columns)) < len(columns):
        raise ValueError(f"{name} has a column twice: {list(columns)}.")


def check_file(file: Any) -> None:
    """A path, or something that can be read."""
    if not ((isinstance(file, str | os.PathLike) and os.fspath(file)) or hasattr(file, "read")):
        raise TypeError(f"file must be a path or an open file, got {file!r}.")


def check_flag(name: str, value: Any) -> None:
    """True or False, also as NumPy has them, or 0 and 1."""
    if not (isinstance(value, bool | np.bool_) or (is_whole(value) and value in (0, 1))):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def is_list(value: Any) -> bool:
    """Whether a value has items and a number of them: no class, and no array without dimensions."""
    sized = isinstance(value, Sized) and isinstance(value, Iterable)
    return sized and getattr(value, "shape", None) != () and not hasattr(value, "nnz")


def real_array(name: str, value: Any, what: str = "numbers") -> np.ndarray:
    """Real numbers as an array of floats; anything else is refused under its name."""
    try:
        if hasattr(value, "nnz") and hasattr(value, "toarray"):
            raise TypeError("got a sparse matrix: pass its .toarray()")
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return array.astype(float, copy=False)
        if array.dtype.kind == "O" and not any(item is None for item in array.flat):  # NumPy would make NaN of it
            return array.astype(float)
        problem = f"got {'complex numbers' if array.dtype.kind == 'c' else f'values of type {array.dtype}'}"
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last by tensors that require gradients
        problem = str(error).rstrip(".")
    raise ValueError(f"{name} must be {what} in an array: {problem}.")


def real_levels(name: str, value: Any) -> np.ndarray:
    """Finite numbers that are not negative, as an array of floats."""
    array = real_array(name, value)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ValueError(f"{name} must be finite and not negative, got {value!r}.")
    return array


def real_level(name: str, value: Any) -> float:
    """One finite number that is not negative."""
    array = real_levels(name, value)
    if array.ndim:
        raise ValueError(f"{name} must be one number, got an array of shape {array.shape}.")
    return float(array)


def check_floats(name: str, value: Any) -> None:
    """An array of floating-point numbers, of NumPy or torch."""
    dense = hasattr(value, "shape") and not (hasattr(value, "columns") or isinstance(value, np.ma.MaskedArray))
    if not dense or hasattr(value, "nnz") or hasattr(value, "index"):
        raise ValueError(f"{name} must be an array of floating-point numbers, of NumPy or torch, got {value!r}.")
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "f":
        real_array(name, value)
        raise ValueError(f"{name} must be floating-point numbers, got values of type {value.dtype}.")


def names_one(sentence: str, names: Iterable[str]) -> bool:
    """Whether a sentence has one of these names in it, as a word of its own."""
    return re.search(rf"(?<![A-Za-z_.])({'|'.join(names)})(?![A-Za-z_])", sentence) is not None


@contextlib.contextmanager
def said_of(name: str, what: str) -> Iterator[None]:
    """What NumPy and scikit-learn say of values without a word on whose they are, said of an argument, or of "X and y"."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if names_one(str(error), name.split(" and ")):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must {what}: {str(error).rstrip('.')}.") from error


def count_examples(name: str, value: Any) -> int:
    """How many examples an argument holds."""
    with said_of(name, "hold one entry for each example"):
        return _num_samples(value)


def check_lengths(n: int, y: Any) -> None:
    """As many labels as examples."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    if isinstance(y, set | frozenset):
        raise TypeError(
            f"y must hold one entry for each example, in their order, got a {type(y).__name__}, which has no order."
        )
    if (found := count_examples("y", y)) != n:
        raise ValueError(f"X and y have different lengths: {n} and {found}.")


def check_list(name: str, value: Any) -> None:
    """A list, and no string."""
    if not is_list(value) or isinstance(value, str | bytes):
        raise ValueError(f"{name} must be a list, got {value!r}.")


def check_names(name: str, value: Any) -> None:
    """A list of labels, each of which can be told from the others."""
    check_list(name, value)
    if hasattr(value, "columns") or not all(isinstance(label, Hashable) for label in value):
        raise ValueError(f"{name} must be a list of labels, got {value!r}.")
