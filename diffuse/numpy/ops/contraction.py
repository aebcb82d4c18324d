"""`einsum` of two large arrays: elementwise and outer products are recorded, contractions matrix products.

NumPy's own `einsum` iterates over the whole space of indices on one core.  A pair of operands of which both
have indices of their own, and share one that is summed over, is a matrix product (BLAS) instead, and a pair
without sums is one multiplication.  Everything else is left to NumPy: other sums, which it computes at memory
speed, repeated indices, ellipses, operands of several types, and results that are not in C order.  Where
ranks have the operands in parts, NumPy computes such sums for each part, if they are row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Recurring
from diffuse.numpy.arrays import access, base, core, soon
from diffuse.numpy.arrays.forms import row_major
from diffuse.numpy.bridge import fallback
from diffuse.numpy.bridge.ranks import parts
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.conversion import asanyarray
from diffuse.numpy.ops.manipulation import asks, is_array
from diffuse.numpy.ops.operands import adopt
from diffuse.numpy.ops.ufuncs import UFUNCS
from diffuse.numpy.order import team

TYPES = frozenset("float32 float64 complex64 complex128 int32 int64 uint32 uint64".split())
"""Element types of operands, which must be equal."""

WORTH = 1 << 20
"""The number of products from which on threads share a sum: starting one takes some 50 us."""

Labels = str

_sums: dict[Any, tuple[int | None, ...] | None] = Recurring(1 << 10)
"""The sums that NumPy computed, by `_key`: the result of `_cut`."""


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """NumPy's `einsum`."""
    key = _key(operands) if out is None and optimize is False and not kwargs else None
    if key in _sums:
        found = _at_once(operands, _sums[key])
        if found is not None:
            return found
    if operands and out is None and not kwargs and type(operands[0]) is str and type(optimize) in (bool, str):
        found = _recorded(operands[0], operands[1:], optimize) if len(operands) == 3 else None
        if found is None and not optimize:
            found = _in_parts(operands[0], operands[1:])
        if found is not None:
            return found
    options = kwargs if out is None else kwargs | {"out": out}
    options = options if optimize is False else options | {"optimize": optimize}
    found = fallback.silently(numpy.einsum, *operands, **options)
    if key is not None and library.current().host_sees:
        _sums[key] = _cut(operands[0], operands[1:])
    return found


def _key(operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What determines how a sum of Diffuse's arrays is computed: the subscripts and the forms."""
    if len(operands) < 2 or type(operands[0]) is not str:
        return None
    arrays = operands[1:]
    return (operands[0], *[x.form for x in arrays]) if {*map(type, arrays)} == {core.array_class} else None


def _cut(subscripts: str, arrays: tuple[Any, ...]) -> tuple[int | None, ...] | None:
    """Which axis of each operand has the index of the result's first axis, if threads should share its
    values; else None."""
    terms, result = named(subscripts)
    if (not result or any([result[0] in term[1:] for term in terms]) or not set(result) <= set("".join(terms))
            or not all([x.form.ordered for x in arrays])):
        return None
    extents = _space(subscripts, terms, arrays, False)
    if extents is None or extents[result[0]] < 4 or prod(extents.values()) < WORTH:
        return None
    return tuple([0 if term[:1] == result[0] else None for term in terms])


def _at_once(operands: tuple[Any, ...], cut: tuple[int | None, ...] | None) -> Any:
    """The sum of arrays at hand by NumPy, for parts of the result in several threads; None for other arrays.

    NumPy adds each row in an order that depends on the other axes alone, unless there is a single row.
    """
    subscripts, *arrays = operands
    memories: list[Any] = [access.at_hand(x) for x in arrays]
    if any([memory is None for memory in memories]) or fallback.listener is not None:
        return None
    soon.looked()
    if cut is None or team.threads() < 2:
        found = numpy.einsum(subscripts, *memories)
        return core.given(found) if type(found) is core.NDARRAY else found
    terms, result = named(subscripts)
    extents = {label: n for term, x in zip(terms, memories, strict=True)
               for label, n in zip(term, x.shape, strict=True)}
    out = numpy.empty([extents[label] for label in result], memories[0].dtype)

    def part(low: int, high: int) -> None:
        given = [x if axis is None else x[low:high] for x, axis in zip(memories, cut, strict=True)]
        numpy.einsum(subscripts, *given, out=out[low:high])

    team.on_parts(len(out), part, share=2)
    return core.given(out)


def _recorded(subscripts: str, operands: tuple[Any, ...], optimize: bool | str) -> Any:
    """The product that the subscripts specify; None if NumPy has to compute it, or to raise."""
    terms = parsed(subscripts)
    if terms is None or elementwise.eager_errors or any([asks(x) for x in operands]):
        return None
    if not any([is_array(x) and x.form.size >= max(core.SMALL, 1) for x in operands]):
        return None
    (one, other, result), (a, b) = terms, [asanyarray(x) for x in operands]
    extents = _space(subscripts, (one, other), (a, b), optimize)
    if extents is None:
        return None
    if set(one + other) == set(result):
        found = UFUNCS["multiply"](_spread(one, a, result), _spread(other, b, result), order="C")
        if a.dtype.kind in "fc":  # NumPy adds each product to zero, so that none is -0.0
            found = UFUNCS["add"](found, 0.0)
    else:
        found = _product(one, a, other, b, result, extents)
    return found.copy(order="C") if is_array(found) and not found.meta.flags.c_contiguous else found


def _in_parts(subscripts: str, operands: tuple[Any, ...]) -> Any:
    """The sums for each index of the result's first axis, which ranks compute on their rows; None where that
    axis is not the first one of an operand that has it, or NumPy has to compute or to raise for other
    reasons.

    NumPy adds each row in an order that depends on the other axes alone, unless there is a single row.
    """
    if not any([parts.wanted(x) for x in operands]) or any([asks(x) for x in operands]):
        return None
    terms, result = named(subscripts)
    arrays = [adopt(asanyarray(x)) for x in operands]
    if (not result or not set(result) <= set("".join(terms)) or any([result[0] in term[1:] for term in terms])
            or not all([is_array(x) and x.flags.c_contiguous and base.locate(x) for x in arrays])):
        return None
    extents = _space(subscripts, terms, arrays, False)
    if extents is None:
        return None
    cut = tuple([0 if term[:1] == result[0] else None for term in terms])
    form = row_major(tuple([extents[label] for label in result]), arrays[0].dtype)
    return parts.recorded("einsum", partial(_rows, subscripts, cut), ((*cut, 0),), arrays, form)


def _space(subscripts: str, terms: Sequence[Labels], arrays: Sequence[Any], optimize: bool | str
           ) -> dict[str, int] | None:
    """The extent of each index, if the operands have one of the element types and fit the subscripts, no
    extent is 0, and NumPy's result is in C order; else None."""
    if ([len(term) for term in terms] != [x.ndim for x in arrays] or len({x.dtype for x in arrays}) > 1
            or str(arrays[0].dtype) not in TYPES):
        return None
    pairs = [*zip(terms, arrays, strict=True)]
    extents = {label: n for term, x in pairs for label, n in zip(term, x.shape, strict=True)}
    if 0 in extents.values() or any([tuple([extents[label] for label in term]) != x.shape
                                     for term, x in pairs]):
        return None
    layout = tuple([(term, x.strides) for term, x in pairs])
    return extents if in_order(subscripts, layout, tuple(extents.items()), optimize) else None


def _rows(subscripts: str, cut: tuple[int | None, ...], *arrays: Any) -> None:
    """Compute the rows of a part.  NumPy adds a single row in another order than one of several, so it is
    computed as one of two."""
    *given, out = arrays
    if len(out) > 1:
        numpy.einsum(subscripts, *given, out=out)
    else:
        twice = [x if axis is None else x.repeat(2, axis) for x, axis in zip(given, cut, strict=True)]
        out[...] = numpy.einsum(subscripts, *twice)[:1]


@lru_cache(maxsize=1 << 10)
def named(subscripts: str) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of the operands and of the result, which are empty where NumPy has to handle them: repeated
    ones, ellipses, and whatever is no letter."""
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = tuple(given.split(","))
    if not arrow:
        result = "".join(sorted([label for label in set(given) - {","} if given.count(label) == 1]))
    letters = all([(part + "a").isalpha() and part.isascii() for part in (*terms, result)])
    return (terms, result) if letters and all([len(set(part)) == len(part) for part in (*terms, result)]) \
        else ((), "")


@lru_cache(maxsize=1 << 10)
def parsed(subscripts: str) -> tuple[Labels, Labels, Labels] | None:
    """The labels of both operands and of the result; None for subscripts that NumPy has to handle."""
    terms, result = named(subscripts)
    if len(terms) != 2:
        return None
    one, other = terms
    gone = set(one + other) - set(result)
    if set(result) - set(one + other):
        return None
    both, own = gone <= set(one) & set(other), (set(one) - set(other), set(other) - set(one))
    return (one, other, result) if not gone or (both and all(own)) else None


@lru_cache(maxsize=1 << 10)
def in_order(subscripts: str, layout: tuple[tuple[Labels, tuple[int, ...]], ...],
             extents: tuple[tuple[str, int], ...], optimize: bool | str) -> bool:
    """Is NumPy's result in C order, and an array of its own?  Determined by NumPy itself, with operands of
    the same layout and of two elements along each longer dimension."""
    two = {label: min(n, 2) for label, n in extents}
    models = []
    for labels, strides in layout:
        order = sorted(range(len(labels)), key=lambda d: -abs(strides[d]))
        if any([s <= 0 for s in strides]):
            return False
        model = numpy.zeros([two[labels[d]] for d in order])
        models.append(model.transpose([order.index(d) for d in range(len(labels))]))
    found = numpy.einsum(subscripts, *models, optimize=optimize)
    return numpy.ndim(found) == 0 or bool(found.flags.c_contiguous and found.base is None)


def _spread(labels: Labels, x: Any, space: Labels) -> Any:
    """A view of an array over a space of indices, with length 1 along those that the array lacks."""
    order = [labels.index(label) for label in space if label in labels]
    return x.transpose(order)[tuple([slice(None) if label in labels else None for label in space])]


def _product(one: Labels, a: Any, other: Labels, b: Any, result: Labels, extents: dict[str, int]) -> Any:
    """Contract two operands by a matrix product for each index that they share and keep."""
    batch = [label for label in one if label in other and label in result]
    summed = [label for label in one if label in other and label not in result]
    rows, columns = ([label for label in labels if label not in batch + summed] for labels in (one, other))

    def matrix(labels: Labels, x: Any, *parts: list[str]) -> Any:
        order = [labels.index(label) for part in (batch, *parts) for label in part]
        sizes = [prod([extents[label] for label in part]) for part in parts]
        return x.transpose(order).reshape([*[extents[label] for label in batch], *sizes])

    found = UFUNCS["matmul"](matrix(one, a, rows, summed), matrix(other, b, summed, columns))
    labels = [*batch, *rows, *columns]
    return found.reshape([extents[x] for x in labels]).transpose([labels.index(label) for label in result])
