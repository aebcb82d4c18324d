"""Loops whose arrays have other extents or offsets every turn: NumPy does their operations at once.

The first time that an operation comes with these views it is analysed, which takes as long as NumPy takes for
some 100,000 elements; that pays when it comes again.  Where a place of the program has brought so many views
that were new that it seems to bring new ones always (windows that move, arrays that shrink), its operations
wait for their operands and are NumPy's, until they come with the same views so often that it pays.

Small operations have a rule of their own (stream/walk.py).  No bit depends on either: only operations whose
kernels have NumPy's bits are done by NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.library import Bounded, provenance, trace
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.core import ARRAYS, NDARRAY, NUMBERS, host, offset_of
from diffuse.numpy.arrays.forms import NATIVE

TURNS = 16
"""Calls of a function at one place, on views that are new, after which new ones are expected."""
REPEATS = 16
"""Calls on the same views that NumPy does before they are recorded."""
MOST = 1 << 20
"""Bytes of the operands and the result together: the work of about an analysis."""

_places: dict[Any, int] = Bounded(1 << 12)
"""How many calls on new views there were, by function and place of the program."""
_calls: dict[Any, int] = Bounded(1 << 15)
"""How often NumPy did a call, by function, extents, strides and offsets."""
PYTHONS = (float, int, complex)
"""Types of numbers that adapt to the types of arrays."""
_exact: dict[Any, bool] = Bounded(1 << 12)
"""Have kernels NumPy's bits?  By function and types."""


def moves(function: Any) -> bool:
    """Does the program call a function on other views every turn, here?"""
    return (core.SMALL > 0 and _places.get((function, provenance.instruction(3)), 0) >= TURNS
            and library.current().runtime.host_sees)


def note(function: Any, template: Any) -> None:
    """Count a task that was recorded of a function, if none was on these views before."""
    if not template.met and template.elements >= core.SMALL:
        template.met = True
        name = function, provenance.instruction(3)
        count = _places[name] = _places.get(name, 0) + 1
        if count == TURNS:
            function.moving = True
            core.MOVING.add(function.numpy)


def done(function: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    """The result of NumPy's ufunc at once, in a new array or in `out`; None where it is to be recorded."""
    metas = [x.meta for x in operands if type(x) in ARRAYS]
    if not metas:
        return None
    if len({x.shape for x in metas}) > 1:
        try:
            size = numpy.broadcast(*metas).size
        except ValueError:  # NumPy's function says why
            return None
    else:
        size = metas[0].size
    if size < core.SMALL or sum([x.nbytes for x in metas]) + size * max([x.itemsize for x in metas]) > MOST:
        return None
    if not exact(function, operands):
        return None
    name = function, *[(x.meta.shape, x.meta.strides, offset_of(x, x.meta)) for x in operands
                       if type(x) in ARRAYS]
    count = _calls.get(name, 0)
    if count >= REPEATS:  # known before anybody waits for an operand
        return None
    _calls[name] = count + 1
    values = [host(x) if type(x) in ARRAYS else x for x in operands]
    trace.counters["moving"] += 1
    if out is not None:
        target = core.mine(out)
        if target is None:
            return None
        function.numpy(*values, target)
        return out
    found = function.numpy(*values)
    return core.hosted(found) if type(found) is NDARRAY else found


def exact(function: Any, operands: tuple[Any, ...]) -> bool:
    """Has the function's kernel for operands of these types NumPy's bits?"""
    name = function, *[x.meta.dtype if type(x) in ARRAYS else type(x) for x in operands]
    found = _exact.get(name)
    if found is None:
        found = function.recordable and function.nout == 1 and all(
            type(x) in ARRAYS or type(x) in NUMBERS for x in operands)
        if found:
            kinds = [x.meta.dtype if type(x) in ARRAYS else type(x) if type(x) in PYTHONS
                     else numpy.asarray(x).dtype for x in operands]
            types = function.numpy.resolve_dtypes((*kinds, None))
            found = all(t in NATIVE for t in types) and bool(function.exact(types))
        _exact[name] = found
    return found
