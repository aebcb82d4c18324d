"""Matrix products that sum over the axis along which ranks have both operands, as in `a.T @ a` or `v @ a`.

No operand moves: each rank multiplies its own columns of the first matrix with its own rows of the second
one, and what ranks find is added up in their order.  The result has the bits of the whole product because
the additions are those of BLAS.  Its matrix products take the summed dimension in pieces, of a length that
depends on the element type and the processor, add up the products within a piece in registers, and the sums
of the pieces, one after another, in memory; a remainder of less than two pieces is halved.  Its products of a
matrix and a vector add a few rows at a time to the result, so that a rank goes on from what the ranks
before it found if that is the first of these rows, with a factor of one.

The lengths are found by multiplying random numbers of small shapes, and tried on the shapes of the product.

Where the program names a grid of blocks that also cuts the summed dimension, the ranks that have the same
block of the product add it up in the same way, and the last of them keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy

from diffuse import library
from diffuse.numpy.ops import trials

Array = numpy.ndarray[Any, Any]
Point = tuple[int, ...]
LONGEST = 256, 192, 320, 384, 128, 448, 512, 640, 768
"""Lengths of pieces that BLAS libraries use."""
MULTIPLES = 4, 8, 2, 16, 12
"""The lengths of which the halves of a remainder are multiples."""
LEADS = 4, 8, 16
"""Rows that a product with a vector adds at a time."""
PROBE = 48, 40, 3000
"""The shape of the products that are tried to find the lengths: no piece may fit into the last number."""
HELD = 1 << 24
"""Bytes of sums that a rank computes before those of the ranks before it arrive."""
PANEL = 1 << 18
"""Bytes of the rows that a product with a vector takes at once."""
ROWS = 48
"""Chunks of the result are multiples of this many rows."""


class Order(NamedTuple):
    """The order of additions over the summed dimension."""

    longest: int
    """The length of a piece; 0 if any order gives the same bits."""
    multiple: int
    """The half of a remainder is a multiple of this many."""
    lead: int = 0
    """For products with a vector, the number of rows that are added at a time; 0 for others."""

    def pieces(self, ends: Sequence[int]) -> list[tuple[int, int]]:
        """Divide the summed dimension into pieces, each as (begin, end); `ends` are the boundaries of
        the ranks' parts."""
        if not self.longest:
            return [(low, high) for low, high in pairwise(ends) if low < high]
        found, low, length = [], 0, ends[-1]
        while low < length:
            rest = length - low
            if rest >= 2 * self.longest or rest <= self.longest or self.lead:
                step = min(rest, self.longest)
            else:
                step = -(-(rest // 2) // self.multiple) * self.multiple
            found.append((low, low + step))
            low += step
        return found

    def add(self, before: Array | None, x: Array, y: Array) -> Array:
        """Add the product of a piece to what was found before."""
        found: Array
        if before is None or not self.lead:
            found = numpy.matmul(x, y)
            return found if before is None else numpy.add(before, found, out=before)
        if x.ndim > 1:
            x, y = y, x.T
        rows = numpy.zeros((self.lead + len(y), y.shape[1]), y.dtype)
        rows[0], rows[self.lead:] = before, y
        factors = numpy.zeros(len(rows), x.dtype)
        factors[0], factors[self.lead:] = 1, x
        found = numpy.matmul(factors, rows)
        return found


def part(x: Array, y: Array, rows: slice) -> tuple[Array, Array]:
    """The operands of some rows of the product; of a vector and a matrix, of some of its elements."""
    return (x[rows], y) if x.ndim > 1 else (x, y[:, rows])


def chunks(order: Order, shape: Sequence[int], itemsize: int, pieces: int, ranks: int) -> list[slice]:
    """The rows of the result that ranks add up one after another, while others do the next ones: all at once
    if that is little."""
    length = shape[0]
    nbytes = itemsize * prod(shape)
    count = 1 if nbytes * max(1, pieces // ranks) <= HELD and not order.lead else 4 * ranks
    step = library.tile_length(length, count, ROWS) if count > 1 else max(length, 1)
    return [slice(low, min(low + step, length)) for low in range(0, length, step)]


def _run(peers: Any, order: Order, alike: bool, x: Array, y: Array, out: Array) -> None:
    mine = _mine(peers, order, alike, x, y)
    ends, last = peers.ends[2], peers.ranks - 1
    shape = ends[-1], *out.shape[1:]
    parts = chunks(order, shape, out.itemsize, len(order.pieces(peers.ends[0])), peers.ranks)
    size = max([rows.stop - rows.start for rows in parts]) * out[:1].nbytes * max(1, len(mine))
    ahead = 0 if order.lead else min(peers.rank, HELD // max(size, 1))
    none = out[:0]
    ready: dict[int, list[Array]] = {}
    arrived: Array | None = None
    for step in range(len(parts) + last):
        now = step - peers.rank
        if not order.lead:
            for k in range(max(now, 0), min(now + ahead + 1, len(parts))):
                if k not in ready:
                    ready[k] = [numpy.matmul(*part(*piece, parts[k])) for piece in mine]
        gives = [none] * peers.ranks
        if 0 <= now < len(parts):
            rows, found = parts[now], arrived
            if order.lead:
                for piece in mine:
                    found = order.add(found, *part(*piece, rows))
            for each in ready.pop(now, ()):
                found = each if found is None else numpy.add(found, each, out=found)
            if found is None:
                found = numpy.zeros((0, *out.shape[1:]), out.dtype)
            if peers.rank < last:
                gives[peers.rank + 1] = found
            else:
                cut = numpy.clip(numpy.array(ends[1:-1]) - rows.start, 0, rows.stop - rows.start)
                gives = numpy.split(found, cut)
        arrived = _arrived(peers, gives, out, parts, step)


def _arrived(peers: Any, gives: list[Array], out: Array, parts: list[slice], step: int) -> Array | None:
    """Exchange sums at the end of a step: store the complete rows of the result, and return the sums to which
    this rank adds its own; None if there are none."""
    got, lengths = peers.swap(gives)
    last = peers.ranks - 1
    done = step - last
    if 0 <= done < len(parts) and lengths[last]:
        first = max(parts[done].start - peers.ends[2][peers.rank], 0)
        out[first:first + lengths[last]] = got[len(got) - lengths[last]:]
    if not peers.rank or not lengths[peers.rank - 1]:
        return None
    begin = sum(lengths[:peers.rank - 1])
    goes_on: Array = got[begin:begin + lengths[peers.rank - 1]]
    return goes_on


def _mine(peers: Any, order: Order, alike: bool, x: Array, y: Array) -> list[tuple[Array, Array]]:
    """Return the operands of the pieces that begin on this rank; the ranks after it send the ends of those
    that reach beyond its part."""
    ends = peers.ends[0]
    pieces = order.pieces(ends)
    owners = numpy.searchsorted(ends, [low for low, _ in pieces], "right") - 1
    reach = list(ends[1:])
    for (_, high), owner in zip(pieces, owners, strict=True):
        reach[owner] = max(reach[owner], high)
    begin = ends[peers.rank]
    turned = x.T if x.ndim > 1 else x  # the summed dimension comes first
    wanted = [numpy.clip((ends[rank + 1], reach[rank]), begin, ends[peers.rank + 1]) - begin
              for rank in range(peers.ranks)]
    tails = [peers.swap([each[low:high] for low, high in wanted])[0]
             for each in ((turned,) if alike else (turned, y))]
    found = []
    for (low, high), owner in zip(pieces, owners, strict=True):
        if owner != peers.rank:
            continue
        if high <= ends[owner + 1]:
            one, other = turned[low - begin:high - begin], y[low - begin:high - begin]
        else:
            rest = high - ends[owner + 1]
            one = _joined(turned, low - begin, tails[0][:rest])
            other = one if alike else _joined(y, low - begin, tails[1][:rest])
        found.append((one.T if x.ndim > 1 else one, other))
    return found


def _joined(x: Array, first: int, rest: Array) -> Array:
    """Join the rows of an operand, from the `first` one, with those of the next ranks.  The result has the
    memory order of the operand, as BLAS adds up in another order for another one."""
    found = numpy.empty_like(x, shape=(len(x) - first + len(rest), *x.shape[1:]))
    return numpy.concatenate([x[first:], rest], out=found)


def equal(order: Order, x: Array, y: Array, whole: Array, ranks: int, parts: Point = ()) -> bool:
    """Does a product that is added up in this order, in so many blocks along each dimension of the result,
    have the bits of the whole?"""
    pieces = order.pieces((0, len(y)))
    found = numpy.empty_like(whole)
    for box in boxes(whole.shape, parts):
        block = found[box]
        mine = x[box[0]] if x.ndim > 1 else x, y[:, box[-1]] if y.ndim > 1 else y
        for rows in chunks(order, block.shape, block.itemsize, len(pieces), ranks):
            one, other = part(*mine, rows)
            sums: Array | None = None
            for low, high in pieces:
                sums = order.add(sums, one[..., low:high], other[low:high])
            block[rows] = sums
    return found.tobytes() == whole.tobytes()


def boxes(shape: Point, parts: Point) -> Iterator[tuple[slice, ...]]:
    """The blocks of an array that has so many equal parts along each dimension; one if `parts` is empty."""
    tiles = [n // count for n, count in zip(shape, parts or (1,) * len(shape), strict=True)]
    return product(*[[slice(low, low + tile) for low in range(0, n, tile or 1)]
                     for n, tile in zip(shape, tiles, strict=True)])


class OrderKey(NamedTuple):
    """The properties of a product that determine the order of additions, besides the shapes."""

    dtype: str
    vectors: tuple[bool, bool]
    """Which of the operands are vectors?"""
    alike: bool
    """Is the first operand the second one, turned?"""

    @property
    def candidates(self) -> list[Order]:
        if any(self.vectors):
            return [Order(8 * LEADS[-1], 1, lead) for lead in LEADS]
        return [Order(longest, multiple) for longest in LONGEST for multiple in MULTIPLES]


_orders: dict[OrderKey, list[Order]] = {}
"""The orders under which small products of a kind have the bits of BLAS on all ranks."""
_known: dict[tuple[Any, ...], Order | None] = library.Recurring()
"""The order for products of some shapes; None if there is none."""


def fewer(x: Any, y: Any, ranks: int) -> bool:
    """Do ranks that hold rows of these operands send fewer bytes by adding up sums than by multiplying rows
    of the first operand, or columns of the second one?"""
    result = x.size // y.shape[0] * y.size // y.shape[0]
    moved = x.size // ranks + y.size if x.ndim > 1 else x.size + y.size // ranks
    return bool(ranks * result < moved)


def lie_along(x: Any, y: Any) -> bool:
    """Do both operands lie in memory along the summed dimension first, with rows that BLAS takes?"""
    turned, straight = x.strides[::-1], y.strides
    return bool(turned[0] > 0 < straight[0] and turned[-1] == x.itemsize and straight[-1] == y.itemsize
                and x.dtype == y.dtype and x.ndim + y.ndim > 2
                and (x.ndim == 1 or turned[0] > turned[1]) and (y.ndim == 1 or straight[0] > straight[1]))


def summed(x: Any, y: Any, alike: bool, runtime: Any) -> library.Independent | None:
    """The product as a call of all ranks; None if it has not the bits of the whole product.  `alike` says
    that the first operand is the second one, turned."""
    one = trials.described(x)
    order = _order(one, trials.described(y), alike, runtime)
    return None if order is None else _call(order, alike, len(one.shape))


def sums(x: trials.Operand, y: trials.Operand, alike: bool, usual: bool, runtime: Any) -> library.Sums | None:
    """Order the additions of a product that a region of the program cuts, with the costs of that."""
    order = _order(x, y, alike, runtime)
    if order is None:
        return None

    def moved(ends: library.Ends) -> library.Moved:
        return _moved(order, ends, x, y, alike)

    return library.Sums(_call(order, alike, len(x.shape)), usual, moved)


def on_blocks(x: trials.Operand, y: trials.Operand, alike: bool, parts: Point, runtime: Any
              ) -> library.Sums | None:
    """The product on a grid that has so many parts of each dimension of the result, then of the summed one;
    None if it has not the bits of the whole product.  They divide the extents."""
    shape = (*x.shape[:-1], *y.shape[1:])
    *blocks, ranks = parts
    order = _order(x, y, alike, runtime, ranks, tuple(blocks))
    if order is None:
        return None
    block = tuple([n // count for n, count in zip(shape, blocks, strict=True)])
    length = y.shape[0]
    along = tuple([length // ranks * rank for rank in range(ranks + 1)])
    ends = along, along, (*[0] * ranks, block[0])
    one = x._replace(shape=(*block[:len(x.shape) - 1], length))
    other = y._replace(shape=(length, *block[len(block) + 1 - len(y.shape):]))
    count = len(chunks(order, block, numpy.dtype(x.dtype).itemsize, len(order.pieces(along)), ranks))

    def run(peers: Any, one: Array, other: Array, out: Array) -> None:
        if peers.ranks == 1:
            numpy.matmul(one, other, out=out)
        elif peers.rank < 0:
            turned = one.T if one.ndim > 1 else one
            for nothing in [turned[:0], *([] if alike else [other[:0]]), *[out[:0]] * (count + ranks - 1)]:
                peers.swap([nothing] * peers.ranks)
        else:
            _run(peers, order, alike, one, other, out)

    def moved(_: library.Ends) -> library.Moved:
        each, chains = _moved(order, ends, one, other, alike), prod(blocks)
        return library.Moved(each.bytes * chains, each.chain, each.messages, each.share / chains)

    axes = len(x.shape) - 1, 0, None
    return library.Sums(library.Independent(run, (axes,), together=True), False, moved)


def _order(x: trials.Operand, y: trials.Operand, alike: bool, runtime: Any, ranks: int = 0, parts: Point = ()
           ) -> Order | None:
    if numpy.dtype(x.dtype).kind in "biu":
        return Order(0, 1)
    key = x, y, alike, ranks or runtime.ranks, parts
    if key not in _known:
        _known[key] = _found(*key, runtime.over_ranks)
    return _known[key]


def _call(order: Order, alike: bool, dims: int) -> library.Independent:
    def run(peers: Any, one: Array, other: Array, out: Array) -> None:
        _run(peers, order, alike, one, other, out)

    return library.Independent(run, ((dims - 1, 0, 0),), together=True)


def _moved(order: Order, ends: library.Ends, x: trials.Operand, y: trials.Operand, alike: bool
           ) -> library.Moved:
    """Return what `_run` moves between ranks: the ends of pieces, sums that one rank passes to the next, and
    the result from the last one."""
    along, ranks = ends[0], len(ends[0]) - 1
    pieces = order.pieces(along)
    lengths, reach = [0] * ranks, list(along[1:])
    for low, high in pieces:
        owner = int(numpy.searchsorted(along, low, "right")) - 1
        lengths[owner] += high - low
        reach[owner] = max(reach[owner], high)
    itemsize = numpy.dtype(x.dtype).itemsize
    line = (prod(x.shape) * (not alike) + prod(y.shape)) // along[-1] * itemsize
    tails = line * sum([high - end for high, end in zip(reach, along[1:], strict=True)])
    shape = (*x.shape[:-1], *y.shape[1:])
    parts = len(chunks(order, shape, itemsize, len(pieces), ranks))
    result = prod(shape) * itemsize
    away = result * ends[2][-2] / ends[2][-1]
    begun = sum([1 for rank in range(1, ranks) if pieces and pieces[0][0] < along[rank]])
    steps = parts + ranks - 1 + (1 if alike else 2)
    return library.Moved(tails + begun * result + away, result * (parts + begun) / parts + tails / ranks,
                         float(steps * (ranks - 1)), max(lengths) / along[-1])


def _found(x: trials.Operand, y: trials.Operand, alike: bool, ranks: int, parts: Point,
           over_ranks: Callable[[int], int]) -> Order | None:
    """The first order that gives random numbers of these shapes the bits of the whole product on all
    ranks."""
    kind = OrderKey(x.dtype, (len(x.shape) < 2, len(y.shape) < 2), alike)
    if kind not in _orders:
        mine = _probed(kind)
        _orders[kind] = [order for order in kind.candidates if over_ranks(int(order not in mine)) == 0]
    width = prod(x.shape[:-1]) * prod(y.shape[1:])
    itemsize = numpy.dtype(x.dtype).itemsize
    for order in _orders[kind]:
        if order.lead:
            order = order._replace(longest=max(PANEL // (width * itemsize) // order.lead, 4) * order.lead)
        with trials.numbers(x, y, 3 * width * itemsize, alike) as operands:
            same = operands is not None and all(equal(order, *each, numpy.matmul(*each), ranks, parts)
                                                for each in trials.varied(*operands, alike))
        if over_ranks(int(not same)) == 0:
            return order
    return None


def _probed(kind: OrderKey) -> list[Order]:
    """The orders under which a small product has the bits of BLAS on this rank."""
    rows, columns, length = PROBE
    y = trials.Operand((length,) if kind.vectors[1] else (length, rows if kind.alike else columns),
                       kind.dtype, False)
    x = trials.Operand((length,) if kind.vectors[0] else (rows, length), kind.dtype, not kind.vectors[0])
    with trials.numbers(x, y, 0, kind.alike) as operands:
        if operands is None:
            return []
        whole = numpy.matmul(*operands)
        return [order for order in kind.candidates if equal(order, *operands, whole, 1)]
