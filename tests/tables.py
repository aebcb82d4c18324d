"""Empties the caches of the process between tests, so that no test depends on what others left in them."""

from __future__ import annotations

import sys
from functools import _lru_cache_wrapper
from types import ModuleType
from typing import Any

from diffuse.bounded import SWEPT, Bounded, Recurring, sweeps

_scanned: tuple[int, list[Any]] = 0, []
_sweep = 0
"""The number of the last sweep of tables before all were emptied."""


def _modules() -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "diffuse"]


def bounded() -> list[Bounded[Any, Any]]:
    """The bounded tables of all modules that are there by now, and those of the engine."""
    global _scanned
    from diffuse.stream import engine

    if _scanned[0] != len(sys.modules):
        _scanned = len(sys.modules), [value for module in _modules() for value in vars(module).values()
                                      if isinstance(value, Bounded)]
    templates: Any = engine.current().templates
    return [*_scanned[1], templates.known, templates._places, templates._overlaps]


def forget() -> None:
    """Empty all tables at once, as those of a new process are: where one is empty and others are not, equal
    views, forms and templates are there twice, and what is counted for one is not counted for the other."""
    global _sweep
    from diffuse.stream import engine

    engine.fence()
    for table in bounded():
        table.clear()
    for module in _modules():
        for value in list(vars(module).values()):
            if isinstance(value, _lru_cache_wrapper) and value.cache_parameters()["maxsize"] is not None:
                value.cache_clear()
    engine.current().window.forget()
    _sweep = sweeps.number


def half_full(table: Bounded[Any, Any]) -> bool:
    """Has a table half of the entries at which it is emptied, or at which all are swept?"""
    most = min(table.limit, sweeps.fresh) if isinstance(table, Recurring) else table.limit
    return 2 * len(table) > most


def make_room() -> None:
    """Empty all tables if one is half full, which might be emptied or swept in the middle of the next test,
    or if they were swept in a test before."""
    from diffuse.stream import engine

    sweeps.left = SWEPT
    memo: Any = engine.current().window.memo
    if (_sweep != sweeps.number or any([half_full(table) for table in bounded()])
            or 2 * memo.nodes > memo.nodes_size.limit or 2 * len(memo._new) > memo.new_trails):
        forget()
