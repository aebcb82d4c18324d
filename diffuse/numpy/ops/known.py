"""Memoises calls that were recorded on the same views: one look-up finds them, one call records them again.

A `Known` holds everything that a call depends on (types, shapes, layouts, the rule, the template) except its
stores and numbers.  The key is the function with the views of arrays and the types of numbers.  Only calls
that are always recorded are kept: NumPy computes on small arrays at hand, and a view does not determine
whether an array is at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffuse.library import Frame, Recurring, again, again_into, recording, view
from diffuse.numpy.arrays import access, core, elements
from diffuse.numpy.arrays.core import ARRAYS
from diffuse.numpy.arrays.elements import sliced
from diffuse.numpy.arrays.forms import NATIVE, Form, Mirror
from diffuse.numpy.ops import single
from diffuse.numpy.ops.single import OFTEN
from diffuse.numpy.small import native

_new: Any = core.Array.__new__
DEPTH = 4
"""Python frames from the program's line to the engine: an operator or ufunc, the arrays' core, this module
and the engine; one fewer if the first may be compiled code.  A number that is too small is only slower."""


class Known:
    """A call that was recorded before: its template, and the form of its result."""

    __slots__ = ("template", "form", "frame", "part", "meta", "plain", "casts", "values")

    form: Form
    frame: Frame
    part: view.View
    meta: Mirror
    plain: bool
    """Is the result an array, rather than a pending number?"""

    def __init__(self, template: Any, form: Form | None, casts: Sequence[Callable[[Any], Any] | None] = (),
                 values: tuple[int, ...] = ()) -> None:
        self.template = template
        """The template of the task; for `roll` a list of the templates of its parts."""
        self.values = values
        """For `roll`, the numbers of each part."""
        if form is not None:  # the result is a new array
            self.form = form
            self.frame = form.frame
            self.part = form.root
            self.meta = form.mirror
            self.plain = form.ndim > 0
        self.casts = tuple([(k, cast) for k, cast in enumerate(casts) if cast is not None])
        """Position of each operand that is a number, and the conversion to its computing type."""


KNOWN: dict[tuple[Any, ...], Known] = Recurring(1 << 15)
"""Known calls.  The key is NumPy's function, or a name, with the token of each array's view and each number's
type."""

eager = False
"""True while floating-point errors raise or call: then nothing is recorded."""


def name_of(x: Any) -> Any:
    """The key of an operand in `KNOWN`: the token of an array's view, which must be set, or a type."""
    return x.part.token if type(x) in ARRAYS else type(x)


def located(x: Any) -> bool:
    """Find the view of a large array that has none yet; returns False if no view describes it."""
    size: int = x.meta.size
    return size >= core.SMALL and core.slow.locate(x)


def token(x: Any) -> Any:
    """The token of an array's view; None where it is not known.

    Arrays of the host alone, such as results that were computed at once, have the view of a whole store
    without having a store yet.
    """
    if x.part is None:
        if x.storage is None:
            return x.form.root.token if x.owner is None and not x.lent else None
        if not located(x):
            return None
    return x.part.token


def stored(x: Any) -> Any:
    """The store of an array whose token is known; None if no view describes it."""
    return x.storage if x.storage is not None or core.slow.locate(x) else None


def read(x: Any) -> Any:
    """Replace a small NumPy array by the snapshot that tasks read; return other operands unchanged."""
    if type(x) is core.NDARRAY and x.size < core.SMALL and x.dtype in NATIVE:
        return access.snapshot(x)
    return x


def steadied(operands: Sequence[Any]) -> Sequence[Any]:
    """Operands with snapshots in place of small NumPy arrays."""
    return [read(x) for x in operands] if core.NDARRAY in map(type, operands) else operands


def binary(function: Any, a: Any, b: Any, depth: int = DEPTH) -> Any:
    """Record a two-input operation again that was recorded on these views before; else return None."""
    one: Any = type(a)
    other: Any = type(b)
    if one is core.NDARRAY or other is core.NDARRAY:
        a, b = read(a), read(b)
        one, other = type(a), type(b)
    if one in ARRAYS:
        one = token(a)
    if other in ARRAYS:
        other = token(b)
    known = KNOWN.get((function, one, other))
    if known is None or eager:
        return None
    if known.template.alone >= OFTEN:
        found = single.done(known.template, function, (a, b), known.form)
        if found is not None:
            return found
    values: tuple[Any, ...] = ()
    if known.casts:
        (position, cast), = known.casts
        number, array = (b, a) if position else (a, b)
        try:
            values = cast(number),
        except OverflowError:  # the number overflows the computing type
            return None
        first, second = stored(array), None
    else:
        first, second = stored(a), stored(b)
        if second is None:
            return None
    if first is None:
        return None
    x = _new(core.array_class)
    x.storage = again(known.template, known.frame, first, second, values, depth)
    x._form = known.form
    x.part = known.part
    x.meta = known.meta
    x.memory = x.owner = None
    return x if known.plain else core.scalar_class.of(x)


def unary(function: Any, a: Any, depth: int = DEPTH) -> Any:
    """Record a one-input operation again that was recorded on this view before; else return None."""
    known = KNOWN.get((function, token(a))) if type(a) in ARRAYS else None
    if known is None or eager:
        return None
    if known.template.alone >= OFTEN:
        found = single.done(known.template, function, (a,), known.form)
        if found is not None:
            return found
    storage = stored(a)
    if storage is None:
        return None
    x = _new(core.array_class)
    x.storage = again(known.template, known.frame, storage, None, (), depth)
    x._form = known.form
    x.part = known.part
    x.meta = known.meta
    x.memory = x.owner = None
    return x if known.plain else core.scalar_class.of(x)


def into(key: Sequence[Any], operands: Sequence[Any], out: Any, index: Any = None) -> bool:
    """Record an operation again that writes an array, or the part of it that `index` selects, if it was
    recorded on these views before.  Returns False if not, or if an operand that shares memory with the array
    might be read after it was written."""
    if eager or out.part is None and not located(out):
        return False
    target, storage, arrays = out.part, out.storage, []
    names = [*key, target.token]
    for x in steadied(operands):
        if type(x) in ARRAYS:
            names.append(token(x))
            if x.storage is storage:
                if x.part is not target:
                    return False
            elif x.storage is not None and x.storage.exported and storage.exported:
                return False
            arrays.append(x)
        else:
            names.append(type(x))
    known = KNOWN.get(tuple(names))
    if known is None or not out.meta.flags.writeable:
        return False
    template = known.template
    if template.alone >= OFTEN and single.written(template, key, operands, out, index):
        return True
    if template.elements < core.SMALL and (storage.touched != core.ENGINE.epoch or core.ENGINE.walk.begun):
        return False  # it may be done at once
    try:
        values = tuple([cast(operands[k]) for k, cast in known.casts])
    except OverflowError:
        return False
    storages = [*map(stored, arrays)]
    if None in storages:
        return False
    again_into(template, storages, storage, values, DEPTH - 1)  # a ufunc may call this by itself
    return True


def keep(key: Sequence[Any], operands: Sequence[Any], out: Any, template: Any,
         casts: Sequence[Callable[[Any], Any] | None]) -> None:
    """Keep the call, so that `into` can record it again."""
    KNOWN[(*key, out.part.token, *map(name_of, operands))] = Known(template, None, casts)


def inplace(function: Any, a: Any, b: Any) -> bool:
    """Record `a op= b` again if it was recorded on these views before; else return False."""
    return into(("into", function), (a, b), a)


def assignment(x: Any, index: Any, value: Any) -> bool:
    """Record `x[index] = value` with slices again if it was recorded on these views before; else return
    False.

    Operands that share a store may overlap.
    """
    if x.part is None:
        return False
    key = sliced(x.part.token, index)
    if key is None:
        return False
    if type(value) in ARRAYS and value.storage is x.storage:
        known: Any = elements.SLICES.get(key)  # `x[index] += y` ends with the slice assigned to itself
        return bool(known and known[1] is value.part is not None and x.meta.flags.writeable)
    return into(("assign", *key), (value,), x, index)


def call(operation: Any, operands: Sequence[Any]) -> Any:
    """Record an operation again that is not a ufunc (`where`), by its name in the table; None if it was not
    recorded before.  The result is a new array."""
    names: list[Any] = [operation]
    arrays = []
    for x in steadied(operands):
        if type(x) in ARRAYS:
            names.append(token(x))
            arrays.append(x)
        else:
            names.append(type(x))
    known = KNOWN.get(tuple(names))
    if known is None or eager:
        return None
    try:
        values = tuple([cast(operands[k]) for k, cast in known.casts])
    except OverflowError:
        return None
    storages = [*map(stored, arrays)]
    if None in storages:
        return None
    out = core.recorded(known.form)
    again_into(known.template, storages, out.storage, values, DEPTH - 1)
    return out


def rolled(a: Any, shift: Any, axis: Any) -> Any:
    """Record `roll` of an array again if it was shifted by as much before; else return None."""
    if type(a) is not core.array_class or type(shift) is not int or a.part is None and not located(a):
        return None
    if axis is not None and type(axis) is not int:
        return None
    known = KNOWN.get(("roll", a.part.token, shift, axis))
    if known is None or eager:
        return None
    out = core.recorded(known.form)
    for template in known.template:
        again_into(template, (a.storage,), out.storage, known.values, DEPTH - 1)
    return out


core.slow.known, core.slow.known_unary, core.slow.known_inplace = binary, unary, inplace

if native is not None:
    parts = recording()
    native.connect_recording(parts, {
        "Known": Known, "View": view.View, "KNOWN": KNOWN, "SLICES": elements.SLICES, "ways": single.ways,
        "namespace": globals(), "call": call, "rolled": rolled, "again_into": again_into,
        "constants": access.constants, "LITTLE": access.LITTLE})
    parts["connect"](native.uses_of)
    parts["connect_live"](native)
    call, rolled = native.call, native.rolled
