"""Sparse rows times dense operands: the task against SciPy, compiled and interpreted, alone and fused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse
import diffuse.numpy as np
from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import jit
from diffuse.observe import trace
from diffuse.scipy.sparse.products import PackedMatrix, spmv, totals
from diffuse.stream import engine
from tests import machine_code
from tests.each import for_each

Matrix = Any


@pytest.fixture(params=["wait", "off"])
def everything_recorded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tasks for the smallest arrays, over as many points as there are threads; compiled or interpreted."""
    config = diffuse.config
    before = config.small, config.min_chunk, config.compile, config.check
    config.small, config.min_chunk, config.compile, config.check = 0, 1, request.param, True
    yield
    config.small, config.min_chunk, config.compile, config.check = before


def matrix(rows: int, columns: int, dtype: str, index: str, seed: int, density: float = 0.06) -> Matrix:
    draw = numpy.random.default_rng(seed)
    found = scipy.sparse.random_array((rows, columns), density=density, rng=draw, format="csr")
    data = found.data * 10 - 5
    found.data = (data + 1j * data[::-1]).astype(dtype) if dtype.startswith("c") else data.astype(dtype)
    found.indices, found.indptr = found.indices.astype(index), found.indptr.astype(index)
    return found


def stores(a: Matrix) -> tuple[Any, Any, Any]:
    return np.array(a.indptr), np.array(a.indices), np.array(a.data)


def same_bits(ours: Any, expected: numpy.ndarray[Any, Any]) -> None:
    found = numpy.asarray(ours)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.usefixtures("everything_recorded")
@for_each("dtype", "float64 float32 complex128 complex64 int64 int32 int8 uint16 bool".split())
@for_each("index", ["int32", "int64"])
@for_each("columns", [None, 1, 3, 17])
def test_products_have_the_bits_of_scipy(dtype: str, index: str, columns: int | None) -> None:
    a = matrix(201, 103, dtype, index, seed=1)
    draw = numpy.random.default_rng(2)
    for kind in {dtype, "float64", "float32"}:
        x = (draw.standard_normal((103,) if columns is None else (103, columns)) * 3).astype(kind)
        same_bits(spmv(PackedMatrix(*stores(a)), np.array(x)), a @ x)


@pytest.mark.usefixtures("everything_recorded")
@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (7, 7), (33, 1000), (1025, 3)])
def test_shapes_and_row_lengths(shape: tuple[int, int]) -> None:
    for density in (0.0, 0.3, 1.0):  # no element, some rows empty, rows longer than the interpreter's steps
        a = matrix(*shape, "float64", "int32", seed=3, density=density)
        x = numpy.random.default_rng(4).standard_normal(shape[1])
        same_bits(spmv(PackedMatrix(*stores(a)), np.array(x)), a @ x)


@pytest.mark.usefixtures("everything_recorded")
def test_duplicates_and_any_order_within_a_row() -> None:
    data, columns = numpy.array([1e16, 1.0, -1e16, 3.0, -0.0]), numpy.array([2, 0, 2, 1, 1])
    a = scipy.sparse.csr_array((data, columns, numpy.array([0, 4, 5])), shape=(2, 3))
    x = numpy.array([1.0, 2.0, 3.0])
    same_bits(spmv(PackedMatrix(*stores(a)), np.array(x)), a @ x)


@pytest.mark.usefixtures("everything_recorded")
def test_parts_of_larger_arrays_as_operands() -> None:
    a = matrix(60, 40, "float64", "int32", seed=5)
    whole = numpy.random.default_rng(6).standard_normal((3, 80))
    lazy = np.array(whole)
    for part in (numpy.s_[1, 7:47], numpy.s_[2, ::2], numpy.s_[0, 39::-1]):
        same_bits(spmv(PackedMatrix(*stores(a)), lazy[part]), a @ whole[part])
    wide = numpy.random.default_rng(7).standard_normal((40, 9))
    for columns in (numpy.s_[:, 2:5], numpy.s_[::-1, ::3]):
        same_bits(spmv(PackedMatrix(*stores(a)), np.array(wide)[columns]), a @ wide[columns])
    same_bits(spmv(PackedMatrix(*stores(a)), np.array(wide.T).T), a @ wide)


@pytest.mark.usefixtures("everything_recorded")
def test_a_vector_that_is_still_being_made_is_waited_for() -> None:
    a = matrix(300, 300, "float64", "int32", seed=8)
    parts, x = stores(a), numpy.linspace(0.0, 1.0, 300)
    lazy, expected = np.array(x), x
    for _ in range(4):  # writes before the product, reads it in the product, overwrites it afterwards
        lazy = lazy * 0.5 + 1.0
        product = spmv(PackedMatrix(*parts), lazy)
        lazy += product * 0.01
        expected = expected * 0.5 + 1.0
        expected = expected + (a @ expected) * 0.01
    same_bits(lazy, expected)


@pytest.mark.usefixtures("everything_recorded")
@for_each("dtype", "float64 float32 complex128 complex64 int64 int32 int8 uint64 uint16 bool".split())
def test_sums_of_rows_have_the_bits_of_reduceat(dtype: str) -> None:
    """Rows without elements, up to 8, to 128 and beyond: each is added up in a way of its own, to zero."""
    draw = numpy.random.default_rng(10)
    chosen = [0, 65, 127, 128, 129, 130, 136, 137, 257, 1000, 3000, 0, 0, 9, 8, 1, 0]
    lengths = numpy.concatenate((draw.integers(0, 20, 300), chosen))
    positions = numpy.concatenate(([0], numpy.cumsum(lengths))).astype("int32")
    values = draw.standard_normal(positions[-1]) * 10.0 ** draw.integers(-3, 4, positions[-1])
    if dtype[0] in "iub":
        values = draw.integers(0, 2 if dtype == "bool" else 100, positions[-1])
    values = (values + 1j * values[::-1] if dtype[0] == "c" else values).astype(dtype)
    values[5:40] = -0.0
    some = numpy.flatnonzero(lengths)
    sums = numpy.add.reduceat(values, positions[some])
    expected = numpy.zeros(len(lengths), sums.dtype)
    expected[some] += sums
    same_bits(totals(np.array(positions), np.array(values)), expected)


def product(dtype: str, width: int | None) -> Body:
    """A sparse product whose dense operand, a vector or `width` columns, lies in two places."""
    letters = ("1", "1", "0", "0", "0", "1") if width is None else ("10", "10", "00", "00", "01", "s1")
    rank, names = len(letters[0]), ("int32", "int32", dtype, "int32", dtype, dtype)
    arguments = tuple([Argument(k, 0, name, 0, letter, Privilege.READ if k < 5 else Privilege.WRITE)
                       for k, (name, letter) in enumerate(zip(names, letters, strict=True))])
    ops = (Op("load", "int32", (), 0), Op("cast", "int64", (0,)), Op("load", "int32", (), 1),
           Op("cast", "int64", (2,)), Op("spmv", dtype, (1, 3), (2, 3, 4)), Op("store", dtype, (4,), 5))
    return Body((Space(rank, (0,)),), arguments, (), (Loop(0, tuple(range(rank)), ops),), split=(4,))


@for_each("first, number", [(0, 103), (20, 50), (0, 0), (90, 13)])
@for_each("dtype, width", [("float64", None), ("float32", None), ("complex128", None),
                           ("int8", None), ("float64", 3), ("complex64", 17)])
def test_rows_of_the_operand_lie_in_two_places(dtype: str, width: int | None, first: int, number: int
                                               ) -> None:
    """What lies elsewhere is marked with a number that would show in the result."""
    rows, extent = 201, 103
    a = matrix(rows, extent, dtype, "int32", seed=3)
    draw = numpy.random.default_rng(4)
    x = (draw.standard_normal((extent,) if width is None else (extent, width)) * 3).astype(dtype)
    here, there = x.copy(), x.copy()
    here[:first] = here[first + number:] = there[first:first + number] = 77
    foreign = [row for row in range(rows)
               if any(not first <= c < first + number for c in a.indices[a.indptr[row]:a.indptr[row + 1]])]
    body, gaps = product(dtype, width), [*zip([-1, *foreign], [*foreign, rows], strict=True)]
    longest = max(gaps, key=lambda gap: gap[1] - gap[0])
    for plain in ((0, 0), (longest[0] + 1, longest[1])):
        out = numpy.zeros((rows,) if width is None else (rows, width), dtype)
        arrays = a.indptr[:-1], a.indptr[1:], a.data, a.indices, here, out
        follow = [part.strides * (k in (0, 1, 5)) for k, part in enumerate(arrays)]
        if width is None:
            steps = [each or (0,) for each in follow]
        else:
            steps = [(4, 0), (4, 0), (0, 0), (0, 0), (0, x.strides[1]), follow[5]]
        words = [word for part, step in zip(arrays, steps, strict=True) for word in (part.ctypes.data, *step)]
        split = first, number, there.ctypes.data, *plain
        machine_code.run(jit.compile(body), body, [1, rows, *out.shape, *words, *split], 1)
        same_bits(out, a @ x)


@pytest.mark.usefixtures("everything_recorded")
def test_a_runtime_may_split_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(engine.current().runtime), "splits", True, raising=False)
    a = matrix(301, 103, "float64", "int32", seed=5)
    x = numpy.random.default_rng(6).standard_normal((103, 5))
    same_bits(spmv(PackedMatrix(*stores(a)), np.array(x[:, 0])), a @ x[:, 0])
    same_bits(spmv(PackedMatrix(*stores(a)), np.array(x)), a @ x)


def test_a_product_fuses_with_the_dot_behind_it() -> None:
    n = 1 << 16
    a = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    parts, p = stores(a), np.array(numpy.random.default_rng(9).standard_normal(n))
    engine.fence()
    before = trace.counters["launched"]
    q = spmv(PackedMatrix(*parts), p)
    curvature = p @ q
    r = q * 2.0 + p
    engine.fence()
    assert trace.counters["launched"] - before == 1
    exact = numpy.asarray(p) @ (a @ numpy.asarray(p))
    assert abs(float(curvature) - exact) <= 1e-12 * abs(exact)
    same_bits(r, (a @ numpy.asarray(p)) * 2.0 + numpy.asarray(p))
