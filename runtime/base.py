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
    pipelines  can a launch be one pass over two fused tasks?   yes       no        yes     yes       yes
    code       does a launch need machine code?                 PREFERRED UNUSED    NEEDED  NEEDED    NEEDED
    target     for what is machine code compiled?               host      host      host    host      host
    completes  does a point complete folds of its own rows?     yes       yes       yes     yes       yes
    ranks      processes that run the program together          1         1         any     1         any
    in_parts   do host functions run on the parts of ranks?     no        no        short   no        yes
    splits     may rows of a dense operand lie in two places?   no        no        yes     no        no
    blocks     how many points of a rank share a block?         0         0         0       0         threads
    sharing    may other libraries hold a store as well?        None      None      at once when done None
    fate       is it known what an interrupt left of a launch?  yes       no        no      no        no

The runtime mpi answers as legate, with no sharing; legate divides functions where memory is short.  A GPU's
memory has addresses that the host does not see: addressed, but not host_sees; so has its simulator's.
Where a runtime is not `addressed`, a launch comes with offsets in the place of addresses, with a `Layout`
and with its instances.  Where the host does not see the memory, what `host` gives is a copy: it is good until
the next launch that writes the instance, and once the host asked to write to it, it is the copy that counts
until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from diffuse.ir import Access, Point, Privilege, Store
from diffuse.runtime.kernel import Kernel
from diffuse.runtime.together import OnRanks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from diffuse.runtime.sharing import Sharing


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
        """Does another library share the store (see sharing.py)?  The host's copy is then never current."""
        ...

    @property
    def scattered(self) -> bool:
        """Is it a slice of another library's store?  Its memory then has gaps, and only views in the slice's
        own coordinates exist."""
        ...


class Moved(NamedTuple):
    """The traffic between ranks before, during and after a launch."""

    bytes: int
    """The bytes that all ranks together receive."""
    busiest: float
    """The bytes that the busiest rank sends or receives, summed over the exchanges."""
    messages: int
    """The messages of the busiest rank."""


class LaunchArgument(NamedTuple):
    """One argument of a launch: the elements that it accesses, and the position of its address in the
    block."""

    word: int
    """The word of the block with the address; the byte strides along the iteration dimensions follow it."""
    slot: int
    """The number of the store in the launch: arguments that access one store have the same slot."""
    storage: tuple[Point, str]
    """Shape and element type of the store itself; the access may view its memory under another shape and
    type."""
    access: Access
    privilege: Privilege
    """How the kernel accesses the elements; under REDUCE only `finish` writes them, after all points."""
    late: bool = False
    """Is it an argument of the epilogue, which only `finish` accesses?"""


class Plane(NamedTuple):
    """An array of partial results in scratch memory: bytes from `offset` on, in this shape."""

    offset: int
    shape: Point
    tiles: tuple[tuple[int, int, int], ...]
    """(dimension, launch dimension, tile): the point at p writes the indices [p * tile, (p + 1) * tile)."""
    leaves: int = 0
    """If each point folds its own subtrees of the reduction tree: the number of leaves per index of the cut
    dimension, whose states lie in the last dimension; else 0."""


class Scratch(NamedTuple):
    """Temporary memory of a launch, whose address is written to a word of the block."""

    word: int
    nbytes: int
    planes: tuple[Plane, ...] = ()


class Gather(NamedTuple):
    """A gather: reads at data-dependent places, as the op `spmv` has them.  Its fields are indices of
    arguments.

    The point that has element i of `low` and `high` reads the elements low[i] to high[i] of each argument in
    `along`, and, if `dense` is an argument (not -1), the rows of it that those elements of `columns` name.
    """

    low: int
    high: int
    along: tuple[int, ...]
    columns: int
    dense: int
    split: int = 0
    """If not 0, the words of the block that say where the dense operand's rows lie begin here
    (kernels/body/abi.py)."""


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
    """The gathers, if all arguments of each are known."""
    header: int = 0
    """If not 0, the block begins with so many words that are this process's own: the first point that runs
    here and their number, for `finish` too, then sizes and addresses (kernels/llvm/pipeline.py)."""
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
    """The accesses, where the runtime is not `addressed` and `values` holds offsets instead of addresses."""
    instances: tuple[Instance, ...] = ()
    """The instances of the layout's arguments, in their order."""
    work: int = 0
    """Estimated work: operations times elements."""
    watched: tuple[Instance, ...] = ()
    """Where the host sees copies: the instances whose copies outside code may write at any time."""
    temporary: frozenset[int] = frozenset()
    """The slots of the kernel's body whose contents are not used after the launch."""


class CodeUse(Enum):
    """How a runtime uses a kernel's machine code."""

    UNUSED = "launches run interpreted"
    PREFERRED = "launches run interpreted until there is machine code"
    NEEDED = "launches wait for machine code: to interpret one moves the data to the host and back"


class Fate(Enum):
    """The state in which an interrupt left a launch, or a call of a host function."""

    PENDING = "it did not begin and never will"
    DONE = "it is done, or will be"
    LOST = "it may have stopped halfway, or its state is unknown"


class Runtime(OnRanks, Protocol):
    """A system that keeps the memory of stores and runs launches."""

    name: str
    points: int
    """Point tasks that can run in parallel."""
    addressed: bool
    """Does an instance have an address before the launch, with its elements there in row-major order?"""
    host_sees: bool
    """Does `host` show the memory of an instance itself, and not a copy of it?"""
    completes: bool
    """Does a point that folds whole rows complete their results itself, for its later loops to read?"""
    code: CodeUse
    """How launches use machine code."""
    target: str
    """The target of machine code: "host", or one that runs grid kernels (`GridCode`)."""
    splits: bool
    """May rows of a sparse product's dense operand lie in two places (`Gather.split`)?"""
    blocks: int
    """Points of a rank that share a block; 0 where each task is cut into rows by its own extents."""

    @property
    def pipelines(self) -> bool:
        """Can two fused tasks run as one pass over rows?  With several ranks only if the points of each rank
        need no rows of what the first task makes but their own."""
        ...

    def passes(self, layout: Layout) -> bool:
        """Can two fused tasks with this joint layout run as one pass, where instances have no addresses?"""
        ...

    @property
    def sharing(self) -> Sharing | None:
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
        """The memory as bytes, for the host to read and, with `write`, to write; after a fence only.

        The memory lives as long as the array does.  Where the host does not see the memory it is a copy, and
        holds good until the next launch that writes the instance; the same bytes are then filled anew by the
        next `host`.
        """
        ...

    def known(self, instance: Instance) -> NDArray[np.uint8] | None:
        """The memory as read-only bytes, if the host has it without waiting or copying; else None. Nothing
        that writes it may be pending or running."""
        ...

    def piece(self, instance: Instance, offset: int, nbytes: int) -> NDArray[np.uint8] | None:
        """Some of the bytes of an instance, to be read once, after all submitted launches that write them.
        Copies only these, or the whole instance if parts were requested often; None where the runtime copies
        whole instances only."""
        ...

    def launch(self, launch: Launch) -> None:
        """Submit a launch."""
        ...

    def call(self, function: Callable[[], None]) -> None:
        """Run a host function after everything submitted so far; its exceptions are raised here."""
        ...

    def fence(self) -> None:
        """Wait until everything submitted has ended."""
        ...

    def release(self, instance: Instance) -> None:
        """Free an instance, which nothing submitted from now on uses."""
        ...

    def flags(self) -> int:
        """Floating-point exceptions raised since the last call; valid after a fence."""
        ...

    def mark(self) -> int:
        """A position in the stream of launches, for `fate`."""
        ...

    def fate(self, mark: int) -> Fate:
        """The state in which an interrupt left the launches submitted after `mark`."""
        ...
