"""Parts by name: one registry per folder feeds the strings users type, the tests' laws, the command line and the docs."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator


class Part(BaseEstimator):
    """A piece of the equation: hyperparameters only, comparable, cheap to copy.

    A direct child (`Loss`, `Surrogate`, ...) opens a registry; a class below it that sets `name` enters that
    registry, whether it lives in this package or in a user's own file.
    """

    name: ClassVar[str]
    registry: ClassVar[dict[str, type[Part]]]
    aliases: ClassVar[
        dict[str, str]
    ] = {}  # hyperparameters that share their name with a method, and where they are kept

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Part in cls.__bases__:
            cls.registry = {}
        elif "name" in cls.__dict__:
            cls.registry[cls.name] = cls

    @classmethod
    def examples(cls) -> list[Self]:
        """Small instances, on which the laws are tested and which the docs show."""
        return [cls()]

    @classmethod
    def resolve(cls, spec: Any) -> Self:
        """An instance from an instance, a class or a registered name."""
        if isinstance(spec, str):
            if spec not in cls.registry:
                known = ", ".join(sorted(cls.registry))
                raise ValueError(f"There is no {cls.__name__.lower()} named {spec!r}; choose one of: {known}.")
            spec = cls.registry[spec]
        if isinstance(spec, type) and issubclass(spec, cls):
            spec = spec()
        if not isinstance(spec, cls):
            raise TypeError(f"Expected a {cls.__name__.lower()} or the name of one, got {type(spec).__name__}.")
        return spec

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
