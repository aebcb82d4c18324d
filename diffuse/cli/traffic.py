"""`diffuse run --traffic`: what ranks send, for which operations and lines, beside the least possible."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from diffuse import settings
from diffuse.cli.launch import JobOptions
from diffuse.settings import config

if TYPE_CHECKING:
    from diffuse.runtime.mpi.traffic import Row

MOST_RANKS = 4096
LONGEST = 60
"""Characters of a row's operations."""


class CountOptions(NamedTuple):
    """The options of `diffuse run` that count."""

    wanted: bool
    predicted: int | None


def options(function: Any) -> Any:
    """The options of `CountOptions` on a command."""
    for option in (
        click.option("--predict", type=click.IntRange(1, MOST_RANKS), metavar="N",
                     help="With --traffic: run one process, and count what N ranks would send."),
        click.option("--traffic", is_flag=True,
                     help="Print at the end, under MPI, what ranks sent for which operations and lines."),
    ):
        function = option(function)
    return function


def taken(values: dict[str, Any]) -> CountOptions:
    """Take the options of `CountOptions` out of a command's values."""
    predicted = values.pop("predict")
    return CountOptions(values.pop("traffic") or predicted is not None, predicted)


def apply(asked: CountOptions, launch: JobOptions) -> None:
    """Have the runtime count, in this process or in the ranks that it starts."""
    if not asked.wanted:
        return
    if settings.source("runtime") == "default":
        config.runtime = "mpi"
    if config.runtime != "mpi":
        raise click.UsageError(f"--traffic counts under the runtime mpi, not {config.runtime}: add "
                               "--runtime mpi")
    if asked.predicted is not None and launch.named:
        raise click.UsageError(f"--predict runs one process, without {launch.named[0]}")
    if not launch.outer:
        from diffuse.runtime.mpi import traffic

        traffic.count(asked.predicted)


def show(as_json: bool) -> None:
    """Print what was counted.  Every rank has to call it; the first one prints."""
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine

    runtime: Any = engine.current().runtime
    assert traffic.kept is not None
    rows = traffic.kept.summed(runtime.over_ranks)
    if runtime.rank == 0:
        sys.stdout.flush()
        print(described(rows, as_json, runtime.ranks, traffic.virtual is not None), file=sys.stderr)


def described(rows: Mapping[str, Row], as_json: bool, ranks: int, predicted: bool) -> str:
    """The rows as text, those with most bytes first, or as JSON."""
    order = sorted(rows.items(), key=lambda item: (-item[1].bytes, -item[1].messages, item[0]))
    if as_json:
        return json.dumps({"ranks": ranks, "predicted": predicted,
                           "rows": [{"title": title, **asdict(row)} for title, row in order]}, indent=2)
    lines: list[tuple[str, ...]] = [("line", "operation", "times", "bytes", "messages", "least")]
    for title, row in order:
        if row.bytes:
            operation, _, where = title.rpartition(" [")
            lines.append((_nearer(where.rstrip("]")), _shortened(operation), *_numbers(row)))
    still = [row for row in rows.values() if not row.bytes]
    least = sum(row.least or 0 for row in rows.values())
    lines.append(("all", "", *_numbers(None, rows.values()), f"{least:,}"))
    said = "sent, predicted" if predicted else "sent"
    return "\n".join([f"traffic: bytes that {ranks} ranks {said}, and the least that the division of each "
                      "launch's points asks for (-: not known)", *_aligned(lines),
                      f"{sum(row.times for row in still):,} launches and reads sent nothing"])


def _numbers(row: Row | None, rows: Any = ()) -> tuple[str, ...]:
    if row is None:
        return tuple([f"{sum(getattr(each, name) for each in rows):,}"
                      for name in ("times", "bytes", "messages")])
    least = "-" if row.least is None else f"{row.least:,}"
    return f"{row.times:,}", f"{row.bytes:,}", f"{row.messages:,}", least


def _nearer(where: str) -> str:
    """Lines of the program with the names of files as seen from here, where that is shorter."""
    names = [min(os.path.relpath(name), name, key=len) for name in where.split(" to ")]
    return " to ".join(names)


def _shortened(operations: str) -> str:
    """The operations of a fused task, those in the middle left out where they are many."""
    if len(operations) <= LONGEST:
        return operations
    half = (LONGEST - 5) // 2
    return f"{operations[:half].rpartition(' ')[0]} ... {operations[-half:].partition(' ')[2]}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Rows as text, the first two columns to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join([cell.ljust(width) if k < 2 else cell.rjust(width)
                       for k, (cell, width) in enumerate(zip(line, widths, strict=True))]).rstrip()
            for line in lines]
