"""Random programs whose turns are planned regions, or follow a grid that is named by hand.

    python -m diffuse run --runtime mpi --ranks 4 tests/planned_programs.py FIRST LAST

A seed is one program, which prints a digest of what it found: the same on any number of ranks.  The last
line, on the standard error output, tells how many searches there were.
"""

from __future__ import annotations

import hashlib
import random
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

import diffuse
from diffuse.observe import trace
from diffuse.stream import engine
from tests import block_programs as blocks
from tests import shares


def product(pick: random.Random, a: Any) -> Any:
    if a.ndim != 2:
        return a * 0.5
    b = np.ones((a.shape[1], pick.choice((3, a.shape[1])))) * 0.125
    b[1:] += np.arange(b.shape[1]) * 0.25
    c = a @ b if pick.random() < 0.7 else (a.T @ a) @ b
    return c * 0.01 if c.shape == a.shape else a + c.sum() * 1e-3


def turned(pick: random.Random, a: Any) -> Any:
    return (a.T + 1.0).T if pick.random() < 0.5 else np.ascontiguousarray(a.T).T * 0.5


def sweeps(pick: random.Random, a: Any) -> Any:
    for _ in range(3):
        a = np.cumsum(a, axis=pick.randrange(a.ndim)) * 0.1
    return a


def read(pick: random.Random, a: Any) -> Any:
    return a + float(a[(0,) * a.ndim]) if pick.random() < 0.5 else a / (1.0 + abs(a).max())


def by_hand(pick: random.Random, a: Any) -> Any:
    ranks = engine.current().runtime.ranks
    letter, n = pick.choice([(name, n) for name, n in zip("ijkl", a.shape, strict=False)])
    points: Any = {letter: ranks if n % ranks == 0 else 1}
    with diffuse.schedule(**points):
        return a * 0.75 + 0.5


ACTIONS = (blocks.stencil, blocks.into_another, blocks.whole, blocks.face, blocks.fold, blocks.line,
           blocks.other, product, product, turned, sweeps, sweeps, read, by_hand)


def run(seed: int) -> str:
    pick = random.Random(seed)
    shape = tuple([pick.choice((8, 11, 12, 16, 24)) for _ in range(pick.choice((2, 2, 2, 3)))])
    a = np.arange(float(np.prod(shape))).reshape(shape) % 17.0
    steps = [pick.choice(ACTIONS) for _ in range(pick.randint(2, 6))]
    inside = pick.random() < 0.7
    found = hashlib.sha256()
    for turn in range(4):
        with diffuse.plan(), diffuse.plan() if inside else nullcontext():
            for number, step in enumerate(steps[:1 + (seed + turn) % 7]):
                a = step(random.Random(f"{seed} {number}"), a)
                a = a - 20.0 * (abs(a) > 60.0)
        found.update(repr(a[(1,) * a.ndim].item()).encode())
    found.update(np.asarray(a).tobytes())
    return f"{seed}: {' x '.join(map(str, shape))} {found.hexdigest()[:16]}"


def main(first: int, last: int) -> None:
    for seed in range(first, last):
        print(run(seed), flush=True)
    print(f"{trace.counters['searches']} searches", file=sys.stderr)


if __name__ == "__main__":
    seeds = shares.seeds(__doc__).parse_args()
    main(seeds.first, seeds.last)
