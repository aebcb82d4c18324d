"""Two fused tasks as one pass over rows: where it is right, that it is done; where it is not, that it is not.

Every program runs under NumPy and under Diffuse, and every bit must agree.  `trace.counters["pipelined"]`
says whether the pass was taken.  Chunks are made short, so that rings move on many times in small arrays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

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


# -- what must not run as one pass ---------------------------------------------------------------------------


def refused(program: Program, *arrays: Any) -> None:
    assert pipelined(program, *arrays) == 0


def test_what_the_program_still_holds_is_made() -> None:
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        p[1:-1] = old[2:] + old[:-2]
        return [p, old]

    refused(program, data(80))


def test_what_a_later_task_reads_is_made() -> None:
    def program(np: Any, p: Any, q: Any) -> Any:
        old = p * 2.0
        p[1:-1] = old[2:] + old[:-2]
        top = p.max(axis=0)
        total = old.sum(axis=0)
        del old
        return [p, top, total]

    refused(program, data(80), data(80))


def test_a_side_result_of_the_first_task_is_made() -> None:
    def program(_: Any, p: Any, q: Any) -> Any:
        old = p * 2.0
        q[:] = old - 1.0
        p[1:-1] = old[2:] + old[:-2]
        del old
        return [p, q]

    refused(program, data(80), data(80))


def test_old_contents_of_what_lies_between_are_read() -> None:
    """The first task updates its result in place: a ring would begin with nothing."""
    def program(np: Any, p: Any, b: Any) -> Any:
        q = p + 1.0
        if np is diffuse.numpy:
            engine.flush()
        q *= 2.0
        b[1:-1] = q[2:] + q[:-2]
        del q
        return [b]

    refused(program, data(80), data(80, seed=1))


def test_a_store_between_that_is_only_partly_written() -> None:
    def program(np: Any, p: Any, q: Any) -> Any:
        old = q * 1.0
        if np is diffuse.numpy:
            engine.flush()
        old[1:-1] = p[1:-1] * 2.0
        p[1:-1] = old[2:] + old[:-2]
        del old
        return [p]

    refused(program, data(80), data(80, seed=1))


def test_dead_operations_do_not_count_as_rows() -> None:
    """The first task of a group may be dropped; rows are those of loops that run."""
    def program(_: Any, p: Any, b: Any) -> Any:
        q = b[:60] * 2.0
        old = p * 2.0
        dead = old[2:60] * 3.0
        p[1:-1, :] = old[2:] + old[:-2]
        del old, q, dead
        return [p]

    assert pipelined(program, data(100), data(100, seed=1)) == 1


def test_two_results_that_share_elements() -> None:
    """Border rows are kept apart per argument: which came last would be forgotten."""
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        p[1:-1, :] = old[2:] + old[:-2]
        p[1:-1, 3] += 1.0
        p[1:-1, 5:7] = old[:-2, 5:7]
        p[1:-1, :] *= 3.0
        del old
        return [p]

    refused(program, data(80))


def test_a_result_read_back_elsewhere() -> None:
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        p[1:-1, 1:-1] = old[2:, 1:-1] + old[:-2, 1:-1]
        p[1:-1, 0] = p[1:-1, 1]
        p[1:-1, -1] = p[1:-1, -2]
        del old
        return [p]

    refused(program, data(80))


@pytest.mark.parametrize("index", [
    (slice(None, None, -1),), (slice(None), slice(None, None, -1)),
])
def test_reversed_rows_between(index: Any) -> None:
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        p[1:-1] = old[index][2:] + old[:-2]
        del old
        return [p]

    assert pipelined(program, data(80)) == (0 if len(index) == 1 else 1)


@pytest.mark.parametrize("case", ["none", "write reversed", "write steps", "read transposed",
                                  "first reversed", "first transposed", "first broadcast", "first steps"])
def test_rows_that_do_not_run_alongside(case: str) -> None:
    def program(_: Any, p: Any, b: Any) -> Any:
        source = {"first reversed": p[:64][::-1], "first transposed": p[:64].T, "first broadcast": p[3],
                  "first steps": p[::2]}.get(case, p[:64])
        old = b - source
        total = old[2:] + old[:-2]
        if case == "write reversed":
            p[:64][::-1][1:-1] = total
        elif case == "write steps":
            p[::2][1:-1] = total
        elif case == "read transposed":
            p[1:63] = total + old.T[1:-1]
        else:
            p[1:63] = total
        del old, total
        return [p]

    assert pipelined(program, data(128, 64), data(64, 64, seed=1)) == (case == "none")


def test_loops_of_unlike_rows() -> None:
    def program(_: Any, p: Any, q: Any) -> Any:
        old = p * 2.0
        p[1:-1] = old[2:] + old[:-2]
        q[:50] = old[3:53] * 3.0
        del old
        return [p, q]

    assert pipelined(program, data(80), data(80, seed=1)) == 0


def test_columns_longer_than_a_segment_are_cut_unlike_rows() -> None:
    """A vector's tiles are multiples of SEGMENT, a matrix's not: their rows belong to different points."""
    def program(_: Any, p: Any, v: Any) -> Any:
        old = p * 2.0
        w = v * 3.0
        p[1:-1] = old[2:] + old[:-2]
        v[1:-1] = w[2:] + w[:-2]
        del old, w
        return [p, v]

    assert pipelined(program, data(3000, 3), data(3000, 1).ravel()) == 0


def test_another_frame_of_the_same_memory() -> None:
    def program(_: Any, p: Any, z: Any) -> Any:
        old = z * 2.0
        p[1:-1] = old.real[2:] + old.imag[:-2]
        z.real[1:-1] = p[1:-1]
        del old
        return [p, z]

    def written(_: Any, z: Any) -> Any:
        old = z.real * 2.0
        z.imag[1:-1] = old[2:] + old[:-2]
        flat = z.reshape(-1)
        flat[5] = 3
        del old
        return [z]

    refused(program, data(80), data(80, dtype="complex128"))
    pipelined(written, data(80, dtype="complex128"))


def test_the_frame_is_part_of_what_is_remembered() -> None:
    """Equal slices of stores that differ in a last dimension that no slice moves along."""
    def program(_: Any, p: Any, b: Any) -> Any:
        old = b * 2.0
        p[1:-1, :, 0] = old[2:] + old[:-2] + p[1:-1, :, 0]
        b[1:-1] = old[2:]
        del old
        return [p, b]

    for depth, taken in ((1, 1), (3, 0), (1, 1)):
        assert pipelined(program, data(80, 20 * depth).reshape(80, 20, depth), data(80, 20)) == taken


def test_rows_of_two_frames_are_not_compared() -> None:
    """The same memory, flat and in rows: row numbers of the one mean nothing in the other."""
    def read_flat(_: Any, z: Any) -> Any:
        old = z.reshape(-1) * 2.0
        z[1:-1, 0] = old[2:2500] - old[:2498]
        del old
        return [z]

    def made_flat(_: Any, z: Any, v: Any) -> Any:
        old = z * 2.0
        v[1:-1] = old.reshape(-1)[2:2500] - old.reshape(-1)[:2498]
        del old
        return [v]

    refused(read_flat, data(2500, 4))
    refused(made_flat, data(2500, 4), data(2500, 1).ravel())


def test_a_last_point_with_fewer_rows_than_the_border() -> None:
    """A vector's tiles are multiples of SEGMENT: the last one may hold a single element."""
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        p[3:-3] = old[6:] - old[:-6]
        del old
        return [p]

    for rows in range(2049, 2060):
        pipelined(program, data(rows, 1).ravel())


def test_few_rows_for_their_reach() -> None:
    """A halo that is long against a point's rows."""
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        p[6:-6] = old[12:] + old[:-12]
        del old
        return [p]

    for rows in (24, 30, 36, 45, 61, 80, 200):
        pipelined(program, data(rows, 50))


def test_a_sum_on_the_way() -> None:
    def program(_: Any, p: Any) -> Any:
        old = p * 2.0
        total = old.sum(axis=1)
        p[1:-1] = old[2:] + old[:-2]
        del old
        return [p, total]

    refused(program, (data(80) * 8).round())


# -- random programs of this shape ---------------------------------------------------------------------------


class Sweeps:
    """A random program: arrays made row by row, then written back with a shift, a few turns long."""

    def __init__(self, seed: int) -> None:
        pick = self.pick = random.Random(seed)
        self.rows, self.columns = pick.randint(24, 140), pick.randint(6, 40)
        self.dtype = pick.choice(["float64", "float64", "float32", "int64", "complex128", "int8"])
        self.lines: list[str] = []
        for turn in range(pick.randint(1, 3)):
            self.turn(turn)
            if pick.random() < 0.2:
                self.lines.append("flush()")
            if pick.random() < 0.15:
                self.lines.append("total.append(p.max(axis=0))")

    def turn(self, turn: int) -> None:
        pick = self.pick
        self.margins = tuple(pick.choice((0, 0, 1, 1, 2, 3)) for _ in range(2)), \
            tuple(pick.choice((0, 1, 1, 2)) for _ in range(2))
        made = []
        for k in range(pick.randint(1, 3)):
            name = f"t{k}"
            self.lines.append(f"{name} = {self.source()}")
            made.append(name)
            if pick.random() < 0.15:
                self.lines.append(f"{name} *= 3")
            if pick.random() < 0.1:
                self.lines.append(f"{name}[:, 1:3] = {pick.choice('pqs')}[:, 2:4]")
            if pick.random() < 0.1:
                self.lines.append(f"{name}[3:-4] += 1")
        for _ in range(pick.randint(1, 3)):
            self.lines.append(self.written(pick.choice("ppq"), made))
            if pick.random() < 0.4:
                self.lines.append(self.border(made))
        gone = [name for name in made if pick.random() < 0.85]
        if gone:
            self.lines.append("del " + ", ".join(gone))

    def source(self) -> str:
        pick = self.pick
        a, b = pick.choice("pqs"), pick.choice("pqs")
        shifted = f"roll2({a}, {pick.randint(0, 2)})"
        return pick.choice([f"{a}.copy()", f"{a} * 2", f"{a} + {b}", f"{a} - {b} * 3", f"{a} + {shifted}",
                            f"{shifted} + {b}", f"{a}[::-1] + {b}", f"{a} + {b}[2]", f"{a} * {b}[:, 1:2]"])

    def slices(self, name: str, shift: tuple[int, ...]) -> str:
        parts = []
        for (low, high), n, d in zip(self.margins, (self.rows, self.columns), shift, strict=True):
            parts.append(f"{low + d}:{n - high + d}")
        return f"{name}[{', '.join(parts)}]"

    def written(self, target: str, made: list[str]) -> str:
        pick = self.pick
        terms = []
        for _ in range(pick.randint(1, 4)):
            shift = tuple(pick.randint(-low, high) for low, high in self.margins)
            name = pick.choice([*made, *made, *made, pick.choice("pqs")])
            terms.append(self.slices(name, shift) + pick.choice(["", " * 2"]))
        operator = pick.choice(["=", "=", "=", "+=", "-=", "*="])
        return f"{self.slices(target, (0, 0))} {operator} {' + '.join(terms)}"

    def border(self, made: list[str]) -> str:
        pick = self.pick
        (low, high), _ = self.margins
        rows, t, column = f"{low}:{self.rows - high}", pick.choice(made), pick.randrange(self.columns)
        return pick.choice([
            "p[:, 0] = 7", "p[0, :] = p[1, :]", "q[:, -1] += 1", f"p[{rows}, 0] = {t}[{rows}, {column}]",
            f"p[{rows}, {column}] = q[{rows}, 2]", f"q[{rows}, 1] *= 2", f"p[{rows}, 0] = p[{rows}, 1]",
            f"q[-1] = {t}[-1]", f"p[::2, 1] = {t}[::2, 0]", f"s[:] = {t}", f"s[{rows}] += {t}[{rows}]"])

    def __call__(self, np: Any, p: Any, q: Any, s: Any) -> list[Any]:
        def roll2(a: Any, k: int) -> Any:
            return a if not k else np.concatenate([a[k:], a[:k]])

        def flush() -> None:
            if np is diffuse.numpy:
                engine.flush()

        scope = {"p": p, "q": q, "s": s, "flush": flush, "roll2": roll2, "total": []}
        exec("\n".join(self.lines), scope)
        kept = [scope[name] for name in ("t0", "t1", "t2") if name in scope]
        return [p, q, s, *kept, *scope["total"]]


def sweep(seed: int) -> int:
    """One random program; its text goes with a failure."""
    program = Sweeps(seed)
    arrays = [data(program.rows, program.columns, program.dtype, k) for k in range(3)]
    try:
        with numpy.errstate(all="ignore"):
            return pipelined(program, *arrays)
    except AssertionError as error:
        error.add_note("\n".join([f"seed {seed}: {program.rows} x {program.columns} {program.dtype}",
                                  *program.lines]))
        raise


def test_random_sweeps_agree_with_numpy() -> None:
    taken = 0

    @hypothesis_settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 10**9))
    def programs(seed: int) -> None:
        nonlocal taken
        taken += sweep(seed)

    programs()
    assert taken > 10
