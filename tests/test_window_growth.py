"""The size of a group: how much memory of dropped stores it holds, and how many loops its kernel has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.numpy.ops import moving
from diffuse.stream import engine, outline, window
from diffuse.stream.stores import Stores, nbytes

Array = Any
N = 60_000
ROW = 8 * N
"""Bytes of one row of the arrays below."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (outline, window):
        monkeypatch.setattr(module, "SPARE", 10 * ROW)
    monkeypatch.setattr(Stores, "held_bytes", lambda self: 0)  # arrays of other tests of this process
    monkeypatch.setattr(moving, "MOST", 0)  # operations on ever new views are recorded
    engine.fence()
    engine.current().window.forget()
    with settings.using(compile="off", window="2000", small=0):
        yield
        engine.fence()


def groups(run: Callable[[], object]) -> tuple[list[int], list[int]]:
    """Of each group that a program makes before anything is forwarded: its tasks, and the bytes of the stores
    that it made, that the program dropped, and that would not vanish in a kernel of several loops."""
    kept = run()
    held, stores = engine.current().window, engine.current().stores
    lengths, sizes = [], []
    for group in (*held.closed, held.open):
        uses: Counter[int] = Counter()
        for task in group.tasks:
            uses.update({access.store.id for access in task.accesses})
        made = {access.store.id for task in group.tasks for access in task.accesses
                if access.privilege.writes and access.store.id not in stores.alive}
        views = {id: {(access.map, task.shape) for task in group.tasks for access in task.accesses
                      if access.store.id == id} for id in made}
        lengths.append(len(group.tasks))
        sizes.append(sum(nbytes(stores.storages[id]) for id in made if len(views[id]) > 1))
    del kept
    return lengths, sizes


def begun() -> tuple[Array, Array]:
    """The state of the programs below, made by operations that the loop does not come back to."""
    b = np.linspace(0.1, 1.0, N)
    return np.stack([np.sin(b), np.cos(b)]), b


def stacked(turns: int) -> Array:
    a, b = begun()
    for _ in range(turns):
        x, y = a[0], a[1]
        a = a + 0.01 * np.stack([y * b, -x * b])
    return a


def assigned(turns: int) -> Array:
    a, b = begun()
    for _ in range(turns):
        change = np.empty_like(a)
        change[0] = a[1] * b
        change[1] = -a[0] * b
        a = a + 0.01 * change
    return a


@pytest.mark.not_device("launches have one point")
@pytest.mark.parametrize("program", [stacked, assigned])
def test_a_group_ends_before_it_holds_much_memory_of_dropped_stores(program: Callable[[int], Array]) -> None:
    lengths, sizes = groups(lambda: program(40))
    assert sum(lengths) > 6 * 40
    assert max(sizes) <= 16 * ROW  # the bound, what the last turn added, and what the program held then


def test_every_such_turn_of_a_loop_makes_the_same_groups() -> None:
    lengths, _ = groups(lambda: stacked(60))
    assert len(set(lengths[4:-1])) == 1, lengths


def test_values_of_a_program_whose_groups_end_so() -> None:
    a, b = (x.__array__().copy() for x in begun())
    for _ in range(20):
        change = np.stack([a[1] * b, -a[0] * b]).__array__()
        a = a + 0.01 * change
    assert (stacked(20).__array__() == a).all()


@pytest.mark.not_device("launches have one point")
def test_what_the_program_holds_does_not_count() -> None:
    def run() -> list[Array]:
        a, b = begun()
        kept = []
        for _ in range(8):
            first, second = a[1] * b, a[0] * b
            change = np.stack([first, second])
            a = a + change
            kept += [first, second, change, a]
        return kept

    first = 5 + 4  # linspace, and the stack of sine and cosine
    assert max(groups(run)[0]) == first + 8 * 5


def test_stores_that_vanish_do_not_count() -> None:
    def run() -> Array:
        a, b = begun()
        for _ in range(100):
            a = a * 1.0001 + b
        return a

    assert max(groups(run)[0]) > 200


def test_the_kernel_of_a_group_has_a_bounded_number_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (outline, window):
        monkeypatch.setattr(module, "SPARE", 1 << 40)
    monkeypatch.setattr(window, "LOOP", 1 << 40)
    stacked(100)
    engine.flush()
    assert max(plan.loops for plan in engine.current().plans) <= outline.MOST_LOOPS
    assert max(plan.loops for plan in engine.current().plans) > outline.MOST_LOOPS // 2


def test_turns_of_ever_new_extents_make_groups_of_one_form() -> None:
    """The loop comes back to its first call, though over other extents."""
    x = np.ones(5000)
    before = len(engine.current().plans)
    for _ in range(100):
        x = 0.5 * (x[1:] + x[:-1])
        x = np.maximum(x, 0.25 * x.max())
    engine.flush()
    assert engine.current().window.memo.nodes < 3 * outline.MOST_LOOPS
    assert len(engine.current().plans) <= before + 4


def test_and_of_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "LOOP", 1 << 40)

    def run() -> Array:
        a, b = begun()
        for _ in range(300):
            a = np.exp(-a * b)
        return a

    assert outline.MOST_COST // 4 < max(groups(run)[0]) < outline.MOST_COST // 3


def test_a_long_chain_of_operations_is_interpreted() -> None:
    x = np.ones(50)
    for _ in range(1500):
        x = x * 1.0
    assert float(x[0]) == 1.0
