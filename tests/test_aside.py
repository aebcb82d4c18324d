"""Regions that step aside: where the stream's own choice is the best, a region leaves no trace."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.jobs import TINY
from tests.jobs import diffuse as command

HEAD = """
    from contextlib import nullcontext
    import numpy as np
    from diffuse.observe import trace
    from diffuse.planning import regions
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    n = 64
    a = np.arange(n * n * 1.0).reshape(n, n) % 7.0

    def counted(name):
        return trace.counters[name]

    def moved():
        return traffic.kept.total(engine.current().runtime.over_ranks)[0]
"""


def printed(folder: Path, text: str, *options: str) -> list[str]:
    path = folder / "x.py"
    path.write_text(textwrap.dedent(HEAD) + textwrap.dedent(text))
    done = command("run", *(options or ("--predict", "4")), str(path), **TINY)
    assert done.returncode == 0, done.tail
    return done.stdout.splitlines()


LOOPS = """
    def plain(u):
        return u * 0.5 + 1.0

    def stencil(u):
        v = u[1:-1, 1:-1] + u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] = v * 0.2
        return u

    def product(u):
        return np.tanh(u @ weights) + 0.25

    weights = a[:, ::-1] * 0.01
    for step in plain, stencil, product:
        for way in nullcontext(), diffuse.plan():
            u = a + 0.0
            for turn in range(16):
                if turn == 12:
                    engine.fence()
                    before = counted("launched"), moved()
                with way:
                    u = step(u)
            engine.fence()
            print(step.__name__, counted("launched") - before[0], moved() - before[1], float(u.sum()))
"""


@pytest.mark.parametrize("ranks", ["2", "4"])
def test_a_region_that_the_stream_does_best_costs_nothing(tmp_path: Path, ranks: str) -> None:
    """Its operations fuse across its end, and its products are those of the stream."""
    rows = printed(tmp_path, LOOPS, "--predict", ranks)
    assert rows[::2] == rows[1::2]
    assert rows[0].startswith("plain 1 0 "), "four turns are one launch"


@pytest.mark.ranks("mpi")
def test_such_a_region_on_ranks(tmp_path: Path) -> None:
    rows = printed(tmp_path, LOOPS, "--runtime", "mpi", "--ranks", "2", "--cpus", "1", "--traffic")
    assert rows[::2] == rows[1::2]


OTHERS = """
    region = diffuse.plan()

    def turn(work):
        before = counted("launched"), counted("searches")
        with region, diffuse.plan():  # the inner one does nothing
            u = work()
            u = u + 1.0
        engine.fence()
        return u

    def plain():
        return a * 0.5

    def sweeps():
        u = a
        for axis in (0, 0, 0, 1, 1, 1):
            u = np.sqrt(np.cumsum(u, axis=axis) * 0.125 + 1.0)
        return u

    def state():
        (found,) = [each for each in regions._regions.values()]
        return found

    for _ in range(4):
        turn(plain)
    assert state()._steps_aside()
    searches, bytes_of = counted("searches"), []
    for _ in range(6):
        before = moved()
        turn(sweeps)
        bytes_of.append(moved() - before)
    print(counted("searches") > searches, bytes_of[-1] < bytes_of[0], len(regions._regions))
    for _ in range(3):
        turn(plain)
    assert not state()._steps_aside(), "other tasks came before"
    for _ in range(4):
        turn(plain)
    assert state()._steps_aside()

    try:
        with region:
            z = a * 3.0
            raise LookupError
    except LookupError:
        print(float(z.sum()) == 3.0 * a.sum(), engine.current().window.passed)
    assert state()._steps_aside(), "an exception is no other task"
    with region:
        with diffuse.schedule(i=2, j=2):
            y = a * 0.5
        y = y + 1.0
    print(float(y.sum()) == float((a * 0.5 + 1.0).sum()), engine.current().window.region)
    with region:
        float((a * 2.0).sum())
    assert not state()._steps_aside()
"""


def test_other_tasks_in_a_region_that_stood_aside_are_planned(tmp_path: Path) -> None:
    assert printed(tmp_path, OTHERS) == ["True True 1", "True None", "True None"]
