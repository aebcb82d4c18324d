"""`unravel_index` and `ravel_multi_index` on large arrays: NumPy's values, types, strides and errors."""

from __future__ import annotations

from typing import Any

import numpy

import diffuse.numpy as dnp
from diffuse.observe import trace
from tests.each import for_each


def outcome(call: Any, np: Any) -> Any:
    try:
        found = call(np)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    parts = [numpy.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]
    said = [(x.dtype, x.shape, x.strides, x.flags.writeable, x.tobytes()) for x in parts]
    return isinstance(found, tuple), said


@for_each("dtype", ["int8", "int32", "int64", "uint64", "float64"])
@for_each("order", ["C", "F", "X"])
@for_each("top", [100, 127])
def test_they_are_numpys(dtype: str, order: str, top: int) -> None:
    r = numpy.random.default_rng(3)
    first, second = r.integers(0, top, (150, 203)).astype(dtype), r.integers(0, 30, (150, 203)).astype(dtype)
    calls = [lambda np: np.unravel_index(np.array(first), (5, 4, 6), order),
             lambda np: np.unravel_index(np.array(first), 100, order=order),
             lambda np: np.unravel_index(np.array(-second), (30, 30), order),
             lambda np: np.ravel_multi_index((np.array(first), np.array(second)), (110, 30), order=order),
             lambda np: np.ravel_multi_index((np.array(first), np.array(second)), (9, 9), mode="wrap"),
             lambda np: np.ravel_multi_index((np.array(first), 3), (127, 30), order=order)]
    for call in calls:
        assert outcome(call, dnp) == outcome(call, numpy)


def test_they_are_recorded() -> None:
    x = dnp.arange(20000)
    trace.counters.clear()
    back = dnp.ravel_multi_index(dnp.unravel_index(x, (100, 200)), (100, 200))
    assert trace.counters["fallbacks"] == 0 and trace.counters["recorded"] > 3
    assert (back == x).all()
