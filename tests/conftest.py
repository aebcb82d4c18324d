"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with tests/golden/<test file>/<test>.txt."""

    def compare(text: str) -> None:
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in request.node.name)
        path = GOLDEN / request.path.stem / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        assert path.exists(), f"no {path}: look at the text, then run pytest --update-golden\n{text}"
        assert text + "\n" == path.read_text(encoding="utf-8")

    return compare
