"""`scipy.special` on Diffuse arrays.

The ufuncs of `ufuncs.UFUNCS` and the functions below are Diffuse's own: recorded, fused, run on all
threads.  All other functions are SciPy's, wrapped by `fallback`.  Own ufuncs signal no error to
`special.errstate`: where SciPy's default ignores one, they return the same value.
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy
import scipy.special as _real

import diffuse.numpy as _np
from diffuse.numpy.arrays.core import Array as _Array
from diffuse.numpy.bridge import fallback as _convert
from diffuse.scipy import fallback as _fallback
from diffuse.scipy.special.ufuncs import UFUNCS as _UFUNCS

__all__ = _fallback.listing("scipy.special")

globals().update(_UFUNCS)
_lookup = _fallback.lookup("scipy.special", globals())


def __getattr__(name: str) -> Any:
    return _lookup(name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _floats(x: Any) -> Any:
    """Convert to an array of real floats with at least one element; None if SciPy should handle the
    argument."""
    found: Any = _np.asarray(x)
    if not isinstance(found, _Array) or not found.form.size or found.form.dtype.kind not in "biuf":
        return None
    values: Any = found  # a type-checker takes it for the bare Array
    return values if values.dtype.kind == "f" else values.astype(_numpy.float64)


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along `axis` (an axis, a tuple of them, or None for all): an array of x's shape.

    See docs.scipy.org/doc/scipy/reference/generated/scipy.special.softmax.html.
    """
    values = _floats(x)
    if values is None:
        return _convert.call(_real.softmax, (x, axis), {}, "scipy.special.softmax")
    powers = _np.exp(values - _np.max(values, axis=axis, keepdims=True))
    return powers / _np.sum(powers, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of `softmax`, without taking it of small numbers.

    See docs.scipy.org/doc/scipy/reference/generated/scipy.special.log_softmax.html.
    """
    values = _floats(x)
    if values is None:
        return _convert.call(_real.log_softmax, (x, axis), {}, "scipy.special.log_softmax")
    top = _np.max(values, axis=axis, keepdims=True)
    below = values - _np.where(_np.isfinite(top), top, top.dtype.type(0))
    return below - _np.log(_np.sum(_np.exp(below), axis=axis, keepdims=True))


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
              ) -> Any:
    """log(sum(exp(a))) along `axis`; with weights `b` or `return_sign`, and for complex numbers, by SciPy.

    The largest elements are counted and the rest is added with log1p, as SciPy does it.
    See docs.scipy.org/doc/scipy/reference/generated/scipy.special.logsumexp.html.
    """
    values = None if b is not None or return_sign else _floats(a)
    if values is None:
        return _convert.call(_real.logsumexp, (a, axis, b, keepdims, return_sign), {},
                             "scipy.special.logsumexp")
    zero = values.dtype.type(0)
    top = _np.max(values, axis=axis, keepdims=True)
    finite = _np.isfinite(top)
    largest = values == top
    count = _np.sum(largest, axis=axis, keepdims=True, dtype=values.dtype)
    powers = _np.exp(values - _np.where(finite, top, zero))
    rest = _np.sum(_np.where(largest, zero, powers), axis=axis, keepdims=True)
    count = _np.where(count == zero, values.dtype.type(1), count)  # NaN is no largest element
    found = _np.where(finite, _np.log1p(rest / count) + _np.log(count) + top, top)
    if keepdims:
        return found
    return _np.squeeze(found, axis=axis)[()] if axis is not None else found.reshape(())[()]


def softplus(x: Any, **kwargs: Any) -> Any:
    """log(1 + exp(x)), as `logaddexp(0, x)` computes it.

    See docs.scipy.org/doc/scipy/reference/generated/scipy.special.softplus.html.
    """
    return _np.logaddexp(0, x, **kwargs)


def sinc(x: Any) -> Any:
    """NumPy's `sinc`, sin(pi x) / (pi x)."""
    return _np.sinc(x)
