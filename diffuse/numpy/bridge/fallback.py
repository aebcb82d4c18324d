"""Falls back to NumPy: runs a call on Diffuse arrays as the same call on NumPy arrays over the same memory.

Arguments are converted without copying, so that `out=` and in-place functions work; results that are views of
an argument's memory come back as Diffuse arrays over that memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import takewhile
from operator import is_
from sys import getrefcount
from typing import Any

import numpy

from diffuse import library, settings
from diffuse.library import floaterrors, provenance, trace
from diffuse.numpy.arrays import base, core, soon
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import BASE, NATIVE, RESERVE, Mirror, address
from diffuse.numpy.arrays.lending import owned
from diffuse.numpy.bridge import exposed, overrides
from diffuse.numpy.ops.operands import answering, refused, shared, wrap
from diffuse.numpy.ops.readers import READERS, SCIPYS, reads
from diffuse.settings import config

SILENT = {
    "description": "asks for shape or type only: NumPy looks at the array's description, and nothing waits",
    "inspection": "reads a few values, or raises NumPy's own error",
    "test": "compares values; the program wants to know them now",
    "library": "whole-array libraries (LAPACK, pocketfft): several matrices or lines on all threads",
    "source": "fills arrays that did not exist before, at NumPy's own speed",
    "order": "sorts, searches and counts: of large arrays on all threads, where bits allow it",
    "text": "ends in text or in a file",
    "foreign": "another library's array, to which NumPy delegates the call",
}
"""The reasons for which a call to NumPy needs no warning, as nothing is lost by it."""

BULK = (None, "library")
"""Reasons of functions that compute with all elements, as cuPyNumeric might where NumPy cannot."""

KEEPERS = (numpy.nditer, numpy.broadcast, numpy.flatiter, numpy.ndenumerate, memoryview)
"""Results that hold on to their arguments' memory without being arrays."""

_warned: set[tuple[Any, str]] = set()
"""Call sites that were warned, each with the function that it called."""
_told: list[set[Any]] = []
"""The same call sites for each function that only reads its arguments and gives a warning."""


listener: Callable[[str, str | None, int], None] | None = None
"""Called for each call that goes to NumPy, with its name, the reason for no warning, and the number of
elements of its largest array (`diffuse coverage`)."""


in_pieces: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any] | None] | None] = dict.fromkeys(
    ("numpy.convolve", "numpy.correlate", "numpy.apply_along_axis"))
"""The functions of NumPy that need only pieces of distributed arrays at a time.  For each, when pieces.py is
imported: returns the result in a tuple, or None if NumPy has to compute it from whole arrays."""


LOWERED: dict[type, Callable[[Any], Any]] = {}
"""For metaclasses of classes whose objects compute with Diffuse's arrays: what such an object becomes for
code that has NumPy's arrays."""

_IN_TURN = [getrefcount(v) for v in [object()]][0] + 1
"""The reference count of an object that only a list holds, while it is an argument in a loop over that
list."""


class Conversion:
    """The arrays among some arguments: NumPy's view of each, and the program's object for it."""

    __slots__ = ("pairs", "elements", "described", "seen", "_memory")

    def __init__(self, described: bool = False, reads: bool = False) -> None:
        self.pairs: list[tuple[numpy.ndarray[Any, Any], Any]] = []
        self.elements = 0
        """Elements of the largest Diffuse array."""
        self.described = described
        """Replace an array by its description (`meta`), whose elements must not be read."""
        self._memory = base.locked if reads else base.writable
        self.seen: list[tuple[Array, Mirror, bytes]] = []
        """Arrays whose store another library holds: the host's copy of each, and its previous elements."""

    def lowered(self, value: Any) -> Any:
        """Replace Diffuse's arrays in `value` by NumPy's, at any depth of lists, tuples and dicts.  A list or
        dict without any is returned itself: a function (a callback, say) may change it for the program."""
        kind = type(value)
        if kind in core.NUMBERS:
            return value
        if isinstance(value, Array):
            if self.described:
                return value.meta if kind is core.array_class else value.form.dtype.type(0)
            root = value if value.owner is None else value.owner
            plain = self._memory(value) if root.storage is not None or value.memory is None else value.memory
            if kind is not core.array_class:
                return plain[()]
            if value.storage is not None and value.storage.shared and value.meta.flags.writeable:
                self.seen.append((value, plain, plain.tobytes()))
            self.pairs.append((plain, value))
            self.elements = max(self.elements, plain.size)
            return plain
        if kind is numpy.ndarray:
            self.pairs.append((value, value))
        elif kind is list:
            items = [self.lowered(v) for v in value]
            return value if all(map(is_, items, value)) else items
        elif kind is dict:
            named = {k: self.lowered(v) for k, v in value.items()}
            return value if all(map(is_, named.values(), value.values())) else named
        elif kind is slice:
            return slice(self.lowered(value.start), self.lowered(value.stop), self.lowered(value.step))
        elif isinstance(value, tuple):
            items = [self.lowered(v) for v in value]
            return value if all(map(is_, items, value)) else rebuilt(value, items)
        elif type(kind) in LOWERED:
            return LOWERED[type(kind)](value)
        else:
            overrides.meet(kind)
        return value

    def put_back(self) -> None:
        """Write back to the stores what the function wrote into copies of them."""
        for ours, plain, before in self.seen:
            if plain.tobytes() != before:
                base.wrote(ours)

    def raised(self, value: Any, held: bool = True) -> Any:
        """Convert a result for the program: NumPy arrays in it become Diffuse arrays.  `held`: not only a
        variable of the caller refers to it."""
        if type(value) is numpy.ndarray:
            return self._array(value, held)
        if type(value) is list:
            return [self.raised(v, held or getrefcount(v) > _IN_TURN) for v in value]
        if type(value) is dict:
            return {k: self.raised(v, held or getrefcount(v) > _IN_TURN) for k, v in value.items()}
        if isinstance(value, tuple):
            return rebuilt(value, [self.raised(v, held or getrefcount(v) > _IN_TURN) for v in value])
        if isinstance(value, (numpy.ndarray, *KEEPERS)):
            for plain, known in self.pairs:
                if isinstance(known, Array) and (isinstance(value, KEEPERS)
                                                 or numpy.may_share_memory(plain, numpy.asarray(value))):
                    base.shown(known)
        return value

    def _array(self, value: numpy.ndarray[Any, Any], held: bool) -> Any:
        for plain, known in self.pairs:
            if plain is value:
                return known
        for plain, known in self.pairs:
            if value.dtype in NATIVE and value.size and numpy.may_share_memory(plain, value):
                if isinstance(known, Array):
                    return looking_into(known, plain, value)
                return value if value.size < core.TINY else shared(value)
        if value.size < core.TINY:
            return value
        held = held or not owned(value) or value.base is not None and (
            getrefcount(value.base) > 2 or value.base.base is not None)
        return shared(value) if held else wrap(value)


def looking_into(ours: Array, plain: numpy.ndarray[Any, Any], value: numpy.ndarray[Any, Any]) -> Any:
    """A Diffuse view of the store of `ours` with exactly the memory of `value`, a view of `plain`."""
    if ours.meta is ours.memory:
        return core.viewing(ours, value)
    offset = address(ours.meta) - BASE + address(value) - address(plain)
    meta = numpy.ndarray(value.shape, value.dtype, RESERVE, offset, value.strides)
    meta.flags.writeable = value.flags.writeable
    return core.viewing(ours, meta)


def rebuilt(value: tuple[Any, ...], items: list[Any]) -> Any:
    """Make a tuple of the same type; named tuples take their fields one by one."""
    if type(value) is tuple:
        return tuple(items)
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
         name: str | None = None, silent: str | None = None) -> Any:
    """Run a NumPy function on Diffuse arrays.  `silent` is a reason (in SILENT) to give no warning."""
    if not isinstance(function, numpy.ufunc):
        found = overrides.delegated(function, args, kwargs)
        if found is not NotImplemented:
            return found
    distant = not library.current().host_sees
    if distant and silent in BULK:
        found = elsewhere(name or _name(function), args, kwargs)
        if found is not None:
            return found[0]
    before = trace.counters[trace.BYTES["downloads"]] if distant else 0
    conversion = Conversion(silent == "description", distant and reads(function, args, kwargs))
    try:
        plain_args = tuple([conversion.lowered(value) for value in args])
        plain_kwargs = {key: conversion.lowered(value) for key, value in kwargs.items()}
    except MemoryError as error:
        if not distant:
            raise
        found = _oversize().call(name or _name(function), args, kwargs)
        if found is not None:
            return found[0]
        raise MemoryError(f"{name or _name(function)} runs by NumPy, which needs whole arrays on every rank: "
                          f"{error}") from error
    soon.looked()
    if listener is not None:
        listener(name or _name(function), silent, conversion.elements)
    tells = silent is None and conversion.elements > config.small
    if tells and config.fallback == "error":
        report(name or _name(function))
    try:
        found = function(*plain_args, **plain_kwargs)
    except ValueError as error:
        if not refused(error):
            raise
        found = function(*answering(plain_args), **answering(plain_kwargs))
    finally:
        conversion.put_back()
    if tells:  # wrong arguments raise NumPy's exception and nothing else
        report(name or _name(function))
    if distant:
        trace.hosted(name or _name(function), before)
    elif is_new(found):
        return found if found.size < core.TINY else wrap(found)
    return conversion.raised(found, getrefcount(found) > 3)


overrides.by_numpy = call


def silently(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Run a public function of NumPy without a warning, because Diffuse would not be faster."""
    return call(function, args, options, silent="library")


def is_new(found: Any) -> bool:
    """Is it an array that only a variable of the caller refers to, with memory of its own?"""
    return type(found) is numpy.ndarray and found.base is None and getrefcount(found) == 3 and owned(found)


def _oversize() -> Any:
    """The module with other ways to compute results that are right, though not with NumPy's bits, of arrays
    for which ranks lack memory."""
    return import_module("diffuse.numpy.bridge.ranks.oversize")


def elsewhere(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of a NumPy function, in a tuple, if it is computed where the arrays are: on all ranks, or on
    a GPU by another library."""
    running = library.current().runtime
    if running.ranks == 1:
        return on_gpu(name, args, kwargs)
    found: tuple[Any] | None = None
    if running.sharing is not None:
        from diffuse.numpy.bridge import distributed

        found = distributed.call(name, args, kwargs)
    if found is not None:
        return found
    if name.startswith(("numpy.fft.", "scipy.fft.")):
        found = _oversize().beforehand(name, args, kwargs)
        return found
    function = in_pieces.get(name)
    return None if function is None else function(args, kwargs)


def on_gpu(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of a NumPy function, in a tuple, if CuPy computes it on a GPU."""
    if exposed.tensors() is None:
        return None
    from diffuse.numpy.bridge import gpu_library

    return gpu_library.call(name, args, kwargs)


def asked(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call NumPy's function on another library's array (see `operands.foreign`), to which NumPy delegates it
    with the arguments that the program gave: those that are `numpy._NoValue` or NumPy's defaults are taken
    for not given."""
    positional, defaults = _defaults(function)
    while 0 < len(args) <= len(positional) and _left(args[-1], positional[len(args) - 1]):
        args = args[:-1]
    given = {key: value for key, value in options.items() if not _left(value, defaults.get(key))}
    return call(function, args, given, silent="foreign")


def _left(value: Any, default: Any) -> bool:
    """Is an argument the default, or none at all?"""
    plain = type(value) is type(default) and type(value) in (bool, int, float, str)
    return value is default or value is numpy._NoValue or plain and value == default


@cache
def _defaults(function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """The defaults of a function's positional parameters in their order, and those of all its parameters by
    name.  Both are empty for functions in C without a signature; their options are None by default."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return [], {}
    leading = takewhile(lambda p: p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD), parameters.values())
    return [p.default for p in leading], {name: p.default for name, p in parameters.items()}


def _name(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{getattr(function, '__name__', repr(function))}"


def report(name: str) -> None:
    """Count a call that runs by NumPy or SciPy, and warn or raise as `config.fallback` says."""
    trace.count("fallbacks")
    mode, peer = config.fallback, "SciPy" if name.startswith("scipy.") else "NumPy"
    if mode == "silent":
        return
    if mode == "error":
        raise NotImplementedError(f"{name} is not implemented by Diffuse and DIFFUSE_FALLBACK=error forbids "
                                  f"running it by {peer}; expected a function that Diffuse has, or "
                                  f"DIFFUSE_FALLBACK=warn")
    where = provenance.caller("numpy")
    if where is provenance.NOWHERE or (where, name) in _warned:
        return
    _warned.add((where, name))
    advice = ("Take diffuse.vectorize, which compiles the function" if name == "numpy.vectorize" else
              "Keep it out of hot loops")
    floaterrors.warn(f"{name} runs by {peer} here: it waits for pending work and is not fused. "
                     f"{advice}, or set DIFFUSE_FALLBACK=silent to accept it.", RuntimeWarning, where)


def forget_warnings() -> None:
    """Let every call site warn once more."""
    _warned.clear()
    for found in _told:
        found.clear()


settings.watch("fallback", lambda _: forget_warnings())


def lines() -> set[Any]:
    """Make a set for the lines of the program that have been warned that NumPy computes a function."""
    found: set[Any] = set()
    _told.append(found)
    return found


def wrapped(function: Callable[..., Any], name: str, silent: str | None = None) -> Callable[..., Any]:
    """Wrap a NumPy function for Diffuse arrays, with the same name and documentation.

    `told` holds the lines of the program that have been warned: from these a gate of the extension calls
    NumPy; from any line, if it holds None.
    """
    told: set[Any] = lines() if silent is None else {None}
    asks = name in SCIPYS or name.removeprefix("numpy.") in READERS

    def run(*args: Any, **kwargs: Any) -> Any:
        found = call(function, args, kwargs, name, silent)
        if silent is None and asks:
            told.add(provenance.where(2))
        return found

    if asks:
        vars(run)["told"] = told
    return dressed(run, function, name.rpartition(".")[0].replace("numpy", "diffuse.numpy", 1))


def dressed(run: Any, function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Give `run` the name, signature and documentation of the function that it falls back to."""
    for attribute in ("__name__", "__qualname__", "__text_signature__"):
        try:
            setattr(run, attribute, getattr(function, attribute))
        except (AttributeError, TypeError):
            pass
    run.fallback = True
    run.__module__ = module
    return standing_for(run, function)


def standing_for(run: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Give `run` the signature and documentation of the function that it replaces."""
    run.__wrapped__, run.__doc__ = function, function.__doc__
    signature = getattr(function, "__signature__", None)  # NumPy attaches it to functions written in C
    if signature is not None:
        run.__signature__ = signature
    found: Callable[..., Any] = run
    return found
