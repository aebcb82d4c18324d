"""Launch domains of several dimensions: programs over grids of tiles have the bits of NumPy, or of one point,
whatever the grid."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import library, settings
from diffuse.ir import ONE, Access, Decomposition, IndexTask, Privilege, Split
from diffuse.ir.template import Template, Use
from diffuse.stream import decompose, engine
from diffuse.stream.stores import Storage
from tests.outcomes import unwarned
from tests.test_fuzz_stream import Loops, near, same, stream


def grid(pick: random.Random, template: Template) -> Decomposition:
    """A random decomposition: some dimensions, in any order, in tiles that may leave points without work."""
    cut = pick.sample(range(len(template.shape)), pick.randint(1, len(template.shape)))
    domain, splits = [], []
    for axis in cut if pick.random() < 0.3 else sorted(cut):
        size = template.shape[axis]
        tile = pick.choice([-(-size // 2), -(-size // 3), 32, 512])
        domain.append(-(-size // tile) + pick.choice([0, 0, 0, 1]))
        splits.append(Split(axis, tile))
    return Decomposition(tuple(domain), tuple(splits))


@contextmanager
def grids(seed: int, made: set[int] | None = None) -> Iterator[None]:
    """Tasks over equal extents have equal random grids, where they can; `made` gets the ranks of these."""
    def alone(template: Template, processors: int, chunk: int) -> Decomposition:
        for attempt in range(8 if template.shape else 0):
            found = grid(random.Random(f"{seed} {template.shape} {attempt}"), template)
            if decompose.refusal(template, found) is None and template.fits(found):
                if made is not None:
                    made.add(sum(n > 1 for n in found.domain))
                return found
        return ONE

    current = engine.current()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decompose, "alone", alone)
        current.templates.known.clear()
        yield
        engine.fence()
    current.templates.known.clear()
    current.forget_decompositions()


VARIANTS: tuple[dict[str, Any], ...] = (
    dict(window=1, compile="off", seed=3), dict(window="auto", compile="off", seed=5, check=True),
    dict(window="auto", compile="wait", seed=None), dict(window=7, compile="background", seed=None),
    dict(window=1, compile="wait", seed=None, check=True),
)


def trial(seed: int, exact: bool, made: set[int]) -> None:
    """A random program on one point, then on grids: the same bits; exact ones have NumPy's."""
    program = Loops(seed, exact)
    with unwarned():
        expected = program.run(numpy)
        if not exact:
            with stream(points=1, small=0, compile="off", window=1):
                found = program.run(diffuse.numpy)
            assert not near(expected, found)
            expected = found
        for k in random.Random(seed).sample(range(len(VARIANTS)), 2):
            with stream(points=3, small=0, **VARIANTS[k]), grids(seed + k, made):
                found = program.run(diffuse.numpy)
            problem = same(expected, found)
            assert not problem, f"{problem}\nseed {seed}, exact={exact}, {VARIANTS[k]}\n{program.text()}"


def test_programs_over_random_grids_have_the_same_bits() -> None:
    made: set[int] = set()
    for seed in range(5):
        trial(seed, bool(seed % 2), made)
    assert {1, 2} <= made


@pytest.mark.parametrize("compile", ["wait", "off"])
def test_sparse_products_scans_and_places_over_random_grids(compile: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    import diffuse.scipy.sparse

    draw, made = numpy.random.default_rng(0), set[int]()
    for seed in range(4):
        rows, columns, width = draw.integers(40, 90, 3)
        plain = sparse.random_array((rows, columns), density=0.3, format="csr", rng=draw)
        dense = draw.standard_normal((columns, width))
        with stream(points=3, small=0, compile=compile), grids(seed, made):
            x = diffuse.numpy.array(dense)
            found = [diffuse.scipy.sparse.csr_array(plain) @ x, (x * 2).cumsum(axis=seed % 2),
                     x.argmin(axis=0), x.argmax()]
            arrays = [numpy.asarray(a) for a in found]
        expected = plain @ dense, (dense * 2).cumsum(axis=seed % 2), dense.argmin(axis=0), dense.argmax()
        for a, b in zip(expected, arrays, strict=True):
            numpy.testing.assert_array_equal(a, b)
    assert 2 in made


# -- tasks that bring their own decomposition ---------------------------------------------------------------

GRID = Decomposition((2, 3), (Split(0, 50), Split(1, 40)))
SHAPE = (100, 110)
F = "float64"


def submit(operation: str, read: Storage, written: Storage, kept: tuple[int, ...], own: Decomposition,
           operator: str | None = None) -> None:
    """One input, and one output that follows the dimensions `kept` of the input's space."""
    accesses = (Access(read.store, library.whole(read), Privilege.READ),
                Access(written.store, library.whole(written).kept(SHAPE, kept),
                       Privilege.REDUCE if operator else Privilege.WRITE, operator))
    task = IndexTask(operation, (F, F), SHAPE, accesses, decomposition=own)
    library.submit(task, [read, written])


@pytest.mark.parametrize("compile", ["wait", "off"])
def test_a_task_runs_as_its_own_decomposition_says(compile: str) -> None:
    """An elementwise task and the reduction of its result over the same grid: one launch of six points."""
    data = numpy.random.default_rng(1).standard_normal(SHAPE)
    own = Decomposition((2, 3), (Split(0, 64), Split(1, 40)))
    with settings.using(compile=compile):
        x, y, total = library.attach(data), library.create(SHAPE, F), library.create((110,), F)
        submit("negative", x, y, (0, 1), own)
        submit("max", y, total, (1,), own, "max")
        numpy.testing.assert_array_equal(library.value(total), (-data).max(axis=0))
        numpy.testing.assert_array_equal(library.value(y), -data)
    plan = engine.current().plans[-1]
    assert plan.tasks == 2 and plan.composition.body.spaces[0].axes == (0, 1)


def filling(shape: tuple[int, ...], own: Decomposition | None = None) -> Template:
    """A task that writes all of a store."""
    use = Use(shape, F, library.whole(library.create(shape, F)), Privilege.WRITE)
    return Template("copy", (F, F), shape, (use,), decomposition=own)


def test_a_decomposition_of_one_point_is_that_of_all_such_tasks() -> None:
    template = filling(SHAPE, Decomposition((1, 1), (Split(0, 100), Split(1, 110))))
    assert decompose.decompose(template, None, 4, 1).decomposition == ONE


@pytest.mark.parametrize("operation, kept, own, words", [
    ("sum", (0,), GRID, "tiles of 40 cut within leaves of the reduction tree: give it a multiple of 512"),
    ("sum", (1,), GRID, "along dimension 0, which tiles of 50 cut .*: give it a multiple of 32"),
    ("negative", (0, 1), Decomposition((2, 2), (Split(0, 50), Split(-1, 0))), "whose tiles are not disjoint"),
    ("negative", (0, 1), Decomposition((2, 2), (Split(0, 50), Split(0, 50))), "cut axis 0 twice"),
    ("cumsum:1", (0, 1), GRID, "accumulates along dimension 1"),
])
def test_a_decomposition_that_no_kernel_can_follow_is_refused(operation: str, kept: tuple[int, ...],
                                                              own: Decomposition, words: str) -> None:
    """At the call, by a sentence that names task and rule; the session goes on."""
    x, y = library.attach(numpy.ones(SHAPE)), library.create(SHAPE, F)
    out = library.create(tuple(SHAPE[d] for d in kept), F)
    with pytest.raises(ValueError, match=rf"task {operation}\[2x.\] .*{words}"):
        submit(operation, x, out, kept, own, "sum" if operation == "sum" else None)
    submit("negative", x, y, (0, 1), GRID)
    assert (library.value(y) == -1).all()


def test_border_tasks_follow_a_grid_beside_them() -> None:
    """What has as many rows and columns as the grid cuts is cut as the grid is, else not at all."""
    def chosen(*shape: int) -> Decomposition | None:
        return decompose.decompose(filling(shape), GRID, 4, 1 << 20).decomposition

    assert chosen(*SHAPE) == chosen(100, 90) == chosen(60, 120) == chosen(100, 110, 4) == GRID
    assert chosen(100) == chosen(100, 80) == chosen(50, 110) == ONE
