"""The functions that programs for MPI define for themselves, as text."""

from __future__ import annotations

from collections.abc import Sequence

PART = '''
def part(length, parts, index):
    """The indices of one of so many equal parts; the last ones may be shorter, or empty."""
    step = -(-length // parts)
    return slice(min(index * step, length), min((index + 1) * step, length))
'''
ROWS = '''
def rows(block, comm, rank):
    """The rows of a block that are the piece of one process of a communicator."""
    return part(len(block), comm.size, rank)
'''
OPENED = '''
def opened(path, shape):
    """An array in a file, which must have this shape."""
    array = np.load(path, mmap_mode="r")
    if array.shape != shape:
        sys.exit(f"{path}: expected an array of shape {shape}, not {array.shape}")
    return array
'''
LOAD = '''
def load(path, shape, block):
    """A block of an array in a file."""
    return np.ascontiguousarray(opened(path, shape)[block])
'''
LOAD_PIECE = '''
def load_piece(path, shape, block, comm):
    """This process' piece of a block of an array in a file, and how many rows the block has."""
    whole = opened(path, shape)[block]
    return np.ascontiguousarray(whole[rows(whole, comm, comm.rank)]), len(whole)
'''
GATHERED = '''
def gathered(piece, length, comm):
    """The block of so many rows of which each process of a communicator has a piece."""
    block = np.empty((length, *piece.shape[1:]), piece.dtype)
    comm.Allgatherv(piece, [block, counts(block, comm)])
    return block
'''
COUNTS = '''
def counts(block, comm):
    """The elements of each process' piece of a block."""
    return [block[rows(block, comm, rank)].size for rank in range(comm.size)]
'''
COMBINED = '''
def combined(block, comm, op):
    """The blocks of all processes of a communicator, folded into one that each of them has."""
    block = np.ascontiguousarray(block)
    comm.Allreduce(MPI.IN_PLACE, block, op)
    return block
'''
SCATTERED = '''
def scattered(block, comm, op):
    """The blocks of all processes of a communicator, folded; each process gets its piece."""
    block = np.ascontiguousarray(block)
    piece = np.empty_like(block[rows(block, comm, comm.rank)])
    comm.Reduce_scatter(block, piece, counts(block, comm), op)
    return piece
'''
STORE = '''
def store(path, shape, dtype, block, {given}):
    """Write every process' {what} of an array into a file that all of them see."""
    if grid.rank == 0:
        np.lib.format.open_memmap(path, "w+", dtype, shape).flush()
    grid.Barrier()
{writing}
    grid.Barrier()
'''
WHOLE = ('whole = np.load(path, mmap_mode="r+")', "whole[block] = piece", "whole.flush()")
PIECES = (WHOLE[0], "target = whole[block]", "target[rows(target, comm, comm.rank)] = piece", WHOLE[2])
"""How a block is written, and how a piece of one."""

HELPERS = {"part": PART, "rows": ROWS, "counts": COUNTS, "opened": OPENED, "load": LOAD,
           "load_piece": LOAD_PIECE, "gathered": GATHERED, "combined": COMBINED, "scattered": SCATTERED,
           "store": STORE}
"""The functions that a program may define, in their order."""


def stored(what: str, given: str, lines: Sequence[str]) -> str:
    """The function that stores a block, or a piece of one, which it is given under these names, by lines."""
    return STORE.format(what=what, given=given, writing="\n".join([f"    {line}" for line in lines]))
