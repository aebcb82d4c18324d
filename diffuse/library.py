"""How an array library joins the stream.

`diffuse.numpy` and `diffuse.scipy` are two such libraries and use nothing of Diffuse below this module; a
third one is `apps/lattice.py`.  A library

* says once what each of its operations computes: `declare(Operation(name, arity, body=...))`, with a body
  that is written in the operations that are there (`Builder`);
* keeps a handle (`Storage`) for each of its arrays, made by `create`, or by `attach` over a NumPy array.  A
  store that no handle and no pending task refers to is gone; one that nobody else can see never has memory;
* shows parts of stores as views (`whole`, `part`): affine maps from the task's iteration space;
* hands over what its users call: it can `record` an operation on views, or `submit` an `IndexTask` of its own
  making, whose decomposition is given or left to the stream.  Both return at once; operations of NumPy and of
  other libraries fuse with these where no data has to move between points;
* reads values with `value`, which waits for them, and runs functions of NumPy with `call`, in their turn;
  such a function says with `Independent` along which axes it is independent, so that ranks that have arrays
  in parts run it on these: `call("rank", Independent(f, ((0, 0),)), (x,), (y,))` gives `f` some rows of both.

An object with a method `__diffuse__` that returns `(Storage, View)` is an array to `diffuse.numpy`, on the
same memory, and its arrays have that method, too.  A library calls `join(__name__)` so that its users' lines,
rather than its own, stand in explanations, warnings and errors.
"""

from __future__ import annotations

from math import prod
from operator import index as index_of
from typing import TYPE_CHECKING, Any

from diffuse.bounded import Bounded, Recurring
from diffuse.interrupts import of_handler
from diffuse.ir import (
    Access,
    AccessMap,
    Decomposition,
    Frame,
    IndexTask,
    Point,
    Privilege,
    Scalar,
    Split,
    Store,
    first_points,
    tile_length,
    view,
)
from diffuse.ir.loops import ROWS
from diffuse.ir.view import View
from diffuse.kernels.body import operations
from diffuse.kernels.body.expr import Builder
from diffuse.kernels.body.operations import EXPONENTS, FOLDS, Operation
from diffuse.kernels.build import routines, small_folds
from diffuse.kernels.meaning.quiet import quiet
from diffuse.memory import Span, address
from diffuse.observe import floaterrors, provenance, trace
from diffuse.runtime import SEEN, foresee, prepare, start
from diffuse.runtime.independent import Alone, Ends, Independent, Moved, Sums
from diffuse.stream import pace
from diffuse.stream.engine import (
    again,
    again_into,
    aliased,
    busy,
    call,
    create,
    current,
    fence,
    fetch,
    flush,
    look,
    new,
    overlap,
    own,
    piece,
    record,
    recording,
    settle,
    submit,
    take,
    write_back,
)
from diffuse.stream.parts import part_length
from diffuse.stream.stores import Operand, Storage
from diffuse.stream.walk import Steps, advanced

if TYPE_CHECKING:
    from diffuse.kernels.body.user import UserFunction
    from diffuse.kernels.build import algorithms, numba_frontend

# What every library needs
__all__ = [
    "Access", "AccessMap", "Builder", "Decomposition", "IndexTask", "Operand", "Operation", "Point",
    "Privilege", "Scalar", "Split", "Storage", "Store", "View", "attach", "call", "create", "declare",
    "fence", "flush", "join", "part", "record", "submit", "value", "whole",
]
# Operations at once, with the bits of recorded ones: for arrays too small to be worth recording
__all__ += ["EXPONENTS", "FOLDS", "ROWS", "operations", "pace", "quiet", "routines", "small_folds"]
# Host functions that ranks call on parts of arrays, along the axes that they declare
__all__ += ["Alone", "Ends", "Independent", "Moved", "Sums", "first_points", "part_length", "tile_length"]
# Routines that sort, search and count, which functions of a library call on parts of arrays
__all__ += ["algorithms"]
# Tables of a limited size: of what a library decides once for all calls that are alike
__all__ += ["Bounded", "Recurring"]
# Equal steps through stores, as loops over the levels of an array make them
__all__ += ["Steps", "advanced"]
# Operations recorded again, of which a library knows the template, and what their stores look like
__all__ += ["Frame", "again", "again_into", "new", "recording"]
# Operations that are written by the user, as a scalar function of Python
__all__ += ["UserFunction", "numba_frontend"]
# The memory of stores, for libraries whose arrays the program reads and writes element by element
__all__ += ["SEEN", "Span", "address", "aliased", "busy", "current", "fetch", "foresee", "look", "overlap",
            "own", "piece", "prepare", "settle", "start", "take", "view", "write_back"]
# Exceptions that handlers of signals raise, which are not those of a call
__all__ += ["of_handler"]
# What is told to people
__all__ += ["floaterrors", "provenance", "trace"]


def __getattr__(name: str) -> Any:
    # Imported when first used: Numba and the reader of LLVM's text take long to load, and few programs
    # translate functions of their own.
    if name == "UserFunction":
        from diffuse.kernels.body.user import UserFunction

        return UserFunction
    if name == "numba_frontend":
        from diffuse.kernels.build import numba_frontend

        return numba_frontend
    if name == "algorithms":
        from diffuse.kernels.build import algorithms

        return algorithms
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def declare(operation: Operation) -> None:
    """Add an operation, written in others by its `body`, to the table of operations.

    Raises TypeError for anything but an `Operation`, and ValueError for a name that is taken and for an
    operation without a body.  Whether the body fits the element types of a task is found at the first call
    with these: a TypeError there.
    """
    if not isinstance(operation, Operation):
        raise TypeError(f"declare: {operation!r} is no operation; give it Operation(name, arity, body=...)")
    if operation.body is None:
        raise ValueError(f"operation {operation.name!r} has no body: write it in other operations "
                         "(Operation(name, arity, body=...))")
    operations.declare(operation)


def join(package: str) -> None:
    """Declare a package, by its `__name__`, to be an array library: explanations, warnings and errors then
    name the user's line that called it, and not a line of its own.  Raises TypeError for anything but a
    name."""
    if not isinstance(package, str):
        raise TypeError(f"join: {package!r} is no name of a package; write join(__name__) in the package")
    provenance.LIBRARIES.add(package)


def attach(array: Any) -> Storage:
    """Make a store over the memory of a C-contiguous NumPy array, which it keeps alive.

    Raises TypeError for anything but an array of one of the element types of `create`, and ValueError for one
    whose memory is not contiguous or has swapped bytes.
    """
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"attach: {array!r} is no array of NumPy's; give it numpy.asarray(it)")
    return current().stores.attach(array)


def whole(storage: Storage) -> View:
    """All elements of a store, over an iteration space of its own shape.  TypeError as for `part`."""
    return part(storage, ...)


def part(storage: Storage, index: Any) -> View:
    """The elements that NumPy's basic indexing picks, over an iteration space of their shape.

    `index` holds slices, integers, an ellipsis and None.  TypeError for anything else, such as an array, and
    for a store that is no handle; IndexError as NumPy raises it.
    """
    import numpy

    _check_handle(storage)
    items = [_basic(item, storage) for item in (index if isinstance(index, tuple) else (index,))]
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)  # integers alone would read an element; this is a view without dimensions
    shape, dtype = storage.store.shape, numpy.dtype(storage.store.dtype)
    strides = [dtype.itemsize * prod(shape[d + 1:]) for d in range(len(shape))]
    mirror = numpy.lib.stride_tricks.as_strided(numpy.empty(1, dtype), shape, strides)  # never read
    shown = mirror[tuple(items)]
    offset = address(shown) - address(mirror)
    return view.of(shape, dtype.name, dtype.name, dtype.itemsize, offset, shown.strides, shown.shape)


def _check_handle(storage: Any) -> None:
    if not isinstance(storage, Storage):
        raise TypeError(f"{storage!r} is no handle of a store: give the one that `create` or `attach` "
                        "returned, or the first of the two that `__diffuse__()` of an array returns")


def _basic(item: Any, storage: Storage) -> Any:
    """An item of a basic index; an integer as Python's."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    try:
        if not isinstance(item, bool):
            return index_of(item)
    except TypeError:
        pass
    raise TypeError(f"index {item!r} of a store of shape {storage.store.shape}: expected slices, integers, "
                    "an ellipsis or None, which pick the elements of a view")


def value(storage: Storage) -> Any:
    """The elements of a store as a NumPy array that must not be written to, when all that was recorded for
    them is done.  Raises what kept them from being computed, and TypeError for anything but a handle."""
    import numpy

    _check_handle(storage)
    found = fetch(storage).view(storage.store.dtype).reshape(storage.store.shape)
    found = numpy.asarray(found).view()
    found.flags.writeable = False
    return found
