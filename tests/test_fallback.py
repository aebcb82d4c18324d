"""What only NumPy has: the same memory, one warning per call site, and a way to forbid it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.bridge import fallback
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.settings import using
from diffuse.stream import engine
from tests.kinds import is_ours
from tests.outcomes import warned


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    fallback.forget_warnings()
    with using(small=16, fallback="warn"):
        yield


def large() -> Any:
    return np.arange(100.0) * 1.0


def test_one_warning_per_call_site_naming_the_function_and_the_line() -> None:
    x = large()
    with warned() as caught:
        for _ in range(3):
            np.polydiv(x, [2.0])
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        np.polydiv(x, [2.0])
    assert len(caught) == 2
    assert caught[0].category is RuntimeWarning
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    assert "numpy.polydiv runs by NumPy here" in str(caught[0].message)
    assert "DIFFUSE_FALLBACK=silent" in str(caught[0].message)


def test_small_arrays_and_functions_that_lose_nothing_are_quiet() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.median(np.arange(5.0))
        np.linalg.svd(np.ones((20, 20)))
        np.fft.fft(large())
        np.random.default_rng(1).permutation(large())
        str(large())
        np.einsum("i,i", large(), large())


def test_silent_and_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with using(fallback="silent"):
            assert len(np.polydiv(large(), [1.0])[0]) == 100
    refused = pytest.raises(NotImplementedError, match="numpy.polydiv .*DIFFUSE_FALLBACK=error")
    with using(fallback="error"), refused:
        np.polydiv(large(), [2.0])


@pytest.mark.skipif(native is None, reason="the extension was not built")
@pytest.mark.not_legate("arrays are at hand")
def test_lines_that_were_told_call_numpy_without_python_code(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    call = fallback.call

    def noted(*args: Any) -> Any:
        called.append(args[3])
        return call(*args)

    monkeypatch.setattr(fallback, "call", noted)
    x, y = np.array(numpy.arange(100.0)[::-1]), np.array(numpy.arange(300).reshape(100, 3))
    engine.fence()
    calls: list[Any] = [lambda m, a, b: m.polydiv(a, [2.0, 1.0])[0],
                        lambda m, a, b: m.poly(a[:20]),
                        lambda m, a, b: m.add.reduceat(a, [0, 40])]
    before = trace.snapshot()["fallbacks"]
    for function in calls:
        wanted = numpy.asarray(function(numpy, x.__array__().copy(), y.__array__().copy()))
        with pytest.warns(RuntimeWarning, match="runs by NumPy here"):
            found = [function(np, x, y)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found += [function(np, x, y) for _ in range(3)]
        for each in found:
            assert type(each) is type(found[0]) and numpy.asarray(each).tobytes() == wanted.tobytes()
    assert len(called) == len(calls) and trace.snapshot()["fallbacks"] == before + 4 * len(calls)
    with using(fallback="error"), pytest.raises(NotImplementedError, match="numpy.polydiv"):
        calls[0](np, x, y)


@pytest.mark.skipif(native is None, reason="the extension was not built")
@pytest.mark.not_legate("arrays are at hand")
def test_bits_are_packed_by_numpy_without_python_code(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = np.array(numpy.arange(300) % 7 < 3)
    packed = numpy.packbits(bits.__array__())
    monkeypatch.setattr(fallback, "call", None)
    assert (numpy.asarray(np.packbits(bits)) == packed).all()
    assert (numpy.asarray(np.unpackbits(np.packbits(bits), count=300)) == bits.__array__()).all()


@pytest.mark.skipif(native is None, reason="the extension was not built")
def test_lines_that_were_told_wait_for_pending_arrays_and_write_to_outputs() -> None:
    x, out = np.array(numpy.arange(100.0)), np.zeros(100)

    def taken(m: Any, a: Any, **options: Any) -> Any:
        return m.take(a, [3, 2, 1] * 20, **options)

    with using(fallback="silent"):
        for _ in range(3):
            assert taken(np, x)[0] == 3.0
        assert taken(np, x * 2.0)[0] == 6.0
        assert taken(np, x, out=out[:60])[1] == 2.0 and float(out[2]) == 1.0 and float(out[60]) == 0.0


def test_calls_are_counted() -> None:
    before = trace.snapshot()["fallbacks"]
    with using(fallback="silent"):
        np.polydiv(large(), [2.0])
        np.polydiv(large(), [3.0])
    assert trace.snapshot()["fallbacks"] == before + 2


@pytest.mark.filterwarnings("ignore:numpy")
def test_out_and_in_place_reach_the_array() -> None:
    x, out = large(), np.zeros(100)
    with using(fallback="silent"):
        assert np.median(x.reshape(10, 10), axis=0, out=out[:10]).shape == (10,)
        assert float(out[3]) == 48.0 and float(out[20]) == 0.0
        found = np.take(x, np.arange(100), out=out, mode="clip")
    assert found is out and bool((out == x).all())
    x[::2].sort()
    y = -large()
    y.sort()
    assert float(y[0]) == -99.0
    np.random.default_rng(2).shuffle(x)
    assert float(x.sum()) == 4950.0 and not bool((x == large()).all())


@pytest.mark.parametrize("hosted", [True, False], ids=["hosted", "recorded"])
def test_a_result_that_looks_into_an_argument_shares_its_memory(hosted: bool) -> None:
    x = np.array(numpy.arange(100.0)) if hosted else large()
    found = fallback.call(lambda a: a[10:50:4], (x[::2],), {}, "test", "test")
    assert is_ours(found) and found.shape == (10,)
    x += 1000.0
    assert float(found[1]) == 1028.0, "a view of a view, two elements apart, four apart again"
    found[...] = -1.0
    assert float(x[20]) == -1.0 and float(x[21]) == 1021.0 and float(x[28]) == -1.0
    assert np.shares_memory(x, found)


def test_a_result_that_looks_into_a_numpy_argument_shares_its_memory() -> None:
    plain = numpy.arange(100.0)
    found = fallback.call(lambda a: a[10:], (plain,), {}, "test", "test")
    found *= 2.0
    assert plain[10] == 20.0
    plain[11] = 7.0
    assert float(found[1]) == 7.0


def test_arguments_are_found_at_any_depth_and_results_keep_their_types() -> None:
    x = large()
    with using(fallback="silent"):
        assert float(np.lexsort([x, (x)])[3]) == 3.0
        found = np.linalg.eigh(np.eye(5))
        assert type(found).__name__ == "EighResult" and is_ours(found.eigenvalues)
        counts, edges = np.histogram(x, bins=np.array([0.0, 50.0, 100.0]))
        assert counts.tolist() == [50, 50] and is_ours(edges)
        assert isinstance(np.median(x), numpy.float64)
    seen: list[Any] = []
    given = {"k": [x, (x, 1)]}, slice(np.array(3), None)
    fallback.call(lambda a, b: seen.extend([a, b]), given, {}, "test", "test")
    assert type(seen[0]["k"][0]) is numpy.ndarray and type(seen[0]["k"][1][0]) is numpy.ndarray
    assert type(seen[1].start) is numpy.ndarray


def test_types_without_kernels_stay_numpys() -> None:
    words: list[Any] = [["a", "b"], [None, {}]]
    for found in (*map(np.array, words), np.array(["2020-01-01"], "M8[D]")):
        assert type(found) is numpy.ndarray
        assert type(np.concatenate([found, found])) is numpy.ndarray
    record = np.zeros(3, dtype=[("a", "f8"), ("b", "i4")])
    assert record["a"].sum() == 0.0


def test_results_that_hold_their_arguments_see_later_writes() -> None:
    x = large()
    flat = x.reshape(10, 10).flat
    x *= 2.0
    assert flat[3] == 6.0
    pair = np.broadcast(x, x.reshape(100))
    assert pair.shape == (100,)


def test_a_call_waits_for_what_was_recorded_and_later_work_sees_its_writes() -> None:
    x = np.zeros(1000)
    with using(fallback="silent"):
        for k in range(5):
            x += 1.0
            np.put(x, [k], 100.0)
            x *= 2.0
    expected = numpy.zeros(1000)
    for k in range(5):
        expected += 1.0
        numpy.put(expected, [k], 100.0)
        expected *= 2.0
    numpy.testing.assert_array_equal(numpy.asarray(x), expected)


class Foreign:
    """Another array library's type."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
        return "foreign"

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> str:
        return "foreign"


def test_the_real_numpy_dispatches_to_diffuse() -> None:
    x = large()
    before = trace.snapshot()["recorded"]
    with using(fallback="error"):
        found = [numpy.sin(x), numpy.concatenate([x, x]), numpy.where(x > 3, x, 0.0), numpy.add(x, 1.0),
                 numpy.linalg.norm(x), numpy.multiply.outer(x, x), numpy.sum(x), numpy.dot(x, x)]
    assert [is_ours(v) for v in found[:4]] == [True] * 4
    assert trace.snapshot()["recorded"] > before
    numpy.testing.assert_allclose(numpy.asarray(found[0]), numpy.sin(numpy.arange(100.0)), rtol=1e-15)
    with using(fallback="silent"):
        assert numpy.median(x) == 49.5
        assert is_ours(numpy.sort(x))


@pytest.mark.filterwarnings("ignore:numpy")
def test_the_real_numpy_writes_into_its_own_arrays() -> None:
    plain, x = numpy.ones(100), large()
    plain += x
    assert type(plain) is numpy.ndarray and plain[5] == 6.0
    out = numpy.add(x, 1.0, out=plain)
    assert out is plain and plain[5] == 6.0
    assert is_ours(plain * x)


def test_other_libraries_get_their_turn() -> None:
    x = large()
    assert numpy.concatenate([x, Foreign()]) == "foreign"
    other: Any = Foreign()
    assert numpy.add(x, other) == "foreign"


def test_a_ufunc_of_another_library_runs_on_the_memory() -> None:
    special = pytest.importorskip("scipy.special")
    x = large()
    with using(fallback="silent"):
        found = special.erf(x / 100)
    assert is_ours(found)
    numpy.testing.assert_array_equal(numpy.asarray(found), special.erf(numpy.arange(100.0) / 100))


def test_wrapped_functions_look_like_numpys() -> None:
    assert np.median.__name__ == "median" and np.median.__doc__ == numpy.median.__doc__
    assert inspect.signature(np.median) == inspect.signature(numpy.median)
    assert inspect.signature(np.concatenate) is not None


def test_a_result_that_an_argument_is_a_view_of_is_the_same_memory() -> None:
    x = np.array(numpy.arange(200.0))
    whole = fallback.call(lambda y: y if y.base is None else y.base, (x[3:],), {}, silent="test")
    whole[4] = -7.0
    assert float(x[4]) == -7.0
    new = fallback.call(lambda y: y + 1.0, (x,), {}, silent="test")
    x[5] = -8.0
    assert is_ours(new) and float(new[5]) == 6.0


def test_sums_of_small_arrays_at_places_of_numpys_own() -> None:
    place, places = np.array(numpy.arange(1000) % 7), numpy.arange(1000) % 7
    for shape in (7, 10):  # so few elements are NumPy's own
        ours, theirs = np.zeros(shape), numpy.zeros(shape)
        np.add.at(ours, place, np.array(numpy.arange(1000.0)))
        numpy.add.at(theirs, places, numpy.arange(1000.0))
        assert numpy.array_equal(ours, theirs)
        with pytest.raises(IndexError), using(fallback="silent"):
            np.add.at(ours, place + 5, 1.0)
