"""An ordinary NumPy program for one or several ranks; each rank writes what it found to a file.

    python -m diffuse run tests/distributed.py FOLDER [FAILURE] [CALCULATION ...]

FOLDER gets one file a process: the bits of every result, how many ranks there are, and in how many pieces
launches ran.  FAILURE is what rank 1 does in the middle of it: raise, exit, or kill.  All calculations are
done, unless some are named.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

APPS = {"black_scholes": 3000, "stencil": 60, "jacobi": 120, "mandelbrot": 60, "channel_flow": 41,
        "conjugate_gradient": 60, "shallow_water": 40, "cg": 60, "bicgstab": 40, "gmg": 64}
FOUND: dict[str, Callable[[], Any]] = {}


def found(function: Callable[[], Any]) -> Callable[[], Any]:
    FOUND[function.__name__] = function
    return function


@found
def elementwise() -> Any:
    a = np.arange(60_000.0).reshape(300, 200)
    b = np.sqrt(a) * 2.0 + a / 3.0
    return np.where(b > 100, b, -a), b.astype(np.float32) * 7, (a > b).astype(np.int8), b.astype(complex) * 1j


@found
def halos() -> Any:
    """Views that reach over the border between ranks, in each direction, and backwards."""
    a = np.arange(60_000.0).reshape(300, 200) % 17
    b = a[1:-1, 1:-1] + a[:-2, 1:-1] * 2 + a[2:, 1:-1] * 3 - a[1:-1, :-2] * 4 - a[1:-1, 2:] * 5
    return b, a[::-1] + a, a.T[:, 100:] * 2, a[::3, 1::2] - a[1::3, ::2], a[7] + a[:, :1]


@found
def stencil_in_place() -> Any:
    a = np.zeros((300, 200))
    a[0, :], a[:, -1] = 1.0, 2.0
    for _ in range(12):
        a[1:-1, 1:-1] = 0.25 * (a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
        a[150:170] += 0.5
        a[::2] *= 1.25
    return a


@found
def shifted_in_place() -> Any:
    a = np.arange(50_000.0)
    a[1:] = a[:-1]
    a[10:] -= a[:-10].copy()
    a[::7] = -1.0
    return a


@found
def folds() -> Any:
    a = (np.arange(90_000.0).reshape(300, 300) % 101) / 7
    return (a.sum(), a.std(axis=0), a.sum(axis=1), a.max(axis=0) + a.min(axis=1), a.argmax(),
            a.argmin(axis=0), a.any(axis=1), np.cumsum(a, axis=0)[-1], a.astype(np.float32).sum())


@found
def products() -> Any:
    a = (np.arange(10_000.0).reshape(100, 100) % 13) - 6   # small whole numbers: exact in any order
    b = a @ a.T
    return b, a @ a[0], (b * 0.5) @ a, np.dot(a[3], a[4])


@found
def conjugate_gradients() -> Any:
    """Conjugate gradients without a matrix: the five-point Laplacian is a sum of slices."""
    n = 120
    line = np.arange(1.0, n + 1) / (n + 1)
    right = line[:, None] * (1 - line)[:, None] + (line * (1 - line))[None, :]
    x, r = np.zeros((n, n)), right.copy()
    p = np.zeros((n + 2, n + 2))
    p[1:-1, 1:-1] = r
    rr = np.sum(r * r)
    turns = 0
    while np.sqrt(rr) > 1e-8 and turns < 6:
        q = 4.0 * p[1:-1, 1:-1] - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]
        alpha = rr / np.sum(p[1:-1, 1:-1] * q)
        x += alpha * p[1:-1, 1:-1]
        r -= alpha * q
        rr, old = np.sum(r * r), rr
        p[1:-1, 1:-1] = r + rr / old * p[1:-1, 1:-1]
        turns += 1
    return x, turns, rr


@found
def decisions() -> Any:
    """A program that branches on values that it reads, with host code in between."""
    a, turns = np.full((200, 100), 2.0), 0
    while float(np.max(np.abs(a * a - 3))) > 1e-9:
        a = 0.5 * (a + 3.0 / a)
        turns += 1
    a[3] = np.sort(a[3])
    a[a > 1.8] = 0
    rng = np.random.default_rng(5)
    noise = rng.random((200, 100))
    return a, turns, noise + a, np.linalg.norm(a[:5, :5]), a[[1, 3, 5]], np.concatenate([a[:2], noise[:2]])


@found
def applications() -> Any:
    """The programs of apps/, three steps of each."""
    results: list[Any] = []
    for name, size in APPS.items():
        app = import_module(f"apps.{name}")
        parser = argparse.ArgumentParser()
        app.arguments(parser)
        state = app.setup(parser.parse_args(["--size", str(size)]))
        for _ in range(3):
            app.step(state)
        results += app.results(state).values()
    return tuple(results)


def bits(value: Any) -> str:
    """A digest of a value's type, shape and bits."""
    if isinstance(value, tuple):
        return hashlib.sha256(" ".join(map(bits, value)).encode()).hexdigest()[:16]
    array = np.asarray(value)
    said = f"{array.dtype} {array.shape}".encode() + array.tobytes()
    return hashlib.sha256(said).hexdigest()[:16]


def fail(how: str) -> None:
    """End rank 1 in this way."""
    if how == "raise":
        raise ValueError("rank 1 has had enough")
    if how == "exit":
        os._exit(7)
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, *words: str) -> None:
    if os.environ.get("TESTS_LEGATE_GRID"):
        import_module("tests.legate_grid")  # Legate's processors are its GPUs
    failure = next((word for word in words if word not in FOUND), "")
    chosen = [word for word in words if word in FOUND] or list(FOUND)
    said: dict[str, Any] = {"pid": os.getpid()}
    path = Path(folder, f"{os.getpid()}.json")
    path.write_text(json.dumps(said))
    stream: Any = None
    if "diffuse" in sys.modules:
        import diffuse.stream.engine

        stream = diffuse.stream.engine.current()
    for number, name in enumerate(chosen):
        said[name] = bits(FOUND[name]())
        if failure and number == 1 and stream.runtime.rank == 1:
            fail(failure)
    if stream is not None and stream.runtime.name in ("legate", "mpi"):
        said["ranks"], said["rank"] = stream.runtime.ranks, stream.runtime.rank
        if stream.runtime.name == "legate" and stream.runtime.placement.devices is not None:
            said["launches"] = stream.runtime.placement.devices.launched()
        said["pieces"] = import_module("tests.pieces").pieces(stream.plans)
    path.write_text(json.dumps(said))


main(*sys.argv[1:])
