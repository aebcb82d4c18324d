"""`diffuse run --real MODULE`: modules that use NumPy itself, and how the program accesses them.

The program gets a *view* of such a module.  Functions and classes taken from it, and objects of its classes,
are views, too: a call through a view converts Diffuse's arrays to NumPy's, and its results back.  A function
of the program that is passed on is called with the reverse conversions.  The module itself, and all other
modules that import it, are unaffected.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from functools import update_wrapper
from importlib.machinery import PathFinder
from types import FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

from diffuse.intercept.imports import users
from diffuse.numpy.bridge.plain import Crossing, mapped


def check(names: Sequence[str]) -> None:
    """Raise ValueError for a name of `--real` that is not a module, or cannot be left to NumPy."""
    for name in names:
        if name.partition(".")[0] in ("numpy", "diffuse", "__main__"):
            raise ValueError(f"--real {name}: expected a module that the program imports, other than NumPy "
                             "and Diffuse; to run the whole program with NumPy, run it with python")
        spec, whole = None, ""
        for part in name.split("."):
            whole = f"{whole}.{part}" if whole else part
            if whole == part:
                spec = importlib.util.find_spec(part)
            else:
                places = spec.submodule_search_locations if spec is not None else None
                spec = PathFinder.find_spec(whole, places) if places is not None else None
            if spec is None:
                raise ValueError(f"--real {name}: there is no module {whole!r} beside the program or "
                                 "installed; expected a name as in the program's import statement")


class Realm:
    """The modules that use NumPy itself: those named, their submodules, and the user's modules that they
    import first."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._sides: dict[str, bool] = {}
        self._importing = threading.local()
        self._views: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def named(self, module: str) -> bool:
        """Is it a module that `--real` names, or a submodule of one?"""
        return any(module == name or module.startswith(name + ".") for name in self._names)

    def real(self, module: str) -> bool:
        """Does this module use NumPy itself, as far as is known?"""
        return self.named(module) or self._sides.get(module, False)

    def above(self, module: str) -> bool:
        """Is it a package that contains one of the modules named?"""
        return any(name.startswith(module + ".") for name in self._names)

    def _side(self, module: str) -> bool:
        """Whether an import statement in this module means NumPy itself.  A module seen for the first time
        inherits this from the module that imports it."""
        importing = getattr(self._importing, "real", False)
        return self.named(module) or self._sides.setdefault(module, importing)

    def answer(self, plain: Callable[..., Any], ours: Callable[..., Any], name: str, globals: Any,
               locals: Any, fromlist: Any, level: int) -> Any:
        """Execute an import statement of the user's."""
        owner = str(globals.get("__name__", ""))
        whole = name
        if level:
            package = globals.get("__package__") or owner.rpartition(".")[0]
            whole = importlib.util.resolve_name("." * level + name, package)
        real, before = self._side(owner), getattr(self._importing, "real", False)
        self._importing.real = real or self.named(whole)
        try:
            if real:
                found = plain(name, globals, locals, fromlist, level)
                self._compare(owner, whole)
                return found
            if not level and (self.named(whole) or self.above(whole)):
                found = plain(name, globals, locals, fromlist, level)
            else:
                found = ours(name, globals, locals, fromlist, level)
        finally:
            self._importing.real = before
        return self.module(found)

    def _compare(self, owner: str, module: str) -> None:
        """Warn if a real module imports a module that the program imported before, with Diffuse's NumPy."""
        if self._sides.get(module) is False and module != "__main__":
            known = vars(sys.modules.get(module, sys)).values()
            if any(getattr(value, "__name__", "") == "diffuse.numpy" for value in known):
                self._sides.pop(module)
                print(f"diffuse: {owner}, which --real names or one of these imports, gets {module} with "
                      f"Diffuse's NumPy: the program imported it first.  Add --real {module}",
                      file=sys.stderr)

    # -- what the program sees ---------------------------------------------------------------------------

    def module(self, found: ModuleType) -> Any:
        """A view of a module that is real or contains a real one; other modules as they are."""
        if isinstance(found, RealView) or not isinstance(found, ModuleType):
            return found
        name = found.__name__
        return self._view(found, ModuleView) if self.real(name) or self.above(name) else found

    def raised(self, value: Any, crossing: Crossing) -> Any:
        """Convert a value of a real module for the program."""
        return mapped(value, lambda leaf: self._raised(leaf, crossing))

    def _raised(self, value: Any, crossing: Crossing) -> Any:
        if isinstance(value, Callback):
            return value.function
        if isinstance(value, RealView):
            return value
        if isinstance(value, ModuleType):
            return self.module(value)
        kind = type(value)
        if isinstance(value, type):
            plain = issubclass(value, (BaseException, Enum)) or not self.real(value.__module__)
            return value if plain else self._view(value, ClassView)
        if self.real(kind.__module__ or "") and not isinstance(value, (BaseException, Enum, type)):
            return self._view(value, _class_of(kind))
        if callable(value) and self._programs(value):
            return value
        if callable(value):  # a context manager that `contextlib` makes is callable, too: as a decorator
            return self._view(value, _class_of(kind) if hasattr(kind, "__enter__") else FunctionView)
        return crossing.raised(value)

    def _programs(self, value: Any) -> bool:
        """Is it a function of the program, or an object of one of its classes?"""
        names = getattr(value, "__globals__", None) or vars(sys.modules.get(type(value).__module__, sys))
        return users(names) and not self.real(str(names.get("__name__")))

    def lowered(self, value: Any, crossing: Crossing) -> Any:
        """Convert a value of the program for a real module."""
        return mapped(value, lambda leaf: self._lowered(leaf, crossing))

    def _lowered(self, value: Any, crossing: Crossing) -> Any:
        if isinstance(value, RealView):
            return _real(value)
        if isinstance(value, (FunctionType, MethodType)) and self._programs(value):
            return self._view(value, Callback)
        return crossing.lowered(value)

    def _view(self, value: Any, kind: Callable[[Any, Realm], Any]) -> Any:
        """The view of an object, made at most once, so that the program always gets the same view of an
        object. The view keeps the object alive, and is forgotten when the program drops it."""
        found = self._views.get(id(value))
        if found is None or (found.function if isinstance(found, Callback) else _real(found)) is not value:
            found = kind(value, self)
            self._views[id(value)] = found
        return found

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function of a real module for the program."""
        crossing = Crossing()
        given = [self.lowered(value, crossing) for value in args]
        named = {name: self.lowered(value, crossing) for name, value in kwargs.items()}
        return self.raised(function(*given, **named), crossing)


class Callback:
    """A function of the program that a real module may call."""

    def __init__(self, function: Callable[..., Any], realm: Realm) -> None:
        update_wrapper(self, function)
        self.function, self._realm = function, realm

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        crossing = Crossing()
        given = [self._realm.raised(value, crossing) for value in args]
        named = {name: self._realm.raised(value, crossing) for name, value in kwargs.items()}
        return self._realm.lowered(self.function(*given, **named), crossing)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __reduce__(self) -> Any:
        return _itself, (self.function,)


def _itself(value: Any) -> Any:
    return value


_OWN = ("_real_object", "_realm_of_it", "__mro_entries__", "__reduce_ex__")
"""Attributes of the view itself, not of the object that it shows."""


def _real(view: Any) -> Any:
    return object.__getattribute__(view, "_real_object")


def _realm(view: Any) -> Realm:
    found: Realm = object.__getattribute__(view, "_realm_of_it")
    return found


class RealView:
    """The program's view of an object of a real module."""

    _real_object: Any
    _realm_of_it: Realm

    def __init__(self, value: Any, realm: Realm) -> None:
        object.__setattr__(self, "_real_object", value)
        object.__setattr__(self, "_realm_of_it", realm)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return object.__getattribute__(self, name)
        return _realm(self).raised(getattr(_real(self), name), Crossing())

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_real(self), name, _realm(self).lowered(value, Crossing()))

    def __delattr__(self, name: str) -> None:
        delattr(_real(self), name)

    def __dir__(self) -> Any:
        return dir(_real(self))

    def __repr__(self) -> str:
        return repr(_real(self))

    def __eq__(self, other: Any) -> Any:
        return _realm(self).call(_real(self).__eq__, (other,), {})

    def __hash__(self) -> int:
        return hash(_real(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _itself, (_real(self),)


class ModuleView(RealView, ModuleType):
    """A view of a module; of a package that is not real itself, only real modules are shown as views."""

    def __init__(self, value: Any, realm: Realm) -> None:
        ModuleType.__init__(self, value.__name__)
        RealView.__init__(self, value, realm)

    def __getattribute__(self, name: str) -> Any:
        real, realm = _real(self), _realm(self)
        if name == "__dict__":
            return vars(real)
        if name == "__all__" and not hasattr(real, "__all__"):
            return [known for known in vars(real) if not known.startswith("_")]
        value = getattr(real, name)
        if realm.real(real.__name__) and not (name.startswith("__") and name.endswith("__")):
            return realm.raised(value, Crossing())
        return realm.module(value) if isinstance(value, ModuleType) else value


class FunctionView(RealView):
    """A view of a function, or of any other callable."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _realm(self).call(_real(self), args, kwargs)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        binds = hasattr(type(_real(self)), "__get__")
        return self if owner is None or not binds else MethodType(self, owner)


class ClassView(RealView):
    """A view of a class, whose instances are views.  Classes derived from it are the program's own."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _realm(self).call(_real(self), args, kwargs)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(_real(value) if isinstance(value, RealView) else value, _real(self))

    def __subclasscheck__(self, kind: Any) -> bool:
        return issubclass(_real(kind) if isinstance(kind, RealView) else kind, _real(self))

    def __mro_entries__(self, bases: Any) -> tuple[Any, ...]:
        return (_real(self),)

    def __getitem__(self, item: Any) -> Any:
        return _realm(self).call(_real(self).__class_getitem__, (item,), {})

    def __or__(self, other: Any) -> Any:
        return _real(self) | (_real(other) if isinstance(other, RealView) else other)

    def __ror__(self, other: Any) -> Any:
        return other | _real(self)


OURS = frozenset("""__class__ __new__ __init__ __init_subclass__ __subclasshook__ __getattribute__ __getattr__
    __setattr__ __delattr__ __dir__ __repr__ __eq__ __hash__ __reduce__ __reduce_ex__ __getstate__
    __setstate__ __del__ __sizeof__ __dict__ __weakref__ __slots__ __doc__ __module__ __qualname__
    __class_getitem__ __array_ufunc__ __array_function__""".split())
"""Special names that a view defines itself, or that are never looked up on a view."""
RAW = frozenset(("__array__", "__array_interface__", "__array_struct__"))
"""Special names by which NumPy requests an object's array data."""

_classes: dict[type, Any] = {}


def _class_of(kind: type) -> Any:
    """The class of views of a class's objects, which defines their special methods, as Python requires."""
    found = _classes.get(kind)
    if found is None:
        special = {name: _special(name) for name in dir(kind)
                   if name.startswith("__") and name.endswith("__") and name not in OURS
                   and callable(getattr(kind, name, None))}
        if kind.__hash__ is None:
            special["__hash__"] = None
        found = _classes[kind] = type(kind.__name__, (RealView,), special)
    return found


def _special(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(_real(self), name)
        return function(*args, **kwargs) if name in RAW else _realm(self).call(function, args, kwargs)

    return method


