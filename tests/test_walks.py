"""Loops over slices of large arrays: what is recorded, and what is done at once.

Counts depend on which lines of this file recorded before, for a loop over slices is known by its lines: each
test that counts has loops of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.library import current, fence
from diffuse.numpy.arrays import core
from diffuse.numpy.ops.single import OFTEN
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.stream.walk import EVEN, MOST, NEW, TRUSTED, TURNS
from tests.at_once import allowed
from tests.outcomes import python_calls

SIDE = 200
PLAIN = numpy.random.default_rng(4).random((SIDE, SIDE))

pytestmark = pytest.mark.local_only("every rank records the same, whatever is at hand there")


def busy(values: Any = PLAIN) -> Any:
    """A large array with a task pending on it."""
    fence()
    return np.array(values) * 1.0


def counted(run: Callable[[], Any]) -> tuple[int, int]:
    """Tasks recorded, and loops over slices that began, while a function runs."""
    before = trace.snapshot()
    run()
    after = trace.snapshot()
    return after["recorded"] - before["recorded"], after["walks"] - before["walks"]


def relaxed(x: Any) -> None:
    for i in range(1, len(x) - 1):
        x[i, 1:-1] = 0.25 * (x[i - 1, 1:-1] + x[i + 1, 1:-1] + x[i, :-2] + x[i, 2:])


def test_a_loop_over_rows_is_recorded_for_a_few_turns_only_and_later_for_one_operation() -> None:
    x, plain = busy(), PLAIN * 1.0
    recorded, walks = counted(lambda: relaxed(x))
    assert recorded <= 5 * TURNS and walks == 1
    relaxed(plain)
    assert numpy.array_equal(numpy.asarray(x), plain)
    y = busy()
    recorded, walks = counted(lambda: relaxed(y))
    assert recorded <= 5 and walks == 1
    assert numpy.array_equal(numpy.asarray(y), plain)


@pytest.mark.skipif(native is None, reason="the extension does a program's first operations at once")
def test_a_loop_over_rows_at_the_beginning_of_a_program_is_expected_to_go_on() -> None:
    def smoothed(x: Any) -> Any:
        for i in range(1, len(x)):
            x[i] = 0.5 * (x[i - 1] + x[i])
        return x

    while native.loop_met():
        pass
    with allowed(trial=True):
        x = np.array(PLAIN)
        assert counted(lambda: smoothed(x)) == (0, 0)
    assert numpy.array_equal(numpy.asarray(x), smoothed(PLAIN * 1.0))
    for _ in range(2):
        x = busy()
        assert counted(lambda: smoothed(x)) == (1, 1)  # noqa: B023 (it is called at once)
        assert numpy.array_equal(numpy.asarray(x), smoothed(PLAIN * 1.0))


def test_each_kind_of_small_step_finds_the_array_at_hand() -> None:
    """Assignments, updates, elements, functions with `out`, and operators with NumPy's scalars and arrays."""
    def steps(x: Any, module: Any) -> None:
        for i in range(1, SIDE):
            x[i] = x[i - 1]
            x[:, i] -= 0.5 * x[:, 0]
            x[i, 1:] *= numpy.float64(0.75)
            x[i, 3] = x[i - 1, 3] + 1.0
            module.add(x[i], x[0], out=x[i])
            x[i] += numpy.ones(SIDE) * x[0, 0]
            x[i] = numpy.float64(0.5) * x[i]
            x[i].T[::-1][2:5] = 7.0
            x[i][x[i] > 6.0] = 1.0

    x, plain = busy(), PLAIN * 1.0
    recorded, walks = counted(lambda: steps(x, np))
    assert recorded <= 9 * TURNS and walks <= 1
    steps(plain, numpy)
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_nothing_is_recorded_on_slices_of_an_array_at_hand() -> None:
    x = busy()
    float(x[0, 0])
    assert counted(lambda: relaxed(x)) == (0, 0)
    assert counted(lambda: [float(x[i, i]) for i in range(SIDE)]) == (0, 0)
    y = x.T
    assert counted(lambda: relaxed(y)) == (0, 0)


def test_borders_between_large_operations_stay_recorded() -> None:
    """The faces of three fields and a formula on one column: no wait, every turn the same tasks."""
    def stepped(fields: list[Any], turns: int) -> None:
        for _ in range(turns):
            for x in fields:
                x[1:-1, 1:-1] = 0.5 * (x[:-2, 1:-1] + x[2:, 1:-1])
                for face in ((0, slice(None)), (-1, slice(None)), (slice(None), 0), (slice(None), -1)):
                    x[face] = 0.25
                x[:, 0] = x[:, 1] * 0.5 + x[:, 2] * 0.25 + x[:, 3] * 0.125 + x[:, 4] * 0.125 - x[:, 5] * 0.1
    fields = [busy() for _ in range(3)]
    each, _ = counted(lambda: stepped(fields, 1))
    recorded, walks = counted(lambda: stepped(fields, 40))
    assert (recorded, walks) == (40 * each, 0)
    plain = [PLAIN * 1.0 for _ in range(3)]
    stepped(plain, 41)
    assert all(numpy.array_equal(numpy.asarray(x), y) for x, y in zip(fields, plain, strict=True))


def test_lines_that_were_a_loop_once_are_trusted_for_a_while_only() -> None:
    def rows(x: Any, n: int) -> None:
        for i in range(n):
            x[i] = 0.5 * x[i + 1]

    x = busy()
    assert counted(lambda: rows(x, SIDE - 1))[1] == 1

    def large_and_a_row() -> None:
        x[...] = x * 1.0
        rows(x, 2)

    def turns() -> None:
        for _ in range(5 * TRUSTED):
            large_and_a_row()

    walks = counted(turns)[1]
    assert 0 < walks <= 2 * TRUSTED


@pytest.mark.parametrize("step", [1, -1, 3])
def test_equal_steps_through_an_array_are_found_soon(step: int) -> None:
    def columns(x: Any) -> None:
        for k in range(5, SIDE - 5)[::step]:
            x[:, k] = x[:, k] - 0.5 * x[:, k - step]

    x, plain = busy(), PLAIN * 1.0
    recorded, walks = counted(lambda: columns(x))
    assert recorded <= 3 * (EVEN + 3) and walks == 1
    columns(plain)
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_loops_that_are_found_again_are_trusted_longer() -> None:
    x = busy()

    def turns() -> None:
        for _ in range(7 * TRUSTED):
            x[...] = np.sin(x)  # which NumPy computes with other bits, so that it is recorded
            for i in range(2 * TURNS):
                x[i] -= x[i + 1]

    recorded, walks = counted(turns)
    assert walks == 7 * TRUSTED
    # two large and one small a turn, and three times all turns of the loop, for 8, 16 and 32 times of trust
    assert recorded <= 3 * 7 * TRUSTED + 3 * TURNS


def test_a_short_chain_that_a_loop_over_slices_waits_for_is_done_at_once_in_time() -> None:
    def turn(x: Any) -> Any:
        y = x * 0.5
        for i in range(1, len(x)):
            y[i] -= y[i - 1]
        return y

    x, plain = busy(), PLAIN * 1.0
    for _ in range(20 * OFTEN):  # a turn during which a kernel is still compiled does not count
        x, plain = turn(x), turn(plain)
        fence()
        if counted(lambda: turn(x)) == (0, 0):
            break
    else:
        pytest.fail("the chain is still recorded")
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_a_wait_of_a_loop_over_slices_is_told() -> None:
    plans = current().plans
    x = busy()
    for i in range(1, SIDE):
        x[i] += 2.0 * x[i - 1]
    assert any("a loop over slices" in plan.reason for plan in plans)


def test_planes_whose_elements_lie_far_apart_are_no_small_steps() -> None:
    """NumPy takes ten times as long for them as for as many elements side by side, and a task does not."""
    plain = numpy.random.default_rng(4).random((80, 80, 2 * EVEN))

    def accumulated(x: Any) -> None:
        for k in range(1, x.shape[2]):
            x[:, :, k] += 0.5 * x[:, :, k - 1]

    for _ in range(3):
        x, expected = busy(plain), plain * 1.0
        assert counted(lambda: accumulated(x)) == (2 * (2 * EVEN - 1), 0)  # noqa: B023
        accumulated(expected)
        assert numpy.array_equal(numpy.asarray(x), expected)


def test_small_steps_between_a_large_task_and_a_wait_wait_themselves() -> None:
    """Elimination with pivots: the rest of the matrix is large; a value is read after a few small steps."""
    def steps(x: Any, module: Any, turns: int) -> float:
        found = 0.0
        for k in range(turns):
            x *= 1.0 + 2.0**-k
            x[k, 1:] = 0.5
            found += float(module.abs(x[:, k]).max())
        return found

    x, plain = busy(), PLAIN * 1.0
    recorded, walks = counted(lambda: steps(x, np, EVEN))
    assert recorded >= 4 * EVEN and walks == 0
    recorded, walks = counted(lambda: steps(x, np, TRUSTED))
    assert recorded <= 2 * TRUSTED and TRUSTED // 2 <= walks <= TRUSTED  # or NumPy waits by another rule
    for turns in (EVEN, TRUSTED):
        steps(plain, numpy, turns)
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_small_steps_between_large_tasks_are_recorded_although_the_program_waits_later() -> None:
    def steps(x: Any, turns: int) -> None:
        for _ in range(turns):
            x[0] = 0.5
            x *= 1.5
            float(x[3, 3])

    x = busy()
    assert counted(lambda: steps(x, 2 * EVEN))[1] == 0


def test_small_steps_on_fresh_zeros_are_done_at_once_where_nothing_else_is_pending() -> None:
    fence()
    x, plain = np.zeros((SIDE, SIDE)), numpy.zeros((SIDE, SIDE))
    before = trace.snapshot()
    for y in (x, plain):
        y[3, 4] = 2.0
        y[5] = y[3] + 1.0
        y[:, 7] = y[:, 4] * 2.0
    after = trace.snapshot()
    assert after["launched"] <= before["launched"] + 1 and after["recorded"] <= before["recorded"] + 1
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_small_steps_on_fresh_zeros_do_not_end_what_is_pending() -> None:
    fence()
    y, before = np.exp(np.array(PLAIN)), trace.snapshot()["walks"]
    x = np.zeros((SIDE, SIDE))
    x[3] = 1.0
    assert trace.snapshot()["walks"] == before and current().window.held > 0
    assert numpy.array_equal(numpy.asarray(x + y)[3], 1.0 + numpy.asarray(y)[3])


def test_small_steps_with_new_views_behind_a_large_task_are_done_at_once() -> None:
    """Covariances by columns: the columns that are left are large, and fewer each turn."""
    def columns(x: Any, found: Any, turns: int, module: Any) -> None:
        for j in range(turns):
            found[j, j:] = (x[:, j, None] * x[:, j:]).max(axis=0) / 3.0
            found[j:, j] = found[j, j:]

    rows = 16 * SIDE
    plain = numpy.random.default_rng(9).random((rows, SIDE))
    x, found = busy(plain), np.empty((SIDE, SIDE))
    recorded, walks = counted(lambda: columns(x, found, NEW + TRUSTED, np))
    assert recorded <= 7 * (NEW + 2) + 3 * TRUSTED and walks >= TRUSTED - 2
    expected = numpy.empty((SIDE, SIDE))
    columns(plain, expected, NEW + TRUSTED, numpy)
    assert numpy.array_equal(numpy.asarray(found)[:NEW + TRUSTED], expected[:NEW + TRUSTED])


def test_a_number_of_every_turn_that_goes_into_a_small_table_is_waited_for_soon() -> None:
    def means(x: Any, found: Any, turns: int) -> None:
        for k in range(turns):
            x = x * 0.5 + 1.0
            found[k] = x.max()

    plain, turns = numpy.random.default_rng(4).random(4 * SIDE * SIDE), NEW + TRUSTED
    x, found, expected = busy(plain), np.empty(2 * core.TINY), numpy.empty(turns)
    recorded, walks = counted(lambda: means(x, found, turns))
    assert recorded <= 4 * (NEW + 2) + 3 * TRUSTED and walks > 0
    means(plain, expected, turns)
    assert numpy.array_equal(numpy.asarray(found)[:turns], expected)


def test_small_steps_with_new_views_stay_recorded_behind_a_very_large_task() -> None:
    """A wait there would part large tasks that may be fused, which takes longer than an analysis."""
    x, y = np.zeros(MOST + 1), np.zeros(2 * SIDE**2)
    for k in range(NEW + 4):
        x *= 0.5
        y[k * k:k * k + 9] = 1.0

    def turns() -> None:
        nonlocal x
        for k in (5, 9):
            x *= 0.5
            y[k:k + 7] = 2.0

    assert counted(turns) == (4, 0)
    assert float(y.sum()) > 0.0


def test_host_functions_on_few_elements_are_done_at_once_soon() -> None:
    """They fuse with nothing: products of small matrices from a busy array."""
    plain = numpy.random.default_rng(7).random((SIDE + 3, SIDE + 3))
    x, found, expected = busy(plain), np.zeros((SIDE, SIDE)), numpy.zeros((SIDE, SIDE))
    places = numpy.random.default_rng(3).integers(SIDE - 9, size=(2 * TURNS, 2))

    def products(x: Any, found: Any) -> None:
        for i, j in places:
            part = found[i:i + 8, j:j + 8]
            found[i:i + 8, j:j + 8] = part + x[i:i + 8, j:j + 8] @ x[j:j + 8, i:i + 8]

    recorded, walks = counted(lambda: products(x, found))
    products(plain, expected)
    assert recorded <= 3 * (EVEN + 1) and walks <= 1
    assert numpy.array_equal(numpy.asarray(found), expected)


def test_large_slices_of_an_array_at_hand_need_no_views() -> None:
    """A factorisation by columns has other slices each turn, which no task needs."""
    x = busy(numpy.random.default_rng(11).random((SIDE + 5, SIDE + 5)))
    float((x[1:] * 2.0)[0, 0] + x[0, 0])
    assert x.part is not None
    assert all(x[k:, k:].part is None for k in range(2, 40))
    y = x[3:, 1:]
    y += 1.0
    assert numpy.array_equal(numpy.asarray(x[3:, 1:]), numpy.asarray(y))


def test_a_large_task_ends_a_loop_that_the_last_of_its_turns_began() -> None:
    walk = current().walk
    x = np.array(numpy.random.default_rng(11).random((SIDE, SIDE)))
    for _ in range(2):  # recorded by Python's code, and again by the extension
        walk.begun = True
        x = np.sin(x)
        assert not walk.begun
    fence()


@pytest.mark.skipif(native is None, reason="the extension is not in use")
def test_compiled_code_tells_that_a_part_of_a_pending_array_is_not_at_hand() -> None:
    def levels(x: Any, out: Any) -> None:
        for k in range(1, 12):
            out[:, :, k] -= x[:, :, k] * out[:, :, k - 1]

    plain = numpy.random.default_rng(3).random((90, 80, 12))
    expected = plain * 1.0 * 3.0
    levels(plain, expected)
    for _ in range(3):  # recorded anew, then along the trail
        x = busy(plain)
        out = x * 3.0
        asked = python_calls(lambda: levels(x, out))  # noqa: B023
        assert numpy.array_equal(numpy.asarray(out), expected)
    assert [code for code in asked if code.co_name in ("near", "near_to_write", "mine", "begun")] == []
