"""Makes the gates of the extension (../small/gate.c), which decide in C whether a call may go to NumPy at
once.

The flags of a gate describe the function, method or ufunc behind it; ../small/gate.h has the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from diffuse.library import operations, pace
from diffuse.numpy.arrays import access
from diffuse.numpy.bridge import refusals
from diffuse.numpy.ops import single
from diffuse.numpy.ops.lowering import OPTIONS, before_out, raised
from diffuse.numpy.ops.traits import (
    AIMED,
    BROADCASTING,
    COPYING,
    EXACT,
    REPEATING,
    RUNNING,
    SPREADING,
    WRITING,
)
from diffuse.numpy.small import native

ARRAYS, ANYTHING, SHAPED, RANGING, SPACING, SQUARING, DRAWING = range(7)
"""The requirements of a gate on the arguments of a call: at least one array or sequence; arrays or numbers;
or numbers that determine how many elements the result has, as `zeros`, `arange`, `linspace` and `eye` take
them, and methods of random generators."""

FIRST = 1 << 3  # is a reduction along the first axis unless another one is given
WRITES = 1 << 4  # writes into an argument that is not called `out`
OPERATES = 1 << 5  # broadcasts its arguments
BELONGS = 1 << 6  # is a method of arrays
OVERRUNS = 1 << 7  # NumPy lets it write past the end of an output that is too small
MASKLESS = 1 << 8  # its argument `where` goes to Diffuse (SciPy 1.17 writes past the end of masked results)
MULTIPLIES = 1 << 9  # the result may have as many elements as all arguments multiplied
VIEWS = 1 << 10  # gives a view of its first argument, for which only its shape and strides are needed
PACKED = 1 << 11  # gives a view only of contiguous elements
RETYPES = 1 << 12  # gives a view of another element type
ONE, TWO = 1 << 13, 1 << 14  # a ufunc of one or two inputs, whose types tell the operation
AIMS = 1 << 15  # writes into its first argument and nothing else
KEEPS = 1 << 16  # returns an array that is given as it is
READS = 1 << 17  # is a method that reads memory of any size
FOLDS = 1 << 18  # is a reduction that gives NumPy's bits of all real elements
ADDS = 1 << 19  # is a reduction that gives NumPy's bits of integers only
BLANK = 1 << 20  # makes an array whose elements have no values
REPEATS = 1 << 21  # the result is the first argument as many times as the second one says
COPIES = 1 << 22  # has NumPy's bits in results of any size, of which NumPy makes traits.FEW elements faster
WAYS = 1 << 23  # times one of the following

NEVER, WHOLE, SINGLE, REAL, DOUBLE, ANY = range(6)
"""The element types for which a function's kernel has NumPy's bits and NumPy is not slow: none, integers,
float32, real numbers, these and complex128, or all.

For these types the extension lets NumPy compute at once on large arrays, too, while the program reads a value
after every few operations (arrays/soon.py).
"""

SOON = {**dict.fromkeys("""concatenate stack vstack hstack dstack column_stack append roll pad tril triu copy
    array astype flatten where array_equal conj conjugate diff zeros ones empty full
    arange linspace eye zeros_like ones_like empty_like full_like""".split(), ANY),
    **dict.fromkeys("clip max min amax amin argmax argmin any all".split(), REAL),
    **dict.fromkeys("sum prod cumsum cumprod".split(), WHOLE)}
"""The element types with NumPy's bits for functions and methods; `soon_way` finds them for ufuncs."""

LOOKING = {**dict.fromkeys("""transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze
    expand_dims flip fliplr flipud rot90 diagonal split array_split hsplit vsplit dsplit""".split(), VIEWS),
    "reshape": VIEWS | PACKED, "ravel": VIEWS | PACKED, "view": VIEWS | RETYPES, "item": READS,
    "tolist": READS, "asarray": KEEPS, "asanyarray": KEEPS, "empty": BLANK,
    **dict.fromkeys("min max argmin argmax any all count_nonzero ptp".split(), FOLDS),
    **dict.fromkeys(("sum", "mean"), FOLDS | ADDS)}
"""Flags of functions and methods that need no task on arrays of any size: views, functions that read memory
at hand, and functions that write nothing."""

NEEDS = {"zeros": SHAPED, "ones": SHAPED, "empty": SHAPED, "full": SHAPED, "arange": RANGING,
         "indices": SHAPED, "linspace": SPACING, "array": ANYTHING, "asarray": ANYTHING, "eye": SQUARING}
"""The requirements of gates on the arguments of functions that make arrays; all others require `ARRAYS`."""

METHODS = {"reduce": (0, 3), "accumulate": (OVERRUNS, 3), "reduceat": (0, 4), "outer": (MULTIPLIES, 2),
           "at": (WRITES | AIMS, 3)}
"""The flags of each method of ufuncs, and the number of its arguments before an output array."""

REDUCE = {numpy.add: (1, FIRST | FOLDS | ADDS), numpy.maximum: (3, FIRST | FOLDS),
          numpy.minimum: (4, FIRST | FOLDS)}
"""The number by which the extension knows the `reduce` and the `reduceat` of a ufunc (small/gate.h), and
flags of the former."""


def with_gates(ufunc: Any, real: Any) -> None:
    """Put the extension's gates in front of a ufunc and its methods; `real` is NumPy's."""
    flags = OPERATES if ufunc.library == "numpy" else OPERATES | MASKLESS
    if real.nout == 1 and ufunc.told_by_types:
        flags |= {1: ONE, 2: TWO}.get(real.nin, 0)
    native.hasten(type(ufunc))
    native.StaticGate.__init__(ufunc, real, ufunc.call, ANYTHING, flags | soon_way(ufunc) * WAYS, real.nin)
    for name, (more, most) in METHODS.items():
        plain = getattr(real, name, None)
        if plain is not None:
            fold, kinds = REDUCE.get(real, (0, 0)) if name == "reduce" else (0, 0)
            gate: Any = native.StaticGate(plain, getattr(ufunc, name), ARRAYS, more | kinds, most)
            gate.reduces = fold
            if name == "reduceat":  # is NumPy's in any case
                gate.told, gate.sections = ufunc.told, REDUCE.get(real, (0, 0))[0]
            gate.__name__ = gate.__qualname__ = name
            gate.__doc__, gate.__wrapped__ = plain.__doc__, plain  # for `inspect.signature`
            setattr(ufunc, name, gate)


def soon_way(ufunc: Any) -> int:
    """The element types for which a ufunc has NumPy's bits and NumPy's code is not slow."""
    name, inputs = ufunc.operation, ufunc.nin
    if ufunc.library != "numpy" or not ufunc.recordable or ufunc.nout != 1:
        return NEVER
    ways = [(ANY, "complex64"), (DOUBLE, "complex128"), (REAL, "float64"), (WHOLE, "int64")]
    if name in pace.SLOW:
        ways = [(SINGLE, "float32")] if name in pace.SINGLE else ways[-1:]
    return next((way for way, dtype in ways if operations.exact(name, (dtype,) * inputs)), NEVER)


def compiled(name: str, plain: Any, ours: Callable[..., Any], flags: int, function: Any) -> Any:
    """Make a gate that calls NumPy's `plain` if it may, and else `ours`; `function` is NumPy's public
    function, or method, of this name."""
    flags |= ((WRITES if name in WRITING else 0) | (AIMS if name in AIMED else 0)
              | (OPERATES if name in BROADCASTING else 0) | (MULTIPLIES if name in SPREADING else 0)
              | (REPEATS if name in REPEATING else 0) | (COPIES if name in COPYING else 0)
              | (OVERRUNS if name in RUNNING else 0))
    known = vars(numpy.ndarray if flags & BELONGS else numpy).get(name)  # NumPy warns of old names
    if known is (plain if flags & BELONGS else function):
        flags |= LOOKING.get(name, 0) | SOON.get(name, NEVER) * WAYS
    need = NEEDS.get(name, ARRAYS) if vars(numpy).get(name) is function else ARRAYS
    binds = flags & BELONGS or hasattr(type(function), "__get__")
    kind = native.Gate if binds else native.StaticGate
    gate: Any = kind(plain, ours, ARRAYS if flags & BELONGS else need, flags, function)
    gate.__name__ = gate.__qualname__ = name
    if name in EXACT:
        gate.watched = function
    put_behind(gate, ours)
    text = getattr(function, "__text_signature__", None)
    if text is not None:
        gate.__text_signature__ = text
    return gate


def put_behind(gate: Any, ours: Callable[..., Any]) -> None:
    """Let a gate call our function where it does not call NumPy's."""
    gate.ours, gate.told, gate.few = ours, getattr(ours, "told", None), getattr(ours, "few", 0)
    gate.rank = getattr(ours, "rank", 0)


if native is not None:
    native.connect_gates(raised, OPTIONS, before_out, refusals.refused)
    native.connect_places(single.places, single.Place, access.made_at_once, single.OFTEN,
                          single.OFTEN + single.TRUSTED, single.MOST)
