"""Reads and writes of distributed arrays through indices and masks, by request and reply between ranks.

Each rank has a part of the indices, as of any distributed array.  It requests the elements from the ranks
that hold them, and gets them in the order of its requests.  Values to be written go to the ranks that hold
the places, which write them in the order of the sending ranks, and so in that of the indices.  The elements
that a mask selects are sent to the ranks that hold these parts of the result.  No rank gets more than its
parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import base, core
from diffuse.numpy.arrays.forms import Form, row_major
from diffuse.numpy.ops import elementwise

Array = numpy.ndarray[Any, Any]
KINDS = "biufc"
TABLE = 1 << 20
"""Bytes of an array that every rank gets whole rather than asks for elements."""
INDEX = numpy.dtype(numpy.int64)


def here(*things: Any) -> bool:
    """Do several ranks run the program, and call functions of these arguments together?"""
    nbytes = max([held(x) for x in things if type(x) is core.array_class], default=0)
    return library.current().runtime.in_parts(nbytes) and not elementwise.eager_errors


def held(x: Any) -> int:
    """Return the bytes of the array that owns the memory: of `x` itself, or of the array that it views."""
    return int((x if x.owner is None else x.owner).meta.nbytes)


def wanted(*arrays: Any) -> bool:
    """Is one of these a large distributed array, and are all of them arrays of numbers?"""
    return (here(*arrays) and all([x.form.dtype.kind in KINDS for x in arrays])
            and max([x.form.size for x in arrays]) >= (core.SMALL or 1))


def together(name: str, function: Callable[..., None], inputs: Sequence[Any], outputs: Sequence[Any],
             whole: int = 0) -> None:
    """Record a function that all ranks run at once, on parts along the first axes of these arrays; of the
    inputs the last `whole` ones are whole on each rank."""
    cut = (*[0] * (len(inputs) - whole), *[None] * whole, *[0] * len(outputs))
    library.call(name, library.Independent(function, (cut,), together=True),
                 tuple(map(base.argument, inputs)), tuple(map(base.argument, outputs)))


def write_together(name: str, write: Callable[[Any, Array, Array, Array], None], x: Any, places: Any,
                   values: Any, whole: bool) -> None:
    """Record `write(peers, places, values, x)`, which all ranks run at once, on their parts of these arrays;
    each rank gets all of the values if they are to be `whole`."""
    if whole:
        together(name, lambda peers, places, before, given, out: write(peers, places, given, out),
                 (places, x, values), (x,), whole=1)
    else:
        together(name, lambda peers, places, given, before, out: write(peers, places, given, out),
                 (places, values, x), (x,))


def located(*arrays: Any) -> bool:
    """Do views of stores describe all of these arrays?"""
    return all([base.locate(x) for x in arrays])


# -- through indices ---------------------------------------------------------------------------------------


def gathered(x: Any, axis: int, numbers: Any, out: Any) -> bool:
    """Record `out[...] = x.take(numbers, axis)` for numbers of one dimension, all within the axis; returns
    False if that is impossible."""
    if not located(x, numbers, out):
        return False
    if axis == 0 and x.form.size * x.form.itemsize > TABLE:
        together("take", read, (x, numbers), (out,))
        return True
    cut = (None, 0, 0) if axis == 0 else (0, None, 0)

    def run(source: Array, chosen: Array, target: Array) -> None:
        target[...] = source.take(chosen, axis)

    library.call("take", library.Independent(run, (cut,)), (base.argument(x), base.argument(numbers)),
                 (base.argument(out),))
    return True


def read(peers: Any, x: Array, numbers: Array, out: Array) -> None:
    """Read the elements, or rows, of these numbers."""
    order, _, requests, lengths = _asked(peers, peers.ends[0], numbers)
    replies = x[requests - peers.ends[0][peers.rank]]
    found, _ = peers.swap(_split(replies, lengths))
    out[order] = found


def _asked(peers: Any, ends: Sequence[int], numbers: Array) -> tuple[Array, Array, Array, list[int]]:
    """Send each number to the rank that holds the element.  Returns the order in which this rank sends its
    numbers, how many go to each rank, the numbers that arrived, and how many came from each rank."""
    numbers = _counted(numbers, ends[-1])
    owners = numpy.searchsorted(numpy.asarray(ends[1:]), numbers, "right").astype(numpy.uint16)
    order, sent = owners.argsort(kind="stable"), numpy.bincount(owners, minlength=peers.ranks)
    requests, lengths = peers.swap(_split(numbers[order], sent))
    return order, sent, requests, lengths


def _split(array: Array, lengths: Any) -> list[Array]:
    """Split an array into successive pieces of these lengths."""
    return numpy.split(array, numpy.cumsum(lengths)[:-1])


def _counted(numbers: Array, extent: int) -> Array:
    """Numbers counted from the first element, as int64."""
    numbers = numbers.astype(INDEX)
    numbers[numbers < 0] += extent
    return numbers


def scattered(x: Any, numbers: Any, values: Any, operator: str) -> bool:
    """Record `x[numbers] = values`, or what `operator.at` does, for numbers of one dimension; `values` has
    one element or row for each number, or one for all.  Returns False if that is impossible."""
    if not located(x, numbers, values):
        return False
    single = values.form.shape[0] == 1 != numbers.form.shape[0]

    def write(peers: Any, places: Array, given: Array, target: Array) -> None:
        ends = peers.ends[-1]
        order, sent, requests, _ = _asked(peers, ends, places)
        requests -= ends[peers.rank]
        if not single:
            given, _ = peers.swap(_split(given[order], sent))
        if operator:
            getattr(numpy, operator).at(target, requests, given)
        else:
            target[requests] = given

    write_together("put", write, x, numbers, values, single)
    return True


# -- through masks -----------------------------------------------------------------------------------------


def positions(mask: Any, count: int) -> Any:
    """Return the positions of the `count` true elements of a one-dimensional mask."""
    out = core.recorded(row_major((count,), INDEX))

    def find(peers: Any, truth: Array, target: Array) -> None:
        place(peers, peers.ends[1], numpy.flatnonzero(truth) + peers.ends[0][peers.rank], target)

    together("nonzero", find, (mask,), (out,))
    return out


def masked(x: Any, mask: Any, form: Form) -> Any:
    """`x[mask]` for a mask of the first dimensions, as an array of this form; None if that is impossible."""
    if not located(x, mask):
        return None
    out = core.recorded(form)

    def choose(peers: Any, source: Array, truth: Array, target: Array) -> None:
        place(peers, peers.ends[2], source[truth], target)

    together("compress", choose, (x, mask), (out,))
    return out


def place(peers: Any, ends: Sequence[int], found: Array, out: Array) -> None:
    """Write what each rank found, rank after rank, to an array whose parts have these ends."""
    counts = peers.gather(numpy.array(len(found)))
    first = int(counts[:peers.rank].sum())
    cuts = numpy.clip(numpy.array(ends[1:-1], INDEX) - first, 0, len(found))
    arrived, _ = peers.swap(numpy.split(found, cuts))
    out[...] = arrived


def assigned(x: Any, mask: Any, values: Any) -> bool:
    """Record `x[mask] = values` for a mask of the array's shape; fewer values are repeated from the first one
    on.  Returns False if that is impossible."""
    size = values.form.size
    table = size * values.form.itemsize <= TABLE
    if not located(x, mask, values) or not table and size != int(mask.sum()):
        return False

    def write(peers: Any, truth: Array, given: Array, target: Array) -> None:
        counts = peers.gather(numpy.array(numpy.count_nonzero(truth)))
        starts = numpy.concatenate(([0], numpy.cumsum(counts)))
        if table:
            target[truth] = given[numpy.arange(*starts[peers.rank:peers.rank + 2]) % size]
            return
        low, high = peers.ends[1][peers.rank:peers.rank + 2]
        target[truth], _ = peers.swap(numpy.split(given, numpy.clip(starts[1:-1] - low, 0, high - low)))

    write_together("place", write, x, mask, values, table)
    return True


# -- running values ----------------------------------------------------------------------------------------


def scan(name: str, function: Any, x: Any, out: Any) -> None:
    """Record the running values of a ufunc; each rank continues from the last value of the rank before it."""
    def run(peers: Any, given: Array, target: Array) -> None:
        target[...] = given
        last = numpy.zeros(1, target.dtype)
        for rank in range(peers.ranks):
            if rank == peers.rank and len(target):
                if peers.ends[1][rank]:
                    target[:1] = function(last, target[:1])
                function.accumulate(target, out=target)
                last = target[-1:]
            last = peers.gather(last)[rank]

    together(f"{name} in parts", run, (x,), (out,))
