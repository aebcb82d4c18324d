"""The stream from end to end, below the array library: groups, liveness, memory, opaque calls, errors."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from diffuse import settings
from diffuse.ir import Scalar, view
from diffuse.ir.view import View
from diffuse.observe import trace
from diffuse.stream import engine
from diffuse.stream.stores import Storage
from tests.around import around, fenced

F = "float64"
SHAPE = (300, 200)


fresh = around(fenced, compile="wait", window="auto", min_chunk=1000)
"""Each test starts with nothing held and ends with nothing held."""


def whole(shape: tuple[int, ...] = SHAPE) -> View:
    strides = tuple(8 * int(np.prod(shape[d + 1:])) for d in range(len(shape)))
    return view.of(shape, F, F, 8, 0, strides, shape)


def attached(array: Any) -> Storage:
    return engine.attach(array)


def apply(operation: str, *inputs: Storage | float, shape: tuple[int, ...] = SHAPE) -> Storage:
    out = engine.create(shape, F)
    into(operation, out, *inputs, shape=shape)
    return out


def into(operation: str, out: Storage, *inputs: Storage | float, shape: tuple[int, ...] = SHAPE) -> None:
    operands = tuple((x, whole(shape)) if isinstance(x, Storage) else Scalar(k, F, x)
                     for k, x in enumerate(inputs))
    engine.record(operation, (F,) * (len(inputs) + 1), shape, operands, ((out, whole(shape)),))


def value(storage: Storage, shape: tuple[int, ...] = SHAPE) -> Any:
    return engine.fetch(storage).view(F).reshape(shape).copy()


def launched() -> int:
    return trace.snapshot()["launched"]


def inputs() -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    return random.random(SHAPE), random.random(SHAPE)


def test_a_chain_runs_as_one_task_and_makes_no_temporary() -> None:
    a, b = inputs()
    x, y = attached(a), attached(b)
    gc.collect()  # stores that only cycles of an earlier test hold do not go while this one counts
    before, memory = launched(), len(engine.current().stores.instances)
    total = apply("add", x, y)
    result = apply("multiply", total, 2.0)
    del total
    np.testing.assert_array_equal(value(result), (a + b) * 2.0)
    assert launched() - before == 1
    assert len(engine.current().stores.instances) == memory + 1


def test_what_the_program_holds_is_kept() -> None:
    a, b = inputs()
    x, y = attached(a), attached(b)
    total = apply("add", x, y)
    result = apply("multiply", total, 2.0)
    np.testing.assert_array_equal(value(result), (a + b) * 2.0)
    np.testing.assert_array_equal(value(total), a + b)


def test_a_result_that_nobody_sees_is_not_computed() -> None:
    x = attached(inputs()[0])
    before = launched()
    apply("sqrt", x)
    engine.fence()
    assert launched() == before


def test_a_replay_takes_new_values_and_sizes_without_a_plan() -> None:
    def turn(shape: tuple[int, int], factor: float) -> Any:
        a = np.arange(float(np.prod(shape))).reshape(shape)
        x = attached(a)
        half = apply("multiply", x, factor, shape=shape)
        found = value(apply("add", half, x, shape=shape), shape)
        np.testing.assert_array_equal(found, a * factor + a)

    turn((300, 200), 0.5)
    plans = trace.snapshot()["plans"]
    turn((411, 97), 0.25)
    assert trace.snapshot()["plans"] == plans


def test_liveness_is_part_of_what_is_remembered() -> None:
    a, b = inputs()
    x, y = attached(a), attached(b)
    for keep in (False, True, False, True):
        total = apply("add", x, y)
        result = apply("multiply", total, 3.0)
        held = total if keep else None
        del total
        np.testing.assert_array_equal(value(result), (a + b) * 3.0)
        if held is not None:
            np.testing.assert_array_equal(value(held), a + b)
        held = None


def test_when_an_operand_dies_that_no_result_can_take_over_makes_no_plan() -> None:
    """Copies of small arrays of NumPy's live as long as chance will have it."""
    a, column = inputs()[0], np.arange(1.0, SHAPE[0] + 1.0)
    x = attached(a)
    plans, kept = [], []
    for keep in (True, False, True, False):
        divisor, out = attached(column.copy()), engine.create(SHAPE, F)
        part = view.of((SHAPE[0],), F, F, 8, 0, (8, 0), SHAPE)
        engine.record("divide", (F,) * 3, SHAPE, ((x, whole()), (divisor, part)), ((out, whole()),))
        kept += [divisor] if keep else []
        del divisor
        np.testing.assert_array_equal(value(out), a / column[:, None])
        plans.append(trace.snapshot()["plans"])
    assert plans == plans[:1] * 4


def test_a_pending_task_keeps_its_store() -> None:
    """The sum of a shifted view cannot join the task that wrote the store, and still finds it."""
    a = np.arange(4000.0).reshape(40, 100)
    x = attached(a)
    doubled = apply("add", x, x, shape=a.shape)
    part = view.of(a.shape, F, F, 8, 800, (800, 8), (39, 100))
    result = engine.create((39, 100), F)
    engine.record("negative", (F, F), (39, 100), ((doubled, part),), ((result, whole((39, 100))),))
    del doubled
    np.testing.assert_array_equal(value(result, (39, 100)), -(a + a)[1:])


@pytest.mark.parametrize("window", [1, 2, 3, 7, "auto"])
def test_the_window_does_not_show_in_the_result(window: int | str) -> None:
    a, b = inputs()
    with settings.using(window=window):
        x, y = attached(a), attached(b)
        expected = a
        z = x
        for k in range(20):
            z = apply("add", apply("multiply", z, 0.5), y)
            expected = expected * 0.5 + b
        np.testing.assert_array_equal(value(z), expected)


def test_a_loop_makes_the_same_groups_every_turn() -> None:
    a, b = inputs()
    x, y = attached(a), attached(b)

    def turn(z: Storage) -> Storage:
        for _ in range(35):
            z = apply("add", apply("multiply", z, 0.5), y)
        return z

    z = x
    for _ in range(3):
        z = turn(z)
    engine.fence()
    plans = trace.snapshot()["plans"]
    for _ in range(6):
        z = turn(z)
    engine.fence()
    assert trace.snapshot()["plans"] <= plans + 1


def test_host_functions_keep_their_place_in_the_stream() -> None:
    a, b = inputs()
    x, y = attached(a), attached(b)
    total = apply("add", x, y)
    turned = engine.create(SHAPE, F)

    def flip(source: Any, target: Any) -> None:
        target[...] = source[::-1]

    engine.call("flip", flip, ((total, whole()),), ((turned, whole()),))
    into("multiply", total, total, 0.0)
    np.testing.assert_array_equal(value(apply("add", turned, total)), (a + b)[::-1])


def test_overlap_is_told_apart() -> None:
    x = attached(np.zeros(SHAPE))
    top, low, even = (view.of(SHAPE, F, F, 8, o, s, n) for o, s, n in (
        (0, (1600, 8), (299, 200)), (1600, (1600, 8), (299, 200)), (0, (1600, 16), (300, 100))))
    odd = view.of(SHAPE, F, F, 8, 8, (1600, 16), (300, 100))
    assert engine.overlap((x, top), (x, top)) == "same"
    assert engine.overlap((x, top), (x, low)) == "overlap"
    assert engine.overlap((x, even), (x, odd)) == "apart"
    assert engine.overlap((x, top), (attached(np.zeros(SHAPE)), top)) == "apart"


def test_exported_memory_is_up_to_date_when_the_call_returns() -> None:
    a = np.zeros(SHAPE)
    x = attached(a)
    x.show(None)
    into("add", x, x, 1.0)
    assert a[0, 0] == 1.0


def test_a_store_that_is_shown_often_asks_few_who_hold_it() -> None:
    x, asked = attached(np.zeros(SHAPE)), [0]

    def held() -> bool:
        asked[0] += 1
        return True

    for _ in range(1000):
        x.show_while(held)
    assert asked[0] < 3000 and x.shown()


def test_no_memory_is_an_error_at_the_read_and_the_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    x = attached(inputs()[0])
    runtime = engine.current().runtime
    result = apply("sqrt", x)

    def refuse(nbytes: int, *_: Any) -> Any:
        raise MemoryError(f"{nbytes} bytes")

    with monkeypatch.context() as patch:
        patch.setattr(runtime, "create", refuse)
        with pytest.raises(MemoryError) as caught:
            value(result)
    assert "test_engine.py" in "".join(caught.value.__notes__)
    with pytest.raises(MemoryError):
        value(result)
    np.testing.assert_array_equal(value(apply("sqrt", x)), np.sqrt(inputs()[0]))


def test_memory_goes_back_when_the_last_handle_does() -> None:
    x = attached(inputs()[0])
    y = apply("sqrt", x)
    engine.fence()
    held = len(engine.current().stores.instances)
    del y
    assert len(engine.current().stores.instances) == held - 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_reduction_has_the_same_bits_for_any_number_of_threads(threads: int) -> None:
    """Compiled, in a process of its own: the number of threads is fixed when the runtime starts."""
    program = ("import numpy, diffuse.numpy as np; from diffuse.settings import config; "
               "config.compile='wait'; config.small=0; x = numpy.random.default_rng(3).random((301, 1777)); "
               "a = np.asarray(x.copy()); s = a * 2.0; print([float(v).hex() for v in ("
               "s.sum(), s.mean(), s.sum(axis=0)[7], s.sum(axis=1)[9], "
               "s.max(), (s * s).prod(), np.ones(8192).sum())])")
    found = run_program(program, threads)
    assert found == run_program(program, 2)
    assert found.endswith(f"'{8192.0.hex()}']")


def run_program(program: str, threads: int) -> str:
    environment = {**os.environ, "DIFFUSE_NUM_THREADS": str(threads), "DIFFUSE_MIN_CHUNK": "1000"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
                          timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.local_only("stores have no addresses; one that ends is used again for the next of its shape")
def test_a_result_takes_over_the_memory_of_an_input_that_ends() -> None:
    a = inputs()[0]
    for turn in range(3):
        x = apply("multiply", attached(a), 1.0)
        engine.fence()
        place = engine.current().stores.instance(x.store.id).address
        before = trace.snapshot().get("donated", 0)
        y = apply("sqrt", x)
        del x
        np.testing.assert_array_equal(value(y), np.sqrt(a))
        assert engine.current().stores.instance(y.store.id).address == place
        assert trace.snapshot()["donated"] == before + 1, turn


@pytest.mark.local_only("the local runtime interprets what is compiled while its threads have no code")
def test_memory_that_the_interpreter_still_reads_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    a = inputs()[0]
    for turn in range(2):
        held, ends = attached(a), apply("multiply", attached(a), 2.0)
        engine.fence()
        if turn:
            monkeypatch.setattr(engine.current().runtime, "_submit", None)
            monkeypatch.setattr(engine.current().runtime, "_starts", lambda seconds: False)
        x, y, z = apply("add", held, 1.0), apply("copy", ends), apply("multiply", held, 5.0)
        del ends
        for found, expected in ((x, a + 1), (y, a * 2), (z, a * 5)):
            np.testing.assert_array_equal(value(found), expected)


def test_memory_that_somebody_sees_is_not_taken_over() -> None:
    a = inputs()[0]
    x = apply("multiply", attached(a), 1.0)
    seen = engine.fetch(x).view(F)
    y = apply("sqrt", x)
    del x
    engine.fence()
    np.testing.assert_array_equal(seen.reshape(SHAPE), a)
    np.testing.assert_array_equal(value(y), np.sqrt(a))


def test_a_shifted_input_is_not_written_over() -> None:
    a = np.arange(1000.0).repeat(60).reshape(300, 200)
    x = apply("multiply", attached(a), 1.0)
    engine.fence()
    turned = view.of(SHAPE, F, F, 8, 8 * (300 * 200 - 1), (-1600, -8), SHAPE)
    y = engine.create(SHAPE, F)
    engine.record("negative", (F, F), SHAPE, ((x, turned),), ((y, whole()),))
    del x
    np.testing.assert_array_equal(value(y), -a[::-1, ::-1])


@pytest.mark.not_device("launches have one point")
def test_a_reduction_along_rows_is_complete_before_anyone_reads_it() -> None:
    """Each point folds whole rows: their reader is in the same task, where points complete such folds."""
    a = inputs()[0]
    x = attached(a)
    total = engine.create((300, 1), F)
    column = whole((300, 1))
    engine.record("sum", (F, F), SHAPE, ((x, whole()),), ((total, column.kept(SHAPE, (0,))),), "sum")
    out = engine.create(SHAPE, F)
    operands = ((x, whole()), (total, column.broadcast(SHAPE)))
    engine.record("divide", (F, F, F), SHAPE, operands, ((out, whole()),))
    before = launched()
    np.testing.assert_allclose(value(out), a / a.sum(axis=1, keepdims=True), rtol=1e-14)
    assert launched() - before == (1 if engine.current().runtime.completes else 2)


@pytest.mark.not_device("launches have one point")
def test_a_task_that_shares_nothing_begins_the_next_group() -> None:
    """Over another space and other stores it gains nothing; what comes after may need it in its group."""
    a, b = inputs()
    x, y = attached(a), attached(b[:150].copy())
    before = launched()
    one, two = apply("sqrt", x), apply("negative", y, shape=(150, 200))
    three = apply("add", y, two, shape=(150, 200))
    engine.fence()
    assert launched() - before == 2
    np.testing.assert_array_equal(value(one), np.sqrt(a))
    np.testing.assert_array_equal(value(three, (150, 200)), np.zeros((150, 200)))
