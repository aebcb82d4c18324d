"""Indices that are whole numbers of NumPy's types: elements, views, assignments and errors are NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy
import pytest

import diffuse.numpy as np


class Third(numpy.int64):
    """A number with another index than its value."""

    def __index__(self) -> int:
        return 2


def told(run: Callable[[Any], Any], x: Any) -> tuple[Any, ...]:
    try:
        found = run(x)
    except (IndexError, TypeError) as error:
        return type(error), str(error)
    kind = numpy.ndarray if isinstance(found, numpy.ndarray) else type(found)
    return kind, numpy.asarray(found).shape, numpy.asarray(found).tobytes(), numpy.asarray(x).tobytes()


def added(x: Any, index: Any) -> None:
    x[index] += 1.5


@pytest.mark.parametrize("shape", [(30, 10), (30, 10, 10), (300, 100)])
def test_whole_numbers_of_numpy_index_as_pythons_do(shape: tuple[int, ...]) -> None:
    start = numpy.arange(float(numpy.prod(shape))).reshape(shape)
    for kind, k in product((numpy.int64, numpy.int32, numpy.uint8, numpy.bool_, Third), (2, -3, 30, -31)):
        one: Any = kind(k % 256 if kind is numpy.uint8 else k)
        for index in (one, (one, 1), (1, one), (..., one), (slice(one, None), one), (slice(None, one, 2),),
                      slice(-5, one), slice(None, None, one), (None, one), (one,) * len(shape)):
            for run in (operator.itemgetter(index), lambda x, i=index: operator.setitem(x, i, 7.25),
                        lambda x, i=index: added(x, i)):
                theirs, ours = start.copy(), np.array(start)
                assert told(run, ours) == told(run, theirs), (one, index)
