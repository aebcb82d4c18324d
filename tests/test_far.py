"""Arrays that ranks have in parts, read, written, sorted and counted by messages between ranks."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from diffuse.numpy.arrays import far
from diffuse.numpy.bridge.ranks import pieces, shuffling
from diffuse.numpy.order import ranked
from diffuse.runtime.mpi.virtual.played import played
from tests import large
from tests.each import for_each
from tests.jobs import TINY, diffuse, over_mpi, script

Array = numpy.ndarray[Any, Any]


# -- one function, played by several ranks in this process -------------------------------------------------


def together(function: Callable[..., None], tiles: tuple[int, ...], ranks: int, *arrays: Array) -> int:
    """Run a function as so many ranks, of which each has a tile of each array; returns the bytes sent."""
    def run(peers: Any, firsts: Any, rank: int) -> int:
        ends = tuple([tuple([min(first * tile, len(array)) for first in firsts])
                      for tile, array in zip(tiles, arrays, strict=True)])
        function(peers(ends), *[array[some[rank]:some[rank + 1]]
                                for array, some in zip(arrays, ends, strict=True)])
        return 0

    return played(run, range(ranks + 1))[1]


def numbers(count: int, kind: str) -> Array:
    random = numpy.random.default_rng(count)
    x = {"different": random.permutation(count) * 1.0, "few": random.integers(0, 3, count),
         "sorted": numpy.arange(count) * 1.0, "equal": numpy.ones(count)}.get(kind, random.normal(size=count))
    if kind == "nan":
        x[::3] = numpy.nan
    return x


@for_each("kind", ["different", "few", "sorted", "equal", "nan", "normal"])
@for_each("ranks, tile", [(1, 200), (2, 77), (5, 40), (4, 190)])
def test_ranks_find_where_the_sorted_whole_is_cut(kind: str, ranks: int, tile: int) -> None:
    x = numbers(151, kind)
    wanted = numpy.array([0, 1, 40, 75, 76, 149, 150])
    found = numpy.zeros((ranks, len(wanted)), x.dtype)
    places = numpy.zeros((ranks, len(wanted) + 1), int)

    def run(peers: Any, part: Array) -> None:
        _, found[peers.rank] = ranked._cuts(peers, numpy.sort(part), wanted)
        places[peers.rank] = ranked.cuts(peers, numpy.sort(part), [*wanted, 151])

    together(run, (tile,), ranks, x)
    assert all(row.tobytes() == numpy.sort(x)[wanted].tobytes() for row in found)
    assert places.sum(axis=0).tolist() == [*wanted, 151]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_ranks_read_by_asking_those_that_have_the_elements(ranks: int) -> None:
    x, which = numpy.arange(60.0).reshape(30, 2), numpy.random.default_rng(2).integers(-30, 30, 41)
    out = numpy.zeros((41, 2))
    sent = together(far.read, (-(-30 // ranks), -(-41 // ranks), -(-41 // ranks)), ranks, x, which, out)
    assert out.tobytes() == x[which].tobytes()
    assert (sent > 0) == (ranks > 1)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_running_values_go_on_from_the_rank_before(ranks: int) -> None:
    x, out = numpy.random.default_rng(5).normal(size=50), numpy.zeros(50)
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(far, "together", lambda name, function, inputs, outputs: calls.append(function))
        far.scan("cumsum", numpy.add, x, out)
    together(calls[0], (-(-50 // ranks),) * 2, ranks, x, out)
    assert out.tobytes() == numpy.cumsum(x).tobytes()


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("count, block", [(2, 9), (5, 1), (300, 7), (3001, 64), (3001, 1 << 16)])
def test_ranks_shuffle_as_numpy_does(ranks: int, count: int, block: int,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffling, "BLOCK", block)
    for source in (numpy.random.default_rng(count), numpy.random.RandomState(count),
                   numpy.random.Generator(numpy.random.MT19937(4))):
        ours, x, want = copy.deepcopy(source), numpy.arange(count) * 1.5, numpy.arange(count) * 1.5
        source.shuffle(want)
        begin = copy.deepcopy(ours)

        def run(peers: Any, _: Array, part: Array, begin: Any = begin) -> None:
            for steps, targets in shuffling._drawn(copy.deepcopy(begin), count):
                shuffling._move(peers, part, *shuffling._moved(steps, targets))

        together(run, (-(-count // ranks),) * 2, ranks, x, x)
        assert x.tobytes() == want.tobytes()
        assert shuffling._draws_so(type(source).shuffle, "shuffle", source)
        assert len(list(shuffling._drawn(ours, count))) == -(-(count - 1) // block)
        assert ours.random() == source.random()


def test_a_generator_that_draws_otherwise_is_noticed() -> None:
    def backwards(generator: Any, x: Any) -> None:
        generator.shuffle(x[::-1])

    assert not shuffling._draws_so(backwards, "backwards", numpy.random.RandomState(3))


@for_each("count, length", [(50, 1), (50, 7), (50, 50), (9, 4)])
@for_each("low, high", [(0, 1), (0, 0), (3, 5), (48, 50), (0, 9), (44, 58)])
def test_elements_that_a_part_of_a_convolution_needs(count: int, length: int, low: int, high: int) -> None:
    high = min(high, count + length - 1)
    first, last = pieces.window(low, high, count, length)
    if low >= high:
        assert first == last
        return
    assert 0 <= first <= max(low - length + 1, 0) and min(high, count) <= last <= count
    assert last - first >= length
    x, v = numpy.cos(numpy.arange(count)), numpy.sin(numpy.arange(length) + 1.0)
    part = numpy.convolve(x[first:last], v)[low - first:high - first]
    assert part.tobytes() == numpy.convolve(x, v)[low:high].tobytes()


# -- ranks -------------------------------------------------------------------------------------------------

PROGRAM = """
    import hashlib
    import numpy as np

    def say(name, *values):
        for value in values:
            value = np.asarray(value)
            print(name, value.shape, value.dtype, value.strides,
                  hashlib.sha256(value.tobytes()).hexdigest()[:12])

    n = 6000
    x = (np.arange(n) * 7919 % n) / 3.0 - 400.0
    i = (np.arange(n) * 31 + 5) % n
    a = x.reshape(60, 100) + 0.0
    say("read", x[i], x[i - n], x.take(i), x[[3, 1, -4]], a[(np.arange(60) * 7) % 9], a[:, [3, 5]],
        a[i % 60, i % 100], x[i.reshape(60, 100)], (x + 1j * x)[i], np.arange(30.0)[i % 30])
    say("mask", x[x > 500.0], a[a > 100.0], a[a[:, 0] > 0.0], x[x > 1e9], np.flatnonzero(x > 10.0),
        *np.nonzero(a > 10.0), np.argwhere(a > 10.0), np.extract(x > 0, x), np.delete(x, i[:50]),
        a.compress(a[:, 0] > 0, axis=0), np.take_along_axis(a, (a * 3).astype(int) % 100, axis=1))
    y, b = x.copy(), a.copy()
    y[i % 1000] = x
    y[y > 0] = np.arange((y > 0).sum()) * 1.0
    np.add.at(y, i // 3, x)
    y[i[:100]] = 5.0
    y[[0, 5]] = y[[5, 0]]
    say("write", y)
    b[(np.arange(60) * 7) % 10] = a
    b[i % 60, i % 100] = x
    b[:, [3, 4]] = 1.0
    np.put(y, i, [1, 2, 3])
    np.place(y, x > 0, [1, 2])
    np.put_along_axis(b, (a * 3).astype(int) % 100, 1.5, axis=1)
    say("write", y, b)
    for v in (np.floor(x / 7), np.where(x > 300, -0.0, np.where(x > 0, x, 0.0)), np.where(x > 900, np.nan, x),
              i):
        say("sort", np.sort(v), np.sort(v, kind="stable"), np.argsort(v, kind="stable"), np.argsort(v),
            *np.unique(v, return_index=True, return_inverse=True, return_counts=True))
        w = v.copy()
        w[::2].sort()
        say("half", w)
        say("select", np.median(v), np.percentile(v, [1, 30, 99.9]), np.nanquantile(v, 0.5))
    t, s = np.arange(-400.0, 900.0, 11.0), np.sort(x)
    say("search", np.searchsorted(t, x), np.searchsorted(s, t, side="right"), s.searchsorted(17.5),
        np.digitize(a, t[::-1]), np.interp(x, t, t * t), np.isin(i, [3, 5, 900], invert=True))
    say("count", np.bincount(i % 50, minlength=60), *np.histogram(x, 20), *np.histogram(a, t, density=True),
        *np.histogram(i, 7, range=(0, 500)))
    say("scan", np.cumsum(x), np.cumprod(1 + x / 1e9), np.cumsum(i, dtype="f4"), np.cumsum(a))
    say("sets", np.union1d(x, x + 0.25), np.lexsort((x, np.floor(x / 100))), np.tile(x, 2))
    for source in np.random.default_rng(5), np.random.RandomState(5), np.random:
        np.random.seed(5)
        b = a.copy()
        source.shuffle(b)
        say("choose", b, source.permutation(a), source.choice(x, 500), source.choice(x, 30, replace=False),
            source.permutation(x), source.choice(x, (3, 4)), source.permutation(200), source.choice(x))
        c, d = x.copy(), a.reshape(1500, 4) + 0.0
        source.shuffle(c[::2])
        source.shuffle(d)
        say("shuffle", c, d, source.permutation(i), source.normal(size=3))
    for mode in ("full", "same", "valid"):
        for v in ([1.5], [1.0, 2.0, -0.3], t[:12], t[:60]):
            say(mode, np.convolve(x, v, mode), np.convolve(v, i, mode), np.correlate(x[::-1], v, mode))
    say("full", np.convolve(x + 1j, t[:7]), np.correlate(x, t[:4] * 1j, "same"), np.convolve(x > 0, [1, 2]))

    def add_first(line, more):
        line[1] += line[0] + more
        return np.exp(line / 1000)[:9]

    cube = x.reshape(20, 10, 30) + 0.0
    for axis in (0, 1, 2):
        say("lines", np.apply_along_axis(np.sum, axis, cube), np.apply_along_axis(np.outer, axis, cube, [1]),
            np.apply_along_axis(add_first, axis, cube, 2.0), cube)
    z = np.fft.fftn(cube)
    say("parts", z.real * 2.0, z.imag.sum(axis=0))
    z.real = z.imag
    say("parts", z)
    for wrong in (lambda: x[i + 1], lambda: x.take([n]), lambda: y.__setitem__(i + 5, 1.0),
                  lambda: x[x[:-1] > 0], lambda: y.__setitem__(y > 1.5, x)):
        try:
            wrong()
        except (IndexError, ValueError) as error:
            print(type(error).__name__, error)
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    engine.fence()
    if traffic.kept is not None:
        print("sent", traffic.kept.total(getattr(engine.current().runtime, "over_ranks", int)))
"""


@pytest.mark.ranks("mpi")
def test_ranks_find_what_one_does_and_send_what_is_predicted(tmp_path: Path) -> None:
    path = script(tmp_path, PROGRAM)
    silent = {**TINY, "DIFFUSE_FALLBACK": "silent"}
    plain = diffuse("run", path, **silent)
    assert plain.returncode == 0 and plain.stdout.count("\n") > 90, plain.tail
    ranks = over_mpi(3, "--traffic", path, **silent)
    foreseen = diffuse("run", "--predict", "3", path, **silent)
    sent = []
    for done in (ranks, foreseen):
        assert done.stdout.startswith(plain.stdout), done.tail
        sent.append(done.stdout.removeprefix(plain.stdout).splitlines()[0])
    assert sent[0] == sent[1] and sent[0].startswith("sent Total(bytes="), sent


FEW = """
    import numpy as np

    for n in (70, 143, 200, 257):
        x = (np.arange(n) * 7919 % 997) / 3.0 - 150.0
        i = (np.arange(n) * 31 + 5) % n
        y = x + 1.0
        y[i % 50] = x
        y[y > 100.0] = -3.0
        np.add.at(y, i // 3, x)
        np.put(y, i[:7], [1.0, 2.0])
        found = [np.bincount(i % 9, minlength=12), *np.histogram(x, 13), np.flatnonzero(x > 10.0), y, x[i],
                 np.searchsorted(np.sort(x), [0.0, 50.0]), np.sort(x), np.cumsum(x), np.unique(i // 20),
                 np.delete(x, i[:5]), np.median(x), x[:n // 10] @ x[:n // 10 * 10].reshape(-1, 10)]
        print(n, hash(tuple([np.asarray(each).tobytes() for each in found])))
"""


@pytest.mark.ranks("mpi")
def test_ranks_without_a_part_find_what_the_others_do(tmp_path: Path) -> None:
    path = script(tmp_path, FEW)
    silent = {**TINY, "DIFFUSE_FALLBACK": "silent", "PYTHONHASHSEED": "1"}
    plain = diffuse("run", path, **silent)
    assert plain.returncode == 0 and plain.stdout.count("\n") == 4, plain.tail
    ranks = over_mpi(4, "--output", "all", path, **silent)
    assert sorted(ranks.stdout.splitlines()) == sorted(4 * plain.stdout.splitlines()), ranks.tail


@pytest.mark.ranks("mpi")
def test_what_is_larger_than_a_rank_is_read_written_and_sorted() -> None:
    names = ["median", "sort_in_place", "mask_read", "read_many", "cumsum", "matrix_vector", "choice",
             "shuffle_rows", "permutation_rows", "vector_matrix", "gram", "tensordot", "tile", "fft",
             "shuffle", "permutation", "convolve", "apply_along_axis", "fftn", "rfft", "irfft", "partition"]
    verdicts = large.table(argparse.Namespace(megabytes=8.0, memory="3300K", width=500, ranks=4,
                                              runtime="mpi", seconds=120.0, names=names))
    assert verdicts == {name: "close" if name in ("fft", "rfft", "irfft") else "works" for name in names}


MOVED = """
    import hashlib
    import numpy as np

    x = np.cos(np.arange(1024 * 640.0)).reshape(64, 10240) * (1 + 2j)
    y = np.fft.fft(x, axis=0)
    for z in (x, y):
        print(hashlib.sha256(z[::20].tobytes()).hexdigest(), z[:, 3:5].sum(), z[-1, -1])
"""


def prints_the_same_on_four_ranks(folder: Path, program: str, memory: str) -> None:
    """Run a program by itself and on four ranks of so much memory, and compare what both print."""
    path = script(folder, program)
    settings = {"DIFFUSE_FALLBACK": "silent", "DIFFUSE_MIN_CHUNK": "1024"}
    plain = diffuse("run", path, **settings)
    done = over_mpi(4, "--memory", memory, path, **settings)
    assert plain.returncode == 0 and done.stdout == plain.stdout, done.tail


@pytest.mark.ranks("mpi")
def test_an_array_that_is_read_in_other_parts_moves_if_there_is_no_room_for_both(tmp_path: Path) -> None:
    """A rank's part of each array takes 2.5 MB, and what it receives of the first array 1.9 MB."""
    prints_the_same_on_four_ranks(tmp_path, MOVED, "6M")


COPIES = """
    import hashlib
    import numpy as np

    def say(z):
        print(hashlib.sha256(z[::20].tobytes()).hexdigest(), z[:, 3:5].sum(), z[-1, -1])

    x = np.cos(np.arange(1024 * 640.0)).reshape(64, 10240) * (1 + 2j)
    y = np.fft.fft(x, axis=0)
    say(y)
    del y
    z = np.cos(np.arange(1024 * 640.0)).reshape(64, 10240) * (1 + 3j)
    say(z)
    w = np.cos(np.arange(1024 * 640.0)).reshape(64, 10240) * (1 + 4j)
    for each in (w, x, z):
        say(each)
"""


@pytest.mark.ranks("mpi")
def test_copies_of_other_arrays_are_given_up_where_memory_is_short(tmp_path: Path) -> None:
    """A rank's part of each array takes 2.5 MB, and its copy of what it read of the first array 1.9 MB."""
    prints_the_same_on_four_ranks(tmp_path, COPIES, "9M")


WHOLE = """
    import numpy as np

    x = np.sin(np.arange(500000.0))
    for function in (lambda: np.correlate(x, x), lambda: np.fft.fft(x, out=x + 1j),
                     lambda: np.convolve(x, x)):
        try:
            function()
        except MemoryError as error:
            print(error)
"""


@pytest.mark.ranks("mpi")
def test_what_needs_whole_arrays_is_named_where_ranks_have_no_room_for_them(tmp_path: Path) -> None:
    path = script(tmp_path, WHOLE)
    done = over_mpi(4, "--memory", "2M", path, DIFFUSE_FALLBACK="silent")
    lines = done.stdout.splitlines()
    names = "numpy.correlate", "numpy.fft.fft", "numpy.convolve"
    assert len(lines) == 3 and all([line.startswith(f"{name} runs by NumPy, which needs whole arrays")
                                    for name, line in zip(names, lines, strict=True)]), done.tail
