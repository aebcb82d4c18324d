"""Random programs that read neighbours along several dimensions: on ranks their arrays are cut into blocks.

    python -m diffuse run --runtime mpi --ranks 4 tests/block_programs.py FIRST LAST

A seed is one program, which prints a digest of what it found: the same on any number of ranks.  The last
line, on the standard error output, tells how many kinds of launches had domains of several dimensions.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tests import shares

Action = Callable[[random.Random, Any], Any]


def inner(pick: random.Random, a: Any, width: int) -> tuple[slice, ...]:
    """The interior of an array, moved by less than its border."""
    return tuple([slice(width + (k := pick.randint(-width, width)), n - width + k) for n in a.shape])


def stencil(pick: random.Random, a: Any) -> Any:
    width = pick.choice((1, 1, 2))
    where = tuple([slice(width, n - width) for n in a.shape])
    found = a[where] * 0.5
    for d in range(a.ndim):
        for step in (-width, width):
            moved = list(where)
            moved[d] = slice(width + step, a.shape[d] - width + step)
            found = found + a[tuple(moved)] * pick.choice((0.125, -0.25))
    if pick.random() < 0.3:
        found -= found.mean()
    a[where] = found
    return a


def corners(pick: random.Random, a: Any) -> Any:
    b = a + 1.0
    for _ in range(3):
        b[inner(pick, a, 1)] += a[inner(pick, a, 1)] * 0.5
    return b


def into_another(pick: random.Random, a: Any) -> Any:
    where = tuple([slice(1, -1)] * a.ndim)
    b = np.zeros_like(a)
    b[where] = a[inner(pick, a, 1)] - a[inner(pick, a, 1)]
    return b + a * 0.5


def whole(pick: random.Random, a: Any) -> Any:
    return np.sqrt(abs(a) + 1.0) - pick.choice((1.0, a))


def face(pick: random.Random, a: Any) -> Any:
    d = pick.randrange(a.ndim)
    to, by = [slice(None)] * a.ndim, [slice(None)] * a.ndim
    (to[d], by[d]) = pick.choice(((0, 1), (-1, -2), (slice(0, 1), slice(1, 2)), (2, -1)))  # type: ignore
    a[tuple(to)] = a[tuple(by)] * 0.5
    return a


def fold(pick: random.Random, a: Any) -> Any:
    axes: Any = pick.choice((None, *range(a.ndim), (0, a.ndim - 1)))
    return a - pick.choice((np.sum, np.max, np.mean))(a, axis=axes, keepdims=True) * 0.125


def ending(pick: random.Random, a: Any) -> Any:
    where = tuple([slice(1, -1)] * a.ndim)
    change = abs(a[where] - a[inner(pick, a, 1)]).max()
    return a if change > 1.0 else a + change


def line(pick: random.Random, a: Any) -> Any:
    d = pick.randrange(a.ndim)
    return pick.choice((np.sort, np.cumsum))(a, axis=d) * 0.5 + a


def other(pick: random.Random, a: Any) -> Any:
    kind = pick.randrange(6)
    if kind == 0:
        return np.roll(a, pick.randint(-3, 3), axis=pick.randrange(a.ndim)) + a
    if kind == 1:
        return (a.reshape(-1) * 2.0).reshape(a.shape)
    if kind == 2:
        a[tuple([slice(None, None, pick.randint(1, 3)) for _ in a.shape])] -= 1.5
        return a
    if kind == 3:
        return np.where(a > 0.0, a, -a[tuple([slice(None, None, -1)] * a.ndim)])
    if kind == 4:
        a[a > 50.0] = 0.75
        return a
    return a.astype(np.float32).astype(float) + a[(slice(0, 1),) * a.ndim]


COMMON: tuple[Action, ...] = (stencil, corners, into_another, whole, ending)
RARE: tuple[Action, ...] = (face, fold, line, other)


def run(seed: int) -> str:
    pick = random.Random(seed)
    shape = tuple([pick.randint(7, 20) for _ in range(pick.choice((2, 2, 3, 3, 4)))])
    a = np.arange(float(np.prod(shape))).reshape(shape) % 17.0
    likely = pick.choice((0.0, 0.1, 0.4))
    steps = [pick.choice(RARE if pick.random() < likely else COMMON) for _ in range(pick.randint(2, 6))]
    found = hashlib.sha256()
    for _ in range(3):
        for number, step in enumerate(steps):
            a = step(random.Random(f"{seed} {number}"), a)
            a = a - 20.0 * (abs(a) > 60.0)
        found.update(repr(a[(1,) * a.ndim].item()).encode())
    found.update(np.asarray(a).tobytes())
    return f"{seed}: {' x '.join(map(str, shape))} {found.hexdigest()[:16]}"


def main(first: int, last: int) -> None:
    for seed in range(first, last):
        print(run(seed), flush=True)
    from diffuse.stream import engine

    grids = [layout.domain for plan in engine.current().plans for layout in plan.layouts.values()
             if len(layout.domain) > 1]
    print(f"{len(grids)} kinds of launches, over grids of {sorted(set(grids))}", file=sys.stderr)


if __name__ == "__main__":
    seeds = shares.seeds(__doc__).parse_args()
    main(seeds.first, seeds.last)
