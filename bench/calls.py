"""Single calls, each read at once: what one function costs beside NumPy's, by array size."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import child
import harness
import machine
import report
import table

Measures = dict[str, Any]
SIZES = (100, 10_000, 100_000, 5_000_000)

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda np, a: a.x + a.y,
    "x * 2.0": lambda np, a: a.x * 2.0,
    "x ** 2": lambda np, a: a.x**2,
    "x ** 3": lambda np, a: a.x**3,
    "x ** 0.5": lambda np, a: a.x**0.5,
    "x / y": lambda np, a: a.x / a.y,
    "x > y": lambda np, a: a.x > a.y,
    "x += y": lambda np, a: a.z.__iadd__(a.y),
    "sqrt": lambda np, a: np.sqrt(a.x),
    "exp": lambda np, a: np.exp(a.x),
    "sin": lambda np, a: np.sin(a.x),
    "maximum": lambda np, a: np.maximum(a.x, a.y),
    "where": lambda np, a: np.where(a.mask, a.x, a.y),
    "clip": lambda np, a: np.clip(a.x, 0.3, 0.7),
    "astype": lambda np, a: a.x.astype("float32"),
    "zeros": lambda np, a: np.zeros(a.n),
    "ones": lambda np, a: np.ones(a.n),
    "arange": lambda np, a: np.arange(a.n),
    "linspace": lambda np, a: np.linspace(0.0, 1.0, a.n),
    "concatenate": lambda np, a: np.concatenate([a.x, a.y]),
    "roll": lambda np, a: np.roll(a.x, 1),
    "diff": lambda np, a: np.diff(a.x),
    "cumsum": lambda np, a: a.x.cumsum(),
    "dot": lambda np, a: float(a.x @ a.y),
    "float(sum)": lambda np, a: float(a.x.sum()),
    "float(half.sum)": lambda np, a: float(a.x[: a.n // 2].sum()),
    "sum(axis=0)": lambda np, a: a.square.sum(axis=0),
    "mean": lambda np, a: float(a.x.mean()),
    "std": lambda np, a: float(a.x.std()),
    "max": lambda np, a: float(a.x.max()),
    "argmax": lambda np, a: int(a.x.argmax()),
    "any, first": lambda np, a: bool(a.mask.any()),
    "all, true": lambda np, a: bool(a.true.all()),
    "array_equal": lambda np, a: np.array_equal(a.x, a.x2),
    "A.T.copy()": lambda np, a: a.square.T.copy(),
    "A.T": lambda np, a: a.square.T,
    "x[i]": lambda np, a: a.x[7],
    "x[1:-1]": lambda np, a: a.x[1:-1],
    "x[7] = 1.0": lambda np, a: a.z.__setitem__(7, 1.0),
    "x[1:-1] = y": lambda np, a: a.z.__setitem__(slice(1, -1), a.y[1:-1]),
    "x[mask]": lambda np, a: a.x[a.mask],
}


def arguments(np: Any, size: int) -> SimpleNamespace:
    """The arrays that calls take, the same for both libraries."""
    import numpy

    pick, side = numpy.random.default_rng(7), int(size**0.5)
    x, y = pick.random(size) + 0.1, pick.random(size) + 0.1
    made = {"x": x, "y": y, "z": y.copy(), "x2": x.copy(), "mask": x > 0.1 + 0.5 * (numpy.arange(size) > 9),
            "true": x > 0.0, "square": x[: side * side].reshape(side, side)}
    return SimpleNamespace(n=size, **{name: np.array(value) for name, value in made.items()})


def timed(call: Callable[[], Any], batch: int) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        call()
    return (time.perf_counter() - start) / batch


def both(options: Measures) -> Measures:
    """Medians of each call under NumPy and Diffuse, in turn in one process, which disturbs both alike."""
    import numpy

    import diffuse.numpy
    from diffuse.kernels.build.compiler import compiler
    from diffuse.stream import engine

    stream = engine.current()
    medians: dict[str, dict[str, list[float]]] = {name: {} for name in CALLS}
    for size in options["sizes"]:
        real, ours = arguments(numpy, size), arguments(diffuse.numpy, size)
        for name, function in CALLS.items():
            def theirs(function: Any = function, real: Any = real) -> Any:
                return function(numpy, real)

            def mine(function: Any = function, ours: Any = ours) -> None:
                result = function(diffuse.numpy, ours)
                if stream.window.held or stream.unreported:
                    stream.fence()
                del result

            timed(mine, 2)
            compiler.wait()
            warm = options["warm"] if size < 1e6 else 3
            cost = min([timed(theirs, 1) + timed(mine, 1) for _ in range(warm)])
            rounds = min(options["rounds"], max(3, int(options["budget"] / cost)))
            batch = max(1, int(options["budget"] / cost / rounds))
            pairs = [(timed(theirs, batch), timed(mine, batch)) for _ in range(rounds)]
            medians[name][str(size)] = [statistics.median(column) for column in zip(*pairs, strict=True)]
    return {"seconds": medians}


def text(result: Measures) -> str:
    header = ("Diffuse / NumPy (NumPy's time)", *(f"{n:,} elements" for n in result["sizes"]))
    rows = [[name, *(f"{table.ratio(ours / real)} ({table.seconds(real)})" for real, ours in found.values())]
            for name, found in result["seconds"].items()]
    shown = table.render("single calls, each waited for", header, rows)
    return shown + "\n" + report.goal_table(result["goals"])


def goals(result: Measures) -> list[Measures]:
    found = [(str(n), [row[str(n)][1] / row[str(n)][0] for row in result["seconds"].values()])
             for n in result["sizes"]]
    return [report.goal(f"times NumPy's cost, geometric mean at {n} elements", 1.0,
                        statistics.geometric_mean(ratios), at_least=False) for n, ratios in found]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="cost of single calls")
    harness.options(parser)
    args = parser.parse_args(argv)
    machine.bind(args.threads)
    options = {"sizes": SIZES[:2] if args.quick else SIZES, "warm": 2 if args.quick else 210,
               "rounds": args.rounds, "budget": 0.001 if args.quick else 0.1}
    with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as cache:
        found = child.ask(__file__, "both", options, machine.environment(args.threads, cache))
    if "absent" in found:
        raise SystemExit(f"calls: {found['absent']}")
    result: Measures = {"bench": "calls", "sizes": options["sizes"], **found,
                        "machine": machine.description(args.threads)}
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "calls", args.json)


if __name__ == "__main__" and not child.answer({"both": both}):
    main()
