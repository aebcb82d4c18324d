"""Stand-alone programs for MPI, written from descriptions of operators and a grid of processes.

"Partition work, not data" (papers/000): the grid says which process computes which block of the loops; which
blocks of arrays a process needs, and what processes send to each other, follows from how the loops index the
arrays.  `diffuse.spmd.program` says what a program is, and `write` writes it with mpi4py, as one would by
hand.
"""

from diffuse.spmd.program import KNOWN, Program, attention, matmul, of_spec, softmax
from diffuse.spmd.sparse import SparseProduct, spmv
from diffuse.spmd.write import write

__all__ = ["KNOWN", "Program", "SparseProduct", "attention", "matmul", "of_spec", "softmax", "spmv", "write"]
"""The ways to make a program, and the one to write it."""
