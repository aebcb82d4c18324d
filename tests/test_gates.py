"""Small arrays at hand take NumPy's own functions: its bits, its views, its errors, and nothing recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.numpy.arrays import access
from diffuse.numpy.small import native
from diffuse.observe import trace
from tests.each import for_each
from tests.kinds import is_ours
from tests.outcomes import fails_alike, python_calls

ROOT = next(iter(diffuse.__path__))
pick = numpy.random.default_rng(5)
VALUES = pick.standard_normal(600) * 10.0 ** pick.integers(-8, 8, 600)

CALLS: list[Callable[[Any, Any], Any]] = [
    lambda m, x: x + x[::-1], lambda m, x: 2.0 - x, lambda m, x: x ** 3, lambda m, x: abs(x) ** 0.3,
    lambda m, x: m.exp(-abs(x)), lambda m, x: m.sin(x), lambda m, x: m.tanh(x), lambda m, x: m.hypot(x, 1.0),
    lambda m, x: x.sum(), lambda m, x: x.prod(), lambda m, x: x.mean(), lambda m, x: x.std(),
    lambda m, x: x.reshape(20, 30).sum(axis=0), lambda m, x: x.reshape(20, 30).var(axis=1, ddof=1),
    lambda m, x: m.sum(x.reshape(30, 20).T, axis=1), lambda m, x: m.add.reduce(x), lambda m, x: m.nansum(x),
    lambda m, x: x @ x, lambda m, x: m.dot(x, x), lambda m, x: m.linalg.norm(x), lambda m, x: m.vdot(x, x),
    lambda m, x: x.reshape(20, 30) @ x.reshape(30, 20), lambda m, x: x.cumsum(),
    lambda m, x: m.cumprod(x / 2),
    lambda m, x: m.where(x > 0, x, -x), lambda m, x: m.clip(x, -1, 1),
    lambda m, x: m.average(x, weights=x * x),
    lambda m, x: m.trapezoid(x), lambda m, x: m.gradient(x), lambda m, x: m.diff(x, 2), lambda m, x: m.var(x),
    lambda m, x: m.concatenate([x, x[:7]]), lambda m, x: m.stack([x, x], axis=1), lambda m, x: m.roll(x, 3),
    lambda m, x: m.outer(x[:9], x[9:20]), lambda m, x: x.astype("f4").sum(),
    lambda m, x: x.astype("f4") ** 1.7,
    lambda m, x: m.sort(x), lambda m, x: x.argsort(), lambda m, x: m.median(x),
    lambda m, x: m.interp(0.3, x, x),
    lambda m, x: m.linalg.solve(x[:9].reshape(3, 3), x[:3]), lambda m, x: m.fft.fft(x),
    lambda m, x: m.log1p(x * x),
    lambda m, x: (x + 1j * x[::-1]) * (2 - 1j), lambda m, x: m.exp(1j * x[:50]), lambda m, x: m.cbrt(x),
]
"""Calls whose last bits depend on who computes them, among others."""


def bits(value: Any) -> Any:
    """What a program can see of a result."""
    if isinstance(value, (list, tuple)):
        return [bits(each) for each in value]
    plain = numpy.asarray(value)
    return plain.dtype.str, plain.shape, plain.tobytes()


@for_each("k", range(len(CALLS)))
def test_small_arrays_have_numpys_bits_at_hand_and_pending(k: int) -> None:
    wanted = bits(CALLS[k](numpy, VALUES))
    assert bits(CALLS[k](np, np.array(VALUES))) == wanted
    large = np.array(numpy.resize(VALUES, 60_000)) * 1.0
    assert bits(CALLS[k](np, large[:600])) == wanted


@pytest.mark.parametrize("call", [
    lambda x: x + x, lambda x: np.exp(x), lambda x: x.sum(), lambda x: np.concatenate([x, x]),
    lambda x: x[2:],
    lambda x: x.reshape(20, 30).T, lambda x: np.where(x > 0, x, 0.0), lambda x: np.linalg.norm(x),
    lambda x: np.zeros(7), lambda x: np.arange(9), lambda x: np.array([1.0, 2.0])])
def test_nothing_is_recorded(call: Callable[[Any], Any]) -> None:
    x, before = np.array(VALUES), trace.counters["recorded"]
    call(x)
    assert trace.counters["recorded"] == before


VIEWS: list[Callable[[Any, Any], Any]] = [
    lambda m, x: x.reshape(20, 30), lambda m, x: m.reshape(x, (30, 20)).T, lambda m, x: x[3:],
    lambda m, x: x.ravel(),
    lambda m, x: m.squeeze(x[None]), lambda m, x: m.asarray(x), lambda m, x: m.real(x), lambda m, x: x.view(),
    lambda m, x: m.split(x, 2)[1], lambda m, x: m.broadcast_to(x, (2, 600)), lambda m, x: m.atleast_2d(x),
    lambda m, x: m.lib.stride_tricks.sliding_window_view(x, 3), lambda m, x: m.expand_dims(x, 0),
    lambda m, x: x.T]


@for_each("k", range(len(VIEWS)))
@for_each("attached", [False, True])
def test_views_are_views(k: int, attached: bool) -> None:
    x, plain = np.array(VALUES), VALUES.copy()
    if attached:
        access.storage_of(x)
    ours: Any
    ours, theirs = VIEWS[k](np, x), VIEWS[k](numpy, plain)
    assert is_ours(ours) and ours.flags.writeable == theirs.flags.writeable
    x[5:400] = 7.0
    plain[5:400] = 7.0
    assert bits(ours) == bits(theirs)
    assert np.shares_memory(ours, x)


def test_what_a_task_reads_is_what_it_was_when_it_was_recorded() -> None:
    large, row = np.ones((200, 300)), np.arange(300.0)
    total = large + row
    row += 1.0
    row[3:9] = -1.0
    np.negative(row, out=row)
    assert numpy.array_equal(numpy.asarray(total), numpy.ones((200, 300)) + numpy.arange(300.0))


def test_results_that_are_large_are_recorded() -> None:
    column, row = np.arange(500.0).reshape(-1, 1), np.arange(500.0)
    before = trace.counters["recorded"]
    distances = column - row
    assert np.where(column > row, column, row).shape == (500, 500)
    assert np.outer(row, row).shape == (500, 500)
    assert trace.counters["recorded"] >= before + 3
    assert numpy.array_equal(numpy.asarray(distances), numpy.arange(500.0)[:, None] - numpy.arange(500.0))


@pytest.mark.parametrize("call", [
    lambda m, x: m.outer(x, x), lambda m, x: m.multiply.outer(x, x), lambda m, x: m.meshgrid(x, x[::-1]),
    lambda m, x: m.kron(x, x), lambda m, x: m.kron(x.reshape(25, 28), x.reshape(28, 25)),
    lambda m, x: m.add(x[:, None], x, dtype=float), lambda m, x: m.tile(x, 900),
    lambda m, x: m.tile(x, (700, 2)), lambda m, x: m.tile(x.reshape(25, 28), (30, 40)),
    lambda m, x: m.repeat(x, 900), lambda m, x: m.repeat(x.reshape(25, 28), 900, axis=1),
    lambda m, x: x.repeat(900, axis=0), lambda m, x: m.indices((700, 900)),
    lambda m, x: m.indices((700, 900), dtype=float)])
def test_large_results_of_small_operands_are_recorded(call: Callable[[Any, Any], Any]) -> None:
    x = numpy.arange(700.0)
    before = trace.counters["recorded"]
    found = call(np, np.array(x))
    assert native is None or trace.counters["recorded"] > before    # some methods: with the extension only
    assert bits(found) == bits(call(numpy, x))


@pytest.mark.parametrize("call", [
    lambda m, x, out: x.sum(0, None, out), lambda m, x, out: m.sum(x, 0, None, out),
    lambda m, x, out: x.max(0, out),
    lambda m, x, out: m.mean(x, 0, out=out), lambda m, x, out: m.cumsum(x[0], 0, None, out),
    lambda m, x, out: m.dot(x[0], x.T, out[:20]), lambda m, x, out: x.clip(0, 1, x).sum(0, out=out),
    lambda m, x, out: m.take(x, 1, 0, out), lambda m, x, out: m.add(x[0], x[1], out)])
def test_outputs_are_written_and_returned(call: Any) -> None:
    table = VALUES.reshape(20, 30)
    arrays, plain = (np.array(table), np.zeros(30)), (table.copy(), numpy.zeros(30))
    large = arrays[1] + np.zeros((1000, 30))  # a task that reads the output's old elements
    ours, theirs = call(np, *arrays), call(numpy, *plain)
    assert bits(ours) == bits(theirs) and bits(list(arrays)) == bits(list(plain))
    assert not numpy.asarray(large).any()


@for_each("call", [
    lambda m, x: x + m.ones(7), lambda m, x: x.reshape(7, 7), lambda m, x: x[1000],
    lambda m, x: x @ m.ones(7),
    lambda m, x: m.concatenate([x, x.reshape(20, 30)]), lambda m, x: x.sum(axis=3), lambda m, x: m.zeros(-1),
    lambda m, x: m.zeros((3, "a")), lambda m, x: m.arange(0, 10, 0), lambda m, x: m.eye("x"),
    lambda m, x: x.__setitem__(slice(3), [1, 2]), lambda m, x: m.array([[1], [1, 2]]),
    lambda m, x: x.round("a"),
    lambda m, x: x.astype("nonsense"), lambda m, x: m.linspace(0, 1, -1)])
def test_errors_are_numpys(call: Any) -> None:
    fails_alike(lambda: call(np, np.array(VALUES)), lambda: call(numpy, VALUES.copy()))


def test_elements_that_are_objects_stay_the_programs_own() -> None:
    x = np.arange(3.0)
    found = np.array([x, None], dtype=object)
    assert found[0] is x and np.array([[x]], dtype="O").shape == (1, 1, 3)


def test_long_lists_are_large_arrays() -> None:
    """Which bits a result has depends on the size of the argument, also where that is a list."""
    values = (numpy.random.default_rng(1).standard_normal((300, 100)) * 1e3).tolist()
    assert float(np.sum(values)) == float(np.sum(np.array(values)))
    assert float(np.std(values)) == float(np.std(np.array(values)))


@pytest.mark.parametrize("count", [3, 300, 30_000])
def test_methods_called_by_the_class_take_arrays_of_every_size(count: int) -> None:
    x = np.zeros(count) + 1
    assert np.ndarray.tolist(x) == [1.0] * count and len(np.ndarray.reshape(x, (count, 1))) == count
    assert float(np.ndarray.sum(x)) == count and np.ndarray.item(x, 0) == 1.0
    np.ndarray.fill(x, 5.0)
    assert float(x[1]) == 5.0 and np.ndarray.sum.__name__ == "sum"


WRITES: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m.add(x, 1.0, out=x), lambda m, x: m.sqrt(abs(x), out=x[::-1]),
    lambda m, x: m.multiply(x[1:], x[:-1], out=x[1:]), lambda m, x: m.add(x, 1, out=x, where=x > 0),
    lambda m, x: m.maximum(x[:1], 0.5, out=x), lambda m, x: m.add(x, x, out=x[:7]),
    lambda m, x: m.add(x, 1j, out=x), lambda m, x: m.add(x, 1j, out=x, casting="unsafe"),
    lambda m, x: m.add.at(x, [0, 0, 3], 2.5), lambda m, x: m.add.at(x, m.array([5, 5]), m.array([2.0, 3.0])),
    lambda m, x: m.negative.at(x, [1]), lambda m, x: m.add.at(x, 700, 1.0), lambda m, x: m.add.at(x, 2, 1j)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("threshold")
@for_each("write", WRITES)
def test_calls_that_write_are_numpys(write: Callable[[Any, Any], Any]) -> None:
    found = []
    for m in (numpy, np):
        x = m.array(VALUES)
        try:
            given = write(m, x)
            what: Any = None if given is None else (bits(given), numpy.shares_memory(given, x), given is x)
        except Exception as error:
            what = type(error), str(error)
        found.append((what, bits(x)))
    assert found[0] == found[1]


def functions_of_ours(call: Callable[[], Any]) -> list[str]:
    """The functions of this package, written in Python, that a call runs the second time."""
    call()
    return [code.co_qualname for code in python_calls(call) if code.co_filename.startswith(ROOT)]


@pytest.mark.skipif(native is None, reason="Python's code runs")
@pytest.mark.parametrize("call", [
    lambda x, i: np.add(x, x, out=x), lambda x, i: np.add(x, 1.0, out=x, where=i),
    lambda x, i: np.add.at(x, [3], 1.0), lambda x, i: np.eye(20), lambda x, i: np.eye(20, 30, 1),
    lambda x, i: x.item(7), lambda x, i: x.tolist(),
    lambda x, i: np.nonzero(x[:100] > 0), lambda x, i: np.asarray(x), lambda x, i: np.add.reduce(x)])
def test_gates_run_no_python_code(call: Callable[[Any, Any], Any]) -> None:
    x = np.array(VALUES)
    i = x > 0
    assert not functions_of_ours(lambda: call(x, i))


@pytest.mark.local_only("large arrays are not at hand")
@pytest.mark.skipif(native is None, reason="Python's code runs")
def test_elements_of_large_arrays_at_hand_run_no_python_code() -> None:
    x = np.zeros(50_000) + 1.5
    assert x.item(7) == 1.5 and x[:3].tolist() == [1.5] * 3
    assert not functions_of_ours(lambda: (x.item(7), np.asarray(x), x.max(), x.argmin(), x.any(), x[[3, 4]]))
    large, some = x > 1.0, np.arange(50_000)
    assert large.all() and some[-1] == 49_999
    assert not functions_of_ours(lambda: (x[large], x[some], some[large].max()))
    with pytest.raises(IndexError):
        x.item(50_000)
    y = x + 1.0
    assert y.item(9) == 2.5


@for_each("count", [0, 1, 100, 128, 5000, 100_000, -1, 1 << 62, 1 << 80])
@for_each("name", ["empty", "zeros", "ones"])
def test_rows_of_elements_are_made_as_numpy_makes_them(name: str, count: int) -> None:
    def made(library: Any) -> Any:
        try:
            x = getattr(library, name)(count)
        except Exception as error:
            return type(error), str(error)
        values = None if name == "empty" else numpy.asarray(x).tobytes()
        return x.shape, x.dtype, x.flags.owndata, x.flags.writeable, values

    assert made(np) == made(numpy)


@pytest.mark.skipif(native is None, reason="Python's code runs")
def test_parts_of_fresh_memory_are_views_of_an_array() -> None:
    x, y = numpy.random.default_rng(7).random((2, 2000))
    one, other, theirs = np.array(x), np.array(y), numpy.histogram2d(x, y, bins=(20, 24))
    ours = np.histogram2d(one, other, bins=(20, 24))
    assert not functions_of_ours(lambda: np.histogram2d(one, other, bins=(20, 24)))
    for found, expected in zip(ours, theirs, strict=True):
        assert found.strides == expected.strides and found.tobytes() == expected.tobytes()
    table = ours[0]
    assert is_ours(table) and table.base.shape == theirs[0].base.shape
    table[3:, ::2] += 1.0
    theirs[0][3:, ::2] += 1.0
    assert (table * 2.0).tobytes() == (theirs[0] * 2.0).tobytes() and float(table.sum()) == theirs[0].sum()


@for_each("method", [
    "at()", "at(x)", "at(x, 0, 1, 2)", "at(x, 0, 1, foo=1)", "reduce()", "reduce(x, foo=1)",
    "reduce(x, 0, None, None, False, 0, True, 1)", "reduce(x, 0, axis=0)", "reduce(x, array=x)",
    "accumulate()", "accumulate(x, foo=1)", "accumulate(x, 0, None, None, 1)", "reduceat(x)",
    "reduceat(x, [0], foo=1)",
])
@for_each("name", ["add", "sin", "divmod", "matmul", "maximum"])
def test_a_wrong_call_of_a_method_of_a_ufunc_has_numpys_error(method: str, name: str) -> None:
    found: list[tuple[type, str]] = []
    for m in numpy, np:
        with pytest.raises((TypeError, ValueError, RuntimeError)) as raised:
            eval(f"m.{name}.{method}", {"m": m, "x": m.ones(3000)})
        found.append((raised.type, str(raised.value)))
    assert found[0] == found[1]
