"""Loops whose rows lie one behind the other run over several dimensions at once; components of arrays are
written through vectors.  Values and the elements between are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.library import current, fence
from diffuse.settings import using

Program = Callable[[Any, Any], Any]


def fields(module: Any, shape: tuple[int, ...], dtype: str) -> list[Any]:
    draw = numpy.random.default_rng(8)
    return [module.array((draw.standard_normal(shape) * 50).astype(dtype)) for _ in range(2)]


def whole(module: Any, x: list[Any]) -> Any:
    return module.zeros_like(x[0]) + x[0] * x[1] + x[0]


def rows(module: Any, x: list[Any]) -> Any:
    """Rows with gaps in some dimensions, and without in the others."""
    found = x[0] * x[1]
    found[1:-1] += x[0][2:] - x[1][:-2]
    found[:, 2:-1] *= x[0][:, 3:]
    found[..., 1:] -= x[1][..., :-1]
    return found


def repeated(module: Any, x: list[Any]) -> Any:
    """Operands that follow only some of the dimensions."""
    return x[0] * x[1][:1] + x[1][:, :1] - x[0][..., :1] + x[1][1, 1]


def components(module: Any, x: list[Any]) -> Any:
    found = [module.full((*x[0].shape, n), 3, x[0].dtype) for n in (2, 3, 4)]
    for each in found:
        each[..., 1] = x[0] + x[1]
        each[1:, ..., 0] = x[0][1:] - x[1][:-1]
        each[..., 1:, -1] += each[..., :-1, 1]
    return found[0] + 0, found[1] + 0, found[2] + 0


SHAPES = [(9, 8, 11), (3, 4, 5, 2), (5, 3, 3, 2, 2), (4, 3, 1, 7), (6, 40), (2, 3, 17)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "complex128", "int64"])
@pytest.mark.parametrize("program", [whole, rows, repeated, components], ids=lambda x: x.__name__)
def test_values_are_numpys(program: Program, shape: tuple[int, ...], dtype: str) -> None:
    expected = program(numpy, fields(numpy, shape, dtype))
    for chunk in (1, 1 << 20):  # several points, and one
        with using(small=0, min_chunk=chunk, compile="wait"):
            found = program(np, fields(np, shape, dtype))
            for one, other in zip(found, expected, strict=True):
                assert numpy.array_equal(numpy.asarray(one), other)


def test_the_extents_of_merged_dimensions_are_those_of_the_launch() -> None:
    """The same kernel runs where rows are adjacent, and where they are not."""
    with using(small=0, compile="wait"):
        memory = np.arange(4000.0).reshape(20, 20, 10)
        fence()
        plans = len(current().plans)
        for part in (memory[2:7, :, :], memory[2:7, 3:9, :], memory[:, :7, 1:4], memory[:1, :, :]):
            assert numpy.array_equal(numpy.asarray(part * 2.0), numpy.asarray(part) * 2.0)
        assert len(current().plans) - plans <= 3
