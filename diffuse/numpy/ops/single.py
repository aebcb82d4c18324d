"""Operations on large arrays that the program waits for one by one: NumPy does them at once.

To record an operation, plan it, launch it and wait for it takes longer than NumPy takes for some 100,000
elements; recording pays where operations fuse, or run while the program goes on.  Which of both is the case
shows only afterwards: the engine counts how often in a row the program waited for an operation and nothing
else (`Template.alone`).  After a few times the next calls are NumPy's.  A call is recorded again, to see
whether the program still waits for it alone, when a task uses the result of the last one, and once in many.

No bit depends on it: only operations whose kernels have NumPy's bits are done by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy

from diffuse.library import Bounded, operations, trace
from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.core import ARRAYS

OFTEN = 4
"""Times in a row that the program has to wait for an operation alone."""
TRUSTED = 1000
"""Calls that NumPy then does, at most, before one is recorded again."""
MOST = 3 << 20
"""Bytes of the elements of all operands and of the result, above which two threads are always faster."""

places: dict[tuple[Any, ...], Place] = Bounded(1 << 12)
"""The places of the program that call functions, by function and line."""

suited_before: dict[Any, bool] = Bounded(1 << 12)
"""Whether a template is small enough, and exact."""


class Place:
    """A line of the program that calls a function."""

    __slots__ = ("alone",)

    def __init__(self) -> None:
        self.alone = 0
        """How often in a row the program waited for the call and nothing else, as `Template.alone`."""


def place(function: Any, line: Any) -> Place:
    """The place where a line of the program calls a function."""
    found = places.get((function, line))
    if found is None:
        found = places[function, line] = Place()
    return found


def trusted(place: Any) -> bool:
    """Count a call that NumPy is to do; False, from time to time, where it is to be recorded again.

    Where DIFFUSE_SMALL is 0, every call is recorded.
    """
    if place.alone >= OFTEN + TRUSTED or not core.SMALL:
        place.alone = OFTEN - 1
        return False
    place.alone += 1
    trace.counters["single"] += 1
    return True


def done(template: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The result of NumPy's function on arrays and numbers; None where the operation is to be recorded."""
    values = readable(template, operands)
    if values is None or not trusted(template):
        return None
    found = function(*values)
    return access.made_at_once(found, template) if type(found) is core.NDARRAY else found


def written(template: Any, key: Sequence[Any], operands: Sequence[Any], out: Any, index: Any) -> bool:
    """Have NumPy write to an array: by the ufunc in `key`, or to the part that `index` selects.  False where
    the operation is to be recorded."""
    values = readable(template, operands)
    memory: Any = None if values is None else access.mine(out)
    if values is None or memory is None or not trusted(template):
        return False
    if index is None:
        key[1](*values, memory)
    else:
        memory[index] = values[0]
    return True


def readable(template: Any, operands: Sequence[Any]) -> list[Any] | None:
    """The operands of an operation that NumPy may do, with memory in place of arrays; None if one of them is
    not at hand."""
    if not suited(template):
        template.alone = 0
        return None
    values = []
    for x in operands:
        if type(x) in ARRAYS:
            memory = access.at_hand(x)
            if memory is None:
                return None
            x = memory
        values.append(x)
    return values


def suited(template: Any) -> bool:
    """Does an operation read and write little, and has it NumPy's bits, and no routine that is slow there?"""
    found = suited_before.get(template)
    if found is None:
        used = sum([prod(use.map.shape) * numpy.dtype(use.dtype).itemsize for use in template.uses])
        names = template.signature[:-1]
        found = (used <= MOST and operations.exact(template.operation, names)
                 and not operations.lengthy(template.operation, names, template.elements))
        suited_before[template] = found
    return found
