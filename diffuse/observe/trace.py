"""Named counters and events: the numbers behind `explain` and DIFFUSE_TRACE.

Counters always count (one dictionary addition each; a hot path writes `trace.counters["recorded"] += 1`
itself).  Events cost one test unless tracing is on; then each different event is printed to stderr once,
and its repetitions are counted and printed at exit.
"""

from __future__ import annotations

import atexit
import sys
from collections import defaultdict
from collections.abc import Callable

from diffuse import settings

COUNTERS = {
    "recorded": "index tasks that the program's operations became",
    "launched": "fused tasks forwarded to the runtime",
    "plans": "plans made by an analysis",
    "replays": "plans used again",
    "forgotten": "plans dropped, the least recently used first, because there were too many",
    "refusals": "different places where a constraint kept a task out of a prefix",
    "interpreted": "fused tasks run interpreted because their kernel was not ready",
    "pipelined": "pairs of fused tasks run as one pass over rows",
    "donated": "results that took over the memory of an input",
    "compilations": "kernels compiled",
    "cache hits": "kernels read from disk",
    "single": "operations on large arrays done at once: the first, or where the program waits after a few",
    "moving": "operations done at once, because they come with other extents or offsets every turn",
    "updates": "updates in place done in one pass with the operation of their operand, as in `x -= u * v`",
    "snapshots": "small operands that were copied because the program overwrites their array",
    "walks": "waits that came because small operations in a row are done at once",
    "uploads": "arrays, and parts of them, copied to the device",
    "downloads": "arrays, and parts of them, copied from the device",
    "bytes uploaded": "bytes of these",
    "bytes downloaded": "bytes of these",
    "by CuPy": "calls computed on the device by CuPy",
    "to the host": "changes to the host of a program on a device, because its operations are small",
    "to the device": "changes back",
    "on the host": "fused tasks run on the host, because the device has no kernels for them",
    "exchanged": "dense operands of sparse products of which Legate's ranks exchanged rows",
    "beside Legate": "fused tasks that ranks ran themselves, because Legate lacked memory to move arrays",
    "fallbacks": "calls computed by NumPy because Diffuse lacks the function",
}
"""Every counter and what it counts."""

BYTES = {"uploads": "bytes uploaded", "downloads": "bytes downloaded"}
"""The counters of copies, and of their bytes."""

counters: defaultdict[str, int] = defaultdict(int)
on_host: dict[str, tuple[int, int]] = {}
"""For each function that ran on the host on a device's arrays: its calls, and the bytes copied for them."""
hosting: tuple[str, object] | None = None
"""The host function for which arrays are being read, and the user's line that called it."""
events: dict[tuple[str, str], int] = {}

on: bool = False


def count(name: str, n: int = 1) -> None:
    counters[name] += n


def quantity(n: int, noun: str, plural: str | None = None) -> str:
    """A number of things, as text: "1 task", "2 tasks"."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def copied(kind: str, nbytes: int) -> None:
    """Count a copy to or from a device."""
    counters[kind] += 1
    counters[BYTES[kind]] += nbytes


def hosted(name: str, before: int) -> None:
    """Count a call of a function on the host, if bytes were copied from the device for it.  `before` is the
    counter of these bytes before the call."""
    nbytes = counters[BYTES["downloads"]] - before
    if nbytes:
        calls, known = on_host.get(name, (0, 0))
        on_host[name] = calls + 1, known + nbytes


def event(kind: str, text: str | Callable[[], str]) -> None:
    """Report an event: printed when its text first occurs, counted from then on."""
    if not on:
        return
    key = (kind, text if isinstance(text, str) else text())
    seen = events.get(key, 0)
    events[key] = seen + 1
    if not seen:
        first, *rest = key[1].splitlines() or [""]
        print("\n".join([f"diffuse: {kind}: {first}", *("         " + line for line in rest)]),
              file=sys.stderr, flush=True)


def enable(wanted: bool = True) -> None:
    """Turn the printing of events on or off, as the setting `trace` does."""
    global on
    on = wanted


def snapshot() -> dict[str, int]:
    """The current counters, including every declared one."""
    return {**dict.fromkeys(COUNTERS, 0), **counters}


def reset() -> None:
    counters.clear()
    events.clear()
    on_host.clear()


def summary() -> str:
    """The counters, and the events that were repeated, as text."""
    lines = [f"{name}: {n:,}" for name, n in snapshot().items() if n]
    repeated = [(kind, text, n) for (kind, text), n in events.items() if n > 1 and text]
    lines += [f"{kind} {text.splitlines()[0]!r}: {n} times" for kind, text, n in repeated]
    return "\n".join(lines)


def _at_exit() -> None:
    if on:
        for line in summary().splitlines():
            print(f"diffuse: {line}", file=sys.stderr)


atexit.register(_at_exit)
settings.watch("trace", enable)
enable(settings.config.trace)
