"""Operations that the program waits for one by one are done by NumPy at once; in chains they are recorded."""

from __future__ import annotations

import platform
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.numpy.ops import single
from diffuse.numpy.ops.known import KNOWN
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.stream import engine
from tests.outcomes import python_calls, warned

pytestmark = pytest.mark.local_only("operations run where their data is")

SIZE = 40_000
TURNS = single.OFTEN + 1
PLAIN = numpy.random.default_rng(2).random((200, 200)) - 0.5
WIDE = numpy.random.default_rng(3).random((330, 330))  # two operations on it are not brief (stream/waits.py)
CALLS: list[Callable[[Any, Any], Any]] = [
    lambda m, x: x + x, lambda m, x: x / 3.0, lambda m, x: 2 - x, lambda m, x: -x, lambda m, x: abs(x.T),
    lambda m, x: x[:, 1:] * x[:, :-1], lambda m, x: x > 0, lambda m, x: m.sqrt(x + 0 if m is numpy else x),
    lambda m, x: x + x[:1], lambda m, x: m.maximum(x, 0.25), lambda m, x: x ** 2, lambda m, x: m.isnan(x)]


@pytest.fixture(autouse=True)
def unknown() -> None:
    """Nothing is pending, and nothing was waited for."""
    engine.fence()
    KNOWN.clear()
    engine.current().window.memo.forget_trails()
    single.places.clear()
    for template in engine.current().templates.known.values():
        template.alone = 0


def done(call: Callable[[], Any]) -> tuple[int, int, Any]:
    """How many operations a call and the wait for it record, how many NumPy does, and the result."""
    before = trace.snapshot()
    found = call()
    engine.fence()
    after = trace.snapshot()
    return after["recorded"] - before["recorded"], after["single"] - before["single"], found


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("hosted", [False, True])
def test_what_is_waited_for_alone_is_done_at_once_after_some_turns(call: Callable[[Any, Any], Any],
                                                                   hosted: bool) -> None:
    x = np.array(PLAIN) if hosted else np.array(PLAIN) * 1.0
    engine.fence()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = call(numpy, PLAIN)
        first = done(lambda: call(np, x))
        turns = [done(lambda: call(np, x)) for _ in range(TURNS)]
    assert first[:2] == (1, 0) and turns[-1][:2] == (0, 1)
    for _, _, found in (first, turns[-1]):
        assert type(found) is np.ndarray and found.dtype == wanted.dtype and found.strides == wanted.strides
        assert numpy.asarray(found).tobytes() == wanted.tobytes()


@pytest.mark.skipif(native is None or platform.libc_ver()[0] != "glibc" or sys.version_info >= (3, 14),
                    reason="the extension finds out by glibc who the caller is")
def test_an_operator_at_once_takes_the_memory_of_a_temporary() -> None:
    """As NumPy's: of `x * y + x` the product is one; a product that the program holds is none."""
    x, y = np.array(PLAIN), np.array(PLAIN[::-1])
    held = PLAIN * PLAIN[::-1]
    for _ in range(TURNS + 1):
        found = x * y + x
        engine.fence()
    peaks = []
    for _ in range(5):  # other threads allocate, too
        tracemalloc.start()
        try:
            found = x * y + x
            engine.fence()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < 1.5 * PLAIN.nbytes
    assert numpy.asarray(found).tobytes() == (held + PLAIN).tobytes()
    for _ in range(TURNS):
        product = x * y
        found = product + x
        engine.fence()
    assert numpy.asarray(product).tobytes() == held.tobytes()
    assert numpy.asarray(found).tobytes() == (held + PLAIN).tobytes()


PLACES: list[Callable[[Any, Any], Any]] = [
    lambda m, x: x.copy(), lambda m, x: x.T.copy(), lambda m, x: x.astype("f4"), lambda m, x: x.T.astype(int),
    lambda m, x: m.concatenate([x, x[:3]]), lambda m, x: m.vstack((x, x)),
    lambda m, x: m.stack([x, x], axis=1),
    lambda m, x: m.roll(x, 3, axis=1), lambda m, x: m.pad(x, 2), lambda m, x: m.clip(x, -0.1, 0.1),
    lambda m, x: m.round(x, 2), lambda m, x: x.round(-1),
    lambda m, x: m.array_equal(x, x), lambda m, x: m.allclose(x, x), lambda m, x: m.diff(x, axis=0),
    lambda m, x: m.full(SIZE, 2.5), lambda m, x: m.arange(SIZE), lambda m, x: m.eye(200),
    lambda m, x: m.array(x), lambda m, x: m.ones((200, 200), dtype="f4"), lambda m, x: m.triu(x),
    lambda m, x: x.flatten("F")]


@pytest.mark.parametrize("call", PLACES)
def test_functions_that_are_waited_for_alone_are_numpys(call: Callable[[Any, Any], Any]) -> None:
    x = np.array(PLAIN)
    engine.fence()
    wanted: Any = numpy.asarray(call(numpy, PLAIN))
    first = done(lambda: call(np, x))
    turns = [done(lambda: call(np, x)) for _ in range(TURNS)]
    assert first[0] > 0 == first[1] and turns[-1][:2] == (0, 1)
    for _, _, found in (first, turns[-1]):
        assert type(found) is (np.ndarray if wanted.ndim else bool)
        found = numpy.asarray(found)
        assert (found.dtype, found.strides) == (wanted.dtype, wanted.strides)
        assert found.tobytes() == wanted.tobytes()


def test_results_that_other_code_gets_are_done_at_once_the_next_time() -> None:
    x = np.array(PLAIN)
    for turn in range(3 * TURNS):
        recorded, singles, found = done(lambda: x / 3.0)
        assert numpy.asarray(found).tobytes() == (PLAIN / 3.0).tobytes()
        assert (recorded, singles) == ((1, 0) if turn < single.OFTEN else (0, 1))


def test_functions_in_chains_are_recorded() -> None:
    x = np.array(PLAIN)
    for _ in range(TURNS):
        assert done(lambda: x.copy() + np.roll(x, 1, axis=0))[1] == 0
        assert done(lambda: np.roll(x, 1, axis=0) + np.roll(x, -1, axis=0))[1] == 0


WRITES: list[Callable[[Any, Any, Any], Any]] = [
    lambda m, x, y: x.__iadd__(y), lambda m, x, y: x.__imul__(0.5), lambda m, x, y: m.subtract(x, y, out=x),
    lambda m, x, y: m.add(y, 1.5, out=x), lambda m, x, y: x.__setitem__(slice(None), 0.25),
    lambda m, x, y: x.__setitem__(slice(1, -1), y[1:-1]), lambda m, x, y: x[1:].__iadd__(y[1:]),
    lambda m, x, y: m.add(x, y, x), lambda m, x, y: m.clip(y, -0.1, 0.1, out=x)]


@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_and_waited_for_alone_is_written_at_once(write: Callable[[Any, Any, Any], Any]
                                                                 ) -> None:
    plain, other = PLAIN.copy(), PLAIN.T.copy()
    x, y = np.array(plain), np.array(other)
    engine.fence()
    for turn in range(2 * TURNS):
        write(numpy, plain, other)
        tasks, singles, _ = done(lambda: write(np, x, y))
        assert (tasks, singles) == (1, 0) if not turn else tasks + singles == 1
        assert numpy.asarray(x + 0.0).tobytes() == (plain + 0.0).tobytes()
    assert (tasks, singles) == (0, 1)
    pending = y * 2.0
    assert done(lambda: write(np, x, pending))[0] == 1 or write in (WRITES[1], WRITES[4])
    write(numpy, plain, other * 2.0)
    assert numpy.asarray(x).tobytes() == plain.tobytes()


@pytest.mark.skipif(native is None, reason="Python's code runs")
@pytest.mark.parametrize("call", [
    lambda x, y: x + y, lambda x, y: -x, lambda x, y: x <= 0.5, lambda x, y: x.__iadd__(y),
    lambda x, y: x.__setitem__(slice(None), 0.25), lambda x, y: x.__setitem__(slice(1, 99), 1.5),
    lambda x, y: y[:, None], lambda x, y: x.copy(), lambda x, y: x.astype("f4"),
    lambda x, y: np.concatenate([x, y], axis=1)])
def test_compiled_code_has_numpy_do_it_without_pythons(call: Callable[[Any, Any], Any]) -> None:
    x, y = np.array(PLAIN), np.array(PLAIN)
    for _ in range(2 * TURNS):
        done(lambda: call(x, y))
    called = {code.co_qualname for code in python_calls(lambda: call(x, y))[1:]}
    assert called <= {"<lambda>", "made_at_once"}


def test_writing_to_what_cannot_be_written_raises() -> None:
    x = np.array(PLAIN)
    for _ in range(TURNS):
        done(lambda: x.__iadd__(1.0))
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        x += 1.0


def test_one_call_in_many_is_recorded_again() -> None:
    x = np.array(PLAIN)
    counts = [done(lambda: x + x)[0] for _ in range(2 * (single.OFTEN + single.TRUSTED + 1))]
    assert counts[:single.OFTEN] == [1] * single.OFTEN
    assert counts[single.OFTEN:].count(1) == 2


def test_chains_are_recorded() -> None:
    x = np.array(WIDE)
    for _ in range(2 * TURNS):
        assert done(lambda: x * x + x)[:2] == (2, 0)


def test_a_chain_that_begins_like_a_single_operation_is_recorded_again() -> None:
    x = np.array(WIDE)
    for _ in range(TURNS):
        done(lambda: x * x)
    assert done(lambda: x * x)[:2] == (0, 1)
    assert done(lambda: x * x + x)[:2] == (1, 1)
    for _ in range(2 * TURNS):
        assert done(lambda: x * x + x)[:2] == (2, 0)


def test_a_function_whose_result_a_task_uses_is_recorded_again() -> None:
    x = np.array(PLAIN)

    def rolled() -> Any:
        return np.roll(x, 1, axis=0)

    for _ in range(TURNS):
        done(rolled)
    assert done(rolled)[:2] == (0, 1)
    assert done(lambda: rolled() - x)[:2] == (1, 1)
    for _ in range(2 * TURNS):
        assert done(lambda: rolled() - x)[1] == 0


DIRECT: list[Callable[[Any], Any]] = [
    lambda x: np.exp(x), lambda x: x**3, lambda x: 2.5**x, lambda x: np.sin(x.T), lambda x: np.hypot(x, x[0]),
    lambda x: np.tanh(x[::-1, ::2]), lambda x: np.exp(x[:, 3:]), lambda x: x // 0.3, lambda x: x % x,
    lambda x: np.fmod(x, 0.3), lambda x: np.arctan2(x, numpy.float32(0.25))]


@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize("name", ["erf", "gammaln", "expit"])
def test_functions_of_scipy_keep_their_bits_where_they_are_waited_for_alone(name: str, into: bool) -> None:
    """SciPy's own have other bits, and take many times as long."""
    function = getattr(pytest.importorskip("diffuse.scipy.special"), name)
    x, room = np.array(PLAIN.astype("f4") + 1), np.zeros(PLAIN.shape, "f4")
    single.ways.clear()
    with settings.using(compile="wait"):
        turns = [done(lambda: function(x, out=room) if into else function(x)) for _ in range(2 * TURNS)]
        first, *others = [numpy.array(found) for *_, found in turns]
    assert all(found.tobytes() == first.tobytes() for found in others)
    assert True not in single.ways.values()  # True: by SciPy


HALF: list[Callable[[Any], Any]] = [
    lambda x: x + x[::-1], lambda x: x * 2, lambda x: np.sqrt(x), lambda x: x > 0.5]


@pytest.mark.parametrize(("call", "dtype"), [(call, dtype) for dtype in ("f8", "f4") for call in DIRECT]
                         + [(call, "f2") for call in HALF])
def test_operations_that_numpy_does_otherwise_or_slowly_are_launched_directly(
        call: Callable[[Any], Any], dtype: str) -> None:
    x = np.array(PLAIN.astype(dtype) + 1)
    single.ways.clear()
    with settings.using(compile="wait"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        turns = [done(lambda: call(x)) for _ in range(2 * TURNS)]
    assert [turn[:2] for turn in turns] == [(1, 0)] * single.OFTEN + [(0, 1)] * (2 * TURNS - single.OFTEN)
    assert single.ways and True not in single.ways.values()  # True: by NumPy
    first, *others = [numpy.asarray(found) for *_, found in turns]
    for found in others:
        assert found.strides == first.strides and found.tobytes() == first.tobytes()


def test_operations_are_recorded_as_long_as_their_machine_code_is_missing() -> None:
    x = np.array(PLAIN)
    with settings.using(compile="off"):
        assert [done(lambda: np.exp2(x))[:2] for _ in range(2 * TURNS)] == [(1, 0)] * (2 * TURNS)


def test_floating_point_errors_of_direct_launches_are_reported_where_they_are_made() -> None:
    x = np.array(PLAIN + 1.0)
    with settings.using(compile="wait"):
        for _ in range(TURNS):
            done(lambda: np.log(x))
        x[3, 3] = 0.0
        for _ in range(2):
            with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as seen:
                done(lambda: np.log(x))
            assert seen[0].filename == __file__
        with np.errstate(divide="ignore"):
            turns = [done(lambda: np.log(x))[:2] for _ in range(2 * TURNS)]
    assert turns[-1] == (0, 1)


def test_direct_launches_wait_for_nothing_else() -> None:
    x, y = np.array(PLAIN), np.array(PLAIN)
    with settings.using(compile="wait"):
        for _ in range(TURNS):
            done(lambda: np.exp(x))
        pending = y + 1.0
        recorded, _, found = done(lambda: np.exp(x))
    assert recorded == 1 and numpy.allclose(numpy.asarray(found), numpy.exp(PLAIN))
    assert numpy.array_equal(numpy.asarray(pending), PLAIN + 1.0)


def test_so_are_assignments_of_results_that_were_done_at_once() -> None:
    """The value of `x[:] = ...` then has no store yet."""
    x = np.array(PLAIN)
    plain = PLAIN.copy()
    for turn in range(3 * TURNS):
        def call() -> None:
            x[:] = np.minimum(x, numpy.float64(0.5 - turn / 100))

        recorded, singles, _ = done(call)
        plain[:] = numpy.minimum(plain, 0.5 - turn / 100)
    assert (recorded, singles) == (0, 2)
    assert numpy.asarray(x).tobytes() == plain.tobytes()


def test_large_operations_and_those_on_pending_arrays_are_recorded() -> None:
    large, x = np.ones(single.MOST // 8), np.array(PLAIN)
    for _ in range(TURNS):
        assert done(lambda: large + large)[:2] == (1, 0)
        done(lambda: x - 1.0)
    pending = x + 2.0
    recorded, singles, found = done(lambda: pending - 1.0)
    assert (recorded, singles) == (1, 0)
    assert numpy.asarray(found).tobytes() == (PLAIN + 2.0 - 1.0).tobytes()


def test_errors_and_warnings_are_numpys() -> None:
    x = np.array(PLAIN)
    x[3, 3] = 0.0
    for _ in range(TURNS):
        with np.errstate(all="ignore"):
            done(lambda: 1.0 / x)
    with np.errstate(all="ignore"):
        assert done(lambda: 1.0 / x)[:2] == (0, 1)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        1.0 / x
    with warned() as caught:
        1.0 / x
        engine.fence()
    assert [str(w.message) for w in caught] == ["divide by zero encountered in divide"]
    assert caught[0].filename == __file__


def test_the_result_is_the_programs_own() -> None:
    x = np.array(PLAIN)
    for _ in range(TURNS):
        done(lambda: x + 1.0)
    y = x + 1.0
    y += 1.0
    x[:] = 0.0
    assert numpy.asarray(y).tobytes() == (PLAIN + 1.0 + 1.0).tobytes() and (x + 1.0)[0, 0] == 1.0


def test_where_no_array_is_small_everything_is_recorded() -> None:
    with settings.using(small=0):
        x = np.array(PLAIN)
        for _ in range(3 * TURNS):
            assert done(lambda: x - 1.0)[:2] == (1, 0) and done(lambda: np.roll(x, 1))[1] == 0


def test_an_operation_that_ends_chains_at_other_lines_is_done_at_once_where_it_is_waited_for_alone() -> None:
    x = np.array(WIDE)
    engine.fence()
    counts = []
    for _ in range(2 * TURNS):
        assert done(lambda: (np.sin(x) + 1.0) * x)[0] == 3
        counts.append(done(lambda: x * x)[:2])
    assert counts[0] == (1, 0) and counts[-1] == (0, 1)


def test_what_numpy_hands_back_stays_the_array_that_the_program_has() -> None:
    def conjugate(x: Any) -> Any:
        return x.conjugate()

    whole, parts = np.array(numpy.arange(SIZE)), np.array(numpy.ones(SIZE) + 1j)
    conjugate(parts)
    conjugate(whole)
    for place in single.places.values():
        place.alone = single.OFTEN
    assert conjugate(whole) is whole and conjugate(parts) is not parts
