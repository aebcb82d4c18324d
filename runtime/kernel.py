"""What a runtime asks of the code of a launch, which the compiler makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol


class MachineCode(Protocol):
    """Machine code of a kernel: `void k(block, point)` and `void finish(block)` (0: nothing to finish)."""

    @property
    def address(self) -> int: ...

    @property
    def finish(self) -> int: ...


class Steps(Protocol):
    """A sequence of grid-kernel launches: for each the kernel's name, its number of thread groups, and its
    argument."""

    plan: Any
    """What the runtime derived from the steps; None at first."""

    def __iter__(self) -> Iterator[tuple[str, int, int]]: ...


class GridCode(Protocol):
    """The grid kernels of a body, for a device with memory of its own."""

    code: Any
    """The compiler's result: functions of this process by name (`addresses`), or an `image`."""
    functions: Any
    """The runtime's handles of the kernels; None at first."""
    names: tuple[str, ...]
    """The names of the kernels."""

    movable: tuple[tuple[int, int], ...]
    """The slots whose stores may move to other memory (kernels/grid/renaming.py), each with a word of the
    block that has an address in it."""

    @property
    def written(self) -> tuple[int, ...]:
        """The words of the block that hold the addresses of written arguments."""
        ...

    def steps(self, values: tuple[Any, ...]) -> Steps:
        """The sequence of kernel launches for these values of the block."""
        ...


class Kernel(Protocol):
    """The code of a launch: it can always be interpreted, and has machine code once the compiler has
    finished."""

    @property
    def native(self) -> MachineCode | None: ...

    def pack(self, values: tuple[Any, ...]) -> bytes:
        """Pack the values into the parameter block that the machine code reads."""
        ...

    def point(self, values: tuple[Any, ...], p: int) -> None:
        """Interpret point `p`."""
        ...

    def finish(self, values: tuple[Any, ...]) -> None:
        """Interpret the epilogue, which runs once after all points: it combines the partial results of
        reductions."""
        ...


class Division(Protocol):
    """A launch cut into smaller points, so that machine code can take over between two of them."""

    @property
    def values(self) -> tuple[Any, ...]: ...

    @property
    def points(self) -> int: ...

    @property
    def rest(self) -> Callable[[int], tuple[Any, ...]]:
        """Map the next small point to the values for a launch of the remaining small points, over as many
        points as the undivided launch has."""
        ...


class Divisible(Kernel, Protocol):
    """A kernel that can cut its launches into other points."""

    def interpretable(self) -> bool:
        """Can the kernel be interpreted now, without waiting for a routine to be compiled?"""
        ...

    def divide(self, values: tuple[Any, ...]) -> Division | None:
        """Divide a launch into smaller points, or one larger one; None if its points cannot be divided."""
        ...

    def arrived(self) -> bool:
        """Has the machine code arrived?"""
        ...
