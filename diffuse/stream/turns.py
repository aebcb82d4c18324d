"""Finds where a loop begins within a group, so that the group can end there and all turns of the loop make
equal groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from diffuse.ir.template import Recorded


def begins_turn(held: Sequence[Recorded], recorded: Recorded, least: int, loops: int) -> bool:
    """Does a task begin a new turn of a loop, and would it cost nothing to end the group before it?

    The last tasks of the group, `least` of them or more, have to be turns of that loop.  A loop is a sequence
    of operations and lines of the program that is repeated; of several periods the shortest counts.  Its
    turns begin where least data goes from one to the next; in doubt, where the repetition does.  Nothing is
    lost if the turns do not share passes over memory: if the group's kernel has as many `loops` as there are
    turns, or more.
    """
    count = len(held)
    if count < least:
        return False
    operation, where = recorded[0].operation, recorded[3]
    for period in range(1, count // 2 + 1):
        made, _, _, place = held[-period]
        if place is where and made.operation == operation:
            first = count - period
            while first:
                one, other = held[first - 1], held[first - 1 + period]
                if one[3] is not other[3] or one[0].operation != other[0].operation:
                    break
                first -= 1
            enough = max(least, 2 * period)
            if count - first >= enough:
                turned = (count - first) // period * period
                return enough <= turned <= loops * period and _seam(held, first, period) == count - turned
    return False


def _seam(held: Sequence[Recorded], first: int, period: int) -> int:
    """The first task of a repetition that follows a place where fewest stores are written before and read
    behind, by its number: temporaries of a turn would have to be kept if a group ended among their uses."""
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    for number, (template, stores, *_) in enumerate(held):
        for store, use in zip(stores, template.uses, strict=True):
            if use.privilege.reads:
                read[store] = number
            if use.privilege.writes:
                written.setdefault(store, number)
    changes = [0] * (len(held) + 1)
    for store, begin in written.items():
        if read.get(store, -1) > begin:
            changes[begin + 1] += 1
            changes[read[store] + 1] -= 1
    crossing = list(accumulate(changes))
    places = range(len(held) - 2 * period, len(held) - period)
    return first + min([(crossing[place], (place - first) % period) for place in places])[1]
