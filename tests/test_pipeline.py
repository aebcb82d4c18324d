"""Two fused tasks as one pass over rows: where it is right, that it is done; where it is not, that it is not.

Every program runs under NumPy and under Diffuse, and every bit must agree.  `trace.counters["pipelined"]`
says whether the pass was taken.  Chunks are made short, so that rings move on many times in small arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import settings
from diffuse.ir.template import Template
from diffuse.numpy.ops import moving
from diffuse.observe import trace
from diffuse.runtime.local.runtime import Local
from diffuse.stream import cuts, engine, pairs

Program = Callable[..., Any]


@pytest.fixture(autouse=True, params=[2, 3], ids=["2 points", "3 points"])
def points(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    stores = engine.current().stores
    with settings.using(compile="wait", window="auto", min_chunk=64, small=0, runtime="local"):
        engine.fence()
        before, stores.runtime = stores.runtime, Local(request.param)
        engine.current().forget_decompositions()
        monkeypatch.setattr(cuts, "MOST", 0)  # as of large tasks
        monkeypatch.setattr(pairs, "CHUNKS", (1, 7))
        monkeypatch.setattr(pairs, "_known", {})
        monkeypatch.setattr(moving, "TURNS", 1 << 60)  # new extents at one line are recorded all the same
        yield request.param
        engine.fence()
        stores.runtime.close()
        stores.runtime = before
        engine.current().forget_decompositions()


def data(rows: int, columns: int = 30, dtype: str = "float64", seed: int = 0) -> Any:
    values = numpy.random.default_rng(seed).integers(-50, 50, (rows, columns)) / 8
    return values.astype(dtype)


def pipelined(program: Program, *arrays: Any) -> int:
    """Run under both, compare every bit of what comes out; how many pairs ran as one pass."""
    expected = program(numpy, *[a.copy() for a in arrays])
    engine.fence()
    before = trace.counters["pipelined"]
    ours = [diffuse.numpy.array(a) for a in arrays]
    engine.fence()
    found = program(diffuse.numpy, *ours)
    engine.fence()
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        b = numpy.array(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        wrong = numpy.argwhere(a != b)
        assert a.tobytes() == b.tobytes(), f"result {k}: {len(wrong)} elements, first at {wrong[:5].tolist()}"
    return trace.counters["pipelined"] - before


def copy_then_sweep(_: Any, p: Any) -> Any:
    old = p.copy()
    p[1:-1, 1:-1] = (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1]) * 0.25
    del old
    return [p]


def sweep_then_write_back(_: Any, p: Any) -> Any:
    work = (p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1]) * 0.25
    p[1:-1, 1:-1] = work
    del work
    return [p]


@pytest.mark.parametrize("rows", [40, 41, 43, 62, 64, 65, 97, 128, 129, 200])
@pytest.mark.parametrize("program", [copy_then_sweep, sweep_then_write_back])
def test_a_stencil_and_its_copy_are_one_pass(program: Program, rows: int) -> None:
    assert pipelined(program, data(rows)) == 1


@pytest.mark.parametrize("points", [1], ids=["1 thread"], indirect=True)
@pytest.mark.parametrize("program", [copy_then_sweep, sweep_then_write_back])
def test_one_thread_runs_them_as_one_pass_too(program: Program, points: int) -> None:
    for rows in (62, 97, 200):
        assert pipelined(program, data(rows)) == 1


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 13, 64])
def test_chunks_of_any_length(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(pairs, "CHUNKS", (1, chunk))
    for rows in (50, 77):
        assert pipelined(copy_then_sweep, data(rows)) == 1


@pytest.mark.parametrize("reach", [(0, 1), (1, 0), (2, 2), (3, 3), (0, 3), (3, 0), (1, 3), (3, 1), (0, 0),
                                   (2, 0)])
@pytest.mark.parametrize("copied", [True, False])
def test_reaches_up_and_down(reach: tuple[int, int], copied: bool) -> None:
    """A stencil that looks `up` rows up and `down` rows down."""
    up, down = reach

    def program(_: Any, p: Any) -> Any:
        rows = p.shape[0]
        inner = slice(up, rows - down)
        source = p.copy() if copied else p
        total = source[0:rows - up - down, 1:] * 2.0
        for k in range(1, up + down + 1):
            total = total + source[k:rows - up - down + k, :-1] * (k + 0.5)
        p[inner, 1:] = total
        del total, source
        return [p]

    for rows in (91, 133):  # one row less makes smaller tiles, else the first sums could join the copy's task
        assert pipelined(program, data(rows)) == (up + down > 0)


def test_a_pair_that_runs_again_builds_no_index_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One takes as long to build as an operation takes to be recorded."""
    def program(_: Any, p: Any) -> Any:
        old = p * 0.5
        for _ in range(20):
            old = old + 0.25
        p[1:-1, 1:-1] = old[2:, 2:] - old[:-2, :-2]
        del old
        return [p]

    def task(self: Template, recorded: Any) -> Any:
        built.append(self)
        return real(self, recorded)

    for _ in range(3):
        assert pipelined(program, data(91)) == 1
    built: list[Template] = []
    real = Template.task
    monkeypatch.setattr(Template, "task", task)
    assert pipelined(program, data(91)) == 1
    assert not built


@pytest.mark.parametrize("dtype", "float32 complex128 complex64 int8 int64 float16 uint16".split())
def test_element_types(dtype: str) -> None:
    def program(_: Any, p: Any) -> Any:
        old = p * p
        p[1:-1, 1:-1] = old[2:, 2:] + old[:-2, :-2] - old[1:-1, 1:-1]
        del old
        return [p]

    with numpy.errstate(all="ignore"):
        assert pipelined(program, data(70, 31, dtype)) == 1


def test_a_mask_between_the_two() -> None:
    """Rings of bool rows, of an odd length, beside rings of wider elements."""
    def program(np: Any, p: Any) -> Any:
        mask = p > 0.5
        old = p * 3.0
        p[1:-1, :] = np.where(mask[2:] & ~mask[:-2], old[2:], old[:-2])
        del mask, old
        return [p]

    assert pipelined(program, data(91, 33)) == 1


def test_several_stores_between_and_several_results() -> None:
    def program(_: Any, u: Any, v: Any, p: Any) -> Any:
        a, b, c = u * p, v - p, u + v
        u[1:-2, 1:-1] = a[2:-1, 1:-1] - a[:-3, 1:-1] + c[1:-2, 2:]
        v[2:-1, 1:-1] = b[1:-2, 2:] * c[3:, :-2]
        p[1:-2, :] = c[:-3, :] * b[1:-2, :]
        del a, b, c
        return [u, v, p]

    assert pipelined(program, data(83), data(83, seed=1), data(83, seed=2)) == 1


def test_columns_beside_the_interior() -> None:
    def program(_: Any, p: Any, b: Any) -> Any:
        for _turn in range(3):
            old = p.copy()
            p[1:-1, 1:-1] = (old[1:-1, 2:] + old[2:, 1:-1] + old[:-2, 1:-1]) * 0.25 - b[1:-1, 1:-1]
            p[1:-1, 0] = old[2:, 0] + old[:-2, 0]
            p[1:-1, -1] = old[1:-1, 3]
            del old
        return [p]

    assert pipelined(program, data(96), data(96, seed=1)) == 3


def test_in_place_results() -> None:
    def program(_: Any, p: Any, q: Any) -> Any:
        flux = p * q
        p[1:-1] += flux[2:] - flux[:-2]
        q[:-2] *= flux[1:-1]
        del flux
        return [p, q]

    assert pipelined(program, data(75), data(75, seed=3)) == 1


def test_plans_made_while_nothing_was_compiled_are_compiled_before_they_run() -> None:
    def program(_: Any, p: Any) -> Any:
        old = p * 3.5
        p[1:-1, 1:-1] = old[1:-1, 2:] - old[1:-1, :-2] * 0.75
        del old
        return [p]

    with settings.using(compile="off"):
        pipelined(program, data(300))
    assert pipelined(program, data(300)) == 1


def test_arrays_of_one_dimension() -> None:
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        p[1:-1] = old[2:] - old[:-2]
        del old
        return [p]

    assert pipelined(program, data(1, 5000).ravel()) == 1


def test_three_dimensions_between() -> None:
    """Rings hold rows of any shape; what is written needs rows of neighbours."""
    def program(_: Any, p: Any, q: Any) -> Any:
        old = p * 2.0
        q[1:-1, :] = old[2:, :, 1] - old[:-2, :, 0]
        del old
        return [q]

    assert pipelined(program, data(60, 40).reshape(60, 20, 2), data(60, 20)) >= 0


def test_many_turns_replay() -> None:
    def program(_: Any, p: Any, b: Any) -> Any:
        for _turn in range(20):
            old = p.copy()
            around = old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1]
            p[1:-1, 1:-1] = around * 0.25 + b[1:-1, 1:-1]
            p[0, :] = p[1, :]
            p[:, -1] = 1.5
        del old
        return [p]

    assert pipelined(program, data(90), data(90, seed=4)) >= 15
