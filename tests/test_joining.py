"""Arrays joined along the last axis, of which some have one column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.stream import engine

COUNT = 50_000
JOINS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "stack": lambda m, parts: m.stack(parts, axis=1),
    "column_stack": lambda m, parts: m.column_stack(parts),
    "columns": lambda m, parts: m.concatenate([x[:, None] for x in parts], 1),
    "beside a matrix": lambda m, parts: m.concatenate([parts[0].reshape(-1, 2), parts[-1][::2, None]], -1),
    "beside a transpose":
        lambda m, parts: m.concatenate([parts[0].reshape(2, -1).T, parts[-1][1::2, None]], 1),
    "three dimensions": lambda m, parts: m.stack([x.reshape(100, -1) for x in parts], 2),
    "rows": lambda m, parts: m.concatenate([x[:, None] for x in parts], 0),
    "backwards": lambda m, parts: m.stack([x[::-1] for x in parts], -1),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool", "complex128", "float16"])
def test_values_and_layout(name: str, dtype: str) -> None:
    pick = numpy.random.default_rng(1)
    for count in 1, 2, 3, 5:
        given = [(100 * pick.random(COUNT)).astype(dtype) for _ in range(count)]
        found = numpy.asarray(JOINS[name](np, [np.array(x) for x in given]))
        expected = JOINS[name](numpy, given)
        assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.usefixtures("planned_anew")
@pytest.mark.parametrize("name", ["stack", "column_stack", "columns"])
def test_columns_are_assigned_in_one_dimension(name: str) -> None:
    """Otherwise the innermost loop would have one step."""
    x, y = (np.array(numpy.random.default_rng(k).random(3_000_000)) for k in (1, 2))
    diffuse.fence()
    joined = JOINS[name](np, [x, y])
    diffuse.fence()
    plan = engine.current().forwarder.plans[-1]
    assert joined.shape == (3_000_000, 2)
    assert plan.kernel is not None and [space.rank for space in plan.kernel.body.spaces] == [1]
