"""The decisions of one analysis, in terms of slots rather than stores, ready to be replayed.

A plan belongs to a canonical prefix and its liveness bits.  It names no store: a replay (replay.py) looks up
the stores, views, extents and scalars of the tasks at hand and hands their values to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import copysign, prod
from types import MappingProxyType
from typing import Any

from diffuse.bounded import Bounded
from diffuse.ir import Access, IndexTask, Privilege, covers
from diffuse.ir.template import Recorded
from diffuse.kernels.body import abi
from diffuse.kernels.body.compose import Composition, Source, bits
from diffuse.kernels.body.expr import Body, Loop
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.build.compiler import Kernel, compiler
from diffuse.observe import trace
from diffuse.runtime.base import CodeUse, Layout
from diffuse.service.patience import patience
from diffuse.stream.blocking import Tasks
from diffuse.stream.layers import Layers
from diffuse.stream.memo import Chain, decomposed, links

WHOLE = frozenset(("reduce", "scan", "index", "nth", "scatter"))
"""Kinds of ops that depend on the position of a row among all rows."""
MOST_LAYOUTS = 256
"""The most layouts that one plan keeps."""


TIMES = {"power": 64, "float_power": 64, "logaddexp": 80, "logaddexp2": 80, "floor_divide": 48,
         "remainder": 32, "arctan2": 32}
"""The times of these operations in additions, as measured on arrays in cache.  Their costs, which reflect the
size of their code, are lower."""
WRITES = 8
"""The time of a write at an index, in additions."""


class Plan:
    """One fused task: its kernel, where its values come from, and how often it was replayed."""

    __slots__ = ("composition", "kernel", "reason", "_text", "tasks", "sites", "launches", "where", "loops",
                 "vanished", "operations", "rowwise", "stored", "donations", "shared", "layouts", "equal",
                 "used", "places", "telling", "layers", "skeleton", "apart", "_writes",
                 "_costs", "_folds", "_partials")

    def __init__(self, composition: Composition, kernel: Kernel | None, tasks: Sequence[IndexTask],
                 live: Container[int], reason: str, text: Callable[[], str],
                 equal: Mapping[Source, Source] = MappingProxyType({}), gone: Container[int] = (),
                 layers: Layers = ()) -> None:
        self.composition = composition
        self.kernel = kernel
        """None when every result is dead: nothing runs."""
        self.reason = reason
        """The reason why the prefix ended here."""
        self._text: Callable[[], str] | str = text
        self.layers = layers
        """The origins of the composed tasks, if the group was divided: `composition` has their numbers."""
        whole = [task for number, task in enumerate(tasks) if not layers or layers[number].place <= 0]
        self.tasks = len(whole)
        self.operations = tuple(t.operation for t in whole)
        self.where = tuple(str(t.where) for t in whole)
        self.sites: dict[Any, Any] = {}
        """The places where it was recorded: the lines of its first and last tasks, for the first few
        places."""
        self.launches = 0
        self.used = 0
        """The time of its last run, counted in launches of all plans."""
        self.places: list[tuple[dict[Any, Any], Any]] = []
        """The tables of nodes that refer to the plan, each with its key there (memo.py)."""
        self.loops = len(composition.body.loops)
        self.rowwise = rowwise(composition.body) and not layers
        self.stored = stored(composition)
        """The accesses of the stores that it writes: (task, access)."""
        self.vanished = len(composition.vanished)
        self.donations = _donations(composition, tasks, live)
        """(input, output) pairs, each (task, access): the output may take over the input's memory, where
        their views are `congruent`."""
        self.shared = _shared(composition, tasks, gone)
        """(temporary, output) pairs, each (task, access): the temporary may use the output's memory, where
        their views are `congruent`."""
        self.equal = equal
        """The scalars that its kernel merges, from `compose.alike`, by the numbers of the group's tasks."""
        self.layouts: dict[tuple[object, ...], Layout] = Bounded(MOST_LAYOUTS)
        """For runtimes that place memory themselves (layout.py): by the views and extents of the tasks."""
        self._writes = tuple([t for t, task in enumerate(tasks) if task.operation.startswith("scatter")])
        """The numbers of the tasks that write at indices."""
        self.telling = frozenset((0, *composition.spaces, *[t for t, _ in composition.arguments],
                                  *self._writes))
        """The numbers of the tasks that determine a launch: the first one, for the launch domain, those that
        provide the kernel's iteration spaces and arguments, and those whose work depends on a number.  In a
        long group these are few."""
        self._partials: dict[tuple[int, ...], tuple[int, ...]] = Bounded(MOST_LAYOUTS)
        self._costs = tuple([(composition.spaces[loop.space], sum([
            TIMES.get(op.kind) or (TABLE[op.kind].cost if op.kind in TABLE else 1) for op in loop.ops]))
            for loop in composition.body.loops])
        """For each loop a task with its iteration space, and its operations, weighted by their times."""
        self._folds = bool(abi.reductions(composition.body))
        self.skeleton: Any = None
        """What all of its replays have in common (replay.py); None until there is one."""
        self.apart: dict[tuple[Any, ...], None] = Bounded(MOST_LAYOUTS)
        """Following plans, each with the forms of all views, that cannot run as one pass with this one,
        whatever the extents are (pairs.py)."""

    def origin(self, number: int) -> int:
        """The number of the group's task that a composed task is, or is a layer of."""
        return self.layers[number].task if self.layers else number

    @property
    def text(self) -> str:
        """The tasks of which the plan was made, one line per task; composed on demand."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    @property
    def title(self) -> str:
        """Its operations and the lines of the program that called them, for profiles."""
        lines = list(dict.fromkeys(self.where))
        span = lines[0] if len(lines) == 1 else f"{lines[0]} to {lines[-1]}"
        return f"{' '.join(self.operations)} [{span}]"

    def holds(self, recorded: Sequence[Recorded]) -> bool:
        """Are the scalars that its kernel merges still equal?"""
        for (t, k), (u, m) in self.equal.items():
            x, y = recorded[t][2][k], recorded[u][2][m]
            if x is y or (x.__class__ is float is y.__class__ and x == y
                          and (x or copysign(1.0, x) == copysign(1.0, y))):  # the common values first: no NaN
                continue
            if bits(x, recorded[t][0].numbers[k][1]) != bits(y, recorded[u][0].numbers[m][1]):
                return False
        return True

    def _written(self, tasks: Tasks) -> int:
        """The work of writes at indices: for each index, whatever the extents of the target."""
        return sum([WRITES * int(tasks[t].scalars[0].value) for t in self._writes])

    def work(self, tasks: Tasks) -> int:
        """Operations times elements, for the current extents."""
        composition = self.composition
        return self._written(tasks) + sum(len(loop.ops) * prod(tasks[composition.spaces[loop.space]].shape)
                                    for loop in composition.body.loops)

    def cost(self, tasks: Tasks) -> int:
        """Operations weighted by their times, times elements, for the current extents."""
        return self._written(tasks) + sum([times * prod(tasks[t].shape) for t, times in self._costs])

    def await_code(self, code: CodeUse, tasks: Tasks) -> None:
        """Request the machine code of the kernel and wait for it: as long as it takes if the runtime needs
        it, else as long as `patience` allows for these tasks; then wait for the routines that the interpreter
        needs.
        Interrupts may end these waits, but not the interpreter in the middle of a task."""
        kernel = self.kernel
        assert kernel is not None
        compiler.request(kernel)  # again: `compile` may have been off when the plan was made
        if code is CodeUse.NEEDED:
            kernel.wait(None)
            if kernel.native is None:
                kernel.prepare()
        elif code is CodeUse.PREFERRED:
            work = self.work(tasks)
            seconds = patience(work, kernel.operations, self.loops, kernel.interpretable(), kernel.waited,
                               kernel.delay())
            if seconds != 0:
                kernel.wait(seconds)
                kernel.waited += seconds or 0.0
            if kernel.native is None:
                kernel.missed(work)
                kernel.prepare()

    def partial_bytes(self, tasks: Tasks) -> tuple[int, ...]:
        """Bytes of the partials buffer of each reduction, for the current extents."""
        if not self._folds:
            return ()
        composition = self.composition
        key = tuple(n for t in composition.spaces for n in tasks[t].shape)
        found = self._partials.get(key)
        if found is None:
            found = self._partials[key] = partial_bytes(composition, tasks)
        return found


def partial_bytes(composition: Composition, tasks: Tasks) -> tuple[int, ...]:
    """Bytes of the partials buffer of each reduction of a composition of these tasks."""
    body = composition.body
    return tuple([abi.partial_bytes(body, r, tasks[composition.spaces[body.loops[r.loop].space]].shape)
                  for r in abi.reductions(body)])


def described(chain: Chain, recorded: Sequence[Recorded]) -> str:
    """The tasks of a group as text, one line per task, from its templates and recorded operations, which take
    less memory than its index tasks."""
    from diffuse.ir.text import window_text

    return window_text([decomposed(template).task(one) for template, one
                        in zip(links(chain, len(recorded)), recorded, strict=True)])


def stored(composition: Composition) -> tuple[tuple[int, int], ...]:
    """The accesses of the stores that a composition writes: (task, access)."""
    arguments = zip(composition.arguments, composition.body.arguments, strict=True)
    return tuple([source for source, a in arguments if a.privilege is not Privilege.READ])


def rowwise(body: Body) -> bool:
    """Are the kernel's loops plain, and all cut into points by rows only (pipeline.py)?"""
    return bool(body.loops) and all(
        body.spaces[loop.space].axes == (0,) and not body.spaces[loop.space].begins
        and loop.order == tuple(range(body.spaces[loop.space].rank))
        and not any(op.kind in WHOLE or (op.kind == "turn" and 0 in op.attribute[1]) for op in loop.ops)
        for loop in body.loops)


def congruent(one: Access, other: Access) -> bool:
    """Do two accesses go over two whole stores of one shape and type in the same order?  Then iterations that
    access one element of each find both at the same place, if the stores have one memory.  Plans are shared
    by tasks with other views (memo.py), so each replay asks this again."""
    return (covers(one) and covers(other) and one.map == other.map and one.store.shape == other.store.shape
            and one.store.dtype == other.store.dtype)


def _donations(composition: Composition, tasks: Sequence[IndexTask], live: Container[int]
               ) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Pairs of a dead input and an output that is written just where the input is read.

    If both access whole stores of one type in the same order, and the body has one loop, overwriting the
    input avoids reading the output's memory into the cache.  Machine code loads before it stores; the
    interpreter, which runs in its place while the thread pool's code is missing, writes at once, so that no
    op may use what was loaded after the one whose value is stored.
    """
    body = composition.body
    if len(body.loops) != 1 or any(op.kind == "reduce" for op in body.loops[0].ops):
        return ()
    found, taken = [], set()
    others = {a for op in body.loops[0].ops if op.kind not in ("load", "store") for a in op.arguments}
    accesses = [tasks[t].accesses[k] for t, k in composition.arguments]
    slots = [a.slot for a in body.arguments]
    for i, out in enumerate(body.arguments):
        if out.privilege is not Privilege.WRITE or slots.count(out.slot) != 1:
            continue
        for j, given in enumerate(body.arguments):
            if (given.privilege is Privilege.READ and slots.count(given.slot) == 1 and j not in taken
                    and accesses[j].store.id not in live and given.dtype == out.dtype
                    and congruent(accesses[j], accesses[i]) and not others & {i, j}
                    and _last_used(body.loops[0], j, i)):
                taken.add(j)
                found.append((composition.arguments[j], composition.arguments[i]))
                break
    return tuple(found)


def _shared(composition: Composition, tasks: Sequence[IndexTask], gone: Container[int]
            ) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Pairs of a temporary that needs memory, among the stores `gone`, and an output that is written where
    the temporary is read for the last time.

    Before that loop nothing accesses the output: if both share memory, each point touches half as much of it.
    In that loop no op uses what was loaded after the op whose value is stored, which the interpreter writes
    at once.  Each element of a temporary belongs to one point, which also writes the output there.
    """
    body = composition.body
    touches: dict[int, list[tuple[int, str, int]]] = {}
    for number, loop in enumerate(body.loops[:len(body.loops) - body.epilogue]):
        for op in loop.ops:
            for argument in op.arguments:
                touches.setdefault(body.arguments[argument].slot, []).append((number, op.kind, argument))
    late = {body.arguments[a].slot for loop in body.loops[len(body.loops) - body.epilogue:]
            for op in loop.ops for a in op.arguments}
    ends: dict[Any, list[tuple[int, int]]] = {}
    outputs = []
    for slot, found in touches.items():
        end, kind, argument = found[-1]
        access = _access(composition, tasks, argument)
        place = end, access.store.shape, access.store.dtype, access.map
        in_last = [touch for touch in found if touch[0] == end]
        if slot in late or not covers(access) or any(a != argument or k != kind for _, k, a in in_last):
            continue
        if access.store.id in gone:
            if kind == "load" and found[0][0] < end:
                ends.setdefault(place, []).append(composition.arguments[argument])
        elif kind == "store" and len(found) == 1:
            outputs.append((place, composition.arguments[argument]))
    pairs = []
    for place, output in outputs:
        loop = body.loops[place[0]]
        for source in ends.get(place, ()):
            if _last_used(loop, composition.arguments.index(source), composition.arguments.index(output)):
                ends[place].remove(source)
                pairs.append((source, output))
                break
    return tuple(pairs)


def _last_used(loop: Loop, source: int, output: int) -> bool:
    """Does a loop compute what it stores to `output` no earlier than its last use of loads from `source`?"""
    loads = {i for i, op in enumerate(loop.ops) if op.kind == "load" and op.attribute == source}
    stored = [op.args[0] for op in loop.ops if op.kind == "store" and op.attribute == output]
    uses = [i for i, op in enumerate(loop.ops) if op.kind != "store" and not loads.isdisjoint(op.args)]
    kept = [op for op in loop.ops if op.kind == "store" and op.attribute != output
            and not loads.isdisjoint(op.args)]
    return not kept and max(uses, default=-1) <= stored[0]


def _access(composition: Composition, tasks: Sequence[IndexTask], argument: int) -> Access:
    task, position = composition.arguments[argument]
    return tasks[task].accesses[position]


def kept(plans: list[Plan]) -> list[Plan]:
    """Drop the least recently used quarter of the plans, but not the newest one, which has not run yet;
    returns the others."""
    *older, newest = plans
    gone = set(sorted(older, key=lambda plan: plan.used)[:len(older) // 4])
    for plan in gone:
        for places, key in plan.places:
            if places.get(key) is plan:  # another plan may have replaced it
                del places[key]
    trace.count("forgotten", len(gone))
    return [plan for plan in older if plan not in gone] + [newest]
