r"""Random products of sparse arrays on all ranks at once: each rank compares what it finds with SciPy's bits.

    DIFFUSE_RUNTIME=mpi DIFFUSE_SMALL=0 DIFFUSE_MIN_CHUNK=16 mpirun -n 2 \
        python tests/fuzz_ghosts.py FIRST LAST

On Legate (DIFFUSE_RUNTIME=legate) operands of any size are divided, on ranks and on processors of one rank.

A seed is one program: a banded or scattered matrix, and products of it and of its transpose with vectors and
matrices that change between them, while the program writes to the matrix now and then.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import diffuse.numpy as np  # noqa: E402
import diffuse.scipy.sparse as sp  # noqa: E402
from diffuse.runtime.mpi.inspector import Inspector  # noqa: E402
from diffuse.stream import engine  # noqa: E402
from tests import shares  # noqa: E402

plans: list[Any] = []
"""The exchanges of ghosts that were planned."""


class Counted(Inspector):
    """Keeps the plans that it makes."""

    def _plan(self, *args: Any) -> Any:
        plans.append(super()._plan(*args))
        return plans[-1]


def count_on_mpi(runtime: Any) -> None:
    runtime._inspector = Counted(runtime)


def count_on_legate(runtime: Any) -> None:
    """Exchange rows whenever it is possible, however many they are, and keep the plans."""
    from diffuse.runtime.legate import ghosts

    class Exchanges(ghosts.Exchanges):
        def _inspect(self, *args: Any) -> Any:
            plans.append(super()._inspect(*args))
            return plans[-1]

    patched: Any = ghosts
    patched.LEAST, patched.pays = 0, lambda operand, points, most: True
    runtime.splits, runtime._exchanges = True, Exchanges(runtime)


def matrix(rng: Any, rows: int, columns: int) -> Any:
    """Positions, columns and values; of each row neighbours, or any columns; some rows empty."""
    lengths = rng.integers(0, 6, rows)
    positions = numpy.concatenate(([0], numpy.cumsum(lengths)))
    owner = numpy.repeat(numpy.arange(rows), lengths)
    kind = rng.integers(3)
    reach = 4 if kind == 0 else 200 if kind == 1 else columns
    middle = owner * columns // rows
    found = (middle + rng.integers(-reach, reach + 1, len(owner))) % columns
    index = (numpy.int32, numpy.int64)[rng.integers(2)]
    return rng.standard_normal(len(owner)), found.astype(index), positions.astype(index)


def equal(found: Any, expected: Any, what: str) -> None:
    found = numpy.asarray(found)
    if found.dtype != expected.dtype or found.tobytes() != numpy.ascontiguousarray(expected).tobytes():
        raise AssertionError(f"{what}: {found} is not {expected}")


def run(seed: int) -> None:
    rng = numpy.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(300, 5000, 2))
    parts = matrix(rng, rows, columns)
    kept = scipy.sparse.csr_array(tuple([part.copy() for part in parts]), shape=(rows, columns))
    made = [np.array(part) for part in parts]
    if rng.random() < 0.5:  # of arrays that ranks have in parts
        made = [part + 0 for part in made]
    ours: Any = sp.csr_array(tuple(made), shape=(rows, columns))
    if rng.random() < 0.3:  # its own square, with rows that are dense
        kept, ours = kept[:, :rows].copy() if rows <= columns else kept[:columns], None
        ours = sp.csr_array(kept.copy())
        rows, columns = kept.shape
    width = int(rng.integers(1, 5))
    x, y = rng.standard_normal(columns), rng.standard_normal(rows)
    m = rng.standard_normal((columns, width))
    ox, oy, om = np.array(x), np.array(y), np.array(m)
    for turn in range(6):
        match rng.integers(7):
            case 0 | 1:
                got, want = ours @ ox, kept @ x
                y, oy = y + want * 0.125, oy + got * 0.125
                if rows == columns:
                    x, ox = x * 0.5 + want, ox * 0.5 + got
            case 2:
                got, want = ours.T @ oy, kept.T @ y
                x, ox = x - want * 0.25, ox - got * 0.25
            case 3:
                got, want = ours @ om, kept @ m
                m, om = m * 1.5, om * 1.5
            case 4:
                got, want = oy @ ours, y @ kept
            case 5:
                x[columns // 3:] += 1.0
                ox[columns // 3:] += 1.0
                got, want = ours @ ox + ours @ (ox * 2.0), kept @ x + kept @ (x * 2.0)
            case _:
                kind = rng.integers(3)
                for each in (kept, ours):
                    if kind == 0:
                        each.data *= 2.0
                    elif kind == 1:
                        each.sort_indices()
                    elif each.indices.size:
                        each.indices[:7] = each.indices[0]
                if kind == 1 and not kept.has_canonical_format:
                    continue
                got, want = ours @ ox, kept @ x
        equal(got, want, f"seed {seed}, turn {turn}")
    equal(oy, y, f"seed {seed}, y")
    equal(ox, x, f"seed {seed}, x")


def main(first: int, last: int) -> None:
    runtime: Any = engine.current().runtime
    (count_on_legate if runtime.name == "legate" else count_on_mpi)(runtime)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, last):
            run(seed)
    print(f"{last - first} programs on {runtime.ranks} ranks, {len(plans)} plans of ghosts", flush=True)


if __name__ == "__main__":
    seeds = shares.seeds(__doc__).parse_args()
    main(seeds.first, seeds.last)
