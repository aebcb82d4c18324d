"""Indices of 64 bits that need not be: products follow 32, the program sees SciPy's; sizes are looked at."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse.numpy as np
import diffuse.scipy.sparse as sp
from diffuse.scipy.sparse import narrow
from tests.each import for_each

SIDE = 200
X = numpy.random.default_rng(5).normal(size=SIDE * SIDE)


def kron(sparse: Any, array: Any) -> Any:
    """A matrix with SciPy's 64-bit indices, (SIDE^2, SIDE^2)."""
    places = array.arange(SIDE)
    rows, columns = array.concatenate([places, places]), array.concatenate([places, places[::-1]])
    band = sparse.csr_array((array.linspace(1.0, 2.0, 2 * SIDE), (rows, columns)), shape=(SIDE, SIDE))
    return sparse.kron(band, band, format="csr")


def same(ours: Any, theirs: Any) -> None:
    if scipy.sparse.issparse(theirs):
        for name in ("data", "indices", "indptr"):
            same(getattr(ours, name), getattr(theirs, name))
        return
    ours = numpy.asarray(ours)
    assert ours.dtype == numpy.asarray(theirs).dtype
    numpy.testing.assert_array_equal(ours, theirs)


def test_a_product_has_scipys_bits_and_half_the_indices() -> None:
    ours, theirs = kron(sp, np), kron(scipy.sparse, numpy)
    assert theirs.indices.dtype == theirs.indptr.dtype == numpy.int64
    for _ in range(2):
        same(ours @ np.array(X), theirs @ X)
        assert ours._held.indices.dtype == ours._held.indptr.dtype == numpy.int32
    assert (ours.nnz, ours.shape, ours.has_sorted_indices) == (theirs.nnz, theirs.shape,
                                                              theirs.has_sorted_indices)
    assert ours._held.indices.dtype == numpy.int32
    same(ours @ np.array(X[:, None]), theirs @ X[:, None])
    same(ours, theirs)
    same(ours @ np.array(X), theirs @ X)
    assert ours._held.indices.dtype == numpy.int64


@for_each("use", [
    lambda a: a.T, lambda a: a.T.tocsr(), lambda a: a * 2.0, lambda a: a[3:9], lambda a: a.tocsc(),
    lambda a: a + a, lambda a: a.copy(), lambda a: pickle.loads(pickle.dumps(a)), copy.copy, copy.deepcopy,
    lambda a: a @ a, lambda a: vars(a)["indices"], lambda a: a.indptr, lambda a: type(a)(a),
    lambda a: abs(a), lambda a: a.diagonal(), lambda a: a.tocoo().coords[1], lambda a: a.sum(axis=0),
    lambda a: a.reshape(SIDE, -1).tocsr(), lambda a: a.sum(axis=1), lambda a: a.mean(axis=1),
    lambda a: type(a)((a.data, a.indices, a.indptr), shape=a.shape),
])
def test_whatever_else_is_asked_after_a_product_is_scipys(use: Callable[[Any], Any]) -> None:
    ours, theirs = kron(sp, np), kron(scipy.sparse, numpy)
    ours @ np.array(X)
    same(use(ours), use(theirs))
    same(ours @ np.array(X), theirs @ X)
    same(ours, theirs)


def test_writes_to_the_structure_are_seen_and_checked() -> None:
    ours, theirs = kron(sp, np), kron(scipy.sparse, numpy)
    ours @ np.array(X)
    for a in (ours, theirs):
        a.indices[5] = 7
    same(ours @ np.array(X), theirs @ X)
    ours.indices[5] = SIDE * SIDE
    with pytest.raises(ValueError, match="one is 40000"):
        ours @ np.array(X)
    ours.indices = ours.indices.astype(np.int32)
    ours.indices[5] = 7
    same(ours @ np.array(X), theirs @ X)


def test_an_unsound_structure_is_an_error_at_the_first_product() -> None:
    ours = kron(sp, np)
    ours._held.indices[3] = -1
    with pytest.raises(ValueError, match="one is -1"):
        ours @ np.array(X)


@pytest.mark.parametrize("make", [kron, lambda sparse, array: kron(sparse, array).astype(numpy.float32),
                                  lambda sparse, array: kron(sparse, array).tocsc(),
                                  lambda sparse, array: kron(sparse, array).tocoo()])
def test_too_few_values_are_an_error_and_no_wild_read(make: Callable[[Any, Any], Any]) -> None:
    ours = make(sp, np)
    ours @ np.array(X)
    ours.data = np.ones(5)
    with pytest.raises(ValueError, match="5 values"):
        ours @ np.array(X)


@pytest.mark.parametrize("changed", [
    {"shape": (4, 2**31)}, {"format": "csc"}, {"indices": numpy.zeros(3, numpy.int32)},
    {"data": numpy.broadcast_to(numpy.zeros(()), (2**31,))},
])
def test_indices_stay_as_they_are_where_they_are_needed_or_narrow_already(changed: dict[str, Any]) -> None:
    held = {"format": "csr", "shape": (4, 4), "indices": numpy.zeros(3, numpy.int64),
            "indptr": numpy.zeros(5, numpy.int64), "data": numpy.zeros(3)}
    assert narrow.fits(SimpleNamespace(**held))
    assert not narrow.fits(SimpleNamespace(**held | changed))
