"""Reads and writes through arrays of indices and masks: NumPy and Diffuse, in turns on one set of arrays.

Each row is one call on 5,000,000 float64 elements: on random indices, on a permuted range of rows, on a mask
that is true for half of the elements.  Times are the least of all rounds, with `diffuse.fence()` inside;
"processor" is the processor time of Diffuse's call, on all threads together.

    python bench/indexing.py [--quick] [--rounds N] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import table

import diffuse
import diffuse.numpy as np

SIZE, QUICK = 5_000_000, 200_000
Arrays = dict[str, Any]
Call = Callable[[Any, Arrays], Any]


def arrays(size: int) -> Arrays:
    random = numpy.random.default_rng(0)
    rows, width = size // 2000, 2000
    x = random.random(size)
    return {"holes": numpy.where(random.random(size) < 0.1, numpy.nan, x), "z": x[:size // 2] - 1j,
            "starts": numpy.arange(0, size, 1000), "wide": random.random((20, size // 20)), "short": x[:12],
            "bytes": random.integers(0, 255, size // 8, "uint8"), "float32": x.astype("float32"),
            "int64": random.integers(0, size, size), "int32": random.integers(0, size, size).astype("int32"),
            "x": x, "v": random.random(size), "i": random.integers(0, size, size),
            "order": numpy.arange(size), "mask": x > 0.5,
            "table": random.random(1000), "few": random.integers(0, 1000, size),
            "X": random.random((rows, width)), "Y": random.random((rows, width)),
            "r": random.integers(0, rows, rows), "c": random.integers(0, width, width),
            "P": random.random((size // 3, 3)), "p": random.integers(0, size // 3, size // 3)}


def write(name: str, index: str, value: Any) -> Call:
    def call(m: Any, a: Arrays) -> None:
        a[name][a[index]] = a[value] if isinstance(value, str) else value

    return call


def columns(m: Any, a: Arrays) -> None:
    a["X"][:, a["c"]] = a["Y"]


def masked(m: Any, a: Arrays) -> None:
    a["x"][a["mask"]] = a["v"][a["mask"]]


def added(m: Any, a: Arrays) -> None:
    a["x"][a["mask"]] += 1.0


TYPED: dict[str, Callable[[Any, Any, Arrays], Any]] = {
    "x[i]": lambda m, x, a: x[a["i"]],
    "x[mask]": lambda m, x, a: x[a["mask"]],
    "x[i] = v": lambda m, x, a: x.__setitem__(a["i"], x[::-1]),
    "x[mask] = 1": lambda m, x, a: x.__setitem__(a["mask"], 1),
}
"""Calls on arrays of several element types."""

ROWS: dict[str, Call] = {
    "x[i]": lambda m, a: a["x"][a["i"]],
    "x[i] * 2 + 1": lambda m, a: a["x"][a["i"]] * 2.0 + 1.0,
    "x[arange]": lambda m, a: a["x"][a["order"]],
    "table[i]": lambda m, a: a["table"][a["few"]],
    "X[r]": lambda m, a: a["X"][a["r"]],
    "X[:, c]": lambda m, a: a["X"][:, a["c"]],
    "X[r[:, None], c]": lambda m, a: a["X"][a["r"][:, None], a["c"]],
    "P[p], rows of 3": lambda m, a: a["P"][a["p"]],
    "x[mask]": lambda m, a: a["x"][a["mask"]],
    "x[i] = v": write("x", "i", "v"),
    "x[arange] = v": write("x", "order", "v"),
    "x[i] = 1": write("x", "i", 1.0),
    "X[r] = Y": write("X", "r", "Y"),
    "X[:, c] = Y": columns,
    "x[mask] = 1": write("x", "mask", 1.0),
    "x[mask] = v[mask]": masked,
    "x[mask] += 1": added,
    "take": lambda m, a: m.take(a["x"], a["i"]),
    "take_along_axis": lambda m, a: m.take_along_axis(a["X"], a["c"][None], 1),
    "put": lambda m, a: m.put(a["x"], a["i"], a["v"]),
    "add.at": lambda m, a: m.add.at(a["x"], a["i"], a["v"]),
    "add.at, 1,000 bins": lambda m, a: m.add.at(a["table"], a["few"], a["v"]),
    "nonzero": lambda m, a: m.nonzero(a["mask"]),
    "nonzero, 2-D": lambda m, a: m.nonzero(a["X"] > 0.5),
    "flatnonzero": lambda m, a: m.flatnonzero(a["mask"]),
    "argwhere": lambda m, a: m.argwhere(a["mask"]),
    "count_nonzero": lambda m, a: m.count_nonzero(a["x"]),
    "compress": lambda m, a: m.compress(a["mask"], a["x"]),
    "extract": lambda m, a: m.extract(a["mask"], a["x"]),
    "place": lambda m, a: m.place(a["x"], a["mask"], [1.0, 2.0, 3.0]),
    "putmask": lambda m, a: m.putmask(a["x"], a["mask"], a["v"]),
    "copyto(where=)": lambda m, a: m.copyto(a["x"], a["v"], where=a["mask"]),
    "choose": lambda m, a: m.choose(a["few"] & 1, [a["x"], a["v"]]),
    "select": lambda m, a: m.select([a["mask"], a["x"] > 0.2], [a["x"], a["v"]]),
    "piecewise": lambda m, a: m.piecewise(a["x"], [a["mask"]], [lambda x: x * 2.0, lambda x: x + 1.0]),
    "delete": lambda m, a: m.delete(a["x"], a["i"][:1000]),
    "insert": lambda m, a: m.insert(a["x"], a["i"][:1000], 1.0),
    "diag": lambda m, a: m.diag(a["x"][:2000]),
    "fill_diagonal": lambda m, a: m.fill_diagonal(a["X"], 1.0),
    "put_along_axis": lambda m, a: m.put_along_axis(a["X"], a["c"][None], 1.0, 1),
    "resize": lambda m, a: m.resize(a["x"], a["x"].size * 3 // 2),
    "unwrap": lambda m, a: m.unwrap(a["x"]),
    "sinc": lambda m, a: m.sinc(a["x"]),
    "i0": lambda m, a: m.i0(a["few"][:a["few"].size // 10]),
    "angle": lambda m, a: m.angle(a["z"]),
    **{name: (lambda name: lambda m, a: getattr(m, name)(a["holes"]))(name)
       for name in ("nansum", "nanmean", "nanstd", "nanmax", "nanargmin", "nancumsum", "nanprod")},
    "cumsum": lambda m, a: m.cumsum(a["x"]),
    "cumsum, axis 0": lambda m, a: m.cumsum(a["X"], axis=0),
    "maximum.accumulate": lambda m, a: m.maximum.accumulate(a["x"]),
    "add.reduceat": lambda m, a: m.add.reduceat(a["x"], a["starts"]),
    "maximum.at": lambda m, a: m.maximum.at(a["x"], a["i"], a["v"]),
    "cov": lambda m, a: m.cov(a["wide"]),
    "corrcoef": lambda m, a: m.corrcoef(a["wide"]),
    "convolve": lambda m, a: m.convolve(a["x"], a["short"]),
    "correlate": lambda m, a: m.correlate(a["x"], a["short"]),
    "polyval": lambda m, a: m.polyval(a["short"], a["x"]),
    "packbits": lambda m, a: m.packbits(a["mask"]),
    "unpackbits": lambda m, a: m.unpackbits(a["bytes"]),
    **{f"{name}, {dtype}": (lambda name, dtype: lambda m, a: TYPED[name](m, a[dtype], a))(name, dtype)
       for name in ("x[i]", "x[mask]", "x[i] = v", "x[mask] = 1") for dtype in ("float32", "int64", "int32")},
}
ASKED = dict.fromkeys(("x[i]", "x[i] * 2 + 1", "x[arange]", "table[i]", "x[mask]", "x[i] = v",
                       "x[arange] = v", "x[i] = 1", "x[mask] = 1", "x[mask] = v[mask]",
                       "x[mask] += 1", "take"), 1.6)
"""How many times as fast as NumPy on two threads; all others 1."""


def once(call: Call, module: Any, given: Arrays) -> tuple[float, float]:
    """Seconds on the clock, and of the processors, of one call."""
    clock, processor = time.perf_counter(), time.process_time()
    result = call(module, given)
    diffuse.fence()
    found = time.perf_counter() - clock, time.process_time() - processor
    del result
    return found


def measure(call: Call, theirs: Arrays, ours: Arrays, rounds: int) -> tuple[float, float, float]:
    """The least seconds of NumPy and of Diffuse, and of the processors under Diffuse."""
    once(call, np, ours)  # kernels are compiled, or read from the cache
    plain, fused = [], []
    for _ in range(rounds):
        plain.append(once(call, numpy, theirs)[0])
        fused.append(once(call, np, ours))
    return min(plain), min([clock for clock, _ in fused]), min([processor for _, processor in fused])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} elements instead of {SIZE:,}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=[*ROWS])
    options = parser.parse_args()
    size = QUICK if options.quick else SIZE
    theirs = arrays(size)
    ours = {name: np.array(value) for name, value in theirs.items()}
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.only:
            plain, fused, processor = measure(ROWS[name], theirs, ours, options.rounds)
            rows.append([name, *map(table.seconds, (plain, fused, processor)), table.ratio(plain / fused),
                         str(ASKED.get(name, 1)), table.reached(plain / fused >= ASKED.get(name, 1))])
    print(table.render(f"indexing, {size:,} elements, {diffuse.config.threads} threads",
                       ("call", "NumPy", "Diffuse", "processor", "times as fast", "asked", "reached"), rows))


if __name__ == "__main__":
    main()
