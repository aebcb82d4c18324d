"""Applications and random bodies on a device, for tests and for machines without pytest (on_gpu.py)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from diffuse import settings
from diffuse.kernels.build.compiler import Kernel
from diffuse.runtime.base import Launch
from tests.bodies import Case

SMALL = {"black_scholes": 3000, "stencil": 40, "jacobi": 120, "mandelbrot": 60, "channel_flow": 41,
         "conjugate_gradient": 40, "shallow_water": 40}
PROGRAMS = {**SMALL, "cg": 24, "bicgstab": 24, "gmg": 32}
"""With those that need SciPy."""


def application(name: str, size: int | None = None, **options: Any) -> tuple[ModuleType, Any]:
    """A program of apps/ and its state at the start, with these options beside its defaults."""
    app = import_module(f"apps.{name}")
    parser = argparse.ArgumentParser()
    app.arguments(parser)
    args = {**vars(parser.parse_args([])), "size": size or SMALL[name], **options}
    return app, app.setup(argparse.Namespace(**args))


@contextmanager
def under_diffuse(app: ModuleType) -> Iterator[None]:
    """The program's `np` is Diffuse, with fusion at sizes that are otherwise left to NumPy."""
    import diffuse.numpy

    with patch.object(app, "np", diffuse.numpy), settings.using(small=0):
        yield


def results(name: str, runtime: str, size: int | None = None) -> dict[str, Any]:
    """The results of an application after three steps."""
    size = size or PROGRAMS[name]
    app, state = application(name, size)
    with settings.using(runtime=runtime), under_diffuse(app):
        app, state = application(name, size)
        for _ in range(3):
            app.step(state)
        return {key: np.array(value) for key, value in app.results(state).items()}


def launched(case: Case, runtime: Any) -> tuple[list[Any], bool]:
    """The memory of a random body after a launch on a device, with its operands as attached arrays; and
    whether it ran there."""
    kernel = Kernel(case.body, runtime.target)
    kernel.advance(None)
    arrays = [memory.copy() for memory in case.memory]
    instances = [runtime.attach(array.reshape(-1)) for array in arrays]
    partials = [runtime.create(partial.nbytes) for partial in case.partials()]
    values = list(case.values(1, case.partials()))
    for word in kernel.address_words[:len(case.views)]:
        (k,) = [k for k, memory in enumerate(case.memory)
                if 0 <= values[word] - memory.ctypes.data < max(memory.nbytes, 1)]
        values[word] += instances[k].address - case.memory[k].ctypes.data
    for word, partial in zip(kernel.address_words[len(case.views):], partials, strict=True):
        values[word] = partial.address
    runtime.launch(Launch(kernel, tuple(values), 1, (*instances, *partials)))
    runtime.fence()
    return [runtime.host(instance, False).view(array.dtype).reshape(array.shape)
            for instance, array in zip(instances, arrays, strict=True)], hasattr(kernel.native, "steps")
