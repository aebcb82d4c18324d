"""Two fused tasks that must not run as one pass over rows, and that run as one only in part."""

from __future__ import annotations

from typing import Any

import pytest

import diffuse.numpy
from diffuse.stream import engine
from tests.each import for_each
from tests.test_pipeline import Program, data, pipelined, points  # noqa: F401 (a fixture)


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


@for_each("case", ["none", "write reversed", "write steps", "read transposed",
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
