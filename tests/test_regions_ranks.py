"""Partitions of regions on ranks, predicted, simulated and real: bytes that move, and the local bits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.jobs import TINY, Job, over_mpi, script
from tests.jobs import diffuse as command

PROGRAMS = str(Path(__file__).with_name("planned_programs.py"))

MOVES = """
    import hashlib, json, sys
    from contextlib import nullcontext
    import numpy as np
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    n = 64
    start = np.arange(n * n * 1.0).reshape(n, n) % 7.0 + 0.1
    weights = start[::-1] * 0.01 + 1.0

    def sweeps(u):
        for axis in (0, 0, 0, 1, 1, 1):
            u = np.sqrt(np.cumsum(u, axis=axis) * 0.125 + 1.0)
        return u

    def layer(u):
        return np.tanh(u @ (weights * u[0, 0].item())) + 0.25

    def by_hand(u):
        with diffuse.schedule(grid=(2, 2)):
            return u @ weights * 0.001

    def counted():
        engine.fence()
        return 0 if traffic.kept is None else traffic.kept.total(engine.current().runtime.over_ranks)[0]

    found = {}
    for step in (sweeps, layer, by_hand):
        for name, region in (("default", nullcontext), ("planned", diffuse.plan)):
            u, before = start + 0.0, counted()
            for _ in range(6):
                with region():
                    u = step(u)
            moved = counted() - before
            found[step.__name__, name] = moved, hashlib.sha256(np.asarray(u).tobytes()).hexdigest()
    for (step, name), (moved, digest) in found.items():
        print(step, name, digest)
        print(step, name, moved, file=sys.stderr)
"""


def moved(done: Job) -> dict[tuple[str, str], int]:
    assert done.returncode == 0, done.tail
    rows = [line.split() for line in done.stderr.splitlines()]
    return {(row[0], row[1]): int(row[2]) for row in rows if row[1:2] in (["default"], ["planned"])}


def fewer(done: Job) -> None:
    """On four ranks: of a transpose for each of six sweeps two are left, and products go by blocks."""
    found, once = moved(done), 8 * 64 * 64 * 3 // 4
    assert found["sweeps", "planned"] == 6 * 2 * once
    assert found["sweeps", "default"] == 6 * 6 * once
    assert found["layer", "planned"] < found["layer", "default"]
    # the grid stands; what ranks received of the weights before is still there
    assert found["by_hand", "planned"] < found["by_hand", "default"]


def test_a_plan_moves_fewer_bytes(tmp_path: Path) -> None:
    path = script(tmp_path, MOVES)
    done = command("run", "--predict", "4", path, **TINY)
    assert done.stdout == command("run", path, **TINY).stdout, done.tail
    fewer(done)


@pytest.mark.ranks("mpi")
def test_ranks_move_fewer_bytes_under_a_plan(tmp_path: Path) -> None:
    path = script(tmp_path, MOVES)
    done = over_mpi(4, "--traffic", path, **TINY)
    assert done.stdout == command("run", path, **TINY).stdout, done.tail
    fewer(done)

LOOPS = """
    import sys
    import numpy as np
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    n = 64
    weights = np.arange(n * n * 1.0).reshape(n, n) % 7.0 * 0.01

    def stencil(u):
        v = u[1:-1, 1:-1] + u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] = v * 0.2
        return u

    def product(u):
        return weights @ u

    def sweeps(u):
        for axis in (0, 0, 1, 1):
            u = np.cumsum(u, axis=axis) * 0.01
        return u

    def scaled(u):  # by a number that was computed before the region, and is in no rank's way
        return np.cumsum(u, axis=1) * total

    def folded(u):  # each rank adds up its own leaves of the tree, and sends the root
        global sums
        sums = np.cos(u).reshape(32, 4, 32).sum(axis=(0, 1))
        return u

    total = np.ones((n, n)).sum() / (n * n)
    for step, rows in (stencil, 34), (product, n), (sweeps, n), (scaled, n), (folded, n):
        u, region = np.ones((rows, rows)), diffuse.plan()
        for turn in range(9):
            with region:
                u = step(u)
            engine.fence()
            moved = traffic.kept.total(engine.current().runtime.over_ranks)[0]
            turns = [*turns[-1:], moved] if turn else [moved]
        said = str(region).splitlines()[-1].split(" bytes")[0].replace(",", "")
        print(step.__name__, turns[1] - turns[0], said)
"""


def test_what_a_plan_says_is_what_moves(tmp_path: Path) -> None:
    """A stencil in place goes by blocks; a constant comes to the ranks once; transposes are few."""
    done = command("run", "--predict", "4", script(tmp_path, LOOPS), **TINY)
    assert done.returncode == 0, done.tail
    rows = {row[0]: (int(row[1]), int(row[2])) for row in map(str.split, done.stdout.splitlines())}
    once = 8 * 64 * 64 * 3 // 4
    assert rows == {"stencil": (8 * 32 * 4, 8 * 32 * 4), "product": (0, 0), "sweeps": (2 * once, 2 * once),
                    "scaled": (0, 0), "folded": (4 * 3 * 8 * 32, 4 * 3 * 8 * 32)}

LOOKS = """
    import hashlib
    import sys
    import numpy as np
    import scipy.sparse
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    n = 64
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    a, plan = scipy.sparse.kronsum(line, line, format="csr"), diffuse.plan()
    x = np.sin(np.arange(n * n * 1.0))
    with plan:
        y = a @ (x * 2.0)
        z = a @ (y + 1.0)
    engine.fence()
    if traffic.kept is not None:
        rows = traffic.kept.summed(getattr(engine.current().runtime, "over_ranks", int))
        moved = sum([rows[title].bytes for title in rows if "inspect" not in title])
        print("moved", moved, str(plan).split(" bytes")[0].replace(",", ""), file=sys.stderr)
    print(hashlib.sha256(np.asarray(z).tobytes()).hexdigest())
"""


def looked(done: Job, plain: Job) -> None:
    """Ranks send the neighbours' lines of 64 points twice, and the plan says so."""
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    said = 2 * 2 * 3 * 64 * 8
    assert f"moved {said} {said}" in done.stderr, done.tail


def test_a_plan_looks_at_a_matrix_before_its_first_product(tmp_path: Path) -> None:
    """Every rank has all of a matrix that the program brings along, and sees for itself which elements of the
    vector ranks need of others."""
    path = script(tmp_path, LOOKS)
    plain = command("run", path, **TINY)
    for way in "--predict", "--simulate":
        looked(command("run", way, "4", path, **TINY), plain)


@pytest.mark.ranks("mpi")
def test_ranks_look_at_a_matrix_before_its_first_product(tmp_path: Path) -> None:
    path = script(tmp_path, LOOKS)
    done = over_mpi(4, "--traffic", path, **TINY)
    looked(done, command("run", path, **TINY))

SUMS = """
    from contextlib import nullcontext
    import numpy as np
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    a, w = np.sin(np.arange(65536.0)).reshape(1024, 64), np.cos(np.arange(4096.0)).reshape(64, 64)
    plan = diffuse.plan()
    for region in (nullcontext(), plan):
        x, v, turns = a + 0.0, w + 0.0, []
        for turn in range(9):
            with region:
                x = np.cos(x)
                y = np.tanh(x @ v)
                v = v - 0.001 * (x.T @ y)
            engine.fence()
            turns.append(traffic.kept.total(engine.current().runtime.over_ranks)[0])
        print(turns[-1] - turns[-2])
    print(str(plan))
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_products_that_ranks_add_up_are_added_up_in_a_region(tmp_path: Path, ranks: int) -> None:
    """`x.T @ y` sums over the rows that ranks have; moving the rows would take many times the bytes.  A plan
    knows what that costs, and does so where it takes the least time."""
    done = command("run", "--predict", str(ranks), script(tmp_path, SUMS), **TINY, OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.tail
    usual, planned, said = done.stdout.splitlines()[:3]
    found = re.match(r"([\d,]+) bytes in (\S+) ms, ([\d,]+) in (\S+) by default", said)
    assert found is not None
    assert [int(found[k].replace(",", "")) for k in (1, 3)] == [int(planned), int(usual)]
    assert float(found[2]) <= float(found[4])
    assert ("k:2" in said) == (ranks == 2)

HEADS = """
    import argparse
    from contextlib import nullcontext
    from apps import attention
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    parser = argparse.ArgumentParser()
    attention.arguments(parser)
    sizes = parser.parse_args(["--size", "32", "--batches", "2", "--features", "64", "--heads", "2"])
    plan = diffuse.plan()
    for region in (nullcontext(), plan):
        state, turns = attention.setup(sizes), []
        for turn in range(8):
            with region:
                attention.step(state)
            engine.fence()
            turns.append(traffic.kept.total(engine.current().runtime.over_ranks)[0])
        print(turns[-1] - turns[-2])
    print(str(plan))
"""


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_default_is_what_ranks_do_without_a_plan(tmp_path: Path, ranks: int) -> None:
    """The stream cuts products of heads in the one way that moves least just then, on fewer ranks than there
    are, while a plan may cut heads and batches: it has to know both, and takes no more time than either."""
    done = command("run", "--predict", str(ranks), script(tmp_path, HEADS), **TINY)
    assert done.returncode == 0, done.tail
    default, planned, told = done.stdout.splitlines()[:3]
    found = re.match(r"([\d,]+) bytes in (\S+) ms, ([\d,]+) in (\S+) by default", told)
    assert found is not None, told
    assert (int(found[1].replace(",", "")), int(found[3].replace(",", ""))) == (int(planned), int(default))
    assert float(found[2]) <= float(found[4])


@pytest.mark.ranks("mpi")
def test_random_programs_on_ranks() -> None:
    few: dict[str, Any] = {**TINY, "DIFFUSE_MIN_CHUNK": "8", "DIFFUSE_FALLBACK": "silent"}
    plain = command("run", PROGRAMS, "60", "62", **few)
    done = over_mpi(3, PROGRAMS, "60", "62", **few)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    assert " searches" in done.stderr and "\n0 searches" not in done.stderr


def test_random_programs_in_planned_regions() -> None:
    few: dict[str, Any] = {**TINY, "DIFFUSE_MIN_CHUNK": "8", "DIFFUSE_FALLBACK": "silent"}
    plain = command("run", PROGRAMS, "0", "4", **few)
    done = command("run", "--predict", "4", PROGRAMS, "0", "4", **few)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    assert "\n0 searches" in "\n" + plain.stderr and "\n0 searches" not in "\n" + done.stderr

LIFE = """
    import numpy as np
    import diffuse
    from diffuse.observe import trace
    from diffuse.planning import memory, windows
    from diffuse.stream import engine

    n = 64
    a = np.arange(n * n * 1.0).reshape(n, n) % 7.0

    @diffuse.jit
    def step(u):
        for axis in (0, 1):
            u = np.cumsum(u, axis=axis) * 0.125 + 1.0
        return u

    u, analyses = a, []
    for turn in range(8):
        u = step(u)
        engine.fence()
        analyses.append((trace.counters["searches"], engine.current().window.memo.trails))
    assert analyses[0] == analyses[1] and analyses[4:] == analyses[-1:] * 4, analyses
    expected = np.asarray(u).tobytes()

    def refused(memory):
        try:
            with diffuse.plan(memory=memory):
                v = np.cumsum(np.cumsum(a, axis=0) + 1.0, axis=1)
        except MemoryError as error:
            print(type(v).__name__, error)
            try:
                v.sum().item()
            except MemoryError as again:
                print(str(again) == str(error))
            return int(str(error).split()[-1])
        return np.asarray(v).tobytes()

    least = refused(1000)
    assert least < 4 * a.nbytes
    assert refused(least) == refused(1 << 30)
    assert isinstance(refused(least - 1), int)

    for owner, point in (windows.Search, "solve"), (memory.Footprint, "peak"):
        right = getattr(owner, point)

        def interrupted(*args):
            raise KeyboardInterrupt

        setattr(owner, point, interrupted)
        w = a + 1.0
        try:
            with diffuse.plan():
                w += np.cumsum(w, axis=0)
        except KeyboardInterrupt:
            print("interrupted")
        setattr(owner, point, right)
        print(float(w.sum()), float((w + 1.0).max()))

    def ways(u, k):
        with diffuse.plan():
            v = np.cumsum(u, axis=k % 2) * 0.5
            if k == 3:
                v = v + np.sort(v, axis=1)
            return v * 2.0
    print([float(ways(a, k).sum()) for k in (0, 1, 3, 0, 3, 1, 2, 3, 0)])

    try:
        with diffuse.plan():
            z = np.cumsum(a, axis=0) * 3.0
            raise LookupError
    except LookupError:
        print(float(z.sum()))
    region = diffuse.plan()
    with region:
        z = np.cumsum(a, axis=0)
    print(region)
    with diffuse.plan(), diffuse.schedule(i=2, j=2):
        try:
            np.cumsum(a, axis=0)
        except ValueError as error:
            print(error)
        y = a * 2.0
    print(float(y.sum()), hash(expected) == hash(np.asarray(u).tobytes()))
"""


def test_the_life_of_a_region(tmp_path: Path) -> None:
    done = command("run", "--predict", "4", script(tmp_path, LIFE), **TINY)
    assert done.returncode == 0, done.tail
    a = numpy.arange(64 * 64 * 1.0).reshape(64, 64) % 7.0
    lines = done.stdout.splitlines()
    assert "the least that would do is" in lines[0] and lines[1] == "True"
    w = a + 1.0
    w += numpy.cumsum(w, axis=0)
    read = f"{float(w.sum())} {float((w + 1.0).max())}"
    assert lines.count("interrupted") == 2 and lines.count(read) == 2, lines
    assert any(line.endswith(" by default: j:4") for line in lines), lines
    assert any("schedule(i=2, j=2): cumsum" in line for line in lines)
    assert lines[-1] == f"{2.0 * a.sum()} True"
