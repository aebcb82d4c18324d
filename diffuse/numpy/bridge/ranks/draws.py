"""Random numbers for arrays that are distributed over ranks: NumPy's own, of which each rank keeps its part.

Elements and rows that a generator chooses are read by their numbers, which every rank draws; how elements are
shuffled is in shuffling.py.

A generator draws the numbers of an array one after another, so that several calls draw what one call does. If
each number takes one step of the generator, and the generator can jump ahead, a rank draws only its part.
Otherwise each rank draws all numbers when the call is recorded, because the program's generator has to
advance beyond them, and saves the generator's state at some places; it then draws its part again from there.
No rank holds more than its part of the array.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import base, core, far
from diffuse.numpy.arrays.forms import NATIVE, row_major
from diffuse.numpy.bridge.jumping import SIZES, STEPS, sized
from diffuse.numpy.bridge.ranks import shuffling
from diffuse.numpy.ops import elementwise

Array = numpy.ndarray[Any, Any]
CHOOSING = "choice", "permutation", "shuffle"
"""Functions that choose elements or rows of an array, or change their order."""
NAMES = frozenset((*SIZES, *CHOOSING))
JUMPS = numpy.random.PCG64, numpy.random.PCG64DXSM
"""Generators that can jump ahead any number of steps."""
WIDE = frozenset({"float64", "float32", "int64", "uint64", "int32", "uint32"})
"""Element types that are drawn without leftover bits for the next call."""
WORD = 8
"""Bytes of an element, at most."""
CHUNK = 1 << 16
"""The number of elements that are drawn at once."""
MARKS = 64
"""The most places in an array for which the state of the generator is saved."""

Draw = Callable[[Any, int], Array]
"""Draws so many numbers from a generator."""


def in_parts(function: Callable[..., Any], name: str, generator: Any, args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> tuple[Any] | None:
    """Draw the result of a generator's function in parts, and return it in a tuple; None if NumPy has to draw
    it."""
    runtime = library.current().runtime
    if runtime.ranks == 1 or elementwise.eager_errors:
        return None
    if name in CHOOSING:
        if not far.here(*args[:1]):
            return None
        return _chosen(function, name, generator, args, kwargs, runtime.ranks)
    found = sized(name, args, kwargs)
    if found is None:
        return None
    shape, given, named = found

    def draw(source: Any, count: int) -> Array:
        if SIZES[name] < 0:
            return numpy.asarray(function(source, count))
        return numpy.asarray(function(source, *given, **named, size=count))

    count = prod(shape)
    if count < (core.SMALL or 1) or not runtime.in_parts(count * WORD):
        return None
    dtype = draw(deepcopy(generator), 1).dtype  # raises what NumPy raises
    if dtype not in NATIVE or dtype.name not in WIDE:
        return None
    fill = _jumping(draw, generator, count) if _steps(name, generator, dtype) else _marked(
        draw, generator, count)

    def part(low: int, out: Array) -> None:
        fill(low * prod(shape[1:]), out.reshape(-1))

    array = core.recorded(row_major(shape, dtype))
    library.call(f"random.{name}", library.Independent(part, ((0,),), indexed=True), (),
                 (base.argument(array),))
    return (array,)


def _chosen(function: Callable[..., Any], name: str, generator: Any, args: tuple[Any, ...],
            kwargs: dict[str, Any], ranks: int) -> tuple[Any] | None:
    """Run a function that chooses along the first axis of a large array in parts, as `in_parts` does.  It
    draws the same numbers from the length of the array, if these take no more memory than a rank's part."""
    x: Any = args[0] if args else None
    if type(x) is not core.array_class or x.form.size < (core.SMALL or 1) or x.form.dtype not in NATIVE:
        return None
    if name == "shuffle" and not x.flags.writeable:
        return None
    length, nbytes = x.form.shape[0], x.form.size * x.form.itemsize
    if name == "choice":
        size = args[1] if len(args) > 1 else kwargs.get("size")
        whole = bool(args[2] if len(args) > 2 else kwargs.get("replace", True))
        if (len(args) > 3 or not set(kwargs) <= {"size", "replace"} or type(size) is not int or size < 1
                or type(generator) is not numpy.random.Generator and x.form.ndim > 1):
            return None
        count = size if whole else length
    elif len(args) > 1 or kwargs:
        return None
    else:
        count = length
    if count * 8 * ranks > nbytes:
        return None if name == "choice" else shuffling.permuted(function, name, generator, x)
    if name != "shuffle":
        return (x.take(function(generator, length, *args[1:], **kwargs), 0),)
    x[...] = x.take(type(generator).permutation(generator, length), 0)
    return (None,)


def _steps(name: str, generator: Any, dtype: Any) -> bool:
    """Does each number take one step of a generator that can jump ahead?"""
    return (name in STEPS and dtype.name == "float64" and type(generator) is numpy.random.Generator
            and isinstance(generator.bit_generator, JUMPS))


def _jumping(draw: Draw, generator: Any, count: int) -> Callable[[int, Array], None]:
    """A function that draws a part of an array from a generator that jumps; advances the program's generator
    beyond the array."""
    begin = deepcopy(generator)
    _jump(generator, count)

    def fill(low: int, out: Array) -> None:
        source = deepcopy(begin)
        _jump(source, low)
        _fill(draw, source, out)

    return fill


def _jump(generator: Any, steps: int) -> None:
    """Advance the generator so many steps; half a word that is left over from another call is kept."""
    bits = generator.bit_generator
    before = bits.state
    bits.advance(steps)
    bits.state = {**bits.state, "has_uint32": before["has_uint32"], "uinteger": before["uinteger"]}


def _marked(draw: Draw, generator: Any, count: int) -> Callable[[int, Array], None]:
    """A function that draws a part of an array from saved states; advances the program's generator beyond the
    array."""
    pitch = -(-count // (MARKS * CHUNK)) * CHUNK
    marks = []
    for place in range(0, count, CHUNK):
        if place % pitch == 0:
            marks.append(deepcopy(generator))
        draw(generator, min(CHUNK, count - place))

    def fill(low: int, out: Array) -> None:
        source = deepcopy(marks[low // pitch])
        for place in range(low // pitch * pitch, low, CHUNK):
            draw(source, min(CHUNK, low - place))
        _fill(draw, source, out)

    return fill


def _fill(draw: Draw, source: Any, out: Array) -> None:
    for place in range(0, out.size, CHUNK):
        piece = out[place:place + CHUNK]
        piece[...] = draw(source, piece.size)
