"""The stream: operations come in as index tasks, fused tasks go out to the runtime.

`record` finds the pattern of a task (pattern.py), or chooses its points and partitions when it is new, and
hands it to the window (window.py); when the window is full, or the program wants a value, groups of tasks are
forwarded (forward.py).  The functions of this module are those of the one engine that a program has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from diffuse.ir import Access, Point, Privilege, Relation, Scalar, Split, Store, disjoint, relation
from diffuse.ir.check import check
from diffuse.ir.launch import ONE, launch
from diffuse.ir.template import REMEMBERED, Pattern, Recorded, Use
from diffuse.ir.view import View
from diffuse.kernels.body import operations
from diffuse.observe import trace
from diffuse.observe.floaterrors import geterr
from diffuse.observe.provenance import where
from diffuse.runtime.base import Exchange, Runtime
from diffuse.settings import config, watch
from diffuse.stream.execute import Forwarder
from diffuse.stream.plan import Plan
from diffuse.stream.stores import Operand, Storage, Stores
from diffuse.stream.window import LARGEST_SIZE, Window, opaque
from diffuse.stream.zeros import Zeros

READ, WRITE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.REDUCE
ONE_POINT = ONE[0]

_tuple = tuple.__new__
# Named tuples are made by their base's constructor on the hot path: half the cost of calling the class.


class Engine:
    """One program's stream over one runtime."""

    def __init__(self) -> None:
        self.stores = Stores()
        self.window = Window(self.stores.pending)
        self.forwarder = Forwarder(self.stores, self.window)
        self.zeros = Zeros(self.stores, self.window)
        self.epoch = 0
        """Times that the program waited for everything."""
        self._lock = threading.RLock()
        self._torn = False
        """Did an exception end a call at a moment when something was half done?"""
        self._patterns: dict[tuple[Any, ...], Pattern] = {}
        """By all that they depend on; views by identity, which is theirs alone while a pattern holds them."""
        self._overlaps: dict[tuple[int, int], tuple[str, View, View]] = {}
        """How two views of one store meet, by their identities, with the views."""
        self._modes: dict[str, Any] | None = None
        """NumPy's error modes under which unreported tasks were recorded, once these have changed."""

    @property
    def runtime(self) -> Runtime:
        return self.stores.runtime

    @property
    def plans(self) -> list[Plan]:
        return self.forwarder.plans

    def busy(self, storage: Storage) -> bool:
        """Were tasks recorded on this store since the program last waited?  Where the host sees copies of
        stores: since it last fetched this one.  Always where another library holds it, too."""
        return storage.touched == self.epoch

    def look(self, storage: Storage) -> Any:
        """The store's memory as a NumPy array of bytes, to be read only, if no pending or running task writes
        it; None if one may.  Tasks that read it can go on meanwhile."""
        if storage.written == self.epoch or not self.runtime.host_sees:
            return None
        store = storage.id
        if store in self.stores.lost:
            return None
        return self.runtime.host(self.stores.instance(store), False)

    def fetch(self, storage: Storage) -> Any:
        """The store's memory as a NumPy array of bytes, to be read, with everything recorded on it done."""
        if storage.touched == self.epoch:
            if self.runtime.host_sees:
                self.fence()
            else:
                self.flush()  # to wait comes with fetching
        store = storage.store.id
        if store in self.stores.lost:
            raise copy(self.stores.lost[store])  # its traceback would keep the program's frames, and stores
        memory = self.runtime.host(self.stores.instance(store), False)
        if not storage.handed:
            storage.touched = -1
        if not self.runtime.host_sees:
            self.runtime.fence()
            self._report()
        return memory

    def own(self, storage: Storage) -> None:
        """The host may write to the memory that it fetched of a store.  Where that is a copy, it is the copy
        that counts from now on, until a task writes the store."""
        if not self.runtime.host_sees and not storage.handed:
            self.runtime.host(self.stores.instance(storage.id), True)

    def put_back(self, storage: Storage) -> None:
        """The host wrote into the memory that it fetched of a store: whoever else holds the store sees it."""
        if storage.handed:
            self.exchange.put_back(self.stores.instance(storage.id))

    def aliased(self, one: Storage, other: Storage) -> bool:
        """May two stores that other libraries hold have elements in common?"""
        return self.exchange.overlap(self.stores.instance(one.id), self.stores.instance(other.id))

    @property
    def exchange(self) -> Exchange:
        """How the runtime shares stores with other libraries."""
        found = self.runtime.exchange
        if found is None:
            raise RuntimeError(f"the runtime {self.runtime.name!r} shares no stores with other libraries")
        return found

    def settle(self, reason: str) -> None:
        """Bring what was recorded to where other libraries see it that hold the same stores."""
        if self.exchange.fenced:
            self.fence()
        else:
            self.flush(reason)

    def forget_launches(self) -> None:
        self._patterns.clear()

    def record(self, operation: str, signature: tuple[str, ...], shape: Point,
               inputs: tuple[Operand | Scalar, ...], outputs: tuple[Operand, ...],
               operator: str | None = None) -> None:
        """Add one operation to the stream.

        Views are in the iteration space `shape`; an output that overlaps an input must be the same view.
        `operator` names a reduction, whose output views leave out the dimensions that it folds.
        """
        with self._lock:
            if self._modes is not None:
                self._report_other_modes()
            epoch, exported = self.epoch, False
            key: list[Any] = [operation, signature, shape]
            stores, scalars = [], []
            for operand in inputs:
                if isinstance(operand, Scalar):
                    scalars.append(operand)
                    key += operand[:2]
                    continue
                storage, view = operand
                stores.append(storage.id)
                key.append(id(view))
                storage.touched = epoch
                if storage.exported:
                    exported = True
            key.append(operator)
            for storage, view in outputs:
                stores.append(storage.id)
                key.append(id(view))
                storage.touched = storage.written = epoch
                storage.version += 1
                if storage.exported:
                    exported = True
            name = tuple(key)
            pattern = self._patterns.get(name)
            if pattern is None:
                pattern = self._pattern(name, operation, signature, shape, inputs, outputs, operator)
            if pattern.adapts:
                cut = self.window.open.cut
                if cut is not None:
                    pattern = pattern.variants.get(cut) or self._beside(pattern, cut)
            self._submit(_tuple(Recorded, (pattern, tuple(stores), tuple(scalars), where())))
            if exported:
                self._expose((*inputs, *outputs))

    def _pattern(self, name: tuple[Any, ...], operation: str, signature: tuple[str, ...], shape: Point,
                 inputs: tuple[Operand | Scalar, ...], outputs: tuple[Operand, ...], operator: str | None
                 ) -> Pattern:
        """The pattern of an operation that is new in this place."""
        partial, plain = False, operator is None and operations.find(operation).elementwise
        if plain:
            domain, splits = launch(shape, self.runtime.points, config.min_chunk)
        else:
            domain, splits, partial = self._folding(operation, shape, outputs, operator)
        reads = [operand[1] for operand in inputs if not isinstance(operand, Scalar)]
        writes = [view for _, view in outputs]
        adapts = plain and domain is ONE_POINT
        uses = _uses(reads, writes, splits, REDUCE if partial else WRITE, operator if partial else None)
        if not _disjoint(uses, domain):
            domain, splits = ONE
            uses = _uses(reads, writes, splits, WRITE)
        return self._remembered(name, Pattern(operation, signature, shape, domain, splits, uses,
                                              domain is ONE_POINT, adapts))

    def _remembered(self, key: tuple[Any, ...], pattern: Pattern) -> Pattern:
        if len(self._patterns) >= REMEMBERED:
            self._patterns.clear()
        self._patterns[key] = pattern
        return pattern

    def _beside(self, pattern: Pattern, cut: Pattern) -> Pattern:
        """A small task, cut like the large one before it when it has as many rows, so that the columns at a
        border join the interior."""
        found = pattern
        if pattern.shape and pattern.shape[0] == cut.shape[0]:
            reads = [use.map for use in pattern.uses if use.privilege is READ]
            writes = [use.map for use in pattern.uses if use.privilege is not READ]
            uses = _uses(reads, writes, cut.splits, WRITE)
            if _disjoint(uses, cut.domain):
                found = Pattern(pattern.operation, pattern.signature, pattern.shape, cut.domain, cut.splits,
                                uses, single=False, adapts=False)
        pattern.variants[cut] = found
        return found

    def _folding(self, operation: str, shape: Point, outputs: tuple[Operand, ...], operator: str | None
                 ) -> tuple[Point, tuple[Split, ...], bool]:
        """Launch of a reduction or scan, and whether its results are there only when all points are done.

        That goes for every reduction over several points, also where each point folds whole results of its
        own: kernels combine the leaves of the tree once, at the end.
        """
        whole = frozenset({int(operation.partition(":")[2])}) if ":" in operation else frozenset()
        result = outputs[0][1]
        reduced = [k for k in range(len(shape)) if operator is not None and not result.follows(k)]
        leaves = reduced[-1] if reduced and reduced[-1] != len(shape) - 1 else -1
        domain, splits = launch(shape, self.runtime.points, config.min_chunk, whole, leaves)
        return domain, splits, operator is not None and domain != ONE[0]

    def call(self, operation: str, function: Callable[..., None], inputs: tuple[Operand, ...],
             outputs: tuple[Operand, ...]) -> None:
        """Run a host function over whole NumPy arrays, in stream order: `function(*inputs, *outputs)`."""
        with self._lock:
            if self._modes is not None:
                self._report_other_modes()
            operands = (*inputs, *outputs)
            key = (operation, len(inputs), *[id(view) for _, view in operands])
            pattern = self._patterns.get(key)
            if pattern is None:
                # each view is over its own space; the largest stands for the task
                shape = max((v.shape for _, v in operands), key=len, default=())
                uses = _uses([v for _, v in inputs], [v for _, v in outputs], ONE[1], WRITE)
                pattern = self._remembered(key, Pattern(operation, (), shape, *ONE, uses, True, False))
            exported = False
            for storage, _ in operands:
                storage.touched = self.epoch
                exported = exported or storage.exported
            for storage, _ in outputs:
                storage.written = self.epoch
                storage.version += 1
            self._submit(Recorded(pattern, tuple([storage.id for storage, _ in operands]),
                                  (Scalar(-1, "function", function),), where()))
            if exported:
                self._expose(operands)

    def _expose(self, operands: tuple[Operand | Scalar, ...]) -> None:
        """Bring the memory up to date that code outside sees; what others do with a store comes next."""
        if any(x[0].handed for x in operands if not isinstance(x, Scalar)):
            self.settle("another library holds a store")
        shown = [x[0] for x in operands if not isinstance(x, Scalar) and x[0].shown()]
        if shown:
            self.fence()
            if not self.runtime.host_sees:
                for storage in shown:
                    self.fetch(storage)
                    self.own(storage)

    def overlap(self, a: Operand, b: Operand) -> str:
        """Do two operands share elements: "same" view, "apart", or "overlap"?"""
        (one, view), (other, theirs) = a, b
        if one.id != other.id:
            return "apart"
        name = id(view), id(theirs)
        found = self._overlaps.get(name)
        if found is None:
            if len(self._overlaps) >= REMEMBERED:
                self._overlaps.clear()
            found = self._overlaps[name] = _overlap(view, theirs), view, theirs
        return found[0]

    def _submit(self, recorded: Recorded) -> None:
        trace.counters["recorded"] += 1
        if config.check and not opaque(recorded.pattern):
            check(recorded.task())
        window = self.window
        if self._torn:
            self._mend()
        try:
            held = self.zeros.held
            if ((recorded[0].fills or (held and not held.keys().isdisjoint(recorded[1])))
                    and self.zeros.hold(recorded)):
                return
            window.add(recorded)
            if config.window != "auto":
                if window.held >= int(config.window):
                    self.flush("the window is full")
            elif window.held >= window.size:
                while window.full():
                    self.forwarder.forward()
                if window.held >= window.size:
                    if window.size < LARGEST_SIZE and not window.heavy:
                        window.size *= 2
                    else:
                        self.flush("the window is full")
        except BaseException:  # an interrupt at any moment, or no stack or memory left
            self._torn = True
            raise

    def _mend(self) -> None:
        """What the last exception left half done is counted anew from what is held, and so done or undone.

        Not while a group is forwarded, whose host function records: that comes to its own end first.
        """
        if not self.forwarder.busy:
            self.forwarder.mend()
            self.window.mend()
            self.stores.mend([group.slots for group in self.window.closed])
            self.zeros.mend()
            self._torn = False

    def flush(self, reason: str = "the program waits") -> None:
        """Forward every task that is held."""
        with self._lock:
            if self._torn:
                self._mend()
            try:
                if self.zeros.held:
                    self.zeros.release()
                self.window.close(reason)
                while self.window.closed:
                    self.forwarder.forward()
            except BaseException:
                self._torn = True
                raise

    def fence(self) -> None:
        """Forward everything and wait until it is done."""
        with self._lock:
            self.flush()
            self.runtime.fence()
            if self.runtime.host_sees:
                self.epoch += 1
            self._report()

    def _report(self) -> None:
        modes, self._modes = self._modes, None
        self.forwarder.report_flags(modes)

    @property
    def unreported(self) -> bool:
        """Is there anything whose floating-point errors were not asked for yet?"""
        return bool(self.window.held or self._torn or self.forwarder.unreported)

    def entered(self) -> bool:
        """Is this thread inside the engine: recording, running a host function, reporting?"""
        lock: Any = self._lock
        return bool(lock._is_owned())

    def modes_change(self) -> None:
        """NumPy's error modes are about to change: those of now go for what is not reported yet."""
        if self._modes is None and self.unreported:
            self._modes = geterr()

    def _report_other_modes(self) -> None:
        """Before a task is recorded: report what was recorded under other error modes than now."""
        if self._modes == geterr():
            self._modes = None
        else:
            self.fence()

    def use_runtime(self) -> None:
        """The settings name another runtime."""
        self.fence()
        if self.stores.change_runtime():
            self.epoch += 1
        self._patterns.clear()


def _uses(reads: Sequence[Any], writes: Sequence[Any], splits: tuple[Split, ...], privilege: Privilege,
          operator: str | None = None) -> tuple[Use, ...]:
    """Views with the partitions that `splits` give them; `privilege` and `operator` are of the writes."""
    accesses = [(v, READ, None) for v in reads] + [(v, privilege, operator) for v in writes]
    return tuple([Use(view.frame, view.dtype, view, view.partition(Store(-1, view.frame, view.dtype), splits),
                      privilege, operator) for view, privilege, operator in accesses])


def _overlap(view: View, theirs: View) -> str:
    """How two views of one store meet; see `Engine.overlap`."""
    if view == theirs and view.shape == theirs.shape and view.dtype == theirs.dtype:
        return "same"
    domain, splits = ONE
    first, second = (Access(Store(-1, *use[:2]), *use[2:]) for use in _uses((view, theirs), (), splits, READ))
    return "apart" if relation(first, second, domain) is Relation.APART else "overlap"


def _disjoint(uses: tuple[Use, ...], domain: Point) -> bool:
    """May several points write these?  Not views in which rows interleave (of another element type)."""
    return domain is ONE_POINT or all([use.map.simple or disjoint(use.partition, domain)  # type: ignore[attr-defined]
                                       for use in uses if use.privilege is not READ])


_engine = Engine()
create = _engine.stores.create
attach = _engine.stores.attach
fetch = _engine.fetch
own = _engine.own
put_back = _engine.put_back
aliased = _engine.aliased
busy = _engine.busy
look = _engine.look
record = _engine.record
call = _engine.call
overlap = _engine.overlap
flush = _engine.flush
settle = _engine.settle
fence = _engine.fence
watch("runtime", lambda _: _engine.use_runtime())
watch("min_chunk", lambda _: _engine.forget_launches())


def current() -> Engine:
    """The engine itself: its plans, its window, its runtime."""
    return _engine


def __getattr__(name: str) -> Any:
    if name == "points":
        return _engine.runtime.points
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
