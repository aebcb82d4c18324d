"""Runs a function on parts of its operands, and combines the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy

FOLDS: dict[str, Callable[[Any, Any], Any]] = {"sum": numpy.add, "prod": numpy.multiply,
                                              "max": numpy.maximum, "min": numpy.minimum,
                                              "any": numpy.logical_or, "all": numpy.logical_and,
                                              "nanmax": numpy.fmax, "nanmin": numpy.fmin,
                                              "bitand": numpy.bitwise_and, "bitor": numpy.bitwise_or,
                                              "bitxor": numpy.bitwise_xor, "parity": numpy.logical_xor}


def outputs(function: Callable[..., Any], operands: Sequence[Any]) -> list[Any]:
    """The results of the function, one or several arrays, as a list."""
    found = function(*operands)
    return [numpy.asarray(each) for each in (found if isinstance(found, (tuple, list)) else (found,))]


def fold(operator: str, parts: Sequence[Any], weights: Sequence[int]) -> Any:
    """Fold the results of parts, beginning with the first; a mean weights each by its iterations."""
    if operator == "mean":
        return sum(part * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights)
    return reduce(FOLDS[operator], parts)


def differing(found: Any, expected: Any) -> tuple[int, ...] | None:
    """The first index at which two arrays of one shape differ by more than the rounding of a sum in another
    order; None if they agree, () if shape or element type differ."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return ()
    if expected.dtype.kind in "fc":
        precision = numpy.finfo(expected.dtype).eps
        scale = numpy.max(numpy.abs(expected), initial=0, where=numpy.isfinite(expected))
        same = numpy.isclose(found, expected, rtol=512 * precision, atol=float(64 * precision * scale),
                             equal_nan=True)
    else:
        same = found == expected
    if numpy.all(same):
        return None
    return tuple(int(i) for i in numpy.unravel_index(int(numpy.argmin(same)), expected.shape))


def repeatable(function: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    """The results of a function; raises ValueError if it changes its operands, or if two runs differ."""
    before = [each.copy() for each in given]
    first, again = outputs(function, given), outputs(function, given)
    if any(differing(a, b) is not None for a, b in zip(given, before, strict=True)):
        raise ValueError(f"{function!r} changes its operands: describe it by hand, or return the result")
    alike(function, first, again)
    return first


def alike(function: Callable[..., Any], first: Sequence[Any], again: Sequence[Any]) -> None:
    """Raise ValueError if the results of two runs of a function differ."""
    if len(first) != len(again) or any(differing(a, b) is not None
                                       for a, b in zip(first, again, strict=True)):
        raise ValueError(f"{function!r} makes different results of equal operands: what is random or keeps a "
                         "state cannot be cut by discovery")
