"""The paper's eight programs: their sizes here, what figures 13 and 15 say of them, what is asked of Diffuse.

The paper is "Composing Distributed Computations Through Task and Kernel Fusion" (Yadav et al., 2025), section
7.  Its CFD is apps/channel_flow.py, its TorchSWE apps/shallow_water.py; the other names are the same.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from case import Case


class Tasks(NamedTuple):
    """A row of figure 13: tasks an iteration, the same after fusion, and the window that Diffuse chose."""

    unfused: float
    fused: float
    window: int


class WarmUp(NamedTuple):
    """A row of figure 15: seconds of warm-up without and with compiling; None where the paper has N/A."""

    standard: float
    compiled: float
    iterations: float | None


class Program(NamedTuple):
    """One program of the paper."""

    name: str
    label: str
    sizes: tuple[int, ...]
    """The sizes of the program, in ascending order; the goals apply to the largest one."""
    quick: int
    tasks: Tasks
    asked: float
    """The most tasks of an iteration after fusion."""
    warm_up: WarmUp
    most: int = 10_000
    """Iterations after which a solver has come so close that its numbers leave the range of a float64."""
    counted: dict[str, Any] = {}
    """Arguments of the program when its tasks are counted."""
    share: bool = False
    """Is `asked` a fraction of the tasks before fusion, rather than a number of tasks?"""

    @property
    def case(self) -> Case:
        found: Case = importlib.import_module(self.name).CASE
        return found


GRIDS = (500, 1000, 2000)
TWO_GRIDS = {"size": 256, "levels": 2, "sweeps": 1, "coarse_sweeps": 1}     # the paper's 24 operations

PROGRAMS = {program.name: program for program in (
    Program("black_scholes", "Black-Scholes", (100_000, 1_000_000, 10_000_000), 50_000,
            Tasks(67, 1, 70), 1, WarmUp(0.38, 0.06, None), counted={"size": 100_000}),
    Program("jacobi", "Jacobi", (2048, 4096, 8192), 1024,
            Tasks(3, 2, 5), 2, WarmUp(0.53, 0.43, None), counted={"size": 2048}),
    Program("cg", "CG", GRIDS, 128,
            Tasks(12.1, 4.1, 10), 4.1, WarmUp(0.67, 1.30, 99.44), 4000, {"size": 256}),
    Program("cgs", "CGS", GRIDS, 128,
            Tasks(21.1, 6.1, 15), 6.1, WarmUp(1.23, 1.83, 37.97), 2000, {"size": 256}),
    Program("bicgstab", "BiCGSTAB", GRIDS, 128,
            Tasks(27.1, 8.1, 15), 8.1, WarmUp(1.26, 2.19, 80.43), 2000, {"size": 256}),
    Program("gmg", "GMG", (512, 1024, 2048), 128,
            Tasks(24.1, 11.1, 15), 11.1, WarmUp(0.49, 1.38, 118.75), 120, TWO_GRIDS),
    Program("channel_flow", "CFD", GRIDS, 128,
            Tasks(378, 40.7, 30), 40.7, WarmUp(5.10, 10.89, 25.21), counted={"size": 256}),
    Program("shallow_water", "TorchSWE", GRIDS, 128,
            Tasks(276.5, 152.8, 30), 0.55, WarmUp(0.97, 8.82, 43.88), counted={"size": 256}, share=True),
)}


SOLVER = {"numpy": 2.0, "petsc": 1.1, "numba": 1 / 1.15}

SPEED: dict[str, dict[str, float]] = {
    "cg": {**SOLVER, "numpy, by hand": 1.0, "diffuse, by hand": 1.0}, "cgs": SOLVER, "bicgstab": SOLVER,
    "gmg": {"numpy": 1.4},
    "channel_flow": {"numpy": 10.0},
    "shallow_water": {"numpy": 10.0, "jax": 8.0},
}
"""How many times as fast as its peers Diffuse is to be; PETSc has as many ranks as Diffuse has threads."""

SPARSE = ("cg", "cgs", "bicgstab", "gmg")
"""Programs whose memory is asked to stay below SciPy's."""


def options(parser: argparse.ArgumentParser) -> None:
    """The arguments that all three figures take."""
    parser.add_argument("--apps", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME",
                        help="programs: " + ", ".join(PROGRAMS))
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="instead of each program's own")
    parser.add_argument("--quick", action="store_true", help="small sizes, few runs: does everything work?")
    parser.add_argument("--json", metavar="FILE", help="for the numbers; default bench/results/FIGURE.json")


def chosen(names: Iterable[str]) -> list[Program]:
    return [PROGRAMS[name] for name in names]
