"""Lazy scalars: what a program may do with the result of a reduction before anybody has computed it."""

from __future__ import annotations

import json
import math
import pickle
import statistics
import struct
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import library, settings
from diffuse.numpy.arrays.access import ready
from diffuse.numpy.arrays.core import scalar_class

SIZE = 100_000


def total() -> Any:
    """A sum that nobody waited for."""
    found = (np.ones(SIZE) * 0.5).sum()
    assert type(found) is scalar_class and not ready(found)
    return found


def count() -> Any:
    found = np.ones(SIZE, dtype=numpy.int64).sum()
    assert type(found) is scalar_class and not ready(found)
    return found


USES: list[Callable[[Any, Any], Any]] = [
    lambda s, n: json.dumps({"a": [s], s: n.item()}),
    lambda s, n: json.dumps((s, {"b": s}), indent=2),
    lambda s, n: struct.pack("dq", s, n),
    lambda s, n: (math.sqrt(s), math.floor(s), math.fsum([s, s]), math.isclose(s, 50_000)),
    lambda s, n: (round(s), round(s, 2), f"{s:.3f}", "%g" % s, "%d" % n, str(s), repr(n)),
    lambda s, n: (isinstance(s, float), isinstance(s, numpy.float64), isinstance(n, numpy.integer)),
    lambda s, n: ({50_000.0: 1}[s], s in [1, 50_000.0], 50_000.0 in {s}, hash(s)),
    lambda s, n: (pickle.loads(pickle.dumps(s)), type(pickle.loads(pickle.dumps(n)))),
    lambda s, n: (numpy.sqrt(s), numpy.asarray(s).shape, numpy.array([s, n]).tolist(), numpy.float32(s)),
    lambda s, n: (1 if 3 < s < 60_000 and n == SIZE else 0, max(s, 1.0), sorted([s, 2.0]), sum([s, s])),
    lambda s, n: (len([0] * n), len(n * (1,)), len(range(n)), numpy.zeros(n).shape, "ab" * (n - n)),
    lambda s, n: (statistics.mean([s, s]), statistics.median([s, 1.0, 3.0])),
    lambda s, n: (s != None, s == "text", bool(n)),  # noqa: E711
    lambda s, n: (s.item(), s.dtype, s.shape, s.is_integer(), s.astype("float32"), int(s), complex(s)),
    lambda s, n: numpy.full(2, s).tolist() + [numpy.linspace(0, s, 3).tolist()],
]


@pytest.mark.parametrize("use", USES)
def test_a_lazy_scalar_serves_as_numpys(use: Callable[[Any, Any], Any]) -> None:
    assert use(total(), count()) == use(numpy.float64(50_000.0), numpy.int64(SIZE))


def test_indices_of_a_lazy_scalar_are_those_of_numpys() -> None:
    assert (total()[()], type(total()[...]), count()[None].shape) == (50_000.0, numpy.ndarray, (1,))
    for index in (0, slice(None), (0,), 1.5):
        with pytest.raises(IndexError, match="invalid index to scalar variable"):
            total()[index] += 1
    for use in (iter, list, lambda s: 1 in s):
        with pytest.raises(TypeError, match="iterable"):
            use(total())
    with pytest.raises(TypeError, match="item assignment"):
        total()[...] = 1


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda m: m.isclose((m.ones(SIZE) * 0.5).sum(), 50_000.0),
    lambda m: m.allclose((m.ones(SIZE) * 0.5).sum(), 50_000.0),
    lambda m: m.round(m.ones(SIZE, dtype=int).sum()),
    lambda m: m.nan_to_num((m.ones(SIZE) * 0.5).sum()),
    lambda m: m.average((m.ones(SIZE) * 0.5).sum()),
]


@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions_of_a_lazy_scalar_give_scalars(call: Callable[[Any], Any]) -> None:
    found, expected = call(np), call(numpy)
    assert not isinstance(found, np.ndarray) and repr(found) == repr(expected)


class Matrix:
    """An operand that answers operators itself, as SciPy's linear operators do."""

    __array_ufunc__ = None

    def __rmul__(self, other: Any) -> str:
        return f"answered {float(other)}"


def test_operands_that_answer_themselves_do_so_for_a_lazy_scalar() -> None:
    assert total() * Matrix() == numpy.float64(50_000.0) * Matrix() == "answered 50000.0"


def test_what_a_lazy_scalar_is_does_not_wait_for_its_value() -> None:
    found = total()
    value = numpy.float64(found.size)
    for name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes"):
        assert getattr(found, name) == getattr(value, name), name
    assert not ready(found)


def test_a_scalar_becomes_an_array_without_waiting() -> None:
    with settings.using(small=0):
        total, plain = np.sum(np.arange(6.0)) * 2.0, numpy.sum(numpy.arange(6.0)) * 2.0
        found = np.reshape(total, (1, 1))
        assert library.current().window.held and type(found) is np.ndarray
        assert numpy.array_equal(numpy.asarray(found), numpy.reshape(plain, (1, 1)))
        for empty in ((), []):
            assert type(np.reshape(total, empty)) is type(numpy.reshape(plain, empty)) is numpy.float64
