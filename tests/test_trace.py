"""Tracing: counters always count; events print once and are counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import diffuse
import diffuse.numpy as np
from diffuse.ir import text
from diffuse.observe import trace
from diffuse.settings import using


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    counters, events, on = dict(trace.counters), dict(trace.events), trace.on
    trace.reset()
    yield
    trace.reset()
    trace.counters.update(counters)
    trace.events.update(events)
    trace.enable(on)


def test_counters_count_without_tracing() -> None:
    trace.enable(False)
    trace.count("recorded")
    trace.count("recorded", 4)
    assert trace.snapshot()["recorded"] == 5
    assert trace.snapshot()["launched"] == 0, "a declared counter is there before it counts"


def test_an_event_is_printed_once_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    trace.enable(True)
    for _ in range(3):
        trace.event("plan", "add[4] one\nsecond line")
    trace.event("refusal", lambda: "copy stays out")
    printed = capsys.readouterr().err
    assert printed.count("diffuse: plan: add[4] one") == 1
    assert "\n         second line\n" in printed
    assert printed.count("copy stays out") == 1
    assert "plan 'add[4] one': 3 times" in trace.summary()
    assert "copy stays out" not in trace.summary(), "said once, it was printed and needs no count"


def test_a_quiet_event_costs_no_text() -> None:
    trace.enable(False)

    def text() -> str:
        raise AssertionError("built a text that nobody reads")

    trace.event("plan", text)
    assert not trace.events


def test_the_setting_turns_printing_on_and_off(capsys: pytest.CaptureFixture[str]) -> None:
    with using(trace=True):
        trace.event("plan", "seen")
    trace.event("plan", "unseen")
    printed = capsys.readouterr().err
    assert "seen" in printed and "unseen" not in printed


def test_a_plan_is_put_into_words_only_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    trace.enable(False)
    asked, words = 0, text.window_text

    def counted(tasks: Any) -> str:
        nonlocal asked
        asked += 1
        return words(tasks)

    monkeypatch.setattr(text, "window_text", counted)
    x = np.arange(70_001.0)
    y = np.sqrt(x + 0.125) - 3.0
    diffuse.fence()
    assert not asked
    *_, plan = diffuse.explain().plans
    operations = [line.split("[")[0] for line in plan.text.splitlines()]
    assert asked and operations[-3:] == ["add", "sqrt", "subtract"]
    assert float(y[0]) < 0.0


def test_an_interactive_session_shows_the_explanation_as_text_and_completes_public_names() -> None:
    assert repr(diffuse.explain()) == str(diffuse.explain())
    assert set(diffuse.__all__) <= set(dir(diffuse))
