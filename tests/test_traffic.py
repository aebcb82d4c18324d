"""What ranks send: predicted as counted, the least, and the analysis of many ranks by its definition."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from diffuse.movement.boxes import Holding, Layout, intersection, remove, size, volume
from diffuse.movement.direct import busiest, exchange, volumes
from diffuse.runtime.mpi.shares import _disjoint
from diffuse.runtime.mpi.traffic import Traffic, received
from diffuse.runtime.mpi.validity import all_of, fresh, made, tidy
from tests.each import for_each
from tests.jobs import TINY, Job, diffuse, over_mpi, script
from tests.test_mpi_validity import elements, some_box

SHAPE = (9, 7)


def some_layout(pick: random.Random, ranks: int) -> Layout:
    return tuple([tidy([some_box(pick, SHAPE) for _ in range(pick.randint(0, 3))]) for _ in range(ranks)])


# -- what is counted for many ranks, by its definition -----------------------------------------------------


@for_each("seed", range(30))
def test_volumes_are_those_of_the_exchange(seed: int) -> None:
    pick = random.Random(seed)
    have, want = some_layout(pick, 5), some_layout(pick, 5)
    have = (*have[:2], have[1], all_of(SHAPE), have[4])  # ranks that hold the same are counted at once
    want = (*want[:2], want[1], *want[3:])
    arrivals = exchange(have, want).arrivals
    assert volumes(have, want) == (sum(volume(box) for boxes in arrivals for _, box in boxes),
                                   sum(map(len, arrivals)))
    assert received(arrivals, fresh(SHAPE, 8, 5)) == 8 * volumes(have, want)[0]


@for_each("seed", range(30))
def test_the_busiest_rank_is_that_of_the_exchange(seed: int) -> None:
    pick = random.Random(seed)
    have, want = (all_of(SHAPE), *some_layout(pick, 4)), some_layout(pick, 5)
    moves = [(sender, receiver, volume(box)) for receiver, boxes in enumerate(exchange(have, want).arrivals)
             for sender, box in boxes]
    sums = [[n for move in moves for n in move[2:] if move[side] == rank] for side in (0, 1)
            for rank in range(5)]
    assert busiest(have, want) == (max(map(sum, sums)), max(map(len, sums)))


@for_each("seed", range(30))
def test_who_wrote_an_element_holds_it_and_nobody_else(seed: int) -> None:
    pick = random.Random(seed)
    have, by = some_layout(pick, 4), some_layout(pick, 4)
    state = made(SHAPE, 8, have, ((),) * 4)
    for rank, held in enumerate(state.written(by).have):
        others = {point for other, boxes in enumerate(by) if other != rank for point in elements(boxes)}
        known = elements(have[rank]) if any(by) else elements(state.have[rank])
        assert elements(held) == known - others | elements(by[rank])


@for_each("seed", range(30))
def test_disjoint_writes(seed: int) -> None:
    pick = random.Random(seed)
    writes = some_layout(pick, 3)
    if seed % 2:
        taken: Holding = ()
        apart = []
        for boxes in writes:
            apart.append(tidy(remove(boxes, taken)))
            taken = (*taken, *apart[-1])
        writes = tuple(apart)
    meet = any(intersection(a, b) for one, other in combinations(writes, 2) for a in one for b in other)
    assert _disjoint(writes) is not meet


def test_the_tiles_of_many_points_are_one_box() -> None:
    tiles = [(range(17 * p, min(17 * p + 19, 400)), range(q, q + 5))
             for p in range(24) for q in range(0, 15, 5)]
    random.Random(1).shuffle(tiles)
    assert tidy(tiles) == ((range(400), range(15)),)
    assert size(tidy(tiles[::2])) == len(elements(tuple(tiles[::2])))


def test_rows_add_up() -> None:
    kept = Traffic()
    for least, nbytes in ((8, 16), (None, 24), (8, 32)):
        kept.begin("add [x.py:1]", least)
        kept.sent(nbytes, 1)
    kept.begin("sum [x.py:2]", 0)
    found = kept.summed(lambda n: 3 * n)
    row = found["add [x.py:1]"]
    assert (row.times, row.bytes, row.messages, row.least) == (3, 216, 9, None)
    assert found["sum [x.py:2]"].least == 0
    assert kept.total(lambda n: n) == (72, 3)


# -- the command line --------------------------------------------------------------------------------------


def predicted(ranks: int, path: str, *words: str) -> Job:
    return diffuse("run", "--traffic", "--predict", str(ranks), *words, path, **TINY)


STENCIL = """
    import numpy as np
    u = np.ones((256, 64))
    u[100] = 3.0
    for _ in range(4):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    s = u.sum(axis=1)
    print(s[100])
    m = u.sum(axis=0)
    print(u[100, :3], m[3])
"""


def test_a_table_of_lines_and_operations(tmp_path: Path) -> None:
    path = script(tmp_path, STENCIL)
    plain = diffuse("run", path, **TINY)
    done = predicted(4, path)
    assert done.returncode == 0, done.tail
    assert done.stdout == plain.stdout
    head, *lines, last = done.stderr.splitlines()
    assert "4 ranks sent, predicted" in head and "sent nothing" in last
    rows = {line.split("  ")[0].rpartition("/")[2]: line.replace(",", "").split()[-4:] for line in lines[1:]}
    times, nbytes, messages, least = map(int, rows["x.py:6"])
    # at three borders a row of 62 numbers each way, the first time with the ends of a row that moves
    assert (times, messages) == (4, 24) and nbytes == least == 4 * 6 * 62 * 8 + 3 * 2 * 8, done.stderr
    # sums of rows need no partial results of others, but rows that the interior gives to a neighbour
    assert rows["x.py:7"] == ["1", "1488", "3", "1488"] and 1488 == 3 * 62 * 8
    assert int(rows["x.py:9"][1]) > int(rows["x.py:9"][3]) == 3 * 64 * 8, done.stderr


LINES = """
    import hashlib
    import numpy as np
    a = np.arange(60 * 70.0).reshape(60, 70) % 11.0
    a[::7, ::5] = np.nan
    rows = np.sort(a, axis=1)
    found = [rows, np.sort(a, axis=0, kind="stable"), np.argsort(a, kind="stable"), np.argsort(a, axis=0),
             np.sort(a.reshape(3, 20, 70), axis=1), np.sort(a > 4.0), np.sort(a.reshape(-1)), np.sort(a.T),
             np.sort(a[::2]), np.sort(rows[:1]), np.sort(a, axis=None), np.sort([3.0, 1.0])]
    for x in found:
        x = np.asarray(x)
        print(x.shape, x.dtype, x.strides, hashlib.sha256(x.tobytes()).hexdigest())
    for wrong in ({"axis": 2}, {"kind": "no"}, {"order": "x"}, {"nothing": 1}):
        try:
            np.sort(a, **wrong)
        except Exception as error:
            print(type(error).__name__, error)
"""


def test_lines_that_are_whole_on_a_rank_are_sorted_there(tmp_path: Path) -> None:
    path = script(tmp_path, LINES)
    silent: dict[str, Any] = {**TINY, "DIFFUSE_FALLBACK": "silent"}
    plain = diffuse("run", path, **silent)
    done = diffuse("run", "--predict", "3", "--json", path, **silent)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    rows = {row["title"].replace(path, "x.py"): row for row in json.loads(done.stderr)["rows"]}
    assert rows["sort [x.py:6]"]["bytes"] == 0 and rows["sort [x.py:7]"]["bytes"] > 0
    assert rows["argsort [x.py:7]"]["bytes"] == 0  # the columns that the sort received are still there


def test_thousands_of_ranks_as_json(tmp_path: Path) -> None:
    done = predicted(2048, script(tmp_path, STENCIL), "--json")
    assert done.returncode == 0, done.tail
    found = json.loads(done.stderr)
    assert (found["ranks"], found["predicted"]) == (2048, True)
    assert all(row["least"] is None or row["least"] <= row["bytes"] for row in found["rows"])
    assert done.stdout == diffuse("run", script(tmp_path, STENCIL), **TINY).stdout


@pytest.mark.parametrize("words, said", [
    (("--runtime", "local", "--traffic"), "--traffic counts under the runtime mpi, not local"),
    (("--predict", "4", "--ranks", "2"), "--predict runs one process, without --ranks"),
    (("--predict", "4", "--simulate", "4"), "--predict runs one process, without --simulate"),
    (("--simulate", "4", "--hosts", "a,b"), "--simulate runs one process, without --hosts"),
    (("--predict", "5000"), "--predict")])
def test_options_that_do_not_go_together(words: tuple[str, ...], said: str) -> None:
    done = diffuse("run", *words, "-c", "pass")
    assert done.returncode == 2 and said in done.stderr, done.tail


# -- predicted is counted ----------------------------------------------------------------------------------

PROGRAMS = """
    import json, sys
    import numpy as np
    from diffuse.runtime.mpi import traffic
    from diffuse.scipy import sparse
    from diffuse.stream import engine
    import diffuse

    n = 48
    a = np.arange(n * n * 1.0).reshape(n, n) % 7.0
    line = sparse.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1])
    grid = sparse.csr_array(sparse.kron(line, sparse.identity(n)) + sparse.kron(sparse.identity(n), line))

    def stencil(u):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return u

    def cg(x):
        p = x.reshape(-1)
        q = grid @ p
        return (p - (p @ p) / (1.0 + p @ q) * q).reshape(n, n)

    k = np.arange(3 * n * n)
    far = sparse.csr_array((1.0 + k % 5, (k * 7919 + k // 3) % (n * n), np.arange(n * n + 1) * 3))

    def apart(x):
        p = x.reshape(-1) * 0.125
        q = far @ p + far.T @ (p + 1.0)
        z = far @ np.stack([q, p, q], axis=1)
        return (q * 0.125 + z[:, 0] * 0.125 + far.sum(axis=1)).reshape(n, n)

    def scattered(x):
        x[::3, 1::2] += x[1::3, ::2]
        x[x > 5.0] = 0.5
        return x + x[::-1]

    def cube(x):
        u = x.reshape(12, 12, 16) + 0.0
        u[1:-1, 1:-1, 1:-1] = u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, 1:-1, 2:]
        return u.reshape(n, n)

    def turned(x):
        z = x + 1j * x[::-1]
        z.real[1:] += z.imag[:-1]
        return abs(z) + float(x.sum()) + x[3, 5]

    table = {
        "stencil": stencil,
        "roll": lambda x: np.roll(x, 1, axis=0) + np.roll(x, -3, axis=1),
        "softmax": lambda x: np.exp(x - x.max(axis=1, keepdims=True)) / x.sum(axis=1, keepdims=True),
        "columns": lambda x: x - x.mean(axis=0) + x.argmax(axis=0),
        "cg": cg,
        "apart": apart,
        "vector": lambda x: x + x @ x[3],
        "matmul": lambda x: (x @ a) * 0.01,
        "transpose": lambda x: 0.5 * (x.T + x),
        "sort": lambda x: np.sort(x, axis=1) - np.argsort(x, axis=0),
        "fft": lambda x: np.fft.fft(x, axis=1).real + a,
        "scans": lambda x: np.cumsum(np.cumsum(x, axis=0), axis=1) * 1e-5,
        "cube": cube,
        "scattered": scattered,
        "turned": turned,
        "take": lambda x: x[[5, 1, 40, 7] * 12] + x,
    }
    kept, found = traffic.kept, {}
    for name, step in table.items():
        x = a + 1.0
        for _ in range(4):
            x = step(x)
        diffuse.fence()
        runtime = engine.current().runtime
        rows = kept.summed(runtime.over_ranks)
        found[name] = {title: [row.times, row.bytes, row.messages, row.least] for title, row in rows.items()}
        kept.clear()
    every = sum(row[1] for rows in found.values() for row in rows.values())
    assert runtime.network is None or every == runtime.over_ranks(runtime.network.sent)
    print(json.dumps(found))
"""


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_what_is_predicted_is_what_ranks_send(ranks: int, tmp_path: Path) -> None:
    path = script(tmp_path, PROGRAMS)
    silent: dict[str, Any] = {**TINY, "DIFFUSE_FALLBACK": "silent"}
    counted = over_mpi(ranks, "--traffic", "--json", path, **silent)
    assert counted.returncode == 0, counted.tail
    foreseen = diffuse("run", "--predict", str(ranks), path, **silent)
    assert foreseen.returncode == 0, foreseen.tail
    found, expected = json.loads(counted.stdout), json.loads(foreseen.stdout)
    for name, rows in expected.items():
        assert found[name] == rows, name
    if ranks != 3:
        simulated = diffuse("run", "--simulate", str(ranks), "--json", path, **silent)
        assert (simulated.returncode, json.loads(simulated.stdout)) == (0, found), simulated.tail
        assert simulated.stderr == counted.stderr  # and what each rank sent, received and held
    assert all(row[3] is None or row[3] <= row[1] for rows in found.values() for row in rows.values())
    assert sum(any(row[1] for row in rows.values()) for rows in found.values()) > 10
