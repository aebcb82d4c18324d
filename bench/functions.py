"""Transcendental functions, an element: Diffuse, NumPy, and a loop in C that calls the C library.

The loop is compiled by gcc for this processor with `-O3 -ffast-math`, so that it calls glibc's vector library
(libmvec) where that has the function.  Every row is one thread; figures are nanoseconds of processor time an
element, the least of all rounds, in which the three take turns.  Each has arrays of its own and runs twice in
a round: the second run, which is measured, finds in the caches what the first left there.

    python bench/functions.py [--size N] [--rounds N] [--names sin exp ...]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

os.environ.update(DIFFUSE_NUM_THREADS="1", DIFFUSE_COMPILE="wait")

import child
import numpy
import scipy.special
import table

import diffuse
import diffuse.numpy as np
import diffuse.scipy.special as special

RANGES = {
    "exp": (-20, 20), "exp2": (-20, 20), "expm1": (-3, 3), "log": (1e-3, 100), "log2": (1e-3, 100),
    "log10": (1e-3, 100), "log1p": (-0.9, 50), "sin": (-30, 30), "cos": (-30, 30), "tan": (-30, 30),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-20, 20), "sinh": (-5, 5), "cosh": (-5, 5),
    "tanh": (-5, 5), "arcsinh": (-50, 50), "arccosh": (1, 50), "arctanh": (-0.99, 0.99), "cbrt": (-100, 100),
    "erf": (-4, 4), "erfc": (-4, 4), "arctan2": (-9, 9), "hypot": (-9, 9), "power": (0.1, 9),
}
"""NumPy's and SciPy's names of functions, and the interval that arguments are drawn from."""
IN_C = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
        "arctanh": "atanh", "arctan2": "atan2", "power": "pow"}
BINARY = "arctan2", "hypot", "power"
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp-simd", "-shared", "-fPIC")
C_TYPES = {"float64": ("double", ""), "float32": ("float", "f")}
Call = Callable[[], Any]


def source() -> str:
    """A loop in C for each function and type, over one input or two."""
    text = "#include <math.h>\n"
    for name in RANGES:
        for dtype, (kind, suffix) in C_TYPES.items():
            call = f"{IN_C.get(name, name)}{suffix}(x[i]{', y[i]' if name in BINARY else ''})"
            text += (f"void {name}_{dtype}(const {kind} *restrict x, const {kind} *restrict y,\n"
                     f"    {kind} *restrict z, long n) {{\n"
                     f"#pragma omp simd\n  for (long i = 0; i < n; ++i) z[i] = {call};\n}}\n")
    return text


def compiled() -> Any:
    """The loops in C as a library; None where there is no gcc."""
    if shutil.which("gcc") is None:
        return None
    with child.scratch() as folder:
        path = Path(folder, "loops.c")
        path.write_text(source())
        library = path.with_suffix(".so")
        subprocess.run(["gcc", *FLAGS, str(path), "-o", str(library), "-lmvec", "-lm"], check=True)
        return ctypes.CDLL(str(library))


def contenders(name: str, dtype: str, size: int, loops: Any) -> list[Call]:
    """The function on the same arguments by Diffuse, by NumPy or SciPy, and by the loop in C."""
    draw = numpy.random.default_rng(0)
    given = [draw.uniform(*RANGES[name], size).astype(dtype) for _ in range(1 + (name in BINARY))]
    ours, theirs = (special, scipy.special) if name in ("erf", "erfc") else (np, numpy)
    arrays, result, out = [np.array(x) for x in given], np.empty(size, dtype), numpy.empty(size, dtype)

    def recorded() -> None:
        getattr(ours, name)(*arrays, out=result)
        diffuse.fence()

    calls: list[Call] = [recorded, lambda: getattr(theirs, name)(*given, out=out)]
    if loops is not None:
        operands, found = [x.copy() for x in given], numpy.empty(size, dtype)
        loop, length = loops[f"{name}_{dtype}"], ctypes.c_long(size)
        calls.append(lambda: loop(*[ctypes.c_void_p(x.ctypes.data)
                                    for x in (operands[0], operands[-1], found)], length))
    return calls


def measure(calls: list[Call], rounds: int) -> list[float]:
    """Seconds of processor time of each, the least of all rounds after two."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 2):
        for call, times in zip(calls, found, strict=True):
            call()
            before = time.process_time()
            call()
            times.append(time.process_time() - before)
    return [min(times[2:]) for times in found]


def rows(names: Iterable[str], size: int, rounds: int) -> list[list[str]]:
    """The rows of all functions, and the geometric means of the ratios."""
    loops, made, ratios = compiled(), [], []
    for dtype in C_TYPES:
        for name in names:
            times = measure(contenders(name, dtype, size, loops), rounds)
            ratios.append([each / times[0] for each in times[1:]])
            made.append([f"{name}, {dtype}", *[f"{each / size * 1e9:.2f}" for each in times],
                         *["-"] * (3 - len(times)), *map(table.ratio, ratios[-1])])
    means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    return [*made, ["geometric mean", "", "", "", *map(table.ratio, means)]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--names", nargs="*", choices=list(RANGES), default=list(RANGES))
    options = parser.parse_args()
    found = rows(options.names, options.size, options.rounds)
    width = max(map(len, found))
    print(table.render(f"functions, {options.size:,} elements, one thread, ns an element",
                       ("function", "Diffuse", "NumPy", "C", "NumPy / Diffuse", "C / Diffuse"),
                       [row + ["-"] * (width - len(row)) for row in found]))


if __name__ == "__main__":
    main()
