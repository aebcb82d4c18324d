"""Vectors of elements that do not lie side by side: repeated elements, and long chains of ops on strided
ones."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap

import numpy as np
import pytest

import diffuse.numpy as dn
from diffuse.ir.loops import REPEATS
from diffuse.kernels.body.expr import Body, Op
from diffuse.kernels.build import routines
from diffuse.kernels.llvm import nest, width
from tests.bodies import Array
from tests.each import for_each
from tests.test_llvm import MACHINE, build, run


def chain(length: int, dtype: str = "float64") -> Body:
    """A body that adds a strided argument to another so many times."""
    ops = [Op("load", dtype, (), 0), Op("load", dtype, (), 1)]
    for _ in range(length):
        ops.append(Op("add", dtype, (0, len(ops) - 1)))
    return build(*ops, Op("store", dtype, (len(ops) - 1,), 2), views=["Rs", "Rs", "Ws"], dtype=dtype)


def before_a_hole(values: Array, step: int) -> Array:
    """A strided copy of an array whose last element is the last one before a page that is not there."""
    size, page = values.itemsize, mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = np.frombuffer(memory, "uint8").ctypes.data
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0)
    room = np.frombuffer(memory, "uint8")[page - ((values.size - 1) * step + 1) * size:page]
    found = room.view(values.dtype)[::step]
    found[:] = values
    return found


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint64", "int16"])
def test_a_long_chain_on_strided_elements(dtype: str) -> None:
    """It runs on vectors, which touch no element but their own."""
    length = width.DEEP + 8
    for n in (1, 7, 8, 9, 16, 23, 40):
        rng = np.random.default_rng(n)
        x, y = (before_a_hole(rng.integers(1, 50, n).astype(dtype), 3) for _ in range(2))
        out = np.full(5 * n, 77, dtype)
        run(chain(length, dtype), [n], [x, y, out[::5]])
        expected = np.full(5 * n, 77, dtype)
        expected[::5] = y + np.asarray(length).astype(dtype) * x
        assert out.tobytes() == expected.tobytes()


def test_a_short_chain_on_strided_elements_goes_element_by_element() -> None:
    assert "<8 x double>" not in nest.emit(chain(4), MACHINE)
    for length in (width.CHAIN, width.DEEP + 8):
        text = nest.emit(chain(length), MACHINE)
        assert "<8 x double>" in text and "llvm.masked.gather" not in text


def swept(dtype: str, passes: bool) -> Body:
    """A body of a long chain that overwrites a strided argument, and stores to two views of another slot; it
    loads one of these views again, unless its elements can pass through a buffer."""
    ops = [Op("load", dtype, (), k) for k in range(3)]
    for _ in range(width.DEEP):
        ops.append(Op("add", dtype, (1, len(ops) - 1)))
    last = len(ops) - 1
    ops += [Op("multiply", dtype, (0, last)), Op("store", dtype, (last + 1,), 1),
            Op("store", dtype, (last,), 3)]
    if not passes:
        ops.append(Op("load", dtype, (), 3))
    ops.append(Op("store", dtype, (last + 1 if passes else len(ops) - 1,), 4))
    body = build(*ops, views=["R10", "Wss", "Rss", "Wss", "Wss"], dtype=dtype)
    arguments = (*body.arguments[:3], body.arguments[3], body.arguments[4]._replace(slot=3, view=1))
    return dataclasses.replace(body, arguments=arguments)


@for_each("dtype", ["float64", "float32", "int64"])
@for_each("passes", [True, False])
@for_each("columns", [3, 16, 29])
def test_strided_elements_pass_through_a_buffer_where_the_order_of_accesses_allows(
        dtype: str, passes: bool, columns: int) -> None:
    body, rng = swept(dtype, passes), np.random.default_rng(columns)
    scale = rng.integers(1, 5, (4, 1)).astype(dtype)
    x, y = (rng.integers(1, 5, (4, columns, 3)).astype(dtype) for _ in range(2))
    both = np.zeros((4, columns, 5), dtype)
    total = y[..., 1].copy()
    for _ in range(width.DEEP):
        total = x[..., 2] + total
    expected, after = both.copy(), x.copy()
    after[..., 2] = scale * total
    expected[..., 1], expected[..., 3] = total, after[..., 2] if passes else total
    run(body, [4, columns], [scale, x[..., 2], y[..., 1], both[..., 1], both[..., 3]], points=2, tile=3)
    assert x.tobytes() == after.tobytes() and both.tobytes() == expected.tobytes()
    assert ("llvm.masked.gather" in nest.emit(body, MACHINE)) is not passes


@for_each("columns", [3, 8, 13, 40])
def test_lanes_beyond_a_row_raise_no_flags(columns: int) -> None:
    """Such a lane divides what the first one does, not 0 by 0."""
    ops = [Op("load", "float64", (), 0), Op("load", "float64", (), 1)]
    for _ in range(width.DEEP):
        ops.append(Op("divide", "float64", (len(ops) - 1, 0)))
    body = build(*ops, Op("store", "float64", (len(ops) - 1,), 2), views=["Rs", "Rs", "Ws"])
    x, y, out = np.full(columns, 2.0), np.full(columns, 3.0), np.zeros((columns, 2))
    routines.flags().clear()
    run(body, [columns], [x, y, out[:, 1]])
    assert not routines.flags().raised() and (out[:, 1] == 3.0 / 2.0**width.DEEP).all()


@for_each("dtype", ["float64", "float32", "int32", "int64"])
@for_each("times", [2, 3, 4])
@for_each("rows", [8, 26, 31])
def test_elements_repeated_along_a_short_dimension(dtype: str, times: int, rows: int) -> None:
    rng = np.random.default_rng(rows)
    x = rng.integers(-50, 50, (64, 40, rows, times)).astype(dtype)
    w = rng.integers(-50, 50, (64, 40, rows)).astype(dtype)
    level = rng.integers(1, 50, rows).astype(dtype)
    dx, dw, dl = dn.array(x), dn.array(w), dn.array(level)
    assert (np.asarray(dx * dw[..., None] + dl[:, None]).tobytes()
            == (x * w[..., None] + level[:, None]).tobytes())
    part = np.s_[1:, :, 1:]
    assert (np.asarray(dx[part] - dw[part][..., None]).tobytes()
            == (x[part] - w[part][..., None]).tobytes())


@pytest.mark.parametrize("letter", list(REPEATS))
def test_repeated_elements_are_read_by_parts_of_vectors(letter: str) -> None:
    """The text has no table of distances, from which elements are read lane by lane."""
    body = build(Op("load", "float64", (), 0), Op("load", "float64", (), 1),
                 Op("multiply", "float64", (0, 1)), Op("store", "float64", (2,), 2),
                 views=["Rsc1", f"Rs{letter}0", "Wsc1"])
    text = nest.emit(Body((body.spaces[0]._replace(flat=1),), body.arguments, (), body.loops), MACHINE)
    assert f"load <{8 // REPEATS[letter]} x double>" in text and "insertelement <8 x double>" not in text
