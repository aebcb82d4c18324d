"""Decides when a kernel is compiled: in the background while it runs interpreted, at once, or never.

A `Kernel` can always run: through `native` once machine code is there, through its interpreted meaning
until then.  Both take the same values and give the same bits.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import weakref
from typing import Any

from diffuse import settings
from diffuse.interrupts import of_handler
from diffuse.kernels.body import abi
from diffuse.kernels.body.abi import Division
from diffuse.kernels.body.expr import Body
from diffuse.kernels.build import jit
from diffuse.observe import notices
from diffuse.observe.floaterrors import KINDS
from diffuse.service import code
from diffuse.service.client import Unavailable

MOST = 4096
"""The most kernels kept for later plans with the same body.  A plan keeps its own."""

FLAGS = {kind.words: flag for flag, kind in KINDS.items()}
"""Floating-point errors by NumPy's names."""


def _for_device(body: Body, target: str) -> jit.Compilation:
    """The compilation of a body for a target other than the processor."""
    from diffuse.kernels.build import grids  # few programs run on a device

    return grids.Compilation(body, target)


class Kernel:
    """The code of one body."""

    __slots__ = ("body", "native", "layout", "failed", "compilation", "operations", "waited", "_prepared",
                 "__weakref__")

    def __init__(self, body: Body, target: str = "host") -> None:
        self.body = body
        self.native: Any = None
        """Address and finish address, once compiled."""
        self.layout: struct.Struct = abi.layout(body)
        self.failed = False
        self.compilation = jit.Compilation(body) if target == "host" else _for_device(body, target)
        self.operations = sum(len(loop.ops) for loop in body.loops)
        self.waited = 0.0
        """Seconds for which tasks waited in vain for the machine code (patience.py)."""
        self._prepared = False
        """Has `prepare` provided everything that the interpreter needs?"""

    @property
    def address_words(self) -> tuple[int, ...]:
        """The words of the block that hold addresses."""
        begins = abi.words(self.body)
        return (*begins.arguments, *begins.partials)

    def interpretable(self) -> bool:
        """Can the kernel be interpreted now, without waiting for a routine to be compiled?"""
        if not self._prepared:
            from diffuse.kernels.meaning import interpret

            if not interpret.ready(self.body):
                return False
            self.prepare()
        return True

    def prepare(self) -> None:
        """Wait for the routines that the interpreter needs."""
        if not self._prepared:
            from diffuse.kernels.meaning import interpret

            interpret.prepare(self.body)
            self._prepared = True

    def pack(self, values: tuple[Any, ...]) -> bytes:
        return self.layout.pack(*values)

    def point(self, values: tuple[Any, ...], p: int) -> None:
        """Interpret a point; floating-point errors go to NumPy's current error callback."""
        from diffuse.kernels.meaning import interpret

        interpret.point(self.body, values, p, _collector())

    def divide(self, values: tuple[Any, ...]) -> Division | None:
        """Divide a launch into smaller points while machine code is on its way, else into one; None if its
        points cannot be divided."""
        found = abi.divide(self.body, values) if self.compilation.asked and not self.failed else None
        return found or abi.whole(self.body, values)

    def arrived(self) -> bool:
        """Has the machine code arrived, if it was requested?"""
        if self.compilation.asked:
            self.advance(0.0)
        return self.native is not None

    def finish(self, values: tuple[Any, ...]) -> None:
        from diffuse.kernels.meaning import interpret

        interpret.finish(self.body, values, _collector())

    def advance(self, seconds: float | None) -> None:
        """Load machine code from the cache, or request it; once requested, load it if it arrives within so
        many seconds (None: wait without limit).

        After a failure the kernel stays interpreted, with one warning.
        """
        if self.native is not None or self.failed:
            return
        try:
            if not self.compilation.asked:
                self.native = self.compilation.compile()
            if self.native is None and (seconds != 0 or self.compilation.asked):
                self.native = self.compilation.look(seconds)
        except Unavailable:  # a warning was given before
            self.failed = True
        except Exception as error:
            if of_handler(error):
                raise
            import traceback

            self.failed = True
            first = traceback.format_exception_only(error)[-1].strip()
            notices.give(f"a kernel of {self.operations} operations did not compile ({first}); "
                         "it runs interpreted, with the same results")

    def missed(self, work: int) -> None:
        """Note that this much work (operations times elements) is interpreted for lack of machine code."""
        if self.compilation.asked:
            code.missed(self.compilation.key, work)

    def delay(self) -> float:
        """Estimate the seconds until the compile server begins the machine code that was requested."""
        return code.delay(self.compilation.key) if self.compilation.asked else 0.0

    def wait(self, seconds: float | None) -> None:
        """Wait at most so many seconds for machine code that was requested."""
        if self.compilation.asked:
            self.advance(seconds)


def _collector() -> Any:
    """NumPy's current error callback, for errors by their names; None if there is none."""
    import numpy

    note: Any = numpy.geterrcall()
    return (lambda kind, _: note(kind, FLAGS.get(kind, 0))) if note else None


class Compiler:
    """All kernels, by body."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[Body, str], Kernel] = {}
        """At most `MOST` kernels, the least recently requested first."""
        self._all: weakref.WeakSet[Kernel] = weakref.WeakSet()
        """These kernels, and those that plans still use."""
        self._lock = threading.Lock()

    def kernel(self, body: Body, target: str = "host") -> Kernel:
        """The kernel of a body for a target: "host", or one of `grids.compilation`.  Starts its compilation
        if the setting `compile` says so."""
        with self._lock:
            found = self.kernels.pop((body, target), None)
            if found is None:
                found = Kernel(body, target)
                self._all.add(found)
            self.kernels[body, target] = found
            while len(self.kernels) > MOST:
                del self.kernels[next(iter(self.kernels))]
        self.request(found)
        return found

    def request(self, kernel: Kernel) -> None:
        """Load or request a kernel's machine code, if it has none, as the setting `compile` says."""
        how = settings.config.compile
        if how != "off" and not sys.is_finalizing():
            kernel.advance(None if how == "wait" else 0.0)

    def wait(self) -> None:
        """Wait until every compilation that was started has ended."""
        for kernel in list(self._all):
            kernel.wait(None)

    def forget(self) -> None:
        """Drop every kernel that this process keeps, but not those on disk."""
        self.wait()
        with self._lock:
            self.kernels.clear()

    def after_fork(self) -> None:
        """Have a forked child send its requests to a server of its own."""
        self._lock = threading.Lock()
        for kernel in list(self._all):
            kernel.compilation.asked = False


compiler = Compiler()

os.register_at_fork(after_in_child=compiler.after_fork)
