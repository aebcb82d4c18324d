"""The plans, refusals and counters of a program, as a value that prints as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from diffuse.observe import trace
from diffuse.observe.trace import quantity


@dataclass(frozen=True)
class FusedTask:
    """One plan: the tasks it stands for and how often it ran."""

    operations: tuple[str, ...]
    where: tuple[str, ...]
    """The user's line of each operation, "file:line"."""
    loops: int
    """The number of loop nests in its kernel; less than the number of operations if their loops fused,
    too."""
    vanished: int
    """The number of stores that exist only in registers."""
    reason: str
    """The reason why the next task stayed out."""
    launches: int
    sites: tuple[str, ...]
    """The places of the program that share it, "first line to last line", at most sixteen."""
    compiled: bool
    text: str
    """The tasks, one per line, in the form of traces."""

    def __str__(self) -> str:
        state = "compiled" if self.compiled else "interpreted"
        counts = [quantity(len(self.operations), "operation") + " -> 1 task", quantity(self.loops, "loop"),
                  quantity(self.vanished, "temporary", "temporaries") + " vanished",
                  "ran " + quantity(self.launches, "time"), state]
        head = ", ".join(counts)
        lines = ["  " + line for line in self.text.splitlines()]
        shared = [f"  recorded from: {site}" for site in self.sites if len(self.sites) > 1]
        return "\n".join([head, *shared, f"  ended by: {self.reason}", *lines])


@dataclass(frozen=True, repr=False)
class Explanation:
    """All decisions so far, newest plan last.  It is shown as text, in interactive sessions, too."""

    plans: tuple[FusedTask, ...]
    counters: dict[str, int]
    on_host: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each function that ran on the host on a device's arrays: its calls, and the bytes copied."""

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {n:,}" for name, n in self.counters.items() if n)
        plans = [f"plan {i}: {plan}" for i, plan in enumerate(self.plans)]
        hosted = [f"on the host: {name}, {quantity(calls, 'call')}, {nbytes:,} bytes copied from the device"
                  for name, (calls, nbytes) in self.on_host.items()]
        return "\n\n".join([*plans, *["\n".join(hosted)] * bool(hosted),
                            f"totals: {numbers or 'nothing was recorded'}"])

    __repr__ = __str__


def explanation(made: Iterable[Any]) -> Explanation:
    """The explanation of these plans (stream/plan.py), with the current counters."""
    plans = tuple(
        FusedTask(p.operations, p.where, p.loops, p.vanished, p.reason, p.launches,
                  tuple(_span(*site) for site in p.sites.items()),
                  p.kernel is not None and p.kernel.native is not None, p.text)
        for p in made)
    return Explanation(plans, trace.snapshot(), dict(trace.on_host))


def _span(first: Any, last: Any) -> str:
    return str(first) if first == last else f"{first} to {last}"
