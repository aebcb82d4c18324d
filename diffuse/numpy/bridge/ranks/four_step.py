"""The Fourier transform of one line that ranks have in parts: the four-step algorithm, and Bluestein's.

A line of n = height * width elements is a matrix in C order.  Ranks get whole columns of it, transform
these, multiply them by roots of unity, exchange them for whole rows, and transform those: each element moves
three times.  Of real input they compute half of the rows, since the others are conjugates of these; a
transform that returns real numbers begins with half of the columns.  Where n has no divisor near its square
root, Bluestein's algorithm makes the transform a convolution of at least twice the length, which is
transformed in that way.

Which algorithm runs, and all that it computes, depends on n alone, and so do the bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any, NamedTuple

import numpy

Array = numpy.ndarray[Any, Any]
BLOCK = 1 << 15
"""How many roots of unity are computed at once."""
LONGEST = 1 << 31
"""The longest transform by Bluestein's algorithm, which squares indices."""


class Transform(NamedTuple):
    """A transform of `n` elements: exp(sign 2 pi i j k / n) times `x[j]`, added up for each k."""

    n: int
    sign: int
    factor: float
    """What each result is multiplied by."""
    real: bool
    """Is the input real?"""
    half: bool
    """Is the input the first half of elements of which the others are conjugates, and the result real?"""


def run(peers: Any, plan: Transform, given: Array, target: Array) -> None:
    """Write the transform of the input, of which each rank has a part, to the parts that ranks have of the
    result.  Only the first `n` elements are read (of a half the first n // 2 + 1); missing ones count as
    zero, and the result may end early."""
    height = divisor(plan.n)
    count = plan.n // 2 + 1 if plan.half else plan.n
    given = given[:max(count - peers.ends[0][peers.rank], 0)]
    given = given.astype(_precise(given.dtype, not plan.real), copy=False)
    if height is None:
        _bluestein(peers, plan, given, target)
    elif plan.half:
        _to_real(peers, plan, height, given, target)
    else:
        _to_complex(peers, plan, height, given, target)
    if plan.real:
        _made_real(plan, peers.ends[1][peers.rank], target)


def divisor(n: int) -> int | None:
    """The largest divisor of n up to its square root; None if that is less than its cube root."""
    found = [1]
    left, prime = n, 2
    while left > 1:
        if prime * prime > left:
            prime = left
        powers = [1]
        while left % prime == 0:
            left //= prime
            powers.append(powers[-1] * prime)
        found = [d * power for d in found for power in powers if d * power <= isqrt(n)]
        prime += 1
    best = max(found)
    return best if best ** 3 >= n else None


def _precise(dtype: Any, complex_: bool) -> Any:
    """The type of numbers that NumPy transforms: of single precision if these are."""
    single = dtype.kind == "f" and dtype.itemsize <= 4 or dtype.kind == "c" and dtype.itemsize <= 8
    return numpy.result_type(dtype, "f4" if single else "f8", "c8" if complex_ else "f4")


def roots(numbers: Array, n: int, sign: int) -> Array:
    """exp(sign 2 pi i k / n) for whole numbers k from 0 to n, from angles of at most an eighth of a turn."""
    quarter = (8 * numbers + n) // (2 * n)
    angle = (4 * numbers - quarter * n) / n * (numpy.pi / 2)
    cosine, sine = numpy.cos(angle), numpy.sin(angle)
    odd, quarter = (quarter & 1).astype(bool), quarter & 3
    found = numpy.empty(numbers.shape, numpy.complex128)
    found.real = numpy.where(odd, sine, cosine) * numpy.array([1.0, -1.0, -1.0, 1.0])[quarter]
    found.imag = numpy.where(odd, cosine, sine) * numpy.array([1.0, 1.0, -1.0, -1.0])[quarter] * sign
    return found


# -- the steps of the algorithm, on a matrix of which ranks have columns or rows ----------------------------


class Steps:
    """The matrix of a transform, of so many rows and columns, and the columns and rows of each rank."""

    def __init__(self, peers: Any, n: int, sign: int, height: int, width: int) -> None:
        self.peers, self.n, self.sign, self.height, self.width = peers, n, sign, height, width
        self.columns, self.rows = [[extent * rank // peers.ranks for rank in range(peers.ranks + 1)]
                                   for extent in (width, height)]

    def own(self, ends: Sequence[int]) -> tuple[int, int]:
        low, high = ends[self.peers.rank:self.peers.rank + 2]
        return low, high

    def times(self, block: Array, numbers: Callable[[Array, Array], Array]) -> None:
        """Multiply columns by a function of the numbers of rows and columns."""
        low, high = self.own(self.columns)
        columns = numpy.arange(low, high)
        step = max(1, BLOCK // max(1, high - low))
        for row in range(0, len(block), step):
            rows = numpy.arange(row, min(row + step, len(block)))
            block[row:row + step] *= numbers(rows[:, None], columns)

    def turned(self, block: Array, sign: int) -> None:
        """Multiply by the twiddle factors between the transforms of columns and those of rows."""
        self.times(block, lambda rows, columns: roots(rows * columns, self.n, sign))

    def to_rows(self, block: Array) -> Array:
        """Exchange columns for rows."""
        found, lengths = self.peers.swap([block[low:high].reshape(-1) for low, high in _pairs(self.rows)])
        low, high = self.own(self.rows)
        out = numpy.empty((high - low, self.columns[-1]), block.dtype)
        begin = 0
        for (first, last), length in zip(_pairs(self.columns), lengths, strict=True):
            out[:, first:last] = found[begin:begin + length].reshape(high - low, last - first)
            begin += length
        return out

    def to_columns(self, block: Array) -> Array:
        """Exchange rows for columns."""
        found, _ = self.peers.swap([block[:, low:high].reshape(-1) for low, high in _pairs(self.columns)])
        low, high = self.own(self.columns)
        whole: Array = found.reshape(self.rows[-1], high - low)
        return whole

    def forward(self, block: Array) -> Array:
        """Transform columns to rows of the result: element k1 + height * k2 is in row k1, column k2."""
        block = _complex(block, 0, self.sign)
        self.turned(block, self.sign)
        return _complex(self.to_rows(block), 1, self.sign)

    def backward(self, block: Array) -> Array:
        """Compute the inverse of `forward`, times n: columns from rows."""
        block = self.to_columns(_complex(block, 1, -self.sign))
        self.turned(block, -self.sign)
        return _complex(block, 0, -self.sign)


def _complex(block: Array, axis: int, sign: int) -> Array:
    """Transform the lines along an axis, without scaling."""
    if not block.size:
        return block.astype(_precise(block.dtype, True))
    return numpy.fft.fft(block, axis=axis) if sign < 0 else numpy.fft.ifft(block, axis=axis, norm="forward")


def _pairs(ends: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(ends, ends[1:], strict=False))


# -- from the ranks' parts of a line to columns of its matrix, and back -------------------------------------


def _before(place: int, width: int, low: int, high: int) -> int:
    """Count the elements of columns `low` to `high` that precede a place of a matrix in C order."""
    return place // width * (high - low) + min(max(place % width - low, 0), high - low)


def _shown(line: Array, start: int, width: int, low: int, high: int) -> tuple[Array, Array, Array]:
    """The elements of columns `low` to `high` in a piece of a matrix in C order that begins at place
    `start`, as three views: of its first row, its whole rows and its last row."""
    column, lead = start % width, min(-start % width, len(line))
    whole = (len(line) - lead) // width * width
    return (line[:lead][max(low - column, 0):max(high - column, 0)],
            line[lead:lead + whole].reshape(-1, width)[:, low:high], line[lead + whole:][low:high])


def _picked(line: Array, start: int, width: int, low: int, high: int) -> Array:
    return numpy.concatenate([view.reshape(-1) for view in _shown(line, start, width, low, high)])


def collect(peers: Any, line: Array, limit: int, width: int, ends: Sequence[int], size: int,
            half: bool = False) -> Array:
    """A rank's columns of the matrix of a line, as rows of so many elements, `size` in all.

    Elements from place `limit` on are zero.  Of a half the elements behind it are conjugates of it.
    """
    low, high = ends[peers.rank:peers.rank + 2]
    start, stop = peers.ends[0][peers.rank:peers.rank + 2]
    found, _ = peers.swap([_picked(line, start, width, *pair) for pair in _pairs(ends)])
    block = numpy.zeros(size // width * (high - low), line.dtype)
    block[:len(found)] = found
    if half:
        first, last = max(start, 1), max(min(stop, (limit + 1) // 2), 1)
        back = line[max(first - start, 0):max(last - start, 0)][::-1].conj()
        found, lengths = peers.swap([_picked(back, limit - last + 1, width, *pair) for pair in _pairs(ends)])
        end = _before(limit, width, low, high)
        for piece in numpy.split(found, numpy.cumsum(lengths)[:-1]):
            block[end - len(piece):end] = piece
            end -= len(piece)
    return block.reshape(-1, high - low) if high > low else block.reshape(size // width, 0)


def deposit(peers: Any, block: Array, width: int, owned: Sequence[tuple[int, int]], target: Array) -> None:
    """Write columns of a matrix of this width, which ranks own, to the places that they have in C order."""
    low, high = owned[peers.rank]
    line = block.reshape(-1)
    places = [min(_before(end, width, low, high), len(line)) for end in peers.ends[1]]
    found, lengths = peers.swap([line[a:b] for a, b in _pairs(places)])
    begin = 0
    for (first, last), length in zip(owned, lengths, strict=True):
        piece = found[begin:begin + length]
        begin += length
        for view in _shown(target, peers.ends[1][peers.rank], width, first, last):
            view[...] = piece[:view.size].reshape(view.shape)
            piece = piece[view.size:]


# -- the kinds of transforms --------------------------------------------------------------------------------


def _to_complex(peers: Any, plan: Transform, height: int, given: Array, target: Array) -> None:
    """Transform complex or real input to complex results.  Of real input only half of the rows are computed,
    since the others are their conjugates."""
    width = plan.n // height
    steps = Steps(peers, plan.n, -1 if plan.real else plan.sign, height, width)
    block = collect(peers, given, plan.n, width, steps.columns, plan.n)
    if not plan.real:
        block = steps.forward(block)
        block *= block.real.dtype.type(plan.factor)
        deposit(peers, block.T, height, _pairs(steps.rows), target)
        return
    count = height // 2 + 1
    steps.rows = [count * rank // peers.ranks for rank in range(peers.ranks + 1)]
    block = (numpy.fft.rfft(block, axis=0) if block.size
             else numpy.zeros((count, 0), _precise(block.dtype, True)))
    steps.turned(block, -1)
    block = _complex(steps.to_rows(block), 1, -1)
    block *= block.real.dtype.type(plan.factor)
    _mirror_rows(block, steps)
    if plan.sign > 0:
        numpy.conjugate(block, out=block)
    deposit(peers, block.T, height, _pairs(steps.rows), target)
    first, _ = steps.own(steps.rows)
    mirrored = [(max(low, 1), max(min(high, (height + 1) // 2), max(low, 1)))
                for low, high in _pairs(steps.rows)]
    low, high = mirrored[peers.rank]
    back = block[low - first:high - first][::-1, ::-1].conj().T
    deposit(peers, back, height, [(height - high + 1, height - low + 1) for low, high in mirrored], target)


def _mirror_rows(block: Array, steps: Steps) -> None:
    """Give the two rows that are symmetric by themselves exactly that symmetry."""
    first, last = steps.own(steps.rows)
    width = steps.width
    if first == 0 < last:
        block[0, width // 2 + 1:] = block[0, 1:(width + 1) // 2][::-1].conj()
    if steps.height % 2 == 0 and first <= steps.height // 2 < last:
        row = block[steps.height // 2 - first]
        row[(width + 1) // 2:] = row[:width // 2][::-1].conj()


def _made_real(plan: Transform, start: int, target: Array) -> None:
    """Drop the imaginary parts of the first and the middle element, which are real in a transform of real
    numbers."""
    for place in (0, plan.n // 2) if plan.n % 2 == 0 else (0,):
        if start <= place < start + len(target):
            target[place - start] = target[place - start].real


def _to_real(peers: Any, plan: Transform, height: int, given: Array, target: Array) -> None:
    """Transform the first half of a line whose other half is its conjugate to real numbers.  The rows of half
    the columns are first halves of such lines again."""
    width = plan.n // height
    steps = Steps(peers, plan.n, plan.sign, height, width)
    count = width // 2 + 1
    steps.columns = [count * rank // peers.ranks for rank in range(peers.ranks + 1)]
    block = collect(peers, _half(peers, plan, given), plan.n, width, steps.columns, plan.n, True)
    block = _complex(block, 0, plan.sign)
    steps.turned(block, plan.sign)
    block = steps.to_rows(block)
    if len(block):
        real = numpy.fft.hfft(block, width, axis=1) if plan.sign < 0 else numpy.fft.irfft(
            block, width, axis=1, norm="forward")
    else:
        real = numpy.zeros((0, width), block.real.dtype)
    real *= real.dtype.type(plan.factor)
    deposit(peers, real.T, height, _pairs(steps.rows), target)


def _half(peers: Any, plan: Transform, given: Array) -> Array:
    """Return the half with the imaginary parts of its first and middle element dropped."""
    given = given.copy()
    _made_real(plan, peers.ends[0][peers.rank], given)
    return given


def _bluestein(peers: Any, plan: Transform, given: Array, target: Array) -> None:
    """Compute a transform by Bluestein's algorithm: j k = (j^2 + k^2 - (k - j)^2) / 2 makes it a product, a
    convolution and another product."""
    if plan.n > LONGEST:
        raise MemoryError(f"a transform of {plan.n} elements cannot run in parts: a length above {LONGEST} "
                          "needs a divisor between its cube root and its square root; take another length, "
                          "such as a multiple of a large power of 2")
    size = _long(2 * plan.n - 1)
    height = 1 << (size.bit_length() // 2 - 1)
    steps = Steps(peers, size, -1, height, size // height)
    if plan.half:
        given = _half(peers, plan, given)
    block = collect(peers, given, plan.n, steps.width, steps.columns, size, plan.half)

    def chirp(rows: Array, columns: Array) -> Array:
        """exp(sign pi i k^2 / n) at places up to k from either end of the line, and 0 between them."""
        places = rows * steps.width + columns
        places = numpy.minimum(places, size - places)
        inside = numpy.where(places < plan.n, places, 0)
        found = roots(inside * inside % (2 * plan.n), 2 * plan.n, plan.sign)
        found[places >= plan.n] = 0.0
        return found

    block = block.astype(numpy.complex128)
    steps.times(block, chirp)
    found = steps.forward(block)
    block[...] = 1.0
    steps.times(block, lambda rows, columns: chirp(rows, columns).conj())
    found *= steps.forward(block)
    del block
    found = steps.backward(found)
    steps.times(found, chirp)
    found *= plan.factor / size
    ends = _pairs(steps.columns)
    deposit(peers, found if target.dtype.kind == "c" else found.real, steps.width, ends, target)


def _long(n: int) -> int:
    """Return the least number from n on that is 1, 3 or 5 times a power of two and has at least four
    divisors."""
    return min([odd << max(2, (-(-n // odd) - 1).bit_length()) for odd in (1, 3, 5)])
