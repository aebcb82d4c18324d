"""Which stores of a group are live: by Python's code, by compiled code, and in programs."""

from __future__ import annotations

import random
from typing import Any

import pytest

import diffuse.numpy
from diffuse.kernels.build.compiler import compiler
from diffuse.numpy.small import native
from diffuse.stream import engine, liveness
from diffuse.stream.execute import Forwarder
from diffuse.stream.group import Group
from tests.test_fuzz_stream import stream

compiled = pytest.mark.skipif(native is None, reason="there is no compiled code to compare with")


def test_a_store_is_live_if_the_program_or_a_later_group_needs_it() -> None:
    slots, users = {11: 0, 12: 1, 13: 2, 14: 3}, {11: 3, 12: 4, 13: 3, 14: 5}
    assert liveness.live_bits(slots, {13}, users, 3) == bytes([0, 1, 1, 1])
    assert liveness.unreferenced({11, 12, 13, 15}, {13}, users, 3, {15: None}) in (([11, 15], [15]),
                                                                               ([15, 11], [15]))


@compiled
def test_compiled_code_is_the_same_as_the_definition() -> None:
    pick = random.Random(7)
    for _ in range(200):
        stores = pick.sample(range(1, 1 << 40), pick.randrange(40))
        alive, some = set(pick.sample(stores, len(stores) // 2)), pick.sample(stores, len(stores) // 3)
        users = {store: pick.randrange(9) for store in stores}
        taken, instances = pick.randrange(9), dict.fromkeys(some)
        slots = {store: k for k, store in enumerate(stores)}
        assert native.live_bits(slots, alive, users, taken) == liveness.live_bits(slots, alive, users, taken)
        for store in stores[::3]:
            del users[store]
        done = set(stores)
        found = liveness.unreferenced(done, alive, users, taken, instances)
        assert native.unreferenced(done, alive, users, taken, instances) == found
        mine, theirs = dict(users), dict(users)
        liveness.forget(mine, found[0])
        native.forget(theirs, found[0])
        assert mine == theirs


@compiled
def test_compiled_code_refuses_other_arguments() -> None:
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        ("live_bits", ({}, set(), {})), ("live_bits", ([], set(), {}, 1)), ("live_bits", ({}, {}, {}, 1)),
        ("unreferenced", (set(), set(), {}, 1)), ("unreferenced", ([], set(), {}, 1, {})),
        ("forget", ({},)), ("forget", ({}, (1,)))]
    for name, arguments in wrong:
        with pytest.raises(TypeError, match=f"{name}: expected"):
            getattr(native, name)(*arguments)
    with pytest.raises(KeyError, match="5"):
        native.live_bits({5: 0}, set(), {}, 1)
    with pytest.raises(TypeError):
        native.live_bits({5: 0}, set(), {}, "1")


def test_the_stream_uses_compiled_code_where_there_is_any() -> None:
    used = liveness if native is None else native
    assert (liveness.bits, liveness.ended, liveness.drop) == (used.live_bits, used.unreferenced, used.forget)


@pytest.mark.not_device("a group may read what it wrote in any row")
def test_each_group_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Group] = []

    def plan_of(self: Forwarder, group: Group, taken: int, before: Any = Forwarder.plan_of) -> Any:
        planned.append(group)
        return before(self, group, taken)

    monkeypatch.setattr(Forwarder, "plan_of", plan_of)
    with stream(points=2, window="auto", compile="wait"):  # a group is planned again when its kernel arrives
        a = diffuse.numpy.ones((400, 300))
        for _ in range(3):
            planned.clear()
            b = a * 2.0
            b[1:] += b[:-1].copy()  # reads rows of other points: a group of its own
            engine.fence()
            assert float(b[-1, -1]) == 4.0
            compiler.wait()
    assert len({id(group) for group in planned}) == len(planned) >= 2
