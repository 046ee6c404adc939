"""How kernels are compiled and where their machine code is kept.

numba refuses to compile a function with `cache=True` where it finds no directory to write to, and never reads a cache
that it cannot also write: a container with a read-only file system could not use what was compiled when it was built.
Here every place is read, the first that can be written is written, and where there is none the code is compiled for
this process alone, with one warning.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _Cache

from ..progress import warn

_UNREADABLE = (OSError, EOFError, pickle.UnpicklingError)  # another user's file, or one cut off by a full disk


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options, and with a cache wherever there is a place for one."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        dispatcher._cache = KernelCache(function)
        return dispatcher

    return compiled


class KernelCache(_Cache):
    """The cached machine code of one kernel: read from every place that numba knows, kept in the first that can be written."""

    warned = False

    def __init__(self, function: Callable[..., Any]):
        self.name = function.__name__
        self.places = [
            place for locator in CompileResultCacheImpl._locator_classes for place in _place(locator, function)
        ]

    @property
    def cache_path(self) -> str | None:
        return self.places[0].cache_path if self.places else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        for place in self.places:
            try:
                found = place.load_overload(sig, target_context)
            except _UNREADABLE:
                continue
            if found is not None:
                return found
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        for place in self.places:
            try:
                place._impl.locator.make_cache_path()
                return place.save_overload(sig, cres)
            except _UNREADABLE:
                continue
        self._warn()

    def _warn(self) -> None:
        """Once in a process, from whichever kernel comes first."""
        if not KernelCache.warned:
            KernelCache.warned = True
            warn(
                f"The kernel {self.name!r} was compiled for this process alone, and so will others be: no directory for numba's cache can be "
                "written. Set NUMBA_CACHE_DIR to one that can, or run `taskloss compile` once where it can.",
                RuntimeWarning,
                stacklevel=2,
            )

    def enable(self) -> None:
        for place in self.places:
            place.enable()

    def disable(self) -> None:
        for place in self.places:
            place.disable()

    def flush(self) -> None:
        for place in self.places:
            place.flush()


def _place(locator: type, function: Callable[..., Any]) -> list[FunctionCache]:
    """numba's cache of a function at the one place that this locator names, made without a test whether it can be written."""
    own = {"ensure_cache_path": lambda self: None, "make_cache_path": locator.ensure_cache_path}  # type: ignore[attr-defined]
    implementation = type("Place", (CompileResultCacheImpl,), {"_locator_classes": [type("Locator", (locator,), own)]})
    try:
        return [type("PlaceCache", (FunctionCache,), {"_impl_class": implementation})(function)]
    except (
        RuntimeError
    ):  # the locator is for other functions: of notebooks, of archives, or of a directory that is not set
        return []
