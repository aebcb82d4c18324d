"""Judges which rank others wait for in vain, from the reports of all ranks, and words the message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from diffuse.runtime.ranks.activity import Report

BUSY = 10
"""Ranks wait this many times as long for a rank that computes as for one that does nothing."""
FEW = 4
"""The most ranks whose line a message names."""


class Seen(NamedTuple):
    """Rank 0's knowledge of another rank."""

    report: Report | None
    """Its last report; None if it has sent none."""
    silent: float = 0.0
    """Seconds for which it has owed an answer."""
    connected: bool = True
    """Can rank 0 ask it?"""


class Verdict(NamedTuple):
    """The message, and whether the program ends with it."""

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
        return None  # its report is late, but may come
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
    """The ranks that hold up the others: of those that do not wait, the furthest behind and those without a
    report."""
    known = [each.report.events for each in others.values() if each.report is not None]
    return {rank: each for rank, each in others.items()
            if each.report is None or each.report.events == min(known)}


def _idle(seen: Seen, limit: float) -> bool:
    """Is a rank idle, as far as is known?"""
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
    """Name ranks in a message."""
    names = [str(rank) for rank in sorted(ranks)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:8])}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
