"""Mirrors: modules that stand for submodules of NumPy and SciPy that have no file here.

A mirror looks a name up when it is first used; its library decides which object the name is (`mirrored`).
Programs that read the `__dict__` of such a module, or of another one that looks names up (`Whole`), get all.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Member = Callable[[ModuleType, str], Any]
"""Maps a module of the library and a name in it to the mirror's object of this name."""

OWN = ("__name__", "__package__", "__path__", "__spec__", "__loader__", "__builtins__", "__cached__")
"""Attributes that Python's import system reads: a mirror's own, never those of the library's module."""

_members: dict[str, Member] = {}


def mirrored(package: str, member: Member) -> None:
    """Resolve imports of `package` and of modules below it that have no file here to mirrors of the library's
    own."""
    if not _members:
        sys.meta_path.append(_Finder())
    _members[package + "."] = member


class Whole(ModuleType):
    """A module that looks names up when they are used, and all of them when somebody reads its `__dict__`.

    Its attributes take no longer to read than those of a plain module with a `__getattr__`.
    """

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The module's namespace (`vars(np)`), with every name that the library's own module has by now."""
        known: dict[str, Any] = _namespace(self)
        for name in [*vars(_module(self.__name__.removeprefix("diffuse.")))]:
            if name not in known and not name.startswith("__"):
                with suppress(AttributeError):
                    known.setdefault(name, getattr(self, name))
        return known

    def __reduce__(self) -> Any:
        """Pickle as a reference, as libraries that send functions to other processes pickle plain modules."""
        return _module, (self.__name__,)


_namespace = vars(ModuleType)["__dict__"].__get__
"""The namespace of a module as it is."""


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


class Mirror(Whole):
    """A submodule with its functions wrapped, each when it is first used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        _namespace(self)["__builtins__"] = builtins  # as every module of Python's or Cython's has
        # a class's would not handle `module.__getattribute__(name)`
        _namespace(self)["__getattr__"] = self._find

    def _find(self, name: str) -> Any:
        real = importlib.import_module(self.__name__.removeprefix("diffuse."))
        if name.startswith("__") and (name in OWN or callable(vars(real).get(name, callable))):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        value = _member(self.__name__)(real, name)
        if name in vars(real):  # a module's `__getattr__` may warn of each use of the names that it provides
            setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__name__.removeprefix("diffuse.")))


def _member(module: str) -> Any:
    """The function that resolves the names of a module; None for modules that are not mirrors."""
    return next((found for package, found in _members.items() if (module + ".").startswith(package)), None)


class _Finder:
    """Finds `diffuse.numpy.X` where `numpy.X` exists and Diffuse has no file of its own."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        if _member(fullname) is None:
            return None
        try:
            found = importlib.util.find_spec(fullname.removeprefix("diffuse."))
        except (ImportError, ValueError):
            return None
        loader: Any = self
        return None if found is None else ModuleSpec(fullname, loader, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Mirror(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Execute nothing: a mirror looks its names up when they are used."""
