"""The one task that Legate runs for Diffuse: what the runtime asks of it, however it is made.

`trampoline.Native` is compiled once for a machine; `variant.Interpreted` does the same in Python where there
is no C++ compiler.
"""

from __future__ import annotations

from typing import Any, Protocol

from diffuse.runtime.local.pool import Pool

COMPLAINTS = {
    1: "a store's memory was not in one piece where a kernel needs it so",
    2: "no memory for what a launch needs besides its stores",
    3: "the thread pool refused a launch: too many points",
    4: "Legate could not say where a store lies",
}
"""What goes wrong in a task, by the number that the compiled one tells."""


class Task(Protocol):
    """A task that Legate can run on any of its processors."""

    def register(self, core: Any, library: Any) -> Any:
        """Make the task known to Legate's library; its number there."""
        ...

    def pool(self, pool: Pool) -> None:
        """Run points on these threads."""
        ...

    def execute(self, task: Any) -> None:
        """Submit a launch, from the main thread."""
        ...

    def settled(self) -> None:
        """Everything submitted is done."""
        ...

    def flags(self) -> int:
        """Floating-point exceptions of kernels since last asked, the pool's too."""
        ...

    def complaint(self) -> str | None:
        """What went wrong in a task since last asked, if anything did."""
        ...
