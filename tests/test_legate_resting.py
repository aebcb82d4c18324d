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
OPEN long at = 1000000000, used, away, share, yields, sleeps;
static void pass(long time) { at += time; used += time * share / 100; }
static int yielded(void) { pass(away); yields++; return 0; }
static int rested(const struct timespec *time, struct timespec *rest)
{
    (void)rest;
    pass(time->tv_nsec);
    sleeps++;
    return 0;
}
static int told(clockid_t clock, struct timespec *time)
{
    long now = clock == CLOCK_MONOTONIC ? at : used;
    *time = (struct timespec){now / 1000000000, now % 1000000000};
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
SLEEP, MILLISECOND = 30_000, 1_000_000


class Poller:
    """The thread that polls, where each yield takes `away` nanoseconds, and other threads of its process
    compute for `share` percent of the time."""

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


def sleeping(poller: Poller) -> int:
    """Milliseconds that the thread sleeps until it yields again."""
    yields, sleeps = poller["yields"], poller["sleeps"]
    while poller["yields"] == yields:
        poller.poll()
    return round((poller["sleeps"] - sleeps) * SLEEP / MILLISECOND)


def test_it_yields_to_a_rank_that_computes_for_a_short_time(poller: Poller) -> None:
    poller["away"] = 2 * MILLISECOND
    poller.poll(PATIENCE + 100)
    assert poller["yields"] == 101 and not poller["sleeps"]


def test_it_sleeps_beside_programs_that_compute_and_then_yields_again(poller: Poller) -> None:
    poller["away"] = 4 * MILLISECOND
    poller.poll(PATIENCE)
    assert (poller["yields"], poller["sleeps"]) == (1, 0)
    poller["away"] = 2000
    assert sleeping(poller) == 10
    poller.poll(100)
    assert poller["yields"] == 102


def test_it_sleeps_longer_each_time_that_the_next_yield_is_late(poller: Poller) -> None:
    poller["away"] = 4 * MILLISECOND
    poller.poll(PATIENCE)
    assert [sleeping(poller) for _ in range(6)] == [10, 20, 40, 80, 100, 100]
    poller["at"] += 200 * MILLISECOND
    poller.poll()
    assert sleeping(poller) == 10, "it was not late meanwhile"


def test_it_yields_to_its_own_process(poller: Poller) -> None:
    poller["away"], poller["share"] = 40 * MILLISECOND, 80
    poller.poll(PATIENCE + 100)
    assert poller["yields"] == 101 and not poller["sleeps"]
    poller["share"] = 50
    poller.poll(101)
    assert (poller["yields"], poller["sleeps"]) == (102, 100), "others compute, too"
    poller["share"] = 80
    poller.poll(200)
    assert poller["yields"] > 103 and 150 < poller["sleeps"] < 300, "its process has computed for a while"


def test_it_looks_for_messages_between_two_sleeps(poller: Poller) -> None:
    poller["away"] = 4 * MILLISECOND
    poller.poll(PATIENCE + 10)
    sleeps = poller["sleeps"]
    poller.poll(PATIENCE, events=1)
    poller.poll(PATIENCE - 1)
    assert poller["sleeps"] == sleeps and poller["diffuse_events"] == PATIENCE
    poller.poll(2)
    assert poller["sleeps"] == sleeps + 2


def test_a_sleep_counts_for_all_the_yields_that_a_launch_waits_for(poller: Poller) -> None:
    """QUIET of trampoline.cc: nobody has to make way for a thread that gets a processor when it wakes up."""
    poller["away"] = 4 * MILLISECOND
    poller.poll(PATIENCE)
    before = poller["diffuse_yields"]
    poller.poll()
    said = (libraries.SOURCES / "trampoline.cc").read_text()
    quiet = int(said.partition("QUIET = ")[2].partition(";")[0])
    assert poller["diffuse_yields"] - before > quiet
