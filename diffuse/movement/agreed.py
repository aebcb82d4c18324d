"""All ranks choose partitions by one model of the machine, the measured one if every rank has its file."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from diffuse.movement.machine import Machine, measured, of_numbers
from diffuse.settings import config

SCALE = 10**12
"""Numbers travel as whole ones: seconds in picoseconds, and rates as they are."""

_known: WeakKeyDictionary[Any, Machine] = WeakKeyDictionary()


def machine(runtime: Any) -> Machine:
    """Return the machine of a runtime's ranks: of each number the mean over the ranks' files.  It is
    `Machine()`, the documented default, if a rank has no file, or one of another kind.

    The first call for a runtime asks all ranks, so that every rank has to make it; later ones are a look-up.
    """
    found = _known.get(runtime)
    if found is None:
        found = _known[runtime] = _agreed(measured(config.cache_dir), runtime)
    return found


def _agreed(mine: Machine | None, runtime: Any) -> Machine:
    count = runtime.over_ranks(1)
    numbers = [] if mine is None else mine.numbers()
    length = len(numbers)
    alike = runtime.over_ranks(int(length > 0)) == count and runtime.over_ranks(length) == count * length
    if runtime.over_ranks(int(not alike)):  # a length may be the mean by chance: all ranks have to say so
        return Machine()
    return of_numbers([_rounded(runtime.over_ranks(_whole(number)) / count) for number in numbers])


def _whole(number: float) -> int:
    return round(number * SCALE) if number < 1.0 else round(number) + SCALE


def _rounded(number: float) -> float:
    return number / SCALE if number < SCALE else number - SCALE
