"""The stream: operations come in as index tasks, fused tasks go out to the runtime.

`record` chooses a task's points and partitions and hands it to the window (window.py); when the window is
full, or the program wants a value, groups of tasks are forwarded (forward.py).  The functions of this module
are those of the one engine that a program has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from typing import Any

from diffuse import trace
from diffuse.check import check
from diffuse.forward import Forwarder
from diffuse.ir import Access, IndexTask, Point, Privilege, Relation, Scalar, Split, Store, disjoint, relation
from diffuse.kernels import generators
from diffuse.launch import ONE, launch
from diffuse.plan import Plan
from diffuse.provenance import where
from diffuse.runtime.base import Runtime
from diffuse.settings import config, watch
from diffuse.stores import Operand, Storage, Stores
from diffuse.view import View
from diffuse.window import LARGEST_SIZE, Window, opaque

READ, WRITE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.REDUCE
PLAIN = frozenset({*generators.ELEMENTWISE, "copy", "arange", "spmv"})
"""Operations that go through every element once, in any order."""

ONE_POINT = ONE[0]

_tuple = tuple.__new__
# Named tuples are made by their base's constructor on the hot path: half the cost of calling the class.


class Engine:
    """One program's stream over one runtime."""

    def __init__(self) -> None:
        self.stores = Stores()
        self.window = Window()
        self.forwarder = Forwarder(self.stores, self.window)
        self.epoch = 0
        """Times that the program waited for everything."""
        self._lock = threading.RLock()
        self._torn = False
        """Did an exception end a call at a moment when something was half done?"""
        self._launches: dict[Point, tuple[Point, tuple[Split, ...]]] = {}

    @property
    def runtime(self) -> Runtime:
        return self.stores.runtime

    @property
    def plans(self) -> list[Plan]:
        return self.forwarder.plans

    def busy(self, storage: Storage) -> bool:
        """Were tasks recorded on this store since the program last waited?  Where the host sees copies of
        stores (a runtime whose memory is not shared): since it last fetched this one."""
        return storage.touched == self.epoch or storage.handed

    def fetch(self, storage: Storage) -> Any:
        """The store's memory as a NumPy array of bytes, with everything recorded on it done."""
        if storage.touched == self.epoch or storage.handed:
            if self.runtime.shared:
                self.fence()
            else:
                self.flush()  # to wait comes with fetching
        store = storage.store.id
        if store in self.stores.lost:
            raise copy(self.stores.lost[store])  # its traceback would keep the program's frames, and stores
        memory = self.runtime.host(self.stores.instance(store), not storage.handed)
        storage.touched = -1
        if not self.runtime.shared:
            self.runtime.fence()
            self.forwarder.report_flags()
        return memory

    def put_back(self, storage: Storage) -> None:
        """The host wrote into the memory that it fetched of a store: whoever else holds the store sees it."""
        if storage.handed:
            from diffuse.runtime.legate import exchange

            exchange.put_back(self.runtime, self.stores.instance(storage.store.id))

    def aliased(self, one: Storage, other: Storage) -> bool:
        """May two stores that other libraries hold have elements in common?"""
        from diffuse.runtime.legate import exchange

        first, second = (self.stores.instance(s.store.id) for s in (one, other))
        return exchange.overlap(first, second)

    def forget_launches(self) -> None:
        self._launches.clear()

    def _plain(self, shape: Point) -> tuple[Point, tuple[Split, ...]]:
        """Launch domain and splits of an elementwise operation."""
        found = self._launches.get(shape)
        if found is None:
            if len(self._launches) > 4096:
                self._launches.clear()
            found = self._launches[shape] = launch(shape, self.runtime.points, config.min_chunk)
        return self.window.beside(shape) if found is ONE and self.window.open.cut is not None else found

    def record(self, operation: str, signature: tuple[str, ...], shape: Point,
               inputs: tuple[Operand | Scalar, ...], outputs: tuple[Operand, ...],
               operator: str | None = None) -> None:
        """Add one operation to the stream.

        Views are in the iteration space `shape`; an output that overlaps an input must be the same view.
        `operator` names a reduction, whose output views leave out the dimensions that it folds.
        """
        with self._lock:
            partial = False
            if operator is None and operation in PLAIN:
                domain, splits = self._plain(shape)
            else:
                domain, splits, partial = self._folding(operation, shape, outputs, operator)
            if domain is not ONE_POINT and not _disjoint(outputs, domain, splits):
                (domain, splits), partial = ONE, False
            accesses, scalars, exported = [], [], False
            epoch = self.epoch
            for operand in inputs:
                if isinstance(operand, Scalar):
                    scalars.append(operand)
                    continue
                storage, view = operand
                accesses.append(_tuple(Access, (*_seen(storage, view, splits), READ, None)))
                storage.touched = epoch
                exported = exported or storage.exported
            for storage, view in outputs:
                privilege = (REDUCE, operator) if partial else (WRITE, None)
                accesses.append(_tuple(Access, (*_seen(storage, view, splits), *privilege)))
                storage.touched = epoch
                storage.version += 1
                exported = exported or storage.exported
            self._submit(_tuple(IndexTask, (operation, signature, shape, domain, splits, tuple(accesses),
                                            tuple(scalars), where())))
            if exported:
                self._expose((*inputs, *outputs))

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
            domain, splits = ONE
            accesses = tuple(Access(*_seen(s, v, splits), p)
                             for group, p in ((inputs, READ), (outputs, WRITE)) for s, v in group)
            exported = False
            for storage, _ in (*inputs, *outputs):
                storage.touched = self.epoch
                exported = exported or storage.exported
            for storage, _ in outputs:
                storage.version += 1
            # each view is over its own space; the largest stands for the task
            shape = max((v.shape for _, v in (*inputs, *outputs)), key=len, default=())
            self._submit(IndexTask(operation, (), shape, domain, splits, accesses,
                                   (Scalar(-1, "function", function),), where()))
            if exported:
                self._expose((*inputs, *outputs))

    def _expose(self, operands: tuple[Operand | Scalar, ...]) -> None:
        """Bring the memory up to date that code outside sees; what others do with a store comes next."""
        if any(x[0].handed for x in operands if not isinstance(x, Scalar)):
            if self.runtime.pipelines:  # Legate takes a launch for done while the pool still runs it
                self.fence()
            else:
                self.flush("another library holds a store")
        shown = [x[0] for x in operands if not isinstance(x, Scalar) and x[0].shown()]
        if shown:
            self.fence()
            if not self.runtime.shared:
                for storage in shown:
                    self.fetch(storage)

    def overlap(self, a: Operand, b: Operand) -> str:
        """Do two operands share elements: "same" view, "apart", or "overlap"?"""
        (one, view), (other, theirs) = a, b
        if one.store.id != other.store.id:
            return "apart"
        if view == theirs and view.shape == theirs.shape and view.dtype == theirs.dtype:
            return "same"
        domain, splits = ONE
        first, second = (Access(*_seen(s, v, splits), READ) for s, v in (a, b))
        return "apart" if relation(first, second, domain) is Relation.APART else "overlap"

    def _submit(self, task: IndexTask) -> None:
        trace.counters["recorded"] += 1
        if config.check and not opaque(task):
            check(task)
        window = self.window
        if self._torn:
            self._mend()
        try:
            self.stores.expect(task)
            window.add(task)
            if config.window != "auto":
                if window.held >= int(config.window):
                    self.flush("the window is full")
            elif window.held >= window.size:
                while window.full():
                    self.forwarder.forward()
                if window.held >= window.size:
                    if window.size < LARGEST_SIZE:
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
            self.window.mend()
            self.stores.mend([task for group in self.window.closed for task in group.tasks])
            self._torn = False

    def flush(self, reason: str = "the program waits") -> None:
        """Forward every task that is held."""
        with self._lock:
            if self._torn:
                self._mend()
            try:
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
            if self.runtime.shared:
                self.epoch += 1
            self.forwarder.report_flags()

    def settle(self) -> None:
        """Wait, unless there is nothing to wait for: floating-point errors so far are reported."""
        if self.window.held or self._torn or self.forwarder.unreported:
            self.fence()

    def use_runtime(self) -> None:
        """The settings name another runtime."""
        self.fence()
        self.stores.change_runtime()
        self.epoch += 1
        self._launches.clear()


def _seen(storage: Storage, view: View, splits: tuple[Split, ...]) -> tuple[Any, Any, Any]:
    """Store frame, map and partition of an operand."""
    store = storage.store
    if view.frame != store.shape or view.dtype != store.dtype:
        store = Store(store.id, view.frame, view.dtype)
    return store, view, view.partition(store, splits)


def _disjoint(outputs: tuple[Operand, ...], domain: Point, splits: tuple[Split, ...]) -> bool:
    """May several points write these?  Not views in which rows interleave (of another element type)."""
    return all(view.simple or disjoint(_seen(storage, view, splits)[2], domain) for storage, view in outputs)


_engine = Engine()
create = _engine.stores.create
attach = _engine.stores.attach
fetch = _engine.fetch
put_back = _engine.put_back
aliased = _engine.aliased
busy = _engine.busy
record = _engine.record
call = _engine.call
overlap = _engine.overlap
flush = _engine.flush
fence = _engine.fence
settle = _engine.settle
watch("runtime", lambda _: _engine.use_runtime())
watch("min_chunk", lambda _: _engine.forget_launches())


def current() -> Engine:
    """The engine itself: its plans, its window, its runtime."""
    return _engine


def __getattr__(name: str) -> Any:
    if name == "points":
        return _engine.runtime.points
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
