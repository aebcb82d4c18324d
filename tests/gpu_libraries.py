"""CuPy, torch and Numba with Diffuse on a GPU: shared arrays, and calls that go through CuPy (on_gpu.py)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import diffuse.numpy as dnp
from diffuse import settings

VALUES = np.linspace(0.0, 1.0, 50_000).reshape(200, 250)


def equal(found: Any, wanted: Any) -> None:
    if not np.array_equal(np.asarray(found), wanted):
        raise AssertionError(f"{np.asarray(found).ravel()[:4]} in place of {np.asarray(wanted).ravel()[:4]}")


def _of(name: str, package: str) -> Any:
    """A library that shares memory of a GPU."""
    if name != "cuda":
        raise ImportError("for a GPU alone")
    return import_module(package)


def cupy(name: str) -> None:
    library: Any = _of(name, "cupy")
    x = dnp.array(VALUES) * 2.0
    theirs = library.asarray(x)
    equal(library.asnumpy(theirs), VALUES * 2.0)
    theirs += 1.0
    library.cuda.get_current_stream().synchronize()
    equal(x, VALUES * 2.0 + 1.0)
    ours = dnp.asarray(library.asarray(VALUES))
    equal(ours + 1.0, VALUES + 1.0)
    equal(dnp.from_dlpack(library.asarray(VALUES)) * 3.0, VALUES * 3.0)
    equal(library.asnumpy(library.from_dlpack(dnp.array(VALUES) + 2.0)), VALUES + 2.0)


def torch(name: str) -> None:
    library: Any = _of(name, "torch")
    if not library.cuda.is_available():
        raise ImportError("torch sees no GPU")
    taken = library.from_dlpack(dnp.array(VALUES) + 1.0)
    equal(taken.cpu().numpy(), VALUES + 1.0)
    tensor = library.as_tensor(VALUES, device="cuda")
    equal(dnp.from_dlpack(tensor) * 2.0, VALUES * 2.0)
    equal(dnp.asarray(tensor) - 1.0, VALUES - 1.0)


def numba(name: str) -> None:
    library: Any = _of(name, "numba.cuda")
    if not library.is_available():
        raise ImportError("Numba sees no GPU")
    equal(library.as_cuda_array(dnp.array(VALUES) + 1.0).copy_to_host(), VALUES + 1.0)
    equal(dnp.asarray(library.to_device(VALUES)) * 2.0, VALUES * 2.0)


def calls(name: str) -> None:
    """Matrix products, systems, transforms and sorts: close to NumPy's, whoever computes them."""
    square = np.random.default_rng(1).random((300, 300)) + 300 * np.eye(300)
    x, b = dnp.array(square) + 0.0, dnp.array(VALUES[0, :]) + 0.0
    for found, wanted in ((x @ x, square @ square),
                          (dnp.linalg.solve(x, x + 1), np.linalg.solve(square, square + 1)),
                          (dnp.linalg.inv(x), np.linalg.inv(square)), (dnp.fft.fft(b), np.fft.fft(VALUES[0])),
                          (dnp.sort(x, axis=0), np.sort(square, axis=0))):
        if not np.allclose(np.asarray(found), wanted, rtol=1e-10, atol=1e-10):
            raise AssertionError("a result is not NumPy's")
    equal(dnp.argsort(b, kind="stable"), np.argsort(VALUES[0], kind="stable"))


def memory(name: str) -> None:
    """Too much memory is refused at the program's line, and the program goes on."""
    if name != "cuda":
        raise ImportError("for a GPU alone")
    kept = dnp.array(VALUES) + 1.0
    try:
        float(dnp.ones((1 << 18, 1 << 20))[0, 0])
    except MemoryError as error:
        print(f"    {error}")
    else:
        raise AssertionError("2 TB were not refused")
    equal(kept * 2.0, (VALUES + 1.0) * 2.0)


def vectorized(name: str) -> None:
    """A function of `diffuse.vectorize` has the local runtime's bits."""
    import math

    from diffuse import vectorize

    @vectorize
    def function(x: float, y: float) -> float:
        return math.exp(-x) * y if x > 0.5 else math.sin(x + y)

    found = []
    for runtime in ("local", name):
        with settings.using(runtime=runtime, small=0):
            found.append(np.asarray(function(dnp.array(VALUES), dnp.array(VALUES[::-1].copy()))))
    equal(*found)


CHECKS: dict[str, Callable[[str], None]] = {
    "cupy": cupy, "torch": torch, "numba": numba, "products, systems, transforms and sorts": calls,
    "too much memory": memory, "vectorize": vectorized}
"""What is checked, by name; ImportError says that a library is missing."""
