"""Random windows compare the fast analyses with `dependence`, the definition: they refuse no less, and seldom
more."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from diffuse import ir
from diffuse.fusion import definition
from diffuse.fusion.constraints import prefix
from diffuse.fusion.temporaries import temporaries
from diffuse.ir import Access, IndexTask, Relation
from diffuse.ir.text import window_text
from tests import windows

numbers = st.randoms(use_true_random=False)
thorough = settings(max_examples=250, deadline=None, derandomize=True)


@thorough
@given(numbers)
def test_what_fuses_is_fusible(rng: Random) -> None:
    window = windows.window(rng)
    head, why = prefix(window)
    assert definition.fusible(head), window_text(head, why)


@thorough
@given(numbers)
def test_what_is_well_formed_has_no_races(rng: Random) -> None:
    for task in windows.window(rng):
        assert not definition.racy(task), window_text([task])


@thorough
@given(numbers)
def test_temporaries_hold_only_what_their_point_wrote(rng: Random) -> None:
    window = windows.window(rng)
    head, _ = prefix(window)
    pending, live = window[len(head):], {0}
    found = temporaries(head, pending, live)
    assert found <= definition.temporaries(head, pending, live), window_text(window)


def pairs(window: list[IndexTask]) -> list[tuple[IndexTask, Access, IndexTask, Access]]:
    """Pairs of accesses to one store by two tasks over the same domain."""
    return [(s, a, t, b) for s in window for a in s.accesses for t in window for b in t.accesses
            if a.store.id == b.store.id and s.domain == t.domain]


@thorough
@given(numbers)
def test_relations_mean_what_they_say(rng: Random) -> None:
    for s, a, t, b in pairs(windows.window(rng)):
        claim = ir.relation(a, b, s.domain)
        text = f"{claim}\n{window_text([s, t])}\n{a}\n{b}"
        assert claim is ir.relation(b, a, s.domain), text
        if claim is Relation.SAME and (s.shape, s.splits) == (t.shape, t.splits):
            assert definition.same(s, a, t, b), text
        if claim is Relation.APART:
            assert definition.apart(s, a, t, b), text
        if claim is not Relation.ALIAS:
            assert definition.aligned(s, a, t, b), text


@thorough
@given(numbers)
def test_partitions_hold_what_their_points_touch(rng: Random) -> None:
    for task in windows.window(rng):
        for access in task.accesses:
            owners: Counter[ir.Point] = Counter()
            for p in definition.points(task.domain):
                touched = {access.map(i) for i in definition.indices(task, p)}
                owned = definition.sub_store(access.partition, access.store, p)
                assert touched <= owned, f"point {p} of {window_text([task])}"
                owners.update(owned)
            if ir.disjoint(access.partition, task.domain):
                assert max(owners.values(), default=0) <= 1, window_text([task])


@thorough
@given(numbers)
def test_what_covers_leaves_no_element_out(rng: Random) -> None:
    for task in windows.window(rng):
        for access in task.accesses:
            whole = {access.map(i) for i in definition.points(task.shape)} == set(
                definition.points(access.store.shape))
            assert whole or not ir.covers(access), window_text([task])


def test_the_analysis_is_seldom_cautious() -> None:
    """Of the refusals in random windows over one domain, how many does the definition agree with?"""
    right = cautious = fused = 0
    for seed in range(900):
        window = windows.window(Random(seed))
        head, why = prefix(window)
        fused += len(head) > 1
        if why is not None and why.earlier.domain == why.later.domain:
            if definition.fusible(window[:len(head) + 1]):
                cautious += 1
            else:
                right += 1
    assert fused > 200 and right > 200, "the windows are too simple to say anything"
    assert cautious < 0.12 * (right + cautious), f"{cautious} of {right + cautious} refusals were needless"
