"""NumPy's functions that are methods of arrays, and the ones that choose between elements.

`np.sum(a, ...)` is `a.sum(...)`: arguments follow in the same order.  `where`, `clip`, `copyto` and their kin
are recorded as one elementwise task each.  Calls with another library's array are delegated to it, as NumPy
does.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from types import NoneType
from typing import Any

import numpy

from diffuse.numpy.arrays import access, assign, base, core
from diffuse.numpy.arrays.access import ready
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import NATIVE, copying, replica
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import at_once, elementwise, known, rules
from diffuse.numpy.ops.arguments import spreads
from diffuse.numpy.ops.conversion import asanyarray, asarray, elsewhere
from diffuse.numpy.ops.creation import arange, fresh
from diffuse.numpy.ops.indexing import nonzero
from diffuse.numpy.ops.manipulation import asking, broadcast_arrays
from diffuse.numpy.ops.operands import adopt, answers, foreign, lowered
from diffuse.numpy.ops.ufuncs import UFUNCS


def trace(a: Any, *args: Any, **kwargs: Any) -> Any:
    if foreign(a):
        return fallback.asked(numpy.trace, a, *args, **kwargs)
    x: Any = a if isinstance(a, Array) else asanyarray(a)
    if not isinstance(x, Array):
        return fallback.silently(numpy.trace, x, *args, **kwargs)
    found: Any = x
    return found.trace(*args, **kwargs)


NOTHING = numpy.empty(0)
MOST = 320
"""With so many decimals 10 to their power is infinite, and more change nothing."""


def _power_of_ten(n: int) -> float:
    """10 to the power n, as NumPy multiplies it: with its roundings beyond 22, and infinity beyond 308."""
    found = 10.0 ** min(n, 22)
    for _ in range(22, min(n, MOST)):
        found *= 10.0
    return found


def round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    if answers(a, out):
        return fallback.asked(numpy.round, a, decimals, out)
    x = asanyarray(a)
    options = {} if out is None else {"out": out}
    target: Any = out
    if out is not None and not isinstance(out, (Array, numpy.ndarray)):
        raise TypeError("output must be an array")
    if out is not None and target.size != x.size:
        raise ValueError("invalid output shape")
    if type(decimals) is not int or abs(decimals) > MOST:
        decimals = lowered(decimals)
        numpy.round(NOTHING, decimals)  # raises for what is no number of decimals
        decimals = operator.index(decimals)
    if isinstance(x, Array) and x.form.dtype.kind == "f":
        if decimals == 0:
            return UFUNCS["rint"](x, **options)
        factor = _power_of_ten(abs(decimals))
        first, last = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        scaled = UFUNCS["rint"](UFUNCS[first](x, factor, **options), **options)  # as NumPy: within `out`
        if out is None and x.form.ndim > 1 and not x.meta.flags.forc:  # where NumPy's result is in C order
            options["order"] = "C"
        return UFUNCS[last](scaled, factor, **options)
    if isinstance(x, Array) and x.form.dtype.kind in "iu" and decimals >= 0 and out is None:
        return base.unboxed(elementwise.duplicate(x))
    return fallback.silently(numpy.round, x, decimals, **options)


@asking(numpy.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    if type(x) is not core.array_class and type(x) is not numpy.ndarray:
        return fallback.asked(numpy.astype, lowered(x), dtype, copy=copy, device=device)
    elsewhere(device, None)
    return asarray(x).astype(dtype, copy=copy)


def fix(x: Any, out: Any = None) -> Any:
    if foreign(x):
        return fallback.asked(numpy.fix, x, out)
    return UFUNCS["trunc"](x, out=out) if out is not None else UFUNCS["trunc"](asanyarray(x))


def recordable(*values: Any) -> bool:
    """Can a task take these operands: arrays and scalars of types with kernels?"""
    known = (core.ARRAYS, rules.WEAK, rules.STRONG)
    return not elementwise.eager_errors and not [x for x in values if not [k for k in known if type(x) in k]]


def small(*values: Any) -> bool:
    """Is NumPy at once the faster way: everything small, and nothing to wait for?"""
    arrays = [x for x in values if isinstance(x, Array)]
    return not [x for x in arrays if x.form.size >= core.SMALL or not ready(x)]


def common(*values: Any) -> numpy.dtype[Any]:
    """NumPy's result type for arrays and scalars."""
    return numpy.result_type(*[x.form.dtype if isinstance(x, Array) else x for x in values])


def where(condition: Any, x: Any = numpy._NoValue, y: Any = numpy._NoValue, /) -> Any:
    if x is numpy._NoValue or y is numpy._NoValue:
        if x is not y:
            raise ValueError("either both or neither of x and y should be given")
        return fallback.asked(numpy.where, condition) if foreign(condition) else nonzero(condition)
    found: Any = known.call("where", (condition, x, y))
    if found is not None:
        return found
    operands = tuple([adopt(v) for v in (condition, x, y)])
    if recordable(*operands):
        dtype = common(*operands[1:])
        if small(*operands):
            memories: Any = [access.at_hand(v) if isinstance(v, Array) else v for v in operands]
            found = None if [v for v in memories if v is None] else numpy.where(*memories)
            if found is not None and found.ndim and dtype in NATIVE:
                return core.hosted(found)
        elif dtype in NATIVE and all([v.form.size for v in operands if isinstance(v, Array)]):
            try:
                return elementwise.issue("where", ("bool", *[NATIVE[dtype]] * 3), operands, keep=True)
            except OverflowError:
                pass
    return fallback.silently(numpy.where, *operands)


def clip(a: Any, a_min: Any = numpy._NoValue, a_max: Any = numpy._NoValue, out: Any = None, *,
         min: Any = numpy._NoValue, max: Any = numpy._NoValue, **kwargs: Any) -> Any:
    missing = numpy._NoValue
    if a_min is missing and a_max is missing:
        low, high = None if min is missing else min, None if max is missing else max
    elif a_min is missing or a_max is missing or min is not missing or max is not missing:
        given = {k: v for k, v in (("a_min", a_min), ("a_max", a_max), ("min", min), ("max", max))
                 if v is not missing}
        return fallback.call(numpy.clip, (a,), {**given, **kwargs})  # raises
    else:
        low, high = a_min, a_max
    if answers(a, out):
        return fallback.asked(numpy.clip, a, a_min, a_max, out, min=min, max=max, **kwargs)
    return clipped(asanyarray(a), low, high, out, **kwargs)


def clipped(x: Any, low: Any, high: Any, out: Any = None, **kwargs: Any) -> Any:
    """`x.clip(low, high, out)`: one task; a missing bound is a minimum or a maximum."""
    if not kwargs and low is not None and high is not None:
        if type(out) is core.array_class and known.into(("into", numpy.clip), (x, low, high), out):
            return out
        again = known.call("clip", (x, low, high)) if out is None else None
        if again is not None:
            return again if again.form.shape else core.scalar_class.of(again)
    operands = tuple([adopt(v) for v in (x, low, high) if v is not None])
    if recordable(*operands) and not kwargs and not small(*operands) and isinstance(x, Array):
        with suppress(OverflowError):  # a bound beyond all values of the type, which NumPy ignores
            if low is not None and high is not None:
                found = _clip(operands, (low, high), out)
                if found is not None:
                    return found
            elif low is not high:
                bound = UFUNCS["minimum" if low is None else "maximum"]
                if _beyond(x, low, high):
                    bound, operands = UFUNCS["positive"], operands[:1]
                return bound(*operands) if out is None else bound(*operands, out=out)
    options = {**kwargs, **({} if out is None else {"out": out})}
    return fallback.silently(numpy.clip, x, low, high, **options)


def _beyond(x: Any, low: Any, high: Any) -> bool:
    """Is the only bound an integer that no element exceeds?  NumPy ignores it, also in its errors."""
    if x.dtype.kind not in "iu":
        return False
    limits = numpy.iinfo(x.dtype)
    return type(low) is int and low <= limits.min or type(high) is int and high >= limits.max


def _clip(operands: tuple[Any, ...], bounds: tuple[Any, Any], out: Any) -> Any:
    """Record a clip between two bounds; returns the result, or None if NumPy has to compute it."""
    target: Any = out
    if not (out is None or isinstance(out, Array)):
        return None
    dtype = common(*operands)
    # of two equal zeros, NumPy's loop over arrays of bounds takes the other one
    apart = dtype.kind == "f" and any([len(numpy.shape(bound)) > 0 for bound in bounds])
    if dtype not in NATIVE or apart or not (out is None or _takes(out, dtype, operands)):
        return None
    fits = (out is not None and target.form.dtype == dtype
            and target.form.shape == operands[0].form.shape and base.locate(target))
    found = elementwise.issue("clip", (NATIVE[dtype],) * 4, operands, keep=True,
                              into=(numpy.clip, target) if fits else None)
    if out is None:
        return found if found.form.shape else core.scalar_class.of(found)
    if not fits:
        target[...] = found
    return target


def _takes(out: Any, dtype: numpy.dtype[Any], operands: tuple[Any, ...]) -> bool:
    """Can a result of these operands be written to an output array, under the rules of `out=`?"""
    return (bool(out.meta.flags.writeable) and numpy.can_cast(dtype, out.form.dtype, "same_kind")
            and all([spreads(v, out.form.shape) for v in operands if isinstance(v, Array)]))


@asking(numpy.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    source, mask = adopt(src), adopt(where)
    if type(dst) is not core.array_class or not recordable(source, mask) or small(dst, source, mask):
        fallback.silently(numpy.copyto, dst, src, casting, where)
        return
    given = source.form.dtype if isinstance(source, Array) else numpy.asarray(source).dtype
    fits = numpy.can_cast(given, dst.dtype, casting)
    arrays = [v for v in (source, mask) if isinstance(v, Array)]
    if (not fits or not dst.flags.writeable or isinstance(mask, Array) and mask.form.name != "bool"
            or mask is not True and dst.form.folded or not all([spreads(v, dst.shape) for v in arrays])):
        fallback.silently(numpy.copyto, dst, src, casting, where)  # raises
        return
    if mask is not True and not numpy.ndim(mask):
        if not mask:
            return  # without a warning of the cast
        mask = True
    if not isinstance(source, Array):  # cast here, as an assignment may refuse it
        cell = numpy.empty(1 if dst.size else 0, dst.dtype)
        numpy.copyto(cell, source, casting)
        if not dst.size:
            return
        source = cell[0]
    if mask is True:
        dst[...] = source
        return
    if isinstance(source, Array) and assign.overtakes(dst, dst.meta, source, source.meta):
        fallback.silently(numpy.copyto, dst, src, casting, where)
        return
    if isinstance(source, Array) and source.form.dtype != dst.dtype:
        source = elementwise.duplicate(source, dst.dtype)
    name = dst.form.name
    dst[...] = elementwise.issue("where", ("bool", name, name, name), (mask, source, dst))


@asking(numpy.nan_to_num)
def nan_to_num(x: Any, copy: bool | None = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
               ) -> Any:
    a, copy = asanyarray(x), copying(copy)
    if (type(a) is not core.array_class or a.dtype.kind != "f" or small(a) or not _is_number(nan)
            or not all([limit is None or _is_number(limit) for limit in (posinf, neginf)])
            or not (copy or copy is None or a is x or isinstance(x, numpy.ndarray))):  # it raises
        return fallback.call(numpy.nan_to_num, (x, copy, nan, posinf, neginf), {})
    limits = numpy.finfo(a.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    found: Any = where(UFUNCS["isnan"](a), nan, a)
    found = where(UFUNCS["equal"](a, float("inf")), high, found)
    found = where(UFUNCS["equal"](a, float("-inf")), low, found)
    if copy:
        converted = found.astype(a.dtype, copy=False)
        kept = replica(a.meta, a.dtype)
        if converted.form is not kept:  # of an array with repeated rows NumPy makes a copy first
            converted, found = fresh(kept), converted
            converted[...] = found
        return base.unboxed(converted)
    a[...] = found
    return base.unboxed(a)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
    if foreign(a):
        return fallback.asked(numpy.nansum, a, axis, dtype, out, **kwargs)
    return _without_nans(a, 0).sum(axis, dtype, out, **kwargs)


def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
    if foreign(a):
        return fallback.asked(numpy.nanprod, a, axis, dtype, out, **kwargs)
    return _without_nans(a, 1).prod(axis, dtype, out, **kwargs)


def _without_nans(a: Any, value: Any) -> Any:
    x = asanyarray(a)
    if x.dtype.kind == "O":
        return where(UFUNCS["not_equal"](x, x), value, x)
    large = type(x) is core.array_class and x.meta.size >= core.SMALL
    memory = at_once.immediate(x, False) if large else None
    if type(x) is numpy.ndarray:  # of elements that kernels do not compute in
        memory = x
    if memory is not None and x.dtype.kind in ("fc" if memory is x else "f"):  # what is reduced at once, too
        found = memory.copy(order="K")
        numpy.copyto(found, value, where=numpy.isnan(memory))
        return found if memory is x else core.hosted(found)
    if x.dtype.kind in "fc" and isinstance(x, Array) and x.form.folded:
        x = elementwise.duplicate(x)  # in whose layout NumPy replaces them
    return where(UFUNCS["isnan"](x), value, x) if x.dtype.kind in "fc" else x


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Any:
    if like is not None and elsewhere(None, like):
        return fallback.asked(numpy.tri, N, M, k, dtype, like=like)
    if not {type(N), type(M), type(k)} <= {int, NoneType} or type(k) is int and abs(k) >> 62:
        return fallback.call(numpy.tri, (N, M, k, dtype), {}, silent="inspection")
    M = N if M is None else M
    operator.le(N, 127)  # raises for what has no order, as where NumPy looks for the least integer type
    rows, low = arange(N), -k
    operator.le(M - k, 127)
    mask = rows.reshape(-1, 1) >= arange(low, M - k)
    return mask.astype(dtype, copy=False)


def _triangle(m: Any, k: Any, keep_low: bool) -> Any:
    if foreign(m):
        return fallback.asked(numpy.tril if keep_low else numpy.triu, m, k)
    m = asanyarray(m)
    if not m.ndim:
        return numpy.tri(*m.shape)  # raises
    if type(k) is not int:
        return fallback.call(numpy.tril if keep_low else numpy.triu, (m, k), {}, silent="inspection")
    k = k if keep_low else k - 1
    mask = tri(m.shape[-2:][0], m.shape[-1], k, bool)
    zero = numpy.zeros((), m.dtype)[()]
    return where(mask, m, zero) if keep_low else where(mask, zero, m)


def tril(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, True)


def triu(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, False)


@asking(numpy.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(xi)
    grids = [asanyarray(x).reshape((1,) * i + (-1,) + (1,) * (rank - 1 - i)) for i, x in enumerate(xi)]
    if indexing == "xy" and rank > 1:
        grids[0] = grids[0].reshape((1, -1) + (1,) * (rank - 2))
        grids[1] = grids[1].reshape((-1, 1) + (1,) * (rank - 2))
    found = grids if sparse else broadcast_arrays(*grids)
    if copy:
        return tuple([x.copy() for x in found])
    as_numpys: Any = type(numpy.meshgrid(copy=False, sparse=True))  # a tuple since NumPy 2.5
    return as_numpys(found) if sparse else found
