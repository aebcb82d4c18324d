"""Redistribution by synthesis: how long it takes to find, what memory it needs, and what it costs.

    python bench/redistribution.py [--problems 1000] [--quick] [--json FILE]

The problems are those of section 8 of "Memory-efficient array redistribution through portable collective
communication" (Rink et al., 2021): random types over a mesh, every axis replicated or cutting one dimension
of an array of up to six, arrays of float32 of 64 to 800 MB.  The paper measured its sequences against the
partitioner of XLA on eight TPUs; here nothing runs.  Costs are counted, and times predicted from them by
`diffuse.movement.Machine`, against gathering the whole array and slicing it: what XLA falls back to, and the
choice that exceeds the memory bound.  Synthesis is measured in processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import table

from diffuse.movement import Machine, Route, direct, gathered, redistribute, synthesised
from diffuse.movement.boxes import Layout, placed
from diffuse.movement.definition.mesh import DistributedType, Mesh, distributed, offsets
from diffuse.movement.search import cheapest
from diffuse.movement.weak import WeakSpace

sys.path.append(str(Path(__file__).resolve().parent.parent))
from tests.redistributions import random_types  # noqa: E402

Measures = dict[str, Any]
ITEM = 4
SMALLEST, LARGEST = 64e6 / ITEM, 800e6 / ITEM
"""Elements of the paper's arrays."""
ASKED = 0.05
"""Seconds that a synthesis may take on meshes of up to five axes and arrays of four dimensions."""
PAPER = {"geometric mean": 1.22, "maximum": 5.7, "minimum": 1 / 1.6}
"""How many times as fast as XLA's the paper's sequences were."""

MESHES = {"3 axes of 2, up to 6 dimensions (the paper's)": ((2,), 3, 6),
          "3 axes of 2 to 4, up to 6 dimensions": ((2, 3, 4), 3, 6),
          "5 axes of 2, 4 dimensions": ((2,), 5, 4),
          "5 axes of 2 to 4, 4 dimensions": ((2, 3, 4), 5, 4),
          "5 axes of 2 to 8, 4 dimensions": ((2, 3, 4, 5, 6, 7, 8), 5, 4)}
"""For each kind of problem: the sizes that an axis of the mesh may have, the number of axes, and the largest
number of dimensions of the array."""
RANKS = 1024
"""Ranks up to which sequences are lowered here."""

FIGURE13 = [
    ("P1", "[360, 184{c}368, 320]", "[90{c,a}360, 368, 160{b}320]", 1.6),
    ("P2", "[80, 40{c}80, 72, 64]", "[40{b}80, 80, 36{c}72, 64]", 1.6),
    ("P3", "[296, 360, 156{c}312]", "[74{b,c}296, 180{a}360, 312]", 1.5),
    ("P4", "[8{c}16, 16, 16, 8{a}16, 16, 8{b}16]", "[16, 16, 16, 16, 16, 8{a}16]", 1.5),
]
"""The problems on which the paper's sequences were slowest beside XLA, and how many times as slow."""


@dataclass(frozen=True)
class Problem:
    """Two types of one array over a mesh."""

    mesh: Mesh
    have: DistributedType
    want: DistributedType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.have.shape

    def layouts(self) -> tuple[Layout, Layout]:
        """What the ranks hold under both types."""
        have, want = (placed(offsets(each, self.mesh), each.tile) for each in (self.have, self.want))
        return have, want

    def space(self) -> tuple[WeakSpace, tuple[int, ...], tuple[int, ...]]:
        """The problem between weak types."""
        have, want = (tuple(d.size // d.tile for d in each.dimensions) for each in (self.have, self.want))
        return WeakSpace(self.shape, self.mesh.count), have, want


def problem(rng: random.Random, sizes: Sequence[int], axes: int, dimensions: int) -> Problem:
    """A random problem of the paper's kind on an array of so many dimensions."""
    mesh = Mesh(tuple((chr(ord("a") + n), rng.choice(sizes)) for n in range(axes)))
    while True:
        side = math.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST)) / dimensions)
        have, want = random_types(
            rng, mesh, dimensions,
            lambda step: step * max(1, round(side * rng.uniform(0.5, 1.5) / step)))  # noqa: B023
        if SMALLEST <= math.prod(have.shape) <= LARGEST:
            return Problem(mesh, have, want)


def processor(call: Callable[[], Any]) -> float:
    """Processor time of a call: the least of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def synthesis(name: str, problems: int) -> Measures:
    """How long problems of one kind take: the search alone, and with the plans of all ranks."""
    sizes, axes, dimensions = MESHES[name]
    rng = random.Random(name)
    searched, whole, ranks, proved = [], [], 0, 0
    for number in range(problems):
        some = problem(rng, sizes, axes, dimensions if axes == 5 else rng.randint(1, dimensions))
        space, have, want = some.space()
        searched.append(processor(lambda: cheapest(space, have, want)))  # noqa: B023
        proved += cheapest(space, have, want).optimal
        if space.devices <= RANKS and number < problems // 4:
            before, after = some.layouts()
            whole.append(processor(lambda: synthesised(some.shape, ITEM, before, after)))  # noqa: B023
            ranks = max(ranks, space.devices)
    return {"searched": searched, "whole": whole, "ranks": ranks, "optimal": proved, "problems": problems}


def cost(route: Route) -> int:
    """The cost of figure 11 of the paper, in elements; a permutation counts the tiles that move."""
    return sum(step.most for step in route.steps if not step.name.startswith("dynslice"))


def costs(name: str, problems: int) -> Measures:
    """What the sequences and the other choices cost on problems of one kind."""
    sizes, axes, dimensions = MESHES[name]
    rng, machine = random.Random(f"costs {name}"), Machine()
    rows = []
    for _ in range(problems):
        some = problem(rng, sizes, axes, rng.randint(1, dimensions))
        have, want = some.layouts()
        ours, whole, boxes = (make(some.shape, ITEM, have, want) for make in (synthesised, gathered, direct))
        chosen = redistribute(some.shape, ITEM, have, want, machine)
        assert ours and whole and boxes
        bound = ITEM * max(some.have.localsize, some.want.localsize)
        rows.append({
            "cost": (cost(whole), cost(ours)), "bytes": (whole.received, ours.received),
            "time": (whole.seconds(machine), ours.seconds(machine)),
            "direct": (whole.seconds(machine), boxes.seconds(machine)),
            "chosen": (whole.seconds(machine), chosen.seconds(machine)),
            "least": (ours.received, boxes.received),
            "height": ours.height / bound, "whole": whole.height / bound,
            "permuted": any(step.name.startswith("allpermute") for step in ours.steps)})
    return {"rows": rows}


def ratios(rows: list[Measures], key: str) -> tuple[list[float], int]:
    """How many times as much the one choice costs as the other, where both cost something; and how often the
    other one costs nothing while the first one does."""
    pairs = [row[key] for row in rows]
    return [a / b for a, b in pairs if a and b], sum(bool(a and not b) for a, b in pairs)


def mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def synthesis_table(found: dict[str, Measures]) -> str:
    rows = []
    for name, measures in found.items():
        for what, times in (("search", measures["searched"]),
                            (f"for up to {measures['ranks']} ranks", measures["whole"])):
            if times:
                tail = sorted(times)[max(0, math.ceil(0.99 * len(times)) - 1)]
                figures = map(table.seconds, (statistics.median(times), tail, max(times)))
                rows.append((f"{name}: {what}", str(len(times)), *figures, table.reached(max(times) < ASKED)))
        rows.append((f"{name}: proved optimal", f"{measures['optimal']} of {measures['problems']}",
                     "", "", "", table.reached(measures["optimal"] == measures["problems"])))
    return table.render(f"synthesis, processor time; asked: below {table.seconds(ASKED)} with up to 5 axes "
                        "and 4 dimensions; the paper: each below 1 s",
                        ("mesh and array", "problems", "median", "99 %", "maximum", "reached"), rows)


WHAT = {"cost": "synthesised, the paper's cost of sequences",
        "bytes": "synthesised, bytes that a rank receives",
        "time": "synthesised, predicted time", "direct": "direct exchange, predicted time",
        "chosen": "the chosen one, predicted time"}


def costs_table(name: str, rows: list[Measures]) -> str:
    lines = []
    for key, what in WHAT.items():
        values, free = ratios(rows, key)
        lines.append((what, table.ratio(mean(values)), table.ratio(max(values)), table.ratio(min(values)),
                      str(len(values)), str(free)))
    lines.append(("the paper, measured against XLA on 8 TPUs", table.ratio(PAPER["geometric mean"]),
                  table.ratio(PAPER["maximum"]), table.ratio(PAPER["minimum"]), "1000", ""))
    return table.render(f"gathering and slicing against the other choices: {name}",
                        ("how many times as much it costs", "geometric mean", "maximum", "minimum",
                         "problems", "others cost nothing"), lines)


def memory_table(found: dict[str, list[Measures]]) -> str:
    lines = []
    for name, rows in found.items():
        for key, what in (("height", "synthesised"), ("whole", "gather and slice")):
            values = [row[key] for row in rows]
            lines.append((f"{name}: {what}", table.ratio(mean(values)), table.ratio(max(values)),
                          f"{sum(value > 1 for value in values)} of {len(values)}"))
    return table.render("the most that a rank holds, over the larger of both ends (the paper's bound)",
                        ("mesh and array", "geometric mean", "maximum", "above the bound"), lines)


def permutations_table(found: dict[str, list[Measures]]) -> str:
    lines = []
    for name, rows in found.items():
        values, _ = ratios(rows, "least")
        moving = [row for row in rows if row["bytes"][1]]
        lines.append((name, table.ratio(mean(values)), table.ratio(max(values)),
                      f"{sum(row['permuted'] for row in moving)} of {len(moving)}"))
    return table.render("bytes received in synthesised sequences over the least, which the direct exchange "
                        "receives", ("mesh and array", "geometric mean", "maximum", "with a permutation"),
                        lines)


def figure13() -> str:
    mesh, machine, lines = Mesh((("a", 2), ("b", 2), ("c", 2))), Machine(), []
    for name, have, want, slower in FIGURE13:
        some = Problem(mesh, distributed(have), distributed(want))
        before, after = some.layouts()
        ours, whole, boxes = (make(some.shape, ITEM, before, after)
                              for make in (synthesised, gathered, direct))
        assert ours and whole and boxes
        kinds = ", ".join(step.name.split(" by")[0].split(" of")[0] for step in ours.steps)
        lines.append((f"{name}: {kinds}", table.ratio(slower), *(
            table.ratio(route.seconds(machine) / whole.seconds(machine)) for route in (ours, boxes))))
    return table.render("figure 13: time over that of the other choice (the paper: XLA's, measured; here: of "
                        "gathering and slicing, predicted)",
                        ("problem", "the paper", "synthesised", "direct"), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="redistribution by synthesis")
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="20 problems of each kind")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    problems = 20 if asked.quick else asked.problems
    timed = {name: synthesis(name, problems) for name in MESHES}
    counted = {name: costs(name, problems)["rows"] for name in list(MESHES)[:2]}
    print(synthesis_table(timed))
    print(memory_table(counted))
    for name, rows in counted.items():
        print(costs_table(name, rows))
    print(permutations_table(counted))
    print(figure13())
    if asked.json:
        asked.json.write_text(json.dumps({"synthesis": timed, "costs": counted}))


if __name__ == "__main__":
    main()
