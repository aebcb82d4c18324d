"""Assignment: `x[index] = value` as NumPy does it, overlap, casts and errors included."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy

from diffuse.library import Scalar
from diffuse.numpy.arrays import base, core, elements, indices, masks, scatter, views
from diffuse.numpy.arrays.access import at_hand, doubt, host, loop_begun, offset_of, ready, storage_of
from diffuse.numpy.arrays.base import view_in
from diffuse.numpy.arrays.core import ARRAYS, Array, viewing
from diffuse.numpy.arrays.forms import NATIVE, Mirror
from diffuse.numpy.ops import elementwise, known, rules
from diffuse.numpy.ops.operands import adopt, answering, lowered, readable, refused, wrap

NUMBERS = rules.NUMBERS
SEQUENCES = (list, tuple, range)


def setitem(x: Array, index: Any, value: Any) -> None:
    """Write `value`, cast and broadcast, to the part of `x` that `index` selects."""
    if known.assignment(x, index, value):
        return
    if x.storage is None and x.owner is None and x.form.size < core.SMALL:
        right = at_hand(value) if type(value) in ARRAYS else value if type(value) in NUMBERS else None
        parts = index if type(index) is tuple else (index,)
        if right is not None and ARRAYS.isdisjoint(map(type, parts)):
            memory: Any = x.memory
            memory[index] = right
            return
    if not x.meta.flags.writeable:
        raise ValueError("assignment destination is read-only")
    simple = views.basic(index)
    if simple is None:
        choose(x, index, value)
        return
    meta, element = views.part(x.meta, simple)
    if element:
        value = asked(value, x.form.dtype)
    if meta.size < core.SMALL:
        right = at_hand(value) if isinstance(value, Array) else readable(value)
        if right is not None and (ready(x) or loop_begun()):
            base.put(x, simple, right)
            return
    if element and (not isinstance(value, Array) or value.form.ndim) and (
            isinstance(value, (list, tuple)) or numpy.ndim(value)):
        base.put(x, simple, readable(value))  # raises, as NumPy does for one element
        return
    value = known.read(value)
    try:
        template = write(x, meta, value)
        if template is not None and meta.size >= core.TINY and base.locate(x):
            keep(x, index, value, template)
    except base.Unaddressable:
        base.put(x, simple, host(value) if isinstance(value, Array) else readable(value))


def keep(x: Array, index: Any, value: Any, template: Any) -> None:
    """Keep an assignment to a slice as a known call, if every such assignment on these views is recorded,
    without a warning."""
    key = elements.sliced(base.view_of(x).token, index)
    dtype = x.form.dtype
    if key is None:
        return
    if type(value) in NUMBERS:
        if dtype.kind not in "cb" and numpy.asarray(value).dtype.kind == "c":
            return
        plain = dtype == numpy.float64 and type(value) in (float, int)
        known.keep(("assign", *key), (value,), x, template, (float if plain else partial(cast, dtype=dtype),))
    elif (type(value) is core.array_class and value.part is not None
          and not (value.form.dtype.kind == "c" and dtype.kind not in "cb")):
        known.keep(("assign", *key), (value,), x, template, (None,))


def write(x: Array, meta: Mirror, value: Any) -> Any:
    """Write `value` to the part of `x` that a view of its meta describes; returns the template of the task if
    the same call can be recorded again."""
    try:
        source = assigned(value, meta.dtype)
    except (TypeError, ValueError):  # NumPy knows how many dimensions a sequence may have
        base.put(core.viewing(x, meta), ..., readable(value))
        return None
    if type(source) in core.PENDING and lossy(source.form.dtype, meta.dtype):
        source = host(source)[()]
    if (
        type(source) not in ARRAYS
        and type(source) not in rules.WEAK
        and type(source) not in rules.STRONG
    ):
        base.put(core.viewing(x, meta), ..., readable(value))
        return None
    if isinstance(source, Array):
        if type(value) in (list, tuple) and source.form.ndim > meta.ndim:
            base.put(core.viewing(x, meta), ..., readable(value))  # raises, also for extents of 1
        mirror = fitted(source.meta, meta.shape)
        if elementwise.eager_errors or overtakes(x, meta, source, mirror):
            base.put(core.viewing(x, meta), ..., host(source))
            return None
        target = _target(x, meta)
        part = base.operand(source if mirror is source.meta else core.viewing(source, mirror), meta.shape)
        elementwise.warn_complex(source.meta.dtype, meta.dtype)
        return target and elementwise.assign(target, part)
    target = _target(x, meta)
    number = cast(source, meta.dtype)
    return target and elementwise.assign(target, Scalar(0, NATIVE[meta.dtype], number))


def overtakes(x: Array, meta: Mirror, source: Array, mirror: Mirror) -> bool:
    """Does an assignment between two rows of one array read elements that it wrote before?

    NumPy copies no elements first where it goes through both rows in one direction, even if their strides
    differ.  What it writes then depends on its order, so that it has to do it, at all sizes.
    """
    owner, other = x if x.owner is None else x.owner, source if source.owner is None else source.owner
    if owner is not other or meta.ndim != 1 or mirror.ndim != 1 or not meta.size:
        return False
    strides = meta.strides[0], mirror.strides[0]
    if strides[0] == strides[1] or strides[0] * strides[1] <= 0:
        return False
    first, second = [(offset_of(of, row), offset_of(of, row[-1:]))
                     for of, row in ((x, meta), (source, mirror))]
    return (min(first) < max(second) + mirror.itemsize and min(second) < max(first) + meta.itemsize)


def _target(x: Array, meta: Mirror) -> Any:
    """The store of `x` and the part of it that a task writes; None if that has no elements."""
    if not meta.size:
        return None
    if x.storage is None:
        doubt(x)
    return storage_of(x), view_in(x, meta)


def fitted(meta: Mirror, shape: tuple[int, ...]) -> Mirror:
    """The source without the leading dimensions of extent 1 that assignment ignores; raises NumPy's error if
    it does not broadcast."""
    if meta.shape == shape:
        return meta
    source = meta
    while source.ndim > len(shape) and source.shape[0] == 1:
        source = source[0, ...]
    lead = len(shape) - source.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(source.shape, shape[lead:], strict=True)):
        text = "could not broadcast input array from shape {} into shape {}"
        raise ValueError(text.format(*(str(s).replace(" ", "") for s in (source.shape, shape))))
    return source


def assigned(value: Any, dtype: numpy.dtype[Any]) -> Any:
    """Convert the value of an assignment.  Numbers of a sequence are converted one by one to the type of the
    elements, with NumPy's errors for those that it does not have."""
    sequence = type(value) in SEQUENCES
    return wrap(numpy.asarray(lowered(value), dtype)) if sequence else adopt(value)


def cast(value: Any, dtype: numpy.dtype[Any]) -> Any:
    """Convert a number as assignment does: with NumPy's truncation, wrap-around and errors."""
    kind = type(value)
    if kind is float and dtype == numpy.float64:
        return value
    cell = numpy.empty((), dtype)
    cell[()] = value
    return cell.item()


def lossy(source: numpy.dtype[Any], target: numpy.dtype[Any]) -> bool:
    """Does it depend on the value of a number whether NumPy raises an error or warns when it casts it?  NaN
    and infinity are no integers, and of imaginary parts it warns unless the index selects nothing."""
    return target.kind in "iub" and source.kind in "fc" or source.kind == "c" != target.kind


def chosen(value: Any, dtype: numpy.dtype[Any]) -> Mirror:
    """Convert a number as assignment through masks and indices does, to a 0-d array: NumPy's numbers are
    treated as arrays there, and wrap around."""
    if isinstance(value, numpy.generic):
        return numpy.asarray(value).astype(dtype)
    cell = numpy.empty((), dtype)
    cell[()] = value
    return cell


def asked(value: Any, dtype: numpy.dtype[Any]) -> Any:
    """The value for one element: an object without dimensions, of a class derived from NumPy's array, is
    converted to its number.  A masked value then gives NaN or an error."""
    derived = isinstance(value, numpy.ndarray) and type(value) is not numpy.ndarray and not value.ndim
    return chosen(value, dtype) if derived else value


def choose(x: Array, index: Any, value: Any) -> None:
    """Assign through arrays of indices and masks: by a task, or by NumPy at once."""
    dtype = x.form.dtype
    try:
        source = assigned(value, dtype)
    except (TypeError, ValueError):  # NumPy looks at the index before the value
        base.put(x, lowered(index), readable(value))
        return
    if type(source) in core.PENDING and lossy(source.form.dtype, dtype):
        value = source = host(source)[()]
    asks = isinstance(source, (numpy.generic, complex)) and lossy(numpy.asarray(source).dtype, dtype)
    if not asks and (filled(x, index, source) or stored(x, index, source)):
        return
    key, elements = lowered(index), host(source) if isinstance(source, Array) else readable(value)
    try:
        base.put(x, key, elements)
    except ValueError as error:
        if not refused(error):
            raise
        base.put(x, answering(key), elements)


def filled(x: Array, index: Any, source: Any) -> bool:
    """Record `x[mask] = number` as a task over all elements, for a mask over the first dimensions of a large
    array; returns False for other assignments."""
    mask = adopt(index) if isinstance(index, (Array, numpy.ndarray)) else None
    if not isinstance(mask, Array) or mask.form.name != "bool" or not mask.form.ndim:
        return False
    if (mask.form.shape != x.form.shape[:mask.form.ndim] or elementwise.eager_errors
            or x.form.size < max(core.SMALL, 1) or x.form.folded):
        return False
    if mask is not x and mask.form.ndim == x.form.ndim and masks.overlaps(x, mask):
        return False  # NumPy writes elements of the mask that it reads later
    number: Any = source
    if type(source) in NUMBERS:
        number = Scalar(1, x.form.name, chosen(source, x.form.dtype).item())
    elif type(source) not in core.PENDING or source.form.dtype.kind == "c" != x.form.dtype.kind:
        return False
    try:
        target = base.operand(x, x.form.shape)
        beside = viewing(mask, mask.meta[(..., *[None] * (x.form.ndim - mask.form.ndim))])
        where = elementwise.apart(base.operand(beside, x.form.shape), target)
        if type(source) not in NUMBERS:
            number = base.operand(source, x.form.shape)
    except base.Unaddressable:
        return False
    name = x.form.name
    elementwise.record("where", ("bool", name, name, name), x.form.shape, (where, number, target), (target,))
    return True


def stored(x: Array, index: Any, source: Any) -> bool:
    """Record an assignment through arrays of indices as a task; returns False if NumPy has to do it."""
    kind = type(source)
    if kind in rules.WEAK or kind in rules.STRONG:
        if x.meta.size < core.SMALL and indices.small(x, index):
            return False
        try:
            number = core.hosted(chosen(source, x.form.dtype))
        except (ValueError, TypeError, OverflowError):
            return False  # NumPy raises an error of the index instead, if there is one
        return scatter.write(x, index, number)
    if kind not in ARRAYS:
        return False
    if x.form.dtype.kind not in "cb" and source.form.dtype.kind == "c":
        return False  # NumPy warns
    return scatter.write(x, index, source)


def fill(x: Array, value: Any) -> None:
    if numpy.ndim(value) if type(value) not in NUMBERS else 0:
        cell = numpy.zeros((), x.form.dtype)
        cell.fill(lowered(value))  # raises, but where a list is a truth value
        value = cell[()]
    setitem(x, Ellipsis, host(value)[()] if isinstance(value, Array) else asked(value, x.form.dtype))
