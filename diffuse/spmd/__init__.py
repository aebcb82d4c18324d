"""Stand-alone programs for MPI, written from descriptions of operators and a grid of processes.

"Partition work, not data" (papers/000): who computes which block of the loops is chosen; which blocks of
arrays processes need, and what they say to each other, follows from how the loops index the arrays.
`diffuse.spmd.program` says what a program is, `write` writes it with mpi4py, as one would by hand.
"""

from diffuse.spmd.program import KNOWN, Program, attention, matmul, of_spec, softmax
from diffuse.spmd.sparse import SparseProduct, spmv
from diffuse.spmd.write import write

__all__ = ["KNOWN", "Program", "SparseProduct", "attention", "matmul", "of_spec", "softmax", "spmv", "write"]
"""The ways to make a program, and the one to write it."""
