"""`DIFFUSE_CHECK`: wrong answers of the analyses are found while a program runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy
import pytest

import diffuse.numpy as np
from diffuse.fusion import constraints, definition, verify
from diffuse.fusion.temporaries import temporaries
from diffuse.ir import IndexTask
from diffuse.settings import config, using
from diffuse.stream import admission, engine, execute, recheck


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    """Everything is recorded, nothing is remembered from before, and small arrays have several points."""
    if engine.current().runtime.points == 1:
        pytest.skip("one point: every dependence is on the same point")
    before = config.small
    config.small = 0
    engine.fence()
    with using(check=True, compile="off", window=1000, min_chunk=8):
        engine.current().window.forget()
        yield
        engine.fence()
        engine.current().window.forget()
    config.small = before


def program() -> float:
    """Tasks that fuse, a temporary, a reduction, and a dependence that keeps two tasks apart."""
    x = np.arange(64.0).reshape(16, 4)
    y = (x + 1.0) * 2.0
    x[:, 1:] = y[:, :-1]
    x[:-1] = x[1:] + y[1:]
    return float((x * y).sum())


def test_right_answers_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def fusible(tasks: Sequence[IndexTask]) -> bool:
        looked.append(len(tasks))
        return by_definition(tasks)

    by_definition = definition.fusible
    monkeypatch.setattr(definition, "fusible", fusible)
    x = numpy.arange(64.0).reshape(16, 4)
    y = (x + 1.0) * 2.0
    x[:, 1:] = y[:, :-1]
    x[:-1] = x[1:] + y[1:]
    assert program() == (x * y).sum() and max(looked) > 1
    before = len(looked)
    program()
    assert len(looked) == before, "a group that was compared before is compared again"


@pytest.mark.parametrize("name", ["true dependence", "anti-dependence"])
def test_a_constraint_that_says_yes_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(constraints.CONSTRAINTS, name, lambda effects, task: None)
    x = np.arange(64.0).reshape(16, 4)
    y = np.zeros((16, 4))
    with pytest.raises(RuntimeError, match="by definition a point depends on another one"):
        if name == "true dependence":
            x *= 2.0
            y += x[::-1]
        else:
            y += x[::-1]
            x *= 2.0
        np.sum(y).item()


@pytest.mark.parametrize("patched, said", [
    ((execute, recheck), "the analysis says that they are used elsewhere"),
    ((execute, recheck, verify), "by definition they are used elsewhere"),
])
def test_a_store_without_memory_that_somebody_sees_is_found(
        patched: tuple[ModuleType, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(64.0).reshape(16, 4)
    engine.fence()
    for module in patched:
        monkeypatch.setattr(module, "temporaries", lambda tasks, pending, live: temporaries(tasks, pending))
    with pytest.raises(RuntimeError, match=said):
        y = x + 1.0
        float((y * 2.0).sum())
        float(y.sum())


def test_a_memo_that_leads_astray_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "admit", lambda effects, task, opaque: None)
    x = np.arange(64.0).reshape(16, 4)
    y = np.zeros((16, 4))
    with pytest.raises(RuntimeError, match="were fused, but the analysis refuses: "):
        x *= 2.0
        y += x[::-1]
        np.sum(y).item()


def test_large_groups_are_only_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "fusible", lambda tasks: pytest.fail("element by element"))
    x = np.arange(100000.0)
    assert float((x * 2.0 + 1.0)[5]) == 11.0
