"""Substitutes for the parts of Legate that programs for cuPyNumeric use beside arrays: clock, fence, machine.

`legate.timing` and `legate.core` are this module in programs that `diffuse run` runs.
"""

from __future__ import annotations

from enum import IntEnum
from time import perf_counter_ns
from typing import Any

import diffuse
from diffuse.numpy.arrays import core
from diffuse.runtime import machine

UNITS = {"ns": 1, "us": 1000}


def time(units: str = "us") -> int:
    """Read the clock when everything recorded before is done, in microseconds ("us") or nanoseconds."""
    if units not in UNITS:
        raise ValueError(f"time({units!r}): expected one of {', '.join(map(repr, UNITS))}")
    diffuse.fence()
    return perf_counter_ns() // UNITS[units]


class Runtime:
    """The part of Legate's runtime that array programs call."""

    def issue_execution_fence(self, block: bool = False) -> None:
        """Forward what is recorded and, with `block`, wait until it is done."""
        if block:
            diffuse.fence()
        else:
            diffuse.flush()

    def issue_mapping_fence(self) -> None:
        """Do nothing: instances are not mapped anew."""


_runtime = Runtime()


def get_legate_runtime() -> Runtime:
    """The runtime, of which there is one."""
    return _runtime


class TaskTarget(IntEnum):
    """Kinds of processors."""

    GPU, OMP, CPU = 1, 2, 3


class Machine:
    """The processors of this machine.  As a context manager it selects processors for a part of the program,
    which Diffuse ignores."""

    def __init__(self, kinds: tuple[TaskTarget, ...] = (TaskTarget.CPU,)) -> None:
        self._kinds = kinds

    preferred_target = TaskTarget.CPU

    def count(self, target: Any = TaskTarget.CPU) -> int:
        """The number of processors of this kind."""
        return machine.processors() if target in self._kinds else 0

    def only(self, *targets: Any) -> Machine:
        """The machine with these kinds of processors only."""
        return Machine(tuple([kind for kind in self._kinds if kind in targets]))

    def __len__(self) -> int:
        return self.count()

    def __getitem__(self, _: Any) -> Machine:
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


def get_machine() -> Machine:
    """The machine that the program runs on."""
    return Machine()


def stencil_hint(self: Any, low: Any, high: Any, dimension: Any = None) -> None:
    """Ignore how far tasks will read beyond their part of this array: Diffuse derives that from the tasks."""


def hints() -> None:
    """Give arrays the methods that only cuPyNumeric's have."""
    if not hasattr(core.array_class, "stencil_hint"):
        core.array_class.stencil_hint = stencil_hint


def __getattr__(name: str) -> Any:
    raise AttributeError(f"legate has no {name!r} under `diffuse run`, which answers for time, "
                         "get_legate_runtime, get_machine and TaskTarget; with --real legate it is the "
                         "library itself", name=name)
