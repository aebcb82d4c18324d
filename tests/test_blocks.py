"""Blocks: grids of least surface where tasks read neighbours along several dimensions, with the same bits."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from diffuse.ir import Frame, Point
from diffuse.movement.machine import Machine
from diffuse.stream.blocks import blocks, surface
from diffuse.stream.decompose import by_extents
from diffuse.stream.shapes import Shapes
from tests.jobs import TINY, Job, diffuse, over_mpi, script
from tests.test_shapes import elementwise, fold, learned, part

PROGRAMS = str(Path(__file__).with_name("block_programs.py"))


@pytest.mark.parametrize("shape, ranks, domain", [
    ((2048, 2048), 2, ()),                     # one cut: rows
    ((2048, 2048), 4, (2, 2)),
    ((2048, 2048), 6, (3, 2)),
    ((2048, 2048), 7, ()),                     # a prime number of ranks
    ((128, 128, 128), 13, (3, 2, 2)),          # one rank idles
    ((128, 128, 128), 64, (4, 4, 4)),
    ((4096, 64), 16, ()),                      # rows have less surface
    ((1024, 1024, 1024), 64, (4, 4, 4)),
    ((1024, 1024, 1024), 512, (16, 8, 4)),     # pieces of pages touch all of them
])
def test_the_grid_of_least_surface(shape: Point, ranks: int, domain: Point) -> None:
    rows = by_extents(shape, ranks, 1)
    found = blocks(shape, rows, ranks, 1, (2,) * len(shape), ())
    assert (found.domain if found else ()) == domain
    if found:
        assert prod(found.domain) <= ranks
        assert all(split.tile * n >= shape[split.axis] for n, split in zip(domain, found.splits, strict=True))


@pytest.mark.parametrize("machine, domain", [
    (Machine(), (4, 4)),
    (Machine(latency=1e-9), (4, 4)),
    (Machine(latency=1e-3), ()),                                 # blocks have more neighbours than rows
    (Machine(latency=1e-3, bandwidth=1e6), (4, 4)),              # yet what they send takes longer
    (Machine(latency=1e-3, bandwidth=1e6, levels=((16, 1e-3, 1e12),)), ()),
])
def test_the_grid_depends_on_the_machine(machine: Machine, domain: Point) -> None:
    shape = (2048, 2048)
    found = blocks(shape, by_extents(shape, 16, 1), 16, 1, (2, 2), (), machine=machine)
    assert (found.domain if found else ()) == domain


def test_partial_results_have_to_be_added_up_where_the_grid_cuts_folds() -> None:
    shape = (2048, 2048)
    rows, slow = by_extents(shape, 16, 1), Machine(latency=1e-9, reduction=1e6)
    assert blocks(shape, rows, 16, 1, (2, 2), (), partials=2048, machine=Machine(latency=1e-9)) is not None
    assert blocks(shape, rows, 16, 1, (2, 2), (), partials=2048, machine=slow) is None


def test_threads_share_the_tile_of_a_rank() -> None:
    found = blocks((2048, 2048), by_extents((2048, 2048), 8, 1), 4, 2, (2, 2), ())
    assert found is not None and found.domain == (2, 4)
    assert [split.tile for split in found.splits] == [1024, 512]


def test_the_grid_for_a_million_ranks_takes_no_longer_to_find() -> None:
    shape = (1 << 20, 1 << 20)
    found = blocks(shape, by_extents(shape, 1 << 20, 1), 1 << 20, 1, (2, 2), ())
    assert found is not None and found.domain == (1024, 1024)
    assert surface(shape, (1024, 1024), (2, 2)) == 2 * 2 * 1023 << 20


def stencil(n: int) -> list[Any]:
    """Tasks that read the neighbours in both dimensions."""
    result = part((n - 2, n - 2), *[slice(None)] * 2)
    inner = slice(1, -1)
    return [elementwise(part((n, n), a, b), result) for a, b in (
        (slice(0, -2), inner), (slice(2, None), inner), (inner, slice(0, -2)), (inner, slice(2, None)))]


def test_what_a_loop_does_decides() -> None:
    shapes = Shapes()
    shapes.threads = 1
    whole = elementwise(*[part((256, 256), *[slice(None)] * 2)] * 2)

    def domain() -> Point:
        return shapes.decomposition(whole, 16, 1).domain

    flat = part((256 * 256,), slice(None))
    reshaped = elementwise(flat.kept((256, 256), (0,)), part((256, 256), *[slice(None)] * 2))
    shapes.learn(reshaped, [Frame((256 * 256,), "float64"), Frame((256, 256), "float64")], ())
    assert domain() == (16,)
    learned(shapes, *stencil(256))
    assert domain() == (16,), "within a turn nothing changes"
    assert shapes.turn() and domain() == (4, 4), "what came before the loop does not speak against blocks"
    interior = elementwise(*[part((254, 254), *[slice(None)] * 2)] * 2)
    assert shapes.decomposition(interior, 16, 1).domain == (4, 4)
    learned(shapes, fold((256, 256), 0))
    assert shapes.turn() and domain() == (16,), "the fold of each row needs whole rows"
    assert not learned(shapes, *stencil(256)).turn()


STENCIL = """
    import numpy as np
    u = np.ones((40, 40, 40))
    u[7, 8, 9] = 3.0
    i = slice(1, -1)
    for _ in range(12):
        u[i, i, i] = (u[:-2, i, i] + u[2:, i, i] + u[i, :-2, i] + u[i, 2:, i] + u[i, i, :-2]
                      + u[i, i, 2:]) / 6.0
    print(u[8, 8, 8], u.sum())
"""


def predicted(ranks: int, path: str) -> Job:
    return diffuse("run", "--predict", str(ranks), "--json", path, **TINY)


def test_a_stencil_moves_the_faces_of_its_blocks(tmp_path: Path) -> None:
    path = script(tmp_path, STENCIL)
    done = predicted(27, path)
    assert done.returncode == 0, done.tail
    assert done.stdout == diffuse("run", path, **TINY).stdout
    rows = {row["title"].partition(" [")[0]: row for row in json.loads(done.stderr)["rows"]}
    row = rows["add add add add add divide"]
    once = 8 * 40 ** 3
    assert row["bytes"] < 11 * 3 * 2 * 2 * 38 * 38 * 8 + 2 * once, rows
    assert row["times"] == 12


@pytest.mark.parametrize("ranks", [8, 13])
def test_random_programs_in_blocks_have_the_local_bits(ranks: int) -> None:
    few: dict[str, Any] = {**TINY, "DIFFUSE_MIN_CHUNK": "8", "DIFFUSE_FALLBACK": "silent"}
    plain = diffuse("run", PROGRAMS, "0", "8", **few)
    done = diffuse("run", "--predict", str(ranks), PROGRAMS, "0", "8", **few)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    assert "over grids of []" in plain.stderr and "over grids of [(" in done.stderr


@pytest.mark.ranks("mpi")
def test_ranks_in_blocks_have_the_local_bits() -> None:
    few: dict[str, Any] = {**TINY, "DIFFUSE_MIN_CHUNK": "8", "DIFFUSE_FALLBACK": "silent"}
    plain = diffuse("run", PROGRAMS, "20", "26", **few)
    done = over_mpi(4, PROGRAMS, "20", "26", **few)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail
    assert "over grids of [(2, 2)]" in done.stderr
