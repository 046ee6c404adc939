"""Models in files that are safe to load, written by skops, and what a stored model says about its format."""

from __future__ import annotations

import importlib
import json
import zipfile
from typing import Any

from ._checks import check_file, check_names
from .registry import NamesTravel

__all__ = ["FORMAT", "Portable", "load", "save"]

_HARMLESS = frozenset(["numpy.dtype"])  # which preprocessing steps of scikit-learn keep, and skops does not list
FORMAT = 1  # raised when a fitted model's attributes change so that an older file cannot be used


class Portable(NamesTravel):
    """Estimators whose stored form says in which format it is, and takes along the classes behind names."""

    def __getstate__(self) -> dict[str, Any]:
        from . import __version__

        return {**super().__getstate__(), "_taskloss_format": FORMAT, "_taskloss_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        found, version = state.pop("_taskloss_format", None), state.pop("_taskloss_version", "an unknown version")
        if found != FORMAT:
            from . import __version__

            raise ValueError(
                f"This {type(self).__name__} was stored by taskloss {version} in format {found}, and taskloss {__version__} reads format {FORMAT}: "
                f"fit it again, or load it with taskloss {version}."
            )
        super().__setstate__(state)


def save(model: Any, file: Any) -> None:
    """Write a fitted estimator, or a pipeline of such, to a file that `load` reads without running what is in it.

    Parameters
    ----------
    model : what to store.
    file : a path, or a file opened for writing bytes.
    """
    skops_io().dump(model, file)


def load(file: Any, trusted: Any = ()) -> Any:
    """Read a model that `save`, or skops itself, has written.

    Parameters
    ----------
    file : a path, or a file opened for reading bytes.
    trusted : names of types, beyond those of this package, NumPy, SciPy and scikit-learn, that may be made. A loss of
        your own, and libraries such as LightGBM, have to be named here.

    Notes
    -----
    Only classes of this package are trusted by themselves, none of its functions.
    """
    skops = skops_io()
    check_file(file)
    check_names("trusted", trusted)
    try:
        unknown = skops.get_untrusted_types(file=file)
    except (
        zipfile.BadZipFile,
        KeyError,
        json.JSONDecodeError,
    ) as error:  # no archive, or one without what skops puts into it
        raise ValueError(
            f"file must be a model that `save` has written, and {file!r} is none: {str(error).rstrip('.')}."
        ) from error
    foreign = [name for name in unknown if not _is_own_class(name) and name not in _HARMLESS and name not in trusted]
    gone = [name for name in foreign if _is_gone(name)]
    if gone:
        from . import __version__

        raise ValueError(
            f"{file} holds {', '.join(gone)}, which taskloss {__version__} does not have: fit the model again, or load it with the version that wrote it."
        )
    if foreign:
        raise ValueError(
            f"{file} holds objects of types that nobody has vouched for: {', '.join(foreign)}. Where you know who wrote it, pass "
            f"trusted={foreign!r}."
        )
    return skops.load(file, trusted=list(unknown))


def _is_own_class(name: str) -> bool:
    package, _, attribute = name.rpartition(".")
    if package.partition(".")[0] != __name__.partition(".")[0]:
        return False
    try:
        return isinstance(getattr(importlib.import_module(package), attribute, None), type)
    except ImportError:
        return False


def _is_gone(name: str) -> bool:
    """Whether a name is one of this package's, of another version."""
    package, _, attribute = name.rpartition(".")
    if package.partition(".")[0] != __name__.partition(".")[0]:
        return False
    try:
        return not hasattr(importlib.import_module(package), attribute)
    except ImportError:
        return True


def skops_io() -> Any:
    """skops.io, or the sentence that says how to have it."""
    try:
        import skops.io
    except ImportError:
        raise ImportError("Model files are written and read by skops: pip install 'taskloss[files]'.") from None
    return skops.io
