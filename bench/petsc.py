"""PETSc beside the other solvers: the same matrices on MPI ranks, driven from the benchmark's process.

    python bench/petsc.py cg --size 400 --iterations 20 --ranks 2       # one solve, its seconds as JSON

PETSc is Debian's (packages python3-petsc4py and openmpi-bin) and belongs to Debian's own Python.  The arrays
of the application go through files; commands go to each rank through a named pipe, so that ranks that wait
take no processor time; rank 0 answers on standard output.  A solve runs a number of iterations from the first
guess on, without norms or a test for convergence.
"""

from __future__ import annotations

import argparse
import glob
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

PACKAGES = "Debian's packages python3-petsc4py and openmpi-bin"
INTERPRETER = "/usr/bin/python3"
INSTALLED = "/usr/lib/petscdir/*/*/lib/python3/dist-packages"
NOTE = "PETSc: KSP without norms, each sample from the first guess on; its peak is not measured"


# The benchmark's side.

def command(ranks: int, folder: str) -> list[str]:
    """Start the ranks; ImportError where something is not installed."""
    mpirun = shutil.which("mpirun")
    found = glob.glob(f"{INSTALLED}/petsc4py")
    if mpirun is None or not found or not os.path.exists(INTERPRETER):
        raise ImportError(f"{'mpirun' if mpirun is None else 'petsc4py'} is missing: install {PACKAGES}")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [mpirun, *root, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), INTERPRETER, "-P",
            os.path.abspath(__file__), "--serve", folder]


def environment() -> dict[str, str]:
    """The environment of a rank: one thread, and no paths of this interpreter, since another one runs it."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def keep(folder: str, name: str, A: Any) -> None:
    import numpy as np

    for part in ("indptr", "indices", "data"):
        np.save(f"{folder}/{name}.{part}.npy", getattr(A, part))


class Ranks:
    """PETSc on several ranks, which solve A x = b by `solver`, with `grids`, if any, as preconditioner."""

    def __init__(self, ranks: int, solver: str, A: Any, b: Any, grids: Any = (), **options: Any) -> None:
        import numpy as np

        if b.dtype != np.float64:
            raise ImportError(f"{b.dtype}: Debian's PETSc has float64 only")
        self.folder = tempfile.mkdtemp(prefix="diffuse-petsc-")
        self.forget = weakref.finalize(self, shutil.rmtree, self.folder, True)
        started = command(ranks, self.folder)
        np.save(f"{self.folder}/b.npy", b)
        keep(self.folder, "A0", A)
        for level, grid in enumerate(grids):
            for letter, matrix in (("A", grid.A), ("R", grid.restriction), ("P", grid.prolongation)):
                if matrix is not None:
                    keep(self.folder, f"{letter}{level}", matrix)
        told = {"solver": solver, "levels": len(grids), **options}
        Path(self.folder, "options.json").write_text(json.dumps(told))
        self.pipes = []
        for rank in range(ranks):
            os.mkfifo(f"{self.folder}/rank{rank}")
            self.pipes.append(os.open(f"{self.folder}/rank{rank}", os.O_RDWR))  # O_WRONLY waits for a reader
        self.process = subprocess.Popen(started, stdout=subprocess.PIPE, text=True, env=environment(),
                                        stdin=subprocess.DEVNULL)
        self.version = self.answer()["petsc"]

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"PETSc ended with status {self.process.wait()}")
        return dict(json.loads(line))

    def solve(self, iterations: int, save: str | None = None) -> dict[str, Any]:
        line = json.dumps({"iterations": iterations, "save": save}) + "\n"
        for pipe in self.pipes:
            os.write(pipe, line.encode())
        return self.answer()

    def solution(self, iterations: int) -> Any:
        import numpy as np

        path = f"{self.folder}/x.npy"
        self.solve(iterations, path)
        return np.load(path)

    def close(self) -> None:
        for pipe in self.pipes:
            os.close(pipe)
        self.process.wait(60)
        self.forget()


def ranks_for(state: Any, ranks: int, solver: str) -> Ranks:
    """Start ranks for the system of an application's state; the right side is the first guess's residual."""
    grids = getattr(state, "grids", ())
    if not grids:
        return Ranks(ranks, solver, state.A, state.r)
    return Ranks(ranks, solver, grids[0].A, state.r, grids, sweeps=state.sweeps,
                 coarse=state.coarse_sweeps, omega=float(grids[0].weight[0] * grids[0].A.diagonal()[0]))


def contender(name: str, solver: str, ranks: int) -> Any:
    """A contender that solves an application's system by PETSc; the steps of a sample are one solve."""
    from case import Peer
    from krylov import prepared

    def start(args: argparse.Namespace) -> Peer:
        began = time.perf_counter()
        app, state = prepared(name, args)
        guess = state.x.copy()
        solver_ranks = ranks_for(state, ranks, solver)
        started = time.perf_counter() - began
        asked = done = 0

        def step() -> None:
            nonlocal asked
            asked += 1

        def wait() -> None:
            nonlocal asked, done
            if asked:
                solver_ranks.solve(asked)
            asked, done = 0, done + asked

        return Peer(step, lambda: {"x": guess + solver_ranks.solution(done)}, wait, app=app, started=started)

    return start


# The ranks' side, in Debian's Python.

def matrix(PETSc: Any, folder: str, name: str, shape: tuple[Any, Any]) -> Any:
    """The rows of this rank, from files that all ranks read; `shape` is ((local, all), (local, all))."""
    import numpy as np

    parts = [np.load(f"{folder}/{name}.{part}.npy", mmap_mode="r") for part in ("indptr", "indices", "data")]
    layout = PETSc.Vec().createMPI(shape[0])
    first, last = layout.getOwnershipRange()
    indptr = np.asarray(parts[0][first : last + 1], dtype=PETSc.IntType)
    span = slice(int(indptr[0]), int(indptr[-1]))
    rows = indptr - indptr[0], np.asarray(parts[1][span], dtype=PETSc.IntType), np.array(parts[2][span])
    return PETSc.Mat().createAIJ(size=shape, csr=rows, comm=PETSc.COMM_WORLD)


def smoother(ksp: Any, A: Any, omega: float, sweeps: int, PETSc: Any) -> None:
    """Jacobi's sweeps, weighted: Richardson's iteration with the diagonal as preconditioner."""
    ksp.setOperators(A)
    ksp.setType("richardson")
    PETSc.Options(ksp.getOptionsPrefix())["ksp_richardson_scale"] = omega
    ksp.getPC().setType("jacobi")
    ksp.setNormType(PETSc.KSP.NormType.NONE)
    ksp.setTolerances(max_it=sweeps)
    ksp.setFromOptions()


def multigrid(pc: Any, folder: str, options: dict[str, Any], A: Any, PETSc: Any) -> None:
    """The application's grids as PETSc's multigrid, whose level 0 is the coarsest."""
    levels = options["levels"]
    pc.setType("mg")
    pc.setMGLevels(levels)
    fine = A
    for level in range(levels):
        at = levels - 1 - level
        if level:
            size = fine_size(folder, level)
            local = ((PETSc.DECIDE, size), (PETSc.DECIDE, size))
            above = fine.getSizes()[0]
            pc.setMGInterpolation(at + 1, matrix(PETSc, folder, f"P{level - 1}", (above, local[0])))
            pc.setMGRestriction(at + 1, matrix(PETSc, folder, f"R{level - 1}", (local[0], above)))
            fine = matrix(PETSc, folder, f"A{level}", local)
        last = level == levels - 1
        ksp = pc.getMGCoarseSolve() if last else pc.getMGSmoother(at)
        smoother(ksp, fine, options["omega"], options["coarse" if last else "sweeps"], PETSc)


def fine_size(folder: str, level: int) -> int:
    import numpy as np

    return len(np.load(f"{folder}/A{level}.indptr.npy", mmap_mode="r")) - 1


def prepare(folder: str, PETSc: Any) -> tuple[Any, Any, Any]:
    """The solver, the right side, and a vector for the solution."""
    import numpy as np

    with open(f"{folder}/options.json") as text:
        options = json.load(text)
    size = fine_size(folder, 0)
    A = matrix(PETSc, folder, "A0", ((PETSc.DECIDE, size), (PETSc.DECIDE, size)))
    x, b = A.createVecs()
    first, last = b.getOwnershipRange()
    b.array[:] = np.load(f"{folder}/b.npy", mmap_mode="r")[first:last]
    ksp = PETSc.KSP().create(PETSc.COMM_WORLD)
    ksp.setOperators(A)
    ksp.setType(options["solver"])
    ksp.setNormType(PETSc.KSP.NormType.NONE)
    if options["levels"]:
        multigrid(ksp.getPC(), folder, options, A, PETSc)
    else:
        ksp.getPC().setType("none")
    ksp.setFromOptions()
    ksp.setUp()
    return ksp, b, x


def serve(folder: str) -> None:
    """Solve when told to, until the pipe closes."""
    sys.path[:0] = sorted(glob.glob(INSTALLED))
    petsc4py = importlib.import_module("petsc4py")

    petsc4py.init(["petsc", "-ksp_convergence_test", "skip", "-ksp_fcg_mmax", "1",
                   "-ksp_fcg_truncation_type", "standard"])
    PETSc = importlib.import_module("petsc4py.PETSc")

    comm = PETSc.COMM_WORLD
    ksp, b, x = prepare(folder, PETSc)

    def answer(**what: Any) -> None:
        comm.barrier()
        if comm.rank == 0:
            print(json.dumps(what), flush=True)

    answer(petsc=".".join(map(str, PETSc.Sys.getVersion())))
    with open(f"{folder}/rank{comm.rank}") as pipe:
        for line in iter(pipe.readline, ""):
            told = json.loads(line)
            ksp.setTolerances(max_it=told["iterations"])
            start = time.perf_counter()
            ksp.solve(b, x)
            comm.barrier()
            seconds = time.perf_counter() - start
            if told["save"]:
                save(told["save"], x, PETSc)
            answer(seconds=seconds, iterations=ksp.getIterationNumber(), reason=ksp.getConvergedReason(),
                   ranks=comm.size)


def save(path: str, x: Any, PETSc: Any) -> None:
    """Gather a vector on rank 0, which writes it to a file."""
    import numpy as np

    scatter, whole = PETSc.Scatter.toZero(x)
    scatter.scatter(x, whole)
    if PETSc.COMM_WORLD.rank == 0:
        np.save(path, whole.array)


SOLVERS = {"cg": "cg", "cgs": "cgs", "bicgstab": "bcgs", "gmg": "fcg"}
"""PETSc's solver for each application; fcg with one direction kept is the flexible method of apps/gmg.py."""


def main() -> None:
    from krylov import prepared

    parser = argparse.ArgumentParser(description="one solve by PETSc")
    parser.add_argument("name", choices=sorted(SOLVERS))
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=1)
    args = parser.parse_args()
    try:
        _, state = prepared(args.name, argparse.Namespace(size=args.size))
        ranks = ranks_for(state, args.ranks, SOLVERS[args.name])
    except ImportError as error:
        sys.exit(f"PETSc: {error}")
    print(json.dumps({"petsc": ranks.version, **ranks.solve(args.iterations)}))
    ranks.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
