"""Passes over a stencil and its write-back on several Legate points: how they are cut, and NumPy's bits."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from diffuse.ir.partition import Rows
from diffuse.runtime.base import Layout
from diffuse.runtime.legate.passes import POINTS, passed
from tests.build import array
from tests.jobs import ROOT, TINY, diffuse, job, needs_legate
from tests.layouts import READ, WRITE, named

FUZZ: dict[str, Any] = {**TINY, "DIFFUSE_COMPILE": "wait", "DIFFUSE_FALLBACK": "silent"}


def sweep(rows: int, points: int, up: int = 1, down: int = 1) -> Layout:
    """Reads of neighbours, and the write-back; another array is read where it is written."""
    plate, other = array(0, rows + up + down, 12), array(1, rows, 10)
    reads = [plate[up + d:up + d + rows, 1:-1] for d in (-up, 0, down)]
    layout = named((rows, 10), points, *[(region, READ) for region in reads],
                   (plate[up:up + rows, :-2], READ), (other, READ), (plate[up:up + rows, 1:-1], WRITE))
    return replace(layout, header=31)


def test_each_point_has_its_rows_and_the_border_is_as_wide_as_the_reads() -> None:
    found = passed(sweep(60, 6, up=2), 2)
    assert found is not None
    cut, border = found
    assert (border.before, border.after) == (2, 1) and cut.spread == (3,)
    tile, other = cut.needs
    assert (tile.low, tile.high, tile.tiles) == ((2, 0), (62, 11), ((0, 0, 20),))
    assert tile.reads and tile.writes
    assert (other.low, other.high, other.writes) == ((0, 0), (60, 10), False)
    (edge,) = border.edges
    assert edge.low is not None and edge.high is not None
    assert (edge.low.low, edge.low.high) == ((0, 0), (2, 11))
    assert (edge.high.low, edge.high.high) == ((62, 0), (63, 11))
    assert edge.pitch == 88 and border.cell(edge) == 6 * 88
    assert edge.words == tuple(1 + 9 * k for k in (0, 1, 2, 3, 5))


def fluxes(rows: int, points: int) -> Layout:
    """Differences of fluxes through one row of faces more than there are rows, of an array that is only read;
    points run one row of fluxes more than of differences."""
    depth, bed, sums = array(0, rows + 1, 12), array(1, rows + 4, 12), array(2, rows + 2, 12)
    layout = named((rows, 12), points, (sums[1:-1], WRITE))
    faces = named((rows + 1, 12), points, (depth[:], READ), (bed[:-3], READ), (bed[1:-2], READ))
    run = Rows(-(-(rows + 1) // points), -(-rows // points), 0, 1)
    above = [a._replace(word=100 + k, access=a.access._replace(partition=run.of(a.access.partition)))
             for k, a in enumerate(faces.arguments)]
    return replace(layout, arguments=(*above, *layout.arguments), header=32)


def test_stores_whose_rows_overlap_have_cells_if_they_are_only_read() -> None:
    found = passed(fluxes(60, 6), 2)
    assert found is not None
    cut, border = found
    sums, depth, bed = cut.needs
    assert sums.writes and (sums.low, sums.high, sums.tiles) == ((1, 0), (61, 12), ((0, 0, 20),))
    assert not depth.writes and (depth.low, depth.high) == ((1, 0), (61, 12))
    assert not bed.writes and (bed.low, bed.high) == ((1, 0), (61, 12))
    assert (border.before, border.after) == (1, 1)
    assert [(edge.need, edge.writes, edge.words) for edge in border.edges] == [
        (1, False, (100,)), (2, False, (101, 102))]
    assert border.edges[0].low is not None and border.edges[0].high is None  # no row is after the last tile
    assert border.edges[1].high is not None and border.edges[1].high.high == (62, 12)


def test_rows_of_other_steps_that_overlap_are_none() -> None:
    layout = fluxes(60, 6)
    other = named((61, 12), 6, (array(1, 130, 12)[:122:2], READ)).arguments[0]
    part = Rows(11, 10, 0, 1).of(other.access.partition)
    changed = other._replace(access=other.access._replace(partition=part))
    arguments = layout.arguments[0], changed, layout.arguments[-1]
    assert passed(replace(layout, arguments=arguments), 1) is None


def test_what_no_point_reads_of_others_has_no_border() -> None:
    found = passed(sweep(60, 6, up=0, down=0), 2)
    assert found is not None and found[1] == (0, 0, ())


def test_points_with_fewer_rows_than_others_read_are_none() -> None:
    assert passed(sweep(16, 4, 2, 2), 1) is not None
    assert passed(sweep(12, 4, 2, 2), 1) is None
    assert passed(sweep(15, 4, 2, 2), 1) is None  # the last one has three


def test_one_point_or_very_many_are_none() -> None:
    assert passed(sweep(60, 2), 2) is None
    assert passed(sweep(40 * POINTS, POINTS), 1) is not None
    assert passed(sweep(40 * POINTS, POINTS + 1), 1) is None


def test_rows_of_other_tiles_are_none() -> None:
    plate = array(0, 60, 60)
    for read in (plate[::-1], array(1, 60, 60)[::-1]):
        layout = named((60, 60), 4, (read, READ), (plate, WRITE))
        assert (passed(replace(layout, header=31), 1) is None) == (read.store == plate.store)


@needs_legate
@pytest.mark.parametrize("processors, threads, first, last", [(2, 1, 0, 25), (3, 3, 25, 45)])
def test_random_passes_have_numpys_bits_on_processors(processors: int, threads: int, first: int, last: int
                                                      ) -> None:
    done = job(sys.executable, str(ROOT / "tests" / "fuzz_passes.py"), str(first), str(last), cwd=ROOT,
               DIFFUSE_RUNTIME="legate", LEGATE_CONFIG=f"--cpus {processors} --gpus 0", **FUZZ,
               DIFFUSE_NUM_THREADS=str(threads))
    assert done.returncode == 0 and f"{last - first} programs on {processors} ranks" in done.stdout, done.tail
    assert int(done.stdout.split(" passes")[0].split()[-1]) > 4 * (last - first)


@pytest.mark.ranks
def test_random_passes_have_numpys_bits_on_ranks() -> None:
    done = diffuse("run", "--ranks", "2", "--cpus", "1", "--real", "tests", "tests/fuzz_passes.py", "45",
                   "55", cwd=ROOT, **FUZZ)
    assert done.returncode == 0 and "10 programs on 2 ranks" in done.stdout, done.tail
    passes, _, exchanges, _ = done.stdout.partition("ranks, ")[2].split()
    assert int(passes) > 40 and 0 < int(exchanges) < int(passes)
