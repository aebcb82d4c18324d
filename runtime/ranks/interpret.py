"""Interprets a launch whose kernel has no machine code, over the host's copies, on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import Privilege
from diffuse.memory import address
from diffuse.runtime.base import Instance, Launch


def interpret(launch: Launch, host: Callable[[Instance, bool], NDArray[np.uint8]],
              note: Callable[[str, int], None]) -> None:
    """Run all points of a launch that names its arguments in a layout.  `host` returns the memory of an
    instance, and `note` receives floating-point exceptions."""
    layout, kernel = launch.layout, launch.kernel
    assert layout is not None
    block: list[Any] = list(launch.values)
    for argument, instance in zip(layout.arguments, launch.instances, strict=True):
        memory = host(instance, argument.privilege is not Privilege.READ)
        block[argument.word] += address(memory)
    scratch = [np.empty(max(piece.nbytes, 8), np.uint8) for piece in layout.scratch]
    for piece, memory in zip(layout.scratch, scratch, strict=True):
        block[piece.word] = address(memory)
    with np.errstate(all="call", call=note):
        for p in range(launch.points):
            kernel.point(tuple(block), p)
        kernel.finish(tuple(block))
