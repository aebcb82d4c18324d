"""Operators of NumPy's own arrays (few elements stay so) on the left of Diffuse's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.each import for_each

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]
FEW = numpy.arange(3.0)
LEFT = [FEW, numpy.array(2.5), FEW.astype("i1"), FEW == 1, FEW + 1j, numpy.array([1, 2.5, "x"], dtype=object),
        FEW.astype(">f8"), numpy.arange(20_000.0).reshape(-1, 1), FEW.view(numpy.matrix),
        numpy.ma.masked_less(FEW, 1), numpy.array(["a", "b", "c"]), numpy.arange(4.0),
        numpy.array([], "f4").reshape(0, 1)]
MANY = numpy.arange(1.0, 601.0).reshape(200, 3)
RIGHT = [MANY, MANY.astype("u2"), numpy.ones((0, 3)), numpy.arange(1.0, 60_001.0).reshape(20_000, 3)]


def outcome(function: Callable[[], Any]) -> Any:
    try:
        found = function()
    except Exception as error:
        return type(error), str(error)
    return found.dtype, found.shape, numpy.asarray(found).tolist(), isinstance(found, numpy.ma.MaskedArray)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pending", [False, True])
@for_each("right", RIGHT)
@for_each("left", LEFT)
def test_results_and_errors_are_numpys(left: Any, right: Any, pending: bool) -> None:
    for apply in OPERATORS:
        ours = np.array(right) + np.zeros_like(right) if pending else np.array(right)
        assert outcome(lambda: apply(left, ours)) == outcome(lambda: apply(left, right))  # noqa: B023


def test_classes_derived_from_numpys_array_answer_themselves() -> None:
    class Named(numpy.ndarray):
        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
            return "answered"

    assert numpy.arange(3.0).view(Named) * np.ones((200, 3)) == "answered"


def test_what_a_pending_task_writes_is_waited_for() -> None:
    x = np.ones((200, 3))
    large = np.ones((200_000, 3)) * 2
    x += large[:200]
    assert numpy.asarray(numpy.arange(3.0) * x).tolist() == [[0, 3, 6]] * 200
