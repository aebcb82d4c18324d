"""The watchdog of several ranks: whom it names, and that ranks that are stuck or differ end all of them."""

from __future__ import annotations

import os
import subprocess
import textwrap
import threading
import time
from pathlib import Path

import pytest

from diffuse.runtime.ranks import process
from diffuse.runtime.ranks.activity import Activity, Report
from diffuse.runtime.ranks.judgement import BUSY, Seen, Verdict, judge
from tests.jobs import TINY, diffuse, environment, run
from tests.service import gone

LIMIT = 8.0


def waits(rank: int, seconds: float, events: int = 5) -> Seen:
    return Seen(Report(rank, events, "add [x.py:3]", seconds, 0.0, f"x.py:{10 + rank}"))


def computes(rank: int, events: int = 4, idle: float = 0.0) -> Seen:
    return Seen(Report(rank, events, "add [x.py:2]", 0.0, idle, f"x.py:{20 + rank}"))


def judged(*ranks: Seen) -> Verdict:
    verdict = judge(dict(enumerate(ranks)), LIMIT)
    assert verdict is not None
    return verdict


def test_nobody_is_named_before_the_limit() -> None:
    assert judge({0: waits(0, 7.9), 1: computes(1, idle=60)}, LIMIT) is None
    assert judge({0: computes(0), 1: computes(1, idle=60)}, LIMIT) is None


def test_a_rank_that_does_nothing_ends_all() -> None:
    verdict = judged(waits(0, 8.0), computes(1, idle=7.0), waits(2, 3.0))
    assert verdict.ends and verdict.said.startswith("rank 1 of 3 is stuck at x.py:21\n")
    assert "ranks 0, 2 waited for it for 8 s at x.py:10" in verdict.said and "add [x.py:3]" in verdict.said


def test_a_rank_that_computes_is_named_and_given_more_time() -> None:
    verdict = judged(waits(0, 8.0), computes(1))
    assert not verdict.ends and verdict.said.startswith("rank 1 of 2 computes at x.py:21\n")
    assert judged(waits(0, 8.0 * BUSY), computes(1)).ends


def test_the_rank_that_is_least_far_is_named() -> None:
    verdict = judged(waits(0, 9.0), computes(1, events=9, idle=8.0), computes(2, events=4, idle=8.0))
    assert verdict.ends and verdict.said.startswith("rank 2 of 3")


def test_a_rank_that_does_not_answer_is_given_time_to() -> None:
    assert judge({0: waits(0, 8.0), 1: Seen(None, 1.0)}, LIMIT) is None
    verdict = judged(waits(0, 8.0), Seen(None, 4.0))
    assert verdict.ends and "rank 1 of 2 does not answer: its process is stopped" in verdict.said


def test_a_rank_that_nobody_can_ask_is_given_as_long_as_one_that_computes() -> None:
    verdict = judged(waits(0, 8.0), Seen(None, 4.0, connected=False))
    assert not verdict.ends and "rank 1 of 2 is missing, and cannot be asked" in verdict.said
    assert judged(waits(0, 8.0 * BUSY), Seen(None, 4.0, connected=False)).ends


def test_a_process_that_is_ending_says_goodbye_on_a_late_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(process, "_farewells", [lambda: said.append("early")])
    monkeypatch.setattr(process, "_leaving", False)
    process._say_farewell()
    process.before_the_end(lambda: said.append("late"))
    assert said == ["early", "late"]


def test_ranks_that_all_wait_are_named_and_left_alone() -> None:
    verdict = judged(waits(0, 900.0), waits(1, 900.0))
    assert not verdict.ends and "x.py:10" in verdict.said and "x.py:11" in verdict.said


def test_what_a_rank_does_is_seen_from_another_thread() -> None:
    since, events = 0.0, 3
    activity = Activity(1, lambda: (events, "add"), lambda: since, lambda: 0.0)
    found: list[Report] = []

    def look() -> None:
        begin = time.monotonic()
        found.extend(activity.look(begin + k / 2, closely=True) for k in range(4))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()  # which is where this one is
    assert [round(report.idle, 3) for report in found] == [0.0, 0.5, 1.0, 1.5]
    assert "test_watchdog.py" in found[-1].line and "thread." in found[-1].line
    events, since = 4, time.monotonic()
    report = activity.look(since + 2.0)
    assert (report.idle, report.event) == (0.0, "add") and 1.9 < report.waited < 2.1
    assert activity.look(since + 60.0).waited == 0.0, "this process was stopped itself"


PROGRAM = """
import os, signal, sys, time
import numpy as np
if sys.argv[1] == "differ":
    from diffuse.settings import config
    config.min_chunk = 64 + int(os.environ["OMPI_COMM_WORLD_RANK"])
x = np.arange(60000.0).reshape(300, 200)
print((x[::-1] + x).sum())
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    if sys.argv[1] == "sleep":
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGSTOP)
y = x[1:] - x[:-1]
print(y.sum())
"""
CAUSES = {
    "sleep": ("rank 1 of 2 is stuck at", "x.py:11: time.sleep(600)", "rank 0 waited for it",
              "x.py:14: print("),
    "stop": ("rank 1 of 2 does not answer: its process is stopped", "x.py:14: print("),
    "differ": ("ranks differ in DIFFUSE_MIN_CHUNK: rank 0 has 64, rank 1 has 65", "line 7, in"),
}


def ends(runtime: str, how: str, folder: Path) -> None:
    """Do both ranks end with one message that names rank, line and cause?"""
    (folder / "x.py").write_text(textwrap.dedent(PROGRAM))
    done = diffuse("run", "--runtime", runtime, "--ranks", "2", "--cpus", "1", "x.py", how, cwd=folder,
                   **TINY, DIFFUSE_WATCHDOG="4")
    assert done.returncode == 1, done.tail
    assert all(words in done.stderr for words in CAUSES[how]), done.tail
    assert done.stderr.count(CAUSES[how][0]) == 1, done.tail


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("how", CAUSES)
def test_ranks_over_mpi_end(how: str, tmp_path: Path) -> None:
    ends("mpi", how, tmp_path)


@pytest.mark.ranks("mpi")
def test_ranks_end_after_their_launcher_was_killed(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(textwrap.dedent("""
        import os, time
        import numpy as np
        print(os.getpid(), np.ones(60000).sum(), flush=True)
        time.sleep(300)
    """))
    # ranks that are killed leave files
    here = environment(**TINY, OMPI_MCA_btl_sm_backing_directory=str(tmp_path))
    launcher = subprocess.Popen(
        [*run("--runtime", "mpi", "--ranks", "2", "--cpus", "1", "--output", "all", "x.py")], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path, env=here)
    assert launcher.stdout is not None
    try:
        ranks = [int(launcher.stdout.readline().split()[-2]) for _ in range(2)]
        for rank in ranks:
            os.kill(rank, 0)
    finally:
        launcher.kill()
        launcher.communicate()
    assert all(map(gone, ranks))
