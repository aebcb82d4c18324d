"""The crossover: from which size on is recording faster than NumPy at once?  Prints a table.

A chain of ten elementwise float64 operations and a read of the result, warm, with every operation recorded
(DIFFUSE_SMALL=0) and with every operation computed at once: `python bench/crossover.py`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy

import diffuse.numpy
from diffuse.settings import config

SIZES = (256, 1024, 4096, 8192, 12288, 16384, 20480, 24576, 32768, 65536, 131072)


def chain(a: Any, b: Any) -> float:
    """Ten operations and a read."""
    x = a * 2.0 + b
    y = x * x - a
    z = (y + b) * 0.5 - x
    w = z * a + y
    return float((w - b)[-1])


def seconds(run: Callable[[], Any], rounds: int, calls: int) -> float:
    """The median over all rounds of the time of one call; a round before them warms up."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times[1:])


def measure(size: int, rounds: int) -> tuple[float, float, float]:
    """Microseconds of the chain under NumPy, under Diffuse at once, and recorded."""
    calls = max(5, 200_000 // size)
    plain = numpy.linspace(1.0, 2.0, size), numpy.linspace(3.0, 4.0, size)
    found = [seconds(lambda: chain(*plain), rounds, calls)]
    for small in (size + 1, 0):
        config.small = small
        ours = tuple(diffuse.numpy.array(x) for x in plain)
        found.append(seconds(lambda ours=ours: chain(*ours), rounds, calls))  # type: ignore[misc]
    numpys, at_once, recorded = (1e6 * t for t in found)
    return numpys, at_once, recorded


def main() -> None:
    parser = argparse.ArgumentParser(description="from which size on recording pays")
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    config.compile = "wait"
    print(f"{'elements':>9} {'NumPy us':>10} {'at once us':>11} {'recorded us':>12}")
    crossover = None
    for size in SIZES:
        numpys, at_once, recorded = measure(size, rounds)
        print(f"{size:9} {numpys:10.1f} {at_once:11.1f} {recorded:12.1f}")
        if recorded < numpys and crossover is None:
            crossover = size
    print("recording is never faster" if crossover is None
          else f"recording pays from {crossover} elements on")


if __name__ == "__main__":
    main()
