"""What a program of ever new shapes leaves behind, and what one that comes back to its shapes keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.fusion import canonical
from diffuse.ir import alias, partition, view
from diffuse.ir.bounded import FACTOR, FIRST, LIMIT, Bounded, Past, Size
from diffuse.numpy.ops import moving
from diffuse.observe import trace
from diffuse.stream import engine
from diffuse.stream.memo import Memo, Trail


@pytest.fixture(autouse=True)
def memo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memo]:
    engine.fence()
    window = engine.current().window
    window.forget()
    monkeypatch.setattr(window.memo, "trails_size", Size(100, 10_000))
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
    assert memo.trails_size.limit == 100
    assert memo.nodes < 20  # they have one canonical form


def test_nor_more_entries_of_any_table() -> None:
    tables: list[Any] = [view._views, canonical._forms, alias._known, partition._covering,
                         engine.current().templates.known]
    limits = [table.limit for table in tables]
    for n in range(2 * FIRST // 5):
        turn(n + 1000)
    assert [table.limit for table in tables] == limits
    assert all(len(table) <= limit for table, limit in zip(tables, limits, strict=True))


def test_a_program_that_comes_back_to_many_shapes_is_remembered_whole(memo: Memo) -> None:
    for _ in range(8):
        for n in range(100, 160):
            turn(n)
    assert memo.trails_size.limit > 5 * 60
    nodes, new = memo.trails, trace.snapshot()["plans"]
    for n in range(100, 160):
        turn(n)
    assert memo.trails == nodes and trace.snapshot()["plans"] == new


def test_new_keys_never_let_a_table_grow() -> None:
    table: Bounded[tuple[str, int], int] = Bounded()
    for key in range(20 * FIRST):
        table["key", key] = key
        assert len(table) <= FIRST
    assert table.limit == FIRST


@pytest.mark.parametrize("keys", [2 * FIRST + 100, 5 * FIRST])
def test_keys_that_come_back_let_it_grow_until_it_holds_them(keys: int) -> None:
    table: Bounded[tuple[str, int], int] = Bounded()
    missed = 0
    for _ in range(12):
        missed = 0
        for key in range(keys):
            if table.get(("key", key)) is None:
                missed += 1
                table["key", key] = key
    assert missed == 0
    assert table.limit <= FACTOR * keys


def test_a_table_has_a_limit() -> None:
    table: Bounded[int, int] = Bounded(3 * FIRST)
    for _ in range(10):
        for key in range(4 * FIRST):
            table[key] = key
            assert len(table) <= 3 * FIRST
    assert table.limit == 3 * FIRST < LIMIT


def test_false_positives_are_few() -> None:
    past = Past()
    assert sum(past.seen(hash(("name", k))) for k in range(400_000)) < 400_000 // 4
    assert past.seen(hash(("name", 399_999)))
