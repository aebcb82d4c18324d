"""What compiled code keeps of the calls that lead on from trails, beside what Python's code would look up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native
from diffuse.stream import engine
from diffuse.stream.group import Group
from diffuse.stream.memo import Trail

pytestmark = [pytest.mark.usefixtures("nothing_alone"),
              pytest.mark.skipif(native is None, reason="Python's code keeps nothing")]

SIZE = 40_000
PLAIN = numpy.random.default_rng(9).random(SIZE)


def followed(group: Group) -> tuple[Trail, dict[int, int], int]:
    """The trail and the slots that the tasks of a group lead to by `Window.add`, and how many of the edges on
    the way are expected."""
    trail, slots, expected = engine.current().window.memo.start, dict[int, int](), 0
    for template, stores, _, _ in group.recorded:
        before, key = trail, (template, *[slots.setdefault(store, len(slots)) for store in stores])
        edge = trail.edges[key]
        assert isinstance(edge, Trail)
        trail = edge
        expected += before.expected is not None
    return trail, slots, expected


def open_group() -> Group:
    """The open group, after a check of everything that recording notes about it."""
    window = engine.current().window
    group = window.open
    trail, slots, _ = followed(group)
    assert group.trail is trail and group.slots == slots
    assert group.shapes == {template.shape for template, *_ in group.recorded}
    assert window.held == len(group.recorded) + sum([len(each.recorded) for each in window.closed])
    if group.recorded:
        template, _, _, line = group.recorded[0]
        assert group.first == (template.operation, line) and group.shape == template.shape
        assert all(window.stores.users[store] == group.number for store in slots)
    return group


@pytest.fixture(autouse=True)
def calm() -> Iterator[None]:
    engine.fence()
    yield
    engine.fence()


def mixed(x: Any, y: Any, choices: Any) -> Any:
    """A chain in which each operation is chosen, at one place of the program."""
    made = [x, y]
    for choice in choices:
        a, b = made[choice % len(made)], made[choice // 3 % len(made)]
        if choice % 5 == 0:
            found = a + b
        elif choice % 5 == 1:
            found = a * 0.5
        elif choice % 5 == 2:
            found = np.maximum(a, b)
        elif choice % 5 == 3:
            found = np.where(a < b, a, b)
        else:
            found = a - b
            found += a
        made.append(found)
        del made[choice % 2]
    return made[-1]


def test_groups_are_those_that_the_edges_of_trails_lead_to() -> None:
    """Programs that repeat, branch off and come back make the same groups as by looking up each edge."""
    random = numpy.random.default_rng(3)
    programs = [random.integers(0, 1000, 12) for _ in range(3)]
    programs += [numpy.concatenate([programs[0][:k], programs[1][k:]]) for k in (3, 6, 9)]
    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) + 1.0
    expected = 0
    for turn in range(30):
        program = programs[int(random.integers(len(programs))) if turn > 8 else turn % 3]
        engine.flush()
        ours = mixed(x, y, program)
        expected += followed(open_group())[2]
        assert numpy.array_equal(numpy.asarray(ours), mixed(PLAIN * 1.0, PLAIN + 1.0, program))
    assert expected > 100


def test_the_same_call_on_stores_in_other_slots_follows_another_edge() -> None:
    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) + 1.0

    def chain(a: Any, b: Any, c: Any) -> Any:
        return (a + b) * c

    for turn in range(24):
        a, b, c = [(x, y, x), (x, y, y), (x, x, x), (x, x, y)][turn % 4]
        engine.flush()
        ours = chain(a, b, c)
        open_group()
        plain = {id(x): PLAIN, id(y): PLAIN + 1.0}
        wanted = chain(*[plain[id(each)] for each in (a, b, c)])
        assert numpy.array_equal(numpy.asarray(ours), wanted)


def test_nothing_is_expected_once_trails_are_forgotten() -> None:
    x = np.array(PLAIN) * 1.0
    for _ in range(4):
        engine.flush()
        held = x * 2.0 + 1.0
    memo = engine.current().window.memo
    assert memo.start.expected is not None
    engine.flush()
    memo.forget_trails()
    assert memo.start.expected is None
    again = x * 2.0 + 1.0
    assert memo.start.edges and open_group().recorded
    assert numpy.array_equal(numpy.asarray(again), numpy.asarray(held))


def test_a_call_that_no_longer_may_be_recorded_is_not_expected() -> None:
    x = np.array(numpy.linspace(-1.0, 1.0, SIZE)) * 1.0

    def root() -> Any:
        return np.sqrt(x)

    with np.errstate(invalid="ignore"):
        for _ in range(4):
            engine.flush()
            root()
        engine.flush()
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        root()


def test_handles_of_memory_that_other_code_saw_are_forgotten_when_they_end() -> None:
    shown = engine.current().stores.shown
    before = len(shown)
    for turn in range(5):
        x = np.array(PLAIN) * (1.0 + turn)
        seen = numpy.asarray(x)
        del x, seen
    assert len(shown) <= before + 1
