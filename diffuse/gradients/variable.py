"""Variables: arrays that remember what they were computed from.

A variable answers NumPy's protocols (`__array_ufunc__`, `__array_function__`), so that a program's functions
take it as they take arrays.  Each operation with a rule makes a new variable; an operation without one is
refused at the call, since its gradient would be lost silently. """

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy

import diffuse.numpy
from diffuse.numpy.bridge import overrides

np: Any = diffuse.numpy
"""Diffuse's NumPy, whose functions are found by name."""

Rule = Callable[..., Any]
UFUNCS: dict[str, tuple[Rule | None, ...]] = {}
"""For each ufunc and each of its inputs, a rule from the gradient of the result, the result and the inputs to
the gradient of that input; None where it is zero."""
FUNCTIONS: dict[str, Rule] = {}
"""For each function of NumPy, its implementation on variables; methods of arrays use the same."""
CONSTANT = frozenset({
    "sign", "floor", "ceil", "rint", "trunc", "round", "around", "signbit", "isnan", "isinf", "isfinite",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "logical_xor", "floor_divide", "argmax", "argmin", "argsort", "shape", "ndim", "size",
    "zeros_like", "ones_like", "empty_like", "full_like", "count_nonzero", "any", "all", "isclose",
    "allclose", "array_equal", "searchsorted", "nonzero", "result_type"})
"""Functions with zero or no derivative: their results are plain arrays."""

_numbers = count()


@overrides.own
class Variable(numpy.lib.mixins.NDArrayOperatorsMixin):
    """An array that records its computation.

    `value` is the array itself, which gradients do not go through.
    """

    __array_priority__ = 1000.0

    def __init__(self, value: Any, parents: tuple[tuple[Variable, Callable[[Any], Any]], ...] = ()) -> None:
        self.value = value
        self.parents = parents
        """The variables that it was computed from, each with a function from this one's gradient to its
        contribution."""
        self.number = next(_numbers)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if method == "reduce" and name in ("add", "multiply", "maximum", "minimum"):
            folds = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
            return FUNCTIONS[folds[name]](*inputs, **{"axis": 0, **options})
        if method != "__call__" or any(value is not None for value in options.values()):
            raise TypeError(f"numpy.{name}: gradients support calls without out=, where= and other options, "
                            f"not {method} with {', '.join(options) or 'none'}; write it in other operations")
        values = [plain(each) for each in inputs]
        if name in CONSTANT:
            return getattr(np, name)(*values)
        if name == "matmul":
            return FUNCTIONS[name](*inputs)
        if name not in UFUNCS:
            raise TypeError(f"numpy.{name} has no rule for gradients; rules are there for "
                            f"{', '.join(sorted(UFUNCS))}")
        return apply(getattr(np, name), UFUNCS[name], inputs, values)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        name = function.__name__
        if name in CONSTANT:
            return function(*plain(args), **plain(options))
        if name not in FUNCTIONS:
            raise TypeError(f"numpy.{name} has no rule for gradients; rules are there for "
                            f"{', '.join(sorted(FUNCTIONS))}.  Pass `x.value` where no gradient is needed")
        args, options = _chosen(function, args, options)
        try:
            inspect.signature(FUNCTIONS[name]).bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"numpy.{name}: its rule for gradients does not support these arguments: {error}"
                            ) from None
        return FUNCTIONS[name](*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return lambda *args, **options: FUNCTIONS[METHODS[name]](self, *args, **options)
        raise AttributeError(f"a variable has no {name!r}: use a function of NumPy, or `value`, through "
                             "which no gradient goes")

    def __getitem__(self, index: Any) -> Variable:
        found: Variable = FUNCTIONS["getitem"](self, plain(index))
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("a variable cannot be written to: the record of its computation would miss the "
                        "change; use numpy.where, numpy.concatenate or another operation that returns a "
                        "new array")

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("a variable is no array: its gradient would be lost.  Pass `x.value` where no "
                        "gradient is needed")

    def __float__(self) -> float:
        raise TypeError("float() of a variable would lose its gradient: keep it as it is, or use x.value")

    def __bool__(self) -> bool:
        return bool(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return f"Variable({self.value!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.value)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(numpy.prod(self.shape, dtype=int))

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def T(self) -> Variable:
        found: Variable = FUNCTIONS["transpose"](self)
        return found


METHODS = {name: name for name in (
    "sum", "mean", "prod", "max", "min", "var", "std", "cumsum", "reshape", "ravel", "transpose", "swapaxes",
    "squeeze", "dot", "clip", "take", "repeat", "trace", "diagonal", "astype", "copy")} | {"flatten": "ravel"}
"""Methods of arrays, and the functions that implement them."""


def _chosen(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The arguments of a call of NumPy's function, without those that have their default values."""
    try:
        parameters = inspect.signature(getattr(numpy, function.__name__, function)).parameters
    except ValueError:  # functions of C without a signature
        return args, {name: value for name, value in options.items() if value is not None}
    defaults = [parameter.default for parameter in parameters.values()]
    while 1 < len(args) <= len(defaults) and args[-1] is defaults[len(args) - 1]:
        args = args[:-1]
    return args, {name: value for name, value in options.items()
                  if value is not None and not (name in parameters and value is parameters[name].default)}


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array, a variable or a number.  (`numpy.shape` would wait for an array's elements.)"""
    found: tuple[int, ...] = getattr(value, "shape", ())
    return found


def plain(value: Any) -> Any:
    """A value, or the values in a list, tuple or dict, with arrays in place of variables."""
    if isinstance(value, Variable):
        return value.value
    if isinstance(value, (list, tuple)) and any(isinstance(each, Variable) for each in value):
        return type(value)([plain(each) for each in value])
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def apply(function: Callable[..., Any], rules: tuple[Rule | None, ...], inputs: tuple[Any, ...],
          values: list[Any]) -> Variable:
    """A function of several inputs that NumPy broadcasts, as a variable with a rule for each input."""
    result = function(*values)
    parents = []
    for k, (each, rule) in enumerate(zip(inputs, rules, strict=True)):
        if isinstance(each, Variable) and rule is not None:
            parents.append((each, _going_back(rule, result, values, k)))
    return Variable(result, tuple(parents))


def _going_back(rule: Rule, result: Any, values: list[Any], k: int) -> Callable[[Any], Any]:
    shape = shape_of(values[k])
    return lambda g: unbroadcast(rule(g, result, *values), shape)


def one(x: Any, value: Any, back: Callable[[Any], Any]) -> Any:
    """The result of an operation on one variable; on anything else, just the value."""
    return Variable(value, ((x, back),)) if isinstance(x, Variable) else value


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Reduce the gradient of a broadcast operand to the operand's shape."""
    found = shape_of(g)
    if found == shape:
        return g
    if len(found) < len(shape) or any(n not in (m, 1) for n, m in zip(found[len(found) - len(shape):], shape,
                                                                      strict=True) if m != 1):
        return np.broadcast_to(g, shape)
    axes = (*range(len(found) - len(shape)),
            *[d + len(found) - len(shape) for d, n in enumerate(shape) if n == 1 and
              found[d + len(found) - len(shape)] != 1])
    return np.reshape(np.sum(g, axis=axes), shape) if axes else np.reshape(g, shape)
