"""Random sparse matrices and dense operands: products and arithmetic have SciPy's bits, types and shapes."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse.numpy as np
import diffuse.scipy.sparse as sp
from diffuse.settings import config
from tests.each import rounds
from tests.on_gpu import ordinary
from tests.outcomes import quiet_outcome as outcome

KINDS = ("float64", "float32", "complex128", "complex64", "int64", "int32", "int8", "uint16", "bool")
SHAPES = ((0, 0), (0, 5), (5, 0), (1, 1), (1, 9), (9, 1), (7, 7), (40, 23), (23, 40), (300, 200))
FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")


@pytest.fixture(params=["recorded", "as usual"], autouse=True)
def small(request: Any) -> Any:
    """With tasks for arrays of any size, and with SciPy for small ones."""
    before = config.small
    if request.param == "recorded":
        config.small = 0
    yield
    config.small = before


class Zeros:
    """NumPy, but that memory nobody has written is zero."""

    empty = staticmethod(numpy.zeros)

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy drops elements that cancel from sums and products of two sparse arrays; the type of the indices
    it then finds by looking at all of their memory, what it never wrote included."""
    for module in (scipy.sparse._compressed, scipy.sparse._bsr):
        monkeypatch.setattr(module, "np", Zeros())


def numbers(rng: Any, shape: Any, dtype: str) -> Any:
    """Random elements of a type, some of them zero, negative or large."""
    if dtype[0] in "fc":
        found = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
        if dtype[0] == "c":
            found = found + 1j * rng.standard_normal(shape)
        return numpy.where(rng.random(shape) < 0.1, -0.0, found).astype(dtype)
    return rng.integers(0 if dtype[0] in "ub" else -50, 2 if dtype == "bool" else 100, shape).astype(dtype)


def triplets(rng: Any, shape: tuple[int, int], dtype: str, index: str) -> Any:
    """Values and indices with duplicates, unsorted, with explicit zeros and empty rows."""
    count = int(rng.integers(0, 4) * sum(shape)) if all(shape) else 0
    rows = rng.integers(0, max(1, shape[0]), count)
    if shape[0] > 3:
        rows[rows == 2] = 1
    columns = rng.integers(0, max(1, shape[1]), count)
    return numbers(rng, count, dtype), (rows.astype(index), columns.astype(index))


def matrix(rng: Any, form: str, kind: str, shape: tuple[int, int], dtype: str, index: str) -> Any:
    """A matrix of SciPy's in one of the ways in which they come about."""
    values, (rows, columns) = triplets(rng, shape, dtype, index)
    make = getattr(scipy.sparse, f"{form}_{kind}")
    if form in ("csr", "csc") and rng.random() < 0.7:
        major, minor = (rows, columns) if form == "csr" else (columns, rows)
        order = numpy.argsort(major, kind="stable")
        size = shape[0] if form == "csr" else shape[1]
        positions = numpy.searchsorted(major[order], numpy.arange(size + 1)).astype(index)
        return make((values[order], minor[order], positions), shape=shape)
    if form == "dia":
        offsets = rng.permutation(numpy.arange(-shape[0] - 1, shape[1] + 2))[:rng.integers(0, 6)]
        width = max(1, shape[1] + int(rng.integers(-2, 3)))
        return make((numbers(rng, (len(offsets), width), dtype), offsets), shape=shape) if len(offsets) \
            else make(shape, dtype=dtype)
    found = scipy.sparse.coo_array((values, (rows, columns)), shape=shape)
    return make((values, (rows, columns)), shape=shape) if form == "coo" else make(found)


def ours(m: Any) -> Any:
    return getattr(sp, type(m).__name__)(m)


def vector(rng: Any, n: int, dtype: str) -> Any:
    """A vector: contiguous, with steps, reversed, one element repeated, a column, or a matrix."""
    choice = rng.integers(0, 7)
    if choice == 0:
        return numbers(rng, 2 * n, dtype)[::2]
    if choice == 1:
        return numbers(rng, n, dtype)[::-1]
    if choice == 2:
        return numpy.broadcast_to(numbers(rng, (), dtype), (n,))
    if choice == 3:
        return numbers(rng, (n, 1), dtype)
    if choice == 4:
        return numbers(rng, (n, 3), dtype)
    if choice == 5:
        return numpy.asfortranarray(numbers(rng, (n, 4), dtype))
    return numbers(rng, n, dtype)


def same(found: Any, wanted: Any) -> None:
    """Alike in class, shape, type and every bit; of an error its type."""
    if isinstance(wanted, Exception):
        assert type(found) is type(wanted), (found, wanted)
        return
    if isinstance(found, Exception):
        raise found
    if scipy.sparse.issparse(wanted):
        assert type(found) is getattr(sp, type(wanted).__name__)
        assert repr(found) == repr(wanted)
        for name in ("data", "indices", "indptr", "offsets", "row", "col"):
            if hasattr(wanted, name) and wanted.format not in ("lil", "dok"):
                same(getattr(found, name), getattr(wanted, name))
        return same(outcome(found.toarray), outcome(wanted.toarray))
    found, wanted = numpy.asarray(found), numpy.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if config.runtime == "cuda" and found.dtype.kind in "fc":  # where NaNs have another sign
        found, wanted = ordinary(found), ordinary(wanted)
    bits = [numpy.ascontiguousarray(a + 0 if a.dtype.kind == "b" else a).tobytes() for a in (found, wanted)]
    assert bits[0] == bits[1], (found, wanted)


def near(found: Any, wanted: Any, of: Any) -> None:
    """Alike but for the order of the sum of a matrix's elements, which is that of Diffuse's sums."""
    if isinstance(wanted, Exception) or wanted.dtype.kind not in "fc" or not numpy.isfinite(wanted):
        return same(found, wanted)
    assert found.dtype == wanted.dtype
    bound = 64 * numpy.finfo(wanted.dtype).eps * numpy.abs(of.toarray()).sum()
    assert abs(numpy.asarray(found) - wanted) <= bound, (found, wanted)


def products(a: Any, x: Any, y: Any, scale: Any) -> list[Any]:
    """Products of a matrix of either library, some of them parts of larger expressions."""
    return [lambda: a @ x, lambda: a.dot(x), lambda: y.T @ a, lambda: a.T @ y, lambda: x.T @ a.T,
            lambda: (a @ (x + x)) + (a @ x), lambda: (a * scale) @ x, lambda: (-a) @ (x * scale)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(rounds(4, 8)))
def test_products_are_scipys(form: str, seed: int) -> None:
    rng = numpy.random.default_rng([seed, FORMATS.index(form)])
    for _ in range(5):
        shape, dtype, other = SHAPES[rng.integers(len(SHAPES))], rng.choice(KINDS), rng.choice(KINDS)
        kind, index = str(rng.choice(["array", "matrix"])), rng.choice(["int32", "int64"])
        real = matrix(rng, form, kind, shape, dtype, index)
        x, y, scale = vector(rng, shape[1], other), vector(rng, shape[0], other), 3
        theirs = products(real, x, y, scale)
        mine = products(ours(real), np.array(x), np.array(y), scale)
        for ask, answer in zip(mine, theirs, strict=True):
            same(outcome(ask), outcome(answer))


def sums(a: Any) -> list[Any]:
    """Sums of everything."""
    return [lambda: a.sum(), lambda: a.mean(), lambda: a.sum(axis=(1, 0)), lambda: (a * 2).sum()]


def squared(a: Any) -> Any:
    """The product with its transpose.  Of two arrays without diagonals SciPy's product reads behind the end
    of an empty vector, and may or may not fail."""
    return a @ (a.T if a.format != "dia" or len(a.offsets) else a.T.tocsr())


def operations(a: Any, scale: Any) -> list[Any]:
    """Operations that give a matrix of the same structure, and what reads it."""
    return [lambda: a * scale, lambda: scale * a, lambda: a / scale, lambda: -a, lambda: abs(a),
            lambda: a.astype("float32"), lambda: a.astype("complex128"), lambda: a.conj(), lambda: a.copy(),
            lambda: a.real, lambda: a.imag, lambda: a.power(2), lambda: a.sqrt(), lambda: a.floor(),
            lambda: a.T, lambda: a.tocsr(), lambda: a.tocsc(), lambda: a.tocoo(), lambda: a.todia(),
            lambda: a.sum(axis=0), lambda: a.sum(axis=1), lambda: a.mean(axis=1), lambda: a.mean(axis=(0,)),
            lambda: a.diagonal(), lambda: a.trace(), lambda: a.max(), lambda: a + a, lambda: squared(a),
            lambda: a.multiply(a), lambda: a != a, lambda: a.nnz, lambda: a.toarray(), lambda: a[:2],
            lambda: a + 1, lambda: bool(a), lambda: len(a), lambda: a @ 2, lambda: a @ [1.0, 2.0]]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(rounds(3, 6)))
def test_operations_are_scipys(form: str, seed: int) -> None:
    rng = numpy.random.default_rng([1, seed, FORMATS.index(form)])
    for _ in range(2):
        shape, dtype = SHAPES[rng.integers(len(SHAPES))], str(rng.choice(KINDS))
        kind, index = str(rng.choice(["array", "matrix"])), rng.choice(["int32", "int64"])
        real = matrix(rng, form, kind, shape, dtype, index)
        scale = [2, 0.5, 1 - 2j, numpy.float32(3), numpy.int8(2), True][rng.integers(6)]
        for ask, answer in zip(operations(ours(real), scale), operations(real, scale), strict=True):
            same(outcome(ask), outcome(answer))
        for ask, answer in zip(sums(ours(real)), sums(real), strict=True):
            near(outcome(ask), outcome(answer), real)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia"])
@pytest.mark.parametrize("seed", range(rounds(3, 6)))
def test_changes_of_values_and_structure_are_seen(form: str, seed: int) -> None:
    """Products between writes to the arrays of a matrix, by tasks and by the host."""
    rng = numpy.random.default_rng([2, seed])
    real = matrix(rng, form, "array", (40, 40), "float64", "int32")
    mine, x = ours(real), rng.standard_normal(40)
    names = {"dia": ("data",), "coo": ("data", "row", "col")}.get(form, ("data", "indices"))
    for _ in range(12):
        same(mine @ np.array(x), real @ x)
        same(mine.T @ np.array(x), real.T @ x)
        name = str(rng.choice(names))
        if not getattr(real, name).size:
            return
        step = int(rng.integers(0, 5))
        for a in (mine, real):
            part = getattr(a, name)
            if step == 0:
                part[...] = part[..., ::-1].copy()
            elif step == 1:
                part[..., 0] = 1
            elif step == 2:
                setattr(a, name, part[..., ::-1].copy())
            elif step == 3:
                part[..., 1:] = part[..., :-1].copy()
            elif form == "dia":
                a.data *= 2
            else:
                a.sum_duplicates()
