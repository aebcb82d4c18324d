"""Adapts functions of libraries whose C code requires `numpy.ndarray`, so that they also accept Diffuse
arrays.

`adapted.py` imports this module after the first of these libraries was imported, or for those imported before
Diffuse.  Functions that cannot be replaced from Python (functions and methods of Cython modules) are not
adapted: they need `diffuse.to_numpy(x)`, or `diffuse run --real MODULE`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import update_wrapper, wraps
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge import fallback
from diffuse.numpy.bridge.namespace import Standing
from diffuse.numpy.bridge.plain import plain, sparse
from diffuse.numpy.ops.ufuncs import ufunc
from diffuse.numpy.small import native

OURS = "diffuse.numpy"


def adapt(module: ModuleType, paths: Iterable[str]) -> None:
    """Replace these functions of a library (adapted.py), if this version of it has them."""
    for path in paths:
        if path == "@njit":
            from diffuse.numpy.bridge import jitted  # which imports Numba

            jitted.register()
            continue
        if path == "@generators":
            generators_shuffle(module)
            continue
        if path == "@indexing":
            index_as_numpy(module)
            continue
        mark, _, called = path.rpartition(" ")
        wrappers: dict[str, Callable[[Any], Any]] = {
            "->": PlainResults, "=>": giving_receivers, "#": given_numbers,
            "is": given_numpys, "()": given_scalars, "~": given_floats}
        adapted = wrappers[mark] if mark else given_plain
        owner: Any = module
        *holders, last = called.split(".")
        for holder in holders:
            owner = getattr(owner, holder, None)
        for name in [] if owner is None else functions(owner) if last == "*" else [last]:
            found = vars(owner).get(name)
            if isinstance(found, (classmethod, staticmethod)):
                setattr(owner, name, type(found)(adapted(found.__func__)))
            elif found is not None:
                new = received(found) if is_fortran(found) else adapted(found)
                if isinstance(owner, ModuleType) and isinstance(new, FunctionType):
                    new.__module__ = owner.__name__  # where pickle finds it; SciPy names a private module
                setattr(owner, name, new)


def generators_shuffle(random: Any) -> None:
    """Let NumPy's own generators shuffle and fill Diffuse's arrays, if the extension is there."""
    def run(method: Any, generator: Any, /, *args: Any, **kwargs: Any) -> Any:
        path = f"numpy.random.{method.__name__}"
        return fallback.call(method.__get__(generator), args, kwargs, path, "source")

    if native is not None:
        for name in "shuffle permuted random standard_normal standard_exponential standard_gamma".split():
            native.teach_generator(vars(random.Generator)[name], run)
        native.teach_generator(vars(random.RandomState)["shuffle"], run)


def index_as_numpy(xarray: Any) -> None:
    """Let `xarray.core.indexing` read and write Diffuse's arrays as it does arrays with NumPy's indexing.

    From an array with `__array_namespace__` it expects the indexing of the array API, which has no arrays of
    indices: it hands `a[[0, 1], [2, 3]] = v` on as it is, which means other elements to NumPy.
    """
    plain, numpys = getattr(xarray, "ArrayApiIndexingAdapter", None), xarray.NdArrayLikeIndexingAdapter

    def new(cls: type, array: Any = None) -> Any:
        return numpys(array) if type(array) in core.ARRAYS else object.__new__(cls)

    if plain is not None:
        plain.__new__ = new


def functions(module: ModuleType) -> list[str]:
    """The names of a module's public functions, and of those that f2py made."""
    public = getattr(module, "__all__", ())
    return [name for name, value in vars(module).items()
            if name in public and inspect.isroutine(value) or is_fortran(value)]


def is_fortran(value: Any) -> bool:
    """Is it a function that f2py made?  Such a function copies an argument before it overwrites it, but only
    if the argument is a NumPy array: it overwrites the memory of other objects that convert to one."""
    return value.__class__.__name__ == "fortran" and callable(value)


def given_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to receive NumPy's array, or SciPy's sparse one, for each argument, or item of a tuple
    or list, that is one of Diffuse's, and for each result of a function among its arguments.  An argument
    that it returns is the program's.  f2py's functions get functions as they are, because they count these
    functions' arguments."""
    convert = plain_inside if is_fortran(function) else taken

    def run(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if type(value) in core.ARRAYS or type(value) in HOLDERS or sparse(type(value)):
                named = {key: convert(value) for key, value in kwargs.items()}
                given = *map(convert, args), *named.values()
                found = function(*given[:len(args)], **named)
                back = {id(new): old for new, old in zip(given, (*args, *kwargs.values()), strict=True)}
                return back.get(id(found), found)
        return function(*args, **kwargs)

    return update_wrapper(run, function)


def given_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that finds the common type of an array of objects in C: NumPy's numbers take the places
    of pending ones, which it does not know.  Texts have no common type with numbers."""
    def run(objects: Any, *args: Any, **kwargs: Any) -> Any:
        if type(objects) is numpy.ndarray and objects.dtype == object and objects.size:
            flat = objects.reshape(-1).tolist()
            if type(flat[0]) is not str and not core.PENDING.isdisjoint(map(type, flat)):
                objects = numpy.empty(objects.shape, object)
                objects.reshape(-1)[:] = [*map(plain, flat)]
        return function(objects, *args, **kwargs)

    return update_wrapper(run, function)


def given_scalars(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function in C that asks whether a value is a number, or NumPy's array without dimensions, to
    receive these for pending numbers and for Diffuse's arrays without dimensions."""
    def run(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) in core.ARRAYS and args[0].ndim == 0:
            return function(plain(args[0]), *args[1:], **kwargs)
        return function(*args, **kwargs)

    return update_wrapper(run, function)


def given_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `curve_fit`, so that it converts data in Diffuse's arrays to floats and checks them for NaN, as it
    does with NumPy's arrays; the program's function still gets Diffuse's arrays."""
    form = inspect.signature(function)

    def run(*args: Any, **kwargs: Any) -> Any:
        data = args[1] if len(args) > 1 else kwargs.get("xdata")
        if type(data) is core.array_class:
            given = form.bind(*args, **kwargs)
            checks = given.arguments.get("check_finite")
            if checks is None:
                checks = given.arguments.get("nan_policy") is None
            convert = vars(sys.modules[OURS])["__getattr__"]("asarray_chkfinite" if checks else "asarray")
            given.arguments["xdata"] = convert(data, float)
            return function(*given.args, **given.kwargs)
        return function(*args, **kwargs)

    return update_wrapper(run, function)


def given_numpys(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that compares an argument with functions or modules of NumPy (`statistic in {np.mean}`,
    `seed is np.random`) to receive NumPy's for Diffuse's."""
    inner: Any = function
    if f"{function.__module__}.{function.__qualname__}" in INSTEAD:
        return function  # by another name of it
    if type(function) is FunctionType and function.__closure__ is None:
        inner = FunctionType(function.__code__, function.__globals__, function.__name__,
                             function.__defaults__)
        inner.__kwdefaults__ = function.__kwdefaults__

    def run(*args: Any, **kwargs: Any) -> Any:
        return inner(*map(numpys, args), **{key: numpys(value) for key, value in kwargs.items()})

    return update_wrapper(run, function) if inner is function else instead(function, run)


INSTEAD: dict[str, Callable[..., Any]] = {}
"""What runs in the place of functions that other modules may already have under names of their own."""


def instead(function: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of Python call `run` in its place.  The function object stays: modules that were
    imported before Diffuse have it, too."""
    key = f"{function.__module__}.{function.__qualname__}"
    INSTEAD[key] = run
    scope: dict[str, Any] = {}
    exec(f"def {function.__name__}(*args, **kwargs):\n"
         f"    from {__name__} import INSTEAD\n"
         f"    return INSTEAD[{key!r}](*args, **kwargs)", scope)
    code = scope[function.__name__].__code__
    function.__signature__ = inspect.signature(function)
    function.__code__ = code.replace(co_filename=function.__code__.co_filename,
                                     co_firstlineno=function.__code__.co_firstlineno)
    function.__defaults__ = function.__kwdefaults__ = None
    found: Callable[..., Any] = function
    return found


def numpys(value: Any) -> Any:
    """The function or module of NumPy or SciPy that a public one of Diffuse's stands for; anything else as it
    is."""
    name = getattr(value, "__name__", None)
    if type(name) is not str:
        return value
    if isinstance(value, ModuleType):
        return sys.modules.get(name.removeprefix("diffuse."), value) if name.startswith(OURS) else value
    if str(getattr(value, "__module__", "")).startswith("diffuse.scipy"):
        return getattr(value, "__wrapped__", value)
    ours = vars(sys.modules[OURS]).get(name) is value
    return getattr(numpy, name, value) if ours else value


class Receiver(Standing):
    """Stands for an object in C, and receives NumPy's arrays for Diffuse's in its methods and when called."""

    __slots__ = ("_real", "_call", "_methods")

    def __init__(self, real: Any, call: Callable[..., Any] | None = None) -> None:
        self._real = real
        self._call = call or given_plain(real)
        self._methods: dict[str, Callable[..., Any]] = {}
        """The wrapped methods in C, which no program replaces."""

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self._real.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = self._methods.get(name)
        if found is not None:
            return found
        value = getattr(self._real, name)
        if not callable(value):
            return value
        found = given_plain(value)
        if type(value) is BuiltinMethodType:
            self._methods[name] = found
        return found

    def __dir__(self) -> list[str]:
        return dir(self._real)

    def __repr__(self) -> str:
        return repr(self._real)


def giving_receivers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to receive NumPy's arrays, and to return an object, or a list of some, that does so."""
    function = given_plain(function)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return [received(x) for x in found] if type(found) is list else received(found)

    return run


def received(value: Any) -> Receiver:
    """The receiver of an object; the object itself, if it is one."""
    return value if type(value) is Receiver else Receiver(value)


class PlainResults:
    """Wraps a function, or a method of a class, to return NumPy's arrays instead of Diffuse's, also after it
    was sent to another process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return plain_inside(self._function(*args, **kwargs))

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __reduce__(self) -> Any:
        return PlainResults, (self._function,)


FUNCTIONS = (FunctionType, MethodType, ufunc)
HOLDERS = (tuple, list, *FUNCTIONS)
"""Classes of arguments that may hold arrays, or return some."""


def taken(value: Any) -> Any:
    """Convert an argument for a function that supports NumPy's arrays only."""
    if type(value) in FUNCTIONS:
        return value if str(value.__module__).startswith("scipy.") else PlainResults(value)
    return plain_inside(value)


def plain_inside(value: Any) -> Any:
    """Convert a Diffuse array, or those in a tuple or list, to NumPy's."""
    if type(value) is list:
        return value if core.ARRAYS.isdisjoint(map(type, value)) else [*map(plain, value)]
    return tuple(map(plain, value)) if type(value) is tuple else plain(value)
