"""Loads object code through LLVM, on processors that `elf` does not support.

LLVM is called only by the thread that owns it (worker.py).
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from diffuse import worker
from diffuse.service.elf import LoadError

_engines: dict[int, Any] = {}
"""The LLVM engines that keep machine code in memory, by number."""
_numbers = count()
_dropped: deque[int] = deque()
"""Numbers of engines whose machine code is no longer used."""

# Engines end in the worker, or with the process: none of their finalizers runs during Python's shutdown.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_engines))


class LoadedFunctions:
    """Functions that LLVM loaded; the worker frees them some time after the last reference is gone."""

    __slots__ = ("addresses", "_number")

    def __init__(self, number: int, addresses: Mapping[str, int]) -> None:
        self._number, self.addresses = number, addresses

    def __del__(self, drop: Any = _dropped.append) -> None:
        drop(self._number)


def load(image: bytes, names: Sequence[str]) -> LoadedFunctions:
    """Load object code; the result has the addresses of the functions `names`."""
    return LoadedFunctions(*worker.call(_load, image, tuple(names)))


def _load(image: bytes, names: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    import llvmlite.binding as llvm

    while _dropped:
        _engines.pop(_dropped.popleft()).close()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(image))
    engine.finalize_object()
    addresses = {name: engine.get_function_address(name) for name in names}
    missing = [name for name, address in addresses.items() if not address]
    if missing:
        raise LoadError(f"the object code lacks the function {', '.join(missing)}")
    number = next(_numbers)
    _engines[number] = engine
    return number, addresses
