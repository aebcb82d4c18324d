"""Planned regions: parts of a program whose operations are recorded as one window and partitioned by search.

The first time that a program enters a region its tasks are kept back until the region ends, or a value is
needed.  Then the search (windows.py) chooses how ranks divide them, and they are added to the window with
these decompositions.  From then on tasks go to the window one by one along the trails that were made, as
tasks outside of regions do, and nothing is analysed; a task that was not there before is kept back with all
that follow it.  If the program enters the region again with arrays that the region itself made, as a loop
does, the search runs once more and gives such an array one layout at the beginning and at the end.

Where the search finds nothing better than the stream's own choice, the region steps aside: its tasks are
recorded as if it were not there, and the window does not end with it.  When the program leaves it, they are
compared with those of the turn before.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import update_wrapper
from operator import index
from typing import Any, SupportsIndex

from diffuse.bounded import Bounded
from diffuse.ir import ONE
from diffuse.ir.template import Recorded, Template
from diffuse.movement.agreed import machine
from diffuse.observe import trace
from diffuse.planning.windows import RegionPlan, Search
from diffuse.runtime.independent import Independent
from diffuse.stream.engine import current
from diffuse.stream.group import Group
from diffuse.stream.losses import lose
from diffuse.stream.memo import Trail
from diffuse.stream.schedule import schedule
from diffuse.stream.window import Window

HELD = 1 << 62
"""The number of a group that uses a store, while the task that does is kept back: larger than any other."""
MOST_FORMS = 64
"""Answers that one region remembers."""
MOST_PATHS = 4
"""Ways through the memo that one region remembers its tasks by."""
MORE_CALM = 4
"""How many times longer a region waits before it steps aside again, each time that other tasks came."""

Form = tuple[Any, ...]


class Planned:
    """The state of one region of the program: the plans chosen for it, and the tasks recorded in the current
    turn."""

    def __init__(self, memory: int | None, site: object = None) -> None:
        self.memory, self.site = memory, site
        self.by_hand: schedule | None = None
        """The grid that the program names within the region, for now."""
        self.answers: dict[Form, tuple[set[tuple[int, int]], RegionPlan]] = Bounded(MOST_FORMS)
        """By canonical form: the arrays that come back, and what was chosen."""
        self.track: list[tuple[Template, Template | None]] = []
        """The tasks as they came last, and how they are cut."""
        self.answers_last: list[RegionPlan] = []
        """What was chosen for the tasks of `track`."""
        self._starts: list[int] = []
        """The number of the first task of each of these answers."""
        self.follows = False
        """Do tasks go to the window one by one, as long as they come as last time?"""
        self._turns = self._first = self._fresh = 0
        """How often the program came here, the number of the last group before it did, and the turn in which
        it last did something for the first time."""
        self._looks: tuple[int, ...] = ()
        """When tasks are kept back again, to see which arrays come back."""
        self._held: deque[tuple[Recorded, schedule | None]] = deque()
        self._seen: set[int] = set()
        self._gone: dict[int, int] = {}
        """The stores of tasks that are kept back: those that the program has, and those that it let go of,
        with the number of the tasks before."""
        self._left: dict[Form, dict[int, int]] = {}
        """By form the stores that were there after it, with the numbers of their arrays."""
        self._placing = False
        self._name: object = object()
        """Trails of the region begin under this name, another one when it is planned anew."""
        self._calm, self._patience = 0, 1
        """How many turns in a row recorded the same tasks, and after how many the region steps aside."""
        self._entered: tuple[Group, int, Trail] | None = None
        """While the region stands aside: the group that was open when the program came, its number of tasks
        then, and its trail."""
        self._paths: deque[tuple[Trail, ...]] = deque(maxlen=MOST_PATHS)
        """Trails along which the tasks of `track` were recorded while the region stood aside."""

    # -- what the window asks ------------------------------------------------------------------------------

    @property
    def asks(self) -> Callable[[Recorded], None] | None:
        return None if self.by_hand is None else self.by_hand.asks

    def start(self, before: Group) -> Trail:
        memo = current().window.memo
        return memo.begin((self._name, before.trail) if before.recorded or before.behind else self._name)

    def holds(self, recorded: Recorded) -> bool:
        if self._placing:
            return False
        engine = current()
        if not self._held:
            group = engine.window.open
            number = group.behind + len(group.recorded)
            if self.follows and number < len(self.track) and self.track[number][0] is recorded[0]:
                return False
            engine.window.close("the region goes on in another way than before")
            self.follows = False
            kept = sum([start < number for start in self._starts])
            del self.track[number:], self._starts[kept:], self.answers_last[kept:]
        users = engine.stores.users
        for store in recorded[1]:
            users[store] = HELD
        for store in [store for store in self._seen if store not in engine.stores.alive]:
            self._gone[store] = len(self._held)
            self._seen.discard(store)
        self._seen.update(recorded[1])
        self._held.append((recorded, self.by_hand))
        return True

    def chosen(self, number: int, recorded: Recorded) -> Template | None:
        if number < len(self.track) and self.track[number][0] is recorded[0]:
            return self.track[number][1]
        return None

    def settle(self) -> None:
        if not self._held or self._placing:
            return
        window = current().window
        tasks = [recorded for recorded, _ in self._held]
        self._placing = True
        gone, self._gone = self._gone, {}
        self._seen.clear()
        try:
            self.track += zip([task[0] for task in tasks], self._decided(tasks, gone), strict=True)
        except Exception as error:
            self._lose(tasks, error)
            raise
        finally:
            self._placing = False
        self._place(window)

    def _place(self, window: Any) -> None:
        """Add the tasks that are kept back to the window."""
        self._placing = True
        try:
            while self._held:
                window.held -= 1
                window.place(self._held[0][0])
                self._held.popleft()
        finally:
            self._placing = False

    def _lose(self, tasks: list[Recorded], error: Exception) -> None:
        """Discard tasks that are kept back: reading one of their results raises the error."""
        engine = current()
        stores = engine.stores
        engine.window.held -= len(self._held)
        self._held.clear()
        self.track.clear()
        lose(stores, [task[0].under(ONE).task(task) for task in tasks], error)
        for store in {store for task in tasks for store in task[1]}:
            stores.users[store] = stores.taken
            if not stores.seen(store):
                stores.release(store)

    def mend(self) -> None:
        window = current().window
        last = [*window.closed, window.open][-1].recorded if window.closed or window.open.recorded else []
        if self._held and last and last[-1] is self._held[0][0]:
            self._held.popleft()
        self.follows = False
        self.track.clear()
        window.held += len(self._held)
        self._place(window)
        window.close("an exception")

    def forget(self) -> None:
        self.answers.clear()
        self._left.clear()
        self.track.clear()
        self._calm, self._patience = 0, 1
        self.follows, self._turns, self._looks = False, 0, ()

    # -- when the program comes and goes -------------------------------------------------------------------

    def begin(self) -> bool:
        """Note that the program enters the region; returns whether the region decides how tasks are cut."""
        engine = current()
        window = engine.window
        self._turns += 1
        if self._steps_aside():
            group = window.open
            self._entered, window.passed = (group, len(group.recorded), group.trail), []
            return False
        self._paths.clear()  # as the tasks of `track` may become others
        self._first = window.open.number
        self.follows = bool(self.track) and self._turns not in self._looks
        if not self.follows:
            self.track, self._starts, self.answers_last = [], [], []
            engine.flush("a planned region begins")  # where arrays lie is known then
        return True

    def end(self, before: Any, failed: bool) -> None:
        """Note that the program leaves the region, by an exception if `failed`; `before` is the region that
        decided before it."""
        engine = current()
        if self._entered is not None:
            self._compare(engine.window, failed)
            return
        group = engine.window.open
        number = group.behind + len(group.recorded)
        same = self.follows and not failed and number == len(self.track)
        self._calm = self._calm + 1 if same else 0
        engine.turn_to(before)
        self._look_ahead(engine.stores.users)

    def _look_ahead(self, users: dict[int, int]) -> None:
        """If the program uses arrays again that the region made, keep tasks back in the next turns, to find
        out which arrays these are."""
        if self._turns == self._fresh and self.memory is not None:
            self._looks = self._turns + 1, self._turns + 2, self._turns + 3
        elif self._turns == self._fresh + 1 and any([users.get(store, 0) > self._first for left in
                                                     self._left.values() for store in left]):
            self._looks = self._turns + 1, self._turns + 2

    # -- where nothing is to be decided --------------------------------------------------------------------

    def _steps_aside(self) -> bool:
        """May tasks be recorded as without the region?  They may if every choice was the stream's own, and no
        turn is left in which tasks have to be kept back."""
        return (self._calm >= self._patience and self.memory is None and bool(self.answers_last)
                and all([found.left for found in self.answers_last])
                and self._turns > max(self._fresh + 1, 0, *self._looks))

    def _compare(self, window: Window, failed: bool) -> None:
        """Compare the tasks that were recorded while the region stood aside with those of the turn before.
        If they are others, these are planned when they come again."""
        assert self._entered is not None
        entered, first, trail = self._entered
        groups = [*(window.passed or ()), window.open]
        self._entered = window.passed = None
        path = (trail, *[group.trail for group in groups])
        if failed or path in self._paths:
            return
        tasks = [recorded[0] for group in groups for recorded in group.recorded]
        if tasks[first if groups[0] is entered else 0:] == [template for template, _ in self.track]:
            self._paths.append(path)
        else:
            self._calm, self._patience = 0, self._patience * MORE_CALM

    # -- what is chosen ------------------------------------------------------------------------------------

    def _decided(self, tasks: list[Recorded], gone: dict[int, int]) -> tuple[Template | None, ...]:
        """Choose how each of these tasks is cut; `gone` are the stores that the program dropped, with the
        number of tasks before that."""
        slots: dict[int, int] = {}
        rows: list[Any] = []
        for (template, stores, values, _), hand in self._held:
            function = values[0] if values and type(values[0]) is Independent else None
            rows.append((template, tuple([slots.setdefault(store, len(slots)) for store in stores]),
                         None if function is None else function.cuts, None if hand is None else str(hand)))
        form, stores_of = tuple(rows), list(slots)
        before, known = self._left.get(form, {}), self.answers.get(form)
        links = set() if known is None else {
            (last, array) for slot, array in known[1].given
            if (last := before.get(stores_of[slot])) is not None}
        if known is None:
            self._fresh = self._turns
        if known is None or not links <= known[0] or self.memory is not None:
            window = current().window
            for task in tasks:
                window.learn(task)
            if links and window.learned is not None and window.learned.turn():
                window.memo.forget_trails()  # the loop is known: the stream, too, would cut by it now
            hands = [None if hand is None else hand.chosen(0, recorded) for recorded, hand in self._held]
            found = Search(tasks, window, hands, links, gone).solve(
                self.memory, machine(current().runtime))
            known = self.answers[form] = links, found
            self._name = object()
            window.begin()  # under the new name
            trace.count("searches")
            trace.event("plan", lambda: _told(tasks, found))
        found = known[1]
        begun = dict(found.given)
        self._left[form] = {stores_of[slot]: array for slot, array in found.last
                            if begun.get(slot) != array or array in found.written}
        self._starts.append(len(self.track))
        self.answers_last.append(found)
        return found.templates


def _told(tasks: list[Recorded], found: RegionPlan) -> str:
    lines = [f"{len(tasks)} operations were planned: {found.bytes:,.0f} bytes move, {found.default:,.0f} by "
             f"default, in {1e3 * found.seconds:.3g} ms, {1e3 * found.usual:.3g} by default, and a rank has "
             f"{found.peak:,} bytes at most"]
    return "\n".join([*lines, *[f"         {task[0].operation:16} {words}  # {task[3]}"
                                for task, words in zip(tasks, found.words, strict=True)]])


_regions: dict[Any, Planned] = Bounded(1 << 11)
"""By the place in the program where it stands, and its limit of memory.  Its code, which takes microseconds
to hash, stands there by its number, and the region keeps it alive."""


class plan(ContextDecorator):
    """Partitions the operations recorded in a `with` block by a search, for the least time on the ranks by a
    model of the machine (`diffuse machine` measures one), and never for more than without a plan::

        for _ in range(steps):
            with diffuse.plan():
                u = step(u)

    The operations of a turn are one window.  The first time, and once more when it is known what comes back,
    the search chooses how ranks share out each of them; later turns take what was chosen, or are recorded as
    if the region were not there, where the stream's own choice is the best.  `memory` is the
    most bytes that arrays may take on a rank while the region runs: its own, with all copies, and what the
    program has besides.  The results are the same as without a plan, and with one rank nothing is planned.

    A value that is read ends the window, and what follows it is planned by itself.

    Raises MemoryError, which names the least that would do, if no plan needs so little memory.
    """

    def __init__(self, *given: Any, memory: int | None = None, _site: Any = None) -> None:
        if given:
            raise TypeError(f"plan: {given[0]!r} is given without a name; write plan(memory=N) for at most N "
                            "bytes on a rank, and @diffuse.plan() or @diffuse.jit above a function")
        if memory is not None and not isinstance(memory, SupportsIndex):
            raise TypeError(f"plan: memory={memory!r}; give a whole number of bytes")
        if memory is not None and index(memory) < 1:
            raise ValueError(f"plan: memory={memory} bytes; give it at least 1")
        place = 0
        if _site is None:
            frame = sys._getframe(1)
            _site, place = frame.f_code, frame.f_lasti
        self._site, self._memory = _site, memory
        self._key = id(_site), place, memory
        self._before: list[tuple[Planned | None, Any]] = []

    def _recreate_cm(self) -> plan:
        return self  # each call of a decorated function enters once more

    def __enter__(self) -> plan:
        engine = current()
        window = engine.window
        if (engine.runtime.ranks == 1 or engine.runtime.blocks == 0 or window.region is not None
                or window.passed is not None):
            self._before.append((None, None))
            return self
        found = _regions.get(self._key)
        if found is None:
            found = _regions[self._key] = Planned(self._memory, self._site)
        self._before.append((found, engine.turn_to(found) if found.begin() else None))
        return self

    def __exit__(self, *error: object) -> None:
        entered, before = self._before.pop()
        if entered is not None:
            entered.end(before, error[0] is not None)

    def __str__(self) -> str:
        """Describe what was chosen the last time."""
        found = _regions.get(self._key)
        return "not planned" if found is None else "\n".join(
            [f"{each.bytes:,.0f} bytes in {1e3 * each.seconds:.4g} ms, {each.default:,.0f} in "
             f"{1e3 * each.usual:.4g} by default: " + ", ".join(each.words)
             for each in found.answers_last])


def jit(function: Callable[..., Any] | None = None, *, memory: int | None = None) -> Any:
    """Partition the operations that a function records by a search, as `plan` does::

        @diffuse.jit
        def step(u): ...

    The function itself runs at each call.
    """
    def wrapped(function: Any) -> Any:
        if not callable(function):
            raise TypeError(f"jit: {function!r} is no function; write @diffuse.jit above one")

        def call(*args: Any, **options: Any) -> Any:
            with region:
                return function(*args, **options)

        region = plan(memory=memory, _site=function)
        return update_wrapper(call, function)

    return wrapped if function is None else wrapped(function)
