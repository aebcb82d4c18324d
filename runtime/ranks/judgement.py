"""Which rank others wait for in vain: from what all ranks say that they do, to what is said about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from diffuse.runtime.ranks.activity import Report

BUSY = 10
"""How many times as long ranks wait for a rank that computes as for one that does nothing."""
FEW = 4
"""Ranks of which a message says the line."""


class Seen(NamedTuple):
    """What rank 0 knows of a rank."""

    report: Report | None
    """Its answer; None if it has not given one."""
    silent: float = 0.0
    """For how many seconds it has owed an answer."""
    connected: bool = True
    """Can it be asked?"""


class Verdict(NamedTuple):
    """What is to be said, and whether the program ends with it."""

    said: str
    ends: bool


def judge(seen: Mapping[int, Seen], limit: float) -> Verdict | None:
    """Say for which ranks others have waited longer than the limit; None if no rank has."""
    waiting = {rank: each.report for rank, each in seen.items()
               if each.report is not None and each.report.waited > 0 and not each.silent}
    longest = max(waiting.values(), key=lambda report: report.waited, default=None)
    if longest is None or longest.waited < limit:
        return None
    missing = _missing({rank: each for rank, each in seen.items() if rank not in waiting})
    if not missing:
        said = "\n".join([f"    rank {rank} at {report.line}" for rank, report in waiting.items()][:FEW])
        return Verdict(f"all ranks have waited {limit:g} s for each other, or for large messages:\n{said}\n",
                       False)
    idle = [rank for rank, each in missing.items() if _idle(each, limit)]
    if not idle and any(each.report is None and each.connected for each in missing.values()):
        return None  # its answer is late, but may come
    ends = bool(idle) or longest.waited >= BUSY * limit
    rank, *more = idle or missing
    lines = [f"rank {rank} of {len(seen)} {_does(missing[rank], bool(idle))}"
             + (f" (so {named(more)})" if more else ""),
             f"    {named(list(waiting))} waited for it for {longest.waited:.0f} s at {longest.line}",
             f"    after: {longest.event}",
             f"The program ends: DIFFUSE_WATCHDOG={limit:g} lets ranks wait so many seconds for one that "
             f"does nothing, {BUSY} times as long for one that computes." if ends else
             f"They go on waiting until it has been {BUSY * limit:g} s (DIFFUSE_WATCHDOG={limit:g})."]
    return Verdict("\n".join(lines) + "\n", ends)


def _missing(others: Mapping[int, Seen]) -> dict[int, Seen]:
    """Of the ranks that do not wait those that are least far, or of which nobody knows how far they are."""
    known = [each.report.events for each in others.values() if each.report is not None]
    return {rank: each for rank, each in others.items()
            if each.report is None or each.report.events == min(known)}


def _idle(seen: Seen, limit: float) -> bool:
    """Does a rank nothing, as far as can be known?"""
    if not seen.connected:
        return False
    return seen.silent >= limit / 2 or seen.report is not None and seen.report.idle >= limit / 2


def _does(seen: Seen, idle: bool) -> str:
    if not seen.connected:
        return "is missing, and cannot be asked where it is"
    if seen.report is None:
        return f"does not answer{SILENT if idle else ''}"
    return f"{'is stuck' if idle else 'computes'} at {seen.report.line}"


SILENT = ": its process is stopped, or in code that keeps its threads from running"


def named(ranks: list[int]) -> str:
    """Ranks in words."""
    names = [str(rank) for rank in sorted(ranks)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:8])}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
