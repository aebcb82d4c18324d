"""The product of a sparse matrix and a vector, written as a program for MPI: rows over processes.

What a process needs of the vector depends on the matrix, so that no description of loops tells it: papers/000
gives every process the whole vector and all entries.  Here a process has the entries of its rows and a part
of the vector, and asks the others once for the elements that its entries refer to (ghosts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from diffuse.spmd.helpers import LOAD, OPENED, PART, WHOLE, stored

ASKED = '''
def asked(wanted, length):
    """Tell the other processes which elements of a vector this one wants, by sorted indices.

    Returns how many elements this process sends to each, where these are in its own part, and how many it
    receives from each.  One call for each matrix.
    """
    step = -(-length // grid.size)
    takes = np.diff(np.searchsorted(wanted, step * np.arange(grid.size + 1)))
    gives = np.empty_like(takes)
    grid.Alltoall(takes, gives)
    places = np.empty(gives.sum(), wanted.dtype)
    grid.Alltoallv([wanted, takes], [places, gives])
    return gives, places - step * grid.rank, takes
'''
FETCHED = '''
def fetched(x, gives, places, takes):
    """Exchange the wanted elements of a vector, of which `x` is this process' part: for each product."""
    found = np.empty(takes.sum(), x.dtype)
    grid.Alltoallv([x[places], gives], [found, takes])
    return found
'''
MAIN = '''
def main():
    m = part({m}, {ranks}, grid.rank)
    indptr = load(sys.argv[1], ({m} + 1,), slice(m.start, m.stop + 1))
    indices, data = [np.load(path, mmap_mode="r")[indptr[0]:indptr[-1]] for path in sys.argv[2:4]]
    x = load(sys.argv[4], ({n},), part({n}, {ranks}, grid.rank))
    wanted, columns = np.unique(indices, return_inverse=True)
    A = csr_array((data, columns, indptr - indptr[0]), shape=(m.stop - m.start, len(wanted)))
    neighbours = asked(wanted, {n})
    y = A @ fetched(x, *neighbours)
    store(sys.argv[5], ({m},), y.dtype, m, y)
'''
HEAD = '''"""y[m] = sum over n of A[m,n] * x[n] for a sparse matrix A, on {ranks} processes: {ranks} along m.

    mpiexec -n {ranks} python spmv.py indptr.npy indices.npy data.npy x.npy y.npy

The first three files are the arrays of a scipy.sparse.csr_array of {m} x {n}.  Every process has the entries
of its rows and a part of x, and gets the other elements of x that its entries refer to from the processes
that have them.  Written by `diffuse export --spmd`.
"""

import sys

import numpy as np
from mpi4py import MPI
from scipy.sparse import csr_array
'''
GRID = '''
if MPI.COMM_WORLD.size != {ranks}:
    sys.exit(f"expected {ranks} processes, not {{MPI.COMM_WORLD.size}}")
grid = MPI.COMM_WORLD.Create_cart([{ranks}])
'''
END = '''
if __name__ == "__main__":
    main()
'''


class SparseProduct(NamedTuple):
    """The product of a sparse matrix of so many rows and columns and a vector."""

    m: int
    n: int

    def text(self, grid: Mapping[str, int]) -> str:
        """Return the text of the program for a grid of processes.  Raises ValueError for a grid that cuts any
        loop but the rows, or has fewer than one process."""
        for name, parts in grid.items():
            if name not in self._fields:
                raise ValueError(f"grid: no loop {name!r}; the loops are m, n")
            if parts < 1:
                raise ValueError(f"grid: {parts} processes along {name}; give at least 1")
        if grid.get("n", 1) > 1:
            raise ValueError("grid: cut the rows m of a sparse matrix alone: a process has all entries of a "
                             "row, which it adds up in SciPy's order")
        said = {"m": self.m, "n": self.n, "ranks": grid.get("m", 1)}
        return "\n".join([HEAD.format(**said), PART, OPENED, LOAD, ASKED, FETCHED,
                          stored("block", "piece", WHOLE), GRID.format(**said), MAIN.format(**said), END])


def spmv(m: int, n: int) -> SparseProduct:
    """The product of a sparse matrix in SciPy's format csr and a vector."""
    return SparseProduct(m, n)
