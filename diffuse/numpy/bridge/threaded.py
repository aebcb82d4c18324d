"""Runs the compiled functions under NumPy's Python modules on several threads.

`numpy.fft` and `numpy.linalg` check and convert their arguments in Python, and then call a generalised ufunc
that processes the lines, or the matrices of a stack, one after another.  Here the same code calls one that
gives each thread a share of them: every line and matrix is computed as before, and has NumPy's bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from math import prod
from types import FunctionType, ModuleType
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, core, soon
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.lowering import FAR, lowered, named
from diffuse.numpy.ops.manipulation import asks
from diffuse.numpy.ops.operands import wrap

FEWEST = 1 << 14
"""The fewest elements of a stack of matrices that is worth threads."""
SIZES = {"inv": (8, 64), "solve": (8, 64), "det": (1, 0), "slogdet": (1, 0), "cholesky": (1, 0),
         "eigh": (1, 24), "eigvalsh": (1, 48), "eig": (1, 48), "eigvals": (1, 48), "svd": (1, 32),
         "qr": (1, 64)}
"""The smallest and the largest number of rows of matrices whose stacks several threads process faster than
one, as measured.  OpenBLAS's own routines take memory for each small matrix under one lock, for which threads
wait longer than they compute, and have threads of their own for large ones."""
INPUT = re.compile(r"\(([^)]*)\)")


def over(module: ModuleType, **replaced: Any) -> dict[str, Any]:
    """The functions of a NumPy module, with some of its global names replaced."""
    scope = {**vars(module), **replaced}
    for name, value in vars(module).items():
        plain = getattr(value, "_implementation", value)
        if isinstance(plain, FunctionType) and plain.__globals__ is vars(module):
            ours = FunctionType(plain.__code__, scope, name, plain.__defaults__, plain.__closure__)
            ours.__kwdefaults__ = plain.__kwdefaults__
            ours.__module__, vars(ours)["stands_for"] = value.__module__, value
            scope[name] = ours
    return scope


def offered(threaded: Any, real: Any, module: str, in_parts: Callable[..., Any] | None = None
            ) -> Callable[..., Any]:
    """A function of `over` for the program, in place of NumPy's `real`.  On several ranks `in_parts` is tried
    first; it returns None if the function needs whole arrays."""
    path = f"numpy.{module}.{real.__name__}"
    new = module == "fft"  # results share no memory with arguments

    def run(*args: Any, **kwargs: Any) -> Any:
        if new and fallback.listener is None:
            found = _at_once(threaded, args, kwargs)
            if found is not None:
                return found if found.size < core.TINY else wrap(found)
        if in_parts is not None and library.current().runtime.ranks > 1:
            found = in_parts(real.__name__, args, kwargs)
            if found is not None:
                return found
        asked = any([asks(x) for x in (*args, *kwargs.values())])  # NumPy's function dispatches to classes
        return fallback.call(real if asked else threaded, args, kwargs, path, "library")

    # a gate of the extension calls NumPy with one line, or one matrix
    vars(run).update(told={None}, rank=1 if module == "fft" else 2)
    return fallback.dressed(run, real, f"diffuse.numpy.{module}")


def _at_once(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of an array at hand, numbers and names, which returns a new array; None if `fallback`
    has to convert arguments or results."""
    if not args or type(args[0]) is not core.array_class or library.current().runtime.ranks > 1:
        return None
    arrays: list[Any] = []
    given = lowered(args, arrays, look=access.at_hand)
    options: Any = named(kwargs, arrays) if kwargs and given is not FAR else kwargs
    if given is FAR or options is FAR or len(arrays) > 1 or not library.current().host_sees:
        return None
    soon.looked()
    found = function(*given, **options)
    return found if fallback.is_new(found) else None


class Stacked:
    """One of NumPy's functions of matrices, with a stack of them divided among all threads."""

    def __init__(self, function: Any) -> None:
        self._function, self._inverts = function, function.__name__ == "inv"
        smallest, largest = SIZES.get(re.split("[_0-9]", function.__name__)[0], (1, 64))
        self._sizes = smallest**2, largest**2
        given = function.signature.partition("->")[0]
        self._ranks = [len(part.split(",")) if part else 0 for part in INPUT.findall(given)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._inverts and len(args) == 1:
            from diffuse.numpy.ops import stacks  # not in programs that invert none

            inverse = stacks.inverse(args[0])
            if inverse is not None:
                return inverse
        count = self._stack(args)
        if not count:
            return self._function(*args, **kwargs)
        from diffuse.numpy.order import team

        # each share runs with the error modes of the caller, which may raise LinAlgError
        jobs = [partial(copy_context().run, self._function, *[x[low:high] for x in args], **kwargs)
                for low, high in team.parts(count, share=-(-count * FEWEST // (4 * args[0].size)))]
        found = team.together(jobs) if len(jobs) > 1 else [self._function(*args, **kwargs)]
        if len(found) == 1:
            return found[0]
        if isinstance(found[0], tuple):
            return tuple([numpy.concatenate(parts) for parts in zip(*found, strict=True)])
        return numpy.concatenate(found)

    def _stack(self, args: tuple[Any, ...]) -> int:
        """The number of matrices along the first dimension of all arguments; 0 if they are not divided."""
        pairs = list(zip(args, self._ranks, strict=True))
        if not all([type(x) is numpy.ndarray and x.ndim > rank for x, rank in pairs]):
            return 0
        leads = {x.shape[:x.ndim - rank] for x, rank in pairs}
        size, count = max([x.size for x in args]), prod(args[0].shape[:-self._ranks[0]])
        least, most = self._sizes
        shared = len(leads) == 1 and FEWEST <= size and size <= most * count and args[0].size >= least * count
        return args[0].shape[0] if shared else 0
