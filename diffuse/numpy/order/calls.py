"""Conventions of the functions of this folder: arrays at hand as NumPy's, and NumPy's own function as a
fallback.

A function here computes the cases that it supports and returns None for all others: other types, options,
errors, arrays that are too small.  NumPy's function then runs on the whole, with its own errors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from inspect import Signature, signature
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, core
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.operands import wrap
from diffuse.numpy.order import radix

Array = numpy.ndarray[Any, Any]


def own(real: Callable[..., Any], *large: int, times: int = 1,
        by_lines: Callable[..., Any] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wrap a function that takes the arguments of NumPy's `real` in order, and returns None if NumPy's has to
    run.  NumPy also runs where a call gives arguments that only later versions of NumPy have.  `large` are
    the positions of arguments one of which must be a large array, if given, so that a call on few elements
    costs little.  NumPy runs below `times` the usual threshold of elements.  `by_lines` is another such
    function, for runtimes whose arrays the host does not see."""
    form = signature(real)
    name = f"numpy.{real.__name__}"

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        known, unnamed = function.__code__.co_argcount, function.__code__.co_posonlyargcount
        strangers = frozenset(function.__code__.co_varnames[:unnamed])
        complete = completing(form, known)

        def run(*args: Any, **kwargs: Any) -> Any:
            if not library.current().host_sees:
                found = None
                if by_lines is not None:
                    with suppress(TypeError):  # NumPy raises its own error
                        found = by_lines(*complete(args, kwargs))
                return fallback.call(real, args, kwargs, name) if found is None else found
            if large and len(args) > large[-1] and all(_few(args[k], times * radix.FEWEST) for k in large):
                return fallback.call(real, args, kwargs, name, "order")
            try:
                given = complete(args, kwargs) if strangers.isdisjoint(kwargs) else None
            except TypeError:  # NumPy raises its own error
                return fallback.call(real, args, kwargs, name, "order")
            found = None if given is None else function(*given)
            return fallback.call(real, args, kwargs, name, "order") if found is None else found

        if large:  # a gate of the extension calls NumPy where these arguments have few elements
            vars(run).update(told={None}, few=sum(1 << k for k in large))
        run.__name__ = run.__qualname__ = function.__name__
        run.__module__, run.__doc__ = function.__module__, function.__doc__
        return run

    return decorate


def in_parts(name: str) -> Callable[..., Any]:
    """Return the function of this name for distributed arrays (apart.py), which is imported when it is
    called."""
    def run(*args: Any) -> Any:
        if library.current().runtime.ranks == 1:
            return None
        return getattr(import_module("diffuse.numpy.order.apart"), name)(*args)

    return run


def completing(form: Signature, known: int) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]:
    """Make the function that returns the first `known` arguments of a call, in their order.  It raises
    TypeError if the arguments do not fit, or if one of the others is given."""
    every = [*form.parameters.values()]
    first, later = every[:known], [p.name for p in every[known:]]
    defaults = [p.default for p in first]
    required = sum(p.default is p.empty for p in every if p.kind is not p.VAR_KEYWORD)
    unnamed = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in first)
    places = {p.name: k for k, p in enumerate(first) if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}

    def complete(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        count = len(args)
        if required <= count <= unnamed and all([places.get(name, -1) >= count for name in kwargs]):
            values = [*args, *defaults[count:]]
            for name, value in kwargs.items():
                values[places[name]] = value
            return tuple(values)
        bound = form.bind(*args, **kwargs)  # which takes some microseconds
        if not bound.arguments.keys().isdisjoint(later):
            raise TypeError(f"{later} are NumPy's to handle")
        bound.apply_defaults()
        return tuple(bound.arguments.values())[:known]

    return complete


def _few(x: Any, fewest: int) -> bool:
    """Is this no array, or one of few elements?"""
    kind = type(x)
    if kind is core.array_class:
        return bool(x.meta.size < fewest)
    return kind is not numpy.ndarray or bool(x.size < fewest)


def at_hand(x: Any, fewest: int | None = None) -> Array | None:
    """The memory of an array with at least so many elements (by default as many as are worth it), for
    reading; waits for tasks that write it.  None for anything except an array of Diffuse's or NumPy's own."""
    if fewest is None:
        fewest = radix.FEWEST
    if type(x) is core.array_class:
        return access.host(x) if x.meta.size >= fewest else None
    return x if type(x) is numpy.ndarray and x.size >= fewest else None


def table(x: Any) -> Array | None:
    """The elements of an array of any size, or of a list or tuple of numbers."""
    found = at_hand(x, 0)
    if found is None and type(x) in (list, tuple):
        return numpy.asarray(x) if all(type(v) in core.NUMBERS for v in x) else None
    return found


def given(found: Array) -> Any:
    """Convert an array that was made here for the program."""
    return found if found.size < core.TINY else wrap(found)
