"""Weak scaling of the paper's eight programs to 1,024 ranks over MPI: a prediction, beside its figure 14.

    python bench/weak.py [--quick] [--apps NAME ...] [--ranks N ...] [--latency S --bandwidth B] [--json F]

Nothing of this has run on so many ranks.  The model of an iteration on P ranks, with P times the work of one:

    T(P) = K + M(P) * latency + V(P) / bandwidth

K       measured: processor time of an iteration of the program on one rank with one thread.
M, V    analysed: messages and bytes of the busiest rank in each launch and read, by `--predict` with the
        plans, cuts and states that P ranks have.  The arrays of the analysis are smaller; V is scaled to the
        real size, for each operation by the power of the size that two sizes on 16 ranks show.
latency and bandwidth   measured here between two ranks, or given: a cluster has its own.

What the model leaves out: overlap of messages with kernels, contention of the network, waiting for slower
ranks, what the program's own thread does beside the kernels, memory shared by the ranks of a node, and that
kernels on P ranks are those of P ranks' plans (the tasks of both are printed).  Unfused: with a window of 1.
The file is also the program that `diffuse run` runs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Measures = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
RANKS, QUICK = (4, 16, 64, 256, 1024), (4,)
FITTED = 16
"""Ranks on which the power of a size is found."""
WARM_UP, COUNTED, TIMED = 8, 4, 11
"""Iterations before counting, in which windows grow, those that are counted, and those that are timed."""
PATIENCE = 900


class Weak(NamedTuple):
    """A program: the size of one rank, that in the analysis, and the power of it that the work grows with."""

    size: int
    analysed: int
    power: int
    paper: str
    """How many times as fast as unfused Diffuse is in the paper's figure 14, as its section 7.1 says."""


PROGRAMS = {
    "black_scholes": Weak(1_000_000, 8192, 1, "10.7x on 128 GPUs"),
    "jacobi": Weak(4096, 128, 2, "0.93x to 1.08x"),
    "cg": Weak(1000, 64, 2, "faster than fused by hand"),
    "cgs": Weak(1000, 64, 2, "1.49x"),
    "bicgstab": Weak(1000, 64, 2, "1.31x"),
    "gmg": Weak(1024, 64, 2, "1.2x"),
    "channel_flow": Weak(1000, 128, 2, "1.8x to 2.3x"),
    "shallow_water": Weak(1000, 128, 2, "1.61x"),
}


def grown(size: int, ranks: int, power: int) -> int:
    """The size at which each of these ranks has as much work as one rank has at `size`, where work grows
    with the size to the power `power`."""
    return int(round(size * ranks ** (1 / power)))


# -- in the processes that measure and analyse -------------------------------------------------------------


def prepared(name: str, size: int) -> tuple[Any, Any]:
    """A program and its state after the warm-up."""
    import case

    import diffuse

    app = case.application(name)
    state = app.setup(case.options(app, argparse.Namespace(size=size, dtype="float64", iterations=0)))
    for _ in range(WARM_UP):
        app.step(state)
    diffuse.fence()
    return app, state


def kernels(name: str, size: str, target: str) -> None:
    """Measure an iteration on one rank."""
    import diffuse
    from diffuse.observe import trace

    app, state = prepared(name, int(size))
    found = []
    launched = trace.snapshot()["launched"]
    for _ in range(TIMED):
        begin = time.process_time()
        app.step(state)
        diffuse.fence()
        found.append(time.process_time() - begin)
    tasks = (trace.snapshot()["launched"] - launched) / TIMED
    Path(target).write_text(json.dumps({"seconds": statistics.median(found), "tasks": tasks}))


def analysed(name: str, size: str, target: str) -> None:
    """Count what the busiest rank sends or receives in an iteration; `diffuse run --predict` runs this."""
    import diffuse
    from diffuse.movement.direct import busiest
    from diffuse.observe import trace
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine

    runtime: Any = engine.current().runtime
    runtime.measure = busiest
    app, state = prepared(name, int(size))
    assert traffic.kept is not None
    rows = traffic.kept.rows
    before = {title: (row.bytes, row.messages) for title, row in rows.items()}
    launched = trace.snapshot()["launched"]
    for _ in range(COUNTED):
        app.step(state)
    diffuse.fence()
    found: dict[str, list[float]] = {}
    for title, row in rows.items():
        old = before.get(title, (0, 0))
        if row.messages > old[1]:
            found[title] = [(row.bytes - old[0]) / COUNTED, (row.messages - old[1]) / COUNTED]
    tasks = (trace.snapshot()["launched"] - launched) / COUNTED
    Path(target).write_text(json.dumps({"rows": found, "tasks": tasks}))


def messages(target: str) -> None:
    """Measure small and large messages between two ranks; mpirun runs this."""
    import numpy

    from diffuse.runtime.mpi import prepare

    world = prepare.start().COMM_WORLD
    found = []
    for nbytes, times in ((8, 2000), (1 << 22, 20)):
        memory = numpy.zeros(nbytes, numpy.uint8)
        best = math.inf
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(times):
                for sender in (0, 1):
                    if world.rank == sender:
                        world.Send(memory, 1 - sender)
                    else:
                        world.Recv(memory, sender)
            best = min(best, (time.perf_counter() - begin) / (2 * times))
        found.append(best)
    if world.rank == 0:
        Path(target).write_text(json.dumps({"latency": found[0],
                                            "bandwidth": (1 << 22) / max(found[1] - found[0], 1e-9)}))


WORK: dict[str, Callable[..., None]] = {"kernels": kernels, "analysed": analysed, "messages": messages}


# -- in the process that asks ------------------------------------------------------------------------------


def asked(options: list[str], work: list[str], window: int | None, cache: str, launcher: tuple[str, ...] = ()
          ) -> Measures:
    """Run this file in another process; {"absent": why} where that does not work."""
    import child
    import contenders

    environment = {**child.with_checkout(contenders.environment(contenders.LOCAL, 1, cache)),
                   "DIFFUSE_FALLBACK": "silent", "DIFFUSE_COMPILE": "wait"}
    if window is not None:
        environment["DIFFUSE_WINDOW_SIZE"] = str(window)
    if "--predict" in options:
        environment |= {"DIFFUSE_RUNTIME": "mpi", "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1"}
    own = [sys.executable, "-m", "diffuse", "run", *options] if options else [sys.executable]
    return child.written([*launcher, *own, __file__, "--inside", *work], environment, PATIENCE)


def network(args: argparse.Namespace, cache: str) -> Measures:
    """Latency and bandwidth, and where they are from."""
    if args.latency and args.bandwidth:
        return {"latency": args.latency, "bandwidth": args.bandwidth, "from": "given"}
    from diffuse.cli.launchers import found

    launcher = (found("mpirun"), "-n", "2", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root")
    measured = asked([], ["messages"], None, cache, launcher)
    if "absent" in measured:
        sys.exit(f"no two ranks here to measure ({measured['absent']}): give --latency and --bandwidth")
    return {**measured, "from": "measured between two ranks of this machine"}


def predicted(one: Measures, many: Measures, fit: Sequence[Measures], scale: float, net: Measures
              ) -> Measures:
    """An iteration on many ranks: `one` is measured, `many` analysed at a size that is to grow by `scale`,
    and `fit` at two sizes, the second twice the first."""
    volume = sum(nbytes * scale ** exponent(title, *fit)
                 for title, (nbytes, _) in many["rows"].items())
    count = sum(messages for _, messages in many["rows"].values())
    return {"kernels": one["seconds"], "messages": count, "bytes": volume, "tasks": many["tasks"],
            "seconds": one["seconds"] + count * net["latency"] + volume / net["bandwidth"]}


def exponent(title: str, small: Measures, large: Measures) -> float:
    """By which power of the size an operation's bytes grow: as the edge of a plane does where nobody knows,
    never faster than a plane, as they may seem to where the smaller of both arrays was cut otherwise."""
    before, after = (found["rows"].get(title, [0.0, 0.0])[0] for found in (small, large))
    return min(2.0, max(0.0, math.log2(after / before))) if before and after else 1.0


def analysis(name: str, size: int, ranks: int, window: int | None, cache: str) -> Measures:
    """What many ranks send for a program, each with the work of this size."""
    work = ["analysed", name, str(grown(size, ranks, PROGRAMS[name].power))]
    return asked(["--predict", str(ranks)], work, window, cache)


def program(name: str, ranks: Iterable[int], quick: bool, net: Measures, cache: str) -> Measures:
    """One program, fused and not."""
    weak = PROGRAMS[name]
    size, least = weak.analysed if quick else weak.size, weak.analysed
    fitted = QUICK[0] if quick else FITTED
    result: Measures = {"program": name, "size": size, "paper": weak.paper}
    for label, window in (("fused", None), ("unfused", 1)):
        one = asked(["--runtime", "local", "--threads", "1"], ["kernels", name, str(size)], window, cache)
        fit = [analysis(name, n, fitted, window, cache) for n in (least, 2 * least)]
        runs = result[label] = {"1": {**one, "messages": 0, "bytes": 0}}
        for n in ranks:
            many = fit[0] if n == fitted else analysis(name, least, n, window, cache)
            bad = next((found["absent"] for found in (one, *fit, many) if "absent" in found), None)
            runs[str(n)] = {"absent": bad} if bad else predicted(one, many, fit, size / least, net)
    return result


HEADER = ("program", "ranks", "iteration", "kernels", "messages", "bytes", "efficiency", "tasks", "unfused",
          "fused is", "in the paper")


def text(result: Measures) -> str:
    """The table of all programs."""
    import table

    net, rows, absent = result["network"], [], []
    for found in result["programs"]:
        for n, run in found["fused"].items():
            other = found["unfused"].get(n, {"absent": "not analysed"})
            for each in (run, other):
                if "absent" in each:
                    absent.append(f"{found['program']}, {n} ranks: {each['absent']}")
            if "absent" in run or "absent" in other:
                continue
            one = found["fused"]["1"]["seconds"]
            rows.append([f"{found['program']}, {found['size']:,}", n, table.seconds(run["seconds"]),
                         table.seconds(run.get("kernels", one)), f"{run['messages']:,.0f}",
                         f"{run['bytes']:,.0f}", f"{100 * one / run['seconds']:.0f} %",
                         table.count(run["tasks"]), table.seconds(other["seconds"]),
                         table.ratio(other["seconds"] / run["seconds"]), found["paper"]])
    title = "PREDICTED weak scaling, the work of one rank on each (one rank: measured)"
    return "\n".join([
        table.render(title, HEADER, rows), *absent,
        "T(P) = K + M(P) * latency + V(P) / bandwidth: K measured on one rank with one thread, M and V of "
        "the",
        f"busiest rank by analysis, latency {table.seconds(net['latency'])}, bandwidth "
        f"{net['bandwidth'] / 1e9:.3g} GB/s, {net['from']}. No overlap, no contention.",
        "In the paper: times as fast as unfused on up to 128 GPUs (section 7.1; figure 14)."])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="predicted weak scaling of the paper's programs")
    parser.add_argument("--quick", action="store_true", help="small sizes on 4 ranks: does everything work?")
    parser.add_argument("--apps", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--ranks", type=int, nargs="+", metavar="N", help="default 4 16 64 256 1024")
    parser.add_argument("--latency", type=float, metavar="S", help="seconds of a small message")
    parser.add_argument("--bandwidth", type=float, metavar="B", help="bytes a second of a large one")
    parser.add_argument("--json", help="default bench/results/weak.json")
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        WORK[args.inside[0]](*args.inside[1:])
        return
    import child
    import harness
    import machine

    with child.scratch() as cache:
        net = network(args, cache)
        ranks = args.ranks or (QUICK if args.quick else RANKS)
        result: Measures = {"bench": "weak", "network": net, "predicted": True, "programs": [
            program(name, ranks, args.quick, net, cache) for name in args.apps]}
    result["machine"] = machine.description(1)
    print(text(result))
    harness.keep(result, "weak", args.json)


if __name__ == "__main__":
    main()
