"""The thread pool beside processors that are given away, forks, exits and interrupts."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from diffuse.runtime.local import native
from diffuse.runtime.local import pool as pool_module
from diffuse.runtime.local.pool import Pool
from tests.jobs import python
from tests.moments import interrupted
from tests.outcomes import in_child
from tests.pool_launches import SCRATCH, Gate, address, expected, submit_steps, until


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


@pytest.fixture()
def placed() -> Iterator[Placed]:
    """A pool whose submitter goes back to all of its processors at the end."""
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) < 2:
        pytest.skip("needs two processors")
    found = Placed()
    yield found
    os.sched_setaffinity(0, everywhere)
    found.close()


def test_a_worker_keeps_off_the_processor_of_the_submitter(placed: Placed) -> None:
    everywhere = os.sched_getaffinity(0)
    for here in sorted(everywhere)[:2] * 2:
        os.sched_setaffinity(0, {here})
        placed.launch()
        assert placed.processors == everywhere - {here}


def test_a_worker_stays_on_the_processors_that_somebody_gave_it(placed: Placed) -> None:
    here, there = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {here})
    placed.launch()
    os.sched_setaffinity(placed.worker, {here})
    for processor in (there, here, there):
        os.sched_setaffinity(0, {processor})
        placed.launch()
        assert placed.processors == {here}


def test_a_forked_child_leaves_the_threads_of_its_parent_where_they_are(placed: Placed) -> None:
    everywhere = os.sched_getaffinity(0)
    here, there = sorted(everywhere)[:2]
    os.sched_setaffinity(0, {here})
    placed.launch()

    def child() -> bool:
        os.sched_setaffinity(0, {there})
        placed.launch()
        return True

    assert in_child(child)
    assert placed.processors == everywhere - {here}


def test_an_interrupt_leaves_the_pool_usable() -> None:
    pool = Pool(1)
    gate = Gate(pool)
    pool.submit(address("step"), 0, 1, struct.pack("2q", 1, SCRATCH.ctypes.data))
    for _ in range(100):  # into a full queue this thread could not submit without running the gate
        if not _claimed(pool):
            time.sleep(0.001)
            pool.submit(address("step"), 0, 2, struct.pack("2q", 2, SCRATCH.ctypes.data))
    until(lambda: _claimed(pool))  # the worker must hold the gate, so that the wait below can be interrupted
    interrupt = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        pool.fence()
    gate.open()
    assert submit_steps(pool, [3] * 50) == expected([3] * 50, 3)
    pool.close()


def _claimed(pool: Pool) -> bool:
    """Has a worker claimed the point of the launch that is running?"""
    return bool(pool.threads.ticket.value & native.MOST_POINTS)


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
from tests.pool_launches import address, expected
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
    done = python(program)
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
