"""What a program of ever new shapes leaves behind, and what one that comes back to its shapes keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import diffuse.numpy as np
from diffuse import bounded, settings
from diffuse.bounded import FRESH, LIMIT, SWEPT, Bounded, Past, Recurring, sweeps
from diffuse.fusion import canonical
from diffuse.ir import alias, partition, view
from diffuse.numpy.ops import moving
from diffuse.observe import trace
from diffuse.runtime import heap
from diffuse.stream import engine
from diffuse.stream.memo import Memo, Trail


@pytest.fixture(autouse=True)
def memo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memo]:
    engine.fence()
    window = engine.current().window
    window.forget()
    monkeypatch.setattr(window.memo, "new_trails", 100)
    monkeypatch.setattr(sweeps, "past", Past(1 << 20))
    monkeypatch.setattr(sweeps, "left", SWEPT)
    monkeypatch.setattr(sweeps, "fresh", FRESH)
    monkeypatch.setattr(sweeps, "_new", 0)
    monkeypatch.setattr(sweeps, "_again", 0)
    monkeypatch.setattr(moving, "MOST", 0)  # operations on ever new views are recorded
    with settings.using(compile="off", window="auto", small=0):
        yield window.memo
        engine.fence()
    window.forget()


def turn(n: int) -> float:
    """Five operations on arrays of this length."""
    x = np.ones(n)
    y = (x * 2 + 1)[1:] - x[:-1]
    return float(y.sum())


def alive(kind: type) -> int:
    gc.collect()
    return sum(type(x) is kind for x in gc.get_objects())


def test_new_shapes_leave_no_more_trails_than_the_memo_has_room_for(memo: Memo) -> None:
    others = alive(Trail)
    for n in range(100, 400):
        assert turn(n) == 2.0 * (n - 1)
        assert memo.trails <= 110
    assert alive(Trail) <= others + 110
    assert memo.nodes < 20  # they have one canonical form


def test_free_memory_is_given_back_with_trails(memo: Memo, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(heap, "trim", kept.append)
    for n in range(400, 700):
        turn(n)
    assert kept and set(kept) == {heap.LEFT}


def test_nor_more_entries_of_any_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "FRESH", 200)
    sweeps.begin()
    tables: list[Any] = [view._views, canonical._forms, alias._known, partition._covering,
                         engine.current().templates.known]
    before = sweeps.number
    for n in range(300):
        turn(n + 1000)
    assert sweeps.number > before + 1
    assert all(len(table) <= 210 for table in tables)


def test_a_program_that_comes_back_to_many_shapes_is_remembered_whole(memo: Memo) -> None:
    for _ in range(8):
        for n in range(100, 160):
            turn(n)
    nodes, new = memo.trails, trace.snapshot()["plans"]
    for n in range(100, 160):
        turn(n)
    assert memo.trails == nodes and trace.snapshot()["plans"] == new


def test_what_never_recurs_is_dropped_again() -> None:
    table: Recurring[tuple[str, int], int] = Recurring()
    for key in range(2 * LIMIT):
        table["key", key] = key
        assert len(table) <= FRESH + 1


@pytest.mark.parametrize("keys", [FRESH + 100, 5 * FRESH, 3 * SWEPT])
def test_what_recurs_is_kept(keys: int) -> None:
    table: Recurring[tuple[str, int], int] = Recurring()
    missed = [0] * 4
    for turn in range(4):
        for key in range(keys):
            if table.get(("key", key)) is None:
                missed[turn] += 1
                table["key", key] = key
    assert missed[0] == keys and missed[2] < FRESH and missed[3] == 0


def test_what_is_kept_stays_beside_what_never_recurs_until_that_is_long_ago() -> None:
    table: Recurring[tuple[str, int], int] = Recurring()
    for key in [*4 * [*range(2 * FRESH)], *range(2 * LIMIT, 2 * LIMIT + 3 * FRESH)]:
        if ("key", key) not in table:
            table["key", key] = key
    assert all(("key", key) in table for key in range(2 * FRESH))
    for key in range(4 * LIMIT, 8 * LIMIT):
        table["new", key] = key
    assert len(table) <= FRESH + 1


def test_entries_of_which_half_come_again_by_chance_are_dropped() -> None:
    table: Recurring[tuple[str, int], int] = Recurring()
    for key in range(8 * FRESH):
        table["key", key] = key
    for key in range(8 * FRESH):
        for one in key, key + LIMIT:
            if ("key", one) not in table:
                table["key", one] = one
        assert len(table) <= 2 * FRESH


def test_a_program_that_comes_back_to_its_entries_is_swept_more_seldom() -> None:
    table: Recurring[int, int] = Recurring()
    for key in 3 * [*range(3 * FRESH)]:
        if key not in table:
            table[key] = key
    assert len(table) == 3 * FRESH and sweeps.fresh > FRESH
    for key in range(LIMIT, LIMIT + 10 * FRESH):
        table[key] = key
    assert sweeps.fresh == FRESH


def test_all_tables_are_swept_when_one_has_many_new_entries() -> None:
    table: Recurring[int, int] = Recurring()
    other: Recurring[int, int] = Recurring()
    other.update({key: key for key in range(50)})
    for key in range(FRESH + 1):
        table[key] = key
    other[50] = 50
    assert list(other) == [50]


def test_objects_compared_by_identity_recur_by_their_names() -> None:
    class Thing:
        pass

    table: Recurring[Any, int] = Recurring(name=lambda thing: thing.number)
    for number in range(8 * FRESH):
        thing = Thing()
        thing.number = number  # type: ignore[attr-defined]
        table[thing] = number
        del thing
        assert len(table) <= FRESH + 1


@pytest.mark.parametrize("kind", [Bounded, Recurring])
def test_a_table_has_a_limit(kind: type[Bounded[int, int]]) -> None:
    table = kind(300)
    for _ in range(10):
        for key in range(400):
            table[key] = key
            assert len(table) <= 300


def test_false_positives_are_few() -> None:
    past = Past()
    assert sum(past.seen(hash(("name", k))) for k in range(400_000)) < 400_000 // 16
    assert all(past.seen(hash(("name", k))) for k in range(400_000 - (1 << 15), 400_000))
