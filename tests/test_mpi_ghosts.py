"""Sparse products on ranks: what each rank lacks of the dense operand, by its definition; SciPy's bits."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.movement.boxes import Layout, remove
from diffuse.runtime.base import Gather
from diffuse.runtime.mpi.gathers import holders, lacking, own, read, written
from diffuse.runtime.mpi.validity import made, tidy
from diffuse.runtime.ranks.numbers import distinct
from diffuse.stream.gathers import gathers
from tests.each import for_each
from tests.jobs import ROOT, diffuse, over_mpi, script

ROWS, WIDTH = 41, 3
SETTINGS = {"DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "16", "DIFFUSE_FALLBACK": "silent"}


def some_rows(pick: random.Random) -> np.ndarray:
    kind = pick.randrange(3)
    if kind == 0:
        return np.array(sorted(pick.sample(range(ROWS), pick.randint(1, ROWS))), np.int64)
    return np.arange(pick.randrange(ROWS // 2), pick.randint(ROWS // 2, ROWS), kind)


@for_each("seed", range(20))
def test_requests_are_read_as_they_were_written(seed: int) -> None:
    rows = some_rows(random.Random(seed))
    message = written(rows)
    assert read(message).tolist() == rows.tolist() and len(message) <= len(rows) + 1
    assert len(written(np.arange(5, 500))) == 3


@pytest.mark.parametrize("numbers", [[], [7], [5, 5, 2, 9, 2], [1 << 40, 3, 3]])
def test_distinct_numbers(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


def some_have(pick: random.Random, ranks: int) -> Layout:
    """Rows that are somebody's, some of them of several ranks; now and then a rank has part of a row, too."""
    cuts = sorted(pick.sample(range(1, ROWS), ranks - 1))
    have = [[(range(a, b), range(WIDTH))] for a, b in zip([0, *cuts], [*cuts, ROWS], strict=True)]
    for held in have:
        for _ in range(pick.randrange(3)):
            at = pick.randrange(ROWS)
            held.append((range(at, at + 1), range(pick.randrange(WIDTH), WIDTH)))
    return tuple([tidy(held) for held in have])


@for_each("seed", range(30))
def test_a_rank_gets_each_row_that_it_lacks_from_one_that_has_it(seed: int) -> None:
    pick = random.Random(seed)
    state = made((ROWS, WIDTH), 8, some_have(pick, 4), ((),) * 4)
    pitch = 8 * WIDTH
    held = holders(state, 0, pitch)
    assert held is not None
    has = [{row for low, high in own(state, rank, 0, pitch) for row in range(low, high)} for rank in range(4)]
    for rank in range(4):
        whole = [row for row in range(ROWS)
                 if not remove([(range(row, row + 1), range(WIDTH))], state.have[rank])]
        assert has[rank] <= set(whole)
        wanted = some_rows(pick)
        found = lacking(wanted, state, rank, 0, pitch, held)
        assert all(set(rows.tolist()) <= has[sender] for sender, rows in found.items()) and rank not in found
        every = [row for rows in found.values() for row in rows.tolist()]
        assert sorted(every) == sorted(set(wanted.tolist()) - has[rank])


def test_rows_that_are_nobodys_alone() -> None:
    halves = tuple([((range(ROWS), columns),) for columns in (range(2), range(2, WIDTH))])
    assert holders(made((ROWS, WIDTH), 8, halves, ((),) * 2), 0, 8 * WIDTH) is None


def body(*ops: Op) -> Body:
    arguments = tuple([Argument(k, 0, "int64", 0, "1", Privilege.READ) for k in range(6)])
    return Body((Space(1, (0,)),), arguments, (), (Loop(0, (0,), ops),))


def test_which_arguments_say_where_others_are_read() -> None:
    ends = Op("load", "int32", (), 0), Op("cast", "int64", (0,)), Op("load", "int64", (), 1)
    rows = Op("spmv", "float64", (1, 2), (2, 3, 4))
    store = Op("store", "float64", (3,), 5)
    assert gathers(body(*ends, rows, store)) == (Gather(0, 1, (2, 3), 3, 4),)
    totals = rows._replace(attribute=(2,))
    assert gathers(body(*ends, totals, store)) == (Gather(0, 1, (2,), -1, -1),)
    other = Op("load", "float64", (), 4), Op("store", "float64", (4,), 5)
    assert gathers(body(*ends, rows, *other)) == ()  # the dense operand is read in another way, too
    computed = Op("add", "int64", (1, 2))
    assert gathers(body(*ends, computed, rows._replace(args=(1, 3)), store)) == ()


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("ranks, first, last", [(2, 0, 5), (4, 10, 13)])
def test_random_products_have_scipys_bits(ranks: int, first: int, last: int, tmp_path: Path) -> None:
    path = script(tmp_path, f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from tests import fuzz_ghosts
        fuzz_ghosts.main({first}, {last})
    """)
    done = over_mpi(ranks, "--real", "tests", path, **SETTINGS)
    assert done.returncode == 0 and f"{last - first} programs on {ranks} ranks" in done.stdout, done.tail
    assert int(done.stdout.split(" plans")[0].split()[-1]) > last - first


PARTS = """
    import numpy as np
    from scipy import sparse

    n = 3000
    k = np.arange(3 * n)

    def made(indices=None, indptr=None, shape=(n, n)):
        indices = (k // 3 + k % 3) % n if indices is None else indices
        indptr = np.arange(n + 1) * 3 if indptr is None else indptr
        return sparse.csr_array((1.0 / (1 + k % 7), indices, indptr), shape=shape)

    for given in (dict(indices=k // 3 + k % 3), dict(indices=k // 3 - 1),
                  dict(indptr=np.arange(n + 1) * 3 + 1),
                  dict(indptr=(np.arange(n + 1) * 3) % (3 * n - 30)), dict(indptr=np.arange(n + 1) * 4),
                  dict(shape=(n + 1, n)), dict(indices=k * 0.5), dict(indptr=np.arange(n + 1) * 2)):
        try:
            a = made(**given)
            print("fine", a.nnz, a.data.shape, a.indices.dtype, float((a @ np.ones(n)).sum()))
        except Exception as error:
            print(type(error).__name__, error)
    a, x = made(), np.arange(n) * 1.0
    print(a.nnz, a.dtype, a.indices.dtype, a.indptr.dtype, a.has_sorted_indices, a[5, 6], a.indptr[-3:])
    y = made() @ x
    print(float(y.sum()), (made() + a).nnz, float((made().T @ y).sum()), float(made().sum(axis=1)[7]))
    c = made()
    i = c.indices
    i[3:6] = i[0]
    print(float((c @ x).sum()), (c @ c).nnz, c.copy().diagonal()[:4])
    c.data *= 2
    c.sort_indices()
    print(float((c @ y).sum()), float((y @ c).sum()))
"""


@pytest.mark.ranks("mpi")
def test_a_matrix_made_of_arrays_in_parts(tmp_path: Path) -> None:
    path = script(tmp_path, PARTS)
    plain = diffuse("run", path, **SETTINGS)
    assert plain.returncode == 0 and plain.stdout.count("ValueError") == 7, plain.tail
    done = over_mpi(2, path, **SETTINGS)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail


LARGE = """
    import numpy as np
    from scipy import sparse

    n = 100_000
    k = np.arange(8 * n)
    indices, data, indptr = (k // 8 + k % 8) % n, 1.0 / (1 + k % 7), np.arange(n + 1) * 8
    del k
    a = sparse.csr_array((data, indices, indptr), shape=(n, n))
    del data, indices, indptr
    x = np.arange(n) % 5.0
    for _ in range(3):
        x = (a @ x) * 0.5
    print(float(x.sum()))
"""


@pytest.mark.ranks("mpi")
def test_a_matrix_that_no_rank_has_room_for(tmp_path: Path) -> None:
    """Its arrays are 13.6 MB, and each of two ranks may have 9."""
    path = script(tmp_path, LARGE)
    done = over_mpi(2, path, DIFFUSE_MPI_MEMORY="9M")
    assert done.returncode == 0, done.tail
    assert done.stdout == diffuse("run", path).stdout
