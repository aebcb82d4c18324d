"""Ranks that run different programs end with an error that names where, instead of with wrong numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diffuse.runtime.ranks import agreement
from diffuse.runtime.ranks.agreement import APART, Agreement, form
from tests.jobs import TINY, job, run
from tests.outcomes import run_all

Program = Callable[[Agreement], None]


class Ended(Exception):
    """A rank ended its process."""


class Ranks:
    """Ranks as threads, which gather words."""

    def __init__(self, count: int) -> None:
        self._words = [0] * count
        self._barrier = threading.Barrier(count, timeout=120)
        self.gathers = 0

    def gather(self, rank: int) -> Callable[[int], list[int]]:
        def exchange(word: int) -> list[int]:
            self._words[rank] = word
            self._barrier.wait()
            found = list(self._words)
            self._barrier.wait()
            self.gathers += rank == 0
            return found
        return exchange


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What each rank says at its end."""
    found: dict[str, str] = {}

    def write(_: int, text: bytes) -> None:
        found[threading.current_thread().name] = text.decode().splitlines()[1].strip()

    def leave(status: int, report: str) -> None:
        raise Ended

    monkeypatch.setattr(agreement, "leave", leave)
    monkeypatch.setattr(agreement, "HEARD", 0.0)
    monkeypatch.setattr(agreement, "os", SimpleNamespace(write=write))
    monkeypatch.setattr(agreement, "atexit", SimpleNamespace(register=lambda *_: None))
    return found


def together(*programs: Program, close: bool = False) -> Ranks:
    """Run a program on each rank until all have come to an end."""
    ranks = Ranks(len(programs))

    def work(rank: int) -> None:
        stream = Agreement(rank, ranks.gather(rank), close)
        try:
            programs[rank](stream)
            stream.meet("the end")
        except Ended:
            pass

    threads = [threading.Thread(target=work, args=(k,), name=str(k)) for k in range(len(programs))]
    run_all(threads, 60)
    return ranks


def events(*names: str) -> Program:
    def program(stream: Agreement) -> None:
        for name in names:
            stream.event(name)
    return program


def test_ranks_that_do_the_same_meet_seldom(said: dict[str, str]) -> None:
    names = [f"event {k}" for k in range(3 * APART)]
    assert together(events(*names), events(*names)).gathers == 4 and not said
    assert together(events(*names), events(*names), close=True).gathers > 3 * APART and not said


def test_what_needs_several_stores_is_compared_once(said: dict[str, str]) -> None:
    def program(stream: Agreement) -> None:
        for name in "abc":
            stream.event(name)
            for _ in range(4):
                stream.settle("making a store")
    assert together(program, program).gathers == 4 and not said


def test_ranks_that_need_stores_for_different_things_are_found(said: dict[str, str]) -> None:
    def stores(name: str) -> Program:
        def program(stream: Agreement) -> None:
            stream.event("a")
            stream.settle("making a store")
            stream.event(name)
            stream.settle("making a store")
        return program

    together(stores("b"), stores("c"), stores("b"))
    assert said == {"0": "b", "1": "c", "2": "b"}


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("place", [0, 1, 20, APART - 1, APART, 100])
def test_the_first_difference_is_named(place: int, close: bool, said: dict[str, str]) -> None:
    names = [f"event {k}" for k in range(101)]
    other = [*names[:place], "another", *names[place + 1:]]
    together(events(*names), events(*other), events(*names), close=close)
    assert said == {"0": f"event {place}", "1": "another", "2": f"event {place}"}


@pytest.mark.parametrize("more", [0, 1, 2 * APART])
def test_a_rank_that_does_more_than_others_is_found(more: int, said: dict[str, str]) -> None:
    together(events("a"), events("a", "b", *["c"] * more))
    assert said == {"0": "the end", "1": "b"}


def launches(*parts: tuple[bytes, int, bytes]) -> Program:
    def program(stream: Agreement) -> None:
        owners: list[Any] = [SimpleNamespace(number=0) for _ in range(3)]
        for owner in owners:
            stream.launch(b"first", "first", [owner], b"")
        for k, (what, which, block) in enumerate(parts):
            stream.launch(what, f"launch {k}", [owners[which]], block)
    return program


@pytest.mark.parametrize("other", [(b"g", 0, b"block"), (b"f", 1, b"block"), (b"f", 0, b"black")],
                         ids=["another form", "another store", "another scalar"])
def test_launches_differ_in_form_stores_or_scalars(other: tuple[bytes, int, bytes], said: dict[str, str]
                                                   ) -> None:
    same = (b"f", 0, b"block")
    together(launches(same, same), launches(same, other))
    assert said == {"0": "launch 1", "1": "launch 1"}


def test_folders_have_other_names_on_each_machine() -> None:
    assert form("add [/a/b/x.py:3 to /a/x.py:4]", 1) == form("add [/c/x.py:3 to /d/x.py:4]", 1)
    assert form("add [/a/x.py:3]", 1) != form("add [/a/y.py:3]", 1)
    assert form("add [/a/x.py:3]", 1) != form("add [/a/x.py:3]", 2)


# -- programs ------------------------------------------------------------------------------------------------

PROGRAM = """
import diffuse.numpy as np
from diffuse.stream import engine

rank = engine.current().runtime.rank
x = np.arange(1000.0)
y = np.ones(1000) * 2
print(float((x + y).sum()))
{}
print("silent")
"""
DIFFERENCES = {
    "one rank computes more": "if rank == 0: x = x + 1\nprint(float((x * 3).sum()))",
    "one rank reads more": "if rank == 0: print(x[:10])",
}


@pytest.mark.ranks
@pytest.mark.parametrize("text", DIFFERENCES.values(), ids=DIFFERENCES)
def test_ranks_that_differ_end_with_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(PROGRAM.format(text))
    done = job(*run("--ranks", "2", "--cpus", "1", "x.py"), cwd=tmp_path, **TINY)
    assert done.returncode == 1, done.tail
    assert done.stderr.count("the ranks went different ways") == 2, done.tail


@pytest.mark.ranks
@pytest.mark.parametrize("use, said", [
    ("print(float((z + x).sum()))", "taking"), ("z += x\nprint(z[3])", "writing")], ids=["read", "written"])
def test_data_that_differ_are_found_before_they_are_used(use: str, said: str, tmp_path: Path) -> None:
    text = "z = np.array([float(rank)] * 1000)\n" + use
    (tmp_path / "x.py").write_text(PROGRAM.format(text))
    done = job(*run("--ranks", "2", "--cpus", "1", "x.py"), cwd=tmp_path, DIFFUSE_DIGEST="1", **TINY)
    assert done.returncode == 1 and "silent" not in done.stdout, done.tail
    assert done.stderr.count(f"{said} an array of shape (1000,), float64") == 2, done.tail
