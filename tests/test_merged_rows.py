"""Loops whose rows lie one behind the other run over several dimensions at once; components of arrays are
written through vectors.  Values and the elements between are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.llvm import merge
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Module
from diffuse.kernels.targets.host import host
from diffuse.settings import using
from tests.each import for_each

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


@for_each("shape", SHAPES)
@for_each("dtype", ["float64", "float32", "int16", "complex128", "int64"])
@pytest.mark.parametrize("program", [whole, rows, repeated, components], ids=lambda x: x.__name__)
def test_values_are_numpys(program: Program, shape: tuple[int, ...], dtype: str) -> None:
    expected = program(numpy, fields(numpy, shape, dtype))
    for chunk in (1, 1 << 20):  # several points, and one
        with using(small=0, min_chunk=chunk, compile="wait"):
            found = program(np, fields(np, shape, dtype))
            for one, other in zip(found, expected, strict=True):
                assert numpy.array_equal(numpy.asarray(one), other)


@pytest.mark.parametrize(("classes", "axis", "flat", "merged"), [
    ("ss1", 0, 0, {0, 1, 2}),
    ("ss1", 1, 0, {1, 2}),      # a point runs some of the second dimension only
    ("ss1", 2, 0, set()),
    ("0s1", 0, 0, {1, 2}),      # an operand that is repeated
    ("s01", 0, 0, set()),
    ("ss1", 0, 2, set()),       # short rows with gaps between them
    ("sc1", 0, 2, {0, 1, 2}),
    ("s1", 0, 0, set()),        # rows of two dimensions are long
])
def test_which_dimensions_are_merged(classes: str, axis: int, flat: int, merged: set[int]) -> None:
    rank = len(classes)
    ops = Op("load", "float64", (), 0), Op("store", "float64", (0,), 1)
    views = ["s" * (rank - 1) + "1" if flat == 0 else classes, classes]
    accesses = zip(reversed(views), (Privilege.READ, Privilege.WRITE), strict=True)
    arguments = tuple(Argument(k, 0, "float64", 0, letters, privilege)
                      for k, (letters, privilege) in enumerate(accesses))
    loop = Loop(0, tuple(range(rank)), ops)
    body = Body((Space(rank, (axis,), flat),), arguments, (), (loop,))
    code = Code(Module(host()), 8)
    code.label("entry")
    block = Block(code, body)
    bounds = {d: ("0", block.extent(0, d)) for d in range(rank)}
    before = dict(bounds)
    merge.rows(block, body, loop, loop.order, bounds)
    assert {d for d in bounds if bounds[d] != before[d]} == merged


def test_one_kernel_runs_where_rows_are_adjacent_and_where_they_are_not() -> None:
    with using(small=0, compile="wait"):
        memory = np.arange(16000.0).reshape(20, 20, 40)
        for part in (memory[2:7], memory[2:7, 3:9], memory[:, :7, 1:36], memory[:1], memory[3:, :1]):
            assert numpy.array_equal(numpy.asarray(part * 2.0), numpy.asarray(part) * 2.0)


@pytest.mark.parametrize("shape", [(12, 1), (12, 1, 1), (1, 12, 1), (3, 4, 1), (1, 4, 3, 1), (2, 1, 6)],
                         ids=str)
def test_reversed_views_with_dimensions_of_one_index(shape: tuple[int, ...]) -> None:
    with using(small=0, compile="wait"):
        x = np.arange(12.0)
        for part in (x[::-1], x.reshape(6, 2)[::-1, ::-1], np.arange(24.0)[::-2]):
            shown = part.reshape(shape)
            assert numpy.array_equal(numpy.asarray(np.copy(shown)), numpy.asarray(shown))
            assert numpy.array_equal(numpy.asarray(shown * shown), numpy.asarray(shown) ** 2)
