"""Tables of what can be found again at some cost, with one limit."""

from __future__ import annotations

from typing import TypeVar

LIMIT = 1 << 16
"""Entries of a table, at most."""

K = TypeVar("K")
V = TypeVar("V")


class Bounded(dict[K, V]):
    """A dictionary that is emptied when it is full: what it held is found again when it is asked for."""

    __slots__ = ("limit",)

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self.limit:
            self.clear()
        super().__setitem__(key, value)
