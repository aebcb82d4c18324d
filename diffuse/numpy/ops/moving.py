"""Lets NumPy compute at once in loops whose arrays have other extents or offsets in each iteration.

An operation is analysed when it has new views, which takes as long as NumPy takes for some 100,000 elements
and pays only if the views recur.  After many new views at one place of the program (windows that move, arrays
that shrink), its operations wait for their operands and NumPy computes them, until the same views have
recurred so often that recording pays.

Small operations have a rule of their own (stream/walk.py).  Results depend on neither: NumPy computes only
operations whose kernels have NumPy's bits.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Bounded, Recurring, Steps, advanced, provenance, trace
from diffuse.numpy.arrays import access, arithmetic, core, soon
from diffuse.numpy.arrays.access import host, offset_of
from diffuse.numpy.arrays.base import UFUNCS
from diffuse.numpy.arrays.core import ARRAYS, NDARRAY, NUMBERS
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.small import native
from diffuse.settings import watch

TURNS = 16
"""The number of calls of a function on new views at one place after which further new views are expected
there."""
EVEN = 4
"""The number of calls for which one counts there that continues equal steps, with equal extents, through an
array in which there are `TURNS` such steps, as a loop over its levels does: it takes six of them."""
REPEATS = 64
"""The number of calls on the same views that NumPy computes before they are recorded; fewer, the longer NumPy
takes for one."""
LIGHT = 1 << 19
"""Bytes of the operands and the result together, above which NumPy computes fewer such calls."""
MOST = 3 << 20
"""The most bytes of the operands and the result together: NumPy takes about as long for them as an
analysis."""

WAIT = 8 << 20
"""Bytes that NumPy reads and writes in about the time of a wait."""

_places: dict[Any, int] = Bounded(1 << 12)
"""The number of calls on new views, by function and place of the program."""
_steps: Steps = Bounded(1 << 12)
"""The steps from one new view to the next, by function and place."""
_calls: dict[Any, int] = Recurring(1 << 15)
"""The number of equal calls, by function, extents, strides and offsets; the extension has its own table."""
PYTHONS = (float, int, complex)
"""Types of numbers that adapt to the types of arrays."""
_exact: dict[Any, bool] = Bounded(1 << 12)
"""Whether the kernel has NumPy's bits, by function and types."""


def _forget(_: Any) -> None:
    arithmetic.GRANTS.clear()


watch("small", _forget)
watch("runtime", _forget)


def place_of(function: Any) -> tuple[Any, ...]:
    """The key in `_places`: a function of NumPy's, and the instruction of the program that calls it."""
    return function.numpy, *provenance.instruction(4)


def note(function: Any, template: Any) -> None:
    """Count a recorded task of a function, if it is the first of its template."""
    if not template.met and template.elements >= core.SMALL:
        template.met = True
        place = place_of(function)
        even = (advanced(_steps, place, template.begin, template.shape) > 1
                and levels(template, abs(_steps[place][1])) >= TURNS)
        _count(function, place, EVEN if even else 1)


def levels(template: Any, step: int) -> int:
    """How many steps of so many bytes there are along a dimension of the largest store that a task uses; 0 if
    such steps lead along none of its dimensions."""
    largest = max(template.uses, key=lambda use: prod(use.frame))
    apart: int = numpy.dtype(largest.dtype).itemsize
    for extent in reversed(largest.frame):
        if 0 < step < apart * extent and step % apart == 0:
            steps: int = extent * apart // step
            return steps
        apart *= extent
    return 0


def met(real: Any) -> None:
    """Count a call of NumPy's ufunc that was computed at once on new views, among the first operations of a
    program (arrays/soon.py), so that the place is known when recording begins."""
    function = UFUNCS.get(real.__name__)
    if function is not None and function.numpy is real:
        _count(function, (real, *provenance.instruction(2)))


def _count(function: Any, place: tuple[Any, ...], times: int = 1) -> None:
    """Count a call of a function on new views at a place of the program, or a call that counts several
    times."""
    before = _places.get(place, 0)
    _places[place] = before + times
    if before < TURNS <= before + times:
        arithmetic.GRANTS.pop(place, None)
        function.moving = True
        arithmetic.MOVING.add(function.numpy)


def done(function: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    """Compute NumPy's ufunc at once, into a new array or into `out`, the first operand; None if it has to be
    recorded."""
    place = place_of(function)
    if _places.get(place, 0) < TURNS:
        arithmetic.GRANTS[place] = ()
        return None
    if not core.SMALL or not library.current().host_sees:
        return None
    if not core.SEES:  # the extension then writes to memory at hand
        core.see(True)
    kinds, metas, used = [], [], 0
    for x in operands:
        kind = type(x)
        if kind in ARRAYS or kind is NDARRAY:
            meta = x.meta if kind in ARRAYS else x
            metas.append(meta)
            kinds.append(meta.dtype)
            used += meta.nbytes
        else:
            kinds.append(kind)
    size = size_of(metas)
    if out is None and metas:
        used += size * max([meta.itemsize for meta in metas])
    if size < core.SMALL or used > MOST or not exact(function, operands, kinds):
        return None
    repeats = REPEATS * LIGHT // max(used, LIGHT)
    if calls(function.numpy, *operands) >= repeats:
        soon.grant(-1)
        return None
    before = core.ENGINE.epoch
    values = [host(x) if type(x) in ARRAYS else x for x in operands]
    if out is not None:
        target = access.mine(out)
        if target is None:
            return None
        values.append(target)
    arithmetic.GRANTS[place] = repeats, *kinds
    trace.counters["moving"] += 1
    found = function.numpy(*values)
    soon.grant(2 * used if core.ENGINE.epoch == before else WAIT)
    if out is not None:
        return out
    return core.hosted(found) if type(found) is NDARRAY else found


def calls_on(function: Any, *operands: Any) -> int:
    """Count a call of a ufunc, and return how many there were on the same views before."""
    name: list[Any] = [function]
    for x in operands:
        if type(x) in ARRAYS:
            name.append((x.meta.shape, x.meta.strides, offset_of(x, x.meta)))
        else:
            name.append((x.shape, x.strides) if type(x) is NDARRAY else type(x))
    called = tuple(name)
    count = _calls[called] = _calls.get(called, 0) + 1
    return count - 1


calls = calls_on if native is None else native.calls
if native is not None:
    native.connect_met(met)


def size_of(metas: list[Any]) -> int:
    """The number of elements of arrays broadcast together; 0 if the shapes do not fit, which NumPy
    reports."""
    if not metas:
        return 0
    size: int = metas[0].size
    for meta in metas:
        if meta.shape != metas[0].shape:
            try:
                return numpy.broadcast(*metas).size
            except ValueError:
                return 0
    return size


def exact(function: Any, operands: tuple[Any, ...], kinds: list[Any]) -> bool:
    """Does the function's kernel have NumPy's bits for operands of these element types, or types of
    numbers?"""
    name = function.numpy, *kinds
    found = _exact.get(name)
    if found is None:
        found = function.recordable and function.nout == 1 and all(
            isinstance(kind, numpy.dtype) or kind in NUMBERS for kind in kinds)
        if found:
            kinds = [kind if isinstance(kind, numpy.dtype) or kind in PYTHONS else numpy.asarray(x).dtype
                     for kind, x in zip(kinds, operands, strict=True)]
            types = function.numpy.resolve_dtypes((*kinds, None))
            found = all(t in NATIVE for t in types) and bool(function.exact(types))
        _exact[name] = found
    return found
