"""The cost of every analysis is a function of the program, not of the machine: steps are counted.

One launch point is a different program: there every dependence is point-wise, nothing is split, and the
stencil's write-back fuses.  From two points on, neither the number of steps nor any printed plan changes.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from diffuse.fusion import canonical
from diffuse.fusion.constraints import prefix
from diffuse.fusion.temporaries import temporaries
from diffuse.ir import IndexTask, alias, partition
from diffuse.ir.check import check
from diffuse.ir.text import key_text, refusal_text, window_text
from diffuse.kernels.body.compose import compose
from tests.build import array, key, reduction, task

TILE = 4


def window(points: int) -> list[IndexTask]:
    """A stencil, its residual, its write-back, boundary rows and a reduction, TILE rows a point."""
    n = TILE * points
    grid, work, change, total = array(0, n + 2, 16), array(1, n, 14), array(2, n, 14), array(3)
    centre = grid[1:-1, 1:-1]
    return [
        task("add", [grid[:-2, 1:-1], grid[2:, 1:-1]], work, points=points),
        task("multiply", [work, 0.25], work, points=points),
        task("subtract", [work, centre], change, points=points),
        reduction("sum", change, total, points=points),
        task("copy", [change.frame(14 * n)], array(4, 14 * n), points=points),
        task("copy", [work], centre, points=points),
        task("multiply", [work, total], work, points=points),
    ]


def analyse(tasks: list[IndexTask]) -> str:
    """Run every analysis of a window, up to the body of its kernel; the text of the results."""
    for t in tasks:
        check(t)
    head, why = prefix(tasks)
    gone = temporaries(head, tasks[len(head):], {3})
    body = compose(head, gone).body
    verdict = refusal_text(why.constraint, why.earlier, why.later) if why else "nothing stays out"
    counts = (f"{len(head)} fuse, {sorted(gone)} vanish, {len(body.loops)} loops of "
              f"{len(body.arguments)} arguments")
    return "\n".join([key_text(key(tasks, {3})), counts, verdict])


def counted(work: Callable[[], str]) -> tuple[int, str]:
    """The number of calls and lines that `work` runs, and its result."""
    for known in (canonical._forms, alias._known, partition._covering):
        known.clear()
    steps = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # whose callbacks (Hypothesis has one) take steps, too
    sys.settrace(trace)
    try:
        answer = work()
    finally:
        sys.settrace(before)
        gc.enable()
    return steps, answer


def test_the_same_steps_and_the_same_plan_at_every_scale(golden: Callable[[str], None]) -> None:
    analyse(window(2))  # what is made once for each operation is made
    found = {points: counted(lambda tasks=window(points): analyse(tasks))  # type: ignore[misc]
             for points in (2, 1_024, 1_048_576)}
    assert found[2] == found[1_024] == found[1_048_576]
    assert found[2][0] > 1_000, "nothing was counted"
    golden(found[1_024][1])


def test_one_point_is_another_program_of_no_more_steps_a_task() -> None:
    steps, answer = counted(lambda: analyse(window(1)))
    assert "7 fuse" in answer
    assert steps < 3 * counted(lambda: analyse(window(1_024)))[0]
    assert (steps, answer) == counted(lambda: analyse(window(1)))


def test_building_a_task_takes_the_same_steps_at_every_scale() -> None:
    built = {points: counted(lambda points=points: str(len(window(points))))[0]  # type: ignore[misc]
             for points in (2, 1_024, 1_048_576)}
    assert len(set(built.values())) == 1


def leaves(value: object) -> int:
    """The number of leaves of a nested value: numbers, names and privileges."""
    if isinstance(value, tuple):
        return sum(map(leaves, value))
    fields = getattr(value, "__dataclass_fields__", {})
    return sum(leaves(getattr(value, name)) for name in fields) or 1


@pytest.mark.parametrize("points", [1_024, 1_048_576])
def test_the_size_of_a_task_is_independent_of_its_points(points: int) -> None:
    assert [leaves(t) for t in window(points)] == [leaves(t) for t in window(2)]


def test_only_numbers_differ_in_the_printed_window() -> None:
    few, many = (re.sub(r"\d+ *", "#", window_text(window(points))) for points in (1_024, 1_048_576))
    assert few == many
