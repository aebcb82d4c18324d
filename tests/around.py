"""Fixtures that surround each test of a module, made from context managers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from diffuse import settings
from diffuse.stream import engine


def around(make: Callable[..., AbstractContextManager[Any]], *arguments: Any, **options: Any) -> Any:
    """An autouse fixture: each test of the module runs within a context manager that these arguments make."""

    @pytest.fixture(autouse=True)
    def surrounded() -> Iterator[None]:
        with make(*arguments, **options):
            yield

    return surrounded


@contextmanager
def fenced(**values: Any) -> Iterator[None]:
    """Settings for the length of a `with` block, which begins and ends with nothing recorded."""
    engine.fence()
    with settings.using(**values):
        yield
        engine.fence()
