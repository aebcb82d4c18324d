"""The structure of kernel loops beyond their extents: the leaves of the reduction tree, where two dimensions
run as one loop, and the stride classes of accesses."""

from __future__ import annotations

from diffuse.ir import ITEMSIZE, Access, Decomposition, Point

SEGMENT = 512
"""The length of a row leaf of the reduction tree, in indices of the last iteration dimension, aligned to
multiples of it.  Tiles of that dimension are multiples of it, too: a leaf never straddles points."""

SHORT = 32
"""The longest last dimension that a loop may iterate together with the one before it
(kernels/llvm/flat.py)."""

ROWS = 32
"""The length of a column leaf, in indices of the innermost reduced dimension; tiles are multiples of it."""


def roots(low: int, high: int, count: int) -> list[int]:
    """The roots of the largest complete subtrees within the leaves [low, high) of the reduction tree over
    `count` leaves: the leaves that hold what remains to combine after a point has folded its subtrees."""
    found = []
    while low < high:
        size = low & -low or 1 << count.bit_length()
        while min(low + size, count) > high:
            size //= 2
        found.append(low)
        low += size
    return found


def flat(shape: Point, decomposition: Decomposition) -> int:
    """The number of vectors of eight elements per row, if the last dimension is short, never cut, and would
    leave lanes of vectors unused; else 0."""
    if (len(shape) < 2 or not 1 < shape[-1] <= SHORT or shape[-2] < 8 or decomposition.gaps
            or any(split.axis == len(shape) - 1 for split in decomposition.splits)):
        return 0
    vectors = -(-shape[-1] // 8)
    return vectors if shape[-1] < 8 or 8 * vectors >= 1.2 * shape[-1] else 0


REPEATS = {"p": 2, "q": 4}
"""The letters of accesses that read neighbouring elements along the dimension before the last, each for all
so many indices of the last one, where a loop runs over both."""

LEFT_OUT = "n"
"""The letter of the dimension before the last, in such loops, where one index of the last dimension is left
out between two rows."""

NEAR = "234"
"""The strides of the last dimension, in elements, that kernels treat specially: accesses to one of a few
components in the last dimensions of a store, such as the parts of complex numbers."""


def letters(access: Access, shape: Point, flattened: int, gaps: bool = False) -> str:
    """The stride class of an access along each dimension (see `kernels.body.expr.Argument`)."""
    found, rank = access.map.classes(len(shape)), len(shape)
    if found[-1:] == "s" and not gaps and any((rank - 1, 1) in terms for _, terms in access.map.rows):
        step = _step(access, rank - 1)
        if step != 1 and str(step) not in (*NEAR,):
            return found
        return found[:-2] + _between(access, shape, flattened, found[-2:-1], step) + str(step)
    if flattened and found[-1] == "0" and found[-2] != "0":
        for letter, times in REPEATS.items():
            if times == shape[-1] and _plain(access) and _step(access, rank - 2) == 1:
                return found[:-2] + letter + "0"
    if flattened and found[-1] == "1":
        return found[:-2] + _between(access, shape, flattened, found[-2:-1], 1) + "1"
    return found


def _between(access: Access, shape: Point, flattened: int, letter: str, step: int) -> str:
    """The letter of the dimension before the last, which is another one if it says where the next row lies:
    the last dimension has a stride of so many elements."""
    if flattened and letter != "0":
        row = _step(access, len(shape) - 2)
        if row == step * shape[-1]:
            return "c"
        if flattened > 1 and row == step * (shape[-1] + 1):
            return LEFT_OUT
    return letter


def _plain(access: Access) -> bool:
    """Does an access go straight through elements that a vector register holds one to a lane?"""
    dtype = access.store.dtype
    return (4 <= ITEMSIZE[dtype] <= 8 and not dtype.startswith("complex")
            and not access.map.turned and not access.map.free)


def _step(access: Access, dimension: int) -> int:
    """The stride of a dimension in elements, in a row-major store."""
    pitch, step = 1, 0
    for size, (_, terms) in zip(reversed(access.store.shape), reversed(access.map.rows), strict=True):
        step += pitch * sum(s for k, s in terms if k == dimension)
        pitch *= size
    return step
