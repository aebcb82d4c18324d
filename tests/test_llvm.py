"""Emitted kernels against NumPy: layouts, lane boundaries, points, reductions, scans, flags."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from diffuse.ir import Privilege
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import jit
from diffuse.kernels.llvm import iteration, nest
from diffuse.kernels.meaning.reduce import definition
from diffuse.kernels.targets.host import Host
from tests import machine_code
from tests.bodies import Case, differences
from tests.each import for_each, rounds

Array = NDArray[Any]
R, W = Privilege.READ, Privilege.WRITE

MACHINE = Host("x86_64-unknown-linux-gnu", "x86-64-v4", "", True)
"""A machine of its own, so that golden texts are the same on every other."""


def build(*ops: Op, views: Sequence[str], dtype: str = "float64", scalars: tuple[str, ...] = (),
          axis: int = 0, order: tuple[int, ...] | None = None) -> Body:
    """A body of one loop; `views` are "R11" or "W1s": a privilege and classes."""
    rank = len(views[0]) - 1
    arguments = tuple(Argument(k, 0, dtype, 0, v[1:], R if v[0] == "R" else W) for k, v in enumerate(views))
    loop = Loop(0, tuple(range(rank)) if order is None else order, ops)
    return Body((Space(rank, (axis if rank else -1,)),), arguments, scalars, (loop,))


def run(body: Body, extents: Sequence[int], arrays: Sequence[Array], points: int = 1, tile: int | None = None,
        scalars: Sequence[float] = ()) -> None:
    """Compile (without the disk) and run on arrays of the iteration space's rank; class 0 has no stride."""
    tile = max(extents, default=1) if tile is None else tile
    values: list[int | float] = [points, tile or 1, *extents]
    for argument, array in zip(body.arguments, arrays, strict=True):
        values.append(array.ctypes.data)
        values += [0 if c == "0" else s for c, s in zip(argument.classes, array.strides, strict=True)]
    values += scalars
    partials = [np.zeros(abi.partial_bytes(body, r, extents) + 8, np.uint8) for r in abi.reductions(body)]
    values += [p.ctypes.data for p in partials]
    machine_code.run(native(body), body, values, points)


def native(body: Body) -> jit.Native:
    if body not in _natives:
        _natives[body] = machine_code.native(body)
    return _natives[body]


_natives: dict[Body, jit.Native] = {}

LOAD = [Op("load", "float64", (), k) for k in range(5)]


def do(kind: str, *values: int) -> Op:
    return Op(kind, "float64", values)


def put(value: int, argument: int, dtype: str = "float64") -> Op:
    return Op("store", dtype, (value,), argument)


def plus(dtype: str, letter: str) -> Body:
    ops = Op("load", dtype, (), 0), Op("load", dtype, (), 1), Op("add", dtype, (0, 1)), put(2, 2, dtype)
    return build(*ops, views=[f"R{letter}", f"R{letter}", f"W{letter}"], dtype=dtype)


# layouts


@for_each("dtype", "bool int8 uint16 int32 int64 float16 float32 float64 complex64 complex128".split())
@for_each("step", [1, 2, -1, -3])
def test_every_length_around_the_lanes(dtype: str, step: int) -> None:
    draw = np.random.default_rng(0)
    for n in [*range(20), 31, 32, 33, 63, 64, 65, 70]:
        whole = [(draw.standard_normal(3 * n + 8) * 50).astype(dtype) for _ in range(2)]
        out = np.ones(3 * n + 8, dtype)
        a, b, c = (w[5:][: n * abs(step)][::step][:n] for w in (*whole, out))
        expected = out.copy()
        np.add(a, b, out=expected[5:][: n * abs(step)][::step][:n])
        run(plus(dtype, "1" if step == 1 else "s"), [n], [a, b, c])
        assert out.tobytes() == expected.tobytes(), n


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (3, 9), (9, 8), (2, 70)])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_broadcast_row_column_and_scalar(shape: tuple[int, int], order: tuple[int, int]) -> None:
    ops = (*LOAD[:3], do("multiply", 0, 1), do("add", 3, 2),
           Op("scalar", "float64", (), 0), do("subtract", 4, 5), put(6, 3))
    body = build(*ops, views=["R01", "Rs0", "R00", "Ws1"], scalars=("float64",), order=order)
    draw = np.random.default_rng(1)
    row, column, one = draw.random((1, shape[1])), draw.random((shape[0], 1)), draw.random((1, 1))
    out = np.zeros(shape)
    run(body, shape, [row, column, one, out], scalars=[0.3])
    assert np.array_equal(out, row * column + one - 0.3)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("tile", [1, 3, 8, 13])
def test_points_share_the_work_exactly(axis: int, tile: int) -> None:
    body = build(LOAD[0], LOAD[1], do("add", 0, 0), put(2, 1),
                 views=["Rs1", "Ws1"], axis=axis)
    x, shape = np.random.default_rng(2).random((10, 21)), (10, 21)
    for points in range(1, -(-shape[axis] // tile) + 1):
        out, expected = np.zeros(shape), np.zeros(shape)
        run(body, shape, [x, out], points, tile)
        done = (slice(None),) * axis + (slice(0, points * tile),)
        expected[done] = 2 * x[done]
        assert np.array_equal(out, expected)


def test_spaces_without_a_split_run_once() -> None:
    for body in (build(LOAD[0], do("add", 0, 0), put(1, 0), views=["W1"], axis=-1),
                 build(LOAD[0], do("add", 0, 0), put(1, 0), views=["W"])):
        x = np.ones([1] * body.spaces[0].rank)
        run(body, x.shape, [x], points=4)
        assert x.sum() == 2


def test_loads_and_stores_keep_their_order() -> None:
    """b[i] = a[i] + 1; a[i] = b[i] * 2; b[i] = a[i]: through memory, one argument after the other."""
    one = Op("const", "float64", (), 1.0)
    ops = (LOAD[0], one, do("add", 0, 1), put(2, 1), LOAD[1],
           do("add", 4, 4), put(5, 0), LOAD[0], put(7, 1))
    for letter in "1s":
        a, b = np.arange(11.0), np.zeros(11)
        run(build(*ops, views=[f"W{letter}", f"W{letter}"]), [11], [a, b])
        assert np.array_equal(a, np.arange(11) * 2 + 2) and np.array_equal(a, b)


def test_what_does_not_change_is_written_outside_the_innermost_loop() -> None:
    ops = (LOAD[0], LOAD[1], Op("scalar", "float64", (), 0), do("exp", 2), do("add", 1, 3),
           do("add", 0, 4), Op("index", "int64", (), 0), put(5, 2), LOAD[2])
    body = build(*ops, views=["Rs1", "Rs0", "Ws1"], scalars=("float64",))
    head, row, inner = iteration.HEAD, iteration.ROW, iteration.INNER
    found = iteration.places(body, body.loops[0], (1,))
    assert found == [inner, row, head, head, row, inner, row, inner, inner]


# random bodies


@settings(max_examples=rounds(30, 60), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_a_kernel_means_what_its_body_means(seed: int) -> None:
    case = Case(seed)
    before = case.save()
    with np.errstate(all="ignore"):
        case.evaluate()
    expected = case.save()
    for points in {1, case.points}:
        case.restore(before)
        partials = case.partials()
        machine_code.run(native(case.body), case.body, case.values(points, partials), points)
        assert not differences(case.memory, expected), f"{points} points\n{case.body}"
        for buffer, reduction in zip(partials, abi.reductions(case.body), strict=True):
            assert (buffer[abi.partial_bytes(case.body, reduction, case.extents):] == 0xAB).all()


# reductions and scans


@for_each("operator", ["sum", "prod", "min", "max", "nanmin", "nanmax", "argmin", "argmax"])
@for_each("classes", ["00", "s0", "01"])
def test_a_reduction_has_the_bits_of_the_tree_for_any_number_of_points(operator: str, classes: str) -> None:
    result = "int64" if operator.startswith("arg") else "float64"
    ops = LOAD[0], Op("reduce", "float64", (0,), (operator, 1))
    body = build(*ops, views=["Rs1", f"W{classes}"])
    body = Body(body.spaces, (body.arguments[0], body.arguments[1]._replace(dtype=result)), (), body.loops)
    draw = np.random.default_rng(3)
    for shape in [(160, 3), (65, 40), (1, 5000), (150, 1), (150, 21)]:
        x = draw.standard_normal(shape)
        x[draw.random(shape) < 0.3] = np.round(draw.standard_normal())  # ties
        if shape == (65, 40):
            x[[7, 40], [3, 39]] = np.nan
        reduced = [d for d in (0, 1) if classes[d] == "0"]
        expected = definition(operator, x, reduced)
        for tile in (160, 96, 64, 32):
            points = -(-shape[0] // tile)
            out = np.zeros([1 if c == "0" else n for c, n in zip(classes, shape, strict=True)], result)
            run(body, shape, [x, out], points, tile)
            assert out.ravel().tobytes() == np.asarray(expected, result).ravel().tobytes(), (shape, points)


def test_points_along_the_segments_of_a_row() -> None:
    body = build(LOAD[0], Op("reduce", "float64", (0,), ("sum", 1)), views=["R1", "W0"])
    x = np.random.default_rng(4).standard_normal(5000)
    found = set()
    for points, tile in [(1, 5000), (2, 3072), (3, 2048), (5, 1024)]:
        out = np.zeros(1)
        run(body, [5000], [x, out], points, tile)
        found.add(out.tobytes())
    assert len(found) == 1
    assert abs(out[0] - math.fsum(x)) <= 4 * np.spacing(np.abs(x).sum())


def test_a_later_loop_sees_the_result() -> None:
    """y = x / sum(x), in one body."""
    total = Loop(0, (0,), (LOAD[0], Op("reduce", "float64", (0,), ("sum", 1))))
    share = Loop(0, (0,), (LOAD[0], LOAD[1], do("divide", 0, 1), put(2, 2)))
    one = build(views=["R1", "W0", "W1"])
    body = Body(one.spaces, one.arguments, (), (total, share))
    x, s, y = np.arange(1.0, 100.0), np.zeros(1), np.zeros(99)
    run(body, [99], [x, s, y])
    assert s[0] == 4950 and np.array_equal(y, x / 4950)


@pytest.mark.parametrize("operator, function", [("sum", np.cumsum), ("prod", np.cumprod)])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans_run_as_numpys_do(operator: str, function: Callable[..., Any], axis: int) -> None:
    ops = LOAD[0], Op("scan", "float64", (0,), (operator, axis)), put(1, 1)
    body = build(*ops, views=["Rs1", "Ws1"], axis=1 - axis, order=(1 - axis, axis))
    x, out = np.random.default_rng(5).standard_normal((17, 30)), np.zeros((17, 30))
    x[3, 4], x[5, 6], x[0, 0] = np.inf, np.nan, -0.0
    with np.errstate(all="ignore"):
        expected = function(x, axis)
    run(body, x.shape, [x, out], 3, 10)
    assert out.tobytes() == expected.tobytes()


def test_a_reduction_beside_a_scan_has_the_same_bits() -> None:
    x = np.random.default_rng(6).standard_normal(3000)
    beside, total, out = np.zeros(1), np.zeros(1), np.zeros(3000)
    reduce = Op("reduce", "float64", (0,), ("sum", 1))
    run(build(LOAD[0], reduce, views=["R1", "W0"]), [3000], [x, total])
    both = LOAD[0], reduce, Op("scan", "float64", (0,), ("sum", 0)), put(2, 2)
    run(build(*both, views=["R1", "W0", "W1"], axis=-1), [3000], [x, beside, out])
    assert beside[0] == total[0] and np.array_equal(out, np.cumsum(x))


@for_each("count", [2, 3, 4])
@for_each("dtype", ["float64", "uint8", "bool", "float16", "complex64"])
def test_components_are_picked_from_whole_vectors(dtype: str, count: int) -> None:
    """Of which none reaches beyond the last element: behind it, the page is not there."""
    body = build(Op("load", dtype, (), 0), put(0, 1, dtype), views=[f"R{count}", f"W{count}"], dtype=dtype)
    size, page = np.dtype(dtype).itemsize, mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = np.frombuffer(memory, "uint8").ctypes.data
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0)
    for n in (1, 7, 8, 9, 40):
        room = np.frombuffer(memory, "uint8")[page - ((n - 1) * count + 1) * size:page]
        room[:] = np.random.default_rng(n).integers(0, 2 if dtype == "bool" else 60, room.size)
        x, out = room.view(dtype)[::count], np.zeros(n * count, dtype)[::count]
        run(body, [n], [x, out])
        assert out.tobytes() == x.tobytes()


def test_lines_are_fetched_ahead_by_loops_of_several_operations_and_long_rows() -> None:
    """Also behind the end of an array, where the page is not there."""
    fetches = {name: nest.emit(BODIES[name], MACHINE).count("call void @llvm.prefetch") for name in BODIES}
    assert (fetches["exp"], fetches["stencil"], fetches["strided"], fetches["rows"]) == (2, 4, 0, 0)
    assert nest.emit(plus("float64", "1"), MACHINE).count("prefetch") == 0
    squares = build(LOAD[0], Op("multiply", "float64", (0, 0)), Op("reduce", "float64", (1,), ("sum", 1)),
                    views=["R1", "W0"])
    assert nest.emit(squares, MACHINE).count("call void @llvm.prefetch") == 5  # four unrolled steps, and one
    size = 4 * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    start = np.frombuffer(memory, "uint8").ctypes.data
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(mmap.PAGESIZE), 0)
    for n in (100, size // 8):
        x, out = np.frombuffer(memory, float)[size // 8 - n:size // 8], np.ones(n)
        run(BODIES["exp"], [n], [out, x])
        assert np.allclose(x, math.e)
        run(BODIES["exp"], [n], [x, out])
        assert np.allclose(out, np.exp(math.e))
        total = np.zeros(n)
        run(squares, [n], [out, total])
        assert np.isclose(total[0], (out * out).sum())


@pytest.mark.parametrize("points", [1, 3])
def test_reductions_that_differ_only_in_their_arrays_share_what_completes_them(points: int) -> None:
    """Sums of two arrays along rows, into results that lie apart in different ways, and a maximum."""
    body = build(LOAD[0], LOAD[1], Op("reduce", "float64", (0,), ("sum", 2)),
                 Op("reduce", "float64", (1,), ("sum", 3)), Op("reduce", "float64", (1,), ("max", 4)),
                 views=["Rs1", "Rs1", "Ws0", "Ws0", "Ws0"])
    rng = np.random.default_rng(points)
    x, y = rng.random((7, 1300)), rng.random((7, 2600))[:, ::2].copy()
    room = np.zeros((3, 21, 1))
    results = room[0, :7], room[1, ::2][:7], room[2, ::3]
    run(body, x.shape, [x, y, *results], points, -(-7 // points))
    for operator, source, found in zip(("sum", "sum", "max"), (x, y, y), results, strict=True):
        assert found[:, 0].tobytes() == definition(operator, source, [1]).tobytes(), operator
    assert nest.emit(body, MACHINE).count("define internal void @combine") == 2


# the text itself

BODIES = {
    "stencil": build(LOAD[0], LOAD[1], LOAD[2], do("add", 0, 1), do("add", 3, 2),
                     Op("scalar", "float64", (), 0), do("multiply", 4, 5), put(6, 3),
                     views=["Rs1", "Rs1", "Rs1", "Ws1"], scalars=("float64",)),
    "strided": build(LOAD[0], LOAD[1], do("add", 0, 1), put(2, 2),
                     views=["Rs", "R1", "Ws"]),
    "apart": build(LOAD[0], LOAD[1], do("add", 0, 1), put(2, 2), views=["Rs", "R0", "Ws"]),
    "components": build(LOAD[0], LOAD[1], do("add", 0, 1), put(2, 2), views=["R2", "R3", "W1"]),
    "exp": build(LOAD[0], do("exp", 0), put(1, 1), views=["R1", "W1"]),
    "rows": build(LOAD[0], Op("reduce", "float64", (0,), ("sum", 1)), views=["Rs1", "Ws0"]),
    "columns": build(LOAD[0], Op("reduce", "float64", (0,), ("max", 1)), views=["Rs1", "W01"]),
    "scan": build(LOAD[0], Op("scan", "float64", (0,), ("sum", 0)), put(1, 1),
                  views=["R1", "W1"], axis=-1),
    "grid": Body((Space(2, (0, -1, 1)),), (Argument(0, 0, "float64", 0, "s1", R),
                                           Argument(1, 0, "float64", 0, "s1", W)), (),
                 (Loop(0, (0, 1), (LOAD[0], do("negative", 0), put(1, 1))),)),
    "epilogue": Body((Space(1, (0,)), Space(0, (-1,))), (
        Argument(0, 0, "float64", 0, "1", R), Argument(1, 0, "float64", 0, "0", Privilege.READ_WRITE),
        Argument(1, 0, "float64", 1, "", Privilege.READ_WRITE), Argument(2, 0, "float64", 1, "", W)), (), (
        Loop(0, (0,), (LOAD[0], Op("reduce", "float64", (0,), ("sum", 1)))),
        Loop(1, (), (LOAD[2], do("sqrt", 0), put(1, 3)))), 1),
    "spmv": Body((Space(1, (0,)),), tuple(
        Argument(k, 0, dtype, 0, letter, R if k < 5 else W)
        for k, (dtype, letter) in enumerate([("int32", "1"), ("int32", "1"), ("float64", "0"), ("int32", "0"),
                                             ("float64", "0"), ("float64", "1")])), (), (
        Loop(0, (0,), (Op("load", "int32", (), 0), Op("cast", "int64", (0,)), Op("load", "int32", (), 1),
                       Op("cast", "int64", (2,)), Op("spmv", "float64", (1, 3), (2, 3, 4)), put(4, 5))),)),
    "turn": build(Op("scalar", "int64", (), 0), Op("turn", "float64", (0,), (0, (0,))),
                  Op("turn", "float64", (0,), (1, (1,))), do("add", 1, 2), put(3, 2),
                  views=["Rs1", "Rs1", "Ws1"], scalars=("int64",)),
}


@pytest.mark.parametrize("name", list(BODIES))
def test_text(name: str, golden: Callable[[str], None]) -> None:
    golden(f"{BODIES[name]}\n\n{nest.emit(BODIES[name], MACHINE)}")


def compared(letter: str = "1", dtype: str = "uint8") -> Body:
    ops = (Op("load", dtype, (), 0), Op("load", dtype, (), 1), Op("add", dtype, (0, 1)),
           Op("maximum", dtype, (2, 1)), put(3, 2, dtype))
    return build(*ops, views=[f"R{letter}", f"R{letter}", f"W{letter}"], dtype=dtype)


def test_loops_over_bytes_take_wide_steps_where_bytes_are_masked() -> None:
    masks = replace(MACHINE, features="+avx512f,+avx512bw")
    assert "<64 x i8>" in nest.emit(compared(), masks) and "<64 x i8>" in nest.emit(compared("s1"), masks)
    for body, machine in ((compared(), MACHINE), (compared("s"), masks), (compared(dtype="int16"), masks)):
        assert "<64 x" not in nest.emit(body, machine)


@for_each("dtype", ["uint8", "int8", "bool"])
@for_each("count", [1, 7, 63, 64, 65, 127, 130, 1000])
@for_each("letter", ["1", "s1"])
def test_loops_over_bytes_write_their_elements_and_no_others(dtype: str, count: int, letter: str) -> None:
    pick = np.random.default_rng(count)
    shape = (count,) if letter == "1" else (3, count)
    most = 2 if dtype == "bool" else 120
    one, other, out = pick.integers(0, most, (3, *shape[:-1], count + 70)).astype(dtype)
    expected = out.copy()
    parts = [x[..., 3:count + 3] for x in (one, other, out)]
    expected[..., 3:count + 3] = np.maximum(parts[0] + parts[1], parts[1])
    run(compared(letter, dtype), shape, parts, points=2, tile=-(-shape[0] // 2))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind, views, vectors", [
    ("add", ("Rs", "Rs", "Ws"), False), ("add", ("Rs", "Rs", "W1"), True), ("add", ("R1", "R1", "W1"), True),
    ("arctan2", ("Rs", "Rs", "Ws"), True)])
def test_elements_that_lie_apart_are_taken_one_by_one(kind: str, views: tuple[str, ...], vectors: bool
                                                      ) -> None:
    """Unless there is much to compute, or half of the accesses go to neighbours."""
    body = build(LOAD[0], LOAD[1], do(kind, 0, 1), Op("store", "float64", (2,), 2), views=views)
    assert ("x double>" in nest.emit(body, MACHINE)) is vectors
    memory = np.random.default_rng(1).random((3, 2, 37))
    x, y, out = memory[0, 0, :], memory[1, 1, :], memory[2, 0, :]
    if "s" in views[0]:
        x, y = memory[0].T.reshape(-1)[::2], memory[1].T.reshape(-1)[1::2]
    if "s" in views[2]:
        out = np.zeros(74)[::2]
    run(body, [37], [x, y, out])
    np.testing.assert_allclose(out, getattr(np, kind)(x, y), rtol=1e-15 if kind == "add" else 1e-14)
