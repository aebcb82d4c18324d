"""What an empty cache costs: a short program whose kernels compile while it runs, and with cached kernels.

Four functions of a few operations each, called many times on arrays of 1e5 elements; every call waits for its
result, as an interactive program does.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import child
import harness
import machine
import report
import table

Measures = dict[str, Any]
SIZE, CALLS = 100_000, 400
LIMIT = 0.3

FUNCTIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x * 2.0 + y,
    lambda x, y: (x - y) * (x + y) * 0.5,
    lambda x, y: x * x + y * y - x * y,
    lambda x, y: (x + 1.0) / (y * y + 2.0),
)


def seconds(x: Any, y: Any, wait: Callable[[], None], calls: int) -> float:
    """Wall-clock seconds of all calls of all functions, the first ones included."""
    start = time.perf_counter()
    for function in FUNCTIONS:
        for _ in range(calls):
            result = function(x, y)
            wait()
            del result
    return time.perf_counter() - start


def numpy_costs(options: Measures) -> Measures:
    import numpy as np

    x = np.linspace(0.0, 1.0, SIZE)
    return {"seconds": seconds(x, x[::-1].copy(), lambda: None, options["calls"])}


def diffuse_costs(options: Measures) -> Measures:
    import numpy

    import diffuse.numpy as np
    from diffuse.observe import trace
    from diffuse.stream import engine

    x = numpy.linspace(0.0, 1.0, SIZE)
    ours = np.array(x), np.array(x[::-1])
    engine.fence()
    found = seconds(*ours, engine.fence, options["calls"])
    from diffuse.kernels.build.compiler import compiler

    compiler.wait()
    return {"seconds": found, "compilations": trace.snapshot().get("compilations", 0)}


CONTENDERS = {"numpy": numpy_costs, "diffuse": diffuse_costs}


def measured(options: Measures, rounds: int, threads: int) -> Measures:
    """The median of several runs of each, one after another; each cold run has an empty cache."""
    runs: dict[str, list[Measures]] = {"numpy": [], "diffuse, cold": [], "diffuse, warm": []}
    for _ in range(rounds):
        with child.scratch() as cache:
            environment = machine.environment(threads, cache)
            for name in runs:
                runs[name].append(child.ask(__file__, name.partition(",")[0], options, environment))
    return {name: _median(found) for name, found in runs.items()}


def _median(found: list[Measures]) -> Measures:
    absent = [run for run in found if "absent" in run]
    if absent:
        return absent[0]
    return {**found[0], "seconds": statistics.median(run["seconds"] for run in found)}


def goals(result: Measures) -> list[Measures]:
    return [report.goal("seconds with an empty cache", LIMIT,
                        result["contenders"]["diffuse, cold"].get("seconds"), at_least=False)]


def text(result: Measures) -> str:
    found = {name: c for name, c in result["contenders"].items() if "absent" not in c}
    rows = [[name, table.seconds(c["seconds"]), table.count(c.get("compilations"))]
            for name, c in found.items()]
    title = f"an empty cache, {len(FUNCTIONS)} functions x {result['calls']} calls, {SIZE:,} elements"
    lines = [table.render(title, ("contender", "all calls", "kernels compiled"), rows)]
    lines += [f"{name}: {c['absent']}" for name, c in result["contenders"].items() if "absent" in c]
    return "\n".join(lines) + "\n" + report.goal_table(result["goals"])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="cost of an empty cache")
    harness.options(parser)
    args = parser.parse_args(argv)
    machine.bind(args.threads)
    options = {"calls": 20 if args.quick else CALLS}
    found = measured(options, 1 if args.quick else args.rounds, args.threads)
    result: Measures = {"bench": "cold", "calls": options["calls"],
                        "machine": machine.description(args.threads), "contenders": found}
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "cold", args.json)


if __name__ == "__main__" and not child.answer(CONTENDERS):
    main()
