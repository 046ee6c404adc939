"""What each hyperparameter may be. One name means one thing throughout, so that one table serves every part and estimator."""

from __future__ import annotations

import contextlib
import functools
import inspect
import numbers
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set, Sized
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn.utils.validation import _num_samples

_SHORT = 120  # letters of a part that a sentence may end with
_LARGEST = 1 << 31  # sizes beyond it are no sizes of anything that fits in memory


def check_number(name: str, value: Any, above: float = -np.inf, why: str = "") -> None:
    """A finite number above a bound."""
    if not (_is_real(value) and above < value < np.inf):
        bound = "" if above == -np.inf else f" above {'zero' if above == 0 else above}"
        raise ValueError(f"{name} must be a finite number{bound}, got {value!r}{why}.")
    if _is_whole(value) and abs(value) >= 1 << 63:  # an object to NumPy, no number
        raise ValueError(f"{name} must be below 2**63 where it is a whole number, got {value!r}: write 1e19, say.")


def check_level(name: str, value: Any) -> None:
    """A chance of its own: above zero and below one."""
    check_number(name, value, above=0)
    if not value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}.")


def check_beta(beta: Any) -> float:
    """The square of an F-measure's beta."""
    if not (_is_real(beta) and 0 < beta < 1e150):
        raise ValueError(f"beta must be a finite number above zero, whose square is finite as well, got {beta!r}.")
    return float(beta) ** 2


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral)


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """A whole number of at least a bound."""
    if isinstance(value, bool) or not (_is_whole(value) and least <= value < _LARGEST):
        word = {0: "zero", 1: "one"}.get(least, str(least))
        raise ValueError(f"{name} must be a whole number of at least {word}, got {value!r}.")


def check_place(name: str, value: Any) -> None:
    """A place among columns, counted from either end."""
    if not (_is_whole(value) and abs(value) < _LARGEST):
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
    if not (isinstance(value, bool | np.bool_) or (_is_whole(value) and value in (0, 1))):
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


def _or_none(check: Callable[..., Any], **bounds: Any) -> Callable[[str, Any], None]:
    return lambda name, value: None if value is None else check(name, value, **bounds)


def _positive(name: str, value: Any) -> None:
    check_number(name, value, above=0)


def _tolerance(name: str, value: Any) -> None:
    if not (_is_real(value) and value > 0):
        raise ValueError(f"{name} must be a number above zero, got {value!r}.")


def _between(name: str, value: Any, low: float, high: float) -> None:
    if not (_is_real(value) and low <= value <= high):
        raise ValueError(f"{name} must be a number from {low} to {high}, got {value!r}.")


def _vector(name: str, value: Any) -> None:
    if real_array(name, value).ndim != 1:
        raise ValueError(f"{name} must be a list of numbers, got {value!r}.")


def _no_less_than_zero(name: str, value: Any) -> None:
    array = real_array(name, value)
    if array.ndim != 1 or not (np.isfinite(array).all() and (array >= 0).all()):
        raise ValueError(f"{name} must be a list of finite numbers that are not negative, got {value!r}.")


def _polytope(name: str, value: Any) -> None:
    from .polytopes.base import Polytope

    if not isinstance(value, Polytope):
        raise ValueError(f"{name} must be a polytope of taskloss.polytopes, got {value!r}.")


def _polytopes(name: str, value: Any) -> None:
    _list(name, value)
    if not len(value):
        raise ValueError(f"{name} must hold one polytope of taskloss.polytopes at least, got {value!r}.")
    for factor in value:
        _polytope(name, factor)


def _function(name: str, value: Any) -> None:
    if not callable(value):
        raise ValueError(f"{name} must be a function, got {value!r}.")


def _name_or_function(name: str, value: Any) -> None:
    if not (isinstance(value, str) or (callable(value) and not isinstance(value, type))):
        raise ValueError(f"{name} must be a name or a function, got {value!r}.")


def _mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, got {value!r}.")


def _words(name: str, value: Any) -> None:
    if not (isinstance(value, str) and value):
        raise ValueError(f"{name} must be a string that is not empty, got {value!r}.")


def _list(name: str, value: Any) -> None:
    if not is_list(value) or isinstance(value, str | bytes):
        raise ValueError(f"{name} must be a list, got {value!r}.")


def _places(name: str, value: Any) -> None:
    """A list of places, -1 for none."""
    _list(name, value)
    if isinstance(value, Mapping | Set):
        raise ValueError(f"{name} must be a list of places, got {value!r}.")
    for place in value:
        check_whole(name, place, -1)


def _paths(name: str, value: Any) -> None:
    """A mapping from node to parent, or a list of paths."""
    _list(name, value)
    if not (isinstance(value, Mapping) or all(isinstance(path, str | tuple | list) for path in value)):
        raise ValueError(f"{name} must be a mapping from node to parent, or a list of paths, got {value!r}.")


def _seed(name: str, value: Any) -> None:
    if not (
        isinstance(value, np.random.RandomState | np.random.Generator) or (_is_whole(value) and 0 <= value < 1 << 32)
    ):
        raise ValueError(
            f"{name} must be a whole number from 0 to 2^32 - 1, a generator of NumPy's or None, got {value!r}."
        )


def check_names(name: str, value: Any) -> None:
    """A list of labels, each of which can be told from the others."""
    _list(name, value)
    if hasattr(value, "columns") or not all(isinstance(label, Hashable) for label in value):
        raise ValueError(f"{name} must be a list of labels, got {value!r}.")


def _label(name: str, value: Any) -> None:
    """One label: a string, a number or a tuple of these."""
    if not isinstance(value, str | bytes | numbers.Number | tuple | np.generic):
        raise ValueError(f"{name} must be a label, a string or a number, got {value!r}.")


def _text(*choices: str | None) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if not ((value is None and None in choices) or (isinstance(value, str) and value in choices)):
            raise ValueError(f"{name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, got {value!r}.")

    return check


_size = _or_none(check_whole)
HYPERPARAMETERS: dict[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(
        ["n_classes", "n_labels", "n_items", "n_rows", "n_columns", "n_states", "length", "max_size"], _size
    ),
    **dict.fromkeys(["max_iter", "max_inner", "max_epochs", "batch_size", "n", "min_frequency"], check_whole),
    **dict.fromkeys(["horizon", "at", "memory"], _size),
    **dict.fromkeys(
        [
            "fit_intercept",
            "warm_start",
            "outliers",
            "prefit",
            "vectorised",
            "scale",
            "normalise",
            "boundaries",
            "all_possible_states",
            "all_possible_transitions",
            "all_states",
            "all_transitions",
        ],
        check_flag,
    ),
    **dict.fromkeys(["radius", "beta", "lr"], _positive),
    **dict.fromkeys(["step", "cap", "top"], _or_none(check_number, above=0)),
    **dict.fromkeys(["low", "coef0"], check_number),
    **dict.fromkeys(["unary", "pairwise", "allowed", "state_weights"], _or_none(real_array)),
    "factors": lambda name, value: _polytopes(name, value),
    **dict.fromkeys(["polytope", "domain"], _or_none(lambda name, value: _polytope(name, value))),
    "shared": lambda name, value: None if isinstance(value, str) and value == "deprecated" else check_flag(name, value),
    "tol": _tolerance,
    "gamma": lambda name, value: None if value is None or isinstance(value, str) else _positive(name, value),
    "degree": _positive,
    **dict.fromkeys(["gain", "discount"], lambda name, value: _name_or_function(name, value)),
    "kernel": lambda name, value: _name_or_function(name, value),
    **dict.fromkeys(["decoder", "refine"], _or_none(lambda name, value: _function(name, value))),
    **dict.fromkeys(
        ["potential", "gradient", "inverse_gradient"], _or_none(lambda name, value: _function(name, value))
    ),
    "kernel_params": _or_none(lambda name, value: _mapping(name, value)),
    "candidates": _or_none(lambda name, value: _list(name, value)),
    "separator": lambda name, value: _words(name, value),
    "ignore_label": _or_none(lambda name, value: _label(name, value)),
    "order": _or_none(lambda name, value: check_names(name, value)),
    **dict.fromkeys(["labels", "parts"], _or_none(lambda name, value: _list(name, value))),
    "function": lambda name, value: _function(name, value),
    "parents": _or_none(lambda name, value: _places(name, value)),
    "transition_features": lambda name, value: None if isinstance(value, str) or value is None else _list(name, value),
    "tree": _or_none(lambda name, value: _paths(name, value)),
    "random_state": _or_none(lambda name, value: _seed(name, value)),
    "embedding": lambda name, value: (
        None if isinstance(value, str) or hasattr(value, "psi") else _or_none(real_array)(name, value)
    ),
    "verbose": lambda name, value: check_whole(name, int(value) if isinstance(value, bool) else value, 0),
    "empty": lambda name, value: _between(name, value, 0, 1),
    "weights": lambda name, value: None if value is None or isinstance(value, str) else _no_less_than_zero(name, value),
    "unmatched": _text(None, "columns", "both"),
    "centres": _text("uniform", "leverage"),
    "decoding": _text("moments", "map"),
    "discounts": lambda name, value: _vector(name, value),
    "calibration": _text(None, "sigmoid", "isotonic", "temperature"),
}


def check_hyperparameters(part: Any) -> None:
    """Refuse, in one sentence, hyperparameters of a part or an estimator that are no such thing, and those of its parts."""
    from .registry import Part

    for name, value in part.get_params(deep=False).items():
        if name in HYPERPARAMETERS:
            HYPERPARAMETERS[name](name, value)
        elif isinstance(value, Part):
            check_hyperparameters(value)


def guard(method: Callable[..., Any]) -> Callable[..., Any]:
    """A part's method that, where it fails, says which of its arguments or hyperparameters is the cause.

    They are looked at only then: nothing is checked in the loops of solvers, and what works is not refused.
    """
    names = tuple(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            check_hyperparameters(self)
            # Where a sentence names the argument already, somebody has said what is wrong; the part itself is no argument.
            sentence = str(error).replace(repr(self), "")
            if not (isinstance(error, ValueError) and names_one(sentence, names)):
                self.diagnose(dict(zip(names, args, strict=False)) | kwargs, error)
                words = " ".join(repr(self).split())
                if type(error) is ValueError and repr(self) not in str(error) and len(words) < _SHORT:
                    raise ValueError(f"{str(error).rstrip('.')}, in {words}.") from error
            raise

    return guarded


P = ParamSpec("P")
R = TypeVar("R")

# What the arguments of functions on numbers and parts are, by their names.
ARGUMENTS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(["n", "radius", "kappa", "alpha", "tol"], _or_none(check_number, above=0)),
    **dict.fromkeys(["noise", "bias", "error"], check_number),
    "constant": _or_none(check_number),
    **dict.fromkeys(["confidence", "p"], _or_none(_between, low=0, high=1)),
    **dict.fromkeys(["gamma_p", "time_limit"], _or_none(check_number, above=0)),
    **dict.fromkeys(["improved", "balance", "verbose"], check_flag),
    **dict.fromkeys(["norm", "kind", "decision"], _words),
    "margin": lambda name, value: check_number(name, value, above=0) if isinstance(value, numbers.Number) else None,
    **dict.fromkeys(["laws", "size"], _or_none(check_whole)),
    **dict.fromkeys(["matrix", "scores", "v", "data", "distance"], _or_none(lambda name, value: _finite(name, value))),
    "eps": _or_none(lambda name, value: _level(name, value)),
    "surrogates": _or_none(_list),
}


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """A function that, where it fails without a sentence, says which of its arguments is the cause; nothing is looked at before."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            given = signature.bind(*args, **kwargs).arguments
            sentence = isinstance(error, TypeError | ValueError) and str(error).endswith((".", ")"))
            if sentence and names_one(str(error), signature.parameters):
                raise
            for name, value in given.items():
                if name in ARGUMENTS:
                    ARGUMENTS[name](name, value)
                elif name in _KINDS:
                    _check_kind(name, value)
            if isinstance(error, OverflowError | ZeroDivisionError):
                sizes = {name: abs(value) for name, value in given.items() if _is_real(value) and value}
                pick, word = (max, "smaller") if isinstance(error, OverflowError) else (min, "larger")
                name = pick(sizes, key=lambda name: sizes[name])
                raise ValueError(
                    f"{name} must be {word} than {given[name]!r}: the result is too large to be a number."
                ) from error
            raise

    return wrapped


# Arguments that are parts, and the folders of these.
_KINDS = {"loss": "losses", "surrogate": "surrogates", "polytope": "polytopes"}


def _finite(name: str, value: Any) -> None:
    if not np.isfinite(real_array(name, value)).all():
        raise ValueError(f"{name} contains NaN or infinite values.")


def _level(name: str, value: Any) -> None:
    array = real_array(name, value)
    if not array.size or array.ndim > 1:
        raise ValueError(f"{name} must be a number or a list of them, got {value!r}.")


def _check_kind(name: str, value: Any) -> None:
    from .registry import Part

    if not (isinstance(value, Part | str) or callable(value) or (name == "loss" and hasattr(value, "__len__"))):
        raise ValueError(f"{name} must be one of taskloss.{_KINDS[name]}, got {value!r}.")
