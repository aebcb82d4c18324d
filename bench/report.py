"""Renders what a case measured as text: the table of contenders, and each goal and whether it was reached."""

from __future__ import annotations

from typing import Any

import table
from case import Case

Measures = dict[str, Any]


def present(result: Measures, name: str) -> Measures | None:
    found = result["contenders"].get(name)
    return found if found and "absent" not in found and found.get("samples") else None


def speed(result: Measures, peer: str, contender: str = "diffuse") -> float | None:
    """How many times as fast as `peer` the contender is."""
    ours, theirs = present(result, contender), present(result, peer)
    return theirs["median"] / ours["median"] if ours and theirs else None


def goal(what: str, asked: float, measured: float | None, at_least: bool = True) -> Measures:
    met = measured is not None and (measured >= asked if at_least else measured <= asked)
    return {"what": what, "asked": asked, "measured": measured, "reached": met,
            "sense": "at least" if at_least else "at most"}


def goals(case: Case, result: Measures) -> list[Measures]:
    """The goals of this case, and those for all applications, with what was measured."""
    rows = [goal(f"times as fast as {peer}", ratio, speed(result, peer)) for peer, ratio in case.goals]
    ours, numpy = present(result, "diffuse"), present(result, "numpy")
    gained = ours["gained"] if ours else {}
    if case.most_tasks is not None:
        rows.append(goal("tasks an iteration", case.most_tasks, gained.get("launched"), at_least=False))
    both = ours is not None and numpy is not None
    first = ours["first"] / numpy["first"] if ours and numpy else None
    rows.append(goal("first iteration / NumPy's", 1.5, first, at_least=False))
    peak = ours["peak"] / numpy["peak"] if both and ours and numpy else None
    rows.append(goal("peak memory / NumPy's", 1.0, peak, at_least=False))
    rows.append(goal("kernels compiled by a second process", 0,
                     result["second process"].get("compilations"), at_least=False))
    return rows


def agreement(found: Measures) -> str:
    if "same bits" not in found:
        return "-"
    return "same bits" if found["same bits"] else f"{found['largest']:.1e}"


def contender_row(name: str, found: Measures, result: Measures) -> list[str]:
    low, high = found["quartiles"]
    bandwidth = result["bytes"] / found["median"]
    gained = found["gained"]
    return [name, table.seconds(found["median"]), f"{table.seconds(low)} .. {table.seconds(high)}",
            *(table.ratio(speed(result, peer, name)) for peer in ("numpy", "jax", "numba")),
            f"{100 * bandwidth / result['copy bandwidth']:.0f} %", table.seconds(found["first"]),
            table.megabytes(found["peak"]), agreement(found),
            table.count(gained.get("recorded")), table.count(gained.get("launched"))]


HEADER = ("contender", "iteration", "quartiles", "x numpy", "x jax", "x numba", "of copy", "first", "peak",
          "off NumPy", "recorded", "tasks")


def text(result: Measures) -> str:
    rows = [contender_row(name, found, result) for name, found in result["contenders"].items()
            if present(result, name)]
    machine = result["machine"]
    title = f"{result['bench']}, size {result['size']:,}, {result['dtype']}, {machine['threads']} threads"
    lines = [table.render(title, HEADER, rows)]
    for name, found in result["contenders"].items():
        if "absent" in found:
            lines.append(f"{name}: {found['absent']}")
    again = result["second process"]
    if "first" in again:
        lines.append(f"second process: first iteration {table.seconds(again['first'])}, "
                     f"{again['compilations']} kernels compiled")
    lines.append(f"an iteration moves at least {result['bytes'] / 1e6:,.1f} MB; copying runs at "
                 f"{result['copy bandwidth'] / 1e9:.1f} GB/s; load {machine['load']:.1f} on "
                 f"{machine['cpus']} cpus")
    lines += result["notes"]
    return "\n".join(lines) + "\n" + goal_table(result["goals"])


def goal_table(rows: list[Measures]) -> str:
    cells = [[row["what"], f"{row['sense']} {row['asked']:.3g}",
              "-" if row["measured"] is None else f"{row['measured']:.3g}", table.reached(row["reached"])]
             for row in rows]
    return table.render("goals", ("what", "asked", "measured", "reached"), cells)
