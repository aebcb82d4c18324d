"""Products of matrices, `solve`, transforms and sorts on a GPU: by CuPy in our stream, else on the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import diffuse
import diffuse.numpy as dnp
from diffuse import settings
from diffuse.observe import trace
from diffuse.stream import engine
from tests.each import for_each
from tests.interpreted_gpu import Interpreted
from tests.outcomes import fails_alike
from tests.standin_cupy import StandIn, installed

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")


@pytest.fixture
def gpu(gpu: Interpreted) -> Iterator[Interpreted]:
    """The device of the runtime cuda, whose calls may go to CuPy."""
    with settings.using(fallback="silent", cupy=True):
        yield gpu


@pytest.fixture
def cupy(gpu: Interpreted) -> Iterator[StandIn]:
    with installed(gpu) as found:
        yield found


def made(seed: int, shape: tuple[int, ...], dtype: str = "float64") -> tuple[Any, Any]:
    """NumPy's array and ours, whose newest elements are on the device."""
    rng = np.random.default_rng(seed)
    values = (8 * rng.random(shape)).astype(dtype)
    if dtype[0] == "c":
        values = values + 1j * rng.random(shape).astype(values.real.dtype)
    mine = dnp.asarray(values.copy()) + dnp.asarray(np.zeros((), dtype))
    engine.flush()
    return values, mine


def same(found: Any, expected: Any) -> None:
    found = np.asarray(found)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.strides == expected.strides
    assert np.allclose(found, expected)


CALLS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("matmul", lambda np, x: x @ x), ("matmul", lambda np, x: np.matmul(x.T, x)),
    ("matmul", lambda np, x: x @ x[0]), ("matmul", lambda np, x: x[1] @ x),
    ("matmul", lambda np, x: np.dot(x, x[::-1])),
    ("matmul", lambda np, x: x[:, ::2] @ x[::2]),
    ("linalg.solve", lambda np, x: np.linalg.solve(x, x[0])),
    ("linalg.solve", lambda np, x: np.linalg.solve(x, x.T)),
    ("linalg.inv", lambda np, x: np.linalg.inv(x)),
    ("fft.fft", lambda np, x: np.fft.fft(x)), ("fft.ifft", lambda np, x: np.fft.ifft(x, axis=0)),
    ("fft.fft", lambda np, x: np.fft.fft(x, 7, norm="ortho")), ("fft.fft2", lambda np, x: np.fft.fft2(x)),
    ("fft.fftn", lambda np, x: np.fft.fftn(x)), ("fft.ifftn", lambda np, x: np.fft.ifftn(x, axes=(0,))),
    ("fft.irfft", lambda np, x: np.fft.irfft(x, 12)), ("fft.fft", lambda np, x: np.fft.fft(x[2:5, ::2]))]


@for_each("dtype", ["float32", "float64", "complex64", "complex128"])
@for_each("number", range(len(CALLS)))
def test_calls_go_through_cupy_without_a_copy(gpu: Interpreted, cupy: StandIn, dtype: str, number: int
                                              ) -> None:
    name, call = CALLS[number]
    cupy.calls.clear()
    values, mine = made(number, (10, 10), dtype)
    copies = len(gpu.uploads), len(gpu.downloads)
    found = call(dnp, mine)
    assert [each for each, _ in cupy.calls] == [name]
    assert (len(gpu.uploads), len(gpu.downloads)) == copies
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(found, call(np, values))


@for_each("call", [
    lambda np, x: np.sort(x), lambda np, x: np.sort(x, axis=0), lambda np, x: np.sort(x, axis=None),
    lambda np, x: np.sort(x, kind="stable"), lambda np, x: np.sort(x, stable=True),
    lambda np, x: np.argsort(x, kind="stable"), lambda np, x: x.argsort(1, "mergesort"),
    lambda np, x: np.sort(x[::2])])
@for_each("dtype", ["bool", "int16", "uint64", "float32", "float64"])
def test_sorts_go_through_cupy(gpu: Interpreted, cupy: StandIn, call: Any, dtype: str) -> None:
    cupy.calls.clear()
    values, mine = made(3, (10, 10), dtype)
    copies = len(gpu.downloads)
    found = call(dnp, mine)
    assert len(cupy.calls) == 1 and len(gpu.downloads) == copies
    same(found, call(np, values))


def test_a_sort_in_place_writes_the_array(gpu: Interpreted, cupy: StandIn) -> None:
    values, mine = made(4, (50,))
    view = mine[::-1]
    copies = len(gpu.downloads)
    assert mine.sort() is None
    view[:10].sort()
    assert len(cupy.calls) == 2 and len(gpu.downloads) == copies
    values.sort()
    values[::-1][:10].sort()
    same(mine, values)


def test_results_are_arrays_like_all_others(gpu: Interpreted, cupy: StandIn) -> None:
    values, mine = made(5, (10, 10))
    product = mine @ mine
    launched = len(gpu.launched)
    following = product * 2 + 1
    following = following - product
    assert len(gpu.launched) == launched  # recorded, not shared
    same(following, (values @ values) * 2 + 1 - values @ values)
    product[0, 0] = -1.0
    assert product[0, 0] == -1.0 and float((mine @ product)[0, 0]) != 0.0


def test_memory_is_ours_and_is_given_back(gpu: Interpreted, cupy: StandIn) -> None:
    _, mine = made(6, (64, 64))
    before = sum(gpu.used.values())  # with what other tests left
    for _ in range(20):
        product = mine @ mine
        engine.flush()
        del product
    assert sum(gpu.used.values()) - before < 10 * 64 * 64 * 8


def test_work_that_is_recorded_runs_before(gpu: Interpreted, cupy: StandIn) -> None:
    values, mine = made(7, (10, 10))
    mine += 1.0
    found = mine @ mine
    mine += 1.0
    same(found, (values + 1) @ (values + 1))
    same(mine @ mine, (values + 2) @ (values + 2))


def test_arrays_of_the_host_that_join_are_copied_once(gpu: Interpreted, cupy: StandIn) -> None:
    values, mine = made(8, (10, 10))
    other = np.arange(100.0).reshape(10, 10)
    copies = len(gpu.uploads)
    same(np.matmul(mine, other), values @ other)
    same(dnp.linalg.solve(mine, other), np.linalg.solve(values, other))
    assert len(cupy.calls) == 2 and len(gpu.uploads) <= copies + 2
    other[0] = 5.0
    same(dnp.linalg.solve(mine, other), np.linalg.solve(values, other))


HOSTED: list[Callable[[Any, Any], Any]] = [
    lambda np, x: x.astype("int64") @ x.astype("int64"), lambda np, x: x.astype("float32") @ x,
    lambda np, x: np.fft.fft(x.astype("float16")), lambda np, x: np.sort(x + 1j),
    lambda np, x: np.sort(x.T), lambda np, x: np.fft.fft(x.T), lambda np, x: np.fft.fft(x, out=x + 0j),
    lambda np, x: np.linalg.solve(np.stack([x, x]), np.stack([x, x])), lambda np, x: np.linalg.eigvals(x),
    lambda np, x: np.fft.hfft(x), lambda np, x: np.sort(x, axis=np.asarray(1)),
    lambda np, x: np.sort(x, axis=(x[0, 0] * 0).astype(int))]


def test_calls_whose_errors_are_to_be_raised_run_on_the_host(gpu: Interpreted, cupy: StandIn) -> None:
    _, mine = made(17, (10, 10))
    with dnp.errstate(over="raise"):
        assert dnp.linalg.inv(mine) is not None and (mine @ mine) is not None
    assert not cupy.calls


@pytest.mark.parametrize("number", range(len(HOSTED)))
def test_what_cupy_does_otherwise_runs_on_the_host(gpu: Interpreted, cupy: StandIn, number: int) -> None:
    values, mine = made(9, (10, 10))
    found = HOSTED[number](dnp, mine)
    assert not cupy.calls
    same(found, HOSTED[number](np, values))


@pytest.mark.parametrize("call", [
    lambda np, x: np.linalg.solve(np.zeros_like(x), x), lambda np, x: np.linalg.inv(np.zeros_like(x)),
    lambda np, x: np.sort(x, axis=2), lambda np, x: np.sort(x, kind="fast"), lambda np, x: np.fft.fft(x, 0),
    lambda np, x: np.fft.fft(x, norm="all"), lambda np, x: np.linalg.solve(x, x[:3]),
    lambda np, x: np.fft.rfft(x + 1j), lambda np, x: x @ x[:3], lambda np, x: np.sort(x, 0, None, None, 1),
    lambda np, x: x.sort(axis=None)])
def test_errors_are_numpys(gpu: Interpreted, cupy: StandIn, call: Any) -> None:
    values, mine = made(10, (10, 10))
    fails_alike(lambda: call(dnp, mine), lambda: call(np, values))


@pytest.mark.parametrize("error", [MemoryError("no room"), RuntimeError("cuBLAS"), NotImplementedError()])
def test_what_cupy_refuses_runs_on_the_host(gpu: Interpreted, cupy: StandIn, error: Exception) -> None:
    values, mine = made(11, (10, 10))
    cupy.fails = error
    same(mine @ mine, values @ values)
    same(dnp.sort(mine), np.sort(values))
    assert len(cupy.calls) == 2


def test_arrays_on_the_host_stay_there(gpu: Interpreted, cupy: StandIn) -> None:
    x = dnp.asarray(np.arange(100.0).reshape(10, 10))
    same(dnp.sort(x), np.sort(np.arange(100.0).reshape(10, 10)))
    assert not cupy.calls and not gpu.uploads


def test_the_memory_that_numpy_code_holds_is_read_as_it_is_now(gpu: Interpreted, cupy: StandIn) -> None:
    values, mine = made(12, (10, 10))
    _, other = made(13, (10, 10))
    held = np.asarray(mine)
    held[0] = 1.0
    values[0] = 1.0
    found = mine @ other
    held[0] = 2.0
    same(found, values @ np.asarray(other))
    assert len(cupy.calls) == 1


def test_the_stream_of_an_older_cupy(gpu: Interpreted) -> None:
    with installed(gpu, old=True) as cupy:
        values, mine = made(14, (10, 10))
        same(mine @ mine, values @ values)
        assert len(cupy.calls) == 1


def test_explain_says_what_ran_on_the_host(gpu: Interpreted) -> None:
    _, mine = made(15, (10, 10))
    before = dict(trace.on_host)
    trace.on_host.clear()
    dnp.linalg.eigvals(mine)
    mine += 1.0
    engine.flush()
    dnp.linalg.eigvals(mine)
    np.asarray(mine @ (mine + 1))
    said = diffuse.explain()
    assert said.on_host == {"numpy.linalg.eigvals": (2, 1600), "matmul": (1, 800)}
    assert "on the host: numpy.linalg.eigvals, 2 calls, 1,600 bytes copied from the device" in str(said)
    trace.on_host.clear()
    trace.on_host.update(before)


def test_a_setting_leaves_cupy_out(cupy: StandIn) -> None:
    values, x = made(3, (20, 20))
    with settings.using(cupy=False):
        found = x @ x
        assert np.asarray(found).tobytes() == (values @ values).tobytes() and not cupy.calls
    assert np.allclose(np.asarray(x @ x), values @ values) and cupy.calls


def test_explain_counts_what_cupy_did(gpu: Interpreted, cupy: StandIn) -> None:
    _, mine = made(16, (10, 10))
    before, hosted = trace.counters["by CuPy"], dict(trace.on_host)
    assert (mine @ mine) is not None and dnp.fft.fft(mine) is not None
    assert trace.counters["by CuPy"] == before + 2 and trace.on_host == hosted
