"""The calls that bench/calls.py times, by kind, and the arrays that they take.

Each call gets the library (NumPy or Diffuse, whose `np` is its first argument) and the arrays of one size.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Call = Callable[[Any, Any], Any]
MATRIX = 300
"""Rows of the matrices that are factorised, at most: their cost grows with the third power."""


def arguments(np: Any, size: int) -> SimpleNamespace:
    """The arrays that calls take, the same for both libraries."""
    import numpy

    pick, side, edge = numpy.random.default_rng(7), int(size**0.5), int(size ** (1 / 3) + 1e-9)
    x, y = pick.random(size) + 0.1, pick.random(size) + 0.1
    square, rows = x[: side * side].reshape(side, side), min(side, MATRIX)
    matrix = square[:rows, :rows] + rows * numpy.eye(rows)
    made = {
        "x": x, "y": y, "z": y.copy(), "x2": x.copy(), "sorted": numpy.sort(x),
        "mask": x > 0.1 + 0.5 * (numpy.arange(size) > 9), "other": y > 0.6, "true": x > 0.0,
        "square": square, "square2": y[: side * side].reshape(side, side), "target": square.copy(),
        "cube": x[: edge**3].reshape(edge, edge, edge), "row": y[:side].copy(), "half": x[: size // 2].copy(),
        "matrix": matrix, "symmetric": matrix @ matrix.T, "right": y[:rows].copy(),
        "tiny": y[: max(2, int(size**0.25)) ** 2].reshape(max(2, int(size**0.25)), -1),
        "index": pick.integers(0, size, size), "few": pick.integers(0, size, max(1, size // 10)),
        "picked": pick.integers(0, side, side), "starts": numpy.arange(0, size, max(1, size // 10)),
        "i": pick.integers(0, 1000, size), "j": pick.integers(1, 1000, size),
        "f": x.astype(numpy.float32), "g": y.astype(numpy.float32), "u": (x * 200).astype(numpy.uint8),
        "v": (y * 200).astype(numpy.uint8), "c": x + 1j * y, "d": y - 1j * x,
        "table": pick.random((200, 200)), "kernel": numpy.full(5, 0.2), "hours": numpy.linspace(0.0, 1.2, 25),
    }
    arrays = {name: np.array(value) for name, value in made.items()}
    return SimpleNamespace(n=size, side=side, rng=np.random.default_rng(3), **arrays)


ELEMENTWISE: dict[str, Call] = {
    "x + y": lambda np, a: a.x + a.y,
    "x - y": lambda np, a: a.x - a.y,
    "x * 2.0": lambda np, a: a.x * 2.0,
    "x / y": lambda np, a: a.x / a.y,
    "1.0 / x": lambda np, a: 1.0 / a.x,
    "-x": lambda np, a: -a.x,
    "abs(x)": lambda np, a: abs(a.x),
    "x ** 2": lambda np, a: a.x**2,
    "x ** 3": lambda np, a: a.x**3,
    "x ** 0.5": lambda np, a: a.x**0.5,
    "x ** y": lambda np, a: a.x**a.y,
    "x // y": lambda np, a: a.x // a.y,
    "x % y": lambda np, a: a.x % a.y,
    "x += y": lambda np, a: a.z.__iadd__(a.y),
    "x * y + x": lambda np, a: a.x * a.y + a.x,
    "A + row": lambda np, a: a.square + a.row,
    "A * column": lambda np, a: a.square * a.row[:, None],
    "A -= row": lambda np, a: a.target.__isub__(a.row),
    "A - A.mean(0)": lambda np, a: a.square - a.square.mean(axis=0),
    "add(x, y, z)": lambda np, a: np.add(a.x, a.y, a.z),
    "clip, out": lambda np, a: np.clip(a.x, 0.3, 0.6, out=a.z),
    "sqrt": lambda np, a: np.sqrt(a.x),
    "exp": lambda np, a: np.exp(a.x),
    "log": lambda np, a: np.log(a.x),
    "log1p": lambda np, a: np.log1p(a.x),
    "sin": lambda np, a: np.sin(a.x),
    "cos": lambda np, a: np.cos(a.x),
    "tanh": lambda np, a: np.tanh(a.x),
    "arctan2": lambda np, a: np.arctan2(a.x, a.y),
    "hypot": lambda np, a: np.hypot(a.x, a.y),
    "maximum": lambda np, a: np.maximum(a.x, a.y),
    "minimum": lambda np, a: np.minimum(a.x, 0.5),
    "square": lambda np, a: np.square(a.x),
    "floor": lambda np, a: np.floor(a.x),
    "round": lambda np, a: np.round(a.x, 2),
    "sign": lambda np, a: np.sign(a.x),
    "logaddexp": lambda np, a: np.logaddexp(a.x, a.y),
    "add(out=)": lambda np, a: np.add(a.x, a.y, out=a.z),
    "add(where=)": lambda np, a: np.add(a.x, a.y, out=a.z, where=a.mask),
}

METHODS: dict[str, Call] = {
    "add.reduce": lambda np, a: np.add.reduce(a.x),
    "maximum.reduce": lambda np, a: np.maximum.reduce(a.x),
    "add.accumulate": lambda np, a: np.add.accumulate(a.x),
    "multiply.outer": lambda np, a: np.multiply.outer(a.row, a.row),
    "add.at": lambda np, a: np.add.at(a.z, a.few, 1.0),
    "add.reduceat": lambda np, a: np.add.reduceat(a.x, a.starts),
}

REDUCTIONS: dict[str, Call] = {
    "sum": lambda np, a: a.x.sum(),
    "mean": lambda np, a: a.x.mean(),
    "std": lambda np, a: a.x.std(),
    "var": lambda np, a: a.x.var(),
    "max": lambda np, a: a.x.max(),
    "min": lambda np, a: a.x.min(),
    "prod": lambda np, a: a.x.prod(),
    "argmax": lambda np, a: a.x.argmax(),
    "argmin": lambda np, a: a.x.argmin(),
    "any, first": lambda np, a: a.mask.any(),
    "all, true": lambda np, a: a.true.all(),
    "count_nonzero": lambda np, a: np.count_nonzero(a.mask),
    "ptp": lambda np, a: np.ptp(a.x),
    "nansum": lambda np, a: np.nansum(a.x),
    "average": lambda np, a: np.average(a.x, weights=a.y),
    "median": lambda np, a: np.median(a.x),
    "percentile": lambda np, a: np.percentile(a.x, 90),
    "cumsum": lambda np, a: a.x.cumsum(),
    "diff": lambda np, a: np.diff(a.x),
    "sum(axis=0)": lambda np, a: a.square.sum(axis=0),
    "sum(axis=1)": lambda np, a: a.square.sum(axis=1),
    "sum(axis=1), 3-D": lambda np, a: a.cube.sum(axis=1),
    "mean(axis=0)": lambda np, a: a.square.mean(axis=0),
    "std(axis=1)": lambda np, a: a.square.std(axis=1),
    "max(axis=0)": lambda np, a: a.square.max(axis=0),
    "argmin(axis=1)": lambda np, a: a.square.argmin(axis=1),
    "cumsum(axis=1)": lambda np, a: a.square.cumsum(axis=1),
    "sum(keepdims)": lambda np, a: a.square.sum(axis=1, keepdims=True),
}

CREATION: dict[str, Call] = {
    "zeros": lambda np, a: np.zeros(a.n),
    "ones": lambda np, a: np.ones(a.n),
    "empty": lambda np, a: np.empty(a.n),
    "full": lambda np, a: np.full(a.n, 3.0),
    "zeros_like": lambda np, a: np.zeros_like(a.x),
    "arange": lambda np, a: np.arange(a.n),
    "linspace": lambda np, a: np.linspace(0.0, 1.0, a.n),
    "eye": lambda np, a: np.eye(a.side),
    "meshgrid": lambda np, a: np.meshgrid(a.row, a.row),
    "indices": lambda np, a: np.indices((a.side, a.side)),
    "copy": lambda np, a: a.x.copy(),
    "array(x)": lambda np, a: np.array(a.x),
    "asarray(x)": lambda np, a: np.asarray(a.x),
    "array([1, 2, 3])": lambda np, a: np.array([1.0, 2.0, 3.0]),
    "rng.random": lambda np, a: a.rng.random(a.n),
    "rng.standard_normal": lambda np, a: a.rng.standard_normal(a.n),
    "rng.integers": lambda np, a: a.rng.integers(0, 10, a.n),
}

JOINING: dict[str, Call] = {
    "concatenate": lambda np, a: np.concatenate([a.x, a.y]),
    "stack": lambda np, a: np.stack([a.x, a.y]),
    "stack(axis=1)": lambda np, a: np.stack([a.x, a.y], axis=1),
    "vstack": lambda np, a: np.vstack([a.square, a.row]),
    "hstack": lambda np, a: np.hstack([a.x, a.half]),
    "column_stack": lambda np, a: np.column_stack([a.x, a.y]),
    "append": lambda np, a: np.append(a.x, 1.0),
    "split": lambda np, a: np.array_split(a.x, 4),
    "tile": lambda np, a: np.tile(a.row, a.side),
    "repeat": lambda np, a: np.repeat(a.row, a.side),
    "roll": lambda np, a: np.roll(a.x, 1),
    "roll(axis=0)": lambda np, a: np.roll(a.square, 1, axis=0),
    "roll(axis=1)": lambda np, a: np.roll(a.square, -1, axis=1),
    "pad": lambda np, a: np.pad(a.square, 1),
    "flip": lambda np, a: np.flip(a.x),
    "broadcast_to": lambda np, a: np.broadcast_to(a.row, (a.side, a.side)),
    "A.T.copy()": lambda np, a: a.square.T.copy(),
}

INDEXING: dict[str, Call] = {
    "x[i]": lambda np, a: a.x[7],
    "x[-1]": lambda np, a: a.x[-1],
    "A[i, j]": lambda np, a: a.square[3, 5],
    "A[i]": lambda np, a: a.square[3],
    "A[:, j]": lambda np, a: a.square[:, 3],
    "x[1:-1]": lambda np, a: a.x[1:-1],
    "x[::2]": lambda np, a: a.x[::2],
    "A[1:-1, 1:-1]": lambda np, a: a.square[1:-1, 1:-1],
    "x[None]": lambda np, a: a.x[None],
    "x[mask]": lambda np, a: a.x[a.mask],
    "x[index]": lambda np, a: a.x[a.index],
    "x[few]": lambda np, a: a.x[a.few],
    "A[rows]": lambda np, a: a.square[a.picked],
    "A[rows, columns]": lambda np, a: a.square[a.picked, a.picked],
    "take": lambda np, a: np.take(a.x, a.few),
    "nonzero": lambda np, a: np.nonzero(a.mask),
    "x[7] = 1.0": lambda np, a: a.z.__setitem__(7, 1.0),
    "x[:] = 0.5": lambda np, a: a.z.__setitem__(slice(None), 0.5),
    "x[1:-1] = y": lambda np, a: a.z.__setitem__(slice(1, -1), a.y[1:-1]),
    "x[::2] = 0.5": lambda np, a: a.z.__setitem__(slice(None, None, 2), 0.5),
    "A[:, j] = row": lambda np, a: a.target.__setitem__((slice(None), 3), a.row),
    "A[i] = row": lambda np, a: a.target.__setitem__(3, a.row),
    "x[mask] = 0.5": lambda np, a: a.z.__setitem__(a.mask, 0.5),
    "x[few] = 0.5": lambda np, a: a.z.__setitem__(a.few, 0.5),
    "x[few] += 1.0": lambda np, a: a.z.__setitem__(a.few, a.z[a.few] + 1.0),
    "diagonal": lambda np, a: np.diagonal(a.square),
    "diag": lambda np, a: np.diag(a.row),
    "triu": lambda np, a: np.triu(a.square),
    "select": lambda np, a: np.select([a.mask, a.other], [a.x, a.y], 0.0),
}

SORTING: dict[str, Call] = {
    "sort": lambda np, a: np.sort(a.x),
    "argsort": lambda np, a: np.argsort(a.x),
    "sort(axis=0)": lambda np, a: np.sort(a.square, axis=0),
    "partition": lambda np, a: np.partition(a.x, a.n // 2),
    "unique": lambda np, a: np.unique(a.i),
    "searchsorted": lambda np, a: np.searchsorted(a.sorted, a.half),
    "digitize": lambda np, a: np.digitize(a.x, a.hours),
    "bincount": lambda np, a: np.bincount(a.i),
    "bincount(weights=)": lambda np, a: np.bincount(a.i, weights=a.x),
    "histogram": lambda np, a: np.histogram(a.x, bins=20),
    "interp": lambda np, a: np.interp(a.x, a.hours, a.hours),
    "isin": lambda np, a: np.isin(a.i, a.i[:5]),
}

ALGEBRA: dict[str, Call] = {
    "x @ y": lambda np, a: a.x @ a.y,
    "A @ row": lambda np, a: a.square @ a.row,
    "row @ A": lambda np, a: a.row @ a.square,
    "A @ A": lambda np, a: a.square @ a.square2,
    "outer": lambda np, a: np.outer(a.row, a.row),
    "einsum ij,ij->i": lambda np, a: np.einsum("ij,ij->i", a.square, a.square2),
    "einsum ij,j->i": lambda np, a: np.einsum("ij,j->i", a.square, a.row),
    "kron": lambda np, a: np.kron(a.tiny, a.tiny),
    "trace": lambda np, a: np.trace(a.square),
    "norm": lambda np, a: np.linalg.norm(a.x),
    "norm(axis=1)": lambda np, a: np.linalg.norm(a.square, axis=1),
    "inv": lambda np, a: np.linalg.inv(a.matrix),
    "solve": lambda np, a: np.linalg.solve(a.matrix, a.right),
    "slogdet": lambda np, a: np.linalg.slogdet(a.matrix),
    "cholesky": lambda np, a: np.linalg.cholesky(a.symmetric),
    "eigvalsh": lambda np, a: np.linalg.eigvalsh(a.symmetric),
    "fft": lambda np, a: np.fft.fft(a.x),
    "rfft": lambda np, a: np.fft.rfft(a.x),
    "convolve": lambda np, a: np.convolve(a.x, a.kernel),
    "gradient": lambda np, a: np.gradient(a.x),
    "trapezoid": lambda np, a: np.trapezoid(a.x),
}

LOGIC: dict[str, Call] = {
    "x > y": lambda np, a: a.x > a.y,
    "x == y": lambda np, a: a.x == a.y,
    "x <= 0.5": lambda np, a: a.x <= 0.5,
    "mask & other": lambda np, a: a.mask & a.other,
    "mask | other": lambda np, a: a.mask | a.other,
    "~mask": lambda np, a: ~a.mask,
    "logical_and": lambda np, a: np.logical_and(a.x, a.y),
    "where": lambda np, a: np.where(a.mask, a.x, a.y),
    "where, scalar": lambda np, a: np.where(a.x > 0.5, a.x, 0.0),
    "clip": lambda np, a: np.clip(a.x, 0.3, 0.7),
    "isnan": lambda np, a: np.isnan(a.x),
    "isfinite": lambda np, a: np.isfinite(a.x),
    "isclose": lambda np, a: np.isclose(a.x, a.y),
    "allclose": lambda np, a: np.allclose(a.x, a.x2),
    "array_equal": lambda np, a: np.array_equal(a.x, a.x2),
}

TYPES: dict[str, Call] = {
    "astype(float32)": lambda np, a: a.x.astype("float32"),
    "astype(int)": lambda np, a: a.x.astype(int),
    "float32 + float32": lambda np, a: a.f + a.g,
    "float32 * 2": lambda np, a: a.f * 2,
    "float32 exp": lambda np, a: np.exp(a.f),
    "float32 sum": lambda np, a: a.f.sum(),
    "int + int": lambda np, a: a.i + a.j,
    "int // int": lambda np, a: a.i // a.j,
    "int % 7": lambda np, a: a.i % 7,
    "int << 2": lambda np, a: a.i << 2,
    "int / int": lambda np, a: a.i / a.j,
    "int * float": lambda np, a: a.i * a.x,
    "int sum": lambda np, a: a.i.sum(),
    "uint8 + uint8": lambda np, a: a.u + a.v,
    "uint8 to float32": lambda np, a: a.u.astype("float32"),
    "bool sum": lambda np, a: a.mask.sum(),
    "bool * float": lambda np, a: a.mask * a.x,
    "complex * complex": lambda np, a: a.c * a.d,
    "complex abs": lambda np, a: abs(a.c),
    "complex exp": lambda np, a: np.exp(a.c),
    "complex conj": lambda np, a: a.c.conj(),
    "complex angle": lambda np, a: np.angle(a.c),
    "complex real": lambda np, a: a.c.real,
    "complex sum": lambda np, a: a.c.sum(),
}

READ: dict[str, Call] = {
    "float(x.sum())": lambda np, a: float(a.x.sum()),
    "float(half.sum())": lambda np, a: float(a.x[: a.n // 2].sum()),
    "float(x[:20000].sum())": lambda np, a: float(a.x[:20000].sum()),
    "float(A[:20].sum())": lambda np, a: float(a.square[:20].sum()),
    "argmax of 200 x 200": lambda np, a: int(a.table.argmax()),
    "float(x @ y)": lambda np, a: float(a.x @ a.y),
    "float(x[7])": lambda np, a: float(a.x[7]),
    "item": lambda np, a: a.x.item(7),
    "max < 2": lambda np, a: bool(a.x.max() < 2.0),
    "if (x > 2).any()": lambda np, a: bool((a.x > 2.0).any()),
    "abs(x - y).max()": lambda np, a: float(np.abs(a.x - a.y).max()),
    "tolist of 100": lambda np, a: a.x[:100].tolist(),
    "sums of 10 rows": lambda np, a: [float(row.sum()) for row in a.square[:10]],
}

VIEWS: dict[str, Call] = {
    "x.T": lambda np, a: a.x.T,
    "A.T": lambda np, a: a.square.T,
    "reshape": lambda np, a: a.square.reshape(-1),
    "ravel": lambda np, a: a.square.ravel(),
    "transpose": lambda np, a: np.transpose(a.cube, (2, 0, 1)),
    "swapaxes": lambda np, a: a.cube.swapaxes(0, 2),
    "expand_dims": lambda np, a: np.expand_dims(a.x, 0),
    "view(int64)": lambda np, a: a.x.view("int64"),
    "len": lambda np, a: len(a.x),
    "shape": lambda np, a: a.square.shape,
    "size": lambda np, a: a.x.size,
    "dtype": lambda np, a: a.x.dtype,
    "np.shape": lambda np, a: np.shape(a.x),
}

CALLS: dict[str, Call] = {
    **ELEMENTWISE, **METHODS, **REDUCTIONS, **CREATION, **JOINING, **INDEXING, **SORTING, **ALGEBRA, **LOGIC,
    **TYPES, **READ, **VIEWS}
