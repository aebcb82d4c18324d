"""Grids that cut the loop over which a product sums: ranks add up blocks, with the bits of the whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import settings
from tests.jobs import TINY, Job, over_mpi, script
from tests.jobs import diffuse as command

ALONE = {**TINY, "DIFFUSE_FALLBACK": "silent", "OPENBLAS_NUM_THREADS": "1"}
CORES = "", "Haswell"
"""Kernels of OpenBLAS: those it chooses for this processor, and others, whose blocks of the summed loop reach
across ranks where the former's do not."""
START = """
    import hashlib
    import sys
    import numpy as np
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    def say(name, *values):
        for value in values:
            value = np.asarray(value)
            print(name, value.shape, value.dtype, hashlib.sha256(value.tobytes()).hexdigest()[:12])

    def counted():
        engine.fence()
        return 0 if traffic.kept is None else traffic.kept.total(engine.current().runtime.over_ranks)[0]

    m, k, n = 64, 1536, 48
    a = (np.arange(m * k) * 2654435761 % 1000000007 / 1e8 - 5).reshape(m, k) + 0.0
    b = (np.arange(k * n) * 40503 % 1000003 / 1e5 - 5).reshape(k, n) + 0.0
"""
GRIDS = START + """
    for dtype in "f8", "f4", "c16", "i8":
        x, y = a.astype(dtype), b.astype(dtype)
        across, down, v = x.T + 0, y.T + 0, x[0] + x[1]
        for grid in eval(sys.argv[1]):
            with diffuse.schedule(**grid):
                found = x @ y, across.T @ y, x @ down.T
            say(dtype, *found)
        with diffuse.schedule(j=2):
            say(dtype, v @ y, x @ v, v @ down.T)
        with diffuse.schedule(k=2):
            say(dtype, across.T @ across, across[:, :-1].T @ across[:, 1:])
    print("sent", counted(), file=sys.stderr)
"""


def sent(done: Job) -> str:
    assert done.returncode == 0, done.tail
    return next(line for line in done.stderr.splitlines() if line.startswith("sent"))


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("ranks, grids", [
    (2, [{"k": 2}]), (4, [{"k": 4}, {"k": 3}, {"i": 2, "k": 2}, {"j": 2, "k": 2}, {"i": 2, "j": 2, "k": 1}])])
def test_ranks_add_up_blocks_with_the_bits_of_one_process(ranks: int, grids: list[dict[str, int]],
                                                          core: str, tmp_path: Path) -> None:
    """On more ranks than blocks, too; what they send is what is predicted."""
    if core and not llvmlite.binding.get_host_cpu_features().get("avx2"):
        pytest.skip(f"this processor cannot run OpenBLAS' kernels for {core}")
    path, settings = script(tmp_path, GRIDS), {**ALONE, **({"OPENBLAS_CORETYPE": core} if core else {})}
    plain = command("run", path, str(grids), **settings)
    done = over_mpi(ranks, "--traffic", path, str(grids), **settings)
    predicted = command("run", "--predict", str(ranks), path, str(grids), **settings)
    assert done.stdout == predicted.stdout == plain.stdout
    assert done.stdout.count("\n") == 4 * (3 * len(grids) + 5)
    assert sent(done) == sent(predicted)


CUBE = START + """
    x, y = a.astype("i8"), b.astype("i8")
    for grid in ({"k": 8}, {"i": 2, "k": 4}, {"j": 2, "k": 4}, {"i": 2, "j": 2, "k": 2},
                 {"j": 2, "i": 2, "k": 2}):
        moved = [counted()]
        for turn in range(2):
            with diffuse.schedule(**grid):
                z = x @ y
            moved.append(counted())
        say("cube", z)
        print("again", moved[2] - moved[1] - (grid["k"] - 1) * m * n * 8, file=sys.stderr)
"""


def test_blocks_of_all_three_loops(tmp_path: Path) -> None:
    """On eight ranks that have memory of their own, in which unwritten elements are no numbers.  Once ranks
    have their blocks of the operands, only sums move: each block as often as others add to it."""
    path = script(tmp_path, CUBE)
    plain = command("run", path, **ALONE)
    done = command("run", "--simulate", "8", path, **{**ALONE, "DIFFUSE_CHECK": "1"})
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    assert done.stderr.count("again 0\n") == 5, done.tail


REGION = START + """
    plan = diffuse.plan()
    for grid in {"k": 4}, {"i": 2, "k": 2}:
        x, turns = a + 0.0, []
        for turn in range(6):
            with plan:
                x = np.cos(x)
                with diffuse.schedule(**grid):
                    y = x @ b
                z = y + 1.0
            turns.append(counted())
        say("region", z)
        print(turns[-1] - turns[-2], str(plan).splitlines()[-1].split(" bytes")[0], file=sys.stderr)
"""


def test_a_plan_counts_what_a_named_grid_moves(tmp_path: Path) -> None:
    path = script(tmp_path, REGION)
    plain = command("run", path, **ALONE)
    done = command("run", "--predict", "4", path, **ALONE)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    rows = [line.replace(",", "").split() for line in done.stderr.splitlines()
            if re.match(r"\d+ [\d,]+$", line)]
    assert len(rows) == 2 and all([int(moved) == int(told) > 0 for moved, told in rows]), done.tail


OVERLAP = START + """
    c = (np.arange(3000 * 65) * 2654435761 % 1000000007 / 1e8 - 5).reshape(3000, 65) + 0.0
    for turn in range(3):
        with diffuse.plan():
            d = np.cos(c * 1.0)
            z = d[:, :-1].T @ d[:, 1:] + 1.0
    say("overlap", z)
"""


def test_two_views_of_one_array_are_no_matrix_and_its_transpose(tmp_path: Path) -> None:
    """In a planned region, in which ranks add up their product."""
    path = script(tmp_path, OVERLAP)
    plain = command("run", path, **ALONE)
    done = command("run", "--predict", "2", path, **ALONE)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail


# -- grids that a product cannot have ------------------------------------------------------------------------


@pytest.mark.parametrize("grid, said", [
    ({"k": 3}, r"matmul has 8 indices along k, which 3 points do not divide"),
    ({"i": 2, "j": 2, "k": 5}, r"matmul has 8 indices along k, which 5 points do not divide"),
    ({"l": 2}, r"matmul has no loop l; it has i \(6\), j \(4\), k \(8\)"),
])
def test_grids_of_a_product(grid: dict[str, Any], said: str) -> None:
    with settings.using(small=0):
        a, b = numpy.arange(48.0).reshape(6, 8), numpy.ones((8, 4))
        x, y = np.asarray(a) + 0.0, np.asarray(b) + 0.0
        with pytest.raises(ValueError, match=said), diffuse.schedule(**grid):
            x @ y
        with diffuse.schedule(i=2, k=4):
            assert numpy.array_equal(numpy.asarray(x @ y), a @ b)


def test_a_loop_is_named_once() -> None:
    with pytest.raises(ValueError, match="loop k has 4 points and, by the grid"):
        diffuse.schedule(grid=(1, 1, 2), k=4)


def test_the_summed_loop_of_a_stack_of_matrices_is_not_cut() -> None:
    with settings.using(small=0):
        x = np.asarray(numpy.ones((2, 8, 8))) + 0.0
        with pytest.raises(ValueError, match="adds up along loop l, .*leave it at 1"), diffuse.schedule(l=2):
            x @ x
