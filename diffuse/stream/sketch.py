"""Sketches: finds the edge of a group for a task with new extents, without partitions and canonical rows.

A program whose arrays shrink, grow or move has new templates in every turn, and so new trails, but few
nodes (memo.py).  The row of a sketch says as much as the canonical row of the task (fusion/canonical.py)
after the rows before it: at one node, tasks with equal rows of sketches have equal canonical rows.  It takes
a quarter of the time, because it is made of what templates of one kind share (ir/kinds.py), and of
comparisons of a few numbers.

What a canonical row, and with it fusion, temporaries and the kernel, takes from extents and offsets, and
where it is in the row of a sketch:

* the launch domain and the splits: chosen anew for each task, by `chosen_for`; the row has the dimensions
  that are cut, whether there are several points, and whether the domain is that of the first task;
* which iteration spaces are equal: numbered by shape and splits;
* which views of a store are equal: numbered by frame, map, box and cuts, in which equal views agree;
* what two views of a store, one of them written, have in common: `_relation`, from boxes and cuts;
* whether a frame is the store's first one: compared;
* whether a view covers its store, the stride classes of its dimensions, loops over short dimensions,
  epilogues, and whether a reduction is complete within a point: all by the kind, which contains extents up
  to 128.

Left to the full analysis, because more of it depends on extents or on other tasks: views without a form,
tasks that were submitted with a decomposition, host functions, views of steps other than 1 beside written
ones of their store, small elementwise tasks that are cut like stores of earlier ones (cuts.py), groups of
regions, and ranks that learn how to cut arrays (shapes.py).

What a launch takes from extents is chosen when a plan is replayed (replay.py): pieces, partials, work.  The
memory that a group may hold is counted anew for each trail.  Whether a plan stores its results without the
cache (streaming.py) is decided once, as for all windows of one canonical form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from diffuse.ir import ONE, Decomposition, Point, Privilege, Split, volume
from diffuse.ir.kinds import Cuts, form, kind
from diffuse.ir.template import VARIANTS, Recorded, Template, Use
from diffuse.ir.view import View
from diffuse.settings import config
from diffuse.stream.cuts import movable
from diffuse.stream.decompose import chosen_for, flagged, processors_of
from diffuse.stream.memo import Later, links

if TYPE_CHECKING:
    from diffuse.runtime.base import Runtime
    from diffuse.stream.group import Group

READ = Privilege.READ
SAME, ALIGNED, ALIAS, APART = range(4)
"""The relations of `diffuse.ir.alias`."""
Place = tuple[View, tuple[tuple[int, int], ...], Cuts, Point, str, bool]
"""A view of a store, as a task that is cut in some way sees it: the view, its box (`Form.bounds`), its cuts,
frame and element type, and whether its steps are 1.  Named tuples would take twice as long."""


def _relation(place: Place, other: Place, domain: Point, several: bool) -> int | None:
    """The relation of two views on a launch domain, as `ir.alias.relation` finds it; None if that has to
    compare steps.  `several`: the domain has several points."""
    if place is other:
        if not several:
            return SAME
        cut = [launch for _, launch, _ in place[2]]
        return SAME if all([n <= 1 or d in cut for d, n in enumerate(domain)]) else ALIAS
    _, bounds, cuts, frame, dtype, plain = place
    _, others, other_cuts, other_frame, other_dtype, other_plain = other
    if frame != other_frame or dtype != other_dtype:
        return ALIAS if several else ALIGNED
    if not (plain and other_plain):
        return None
    for (low, high), (below, above) in zip(bounds, others, strict=True):
        if high <= below or above <= low:
            return APART
    if several:
        cut = [entry[1] for entry in cuts
               if entry in other_cuts and bounds[entry[0]][0] == others[entry[0]][0]]
        for d, n in enumerate(domain):
            if n > 1 and d not in cut:
                return ALIAS
    return ALIGNED


Slot = tuple[list[Place], dict[int, None]]
"""The views of one store so far, and which of them are written."""


def uses_of(row: list[Any], slots: dict[int, Slot], uses: Sequence[Use], numbers: Sequence[int],
            splits: tuple[Split, ...], domain: Point, several: bool) -> bool:
    """Append to a row what it says of the uses of a task, and to the slots of a group the views of the task;
    False if the task has no row.  `numbers` are the slots of its stores, `splits` those that cut its space
    into several points."""
    for use, number in zip(uses, numbers, strict=True):
        entry = _use(slots, number, use, splits, domain, several)
        if entry is None:
            return False
        row.append(entry)
    return True


def _use(slots: dict[int, Slot], number: int, use: Use, splits: tuple[Split, ...], domain: Point,
         several: bool) -> tuple[Any, ...] | None:
    """The description of one use of a store in the row of a task; None if the view has no form."""
    frame, dtype, view, privilege, *_ = use
    found = view.form or form(view)
    if found is None:
        return None
    read, bounds, cuts = privilege is READ, found.bounds, found.cuts(splits) if splits else ()
    slot = slots.get(number)
    if slot is None:
        slot = slots[number] = [(view, bounds, cuts, frame, dtype, found.plain)], {}
        if read:
            return number, 0, True
    places, written = slot
    for known, place in enumerate(places):
        if (place[1] == bounds and place[2] == cuts and place[0] == view and place[3] == frame
                and place[4] == dtype):
            if read or known in written:
                return number, known
            break
    else:
        known = len(places)
        place = view, bounds, cuts, frame, dtype, found.plain
        places.append(place)
    first = known == 0 or (frame == places[0][3] and dtype == places[0][4])
    if read and not written:
        return number, known, first
    if not read:
        written[known] = None
    entry: list[Any] = [number, known, first]
    for k in written if read else range(len(places)):
        relation = _relation(place, places[k], domain, several)
        if relation is None:
            return None
        if relation != APART:
            entry += (k, relation)
    return tuple(entry)


Finder = Callable[[list[Any], dict[int, Slot], Sequence[Use], Sequence[int], tuple[Split, ...], Point, bool],
                  bool]
finder: Finder = uses_of
"""`uses_of`, or the same in C."""


def connect(found: Finder) -> None:
    """Take compiled code in place of `uses_of`."""
    global finder
    finder = found


class Sketch:
    """The spaces and views of a growing group.  Asking for the row of a task appends the task."""

    __slots__ = ("count", "several", "_broken", "_domain", "_spaces", "_slots")

    def __init__(self) -> None:
        self.count = 0
        """The number of tasks."""
        self.several = False
        """Has one of the tasks several points?"""
        self._broken = False
        """Has one of the tasks no row?  Then no later one has."""
        self._domain: Point = ()
        self._spaces: dict[tuple[Point, tuple[Split, ...]], int] = {}
        self._slots: dict[int, Slot] = {}

    def fail(self) -> None:
        """Append a task that has no row."""
        self.count += 1
        self._broken = True

    def catch_up(self, templates: Sequence[Template | Later], recorded: Sequence[Recorded],
                 slots: dict[int, int]) -> None:
        """Append the tasks that are missing, which are the last ones of a group."""
        for one, task in zip(templates, recorded, strict=True):
            chosen = one.decomposition
            if chosen is None or task[0].decomposition is not None:
                self.fail()
            else:
                self.row(None, task[0], chosen, task[1], slots)

    def row(self, kind: Any, template: Template, decomposition: Decomposition, stores: Sequence[int],
            slots: dict[int, int]) -> tuple[Any, ...] | None:
        """Append a task; its row, or None if it has none.  `slots` are the numbers of its stores."""
        self.count += 1
        if self._broken:
            return None
        domain, splits, *_ = decomposition
        number = self._spaces.setdefault((template.shape, splits), len(self._spaces))
        several = len(domain) != 1 or domain[0] > 1
        if several:
            several = volume(domain) > 1
            self.several = self.several or several
        if not self._domain:
            self._domain = domain
        row: list[Any] = [kind, number, several, domain == self._domain]
        for axis, _, begin in splits:
            if begin is not None:
                self._broken = True
                return None
            row.append(axis)
        if not finder(row, self._slots, template.uses, [slots[store] for store in stores],
                      splits if several else (), domain, several):
            self._broken = True
            return None
        return tuple(row)


def sketched(group: Group, recorded: Recorded, runtime: Runtime) -> tuple[Any, Decomposition]:
    """Append a task to the sketch of a group: its row there and its decomposition; None and any if it has no
    row."""
    template = recorded[0]
    known = kind(template)
    sketch = group.sketch = group.sketch or Sketch()
    missing = len(group.recorded) - sketch.count
    if missing < 0:  # it was appended, and has no row
        return None, ONE
    if missing:
        sketch.catch_up(links(group.trail.templates, missing), group.recorded[-missing:], group.slots)
    if known is None:
        sketch.fail()
        return None, ONE
    processors = processors_of(runtime, template)
    key = group.trail.beside, processors, config.min_chunk
    found = template.alike.get(key)
    if found is None:
        if len(template.alike) >= VARIANTS:
            template.alike.clear()
        found = template.alike[key] = chosen_for(template, *key, None)
    if runtime.addressed and movable(template) and (sketch.several or found.domain != ONE.domain):
        sketch.fail()
        return None, ONE
    found = flagged(found, not runtime.addressed, runtime.completes)
    return sketch.row(known, template, found, recorded[1], group.slots), found
