"""Threads of BLAS keep off the program's processor while the compile server starts beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from diffuse.intercept import placing

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")

PROGRAM = """
import os, time
import numpy

def placed(task):
    try:
        return len(os.sched_getaffinity(int(task))) < 2
    except ProcessLookupError:  # it has ended
        return False

start = time.monotonic()
while any(placed(task) for task in os.listdir("/proc/self/task")):
    assert time.monotonic() < start + 60
    time.sleep(0.01)
x = numpy.ones((200, 200))
print(float((x @ x).sum()))
"""


@pytest.fixture
def thread() -> Iterator[int]:
    """Another thread of this process, which waits."""
    ends = threading.Event()
    waiting = threading.Thread(target=ends.wait)
    waiting.start()
    assert waiting.native_id is not None
    yield waiting.native_id
    ends.set()
    waiting.join()


@pytest.fixture
def processors() -> Iterator[set[int]]:
    """Two processors, to which this thread is held."""
    before = os.sched_getaffinity(0)
    chosen = set(sorted(before)[:2])
    os.sched_setaffinity(0, chosen)
    yield chosen
    os.sched_setaffinity(0, before)


def test_threads_are_kept_off_a_processor_and_given_back(processors: set[int], thread: int) -> None:
    os.sched_setaffinity(thread, processors)
    here = placing._processor()
    assert here in processors and thread in placing._others()
    moved = placing.move([thread], here)
    assert moved == {thread: processors} and os.sched_getaffinity(thread) == processors - {here}
    placing.restore(moved)
    assert os.sched_getaffinity(thread) == processors


def test_a_thread_that_may_run_there_alone_stays(processors: set[int], thread: int) -> None:
    here = min(processors)
    os.sched_setaffinity(thread, {here})
    assert placing.move([thread], here) == {} and os.sched_getaffinity(thread) == {here}


def test_threads_that_have_ended_are_no_error(processors: set[int], thread: int) -> None:
    gone = 1 << 22  # no process of Linux has so high a number
    moved = placing.move([gone, thread], min(processors))
    assert [*moved] == [thread]
    placing.restore({gone: processors, **moved})


def test_a_program_beside_a_starting_server_gets_its_threads_back(processors: set[int],
                                                                  tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = subprocess.run([sys.executable, "-m", "diffuse", "run", str(program)], capture_output=True,
                           text=True, env={**os.environ, "DIFFUSE_CACHE_DIR": str(tmp_path / "cache")},
                           timeout=120)
    assert (found.returncode, found.stdout) == (0, "8000000.0\n"), found.stderr
