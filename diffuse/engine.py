"""The stream: operations come in as index tasks, fused tasks go out to the runtime.

`record` names the task's points and partitions and hands it to the window.  The window is kept as groups:
each is the longest fusible prefix of what follows the group before it, found one task at a time by walking
the memo (memo.py), analysed (fusion.py) only where nobody walked before.  A closed group waits, so that the
program can let go of what it no longer needs; then its plan (plan.py) is made or replayed, stores that
somebody still sees get memory, and the kernel is launched.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from diffuse import trace
from diffuse.canonical import Numbering
from diffuse.check import check
from diffuse.floaterrors import report
from diffuse.fusion import Effects, admit
from diffuse.ir import Access, IndexTask, Point, Privilege, Relation, Scalar, Split, Store, Where, relation, volume
from diffuse.kernels import generators, loops
from diffuse.kernels.compiler import compiler
from diffuse.kernels.compose import compose
from diffuse.launch import ONE, launch
from diffuse.memo import Memo, Node
from diffuse.pipeline import Pair, header, pair
from diffuse.plan import Plan
from diffuse.pretty import window_text
from diffuse.runtime import make
from diffuse.runtime.base import Instance, Launch, Runtime
from diffuse.settings import config, watch
from diffuse.temporaries import temporaries
from diffuse.view import View

READ, WRITE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.REDUCE
FIRST_WINDOW = 64
"""Tasks held before the first one is forwarded, when the window's size is automatic."""
LARGEST_WINDOW = 2048
LOOP = 64
"""A group at least this long is closed when the stream comes back to the call that began it, so that every
turn of the user's loop makes the same groups."""
ONE_POINT = ONE[0]
DIALECT = __name__.partition(".")[0]


class Storage:
    """The application's handle of one store.  When the last reference goes, the store is not live any more."""

    __slots__ = ("store", "nbytes", "touched", "exported", "__weakref__")

    def __init__(self, store: Store, nbytes: int) -> None:
        self.store = store
        self.nbytes = nbytes
        self.touched = -1
        """The epoch of the last task on it; older than the engine's: nothing pending or running."""
        self.exported = False
        """Somebody outside sees the memory: tasks on it are run before the recording call returns."""
        _engine.alive.add(store.id)

    def __del__(self) -> None:
        _engine.dropped(self.store.id)


Operand = tuple[Storage, View]


class Group:
    """A prefix being built or waiting: its tasks, and where it stands in the memo."""

    __slots__ = ("tasks", "numbering", "node", "effects", "analysed", "first", "reason", "cut")

    def __init__(self, node: Node) -> None:
        self.tasks: list[IndexTask] = []
        self.numbering = Numbering()
        self.node = node
        self.effects = Effects()
        self.analysed = 0
        self.first: tuple[Any, ...] | None = None
        self.reason: Any = ""
        self.cut: IndexTask | None = None
        """The last task that several points share by rows."""

    def beside(self, shape: Point) -> tuple[Point, tuple[Split, ...]]:
        """The launch of a small task: cut like the large one before it when it has as many rows, so that the
        columns at a border join the interior; else one point."""
        cut = self.cut
        if cut is not None and shape and shape[0] == cut.shape[0]:
            return cut.domain, cut.splits
        return ONE


class Engine:
    """One program's stream over one runtime."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.pending: dict[int, int] = {}
        self.instances: dict[int, Instance] = {}
        self.shapes: dict[int, int] = {}
        self.lost: dict[int, MemoryError] = {}
        self._running: set[int] = set()
        """Stores of the group being forwarded: garbage collection may drop a handle at any moment, not these."""
        self.memo = Memo()
        self.plans: list[Plan] = []
        self.epoch = 0
        self._next = 0
        self._ran: set[Plan] = set()
        self._closed: deque[Group] = deque()
        self._open = Group(self.memo.root)
        self._held = 0
        self._window = FIRST_WINDOW
        self._runtime: Runtime | None = None

    # -- stores ------------------------------------------------------------------------------------------------

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            self._runtime = make(config.runtime)
        return self._runtime

    @property
    def points(self) -> int:
        """Processors of the runtime."""
        return self.runtime.points

    def create(self, shape: Point, dtype: str, itemsize: int) -> Storage:
        """A store that no task has written yet; it takes memory when one does."""
        nbytes = itemsize
        for n in shape:
            nbytes *= n
        self._next += 1
        self.shapes[self._next] = nbytes
        return Storage(Store(self._next, shape, dtype), nbytes)

    def attach(self, array: Any) -> Storage:
        """A store over the memory of a C-contiguous NumPy array, which it keeps alive."""
        storage = self.create(array.shape, array.dtype.name, array.itemsize)
        self.instances[storage.store.id] = self.runtime.attach(array)
        return storage

    def dropped(self, store: int) -> None:
        """The application's last handle of a store is gone."""
        self.alive.discard(store)
        if store not in self.pending and store not in self._running:
            self._release(store)

    def _release(self, store: int) -> None:
        self.shapes.pop(store, None)
        self.lost.pop(store, None)
        instance = self.instances.pop(store, None)
        if instance is not None:
            self.runtime.release(instance)

    def busy(self, storage: Storage) -> bool:
        """Were tasks recorded on this store since the program last waited?"""
        return storage.touched == self.epoch

    def fetch(self, storage: Storage) -> Any:
        """The store's memory as a NumPy array of bytes, with everything recorded on it done."""
        if storage.touched == self.epoch:
            self.fence()
        store = storage.store.id
        if store in self.lost:
            raise self.lost[store]
        instance = self.instances.get(store)
        if instance is None:
            instance = self.instances[store] = self.runtime.create(storage.nbytes)
        return instance.array

    # -- recording ---------------------------------------------------------------------------------------------

    def record(self, operation: str, signature: tuple[str, ...], shape: Point,
               inputs: tuple[Operand | Scalar, ...], outputs: tuple[Operand, ...],
               operator: str | None = None) -> None:
        """Add one operation to the stream.

        Views are in the iteration space `shape`; an output that overlaps an input must be the same view.
        `operator` names a reduction, whose output views leave out the dimensions that it folds.
        """
        whole: frozenset[int] = frozenset()
        leaves = -1
        if ":" in operation:
            whole = frozenset({int(operation.partition(":")[2])})
        reduced: tuple[int, ...] = ()
        if operator is not None:
            reduced = tuple(k for k in range(len(shape)) if not outputs[0][1].follows(k))
            if reduced and reduced[-1] != len(shape) - 1:
                leaves = reduced[-1]
        domain, splits = launch(shape, self.points, config.min_chunk, whole, leaves)
        if domain == ONE_POINT and operator is None and not whole and self._open.cut is not None:
            domain, splits = self._open.beside(shape)
        accesses, scalars, exported = [], [], False
        epoch = self.epoch
        for operand in inputs:
            if type(operand) is Scalar:
                scalars.append(operand)
                continue
            storage, view = operand
            store = storage.store
            if view.frame != store.shape or view.dtype != store.dtype:
                store = Store(store.id, view.frame, view.dtype)
            accesses.append(Access(store, view, view.partition(store, splits), READ))
            storage.touched = epoch
            exported = exported or storage.exported
        partial = operator is not None and splits[0].axis in reduced
        for storage, view in outputs:
            store = storage.store
            if view.frame != store.shape or view.dtype != store.dtype:
                store = Store(store.id, view.frame, view.dtype)
            accesses.append(Access(store, view, view.partition(store, splits), REDUCE, operator) if partial
                            else Access(store, view, view.partition(store, splits), WRITE))
            storage.touched = epoch
            exported = exported or storage.exported
        self.submit(IndexTask(operation, signature, shape, domain, splits, tuple(accesses), tuple(scalars), _where()))
        if exported:
            self.fence()

    def call(self, operation: str, function: Callable[..., None], inputs: tuple[Operand, ...],
             outputs: tuple[Operand, ...]) -> None:
        """Run a host function over whole arrays, in stream order: `function(*inputs, *outputs)`, NumPy arrays."""
        domain, splits = launch((), 1, 1)
        accesses = [Access(Store(s.store.id, v.frame, v.dtype), v, v.partition(s.store, splits), p)
                    for group, p in ((inputs, READ), (outputs, WRITE)) for s, v in group]
        exported = False
        for storage, _ in (*inputs, *outputs):
            storage.touched = self.epoch
            exported = exported or storage.exported
        # each view is over its own space; the largest stands for the task
        shape = max((v.shape for _, v in (*inputs, *outputs)), key=len, default=())
        self.submit(IndexTask(operation, (), shape, domain, splits, tuple(accesses),
                              (Scalar(-1, "function", function),), _where()))
        if exported:
            self.fence()

    def overlap(self, a: Operand, b: Operand) -> str:
        """Do two operands share elements: "same" view, "apart", or "overlap"?"""
        (one, view), (other, theirs) = a, b
        if one.store.id != other.store.id:
            return "apart"
        if (view is theirs or view == theirs) and view.shape == theirs.shape and view.dtype == theirs.dtype:
            return "same"
        _, splits = launch((), 1, 1)
        first, second = (Access(Store(s.store.id, v.frame, v.dtype), v, v.partition(s.store, splits), READ)
                         for s, v in (a, b))
        return "apart" if relation(first, second, (1,)) is Relation.APART else "overlap"

    def submit(self, task: IndexTask) -> None:
        """Add a task to the window: it joins the open group, or closes it and begins the next."""
        trace.counters["recorded"] += 1
        if config.check and not _opaque(task):
            check(task)
        group = self._open
        if len(group.tasks) >= LOOP and group.first == (task.operation, task.where, task.shape):
            self._close("the loop comes back to its first call")
            group = self._open
        row = group.numbering.row(task)
        edge = group.node.edges.get(row)
        if edge is None:
            edge = self._analyse(group, task, row)
        if type(edge) is not Node:
            self._close(edge)
            group = self._open
            row = group.numbering.row(task)
            edge = group.node.edges.get(row)
            if edge is None:
                edge = self._analyse(group, task, row)
        if not group.tasks:
            group.first = (task.operation, task.where, task.shape)
        if task.domain != ONE_POINT and task.splits[0].axis == 0:
            group.cut = task
        group.tasks.append(task)
        group.node = edge
        pending = self.pending
        for access in task.accesses:
            store = access.store.id
            pending[store] = pending.get(store, 0) + 1
        self._held += 1
        if self._held >= self._window or config.window != "auto":
            self._overflow()

    def _analyse(self, group: Group, task: IndexTask, row: tuple[Any, ...]) -> Any:
        """Ask the constraints about a task that nobody saw in this place before."""
        for earlier in group.tasks[group.analysed:]:
            group.effects.add(earlier)
        group.analysed = len(group.tasks)
        refusal = admit(group.effects, task, _opaque)
        if refusal is not None:
            trace.count("refusals")
            return self.memo.refused(group.node, row, refusal)
        return self.memo.joined(group.node, row)

    def _close(self, reason: Any) -> None:
        group = self._open
        if group.tasks:
            group.reason = reason
            self._closed.append(group)
            self._open = Group(self.memo.root)

    def _overflow(self) -> None:
        """The window is full: forward the oldest groups, or let it grow while everything in it fuses."""
        size = config.window
        if size != "auto":
            if self._held >= int(size):
                self.flush("the window is full")
            return
        while self._held >= self._window and (len(self._closed) > 1 or len(self._open.tasks) < self._held // 2
                                              and self._closed):
            self._forward(self._closed.popleft())
        if self._held >= self._window:
            if self._window < LARGEST_WINDOW:
                self._window *= 2
            else:
                self.flush("the window is full")

    # -- forwarding --------------------------------------------------------------------------------------------

    def flush(self, reason: str = "the program waits") -> None:
        """Forward every task that is held."""
        self._close(reason)
        while self._closed:
            self._forward(self._closed.popleft())
        if not self._open.tasks:
            self.memo.trim()
            self._open = Group(self.memo.root)

    def fence(self) -> None:
        """Forward everything and wait until it is done."""
        self.flush()
        self.runtime.fence()
        self.epoch += 1
        ran, self._ran = self._ran, set()
        flags = self.runtime.flags()
        if flags:
            report(flags, [plan.suspects for plan in ran])

    def _forward(self, group: Group) -> None:
        """Run the oldest group; its successor with it, where the two make one pass over memory."""
        self._running.update(group.numbering.slots)
        self._retire(group)
        groups = [group]
        try:
            partner = self._partner(group)
            if partner is None:
                self._run(group)
            else:
                groups.append(partner)
        finally:
            self._running.clear()
            for done in groups:
                for store in done.numbering.slots:
                    if store not in self.alive and store not in self.pending:
                        self._release(store)

    def _retire(self, group: Group) -> None:
        """The tasks of a group stop being pending."""
        self._held -= len(group.tasks)
        pending = self.pending
        for task in group.tasks:
            for access in task.accesses:
                store = access.store.id
                left = pending[store] - 1
                if left:
                    pending[store] = left
                else:
                    del pending[store]

    def _planned(self, group: Group) -> Plan:
        """The plan of a group, for what is live now."""
        alive, pending = self.alive, self.pending
        bits = 0
        for store, slot in group.numbering.slots.items():
            if store in alive or store in pending:
                bits |= 1 << slot
        plan: Plan | None = group.node.plans.get(bits)
        if plan is None:
            plan = group.node.plans[bits] = self._plan(group, bits)
        else:
            trace.counters["replays"] += 1
        return plan

    def _run(self, group: Group) -> None:
        tasks = group.tasks
        if _opaque(tasks[0]):
            self._call(tasks[0])
            return
        plan = self._planned(group)
        kernel = plan.kernel
        if kernel is None:
            return
        self._ready(plan)
        try:
            partials = [self.runtime.create(n) for n in plan.partial_bytes(tasks)]
            values = plan.values(tasks, self._address, [p.address for p in partials])
        except MemoryError as error:
            self._lose(tasks, error)
            return
        self.runtime.launch(Launch(kernel, values, values[0], (*self._touched(plan, tasks), *partials)))
        for partial in partials:
            self.runtime.release(partial)

    def _ready(self, plan: Plan) -> None:
        """Count a launch, and see to it that its kernel gets compiled."""
        plan.launches += 1
        self._ran.add(plan)
        trace.counters["launched"] += 1
        if plan.kernel is not None and plan.kernel.native is None:
            compiler.kernel(plan.kernel.body)
            if plan.kernel.native is None:
                trace.counters["interpreted"] += 1

    def _touched(self, plan: Plan, tasks: list[IndexTask]) -> list[Instance]:
        ids = [tasks[t].accesses[k].store.id for t, k in plan.composition.arguments]
        return [self.instances[store] for store in ids if store in self.instances]

    def _partner(self, group: Group) -> Group | None:
        """Run a group and the next as a pipeline, if they can; returns the next, which is then done."""
        if not self._closed or _opaque(group.tasks[0]) or self.runtime.name != "local":
            return None
        following = self._closed[0]
        if following.tasks[0].domain != group.tasks[0].domain or volume(group.tasks[0].domain) <= 1:
            return None
        plan = self._planned(group)
        if plan.kernel is None or plan.kernel.native is None or not plan.rowwise:
            return None
        made = {group.tasks[t].accesses[k].store.id
                for (t, k), a in zip(plan.composition.arguments, plan.composition.body.arguments, strict=True)
                if a.privilege is not READ}
        if not made.isdisjoint(self.alive):
            return None
        readers = [access.store.id for task in following.tasks for access in task.accesses]
        if any(self.pending.get(store) != readers.count(store) for store in made):
            return None
        self._closed.popleft()
        self._running.update(following.numbering.slots)
        self._retire(following)
        second = self._planned(following)
        if not self._pipelined(plan, group, second, following):
            self._run(group)
            self._run(following)
        return following

    def _pipelined(self, first: Plan, one: Group, second: Plan, two: Group) -> bool:
        """Launch two groups as one pass; False where their rows do not allow it."""
        if second.kernel is None or second.kernel.native is None or not second.rowwise:
            return False
        shape = pair(first, one.tasks, second, two.tasks)
        if shape is None:
            return False
        scratch: list[Instance] = []

        def memory(nbytes: int) -> int:
            scratch.append(self.runtime.create(nbytes))
            return scratch[-1].address

        def address(store: int) -> int:
            return 0 if store in inner else self._address(store)

        inner = {one.tasks[first.composition.arguments[k][0]].accesses[first.composition.arguments[k][1]].store.id
                 for k, _, _ in shape.rings}
        try:
            blocks = (first.kernel.pack(first.values(one.tasks, address, ())),  # type: ignore[union-attr]
                      second.kernel.pack(second.values(two.tasks, address, ())))
            values: Any = header(shape, first, one.tasks, second, two.tasks, blocks, memory)
        except MemoryError as error:
            self._lose(one.tasks + two.tasks, error)
        for plan in (first, second):
            self._ready(plan)
        trace.counters["pipelined"] += 1
        self.runtime.launch(Launch(Pair(), values, volume(two.tasks[0].domain),
                                   (first.kernel, second.kernel, *self._touched(first, one.tasks),
                                    *self._touched(second, two.tasks), *scratch)))
        for instance in scratch:
            self.runtime.release(instance)
        return True

    def _address(self, store: int) -> int:
        instance = self.instances.get(store)
        if instance is None:
            instance = self.instances[store] = self.runtime.create(self.shapes[store])
        return instance.address

    def _lose(self, tasks: list[IndexTask], error: MemoryError) -> None:
        """No memory for a fused task: what it would have written is lost, and whoever reads it is told where."""
        error.add_note(f"needed by the operations recorded at {tasks[0].where} to {tasks[-1].where}")
        for task in tasks:
            for access in task.accesses:
                if access.privilege is not READ:
                    self.lost[access.store.id] = error
        raise error

    def _plan(self, group: Group, bits: int) -> Plan:
        trace.count("plans")
        live = {store for store, slot in group.numbering.slots.items() if bits >> slot & 1}
        gone = temporaries(group.tasks, (), live)
        composition = compose(group.tasks, gone, loops.fuse)
        kernel = compiler.kernel(composition.body) if composition.body.loops else None
        plan = Plan(composition, kernel, group.tasks, str(group.reason), window_text(group.tasks))
        self.plans.append(plan)
        trace.event("plan", lambda: f"{plan.tasks} tasks fused into one of {plan.loops} loops, "
                                    f"{plan.vanished} temporaries vanished; ended by: {plan.reason}\n{plan.text}")
        return plan

    def _call(self, task: IndexTask) -> None:
        import numpy

        trace.counters["launched"] += 1
        arrays = []
        for access in task.accesses:
            view: Any = access.map
            self._address(access.store.id)
            memory = self.instances[access.store.id].array
            arrays.append(numpy.ndarray(view.shape, view.dtype, memory, view.offset, view.strides))
        function = task.scalars[0].value
        self.runtime.call(lambda: function(*arrays))


def _opaque(task: IndexTask) -> bool:
    """A host function: nobody can see into it, so it fuses with nothing."""
    return not generators.fusible(task.operation)


def _where() -> Where:
    """The user's call: the nearest frame outside this package."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == DIALECT:
        frame = frame.f_back
    return Where("?", 0) if frame is None else Where(frame.f_code.co_filename, frame.f_lineno)


# The functions of this module are those of the one engine that a program has.
_engine = Engine()
create = _engine.create
attach = _engine.attach
fetch = _engine.fetch
busy = _engine.busy
record = _engine.record
call = _engine.call
overlap = _engine.overlap
flush = _engine.flush
fence = _engine.fence


def current() -> Engine:
    """The engine itself: its plans, its window, its runtime."""
    return _engine


def __getattr__(name: str) -> Any:
    if name == "points":
        return _engine.points
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
