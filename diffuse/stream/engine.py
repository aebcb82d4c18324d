"""The stream: operations come in as index tasks, fused tasks go out to the runtime.

`record`, `submit` and `call` find the template of a task (ir/template.py) and add the task to the queue
(queue.py), of which groups are forwarded when it is full or the program wants a value (execute.py).  The
functions of this module are those of the one engine that a program has.

Locks are taken in this order, each while those before it may be held: the engine's, the forwarder's, the
compiler's table of kernels, the compile client's, the allocator's.  `_attaching` (numpy/arrays/access.py) and
`_making` (stores.py) are taken with or without the engine's, and only the allocator's inside of them.  A
finalizer may run at any allocation, under any of these locks: it takes none but the allocator's, and only
where that is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

from diffuse.ir import Frame, IndexTask, Point, Privilege, Scalar, kinds
from diffuse.ir.template import Template
from diffuse.ir.view import View
from diffuse.kernels.body import operations
from diffuse.observe import notices, provenance
from diffuse.observe.provenance import where
from diffuse.runtime.base import Instance
from diffuse.runtime.independent import Independent
from diffuse.runtime.sharing import Sharing
from diffuse.settings import watch
from diffuse.stream import liveness, sketch
from diffuse.stream.direct import Direct, direct
from diffuse.stream.queue import Queue
from diffuse.stream.stores import Operand, Storage, nbytes
from diffuse.stream.templates import check_arguments


class Engine(Queue):
    """One program's stream over one runtime."""

    def busy(self, storage: Storage) -> bool:
        """Was a task on this store recorded since the program last waited or, if the host sees copies of
        stores, since it last fetched this one?  Always true if another library also holds the store."""
        return storage.touched == self.epoch

    def look(self, storage: Storage) -> Any:
        """The store's memory as a read-only NumPy array of bytes, if no pending or running task writes it;
        else None.  Tasks that read it can go on meanwhile."""
        if storage.written == self.epoch:
            return None
        store = storage.id
        if store in self.stores.lost:
            return None
        return self.runtime.known(self._quiet(store))

    def fetch(self, storage: Storage) -> Any:
        """The store's memory as a NumPy array of bytes, to be read, with everything recorded on it done."""
        if self.stores.sides is not None:
            self.stores.sides.met()
        if storage.touched == self.epoch:
            if self.host_sees:
                self.fence()
            else:
                self.flush()  # fetching waits by itself
        store = storage.id
        if store in self.stores.lost:
            raise copy(self.stores.lost[store])  # its traceback would keep the program's stores alive
        memory = self.runtime.host(self._quiet(store), False)
        if not storage.shared:
            storage.touched = storage.written = -1
        if not self.host_sees:
            self.runtime.fence()
            self._report()
        return memory

    def _quiet(self, store: int) -> Instance:
        """The memory of a store for the host, which no launch uses any more.

        A store that no task has written gets memory here that an earlier store may have left to queued
        launches: a launch on it would follow them, while the host has to wait for them.
        """
        stores = self.stores
        fresh = store not in stores.instances and store not in stores.given
        found = stores.instance(store)
        if fresh and self.host_sees:
            self.runtime.fence()
        return found

    def piece(self, storage: Storage, offset: int, nbytes: int) -> Any:
        """Some bytes of a store as a NumPy array, to be read now, with everything recorded on it done.  None
        if the runtime only copies whole stores."""
        if storage.touched == self.epoch:
            self.flush()
        store = storage.id
        if store in self.stores.lost:
            raise copy(self.stores.lost[store])
        instance = self.stores.instance(store)
        found = self.runtime.piece(instance, offset, nbytes)
        if found is not None and self.runtime.known(instance) is not None:
            storage.touched = storage.written = -1
        return found

    def take(self, storage: Storage) -> bool:
        """May the host write to the store's own memory now, without waiting, and with no other holder to
        notify?  If so, this records that it does."""
        if storage.touched == self.epoch or not self.host_sees:
            return False
        storage.version += 1
        return True

    @property
    def sharing(self) -> Sharing:
        """The runtime's interface for sharing stores with other libraries."""
        return self.stores.sharing

    def settle(self, reason: str) -> None:
        """Forward what was recorded, so that other libraries that hold the same stores see it in order."""
        if self.sharing.fenced:
            self.fence()
        else:
            self.flush(reason)

    def forget_decompositions(self) -> None:
        """Decompose anew from now on, because settings changed."""
        self.flush("the settings change")
        self.window.forget()

    def record(self, operation: str, signature: tuple[str, ...] = (), shape: Point = (),
               inputs: tuple[Operand | Scalar, ...] = (), outputs: tuple[Operand, ...] = (),
               operator: str | None = None) -> Template:
        """Add one operation to the stream; returns its template, with which `again` adds it once more.

        Views are in the iteration space `shape`; an output that overlaps an input must be the same view.
        `operator` names a reduction, whose output views leave out the dimensions that it folds.
        Raises TypeError for arguments of other kinds, which it names.
        """
        try:
            with self._lock:
                shows = self._variable.get() is not self._seen and self._shows()
                epoch, exported = self.epoch, False
                key: list[Any] = [operation, signature, shape]
                stores, values = [], []
                for operand in inputs:
                    if isinstance(operand, Scalar):
                        values.append(operand[2])
                        key += operand[:2]
                        continue
                    storage, view = operand
                    stores.append(storage.id)
                    key.append(view.token)
                    storage.touched = epoch
                    if storage.exported:
                        exported = True
                key.append(operator)
                for storage, view in outputs:
                    stores.append(storage.id)
                    key.append(view.token)
                    storage.touched = storage.written = epoch
                    storage.version += 1
                    if storage.exported:
                        exported = True
                name = tuple(key)
                found = self.templates.known.get(name)
                if found is None:
                    check_arguments(operation, signature, shape, inputs, outputs)
                    found = self.templates.make(name, operation, signature, shape, inputs, outputs, operator)
                self._add((found, tuple(stores), tuple(values), where(2)), shows)
                if exported:
                    self._expose([x[0] for x in (*inputs, *outputs) if not isinstance(x, Scalar)])
                return found
        except (AttributeError, TypeError, ValueError):
            check_arguments(operation, signature, shape, inputs, outputs)
            raise

    def again(self, made: Template, frame: Frame, one: Storage, other: Storage | None,
              values: tuple[Any, ...], depth: int) -> Storage:
        """Add an operation again by the template that `record` returned: on the same views, of one store or
        two, with these numbers; returns the new store of this frame that it writes.

        `depth` counts the calls of Python functions from the program's own line to this one.
        """
        with self._lock:
            shows = self._variable.get() is not self._seen and self._shows()
            one.touched = epoch = self.epoch
            out = self.stores.new(frame, epoch, 1)
            if other is None:
                self._add((made, (one.id, out.id), values, where(depth + 1)), shows)
                if one.exported:
                    self._expose((one,))
            else:
                other.touched = epoch
                self._add((made, (one.id, other.id, out.id), values, where(depth + 1)), shows)
                if one.exported or other.exported:
                    self._expose((one, other))
            return out

    def again_into(self, made: Template, inputs: Sequence[Storage], output: Storage,
                   values: tuple[Any, ...], depth: int) -> None:
        """As `again`, for an operation that writes an existing store."""
        with self._lock:
            shows = self._variable.get() is not self._seen and self._shows()
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
            self._add((made, tuple(stores), values, where(depth + 1)), shows)
            if exported:
                self._expose((*inputs, output))

    def submit(self, task: IndexTask, storages: Iterable[Storage]) -> None:
        """Add an index task to the stream; `storages` are the handles of the stores that it names.

        Raises TypeError or ValueError for a task that is not well formed (ir/check.py), for an undeclared
        operation, and for a store whose handle is missing.
        """
        from diffuse.ir.check import check

        if not isinstance(task, IndexTask):
            raise TypeError(f"submit: {task!r} is no task; make an IndexTask, or `record` an operation")
        handles = {storage.id: storage for storage in storages}
        check(task)
        for access in task.accesses:
            held = handles.get(access.store.id)
            if held is None or nbytes(access.store) > held.nbytes:
                raise ValueError(f"store {access.store.id} of task {task.operation!r} is {_missing(held)}: "
                                 "pass the handle that `create` or `attach` returned, and name its shape")
        if not operations.known(task.operation):
            raise ValueError(f"task {task.operation!r} is of no known operation: declare it first, or record "
                             "a host function with `call`")
        with self._lock:
            made, stores, values, place = self.templates.of_task(task)
            self._include(made, [handles[store] for store in stores], values,
                          where(2) if place is None else place)

    def call(self, operation: str, function: Callable[..., None], inputs: tuple[Operand, ...],
             outputs: tuple[Operand, ...]) -> None:
        """Run a host function over whole NumPy arrays, in stream order: `function(*inputs, *outputs)`."""
        if not callable(function):
            raise TypeError(f"call: {function!r} is no function; give one that takes all operands")
        with self._lock:
            operands = (*inputs, *outputs)
            if type(function) is Independent:
                function.check(operation, [v.shape for _, v in inputs], [v.shape for _, v in outputs])
            key = (operation, len(inputs), *[view.token for _, view in operands])
            found = self.templates.known.get(key)
            if found is None:
                # each view is over its own space; the largest stands for the task
                shape = max((v.shape for _, v in operands), key=len, default=())
                called = Scalar(-1, "function", function)
                found = self.templates.make(key, operation, (), shape, (*inputs, called), outputs)
            self._include(found, [storage for storage, _ in operands], (function,), where(2))

    def _include(self, made: Template, storages: Sequence[Storage], values: tuple[Any, ...],
                 place: Any) -> None:
        """Add a task of a template on these stores, as `record` does."""
        shows = self._variable.get() is not self._seen and self._shows()
        for storage, use in zip(storages, made.uses, strict=True):
            storage.touched = self.epoch
            if use.privilege is not Privilege.READ:
                storage.written = self.epoch
                storage.version += 1
        self._add((made, tuple([storage.id for storage in storages]), values, place), shows)
        if any([storage.exported for storage in storages]):
            self._expose(storages)

    def _expose(self, storages: Sequence[Storage]) -> None:
        """Make exported memory current, because outside code may read or write it next."""
        sharing = self.runtime.sharing
        if sharing is not None:
            sharing.reclaim()
        if any(storage.shared for storage in storages):
            self.settle("another library holds a store")
        shown = [storage for storage in storages if storage.shown()]
        if shown:
            self.fence()
            if not self.host_sees:
                for storage in shown:
                    self.fetch(storage)
                    self.stores.own(storage)

    def direct(self, made: Template, operands: Sequence[Any], out: Any) -> Direct | None:
        """Lay out the direct launch of a template's task on operands like these (direct.py)."""
        return direct(self, made, operands, out)

    def use_runtime(self) -> None:
        """Switch to the runtime that the settings name."""
        self.fence()
        if self.stores.change_runtime():
            self._begin_epoch()
        self.window.forget()


def _missing(held: Storage | None) -> str:
    return "not among the handles" if held is None else f"larger than the store of shape {held.store.shape}"


_engine = Engine()
notices.inside = _engine.entered
create = _engine.stores.create
new = _engine.stores.new
attach = _engine.stores.attach
fetch = _engine.fetch
own = _engine.stores.own
take = _engine.take
piece = _engine.piece
write_back = _engine.stores.write_back
aliased = _engine.stores.aliased
busy = _engine.busy
look = _engine.look
record = _engine.record
again = _engine.again
again_into = _engine.again_into
submit = _engine.submit
call = _engine.call
overlap = _engine.templates.overlap
flush = _engine.flush
settle = _engine.settle
fence = _engine.fence
watch("runtime", lambda _: _engine.use_runtime())
watch("check", lambda _: _engine._adapt())
watch("window", lambda _: _engine._adapt())
watch("small", lambda _: _engine._adapt())
watch("min_chunk", lambda _: _engine.forget_decompositions())


def recording() -> dict[str, Any]:
    """The objects that compiled code needs to do what `again` does: the engine, the classes of its parts, and
    tables."""
    parts: tuple[Any, ...] = (_engine.window, _engine.stores, _engine.walk, _engine.window.open,
                              _engine.window.open.trail, _engine.waits)
    return {"Engine": Engine, "Storage": Storage, "Template": Template, "engine": _engine,
            "fills": _engine.zeros.held, "provenance": vars(provenance),
            "View": View, "Form": kinds.Form, "form": kinds.form, "READ": Privilege.READ,
            "connect": sketch.connect, "connect_live": liveness.connect,
            **{type(part).__name__: type(part) for part in parts}}


def current() -> Engine:
    """The engine of this process: its plans, its window, its runtime."""
    return _engine
