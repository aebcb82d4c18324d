"""Functions that compare arrays or test their elements."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy

from diffuse.numpy.arrays.base import unboxed
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.conversion import asanyarray, asarray
from diffuse.numpy.ops.creation import zeros
from diffuse.numpy.ops.manipulation import asking, imag, is_array
from diffuse.numpy.ops.operands import foreign, lowered, wrap
from diffuse.numpy.ops.ufuncs import UFUNCS

NUMBERS = (int, float, complex)


@asking(numpy.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> Any:
    # Python's numbers take the type of the array beside them
    operands: list[Any] = [v if isinstance(v, NUMBERS) else asanyarray(v) for v in (a, b, atol, rtol)]
    x, y, atol, rtol = operands
    known = all([is_array(v) or isinstance(v, NUMBERS) for v in operands])
    if not known or not (is_array(x) or is_array(y)):
        return wrap(numpy.isclose(lowered(a), lowered(b), lowered(rtol), lowered(atol), equal_nan))
    if [v for v in (atol, rtol) if type(v) is not float or not isfinite(v)]:
        numpy.isclose(0.0, 0.0, lowered(rtol), lowered(atol))  # warns where a tolerance is not finite
    if not is_array(y):
        y = float(y) if isinstance(y, int) else y
    elif y.dtype.kind in "biu":
        y = y.astype(numpy.result_type(y.dtype, 1.0))
    with numpy.errstate(invalid="ignore"):
        near = UFUNCS["less_equal"](abs(x - y), atol + rtol * abs(y))
        found = (near & UFUNCS["isfinite"](y)) | (x == y)
        if equal_nan:
            found |= UFUNCS["isnan"](x) & UFUNCS["isnan"](y)
    return unboxed(found)


@asking(numpy.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> bool:
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


@asking(numpy.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    try:
        x, y = asarray(a1), asarray(a2)
    except Exception:
        return False
    if x.shape != y.shape:
        return False
    if not equal_nan or x.dtype.kind not in "fc" or y.dtype.kind not in "fc":
        if equal_nan and x.dtype.kind not in "biu":
            return bool(numpy.array_equal(lowered(x), lowered(y), equal_nan=True))
        return bool(asanyarray(x == y).all())
    both = UFUNCS["isnan"](x) & UFUNCS["isnan"](y)
    return bool(((x == y) | both).all())


@asking(numpy.array_equiv)
def array_equiv(a1: Any, a2: Any) -> bool:
    try:
        x, y = asarray(a1), asarray(a2)
        numpy.broadcast_shapes(x.shape, y.shape)
    except Exception:
        return False
    return bool(asanyarray(x == y).all())


@asking(numpy.isposinf)
def isposinf(x: Any, out: Any = None) -> Any:
    return _infinite(x, out, False)


@asking(numpy.isneginf)
def isneginf(x: Any, out: Any = None) -> Any:
    return _infinite(x, out, True)


def _infinite(x: Any, out: Any, negative: bool) -> Any:
    a = asanyarray(x)
    if type(out) is tuple:
        raise TypeError("return arrays must be of ArrayType")
    infinite = UFUNCS["isinf"](a)
    try:
        sign = UFUNCS["signbit"](a)
    except TypeError as error:
        raise TypeError(f"This operation is not supported for {a.dtype} values "
                        "because it would be ambiguous.") from error
    if out is Ellipsis:
        raise TypeError("out=... is only allowed as a keyword argument.")
    options = {} if out is None else {"out": out}
    wanted = sign if negative else UFUNCS["logical_not"](sign)
    return UFUNCS["logical_and"](infinite, wanted, **options)


@asking(numpy.isreal)
def isreal(x: Any) -> Any:
    return imag(x) == 0


def iscomplex(x: Any) -> Any:
    if foreign(x):
        return fallback.asked(numpy.iscomplex, x)
    a = asanyarray(x)
    if a.dtype.kind == "c":
        return a.imag != 0
    found = zeros(a.shape, bool)
    return found if a.ndim else found[()]
