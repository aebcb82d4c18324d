"""What is compared: an application, the peers that run it, the bytes it must move, the goals it has.

A *contender* is one way to run an application; a *peer* is a contender at work: arrays in place, one
iteration a call.  Every contender starts from the arrays that the application's own `setup` makes.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent


def nothing() -> None:
    """What waiting means where every call is complete when it returns."""


@dataclass
class Peer:
    """One contender at work."""

    step: Callable[[], None]
    results: Callable[[], dict[str, Any]]
    wait: Callable[[], None] = nothing
    counters: Callable[[], dict[str, int]] = dict
    app: ModuleType | None = None
    started: float = 0.0
    """Seconds that it took to import the library and to start what it runs on."""


class Goal(NamedTuple):
    """Diffuse is at least `ratio` times as fast as `peer`."""

    peer: str
    ratio: float


@dataclass(frozen=True)
class Case:
    """One application and all that the benchmark knows about it."""

    name: str
    size: int
    quick: int
    batch: int
    """Iterations that make one sample: enough for recording and running to overlap."""
    elements: Callable[[int], float]
    """Array elements that one iteration has to read and write, each array once a pass."""
    contenders: dict[str, Callable[[argparse.Namespace], Peer]]
    goals: tuple[Goal, ...] = ()
    most_tasks: int | None = None
    notes: tuple[str, ...] = field(default=())


def application(name: str) -> ModuleType:
    """The program of apps/, loaded by its path: bench/ has files of the same names."""
    spec = importlib.util.spec_from_file_location(f"apps.{name}", ROOT / "apps" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module      # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def plain(name: str) -> Callable[[argparse.Namespace], Peer]:
    """The program as it is."""

    def start(args: argparse.Namespace) -> Peer:
        began = time.perf_counter()
        app = application(name)
        started = time.perf_counter() - began
        state = app.setup(args)
        return Peer(lambda: app.step(state), lambda: app.results(state), app=app, started=started)

    return start


def fused(name: str) -> Callable[[argparse.Namespace], Peer]:
    """The same program with Diffuse in NumPy's place."""

    def start(args: argparse.Namespace) -> Peer:
        began = time.perf_counter()
        import diffuse.numpy
        from diffuse import engine, trace

        engine.current().runtime.fence()
        started = time.perf_counter() - began
        app = application(name)
        setattr(app, "np", diffuse.numpy)
        state = app.setup(args)
        return Peer(lambda: app.step(state), lambda: app.results(state), engine.fence, trace.snapshot, app,
                    started)

    return start


def on_cupynumeric(name: str) -> Callable[[argparse.Namespace], Peer]:
    """The same program with cuPyNumeric in NumPy's place; it has every function that apps/ call."""

    def start(args: argparse.Namespace) -> Peer:
        from diffuse.runtime.legate import prepare

        began = time.perf_counter()
        runtime = prepare.start().get_legate_runtime()
        library = importlib.import_module("cupynumeric")
        started = time.perf_counter() - began
        app = application(name)
        setattr(app, "np", library)
        state = app.setup(args)

        def results() -> dict[str, Any]:
            # copies: Legate would copy an array that was looked at for every later task in two parts
            return {key: array.copy() for key, array in app.results(state).items()}

        return Peer(lambda: app.step(state), results,
                    lambda: runtime.issue_execution_fence(block=True), app=app, started=started)

    return start
