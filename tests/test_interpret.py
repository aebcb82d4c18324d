"""The interpreter against the meaning of bodies on whole arrays, and its parts one by one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import routines, small_folds
from diffuse.kernels.meaning import functions, interpret, reduce
from diffuse.numpy.ops import compiled
from diffuse.numpy.ops.ufuncs import UFUNCS
from diffuse.settings import config
from tests.bodies import Case, differences, folds
from tests.each import for_each, rounds

SEEDS = st.integers(0, 1 << 30)


def run(case: Case, points: int) -> None:
    partials = case.partials()
    values = case.values(points, partials)
    for p in range(points):
        interpret.point(case.body, values, p)
    interpret.finish(case.body, values)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_of_two_zeros_the_second_is_taken_however_many_there_are(name: str) -> None:
    for count in (1, 3, 7, 8, 9, 31):
        for sign in (0.0, -0.0):
            out, zeros = np.empty(count), np.full(count, sign)
            functions.function(name)(-zeros, zeros, out=out)
            assert out.tobytes() == zeros.tobytes()


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
@pytest.mark.parametrize("step", [1, -1, 2])
def test_predicates_write_to_elements_that_lie_apart(name: str, step: int) -> None:
    values = np.linspace(-1.0, 1.0, 64)
    values[3], values[7] = np.nan, np.inf
    out = np.zeros(128, bool)[::step][:64]
    functions.function(name)(values, out=out)
    assert out.tolist() == [getattr(np, name)(value) for value in values]


@for_each("dtype", ["f8", "f4", "i8", "i4"])
@for_each("step", [1, 2, 4, 8, 16])
def test_elements_that_lie_apart_are_negated_in_place(dtype: str, step: int) -> None:
    for count in (1, 3, 6, 40):
        x = np.arange(count * step).astype(dtype)
        functions.function("negative")(x[::step], out=x[::step])
        assert (x[::step] == -np.arange(0, count * step, step)).all()


@settings(max_examples=rounds(200, 400), deadline=None, derandomize=True)
@given(SEEDS)
def test_a_body_means_its_ops_on_whole_arrays(seed: int) -> None:
    case = Case(seed)
    before = case.save()
    case.evaluate()
    expected = case.save()
    for points in {1, case.points}:
        case.restore(before)
        run(case, points)
        assert not differences(case.memory, expected), f"{points} points\n{case.body}"


@settings(max_examples=rounds(75, 150), deadline=None, derandomize=True)
@given(st.data())
def test_the_fast_tree_is_the_definition(data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 3))
    last = st.sampled_from([1, 3, 31, 32, 33, 100, 1024, 2100 if rank < 2 else 6])
    shape = [data.draw(st.sampled_from([1, 2, 5, 33])) for _ in range(max(0, rank - 1))]
    shape += [data.draw(last)] if rank else []
    if np.prod(shape) > 8000:
        shape[0] = 2
    reduced = [d for d in range(rank) if data.draw(st.booleans())]
    dtype = data.draw(st.sampled_from(["float32", "float64", "complex128", "int64", "uint8", "bool"]))
    indexed = [] if dtype[0] in "bc" else ["argmin", "argmax"]
    operator = data.draw(st.sampled_from([*folds(dtype), *indexed]))
    array = Case(data.draw(SEEDS)).fill(dtype, shape, False)
    with np.errstate(all="ignore"):
        expected = reduce.definition(operator, array, reduced)
        box = [(0, n) for n in array.shape]
        fold = reduce.PointFold(operator, dtype, reduced, array.shape, box)
        fold.add(array, box)
        assert not differences([np.asarray(fold.result())], [expected])
        if dtype != "uint8":
            assert not differences([small_folds.interpreted(operator, array, reduced, dtype)], [expected])


@pytest.mark.parametrize("operator", ["argmin", "argmax", "min", "max"])
@pytest.mark.parametrize("dtype", ["float64", "int16"])
def test_extremes_are_numpys(operator: str, dtype: str) -> None:
    array = Case(7).fill(dtype, (40, 70), False)
    for axis in (0, 1):
        np.testing.assert_array_equal(small_folds.interpreted(operator, array, (axis,), dtype),
                                      getattr(np, operator)(array, axis=axis))


def test_a_sum_of_negative_zeros_is_zero_as_numpys() -> None:
    for shape in [(1,), (33,), (2000,)]:
        assert not np.signbit(small_folds.interpreted("sum", np.full(shape, -0.0), (0,), "float64"))


def body(ops: tuple[Op, ...], *arguments: tuple[str, Privilege, int]) -> Body:
    """One loop over one space of rank 1; `arguments` are (element type, privilege, slot)."""
    return Body((Space(1, (0,)),), tuple(Argument(slot, 0, dtype, 0, "1", privilege)
                                      for dtype, privilege, slot in arguments), (), (Loop(0, (0,), ops),))


def launch(*arrays: np.ndarray[Any, Any]) -> list[int | float]:
    n = arrays[0].size
    return [1, n, n, *(w for a in arrays for w in (a.ctypes.data, a.itemsize))]


def test_a_value_read_before_its_memory_is_overwritten_stays() -> None:
    """x is loaded; 2 x is stored over it; x + 2 x must see the old x."""
    ops = (Op("load", "float64", (), 0), Op("add", "float64", (0, 0)), Op("store", "float64", (1,), 1),
           Op("add", "float64", (0, 1)), Op("store", "float64", (3,), 2))
    source = body(ops, ("float64", Privilege.READ, 0), ("float64", Privilege.WRITE, 0),
                  ("float64", Privilege.WRITE, 1))
    x, out = np.arange(50_000.0), np.empty(50_000)
    interpret.point(source, launch(x, x, out), 0)
    np.testing.assert_array_equal(x, 2 * np.arange(50_000.0))
    np.testing.assert_array_equal(out, 3 * np.arange(50_000.0))


def test_any_nonzero_byte_is_true() -> None:
    ops = (Op("load", "bool", (), 0), Op("cast", "int64", (0,)), Op("store", "int64", (1,), 1))
    source = body(ops, ("bool", Privilege.READ, 0), ("int64", Privilege.WRITE, 1))
    flags, out = np.array([0, 1, 2, 255], "uint8"), np.empty(4, "int64")
    interpret.point(source, launch(flags, out), 0)
    assert out.tolist() == [0, 1, 1, 1]


def test_floating_point_errors_are_collected_by_kind_and_op() -> None:
    ops = (Op("load", "float64", (), 0), Op("const", "float64", (), 0.0), Op("divide", "float64", (0, 1)),
           Op("multiply", "float64", (0, 0)), Op("exp", "float64", (0,)), Op("sqrt", "float64", (0,)),
           *(Op("store", "float64", (k,), k - 1) for k in (2, 3, 4, 5)))
    source = body(ops, ("float64", Privilege.READ, 0),
                  *(("float64", Privilege.WRITE, k) for k in range(1, 5)))
    seen = set()
    arrays = [np.array([1.0, 1e200, -1.0]), *(np.empty(3) for _ in range(4))]
    interpret.point(source, launch(*arrays), 0, lambda kind, op: seen.add((kind, op)))
    assert {("divide by zero", "divide"), ("overflow", "multiply"), ("overflow", "exp"),
            ("invalid value", "sqrt")} <= seen
    assert ("invalid value", "exp") not in seen and ("overflow", "sqrt") not in seen


def test_a_load_of_a_reduction_sees_its_result() -> None:
    """Mean of squares in one body: the second loop reads what the first one reduced."""
    n = 5000
    first = (Op("load", "float64", (), 0), Op("reduce", "float64", (0,), ("sum", 1)))
    second = (Op("load", "float64", (), 0), Op("load", "float64", (), 2), Op("divide", "float64", (0, 1)),
              Op("store", "float64", (2,), 3))
    arguments = tuple(Argument(slot, 0, "float64", 0, c, p) for slot, c, p in (
        (0, "1", Privilege.READ), (1, "0", Privilege.WRITE),
        (1, "0", Privilege.READ), (2, "1", Privilege.WRITE)))
    source = Body((Space(1, (0,)),), arguments, (), (Loop(0, (0,), first), Loop(0, (0,), second)))
    x, total, out = np.random.default_rng(0).random(n), np.zeros(()), np.empty(n)
    partials = np.zeros(16)
    words = [w for a, s in ((x, 8), (total, 0), (total, 0), (out, 8), (partials, None))
             for w in (a.ctypes.data, s) if w is not None]
    interpret.point(source, [1, n, n, *words], 0)
    np.testing.assert_array_equal(out, x / total)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-14)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "arctan"])
def test_a_routine_is_close_to_numpy_wherever_the_element_stands(name: str) -> None:
    x = np.random.default_rng(1).uniform(0.01, 20, 300)
    function = compiled.host_function(UFUNCS[name])
    whole = function(x)
    expected = getattr(np, name)(x)
    assert np.max(np.abs(whole - expected) / np.spacing(np.abs(expected))) <= 4
    for start, step in [(1, 1), (7, 3), (0, -1)]:
        part = x[start::step]
        np.testing.assert_array_equal(function(part), whole[start::step])


def test_operations_at_once_resolve_types_and_shapes_as_numpy_does() -> None:
    a, b = np.arange(1, 5, dtype="int32"), np.arange(1.0, 4.0)[:, None]
    for name in ("add", "divide", "arctan2", "power", "less", "floor_divide"):
        expected = getattr(np, name)(a, b)
        found = compiled.host_function(UFUNCS[name])(a, b)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    out = np.zeros((4, 2), order="F")[:, 0]
    assert compiled.host_function(UFUNCS["exp"])(a, out=out) is out
    np.testing.assert_allclose(out, np.exp(a), rtol=1e-14)


def test_ready_tells_whether_a_routine_has_to_be_compiled_first(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(routines, "_built", {})
    for name, dtype, at_first in (("sqrt", "float64", True), ("log2", "float64", False),
                                  ("reciprocal", "complex128", True), ("exp", "complex128", False)):
        ops = (Op("load", dtype, (), 0), Op(name, dtype, (0,)), Op("store", dtype, (1,), 1))
        source = body(ops, (dtype, Privilege.READ, 0), (dtype, Privilege.WRITE, 1))
        assert interpret.ready(source) is at_first
        interpret.point(source, launch(np.ones(3, dtype), np.ones(3, dtype)), 0)
        assert interpret.ready(source)


def test_floats_beyond_uint32_become_one_number_wherever_they_stand() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -1.0, 3e9, 2.0**33 + 5, 2.0**40 + 3, -5e9, 2.0**31, 7.0])
    for dtype in ("f4", "f8", "c8", "c16"):
        x = np.resize(values.astype(dtype), 170)  # the first ones: NumPy computes the last ones otherwise
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            wanted = np.resize(x.astype("u4")[:10], 170)
            for step in (1, 2, -1):
                out, apart = np.zeros(170, "u4"), np.zeros(340, dtype)[::step][:170]
                apart[...] = x
                functions.cast(apart, out)
                assert out.tolist() == wanted.tolist(), (dtype, step)
