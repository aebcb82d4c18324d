"""Functions that sort, search and count beside NumPy's: one call each on arrays of --size elements.

    python bench/sorting.py [--size N] [--rounds N] [--threads N] [--only NAME ...]

Each call is timed in turn with NumPy's and waited for; the table has the smallest time of each, by the clock,
and Diffuse's processor time.  Results are compared bit by bit.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import harness
import machine
import report
import table

Call = Callable[[Any, Any], Any]
GOAL = 1.6
"""How many times as fast as NumPy on two threads, for the functions of GAIN; all others are to be as fast."""
GAIN = "sort argsort unique searchsorted digitize interp histogram median".split()

CALLS: dict[str, Call] = {
    "sort": lambda m, a: m.sort(a["x"]),
    "sort stable": lambda m, a: m.sort(a["x"], kind="stable"),
    "sort axis 1": lambda m, a: m.sort(a["rows"], axis=1),
    "argsort": lambda m, a: m.argsort(a["x"]),
    "argsort stable": lambda m, a: m.argsort(a["x"], kind="stable"),
    "argsort stable, ties": lambda m, a: m.argsort(a["few"], kind="stable"),
    "argsort, ties": lambda m, a: m.argsort(a["few"]),
    "lexsort": lambda m, a: m.lexsort((a["x"], a["few"])),
    "partition": lambda m, a: m.partition(a["x"], 1000),
    "partition axis 1": lambda m, a: m.partition(a["rows"], 10, axis=1),
    "unique": lambda m, a: m.unique(a["x"]),
    "unique, ties": lambda m, a: m.unique(a["few"]),
    "unique inverse": lambda m, a: m.unique(a["x"], return_inverse=True),
    "intersect1d": lambda m, a: m.intersect1d(a["x"], a["long"]),
    "isin": lambda m, a: m.isin(a["x"], a["table"]),
    "searchsorted in 100": lambda m, a: m.searchsorted(a["short"], a["x"]),
    "searchsorted in 10,000": lambda m, a: m.searchsorted(a["table"], a["x"]),
    "searchsorted in 1,000,000": lambda m, a: m.searchsorted(a["long"], a["x"]),
    "searchsorted, sorted": lambda m, a: m.searchsorted(a["table"], a["sorted"]),
    "digitize in 100": lambda m, a: m.digitize(a["x"], a["short"]),
    "interp in 100": lambda m, a: m.interp(a["x"], a["xp"], a["fp"]),
    "interp in 1,000,000": lambda m, a: m.interp(a["x"], a["long"], a["values"]),
    "histogram": lambda m, a: m.histogram(a["x"], 100),
    "histogram, edges": lambda m, a: m.histogram(a["x"], a["short"]),
    "histogram, weights": lambda m, a: m.histogram(a["x"], 100, weights=a["y"]),
    "histogram2d": lambda m, a: m.histogram2d(a["x"], a["y"], 50),
    "bincount": lambda m, a: m.bincount(a["counts"]),
    "bincount, weights": lambda m, a: m.bincount(a["counts"], a["y"]),
    "median": lambda m, a: m.median(a["x"]),
    "median axis 1": lambda m, a: m.median(a["rows"], axis=1),
    "nanmedian": lambda m, a: m.nanmedian(a["x"]),
    "percentile of three": lambda m, a: m.percentile(a["x"], [5, 50, 95]),
    "quantile": lambda m, a: m.quantile(a["x"], 0.25),
}


def arrays(size: int, dtype: str) -> dict[str, Any]:
    """The arguments of the calls, as NumPy's arrays."""
    import numpy as np

    rng = np.random.default_rng(1)
    whole = dtype == "int64"
    x = rng.integers(-(1 << 60), 1 << 60, size) if whole else rng.standard_normal(size)
    y = rng.integers(-(1 << 60), 1 << 60, size) if whole else rng.standard_normal(size)
    picked = np.unique(rng.choice(x, min(size, 1_000_000)))
    table_ = picked[::max(1, picked.size // 10_000)].copy()
    short = picked[::max(1, picked.size // 100)].copy()
    few = rng.integers(0, 1000, size)
    return {"x": x, "y": y, "few": few.astype(dtype), "counts": few, "rows": x.reshape(-1, 1000).copy(),
            "sorted": np.sort(x), "long": picked, "table": table_, "short": short, "xp": short.astype(float),
            "fp": np.arange(float(short.size)), "values": np.arange(float(picked.size))}


def _same(ours: Any, theirs: Any) -> bool:
    import numpy as np

    if isinstance(theirs, tuple):
        return all(_same(*pair) for pair in zip(ours, theirs, strict=True))
    one, other = np.asarray(ours), np.asarray(theirs)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def measured(size: int, dtype: str, rounds: int, only: list[str]) -> list[dict[str, Any]]:
    """The smallest times of each call."""
    import numpy

    import diffuse
    import diffuse.numpy as np

    theirs = arrays(size, dtype)
    ours = {name: np.array(array) for name, array in theirs.items()}
    found = []
    for name, call in CALLS.items():
        if only and not any(name.startswith(word) for word in only):
            continue
        times: dict[str, list[float]] = {"numpy": [], "diffuse": [], "cpu": []}
        same = _same(call(np, ours), call(numpy, theirs))
        for _ in range(rounds):
            start = time.perf_counter()
            result = call(numpy, theirs)
            times["numpy"].append(time.perf_counter() - start)
            del result
            start, processor = time.perf_counter(), time.process_time()
            result = call(np, ours)
            diffuse.fence()
            times["diffuse"].append(time.perf_counter() - start)
            times["cpu"].append(time.process_time() - processor)
            del result
        least = {key: min(values) for key, values in times.items()}
        found.append({"call": name, "dtype": dtype, **least, "same bits": same})
    return found


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        gains = row["call"].replace(",", " ").split()[0] in GAIN and "ties" not in row["call"]
        found.append(report.goal(f"{row['call']}, {row['dtype']}", GOAL if gains else 1.0,
                                 row["numpy"] / row["diffuse"]))
    same = sum(not row["same bits"] for row in rows)
    return [*found, report.goal("calls with other bits than NumPy's", 0, same, at_least=False)]


def text(result: dict[str, Any]) -> str:
    header = ("call", "NumPy", "Diffuse", "times as fast", "processor time", "same bits")
    lines = []
    for dtype in dict.fromkeys(row["dtype"] for row in result["rows"]):
        rows = [[row["call"], table.seconds(row["numpy"]), table.seconds(row["diffuse"]),
                 table.ratio(row["numpy"] / row["diffuse"]), table.seconds(row["cpu"]),
                 table.reached(row["same bits"])] for row in result["rows"] if row["dtype"] == dtype]
        lines.append(table.render(f"{dtype}, {result['size']:,} elements", header, rows))
    return "\n".join(lines) + "\n" + report.goal_table(result["goals"])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="functions that sort, search and count")
    harness.options(parser)
    parser.add_argument("--size", type=int, default=5_000_000)
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args(argv)
    machine.bind(args.threads)
    os.environ.update(DIFFUSE_NUM_THREADS=str(args.threads), DIFFUSE_COMPILE="wait")
    size, rounds = (100_000, 2) if args.quick else (args.size, min(args.rounds, 5))
    rows = [row for dtype in ("float64", "int64") for row in measured(size, dtype, rounds, args.only)]
    result: dict[str, Any] = {"bench": "sorting", "machine": machine.description(args.threads), "size": size,
                              "rows": rows, "goals": goals(rows)}
    print(text(result))
    harness.keep(result, "sorting", args.json)


if __name__ == "__main__":
    main()
