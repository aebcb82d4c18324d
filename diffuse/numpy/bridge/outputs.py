"""Outputs of Diffuse's that the methods `mean`, `var` and `std` of NumPy's own arrays get.

NumPy adds into the output and then divides it in place, but only a NumPy array: anything else it takes for a
number and makes a new one, so that the output would be left with the sum.  Between these steps it therefore
gets a NumPy array over the memory of the output, which gives the output itself when the last step is done.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

import numpy
from numpy._core import _methods

from diffuse.numpy.arrays import base

_MEAN, _VAR, _STD = [vars(_methods)[name].__code__ for name in ("_mean", "_var", "_std")]
"""NumPy's functions: the first two add into the output and then divide it, and the last one takes the square
root of what `_var` gives it."""


class Output(numpy.ndarray[Any, Any]):
    """The memory of an output while NumPy computes a moment into it."""

    ours: Any

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **options: Any) -> Any:
        operands = [numpy.asarray(x) for x in inputs]
        getattr(ufunc, method)(*operands, **options | {"out": numpy.asarray(self)})
        between = sys._getframe(1)
        if between.f_code is _VAR and between.f_back is not None and between.f_back.f_code is _STD:
            return self
        base.wrote(self.ours)
        return self.ours


def between(ours: Any, code: CodeType) -> Any:
    """Return what stands for a Diffuse output in NumPy's function that called `add.reduce`, whose code is
    given: an `Output` in `mean` and `var`, which go on computing in place; elsewhere the output itself."""
    if code is not _MEAN and code is not _VAR:
        return ours
    memory = base.writable(ours).view(Output)
    memory.ours = ours
    return memory
