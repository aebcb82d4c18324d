"""`diffuse run --traffic`: what ranks send for which operations and lines, compared with the lower bound."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from diffuse import settings
from diffuse.cli.job import JobOptions
from diffuse.settings import config

if TYPE_CHECKING:
    from diffuse.runtime.mpi.derived import Counts
    from diffuse.runtime.mpi.traffic import Row

MOST_RANKS, MOST_SIMULATED = 4096, 256
LONGEST = 60
"""The most characters of a row's operations."""


class CountOptions(NamedTuple):
    """The options of `diffuse run` that count."""

    wanted: bool
    predicted: int | None
    simulated: int | None

    @property
    def virtual(self) -> int | None:
        """The number of ranks that this process plays."""
        return self.simulated if self.predicted is None else self.predicted


def options(function: Any) -> Any:
    """The options of `CountOptions` on a command."""
    for option in (
        click.option("--predict", type=click.IntRange(1, MOST_RANKS), metavar="N",
                     help="With --traffic: run one process, and count what N ranks would send."),
        click.option("--simulate", type=click.IntRange(1, MOST_SIMULATED), metavar="N",
                     help="Run N ranks in this process, with memory and messages of their own, and count."),
        click.option("--traffic", is_flag=True,
                     help="Print at the end, under MPI, what ranks sent for which operations and lines."),
    ):
        function = option(function)
    return function


def taken(values: dict[str, Any]) -> CountOptions:
    """Remove the options of `CountOptions` from a command's values, and return them."""
    predicted, simulated = values.pop("predict"), values.pop("simulate")
    return CountOptions(values.pop("traffic") or (predicted or simulated) is not None, predicted, simulated)


def apply(asked: CountOptions, launch: JobOptions) -> None:
    """Have the runtime count, in this process or in the ranks that it starts."""
    if not asked.wanted:
        return
    if settings.source("runtime") == "default":
        config.runtime = "mpi"
    if config.runtime != "mpi":
        raise click.UsageError(f"--traffic counts under the runtime mpi, not {config.runtime}: add "
                               "--runtime mpi")
    others = [*["--simulate"] * (asked.simulated is not None), *launch.named]
    if asked.predicted is not None and others:
        raise click.UsageError(f"--predict runs one process, without {others[0]}")
    if asked.simulated is not None and launch.named:
        raise click.UsageError(f"--simulate runs one process, without {launch.named[0]}")
    if not launch.outer:
        from diffuse.runtime.mpi import traffic

        traffic.count(asked.virtual, asked.simulated is not None)


def show(as_json: bool) -> None:
    """Print what was counted.  Every rank has to call it; the first one prints."""
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine

    runtime: Any = engine.current().runtime
    assert traffic.kept is not None
    rows = traffic.kept.summed(runtime.over_ranks)
    each = runtime.counted()
    if runtime.rank == 0:
        sys.stdout.flush()
        print(described(rows, each, as_json, runtime.ranks), file=sys.stderr)


def described(rows: Mapping[str, Row], each: Sequence[Counts], as_json: bool, ranks: int) -> str:
    """The rows as text, those with most bytes first, or as JSON; and what each rank counted, if anybody did:
    nobody where ranks are predicted."""
    order = sorted(rows.items(), key=lambda item: (-item[1].bytes, -item[1].messages, item[0]))
    if as_json:
        return json.dumps({"ranks": ranks, "predicted": not each,
                           "rows": [{"title": title, **asdict(row)} for title, row in order],
                           "each": [one._asdict() for one in each]}, indent=2)
    lines: list[tuple[str, ...]] = [("line", "operation", "times", "bytes", "messages", "least")]
    for title, row in order:
        if row.bytes:
            operation, _, where = title.rpartition(" [")
            lines.append((_nearer(where.rstrip("]")), _shortened(operation), *_numbers(row)))
    still = [row for row in rows.values() if not row.bytes]
    least = sum(row.least or 0 for row in rows.values())
    lines.append(("all", "", *_numbers(None, rows.values()), f"{least:,}"))
    said = "sent" if each else "sent, predicted"
    return "\n".join([f"traffic: bytes that {ranks} ranks {said}, and the least that the division of each "
                      "launch's points requires (-: unknown)", *_aligned(lines),
                      f"{sum(row.times for row in still):,} launches and reads sent nothing",
                      *([f"a rank: {_range(each)}"] if each else [])])


def _range(each: Sequence[Counts]) -> str:
    """The least and the most that a rank counted."""
    names = {"sent": "bytes sent", "messages": "messages", "received": "bytes received",
             "peak": "bytes of memory at most"}
    found = []
    for name, said in names.items():
        low, high = [end([getattr(one, name) for one in each]) for end in (min, max)]
        found.append(f"{low:,} {said}" if low == high else f"{low:,} to {high:,} {said}")
    return ", ".join(found)


def _numbers(row: Row | None, rows: Any = ()) -> tuple[str, ...]:
    if row is None:
        return tuple([f"{sum(getattr(each, name) for each in rows):,}"
                      for name in ("times", "bytes", "messages")])
    least = "-" if row.least is None else f"{row.least:,}"
    return f"{row.times:,}", f"{row.bytes:,}", f"{row.messages:,}", least


def _nearer(where: str) -> str:
    """Lines of the program with file names relative to the current folder, where that is shorter."""
    names = [min(os.path.relpath(name), name, key=len) for name in where.split(" to ")]
    return " to ".join(names)


def _shortened(operations: str) -> str:
    """The operations of a fused task; if there are many, those in the middle are omitted."""
    if len(operations) <= LONGEST:
        return operations
    half = (LONGEST - 5) // 2
    return f"{operations[:half].rpartition(' ')[0]} ... {operations[-half:].partition(' ')[2]}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Align rows as text, the first two columns to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join([cell.ljust(width) if k < 2 else cell.rjust(width)
                       for k, (cell, width) in enumerate(zip(line, widths, strict=True))]).rstrip()
            for line in lines]
