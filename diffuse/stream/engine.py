"""The stream: operations come in as index tasks, fused tasks go out to the runtime.

`record`, `submit` and `call` find the template of a task (ir/template.py) and add the task to the window
(window.py); when the window is full, or the program wants a value, groups of tasks are forwarded
(execute.py).  The functions of this module are those of the one engine that a program has.

Locks are taken in this order, each while those before it may be held: the engine's, the forwarder's, the
compiler's table of kernels, the compile client's, the allocator's.  `_attaching` (numpy/arrays/core.py) and
`_making` (stores.py) are taken with or without the engine's, and only the allocator's inside of them.  A
finalizer may run at any allocation, under any of these locks: it takes none but the allocator's, and only
where that is free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

from diffuse.ir import ONE, IndexTask, Point, Privilege, Scalar
from diffuse.ir.bounded import Bounded
from diffuse.ir.check import check
from diffuse.ir.template import Recorded, Template, Use, recorded, template
from diffuse.ir.template import overlap as overlap_of
from diffuse.ir.view import View
from diffuse.kernels.body import operations
from diffuse.kernels.body.compose import verify
from diffuse.observe import trace
from diffuse.observe.floaterrors import geterr
from diffuse.observe.provenance import where
from diffuse.runtime.base import Exchange, Runtime
from diffuse.settings import config, watch
from diffuse.stream.execute import Forwarder
from diffuse.stream.plan import Plan
from diffuse.stream.stores import Operand, Storage, Stores, nbytes
from diffuse.stream.window import LARGEST_SIZE, Window, opaque
from diffuse.stream.zeros import Zeros

READ, WRITE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.REDUCE

_tuple = tuple.__new__
# Named tuples are made by their base's constructor on the hot path: half the cost of calling the class.


class Engine:
    """One program's stream over one runtime."""

    def __init__(self) -> None:
        self.stores = Stores()
        self.window = Window(self.stores)
        self.forwarder = Forwarder(self.stores, self.window)
        self.zeros = Zeros(self.stores, self.window)
        self.epoch = 0
        """Times that the program waited for everything."""
        self._lock = threading.RLock()
        self._torn = False
        """Did an exception end a call at a moment when something was half done?"""
        self._templates: dict[tuple[Any, ...], Template] = Bounded()
        """By all that they depend on; views by identity, which is unique while a template holds them."""
        self._verified: set[tuple[str, tuple[str, ...]]] = set()
        """Operations and element types whose bodies were found to be well formed."""
        self._overlaps: dict[tuple[int, int], tuple[str, View, View]] = Bounded()
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
        """Was a task on this store recorded since the program last waited?  Where the host sees copies of
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
        if not storage.shared:
            storage.touched = -1
        if not self.runtime.host_sees:
            self.runtime.fence()
            self._report()
        return memory

    def own(self, storage: Storage) -> None:
        """The host may write to the memory that it fetched of a store.  Where that is a copy, it is the copy
        that counts from now on, until a task writes the store."""
        if not self.runtime.host_sees and not storage.shared:
            self.runtime.host(self.stores.instance(storage.id), True)

    def write_back(self, storage: Storage) -> None:
        """Publish what the host wrote into fetched memory to the other holders of the store."""
        if storage.shared:
            self.exchange.write_back(self.stores.instance(storage.id))

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
        """Forward what was recorded, so that other libraries that hold the same stores see it in order."""
        if self.exchange.fenced:
            self.fence()
        else:
            self.flush(reason)

    def forget_decompositions(self) -> None:
        """Decompose anew from now on, because settings changed."""
        self.flush("the settings change")
        self.window.forget()

    def record(self, operation: str, signature: tuple[str, ...], shape: Point,
               inputs: tuple[Operand | Scalar, ...], outputs: tuple[Operand, ...],
               operator: str | None = None) -> Template:
        """Add one operation to the stream; returns what it takes to add it `again`.

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
            found = self._templates.get(name)
            if found is None:
                found = Template(operation, signature, shape, _uses(inputs, outputs, operator))
                self._verify(_tuple(Recorded, (found, tuple(stores), tuple(scalars), None)))
                self._templates[name] = found
            self._add(_tuple(Recorded, (found, tuple(stores), tuple(scalars), where())))
            if exported:
                self._expose((*inputs, *outputs))
            return found

    def again(self, made: Template, inputs: tuple[Storage, ...], scalars: tuple[Scalar, ...], output: Storage
              ) -> None:
        """Add an operation that `record` returned the template of: on the same views, of these stores."""
        with self._lock:
            if self._modes is not None:
                self._report_other_modes()
            epoch, exported = self.epoch, output.exported
            stores = []
            for storage in inputs:
                stores.append(storage.id)
                storage.touched = epoch
                if storage.exported:
                    exported = True
            stores.append(output.id)
            output.touched = output.written = epoch
            output.version += 1
            self._add(_tuple(Recorded, (made, tuple(stores), scalars, where())))
            if exported:
                self._expose([(storage, made.uses[0].map) for storage in (*inputs, output)])

    def submit(self, task: IndexTask, storages: Iterable[Storage]) -> None:
        """Add an index task to the stream; `storages` are the handles of the stores that it names.

        Raises TypeError or ValueError for a task that is not well formed (ir/check.py), for an operation that
        nobody declared, and for a store whose handle is not there.
        """
        handles = {storage.id: storage for storage in storages}
        check(task)
        for access in task.accesses:
            held = handles.get(access.store.id)
            if held is None or nbytes(access.store) > held.nbytes:
                raise ValueError(f"store {access.store.id} of task {task.operation!r} is {_missing(held)}: "
                                 "hand over what `create` or `attach` returned, and name its shape")
        if not operations.known(task.operation):
            raise ValueError(f"task {task.operation!r} is of no known operation: declare it first, or record "
                             "a host function with `call`")
        with self._lock:
            if self._modes is not None:
                self._report_other_modes()
            made = template(task)
            key = (*made.key, "submitted")
            made = self._templates.get(key) or made
            own = recorded(task, made)
            self._verify(own)
            self._templates[key] = made
            operands = [(handles[access.store.id], use.map)
                        for access, use in zip(task.accesses, made.uses, strict=True)]
            self._mark(made, operands)
            self._add(own if own.where is not None else own._replace(where=where()))
            if any(storage.exported for storage, _ in operands):
                self._expose(operands)

    def _verify(self, task: Recorded) -> None:
        """Raise TypeError unless the operation writes a well-formed body for these element types.

        Asked once, of operations that are written in others: a single op has the types that NumPy gives it.
        """
        made = task.template
        name = made.operation, made.signature
        if name not in self._verified and operations.find(made.operation).body is not None:
            verify(made.under(ONE).task(task))
            self._verified.add(name)

    def call(self, operation: str, function: Callable[..., None], inputs: tuple[Operand, ...],
             outputs: tuple[Operand, ...]) -> None:
        """Run a host function over whole NumPy arrays, in stream order: `function(*inputs, *outputs)`."""
        with self._lock:
            if self._modes is not None:
                self._report_other_modes()
            operands = (*inputs, *outputs)
            key = (operation, len(inputs), *[id(view) for _, view in operands])
            found = self._templates.get(key)
            if found is None:
                # each view is over its own space; the largest stands for the task
                shape = max((v.shape for _, v in operands), key=len, default=())
                found = self._templates[key] = Template(operation, (), shape, _uses(inputs, outputs))
            self._mark(found, operands)
            self._add(Recorded(found, tuple([storage.id for storage, _ in operands]),
                               (Scalar(-1, "function", function),), where()))
            if any(storage.exported for storage, _ in operands):
                self._expose(operands)

    def _mark(self, made: Template, operands: Sequence[Operand]) -> None:
        """Note that a task which is recorded now uses these stores, and writes some (as `record` does)."""
        for (storage, _), use in zip(operands, made.uses, strict=True):
            storage.touched = self.epoch
            if use.privilege is not READ:
                storage.written = self.epoch
                storage.version += 1

    def _expose(self, operands: Sequence[Operand | Scalar]) -> None:
        """Make exported memory current, because code outside may read or write it next."""
        if any(x[0].shared for x in operands if not isinstance(x, Scalar)):
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
            found = self._overlaps[name] = overlap_of(view, theirs), view, theirs
        return found[0]

    def _add(self, task: Recorded) -> None:
        """Add a task to the window, and forward what the window has no room for."""
        trace.counters["recorded"] += 1
        if config.check and not opaque(task.template):
            check(task.template.task(task))
        window = self.window
        if self._torn:
            self._mend()
        try:
            held = self.zeros.held
            if ((task[0].fills or (held and not held.keys().isdisjoint(task[1])))
                    and self.zeros.hold(task)):
                return
            window.add(task)
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
        """Restore consistency after an exception: window, stores and zeros are counted anew.

        Not while a group is forwarded whose host function records: that finishes first.
        """
        if not self.forwarder.busy:
            self.forwarder.mend()
            self.window.mend()
            self.stores.mend([(group.number, group.slots) for group in self.window.closed])
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
        """Keep NumPy's error modes for what is not reported yet, because they are about to change."""
        if self._modes is None and self.unreported:
            self._modes = geterr()

    def _report_other_modes(self) -> None:
        """Before a task is recorded: report what was recorded under other error modes than now."""
        if self._modes == geterr():
            self._modes = None
        else:
            self.fence()

    def use_runtime(self) -> None:
        """Switch to the runtime that the settings name."""
        self.fence()
        if self.stores.change_runtime():
            self.epoch += 1
        self.window.forget()


def _uses(inputs: Sequence[Operand | Scalar], outputs: Sequence[Operand], operator: str | None = None
          ) -> tuple[Use, ...]:
    """What a task does to each of its stores; `operator` names a reduction."""
    reads = [Use.of(operand[1], READ) for operand in inputs if not isinstance(operand, Scalar)]
    privilege = WRITE if operator is None else REDUCE
    return (*reads, *[Use.of(view, privilege, operator) for _, view in outputs])


def _missing(held: Storage | None) -> str:
    return "not among the handles" if held is None else f"larger than the store of shape {held.store.shape}"


_engine = Engine()
create = _engine.stores.create
attach = _engine.stores.attach
fetch = _engine.fetch
own = _engine.own
write_back = _engine.write_back
aliased = _engine.aliased
busy = _engine.busy
look = _engine.look
record = _engine.record
again = _engine.again
submit = _engine.submit
call = _engine.call
overlap = _engine.overlap
flush = _engine.flush
settle = _engine.settle
fence = _engine.fence
watch("runtime", lambda _: _engine.use_runtime())
watch("min_chunk", lambda _: _engine.forget_decompositions())


def current() -> Engine:
    """The engine itself: its plans, its window, its runtime."""
    return _engine
