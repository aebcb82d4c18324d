"""The index of bounding boxes: it finds every access that may meet another one, and few others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.fusion import canonical, constraints
from diffuse.ir import Relation, alias, relation
from diffuse.ir.spans import FEW, Spans
from diffuse.stream import engine
from tests import windows
from tests.each import for_each


@for_each("seed", range(40))
def test_what_may_meet_is_found(seed: int) -> None:
    rng = Random(seed)
    accesses = [access for _ in range(30) for task in windows.window(rng) for access in task.accesses
                if access.store.id == 0]
    spans = Spans()
    for access in accesses:
        near = spans.near(access)
        assert sorted(set(near)) == list(near)
        for number, other in enumerate(spans.accesses):
            if number not in near:
                assert relation(access, other, (4,)) is Relation.APART
        spans.add(access)
    assert len(spans.accesses) > FEW


def rows(x: Any) -> None:
    for k in range(1, len(x)):
        x[k] = x[k] + 0.5 * x[k - 1]


def columns(x: Any) -> None:
    rows(x.T)


def windows_of(x: Any) -> None:
    for k in range(0, len(x) - 4, 2):
        x[k:k + 3] += 1.0


@pytest.mark.parametrize("program", [rows, columns, windows_of])
def test_parts_of_a_store_are_compared_with_their_neighbours_only(
        program: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*args: Any) -> Relation:
        nonlocal calls
        calls += 1
        return alias.relation(*args)

    for module in (canonical, constraints):
        monkeypatch.setattr(module, "relation", counted)
    counts = []
    with settings.using(compile="off", window="2000", small=0):
        for n in (30, 60):
            engine.fence()
            engine.current().window.forget()
            alias._known.clear()
            x = np.ones((n, n))
            calls = 0
            program(x)
            counts.append(calls)
            engine.fence()
    assert 0 < counts[1] < 2.5 * counts[0], counts
    assert counts[1] < 60 * 40
