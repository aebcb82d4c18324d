r"""Random stencils with their write-backs on all ranks at once: each rank compares the bits with NumPy's.

    DIFFUSE_SMALL=0 DIFFUSE_MIN_CHUNK=64 DIFFUSE_COMPILE=wait \
        python -m diffuse run --ranks 2 --cpus 1 --real tests tests/fuzz_passes.py FIRST LAST

Points of Legate exchange the rows at the borders of their tiles before such a pass.  In one process
(DIFFUSE_RUNTIME=legate, several processors in LEGATE_CONFIG) they do so as well, in place of ranks.

A seed is one program: a stencil that looks some rows up and down, and columns to both sides, with further
arrays or without, while the program writes to the array now and then.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import diffuse.numpy as np  # noqa: E402
from diffuse.observe import trace  # noqa: E402
from diffuse.stream import cuts, engine, pairs  # noqa: E402

TURNS = 9


def between(pick: Any, low: int, high: int) -> int:
    return int(pick.integers(low, high + 1))


def program(xp: Any, pick: Any, arrays: list[Any]) -> None:
    """Write to the first array, or to the first two, what random neighbours of their elements make."""
    a, b, still = arrays
    up, down, left, right = (between(pick, 0, 3) for _ in range(4))
    n = len(a)
    rows = slice(up, n - down)
    line = a.ndim == 1
    kind = between(pick, 0, 3)
    disturbed = {between(pick, 0, TURNS - 1) for _ in range(between(pick, 0, 2))}

    def part(x: Any, dy: int, dx: int) -> Any:
        found = slice(up + dy, n - down + dy)
        return x[found] if line else x[found, left + dx:a.shape[1] - right + dx]

    def near(x: Any, dy: int, dx: int) -> Any:
        """The same rows of the array, or as many from as far as there are any."""
        low = min(max(up + dy, 0), len(x) - (n - up - down))
        found = slice(low, low + n - up - down)
        return x[found] if line else x[found, left + dx:a.shape[1] - right + dx]

    shifts = [(between(pick, -up, down), between(pick, -left, right)) for _ in range(between(pick, 1, 5))]
    made = between(pick, 0, 3)
    for turn in range(TURNS):
        if made == 1:  # a sweep over a copy: rows of the copy beside its own
            source = a.copy()
        elif made == 2:  # differences of what rows of another number give
            source = a[:n - up] * 0.5 + a[up:] + still[n - up - 1::-1] if turn % 2 else a[:] - still[::-1]
        else:
            source = a
        total = near(source, *shifts[0]) * 0.5
        for dy, dx in shifts[1:]:
            total = total + near(source, dy, dx) * 0.125
        del source
        if kind == 1:
            total = total - part(still, *shifts[-1])
        if kind == 2:
            other = part(b, *shifts[-1]) - total
            part(b, 0, 0)[...] = other
            del other
        part(a, 0, 0)[...] = total + part(still, 0, 0) if kind == 3 else total
        del total
        if turn in disturbed:
            a[between(pick, 0, n - 1)] = turn
            a[rows][::2] *= 0.5


def run(seed: int) -> None:
    pick = numpy.random.default_rng(seed)
    shape = (between(pick, 100, 400), between(pick, 8, 40)) if seed % 5 else (between(pick, 3000, 9000),)
    dtype = "float64 float32 complex128".split()[between(pick, 0, 2)]
    pairs.CHUNKS = 1, between(pick, 1, 9)
    pairs._known.clear()
    kept = [(pick.integers(-50, 50, shape) / 8).astype(dtype) for _ in range(3)]
    ours = [np.array(array) for array in kept]
    program(numpy, numpy.random.default_rng(seed + 1000), kept)
    program(np, numpy.random.default_rng(seed + 1000), ours)
    for name, found, expected in zip("abc", ours, kept, strict=True):
        if numpy.asarray(found).tobytes() != expected.tobytes():
            raise AssertionError(f"seed {seed}: array {name} differs")


def main(first: int, last: int) -> None:
    runtime: Any = engine.current().runtime
    if runtime.name == "legate" and runtime.ranks == 1:
        runtime.splits, runtime.ranks = True, runtime.processors
    cuts.MOST = 0  # as of large tasks
    before = trace.counters["pipelined"]
    for seed in range(first, last):
        run(seed)
    print(f"{last - first} programs on {runtime.ranks} ranks, {trace.counters['pipelined'] - before} passes, "
          f"{trace.counters['exchanged']} exchanges", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
