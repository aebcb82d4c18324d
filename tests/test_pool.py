"""The thread pool: order, one run of every point, finish once, flags, waiting, fork, exit, interrupts."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from diffuse.observe.floaterrors import DIVIDE, INVALID, OVERFLOW
from diffuse.runtime.local import native
from diffuse.runtime.local import pool as pool_module
from diffuse.runtime.local.pool import Pool
from tests.moments import interrupted

SCRATCH = np.zeros(8, dtype=np.int64)

SOURCE = """
; block: points, cells, total
define void @step(ptr %block, i64 %p) {          ; cells[p] = cells[p] * 3 + points + p
  %points = load i64, ptr %block
  %at = getelementptr i64, ptr %block, i64 1
  %cells = load ptr, ptr %at
  %cell = getelementptr i64, ptr %cells, i64 %p
  %old = load i64, ptr %cell
  %three = mul i64 %old, 3
  %more = add i64 %three, %points
  %result = add i64 %more, %p
  store i64 %result, ptr %cell
  ret void
}

define void @total(ptr %block) {                 ; total += sum(cells[:points]), read and written unprotected
entry:
  %points = load i64, ptr %block
  %at = getelementptr i64, ptr %block, i64 1
  %cells = load ptr, ptr %at
  %to = getelementptr i64, ptr %block, i64 2
  %total = load ptr, ptr %to
  %before = load i64, ptr %total
  br label %each
each:
  %p = phi i64 [ 0, %entry ], [ %next, %each ]
  %sum = phi i64 [ %before, %entry ], [ %added, %each ]
  %cell = getelementptr i64, ptr %cells, i64 %p
  %value = load i64, ptr %cell
  %added = add i64 %sum, %value
  %next = add i64 %p, 1
  %more = icmp ult i64 %next, %points
  br i1 %more, label %each, label %end
end:
  store i64 %added, ptr %total
  ret void
}

define void @last(ptr %block, i64 %p) {          ; the last word of a block of `points` words -> word at it
  %count = load i64, ptr %block
  %index = sub i64 %count, 1
  %at = getelementptr i64, ptr %block, i64 %index
  %target = load ptr, ptr %at
  store i64 %count, ptr %target
  ret void
}

define void @divide(ptr %block, i64 %p) {        ; doubles[2] = doubles[0] / doubles[1]
  %x = load volatile double, ptr %block
  %at = getelementptr double, ptr %block, i64 1
  %y = load volatile double, ptr %at
  %q = fdiv double %x, %y
  %to = getelementptr double, ptr %block, i64 2
  store volatile double %q, ptr %to
  ret void
}

define void @hold(ptr %block, i64 %p) {          ; until *word becomes nonzero
entry:
  %word = load ptr, ptr %block
  br label %look
look:
  %value = load atomic i64, ptr %word seq_cst, align 8
  %zero = icmp eq i64 %value, 0
  br i1 %zero, label %look, label %end
end:
  ret void
}
"""


@cache
def compiled() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(SOURCE), machine)
    engine.finalize_object()
    return engine


def address(name: str) -> int:
    return int(compiled().get_function_address(name))


@pytest.fixture(params=[0, 1, 2, 3, 7])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    made = Pool(request.param, depth=64, spin=5)
    yield made
    made.close()


class Gate:
    """A launch that runs until it is opened."""

    def __init__(self, pool: Pool) -> None:
        self.word = ctypes.c_int64(0)
        pool.submit(address("hold"), 0, 1, struct.pack("q", ctypes.addressof(self.word)), keep=self)

    def open(self) -> None:
        self.word.value = 1


def expected(launches: list[int], width: int) -> tuple[list[int], int]:
    """What `step` and `total` mean, one launch after another; 64-bit arithmetic wraps."""
    cells, total = [0] * width, 0
    for points in launches:
        for p in range(points):
            cells[p] = (cells[p] * 3 + points + p) % 2**64
        total = (total + sum(cells[:points])) % 2**64
    return cells, total


def submit_steps(pool: Pool, launches: list[int], padding: int = 0) -> tuple[list[int], int]:
    width = max(launches)
    cells, total = np.zeros(width, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    for points in launches:
        block = struct.pack("3q", points, cells.ctypes.data, total.ctypes.data) + bytes(padding)
        pool.submit(address("step"), address("total"), points, block)
    pool.fence()
    return [int(c) for c in cells], int(total[0])


#   step ──> total ──> step ──> total ──> ...      each reads what the one before wrote
def test_launches_run_in_order_and_every_point_once(pool: Pool) -> None:
    launches = [1 + (7 * k) % 5 for k in range(5000)]
    assert submit_steps(pool, launches) == expected(launches, 5)


def test_finish_runs_once_and_after_every_point(pool: Pool) -> None:
    assert submit_steps(pool, [64] * 500) == expected([64] * 500, 64)


def test_part_of_a_launch_runs_its_points_alone_and_the_slot_forgets_it(pool: Pool) -> None:
    cells, total = np.zeros(9, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    block = struct.pack("3q", 9, cells.ctypes.data, total.ctypes.data)
    for _ in range(200):
        cells[:] = 0
        assert pool.submit_part(address("step"), 3, 4, block, cells) == pool.submitted
        pool.fence()
        assert cells.tolist() == [0, 0, 0, 12, 13, 14, 15, 0, 0] and not total[0]
    cells[:] = 0
    for _ in range(64):  # every slot of the ring, as a whole launch again
        pool.submit(address("step"), 0, 9, block)
    pool.fence()
    assert [int(c) for c in cells] == expected([9] * 64, 9)[0]


@pytest.mark.parametrize("padding", [0, 4096, 1 << 20])
def test_blocks_of_any_length_are_copied(pool: Pool, padding: int) -> None:
    assert submit_steps(pool, [2, 3, 1] * 50, padding) == expected([2, 3, 1] * 50, 3)


def test_long_and_short_blocks_share_the_ring(pool: Pool) -> None:
    seen = np.zeros(300, dtype=np.int64)
    sizes = [1 + (k * 7919) % 9001 if k % 3 else 20_000 for k in range(1, 301)]
    for k, words in enumerate(sizes):
        block = bytearray(8 * max(words, 2))
        struct.pack_into("q", block, 0, max(words, 2))
        struct.pack_into("q", block, len(block) - 8, seen[k:].ctypes.data)
        pool.submit(address("last"), 0, 1, bytes(block))
        block[:] = bytes(len(block))
    pool.fence()
    assert seen.tolist() == [max(words, 2) for words in sizes]


def test_wait_returns_when_its_launch_is_done(pool: Pool) -> None:
    cells, total = np.zeros(4, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    block = struct.pack("3q", 4, cells.ctypes.data, total.ctypes.data)
    for _ in range(1000):
        sequence = pool.submit(address("step"), address("total"), 4, block)
        pool.wait(sequence)
        assert pool.completed >= sequence
    assert int(total[0]) == expected([4] * 1000, 4)[1]


def test_a_launch_does_not_wait_for_itself() -> None:
    pool = Pool(1)
    gate = Gate(pool)
    assert pool.submitted == 1 and pool.completed == 0
    gate.open()
    pool.fence()
    assert pool.completed == 1
    pool.close()


def test_workers_run_what_nobody_waits_for() -> None:
    pool = Pool(1)
    cells, total = np.zeros(2, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    for _ in range(10):
        block = struct.pack("3q", 2, cells.ctypes.data, total.ctypes.data)
        sequence = pool.submit(address("step"), address("total"), 2, block)
        deadline = time.monotonic() + 30
        while pool.completed < sequence and time.monotonic() < deadline:
            time.sleep(0.001)
        assert pool.completed == sequence
    pool.close()


class Placed:
    """A pool of one worker, the number of its thread, and launches on it."""

    def __init__(self) -> None:
        self.first = Pool(1)
        self.first.start()  # with it begins the thread that creates others
        before = set(os.listdir("/proc/self/task"))
        self.pool = Pool(1, spin=5)
        self.pool.start()
        (self.worker,) = map(int, set(os.listdir("/proc/self/task")) - before)
        until(lambda: self.pool.threads.field(ctypes.c_int32, "named").value == 1)
        self.cells, self.total = np.zeros(2, dtype=np.uint64), np.zeros(1, dtype=np.uint64)

    def launch(self) -> None:
        block = struct.pack("3q", 2, self.cells.ctypes.data, self.total.ctypes.data)
        self.pool.wait(self.pool.submit(address("step"), address("total"), 2, block))

    @property
    def processors(self) -> set[int]:
        """The processors on which the worker may run."""
        return os.sched_getaffinity(self.worker)

    def close(self) -> None:
        self.pool.close()
        self.first.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_worker_keeps_off_the_processor_of_the_submitter() -> None:
    everywhere, placed = os.sched_getaffinity(0), Placed()
    try:
        for here in sorted(everywhere)[:2] * 2:
            os.sched_setaffinity(0, {here})
            placed.launch()
            assert placed.processors == everywhere - {here}
    finally:
        os.sched_setaffinity(0, everywhere)
    placed.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_worker_stays_on_the_processors_that_somebody_gave_it() -> None:
    everywhere, placed = os.sched_getaffinity(0), Placed()
    here, there = sorted(everywhere)[:2]
    try:
        os.sched_setaffinity(0, {here})
        placed.launch()
        os.sched_setaffinity(placed.worker, {here})
        for processor in (there, here, there):
            os.sched_setaffinity(0, {processor})
            placed.launch()
            assert placed.processors == {here}
    finally:
        os.sched_setaffinity(0, everywhere)
    placed.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_forked_child_leaves_the_threads_of_its_parent_where_they_are() -> None:
    everywhere, placed = os.sched_getaffinity(0), Placed()
    here, there = sorted(everywhere)[:2]
    try:
        os.sched_setaffinity(0, {here})
        placed.launch()
        child = os.fork()
        if child == 0:
            os.sched_setaffinity(0, {there})
            placed.launch()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert placed.processors == everywhere - {here}
    finally:
        os.sched_setaffinity(0, everywhere)
    placed.close()


def test_a_light_launch_wakes_no_sleeping_worker() -> None:
    pool = Pool(1, spin=5)
    pool.start()
    sleepers = pool.threads.field(ctypes.c_uint32, "sleepers")
    cells, total = np.zeros(4, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    block = struct.pack("3q", 4, cells.ctypes.data, total.ctypes.data)
    until(lambda: sleepers.value == 1)
    light = [pool.submit(address("step"), address("total"), 4, block, light=True) for _ in range(10)]
    time.sleep(0.05)
    assert pool.completed == 0 and sleepers.value == 1
    pool.wait(light[4])                                  # whoever waits runs them
    assert pool.completed >= 5
    heavy = pool.submit(address("step"), address("total"), 4, block)
    until(lambda: pool.completed == heavy)
    assert int(total[0]) == expected([4] * 11, 4)[1]
    pool.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait, for half a minute at most, until a condition holds."""
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert condition()


def test_a_full_queue_makes_the_submitter_wait() -> None:
    pool = Pool(1, depth=8)
    gate = Gate(pool)
    opener = threading.Timer(0.2, gate.open)
    opener.start()
    cells, total = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    block = struct.pack("3q", 1, cells.ctypes.data, total.ctypes.data)
    for _ in range(100):
        pool.submit(address("step"), address("total"), 1, block)
        assert pool.submitted - pool.completed <= 8
    pool.fence()
    assert int(total[0]) == expected([1] * 100, 1)[1]
    pool.close()


def test_what_a_launch_keeps_is_let_go_after_it_ran(pool: Pool) -> None:
    class Thing:
        def __del__(self) -> None:
            gone.append(pool.completed)

    gone: list[int] = []
    gate = Gate(pool)
    for _ in range(3):
        pool.submit(address("step"), 0, 1, struct.pack("2q", 1, SCRATCH.ctypes.data), keep=Thing())
    pool.keep(Thing())
    assert gone == []
    gate.open()
    pool.fence()
    assert gone == [4] * 4


def test_another_thread_may_release_what_a_launch_keeps(pool: Pool) -> None:
    class Released(deque[Any]):
        """As if a thread that waits for launches had run and released them at once."""

        def append(self, item: Any) -> None:
            pool.wait(pool.submitted)

    pool.start()
    pool.threads.kept = Released()
    pool.submit(address("step"), 0, 1, struct.pack("2q", 1, SCRATCH.ctypes.data), keep=object())
    pool.fence()


@pytest.mark.parametrize("points", [0, -1, 1 << 20])
def test_wrong_numbers_of_points_are_refused(points: int) -> None:
    pool = Pool(1)
    with pytest.raises(ValueError, match=f"points={points}: a launch has between 1 and 1048575"):
        pool.submit(address("step"), 0, points, b"")
    assert submit_steps(pool, [3] * 10) == expected([3] * 10, 3)
    pool.close()


def test_depth_is_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="depth=100"):
        Pool(1, depth=100)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("x, y, seen", [
    (1.0, 2.0, 0), (1.0, 0.0, DIVIDE), (0.0, 0.0, INVALID), (1e308, 1e-308, OVERFLOW),
])
def test_floating_point_exceptions_are_collected(portable: bool, x: float, y: float, seen: int) -> None:
    pool = Pool(1, portable=portable)
    for points in (1, 8):
        pool.submit(address("divide"), 0, points, struct.pack("3d", x, y, 0.0))
        pool.submit(address("divide"), 0, points, struct.pack("3d", 1.0, 4.0, 0.0))
        pool.fence()
        assert pool.flags() == seen
        assert pool.flags() == 0
    pool.close()


def test_exceptions_of_kernels_stay_out_of_the_waiting_thread() -> None:
    pool = Pool(0)  # so that this thread runs the kernel
    pool.submit(address("divide"), 0, 1, struct.pack("3d", 1.0, 0.0, 0.0))
    fetestexcept = ctypes.CDLL("libm.so.6").fetestexcept
    ctypes.CDLL("libm.so.6").feclearexcept(0x3F)
    pool.fence()
    assert fetestexcept(0x1D) == 0
    assert pool.flags() == DIVIDE


def test_exceptions_of_the_waiting_thread_stay_out_of_the_flags() -> None:
    pool = Pool(0)
    pool.submit(address("divide"), 0, 1, struct.pack("3d", 1.0, 4.0, 0.0))
    libm = ctypes.CDLL("libm.so.6")
    libm.feraiseexcept(0x4)
    pool.fence()
    assert libm.fetestexcept(0x4) == 0x4
    assert pool.flags() == 0
    libm.feclearexcept(0x3F)


def test_pools_do_not_disturb_each_other() -> None:
    pools = [Pool(1), Pool(2)]
    launches = [1 + k % 3 for k in range(300)]
    for _ in range(5):
        for pool in pools:
            assert submit_steps(pool, launches) == expected(launches, 3)
    pools[0].close()
    assert submit_steps(pools[1], launches) == expected(launches, 3)
    pools[1].close()


def test_several_threads_wait_at_once() -> None:
    pool = Pool(1)
    gate = Gate(pool)
    cells, total = np.zeros(4, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    block = struct.pack("3q", 4, cells.ctypes.data, total.ctypes.data)
    sequences = [pool.submit(address("step"), address("total"), 4, block) for _ in range(50)]
    done: list[bool] = []

    def wait(sequence: int) -> None:
        pool.wait(sequence)
        done.append(pool.completed >= sequence)

    threads = [threading.Thread(target=wait, args=(s,)) for s in sequences[::10]]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    assert not done
    gate.open()
    for thread in threads:
        thread.join(30)
    assert done == [True] * len(threads)
    pool.fence()
    assert int(total[0]) == expected([4] * 50, 4)[1]
    pool.close()


def test_a_closed_pool_starts_again() -> None:
    pool = Pool(2)
    for _ in range(3):
        assert submit_steps(pool, [2] * 20) == expected([2] * 20, 2)
        pool.close()


def test_a_dropped_pool_finishes_its_work() -> None:
    before = set(os.listdir("/proc/self/task"))  # some of which may be about to end
    pool = Pool(3)
    cells, total = np.zeros(4, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    for _ in range(20):
        block = struct.pack("3q", 4, cells.ctypes.data, total.ctypes.data)
        pool.submit(address("step"), address("total"), 4, block)
    workers = set(os.listdir("/proc/self/task")) - before
    assert len(workers) == 3
    del pool
    assert int(total[0]) == expected([4] * 20, 4)[1]
    assert not workers & set(os.listdir("/proc/self/task"))


def test_an_interrupt_leaves_the_pool_usable() -> None:
    pool = Pool(1)
    gate = Gate(pool)
    pool.submit(address("step"), 0, 1, struct.pack("2q", 1, SCRATCH.ctypes.data))
    deadline = time.monotonic() + 30
    while not _claimed(pool) and time.monotonic() < deadline:
        time.sleep(0.001)  # the worker must hold the gate, so that the wait below can be interrupted
        pool.submit(address("step"), 0, 2, struct.pack("2q", 2, SCRATCH.ctypes.data))
    interrupt = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        pool.fence()
    gate.open()
    assert submit_steps(pool, [3] * 50) == expected([3] * 50, 3)
    pool.close()


def _claimed(pool: Pool) -> bool:
    """Has a worker claimed the point of the launch that is running?"""
    return bool(pool.threads.ticket.value & native.MOST_POINTS)


def in_child(function: Callable[[], bool]) -> bool:
    """The verdict of a forked child, which gets a minute."""
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            os._exit(0 if function() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    pool = Pool(2)
    launches = [3] * 200
    assert submit_steps(pool, launches) == expected(launches, 3)
    cells, total = np.zeros(3, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    gate = Gate(pool)
    for _ in launches:  # still to run when the fork comes
        block = struct.pack("3q", 3, cells.ctypes.data, total.ctypes.data)
        pool.submit(address("step"), address("total"), 3, block)

    def child() -> bool:
        inherited = int(total[0]) == expected(launches, 3)[1]
        own = submit_steps(pool, launches) == expected(launches, 3)
        own = own and len(os.listdir("/proc/self/task")) == 4  # one that starts them
        pool.close()
        return inherited and own

    threading.Timer(0.2, gate.open).start()
    assert in_child(child)
    assert submit_steps(pool, launches) == expected(launches, 3)
    pool.close()


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "del pool", "pool.close()", "raise SystemExit"])
def test_exit_finishes_pending_work(ending: str) -> None:
    program = f"""
import atexit, struct, sys
import numpy as np
from tests.test_pool import address, expected
from diffuse.runtime.local.pool import Pool
from tests.moments import interrupted
cells, total = np.zeros(4, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
atexit.register(lambda: print(int(total[0]) == expected([4] * 100, 4)[1], flush=True))
pool = Pool(2)
block = struct.pack("3q", 4, cells.ctypes.data, total.ctypes.data)
for _ in range(100):
    pool.submit(address("step"), address("total"), 4, block)
{ending}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                          cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_an_interrupt_at_any_line_leaves_a_pool_that_works() -> None:
    """Starting, submitting, waiting and closing: every launch runs once or not at all, no thread is lost."""
    moment = 0
    while True:
        moment += 1
        pool = Pool(2, depth=8, spin=5)
        cells, total = np.zeros(4, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
        block = struct.pack("3q", 4, cells.ctypes.data, total.ctypes.data)

        def work() -> None:
            for _ in range(3):
                pool.submit(address("step"), address("total"), 4, block, keep=cells)
            pool.fence()
            pool.close()

        # what the worker runs; and a flag that is put back in one step, before which Python never looks
        skipped = {"loaded", "_loaded", "__init__", "_start", "_end", "purge"}
        over = not interrupted(work, moment, {pool_module.__file__}, skipped)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set(), moment
        while pool.submitted < 3:
            pool.submit(address("step"), address("total"), 4, block)
        pool.fence()
        assert int(total[0]) == expected([4] * 3, 4)[1], moment
        pool.submit(address("step"), address("total"), 4, block, keep=cells)
        assert len(pool.threads.handles) == 2
        pool.fence()
        assert not pool.threads.kept
        pool.close()
        if over:
            break
    assert moment > 40
