"""What a program that never repeats itself leaves behind: plans and kernels, so many and no more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import bounded, settings
from diffuse.bounded import Recurring
from diffuse.kernels.build import compiler as compiling
from diffuse.observe import trace
from diffuse.stream import engine, execute
from diffuse.stream.plan import Plan


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Room for little, and nothing from before."""
    engine.fence()
    stream = engine.current()
    monkeypatch.setattr(execute, "MOST_PLANS", 8)
    monkeypatch.setattr(compiling, "MOST", 3)
    monkeypatch.setattr(stream.forwarder, "plans", [])
    stream.window.forget()
    compiling.compiler.forget()
    with settings.using(compile="wait", small=0, window="auto", min_chunk=1000):
        yield
        engine.fence()
    stream.window.forget()


def program(m: Any, number: int) -> Any:
    """A different chain of operations for each number below 64."""
    x = m.arange(3000.0) + 1
    for bit in range(6):
        x = x + 2 if number >> bit & 1 else x * 0.5
    return numpy.array(x)


def alive() -> int:
    gc.collect()
    return sum(type(x) is Plan for x in gc.get_objects())


def test_plans_and_kernels_are_bounded() -> None:
    others, before = alive(), trace.snapshot()["forgotten"]
    for number in (*range(24), *range(24)):
        numpy.testing.assert_array_equal(program(np, number), program(numpy, number))
        assert len(engine.current().plans) <= 8 and len(compiling.compiler.kernels) <= 3
    assert alive() <= others + 8
    assert trace.snapshot()["forgotten"] >= before + 24
    for _ in range(2):  # the function stays what it is, whatever module is imported for it
        found = diffuse.explain()
        assert "totals:" in str(found) and len(found.plans) <= 8


def test_the_least_recently_used_go_first() -> None:
    for number in range(24):
        program(np, 63)
        program(np, number)
    plans = trace.snapshot()["plans"]
    program(np, 63)
    assert trace.snapshot()["plans"] == plans
    program(np, 1)
    assert trace.snapshot()["plans"] > plans


def test_a_kernel_that_was_dropped_is_compiled_for_the_plan_that_has_it() -> None:
    with settings.using(compile="off"):
        program(np, 1)
        plan = engine.current().plans[-1]
    for number in range(2, 6):
        program(np, number)
    assert plan.kernel is not None and plan.kernel.native is None
    assert (plan.kernel.body, "host") not in compiling.compiler.kernels
    numpy.testing.assert_array_equal(program(np, 1), program(numpy, 1))
    assert engine.current().plans.count(plan) == 1 and plan.kernel.native is not None


def test_a_table_is_swept_while_another_thread_adds_to_it() -> None:
    """The hash of a key is Python code here, between whose steps another thread may run."""
    table: Recurring[Any, int] = Recurring(64)

    class Key:
        def __hash__(self) -> int:
            if table._swept != bounded.sweeps.number - 1 and len(table) < 20:  # it is being swept
                dict.__setitem__(table, object(), 0)
            return 1

    for number in range(6):
        table[Key()] = number
        bounded.sweeps.begin()
    assert list(table.values())[-1] == 5
