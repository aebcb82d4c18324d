"""Products of two sparse arrays that ranks have in parts: SciPy's bits, structure and types."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy
import pytest

from diffuse.runtime.mpi.virtual.played import played
from diffuse.scipy.sparse import asked
from tests.each import rounds
from tests.jobs import TINY, diffuse, over_mpi


def test_ranges_that_touch_are_one() -> None:
    found = asked.ranges(numpy.array([0, 3, 5, 5, 9]), numpy.array([3, 5, 5, 7, 11]))
    assert found.tolist() == [[0, 7], [9, 11]]
    assert asked.ranges(numpy.array([2]), numpy.array([2])).shape == (0, 2)


@pytest.mark.parametrize("ends", [(0, 30), (0, 10, 10, 30), (0, 7, 14, 21, 30)])
def test_ranks_get_the_ranges_for_which_they_ask(ends: tuple[int, ...]) -> None:
    x, y = numpy.arange(30.0), numpy.arange(60).reshape(30, 2)
    some_ranges: list[list[list[int]]] = [[[0, 30]], [], [[5, 8], [9, 10], [20, 25]], [[29, 30]]]
    wanted = [numpy.array(some, int).reshape(-1, 2) for some in some_ranges]
    got: dict[int, Any] = {}

    def run(peers: Any, firsts: Any, rank: int) -> int:
        part = slice(ends[rank], ends[rank + 1])
        got[rank] = asked.fetched(peers((ends,)), ends, wanted[rank], x[part], y[part])
        return 0

    played(run, ends)
    for rank, found in got.items():
        chosen = [k for low, high in wanted[rank].tolist() for k in range(low, high)]
        assert found[0].tolist() == x[chosen].tolist() and found[1].tolist() == y[chosen].tolist()


PROGRAM = """
    import hashlib
    import numpy as np, scipy.sparse as sp

    def say(name, *values):
        for value in values:
            if sp.issparse(value):
                say(name + " " + value.format, value.data, value.indices, value.indptr)
                print(type(value).__name__, value.shape, value.has_sorted_indices, value.nnz)
                continue
            value = np.asarray(value)
            print(name, value.shape, value.dtype, hashlib.sha256(value.tobytes()).hexdigest()[:12])

    def banded(n, m, kind, dtype, index, offsets=(-30, -1, 0, 1, 30)):
        rows = np.arange(n)
        columns = rows[:, None] + np.array(offsets)[None, :]
        kept = (columns >= 0) & (columns < m) & (rows[:, None] % 17 != 3)
        values = (np.where(columns == rows[:, None], 4.0, -1.0) + rows[:, None] % 7)[kept]
        begins = np.concatenate((np.zeros(1, int), np.cumsum(kept.sum(axis=1))))
        return kind((values.astype(dtype), columns[kept].astype(index), begins.astype(index)), shape=(n, m))

    for kind, dtype, index in ((sp.csr_array, "f8", "i4"), (sp.csr_array, "c16", "i8"),
                               (sp.csr_matrix, "f4", "i4"), (sp.csr_array, "i4", "i8")):
        a, b = banded(900, 700, kind, dtype, index), banded(700, 800, kind, "f8", "i4", (5, 2, -40, 2))
        c = a @ b
        x = np.sin(np.arange(800.0))
        say("product", c @ x, c)
        square = banded(900, 900, kind, dtype, index)
        d = square @ square
        say("square", d @ square, d.toarray(), (d + d).data, d.T @ np.cos(np.arange(900.0)), d.sum(axis=0))
        for _ in range(2):
            say("turned", a.T @ np.cos(np.arange(900.0)), np.sin(np.arange(900.0)) @ a, a.T)
            square.data *= 2
            say("turned", square.T @ np.ones((900, 3)), square.T @ square, square @ square.T, b.T @ a.T)
        say("left", square @ sp.random(900, 40, 0.1, format="csr", rng=3), d.nnz, d[3].toarray())
    nothing = banded(900, 700, sp.csr_array, "f8", "i4", (650,)) @ banded(700, 900, sp.csr_array, "f8",
                                                                        "i4", (899,))
    say("nothing", nothing)
    say("formats", (square @ square.tocsc()).toarray(), (square.tocoo() @ square).toarray())
    try:
        a @ a
    except ValueError as error:
        print(error)
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    engine.fence()
    if traffic.kept is not None:
        print("sent", traffic.kept.total(getattr(engine.current().runtime, "over_ranks", int)))
"""


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("ranks", rounds([4], [2, 3, 4]))
def test_products_have_scipys_elements_on_ranks(ranks: int, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(textwrap.dedent(PROGRAM))
    settings = {**TINY, "DIFFUSE_FALLBACK": "silent"}
    plain = diffuse("run", str(path), **settings)
    assert plain.returncode == 0 and plain.stdout.count("\n") > 60, plain.tail
    done = over_mpi(ranks, "--traffic", str(path), **settings)
    foreseen = diffuse("run", "--predict", str(ranks), str(path), **settings)
    for each in (done, foreseen):
        assert each.stdout.startswith(plain.stdout), each.tail
    sent = [each.stdout.removeprefix(plain.stdout).splitlines()[0] for each in (done, foreseen)]
    assert sent[0] == sent[1] and sent[0].startswith("sent Total(bytes="), sent
