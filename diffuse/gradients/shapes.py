"""Rules of functions that rearrange, select or repeat elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from diffuse.gradients.variable import FUNCTIONS, Variable, np, one, plain, unbroadcast


def _reshape(x: Any, *shape: Any) -> Any:
    value = plain(x)
    to = shape[0] if len(shape) == 1 else shape
    return one(x, np.reshape(value, to), lambda g: np.reshape(g, value.shape))


def _transpose(x: Any, *axes: Any) -> Any:
    value = plain(x)
    order = axes[0] if len(axes) == 1 else axes or None
    if order is None:
        return one(x, np.transpose(value), np.transpose)
    order = tuple(a % value.ndim for a in order)
    return one(x, np.transpose(value, order), lambda g: np.transpose(g, tuple(int(k) for k in
                                                                           numpy.argsort(order))))


def _moved(name: str) -> Callable[..., Any]:
    """A rearrangement whose inverse is the same function with its two arguments exchanged."""
    def move(x: Any, source: Any, target: Any) -> Any:
        function = getattr(np, name)
        return one(x, function(plain(x), source, target), lambda g: function(g, target, source))

    return move


def _reshaping(name: str) -> Callable[..., Any]:
    """A function that only changes the shape."""
    def change(x: Any, *args: Any, **options: Any) -> Any:
        value = plain(x)
        return one(x, getattr(np, name)(value, *args, **options), lambda g: np.reshape(g, value.shape))

    return change


def _broadcast_to(x: Any, shape: Any) -> Any:
    value = plain(x)
    return one(x, np.broadcast_to(value, shape), lambda g: unbroadcast(g, value.shape))


def _getitem(x: Any, index: Any) -> Any:
    value = plain(x)
    items = index if isinstance(index, tuple) else (index,)
    simple = all(item is None or item is Ellipsis or isinstance(item, (slice, int, numpy.integer))
                 for item in items)

    def put(g: Any) -> Any:
        found = np.zeros(value.shape, value.dtype)
        if simple:
            found[index] = g
        else:
            np.add.at(found, index, g)  # an element may have been selected several times
        return found

    return one(x, value[index], lambda g: one(g, put(plain(g)), lambda h: h[index]))


def _take(x: Any, indices: Any, axis: Any = None) -> Any:
    if axis is None:
        return _getitem(np.ravel(x), plain(indices))
    before = (slice(None),) * (axis % plain(x).ndim)
    return _getitem(x, (*before, plain(indices)))


def _parts(arrays: Sequence[Any], value: Any, piece: Callable[[Any, int], Any]) -> Any:
    """A function that joins several arrays; `piece(g, k)` is the gradient of array k."""
    parents = [(each, lambda g, k=k: piece(g, k)) for k, each in enumerate(arrays)
               if isinstance(each, Variable)]
    return Variable(value, tuple(parents)) if parents else value


def _concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    values = [plain(each) for each in arrays]
    ends = numpy.cumsum([0, *[v.shape[axis] for v in values]])
    before = (slice(None),) * (axis % values[0].ndim)
    return _parts(arrays, np.concatenate(values, axis),
                  lambda g, k: g[(*before, slice(int(ends[k]), int(ends[k + 1])))])


def _stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    values = [plain(each) for each in arrays]
    before = (slice(None),) * (axis % (values[0].ndim + 1))
    return _parts(arrays, np.stack(values, axis), lambda g, k: g[(*before, k)])


def _split(x: Any, sections: Any, axis: int = 0) -> list[Any]:
    extent = plain(x).shape[axis]
    if isinstance(sections, int):
        if extent % sections:
            raise ValueError("array split does not result in an equal division")
        ends = [extent // sections * k for k in range(sections + 1)]
    else:
        ends = [0, *sections, extent]
    before = (slice(None),) * (axis % plain(x).ndim)
    return [_getitem(x, (*before, slice(low, high))) for low, high in zip(ends, ends[1:], strict=False)]


def _roll(x: Any, shift: Any, axis: Any = None) -> Any:
    back = tuple(-s for s in shift) if isinstance(shift, tuple) else -shift
    return one(x, np.roll(plain(x), shift, axis), lambda g: np.roll(g, back, axis))


def _flip(x: Any, axis: Any = None) -> Any:
    return one(x, np.flip(plain(x), axis), lambda g: np.flip(g, axis))


def _pad(x: Any, width: Any, mode: str = "constant", **options: Any) -> Any:
    if mode != "constant":
        raise TypeError(f"numpy.pad with mode={mode!r} has no rule for gradients: 'constant' has")
    value = plain(x)
    widths = numpy.broadcast_to(numpy.asarray(width), (value.ndim, 2)).tolist()
    inside = tuple(slice(low, low + n) for (low, _), n in zip(widths, value.shape, strict=True))
    return one(x, np.pad(value, width, mode, **options), lambda g: g[inside])


def _repeat(x: Any, repeats: int, axis: Any = None) -> Any:
    if axis is None:
        return _repeat(np.ravel(x), repeats, 0)
    value = plain(x)
    axis %= value.ndim
    apart = (*value.shape[:axis + 1], repeats, *value.shape[axis + 1:])
    return one(x, np.repeat(value, repeats, axis), lambda g: np.sum(np.reshape(g, apart), axis=axis + 1))


def _tile(x: Any, reps: Any) -> Any:
    value = plain(x)
    times = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = max(len(times), value.ndim)
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - value.ndim) + value.shape
    apart = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    every = tuple(range(0, 2 * rank, 2))
    return one(x, np.tile(value, reps),
               lambda g: np.reshape(np.sum(np.reshape(g, apart), axis=every), value.shape))


def _masked(name: str) -> Callable[..., Any]:
    """`tril` and `triu`: the elements set to zero have no gradient."""
    def mask(x: Any, k: int = 0) -> Any:
        function = getattr(np, name)
        return one(x, function(plain(x), k), lambda g: function(g, k))

    return mask


def _diagonal(x: Any, offset: int = 0) -> Any:
    value = plain(x)
    if value.ndim != 2:
        raise TypeError(f"the diagonal of an array of {value.ndim} dimensions has no rule for gradients: "
                        "that of a matrix has")
    begin = max(0, -offset)
    rows = np.arange(begin, begin + max(0, min(value.shape[0] - begin, value.shape[1] - max(0, offset))))
    return _getitem(x, (rows, rows + offset))


def _diag(x: Any, k: int = 0) -> Any:
    value = plain(x)
    if value.ndim == 2:
        return _diagonal(x, k)
    return one(x, np.diag(value, k), lambda g: np.diag(g, k))


def _diff(x: Any, n: int = 1, axis: int = -1) -> Any:
    for _ in range(n):
        before = (slice(None),) * (axis % plain(x).ndim)
        x = x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]
    return x


def _sort(x: Any, axis: int = -1) -> Any:
    value = plain(x)
    order = np.argsort(value, axis=axis)

    return _take_along_axis(x, order, axis)


def _take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    value = plain(x)
    where = [np.reshape(np.arange(n), [-1 if d == k else 1 for d in range(value.ndim)])
             for k, n in enumerate(indices.shape)]
    where[axis] = indices
    return _getitem(x, tuple(where))


FUNCTIONS |= {
    "reshape": _reshape, "transpose": _transpose, "permute_dims": _transpose, "swapaxes": _moved("swapaxes"),
    "moveaxis": _moved("moveaxis"), "broadcast_to": _broadcast_to, "getitem": _getitem, "take": _take,
    "concatenate": _concatenate, "concat": _concatenate, "stack": _stack, "split": _split, "roll": _roll,
    "flip": _flip, "pad": _pad, "repeat": _repeat, "tile": _tile, "tril": _masked("tril"),
    "triu": _masked("triu"), "diagonal": _diagonal, "diag": _diag, "diff": _diff, "sort": _sort,
    "take_along_axis": _take_along_axis,
    "trace": lambda x: np.sum(_diagonal(x)),
    "vstack": lambda arrays: _concatenate([np.atleast_2d(each) for each in arrays], 0),
    "hstack": lambda arrays: _concatenate([np.atleast_1d(each) for each in arrays],
                                          0 if plain(arrays[0]).ndim < 2 else 1),
    **{name: _reshaping(name) for name in ("ravel", "squeeze", "expand_dims", "atleast_1d", "atleast_2d",
                                           "atleast_3d")},
}
