"""Matrix products that sum over the axis along which ranks have their operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

from diffuse.numpy.ops import inner
from diffuse.runtime.mpi.virtual.played import played
from tests.each import rounds
from tests.jobs import TINY, diffuse, over_mpi, script

Array = numpy.ndarray[Any, Any]


def test_pieces_are_those_of_blas() -> None:
    assert inner.Order(256, 4).pieces((0, 600)) == [(0, 256), (256, 428), (428, 600)]
    assert inner.Order(256, 4).pieces((0, 512)) == [(0, 256), (256, 512)]
    assert inner.Order(256, 8).pieces((0, 300)) == [(0, 152), (152, 300)]
    assert inner.Order(64, 1, 8).pieces((0, 150)) == [(0, 64), (64, 128), (128, 150)]
    assert inner.Order(0, 1).pieces((0, 5, 5, 9)) == [(0, 5), (5, 9)]


def multiplied(order: inner.Order, alike: bool, ends: tuple[int, ...], x: Array, y: Array) -> Array:
    """The product as ranks with these parts of the summed dimension find it."""
    rows = (*x.shape[:-1], *y.shape[1:])
    out = numpy.full(rows, -7, x.dtype)
    ranks = len(ends) - 1
    own = tuple([-(-rank * rows[0] // ranks) for rank in range(ranks + 1)])

    def run(peers: Any, firsts: Any, rank: int) -> int:
        low, high = ends[rank], ends[rank + 1]
        inner._run(peers((ends, ends, own)), order, alike, x[..., low:high], y[low:high],
                   out[own[rank]:own[rank + 1]])
        return 0

    played(run, range(ranks + 1))
    return out


@pytest.mark.parametrize("ends", [(0, 900, 1800), (0, 0, 10, 700, 700, 1800), (0, 1800, 1800, 1800),
                                  tuple(range(0, 1801, 120))])
@pytest.mark.parametrize("held", [0, inner.HELD])
def test_ranks_add_up_in_the_order_of_blas(ends: tuple[int, ...], held: int,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever ranks' parts end, also within pieces, and whether sums wait for those before them or not."""
    monkeypatch.setattr(inner, "HELD", held)
    random = numpy.random.default_rng(3)
    a, b, v = random.normal(size=(1800, 60)), random.normal(size=(1800, 50)), random.normal(size=1800)
    integers = (a * 1000).astype(int)
    tried = 0
    for x, y in ((a.T, a), (a.T, b), (v, b), (a.T, v), (integers.T, integers)):
        alike = x.base is y and x.ndim == 2
        kind = inner.OrderKey(x.dtype.name, (x.ndim < 2, y.ndim < 2), alike)
        orders = inner._probed(kind) if x.dtype.kind == "f" else [inner.Order(0, 1)]
        whole = x @ y
        for order in orders:
            if x.dtype.kind == "i" or inner.equal(order, x, y, whole, len(ends) - 1):
                assert multiplied(order, alike, ends, x, y).tobytes() == whole.tobytes()
                tried += 1
    assert tried


def test_orders_that_are_not_those_of_blas_are_found_wrong() -> None:
    random = numpy.random.default_rng(3)
    x, y = random.normal(size=(2000, 30)).T, random.normal(size=(2000, 20))
    assert not inner.equal(inner.Order(100, 4), x, y, x @ y, 2)


PROGRAM = """
    import hashlib
    import numpy as np

    def say(name, *values):
        for value in values:
            value = np.asarray(value)
            print(name, value.shape, value.dtype, hashlib.sha256(value.tobytes()).hexdigest()[:12])

    k = 3000
    a = (np.arange(k * 64) * 2654435761 % 1000000007 / 1e8 - 5).reshape(k, 64) + 0.0
    b = (np.arange(k * 40) * 40503 % 1000003 / 1e5 - 5).reshape(k, 40) + 0.0
    v = np.sin(np.arange(k * 1.0))
    for dtype in "f8", "f4", "c16", "i8":
        x, y, w = a.astype(dtype), b.astype(dtype), v.astype(dtype)
        say(dtype, x.T @ x, x.T @ y, x.T @ y[:, :3], np.tensordot(x, y, axes=(0, 0)), x[::2].T @ y[::2],
            x[:, ::2].T @ y, x.T @ x[:, 1:], x.T @ y[::-1])
        for _ in range(3):
            say(dtype, w @ x, x.T @ w)
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    engine.fence()
    if traffic.kept is not None:
        print("sent", traffic.kept.total(getattr(engine.current().runtime, "over_ranks", int)))
"""


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("ranks", rounds([3], [2, 3, 4]))
def test_sums_over_the_cut_axis_have_the_bits_of_one_process(ranks: int, tmp_path: Path) -> None:
    path = script(tmp_path, PROGRAM)
    settings = {**TINY, "DIFFUSE_FALLBACK": "silent", "OPENBLAS_NUM_THREADS": "1"}
    plain = diffuse("run", path, **settings)
    assert plain.returncode == 0 and plain.stdout.count("\n") == 56, plain.tail
    done = over_mpi(ranks, "--traffic", path, **settings)
    foreseen = diffuse("run", "--predict", str(ranks), path, **settings)
    for each in (done, foreseen):
        assert each.stdout.startswith(plain.stdout), each.tail
    sent = [each.stdout.removeprefix(plain.stdout).splitlines() for each in (done, foreseen)]
    assert sent[0][0] == sent[1][0] and sent[0][0].startswith("sent Total(bytes="), sent
