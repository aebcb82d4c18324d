"""The runtimes behind the protocol: the same program on each gives the same memory."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from diffuse import settings
from diffuse.observe.floaterrors import DIVIDE, INVALID
from diffuse.runtime import RUNTIMES, make
from diffuse.runtime.base import Fate, Launch, Runtime
from diffuse.runtime.local.runtime import Local
from diffuse.runtime.reference import Reference
from tests.jobs import python
from tests.scaling import Scale, attach, code, fresh, numbers, scale

RUNS: dict[str, Callable[[], Runtime]] = {
    "reference": lambda: Reference(3),
    "shuffled": lambda: Reference(3, seed=1),
    "local 1": lambda: Local(1),
    "local 2": lambda: Local(2),
    "local 4": lambda: Local(4),
}
if os.environ.get("DIFFUSE_RUNTIME") == "legate":  # test_legate.py; a process has Legate once
    RUNS = {"legate": cache(lambda: make("legate", 3))}


@pytest.fixture(params=RUNS)
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    made = RUNS[request.param]()
    yield made
    made.fence()
    if isinstance(made, Local):
        made.close()


#   a ──x1.5──> b ──x0.5──> c ──x1.5──> b ...      the sums of all of them are added up in `total`
@pytest.mark.parametrize("compiled", [True, False, None], ids=["compiled", "interpreted", "switching"])
def test_a_chain_of_launches(runtime: Runtime, compiled: bool | None) -> None:
    start = np.arange(1000.0) / 7
    total = np.zeros(1)
    a, sum_of_all = attach(runtime, start), attach(runtime, total)
    b, c = fresh(runtime, 1000), fresh(runtime, 1000)
    kernel = Scale(code()[0] if compiled else None)
    expected, expected_total = start, 0.0
    source, target, other = a, b, c
    for k in range(60):
        factor = 1.5 if k % 2 == 0 else 0.5
        if compiled is None and k == 30:
            kernel.native = code()[0]
        scale(runtime, kernel, source, target, factor, sum_of_all, points=3)
        expected = expected * factor
        for low in (0, 334, 668):
            tile = 0.0
            for x in expected[low:low + 334].tolist():
                tile += x
            expected_total += tile
        source, target, other = target, other if k == 0 else source, other
    runtime.fence()
    assert np.array_equal(numbers(runtime, source), expected)
    assert numbers(runtime, sum_of_all)[0] == expected_total
    if isinstance(runtime, Local):
        assert len(kernel.interpreted) == 4 * {True: 0, False: 60, None: 30}[compiled]


def test_released_memory_is_reused_behind_running_launches(runtime: Runtime) -> None:
    """Each step makes a store, fills it from the last and releases that one: never more than a few blocks."""
    start = np.ones(40_000)
    total = np.zeros(1)
    held, sum_of_all = attach(runtime, start), attach(runtime, total)
    kernel = Scale(code()[0])
    for _ in range(200):
        new = fresh(runtime, 40_000)
        scale(runtime, kernel, held, new, 1.0, sum_of_all, points=2)
        runtime.release(held)
        held = new
    runtime.fence()
    assert np.array_equal(numbers(runtime, held), start)
    assert numbers(runtime, sum_of_all)[0] == 200 * 40_000
    if isinstance(runtime, Local):
        assert runtime.usage().peak <= 3 * 40_960 * 8


def test_call_runs_after_everything_before_it(runtime: Runtime) -> None:
    start, total = np.arange(1000.0), np.zeros(1)
    a, b, sum_of_all = attach(runtime, start), fresh(runtime, 1000), attach(runtime, total)
    seen = []
    for _ in range(20):
        scale(runtime, Scale(code()[0]), a, b, 2.0, sum_of_all, points=2)
    runtime.call(lambda: seen.append(numbers(runtime, sum_of_all)[0]))
    assert seen == [20 * 999_000.0]


def test_an_exception_in_a_call_comes_out_and_the_stream_goes_on(runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError):
        runtime.call(lambda: print(1 // 0))
    test_call_runs_after_everything_before_it(runtime)


def test_an_exception_in_the_interpreter_comes_out_and_the_stream_goes_on(runtime: Runtime) -> None:
    class Broken(Scale):
        def point(self, values: tuple[Any, ...], p: int) -> None:
            raise FloatingPointError("at a point")

    a, b, c = fresh(runtime, 10), fresh(runtime, 10), fresh(runtime, 1)
    with pytest.raises(FloatingPointError, match="at a point"):
        scale(runtime, Broken(None), a, b, 1.0, c, points=2)
    test_call_runs_after_everything_before_it(runtime)


def test_memory_error_leaves_the_runtime_usable(runtime: Runtime) -> None:
    """Under Legate a store takes memory when a launch first writes it."""
    with pytest.raises(MemoryError):
        vast = fresh(runtime, 1 << 52)
        scale(runtime, Scale(code()[0]), vast, vast, 1.0, vast, points=2)
    with settings.using(memory=1 << 20):
        if isinstance(runtime, Local):
            with pytest.raises(MemoryError, match="DIFFUSE_MEMORY"):
                runtime.create(2 << 20)
        runtime.create(1000)
    test_call_runs_after_everything_before_it(runtime)


def test_the_fate_of_what_an_interrupt_cut_off() -> None:
    """Local knows which launches began; where nobody knows they count as lost."""
    local, reference = Local(2), Reference(2)
    a, total = local.attach(np.ones(100)), local.attach(np.zeros(1))
    assert reference.fate(reference.mark()) is Fate.LOST
    mark = local.mark()
    assert local.fate(mark) is Fate.PENDING
    scale(local, Scale(code()[0]), a, a, 1.0, total, points=2)
    assert local.fate(mark) is Fate.DONE
    mark = local.mark()
    with pytest.raises(ZeroDivisionError):
        local.call(lambda: print(1 // 0))
    assert local.fate(mark) is Fate.LOST, "it stopped halfway"
    mark = local.mark()
    local.call(lambda: None)
    assert local.fate(mark) is Fate.DONE
    local.close()


@pytest.mark.parametrize("compiled", [True, False])
def test_floating_point_exceptions_are_reported_once(runtime: Runtime, compiled: bool) -> None:
    huge, total = np.full(100, np.inf), np.zeros(1)
    a, b, sum_of_all = attach(runtime, huge), fresh(runtime, 100), attach(runtime, total)
    kernel = Scale(code()[0] if compiled else None)
    scale(runtime, kernel, a, b, 2.0, sum_of_all, points=2)
    runtime.fence()
    assert runtime.flags() == 0
    scale(runtime, kernel, a, b, 0.0, sum_of_all, points=2)     # inf * 0
    scale(runtime, kernel, a, b, 1.0, sum_of_all, points=2)
    runtime.fence()
    assert runtime.flags() & (INVALID | DIVIDE) == INVALID
    assert runtime.flags() == 0


def test_an_attached_array_is_shared_and_kept_alive(runtime: Runtime) -> None:
    array = np.ones((3, 4))
    gone = weakref.ref(array)
    instance = runtime.attach(array)
    runtime.host(instance, True)[:8] = np.array([5.0]).view(np.uint8)
    assert array[0, 0] == 5.0 and instance.nbytes == 96
    del array
    gc.collect()
    assert gone() is not None
    runtime.release(instance)
    runtime.fence()
    del instance
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("array", [
    np.array(3.5), np.zeros((0, 3)), np.zeros((2, 0), np.complex64), np.ones(1, bool),
])
def test_arrays_of_every_shape_attach(runtime: Runtime, array: Any) -> None:
    assert runtime.attach(array).nbytes == runtime.host(runtime.attach(array), False).size == array.nbytes


@pytest.mark.parametrize("array", [np.zeros((4, 4)).T[:, 1:], np.zeros(8)[::2], np.array([None])])
def test_arrays_that_are_not_plain_memory_are_refused(runtime: Runtime, array: Any) -> None:
    with pytest.raises(ValueError, match="must be C-contiguous and hold no objects"):
        runtime.attach(array)


@pytest.mark.parametrize("nbytes", [0, 1, 800, 5 << 20])
def test_an_array_outlives_its_instance(runtime: Runtime, nbytes: int) -> None:
    instance = runtime.create(nbytes)
    array = runtime.host(instance, True)
    assert array.nbytes == instance.nbytes == nbytes and array.flags.writeable
    array[:] = 7
    runtime.release(instance)
    del instance
    others = [runtime.create(nbytes) for _ in range(3)]
    for other in others:
        runtime.host(other, True)[:] = 9
    assert (array == 7).all()


def test_memory_comes_back_when_instances_are_dropped_without_release() -> None:
    runtime = Local(1)
    for _ in range(50):
        runtime.host(runtime.create(1 << 20), True)[:] = 1
    assert runtime.usage()[:2] == (0, 1 << 20)
    runtime.close()


def test_a_dropped_runtime_finishes_its_work_first() -> None:
    start, total = np.ones(200_000), np.zeros(1)
    runtime = Local(2)
    a, sum_of_all = runtime.attach(start), runtime.attach(total)
    for _ in range(50):
        b = runtime.create(start.nbytes)
        scale(runtime, Scale(code()[0]), a, b, 1.0, sum_of_all, points=2)
        runtime.release(b)
    del runtime, a, b, sum_of_all
    gc.collect()
    assert total[0] == 50 * 200_000


def test_exit_with_work_pending_is_clean() -> None:
    program = """
import numpy as np
from diffuse.runtime.local.runtime import Local
from tests.scaling import Scale, code, scale
runtime = Local(2)
a, total = runtime.attach(np.ones(1_000_000)), runtime.attach(np.zeros(1))
for _ in range(60):
    b = runtime.create(a.nbytes)
    scale(runtime, Scale(code()[0]), a, b, 1.0, total, points=2)
    runtime.release(b)
"""
    done = python(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_machine_code_is_made_by_the_first_launch_only() -> None:
    program = """
import sys
import numpy as np
from diffuse.runtime.base import Launch
from diffuse.runtime.local.runtime import Local
class Nothing:
    native = None
    def point(self, values, p): pass
    def finish(self, values): pass
runtime = Local(2)
runtime.launch(Launch(Nothing(), (), 2))
runtime.fence()
runtime.flags()
runtime.release(runtime.create(100))
print("llvmlite" in sys.modules)
"""
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_an_attached_array_outlives_the_launches_on_it() -> None:
    runtime = Local(1)  # launches run when someone waits
    source, total = np.ones(1000), np.zeros(1)
    gone = weakref.ref(source)
    a, b, sum_of_all = runtime.attach(source), runtime.create(8000), runtime.attach(total)
    sums = runtime.create(16)
    values = (2, 500, 1000, a.address, 8, b.address, 8, 3.0, sums.address, sum_of_all.address, 0)
    runtime.launch(Launch(Scale(code()[0]), values, 2))
    runtime.release(a)
    del a, source
    gc.collect()
    assert gone() is not None
    runtime.fence()
    assert total[0] == 3000 and gone() is None
    runtime.close()


def test_an_interpreted_launch_sees_what_ran_before_it() -> None:
    runtime = Local(1)
    total = np.zeros(1)
    a, b, c = runtime.attach(np.ones(1000)), runtime.create(8000), runtime.create(8000)
    sum_of_all = runtime.attach(total)
    scale(runtime, Scale(code()[0]), a, b, 2.0, sum_of_all, points=2)
    scale(runtime, Scale(None), b, c, 5.0, sum_of_all, points=2)
    assert total[0] == 12_000
    runtime.close()


def test_two_runtimes_at_once() -> None:
    runtimes = [Local(2), Local(3)]
    results = []
    streams = [(r, r.attach(np.arange(1000.0)), r.create(8000), np.zeros(1)) for r in runtimes]
    for _ in range(100):
        for r, a, b, total in streams:
            scale(r, Scale(code()[0]), a, b, 2.0, r.attach(total), points=3)
    for r, _, _, total in streams:
        r.fence()
        results.append(total[0])
        r.close()
    assert results == [100 * 999_000.0] * 2


def test_points_run_in_order_or_shuffled_by_a_seed() -> None:
    class Order(Scale):
        def point(self, values: tuple[Any, ...], p: int) -> None:
            order.append(p)

        def finish(self, values: tuple[Any, ...]) -> None:
            pass

    def run(seed: int | None) -> list[int]:
        order.clear()
        runtime = Reference(8, seed=seed)
        for _ in range(3):
            runtime.launch(Launch(Order(None), (), 8))
        return list(order)

    order: list[int] = []
    assert run(None) == list(range(8)) * 3
    assert run(1) == run(1) != run(2)
    assert sorted(run(1)) == sorted(list(range(8)) * 3)


def test_runtimes_by_name() -> None:
    for name in RUNTIMES:
        if name not in ("legate", "cuda") or os.environ.get("DIFFUSE_RUNTIME") == name:
            made = make(name, 2)
            assert made.name == name and made.points == (1 if name in ("cuda", "simt") else 2)
    with pytest.raises(ValueError, match="runtime 'legion': expected one of local, reference"):
        make("legion")


def test_points_follow_the_setting() -> None:
    with settings.using(threads=3):
        assert make("local").points == make("reference").points == 3
