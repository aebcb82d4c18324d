"""GPUs of Legate's for tests: its processors, which run the task for GPUs with kernels compiled for the host.

Programs call `install` before anything runs on Legate; `python -m pytest -p tests.legate_grid` does so, too.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diffuse.runtime.legate import copying, gpus, libraries
from diffuse.service import code

SOURCE = Path(__file__).with_name("grid_launch.c")
INSTALLED = "TESTS_LEGATE_GRID"


def launcher() -> ctypes.CDLL:
    """The library of grid_launch.c."""
    return ctypes.CDLL(str(libraries.Library(SOURCE, libraries.C[:4]).build()))


class Simulated:
    """A device with the methods that `gpus.Devices` calls."""

    target = "simt tiles"
    memory = 1 << 40

    def __init__(self, number: int) -> None:
        self.number = number
        self.library = launcher()
        self.launcher = ctypes.cast(self.library.launch, ctypes.c_void_p).value or 0
        text = copying.for_host()
        self._kept = code.fetch(code.text_key(text), copying.NAMES, code.TEXT, lambda: text)
        self.copying: tuple[int, ...] = tuple(self._kept.addresses[name] for name in copying.NAMES)

    def functions(self, grid: Any) -> Mapping[str, int]:
        found: Mapping[str, int] = grid.code.addresses
        return found

    def launched(self) -> int:
        """The number of launches so far."""
        return int(self.library.launched())


def install() -> None:
    """Let Diffuse treat Legate's processors as GPUs."""
    def find(core: Any) -> Simulated:
        return Simulated(core.get_machine().count(core.TaskTarget.CPU))

    patched: Any = gpus
    patched.find = find


if os.environ.get(INSTALLED):
    install()
