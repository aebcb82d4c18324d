"""Functions and methods of NumPy that small arrays take straight to NumPy.

What Diffuse has for large arrays looks at operands, types and layouts first, which takes longer than NumPy
takes for a small array.  So each function of the namespace, and each method that only reads, has a gate in
front: where all arrays among the arguments are small and at hand, NumPy's own function gets their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from types import EllipsisType, NoneType
from typing import Any

import numpy

from diffuse import library
from diffuse.library import operations, provenance, trace
from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.core import NUMBERS
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise, single
from diffuse.numpy.ops.operands import wrap
from diffuse.numpy.small import native

NDARRAY = numpy.ndarray

OPTIONS: set[type] = {*NUMBERS, str, bytes, type, NoneType, EllipsisType, type(numpy._NoValue),
                      numpy._CopyMode, *(type(dtype) for dtype in NATIVE)}
"""Types of arguments that NumPy's functions take as they are."""

BROADCASTING = frozenset(("where", "clip"))
"""Functions, beside the ufuncs, that broadcast their arguments."""

SPREADING = frozenset(("outer", "meshgrid", "kron"))
"""Functions whose results may have as many elements as all their arguments multiplied."""

WRITING = frozenset("copyto putmask put place fill_diagonal put_along_axis shuffle nan_to_num".split())
"""Functions that write into their arguments without saying so by `out`."""

VIEWING = frozenset("""transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze expand_dims
    flip fliplr flipud rot90 diagonal split array_split hsplit vsplit dsplit unstack broadcast_to atleast_1d
    atleast_2d atleast_3d reshape ravel real imag shape ndim size asanyarray""".split())
"""Functions that look at the description of an array only (ops/manipulation.py), of whatever size."""

OBJECTS = frozenset(("O", "object", "|O"))
"""Names of the element type that keeps arrays as objects."""

EXACT = frozenset("""concatenate stack vstack hstack dstack column_stack append roll pad triu tril diff clip
    array_equal array_equiv allclose copy astype flatten conj conjugate array ones full arange
    eye linspace gradient""".split())
"""Functions and methods whose kernels have NumPy's bits, so that NumPy can do them where the program waits
for each call (ops/single.py)."""

DEEPEST = 4
"""Sequences within sequences that are looked into."""

DEEP = 3 if native is None else 2
"""Frames from a function that may wait to the program's line: a gate of the extension has none."""

FAR = object()
"""Stands for an argument that is no small array at hand."""


def lowered(value: Any, arrays: list[Any], depth: int = 0, look: Any = access.near) -> Any:
    """An argument with memory in place of arrays, which are noted; FAR if `look` finds none (by default, if
    one of them is not small), or if NumPy might take the array itself for an element."""
    kind = type(value)
    if kind is NDARRAY:
        if value.size >= core.SMALL or value.dtype not in NATIVE:
            return FAR
        arrays.append(value)
        return value
    if kind is core.array_class:
        memory = look(value)
        if memory is None:
            return FAR
        arrays.append(value)
        return memory
    if kind in OPTIONS:
        return FAR if value is object or kind is str and value in OBJECTS else value
    if (kind is tuple or kind is list) and depth < DEEPEST and len(value) < core.SMALL:
        items = []
        same = True
        for item in value:
            plain = lowered(item, arrays, depth + 1, look)
            if plain is FAR:
                return FAR
            if plain is not item:
                same = False
            items.append(plain)
        return value if same else items if kind is list else tuple(items)
    if kind is core.scalar_class:
        memory = look(value)
        return FAR if memory is None else memory[()]
    if kind is slice and type(value.start) in OPTIONS and type(value.stop) in OPTIONS:
        return value
    return FAR


def named(options: dict[str, Any], arrays: list[Any]) -> Any:
    """Keyword arguments, lowered; FAR if one of them is, or if there is an output array."""
    found = {}
    for key, value in options.items():
        low = lowered(value, arrays)
        if low is FAR or key == "out":
            return FAR
        found[key] = low
    return found


def raised(found: Any, arrays: list[Any]) -> Any:
    """A result of NumPy as the program sees it; it may be a view of the memory of one of the arguments."""
    if type(found) is NDARRAY:
        whole = found.base
        for x in arrays:
            if type(x) is NDARRAY:
                if found is x or whole is not None and (whole is x or whole is x.base):
                    return found
                continue
            memory = x.memory
            if found is memory:
                return x
            if whole is not None and memory is not None and (whole is memory or whole is memory.base):
                return core.viewing(x, found) if x.meta is memory else fallback.looking_into(x, memory, found)
        if whole is None:
            return core.given(found)
        for x in arrays:
            if type(x) is NDARRAY:
                if found.size and numpy.may_share_memory(x, found):
                    return found
            elif x.memory is not None and found.size and numpy.may_share_memory(x.memory, found):
                return fallback.looking_into(x, x.memory, found)
        return found if found.size < core.TINY else wrap(found)
    if isinstance(found, tuple):
        return fallback.rebuilt(found, [raised(each, arrays) for each in found])
    if type(found) is list:
        return [raised(each, arrays) for each in found]
    return found


@cache
def before_out(function: Any) -> int:
    """How many arguments a function takes by position before its output array: one at least.  Asked when a
    call has more, as reading a signature takes a while."""
    from inspect import Parameter, signature

    name = getattr(function, "__name__", "")
    try:
        by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        names = [name for name, x in signature(function).parameters.items() if x.kind in by_position]
    except (ValueError, TypeError):
        names = []
    return names.index("out") if "out" in names else 2 if name == "dot" else 99


def extent(shape: Any) -> int:
    """Elements of an array of this shape; a large number where that is not plain."""
    if type(shape) is int:
        return shape
    count = 1
    for n in shape if type(shape) is tuple else (UNKNOWN,):
        if type(n) is not int:
            return UNKNOWN
        count *= n
    return count


def steps(*numbers: Any) -> int:
    """A bound on the elements of `arange` of whole numbers."""
    for number in numbers:
        if type(number) is not int:
            return UNKNOWN
    return int(max(numbers[:2]) - min(0, *numbers[:2]))


def listed(value: Any, *_: Any) -> int:
    """Zero for a sequence or a number, which NumPy converts whatever its length."""
    return 0 if type(value) in (list, tuple, float, int) else UNKNOWN


UNKNOWN = 1 << 62
CREATING: dict[str, Callable[..., int]] = {
    "zeros": lambda shape, *_: extent(shape), "ones": lambda shape, *_: extent(shape),
    "empty": lambda shape, *_: extent(shape), "full": lambda shape, *_: extent(shape),
    "arange": lambda *numbers: steps(*numbers[:3]),
    "eye": lambda n, m=None, *_: extent((n, n if m is None else m)),
    "linspace": lambda start, stop, num=50, *_: num if type(num) is int else UNKNOWN,
    "array": listed, "asarray": listed,
}
"""Functions that make arrays: how many elements, from the arguments, if none of these is an array."""


COUNTED = frozenset(("zeros", "ones", "empty", "arange"))
"""Those of them whose only argument may be the number of elements."""


ARRAYS, ANYTHING, SHAPED, RANGING, SPACING, SQUARING = range(6)
"""What the extension's gates ask of a call: at least one array or sequence; arrays and numbers; or numbers
that say how many elements the result has, in four ways."""

WRITES, OPERATES, BELONGS, OVERRUNS, MASKLESS, MULTIPLIES = 16, 32, 64, 128, 256, 512
VIEWS, PACKED, RETYPES = 1024, 2048, 4096
"""A function that writes into an argument; one that broadcasts its operands; a method; one that NumPy lets
write behind an output that is too small; one whose masks are not to be trusted; one whose result may have as
many elements as all its arguments multiplied; one that gives a view of its first argument, whatever the size
of that; only if the elements lie side by side; of another element type."""

ONE, TWO = 8192, 16384
"""Flags of ufuncs of so many operands with one result, whose types tell which operation a call records."""

AIMS, KEEPS, READS, FOLDS, ADDS = 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19
"""A function that writes into its first argument and nothing else; one that gives an array back as it is; a
method that only reads memory, of whatever size; a reduction that gives NumPy's bits of all real elements, or
of whole numbers only."""

WAYS = 1 << 20
"""What one of the following is multiplied by in flags."""
NEVER, WHOLE, REAL, ANY = range(4)
"""For which types of elements a function has NumPy's bits, so that the extension may do it at once on large
arrays, too, while the program reads a value after every few operations (arrays/soon.py): for none; for whole
numbers; for real ones; for all."""

SOON = {**dict.fromkeys("""concatenate stack vstack hstack dstack column_stack append roll pad tril triu copy
    astype flatten where array_equal count_nonzero conj conjugate diff zeros ones empty full""".split(), ANY),
    **dict.fromkeys("clip max min amax amin argmax argmin any all".split(), REAL),
    **dict.fromkeys("sum prod cumsum cumprod".split(), WHOLE)}
"""Functions and methods beside the ufuncs."""

LOOKING = {**dict.fromkeys("""transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze
    expand_dims flip fliplr flipud rot90 diagonal split array_split hsplit vsplit dsplit""".split(), VIEWS),
    "reshape": VIEWS | PACKED, "ravel": VIEWS | PACKED, "view": VIEWS | RETYPES, "item": READS,
    "tolist": READS, "asarray": KEEPS, "asanyarray": KEEPS,
    **dict.fromkeys("min max argmin argmax any all".split(), FOLDS), "sum": FOLDS | ADDS}
"""Flags of functions and methods of which the extension makes views from the description of the array, or
that it has NumPy do on memory of whatever size."""

NEEDS = {"zeros": SHAPED, "ones": SHAPED, "empty": SHAPED, "full": SHAPED, "arange": RANGING,
         "linspace": SPACING, "array": ANYTHING, "asarray": ANYTHING, "eye": SQUARING}
RUNNING = ("cumsum", "cumprod")
"""Functions that may write behind an output."""


METHODS = {"reduce": (0, 3), "accumulate": (OVERRUNS, 3), "reduceat": (0, 4), "outer": (MULTIPLIES, 2),
           "at": (WRITES | AIMS, 3)}
"""Methods of ufuncs: flags, and how many arguments come before an output array."""


def with_gates(ufunc: Any, real: Any) -> None:
    """Put the extension's gates before a ufunc and its methods; `real` is NumPy's."""
    flags = OPERATES if ufunc.library == "numpy" else OPERATES | MASKLESS
    if real.nout == 1 and ufunc.told_by_types:
        flags |= {1: ONE, 2: TWO}.get(real.nin, 0)
    native.StaticGate.__init__(ufunc, real, ufunc.call, ANYTHING, flags | soon_way(ufunc) * WAYS, real.nin)
    for name, (more, most) in METHODS.items():
        plain = getattr(real, name, None)
        if plain is not None:
            gate: Any = native.StaticGate(plain, getattr(ufunc, name), ARRAYS, more, most)
            gate.__name__ = gate.__qualname__ = name
            gate.__doc__ = plain.__doc__
            setattr(ufunc, name, gate)


def soon_way(ufunc: Any) -> int:
    """For which types a ufunc has NumPy's bits, and is not slow there."""
    name, inputs = ufunc.operation, ufunc.nin
    if ufunc.library != "numpy" or not ufunc.recordable or ufunc.nout != 1:
        return NEVER
    ways = [(ANY, "complex128"), (REAL, "float64"), (WHOLE, "int64")]
    return next((way for way, dtype in ways if operations.exact(name, (dtype,) * inputs)
                 and not (way != WHOLE and name in operations.SLOW)), NEVER)


def compiled(name: str, plain: Any, ours: Callable[..., Any], flags: int, function: Any) -> Any:
    """A gate of the extension before `ours`, to `plain`; `function` is NumPy's as a program knows it."""
    flags |= ((WRITES if name in WRITING else 0) | (OPERATES if name in BROADCASTING else 0)
              | (MULTIPLIES if name in SPREADING else 0)
              | (OVERRUNS if name in RUNNING else 0))
    known = vars(numpy.ndarray if flags & BELONGS else numpy).get(name)  # NumPy warns of old names
    if known is (plain if flags & BELONGS else function):
        flags |= LOOKING.get(name, 0) | SOON.get(name, NEVER) * WAYS
    need = NEEDS.get(name, ARRAYS) if vars(numpy).get(name) is function else ARRAYS
    binds = flags & BELONGS or hasattr(type(function), "__get__")
    kind = native.Gate if binds else native.StaticGate
    gate: Any = kind(plain, ours, ARRAYS if flags & BELONGS else need, flags, function)
    gate.__name__ = gate.__qualname__ = name
    if name in EXACT and CREATING.get(name, listed) is listed:
        gate.watched = function
    text = getattr(function, "__text_signature__", None)
    if text is not None:
        gate.__text_signature__ = text
    return gate


def created(name: str, real: Any, ours: Callable[..., Any], count: Callable[..., int]) -> Callable[..., Any]:
    """NumPy's function `real` where it makes a small array, and `ours` else."""
    counted, as_it_is = name in COUNTED, name == "asarray"
    if name in EXACT:
        ours = watched(real, real, ours, None if count is listed else count)

    def call(*args: Any, **kwargs: Any) -> Any:
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
            if count(*given) >= core.SMALL:
                return ours(*args, **kwargs)
            found = real(*given, **dict(zip(kwargs, options, strict=True)))
            return core.given(found) if type(found) is NDARRAY else found
        if count is not listed:
            return ours(*args, **kwargs)
        if kwargs:  # ours knows what NumPy does with memory that Diffuse holds
            if any([type(x) is not NDARRAY for x in arrays]):
                return ours(*args, **kwargs)
            return raised(real(*given, **dict(zip(kwargs, options, strict=True))), arrays)
        return raised(real(*given), arrays)

    return call


def function(real: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function `real` on small arrays, and `ours` on all else."""
    name = getattr(real, "__name__", "")
    plain = getattr(real, "_implementation", real)  # which asks no class for its own version
    if native is not None:
        if name in EXACT:
            made = CREATING.get(name)
            ours = watched(real, plain, ours, None if made is listed else made)
        gate: Callable[..., Any] = compiled(name, plain, ours, 0, real)
        return gate
    if name in WRITING:
        return ours
    if name in CREATING and getattr(numpy, name, None) is real:
        return created(name, real, ours, CREATING[name])
    size = _product if name in SPREADING else _broadcast if name in BROADCASTING else None
    viewing = name in VIEWING
    if name in EXACT:
        ours = watched(real, plain, ours)

    def call(*args: Any, **kwargs: Any) -> Any:
        if viewing and not (args and type(args[0]) is NDARRAY):
            return ours(*args, **kwargs)
        arrays: list[Any] = []
        given = lowered(args, arrays)
        if given is FAR or not arrays or len(args) > 1 and len(args) > before_out(real):
            return ours(*args, **kwargs)
        options: Any = named(kwargs, arrays) if kwargs else kwargs
        if options is FAR:
            return ours(*args, **kwargs)
        if size is not None and size(arrays) >= core.SMALL:
            return ours(*args, **kwargs)
        return raised(plain(*given, **options), arrays)

    return call


def watched(real: Any, plain: Any, ours: Callable[..., Any], count: Callable[..., int] | None = None
            ) -> Callable[..., Any]:
    """`ours`, or NumPy's function `real` where the program waited for each call of a line; `plain` is that,
    too, and `count` says how many elements a function makes that takes no array."""
    def run(*args: Any, **kwargs: Any) -> Any:
        place = single.place(real, provenance.where(DEEP))
        if place.alone >= single.OFTEN:
            found = at_once(place, args, kwargs)
            if found is not FAR:
                return found
        engine = library.current()
        before, epoch, idle = trace.counters["recorded"], engine.epoch, engine.idle
        begun = len(engine.waits.calls)
        found = ours(*args, **kwargs)
        if engine.epoch != epoch:  # it waited itself, as a function that returns a number of Python's does
            place.alone = place.alone + 1 if idle else 0
        elif trace.counters["recorded"] > before:
            engine.waits.called(place, trace.counters["recorded"] - before, begun)
        return found

    def at_once(place: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arrays: list[Any] = []
        given = lowered(args, arrays, look=access.at_hand)
        options: Any = lowered(tuple(kwargs.values()), arrays, look=access.at_hand) if kwargs else ()
        if "out" in kwargs:
            return FAR
        if given is FAR or options is FAR or len(args) > 1 and len(args) > before_out(real):
            return FAR
        if (arrays if count is None else not arrays) and not elementwise.eager_errors:
            size = sum([x.nbytes for x in arrays]) if count is None else 8 * count(*given)
            if size <= single.MOST and single.trusted(place):
                found = plain(*given, **dict(zip(kwargs, options, strict=True)))
                if type(found) is NDARRAY and found.base is None:
                    access.latest = id(found), place
                return raised(found, arrays)
        return FAR

    return run


def _product(arrays: list[Any]) -> int:
    """Elements of the largest result, where the shapes differ."""
    shape, size, same = arrays[0].shape, 1, True
    for x in arrays:
        size *= x.size
        same = same and x.shape == shape
    return int(arrays[0].size) if same else size


def _broadcast(arrays: list[Any]) -> int:
    """Elements of the arrays broadcast together; 0 where the shapes do not fit, and NumPy says so."""
    try:
        return prod(numpy.broadcast_shapes(*[x.shape for x in arrays]))
    except ValueError:
        return 0


def method(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """The method of NumPy's arrays on a small array, and `ours` on others."""
    plain = getattr(numpy.ndarray, name)
    function = getattr(numpy, name, plain)
    fewest = 0 if isinstance(function, numpy.ufunc) else 1  # arguments of a method that may have an output
    if name in EXACT:
        ours = watched(function, plain, ours)
    if native is not None:
        gate: Callable[..., Any] = compiled(name, plain, ours, BELONGS, function)
        return fallback.standing_for(gate, plain)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
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

    call.__name__ = call.__qualname__ = name
    return fallback.standing_for(call, plain)


def looking(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """A method that gives a view: with the extension `ours` is called where that asks for more than NumPy's
    function of the description of the array."""
    if native is None:
        return ours
    plain = getattr(numpy.ndarray, name)
    gate: Callable[..., Any] = compiled(name, plain, ours, BELONGS, plain)
    return fallback.standing_for(gate, plain)


if native is not None:
    native.connect_gates(raised, OPTIONS, before_out)
    native.connect_places(single.places, single.Place, access.made_at_once, single.OFTEN,
                          single.OFTEN + single.TRUSTED, single.MOST)
