"""The Runtime protocol: instances (the memory of stores) and launches (kernels on launch domains).

Everything submitted runs in the order of submission, asynchronously: `launch` returns while earlier
launches still run.  Therefore:

* the *host* may look at an instance's `array` only after a `fence` (or inside a `call`);
* `release` may come while launches on the instance are still queued, and its memory may be handed out by
  the next `create`: whatever is launched on that runs later;
* floating-point exceptions are those of everything since they were last asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

DIVIDE, OVERFLOW, UNDERFLOW, INVALID = 1, 2, 4, 8
"""Floating-point exceptions, with the bits that `numpy.seterrcall` uses."""

Value = Any
"""One word of a kernel's block: an integer or a float."""


class Native(Protocol):
    """Machine code of a kernel: `void k(block, point)` and `void finish(block)` (0: nothing to finish)."""

    @property
    def address(self) -> int: ...

    @property
    def finish(self) -> int: ...


class Kernel(Protocol):
    """What a launch runs: machine code when there is some (it may appear at any time), its meaning always."""

    @property
    def native(self) -> Native | None: ...

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
    def array(self) -> NDArray[np.uint8]:
        """The memory as bytes, for use after a fence only; it lives as long as the array does."""
        ...


class Launch(NamedTuple):
    """One kernel on a launch domain."""

    kernel: Kernel
    values: tuple[Any, ...]
    """Integers and floats, in the order of the kernel's block."""
    points: int
    keep: tuple[Any, ...] = ()
    """What must stay alive until the launch has run: its instances."""


class Runtime(Protocol):
    """Where launches run."""

    name: str
    points: int
    """Point tasks that can run at the same time."""

    def create(self, nbytes: int) -> Instance:
        """Memory for a store, contents undefined.  MemoryError leaves the runtime as it was."""
        ...

    def attach(self, array: NDArray[Any]) -> Instance:
        """The memory of a C-contiguous array, not copied; the array is kept alive."""
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
