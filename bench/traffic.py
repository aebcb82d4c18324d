"""Bytes that ranks send in an iteration, against the least: counted on ranks of MPI, and predicted for many.

    python bench/traffic.py [--quick] [--ranks 2 4] [--predict 2 4 16 64 256 1024 4096] [--json FILE]

The least is that of a program whose arrays are cut into rows, as one would write it by hand: neighbouring
rows, sums of columns to one rank and back, the blocks of a transpose; of stencils and of a matrix product
that of the best grid of blocks, rows among them.  `diffuse run --traffic` knows another, narrower one: what
each launch needs as its points were shared out.  Words by which ranks compare digests are not counted.  The
file is also the program that `diffuse run` runs on ranks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

Measures = dict[str, Any]
Step = Callable[[Any], Any]
WARM_UP, COUNTED = 8, 8
"""Iterations before counting, in which windows grow, and those that are counted."""
SLACK, ASKED, ASKED_PRODUCT = 16 << 10, 1.3, 2.0
"""Bytes on top of the least, and how many times the least may be sent."""
RANKS, PREDICTED = (2, 4), (2, 4, 16, 64, 256, 1024, 4096)
ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 600


class Row(NamedTuple):
    """A program of the table."""

    begin: Callable[[], tuple[Any, Step]]
    """Makes the arrays of an iteration, and the function that runs one."""
    least: Callable[[int], float]
    """The least bytes that so many ranks together have to send in an iteration."""
    asked: float = ASKED


def stencil() -> tuple[Any, Step]:
    import numpy as np

    def step(u: Any) -> Any:
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return u

    return np.ones((2048, 2048)), step


def roll() -> tuple[Any, Step]:
    import numpy as np

    return np.ones((1024, 1024)), lambda x: 0.5 * (np.roll(x, 1, axis=0) + np.roll(x, -1, axis=0))


def softmax() -> tuple[Any, Step]:
    import numpy as np

    def step(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return np.ones((1024, 1024)), step


def column_mean() -> tuple[Any, Step]:
    import numpy as np

    return np.ones((1024, 1024)), lambda x: x - 0.5 * x.mean(axis=0)


def conjugate_gradients() -> tuple[Any, Step]:
    import numpy as np
    from scipy import sparse

    n = 512
    line = sparse.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1])
    a = sparse.csr_array(sparse.kron(line, sparse.identity(n)) + sparse.kron(sparse.identity(n), line))
    b = np.ones(n * n)

    def step(state: Any) -> Any:
        x, r, p, rho = state
        q = a @ p
        alpha = rho / (p @ q)
        x = x + alpha * p
        r = r - alpha * q
        before, rho = rho, r @ r
        return x, r, r + (rho / before) * p, rho

    return (np.zeros(n * n), b, b, b @ b), step


def product_with_vector() -> tuple[Any, Step]:
    import numpy as np

    a = np.ones((2048, 2048))
    return np.ones(2048), lambda v: (a @ v) * (1 / 2048)


def product() -> tuple[Any, Step]:
    import numpy as np

    b = np.ones((512, 512))
    return np.ones((512, 512)), lambda a: (a @ b) * (1 / 512)


def transpose() -> tuple[Any, Step]:
    import numpy as np

    return np.ones((1024, 1024)), lambda x: 0.5 * (x.T + x)


def sort() -> tuple[Any, Step]:
    import numpy as np

    y = np.arange(512.0 * 512).reshape(512, 512) % 7.0
    return y + 1.0, lambda x: np.sort(x, axis=1) - y


def fft() -> tuple[Any, Step]:
    import numpy as np

    y = np.arange(512.0 * 512).reshape(512, 512) % 7.0
    return y + 1.0, lambda x: np.fft.fft(x, axis=1).real * (1 / 512) + y


def scans() -> tuple[Any, Step]:
    import numpy as np

    return np.ones((512, 512)), lambda x: np.cumsum(np.cumsum(x, axis=0), axis=1) * 1e-5


def stencil_of_three() -> tuple[Any, Step]:
    import numpy as np

    def step(u: Any) -> Any:
        inner = slice(1, -1)
        u[inner, inner, inner] = (u[:-2, inner, inner] + u[2:, inner, inner] + u[inner, :-2, inner]
                                  + u[inner, 2:, inner] + u[inner, inner, :-2] + u[inner, inner, 2:]) / 6.0
        return u

    return np.ones((128, 128, 128)), step


def borders(row: float) -> Callable[[int], float]:
    """Neighbours exchange a row each way."""
    return lambda ranks: 2 * (ranks - 1) * row


def surface(*shape: int) -> Callable[[int], float]:
    """Neighbours in the best grid of blocks exchange a face each way."""
    def least(ranks: int) -> float:
        return min(sum(2 * (parts - 1) * prod(shape) / n for parts, n in zip(grid, shape, strict=True)) * 8
                   for grid in grids(ranks, len(shape)))
    return least


def grids(ranks: int, rank: int) -> list[tuple[int, ...]]:
    """The grids of this rank that have so many points."""
    if rank == 1:
        return [(ranks,)]
    return [(parts, *rest) for parts in range(1, ranks + 1) if ranks % parts == 0
            for rest in grids(ranks // parts, rank - 1)]


def blocks(ranks: int) -> float:
    """The least over grids of ranks for a product of matrices of 2 MB."""
    return min((columns - 1) + (rows - 1) for rows, columns in grids(ranks, 2)) * 512 * 512 * 8.0


TABLE = {
    "stencil 2048^2": Row(stencil, surface(2046, 2046)),
    "np.roll 1024^2": Row(roll, lambda ranks: 2 * ranks * 1024 * 8),
    "row softmax 1024^2": Row(softmax, lambda ranks: 0),
    "column mean 1024^2": Row(column_mean, borders(1024 * 8)),
    "CG csr, N = 262,144": Row(conjugate_gradients, borders(512 * 8)),
    "dense A @ v 2048": Row(product_with_vector, lambda ranks: (ranks - 1) * 2048 * 8),
    "matmul 512^2": Row(product, blocks, ASKED_PRODUCT),
    "transpose 1024^2": Row(transpose, lambda ranks: (1 - 1 / ranks) * 1024 * 1024 * 8),
    "sort along axis 1, 512^2": Row(sort, lambda ranks: 0),
    "FFT along axis 1, 512^2": Row(fft, lambda ranks: 0),
    "cumsum axis 0 then 1, 512^2": Row(scans, lambda ranks: 2 * (1 - 1 / ranks) * 512 * 512 * 8),
    "128^3 stencil": Row(stencil_of_three, surface(126, 126, 126)),
}


def inside(target: str) -> None:
    """Count, as a program that `diffuse run --traffic` runs on each rank."""
    import diffuse
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine

    kept: Any = traffic.kept
    found = {}
    for name, row in TABLE.items():
        state, step = row.begin()
        for _ in range(WARM_UP):
            state = step(state)
        diffuse.fence()
        runtime: Any = engine.current().runtime
        before = kept.total(runtime.over_ranks)
        for _ in range(COUNTED):
            state = step(state)
        diffuse.fence()
        after = kept.total(runtime.over_ranks)
        found[name] = {"bytes": (after.bytes - before.bytes) / COUNTED,
                       "messages": (after.messages - before.messages) / COUNTED}
        del state, step
    if runtime.rank == 0:
        Path(target).write_text(json.dumps(found))


def counted(ranks: int, predicted: bool, cache: str) -> Measures:
    """Each program on so many ranks; {"absent": why} where that does not work."""
    import child
    import contenders

    where = (["--traffic", "--predict", str(ranks)] if predicted else
             ["--runtime", "mpi", "--ranks", str(ranks), "--cpus", "1", "--traffic"])
    environment = {**child.with_checkout(contenders.environment(contenders.LOCAL, 1, cache)),
                   "DIFFUSE_RUNTIME": "mpi", "DIFFUSE_FALLBACK": "silent"}
    if predicted:
        del environment["DIFFUSE_NUM_THREADS"]
    command = [sys.executable, "-m", "diffuse", "run", *where, __file__, "--inside"]
    return child.written(command, environment, PATIENCE)


def text(result: Measures) -> str:
    """The tables: real ranks with their goals, then predicted ones."""
    import table

    rows = []
    for goal in result["goals"]:
        foreseen = result["predicted"].get(goal["ranks"], {}).get(goal["program"], {})
        rows.append((goal["program"], goal["ranks"], f"{goal['measured']:,.0f}", f"{goal['messages']:,.0f}",
                     f"{foreseen['bytes']:,.0f}" if foreseen else "-", f"{goal['least']:,.0f}",
                     f"{goal['asked']:,.0f}", table.reached(goal["reached"])))
    head = ("program", "ranks", "bytes", "messages", "predicted", "least", "asked", "reached")
    said = [table.render("bytes an iteration, all ranks together", head, rows)] if rows else []
    runs = {ranks: found for ranks, found in result["predicted"].items() if "absent" not in found}
    lines = [(name, *[cell for ranks, found in runs.items() for cell in (
        kilobytes(found[name]["bytes"]), kilobytes(row.least(int(ranks))))]) for name, row in TABLE.items()]
    if runs:
        said.append(table.render("the same in KB, predicted, and the least", ("program", *[
            cell for ranks in runs for cell in (f"{ranks} ranks", "least")]), lines))
    return "\n".join([*said, *[f"{ranks} ranks: {found['absent']}" for kind in ("counted", "predicted")
                               for ranks, found in result[kind].items() if "absent" in found]])


def kilobytes(value: float) -> str:
    return f"{value / 1000:,.0f}"


def goals(found: Measures) -> list[Measures]:
    """Every program on real ranks against the least."""
    import report

    made = []
    for ranks, rows in found.items():
        for name, measured in rows.items() if "absent" not in rows else ():
            least = TABLE[name].least(int(ranks))
            asked = TABLE[name].asked * least + SLACK
            goal = report.goal(f"{name}, {ranks} ranks: bytes an iteration", asked, measured["bytes"],
                               at_least=False)
            made.append({**goal, "program": name, "ranks": ranks, "least": least,
                         "messages": measured["messages"]})
    return made


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="bytes that ranks send in an iteration, against the least")
    parser.add_argument("--quick", action="store_true", help="predict 2 and 64 ranks alone")
    parser.add_argument("--ranks", type=int, nargs="*", help="real ranks (default 2 4, quick none)")
    parser.add_argument("--predict", type=int, nargs="*", help="predicted ones (default 2 to 4096)")
    parser.add_argument("--json", help="default bench/results/traffic.json")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        inside(args.inside)
        return
    import child
    import harness
    import machine

    real = args.ranks if args.ranks is not None else () if args.quick else RANKS
    predicted = args.predict if args.predict is not None else (2, 64) if args.quick else PREDICTED
    with child.scratch() as cache:
        result: Measures = {"bench": "traffic", "iterations": COUNTED,
                            "predicted": {str(n): counted(n, True, cache) for n in predicted},
                            "counted": {str(n): counted(n, False, cache) for n in real}}
    result["goals"] = goals(result["counted"])
    result["machine"] = machine.description(1)
    print(text(result))
    harness.keep(result, "traffic", args.json)


if __name__ == "__main__":
    main()
