"""Random windows over few small stores, so that views meet often: the programs behind the oracle tests.

One generator serves hypothesis (which shrinks its random numbers) and loops over seeds.
"""

from __future__ import annotations

from random import Random

from diffuse.ir import IndexTask, Point, Privilege
from diffuse.ir.check import RULES
from tests.build import Region, array, over, reduction

SHAPES = ((6,), (7,), (4, 4), (4, 3), (2, 6), (6, 2))
OPERATORS = ("sum", "sum", "max")


def stores(rng: Random) -> list[list[Region]]:
    """Three stores, each with the frames that look at its memory."""
    found = []
    for id in range(3):
        shape = rng.choice(SHAPES)
        frames = [array(id, *shape, dtype="bool")]
        if rng.random() < 0.3:
            volume = 1
            for n in shape:
                volume *= n
            frames.append(array(id, volume, dtype="bool"))
        elif rng.random() < 0.15:
            frames = [array(id, *shape, dtype="complex64"), array(id, *shape, 2, dtype="float32")]
        found.append(frames)
    return found


def region(rng: Random, whole: Region) -> Region:
    """A random view: slices with steps of either sign, rows, transposes, diagonals; often all of it."""
    if rng.random() < 0.3:
        return whole
    cuts: list[int | slice] = []
    for n in whole.shape:
        kind = rng.random()
        if kind < 0.35:
            cuts.append(slice(None))
        elif kind < 0.45:
            cuts.append(rng.randrange(n))
        elif kind < 0.6:
            cuts.append(slice(None, None, -rng.choice((1, 2))))
        else:
            low = rng.randrange(n)
            cuts.append(slice(low, rng.randint(low + 1, n), rng.choice((1, 1, 2))))
    view = whole[tuple(cuts)]
    if len(view.shape) >= 2 and rng.random() < 0.25:
        view = view.T if rng.random() < 0.6 or len(view.shape) != 2 else view.diagonal()
    return view


def fitting(rng: Random, frames: list[list[Region]], shape: tuple[int, ...]) -> Region | None:
    """A view of some store that broadcasts to `shape`, or a vector whose index is data."""
    if rng.random() < 0.1:
        whole = rng.choice(rng.choice(frames))
        if len(whole.shape) == 1:
            return whole.gathered()
    for _ in range(12):
        view = region(rng, rng.choice(rng.choice(frames)))
        lead = len(shape) - len(view.shape)
        if lead < 0:
            continue
        last = shape[lead:]
        trimmed = view[tuple(slice(0, m if n >= m else 1) for n, m in zip(view.shape, last, strict=True))]
        if all(n in (1, m) for n, m in zip(trimmed.shape, last, strict=True)):
            if trimmed.shape == shape and shape and rng.random() < 0.2:
                return trimmed.turn(*rng.sample(range(len(shape)), rng.randint(1, len(shape))))
            return trimmed
    return None


def one(rng: Random, frames: list[list[Region]], points: Point, number: int) -> IndexTask:
    """A random task, well formed or not."""
    target = region(rng, rng.choice(rng.choice(frames[:3])))
    while not target.shape:
        target = region(rng, rng.choice(rng.choice(frames[:3])))
    rank = len(target.shape)
    axis = axes_cut(rng, rank, points)
    if rng.random() < 0.25:
        axes = tuple(k for k in range(rank) if rng.random() < 0.4)
        shape = tuple(target.shape[k] for k in axes)
        out = fitting(rng, frames, shape)
        if out is not None and out.shape == shape and not (out.free or out.turned):
            made = reduction(rng.choice(OPERATORS), target, out, axes, points=points, axis=axis)
            return with_odd_privilege(made) if rng.random() < 0.2 else made
    reads = [fitting(rng, frames, target.shape) for _ in range(rng.choice((0, 1, 1, 2)))]
    inputs: list[Region | float] = [float(number) if r is None else r for r in reads]
    return over(target.shape, f"op{len(inputs)}", inputs, [(target, Privilege.WRITE, None)], points, axis)


def axes_cut(rng: Random, rank: int, points: Point) -> Point:
    """Which dimension each launch dimension cuts; sometimes none."""
    if rng.random() < 0.05:
        return (-1,) * len(points)
    if len(points) == 1:
        return (rng.choice((0, 0, 0, rank - 1)),)
    return tuple(d if d < rank else -1 for d in range(len(points)))


def with_odd_privilege(task: IndexTask) -> IndexTask:
    """A reduction with WRITE in the place of REDUCE, or the other way round; `check` refuses the first."""
    out = task.accesses[-1]
    if out.privilege is Privilege.REDUCE:
        odd = out._replace(privilege=Privilege.WRITE, operator=None)
    else:
        odd = out._replace(privilege=Privilege.REDUCE, operator="sum")
    return task._replace(accesses=(*task.accesses[:-1], odd))


def well_formed(task: IndexTask, without: str = "") -> bool:
    """Does the task pass `check`, with one rule left out?"""
    return all(rule(task) is None for name, rule in RULES.items() if name != without)


def concluding(rng: Random, number: int) -> IndexTask:
    """A task of single elements, over stores that reductions of a window may have as targets."""
    scalars = [array(id, dtype="bool") for id in (3, 4)]
    outputs = [(rng.choice(scalars), Privilege.WRITE, None)]
    return over((), f"op{number}", [rng.choice(scalars)], outputs, (1,), (-1,))


def window(rng: Random, without: str = "") -> list[IndexTask]:
    """Two to four tasks that pass `check` (but for the rule `without`), mostly over one launch domain."""
    points: Point = rng.choice(((1,), (2,), (2,), (3,), (4,), (2, 2)))
    frames = stores(rng)
    if rng.random() < 0.3:
        frames.append([array(3, dtype="bool")])
    found: list[IndexTask] = []
    length = rng.choice((2, 2, 3, 4))
    while len(found) < length:
        several = points if rng.random() < 0.95 else rng.choice(((1,), (2,), (3,)))
        single = rng.random() < 0.12
        drawn = concluding(rng, len(found)) if single else one(rng, frames, several, len(found))
        if well_formed(drawn, without):
            found.append(drawn)
    return found
