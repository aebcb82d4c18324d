"""Discovery of operators by running them on parts (papers/004): the catalogue of tests/operators.py, and the
operators of the paper's networks, whose descriptions are derived as well.

`bench/partition.py` shows the tables.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report
import table

from diffuse.spec import Discovery, discover

sys.path.append(str(Path(__file__).resolve().parent.parent))
from tests.network_operators import NETWORKS, missed  # noqa: E402
from tests.operators import CATALOGUE  # noqa: E402

Measures = dict[str, Any]
LONGEST = 0.06
"""Seconds that the discovery of an operator may take."""
OPERATORS = 30
"""Operators of the paper's networks that shall be discovered."""
FEW = 10
"""With fewer operators not all of them are asked for."""


def _discovered(function: Any, operands: Sequence[Any]) -> tuple[Discovery, Measures]:
    """What is found, and in which processor time and how many runs."""
    begin = time.process_time()
    found = discover(function, *operands)
    return found, {"seconds": time.process_time() - begin, "runs": found.runs,
                   "loops": len(found.spec.loops), "rules": " | ".join(map(str, found.rules))}


def catalogue(first: int | None) -> list[Measures]:
    """The operators of the catalogue, or the first ones of them."""
    rows = []
    for name, ((function, operands), expected) in list(CATALOGUE.items())[:first]:
        _, row = _discovered(function, operands)
        rows.append({"name": name, **row, "as expected": row["rules"] == expected})
    return rows


def of_networks(first: int | None) -> dict[str, list[Measures]]:
    """The operators of each network, or the first ones of them, and which loops of their derived descriptions
    are not discovered."""
    found: dict[str, list[Measures]] = {}
    for network, some in NETWORKS.items():
        rows = found[network] = []
        for name, operator in list(some.items())[:first]:
            result, row = _discovered(operator.function, operator.operands)
            rows.append({"name": name, **row, "missed": "".join(sorted(missed(operator, result.spec))),
                         "as expected": row["rules"] == operator.rules})
    return found


def goals(rows: list[Measures], found: dict[str, list[Measures]]) -> list[Measures]:
    every = [*rows, *[row for some in found.values() for row in some]]
    count = len(every) - len(rows)
    more = [] if count < FEW else [
        report.goal("discovery: operators of the networks of papers/004", OPERATORS, count)]
    return [*more,
            report.goal("discovery: seconds of the longest", LONGEST, max(row["seconds"] for row in every),
                        at_least=False),
            report.goal("discovery: operators not as expected", 0,
                        sum(not row["as expected"] for row in every), at_least=False)]


def tables(rows: list[Measures], found: dict[str, list[Measures]]) -> list[str]:
    lines = [table.render(
        "discovery by running on parts (papers/004)", ("operator", "time", "runs", "loops", "as expected"),
        [(row["name"], table.seconds(row["seconds"]), str(row["runs"]), str(row["loops"]),
          table.reached(row["as expected"])) for row in rows])]
    for network, some in found.items():
        lines.append(table.render(
            f"discovery of the operators of {network} (papers/004): strategies, and the loops of the derived "
            "description", ("operator", "time", "runs", "derived", "strategies"),
            [(row["name"], table.seconds(row["seconds"]), str(row["runs"]),
              f"also {', '.join(row['missed'])}" if row["missed"] else "the same",
              row["rules"]) for row in some]))
    return lines
