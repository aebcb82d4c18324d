"""The Runtime protocol: instances (the memory of stores) and launches (kernels on launch domains).

Everything submitted runs in the order of submission, asynchronously: `launch` returns while earlier
launches still run.  Therefore:

* the *host* may look at the memory of an instance only through `host`, after a `fence` (or inside a `call`);
* `release` may come while launches on the instance are still queued, and its memory may be handed out by
  the next `create`: whatever is launched on that runs later;
* floating-point exceptions are those of everything since they were last asked for.

Who sees which memory, and when, differs from runtime to runtime.  Each answers the same questions by
attributes of these names, and nothing outside of this package asks for a runtime's name:

    question                                                     local     reference  legate     on one rank
    addressed  are addresses of instances known before launch?   yes       yes        no         no
    host_sees  does `host` show the memory itself, not a copy?   yes       yes        no         no
    pipelines  can a launch be one pass over two fused tasks?    yes       no         no         yes
    code       does a launch need machine code?                  PREFERRED UNUSED     NEEDED     NEEDED
    ranks      processes that run the program together           1         1          any        1
    exchange   may other libraries hold a store as well?         None      None       at once    when done
    fate       is it known what an interrupt left of a launch?   yes       no         no         no

A GPU's memory has addresses that the host does not see: addressed, but not host_sees; so has its simulator's.
Where a runtime is not `addressed`, a launch comes with offsets in the place of addresses, with a `Layout`
and with its instances.  Where the host does not see the memory, what `host` gives is a copy: it is good until
the next launch that writes the instance, and once the host asked to write to it, it is the copy that counts
until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import Access, Point, Privilege, Store
from diffuse.ir.view import View

Value = Any
"""One word of a kernel's block: an integer or a float."""


class MachineCode(Protocol):
    """Machine code of a kernel: `void k(block, point)` and `void finish(block)` (0: nothing to finish)."""

    @property
    def address(self) -> int: ...

    @property
    def finish(self) -> int: ...


class Kernel(Protocol):
    """What a launch runs: machine code when there is some (it may appear at any time), its meaning always."""

    @property
    def native(self) -> MachineCode | None: ...

    def pack(self, values: tuple[Any, ...]) -> bytes:
        """The block that the machine code reads."""
        ...

    def point(self, values: tuple[Any, ...], p: int) -> None:
        """Run point `p`, interpreted."""
        ...

    def finish(self, values: tuple[Any, ...]) -> None:
        """What is left to do once, after all points, interpreted."""
        ...


class Division(Protocol):
    """The work of a launch in smaller points, so that machine code can take over halfway."""

    @property
    def values(self) -> tuple[Value, ...]: ...

    @property
    def points(self) -> int: ...

    @property
    def rest(self) -> Callable[[int], tuple[Value, ...]]:
        """From a small point to the values of a launch of what is left, over as many points as the whole."""
        ...


@runtime_checkable
class Divisible(Kernel, Protocol):
    """A kernel that may be able to say how its work divides."""

    def divide(self, values: tuple[Any, ...]) -> Division | None: ...


class Instance(Protocol):
    """The memory of one store."""

    @property
    def address(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def private(self) -> bool:
        """Is it certain that nobody else sees the memory, so that another store may take it over?"""
        ...

    @property
    def handed(self) -> bool:
        """Does another library hold the store as well (see `Exchange`)?  Then a copy of the host's is never
        current."""
        ...

    @property
    def scattered(self) -> bool:
        """Is it part of another library's larger store?  Its memory has gaps then, and only its own
        coordinates name its elements."""
        ...


class LaunchArgument(NamedTuple):
    """One argument of a kernel: where its address stands in the block, and which elements it names."""

    word: int
    """Of the block: the address; the byte strides along the iteration dimensions follow it."""
    slot: int
    """Arguments of one store have one slot."""
    storage: tuple[Point, str]
    """Shape and element type of the store itself, of which the access may see another frame."""
    access: Access
    privilege: Privilege
    """What the kernel does there; REDUCE: `finish` alone writes it, when all points are done."""
    late: bool = False
    """Is it the epilogue's, so that `finish` alone touches it?"""


class Plane(NamedTuple):
    """Part of a scratch that points share out: [outer][middle][inner bytes], from `offset` on.

    Point p fills the indices [p * tile, (p + 1) * tile) of `middle`.
    """

    offset: int
    outer: int
    middle: int
    inner: int
    tile: int


class Scratch(NamedTuple):
    """Memory for the length of a launch, whose address goes into a word of the block."""

    word: int
    nbytes: int
    planes: tuple[Plane, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What a launch touches, for a runtime that decides itself where stores lie: all but its instances.

    The same object comes back for every launch of one plan over equal views, so that what a runtime derives
    from it is derived once (`derived` is the runtime's to fill).
    """

    arguments: tuple[LaunchArgument, ...]
    scratch: tuple[Scratch, ...]
    title: str
    """Operations and lines, for profiles."""
    domain: Point = (1,)
    """The launch domain."""
    derived: dict[Any, Any] = field(default_factory=dict)


class Launch(NamedTuple):
    """One kernel on a launch domain."""

    kernel: Kernel
    values: tuple[Any, ...]
    """Integers and floats, in the order of the kernel's block."""
    points: int
    keep: tuple[Any, ...] = ()
    """What must stay alive until the launch has run: its instances."""
    layout: Layout | None = None
    """For a runtime that is not `addressed`, where `values` holds offsets instead of addresses."""
    instances: tuple[Instance, ...] = ()
    """Of the layout's arguments, in their order."""
    work: int = 0
    """Operations times elements, about."""


class CodeUse(Enum):
    """What machine code is to a runtime."""

    UNUSED = "launches run interpreted"
    PREFERRED = "launches run interpreted until there is machine code"
    NEEDED = "launches wait for machine code: to interpret one moves the data to the host and back"


class Fate(Enum):
    """What an interrupt left of a launch or of a call of a host function."""

    PENDING = "it did not begin and never will"
    DONE = "it is done, or will be"
    LOST = "it may have stopped halfway, or nobody knows"


class Exchange(Protocol):
    """Stores that Diffuse and other libraries of a runtime's both hold.

    An instance that was *handed* over has its data in the store, always, and what the host writes to its copy
    has to be put back at once.
    """

    fenced: bool
    """Do others see what was launched when it is done?  They see it at once otherwise: the runtime orders
    their tasks behind ours."""
    dimensions: int
    """Most dimensions of a store."""
    room: int
    """Bytes of memory of a process, of which the library's stores take a part."""

    def hand_out(self, instance: Any) -> Any:
        """The library's store of an instance, with its data in it, for others to read and write from now on.
        Everything recorded on it was launched before, and is done where others wait for that."""
        ...

    def take_back(self, instance: Any) -> None:
        """Nobody else holds the store of an instance any more."""
        ...

    def adopt(self, store: Any, dtype: str) -> Instance:
        """An instance over somebody else's store."""
        ...

    def holds(self, instance: Any, store: Any) -> bool:
        """Is the store that of an instance?"""
        ...

    def put_back(self, instance: Any) -> None:
        """The host wrote into its copy of a handed instance: the store gets it."""
        ...

    def overlap(self, one: Any, other: Any) -> bool:
        """May two handed instances have elements in common?"""
        ...

    def nameable(self, view: View, store: Store) -> bool:
        """Has the library a name for the part of a store that a view shows?"""
        ...

    def part(self, store: Any, view: View) -> Any:
        """That part of the library's store."""
        ...

    def name(self, store: Any) -> str | None:
        """What tells a store from others, views of the same memory too; None if the library does not say."""
        ...

    def value(self, store: Any) -> NDArray[Any]:
        """A copy of the data, for what is no store with memory of its own."""
        ...

    def type_name(self, store: Any) -> str | None:
        """The element type as Diffuse calls it, if it computes in such elements."""
        ...


class Runtime(Protocol):
    """Where launches run."""

    name: str
    points: int
    """Point tasks that can run at the same time."""
    addressed: bool
    """Has an instance an address that is known before a launch, and elements that lie there in row-major
    order?"""
    host_sees: bool
    """Does `host` show the memory of an instance itself, and not a copy of it?"""
    code: CodeUse
    """What machine code is to launches."""
    ranks: int
    """Processes that run the program together, of which each records the same tasks."""

    @property
    def pipelines(self) -> bool:
        """Does a launch find its stores whole and in one place, so that two can run as one pass over
        rows?"""
        ...

    @property
    def exchange(self) -> Exchange | None:
        """How stores are shared with other libraries; None where that is not to be had."""
        ...

    def scratch(self, nbytes: int) -> Instance:
        """Memory with an address, for one launch; `release` it after."""
        ...

    def create(self, nbytes: int, store: Store | None = None) -> Instance:
        """Memory for a store, contents undefined.  MemoryError leaves the runtime as it was."""
        ...

    def zeroed(self, nbytes: int, store: Store | None = None) -> Instance | None:
        """Memory for a store, all zero, that nobody had to clear; None where that is not to be had."""
        ...

    def attach(self, array: NDArray[Any], store: Store | None = None) -> Instance:
        """The memory of a C-contiguous array, not copied; the array is kept alive."""
        ...

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        """The memory as bytes, for the host to read and, if it says so, to write; after a fence only.

        It lives as long as the array does.  Where the host does not see the memory it is a copy, and holds
        good until the next launch that writes the instance; the same bytes are then filled anew by the next
        `host`.
        """
        ...

    def launch(self, launch: Launch) -> None:
        """Submit a launch."""
        ...

    def call(self, function: Callable[[], None]) -> None:
        """Run a host function after everything submitted so far; what it raises comes out here."""
        ...

    def fence(self) -> None:
        """Wait until everything submitted is done."""
        ...

    def release(self, instance: Instance) -> None:
        """Nothing submitted from now on uses the instance."""
        ...

    def flags(self) -> int:
        """Floating-point exceptions of what ran since last asked; ask after a fence."""
        ...

    def mark(self) -> int:
        """A number for `fate`, taken before something is submitted."""
        ...

    def fate(self, mark: int) -> Fate:
        """What became of what was submitted since a mark, when an interrupt came out of submitting it."""
        ...
