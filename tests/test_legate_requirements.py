"""What a launch asks of Legate, by enumeration: all of what it touches, and nothing that another writes.

Random layouts first, then one of each kind.  Nothing here needs Legate.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import pytest

from diffuse.ir import Point
from diffuse.runtime.base import LaunchArgument, Layout, Plane, Scratch
from diffuse.runtime.legate import requirements
from diffuse.runtime.legate.joining import WHOLE, pieces
from diffuse.runtime.legate.requirements import Cut, Need, cut
from tests.build import access, array, split
from tests.each import for_each
from tests.layouts import READ, REDUCE, WRITE, Case, legate_point, legate_points, low_of, named, valid


def elements(need: Need, q: Point) -> set[Point]:
    """What Legate's point q gets."""
    low, high = low_of(need, q), list(need.high)
    for d, _, tile in need.tiles:
        high[d] = min(high[d], low[d] + tile)
    return set(product(*map(range, low, high)))


def needed(found: Cut, argument: int) -> tuple[Need, ...]:
    """The needs that have the elements of an argument: several if its store is assembled of pieces."""
    place = found.of[argument]
    if place < len(found.needs):
        return (found.needs[place],)
    first, number = found.assembled[place - len(found.needs)]
    return found.needs[first:first + number]


def verify(case: Case, assembles: bool = False) -> Cut:
    arguments = case.layout.arguments
    found = cut(case.layout, case.span, assembles=assembles)
    *outer, last = case.domain
    if found.several:
        assert (found.spread, found.span, found.points) == ((*outer, -(-last // case.span)), case.span, last)
    else:
        assert (found.spread, found.span) == ((1,), prod(case.domain)) and found.points == found.span
    assert not found.results
    written: dict[int, set[tuple[Point, Point]]] = {}
    for k, argument in enumerate(arguments):
        needs = needed(found, k)
        for need in needs:
            assert need.slot == argument.slot
            assert need.writes or argument.privilege is READ
            assert need.reads or not argument.privilege.reads
        for p, _, element in case.touched(k):
            q = legate_point(found, p)
            assert [element in elements(need, q) for need in needs].count(True) == 1, (element, needs, q)
            if argument.privilege is not READ:
                written.setdefault(found.of[k], set()).add((q, element))
    for k, need in enumerate(found.needs):
        shape = next(a.storage[0] for a in arguments if a.slot == need.slot)
        for q in legate_points(found):
            mine = elements(need, q)
            assert all(0 <= i < n for element in mine for i, n in zip(element, shape, strict=True))
            if not need.reads:  # Legate may hand out memory with anything in it
                assert {(q, element) for element in mine} <= written.get(k, set())
            for other, (j, theirs) in product(legate_points(found), enumerate(found.needs)):
                own = need.writes and (other, j) != (q, k) or not found.distinguished(need.tiles) and j != k
                if own and theirs.slot == need.slot:
                    assert mine.isdisjoint(elements(theirs, other)), (need, q, theirs, other)
    return found


@pytest.mark.parametrize("first", range(0, 2400, 800))
def test_every_legate_point_has_what_it_touches_and_what_it_writes_is_its_own(first: int) -> None:
    several = cases = 0
    for seed in range(first, first + 800):
        case = Case(seed)
        if not case.layout.arguments or not valid(case):
            continue
        found = verify(case)
        cases += prod(case.domain[:-1]) * case.domain[-1] > case.span
        several += found.several
    # to refuse everything would be right, and slow
    assert cases > 150 and several > cases / 3, (cases, several)


@pytest.mark.parametrize("first", [0, 600])
def test_pieces_of_stores_are_apart_and_have_what_a_point_touches(first: int, monkeypatch: pytest.MonkeyPatch
                                                                  ) -> None:
    monkeypatch.setattr(requirements, "LEAST", 0)
    monkeypatch.setattr(requirements, "SAVES", 0)
    assembled = 0
    for seed in range(first, first + 600):
        case = Case(seed)
        if case.layout.arguments and valid(case):
            assembled += bool(verify(case, assembles=True).assembled)
    assert assembled > 100


@for_each("seed", range(100))
def test_pieces_are_disjoint_and_cover_the_boxes(seed: int) -> None:
    pick, given = Random(seed), []
    for _ in range(pick.randint(1, 7)):
        low, rank = [pick.randrange(12) for _ in range(1 + seed % 3)], 1 + seed % 3
        given.append((tuple(low), tuple([low[d] + pick.randint(1, 12 - low[d]) for d in range(rank)]), WHOLE))
    found = [element for low, high, _ in pieces(given) for element in product(*map(range, low, high))]
    assert len(found) == len(set(found))
    wanted = {element for low, high, _ in given for element in product(*map(range, low, high))}
    assert wanted <= set(found)


def test_borders_on_all_sides_are_assembled_of_four_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    plate, inner = array(0, 400, 400), array(1, 400)
    edges = [plate[0], plate[1], plate[-2], plate[-1], plate[:, 0], plate[:, 1], plate[:, -2], plate[:, -1]]
    layout = named((400,), 1, *[(edge, WRITE if k in (0, 3, 4, 7) else READ) for k, edge in enumerate(edges)],
                   (inner, WRITE))
    found = cut(layout, 1, assembles=True)
    assert found.assembled == ((0, 4),) and set(found.of[:8]) == {5} and found.of[8] == 4
    assert boxes(found)[:4] == [((0, 0), (2, 400)), ((398, 0), (400, 400)), ((2, 0), (398, 2)),
                                ((2, 398), (398, 400))]
    assert all(need.reads and need.writes for need in found.needs[:4])
    assert boxes(cut(layout, 1))[0] == ((0, 0), (400, 400))
    assert not cut(named((400,), 1, (plate[0], WRITE), (plate[1], READ)), 1, assembles=True).assembled
    monkeypatch.setattr(requirements, "LEAST", 1 << 21)
    assert not cut(layout, 1, assembles=True).assembled


def test_rows_between_which_others_write_are_not_joined() -> None:
    """Both edge rows are tiled along columns, and lie on either side of a tile of rows."""
    column, first, last = a[1:-1, :1], a[:1], a[-1:]
    layout = Layout(tuple([LaunchArgument(10 * k, 0, ((12, 5), "float64"),
                                          access(view, view.shape, split(view.shape, 2, axis), WRITE), WRITE)
                           for k, (view, axis) in enumerate([(column, 0), (first, 1), (last, 1)])]),
                    (), "", (2,))
    found = cut(layout, 1)
    assert found.spread == (2,) and boxes(found) == [((1, 0), (11, 1)), ((0, 0), (1, 5)), ((11, 0), (12, 5))]


# -- named layouts -----------------------------------------------------------------------------------------


a, b, c = array(0, 12, 5), array(1, 12, 5), array(2, 5)


def test_equal_views_are_tiles() -> None:
    found = cut(named((12, 5), 4, (a, READ), (b, WRITE)), 2)
    assert found == Cut((2,), 2, 4, (Need(0, (0, 0), (12, 5), ((0, 0, 6),), True, False),
                                     Need(1, (0, 0), (12, 5), ((0, 0, 6),), False, True)), (0, 1), ())


def test_a_view_of_the_same_bytes_as_another_type_is_a_tile() -> None:
    layout = named((12, 5), 2, (a, READ), (b, WRITE))
    words = layout.arguments[0]._replace(storage=((12, 5), "int64"))
    assert cut(replace(layout, arguments=(words, layout.arguments[1])), 1).needs[0].tiles == ((0, 0, 6),)
    halves = words._replace(storage=((12, 10), "float32"))
    assert cut(replace(layout, arguments=(halves, layout.arguments[1])), 1).needs[0].tiles == WHOLE


def test_a_grid_is_cut_as_it_is_but_for_its_last_dimension() -> None:
    found = cut(named((12, 5), (3, 5), (a, READ), (c, READ), (b, WRITE)), 2)
    tiles = (0, 0, 4), (1, 1, 2)
    assert found == Cut((3, 3), 2, 5, (
        Need(0, (0, 0), (12, 5), tiles, True, False), Need(2, (0,), (5,), ((0, 1, 2),), True, False),
        Need(1, (0, 0), (12, 5), tiles, False, True)), (0, 1, 2), ())
    rows = cut(named((12, 5), (3, 5), (a, READ), (b, WRITE)), 5)
    assert rows.spread == (3, 1) and {need.tiles for need in rows.needs} == {((0, 0, 4),)}


def test_what_a_row_of_points_shares_takes_in_what_it_overlaps() -> None:
    """Each point would get some elements twice, once as its own tile and once with others."""
    layout = named((12, 5), (3, 5), (a, READ), (a[:, :1].to((12, 5)), READ), (b, WRITE))
    found = cut(layout, 1)
    assert found.spread == (3, 5) and found.of == (0, 0, 1) and found.needs[0].tiles == WHOLE


def test_points_of_a_grid_that_would_write_the_same_are_one() -> None:
    assert cut(named((12, 5), (3, 5), (a, READ), (c, WRITE)), 1).spread == (1,)
    layout = named((12, 5), (3, 5), (a, READ))
    split_rows = Scratch(50, 96, (Plane(0, (12, 8), ((0, 0, 4),)),))
    assert cut(replace(layout, scratch=(split_rows,)), 1).spread == (1,)
    assert cut(replace(layout, scratch=(split_rows,)), 5).spread == (3, 1)


def test_a_halo_is_three_boxes_for_who_reads_it() -> None:
    layout = named((10, 5), 2, (a[:-2], READ), (a[1:-1], READ), (a[2:], READ), (b[1:-1], WRITE))
    found = cut(layout, 1)
    assert found.spread == (2,) and found.of == (0, 1, 2, 3)
    assert [(n.low[0], n.high[0], n.tiles) for n in found.needs] == [
        (0, 10, ((0, 0, 5),)), (1, 11, ((0, 0, 5),)), (2, 12, ((0, 0, 5),)), (1, 11, ((0, 0, 5),))]
    assert not found.needs[3].reads  # of the box every element is written; what is around it is not asked for


def test_what_is_broadcast_goes_whole_to_every_point() -> None:
    found = cut(named((12, 5), 2, (a, READ), (c, READ), (b, WRITE)), 1)
    assert found.spread == (2,) and found.needs[1] == Need(2, (0,), (5,), WHOLE, True, False)


def test_what_is_turned_around_goes_whole_to_every_point_that_reads_it() -> None:
    found = cut(named((12, 5), 2, (a[::-1], READ), (b, WRITE)), 1)
    assert found.spread == (2,) and found.needs[0].tiles == WHOLE and found.needs[0].high == (12, 5)


def test_what_goes_whole_to_every_point_is_asked_for_once() -> None:
    turned = cut(named((12, 5), 2, (a[::-1], READ), (a, READ), (b, WRITE)), 1)
    assert turned.spread == (2,) and turned.of == (0, 0, 1)
    assert turned.needs[0] == Need(0, (0, 0), (12, 5), WHOLE, True, False)
    part = cut(named((6, 5), 2, (a[6:], READ), (a[6:7].to((6, 5)), READ), (b[:6], WRITE)), 1)
    assert part.of == (0, 0, 1) and part.needs[0] == Need(0, (6, 0), (12, 5), WHOLE, True, False)
    apart = cut(named((6, 5), 2, (a[6:], READ), (a[5:6].to((6, 5)), READ), (b[:6], WRITE)), 1)
    assert apart.of == (0, 1, 2) and [bool(n.tiles) for n in apart.needs] == [True, False, True]


def boxes(found: Cut) -> list[tuple[Point, Point]]:
    return [(need.low, need.high) for need in found.needs]


def test_what_wraps_around_asks_for_both_ends_and_not_for_all_between() -> None:
    found = cut(named((1, 5), 1, (a[:1], READ), (a[-1:], READ), (b[:1], WRITE)), 1)
    assert boxes(found) == [((0, 0), (1, 5)), ((11, 0), (12, 5)), ((0, 0), (1, 5))] and found.of == (0, 1, 2)
    alone = cut(named((1, 5), 1, (a[:1], READ), (a[-1:], READ), (b[:1], WRITE)), 1, whole=True)
    assert alone.of == (0, 0, 1)


def test_a_border_that_is_copied_from_the_other_end_asks_for_two_rows() -> None:
    found = cut(named((1, 5), 1, (a[-2:-1], READ), (a[:1], WRITE)), 1)
    assert boxes(found) == [((10, 0), (11, 5)), ((0, 0), (1, 5))]
    assert [(n.reads, n.writes) for n in found.needs] == [(True, False), (False, True)]


def test_parts_that_overlap_are_one_box_and_so_are_too_many() -> None:
    found = cut(named((2, 5), 1, (a[:2], READ), (a[1:3], WRITE), (a[-2:], READ)), 1)
    assert boxes(found) == [((0, 0), (3, 5)), ((10, 0), (12, 5))] and found.of == (0, 0, 1)
    assert [(n.reads, n.writes) for n in found.needs] == [(True, True), (True, False)]
    long = array(0, 100, 5)
    reads = [(long[k:k + 1], READ) for k in range(0, 100, 10)]
    assert boxes(cut(named((1, 5), 1, *reads, (b[:1], WRITE)), 1)) == [((0, 0), (91, 5)), ((0, 0), (1, 5))]


def whole_and_frame(shape: Point) -> Layout:
    """Writes a store of 12 by 5 in a frame of another shape."""
    flat = access(array(0, *shape), shape, split(shape, 2), WRITE)
    return Layout((LaunchArgument(1, 0, ((12, 5), "float64"), flat, WRITE),), (), "", (2,))


@pytest.mark.parametrize("layout", [
    named((12, 5), 2, (a, READ), (b[::-1], WRITE)),     # Legate has no tiles that run backwards
    named((12, 5), 2, (a, READ), (b[:1], WRITE)),       # every point would write the same
    named((6, 5), 2, (a[::2], WRITE), (a[1:12:2], READ)),  # combs mesh: their boxes do not
    named((10, 5), 2, (a[2:], WRITE), (a[:-2], READ)),  # what one point writes another reads
    whole_and_frame((60,)),
], ids=["backwards", "broadcast", "combs", "across points", "frame"])
def test_what_cannot_be_tiled_and_is_written_stays_in_one_piece(layout: Layout) -> None:
    found = cut(layout, 1)
    assert (found.spread, found.span) == ((1,), 2)
    assert all(n.tiles == WHOLE and n.low == (0,) * len(n.low) for n in found.needs)


def test_a_frame_that_is_read_goes_whole() -> None:
    layout = named((60,), 2, (array(3, 60), WRITE))
    frame = access(array(0, 60), (60,), split((60,), 2), READ)
    turned = LaunchArgument(10, 0, ((12, 5), "float64"), frame, READ)
    layout = Layout((turned, *layout.arguments), (), "", (2,))
    found = cut(layout, 1)
    assert found.spread == (2,) and found.needs[0] == Need(0, (0, 0), (12, 5), WHOLE, True, False)


def test_halves_of_a_store_that_is_written_stay_apart_and_tiles_of_one_start_become_one() -> None:
    apart = cut(named((6, 5), 2, (a[:6], READ), (a[6:], WRITE)), 1)
    assert apart.spread == (2,) and [n.writes for n in apart.needs] == [False, True]
    merged = cut(named((12, 3), 2, (a[:, :3], WRITE), (a[:, 2:], READ)), 1)
    assert merged.spread == (2,)
    assert merged.needs == (Need(0, (0, 0), (12, 5), ((0, 0, 6),), True, True),) and merged.of == (0, 0)


def test_a_box_that_is_not_written_in_full_is_read_too() -> None:
    corner = cut(named((6, 3), 2, (a[::2, :3], WRITE)), 1)
    assert [n.reads for n in corner.needs] == [True]
    diagonal = cut(named((5,), 1, (array(0, 5, 5).diagonal(), WRITE)), 1)
    assert [n.reads for n in diagonal.needs] == [True]
    assert not cut(named((12, 5), 1, (a, WRITE)), 1).needs[0].reads
    assert cut(named((12, 4), 1, (a[:, 1:], WRITE)), 1, whole=True).needs[0].reads


def test_results_of_reductions_are_a_launch_of_their_own() -> None:
    layout = named((12, 5), 2, (a, READ), (c, WRITE))
    total = layout.arguments[1]._replace(privilege=REDUCE)
    found = cut(Layout((layout.arguments[0], total), (), "", (2,)), 1)
    assert found.spread == (2,) and found.of == (0, -1)
    assert found.results == (Need(2, (0,), (5,), WHOLE, False, True),)
    reader = layout.arguments[1]._replace(word=30, privilege=READ, access=access(
        c.to((12, 5)), (12, 5), split((12, 5), 2), READ))
    assert cut(Layout((layout.arguments[0], total, reader), (), "", (2,)), 1).spread == (1,)


def test_views_whose_tiles_begin_in_the_same_rows_are_one_box() -> None:
    """A stencil with a periodic border reads many views, and all of them in three ranges of rows."""
    middle, west, east = b[1:-1, 1:-1], b[1:-1, :1], b[1:-1, -1:]
    inner = named((10, 3), 2, (a[:-2, 1:-1], READ), (a[1:-1, :-2], READ), (a[1:-1, 2:], READ),
                  (a[2:, 1:-1], READ), (middle, WRITE))
    found = cut(inner, 1)
    assert found.spread == (2,) and found.of == (0, 1, 1, 2, 3)
    assert boxes(found)[1] == ((1, 0), (11, 5)) and not found.needs[3].reads
    edges = Layout((*inner.arguments, *(
        LaunchArgument(50 + 10 * k, 1, ((12, 5), "float64"), access(edge, (10, 1), split((10, 1), 2), WRITE),
                       WRITE) for k, edge in enumerate((west, east)))), (), "", (2,))
    found = cut(edges, 1)
    assert found.of == (0, 1, 1, 2, 3, 3, 3)
    assert found.needs[3] == Need(1, (1, 0), (11, 5), ((0, 0, 5),), False, True)  # they fill it between them
    part = cut(Layout(edges.arguments[:-1], (), "", (2,)), 1)
    assert part.needs[3] == Need(1, (1, 0), (11, 4), ((0, 0, 5),), False, True)
    apart = cut(Layout((*edges.arguments[:4], *edges.arguments[5:]), (), "", (2,)), 1)
    assert apart.needs[3] == Need(1, (1, 0), (11, 5), ((0, 0, 5),), True, True)  # what is between them stays


def test_boxes_that_joined_would_meet_a_replicated_one_stay_apart() -> None:
    row = a[5:6, 1:2].to((6, 1))
    found = cut(named((6, 1), 2, (a[:6, :1], READ), (a[:6, 4:], READ), (row, READ), (b[:6, :1], WRITE)), 1)
    assert found.of == (0, 1, 2, 3) and [bool(n.tiles) for n in found.needs] == [True, True, False, True]
