"""Methods that take Dask collections, too, and then answer lazily."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .._checks import count_examples
from ..data.weights import example_weights
from ..distributed import is_collection

F = TypeVar("F", bound=Callable[..., Any])


def lazily(method: F) -> F:
    """A method of X with an answer for each row or item: of a Dask collection, that of each partition, when it is asked for."""
    return _lazy(method, True, False)


def lazily_in_groups(method: F) -> F:
    """The same for a method that needs to know which rows are a group."""
    return _lazy(method, True, True)


def lazily_by_group(method: F) -> F:
    """The same for a method with a number for each group."""
    return _lazy(method, False, True)


def lazily_by_example(method: F) -> F:
    """The same for a method with a number for each item."""
    return _lazy(method, False, False)


def _lazy(method: F, rows: bool, grouped: bool) -> F:
    def later(self: Any, given: dict[str, Any]) -> Any:
        from ..distributed.lazy import mapped

        return mapped(method, self, given, rows)

    return _or_later(method, later, lambda self: grouped)


def _or_later(method: F, later: Callable[[Any, dict[str, Any]], Any], grouped: Callable[[Any], bool]) -> F:
    """The method, and for Dask collections what is to be done later with its arguments, by their names."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        X = arguments[0] if arguments else options.get("X")
        if not is_collection(X):
            return method(self, *arguments, **options)
        from ..distributed.lazy import bound

        given = bound(method, self, arguments, options)
        if grouped(self):
            check_groups(type(self).__name__, given)
        return later(self, given)

    return call  # type: ignore[return-value]


def check_groups(name: str, given: dict[str, Any]) -> None:
    """Refuse partitions whose groups nobody knows."""
    if given.get("groups") is None and given.get("qid") is None:
        raise ValueError(
            f"{name} needs an id for each row of a Dask collection, groups=... or qid=..., in the same partitions: without, each partition would be one group."
        )


def refuse_collections(estimator: Any, *values: Any) -> None:
    """For estimators whose fit needs all examples in memory."""
    if any(map(is_collection, values)):
        raise TypeError(
            f"{type(estimator).__name__} is fitted in memory, and was given a Dask collection: fit it to a sample, such as X.partitions[:4].compute(); "
            "its predictions for collections are lazy."
        )


def lazily_scored(method: F) -> F:
    """A method that is a mean over examples: of Dask collections, a number when it is asked for."""

    def later(self: Any, given: dict[str, Any]) -> Any:
        from ..distributed.lazy import scored

        return scored(method, self, given, _weight)

    return _or_later(method, later, lambda self: hasattr(self, "_groups_weight"))


def _weight(model: Any, parts: dict[str, Any]) -> float:
    """What a partition's examples weigh together."""
    weigh = getattr(model, "_groups_weight", None)
    if weigh is not None:
        return float(weigh(parts))
    return float(example_weights(parts.get("sample_weight"), count_examples("X", parts["X"]), part=True).sum())
