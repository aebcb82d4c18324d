"""What compiling costs: the first call less a later one, in processor seconds, for 10 to 400 operations.

"for a GPU" is the runtime cuda over a driver that links kernels to machine code for an H100, by NVIDIA's
linker and without a GPU, and runs none.
"""

from __future__ import annotations

import argparse
import os
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
LIMITS = {10: 0.05, 70: 0.08, 400: 0.3}
LIMITS_GPU = {10: 0.08, 70: 0.15, 400: 0.6}
GPU = "for a GPU"
SIZE = 50_000


def chain(operations: int) -> Callable[[Any], Any]:
    """A function of as many elementwise operations, a line each: a program without a loop."""
    kinds = ("y * {}", "y + x", "y - {}", "y * x", "y / {}")
    lines = [f"    y = {kinds[i % 5].format(1.0 + i / 1024)}" for i in range(operations)]
    names: dict[str, Any] = {}
    exec("\n".join(["def program(x):", "    y = x", *lines, "    return y"]), names)
    program: Callable[[Any], Any] = names["program"]
    return program


def cost(run: Callable[[], None], seconds: Callable[[], float] = time.process_time) -> Measures:
    """First call and median of later ones, in processor seconds of all threads and by the clock."""
    cpu, wall = [], []
    for _ in range(6):
        start = seconds(), time.perf_counter()
        run()
        cpu.append(seconds() - start[0])
        wall.append(time.perf_counter() - start[1])
    return {"cpu": cpu[0] - statistics.median(cpu[1:]), "wall": wall[0] - statistics.median(wall[1:])}


def jax_costs(options: Measures) -> Measures:
    import jax
    import jax.numpy as jnp

    array = jnp.ones(SIZE)

    def once(operations: int) -> Measures:
        compiled = jax.jit(chain(operations))
        return cost(lambda: compiled(array).block_until_ready())

    once(7)     # whatever a first compilation loads
    return {"costs": {str(n): once(n) for n in options["operations"]}}


def diffuse_costs(options: Measures) -> Measures:
    import diffuse.numpy as np
    from diffuse.service.client import client
    from diffuse.stream import engine

    def seconds() -> float:
        """Of this process and of the one that compiles for it, in ticks of 10 ms there."""
        if not client.process:
            return time.process_time()
        with open(f"/proc/{client.process}/stat") as stat:
            words = stat.read().rpartition(")")[2].split()
        return time.process_time() + (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    before = machine.kernels_kept(os.environ["DIFFUSE_CACHE_DIR"])
    array = np.ones(SIZE)

    def once(operations: int) -> Measures:
        program = chain(operations)

        def run() -> None:
            result = program(array)
            engine.fence()
            del result

        return cost(run, seconds)

    once(7)
    costs = {str(n): once(n) for n in options["operations"]}
    return {"costs": costs, "compilations": machine.kernels_kept(os.environ["DIFFUSE_CACHE_DIR"]) - before}


def gpu_costs(options: Measures) -> Measures:
    from diffuse import settings
    from diffuse.runtime.device import driver
    from tests import assembler
    from tests.interpreted_gpu import Interpreted

    if assembler.path() is None:
        return {"absent": "nvidia-nvjitlink, which links kernels, is not installed"}

    class Linked(Interpreted):
        def architecture(self) -> str:
            return "sm_90"

        def link(self, text: bytes) -> bytes:
            return assembler.assemble(text.decode(), self.architecture()).cubin

        def functions(self, image: bytes, names: tuple[str, ...]) -> dict[str, int]:
            return dict.fromkeys(names, 0)

        def submit(self, plan: Any, block: bytes) -> None:
            pass

    driver.Driver = Linked  # type: ignore[misc, assignment]
    with settings.using(runtime="cuda"):
        return diffuse_costs(options)


CONTENDERS = {"jax": jax_costs, "diffuse": diffuse_costs, "diffuse, second process": diffuse_costs,
              f"diffuse, {GPU}": gpu_costs, f"diffuse, {GPU}, second process": gpu_costs}


def goals(result: Measures) -> list[Measures]:
    rows, found = [], result["contenders"]
    for name, limits, where in (("diffuse", LIMITS, ""), (f"diffuse, {GPU}", LIMITS_GPU, f", {GPU}")):
        if where and "absent" in found[name]:
            continue
        costs = found[name].get("costs", {})
        rows += [report.goal(f"processor seconds, {n} operations{where}", limit,
                             costs.get(str(n), {}).get("cpu"), at_least=False) for n, limit in limits.items()]
        rows.append(report.goal(f"kernels compiled by a second process{where}", 0,
                                found[f"{name}, second process"].get("compilations"), at_least=False))
    return rows


def text(result: Measures) -> str:
    found = {name: c for name, c in result["contenders"].items() if "absent" not in c}
    rows = [[name, *(table.seconds(c["costs"][str(n)]["cpu"]) for n in LIMITS),
             table.count(c.get("compilations"))] for name, c in found.items()]
    header = ("processor time to compile", *(f"{n} operations" for n in LIMITS), "kernels compiled")
    lines = [table.render("compilation, first call less later ones", header, rows)]
    lines += [f"{name}: {c['absent']}" for name, c in result["contenders"].items() if "absent" in c]
    return "\n".join(lines) + "\n" + report.goal_table(result["goals"])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="cost of compiling")
    harness.options(parser)
    args = parser.parse_args(argv)
    machine.bind(args.threads)
    options = {"operations": list(LIMITS)}
    with child.scratch() as cache:
        environment = {**machine.environment(args.threads, cache), "DIFFUSE_COMPILE": "wait",
                       "DIFFUSE_WINDOW_SIZE": "1024"}     # the whole program in one window, so in one kernel
        found = {name: child.ask(__file__, name, options, environment) for name in CONTENDERS}
    result: Measures = {"bench": "compile", "machine": machine.description(args.threads), "contenders": found}
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "compile", args.json)


if __name__ == "__main__" and not child.answer(CONTENDERS):
    main()
