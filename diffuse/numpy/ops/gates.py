"""Functions and methods of NumPy that small arrays take straight to NumPy.

Diffuse's implementation for large arrays first examines operands, types and layouts, which takes longer than
NumPy takes for a small array.  So each function of the namespace, and each method that only reads, has a gate
in front: if all arrays among the arguments are small and at hand, NumPy's own function gets their memory.
Gates are the extension's if it is there (native_gates.py), and else the Python functions of this file.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any
from weakref import ref

import numpy

from diffuse import library
from diffuse.library import provenance, trace
from diffuse.numpy.arrays import access, core
from diffuse.numpy.bridge import fallback, refusals
from diffuse.numpy.ops import elementwise, rules, single, traits
from diffuse.numpy.ops.lowering import FAR, before_out, lowered, named, raised
from diffuse.numpy.ops.native_gates import BELONGS, compiled
from diffuse.numpy.ops.traits import CREATING, EXACT, UNKNOWN, listed
from diffuse.numpy.small import native

NDARRAY = numpy.ndarray

DEEP = 3 if native is None else 2
"""Frames between `watched` and the program's line: a gate of the extension has no frame."""


def created(name: str, real: Any, ours: Callable[..., Any], count: Callable[..., int]) -> Callable[..., Any]:
    """Make a function that calls NumPy's `real` if that makes a small array, and else `ours`."""
    counted, as_it_is, limit = name in traits.COUNTED, name == "asarray", _limit(name)
    if name in EXACT:
        ours = watched(real, real, ours, None if count is listed else count)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if len(args) == 1 and not kwargs:
                kind = type(args[0])
                if counted and kind is int:
                    return core.given(real(args[0])) if args[0] < core.SMALL else ours(args[0])
                if as_it_is and kind is core.array_class:
                    return args[0]
            arrays: list[Any] = []
            given: Any = lowered(args, arrays) if args else FAR
            options: Any = lowered(tuple(kwargs.values()), arrays) if kwargs else ()
            if given is FAR or options is FAR:
                return ours(*args, **kwargs)
            if not arrays:
                if count(*given) >= limit:
                    return ours(*args, **kwargs)
                found = real(*given, **dict(zip(kwargs, options, strict=True)))
                return core.given(found) if type(found) is NDARRAY else found
            if count is not listed:
                return ours(*args, **kwargs)
            if kwargs:  # `ours` handles memory that Diffuse holds as NumPy would
                if any([type(x) is not NDARRAY for x in arrays]):
                    return ours(*args, **kwargs)
                return raised(real(*given, **dict(zip(kwargs, options, strict=True))), arrays)
            return raised(real(*given), arrays)
        except TypeError as error:
            return refusals.answered(real, error, (*args, *kwargs.values()), tuple(kwargs))

    return call


def function(real: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that calls NumPy's `real` on small arrays, and else `ours`."""
    name = getattr(real, "__name__", "")
    plain = getattr(real, "_implementation", real)  # which dispatches to no class
    if name in traits.STRICT:
        plain = real
    if native is not None:
        if name in EXACT:
            made = CREATING.get(name)
            ours = watched(real, plain, ours, None if made is listed else made)
        gate: Callable[..., Any] = compiled(name, plain, ours, 0, real)
        return gate
    if name in traits.WRITING:
        return ours
    if name in CREATING and getattr(numpy, name, None) is real:
        return created(name, real, ours, CREATING[name])
    size = _product if name in traits.SPREADING else _broadcast if name in traits.BROADCASTING else None
    viewing, repeating, limit = name in traits.VIEWING, name in traits.REPEATING, _limit(name)
    if name in EXACT:
        ours = watched(real, plain, ours)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if viewing and not (args and type(args[0]) is NDARRAY):
                return ours(*args, **kwargs)
            arrays: list[Any] = []
            given = lowered(args, arrays)
            if given is FAR or not arrays or len(args) > 1 and len(args) > before_out(real):
                return ours(*args, **kwargs)
            options: Any = named(kwargs, arrays) if kwargs else kwargs
            if options is FAR:
                return ours(*args, **kwargs)
            if size is not None and size(arrays) >= limit:
                return ours(*args, **kwargs)
            if repeating and len(args) > 1 and limit <= arrays[0].size * traits.extent(args[1]) < UNKNOWN:
                return ours(*args, **kwargs)
            return raised(plain(*given, **options), arrays)
        except TypeError as error:
            return refusals.answered(real, error, (*args, *kwargs.values()), tuple(kwargs))

    return call


def watched(real: Any, plain: Any, ours: Callable[..., Any], count: Callable[..., int] | None = None
            ) -> Callable[..., Any]:
    """Make a function that calls `ours`, or NumPy's `real` if the program waited for each earlier call of the
    same line.  `plain` is `real` without NumPy's dispatch to other classes; `count` returns the number of
    elements made by a function that takes no array."""
    def run(*args: Any, **kwargs: Any) -> Any:
        place = single.place(real, provenance.where(DEEP))
        if place.alone >= single.OFTEN:
            found = at_once(place, args, kwargs)
            if found is not FAR:
                return found
        engine = library.current()
        before, epoch, idle = trace.counters["recorded"], engine.epoch, engine.idle
        singles = trace.counters["single"]
        begun = len(engine.waits.calls)
        found = ours(*args, **kwargs)
        if engine.epoch != epoch:  # it waited itself, as a function does that returns a Python number
            place.alone = place.alone + 1 if idle else 0
        elif trace.counters["recorded"] > before:
            engine.waits.called(place, trace.counters["recorded"] - before, begun)
        elif trace.counters["single"] > singles:  # its only operation was waited for alone before
            place.alone += 1
        return found

    def at_once(place: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "out" in kwargs:
            return FAR
        arrays: list[Any] = []
        given = lowered(args, arrays, look=access.at_hand)
        options: Any = lowered(tuple(kwargs.values()), arrays, look=access.at_hand) if kwargs else ()
        if given is FAR or options is FAR or len(args) > 1 and len(args) > before_out(real):
            return FAR
        if (arrays if count is None else not arrays) and not elementwise.eager_errors:
            size = sum([x.nbytes for x in arrays]) if count is None else 8 * count(*given)
            if size <= single.MOST and single.trusted(place):
                found = plain(*given, **dict(zip(kwargs, options, strict=True)))
                if type(found) is NDARRAY and found.base is None:
                    access.latest = ref(found), place
                return raised(found, arrays)
        return FAR

    return run


def _limit(name: str) -> int:
    """The elements from which on a function's result is Diffuse's, though all arguments are small."""
    return max(core.SMALL, traits.FEW) if core.SMALL and name in traits.COPYING else core.SMALL


def _product(arrays: list[Any]) -> int:
    """An upper bound on the elements of a result: the product of all sizes."""
    return prod([max(1, x.size) for x in arrays])


def _broadcast(arrays: list[Any]) -> int:
    """The number of elements of arrays broadcast together."""
    return rules.broadcast_size([x.shape for x in arrays])


def method(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method that calls that of NumPy's arrays on a small array, and else `ours`."""
    plain = getattr(numpy.ndarray, name)
    function = getattr(numpy, name, plain)
    fewest = 0 if isinstance(function, numpy.ufunc) else 1  # arguments of a method that may have an output
    if name in EXACT:
        ours = watched(function, plain, ours)
    if native is not None:
        gate: Callable[..., Any] = compiled(name, plain, ours, BELONGS, function)
        return fallback.standing_for(gate, plain)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            memory = access.near(self)
            if memory is None:
                return ours(self, *args, **kwargs)
            if not args and not kwargs:
                found = plain(memory)
                kind = type(found)
                if kind is NDARRAY and found.base is None and found is not memory:
                    return core.given(found) if found.dtype is memory.dtype else raised(found, [self])
                return raised(found, [self]) if kind is NDARRAY or kind is tuple else found
            if len(args) > fewest and len(args) >= before_out(function):
                return ours(self, *args, **kwargs)
            arrays: list[Any] = [self]
            given: Any = args
            if args:
                given = lowered(args, arrays)
                if given is FAR:
                    return ours(self, *args, **kwargs)
            options: Any = named(kwargs, arrays) if kwargs else kwargs
            if options is FAR:
                return ours(self, *args, **kwargs)
            return raised(plain(memory, *given, **options), arrays)
        except TypeError as error:
            return refusals.answered(plain, error, (self, *args, *kwargs.values()), tuple(kwargs))

    call.__name__ = call.__qualname__ = name
    return fallback.standing_for(call, plain)


def looking(name: str, ours: Callable[..., Any]) -> Any:
    """Make a method that returns a view: the extension finds the shape and strides by NumPy's method, and
    calls `ours` if that is not enough."""
    if native is None:
        return refusals.worded(ours)
    plain = getattr(numpy.ndarray, name)
    gate: Callable[..., Any] = compiled(name, plain, ours, BELONGS, plain)
    return fallback.standing_for(gate, plain)
