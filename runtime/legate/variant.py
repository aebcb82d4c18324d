"""The task in Python, for machines without a C++ compiler: the same messages in, the same kernels run.

It does what trampoline.cc does: it finds where the stores of a launch lie, writes addresses and strides into
the kernel's block and calls the kernel by its address, without Python's lock.  What follows from a message
and from where the stores lie is worked out once: launches of one layout are alike but for their pointers.

Legate's objects may go on the main thread only, or the process ends.  A collection of cycles happens in
whatever thread allocates, and might find one: so from the first launch until everything submitted is done
there are no automatic ones (Legate holds them while a task runs, but lets go when the first of several ends).
The main thread collects between launches instead.
"""

from __future__ import annotations

import gc
import threading
from array import array
from collections.abc import Generator
from ctypes import CFUNCTYPE, c_int64, c_uint32, c_void_p
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.runtime.legate.message import FOLD, GET, HEADER, INPUT, OUTPUT, PUT, RUN
from diffuse.runtime.legate.reading import Complaint, Place, Plan, Where, numbers, read
from diffuse.runtime.legate.task import COMPLAINTS
from diffuse.runtime.local import native
from diffuse.runtime.local.pool import Pool, loaded

MOST_PLANS = 10_000
"""Layouts whose reading is remembered."""
ELEMENTS = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<i8", 16: "<c16"}
"""How elements of so many bytes are copied."""

HELPERS = """
declare i32 @fegetenv(ptr)
declare i32 @fesetenv(ptr)
declare i32 @fetestexcept(i32)

; points [first, last) of a kernel, then `finish` if there is one; returns floating-point exceptions
define i32 @execute(ptr %kernel, ptr %block, i64 %first, i64 %last, ptr %finish) {
entry:
  %saved = alloca [64 x i8], align 16
  %a = call i32 @fegetenv(ptr %saved)
  %b = call i32 @fesetenv(ptr inttoptr (i64 -1 to ptr))
  br label %look
look:
  %p = phi i64 [ %first, %entry ], [ %next, %point ]
  %more = icmp slt i64 %p, %last
  br i1 %more, label %point, label %over
point:
  call void %kernel(ptr %block, i64 %p)
  %next = add i64 %p, 1
  br label %look
over:
  %none = icmp eq ptr %finish, null
  br i1 %none, label %end, label %combine
combine:
  call void %finish(ptr %block)
  br label %end
end:
  %seen = call i32 @fetestexcept(i32 31)
  %c = call i32 @fesetenv(ptr %saved)
  ret i32 %seen
}

; a kernel for the pool, whose points start at 0: its block is (kernel, first point, block)
define void @shifted(ptr %whole, i64 %p) {
  %at.first = getelementptr i64, ptr %whole, i64 1
  %at.block = getelementptr i64, ptr %whole, i64 2
  %kernel = load ptr, ptr %whole
  %first = load i64, ptr %at.first
  %block = load ptr, ptr %at.block
  %q = add i64 %first, %p
  call void %kernel(ptr %block, i64 %q)
  ret void
}
"""


class Interpreted:
    """The task as a Python function.  `alone`: launches run at once, on the main thread."""

    def __init__(self, alone: bool) -> None:
        self._alone = alone
        self._execute, self._shifted = _helpers()
        self._pool: Pool | None = None
        self._submitting = threading.Lock()
        """One launch at a time on the pool."""
        self._noting = threading.Lock()
        self._raised = 0
        self._complaint: str | None = None
        self._error: BaseException | None = None
        """What came out of a task on the main thread."""
        self._held = False
        """Did the program want automatic collections, which wait until everything is done?"""
        self._plans: dict[tuple[int, int, int, bytes], Plan] = {}

    # -- for the runtime -----------------------------------------------------------------------------------

    def register(self, core: Any, library: Any) -> Any:
        number = core.LocalTaskID(0)
        body: Any = self._body
        if self._alone:
            bodies = self._bodies()
            next(bodies)
            body = bodies.send
        info = core.TaskInfo.from_variants(number, "diffuse", [(core.VariantCode.CPU, body)])
        library.register_task(info)
        return number

    def pool(self, pool: Pool) -> None:
        self._pool = pool

    def execute(self, task: Any) -> None:
        if not self._alone:
            self._collect()
        task.execute()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def settled(self) -> None:
        if self._held:
            self._held = False
            gc.enable()

    def _raw(self) -> int:
        """The processor's flags since last asked, the pool's too."""
        with self._noting:
            raw, self._raised = self._raised, 0
        return raw | (self._pool.raw() if self._pool is not None else 0)

    def flags(self) -> int:
        return native.exceptions(self._raw())

    def complaint(self) -> str | None:
        found, self._complaint = self._complaint, None
        return found

    def _collect(self) -> None:
        """Hold automatic collections, and do now what one would do; full ones come when all is done."""
        if gc.isenabled():
            self._held = True
            gc.disable()
        elif not self._held:  # the program's own choice, or that of several ranks
            return
        young, middle, _ = gc.get_count()
        most, turns, _ = gc.get_threshold()
        if 0 < most < young:
            gc.collect(1 if middle > turns else 0)

    # -- in a task -----------------------------------------------------------------------------------------

    def _body(self, context: Any) -> None:
        """What Legate calls, on a thread of its own: an exception that came out would end the process."""
        try:
            self._perform(context)
        except BaseException as error:
            self._fail(error)

    def _bodies(self) -> Generator[None, Any, None]:
        """The same on the main thread, where a handler of signals (Control-C) may raise at any time.

        A function would begin outside of its `try`; a generator goes on inside.
        """
        while True:
            try:
                while True:
                    self._perform((yield))
            except BaseException as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, MemoryError):
            error = Complaint(COMPLAINTS[2])
        if self._alone and not isinstance(error, Complaint):
            self._error = error.with_traceback(None)  # its frames hold objects of the task
        elif self._complaint is None:
            told = isinstance(error, Complaint)
            self._complaint = str(error) if told else f"{type(error).__name__}: {error}"

    def _perform(self, context: Any) -> None:
        words = context.scalars[0].value()
        head = HEADER.unpack_from(words)
        order, pointers, block = head[0], head[6], head[7]
        begin = HEADER.size + 8 * pointers
        end = begin + 8 * block
        hosts = numbers(pointers).unpack_from(words, HEADER.size)
        plan = self._plan((*head[8:], bytes(words[end:])))
        if order in (RUN, FOLD):
            if self._complaint is None:
                self._launch(context, head, plan, hosts, array("q", bytes(words[begin:end])))
            return
        (place,) = plan.places
        # GET and PUT: `span` Legate points a process, of which the first copies for all
        if order == GET and head[4] and _index(context) % head[4]:
            return
        _copy(place, *_locate(context, place, hosts), hosts[0], order == PUT)

    def _plan(self, key: tuple[int, int, int, bytes]) -> Plan:
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = read(*key)
        return plan

    def _launch(self, context: Any, head: tuple[int, ...], plan: Plan, hosts: tuple[int, ...],
                block: array[int]) -> None:
        order, kernel, finish, points, span, detached, *_ = head
        found = [_locate(context, place, hosts) for place in plan.places]
        patch = plan.patch(tuple([where for _, where in found]))
        odd: list[tuple[Place, NDArray[Any], NDArray[Any]]] = []
        if patch.odd:
            odd = _arrange(plan, found, patch.odd)
            patch = plan.patch(tuple([where for _, where in found]))
        addresses = [address for address, _ in found]
        for word, value in patch.fixed:
            block[word] = value
        for word, k in patch.moving:
            block[word] += addresses[k]
        scratch = [np.zeros(max(piece.nbytes, 8), np.uint8) for piece in plan.scratch]
        for piece, memory in zip(plan.scratch, scratch, strict=True):
            block[piece.word] = memory.__array_interface__["data"][0]
        if order == FOLD:
            self._share(plan, found, scratch, False)
            self._note(self._execute(0, block.buffer_info()[0], 0, 0, finish))
            _restore(odd)
            return
        first = _index(context) * span
        last = min(first + span, points)
        if detached:  # alone: the launch goes on while the program records
            assert self._pool is not None
            number = self._pool.submit(kernel, finish, last, block.tobytes())
            if odd:
                self._pool.wait(number)
        elif first < last:
            self._run(kernel, finish, block, first, last)
        self._share(plan, found, scratch, True)
        _restore(odd)

    def _run(self, kernel: int, finish: int, block: array[int], first: int, last: int) -> None:
        """Points [first, last) of the kernel, then `finish` if there is one: on the pool if that pays."""
        at = block.buffer_info()[0]
        pool = self._pool
        if pool is not None and last - first > 1:
            whole = array("q", (kernel, first, at)).tobytes()
            with self._submitting:
                pool.wait(pool.submit(self._shifted, 0, last - first, whole))
            first = last
        if finish or first < last:
            self._note(self._execute(kernel, at, first, last, finish))

    def _share(self, plan: Plan, found: list[tuple[int, Where]], scratch: list[NDArray[np.uint8]],
               out: bool) -> None:
        """Move what points share of scratch out to its stores, or in from them."""
        for piece, memory in zip(plan.scratch, scratch, strict=True):
            for offset, k in piece.planes:
                _copy(plan.places[k], *found[k], memory.__array_interface__["data"][0] + offset, out)

    def _note(self, seen: int) -> None:
        if seen & ~self._raised:
            with self._noting:
                self._raised |= seen


def _index(context: Any) -> int:
    """Which Legate point this is."""
    at = context.task_index
    return int(at[0]) if at else 0


def _locate(context: Any, place: Place, hosts: tuple[int, ...]) -> tuple[int, Where]:
    """Where a store of the launch lies: the address of its first element here, and the rest."""
    if place.host is not None:
        return hosts[place.number], place.host
    store = (context.inputs if place.kind == INPUT else context.outputs)[place.number].data()
    memory = store.get_inline_allocation()
    shape = memory.shape
    if 0 in shape:
        return 0, Where((), (), (), True)
    # the one point of a launch has everything: asking Legate for the domain costs as much as all the rest
    low = place.low if context.is_single_task() else tuple(
        [a + b for a, b in zip(place.low, store.domain.lo, strict=True)])
    return memory.ptr, Where(low, shape, memory.strides, False)


def _arrange(plan: Plan, found: list[tuple[int, Where]], odd: tuple[int, ...]
             ) -> list[tuple[Place, NDArray[Any], NDArray[Any]]]:
    """Copies of stores, in the place of the stores, whose elements lie as a kernel takes them to."""
    copies = []
    for k in odd:
        (address, where), place = found[k], plan.places[k]
        theirs = _view(address, where.shape, where.strides, place.item)
        ours = theirs.copy()
        found[k] = ours.__array_interface__["data"][0], where._replace(strides=ours.strides)
        copies.append((place, theirs, ours))
    return copies


def _restore(odd: list[tuple[Place, NDArray[Any], NDArray[Any]]]) -> None:
    """What the kernel wrote to the copies goes to the stores."""
    for place, theirs, ours in odd:
        if place.kind == OUTPUT:
            np.copyto(theirs, ours)


class _Memory:
    """What NumPy takes for an array: memory by its address."""

    __slots__ = ("__array_interface__",)

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _view(address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> NDArray[Any]:
    return np.asarray(_Memory({"version": 3, "shape": shape, "strides": strides, "typestr": ELEMENTS[item],
                               "data": (address, False)}))


def _copy(place: Place, address: int, where: Where, whole: int, out: bool) -> None:
    """Between row-major memory of the whole extents and a store's part: `out` copies to the store."""
    if where.empty or not prod(place.extent):
        return
    part = tuple([slice(a, a + n) for a, n in zip(where.low, where.shape, strict=True)])
    theirs = _view(whole, place.extent, None, place.item)[part]
    ours = _view(address, where.shape, where.strides, place.item)
    np.copyto(ours, theirs) if out else np.copyto(theirs, ours)


@cache
def _helpers() -> tuple[Any, int]:
    """The compiled functions `execute` and `shifted`, the second by its address."""
    found = loaded(HELPERS, ("execute", "shifted"))
    kind = CFUNCTYPE(c_uint32, c_void_p, c_void_p, c_int64, c_int64, c_void_p)
    return kind(found["execute"]), found["shifted"]
