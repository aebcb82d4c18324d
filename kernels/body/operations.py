"""The table of operations: every fact about an operation is in its row.

An *operation* is what a library records and a task is called: "add", "cumsum", "special.gamma".  An *op* is
a word of the kernel language, of which bodies are made (expr.py).  A row without a `body` is both: the
operation applies the op of its name to each element.  A row with a `body` is an operation written in ops::

    def lerp(b: Builder) -> None:
        x, y, t = b.input(0), b.input(1), b.input(2)
        way = b.emit("subtract", "float64", y, x)
        b.store(b.emit("add", "float64", x, b.emit("multiply", "float64", t, way)))

    declare(Operation("lerp", 3, body=lerp))

An op also needs a lowering rule (`kernels.llvm.ops`), and a meaning (`kernels.meaning.functions`) unless it
is the ufunc of its name.  A task whose operation has no row still runs, as the host function that it was
issued with (`library.call`); it is fused with nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from diffuse.ir import ITEMSIZE
from diffuse.kernels.body import generators
from diffuse.kernels.body.expr import STRUCTURAL, Builder
from diffuse.kernels.body.generators import Generator
from diffuse.observe.floaterrors import DIVIDE, INVALID, OVERFLOW, UNDERFLOW

ALL, REAL, INTEGER, NONE = "biufc", "biuf", "biu", ""
"""Element types by their first letters: b(ool) i(nt) u(int) f(loat) c(omplex)."""
FUSED = REAL + "z"
"""The real types, and complex128 if NumPy computes its products with fused multiply-adds as the kernels do
(`products_fused`).  NumPy rounds products of complex64 differently when it traverses memory backwards."""

RANGE = OVERFLOW | UNDERFLOW


class Operation(NamedTuple):
    """A row of the table: one operation."""

    name: str
    arity: int = 1
    """The number of inputs."""
    result: str = "first"
    """The element type of the op's result: "first" or "last" for that input's type, "real" for the real
    part's of the first, or a fixed type."""
    inputs: str = "alike"
    """The rule for the element types that the op accepts together, a key of `INPUTS`."""
    exact: str = ALL
    """Letters of the element types for which NumPy's bits are the specification.  For other types, such as
    floats of transcendental functions, the compiled routine is the specification (see `routines`)."""
    errors: int = 0
    """The floating-point errors that it can raise on floats and complex numbers."""
    integer_errors: int = 0
    """The floating-point errors that it can raise on integers."""
    cost: int = 1
    """Its approximate cost, in additions."""
    rounded: bool = True
    """Must the lowered result be rounded to float16?  Not if it is a float16 whenever the inputs are."""
    body: Generator | None = None
    """The function that writes the operation in terms of other ops; None for an op of the kernel language
    itself."""
    elementwise: bool = True
    """Does it process every element once, in any order?"""
    word: str = ""
    """Its name in NumPy's warnings, if that differs."""

    def write(self, b: Builder) -> None:
        """Write the operation's fragment of a body."""
        if len(b.inputs) != self.arity:
            raise TypeError(f"{self.name!r} takes {self.arity} inputs, not {len(b.inputs)}")
        if self.body is not None:
            self.body(b)
        else:
            b.store(b.emit(self.name, b.signature[-1], *[b.input(k) for k in range(len(b.inputs))]))


INPUTS: dict[str, Callable[[tuple[str, ...]], bool]] = {
    "any": lambda types: True,
    "alike": lambda types: len(set(types)) <= 1,
    "alike or mixed": lambda types: len(set(types)) == 1 or set(types) == {"int64", "uint64"},
    "bool, then alike": lambda types: types[0] == "bool" and len(set(types[1:])) == 1,
    "a float, then int32 or int64": lambda types: types[0][0] == "f" and types[1] in ("int32", "int64"),
}
"""The rules for the element types of an op's inputs."""

TABLE: dict[str, Operation] = {}
"""Every operation by its name."""


def declare(operation: Operation) -> None:
    """Add a row to the table."""
    if operation.name in TABLE:
        raise ValueError(f"operation {operation.name!r} is declared already, and a name stands for one "
                         f"operation: choose another name, such as 'mine.{operation.name}'")
    TABLE[operation.name] = operation


def known(operation: str) -> bool:
    """Does the operation have a row, so that its tasks can be fused?"""
    return operation in TABLE or operation.partition(":")[0] in TABLE


def find(operation: str) -> Operation:
    """The row of a task's operation; for `cumsum:1` that is `cumsum`, and the part after the colon is its
    attribute."""
    found = TABLE.get(operation) or TABLE.get(operation.partition(":")[0])
    if found is None:
        raise KeyError(f"operation {operation!r} has no row: declare(Operation({operation!r}, ...))")
    return found


def op(name: str) -> Operation:
    """The row of an op of the kernel language."""
    found = TABLE.get(name)
    if found is None or found.body is not None:
        raise TypeError(f"{name!r} is no op of the kernel language: declare(Operation({name!r}, ...)), "
                        "with a lowering rule")
    return found


def result(name: str, inputs: tuple[str, ...]) -> str:
    """The element type of an op's result for inputs of these types; TypeError if it does not accept them."""
    row = op(name)
    if len(inputs) != row.arity:
        raise TypeError(f"{name!r} takes {row.arity} inputs, not {len(inputs)}")
    if not INPUTS[row.inputs](inputs):
        raise TypeError(f"{name!r} takes inputs that are {row.inputs}, not {', '.join(inputs)}: cast them")
    match row.result:
        case "first" | "last":
            return inputs[-1 if row.result == "last" else 0]
        case "real":
            return {"complex64": "float32", "complex128": "float64"}.get(inputs[0], inputs[0])
    return row.result


def exact(name: str, types: tuple[str, ...]) -> bool:
    """Are NumPy's bits the specification of this op on inputs of these element types?"""
    if name in STRUCTURAL:
        return True
    letters = TABLE[name].exact
    return all(t[0] in letters or t == "complex128" and letters is FUSED and products_fused() for t in types)


@cache
def products_fused() -> bool:
    """Does NumPy compute products of complex128 by fused multiply-adds on this processor, both in whole
    vectors and in the remainder?"""
    import numpy

    a = 1 + 2.0**-30  # a * a - 1 keeps its last bit, 2**-60, only if a * a is not rounded
    x = numpy.full(33, complex(a, 1.0))
    expected = complex(2.0**-29 + 2.0**-60, 2 * a)
    for n in (1, 2, 3, 32, 33):
        y, z = x[:n], x[n - 1::-1]
        if not all((found == expected).all() for found in (y * y, z * z, y[::3] * y[::3], numpy.square(y))):
            return False
    return True


def errors(operation: str, signature: tuple[str, ...]) -> tuple[str, int]:
    """The name in NumPy's warnings of a task's operation, and the floating-point errors that it can raise."""
    name, _, attribute = operation.partition(":")
    row = TABLE.get(name)
    if row is None or operation == "copy" and len(set(signature)) == 1:  # no cast
        return operation, 0
    floats = any(t[0] in "fc" for t in signature)
    word = "at" if name.startswith("scatter_") and attribute[0] == "a" else row.word or row.name
    word = attribute or word if name == "dot" else word  # NumPy's function that computes a sum of products
    return word, row.errors if floats else row.integer_errors


# Reductions

FOLDS = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum", "any": "logical_or",
         "all": "logical_and", "nanmin": "fmin", "nanmax": "fmax", "parity": "logical_xor",
         "bitand": "bitwise_and", "bitor": "bitwise_or", "bitxor": "bitwise_xor"}
"""The op that each operator of `reduce` and `scan` folds with."""

TRUTH = frozenset({"any", "all", "parity"})
"""Operators that fold the truth of elements."""

EXTREMES = frozenset({"min", "max", "nanmin", "nanmax"})
"""Operators whose result is one of the elements."""

SCANS = {name: f"cum{name}" for name in FOLDS}
"""The operation that computes all running values of each operator."""

INDEXED = frozenset({"argmin", "argmax"})
"""Operators of `reduce` that fold pairs of a value and its index."""


def identity(operator: str, dtype: str) -> object:
    """The initial value of a reduction: folding it with x gives x.

    A float sum starts from 0.0, as NumPy's does, so that no sum is -0.0; what gives back -0.0 as well is
    `neutral`.  (A complex product of 1 and an infinity is NaN: that identity is one of finite numbers only.)
    """
    match operator.removeprefix("arg"), dtype[0]:
        case "any" | "all" | "parity", _:
            return operator == "all"
        case "bitand", letter:
            return {"b": True, "u": 2 ** (8 * ITEMSIZE[dtype]) - 1}.get(letter, -1)
        case "bitor" | "bitxor", letter:
            return False if letter == "b" else 0
        case "nanmin" | "nanmax", "f":
            return math.nan
        case "sum", letter:
            return {"b": False, "f": 0.0, "c": 0j}.get(letter, 0)
        case "prod", letter:
            return {"b": True, "f": 1.0, "c": complex(1.0, 0.0)}.get(letter, 1)
        case extreme, "b":
            return extreme.endswith("min")
        case extreme, ("i" | "u") as letter:
            values = 2 ** (8 * ITEMSIZE[dtype])
            least = 0 if letter == "u" else -values // 2
            return least if extreme.endswith("max") else least + values - 1
        case extreme, letter:
            bound = -math.inf if extreme == "max" else math.inf
            return complex(bound, bound) if letter == "c" else bound


def neutral(operator: str, dtype: str) -> object:
    """The value that, folded with x, gives x to the bit."""
    found = identity(operator, dtype)
    return -found if operator == "sum" and isinstance(found, (float, complex)) else found


SCATTERED = ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
"""Operators with which `ufunc.at` folds values into an array."""
GATHERED = 4
"""The most dimensions of an array that a task indexes by data."""

COUNTED = 1 << 15
"""The block size for counting the true elements of a mask, in elements, for the operation `nth`."""

# The rows.  Operations that agree in every fact share one.

EXPONENTS = {f"power{n}": float(n) for n in (-4, -3, -2, -1.5, -1, -0.5, 0.5, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)}
"""Powers to small constant exponents, as operations of one input such as `power3` or `power-0.5`.  A scalar's
value is data and not part of a kernel, so the exponent is recognised when `x ** 3` is recorded."""

_AS_NUMPY = {"power-1", "power0.5", "power2"}
"""Powers that NumPy computes by a special case; it leaves the others to `pow`."""

_ROWS = [
    # names, arity, and what differs from the defaults
    Operation("add subtract", 2, errors=RANGE | INVALID),
    Operation("multiply", 2, exact=FUSED, errors=RANGE | INVALID),
    Operation("divide", 2, exact=REAL, errors=DIVIDE | RANGE | INVALID),
    Operation("floor_divide", 2, exact=REAL, errors=DIVIDE | OVERFLOW | INVALID,
              integer_errors=DIVIDE | OVERFLOW),
    Operation("remainder fmod", 2, exact=REAL, errors=DIVIDE | INVALID, integer_errors=DIVIDE),
    Operation("reciprocal", exact=REAL, errors=DIVIDE | RANGE | INVALID, integer_errors=DIVIDE | INVALID),
    Operation("power float_power", 2, exact=INTEGER, errors=DIVIDE | RANGE | INVALID, cost=16),
    *[Operation(name, exact=REAL if name in _AS_NUMPY else NONE, errors=DIVIDE | RANGE | INVALID,
                cost=1 if name in _AS_NUMPY else 8, word="power") for name in EXPONENTS],
    Operation("divmod_0", 2, exact=REAL, errors=DIVIDE | OVERFLOW | INVALID, integer_errors=DIVIDE | OVERFLOW,
              body=generators.applying("floor_divide"), word="divmod"),
    Operation("divmod_1", 2, exact=REAL, errors=DIVIDE | INVALID, integer_errors=DIVIDE,
              body=generators.applying("remainder"), word="divmod"),
    Operation("square", exact=FUSED, errors=RANGE | INVALID),
    Operation("sqrt", exact=REAL, errors=INVALID),
    Operation("negative positive conjugate", rounded=False),
    Operation("fabs sign rint floor ceil trunc", exact=REAL, rounded=False),
    Operation("absolute", result="real", exact=REAL, errors=RANGE | INVALID, rounded=False),
    Operation("real", result="real", rounded=False),
    Operation("imag", result="real"),

    Operation("exp exp2 expm1 sinh cosh tan", exact=NONE, errors=RANGE | INVALID, cost=8),
    Operation("log log2 log10 log1p arctanh", exact=NONE, errors=DIVIDE | INVALID, cost=8),
    Operation("sin cos tanh arcsin arccos arccosh", exact=NONE, errors=INVALID, cost=8),
    Operation("arctan arcsinh cbrt erf erfc", exact=NONE, cost=8),
    Operation("arctan2", 2, exact=NONE, cost=16),
    Operation("hypot", 2, exact=NONE, errors=RANGE | INVALID, cost=16),
    Operation("logaddexp logaddexp2", 2, exact=NONE, errors=DIVIDE | RANGE | INVALID, cost=16),

    Operation("maximum minimum fmax fmin", 2, rounded=False),
    Operation("clip", 3, exact=REAL, rounded=False),
    Operation("where", 3, "last", "bool, then alike", rounded=False),
    Operation("equal not_equal less less_equal greater greater_equal", 2, "bool", "alike or mixed"),
    Operation("logical_and logical_or logical_xor", 2, "bool"),
    Operation("logical_not isfinite isinf isnan", result="bool"),
    Operation("signbit", result="bool", exact=REAL),

    Operation("degrees radians deg2rad rad2deg", exact=REAL, errors=RANGE),
    Operation("spacing invert", exact=REAL),
    Operation("modf_0 modf_1", exact=REAL, word="modf"),
    Operation("frexp_0", exact=REAL, word="frexp"),
    Operation("frexp_1", result="int32", exact=REAL, word="frexp"),
    Operation("bitwise_count", result="uint8", exact=REAL),
    Operation("gcd lcm bitwise_and bitwise_or bitwise_xor left_shift right_shift", 2, exact=REAL),
    Operation("heaviside copysign", 2, exact=REAL, rounded=False),
    Operation("nextafter", 2, exact=REAL, errors=RANGE),
    Operation("ldexp", 2, inputs="a float, then int32 or int64", exact=REAL, errors=RANGE | INVALID),

    Operation("copy", body=generators.copy, errors=RANGE | INVALID, word="cast"),
    Operation("arange", 2, body=generators.arange),
    Operation("roll", 2, body=generators.roll),
    Operation("roll2", 3, body=generators.roll),
    *[Operation(f"gather{n}", 1 + 3 * n, body=generators.gather) for n in range(1, GATHERED + 1)],
    Operation("nth", 4, body=generators.nth),
    Operation("scatter", 6, body=generators.scatter(""), elementwise=False, errors=RANGE | INVALID,
              word="cast"),
    *[Operation(f"scatter_{name}", 6, body=generators.scatter(name), elementwise=False,
                errors=DIVIDE | RANGE | INVALID, word=name) for name in SCATTERED],
    Operation("spmv", 5, body=generators.rows),
    Operation("reduceat", 3, body=generators.rows, errors=RANGE | INVALID),
    Operation("dot", 2, body=generators.dot, elementwise=False, errors=RANGE | INVALID),
    Operation("vdot", 2, body=generators.dot, elementwise=False),
    *[Operation(name, body=generators.fold(name, False), elementwise=False, errors=RANGE | INVALID,
                word="reduce")
      for name in ("sum", "prod")],
    *[Operation(name, body=generators.fold(name, name in TRUTH), elementwise=False)
      for name in (*[name for name in FOLDS if name not in ("sum", "prod")], *sorted(INDEXED))],
    *[Operation(name, body=generators.scan(operator, operator in TRUTH), elementwise=False, word="accumulate",
                errors=RANGE | INVALID if operator in ("sum", "prod") else 0)
      for operator, name in SCANS.items()],
]

for _row in _ROWS:
    for _name in _row.name.split():
        declare(_row._replace(name=_name))
