"""Functions that concatenate, repeat or shift arrays: a new array, and assignments to its parts."""

from __future__ import annotations

import itertools
import warnings
from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Bounded
from diffuse.numpy.arrays import access, assign, base, core, forms
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import known, rules
from diffuse.numpy.ops.arguments import one_axis
from diffuse.numpy.ops.conversion import array, asanyarray, ascontiguousarray, asfortranarray
from diffuse.numpy.ops.creation import empty, fresh
from diffuse.numpy.ops.like import empty_like
from diffuse.numpy.ops.manipulation import (
    answers_with,
    asking,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    is_array,
    viewed,
)
from diffuse.numpy.ops.operands import lowered
from diffuse.settings import config

WEAK = frozenset({int, float, complex})
FEW = 16
"""The most repetitions of an array that ranks join, each cut as the array is."""
TURNS = {1: "roll", 2: "roll2"}
"""The operations that shift an array cyclically, by the number of shifted dimensions."""


def _at_once(arrays: list[Any], times: int = 1) -> bool:
    """Should NumPy compute the call: for element types without kernels, or small arrays that are ready, if so
    many times their elements are few?"""
    if not all(type(x) is core.array_class for x in arrays):
        return True
    return times * sum(x.size for x in arrays) < config.small and all(access.ready(x) for x in arrays)


def _sequence(*args: Any, **kwargs: Any) -> Any:
    """The arrays that a call joins."""
    arrays = args[0] if args else next(iter(kwargs.values()), None)
    return arrays if hasattr(arrays, "__getitem__") else None


@asking(numpy.concatenate, _sequence)
def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
                casting: Any = "same_kind") -> Any:
    if not hasattr(type(arrays), "__getitem__") or isinstance(arrays, dict):
        return fallback.silently(numpy.concatenate, arrays)  # raises
    parts = [asanyarray(x) for x in arrays]
    numbers = axis is None and not WEAK.isdisjoint(map(type, arrays))
    if numbers:  # the only place where Python's can be among arrays, whose type they take whatever they are
        parts = [v if type(v) in WEAK else x for v, x in zip(arrays, parts, strict=True)]
    options = {"axis": axis, "dtype": dtype, "casting": casting, **({} if out is None else {"out": out})}
    if not parts or out is not None or numbers or _at_once(parts):
        return fallback.silently(numpy.concatenate, parts, **options)
    key = None
    if dtype is None and type(axis) is int and type(casting) is str:
        key = axis, casting, *[(m.shape, m.strides, m.dtype) for m in [x.meta for x in parts]]
        found = _joins.get(key)
        if found is not None:
            return _laid(parts, *found)
    if axis is None:
        parts, axis = [x.ravel() for x in parts], 0
    found = base.element_type(dtype) if dtype is not None else numpy.result_type(*[x.dtype for x in parts])
    rank, first = parts[0].ndim, parts[0].shape
    axis = one_axis(axis)
    along = axis + rank if axis < 0 else axis
    fits = 0 <= along < rank and found in NATIVE and all(
        x.ndim == rank and x.shape[:along] == first[:along] and x.shape[along + 1:] == first[along + 1:]
        and numpy.can_cast(x.dtype, found, casting) for x in parts)
    if not fits:  # NumPy raises the error
        return fallback.silently(numpy.concatenate, parts, **options)
    ends = [*itertools.accumulate([x.shape[along] for x in parts])]
    shape = (*first[:along], ends[-1], *first[along + 1:])
    form = forms.joined([x.meta for x in parts], along, shape, found)
    places = [_place(rank, along, end - x.shape[along], end) for x, end in zip(parts, ends, strict=True)]
    if key is not None:
        _joins[key] = form, places
    return _laid(parts, form, places)


_joins: dict[Any, Any] = Bounded(1 << 10)
"""The forms of results, and the place of each array in them, by the layouts of the arrays."""


Part = tuple[slice | int, ...]


def _place(rank: int, along: int, start: int, end: int) -> tuple[Part, Part]:
    """The index of an array's elements in the result, and the index into the array that goes with it.

    An array of one column is assigned as that column, without the dimension: it would be the innermost loop,
    of one step."""
    before = (slice(None),) * along
    if end - start == 1 and along == rank - 1 > 0:
        return (*before, start), (*before, 0)
    return (*before, slice(start, end)), ()


def _laid(parts: list[Any], form: Any, places: list[tuple[Part, Part]]) -> Any:
    joined = fresh(form)
    for x, (place, taken) in zip(parts, places, strict=True):
        joined[place] = x[taken] if taken else x
    return joined


@asking(numpy.stack, _sequence)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None,
          casting: Any = "same_kind") -> Any:
    parts = [asanyarray(x) for x in arrays]
    if not parts:
        raise ValueError("need at least one array to stack")
    if len({x.shape for x in parts}) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis = numpy.lib.array_utils.normalize_axis_index(axis, parts[0].ndim + 1)
    index = (*[slice(None)] * axis, None)
    expanded = [x[index] if parts[0].ndim else expand_dims(x, axis) for x in parts]
    return concatenate(expanded, axis, out, dtype=dtype, casting=casting)


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


@asking(numpy.vstack, _sequence)
def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    return concatenate(_listed(atleast_2d(*tup)), 0, dtype=dtype, casting=casting)


def row_stack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    warnings.warn("`row_stack` alias is deprecated. Use `np.vstack` directly.", DeprecationWarning,
                  stacklevel=2)
    return vstack(tup, dtype=dtype, casting=casting)


@asking(numpy.hstack, _sequence)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    parts = _listed(atleast_1d(*tup))
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@asking(numpy.dstack, _sequence)
def dstack(tup: Any) -> Any:
    return concatenate(_listed(atleast_3d(*tup)), 2)


@asking(numpy.column_stack, _sequence)
def column_stack(tup: Any) -> Any:
    arrays = [asanyarray(x) for x in tup]
    return concatenate([x if x.ndim >= 2 else atleast_2d(x).T for x in arrays], 1)


@asking(numpy.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    arr, values = asanyarray(arr), asanyarray(values)
    if axis is None:
        return concatenate((arr.ravel(), values.ravel()), 0)
    return concatenate((arr, values), axis)


def _leaves(part: Any, level: int = 0) -> list[tuple[Any, int]]:
    """The arrays in nested lists, and the depth of each."""
    if type(part) is not list or not part:
        return [(part, level)]
    return [leaf for inner in part for leaf in _leaves(inner, level + 1)]


def _joined(part: Any, depth: int, rank: int) -> Any:
    """Join nested lists of arrays to one array: the innermost lists run along the last axis."""
    if depth:
        return concatenate([_joined(inner, depth - 1, rank) for inner in part], axis=-depth)
    return viewed(asanyarray(part), lambda meta: meta.reshape((1,) * (rank - meta.ndim) + meta.shape))


SLICED = 2 * 512 * 512
"""The number of elements, times the depth of the lists, from which NumPy assigns the parts of a block to an
array in C or Fortran order; it concatenates fewer."""


@asking(numpy.block, lambda arrays: [leaf for leaf, _ in _leaves(arrays)])
def block(arrays: Any) -> Any:
    leaves = _leaves(arrays)
    depth = max(level for _, level in leaves)
    whole = any(isinstance(leaf, Array) for leaf, _ in leaves)
    if not whole or any(level != depth or isinstance(leaf, (list, tuple)) for leaf, level in leaves):
        return fallback.silently(numpy.block, arrays)
    parts = [asanyarray(leaf) for leaf, _ in leaves]
    found = _joined(arrays, depth, max(depth, *[part.ndim for part in parts]))
    if depth * found.size > SLICED:
        rows = all([x.flags.c_contiguous for x in parts]) or not all([x.flags.f_contiguous for x in parts])
        return ascontiguousarray(found) if rows else asfortranarray(found)
    return found.copy() if depth == 0 else found


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    found = known.rolled(a, shift, axis)
    return _roll(a, shift, axis) if found is None else found


@asking(numpy.roll)
def _roll(a: Any, shift: Any, axis: Any) -> Any:
    a = asanyarray(a)
    if _at_once([a]) or not a.size:
        return fallback.silently(numpy.roll, a, shift, axis)
    asked = axis
    if axis is None:
        if a.ndim != 1:
            return roll(a.ravel(), shift, 0).reshape(a.shape)
        axis = 0
    given = numpy.lib.array_utils.normalize_axis_tuple(axis, a.ndim, allow_duplicate=True)
    shifts, axes = numpy.broadcast_arrays(numpy.asarray(lowered(shift)), numpy.array(given, int))
    if shifts.ndim > 1 or shifts.dtype.kind not in "iu":
        return fallback.silently(numpy.roll, a, shift, axis)
    amounts: dict[int, int] = {}
    for s, d in zip(shifts.ravel().tolist(), axes.ravel().tolist(), strict=True):
        amounts[d] = amounts.get(d, 0) + s
    rolled = empty_like(a)
    found = _turned(a, rolled, {d: -s % a.shape[d] for d, s in amounts.items() if s % a.shape[d]})
    templates, values = found or (_moved_apart(a, rolled, amounts), ())
    if (None not in templates and a.size >= core.SMALL and type(shift) is int
            and (asked is None or type(asked) is int) and base.locate(a)):
        name = "roll", base.view_of(a).token, shift, asked
        known.KNOWN[name] = known.Known(templates, rolled.form, (), values)
    return rolled


def _turned(a: Any, rolled: Any, shifts: dict[int, int]) -> tuple[list[Any], tuple[int, ...]] | None:
    """Record one task that reads an array cyclically shifted by so much along these dimensions; returns the
    template and its numbers.  None if there is no such task, or if ranks would be sent the whole array for
    it."""
    if not library.current().runtime.addressed or len(shifts) not in TURNS:
        return None
    try:
        (storage, part), (fresh_storage, target) = base.operand(a, a.shape), base.operand(rolled, a.shape)
    except base.Unaddressable:
        return None
    permuted = rules.turned(a.shape, target.strides)
    shape, axes = permuted or (a.shape, tuple(range(a.ndim)))
    if permuted is not None:
        part, target = part.kept(shape, axes), target.kept(shape, axes)
    along, by = tuple([axes[d] for d in shifts]), tuple(shifts.values())
    name = NATIVE[rolled.dtype]
    template = library.record(
        f"{TURNS[len(by)]}:{','.join(map(str, along))}", (name, *["int64"] * len(by), name), shape,
        ((storage, part.turned_along(along)), *[library.Scalar(k + 1, "int64", s) for k, s in enumerate(by)]),
        ((fresh_storage, target),))
    return [template], by


def _moved_apart(a: Any, rolled: Any, amounts: dict[int, int]) -> list[Any]:
    """Record a copy of each part of an array that a shift moves as a whole; returns their templates."""
    pieces: list[list[tuple[slice, slice]]] = []
    for d in range(a.ndim):
        s = amounts.get(d, 0) % a.shape[d]
        moved = [(slice(s, None), slice(None, -s)), (slice(None, s), slice(-s, None))]
        pieces.append(moved if s else [(slice(None), slice(None))])
    return [_moved(a, rolled, places) for places in itertools.product(*pieces)]


def _moved(a: Any, rolled: Any, places: tuple[tuple[slice, slice], ...]) -> Any:
    """Copy a part of an array to another place in a new one; returns the template if that is a task."""
    to, source = tuple([to for to, _ in places]), tuple([source for _, source in places])
    try:
        return assign.write(rolled, rolled.meta[to], a[source])
    except base.Unaddressable:
        rolled[to] = a[source]
        return None


def _counts(number: Any) -> bool:
    """Is this a number of repetitions that NumPy takes?"""
    whole = isinstance(number, (int, numpy.integer)) and not isinstance(number, numpy.timedelta64)
    return whole and bool(0 <= number <= numpy.iinfo(int).max)


@asking(numpy.tile)
def tile(A: Any, reps: Any) -> Any:
    a = asanyarray(A)
    times = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    rank = max(a.ndim, len(times))
    if not all(map(_counts, times)) or _at_once([a], prod(map(int, times))):
        return fallback.silently(numpy.tile, a, reps)
    if all(r == 1 for r in times):
        return array(a, ndmin=rank)
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - a.ndim) + a.shape
    whole = [r * n for r, n in zip(times, shape, strict=True)]
    if not a.size:
        return a.reshape(whole)
    few = 0 < min(times) and max(times) <= FEW
    if few and library.current().runtime.ranks > 1 and a.meta.flags.c_contiguous:
        tiled = a.reshape(shape)  # ranks write boxes: of each repetition its part
        for axis, count in enumerate(times):
            if count > 1:
                tiled = concatenate([tiled] * count, axis=axis)
        return tiled
    tiled = empty(whole, a.dtype)
    if tiled.size:
        apart = tiled.reshape([k for pair in zip(times, shape, strict=True) for k in pair])
        apart[...] = a.reshape([k for n in shape for k in (1, n)])
    return tiled


@asking(numpy.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    if answers_with(a, "repeat"):
        return fallback.silently(numpy.repeat, a, repeats, axis)
    a = asanyarray(a)
    if not _counts(repeats) or _at_once([a], int(repeats)):
        return fallback.silently(numpy.repeat, a, repeats, axis)
    if axis is None or not a.ndim:
        a = a.ravel()
    axis = numpy.lib.array_utils.normalize_axis_index(0 if axis is None else one_axis(axis), a.ndim)
    n, count = a.shape[axis], int(repeats)
    repeated = empty((*a.shape[:axis], n * count, *a.shape[axis + 1:]), a.dtype)
    if repeated.size:
        apart = repeated.reshape((*a.shape[:axis], n, count, *a.shape[axis + 1:]))
        apart[...] = expand_dims(a, axis + 1)
    return repeated


@asking(numpy.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    a = asanyarray(array)
    if _at_once([a]) or not _paddable(a, pad_width, mode, kwargs):
        native = is_array(a) and a.size > config.small
        reason = None if native else "library"
        return fallback.call(numpy.pad, (a, pad_width, mode), kwargs, silent=reason)
    widths = numpy.broadcast_to(numpy.asarray(pad_width), (a.ndim, 2)).tolist()
    values = numpy.broadcast_to(numpy.asarray(kwargs.get("constant_values", 0)), (a.ndim, 2))
    padded = empty([n + low + high for n, (low, high) in zip(a.shape, widths, strict=True)], a.dtype,
                   "F" if a.flags.fnc else "C")
    padded[tuple([slice(low, low + n) for n, (low, _) in zip(a.shape, widths, strict=True)])] = a
    for axis, (low, high) in enumerate(widths):
        # the part that this axis fills: all of earlier axes, the original part of later ones
        later = zip(a.shape[axis + 1:], widths[axis + 1:], strict=True)
        place = [slice(None)] * (axis + 1) + [slice(b, b + n) for n, (b, _) in later]
        _pad_axis(padded, place, axis, a.shape[axis], low, high, mode, values[axis])
    return padded


def _paddable(a: Any, pad_width: Any, mode: Any, kwargs: dict[str, Any]) -> bool:
    """Is this a padding by one assignment on each side, with valid arguments?"""
    if type(mode) is not str:
        return False
    widths = numpy.asarray([] if isinstance(pad_width, dict) else lowered(pad_width))
    if widths.dtype.kind not in "iu" or widths.size == 0 or widths.min() < 0 or not a.size:
        return False
    try:
        widths = numpy.broadcast_to(widths, (a.ndim, 2))
        numpy.broadcast_to(numpy.asarray(lowered(kwargs.get("constant_values", 0))), (a.ndim, 2))
    except ValueError:
        return False
    longest = dict(zip(range(a.ndim), widths.max(axis=1).tolist(), strict=True))
    match mode:
        case "constant":
            return not set(kwargs) - {"constant_values"}
        case "edge":
            return not kwargs
        case "wrap" | "symmetric":
            return not kwargs and all(longest[d] <= n for d, n in enumerate(a.shape))
        case "reflect":
            return not kwargs and all(longest[d] < n for d, n in enumerate(a.shape))
        case _:
            return False


def _pad_axis(padded: Any, place: list[slice], axis: int, n: int, low: int, high: int, mode: str,
              values: Any) -> None:
    """Fill both sides of one axis from the part between them."""
    def part(start: int, stop: int, step: int = 1) -> tuple[slice, ...]:
        cut = list(place)
        cut[axis] = slice(start, stop if stop >= 0 else None, step)
        return tuple(cut)

    end = low + n
    sources = {
        "edge": ((low, low + 1, 1), (end - 1, end, 1)),
        "wrap": ((end - low, end, 1), (low, low + high, 1)),
        "reflect": ((2 * low, low, -1), (end - 2, end - 2 - high, -1)),
        "symmetric": ((2 * low - 1, low - 1, -1), (end - 1, end - 1 - high, -1)),
    }
    sides = ((low, (0, low), 0, values[0]), (high, (end, end + high), 1, values[1]))
    for width, target, source, value in sides:
        if width:
            padded[part(*target)] = value if mode == "constant" else padded[part(*sources[mode][source])]
