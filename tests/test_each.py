"""Grids of cases in one test: all run, those that fail are named, and decorators and fixtures go together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.each import for_each


@pytest.fixture
def seen() -> Iterator[list[tuple[int, str]]]:
    """The cases that a test adds, which are all combinations in the end."""
    found: list[tuple[int, str]] = []
    yield found
    assert found == [(a, b) for a in range(3) for b in "xy"]


@pytest.mark.parametrize("other", [False, True])
@for_each("a", range(3))
@for_each("b, c", [("x", 1), ("y", 2)])
def test_every_combination_runs(tmp_path: Path, a: int, b: str, c: int, other: bool,
                                seen: list[tuple[int, str]]) -> None:
    assert tmp_path.is_dir() and len(b) == 1 and c in (1, 2) and other in (False, True)
    seen.append((a, b))


def fails(a: int, b: str) -> None:
    if b == "skip":
        pytest.skip("not this one")
    if b == "raises":
        with pytest.raises(KeyError):
            pass
    assert a != 1


def test_all_cases_that_fail_are_named() -> None:
    test = for_each("a", range(3))(for_each("b", ["skip", "fine", "raises"])(fails))
    with pytest.raises(BaseExceptionGroup, match="4 cases of fails") as caught:
        test()
    assert [tuple(problem.__notes__) for problem in caught.value.exceptions] == [
        (f"b = {b!r}", f"a = {a}") for b, a in (("raises", 0), ("fine", 1), ("raises", 1), ("raises", 2))]


def test_a_single_failure_is_raised_as_it_is() -> None:
    with pytest.raises(AssertionError) as caught:
        for_each("a", range(3))(for_each("b", ["fine"])(fails))()
    assert caught.value.__notes__ == ["b = 'fine'", "a = 1"]


def test_a_test_is_skipped_where_every_case_is() -> None:
    with pytest.raises(pytest.skip.Exception):
        for_each("a", range(3))(for_each("b", ["skip"])(fails))()
