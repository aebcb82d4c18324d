"""Softmax and layer normalisation of short rows: NumPy, Diffuse, and Diffuse without fusing, in turns.

Each row of the table is one function of an array of 5,000,000 float64 elements.  Times are the least of all
rounds, with `diffuse.fence()` inside; "processor" is the processor time of all threads together, "launched"
how many tasks the function was.

    python bench/rows.py [--quick] [--rounds N] [--lengths N ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy
import table

import diffuse
import diffuse.numpy as np
from diffuse.observe import trace
from diffuse.settings import using

SIZE, QUICK = 5_000_000, 200_000
LENGTHS = 16, 128, 1024, 8192


def softmax(m: Any, x: Any) -> Any:
    e = m.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(m: Any, x: Any) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return d / m.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)


def once(function: Callable[[Any, Any], Any], module: Any, x: Any) -> tuple[float, float, int]:
    """The wall-clock seconds of one call, its processor seconds, and the tasks that it launches."""
    before = trace.snapshot()["launched"]
    clock, processor = time.perf_counter(), time.process_time()
    result = function(module, x)
    diffuse.fence()
    found = time.perf_counter() - clock, time.process_time() - processor
    del result
    return *found, trace.snapshot()["launched"] - before


def measure(function: Callable[[Any, Any], Any], x: Any, rounds: int) -> list[str]:
    """The row of a function: the least times of all rounds."""
    given = np.array(x)
    plain, fused, apart = [], [], []
    for turn in range(rounds + 2):  # in the first ones kernels are compiled and plans are made
        plain.append(once(function, numpy, x))
        fused.append(once(function, np, given))
        with using(window=1):
            apart.append(once(function, np, given))
        if turn == 1:
            plain, fused, apart = [], [], []
    clocks = [min(each)[0] for each in (plain, fused, apart)]
    processor = min([seconds for _, seconds, _ in fused])
    return [*map(table.seconds, (*clocks, processor)), str(fused[-1][2]),
            *[table.ratio(clock / clocks[1]) for clock in clocks[::2]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} elements instead of {SIZE:,}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    options = parser.parse_args()
    size, rows = QUICK if options.quick else SIZE, []
    for length in options.lengths:
        x = numpy.random.default_rng(0).standard_normal((size // length, length))
        for function in (softmax, layer_norm):
            found = measure(function, x, options.rounds)
            rows.append([f"{function.__name__}, {x.shape[0]} x {length}", *found])
    print(table.render(f"rows, {size:,} elements, {diffuse.config.threads} threads",
                       ("function", "NumPy", "Diffuse", "not fused", "processor", "launched", "times as fast",
                        "as not fused"), rows))


if __name__ == "__main__":
    main()
