"""Calls that were recorded before, on the same views: one look-up finds them, one call records them.

Whatever a call depends on but the stores and the numbers (types, shapes, layouts, the rule, the template) is
in its `Known`, which is found by the function and the views or, of numbers, the types of the operands.  Only
calls whose arrays are large are here: small ones are computed by NumPy where that is possible, which the
views do not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffuse import library
from diffuse.library import Bounded
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.core import ARRAYS
from diffuse.numpy.arrays.forms import Form

_new = object.__new__
DEPTH = 4
"""Calls from the program's line to the engine: an operator or a ufunc, the arrays' core, this module, and the
engine's."""


class Known:
    """A call that was recorded before: its template, and what its result looks like."""

    __slots__ = ("template", "form", "frame", "part", "meta", "plain", "convert")

    def __init__(self, template: Any, form: Form, convert: Callable[[Any], Any] | None = None) -> None:
        self.template = template
        self.form = form
        self.frame = form.frame
        self.part = form.root
        self.meta = form.mirror
        self.plain = form.ndim > 0
        """Is the result an array, and not a lazy scalar?"""
        self.convert = convert
        """The conversion of the operand that is a number to its computing type."""


KNOWN: dict[tuple[Any, ...], Known] = Bounded(1 << 15)
"""By NumPy's function and the tokens of the operands' views, and by the types of numbers."""

eager = False
"""True while floating-point errors raise or call: then nothing is recorded."""


def binary(function: Any, a: Any, b: Any) -> Any:
    """A two-input operation of NumPy's that was recorded on these views before, recorded again; else None."""
    one: Any = type(a)
    other: Any = type(b)
    if one in ARRAYS:
        if a.part is None:
            return None
        one = a.part.token
    if other in ARRAYS:
        if b.part is None:
            return None
        other = b.part.token
    known = KNOWN.get((function, one, other))
    if known is None or eager:
        return None
    convert = known.convert
    x = _new(core.array_class)
    if convert is None:
        x.storage = library.again(known.template, known.frame, a.storage, b.storage, (), DEPTH)
    else:
        try:
            value = convert(b if one.__class__ is int else a)
        except OverflowError:  # a number that the type of the array has no room for
            return None
        array = a if one.__class__ is int else b
        x.storage = library.again(known.template, known.frame, array.storage, None, (value,), DEPTH)
    x._form = known.form
    x.part = known.part
    x.meta = known.meta
    x.memory = x.owner = None
    return x if known.plain else core.scalar_class.of(x)


def unary(function: Any, a: Any) -> Any:
    """A one-input operation, likewise."""
    if type(a) not in ARRAYS or a.part is None:
        return None
    known = KNOWN.get((function, a.part.token))
    if known is None or eager:
        return None
    x = _new(core.array_class)
    x.storage = library.again(known.template, known.frame, a.storage, None, (), DEPTH)
    x._form = known.form
    x.part = known.part
    x.meta = known.meta
    x.memory = x.owner = None
    return x if known.plain else core.scalar_class.of(x)


core.slow.known, core.slow.known_unary = binary, unary
