"""What one operation costs apart from its arithmetic: by array size, and recording and replaying apart."""

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
SIZES = (10, 1000, 100_000)
CHAIN = 50      # operations of one chain: fewer than the smallest window holds
LIMIT = 10e-6


def chain(x: Any) -> Any:
    """Fifty operations on one array and scalars."""
    for _ in range(CHAIN // 5):
        x = (x * 0.5 + 1.5) * 0.25 - x * 0.125
    return x


def median(run: Callable[[], float], repeats: int) -> float:
    for _ in range(max(3, repeats // 5)):
        run()
    return statistics.median(run() for _ in range(repeats))


def per_operation(array: Any, wait: Callable[[], None], repeats: int) -> float:
    """Wall-clock seconds of one operation of the chain, from the first call to the last result."""

    def once() -> float:
        start = time.perf_counter()
        result = chain(array)
        wait()
        del result
        return (time.perf_counter() - start) / CHAIN

    return median(once, repeats)


def numpy_costs(options: Measures) -> Measures:
    import numpy as np

    return {"per operation": {str(n): per_operation(np.ones(n), lambda: None, options["repeats"])
                              for n in options["sizes"]}}


def jax_costs(options: Measures) -> Measures:
    """The chain as one compiled call, as JAX is meant to be used."""
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(chain)

    def cost(n: int) -> float:
        array = jnp.ones(n)

        def once() -> float:
            start = time.perf_counter()
            compiled(array).block_until_ready()
            return (time.perf_counter() - start) / CHAIN

        return median(once, options["repeats"])

    return {"per operation": {str(n): cost(n) for n in options["sizes"]}}


def diffuse_costs(options: Measures) -> Measures:
    import diffuse.numpy as np
    from diffuse.stream import engine

    wait = engine.fence
    costs = {str(n): per_operation(np.ones(n), wait, options["repeats"]) for n in options["sizes"]}
    return {"per operation": costs, **window_costs(np, engine, options)}


def window_costs(np: Any, engine: Any, options: Measures) -> Measures:
    """Processor seconds of the main thread for one operation: while it is recorded, while it is flushed."""
    array = np.ones(options["recorded"])
    engine.fence()
    recording, replaying = [], []
    for _ in range(options["repeats"] + 10):
        start = time.thread_time()
        result = chain(array)
        recorded = time.thread_time()
        engine.flush()
        replayed = time.thread_time()
        engine.fence()
        del result
        recording.append((recorded - start) / CHAIN)
        replaying.append((replayed - recorded) / CHAIN)
    return {"recording": statistics.median(recording[10:]), "replaying": statistics.median(replaying[10:])}


CONTENDERS = {"numpy": numpy_costs, "jax": jax_costs, "diffuse": diffuse_costs}


def text(result: Measures) -> str:
    found = {name: c for name, c in result["contenders"].items() if "absent" not in c}
    rows = [[name, *(table.seconds(c["per operation"][str(n)]) for n in result["sizes"])]
            for name, c in found.items()]
    header = ("cost of one operation", *(f"{n:,} elements" for n in result["sizes"]))
    lines = [table.render(f"overheads, a chain of {CHAIN} operations", header, rows)]
    lines += [f"{name}: {c['absent']}" for name, c in result["contenders"].items() if "absent" in c]
    return "\n".join(lines) + "\n" + report.goal_table(result["goals"])


def goals(result: Measures) -> list[Measures]:
    ours = result["contenders"]["diffuse"]
    return [report.goal(f"microseconds {what} one operation, main thread", LIMIT * 1e6,
                        ours[what] * 1e6 if what in ours else None, at_least=False)
            for what in ("recording", "replaying")]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="cost of one operation")
    harness.options(parser)
    args = parser.parse_args(argv)
    machine.bind(args.threads)
    options = {"sizes": SIZES, "repeats": 10 if args.quick else 200, "recorded": 20_000}
    with child.scratch() as cache:
        environment = machine.environment(args.threads, cache)
        found = {name: child.ask(__file__, name, options, environment) for name in CONTENDERS}
    result: Measures = {"bench": "overheads", "sizes": SIZES, "machine": machine.description(args.threads),
                        "contenders": found}
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "overheads", args.json)


if __name__ == "__main__" and not child.answer(CONTENDERS):
    main()
