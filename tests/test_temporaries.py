"""Which stores vanish: figure 8 of the paper and one row per condition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from diffuse.fusion import definition
from diffuse.fusion.constraints import prefix
from diffuse.fusion.temporaries import temporaries
from diffuse.ir import IndexTask
from tests.build import array, reduction, task

N = 16
X, Y, Z, W, V, NORM = range(6)


#   x ─ 2* ─ z ─┐
#   y ──────────┴ + ─ w ─ **2 ─ v      / norm <── w[n//2:]     other tiles of w:
#                                      |                       stays out, and keeps w
#   the program still holds v
@pytest.mark.parametrize("points", [2, 4])
def test_figure_8(points: int) -> None:
    x, y, z, w, v = (array(k, N) for k in range(5))
    window = [
        task("multiply", [2.0, x], z, points=points),
        task("add", [y, z], w, points=points),
        task("power", [w, 2.0], v, points=points),
        reduction("sum", w[N // 2:], array(NORM), points=points),
    ]
    head, why = prefix(window)
    assert len(head) == 3 and why is not None and why.constraint == "true dependence"
    assert temporaries(head, window[3:], {V, NORM}) == {Z}
    assert temporaries(head, (), {V, NORM}) == {Z, W}
    assert temporaries(head, (), ()) == {Z, W, V}


a, b, c, m = array(0, 8), array(1, 8), array(2, 8), array(3, 8, 4)
t = array(7, 8)


def fill(region: object, points: int = 2) -> IndexTask:
    return task("copy", [0.0], region, points=points)  # type: ignore[arg-type]


@pytest.mark.parametrize("window, vanishes", [
    # written whole, then read at the same elements
    ([task("exp", [a], t, points=2), task("exp", [t], b, points=2)], True),
    # never read: dead
    ([task("exp", [a], t, points=2)], True),
    # read first
    ([task("exp", [t], b, points=2), task("exp", [a], t, points=2)], False),
    # read and written by one task: the read comes first
    ([task("exp", [t], t, points=2)], False),
    ([fill(t), task("exp", [t], t, points=2), task("exp", [t], b, points=2)], True),
    # not all of it written
    ([task("exp", [a[1:]], t[1:], points=2), task("exp", [t[1:]], b[1:], points=2)], False),
    ([fill(t[::2]), fill(t[1::2]), task("exp", [t[::2]], b[:4], points=2)], False),
    # written whole, then in part, then read
    ([fill(t), fill(t[:4], 2)], True),
    ([fill(t, 1), fill(t[2:5], 1), task("exp", [t], b)], True),
    # another view of what the same point wrote: part of the columns of its rows
    ([fill(m), task("exp", [m[:, 1]], b, points=2)], True),
    ([fill(t, 1), task("exp", [t[::-1]], b)], True),
    ([fill(t, 1), task("exp", [t.frame(2, 4)], m[:2])], True),
    # what another point wrote
    ([fill(t), task("exp", [t[::-1]], b, points=2)], False),
])
def test_conditions(window: list[IndexTask], vanishes: bool) -> None:
    id = m.store.id if any(x.store.id == m.store.id for x in window[0].accesses) else t.store.id
    assert (id in temporaries(window)) is vanishes
    assert not vanishes or id in definition.temporaries(window)


@pytest.mark.parametrize("pending, vanishes", [
    ([], True),
    ([task("exp", [t], b, points=2)], False),
    ([task("exp", [t[3]], b, points=2)], False),
    ([task("exp", [b], t, points=2)], True),
    ([reduction("sum", b, t[0], points=2)], False),
    ([task("exp", [b], c, points=2)], True),
])
def test_pending_tasks_keep_what_they_read(pending: Sequence[IndexTask], vanishes: bool) -> None:
    window = [task("exp", [a], t, points=2), task("exp", [t], c, points=2)]
    assert (7 in temporaries(window, pending)) is vanishes


def test_live_stores_stay() -> None:
    window = [task("exp", [a], t), task("exp", [t], b)]
    assert temporaries(window, (), {1}) == {7} and temporaries(window, (), {1, 7}) == set()


def test_a_store_that_is_only_read_is_no_temporary() -> None:
    assert 0 not in temporaries([task("exp", [a], b)])


@pytest.mark.parametrize("points", [1, 2])
def test_a_reduction_is_complete_only_after_all_points(points: int) -> None:
    window = [reduction("sum", a, array(9), points=points)]
    assert temporaries(window) == (set() if points > 1 else {9})
