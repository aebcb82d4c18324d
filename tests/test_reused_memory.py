"""A result takes over the memory of an operand that dies only where both have their elements at one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.observe import trace
from diffuse.stream import engine

pytestmark = pytest.mark.usefixtures("planned_anew")  # only machine code writes over what it reads
VALUES = numpy.random.default_rng(3).random((240, 240))
VIEWS: dict[str, Callable[[Any], Any]] = {
    "straight": lambda x: x,
    "rows reversed": lambda x: x[::-1],
    "columns reversed": lambda x: x[:, ::-1],
    "transposed": lambda x: x.T,
    "flat": lambda x: x.reshape(-1),
}


def scaled(view: Callable[[Any], Any], first: Callable[[Any], Any]) -> None:
    """Compare a product whose operand is a view of a result that dies with it."""
    x = np.array(VALUES)
    made = first(x)
    engine.flush()  # the product is a task of its own
    read = view(made)
    del made
    product = read * 0.7
    del read
    engine.flush()
    assert numpy.array_equal(numpy.array(product), view(first(VALUES)) * 0.7)


@pytest.mark.local_only("it looks at memory that is given on")
@pytest.mark.parametrize("name", VIEWS)
def test_the_same_operation_on_other_views(name: str) -> None:
    """The plan is that of the operation on the operand as it lies, which it may overwrite."""
    before = trace.snapshot().get("donated", 0)
    scaled(VIEWS["straight"], lambda x: x + 1.0)
    assert trace.snapshot()["donated"] == before + 1
    for _ in range(2):
        scaled(VIEWS[name], lambda x: x + 1.0)
    scaled(VIEWS["straight"], lambda x: x + 1.0)


@pytest.mark.parametrize("order", [list(VIEWS), list(reversed(VIEWS))], ids=["straight first", "flat first"])
def test_temporaries_that_are_read_by_other_views(order: list[str]) -> None:
    """Where a running sum and its product are fused, the sum may lie in the memory of the product."""
    for name in order:
        x, view = np.array(VALUES), VIEWS[name]
        product = view(np.cumsum(view(x), axis=-1)) * 0.01
        expected = view(numpy.cumsum(view(VALUES), axis=-1)) * 0.01
        assert numpy.allclose(numpy.array(product), expected, rtol=1e-12), name
