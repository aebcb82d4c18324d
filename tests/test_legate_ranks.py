"""Several ranks: what they must have alike, and that none of them hangs when one fails."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from diffuse.runtime.ranks import process as ranks
from tests.jobs import FILL, TINY, Job, diffuse, environment, python
from tests.service import gone

RANK = """
import os, sys, threading, warnings
from diffuse.runtime.ranks import process as ranks
ranks.GRACE = 0.0
ranks.settle_in(int(sys.argv[1]), 2)
import atexit
atexit.register(os.write, 2, b"finished\\n")  # where Legate would wait for the others
os.system("echo child")
warnings.warn("a warning")
print("output", end="")
"""


def rank(number: int, text: str, **variables: str) -> Job:
    return python(RANK + textwrap.dedent(text), str(number), PYTHONHASHSEED="0", **variables)


def test_only_rank_0_is_heard() -> None:
    first, second = rank(0, ""), rank(1, "")
    assert first.stdout == "child\noutput" and "a warning" in first.stderr
    assert second.stdout == "" and second.stderr == "finished\n"
    assert rank(1, "", DIFFUSE_OUTPUT="all").stdout == "child\noutput"


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("text, status, said", [
    ("raise ValueError('boo')", 1, "rank {} of 2: Traceback"),
    ("import json; json.loads('x')", 1, "JSONDecodeError"),
    ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ("t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()", 1, "ZeroDivisionError"),
    ("sys.exit(3)", 3, ""),
    ("sys.exit('so much for that')", 1, "so much for that"),
    ("from diffuse.intercept import run_code; run_code('1 / 0')", 1, "ZeroDivisionError"),
])
def test_a_rank_that_fails_ends_at_once(number: int, text: str, status: int, said: str) -> None:
    done = rank(number, text)
    assert done.returncode == status
    assert said.format(number) in done.stderr and "finished" not in done.stderr
    assert done.stdout == ("child\noutput" if number == 0 else ""), "flushed first"


@pytest.mark.parametrize("text", ["sys.exit(3)", "1 / 0"])
def test_a_rank_that_fails_writes_what_is_in_open_files(text: str, tmp_path: Path) -> None:
    early = f"before = open({str(tmp_path / 'before')!r}, 'w'); before.write('early')\n"
    late = f"late = open({str(tmp_path / 'late')!r}, 'wb'); late.write(b'late'); sys.stdin.close()\n"
    assert python(early + RANK + late + text, "0", PYTHONHASHSEED="0").returncode
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["early", "late"]


@pytest.mark.parametrize("text", [
    "", "sys.exit()", "sys.exit(0)",
    "try:\n    sys.exit(3)\nexcept SystemExit as error:\n    assert error.code == 3 and error.args == (3,)",
    "t = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()",
])
def test_a_rank_that_ends_well_lets_legate_finish(text: str) -> None:
    done = rank(1, text)
    assert done.returncode == 0 and done.stderr == "finished\n"


def test_a_failure_of_all_ranks_is_told_once() -> None:
    text = RANK.replace("GRACE = 0.0", "GRACE = 60.0") + "1 / 0"
    command = [sys.executable, "-c", text, "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment(PYTHONHASHSEED="0")) as process:
        time.sleep(2)
        process.send_signal(signal.SIGTERM)  # as the launcher does when rank 0 has failed
        assert process.stderr is not None and process.stderr.read() == b""
    assert process.returncode == -signal.SIGTERM


def test_hash_seeds_that_differ_are_warned_of() -> None:
    text = "from diffuse.runtime.ranks import process as ranks; ranks.settle_in(0, 2)"
    assert "PYTHONHASHSEED=0" in python(text, PYTHONHASHSEED="random").stderr
    assert not python(text, PYTHONHASHSEED="7").stderr


def test_one_rank_is_left_alone() -> None:
    before = sys.excepthook, sys.exit, gc.isenabled()
    ranks.settle_in(0, 1)
    ranks.seed(b"x")
    assert (sys.excepthook, sys.exit, gc.isenabled()) == before


def test_cycles_die_at_the_same_launch() -> None:
    done = rank(0, """
        import gc, weakref
        class Node: pass
        def cycle():
            node = Node(); node.me = node
            return weakref.ref(node)
        dead = []
        seen = cycle()
        for k in range(1, 2 * ranks.YOUNG + 1):
            ranks.tick()
            if seen() is None:
                dead.append(k); seen = cycle()
        print("", gc.isenabled(), dead)
        old = cycle(); gc.collect(0); gc.collect(1)  # it has grown old
        for k in range(ranks.OLD):
            ranks.tick()
        print(old() is None)
    """)
    assert done.stdout == "child\noutput False [512, 1024]\nTrue\n", done.stderr


DRAWS = """
ranks.seed(sys.argv[2].encode())
ranks.seed(b"a second call changes nothing")
import random
import numpy as np
from numpy.random import RandomState, SeedSequence, default_rng
numbers = [random.random(), np.random.rand(), default_rng().random(), RandomState().rand(),
           default_rng().random(), SeedSequence().entropy, default_rng(7).random()]
print(*numbers, file=sys.__stderr__)
"""


def test_numbers_without_a_seed_are_the_same_on_all_ranks() -> None:
    import numpy as np

    def drawn(number: int, entropy: str) -> list[str]:
        done = python(RANK + DRAWS, str(number), entropy, PYTHONHASHSEED="0")
        return done.stderr.splitlines()[-2].split()

    first, second, other = drawn(0, "abc"), drawn(1, "abc"), drawn(0, "abd")
    assert len(first) == 7 and first == second
    assert len(set(first)) == 7, "each generator has numbers of its own"
    assert all(a != b for a, b in zip(first[:-1], other[:-1])) and first[-1] == other[-1]
    assert float(first[-1]) == np.random.default_rng(7).random(), "a seed is a seed"


YIELDS = """
import ctypes
from diffuse.runtime.legate import libraries
library = ctypes.CDLL(str(libraries.yielding.path))  # it is there already
print(all(ctypes.c_ulong.in_dll(library, f"diffuse_{name}").value > 0 for name in ("yields", "events")))
"""


@pytest.mark.ranks
def test_two_ranks_run_one_program_and_fail_together(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(FILL + YIELDS)
    done = diffuse("run", "--ranks", "2", "x.py", cwd=tmp_path, **TINY)
    assert (done.returncode, done.stdout) == (0, "2 False True\nTrue\n"), done.stderr[-2000:]
    done = diffuse("run", "--ranks", "2", "x.py", "fail", cwd=tmp_path, **TINY)
    assert done.returncode == 1 and "rank 1 of 2: Traceback" in done.stderr
    assert "ValueError: boo" in done.stderr


@pytest.mark.ranks
def test_an_interrupt_ends_all_ranks(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    (tmp_path / "x.py").write_text(f"import os, time\nopen({str(ready)!r} + str(os.getpid()), 'w')\n"
                                   "time.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-m", "diffuse", "run", "--ranks", "2", "x.py"], cwd=tmp_path,
                          env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as process:
        for _ in range(1200):
            if len(found := list(tmp_path.glob("ready*"))) == 2:
                break
            time.sleep(0.1)
        assert len(found) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(240) != 0
    assert all(gone(int(path.name.removeprefix("ready"))) for path in found)
