"""Functions of one element over an array: `diffuse.vectorize`, `numba.vectorize`, array code by hand, and
`numpy.vectorize` (on a hundredth of the elements).

Two functions: one with a branch and functions of `math`; one whose loop ends after a number of steps that
depends on the element.  Prints medians in nanoseconds an element, taken in turn.

    python bench/vectorize.py [--quick] [--rounds N] [--threads N]
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import machine
import numpy


def branch(x: float, y: float) -> float:
    if x > y:
        return math.exp(-x * x) * math.sqrt(y) + x / y
    return x - y


def branch_by_hand(x: Any, y: Any) -> Any:
    return numpy.where(x > y, numpy.exp(-x * x) * numpy.sqrt(y) + x / y, x - y)


def escape(x: float, y: float) -> float:
    a, b, n = x, y, 0.0
    while a * a + b * b < 4.0 and n < 50.0:
        a, b = a * a - b * b + x, 2.0 * a * b + y
        n += 1.0
    return n


def escape_by_hand(x: Any, y: Any) -> Any:
    a, b, n = x, y, numpy.zeros_like(x)
    for _ in range(50):
        inside = a * a + b * b < 4.0
        a, b = numpy.where(inside, a * a - b * b + x, a), numpy.where(inside, 2.0 * a * b + y, b)
        n = n + inside
    return n


class Program(NamedTuple):
    function: Callable[[float, float], float]
    by_hand: Callable[[Any, Any], Any]
    ranges: tuple[tuple[float, float], tuple[float, float]]


PROGRAMS = (Program(branch, branch_by_hand, ((0.0, 3.0), (0.1, 3.0))),
            Program(escape, escape_by_hand, ((-2.0, 0.5), (0.0, 1.25))))


def contenders(program: Program, x: Any, y: Any) -> dict[str, tuple[int, Callable[[], Any]]]:
    """For each, the number of elements and the call; Diffuse's array code is the same text as NumPy's."""
    import numba

    import diffuse
    import diffuse.numpy as np
    from diffuse.stream import engine

    types = ["float64(float64, float64)"]
    compiled = numba.vectorize(types)(program.function)
    parallel = numba.vectorize(types, target="parallel")(program.function)
    ours, theirs = diffuse.vectorize(program.function), numpy.vectorize(program.function, otypes="d")
    a, b, few = np.array(x), np.array(y), x.size // 100

    def fused() -> Any:
        found = ours(a, b)
        engine.fence()
        return found

    return {"numpy.vectorize": (few, lambda: theirs(x[:few], y[:few])),
            "NumPy by hand": (x.size, lambda: program.by_hand(x, y)),
            "numba.vectorize": (x.size, lambda: compiled(x, y)),
            "numba.vectorize, parallel": (x.size, lambda: parallel(x, y)),
            "diffuse.vectorize": (x.size, fused)}


def measure(program: Program, size: int, rounds: int) -> dict[str, float]:
    """Median nanoseconds an element of each contender, in turn, when all is compiled."""
    pick = numpy.random.default_rng(0)
    x, y = (pick.uniform(low, high, size) for low, high in program.ranges)
    expected, calls = program.by_hand(x, y), contenders(program, x, y)
    for name, (n, call) in calls.items():
        call()
        assert numpy.allclose(numpy.asarray(call()), expected[:n], rtol=1e-12), f"{name}: not as NumPy"
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (n, call) in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e9 * (time.perf_counter() - start) / n)
    return {name: statistics.median(samples) for name, samples in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="functions of one element over an array")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="small arrays, three rounds")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    machine.bind(args.threads)
    from diffuse.settings import config

    config.threads, config.compile = args.threads, "wait"
    for program in PROGRAMS:
        size = 50_000 if args.quick else 2_000_000
        found = measure(program, size, 3 if args.quick else args.rounds)
        ours = found["diffuse.vectorize"]
        print(f"{program.function.__name__}, {size:,} elements, {args.threads} threads")
        for name, theirs in found.items():
            print(f"    {name:25} {theirs:9.2f} ns  {theirs / ours:8.2f} x")


if __name__ == "__main__":
    main()
