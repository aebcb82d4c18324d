"""How functions of this folder are called: with arrays at hand as NumPy's, and NumPy's own function behind.

A function here computes what it can and returns None for all else: other types, options, errors, arrays that
are too small.  NumPy's function then runs on the whole, and raises what it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
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
    """Make a function of NumPy's out of one that takes the same arguments, all of them in their order, and
    returns None where NumPy's shall run.  `large` are the positions of arguments of which one has to be a
    large array, where there are such positions: a call on few elements shall cost little.  NumPy is sooner
    below `times` as many elements as elsewhere.  `by_lines` is another such function, for runtimes whose
    arrays the host does not see."""
    form = signature(real)
    name = f"numpy.{real.__name__}"

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if not library.current().host_sees:
                found = None
                if by_lines is not None:
                    with suppress(TypeError):  # NumPy says it in its words
                        found = by_lines(*_complete(form, args, kwargs))
                return fallback.call(real, args, kwargs, name) if found is None else found
            if large and len(args) > large[-1] and all(_few(args[k], times * radix.FEWEST) for k in large):
                return fallback.call(real, args, kwargs, name, "order")
            try:
                given = _complete(form, args, kwargs)
            except TypeError:  # NumPy says it in its words
                return fallback.call(real, args, kwargs, name, "order")
            found = function(*given)
            return fallback.call(real, args, kwargs, name, "order") if found is None else found

        if large:  # a gate of the extension calls NumPy where these arguments have few elements
            vars(run).update(told={None}, few=sum(1 << k for k in large))
        run.__name__ = run.__qualname__ = function.__name__
        run.__module__, run.__doc__ = function.__module__, function.__doc__
        return run

    return decorate


def _complete(form: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Any]:
    """All arguments of a call, in their order.  Raises TypeError where they do not fit."""
    bound = form.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments.values()


def _few(x: Any, fewest: int) -> bool:
    """Is this no array, or one of few elements?"""
    kind = type(x)
    if kind is core.array_class:
        return bool(x.meta.size < fewest)
    return kind is not numpy.ndarray or bool(x.size < fewest)


def at_hand(x: Any, fewest: int | None = None) -> Array | None:
    """The memory of an array of at least so many elements, by default of those that are worth it, to be read;
    waits for tasks that write it.  None for anything else than an array of Diffuse's or NumPy's own."""
    if fewest is None:
        fewest = radix.FEWEST
    if type(x) is core.array_class:
        return access.host(x) if x.meta.size >= fewest else None
    return x if type(x) is numpy.ndarray and x.size >= fewest else None


def table(x: Any) -> Array | None:
    """The elements of an array of any size, or of a list or tuple of numbers."""
    found = at_hand(x, 0)
    if found is None and type(x) in (list, tuple):
        plain = numpy.asarray(x) if all(type(v) in core.NUMBERS for v in x) else None
        return plain
    return found


def given(found: Array) -> Any:
    """What the program gets for an array that was made here."""
    return found if found.size < core.TINY else wrap(found)
