"""What each hyperparameter and argument may be. One name means one thing throughout, so that one table serves every part and estimator."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping, Set
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ._checks import (
    check_flag,
    check_list,
    check_names,
    check_number,
    check_whole,
    is_real,
    is_whole,
    names_one,
    real_array,
)

_SHORT = 120  # letters of a part that a sentence may end with


def _or_none(check: Callable[..., Any], **bounds: Any) -> Callable[[str, Any], None]:
    return lambda name, value: None if value is None else check(name, value, **bounds)


def _positive(name: str, value: Any) -> None:
    check_number(name, value, above=0)


def _tolerance(name: str, value: Any) -> None:
    if not (is_real(value) and value > 0):
        raise ValueError(f"{name} must be a number above zero, got {value!r}.")


def _between(name: str, value: Any, low: float, high: float) -> None:
    if not (is_real(value) and low <= value <= high):
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
    check_list(name, value)
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


def _places(name: str, value: Any) -> None:
    """A list of places, -1 for none."""
    check_list(name, value)
    if isinstance(value, Mapping | Set):
        raise ValueError(f"{name} must be a list of places, got {value!r}.")
    for place in value:
        check_whole(name, place, -1)


def _paths(name: str, value: Any) -> None:
    """A mapping from node to parent, or a list of paths."""
    check_list(name, value)
    if not (isinstance(value, Mapping) or all(isinstance(path, str | tuple | list) for path in value)):
        raise ValueError(f"{name} must be a mapping from node to parent, or a list of paths, got {value!r}.")


def _seed(name: str, value: Any) -> None:
    if not (
        isinstance(value, np.random.RandomState | np.random.Generator) or (is_whole(value) and 0 <= value < 1 << 32)
    ):
        raise ValueError(
            f"{name} must be a whole number from 0 to 2^32 - 1, a generator of NumPy's or None, got {value!r}."
        )


def _label(name: str, value: Any) -> None:
    """One label: a string, a number or a tuple of these."""
    if not isinstance(value, str | bytes | numbers.Number | tuple | np.generic):
        raise ValueError(f"{name} must be a label, a string or a number, got {value!r}.")


def _finite(name: str, value: Any) -> None:
    if not np.isfinite(real_array(name, value)).all():
        raise ValueError(f"{name} contains NaN or infinite values.")


def _level(name: str, value: Any) -> None:
    array = real_array(name, value)
    if not array.size or array.ndim > 1:
        raise ValueError(f"{name} must be a number or a list of them, got {value!r}.")


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
    "factors": _polytopes,
    **dict.fromkeys(["polytope", "domain"], _or_none(_polytope)),
    "shared": lambda name, value: None if isinstance(value, str) and value == "deprecated" else check_flag(name, value),
    "tol": _tolerance,
    "gamma": lambda name, value: None if value is None or isinstance(value, str) else _positive(name, value),
    "degree": _positive,
    **dict.fromkeys(["gain", "discount"], _name_or_function),
    "kernel": _name_or_function,
    **dict.fromkeys(["decoder", "refine"], _or_none(_function)),
    **dict.fromkeys(["potential", "gradient", "inverse_gradient"], _or_none(_function)),
    "kernel_params": _or_none(_mapping),
    "candidates": _or_none(check_list),
    "separator": _words,
    "ignore_label": _or_none(_label),
    "order": _or_none(check_names),
    **dict.fromkeys(["labels", "parts"], _or_none(check_list)),
    "function": _function,
    "parents": _or_none(_places),
    "transition_features": lambda name, value: (
        None if isinstance(value, str) or value is None else check_list(name, value)
    ),
    "tree": _or_none(_paths),
    "random_state": _or_none(_seed),
    "embedding": lambda name, value: (
        None if isinstance(value, str) or hasattr(value, "psi") else _or_none(real_array)(name, value)
    ),
    "verbose": lambda name, value: check_whole(name, int(value) if isinstance(value, bool) else value, 0),
    "empty": lambda name, value: _between(name, value, 0, 1),
    "weights": lambda name, value: None if value is None or isinstance(value, str) else _no_less_than_zero(name, value),
    "unmatched": _text(None, "columns", "both"),
    "centres": _text("uniform", "leverage"),
    "decoding": _text("moments", "map"),
    "discounts": _vector,
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
    **dict.fromkeys(["matrix", "scores", "v", "data", "distance"], _or_none(_finite)),
    "eps": _or_none(_level),
    "surrogates": _or_none(check_list),
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
                sizes = {name: abs(value) for name, value in given.items() if is_real(value) and value}
                pick, word = (max, "smaller") if isinstance(error, OverflowError) else (min, "larger")
                name = pick(sizes, key=lambda name: sizes[name])
                raise ValueError(
                    f"{name} must be {word} than {given[name]!r}: the result is too large to be a number."
                ) from error
            raise

    return wrapped


# Arguments that are parts, and the folders of these.
_KINDS = {"loss": "losses", "surrogate": "surrogates", "polytope": "polytopes"}


def _check_kind(name: str, value: Any) -> None:
    from .registry import Part

    if not (isinstance(value, Part | str) or callable(value) or (name == "loss" and hasattr(value, "__len__"))):
        raise ValueError(f"{name} must be one of taskloss.{_KINDS[name]}, got {value!r}.")
