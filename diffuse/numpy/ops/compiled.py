"""Compiled operations on NumPy arrays, at once: small arrays get the bits that fused tasks compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from diffuse.library import operations, routines
from diffuse.numpy.arrays.forms import NATIVE, like
from diffuse.numpy.ops import rules


def compute(routine: Callable[..., Any], values: Sequence[Any], types: Sequence[Any], out: Any = None) -> Any:
    """Call a compiled operation on arrays and numbers, cast to its types; the result has a ufunc's memory
    layout."""
    arrays = [numpy.asarray(v, t) for v, t in zip(values, types, strict=False)]
    shape, result = arrays[0].shape, types[len(arrays)]
    for a in arrays:
        if a.shape != shape:
            shape = numpy.broadcast_shapes(*[a.shape for a in arrays])
            break
    target = out
    if out is None or out.dtype != result or out.shape != shape:
        given = [v for v in values if type(v) is numpy.ndarray]  # a cast copy may have another layout
        ordered = all([a.flags.c_contiguous for a in given])
        target = (numpy.empty(shape, result) if ordered
                  else numpy.empty_like(like(given, shape, result).mirror))
    if target.size:
        routine(*arrays, out=target)
    if out is None or target is out:
        return target
    numpy.copyto(out, target, casting="same_kind")
    return out


def host_function(ufunc: Any) -> Callable[..., Any]:
    """The function that computes a ufunc at once: its compiled operation, or NumPy's function if that has the
    same bits.

    NumPy's function is called again on results that are not finite, for its warnings; a formula of Diffuse's
    own gives none.
    """
    known: dict[Any, tuple[Any, tuple[Any, ...]]] = {}

    def apply(*values: Any, out: Any = None) -> Any:
        key = tuple([v.dtype if type(v) is numpy.ndarray else type(v) for v in values])
        found = known.get(key)
        if found is None:
            types = ufunc.numpy.resolve_dtypes((*map(rules.type_of, values), *[None] * ufunc.nout))
            names = tuple([t.name for t in types])
            plain = (ufunc.nout > 1 or any(t not in NATIVE for t in types)
                     or not ufunc.formula and operations.exact(ufunc.operation, names[:-1]))
            routine = None if plain else routines.routine(ufunc.operation, names[:-1], names[-1])
            found = known[key] = routine, types
        routine, types = found
        if routine is None:
            return ufunc.numpy(*values) if out is None else ufunc.numpy(*values, out=out)
        result = compute(routine, values, types, out)
        if not ufunc.formula and 0 in numpy.isfinite(result).tobytes():
            ufunc.numpy(*[numpy.asarray(v, t) for v, t in zip(values, types, strict=False)])
        return result if result.ndim or out is not None else result[()]

    return apply
