"""`einsum` of two large arrays: elementwise and outer products are recorded, contractions matrix products.

NumPy's own `einsum` iterates over the whole space of indices on one core.  A pair of operands of which both
have indices of their own, and share one that is summed over, is a matrix product (BLAS) instead, and a pair
without sums is one multiplication.  Everything else is left to NumPy: other sums, which it computes at memory
speed, repeated indices, ellipses, operands of several types, and results that are not in C order.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.conversion import asanyarray
from diffuse.numpy.ops.manipulation import asks, is_array
from diffuse.numpy.ops.ufuncs import UFUNCS

TYPES = frozenset("float32 float64 complex64 complex128 int32 int64 uint32 uint64".split())
"""Element types of operands, which must be equal."""

Labels = str


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """NumPy's `einsum`."""
    if (out is None and not kwargs and len(operands) == 3 and type(operands[0]) is str
            and type(optimize) in (bool, str)):
        found = _recorded(operands[0], operands[1:], optimize)
        if found is not None:
            return found
    options = kwargs if out is None else kwargs | {"out": out}
    return fallback.call(numpy.einsum, operands, {**options, "optimize": optimize}, silent="library")


def _recorded(subscripts: str, operands: tuple[Any, ...], optimize: bool | str) -> Any:
    """The product that the subscripts specify; None if NumPy has to compute it, or to raise."""
    terms = parsed(subscripts)
    if terms is None or elementwise.eager_errors or any([asks(x) for x in operands]):
        return None
    if not any([is_array(x) and x.form.size >= max(core.SMALL, 1) for x in operands]):
        return None
    (one, other, result), (a, b) = terms, [asanyarray(x) for x in operands]
    if a.dtype != b.dtype or str(a.dtype) not in TYPES or (len(one), len(other)) != (a.ndim, b.ndim):
        return None
    extents = dict(zip(one + other, a.shape + b.shape, strict=True))
    if 0 in extents.values() or tuple([extents[label] for label in one]) != a.shape:
        return None
    layout = (one, a.strides), (other, b.strides)
    if not in_order(subscripts, layout, tuple(extents.items()), optimize):
        return None
    if set(one + other) == set(result):
        found = UFUNCS["multiply"](_spread(one, a, result), _spread(other, b, result), order="C")
    else:
        found = _product(one, a, other, b, result, extents)
    return found.copy(order="C") if is_array(found) and not found.meta.flags.c_contiguous else found


@lru_cache(maxsize=1 << 10)
def parsed(subscripts: str) -> tuple[Labels, Labels, Labels] | None:
    """The labels of both operands and of the result; None for subscripts that NumPy has to handle."""
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if len(terms) != 2 or not all([(term + "a").isalpha() and term.isascii() for term in (*terms, result)]):
        return None
    one, other = terms
    if not arrow:
        result = "".join(sorted(set(one) ^ set(other)))
    gone = set(one + other) - set(result)
    repeated = any([len(set(part)) < len(part) for part in (one, other, result)])
    if repeated or set(result) - set(one + other):
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
