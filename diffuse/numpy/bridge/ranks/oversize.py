"""Functions of arrays that no rank has room for, where NumPy's bits need the whole array: they run in parts.

Such a call would end in a MemoryError, so nothing is lost by a result that is right without having NumPy's
bits.  Partitions are sorts, and sorts whose result depends on NumPy's algorithm are stable.  Transforms of
one dimension take the four-step algorithm.  The results depend neither on the number of ranks nor on how much
memory they have beyond the fact that it is too little for the whole array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from math import sqrt
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import core, far
from diffuse.numpy.arrays.forms import NATIVE, row_major
from diffuse.numpy.bridge import threaded
from diffuse.numpy.bridge.ranks import four_step, parts, transforms
from diffuse.numpy.ops.conversion import asarray

SIGNS = {"fft": -1, "rfft": -1, "hfft": -1, "ifft": 1, "irfft": 1, "ihfft": 1}
SCALED = {None: 1, "backward": 1, "forward": -1, "ortho": 0}
"""The sign of the transforms that each mode divides by the number of elements; of 0 both by its root."""

Function = Callable[..., Any]


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of a function, in a tuple; None if there is no way to run it in parts.  Raises NumPy's
    errors for wrong arguments."""
    if not far.here(*args):
        return None
    module, _, function = name.rpartition(".")
    if module in ("numpy.fft", "scipy.fft"):
        return _transformed(module, function, args, kwargs)
    ordered = ORDERED.get(name)
    if ordered is None:
        return None
    try:
        bound = signature(ordered).bind(*args, **kwargs)
    except TypeError:  # NumPy says what is wrong
        return None
    found: tuple[Any] | None = ordered(*bound.args, **bound.kwargs)
    return found


def beforehand(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """Run the function in parts, as `call` does, if NumPy's whole result would exceed a rank's memory; else
    return None."""
    if not args or not parts.wanted(args[0]):
        return None
    x = args[0].form
    most = x.itemsize
    if ".fft." in name:
        most = max(x.itemsize, 16 if x.dtype.kind != "c" else 8)
    elif "arg" in name:
        most = far.INDEX.itemsize
    fits = x.size * (x.itemsize + most) <= library.current().runtime.room
    return None if fits else call(name, args, kwargs)


# -- sorts and partitions ----------------------------------------------------------------------------------


def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
          ) -> tuple[Any] | None:
    a, axis = _flat(a, axis)
    _tried(numpy.sort, a, axis=axis, kind=kind, order=order, stable=stable)
    return _put_in_order(a, "sort")


def _argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
             ) -> tuple[Any] | None:
    a, axis = _flat(a, axis)
    _tried(numpy.argsort, a, axis=axis, kind=kind, order=order, stable=stable)
    return _put_in_order(a, "argsort")


def _sort_in_place(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
                   ) -> tuple[Any] | None:
    _tried(numpy.ndarray.sort, a, axis=axis, kind=kind, order=order, stable=stable)
    return _put_in_order(a, "sort", a)


def _partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
               ) -> tuple[Any] | None:
    a, axis = _flat(a, axis)
    _tried(numpy.partition, a, _places(a, kth), axis=axis, kind=kind, order=order)
    return _put_in_order(a, "sort")


def _argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
                  ) -> tuple[Any] | None:
    a, axis = _flat(a, axis)
    _tried(numpy.argpartition, a, _places(a, kth), axis=axis, kind=kind, order=order)
    return _put_in_order(a, "argsort")


def _partition_in_place(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
                        ) -> tuple[Any] | None:
    _tried(numpy.ndarray.partition, a, _places(a, kth), axis=axis, kind=kind, order=order)
    return _put_in_order(a, "sort", a)


ORDERED: dict[str, Function] = {
    "numpy.sort": _sort, "numpy.argsort": _argsort, "numpy.ndarray.sort": _sort_in_place,
    "numpy.partition": _partition, "numpy.argpartition": _argpartition,
    "numpy.ndarray.partition": _partition_in_place}


def _flat(a: Any, axis: Any) -> tuple[Any, Any]:
    """Return the array and the axis to sort along; without an axis the array as one line."""
    return (a.ravel(), -1) if axis is None and type(a) is core.array_class else (a, axis)


def _tried(function: Function, a: Any, *args: Any, **kwargs: Any) -> None:
    """Call NumPy's function on one element, so that it raises its errors for the other arguments."""
    if type(a) is core.array_class and a.ndim == 1:
        one = numpy.zeros(1, a.dtype)
        one.flags.writeable = a.flags.writeable
        function(one, *args, **kwargs)


def _places(a: Any, kth: Any) -> Any:
    """Return the `kth` argument with which `_tried` calls NumPy's function on one element: 0 if the given
    places exist in the array.  Raises NumPy's ValueError for places that do not."""
    numbers = numpy.asarray(kth)
    if numbers.dtype.kind not in "iu" or numbers.ndim > 1 or type(a) is not core.array_class or a.ndim != 1:
        return kth
    for number in numbers.reshape(-1).tolist():
        if not -a.size <= number < a.size:
            raise ValueError(f"kth(={number + a.size if number < 0 else number}) out of bounds ({a.size})")
    return 0


def _put_in_order(a: Any, name: str, into: Any = None) -> tuple[Any] | None:
    """Sort a one-dimensional array by a stable algorithm, into `into` if given, or find its order; returns
    the result in a tuple, or None for other arrays."""
    from diffuse.numpy.order import ranked

    if name == "argsort":
        found = ranked.argsort(a, "stable")
    else:
        found = ranked.sort(a, "stable", into)
    return None if found is None else (None,) if into is not None else (found,)


# -- transforms --------------------------------------------------------------------------------------------


def _transformed(module: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of a function of `numpy.fft`, or of SciPy's function of the same name, by NumPy's code over
    transforms of lines in parts."""
    function = _functions().get(name)
    if function is None or name not in numpy.fft.__all__:
        return None
    if module == "scipy.fft":
        found = _as_numpy(name, args, kwargs)
        if found is None:
            return None
        args, kwargs = found
    elif kwargs.get("out") is not None or not args or not parts.wanted(args[0]):
        return None
    try:
        return (function(*args, **kwargs),)
    except transforms.NeedsWhole:
        return None


@cache
def _functions() -> dict[str, Any]:
    """The functions of NumPy's module, over transforms of lines in parts."""
    real = numpy.fft._pocketfft
    scope = threaded.over(real, asarray=asarray, __name__=__name__)
    scope.update({name: _line(name, getattr(real, name)) for name in SIGNS})
    return scope


def _as_numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
              ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of NumPy's function for a call of SciPy's; None if there are none."""
    import scipy.fft

    try:
        given = signature(getattr(scipy.fft, name)).bind(*args, **kwargs).arguments
    except (AttributeError, TypeError):
        return None
    if given.pop("plan", None) is not None or given.get("s") is not None or not parts.wanted(given["x"]):
        return None
    for option in ("overwrite_x", "workers"):
        given.pop(option, None)
    return (given.pop("x"),), given


def _line(name: str, real: Function) -> Function:
    """One of the functions along one axis."""

    def run(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        if out is None and parts.wanted(a):
            if a.ndim > 1:
                found = parts.along(f"fft.{name}", lambda array: real(array, n, axis, norm), a, axis)
            else:
                found = _of_all(name, real, a, n, axis, norm)
            if found is not None:
                return found
        raise transforms.NeedsWhole

    run.__name__ = run.__qualname__ = name  # for TypeErrors
    return run


def _of_all(name: str, real: Function, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    """The transform of an array of one dimension, by all ranks at once."""
    sign, half = SIGNS[name], name in ("irfft", "hfft")
    if n is None:
        extent = a.form.shape[axis]  # IndexError, as NumPy's
        n = 2 * (extent - 1) if half else extent
    one = real(numpy.ones(1, a.dtype), min(n, 1), axis, norm)  # raises NumPy's errors
    length = n // 2 + 1
    if one.dtype not in NATIVE or not far.located(a):
        return None
    out = core.recorded(row_major((length if name in ("rfft", "ihfft") else n,), one.dtype))
    scaled = SCALED[norm]
    plan = four_step.Transform(int(n), sign, 1.0 if scaled == -sign else 1 / n if scaled else 1 / sqrt(n),
                               real=a.dtype.kind != "c" and not half, half=half)

    def run(peers: Any, given: Any, target: Any) -> None:
        four_step.run(peers, plan, given, target)

    far.together(f"fft.{name}", run, (a,), (out,))
    return out
