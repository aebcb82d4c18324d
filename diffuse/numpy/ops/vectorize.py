"""`diffuse.vectorize`: a scalar Python function as one more recorded operation.

The function is one for `numpy.vectorize`, and receives the same arguments: the elements as Python numbers.  A
float32 arrives as a float, so that results are float64 unless `otypes` says otherwise; integers and bools
arrive as int and bool.  Numba translates the function at its first call (numba_frontend.py); its calls are
then recorded, fused and vectorised like any ufunc's.  Small arrays, which are computed at once, take the same
compiled code and have the same bits.

Arithmetic is that of NumPy's element types: integers are int64 and wrap around; division by zero and the like
are floating-point errors, which warn as NumPy's do, under the function's name.  Global variables and those of
an enclosing function are constants of a translation: if one was assigned anew, a call translates again.

What Numba cannot translate runs as `numpy.vectorize` does, with one warning that says why.
"""

from __future__ import annotations

import inspect
import sys
from functools import cached_property
from operator import is_not
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy

from diffuse import library
from diffuse.library import (
    Scalar,
    UserFunction,
    floaterrors,
    numba_frontend,
    provenance,
    routines,
    trace,
)
from diffuse.numpy.arrays import base, core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.core import ARRAYS, Array
from diffuse.numpy.arrays.forms import NATIVE, like
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import compiled, elementwise, rules
from diffuse.numpy.ops.functions import small
from diffuse.numpy.ops.identity import Identity
from diffuse.numpy.ops.operands import adopt, foreign
from diffuse.settings import config

Refused = numba_frontend.Refused

PYTHON = {"b": "bool", "i": "int64", "u": "int64", "f": "float64", "c": "complex128"}
"""The element type of the Python numbers for elements of each kind, by letter."""

Translation = tuple[UserFunction, routines.Routine]


class Call(rules.Rule):
    """A call without its operands' values: also the function, and the result's final type."""

    __slots__ = ("function", "routine", "dtype", "known", "small")

    def __init__(self, translation: Translation, known: object, dtype: numpy.dtype[Any],
                 operands: tuple[Any, ...]) -> None:
        self.function, self.routine = translation
        self.known = known
        """The translations that this one belongs to."""
        self.dtype = dtype
        types = self.function.parameters
        arrays = [x for x in operands if isinstance(x, Array)]
        shape, natural = rules.shape_of(operands), numpy.dtype(self.function.result)
        form = like([x.meta for x in arrays], shape, natural)
        casts = tuple([None if isinstance(x, Array) else rules.cast_for(numpy.dtype(t), type(x))
                       for x, t in zip(operands, types, strict=True)])
        largest = max([form.size, *[x.form.size for x in arrays]])
        self.small = not arrays or largest < core.SMALL
        super().__init__(form, (*types, self.function.result), False, casts)

    def record(self, operands: tuple[Any, ...]) -> Any:
        """Record one task that applies the function to these operands."""
        form, signature = self.form, self.signature
        inputs = tuple([elementwise.spread(x, k, signature[k], form.shape) if convert is None
                        else Scalar(k, signature[k], convert(x))
                        for k, (x, convert) in enumerate(zip(operands, self.casts, strict=True))])
        found = core.recorded(form)
        issued = elementwise.record if self.turned else library.record
        issued(self.function.name, signature, form.shape, inputs, ((found.storage, found.part),))
        return found if form.dtype == self.dtype else found.astype(self.dtype)

    def at_once(self, operands: tuple[Any, ...]) -> Any:
        """Run the compiled function on the memory of its operands, after waiting for them."""
        memories = [host(x) if isinstance(x, Array) else x for x in operands]
        types = [numpy.dtype(name) for name in self.signature]
        flags = routines.flags()
        flags.clear()
        result = compiled.compute(self.routine, memories, types)
        raised = flags.raised()
        if raised:
            flags.clear()
            _report(raised, self.function.word)
        return core.hosted(result.astype(self.dtype, copy=False))


class vectorize(numpy.vectorize):
    """`numpy.vectorize`, compiled: calls are recorded and fuse with the operations around them."""

    _told = False
    _outside: list[Any] | None = None
    """The values of the function's global and enclosing variables when it was translated."""
    _known: dict[tuple[str, ...], Translation | str]
    """Translations with these values, by the element types of the arguments; or the reason why there is
    none."""

    def __init__(self, pyfunc: Any = numpy._NoValue, *args: Any, **options: Any) -> None:
        if pyfunc is not numpy._NoValue and not callable(pyfunc):
            raise TypeError(f"vectorize: {pyfunc!r} is no function; write diffuse.vectorize(function), or "
                            "@diffuse.vectorize above one")
        super().__init__(pyfunc, *args, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "pyfunc" not in vars(self) or not callable(self.pyfunc):  # a decorator with options
            return super().__call__(*args, **kwargs)
        try:
            operands = args if not kwargs else None
            call = self._remembered(args) if operands is not None else None
            if call is None:
                operands = self._operands(args, kwargs)
                call = self._planned(operands) if operands is not None else None
        except Refused as refusal:
            self._refused(str(refusal))
            call = None
        if call is None or operands is None:
            return fallback.call(super().__call__, args, kwargs, silent="inspection")
        if not elementwise.eager_errors and not (call.small and small(*operands)):
            try:
                return call.record(operands)
            except base.Unaddressable:
                pass
        return call.at_once(operands)

    def _remembered(self, operands: tuple[Any, ...]) -> Call | None:
        """The cached plan of a call with operands of these forms and types."""
        found = rules.RULES.get((self, *[x.form if type(x) in ARRAYS else type(x) for x in operands]))
        if type(found) is not Call or any(map(_wide, operands)) or self._changed():
            return None
        return found if found.known is self._known else None

    def _planned(self, operands: tuple[Any, ...]) -> Call | None:
        """Plan such a call; None for a call on no elements, which is left to NumPy."""
        if 0 in rules.shape_of(operands):
            return None
        translation = self._translated(tuple([_python(x) for x in operands]))
        call = Call(translation, self._known, self._result(translation[0]), operands)
        key = [x.form if type(x) in ARRAYS else type(x) for x in operands]
        rules.RULES[self, *key] = call
        return call

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the translations, which another process makes anew."""
        return {name: value for name, value in vars(self).items() if name not in ("_known", "_outside")}

    @cached_property
    def _parameters(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.pyfunc)
        except ValueError:
            return None

    def _operands(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """One operand for each parameter; None if the arguments do not fit, which is a Python error."""
        if self.signature is not None or self.excluded:
            raise Refused("its signature or excluded parameters make it work on whole arrays")
        if self._parameters is None:
            raise Refused("it is no Python function")
        try:
            bound = self._parameters.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        if bound.kwargs or not bound.args:
            raise Refused("it has keyword-only parameters, or none")
        if any(foreign(x) for x in bound.args):
            raise Refused("an argument is neither a number nor an array of numbers")
        return tuple([adopt(x) for x in bound.args])

    def _changed(self) -> bool:
        """Was a variable that the function reads assigned anew since it was translated?"""
        before = self._outside
        return before is None or any(map(is_not, before, _variables(self._function)))

    @cached_property
    def _function(self) -> Any:
        function = getattr(self.pyfunc, "py_func", self.pyfunc)  # of what Numba has compiled
        if type(function) is not FunctionType:
            raise Refused("it is no Python function")
        return function

    def _translated(self, types: tuple[str, ...]) -> Translation:
        """The function for arguments of these element types, translated at the first call."""
        if self._changed():
            self._outside, self._known = _variables(self._function), {}
        found = self._known.get(types)
        if found is None:
            try:
                found = numba_frontend.translate(_with_numpys(self._function), types)
            except Refused as refusal:
                found = str(refusal)
            self._known[types] = found
        if isinstance(found, str):
            raise Refused(found)
        return found

    def _result(self, function: UserFunction) -> numpy.dtype[Any]:
        """The element type of the result."""
        natural = numpy.dtype(function.result)
        if self.otypes is None:
            return natural
        if len(self.otypes) != 1:
            raise Refused("it has several results")
        dtype = numpy.dtype(self.otypes[0])
        if dtype not in NATIVE or natural.kind == "c" and dtype.kind != "c":
            raise Refused(f"otypes asks for {dtype}, and its results are {natural}")
        return dtype

    def _refused(self, reason: str) -> None:
        """Warn once that NumPy runs the function, and why."""
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
    """The element type of the Python numbers for an operand's elements."""
    if not isinstance(x, Array) and type(x) not in rules.WEAK and type(x) not in rules.STRONG:
        raise Refused("an argument is neither a number nor an array of numbers")
    dtype = numpy.dtype(rules.type_of(x))
    if dtype == numpy.uint64 or _wide(x):
        raise Refused("an argument may have integers beyond int64")
    return PYTHON[dtype.kind]


def _wide(x: Any) -> bool:
    """Is this an integer beyond int64?"""
    return type(x) is int and not -1 << 63 <= x < 1 << 63


def _variables(function: FunctionType) -> list[Any]:
    """The values of the variables that a function reads and that are not its own."""
    names, missing = function.__globals__, function
    found = [names.get(name, missing) for name in function.__code__.co_names]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(missing)
    return found


def _with_numpys(function: FunctionType) -> FunctionType:
    """The function as under NumPy: with NumPy's own modules, ufuncs and scalars in its variables."""
    names = {**function.__globals__}
    names.update((name, _numpys(names[name])) for name in function.__code__.co_names if name in names)
    try:
        cells = tuple([CellType(_numpys(cell.cell_contents)) for cell in function.__closure__ or ()])
    except ValueError:
        raise Refused("it reads a variable that has no value yet") from None
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)


def _numpys(value: Any) -> Any:
    if isinstance(value, ModuleType) and value.__name__.startswith("diffuse."):
        return sys.modules.get(value.__name__.removeprefix("diffuse."), value)
    if isinstance(value, Array) and not value.form.ndim:
        return host(value)[()]
    return value.numpy if isinstance(value, Identity) else value


def _report(raised: list[str], name: str) -> None:
    """Report floating-point errors as NumPy's error modes say."""
    modes: dict[str, Any] = floaterrors.geterr()
    handler: Any = numpy.geterrcall()
    for bit, (mode, words) in floaterrors.KINDS.items():
        text = f"{words} encountered in {name}"
        match modes[mode] if words in raised else "ignore":
            case "warn":
                floaterrors.warn(text, RuntimeWarning, provenance.where())
            case "raise":
                raise FloatingPointError(text)
            case "call":
                handler(words, bit)
            case "print":
                print(f"Warning: {text}", file=sys.stderr)
            case "log":
                handler.write(f"Warning: {text}\n")
