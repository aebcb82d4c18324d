"""The four constraints on the programs of the paper and one row per rule: a picture, a window, a verdict."""

from __future__ import annotations

from collections.abc import Callable

from diffuse.fusion.constraints import Effects, admit, prefix
from diffuse.ir import IndexTask
from diffuse.ir.text import window_text
from tests.build import Region, array, reduction, task
from tests.each import for_each

Golden = Callable[[str], None]


def stencil(points: int, n: int = 12) -> list[IndexTask]:
    """Figure 2 of the paper: five points, averaged, copied back."""
    grid, sums, work = array(0, n + 2, n), [array(k, n, n - 2) for k in range(1, 5)], array(5, n, n - 2)
    centre, north, south = grid[1:-1, 1:-1], grid[:-2, 1:-1], grid[2:, 1:-1]
    east, west = grid[1:-1, 2:], grid[1:-1, :-2]
    return [
        task("add", [centre, north], sums[0], points=points),
        task("add", [sums[0], east], sums[1], points=points),
        task("add", [sums[1], west], sums[2], points=points),
        task("add", [sums[2], south], sums[3], points=points),
        task("multiply", [sums[3], 0.2], work, points=points),
        task("copy", [work], centre, points=points, where="stencil.py:14"),
    ]


#   north ──┐
#   west  ──┤
#   centre ─┼─ add x4 ── multiply ── work ──/ copy ──> centre
#   east  ──┤                               |
#   south ──┘              its north neighbour still reads what copy overwrites
def test_stencil_keeps_the_copy_out(golden: Golden) -> None:
    window = stencil(4)
    head, why = prefix(window)
    assert [t.operation for t in head] == ["add"] * 4 + ["multiply"]
    assert why is not None and why.constraint == "anti-dependence"
    assert why.earlier is window[0] and why.later is window[5] and why.store == window[0].accesses[0].store
    golden(window_text(head, why))


def test_stencil_on_one_point_fuses_whole() -> None:
    assert prefix(stencil(1)) == (stencil(1), None)


#   p: ┌─0─┐  p[0] = p[1]     rows that no element shares: no communication, although one
#      ├─1─┤  p[-1] = p[-2]   store is read and written through four partitions
#      │   │
#      └─9─┘
def test_boundary_updates_fuse() -> None:
    p = array(0, 10, 12)
    window = [
        task("copy", [p[1]], p[0], points=4),
        task("copy", [p[-2]], p[-1], points=4),
        task("copy", [p[1:-1, 1]], p[1:-1, 0], points=4),
    ]
    head, why = prefix(window)
    assert len(head) == 2  # p[8, 0] is read by point 0 of the second task and written by point 3 of the third
    assert why is not None and why.constraint == "anti-dependence"
    assert prefix([window[0], window[1], task("copy", [p[2:-2, 1]], p[2:-2, 0], points=4)])[1] is None


#   x: 0 1 2 3 4 5 6 7    evens read, odds written: combs that never meet
def test_even_and_odd_elements_fuse() -> None:
    x, y = array(0, 16), array(1, 8)
    assert prefix([task("exp", [x[::2]], y, points=4), task("copy", [y], x[1::2], points=4)])[1] is None
    why = prefix([task("exp", [x[::2]], y, points=4), task("copy", [y], x[:8], points=4)])[1]
    assert why is not None and why.constraint == "anti-dependence"


#   ┌──┬──┐ points own rows: columns 0-3 and 2-5 overlap, but only within a point
#   ├──┼──┤
def test_columns_of_the_same_rows_fuse() -> None:
    x, y = array(0, 8, 6), array(1, 8, 4)
    by_rows = [task("exp", [x[:, :4]], y, points=4), task("copy", [y], x[:, 2:], points=4)]
    assert prefix(by_rows)[1] is None
    by_columns = [task("exp", [x[:, :4]], y, points=2, axis=1), task("copy", [y], x[:, 2:], points=2, axis=1)]
    assert str(prefix(by_columns)[1]) == "copy stays out: anti-dependence on store 0@0:8,2+2"


a, b, c, s, m = array(0, 8), array(1, 8), array(2, 8), array(3), array(4, 8, 8)
t, u = array(6), array(7)
ROWS = array(5, 8)


def w(region: Region, points: int = 4) -> IndexTask:
    return task("arange", [0.0, 1.0], region, points=points)


def r(region: Region, points: int = 4) -> IndexTask:
    return task("exp", [region], array(10 + len(region.shape), *region.shape), points=points)


def rd(operator: str, points: int = 4, target: Region = s) -> IndexTask:
    return reduction(operator, a, target, points=points)


@for_each("first, second, verdict", [
    # launch domains
    (w(a), r(a), None),
    (w(a), w(b, 2), "launch-domain equivalence"),
    (w(a), r(b, 1), "launch-domain equivalence"),
    # true dependence: read or written after written
    (w(a), r(a[1:]), "true dependence"),
    (w(a), w(a[::-1]), "true dependence"),
    (w(a[:4]), r(a[4:]), None),
    (w(a), r(a.frame(2, 4)), "true dependence"),
    (w(m), r(m.T), "true dependence"),
    (w(m), r(m[2]), "true dependence"),
    (w(m), r(m[:, 2]), None),
    (w(m), r(m.diagonal()), None),
    # anti-dependence: written after read
    (r(a[1:]), w(a[:-1]), "anti-dependence"),
    (r(a), w(a), None),
    (r(a[::-1]), w(a[::-1]), None),
    (r(a[::-1]), w(a), "anti-dependence"),
    (r(a[::2]), w(a[1::2]), None),
    (r(m), w(m[:, ::-1]), None),
    (r(m), w(m[::-1]), "anti-dependence"),
    (r(a.frame(2, 4)), r(a), None),
    # reduction: nobody may see a partial result
    (rd("sum"), rd("sum"), None),
    (rd("sum"), rd("max"), "reduction"),
    (rd("sum"), task("add", [b, s], c, points=4), "reduction"),
    (task("add", [b, s], c, points=4), rd("sum"), "reduction"),
    (rd("sum", target=b[1]), r(b[4:]), None),
    (rd("sum", target=b[1]), r(b[:4]), "reduction"),
    # the epilogue: single elements, when all points are done
    (rd("sum"), task("sqrt", [s], t), None),
    (rd("sum"), task("sqrt", [s], s), None),
    (rd("sum"), task("sqrt", [t], t), None),
    (rd("sum"), task("exp", [b], c), "launch-domain equivalence"),
    (rd("sum"), task("exp", [b[2]], c[1]), "launch-domain equivalence"),
    (w(a), task("sqrt", [s], t), "launch-domain equivalence"),
    # one point: every dependence is point-wise
    (rd("sum", 1), task("add", [b, s], c), None),
    (w(a, 1), r(a[::-1], 1), None),
    (r(m, 1), w(m.T, 1), None),
    (w(a, 1), r(a.frame(2, 4), 1), None),
])
def test_constraint(first: IndexTask, second: IndexTask, verdict: str | None) -> None:
    why = prefix([first, second])[1]
    assert (why.constraint if why else None) == verdict
    assert why is None or (why.earlier, why.later) == (first, second)


#   x @ x ──Rd──> s ── divide ── t │ x * t     the points' loop needs t: a group of its own
def test_nothing_but_single_elements_follows_an_epilogue() -> None:
    window = [rd("sum"), task("divide", [1.0, s], t), task("multiply", [t, 2.0], u), r(b)]
    head, why = prefix(window)
    assert list(head) == window[:3]
    assert str(why) == "exp stays out: launch-domain equivalence, divide[1] then exp[4]"


def test_opaque_operations_fuse_with_nothing() -> None:
    window = [task("exp", [a], b), task("fft", [b], c), task("exp", [c], a)]
    for start in (0, 1):
        why = prefix(window[start:], opaque=lambda t: t.operation == "fft")[1]
        assert why is not None and why.constraint == "opaque"


def test_a_refusal_names_both_lines() -> None:
    window = [task("add", [a[1:], b[1:]], c[1:], points=4, where="app.py:3"),
              task("copy", [c[1:]], a[:-1], points=4, where="app.py:4")]
    assert str(prefix(window)[1]) == (
        "copy stays out: anti-dependence on store 0@2+0<7, add (app.py:3) then copy (app.py:4)")
    assert str(prefix([w(a), w(b, 2)])[1]) == (
        "arange stays out: launch-domain equivalence, arange[4] then arange[2]")


def test_the_first_refusal_blames_the_first_issuer() -> None:
    readers = [r(a[1:]), r(a[1:]), r(a[1:])]
    why = admit(Effects(readers), w(a[:-1]))
    assert why is not None and why.earlier is readers[0]


def test_the_longest_prefix_is_a_slice_of_the_window() -> None:
    window = [w(a), r(a), r(a[1:]), w(b)]
    head, why = prefix(window)
    assert list(head) == window[:2] and why is not None and why.later is window[2]
    assert prefix([]) == ([], None)
