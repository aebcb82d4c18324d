"""Powers to small constant exponents: `x ** 3` and `np.power(x, -0.5)` as operations of one input.

NumPy uses a product, a quotient and a root instead of `pow` for the exponents 2, -1 and 0.5; Diffuse does so
for all of `operations.EXPONENTS`, with results at most one unit in the last place from the correctly rounded
ones.  For -inf the root is NaN, where `pow` gives inf, and for -0.0 it is -0.0, where `pow` gives 0.0.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.library import EXPONENTS
from diffuse.numpy.arrays.access import host, ready
from diffuse.numpy.arrays.core import ARRAYS
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.ops import ufuncs
from diffuse.numpy.small import native


class _Constant:
    """`numpy.power` with a fixed exponent, and the attributes of a ufunc of one input."""

    nin, nout, nargs = 1, 1, 2
    signature = identity = None
    __name__, __doc__ = numpy.power.__name__, numpy.power.__doc__

    def __init__(self, exponent: Any) -> None:
        self.exponent = exponent
        self.type = float if type(exponent) is float else exponent.dtype
        self.types = [t for t in numpy.positive.types if numpy.dtype(t[0]) in NATIVE and t[0] in "efd"]
        self.ntypes = len(self.types)

    def __call__(self, x: Any, out: Any = None, **options: Any) -> Any:
        return numpy.power(x, self.exponent, out=out, **options)

    def resolve_dtypes(self, types: Any, **options: Any) -> Any:
        given, out = types
        if options.get("casting") == "equiv":
            raise TypeError("the type of a number of Python's is not known")  # NumPy 2.4 would crash
        if "signature" in options:
            options["signature"] = (None, *options["signature"])
        source, _, result = numpy.power.resolve_dtypes((given, self.type, out), **options)
        return source, result


RAISED = {exponent: ufuncs.ufunc(_Constant(exponent), name) for name, exponent in EXPONENTS.items()}

ROOTS = {type(half): ufuncs.ufunc(_Constant(half), "power0.5")
         for half in (numpy.float16(0.5), numpy.float32(0.5), numpy.float64(0.5))}
"""The square root, by the type that the exponent 0.5 has as a number of NumPy's."""


def raised(x: Any, exponent: Any, dtype: Any = None) -> ufuncs.ufunc | None:
    """The operation for an array of floats and an exponent of known value, if there is one."""
    if type(x) not in ARRAYS or x.form.dtype.kind != "f":
        return None
    kind = type(exponent)
    weak = kind is int or kind is float
    if weak:
        found = RAISED.get(exponent)
    else:
        if kind is numpy.ndarray and not exponent.ndim:
            exponent = exponent[()]
        elif kind in ARRAYS and not exponent.form.ndim and ready(exponent):
            exponent = host(exponent)[()]
        found = ROOTS.get(type(exponent)) if type(exponent) in ROOTS and exponent == 0.5 else None
    if found is None or dtype is None and exponent != 0.5:
        return found
    try:
        computed = numpy.dtype(dtype) if dtype is not None else (
            x.form.dtype if weak else numpy.result_type(x.form.dtype, exponent))
    except TypeError:  # which NumPy tells in words of its own
        return None
    return found if computed.char in "fd" else None  # NumPy has no roots for float16


class Power(ufuncs.ufunc):
    """`numpy.power`, with operations of their own for small constant exponents."""

    told_by_types = False

    def call(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) in (2, 3) and "signature" not in kwargs:
            simpler = raised(args[0], args[1], kwargs.get("dtype"))
            if simpler is not None:
                return simpler(args[0], *args[2:], **kwargs)
        return super().call(*args, **kwargs)

    if native is None:
        __call__ = call


ufuncs.UFUNCS["power"] = ufuncs.UFUNCS["pow"] = Power(numpy.power)
