"""The Runtime protocol: instances (the memory of stores) and launches (kernels on launch domains).

Everything submitted runs in the order of submission, asynchronously: `launch` returns while earlier
launches still run.  Therefore:

* the *host* may look at the memory of an instance only through `host`, after a `fence` (or inside a `call`);
* `release` may come while launches on the instance are still queued, and its memory may be handed out by
  the next `create`: whatever is launched on that runs later;
* floating-point exceptions are those of everything since they were last asked for.

Who sees which memory, and when, differs from runtime to runtime.  Each answers the same questions by
attributes of these names, and nothing outside of this package asks for a runtime's name:

    question                                                    local     reference legate  one rank  mpi
    addressed  are addresses of instances known before launch?  yes       yes       no      no        no
    host_sees  does `host` show the memory itself, not a copy?  yes       yes       no      no        no
    pipelines  can a launch be one pass over two fused tasks?   yes       no        no      yes       one rank
    code       does a launch need machine code?                 PREFERRED UNUSED    NEEDED  NEEDED    NEEDED
    target     for what is machine code compiled?               host      host      host    host      host
    completes  does a point complete folds of its own rows?     yes       yes       yes     yes       yes
    ranks      processes that run the program together          1         1         any     1         any
    blocks     how many points of a rank share a block?         0         0         0       0         threads
    exchange   may other libraries hold a store as well?        None      None      at once when done None
    fate       is it known what an interrupt left of a launch?  yes       no        no      no        no

The runtime mpi answers as legate, with no exchange.  A GPU's memory has addresses that the host does not see:
addressed, but not host_sees; so has its simulator's.
Where a runtime is not `addressed`, a launch comes with offsets in the place of addresses, with a `Layout`
and with its instances.  Where the host does not see the memory, what `host` gives is a copy: it is good until
the next launch that writes the instance, and once the host asked to write to it, it is the copy that counts
until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from diffuse.ir import Access, Point, Privilege, Store
from diffuse.ir.view import View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Value = Any
"""One word of a kernel's block: an integer or a float."""


class MachineCode(Protocol):
    """Machine code of a kernel: `void k(block, point)` and `void finish(block)` (0: nothing to finish)."""

    @property
    def address(self) -> int: ...

    @property
    def finish(self) -> int: ...


class Steps(Protocol):
    """Launches of grid kernels, one after another: the kernel's name, on how many groups of threads it runs,
    and its argument."""

    plan: Any
    """What the runtime made of them; None at first."""

    def __iter__(self) -> Iterator[tuple[str, int, int]]: ...


class GridCode(Protocol):
    """The grid kernels of a body, for a device with memory of its own."""

    code: Any
    """What the compiler made: functions of this process by their names (`addresses`), or an `image`."""
    functions: Any
    """What the runtime keeps of them; None at first."""
    names: tuple[str, ...]
    """The kernels."""

    @property
    def written(self) -> tuple[int, ...]:
        """The words of the block with the addresses of arguments that are written."""
        ...

    def steps(self, values: tuple[Any, ...]) -> Steps:
        """What to launch for these values of the block, one after another."""
        ...


class Kernel(Protocol):
    """What a launch runs: an interpreter always, machine code as soon as the compiler has finished."""

    @property
    def native(self) -> MachineCode | None: ...

    def pack(self, values: tuple[Any, ...]) -> bytes:
        """Pack the values into the parameter block that the machine code reads."""
        ...

    def point(self, values: tuple[Any, ...], p: int) -> None:
        """Interpret point `p`."""
        ...

    def finish(self, values: tuple[Any, ...]) -> None:
        """Interpret what runs once after all points: combining the partial results of reductions."""
        ...


class Division(Protocol):
    """A launch cut into smaller points, so that machine code can take over between two of them."""

    @property
    def values(self) -> tuple[Value, ...]: ...

    @property
    def points(self) -> int: ...

    @property
    def rest(self) -> Callable[[int], tuple[Value, ...]]:
        """Map the next small point to the values of a launch of the rest, over as many points as the
        whole."""
        ...


class Divisible(Kernel, Protocol):
    """A kernel that can cut its launches into smaller points."""

    def interpretable(self) -> bool:
        """Can the kernel be interpreted now, without waiting for a routine to be compiled?"""
        ...

    def divide(self, values: tuple[Any, ...]) -> Division | None:
        """The smaller points; None where only whole points make sense."""
        ...

    def arrived(self) -> bool:
        """Is there machine code by now?"""
        ...


class Instance(Protocol):
    """The memory of one store."""

    @property
    def address(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def private(self) -> bool:
        """Is the instance certainly the only reference to its memory, so that another store may reuse it?"""
        ...

    @property
    def shared(self) -> bool:
        """Does another library share the store (see `Exchange`)?  The host's copy is then never current."""
        ...

    @property
    def scattered(self) -> bool:
        """Is it a slice of another library's store?  Its memory then has gaps, and only views in its own
        coordinates exist."""
        ...


class LaunchArgument(NamedTuple):
    """One argument of a launch: the elements that it accesses, and where the block holds its address."""

    word: int
    """The word of the block with the address; the byte strides along the iteration dimensions follow it."""
    slot: int
    """Arguments that access one store have the same slot."""
    storage: tuple[Point, str]
    """Shape and element type of the store itself; the access may view its memory under others."""
    access: Access
    privilege: Privilege
    """What the kernel does there; REDUCE: only `finish` writes it, after all points."""
    late: bool = False
    """Is it an argument of the epilogue, which only `finish` accesses?"""


class Plane(NamedTuple):
    """An array of partial results in scratch memory: bytes from `offset` on, in this shape."""

    offset: int
    shape: Point
    tiles: tuple[tuple[int, int, int], ...]
    """(dimension, launch dimension, tile): the point at p writes the indices [p * tile, (p + 1) * tile)."""
    leaves: int = 0
    """If each point folds the subtrees of the tree that are its own: how many leaves an index of the cut
    dimension has, whose states lie in the last dimension; else 0."""


class Scratch(NamedTuple):
    """Temporary memory of a launch, whose address is written to a word of the block."""

    word: int
    nbytes: int
    planes: tuple[Plane, ...] = ()


class Gather(NamedTuple):
    """Reads at places that are data, as the op `spmv` has them; the numbers are those of arguments.

    The point that has element i of `low` and `high` reads the elements low[i] to high[i] of each argument in
    `along`; and of `dense`, if it is one (-1: none), the rows whose numbers those elements of `columns` are.
    """

    low: int
    high: int
    along: tuple[int, ...]
    columns: int
    dense: int


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The accesses of a launch, for a runtime that places stores itself.

    All launches of a plan over equal views share one layout, in which the runtime caches what it derives from
    it (`derived`).
    """

    arguments: tuple[LaunchArgument, ...]
    scratch: tuple[Scratch, ...]
    title: str
    """Names of the operations and their source lines, for profiles."""
    domain: Point
    """The launch domain."""
    gathers: tuple[Gather, ...] = ()
    """The reads at places that are data, if they are known for all arguments of which there are any."""
    derived: dict[Any, Any] = field(default_factory=dict)


class Launch(NamedTuple):
    """One kernel on a launch domain."""

    kernel: Kernel
    values: tuple[Any, ...]
    """Integers and floats, in the order of the kernel's block."""
    points: int
    keep: tuple[Any, ...] = ()
    """Objects to keep alive until the launch has run: its instances."""
    layout: Layout | None = None
    """The accesses, where the runtime is not `addressed` and `values` holds offsets in place of addresses."""
    instances: tuple[Instance, ...] = ()
    """The instances of the layout's arguments, in their order."""
    work: int = 0
    """Estimated work: operations times elements."""
    watched: tuple[Instance, ...] = ()
    """Where the host sees copies: the instances whose copies code outside may write at any time."""


class CodeUse(Enum):
    """How a runtime uses a kernel's machine code."""

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

    The valid data of a *shared* instance is always in the store; what the host writes to its copy has to be
    written back at once.
    """

    fenced: bool
    """Must launches have ended before another library may access the store?  Otherwise it is enough that they
    were submitted: the runtime orders the other library's tasks after them."""
    dimensions: int
    """The largest rank of a store."""
    room: int
    """Bytes of memory that a process may use for arrays, stores included."""

    attribute: str
    """What an object shows a store by."""

    def shows(self, thing: Any) -> bool:
        """Does an object of another library show a store of the runtime's kind?"""
        ...

    def share(self, instance: Any) -> Any:
        """Share the store of an instance: other libraries may read and write it from now on.  Everything
        recorded on it was launched before, and has ended if `fenced`."""
        ...

    def unshare(self, instance: Any) -> None:
        """End the sharing of an instance's store: no other library holds it any more."""
        ...

    def reclaim(self) -> None:
        """End the sharing of instances that were lent, and that their borrowers gave back meanwhile."""
        ...

    def adopt(self, store: Any, dtype: str) -> Instance:
        """Make an instance over another library's store."""
        ...

    def holds(self, instance: Any, store: Any) -> bool:
        """Is `store` the store of the instance?"""
        ...

    def write_back(self, instance: Any) -> None:
        """Copy the host's copy of a shared instance, to which the host wrote, to the store."""
        ...

    def overlap(self, one: Any, other: Any) -> bool:
        """May two shared instances have elements in common?"""
        ...

    def nameable(self, view: View, store: Store) -> bool:
        """Can the library express the part of a store that a view shows?"""
        ...

    def part(self, store: Any, view: View) -> Any:
        """The part of the library's store that a view shows."""
        ...

    def name(self, store: Any) -> str | None:
        """A key that is equal for equal views of one memory; None if the library has none."""
        ...

    def value(self, store: Any) -> NDArray[Any]:
        """Copy the data of a store that has no memory of its own, such as a future's."""
        ...

    def type_name(self, store: Any) -> str | None:
        """Diffuse's name of the element type; None if it does not compute in it."""
        ...


class Runtime(Protocol):
    """Where launches run."""

    name: str
    points: int
    """Point tasks that can run in parallel."""
    addressed: bool
    """Has an instance an address before the launch, with its elements there in row-major order?"""
    host_sees: bool
    """Does `host` show the memory of an instance itself, and not a copy of it?"""
    completes: bool
    """Does a point that folds whole rows complete their results itself, for its later loops to read?"""
    code: CodeUse
    """How launches use machine code."""
    target: str
    """What machine code is compiled for: "host", or a target that runs grid kernels (`GridCode`)."""
    ranks: int
    """Processes that run the program together; each records the same tasks."""
    blocks: int
    """Points of a rank that share a block; 0 where each task is cut into rows by its own extents."""

    @property
    def pipelines(self) -> bool:
        """Does a launch see whole stores in one memory, so that two fused tasks can run as one pass over
        rows?"""
        ...

    @property
    def exchange(self) -> Exchange | None:
        """How stores are shared with other libraries; None if they cannot be."""
        ...

    def scratch(self, nbytes: int) -> Instance:
        """Allocate temporary memory for one launch, to be released after it."""
        ...

    def create(self, nbytes: int, store: Store | None = None) -> Instance:
        """Allocate memory for a store, contents undefined.  MemoryError leaves the runtime unchanged."""
        ...

    def zeroed(self, nbytes: int, store: Store | None = None) -> Instance | None:
        """Allocate memory that the system zeroes on first touch; None if there is none."""
        ...

    def attach(self, array: NDArray[Any], store: Store | None = None) -> Instance:
        """Wrap the memory of a C-contiguous array without copying; the instance keeps the array alive."""
        ...

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        """The memory as bytes, for the host to read and, if it says so, to write; after a fence only.

        It lives as long as the array does.  Where the host does not see the memory it is a copy, and holds
        good until the next launch that writes the instance; the same bytes are then filled anew by the next
        `host`.
        """
        ...

    def known(self, instance: Instance) -> NDArray[np.uint8] | None:
        """The memory as bytes, to be read only, if the host has it without waiting or copying; else None.
        Nothing that writes it may be pending or running."""
        ...

    def piece(self, instance: Instance, offset: int, nbytes: int) -> NDArray[np.uint8] | None:
        """Some of the bytes of an instance, to be read only and once; after everything submitted that writes
        them.  Copies no more than these, or all of them if parts were asked for often; None where the runtime
        copies whole instances only."""
        ...

    def launch(self, launch: Launch) -> None:
        """Submit a launch."""
        ...

    def call(self, function: Callable[[], None]) -> None:
        """Run a host function after everything submitted so far; what it raises comes out here."""
        ...

    def fence(self) -> None:
        """Wait until everything submitted has ended."""
        ...

    def release(self, instance: Instance) -> None:
        """Free an instance: nothing submitted from now on uses it."""
        ...

    def flags(self) -> int:
        """Floating-point exceptions raised since the last call; valid after a fence."""
        ...

    def mark(self) -> int:
        """A position in the stream of launches, for `fate`."""
        ...

    def fate(self, mark: int) -> Fate:
        """What an interrupt, raised while launches after `mark` were submitted, left of them."""
        ...
