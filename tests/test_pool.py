"""The thread pool: order, one run of every point, finish once, flags, waiting."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from diffuse.observe.floaterrors import DIVIDE, INVALID, OVERFLOW
from diffuse.runtime.local.pool import Pool
from tests.pool_launches import SCRATCH, Gate, address, expected, submit_steps, until


@pytest.fixture(params=[0, 1, 2, 3, 7])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    made = Pool(request.param, depth=64, spin=5)
    yield made
    made.close()


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
        deadline = time.monotonic() + 120
        while pool.completed < sequence and time.monotonic() < deadline:
            time.sleep(0.001)
        assert pool.completed == sequence
    pool.close()


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
        thread.join(120)
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
    first = Pool(1)
    first.start()  # with it begins the thread that creates others
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
    until(lambda: not workers & set(os.listdir("/proc/self/task")))  # where joined threads stay for a moment
    first.close()
