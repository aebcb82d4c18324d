"""With any one rule removed, the oracle finds a window that goes wrong: no rule is there for show."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import chain
from random import Random

import pytest

from diffuse.bounded import Bounded
from diffuse.fusion import constraints, definition
from diffuse.fusion import temporaries as temps
from diffuse.fusion.constraints import prefix
from diffuse.fusion.temporaries import temporaries
from diffuse.ir import Access, IndexTask, Point, Relation, check, relation
from tests import windows
from tests.build import array, reduction, task

SEEDS = range(600)


def reduced_column() -> list[IndexTask]:
    """A column that is complete when all points are done, and a block of columns with it, cut alike: random
    windows seldom have that."""
    x, m = array(0, 8, 6), array(1, 8, 6)
    total = reduction("sum", x, m[:, 0], (0,), points=4)
    return [windows.with_odd_privilege(total), task("exp", [m[:, :4]], array(2, 8, 4), points=4)]


def unsound(without: str = "") -> IndexTask | None:
    """A window whose fast prefix the definition refuses; its last task."""
    for window in chain([reduced_column()], (windows.window(Random(seed), without) for seed in SEEDS)):
        head, _ = prefix(window)
        if not definition.fusible(head):
            return head[-1]
    return None


def test_the_oracle_finds_nothing_wrong_with_all_rules_in_place() -> None:
    assert unsound() is None


@pytest.mark.parametrize("name", list(constraints.CONSTRAINTS))
def test_each_constraint_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(constraints.CONSTRAINTS, name)
    assert unsound() is not None


@pytest.mark.parametrize("name", ["disjoint writes", "overlap"])
def test_each_rule_against_races_is_needed(name: str) -> None:
    """Without it, tasks pass whose own points conflict with each other: they mean nothing, fused or not."""
    assert name in check.RULES
    drawn = (t for seed in SEEDS for t in windows.window(Random(seed), name))
    assert any(definition.racy(t) for t in drawn)


def test_equal_partitions_do_not_excuse_overlapping_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper takes equal partitions for point-wise dependence: true only of disjoint tiles."""
    monkeypatch.setattr("diffuse.ir.alias.disjoint", lambda partition, domain: True)
    monkeypatch.setattr("diffuse.ir.alias._known", Bounded())
    assert unsound("disjoint writes") is not None


@pytest.mark.parametrize("wrong, other", [
    (Relation.ALIAS, Relation.ALIGNED), (Relation.ALIAS, Relation.APART), (Relation.ALIGNED, Relation.APART)])
def test_each_relation_is_needed(wrong: Relation, other: Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistaking one relation for a milder one lets a window through, or a wrong temporary."""
    def mistaken(a: Access, b: Access, domain: Point) -> Relation:
        found = relation(a, b, domain)
        return other if found is wrong else found

    monkeypatch.setattr("diffuse.fusion.constraints.relation", mistaken)
    assert unsound() is not None


Analysis = Callable[[Sequence[IndexTask], Sequence[IndexTask], Container[int]], set[int]]


def wrong_temporary(analysis: Analysis) -> set[int]:
    """Stores that some random window would lose."""
    for seed in SEEDS:
        window = windows.window(Random(seed))
        head, _ = prefix(window)
        lost = analysis(head, window[len(head):], {0}) - definition.temporaries(head, window[len(head):], {0})
        if lost:
            return lost
    return set()


@pytest.mark.parametrize("name, analysis", [
    ("liveness", lambda head, pending, live: temporaries(head, pending, ())),
    ("pending tasks", lambda head, pending, live: temporaries(head, (), live)),
])
def test_each_condition_on_temporaries_is_needed(name: str, analysis: Analysis) -> None:
    assert not wrong_temporary(temporaries)
    assert wrong_temporary(analysis)


def test_a_temporary_must_be_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temps, "covers", lambda access: True)
    assert wrong_temporary(temporaries)
