"""Parts by name: one registry per folder feeds the strings users type, the tests' laws, the command line and the docs."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:

    class BaseEstimator:
        """What parts take from scikit-learn's class, which is untyped: as its children they could be asked for anything."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        @classmethod
        def _get_param_names(cls) -> list[str]: ...
        def __getstate__(self) -> dict[str, Any]: ...

else:
    from sklearn.base import BaseEstimator

from ._arguments import guard

_FEW = 100  # longer lists hold data, not parts


class NamesTravel:
    """Takes the classes behind names along to other processes: an estimator or part that says loss="mine" finds it there.

    A name is only a string to pickle; a worker that starts anew has the names of this package alone. Where a
    hyperparameter is the name of somebody else's part, its class is pickled with the object (by value where cloudpickle
    does that, as in joblib's workers, and by its module elsewhere), and enters the registry where the object is read.
    """

    _TRAVELLING = "_taskloss_parts"

    @classmethod
    @functools.cache
    def _get_param_names(cls) -> list[str]:
        """scikit-learn's, which reads the signature each time: a fit of a few milliseconds asks for these names often."""
        found: list[str] = super()._get_param_names()  # type: ignore[misc]
        return found

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        parts = foreign_parts(vars(self).values())
        return {**state, self._TRAVELLING: parts} if parts else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        for part in state.pop(self._TRAVELLING, ()):
            part.enter()
        setstate = getattr(super(), "__setstate__", self.__dict__.update)
        setstate(state)


class Part(NamesTravel, BaseEstimator):
    """A piece of the equation: hyperparameters only, comparable, cheap to copy.

    A direct child (`Loss`, `Surrogate`, ...) opens a registry; a class below it that sets `name` enters that
    registry, whether it lives in this package or in a user's own file.
    """

    name: ClassVar[str]
    registry: ClassVar[dict[str, type[Part]]]
    aliases: ClassVar[
        dict[str, str]
    ] = {}  # hyperparameters that share their name with a method, and where they are kept
    guarded: ClassVar[tuple[str, ...]] = ()  # methods that users call: where one fails, `diagnose` says why

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in cls.guarded:
            if name in cls.__dict__:
                setattr(cls, name, guard(cls.__dict__[name]))
        if Part in cls.__bases__:
            cls.registry = {}
        elif "name" in cls.__dict__:
            cls.enter()

    @classmethod
    def enter(cls) -> None:
        """Make this class known by its name. The same class defined again, as by a notebook's cell, takes its own place."""
        known = cls.registry.get(cls.name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            kind = next(base for base in cls.__mro__ if Part in base.__bases__).__name__
            raise ValueError(
                f"The name {cls.name!r} is taken by {known.__module__}.{known.__qualname__}: give {cls.__qualname__} another, or free it first "
                f"by del {kind}.registry[{cls.name!r}]."
            )
        cls.registry[cls.name] = cls

    @classmethod
    def examples(cls) -> list[Self]:
        """Small instances, on which the laws are tested and which the docs show."""
        return [cls()]

    @classmethod
    def resolve(cls, spec: Any) -> Self:
        """An instance from an instance, a class or a registered name."""
        if isinstance(spec, cls):
            return spec
        if isinstance(spec, str):
            if spec not in cls.registry:
                known = ", ".join(sorted(cls.registry))
                raise ValueError(
                    f"There is no {cls.__name__.lower()} named {spec!r}; choose one of: {known}. One of your own has its name once the file "
                    "that defines it is imported."
                )
            spec = cls.registry[spec]
        if isinstance(spec, type) and issubclass(spec, cls):
            spec = spec()
        if not isinstance(spec, cls):
            raise TypeError(f"Expected a {cls.__name__.lower()} or the name of one, got {type(spec).__name__}.")
        return spec

    def diagnose(self, given: dict[str, Any], error: Exception) -> None:
        """Raise a sentence about the one of a method's arguments that made it fail, where there is one."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        values = {key: getattr(self, self.aliases.get(key, key)) for key in self._get_param_names()}
        if deep:
            for key, value in list(values.items()):
                if isinstance(value, BaseEstimator):
                    values.update({f"{key}__{inner}": v for inner, v in value.get_params().items()})
        return values

    def set_params(self, **params: Any) -> Self:
        for name, attribute in self.aliases.items():
            if name in params:
                setattr(self, attribute, params.pop(name))
        return super().set_params(**params)

    def with_params(self, **params: Any) -> Self:
        """A copy with some hyperparameters changed."""
        return type(self)(**{**self.get_params(deep=False), **params})

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_same(mine[key], theirs[key]) for key in mine)

    __hash__ = None  # type: ignore[assignment]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if hasattr(a, "shape") or hasattr(b, "shape"):
        return getattr(a, "shape", None) == getattr(b, "shape", None) and bool((a == b).all().all())
    return bool(a == b)


def foreign_parts(values: Iterable[Any]) -> list[type[Part]]:
    """The classes outside this package that strings among these values, or in their lists and mappings, are names of."""
    found: list[type[Part]] = []
    package = __name__.partition(".")[0]
    for value in values:
        if isinstance(value, str):
            parts = [kind.registry.get(value) for kind in Part.__subclasses__()]
            found += [part for part in parts if part is not None and part.__module__.partition(".")[0] != package]
        elif isinstance(value, list | tuple):
            found += foreign_parts(value[:_FEW])
        elif isinstance(value, dict):
            found += foreign_parts(list(value.values())[:_FEW])
    return list(dict.fromkeys(found))


def publish(package: str, kind: type[Part]) -> list[str]:
    """Import every file of a folder and export its public parts from the folder; a new part is then one new file."""
    module = sys.modules[package]
    names = [kind.__name__]
    for info in sorted(pkgutil.iter_modules(module.__path__), key=lambda i: i.name):
        file = importlib.import_module(f"{package}.{info.name}")
        for name, value in vars(file).items():
            if isinstance(value, type) and issubclass(value, kind) and value.__module__ == file.__name__:
                setattr(module, name, value)
                names.append(name)
    return sorted(set(names))
