"""Operations on large arrays that the program waits for one by one: NumPy does them at once.

Recording an operation, planning it, launching it and waiting for it takes longer than NumPy takes for some
100,000 elements; recording pays if operations fuse, or run while the program goes on.  Whether they do shows
only afterwards: the engine counts how often in a row the program waited for an operation and nothing else
(`Template.alone`).  After a few times NumPy computes the next calls.  A call is recorded again, to see
whether the program still waits for it alone, when a task uses the result of the last one, and once in many.

Results do not depend on this: NumPy computes only operations whose kernels have NumPy's bits.  The others,
and those for which NumPy is slow, are computed at once by the machine code of their task (stream/direct.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Bounded, operations, pace, trace
from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.core import ARRAYS
from diffuse.numpy.small import native
from diffuse.settings import watch

OFTEN = 4
"""How often in a row the program has to wait for an operation alone before NumPy computes it at once."""
TRUSTED = 1000
"""The most calls that NumPy then computes before one is recorded again."""
MOST = 5 << 20
"""Bytes of all operands and the result together, above which two threads are faster than NumPy by more than
it takes to record a task and to wait for it."""

places: dict[tuple[Any, ...], Place] = Bounded(1 << 12)
"""The lines of the program that call functions, by function and line."""

ways: dict[Any, Any] = Bounded(1 << 10)
"""How the operation of a template is computed at once: True by NumPy's function, False not at all, else by
this function (the result of `suited`)."""

watch("runtime", lambda _: ways.clear())


class Place:
    """A line of the program that calls a function."""

    __slots__ = ("alone",)

    def __init__(self) -> None:
        self.alone = 0
        """How often in a row the program waited for the call and nothing else, as `Template.alone`."""


def place(function: Any, line: Any) -> Place:
    """The `Place` of a line of the program that calls a function."""
    found = places.get((function, line))
    if found is None:
        found = places[function, line] = Place()
    return found


def trusted(place: Any) -> bool:
    """Count a call that NumPy should compute; returns False, from time to time, if it has to be recorded
    again.

    With DIFFUSE_SMALL at 0, every call is recorded.
    """
    if place.alone >= OFTEN + TRUSTED or not core.SMALL:
        place.alone = OFTEN - 1
        return False
    place.alone += 1
    trace.counters["single"] += 1
    return True


def done(template: Any, function: Callable[..., Any], operands: Sequence[Any], form: Any) -> Any:
    """Compute an operation on arrays and numbers whose result has this form by NumPy's function, if that has
    the same bits; None if the operation has to be recorded."""
    way = suited(template)
    values = None if way is False else readable(operands)
    if values is None:
        return None
    if way is None:
        way = library.current().direct(template, values, form.mirror)
        if way is None:
            template.alone = 0
            return None
        way = ways[template] = hastened(way, values)
    if not trusted(template):
        return None
    found = (function if way is True else way)(*values)
    return access.made_at_once(found, template) if type(found) is core.NDARRAY else found


def hastened(way: Any, values: Sequence[Any]) -> Any:
    """The extension's way to launch the machine code of an operation, if it has one."""
    laid_out = None if native is None else way.laid_out(values)
    return way if laid_out is None else native.Direct(way, *laid_out)


def written(template: Any, key: Sequence[Any], operands: Sequence[Any], out: Any, index: Any) -> bool:
    """Let NumPy write to an array: by the ufunc in `key`, or to the part that `index` selects.  False if the
    operation has to be recorded."""
    values = readable(operands) if suited(template) is True else None
    memory: Any = None if values is None else access.mine(out)
    if values is None or memory is None or not trusted(template):
        return False
    if index is None:
        key[1](*values, out=memory)
    else:
        memory[index] = values[0]
    return True


def readable(operands: Sequence[Any]) -> list[Any] | None:
    """The operands of an operation with memory in place of arrays; None if one is not at hand."""
    values = []
    for x in operands:
        if type(x) in ARRAYS:
            memory = access.at_hand(x)
            if memory is None:
                return None
            x = memory
        values.append(x)
    return values


def suited(template: Any) -> Any:
    """Determine how an operation that reads and writes few bytes is computed at once, for `ways`: by NumPy if
    that has the same bits and no slow routine; None if by machine code that is not laid out yet."""
    found = ways.get(template)
    if found is None:
        used = sum([prod(use.map.shape) * numpy.dtype(use.dtype).itemsize for use in template.uses])
        name, types = template.operation, template.signature[:-1]
        if used <= MOST and operations.exact(name, types):
            found = not pace.lengthy(name, types, template.elements) or None
        elif used > MOST or len(template.uses) + len(template.numbers) != len(template.signature):
            found = False
        if found is not None:
            ways[template] = found
    if found is False:
        template.alone = 0
    return found
