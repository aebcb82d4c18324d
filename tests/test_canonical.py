"""Equal keys mean isomorphic windows: names, values and extents are out, all that a decision needs is in."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from random import Random
from typing import Any

import pytest

from diffuse.bounded import Bounded
from diffuse.fusion import canonical
from diffuse.fusion.canonical import Numbering
from diffuse.fusion.constraints import prefix
from diffuse.fusion.temporaries import temporaries
from diffuse.ir import AccessMap, IndexTask, Privilege, Relation, alias
from diffuse.ir.text import key_text, window_text
from tests import windows
from tests.build import Region, array, key, over, reduction, task
from tests.each import for_each

Key = tuple[Any, ...]


def chain(pairs: Sequence[tuple[int, int]], n: int = 8, points: int = 4) -> list[IndexTask]:
    """Tasks T1, T2, ... that read one store and write another."""
    return [task(f"T{k}", [array(a, n)], array(b, n), points=points) for k, (a, b) in enumerate(pairs, 1)]


#   S1 ─T1─> S2 ─T2─> S1 ─T3─> S3 ─T4─> S1        figure 10 of the paper: the first two streams are
#   S5 ─T1─> S6 ─T2─> S5 ─T3─> S7 ─T4─> S5        isomorphic, the third is not
#   S5 ─T1─> S6 ─T2─> S5    S7 ─T3─> S7 ─T4─> S5
def test_figure_10() -> None:
    first = chain([(1, 2), (2, 1), (1, 3), (3, 1)])
    second = chain([(5, 6), (6, 5), (5, 7), (7, 5)])
    third = chain([(5, 6), (6, 5), (7, 7), (7, 5)])
    assert key(first) == key(second) and hash(key(first)) == hash(key(second))
    assert key(first) != key(third)
    slots = [[row[k] for k in (5, 9)] for row in key(first)[0]]
    assert slots == [[0, 1], [1, 0], [0, 2], [2, 0]]


a, b, c = array(0, 8), array(1, 8), array(2, 8)
m = array(3, 8, 8)


def test_liveness_is_in_the_key() -> None:
    window = chain([(0, 1), (1, 2)])
    assert key(window, {1}) != key(window) and key(window, {1}) == key(chain([(4, 7), (7, 5)]), {7, 9})


@pytest.mark.parametrize("first, second", [
    ([task("add", [a, 2.0], b)], [task("add", [a, 3.0], b)]),                        # scalar values
    ([task("add", [a[1:], a[:-1]], b[1:])], [task("add", [a[2:], a[1:-1]], b[2:])]),   # extents and offsets
    ([task("add", [a, b], c, points=2)], [task("add", [a, b], c, points=4)]),        # how many points
    ([task("add", [a, b], c, where="x:1")], [task("add", [a, b], c, where="x:2")]),  # lines
    ([task("exp", [a[::2]], b[::2])], [task("exp", [a[::3]], b[::3])]),              # steps that are not 1
])
def test_these_do_not_matter(first: list[IndexTask], second: list[IndexTask]) -> None:
    assert key(first) == key(second)


@for_each("first, second", [
    ([task("add", [a, b], c)], [task("sub", [a, b], c)]),
    ([task("add", [a, b], c)], [task("add", [a, a], c)]),                            # which arguments alias
    ([task("add", [a, b], c)], [task("add", [a, b], c, points=2)]),                  # one point is special
    ([task("add", [a, 2.0], c)], [task("add", [2.0, a], c)]),                        # which input is a scalar
    ([task("exp", [a], b)], [task("exp", [array(0, 8, dtype="float32")], b)]),
    ([task("exp", [a], b)], [task("exp", [a[::-1]], b)]),                            # contiguous or not
    ([task("exp", [m], m)], [task("exp", [m.T], m)]),
    ([task("exp", [array(0, 8, 2)[:, 0]], b)], [task("exp", [array(0, 8, 9)[:, 0]], b)]),  # few components
    ([task("exp", [m], m)], [task("exp", [m[0].to((8, 8))], m)]),                    # broadcast
    ([task("exp", [a], b), task("exp", [a[1:]], b[1:])],                             # fresh space or the same
     [task("exp", [a], b), task("exp", [array(0, 9)[1:]], array(1, 9)[1:])]),
    ([task("exp", [a[::2]], a[1::2], points=2)], [task("exp", [a[::2]], a[::2], points=2)]),
    ([reduction("sum", a, array(4), points=2)], [reduction("max", a, array(4), points=2)]),
    ([reduction("sum", m, a, (0,))], [reduction("sum", m, a, (1,))]),
    ([task("exp", [m], m, points=2)], [task("exp", [m], m, points=2, axis=1)]),
    ([task("exp", [a], b), task("exp", [a.frame(2, 4)], b.frame(2, 4))],
     [task("exp", [a], b), task("exp", [array(7, 2, 4)], b.frame(2, 4))]),
])
def test_these_matter(first: list[IndexTask], second: list[IndexTask]) -> None:
    assert key(first) != key(second)


def test_numbers_follow_first_use() -> None:
    numbering = Numbering()
    for t in [task("exp", [b], a), task("add", [a[1:], a[:-1]], c[:-1]),
              task("exp", [a.frame(2, 4)], m[:2, :4])]:
        numbering.row(t)
    assert numbering.slots == {1: 0, 0: 1, 2: 2, 3: 3}
    assert [s.id for s in numbering.stores] == [1, 0, 2, 3]
    assert [len(views) for views in numbering.views] == [1, 4, 1, 1]
    assert [shape for shape, _ in numbering.spaces] == [(8,), (7,), (2, 4)]
    assert numbering.relations(1, 0, 0) is Relation.SAME
    assert numbering.relations(1, 2, 1) is numbering.relations(1, 1, 2) is Relation.ALIGNED


def test_a_view_is_known_by_value_not_by_object() -> None:
    numbering = Numbering()
    first, again = numbering.row(task("exp", [array(0, 8)], b)), numbering.row(task("exp", [array(0, 8)], b))
    assert again[6] == 0 and again[2] == 0 and again[3] is True and first[6] != 0
    assert len(numbering.views[0]) == 1


def test_an_identity_used_again_for_another_frame_is_another_view() -> None:
    """One map object may serve two frames of a store: identity finds it, value decides."""
    first = task("exp", [a], b)
    wide = tuple(x._replace(store=x.store._replace(shape=(9,))) for x in first.accesses)
    numbering = Numbering()
    assert numbering.row(first)[6] != 0
    assert numbering.row(first._replace(accesses=wide))[6] != 0 and len(numbering.views[0]) == 2


@pytest.mark.parametrize("region, rank, expected", [
    (m, 2, "s1"), (m.T, 2, "1s"), (m[0].to((8, 8)), 2, "01"), (m[:, ::-1], 2, "ss"), (m[:, 1], 1, "s"),
    (m.diagonal(), 1, "s"), (a[::2], 1, "s"), (array(0, 4, 6).frame(24), 1, "1"), (array(0), 2, "00"),
])
def test_classes(region: Region, rank: int, expected: str) -> None:
    assert AccessMap(region.rows).classes(rank) == expected


def test_forgetting_what_was_found_about_views_changes_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    window = chain([(0, 1), (1, 2), (2, 0)])
    before = key(window)
    monkeypatch.setattr(canonical, "_forms", Bounded(1))
    monkeypatch.setattr(alias, "_known", Bounded(1))
    assert key(window) == before


def decision(window: Sequence[IndexTask], live: Container[int]) -> object:
    """All that floor 3 decides about a window, in slots."""
    head, why = prefix(window)
    slots = Numbering()
    for t in window:
        slots.row(t)
    gone = temporaries(head, window[len(head):], live)
    return len(head), why.constraint if why else None, sorted(slots.slots[i] for i in gone)


def test_equal_keys_mean_equal_decisions() -> None:
    """A memo by key replays nothing wrong over random windows, many of which share a key."""
    memo: dict[Key, object] = {}
    shared = 0
    for seed in range(1500):
        window = windows.window(Random(seed))
        for live in ((), {0}, {1, 2}):
            name, found = key(window, live), decision(window, live)
            shared += name in memo
            assert memo.setdefault(name, found) == found, window_text(window)
    assert shared > 200


def without_view(part: int) -> Callable[[Key], object]:
    """The key without one part of each new view's description."""
    def reduced(k: Key) -> object:
        return tuple(tuple((*x[:part], *x[part + 1:]) if isinstance(x, tuple) and i >= 5 else x
                           for i, x in enumerate(row)) for row in k[0]), k[1]
    return reduced


def without(position: int, period: int = 0) -> Callable[[Key], object]:
    """The key without one part of each row, or of each access of a row."""
    def reduced(k: Key) -> object:
        return tuple(tuple(x for i, x in enumerate(row)
                           if i != position and not (period and i >= 5 and (i - 5) % period == position - 5))
                     for row in k[0]), k[1]
    return reduced


s, t = array(4), array(5, 2)


def fold(operator: str, points: int = 2) -> IndexTask:
    return over((8,), "fold", [a], [(s.kept((8,), ()), Privilege.REDUCE, operator)], points)


@pytest.mark.parametrize("name, reduced, first, second, live", [
    ("liveness", lambda k: k[0], chain([(0, 1)]), chain([(5, 0)]), {0}),
    ("domain", without(3),
     [task("exp", [a], b, points=4), task("exp", [array(6, 16)], array(7, 16), points=4)],
     [task("exp", [a], b, points=4), task("exp", [array(6, 16)], array(7, 16), points=2)], ()),
    ("slot", without(5, 4),
     [fold("sum"), task("exp", [a], b, points=2)], [fold("sum"), task("exp", [s], b, points=2)], ()),
    ("view", without(6, 4),
     [reduction("sum", a, t[0], points=2), *(task("exp", [t[k]], b, points=2) for k in (1, 1))],
     [reduction("sum", a, t[0], points=2), *(task("exp", [t[k]], b, points=2) for k in (1, 0))], ()),
    ("privilege", without(7, 4),
     [task("exp", [b[1:]], a[1:], points=2), over((7,), "op", [b[1:], a[1:]], [], 2)],
     [task("exp", [b[1:]], a[1:], points=2),
      over((7,), "op", [b[1:]], [(a[1:], Privilege.WRITE, None)], 2)], ()),
    ("operator", without(8, 4), [fold("sum"), fold("sum")], [fold("sum"), fold("max")], ()),
    ("relations", without_view(3),
     [task("exp", [a[1:]], b[1:], points=2), task("exp", [c[1:]], a[:-1], points=2)],
     [task("exp", [a[:4]], b[:4], points=2), task("exp", [c[:4]], a[4:], points=2)], ()),
    ("covers", without_view(5),
     [task("arange", [0.0], a), task("exp", [a], b)],
     [task("arange", [0.0], a[1:]), task("exp", [a[1:]], b[1:])], ()),
])
def test_each_part_of_the_key_is_needed(name: str, reduced: Callable[[Key], object], first: list[IndexTask],
                                        second: list[IndexTask], live: Container[int]) -> None:
    """A memo that left out this part would take the second window for the first, and replay what is wrong."""
    keys = key(first, live), key(second, live)
    assert keys[0] != keys[1] and reduced(keys[0]) == reduced(keys[1])
    assert decision(first, live) != decision(second, live)


def test_a_key_as_text(golden: Callable[[str], None]) -> None:
    grid, out, total = array(0, 18, 16), array(1, 16, 14), array(2)
    window = [
        task("add", [grid[:-2, 1:-1], grid[2:, 1:-1]], out, points=4),
        task("multiply", [out, 0.5], out, points=4),
        reduction("sum", out, total, points=4),
        task("copy", [out.frame(224)], array(3, 224), points=4),
    ]
    golden(key_text(key(window, {2})))
