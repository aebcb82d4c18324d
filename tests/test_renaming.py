"""Launches on a device without copies that need not be made: the same bits, and which copies those are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse import settings
from diffuse.runtime.device import renaming, simt
from diffuse.stream import stores
from tests.each import rounds

Program = Callable[[Any, Any], Any]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[renaming.Renamed | None]]:
    """What `renamed` returns for each launch of the simulated device that copies, in stores of any size."""
    made: list[renaming.Renamed | None] = []

    def renamed(*args: Any) -> renaming.Renamed | None:
        made.append(renaming.renamed(*args))
        return made[-1]

    monkeypatch.setattr(simt, "renamed", renamed)
    monkeypatch.setattr(renaming, "LEAST", 0)
    monkeypatch.setattr(stores, "TOGETHER", 0)
    with settings.using(runtime="simt", small=0):
        yield made


def agree(program: Program, shape: tuple[int, ...], dtype: str = "float64", turns: int = 3) -> None:
    """The program has NumPy's bits."""
    start = np.random.default_rng(7).integers(-50, 50, shape).astype(dtype)
    wanted, ours = start.copy(), dnp.array(start)
    for _ in range(turns):
        kept = program(np, wanted)
        held = program(dnp, ours)
        assert np.asarray(ours).tobytes() == wanted.tobytes()
        if kept is not None:
            assert np.asarray(held).tobytes() == kept.tobytes()


def copied_back(np: Any, p: Any) -> None:
    work = (p[1:-1, 1:-1] + p[:-2, 1:-1]) + (p[2:, 1:-1] - p[1:-1, :-2])
    p[1:-1, 1:-1] = work * 0.5


def kept_apart(np: Any, p: Any) -> None:
    old = p.copy()
    p[1:-1, 1:-1] = (old[1:-1, :-2] + old[1:-1, 2:]) * 0.25
    p[0, :] = p[1, :]


def sweeps(np: Any, p: Any) -> None:
    for _ in range(3):
        kept_apart(np, p)
        copied_back(np, p)


def in_three_dimensions(np: Any, p: Any) -> None:
    old = p.copy()
    p[1:-1, 1:-1, 1:-1] = old[:-2, 1:-1, 1:-1] + old[1:-1, 2:, 1:-1] * old[1:-1, 1:-1, :-2]


def in_one_dimension(np: Any, p: Any) -> None:
    p[1:-1] = p[:-2] * 0.5 + p[2:] * 0.25


def with_a_wide_border(np: Any, p: Any) -> None:
    old = p.copy()
    p[3:-1, 2:] = old[:-4, 1:-1] - old[2:-2, :-2]


def whole(np: Any, p: Any) -> None:
    old = p.copy()
    p[:] = old[::-1] * 2.0


def of_two(np: Any, p: Any) -> Any:
    q = p * 2.0
    assert abs(q[0, 0]) < 1e9  # computed before the copies
    before, also = p.copy(), q.copy()
    p[1:-1, 1:-1] = also[2:, 1:-1] - before[:-2, 1:-1]
    q[1:-1, 1:-1] = before[1:-1, :-2] + also[1:-1, 2:]
    return q


def two_that_are_computed_apart(np: Any, p: Any) -> Any:
    q = p * 2.0
    assert abs(q[0, 0]) < 1e9
    one = p[1:-1, 1:-1] + q[:-2, 1:-1] * 0.5
    other = q[1:-1, 1:-1] - p[1:-1, 2:] * 0.25
    p[1:-1, 1:-1] = one
    q[1:-1, 1:-1] = other
    return q


def and_the_copy_is_kept(np: Any, p: Any) -> Any:
    old = p.copy()
    p[1:-1, 1:-1] = old[2:, 1:-1] - old[:-2, 1:-1]
    return old


@pytest.mark.parametrize("program, shape", [
    (copied_back, (60, 50)), (kept_apart, (60, 50)), (sweeps, (40, 45)), (in_three_dimensions, (50, 52, 54)),
    (in_one_dimension, (300,)), (with_a_wide_border, (80, 70)), (whole, (40, 50)), (of_two, (50, 60)),
    (two_that_are_computed_apart, (50, 60)),
    (and_the_copy_is_kept, (50, 60))], ids=lambda x: getattr(x, "__name__", ""))
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_a_store_moves_instead_of_being_copied(program: Program, shape: tuple[int, ...], dtype: str,
                                               found: list[renaming.Renamed | None]) -> None:
    agree(program, shape, dtype)
    assert any(found), "nothing was saved"


def read_before_it_is_overwritten(np: Any, p: Any) -> None:
    old = p.copy()
    p[1:-1, 1:-1] = p[1:-1, 1:-1] + old[2:, 1:-1] * p[1:-1, 2:]


def little_is_overwritten(np: Any, p: Any) -> None:
    old = p.copy()
    p[10:20, 10:20] = old[11:21, 10:20] * 2.0


def the_result_is_kept(np: Any, p: Any) -> Any:
    work = p[1:-1, 1:-1] + p[:-2, 1:-1] * p[2:, 1:-1]
    p[1:-1, 1:-1] = work
    return work


@pytest.mark.parametrize("program", [little_is_overwritten, the_result_is_kept])
def test_a_store_stays_where_the_copy_is_needed(program: Program, found: list[renaming.Renamed | None]
                                                ) -> None:
    agree(program, (60, 50))
    assert not any(found)


def test_small_stores_are_copied(found: list[renaming.Renamed | None], monkeypatch: pytest.MonkeyPatch
                                 ) -> None:
    """Copying them takes less time than the launches that copy their borders."""
    monkeypatch.setattr(renaming, "LEAST", 1 << 20)
    agree(copied_back, (60, 50))
    assert found and not any(found)


def test_reads_of_the_store_and_of_its_copy_at_once(found: list[renaming.Renamed | None]) -> None:
    agree(read_before_it_is_overwritten, (60, 50))


def test_memory_that_is_short_is_done_without(found: list[renaming.Renamed | None],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Results go to their place in fresh memory only where there is some."""
    def none(nbytes: int) -> Any:
        raise MemoryError

    renamed: Any = vars(simt)["renamed"]
    monkeypatch.setattr(simt, "renamed", lambda code, launch, allocate: renamed(code, launch, none))
    agree(copied_back, (60, 50))
    assert found and not any(found)


def test_a_view_that_the_host_reads_sees_the_moved_store(found: list[renaming.Renamed | None]) -> None:
    ours = dnp.array(np.arange(3000.0).reshape(60, 50))
    theirs = np.arange(3000.0).reshape(60, 50)
    view, part = ours[5], theirs[5]
    for _ in range(4):
        kept_apart(np, theirs)
        kept_apart(dnp, ours)
        assert np.asarray(view).tobytes() == part.tobytes()
        ours[5, 7] = theirs[5, 7] = 3.5
    assert any(found)


@pytest.mark.parametrize("seed", range(rounds(30, 300)))
def test_random_programs_have_the_bits(seed: int, found: list[renaming.Renamed | None]) -> None:
    agree(drawn(random.Random(seed)), (40, 45), turns=2)


def drawn(draw: random.Random) -> Program:
    """A program of copies, shifted reads and writes of parts."""
    steps = [(draw.randrange(6), draw.randrange(3), draw.randrange(3), draw.randrange(3), draw.randrange(3),
              draw.random() < 0.2) for _ in range(draw.randrange(2, 9))]

    def program(np: Any, p: Any) -> Any:
        arrays, kept = [p, p * 0.5, p + 3.0], None
        for kind, one, other, row, column, keeps in steps:
            a, b = arrays[one], arrays[other]
            shifted = b[row:b.shape[0] - 2 + row, column:b.shape[1] - 2 + column]
            if kind == 0:
                arrays[other] = a.copy()
            elif kind == 1:
                a[1:-1, 1:-1] = shifted * 0.5 + b[1:-1, 1:-1]
            elif kind == 2:
                a[:] = b
            elif kind == 3:
                a[row, :] = b[1 + column, :]
            elif kind == 4:
                a[:, -1 - column] = b[:, row]
            else:
                work = shifted - a[1:-1, 1:-1]
                a[1:-1, 1:-1] = work
                kept = work if keeps else kept
        arrays[0] += arrays[1] * 0.25 + arrays[2] * 0.125
        if arrays[0] is not p:
            p[:] = arrays[0]
        return kept

    return program
