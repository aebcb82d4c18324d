"""Single calls, each waited for: NumPy's time over Diffuse's, by array size; above 1 Diffuse is faster.

NumPy runs in processes that never import Diffuse, Diffuse in others; they take turns, and the fastest sample
of each library counts.

With --cold, what an empty kernel cache adds: the time that 400 calls (fewer where they would take long) from
the first on take beyond their usual one, less what as many calls behind them take beyond theirs.  The usual
time is the median of the last quarter, so that a machine that becomes slower meanwhile adds little.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import call_table
import child
import harness
import machine
import report
import table
from case import ROOT

Measures = dict[str, Any]
SIZES = (100, 10_000, 100_000, 5_000_000)
MEANS = {100: 0.85, 10_000: 0.95, 100_000: 1.2, 5_000_000: 3.0}
FLOORS = {100: 0.5, 10_000: 0.7, 100_000: 0.7, 5_000_000: 0.9}
"""Geometric means of the ratios that are asked for, and what no call may fall below, by array size."""
PROCESSES, PASSES, PIECES = 3, 2, 10
"""Processes of each library, one after another, in which all calls are sampled several times, in pieces of a
batch."""
COLD_CALLS, COLD_LIMIT = 400, 0.05
WORST = 20
LONG = 0.05
"""Seconds of both libraries' calls together above which one process of each is enough."""
SHORTEST = 2e-8
"""Seconds of a call beyond what is around it, at least: less cannot be told apart."""
UNSPECIFIED = ("empty",)
"""Calls whose elements have no defined values."""


def once(function: call_table.Call, library: Any, arrays: Any, stream: Any) -> None:
    """One call and all its work; the same around both libraries' calls, so that it costs both the same."""
    result = function(library, arrays)
    if stream.unreported:
        stream.fence()
    del result


def nothing(library: Any, arrays: Any) -> None:
    """The call whose cost is taken off all others'."""


def timed(call: Callable[[], None], batch: int) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        call()
    return (time.perf_counter() - start) / batch


def above(call: Callable[[], None], count: int) -> float:
    """Seconds that so many calls take beyond the usual time of their last quarter."""
    times = [timed(call, 1) for _ in range(count)]
    return sum(times) - count * statistics.median(times[-max(1, count // 4):])


def parts(batch: int) -> list[int]:
    """A batch cut into pieces, so that one at least runs undisturbed on a busy machine."""
    return [batch // PIECES] * PIECES if batch >= PIECES else [batch]


def agree(theirs: Any, ours: Any) -> bool:
    """The same kind of value, and the same numbers but for rounding."""
    import numpy

    if isinstance(theirs, list | tuple):
        return len(theirs) == len(ours) and all(map(agree, theirs, ours))
    if not isinstance(theirs, numpy.ndarray | numpy.generic | float):
        return type(theirs) is type(ours) and bool(theirs == ours)
    one, other = numpy.asarray(theirs), numpy.asarray(ours)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    rounding = 1e-4 if one.dtype == numpy.float32 else 1e-9
    return bool(numpy.allclose(one, other, rtol=rounding, atol=rounding, equal_nan=True))


def wrong(name: str, function: call_table.Call, theirs: Any, ours: Any, stream: Any) -> str | None:
    """What is wrong with Diffuse's result, as a sentence."""
    expected = function(*theirs)
    try:
        if name not in UNSPECIFIED and not agree(expected, function(*ours)):
            return f"{name}: another result than NumPy's"
        stream.fence()
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    return None


class Idle:
    """The stream of NumPy's process: nothing to wait for."""

    @property
    def unreported(self) -> bool:
        return False

    def fence(self) -> None: ...


def library(name: str) -> tuple[Any, Any, Callable[[], None]]:
    """A library, its stream, and the function that waits for its kernels; NumPy without importing Diffuse."""
    if name == "numpy":
        import numpy

        return numpy, Idle(), Idle().fence
    import diffuse.numpy
    from diffuse.kernels.build.compiler import compiler
    from diffuse.stream import engine

    return diffuse.numpy, engine.current(), compiler.wait


class Side:
    """One library in a process of its own, which does what the parent asks for."""

    def __init__(self, options: Measures) -> None:
        self.library, self.stream, self.settle = library(options["library"])
        self.arrays = call_table.arguments(self.library, options["size"])
        self.stream.fence()
        self.empty = self.call(nothing)

    def call(self, function: call_table.Call) -> Callable[[], None]:
        return partial(once, function, self.library, self.arrays, self.stream)

    def answer(self, command: Measures) -> Measures:
        """Warm a call up for so many seconds, or time so many and what is around as many; then rest."""
        call = self.call(call_table.CALLS[command["name"]])
        found: Measures = {}
        try:
            if "warm" in command:
                found["seconds"] = self.warm(call, command["warm"])
            else:
                pieces = [(timed(call, n), timed(self.empty, min(n, 200))) for n in parts(command["batch"])]
                found = {"seconds": min(pieces)[0], "around": min(around for _, around in pieces)}
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        return {**found, "rested": machine.settle(command["rest"])}

    def warm(self, call: Callable[[], None], seconds: float) -> float:
        """Seconds of the cheapest of the first calls."""
        cost, turns, end = math.inf, 0, time.perf_counter() + seconds
        while turns < (2 if seconds else 1) or turns < 200 and time.perf_counter() < end:
            cost, turns = min(cost, timed(call, 1)), turns + 1
        self.settle()
        return cost


def sides(size: int, environment: dict[str, str]) -> Iterator[child.Child]:
    """A process for each library, NumPy's first, which have made their arrays."""
    for name in ("numpy", "diffuse"):
        options = json.dumps({"library": name, "size": size})
        yield child.Child([sys.executable, __file__, "--serve", options], environment)


def warm(options: Measures, environment: dict[str, str]) -> Measures:
    """Least times of each call under NumPy and Diffuse, over several processes of each.

    Two processes of one library differ by up to a factor of two on a call of 100 ns, through where their
    memory and code came to lie; one process of each would tell more of its luck than of the library.

    In one process NumPy's calls would not cost what they cost its users: with Diffuse come settings of the
    C library's heap and other free memory there, from which NumPy takes its results and temporaries.
    """
    found: dict[str, list[float]] = {}
    around = [math.inf, math.inf]
    complaints: dict[str, str] = {}
    for turn in range(options["processes"]):
        pair = list(sides(options["size"], environment))
        try:
            for side in pair:
                if "failed" in (ready := side.answer()):
                    return {"absent": ready["failed"]}
            # several, so that samples lie apart, as other programs come and go
            for again in range(min(PASSES, options["processes"])):
                warming = 0.0 if again else options["warm"] / (4 if turn else 1)
                for name in options["names"]:
                    if turn and sum(found.get(name, ())) > LONG:
                        continue
                    answer = sampled(pair, name, warming, options)
                    if "failed" in answer:
                        complaints[name] = f"{name}: {answer['failed']}"
                        continue
                    found[name] = lowest(found.get(name, [math.inf, math.inf]), answer["seconds"])
                    around = lowest(around, answer["around"])
        finally:
            for side in pair:
                side.close()
    seconds = {name: [max(least - rest, SHORTEST) for least, rest in zip(pair, around, strict=True)]
               for name, pair in found.items() if name not in complaints}
    return {"seconds": seconds, "wrong": list(complaints.values())}


def lowest(one: list[float], other: list[float]) -> list[float]:
    """The lower time of each library."""
    return [min(pair) for pair in zip(one, other, strict=True)]


def sampled(pair: list[child.Child], name: str, seconds: float, options: Measures) -> Measures:
    """The least times of a call in one process of each library, sampled in turn, and of what is around it.

    Both rest equally long before each sample: a processor that idles for 50 ms instead of 2 reads memory at
    two thirds of the speed for the first milliseconds.
    """
    rest = 0.0

    def asked(side: child.Child, **command: Any) -> Measures:
        nonlocal rest
        answer = side.ask(name=name, rest=rest, **command)
        rest = max(rest, answer.get("rested", 0.0))
        return answer

    answers = [asked(side, warm=seconds) for side in pair]
    failed = next((answer for answer in answers if "failed" in answer), None)
    if failed is not None:
        return failed
    cost, budget = sum(answer["seconds"] for answer in answers), options["budget"] / (PROCESSES * PASSES)
    rounds = min(options["rounds"], max(1, int(budget / cost)))
    batch = max(1, int(budget / cost / rounds))
    samples = [[asked(side, batch=batch) for side in pair] for _ in range(rounds)]
    failed = next((answer for row in samples for answer in row if "failed" in answer), None)
    return failed or {key: [min(answer[key] for answer in column) for column in zip(*samples, strict=True)]
                      for key in ("seconds", "around")}


class Pair(NamedTuple):
    """One call by both libraries in one process, on arrays with the same elements."""

    theirs: Callable[[], None]
    ours: Callable[[], None]
    wrong: Callable[[], str | None]


def pairs(options: Measures) -> Iterator[tuple[str, Pair]]:
    """Every call by name."""
    both = [(found, call_table.arguments(found, options["size"]), stream)
            for found, stream, _ in map(library, ("numpy", "diffuse"))]
    stream = both[1][2]
    stream.fence()
    for name in options["names"]:
        function = call_table.CALLS[name]
        theirs, ours = (partial(once, function, *side) for side in both)
        yield name, Pair(theirs, ours, partial(wrong, name, function, both[0][:2], both[1][:2], stream))


def check(options: Measures) -> Measures:
    """What is wrong with Diffuse's results."""
    return {"wrong": [said for _, pair in pairs(options) if (said := pair.wrong())]}


def cold(options: Measures) -> Measures:
    """Seconds that an empty cache adds to the first calls, and how many calls these were."""
    from diffuse.kernels.build.compiler import compiler

    found: dict[str, list[float]] = {}
    for name, pair in pairs(options):
        timed(pair.theirs, 1)
        count = max(3, min(COLD_CALLS, int(options["budget"] / timed(pair.theirs, 1))))
        try:
            first = above(pair.ours, count)
        except Exception:
            continue            # the warm run names it
        compiler.wait()
        found[name] = [first - above(pair.ours, count), count]
    return {"extra": found}


def measured(mode: str, options: Measures, args: argparse.Namespace) -> Measures:
    """Every size in processes of its own, which begin with an empty cache."""
    found: Measures = {}
    for size in args.sizes:
        chosen = {**options, "size": size}
        with child.scratch() as cache:
            environment = {**machine.environment(args.threads, cache), "DIFFUSE_FALLBACK": "silent"}
            if mode == "warm":
                answers = [child.ask(__file__, "check", chosen, environment), warm(chosen, environment)]
            else:
                answers = [child.ask(__file__, mode, chosen, environment)]
        for answer in answers:
            if "absent" in answer:
                raise SystemExit(f"calls: {answer['absent']}")
        found[str(size)] = {**answers[0], **answers[-1]}
        if mode == "warm":
            found[str(size)]["wrong"] = [said for answer in answers for said in answer["wrong"]]
    return found


def ratios(found: Measures) -> dict[str, float]:
    """NumPy's time over Diffuse's, the worst call first."""
    return dict(sorted(((name, theirs / ours) for name, (theirs, ours) in found["seconds"].items()),
                       key=lambda item: item[1]))


def text(result: Measures) -> str:
    lines = []
    if "warm" in result:
        found = {int(size): measures for size, measures in result["warm"].items()}
        names = list(dict.fromkeys(name for measures in found.values() for name in measures["seconds"]))
        rows = [[name, *(cell(measures["seconds"].get(name)) for measures in found.values())]
                for name in names]
        header = ("NumPy / Diffuse (NumPy's time)", *(f"{size:,} elements" for size in found))
        lines += [table.render(f"{len(names)} single calls, each waited for", header, rows)]
        for size, measures in found.items():
            worst = list(ratios(measures).items())[:WORST]
            lines += [f"worst at {size:,}: " + ", ".join(f"{name} {r:.2f}" for name, r in worst)]
            lines += [f"wrong at {size:,}: {said}" for said in measures["wrong"]]
    if "cold" in result:
        found = {int(size): measures["extra"] for size, measures in result["cold"].items()}
        names = list(dict.fromkeys(name for measures in found.values() for name in measures))
        rows = [[name, *(extra(measures.get(name)) for measures in found.values())] for name in names]
        header = ("milliseconds more (calls)", *(f"{size:,} elements" for size in found))
        lines += [table.render("single calls with an empty cache", header, rows)]
    return "\n".join(lines) + "\n" + report.goal_table(result["goals"])


def cell(pair: list[float] | None) -> str:
    return "-" if pair is None else f"{table.ratio(pair[0] / pair[1])} ({table.seconds(pair[0])})"


def extra(pair: list[float] | None) -> str:
    return "-" if pair is None else f"{1e3 * pair[0]:.1f} ({pair[1]})"


def goals(result: Measures) -> list[Measures]:
    rows = []
    for name, measures in result.get("warm", {}).items():
        size, found = int(name), list(ratios(measures).values())
        rows.append(report.goal(f"NumPy / Diffuse, geometric mean at {size:,}", MEANS.get(size, 1.0),
                                statistics.geometric_mean(found) if found else None))
        floor = FLOORS.get(size, 1.0)
        rows.append(report.goal(f"calls below {floor} at {size:,}", 0, sum(r < floor for r in found),
                                at_least=False))
        rows.append(report.goal(f"wrong calls at {size:,}", 0, len(measures["wrong"]), at_least=False))
    for name, measures in result.get("cold", {}).items():
        most = max((seconds for seconds, _ in measures["extra"].values()), default=None)
        rows.append(report.goal(f"seconds more with an empty cache, worst call at {int(name):,}", COLD_LIMIT,
                                most, at_least=False))
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="cost of single calls")
    harness.options(parser)
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N",
                        help="default " + " ".join(map(str, SIZES)))
    parser.add_argument("--calls", nargs="+", choices=call_table.CALLS, metavar="NAME",
                        default=list(call_table.CALLS), help="as the table has them, such as 'x + y'")
    parser.add_argument("--cold", action="store_true", help="with an empty cache, instead of the warm table")
    args = parser.parse_args(argv)
    args.sizes = args.sizes or (SIZES[:2] if args.quick else SIZES)
    machine.bind(args.threads)
    mode = "cold" if args.cold else "warm"
    options = {"names": args.calls, "rounds": max(1, args.rounds // 2), "warm": 0.0 if args.quick else 0.1,
               "budget": {"warm": 0.08, "cold": 2.0}[mode] / (100 if args.quick else 1),
               "processes": 1 if args.quick else PROCESSES}
    result: Measures = {"bench": "calls", "sizes": args.sizes, "machine": machine.description(args.threads),
                        mode: measured(mode, options, args)}
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "calls", args.json)


def serve() -> bool:
    """In a library's process: answer the parent, and say that this was one."""
    if sys.argv[1:2] != ["--serve"]:
        return False
    sys.path.append(str(ROOT))
    stream = child.answers()
    side = Side(json.loads(sys.argv[2]))
    child.say({}, stream)
    child.serve(side.answer, stream)
    return True


if __name__ == "__main__" and not serve() and not child.answer({"check": check, "cold": cold}):
    main()
