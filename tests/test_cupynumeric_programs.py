"""Programs written for cuPyNumeric and legate.sparse under `diffuse run`: the names mean Diffuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.intercept import imports
from diffuse.intercept.legate import time
from diffuse.stream import engine
from tests.test_substitute import run, written

STENCIL = """
    import argparse
    from timer import Timer
    import cupynumeric as np

    def initialize(n):
        grid = np.zeros((n + 2, n + 2))
        grid[:, 0] = grid[:, -1] = grid[-1, :] = -273.15
        grid[0, :] = 40.0
        return grid

    def sweep(n, iterations):
        grid = initialize(n)
        grid.stencil_hint((1, 1), (1, 1))
        center, north, south = grid[1:-1, 1:-1], grid[:-2, 1:-1], grid[2:, 1:-1]
        east, west = grid[1:-1, 2:], grid[1:-1, :-2]
        timer = Timer()
        timer.start()
        for _ in range(iterations):
            center[:] = 0.2 * (center + north + east + west + south)
        assert timer.stop() > 0
        return grid

    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=150)
    args, _ = parser.parse_known_args()
    print(np.__name__, repr(float(sweep(args.n, 20).sum())))
    """
TIMER = """
    class Timer:
        def start(self):
            from legate.timing import time
            self.begun = time("us")
        def stop(self):
            from legate.timing import time
            return (time("us") - self.begun) / 1000.0
    """

POISSON = """
    import importlib
    np = importlib.import_module("cupynumeric")
    sparse = importlib.import_module("legate_sparse")
    linalg = importlib.import_module("legate_sparse.linalg")
    from legate.core import TaskTarget, get_legate_runtime, get_machine

    def poisson(n):
        first = np.full(n - 1, -1.0)
        chunks = np.concatenate([np.zeros(1), first])
        beside = np.concatenate([first, np.tile(chunks, n - 1)])
        apart = -1.0 * np.ones(n * (n - 1))
        return sparse.diags([apart, beside, 4.0 * np.ones(n * n), beside, apart], [-n, -1, 0, 1, n],
                            shape=(n * n, n * n), dtype=np.float64).tocsr()

    machine = get_machine()
    assert machine.count(TaskTarget.CPU) >= 1 and machine.count(TaskTarget.GPU) == 0
    with machine.only(TaskTarget.CPU):
        A, b = poisson(40), np.ones(1600)
        x, iterations = linalg.cg(A, b, rtol=1e-10)
    get_legate_runtime().issue_execution_fence(block=True)
    print(np.__name__, sparse.__name__, bool(np.linalg.norm(b - A @ x) <= 1e-9 * np.linalg.norm(b)))
    """


def test_a_stencil_with_legates_clock(tmp_path: Path) -> None:
    written(tmp_path, "timer.py", TIMER)
    ours = run(tmp_path, "run", written(tmp_path, "stencil.py", STENCIL), "-n", "160")
    assert ours.returncode == 0, ours.stderr
    name, total = ours.stdout.split()
    import numpy

    grid = numpy.zeros((162, 162))
    grid[:, 0] = grid[:, -1] = grid[-1, :] = -273.15
    grid[0, :] = 40.0
    for _ in range(20):
        grid[1:-1, 1:-1] = 0.2 * (grid[1:-1, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2]
                                  + grid[2:, 1:-1])
    assert name == "diffuse.numpy" and float(total) == pytest.approx(grid.sum(), rel=1e-12)


def test_sparse_solvers_by_the_names_that_a_program_looks_up(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    found = run(tmp_path, "run", written(tmp_path, "poisson.py", POISSON))
    assert found.stdout == "diffuse.numpy diffuse.scipy.sparse True\n", found.stderr


def test_every_form_of_import(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    found = run(tmp_path, "run", "--as", "mine", "--as", "their.own.sparse=scipy.sparse", written(
        tmp_path, "program.py", """
        import numpy as np
        import cupynumeric, cunumeric, cupynumeric.linalg as la, legate.sparse as sp, legate.timing
        import legate_sparse.linalg, mine, their.own.sparse as other
        import legate.sparse
        from cupynumeric import sin, linalg
        from cunumeric.random import default_rng
        from legate import sparse, timing
        from legate.sparse import linalg as solvers, csr_array
        from mine import cos
        assert cupynumeric is cunumeric is mine is np and la is linalg is np.linalg and sin is np.sin
        import scipy.sparse
        assert sp is sparse is legate.sparse is legate_sparse is other is scipy.sparse, sp
        assert solvers is scipy.sparse.linalg and csr_array is scipy.sparse.csr_array
        for wrong in ("import cupynumeric.settings", "from legate.core import LogicalArray",
                      "import numpy.no"):
            try: exec(wrong)
            except ImportError as error: print(error)
        """))
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0].startswith("No module named 'cupynumeric.settings': under `diffuse run` cupynumeric "
                               "means diffuse.numpy") and "--real cupynumeric" in lines[0]
    assert lines[1].startswith("cannot import name 'LogicalArray'")
    assert lines[2] == "No module named 'numpy.no'"


def test_a_name_can_be_left_to_the_library_itself() -> None:
    with settings.using(real="cupynumeric,legate"):
        names = imports.chosen()
    assert "cupynumeric" not in names and "legate.timing" not in names and "legate.sparse" not in names
    assert names["cunumeric"] == "diffuse.numpy"
    with settings.using(aliases="other"):
        assert imports.chosen()["other"] == "diffuse.numpy"
    with settings.using(aliases="other=nosuch"):
        with pytest.raises(ValueError, match="--as other=nosuch: Diffuse has no module 'diffuse.nosuch'"):
            imports.chosen()


@pytest.mark.not_device("an array is copied to the host when it is read")
def test_legates_clock_waits_and_refuses_other_units() -> None:
    x = np.ones(1_000_000) * 2
    before = time("ns")
    assert not engine.current().busy(x.storage) and time("ns") > before
    with pytest.raises(ValueError, match="expected one of 'ns', 'us'"):
        time("ms")
