"""Stores: their liveness, and the location of their memory.

Liveness has two counts (papers/003, section 5.1): handles that the application holds, and tasks that are not
forwarded yet.  A store has memory from the first fused task that writes it and after which it is live.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from sys import is_finalizing
from threading import RLock
from typing import TYPE_CHECKING, Any

from diffuse.ir import ITEMSIZE, Frame, Point, Store
from diffuse.ir.view import View
from diffuse.runtime import SEEN, make
from diffuse.runtime.base import Instance, Runtime
from diffuse.runtime.sharing import Sharing
from diffuse.settings import config
from diffuse.stream import liveness

if TYPE_CHECKING:
    from diffuse.stream.sides import Sides


class Storage:
    """The application's handle of one store, which is live as long as the handle is referenced.

    Only `Stores.new` makes them, without a constructor, which would take time for every result of an
    operation.
    """

    __slots__ = ("id", "frame", "touched", "written", "version", "exported", "_shown", "_crowd", "_stores",
                 "__weakref__")

    id: int
    frame: Frame
    touched: int
    """The epoch of the last task that uses it.  If it is older than the engine's, no task on the store is
    pending or running.  For a `shared` store it is never older, as writes by other libraries are not
    reported."""
    written: int
    """The epoch of the last task that writes it, as `touched`."""
    version: int
    """Counts recorded writes, and possible writes by the host.  As long as it stays the same and the store is
    not `exported`, the elements stay the same.  Whoever compares it later keeps the number itself: writes by
    the host leave a number as it is that nobody else refers to."""
    exported: bool
    """Does other code see the memory, or hold the store (`shared`)?  Tasks on it then run before the call
    that records them returns."""
    _shown: list[Callable[[], object]]
    """Functions that tell whether code that was given the memory still holds it; set when it is
    `exported`."""
    _crowd: int
    """How many such functions there may be until those that say no are forgotten."""
    _stores: Stores

    @property
    def store(self) -> Store:
        return Store(self.id, *self.frame)

    @property
    def nbytes(self) -> int:
        return nbytes(self.frame)

    @property
    def shared(self) -> bool:
        """Does another library hold the store itself, to read and write it?  (It is then also `exported`.)"""
        instance = self._stores.instances.get(self.id) if self.exported else None
        return instance is not None and instance.shared

    @property
    def scattered(self) -> bool:
        """Is it a part of a larger store?  Its elements can then be named only by its own coordinates."""
        instance = self._stores.instances.get(self.id) if self.exported else None
        return instance is not None and instance.scattered

    def show(self, holder: object) -> None:
        """Mark the memory as exported while `holder` lives, or for good if it is None."""
        self.show_while((lambda: True) if holder is None else weakref.ref(holder))

    def show_while(self, held: Callable[[], object]) -> None:
        """Mark the memory as exported until `held` first returns false.  Removes holders that have ended each
        time the number of holders has doubled, as a program may export the memory often without an operation
        in between, and hold thousands of views."""
        holders = self._holders()
        if len(holders) >= getattr(self, "_crowd", 8):
            holders = [known for known in holders if known()]
            self._crowd = 2 * len(holders) + 8
        holders.append(held)
        self._shown = holders
        self.exported = True
        self._stores.shown[self.id] = weakref.ref(self)

    def shown(self) -> bool:
        """Is the host memory still exported?"""
        self._shown = [held for held in self._holders() if held()]
        self.exported = bool(self._shown) or self.shared
        return bool(self._shown)

    def _holders(self) -> list[Callable[[], object]]:
        return getattr(self, "_shown", [])

    def __del__(self) -> None:
        try:
            stores = self._stores
        except AttributeError:  # an interrupt came before it was made
            return
        store = self.id
        stores.alive.discard(store)
        stores.shown.pop(store, None)
        if stores.users.get(store, 0) <= stores.taken and store not in stores.running:
            stores.release(store)


TOGETHER = 1 << 20
"""The most bytes of a temporary that shares an allocation with other temporaries of its launch."""
MOST_TOGETHER = 64 << 20
"""The bytes of a shared allocation from which on no further store is added."""
LINE, STAGGER = 64, 320
"""Bytes of a cache line, and the gap between stores in an allocation, so that they do not map to the same
cache sets."""

Operand = tuple[Storage, View]

_making = RLock()
"""Held while the runtime, or the memory of a store, is made, so that two threads do not each make one."""


@lru_cache(maxsize=64)
def _name(dtype: Any) -> str:
    """The name of an element type, which NumPy composes anew each time: that takes 5 us."""
    name: str = dtype.name
    return name


def nbytes(store: Store | Frame) -> int:
    """Bytes of memory that a store takes."""
    return prod(store.shape) * ITEMSIZE[store.dtype]


class Stores:
    """All stores of one engine."""

    __slots__ = ("alive", "users", "taken", "instances", "storages", "lost", "running", "given", "shown",
                 "_next", "__dict__")

    def __init__(self) -> None:
        self.alive: set[int] = set()
        """Stores that the application holds."""
        self.users: dict[int, int] = {}
        """The number of the last group that uses a store."""
        self.taken = 0
        """The number of the last group that was forwarded: stores with later users are pending."""
        self.instances: dict[int, Instance] = {}
        self.storages: dict[int, Frame] = {}
        """The frame that each store was made with."""
        self.lost: dict[int, Exception] = {}
        """Stores whose contents could not be computed."""
        self.running: set[int] = set()
        """Stores of the groups being forwarded, which stay even if Python drops their handles meanwhile."""
        self.given: dict[int, Instance] = {}
        """Memory of dead stores that now belongs to another store, for tasks that still read them."""
        self.shown: dict[int, weakref.ref[Storage]] = {}
        """The handles of stores that have been exported."""
        self._next = 0

    runtime: Runtime
    """Made when somebody first asks for it, and from then on a plain attribute: each operation needs it."""
    named: str
    """The name in the settings for which it was made; with `sides`, the host's may have taken its place."""
    sides: Sides | None = None
    """On a device: whether the host would run the program sooner."""

    def __getattr__(self, name: str) -> Any:
        if name != "runtime":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with _making:
            if not self.made:
                self._use(make(config.runtime))
        return self.runtime

    def _use(self, runtime: Runtime) -> None:
        """Run on a runtime that the settings name."""
        self.sides = None
        if runtime.target != "host" and runtime.addressed:
            from diffuse.stream.sides import Sides  # which no other runtime needs

            self.sides = Sides(runtime)
        self.named, self.runtime = config.runtime, runtime

    @property
    def made(self) -> bool:
        """Was the runtime made?  Until then nothing has run on it."""
        return "runtime" in self.__dict__

    @property
    def host_sees(self) -> bool:
        """`Runtime.host_sees`, without making a runtime if its name determines the answer."""
        runtime = self.__dict__.get("runtime")
        return config.runtime in SEEN or self.runtime.host_sees if runtime is None else runtime.host_sees

    def change_runtime(self) -> bool:
        """Switch to the runtime that the settings name, and move the memory of all stores there."""
        changed = self.made and self.named != config.runtime
        if changed:
            new = make(config.runtime)
            self.move(new)
            self._use(new)
        return changed

    def move(self, new: Runtime) -> None:
        """Move the memory of all stores to another runtime."""
        old, before = self.runtime, self.instances
        collects = gc.isenabled()
        gc.disable()  # it may free stores, which then leave `instances`
        try:
            moved = {store: new.attach(old.host(instance, True), Store(store, *self.storages[store]))
                     for store, instance in before.items()}
        finally:
            if collects:
                gc.enable()
        self.instances, self.runtime = moved, new  # at once: after an interrupt all are moved or none
        for instance in before.values():
            old.release(instance)

    def create(self, shape: Point, dtype: str) -> Storage:
        """Create a store without contents; it is allocated when a launch first writes it."""
        if dtype not in ITEMSIZE or not isinstance(shape, tuple):
            raise TypeError(f"no store has shape {shape!r} and dtype {dtype!r}: give a tuple of lengths, and "
                            f"one of {', '.join(ITEMSIZE)}")
        return self.new(Frame(shape, dtype))

    def new(self, frame: Frame, epoch: int = -1, version: int = 0) -> Storage:
        """Create a store of this frame; `epoch` is that of the task that writes it, if there is one."""
        self._next = id = self._next + 1
        self.storages[id] = frame
        made = Storage()
        made.id = id
        made.frame = frame
        made.touched = made.written = epoch
        made.version = version
        made.exported = False
        made._stores = self
        self.alive.add(id)
        return made

    def attach(self, array: Any) -> Storage:
        """Make a store over the memory of a C-contiguous NumPy array, which it keeps alive."""
        storage = self.create(array.shape, _name(array.dtype))
        self.instances[storage.id] = self.runtime.attach(array, storage.store)
        return storage

    def adopt(self, sharing: Sharing, theirs: Any, shape: Point, dtype: str) -> Storage:
        """Make a store over a store that another library holds."""
        storage = self.create(shape, dtype)
        self.instances[storage.id] = sharing.adopt(theirs, dtype)
        return storage

    @property
    def sharing(self) -> Sharing:
        """The runtime's interface for sharing stores with other libraries."""
        found = self.runtime.sharing
        if found is None:
            raise RuntimeError(f"the runtime {self.runtime.name!r} shares no stores with other libraries")
        return found

    def own(self, storage: Storage) -> None:
        """Let the host write to the memory that it fetched of a store.  If that is a copy, it is the valid
        data until a task writes the store."""
        if not self.runtime.host_sees and not storage.shared:
            self.runtime.host(self.instance(storage.id), True)

    def write_back(self, storage: Storage) -> None:
        """Publish what the host wrote into fetched memory to the other holders of the store."""
        if storage.shared:
            self.sharing.write_back(self.instance(storage.id))

    def aliased(self, one: Storage, other: Storage) -> bool:
        """May two stores that other libraries hold overlap?"""
        return self.sharing.overlap(self.instance(one.id), self.instance(other.id))

    def instance(self, store: int) -> Instance:
        """The memory of a store, allocated now if it has none."""
        found = self.instances.get(store) or self.given.get(store)
        if found is None:
            with _making:
                found = self.instances.get(store) or self.given.get(store)
                if found is None:
                    frame = self.storages[store]
                    found = self.instances[store] = self.runtime.create(nbytes(frame), Store(store, *frame))
        return found

    def places(self, ids: Sequence[int], scratch: list[Instance]) -> tuple[list[int], list[Instance]]:
        """The addresses of the stores of a launch, and the instances of those with an allocation of their
        own.

        Small stores that are not used before or after the launch share one allocation, which is added to
        `scratch`: allocating each would take as long as recording the operation.
        """
        addresses: list[int] = []
        used: list[Instance] = []
        shared: list[int] = []
        room = 0
        instances, given, storages = self.instances, self.given, self.storages
        alive, users, taken = self.alive, self.users, self.taken
        for place, store in enumerate(ids):
            found = instances.get(store) or given.get(store)
            if found is None:
                shape, dtype = storages[store]
                size = prod(shape) * ITEMSIZE[dtype]
                # without calls of `nbytes` and `seen`, which take as long as all else
                if (size <= TOGETHER and room < MOST_TOGETHER and store not in alive
                        and users.get(store, 0) <= taken):
                    shared.append(place)
                    addresses.append(room)
                    room += -(-size // LINE) * LINE + STAGGER
                    continue
                found = self.instance(store)
            addresses.append(found.address)
            used.append(found)
        if shared:
            memory = self.runtime.create(room)
            scratch.append(memory)
            for place in shared:
                addresses[place] += memory.address
        return addresses, used

    def watched(self, ids: Iterable[int]) -> tuple[Instance, ...]:
        """The instances, among these stores, whose memory outside code sees."""
        return tuple([self.instance(store) for store in self.outside(self.shown.keys() & ids)])

    def outside(self, ids: Iterable[int]) -> list[int]:
        """Return those of these shown stores whose memory outside code sees."""
        return [store for store in ids if (handle := self.shown[store]()) is not None and handle.shown()]

    def held_bytes(self) -> int:
        """Bytes of all stores that the application holds."""
        frames = [self.storages.get(store) for store in list(self.alive)]
        return sum([nbytes(frame) for frame in frames if frame is not None])

    def seen(self, store: int) -> bool:
        """Does the application or a pending task still refer to the store?"""
        return store in self.alive or self.awaited(store)

    def awaited(self, store: int) -> bool:
        """Does a group that is not forwarded yet use the store?"""
        return self.users.get(store, 0) > self.taken

    def fresh(self, store: int) -> bool:
        """Does the application hold a store that no task has used yet?"""
        return (store in self.alive and not self.awaited(store) and store not in self.instances
                and store not in self.running and store not in self.lost)

    def mend(self, groups: Sequence[tuple[int, Iterable[int]]]) -> None:
        """Restore consistency after an exception: the groups with these numbers, which use these stores, are
        pending, and nothing is running.  Python may drop handles meanwhile, so a store that is needed counts
        as pending throughout."""
        for number, used in groups:
            self.users.update(dict.fromkeys(used, number))
        self.taken = groups[0][0] - 1 if groups else max(self.users.values(), default=self.taken)
        needed = {store for _, used in groups for store in used}
        for store in self.users.keys() - needed:
            self.users[store] = self.taken
        self.running.clear()
        self.given.clear()
        for store in list(self.storages):
            if not self.seen(store):
                self.release(store)

    def forwarded(self) -> None:
        """After a launch: release the stores of its groups that are no longer referenced."""
        done, self.running = self.running, set()
        self.given.clear()
        gone, held = liveness.ended(done, self.alive, self.users, self.taken, self.instances)
        for store in held:
            self.runtime.release(self.instances.pop(store))
        if self.lost:
            liveness.drop(self.lost, gone)
        liveness.drop(self.users, gone)
        liveness.drop(self.storages, gone)  # last, as in `release`

    def donate(self, old: int, fresh: int) -> bool:
        """Give the memory of a store that dies in the next launch to one that it creates, if nothing else
        refers to the memory, and it has the right size."""
        instance = self.instances.get(old)
        if (instance is None or not instance.private or fresh in self.instances or self.seen(old)
                or instance.nbytes != nbytes(self.storages[fresh])):
            return False
        # in an order in which each step is detectable and reversible
        self.given[old] = self.instances[fresh] = instance
        del self.instances[old]
        return True

    def take_back(self) -> None:
        """Undo the donations of a launch that did not begin."""
        for old, instance in list(self.given.items()):
            self.instances[old] = instance
            for fresh in [s for s, held in self.instances.items() if held is instance and s != old]:
                del self.instances[fresh]

    def release(self, store: int, ending: Callable[[], bool] = is_finalizing) -> None:
        # the frame goes last: as long as it is there, an interrupt leaves the rest to `mend`
        instance = self.instances.pop(store, None)
        if instance is not None and not ending():  # then the process returns it at exit
            self.runtime.release(instance)
        self.lost.pop(store, None)
        self.users.pop(store, None)
        self.storages.pop(store, None)
