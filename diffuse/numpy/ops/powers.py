"""Powers to small constant exponents: `x ** 3` and `np.power(x, -0.5)` as operations of one input.

NumPy takes a product, a quotient and a root in the place of `pow` for the exponents 2, -1 and 0.5; Diffuse
does so for all of `operations.EXPONENTS`, with results at most one unit in the last place from the correctly
rounded ones.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.library import EXPONENTS
from diffuse.numpy.arrays.core import ARRAYS
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.ops import ufuncs
from diffuse.numpy.small import native


class _Constant:
    """`numpy.power` to one exponent, with what a ufunc of one input has."""

    nin, nout, nargs = 1, 1, 2
    signature = identity = None
    __name__, __doc__ = numpy.power.__name__, numpy.power.__doc__

    def __init__(self, exponent: float) -> None:
        self.exponent = exponent
        self.types = [t for t in numpy.positive.types if numpy.dtype(t[0]) in NATIVE and t[0] in "efd"]
        self.ntypes = len(self.types)

    def __call__(self, x: Any, out: Any = None, **options: Any) -> Any:
        return numpy.power(x, self.exponent, out=out, **options)

    def resolve_dtypes(self, types: Any, **options: Any) -> Any:
        given, out = types
        source, _, result = numpy.power.resolve_dtypes((given, float, out), **options)
        return source, result


RAISED = {exponent: ufuncs.ufunc(_Constant(exponent), name) for name, exponent in EXPONENTS.items()}


def raised(x: Any, exponent: Any) -> ufuncs.ufunc | None:
    """The operation for an array of floats and an exponent that is a number of Python's, if there is one."""
    if type(exponent) is int or type(exponent) is float:
        found = RAISED.get(exponent)
        if found is not None and type(x) in ARRAYS and x.form.dtype.kind == "f":
            return found
    return None


class Power(ufuncs.ufunc):
    """`numpy.power`, which computes powers to small constant exponents by themselves."""

    told_by_types = False

    def call(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) in (2, 3):
            simpler = raised(args[0], args[1])
            if simpler is not None and "dtype" not in kwargs and "signature" not in kwargs:
                return simpler(args[0], *args[2:], **kwargs)
        return super().call(*args, **kwargs)

    if native is None:
        __call__ = call


ufuncs.UFUNCS["power"] = ufuncs.UFUNCS["pow"] = Power(numpy.power)
