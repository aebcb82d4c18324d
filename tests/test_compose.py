"""Fragments to bodies: what shares a loop, what vanishes, and that only the canonical form matters."""

from __future__ import annotations

import math
from collections.abc import Iterable

from diffuse.ir import (
    Access,
    Decomposition,
    IndexTask,
    Point,
    Privilege,
    Scalar,
    Split,
    Store,
    tiling,
    view,
)
from diffuse.ir.template import recorded, template
from diffuse.kernels.body.compose import Composition, alike, compose
from diffuse.kernels.body.expr import Builder
from diffuse.settings import using
from diffuse.stream.plan import Plan
from tests.around import around

SIZE = 8


class Array:
    """A float64 store and one view of it, sliced as NumPy slices."""

    def __init__(self, id: int, shape: Point, offset: int = 0, part: Point | None = None) -> None:
        self.store = Store(id, shape, "float64")
        self.shape = shape if part is None else part
        strides = tuple(SIZE * _pitch(shape, d) for d in range(len(shape)))
        self.view = view.of(shape, "float64", "float64", SIZE, offset * SIZE, strides, self.shape)

    def part(self, offset: int, shape: Point) -> Array:
        return Array(self.store.id, self.store.shape, offset, shape)

    def turned(self) -> Array:
        """The transpose."""
        found = Array(self.store.id, self.store.shape)
        found.shape = self.shape[::-1]
        found.view = view.of(self.store.shape, "float64", "float64", SIZE, 0, self.view.strides[::-1],
                             found.shape)
        return found


def _pitch(shape: Point, d: int) -> int:
    out = 1
    for n in shape[d + 1:]:
        out *= n
    return out


def task(operation: str, inputs: Iterable[Array | float], out: Array, points: int = 1) -> IndexTask:
    splits = (Split(0, -(-out.shape[0] // points)),) if points > 1 else (Split(-1, 0),)
    accesses, scalars = [], []
    for position, x in enumerate(inputs):
        if isinstance(x, Array):
            accesses.append(Access(x.store, x.view, Privilege.READ, None,
                                   tiling(x.store, x.view, x.shape, splits)))
        else:
            scalars.append(Scalar(position, "float64", x))
    written = tiling(out.store, out.view, out.shape, splits)
    accesses.append(Access(out.store, out.view, Privilege.WRITE, None, written))
    signature = ("float64",) * (len(accesses) + len(scalars))
    return IndexTask(operation, signature, out.shape, tuple(accesses), tuple(scalars),
                     Decomposition((points,), splits), "here:1")


checked = around(using, check=True)
"""What a body is, is asked after composition and after each pass."""


def made(tasks: list[IndexTask], gone: set[int]) -> Composition:
    return compose(tasks, gone)


def kinds(composition: Composition) -> list[list[str]]:
    return [[op.kind for op in loop.ops] for loop in composition.body.loops]


#   a ──┐
#   b ──┴─ add ── t ── multiply 2 ──> c        t vanishes: one loop, two loads, one store
def test_a_chain_is_one_loop_without_its_temporary() -> None:
    a, b, t, c = (Array(i, (10, 6)) for i in range(4))
    found = made([task("add", [a, b], t), task("multiply", [t, 2.0], c)], {2})
    assert kinds(found) == [["load", "load", "add", "scalar", "multiply", "store"]]
    assert found.vanished == {2}
    assert found.arguments == ((0, 0), (0, 1), (1, 1))


def test_a_live_result_is_stored_and_still_forwarded() -> None:
    a, b, t, c = (Array(i, (10, 6)) for i in range(4))
    found = made([task("add", [a, b], t), task("multiply", [t, 2.0], c)], set())
    assert kinds(found) == [["load", "load", "add", "scalar", "multiply", "store", "store"]]


#   centre ── add ── work ── copy ──> centre      element-wise the copy meets the shifted read: two loops
def test_stencil_and_its_write_back_are_two_loops() -> None:
    grid, work = Array(0, (10, 6)), Array(1, (8, 4))
    centre, north = grid.part(7, (8, 4)), grid.part(1, (8, 4))
    found = made([task("add", [centre, north], work), task("copy", [work], centre)], {1})
    assert kinds(found) == [["load", "load", "add", "store"], ["load", "store"]]
    assert found.vanished == frozenset(), "work is read by another loop: it needs memory"


def test_disjoint_rows_share_a_loop() -> None:
    grid = Array(0, (10, 6))
    found = made([task("copy", [grid.part(6, (1, 6))], grid.part(0, (1, 6))),
                  task("copy", [grid.part(48, (1, 6))], grid.part(54, (1, 6)))], set())
    assert len(found.body.loops) == 1


def test_independent_work_joins_an_earlier_loop() -> None:
    a, b, c, d = (Array(i, (10, 6)) for i in range(4))
    small = Array(4, (3,))
    found = made([task("sqrt", [a], b), task("negative", [small], small), task("sqrt", [c], d)], set())
    assert [len(loop.ops) for loop in found.body.loops] == [6, 3]


def test_work_does_not_overtake_what_it_depends_on() -> None:
    a, b = Array(0, (10, 6)), Array(1, (10, 6))
    row = b.part(0, (1, 6))
    found = made([task("sqrt", [a], b), task("copy", [1.0], row), task("sqrt", [b], a)], set())
    assert len(found.body.loops) == 3


def test_an_overwritten_store_is_written_once() -> None:
    a, b = Array(0, (10, 6)), Array(1, (10, 6))
    found = made([task("sqrt", [a], b), task("negative", [b], b)], set())
    assert kinds(found) == [["load", "sqrt", "negative", "store"]]


def test_a_value_read_before_an_update_is_the_old_one() -> None:
    """c = a + 0; a = a * 2 in place; d = c + a: the first load of a is shared, the update is forwarded."""
    a, c, d = (Array(i, (10,)) for i in range(3))
    found = made([task("add", [a, 0.0], c), task("multiply", [a, 2.0], a), task("add", [c, a], d)], {1})
    ops = found.body.loops[0].ops
    loads = [i for i, op in enumerate(ops) if op.kind == "load"]
    assert len(loads) == 1
    last = next(op for op in reversed(ops) if op.kind == "add")
    assert {ops[k].kind for k in last.args} == {"add", "multiply"}


def test_equal_expressions_are_computed_once() -> None:
    a, b, c = (Array(i, (10,)) for i in range(3))
    found = made([task("sqrt", [a], b), task("sqrt", [a], c)], set())
    assert kinds(found) == [["load", "sqrt", "store", "store"]]


def test_dead_work_is_not_done() -> None:
    a, b = Array(0, (10,)), Array(1, (10,))
    assert made([task("sqrt", [a], b)], {1}).body.loops == ()


def test_names_sizes_and_values_do_not_matter() -> None:
    def build(first: int, n: int, value: float) -> Composition:
        a, b, t, c = (Array(first + i, (n, 6)) for i in range(4))
        return made([task("add", [a, b], t, 2), task("multiply", [t, value], c, 2)], {first + 2})

    assert build(0, 10, 2.0) == build(50, 400, 3.0)


def scaled(*values: tuple[str, object]) -> list[IndexTask]:
    """One task for each scalar, given as (dtype, value)."""
    a = Array(0, (10,))
    tasks = [task("multiply", [a, 0.0], Array(1 + k, (10,))) for k in range(len(values))]
    return [t._replace(scalars=(Scalar(1, *value),)) for t, value in zip(tasks, values, strict=True)]


def test_scalars_are_alike_if_their_bits_are() -> None:
    one, zero, nan = ("float64", 1.0), ("float64", 0.0), ("float64", math.nan)
    many = [one, ("int64", 1), ("bool", True), ("float32", 1.0), ("complex128", 1 + 0j), zero,
            ("float64", -0.0), nan, ("float64", -math.nan), ("complex128", complex(1, -0.0))]
    assert alike(scaled(*many)) == {}
    assert alike(scaled(*many, *many)) == {(len(many) + k, 0): (k, 0) for k in range(len(many))}


def test_what_was_different_once_is_not_compared_again() -> None:
    """Three of one kind fall into two; those that were of different kinds stay so, equal or not."""
    def window(*values: float) -> list[IndexTask]:
        return scaled(*(("float64", v) for v in values))

    first = alike(window(1.0, 1.0, 1.0, 2.0, 2.0))
    assert first == {(1, 0): (0, 0), (2, 0): (0, 0), (4, 0): (3, 0)}
    second = alike(window(3.0, 2.0, 2.0, 2.0, 2.0), first)
    assert second == {(2, 0): (1, 0), (4, 0): (3, 0)}
    assert alike(window(5.0, 5.0, 5.0, 5.0, 5.0), second) == second
    assert alike(window(1.0, 2.0, 3.0, 4.0, 5.0), second) == {}


def test_equal_scalars_are_one_and_share_what_is_computed_with_them() -> None:
    tasks = scaled(("float64", 2.0), ("float64", 3.0), ("float64", 2.0))
    found = compose(tasks, (), alike(tasks))
    assert found.scalars == ((0, 0), (1, 0)) and found.body.scalars == ("float64", "float64")
    assert kinds(found)[0].count("multiply") == 2
    assert kinds(made(tasks, set()))[0].count("multiply") == 3
    assert len(made(tasks, set()).scalars) == 3


def test_a_plan_holds_as_long_as_its_equal_scalars_are_equal() -> None:
    def plan_of(tasks: list[IndexTask]) -> Plan:
        equal = alike(tasks)
        return Plan(compose(tasks, (), equal), None, tasks, (), "", str, equal)

    def window(*values: float) -> list[IndexTask]:
        return scaled(*(("float64", v) for v in values))

    def holds(plan: Plan, *values: float) -> bool:
        return plan.holds([recorded(task, template(task)) for task in window(*values)])

    plan = plan_of(window(0.0, 1.0, 0.0))
    assert holds(plan, 5.0, 1.0, 5.0) and holds(plan, math.nan, 1.0, math.nan)
    assert not holds(plan, 0.0, 1.0, -0.0) and not holds(plan, 0.0, 1.0, 1.0)
    assert holds(plan_of(window(1.0, 2.0, 3.0)), 1.0, 1.0, 1.0)


def test_points_are_part_of_the_body() -> None:
    a, b = Array(0, (10, 6)), Array(1, (10, 6))
    assert made([task("sqrt", [a], b, 2)], set()).body != made([task("sqrt", [a], b)], set()).body


def test_transposed_operands_turn_the_loops() -> None:
    one = task("sqrt", [Array(0, (10, 6)).turned()], Array(1, (10, 6)).turned())
    assert made([one], set()).body.loops[0].order == (1, 0)


def test_literals_are_told_apart_by_their_bits() -> None:
    builder = Builder((), (), ())
    for value in (0.0, -0.0, float("nan"), float("nan"), 0.0):
        builder.const(value, "float64")
    zero, minus, nan, again, same = builder.ops
    assert zero == same and hash(zero) == hash(same) and nan == again
    assert zero != minus and len({zero, minus, nan}) == 3
