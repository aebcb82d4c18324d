"""How the thread that polls for messages rests (progress.c), with a clock and a scheduler of the test's."""

from __future__ import annotations

import ctypes
import shlex
from pathlib import Path

import pytest

from diffuse.runtime.legate import libraries

TEST = """
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>
#define OPEN __attribute__((visibility("default")))
OPEN long at, away, slept, yields, sleeps;
static int yielded(void) { at += away; yields++; return 0; }
static int rested(const struct timespec *time, struct timespec *rest)
{
    (void)rest;
    at += slept = time->tv_nsec;
    sleeps++;
    return 0;
}
static int told(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){at / 1000000000, at % 1000000000};
    return 0;
}
static int unchanged(int option, ...) { return option < 0; }
#define sched_yield yielded
#define nanosleep rested
#define clock_gettime told
#define prctl unchanged
#include "progress.c"
"""
PATIENCE = 20
MILLISECOND = 1_000_000


class Poller:
    """The thread that polls, where each yield takes `away` nanoseconds."""

    def __init__(self, folder: Path) -> None:
        compiler = libraries.compiler()
        if compiler is None:
            pytest.skip("no C++ compiler")
        (folder / "test.c").write_text(TEST)
        command = [*shlex.split(compiler), *libraries.C, f"-I{libraries.SOURCES}", str(folder / "test.c")]
        libraries.run(command, folder / "test.so")
        self.library = ctypes.CDLL(str(folder / "test.so"))
        self.events = 0
        self.progress = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_void_p)(lambda worker: self.events)
        self.library.diffuse_yield_around(self.progress)

    def __getitem__(self, name: str) -> int:
        return ctypes.c_long.in_dll(self.library, name).value

    def __setitem__(self, name: str, value: int) -> None:
        ctypes.c_long.in_dll(self.library, name).value = value

    def poll(self, times: int = 1, events: int = 0) -> None:
        self.events = events
        for _ in range(times):
            assert self.library.ucp_worker_progress(None) == events


@pytest.fixture
def poller(tmp_path: Path) -> Poller:
    return Poller(tmp_path)


def test_it_yields_after_some_polls_where_it_gets_the_processor_back_at_once(poller: Poller) -> None:
    poller["away"] = 2000
    poller.poll(PATIENCE - 1)
    assert poller["yields"] == poller["diffuse_yields"] == 0
    poller.poll(1000)
    assert poller["yields"] == poller["diffuse_yields"] == 1000 and not poller["sleeps"]
    poller.poll(events=3)
    poller.poll(PATIENCE - 1)
    assert poller["yields"] == 1000 and poller["diffuse_events"] == 1


def test_it_sleeps_where_others_compute_and_yields_again_after_a_while(poller: Poller) -> None:
    poller["away"] = 4 * MILLISECOND
    poller.poll(PATIENCE)
    assert (poller["yields"], poller["sleeps"]) == (1, 0)
    begin = poller["at"]
    poller["away"] = 2000
    lengths = []
    while poller["yields"] == 1:
        poller.poll()
        lengths.append(poller["slept"])
    assert 99 * MILLISECOND < poller["at"] - begin < 101 * MILLISECOND
    assert lengths[:5] == [20_000, 40_000, 80_000, 100_000, 100_000] and max(lengths) == 100_000
    poller.poll(100)
    assert poller["yields"] == 102


def test_after_a_message_it_sleeps_briefly_again(poller: Poller) -> None:
    poller["away"] = 4 * MILLISECOND
    poller.poll(PATIENCE + 10)
    assert poller["slept"] == 100_000
    poller.poll(events=1)
    poller.poll(PATIENCE)
    assert poller["slept"] == 20_000


def test_a_sleep_counts_for_all_the_yields_that_a_launch_waits_for(poller: Poller) -> None:
    """QUIET of trampoline.cc: nobody has to give a processor to a thread that gets it when it wakes up."""
    poller["away"] = 4 * MILLISECOND
    poller.poll(PATIENCE)
    before = poller["diffuse_yields"]
    poller.poll()
    said = (libraries.SOURCES / "trampoline.cc").read_text()
    quiet = int(said.partition("QUIET = ")[2].partition(";")[0])
    assert poller["diffuse_yields"] - before > quiet
