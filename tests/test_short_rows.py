"""Programs on arrays of a short last dimension: (n, 3) particles, (x, y, 9) populations."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.llvm import nest
from diffuse.kernels.targets.host import host
from diffuse.observe import trace
from diffuse.stream import engine
from tests.outcomes import silent
from tests.test_fuzz_stream import stream

pytestmark = pytest.mark.usefixtures("recorded_in_points")

DTYPES = ["float64", "float32", "float16", "int32", "int8", "bool", "complex64", "complex128"]


def operand(random: numpy.random.Generator, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """An array that broadcasts to the shape, of any layout, under NumPy and under Diffuse."""
    mine = [n if random.random() < 0.7 else 1 for n in shape][random.integers(0, 2):]
    steps = [int(random.choice([1, 1, 1, 2, -1])) for _ in mine]
    dtype = str(random.choice(DTYPES))
    whole = (random.random([n * abs(s) for n, s in zip(mine, steps, strict=True)]) * 50).astype(dtype)
    cut = tuple([slice(None, None, s) for s in steps])
    layout = random.choice(["plain", "steps", "fortran", "longer"])
    if layout == "steps":
        return whole[cut], np.array(whole)[cut]
    short = numpy.ascontiguousarray(whole[cut])
    if layout == "fortran":
        return numpy.asfortranarray(short), np.array(short, order="F")
    if layout == "longer" and mine:
        longer = numpy.concatenate([short, short], axis=-1)
        return longer[..., :mine[-1]], np.array(longer)[..., :mine[-1]]
    return short, np.array(short)


@pytest.mark.parametrize("seed", range(24))
def test_random_operands_of_random_shapes(seed: int) -> None:
    random = numpy.random.default_rng(seed)
    rows = random.integers(8, 60, random.integers(1, 3)).tolist()
    shape = (*rows, int(random.choice([2, 3, 5, 8, 9, 26, 32])))
    theirs, ours = (list(x) for x in zip(*[operand(random, shape) for _ in range(6)], strict=True))
    whole = random.random(shape)
    theirs.append(whole)
    ours.append(np.array(whole))
    with numpy.errstate(all="ignore"), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(10):
            i, j = random.integers(0, len(ours), 2)
            form = random.integers(0, 5)
            for values, library in ((theirs, numpy), (ours, np)):
                x, y = values[i], values[j]
                if form == 0:
                    found = x * y
                elif form == 1:
                    found = x + y if x.dtype != bool or y.dtype != bool else x | y
                elif form == 2:
                    found = library.where(x > 20, y, x)
                elif form == 3:
                    found = (x * 3) + x
                else:
                    values[6][..., :2] = x.real[..., :1] if x.ndim else 3.0
                    values[6][1:] += y.real if y.ndim < len(shape) or y.shape[0] == 1 else 1
                    continue
                values.append(found)
        for x, y in zip(theirs, ours, strict=True):
            got = numpy.asarray(y)
            assert got.dtype == x.dtype and got.shape == x.shape
            assert got.tobytes() == x.tobytes() or numpy.array_equal(got, x, equal_nan=True)


def loops() -> list[int]:
    """Of every kernel that was made so far: the vectors that a row takes, where rows are short."""
    return [space.flat for body, _ in compiler.kernels for space in body.spaces if space.rank > 1]


@pytest.mark.not_legate("where Legate places stores, rows may lie apart")
def test_particles_run_over_all_their_coordinates_at_once() -> None:
    compiler.forget()
    plain = numpy.random.default_rng(1).random((5000, 3))
    x, v, m = np.array(plain), np.array(plain[::-1]), np.array(plain[:, :1])
    x += v * 0.5 / m - np.array(plain[0])
    assert numpy.array_equal(numpy.asarray(x), plain + (plain[::-1] * 0.5 / plain[:, :1] - plain[0]))
    assert loops() == [1]


@pytest.mark.not_legate("where Legate places stores, rows may lie apart")
@pytest.mark.parametrize(("shape", "carried"), [((5000, 3), 0), ((3,), 1), ((5000, 1), 2)])
def test_rows_and_columns_are_counted_in_registers_where_an_access_depends_on_them(
        shape: tuple[int, ...], carried: int) -> None:
    compiler.forget()
    x, y = np.array(numpy.ones((5000, 3))), np.array(numpy.ones(shape))
    x *= y
    engine.fence()
    (body, _), = compiler.kernels
    text = nest.emit(body, host())
    assert ("store i64" in text) is (shape[-1] == 1)  # the table of distances
    assert text.count(" phi ") == text.count("\nhead") + carried


@pytest.mark.not_legate("where Legate places stores, rows may lie apart")
def test_long_rows_and_few_rows_run_by_rows() -> None:
    compiler.forget()
    for shape in ((50, 100), (3, 40), (4000, 1), (300, 16), (300, 31)):
        y = np.ones(shape) * np.array(numpy.arange(float(shape[1])))
        engine.fence()
        del y
    assert not any(loops())


@pytest.mark.not_legate("its launches have as many points as there are processors")
def test_a_point_behind_the_last_row_writes_nothing() -> None:
    """Seven points of five rows for 29: the last one begins behind them, and may touch no element."""
    a, row = numpy.arange(87.0).reshape(29, 3), numpy.array([1.0, 10.0, 100.0])
    with stream(points=7, min_chunk=8, compile="wait"):
        found = numpy.asarray(np.array(a) * np.array(row) + 1)
    assert (found == a * row + 1).all()


def test_lanes_beyond_the_last_element_raise_no_flag() -> None:
    """A step at the end of a loop computes with other lanes than there are elements."""
    for shape in ((129, 3), (65, 5), (9, 7, 3)):
        plain = numpy.full(shape, 1e200)
        row = numpy.array([1e-3] + [1e-2] * (shape[-1] - 1))
        column = numpy.full((*shape[:-1], 1), 1e100)
        with silent():
            found = np.array(plain) * np.array(row) * np.array(column) / np.array(plain[..., ::-1])
            engine.fence()
        assert numpy.array_equal(numpy.asarray(found), plain * row * column / plain[..., ::-1])


@pytest.mark.not_legate("where Legate places stores, rows may lie apart")
def test_loops_do_not_run_along_last_dimensions_of_one_index() -> None:
    for shape in ((70, 13, 1), (3, 70, 11, 1, 1)):
        compiler.forget()
        plain = numpy.random.default_rng(3).random(shape)
        x = np.array(plain)
        y = (x * 2 + 1) / x[..., ::-1]
        y[:, 1:] -= x[:, :-1]
        expected = (plain * 2 + 1) / plain
        expected[:, 1:] -= plain[:, :-1]
        assert numpy.array_equal(numpy.asarray(y), expected)
        letters = {argument.classes[-1] for body, _ in compiler.kernels for argument in body.arguments}
        assert letters == {"1"}


def test_few_rows_of_one_index_fuse_with_longer_ones() -> None:
    """The first operation is over (n, 1), which is cut as (n, 8) is."""
    for shape in ((20_000, 8), (2, 20_000, 3), (70, 81, 5)):
        plain = numpy.random.default_rng(4).random(shape)
        x = np.array(plain)
        engine.fence()
        before = trace.snapshot().get("launched", 0)
        y = x - (x[..., :1] * 2 + 1)
        engine.fence()
        assert trace.snapshot()["launched"] == before + 1
        assert numpy.array_equal(numpy.asarray(y), plain - (plain[..., :1] * 2 + 1))
