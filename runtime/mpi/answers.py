"""What the runtime mpi answers with real ranks, with predicted ones and with virtual ones."""

from __future__ import annotations

import numpy as np

from diffuse.ir import Store
from diffuse.runtime.base import CodeUse, Fate, Layout
from diffuse.runtime.reference import HostInstance


class Answers:
    """The answers of the runtime mpi that no state of it changes."""

    name = "mpi"
    ranks: int
    addressed = host_sees = False
    completes = pipelines = True
    splits = False
    code = CodeUse.NEEDED
    target = "host"
    sharing = None

    def in_parts(self, nbytes: int) -> bool:
        return self.ranks > 1

    def passes(self, layout: Layout) -> bool:
        return True

    def scratch(self, nbytes: int) -> HostInstance:
        return HostInstance(np.empty(nbytes, np.uint8))

    def zeroed(self, nbytes: int, store: Store | None = None) -> None:
        return None

    def mark(self) -> int:
        return 0

    def fate(self, mark: int) -> Fate:
        return Fate.LOST
