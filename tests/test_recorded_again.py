"""Operations that are recorded again: what the engine holds then, by compiled code and by Python's alike."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.ops import joining, known
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.settings import using
from diffuse.stream import engine
from tests.outcomes import python_calls, run_all

SIZE = 160_000
PLAIN = numpy.random.default_rng(4).random(SIZE)

pytestmark = pytest.mark.usefixtures("nothing_alone")

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "two arrays": lambda x, y: x + y, "one array twice": lambda x, y: x * x, "a number": lambda x, y: x - 2.5,
    "a number first": lambda x, y: 3 / x, "a comparison": lambda x, y: x < y, "one operand": lambda x, y: -x,
    "a ufunc": lambda x, y: np.hypot(x, y), "a ufunc of one": lambda x, y: np.sqrt(x),
    "a square": lambda x, y: x**2, "slices": lambda x, y: x[1:] + y[:-1], "steps": lambda x, y: x[::2] * 2.0,
}


def put(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def plus(x: Any, y: Any) -> Any:
    x += y
    return x


def times(x: Any, y: Any) -> Any:
    x *= y
    return x


def raise_to(x: Any, n: Any) -> Any:
    x = np.array(x)
    x **= n
    return x


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "an array": plus, "itself": lambda x, y: times(x, x), "a number": lambda x, y: plus(x, 2),
    "out": lambda x, y: np.add(x, y, out=x),
    "out of one": lambda x, y: np.sqrt(y, out=x), "a slice": lambda x, y: put(x, slice(1, None), y[:-1]),
    "a number in a slice": lambda x, y: put(x, slice(5, None, 2), 7),
    "all of it": lambda x, y: put(x, slice(None), y),
}


def number_of_calls(call: Callable[[], Any]) -> int:
    """How many functions of Python's a call runs, but for itself."""
    return len(python_calls(call)) - 1


def made_known(call: Callable[[], None]) -> None:
    """Make a call often enough to be recorded again, while the program waits for none of them: NumPy does at
    once what it waits for."""
    for _ in range(2):
        engine.flush()
        for _ in range(4):
            call()
    engine.flush()


@pytest.mark.skipif(native is None, reason="Python's code runs")
@pytest.mark.parametrize("name", CALLS)
def test_compiled_code_records_again_without_pythons(name: str) -> None:
    def call() -> None:
        found.append(CALLS[name](x, y))

    found: list[Any] = []
    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) + 1.0
    made_known(call)
    before = trace.counters["recorded"]
    called = [number_of_calls(call) for _ in range(4)]
    assert all(type(each) is np.ndarray for each in found)
    assert trace.counters["recorded"] == before + 4
    assert called == [1] * 4  # the program's own function alone, also where a group begins


@pytest.mark.skipif(native is None, reason="Python's code runs")
@pytest.mark.parametrize("name", WRITES)
def test_compiled_code_writes_again_without_pythons(name: str) -> None:
    def call() -> None:
        WRITES[name](x, y)

    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) + 1.0
    made_known(call)
    called = [number_of_calls(call) for _ in range(4)]
    ours = 1 if name == "an array" or "out" in name else 2  # functions of this module
    assert called == [ours] * 4


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_again_is_what_was_written(name: str) -> None:
    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) + 1.0
    plain, window, tasks = PLAIN * 1.0, engine.current().window, []
    engine.fence()
    for _ in range(3):
        y * 1.0
        version = x.storage.version
        assert WRITES[name](x, y) is x and x.storage.version == version + 1
        if name == "out":
            plain += PLAIN + 1.0
        elif name == "out of one":
            plain = numpy.sqrt(PLAIN + 1.0)
        else:
            WRITES[name](plain, PLAIN + 1.0)
        assert x.storage.touched == x.storage.written == engine.current().epoch
        tasks.append(window.open.recorded[-1])
        assert tasks[-1][1][-1] == x.storage.id
    assert len({id(task[0]) for task in tasks}) == 1
    assert numpy.array_equal(numpy.asarray(x), plain)


@pytest.mark.parametrize("power", [lambda x, n: np.power(x, n), lambda x, n: np.power(x, n, out=np.array(x)),
                                   lambda x, n: x**n, raise_to])
def test_powers_are_told_apart_by_the_exponent_and_not_by_its_type(power: Callable[[Any, Any], Any]) -> None:
    x = np.array(PLAIN * 1e-3) * 1.0
    wanted = {n: numpy.asarray(power(x, n)).tobytes() for n in (3, 2, 5, 0.5, -0.5)}
    known.KNOWN.clear()
    for _ in range(3):
        for n in (11, 7.25):
            power(x, n)
    for n, elements in wanted.items():
        assert numpy.asarray(power(x, n)).tobytes() == elements


def test_read_only_arrays_are_not_written_again() -> None:
    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) + 1.0
    for _ in range(3):
        x += y
        x[1:] = y[:-1]
        np.add(x, y, out=x)
    x.setflags(write=False)
    for name in ("an array", "a slice", "out"):
        with pytest.raises(ValueError, match="read-only"):
            WRITES[name](x, y)


def test_parts_of_one_array_that_overlap_are_read_before_they_are_written() -> None:
    x, plain = np.array(PLAIN) * 1.0, PLAIN * 1.0
    for _ in range(4):
        for a in (x, plain):
            a[1:] += a[:-1]
            a[:-1] = a[1:]
            a += a[::-1]
        np.multiply(x[:-3], x[3:], out=x[:-3])
        numpy.multiply(plain[:-3], plain[3:], out=plain[:-3])
    assert numpy.array_equal(numpy.asarray(x), plain)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_recorded_again_is_what_was_recorded(name: str) -> None:
    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) + 1.0
    window, tasks = engine.current().window, []
    for _ in range(3):
        x * 1.0  # joins groups as it did before
        found = CALLS[name](x, y)
        task = window.open.recorded[-1]
        tasks.append(task)
        assert task[1][-1] == found.storage.id and found.storage.version == 1
        assert found.storage.touched == found.storage.written == engine.current().epoch == x.storage.touched
        assert window.held == sum(len(g.recorded) for g in (*window.closed, window.open))
        assert task[3].file == CALLS[name].__code__.co_filename
        assert task[3].line == CALLS[name].__code__.co_firstlineno
    assert len({id(task[0]) for task in tasks}) == 1 and len({id(task[3]) for task in tasks}) == 1
    theirs = CALLS[name](PLAIN, PLAIN + 1.0)
    assert numpy.array_equal(numpy.asarray(found), theirs) and found.dtype == theirs.dtype


def test_lines_are_those_of_the_program() -> None:
    x = np.array(PLAIN) * 1.0
    places = []
    for _ in range(3):
        x + x
        places.append(engine.current().window.open.recorded[-1][3].line)
        x + x
        places.append(engine.current().window.open.recorded[-1][3].line)
    assert places == [places[0], places[0] + 2] * 3


def test_results_that_are_dropped_leave_no_store() -> None:
    stores = engine.current().stores
    x = np.array(PLAIN) * 1.0
    engine.fence()
    gc.collect()
    before = len(stores.alive), len(stores.storages), len(stores.instances)
    for _ in range(200):
        y = x + x
        y = y + x
    gone = weakref.ref(y)
    theirs = weakref.ref(y.storage)
    del y
    assert gone() is None and theirs() is None
    engine.fence()
    assert (len(stores.alive), len(stores.storages), len(stores.instances)) == before


def test_a_handle_that_ends_after_its_task_gives_its_memory_back() -> None:
    stores = engine.current().stores
    x = np.array(PLAIN) * 1.0
    for _ in range(3):
        y = x + x
        engine.fence()
    store = y.storage.id
    assert store in stores.instances and store in stores.alive
    del y
    assert store not in stores.instances and store not in stores.alive and store not in stores.storages


def test_threads_that_record_together() -> None:
    def work(k: int) -> None:
        start.wait()
        x = np.array(PLAIN) * float(k)
        for turn in range(600):
            y = x + x
            y = y - x
            if turn % 97 == 0:
                engine.flush()
        found[k] = numpy.asarray(y)

    found: dict[int, Any] = {}
    start = threading.Barrier(4)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
        run_all(threads)
    finally:
        sys.setswitchinterval(interval)
    for k in range(1, 5):
        assert numpy.array_equal(found[k], PLAIN * float(k) + PLAIN * float(k) - PLAIN * float(k))


def test_recording_waits_for_a_thread_that_is_inside_the_engine() -> None:
    def work() -> None:
        found.append(x + x)

    found: list[Any] = []
    x = np.array(PLAIN) * 1.0
    for _ in range(2):
        engine.flush()
        for _ in range(4):
            x + x
    before = trace.counters["recorded"]
    thread = threading.Thread(target=work)
    with engine.current()._lock:
        thread.start()
        thread.join(0.1)
        assert thread.is_alive() and trace.counters["recorded"] == before and not found
        x + x  # by the thread that holds the lock
        assert trace.counters["recorded"] == before + 1
    thread.join()
    assert trace.counters["recorded"] == before + 2
    assert numpy.array_equal(numpy.asarray(found[0]), PLAIN + PLAIN)


@pytest.mark.not_device("no floating-point flags are kept")
def test_error_modes_hold_for_what_is_recorded_again() -> None:
    x, zero = np.array(PLAIN) * 1.0, np.array(PLAIN) * 0.0
    with np.errstate(all="ignore"):
        for _ in range(3):
            x / zero
        engine.fence()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        x / zero
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        y = x / zero
        engine.fence()
    assert numpy.isinf(numpy.asarray(y)).all()


def test_copies_that_drop_imaginary_parts_say_so_each_time() -> None:
    x = np.array(PLAIN) * 1j
    for _ in range(3):
        with pytest.warns(numpy.exceptions.ComplexWarning):
            assert x.astype("float64").dtype == "float64"


def test_numbers_without_room_in_the_element_type() -> None:
    x = np.array(numpy.arange(SIZE, dtype="int8"))
    for _ in range(3):
        x + 5
    with pytest.raises(OverflowError):
        x + 500
    assert int((x + 5)[3]) == 8


def test_fills_that_wait_come_before_what_uses_them() -> None:
    x = np.array(PLAIN) * 1.0
    for _ in range(4):
        zero = np.zeros(SIZE)
        y = x + x
        y = y + zero
        zero += 1.0
        y = y + zero
        assert float(y[3]) == PLAIN[3] * 2 + 1.0


def test_stores_that_others_see_are_current_after_each_operation() -> None:
    x = np.array(PLAIN) * 1.0
    shown = numpy.asarray(x)
    for turn in range(4):
        y = x + x
        shown[0] = turn
        z = x + x
        assert float(z[0]) == 2.0 * turn
    assert float(y[1]) == 2 * PLAIN[1]


@pytest.mark.parametrize("setting", [{"check": True}, {"window": 3}, {"window": 1}])
def test_settings_of_the_window_hold(setting: dict[str, Any]) -> None:
    x = np.array(PLAIN) * 1.0
    with using(**setting):
        for _ in range(5):
            y = x + x
            y = y * x
            assert setting.get("window", 99) > engine.current().window.held
    assert numpy.array_equal(numpy.asarray(y), (PLAIN + PLAIN) * PLAIN)


def test_an_operation_that_does_not_fit_the_open_group_begins_another() -> None:
    x, grid = np.array(PLAIN) * 1.0, np.array(PLAIN.reshape(400, 400)) * 1.0
    for _ in range(3):
        for _ in range(3):
            found = x + x, grid + grid, grid.T + grid, x[1:] + x[:-1]
        engine.fence()
    plain = PLAIN.reshape(400, 400)
    for ours, theirs in zip(found, (PLAIN + PLAIN, plain + plain, plain.T + plain, PLAIN[1:] + PLAIN[:-1]),
                            strict=True):
        assert numpy.array_equal(numpy.asarray(ours), theirs)


def test_the_table_of_known_calls_may_be_cleared_at_any_moment() -> None:
    x = np.array(PLAIN) * 1.0
    for turn in range(6):
        y = x + x
        if turn % 2:
            known.KNOWN.clear()
    assert numpy.array_equal(numpy.asarray(y), PLAIN + PLAIN)


def test_small_steps_are_counted_whoever_records_them() -> None:
    """The rule for loops over slices (stream/walk.py) is told of every small task, and of the large ones."""
    x, grid = np.array(PLAIN.reshape(400, 400)) * 1.0, np.array(PLAIN.reshape(400, 400)) + 1.0
    found = []
    for _ in range(4):
        engine.fence()
        y = grid * x
        for _ in range(3):
            np.roll(y, 1, axis=0)
            y[1:-1, 0] = 2.0
        found.append(sorted(engine.current().walk.counts.values()))
        y += x
        found.append(sorted(engine.current().walk.counts.values()))
    assert found == [[1], []] * 4


@pytest.mark.skipif(native is None, reason="Python's code runs")
def test_compiled_code_records_small_steps_and_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A roll by parts, as on several ranks, is a large task and a small one; of an array that one point
    computes, both join the group."""
    monkeypatch.setattr(joining, "TURNS", {})
    known.KNOWN.clear()
    grid = np.array(PLAIN[:150 * 150].reshape(150, 150)) * 1.0
    for _ in range(4):
        engine.flush()
        x = grid * 1.0
        calls = [number_of_calls(lambda: np.roll(x, 1, axis=0)) for _ in range(3)]  # noqa: B023
    assert calls[1] == calls[2] <= 10  # the gate, and what the rule for loops over slices is told
    known.KNOWN.clear()
