"""Host functions on parts of arrays: what a call declares, one rank's bits, rows that stay where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from diffuse import library
from diffuse.numpy.ops import blocks
from diffuse.runtime.independent import Independent
from diffuse.settings import config
from diffuse.stream.parts import part_length
from tests.jobs import TINY, Job, diffuse, over_mpi, script

# -- what a call declares ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts, said", [
    ((), "declares no cut"),
    (((0,),), "has 1 entries for 3 arrays"),
    (((0, None, 2),), "names axis 2 of an array of shape (8, 4)"),
    (((-1, None, 0),), "names axis -1"),
    (((0, None, None),), "leaves an output whole"),
    (((1, None, 0),), "axes of lengths [5, 8]"),
])
def test_a_cut_has_to_fit_the_arrays(cuts: Any, said: str) -> None:
    with pytest.raises(ValueError, match="'product'") as error:
        Independent(print, cuts).check("product", [(8, 5), (5, 4)], [(8, 4)])
    assert said in str(error.value)


def test_cuts_that_fit() -> None:
    Independent(print, ((0, None, 0), (None, 1, 1))).check("product", [(8, 5), (5, 4)], [(8, 4)])


def test_a_call_is_checked_where_it_is_made_and_runs_whole_on_one_rank() -> None:
    x, y = [library.attach(numpy.full((4, 3), value)) for value in (2.0, 0.0)]
    operands = ((x, library.whole(x)),), ((y, library.whole(y)),)

    def scaled(low: int, given: Any, out: Any) -> None:
        out[...] = given * 3.0 + low

    with pytest.raises(ValueError, match="names axis 2"):
        library.call("scaled", Independent(scaled, ((2, 0),)), *operands)
    library.call("scaled", Independent(scaled, ((0, 0),), indexed=True), *operands)
    assert library.value(y).tolist() == [[6.0] * 3] * 4


@pytest.mark.parametrize("length, processors, multiple, tile", [
    (512, 2, 1, 256), (512, 3, 1, 171), (2000, 3, 1, 672), (512, 3, 48, 192), (2000, 3, 48, 672),
    (5, 8, 1, 1), (2000, 3, 80, 800)])
def test_tiles(length: int, processors: int, multiple: int, tile: int) -> None:
    assert part_length(length, 1 << 30, processors, multiple) == tile


def test_blocks_that_are_tried_have_the_bits_of_the_whole_for_other_numbers(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "min_chunk", 1)
    random, tried = numpy.random.default_rng(3), 0
    for length in range(5, 60, 4):
        for columns in (6, 10, 32, 64):
            shapes = blocks.ProductShapes((length,), (length, columns), False, False, ("float64", "float64"),
                                          2, 2, (None, 1, 0))
            if blocks._alike(shapes, 1):
                tried += 1
                assert all([blocks._equal(shapes, 1, random.standard_normal(length),
                                          random.standard_normal((length, columns))) for _ in range(300)])
    assert tried


def test_few_elements_are_one_part() -> None:
    assert part_length(500, 1000, 4) == 500


# -- ranks -------------------------------------------------------------------------------------------------

PROGRAM = """
    import hashlib, json
    import numpy as np
    from diffuse import library
    from diffuse.numpy.ops import blocks
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine
    import diffuse

    a = np.arange(60 * 70.0).reshape(60, 70) % 11.0
    a[::7, ::5] = -a[::7, ::5] ** 0.5
    a = a + 0.5  # cut into equal parts
    cube = (np.arange(12 * 20 * 18.0) % 7.0).reshape(12, 20, 18)
    cube = cube + 1j * cube[::-1]

    def scaled(array, factor, out):
        out[...] = array.cumsum(axis=1) * factor  # methods: these are arrays of NumPy's

    def own():
        x, y = np.array(a), np.empty_like(a)
        f = np.array(a[0])
        operands = [array.__diffuse__() for array in (x, f, y)]
        library.call("scaled", library.Independent(scaled, ((0, None, 0),)), operands[:2], operands[2:])
        return y + x

    def in_place():
        x = np.array(cube.real)
        x.sort(axis=2)
        x[:, ::2].sort(axis=1)
        return x

    def random():
        np.random.seed(7)
        drawn = np.random.default_rng(5)
        return [drawn.random((60, 70)), drawn.normal(1.0, 2.0, size=(40, 50)), drawn.integers(9, size=3000),
                np.random.rand(30, 40), np.random.standard_normal(size=(70, 60)), drawn.random(4),
                np.random.randn(5)]

    def sums():
        real, short = np.array(cube.real), np.array(a[:5])
        return [np.einsum("ij,j->i", a, np.array(a[0])), np.einsum("ijk,jk->i", real, real[0] + 1),
                np.einsum("ijk,ijk -> ij", real, real), np.einsum("ij,j,i", a, a[0] + 0.5, a[:, 0] + 1),
                np.einsum("ij,ij->i", short, short)]

    rows = {
        "fft": lambda: [np.fft.fft(a, axis=1), np.fft.rfft(a, 64, norm="ortho"), np.fft.irfft(a + 1j * a),
                        np.fft.hfft(a + 1j * a, 33), np.fft.ihfft(a), np.fft.ifft(a[::2, 1:], axis=-1),
                        np.fft.rfftn(cube.real, axes=(1, 2)), np.fft.ifft2(cube)],
        "sort": lambda: [np.sort(cube.real, axis=1), np.argsort(a, kind="stable"), np.argpartition(a, 7),
                         np.partition(cube.real, (1, 5)), np.sort(a > 3)],
        "median": lambda: [np.median(a, axis=1), np.median(cube.real, axis=2, keepdims=True),
                           np.percentile(cube.real, [10, 33.3], axis=1), np.quantile(a, 0.7, axis=-1)],
        "einsum": lambda: [np.einsum("ij,ij->i", a, a), np.einsum("ij->i", a)],
        "random": random,
        "own": lambda: [own()],
    }
    def products():
        b, v, n = np.sin(a.T) + 1.0, np.cos(a[0]) + 1.0, (a * 3).astype(int)
        found = [n @ n.T, np.array(cube.real) @ np.array(cube.real).transpose(0, 2, 1)]
        for _ in range(3):
            found += [a @ b, a @ v, v @ b, b @ a, a.astype("f4") @ b.astype("f4")]
        return found + [a @ a.T]

    columns = {
        "products along rows": products,
        "sums with arrays that are whole along rows": sums,
        "fft along rows": lambda: [np.fft.fft(a, axis=0), np.fft.fftn(cube), np.fft.irfft2(cube, axes=(0, 2)),
                                   np.fft.fft(a.T, axis=1)],
        "sort along rows": lambda: [np.sort(a, axis=0), np.argsort(cube.real, axis=0), np.median(a, axis=0),
                                    np.percentile(cube.real, 40, axis=0, keepdims=True), in_place()],
    }
    kept, found = traffic.kept or traffic.Traffic(), {}
    diffuse.fence()
    kept.rows.clear()
    for name, what in {**rows, **columns}.items():
        values = [np.array(value) for value in what()]
        diffuse.fence()
        counts = kept.summed(getattr(engine.current().runtime, "over_ranks", int))
        found[name] = {title: [row.times, row.bytes, row.messages, row.least]
                       for title, row in counts.items()}
        digests = [hashlib.sha256(np.asarray(value).tobytes()).hexdigest()[:12] for value in values]
        print(name, [(value.shape, str(value.dtype), value.strides) for value in values], digests)
        kept.rows.clear()
    for wrong in ({"axis": 7}, {"n": 0}, {"norm": "x"}):
        try:
            np.fft.fft(a, **wrong)
        except (IndexError, ValueError) as error:
            print(type(error).__name__, error)
    a[40, 3] = np.inf
    (np.fft.fft(a, axis=1) + 1.0).real.sum()
    np.set_printoptions(threshold=50)
    print(a, repr(cube), repr(a.T > 1), repr(a[:, 5] * 1e9), str(cube.real[:, 1:6] + 2))
    print(json.dumps({**found, "units": {str(shapes): unit for shapes, unit in blocks._known.items()}}))
"""


CALLS = "fft", "sort", "einsum", "arg", "part", "median", "quantile", "perc", "scaled", "random"


def ended(done: Job) -> tuple[str, dict[str, Any]]:
    """What a program printed, and what it counted."""
    assert done.returncode == 0, done.tail
    *lines, counts = done.stdout.splitlines()
    return "\n".join(lines), json.loads(counts)


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("ranks", [2, 3])
def test_parts_have_the_bits_of_the_whole_and_rows_stay_where_they_are(ranks: int, tmp_path: Path) -> None:
    path, silent = script(tmp_path, PROGRAM), {**TINY, "DIFFUSE_FALLBACK": "error"}
    plain, _ = ended(diffuse("run", path, **silent))
    done = over_mpi(ranks, "--traffic", path, **silent)
    said, counted = ended(done)
    assert said == plain
    assert done.stderr.count("invalid value encountered in") == 1, done.stderr
    assert "fft (one of" in done.stderr, done.stderr
    _, foreseen = ended(diffuse("run", "--predict", str(ranks), path, **silent))
    assert counted == foreseen
    units = counted.pop("units")
    assert len(units) == 5 and sum(unit > 0 for unit in units.values()) > 1, units
    calls = {(name, title): row for name, found in counted.items() for title, row in found.items()
             if title.startswith(CALLS)}
    assert len(calls) > 14
    assert all(row[1] == row[3] for row in calls.values()), calls
    still = [row[1] for (name, _), row in calls.items() if not name.endswith("along rows") and name != "own"]
    assert still and not any(still), calls
