"""Each rule for tasks has a row: a task that breaks it, and the message, which names what is wrong, the rule
and a remedy."""

from __future__ import annotations

from random import Random

import pytest

from diffuse.ir import (
    ONE,
    Access,
    AccessMap,
    Decomposition,
    IndexTask,
    Privilege,
    Replicated,
    Scalar,
    Split,
    Store,
)
from diffuse.ir.check import RULES, check
from tests import windows
from tests.build import Region, array, over, reduction, task

a, b, m = array(0, 8), array(1, 8), array(2, 4, 4)
good = task("add", [a, 2.0], b, points=4, where="app.py:7")
R, W, RW, RD = Privilege.READ, Privilege.WRITE, Privilege.READ_WRITE, Privilege.REDUCE


def changed(position: int, **fields: object) -> IndexTask:
    """The good task with one access altered."""
    accesses = list(good.accesses)
    accesses[position] = accesses[position]._replace(**fields)  # type: ignore[arg-type]
    return good._replace(accesses=tuple(accesses))


def cut(decomposition: Decomposition) -> IndexTask:
    """The good task with another decomposition."""
    return good._replace(decomposition=decomposition)


def rows(*rows: tuple[int, tuple[tuple[int, int], ...]]) -> AccessMap:
    return AccessMap(rows)


def beyond(region: Region, by: int) -> Region:
    """The region moved along its first dimension, out of its store if need be."""
    (offset, terms), *others = region.rows
    return Region(region.store, ((offset + by, terms), *others), region.shape)


@pytest.mark.parametrize("wrong, rule, words", [
    (good._replace(accesses=(good.accesses[0], "b")), "parts", "access 'b' of task 'add' is no Access"),  # type: ignore[arg-type]
    (changed(0, map=(0, 0)), "parts", "build it with diffuse.ir"),
    (changed(0, partition=None), "parts", "None of task 'add' is no Replicated or Tiling"),
    (good._replace(signature=("float64",)), "signature", "1 element types for 2 accesses and 1 scalars"),
    (good._replace(shape=(0,)), "extents", "issue no task for no elements"),
    (cut(Decomposition((0,), good.splits)), "extents", "launch domain (0,)"),
    (cut(Decomposition((4,), ())), "splits", "0 splits for 1 launch dimensions"),
    (cut(Decomposition((4,), (Split(1, 2),))), "splits", "cuts axis 1 of shape (8,)"),
    (cut(Decomposition((4,), (Split(0, 1),))), "splits", "4 tiles of 1 must reach 8"),
    (cut(Decomposition((4,), (Split(0, 0),))), "splits", "leaves out indices of axis 0"),
    (cut(Decomposition((2, 2), (Split(0, 4), Split(0, 4)))), "splits", "cut axis 0 twice"),
    (changed(0, map=rows()), "map dimensions", "0 rows for 1 dimensions"),
    (changed(0, map=rows((0, ((1, 1),)))), "map dimensions", "[1] of an iteration space of rank 1"),
    (changed(0, map=rows((0, ((0, 1), (0, 1))))), "map dimensions", "give each dimension once"),
    (changed(0, map=rows((0, ((0, 0),)))), "map dimensions", "none with step 0"),
    (task("exp", [beyond(a, 1)], b), "map inside store", "reaches 1 to 8 in dimension 0 of extent 8"),
    (task("exp", [beyond(a, -1)], b), "map inside store", "keep the view within its store"),
    (changed(0, partition=Replicated()), "partition", "expected @2+0, as ir.tiling gives it"),
    (changed(1, operator="sum"), "operator", "a REDUCE, and only a REDUCE"),
    (changed(1, privilege=RD), "operator", "names its operator"),
    (good._replace(accesses=good.accesses[::-1]), "inputs first", "list the inputs first"),
    (good._replace(scalars=(Scalar(2, "float64", 2.0),)), "scalar positions", "positions [2] of 2 inputs"),
    (over((8,), "scatter", [a], [(b.gathered(), W, None)], 4), "data", "only reads may gather"),
    (over((8,), "turn", [a], [(b.turn(0), W, None)], 4), "data", "only reads may be"),
    (changed(0, map=AccessMap(((0, ((0, 1),)),), (), ((0, 7),))), "data", "each with its extent"),
    (changed(0, map=AccessMap(((0, ((0, 1),)),), (0,)), partition=Replicated()), "data", "without terms"),
    (over((8,), "exp", [a], [(b[0].to((8,)), W, None)], 4), "disjoint writes", "split along a dimension"),
    (task("copy", [a], b, points=4, axis=-1), "disjoint writes", "or REDUCE"),
    (task("exp", [a], Region(b.store, ((0, ((0, 1), (1, 1))),), (4, 4))), "injective writes", "than once"),
    (task("exp", [a[1:]], a[:-1], points=4), "overlap", "copy one of them first"),
    (task("exp", [m], m.T), "overlap", "reads %2:R and writes %2:W"),
    (task("divmod", [b, 2.0], [a[1:], a[:-1]]), "overlap", "writes"),
    (reduction("sum", a, a[0], points=2), "overlap", "copy one of them first"),
])
def test_a_rule_speaks(wrong: IndexTask, rule: str, words: str) -> None:
    with pytest.raises(TypeError if rule == "parts" else ValueError) as caught:
        check(wrong)
    assert str(caught.value).startswith(f"{rule}: ") and words in str(caught.value)


def test_every_rule_has_a_row() -> None:
    cases = vars(test_a_rule_speaks)["pytestmark"][0].args[1]
    assert {rule for _, rule, _ in cases} == set(RULES)


def test_an_error_ends_with_the_users_line() -> None:
    with pytest.raises(ValueError, match=r"\(app\.py:7\)$"):
        check(good._replace(signature=()))


@pytest.mark.parametrize("right", [
    good,
    task("add", [a, a], a, points=4),                       # in place: the same elements
    task("exp", [a[::2]], a[1::2], points=2),               # never the same element
    task("exp", [m[0]], m[1], points=2),
    reduction("sum", m, a[:4], (0,), points=2),
    reduction("sum", m, array(9), points=2),
    task("copy", [a.to((3, 8))], array(9, 3, 8), points=2),
    task("copy", [1.0], array(9), axis=-1),                 # no dimensions
    task("copy", [1.0], array(9, 8, 8), points=(2, 4), axis=(0, 1)),
    task("copy", [1.0], m.diagonal(), points=2),
    IndexTask("rw", ("float64",), (8,), (Access(Store(0, (8,), "float64"), rows((0, ((0, 1),))), RW),), (),
              ONE),
])
def test_a_well_formed_task_passes(right: IndexTask) -> None:
    check(right)


def test_random_windows_are_mostly_well_formed_and_some_are_not() -> None:
    """The generator of random windows makes tasks that are accepted, and some that are not."""
    rng = Random(0)
    outcomes = [windows.well_formed(windows.one(rng, windows.stores(rng), (2,), 0)) for _ in range(200)]
    assert 50 < sum(outcomes) < 195
