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


def options(app: ModuleType, args: argparse.Namespace) -> argparse.Namespace:
    """The application's defaults, then what the harness says."""
    parser = argparse.ArgumentParser()
    app.arguments(parser)
    return argparse.Namespace(**{**vars(parser.parse_args([])), **vars(args)})


def plain(name: str) -> Callable[[argparse.Namespace], Peer]:
    """The program as it is."""

    def start(args: argparse.Namespace) -> Peer:
        began = time.perf_counter()
        app = application(name)
        started = time.perf_counter() - began
        state = app.setup(options(app, args))
        return Peer(lambda: app.step(state), lambda: app.results(state), app=app, started=started)

    return start


def diffused(name: str, args: argparse.Namespace, window: int | None = None
             ) -> tuple[ModuleType, Any, float]:
    """An application with Diffuse in the place of NumPy and SciPy, its state, and the seconds that Diffuse
    took to start."""
    began = time.perf_counter()
    import diffuse.numpy
    from diffuse import settings
    from diffuse.stream import engine

    if window is not None:
        settings.config.window = window
    engine.current().runtime.fence()
    started = time.perf_counter() - began
    app = application(name)
    setattr(app, "np", diffuse.numpy)
    if hasattr(app, "sp"):
        began = time.perf_counter()
        setattr(app, "sp", importlib.import_module("diffuse.scipy.sparse"))
        started += time.perf_counter() - began
    return app, app.setup(options(app, args)), started


def lazy(app: ModuleType, state: Any, step: Callable[[], None], started: float) -> Peer:
    """Diffuse at work."""
    from diffuse.observe import trace
    from diffuse.stream import engine

    return Peer(step, lambda: app.results(state), engine.fence, trace.snapshot, app, started)


def fused(name: str, window: int | None = None) -> Callable[[argparse.Namespace], Peer]:
    """The same program under Diffuse; a window of 1 fuses nothing."""

    def start(args: argparse.Namespace) -> Peer:
        app, state, started = diffused(name, args, window)
        return lazy(app, state, lambda: app.step(state), started)

    return start


def jax_solver(advance: Callable[..., tuple[Any, ...]], first: tuple[Any, ...]) -> Peer:
    """An iterative solver on JAX: `advance` computes the next state from the last one, whose first part is
    the solution."""
    import jax

    state = first

    def step() -> None:
        nonlocal state
        state = advance(*state)

    return Peer(step, lambda: {"x": state[0]}, lambda: jax.block_until_ready(state))


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
