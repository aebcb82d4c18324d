"""Runs PTX on the host: an interpreter that computes each instruction for the threads of many groups at once.

It checks what LLVM writes, and it is a device for tests.  It faults where a GPU would go on with anything:
outside of allocations, on misaligned addresses, on races, on barriers that not all threads of a group arrive
at.  Between two barriers the threads of a group run in parts, drawn at random, so that a missing barrier
changes results, too.
"""

from __future__ import annotations

import numpy as np

from tests.ptx.decode import decoded
from tests.ptx.memory import Fault, Memory
from tests.ptx.text import Module, PtxError
from tests.ptx.threads import Batch, Code, Frame

__all__ = ["Fault", "Machine", "Memory", "PtxError"]

AT_ONCE = 64
"""Groups that run at the same time."""


class Machine:
    """A module of PTX."""

    def __init__(self, text: str, seed: int = 0, parts: int = 2) -> None:
        self.module, self.seed, self.parts = Module(text), seed, parts
        self.codes = decoded(self.module)
        self.blocks = 0
        """Basic blocks that were executed, each for many threads."""

    @property
    def kernels(self) -> list[str]:
        return [name for name, function in self.module.functions.items() if function.kernel]

    def launch(self, name: str, groups: int, parameters: bytes, memory: Memory) -> None:
        """Run a kernel on so many groups; its parameters lie one behind another, aligned as it declares."""
        code = self.codes[name]
        size = code.function.threads
        if not code.function.kernel or not size:
            raise ValueError(f"{name} is not a kernel that states how many threads its groups have")
        if len(parameters) != code.function.parameters.size:
            raise ValueError(f"{name} takes {code.function.parameters.size} bytes of parameters, "
                             f"not {len(parameters)}")
        try:
            with np.errstate(all="ignore"):
                for first in range(0, groups, AT_ONCE):
                    self._run(code, first, min(AT_ONCE, groups - first), parameters, memory)
            for region in memory.regions:
                region.check(size)
        finally:
            for region in memory.regions:
                region.accesses.clear()

    def _run(self, code: Code, first: int, groups: int, parameters: bytes, memory: Memory) -> None:
        waits = any(i.parts[0] == "bar" for block in code.function.blocks for i in block)
        batch = Batch(memory, first, groups, code.function.threads, code.function.shared.size,
                      self._variables(memory), self.parts if waits else 1, self.seed)
        given = np.frombuffer(parameters, "u1").reshape(1, -1)
        Frame(batch, code, batch.threads, given, 0).run()
        batch.shared.check(batch.size)
        self.blocks += batch.steps

    def _variables(self, memory: Memory) -> dict[str, int]:
        """The addresses of the module's variables, which the first launch on a memory allocates."""
        if self not in memory.variables:
            found = memory.variables[self] = {}
            for variable in self.module.globals.values():
                found[variable.name] = memory.allocate(variable.size)
                memory.write(found[variable.name], variable.values.ljust(variable.size, b"\0"))
        return memory.variables[self]
