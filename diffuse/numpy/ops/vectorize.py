"""`diffuse.vectorize`: a scalar Python function as one more recorded operation.

The function is what `numpy.vectorize` takes, and it is given what that gives: the elements as Python's
numbers.  A float32 arrives as a float, so that results are float64 unless `otypes` says otherwise; integers
and bools arrive as int and bool.  Numba translates the function at its first call (numba_frontend.py); its
calls are then recorded, fused and vectorised like any ufunc's.  Small arrays, which are computed at once,
take the same compiled code and have the same bits.

Arithmetic is that of NumPy's element types: integers are int64 and wrap around; division by zero and the like
are floating-point errors, which warn as NumPy's do, under the function's name.  Global variables and those of
an enclosing function are constants of a translation: where one was assigned anew, a call translates again.

What Numba cannot translate runs as `numpy.vectorize` does, with one warning that says why.
"""

from __future__ import annotations

import inspect
import sys
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy

from diffuse.library import (
    UserFunction,
    floaterrors,
    numba_frontend,
    provenance,
    routines,
    trace,
)
from diffuse.numpy.arrays import base
from diffuse.numpy.arrays.base import Array, host
from diffuse.numpy.arrays.forms import NATIVE, like
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.functions import recordable, small
from diffuse.numpy.ops.operands import adopt, foreign
from diffuse.settings import config

PYTHON = {"b": "bool", "i": "int64", "u": "int64", "f": "float64", "c": "complex128"}
"""The element type of Python's numbers, for element types by their letters."""

Translation = tuple[UserFunction, routines.Routine]


class vectorize(numpy.vectorize):
    """`numpy.vectorize`, compiled: calls are recorded and fuse with the operations around them."""

    _known: dict[tuple[str, ...], Translation | numba_frontend.Refused]
    """Translations by the element types of the arguments; none before the first call."""
    _seen: list[Any] | None = None
    """The values of the function's global and enclosing variables that these go by."""
    _told = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "pyfunc" not in vars(self) or not callable(self.pyfunc):  # a decorator with options
            return super().__call__(*args, **kwargs)
        try:
            operands = self._operands(args, kwargs)
            if operands is None or 0 in elementwise.shape_of(operands):
                return fallback.call(super().__call__, args, kwargs, silent="inspection")
            function, routine = self._translated(tuple([_python(x) for x in operands]))
            dtype = self._result(function)
        except numba_frontend.Refused as refusal:
            self._refused(str(refusal))
            return fallback.call(super().__call__, args, kwargs, silent="inspection")
        if recordable(*operands) and not small(*operands):
            try:
                found = elementwise.issue(function.name, (*function.parameters, function.result), operands)
                return found if found.form.dtype == dtype else found.astype(dtype)
            except base.Unaddressable:
                pass
        return self._at_once(function, routine, operands, dtype)

    def __getstate__(self) -> dict[str, Any]:
        """All but the translations, which another process makes anew."""
        return {name: value for name, value in vars(self).items() if name not in ("_known", "_seen")}

    @cached_property
    def _parameters(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.pyfunc)
        except ValueError:
            return None

    def _operands(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """One operand for each parameter; None for what the function does not take, an error of Python's."""
        if self.signature is not None or self.excluded:
            raise numba_frontend.Refused("its signature or excluded parameters make it work on whole arrays")
        if self._parameters is None:
            raise numba_frontend.Refused("it is no Python function")
        try:
            bound = self._parameters.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        if bound.kwargs or not bound.args:
            raise numba_frontend.Refused("it has keyword-only parameters, or none")
        if any(foreign(x) for x in bound.args):
            raise numba_frontend.Refused("an argument is neither a number nor an array of numbers")
        return tuple([adopt(x) for x in bound.args])

    def _translated(self, types: tuple[str, ...]) -> Translation:
        """The function for arguments of these element types, translated at the first call."""
        function = getattr(self.pyfunc, "py_func", self.pyfunc)  # of what Numba has compiled
        if type(function) is not FunctionType:
            raise numba_frontend.Refused("it is no Python function")
        values = _outside(function)
        if self._seen is None or any(a is not b for a, b in zip(self._seen, values, strict=True)):
            self._seen, self._known = values, dict[tuple[str, ...], Translation | numba_frontend.Refused]()
        found = self._known.get(types)
        if found is None:
            try:
                found = numba_frontend.translate(function, types)
            except numba_frontend.Refused as refusal:
                found = refusal
            self._known[types] = found
        if isinstance(found, numba_frontend.Refused):
            raise found
        return found

    def _result(self, function: UserFunction) -> numpy.dtype[Any]:
        """The element type of the result."""
        natural = numpy.dtype(function.result)
        if self.otypes is None:
            return natural
        if len(self.otypes) != 1:
            raise numba_frontend.Refused("it has several results")
        dtype = numpy.dtype(self.otypes[0])
        if dtype not in NATIVE or natural.kind == "c" and dtype.kind != "c":
            raise numba_frontend.Refused(f"otypes asks for {dtype}, and its results are {natural}")
        return dtype

    def _at_once(self, function: UserFunction, routine: routines.Routine, operands: tuple[Any, ...],
                 dtype: numpy.dtype[Any]) -> Any:
        """The compiled function on the memory of its operands, waited for."""
        values = [host(x) if isinstance(x, Array) else x for x in operands]
        arrays = [numpy.asarray(v).astype(t, copy=False)
                  for v, t in zip(values, function.parameters, strict=True)]
        shape = numpy.broadcast_shapes(*[a.shape for a in arrays])
        given = [a for a in arrays if a.ndim]
        result = numpy.empty_like(like(given, shape, numpy.dtype(function.result)).mirror)
        flags = routines.flags()
        flags.clear()
        routine(*arrays, out=result)
        raised = flags.raised()
        flags.clear()
        if raised:
            _report(raised, function.word)
        return base.hosted(result.astype(dtype, copy=False))

    def _refused(self, reason: str) -> None:
        """Say once that the function runs by NumPy, and why."""
        trace.count("fallbacks")
        name = getattr(self, "__name__", "the function")
        if config.fallback == "error":
            raise NotImplementedError(f"{name} cannot be compiled: {reason}; DIFFUSE_FALLBACK=error forbids "
                                      "running it element by element, as numpy.vectorize does")
        if config.fallback == "warn" and not self._told:
            self._told = True
            floaterrors.warn(f"{name} runs element by element, as numpy.vectorize does: {reason}",
                             RuntimeWarning, provenance.where())


vectorize.__module__ = "diffuse"


def _python(x: Any) -> str:
    """The element type of the Python numbers that an operand's elements are given as."""
    if not isinstance(x, Array) and type(x) not in elementwise.WEAK and type(x) not in elementwise.STRONG:
        raise numba_frontend.Refused("an argument is neither a number nor an array of numbers")
    dtype = numpy.dtype(elementwise.type_of(x))
    if dtype == numpy.uint64 or type(x) is int and not -1 << 63 <= x < 1 << 63:
        raise numba_frontend.Refused("an argument may have integers beyond int64")
    return PYTHON[dtype.kind]


def _outside(function: FunctionType) -> list[Any]:
    """The values of the variables that a function reads and that are not its own."""
    names, missing = function.__globals__, function
    found = [names.get(name, missing) for name in function.__code__.co_names]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(missing)
    return found


def _report(raised: list[str], name: str) -> None:
    """Report floating-point errors as NumPy's error modes say."""
    modes, handler = numpy.geterr(), numpy.geterrcall()
    for bit, (mode, words) in floaterrors.KINDS.items():
        text = f"{words} encountered in {name}"
        match modes[mode] if words in raised else "ignore":  # type: ignore[literal-required]
            case "warn":
                floaterrors.warn(text, RuntimeWarning, provenance.where())
            case "raise":
                raise FloatingPointError(text)
            case "call":
                handler(words, bit)  # type: ignore[misc, operator]
            case "print":
                print(f"Warning: {text}", file=sys.stderr)
            case "log":
                handler.write(f"Warning: {text}\n")  # type: ignore[union-attr]
