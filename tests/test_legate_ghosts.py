"""Ghosts on Legate: what points read of each other's rows, by its definition; SciPy's bits on ranks."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from diffuse.runtime.base import Gather
from diffuse.runtime.legate.ghosts import DenseOperand, Reads, pays, reads, tabled
from tests.each import for_each
from tests.jobs import ROOT, TINY, diffuse, job, needs_legate, script

FUZZ: dict[str, Any] = {**TINY, "DIFFUSE_MIN_CHUNK": "16", "DIFFUSE_FALLBACK": "silent"}


def operand(rows: int, tile: int, count: int) -> DenseOperand:
    return DenseOperand(Gather(0, 0, (1, 2), 2, 3), rows, tile, count, 8, 0, ())


def some(seed: int) -> tuple[Any, int, DenseOperand]:
    """A random matrix, banded or scattered, and how its rows and an operand are divided among points."""
    pick = np.random.default_rng(seed)
    rows, columns, points = (int(pick.integers(*ends)) for ends in ((1, 60), (1, 60), (2, 6)))
    if seed % 2:
        found = scipy.sparse.random_array((rows, columns), density=0.1, rng=pick, format="csr")
    else:
        found = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-2, 0, 1], shape=(rows, columns),
                                         format="csr")
    return found, points, operand(-(-rows // points), -(-columns // points), columns)


@for_each("seed", range(60))
def test_points_read_what_their_rows_name(seed: int) -> None:
    matrix, points, divided = some(seed)
    found = reads(divided, points, matrix.indptr[:-1], matrix.indptr[1:], matrix.indices)
    assert found is not None
    foreign = []
    for row in range(matrix.shape[0]):
        columns = matrix.indices[matrix.indptr[row]:matrix.indptr[row + 1]].tolist()
        foreign.append([column for column in columns if column // divided.tile != row // divided.rows])
    for reader in range(points):
        mine = range(reader * divided.rows, min((reader + 1) * divided.rows, matrix.shape[0]))
        wanted = sorted({column for row in mine for column in foreign[row]})
        for owner in range(points):
            assert found.cells[owner][reader].tolist() == [c for c in wanted if c // divided.tile == owner]
        low, high = found.plain[reader]
        runs = [end - begin for begin in mine for end in range(begin + 1, mine.stop + 1)
                if not any(foreign[begin:end])]
        assert high - low == max(runs, default=0) and not any(foreign[low:high])
        assert low == high or mine.start <= low < high <= mine.stop


def test_rows_that_overlap_have_no_loop_of_their_own() -> None:
    low, high, columns = np.array([0, 0]), np.array([2, 2]), np.array([0, 1], np.int32)
    found = reads(operand(2, 2, 2), 1, low, high, columns)
    assert found is not None and found.plain == [(0, 0)]


def test_columns_that_the_operand_does_not_have() -> None:
    ends = np.array([0]), np.array([1])
    for column in (-1, 7):
        assert reads(operand(1, 7, 7), 1, *ends, np.array([column])) is None


def test_the_table_tells_where_each_cell_begins() -> None:
    cells = [[[], [3, 4]], [[7], []]]
    found = Reads([[np.array(rows, np.int64) for rows in line] for line in cells], [(1, 2), (5, 9)])
    assert tabled(found).tolist() == [1, 2, 5, 9, 0, 0, 2, 3, 3, 3, 4, 7]


def test_what_moves_less() -> None:
    assert pays(operand(50, 50, 100), 2, 12) and not pays(operand(50, 50, 100), 2, 13)


@needs_legate
@pytest.mark.parametrize("processors, threads, first, last", [(2, 2, 0, 12), (3, 1, 12, 24)])
def test_random_products_have_scipys_bits_on_processors(processors: int, threads: int, first: int, last: int
                                                        ) -> None:
    done = job(sys.executable, str(ROOT / "tests" / "fuzz_ghosts.py"), str(first), str(last), cwd=ROOT,
               DIFFUSE_RUNTIME="legate", LEGATE_CONFIG=f"--cpus {processors} --gpus 0", **FUZZ,
               DIFFUSE_NUM_THREADS=str(threads))
    assert done.returncode == 0 and f"{last - first} programs on 1 ranks" in done.stdout, done.tail
    assert int(done.stdout.split(" plans")[0].split()[-1]) > (last - first) // 2


@pytest.mark.ranks
@pytest.mark.parametrize("ranks, first, last", [(2, 24, 32), (3, 32, 37)])
def test_random_products_have_scipys_bits_on_ranks(ranks: int, first: int, last: int, tmp_path: Path) -> None:
    path = script(tmp_path, f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from tests import fuzz_ghosts
        fuzz_ghosts.main({first}, {last})
    """)
    done = diffuse("run", "--ranks", str(ranks), "--cpus", "1", "--real", "tests", path,
                   **FUZZ)
    assert done.returncode == 0 and f"{last - first} programs on {ranks} ranks" in done.stdout, done.tail
    assert int(done.stdout.split(" plans")[0].split()[-1]) > (last - first) // 3


SOLVER = """
    import hashlib, sys
    import numpy
    import diffuse.numpy as np
    import diffuse.scipy.sparse as sp
    from diffuse.observe import trace

    n = 600
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    A = sp.kronsum(line, line, format="csr")
    x, r = np.zeros(n * n), np.array(numpy.sin(numpy.arange(n * n)))
    p, rr = r.copy(), np.dot(r, r)
    for _ in range(12):
        q = A @ p
        alpha = rr / np.dot(p, q)
        x += alpha * p
        r -= alpha * q
        rr, before = np.dot(r, r), rr
        p = r + rr / before * p
    print(hashlib.sha256(numpy.asarray(x).tobytes()).hexdigest(), trace.counters["exchanged"])
"""


@pytest.mark.ranks
def test_a_solver_exchanges_rows_from_its_second_product_on(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(textwrap.dedent(SOLVER))
    words = "run", "x.py"
    one = diffuse(*words, cwd=tmp_path, DIFFUSE_RUNTIME="local", DIFFUSE_COMPILE="wait")
    two = diffuse("run", "--ranks", "2", "--cpus", "1", "x.py", cwd=tmp_path, DIFFUSE_LEGATE_MEMORY="1G")
    assert one.returncode == two.returncode == 0, one.tail + two.tail
    (bits, none), (found, exchanged) = one.stdout.split(), two.stdout.split()
    assert (found, none, exchanged) == (bits, "0", "11")
