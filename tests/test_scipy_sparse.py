"""Sparse arrays: what is recorded, what is shared, what is checked, and what other libraries see."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import scipy.sparse
import scipy.sparse.linalg

import diffuse.numpy as np
import diffuse.scipy.sparse as sp
from diffuse.settings import config, using
from diffuse.stream import engine
from tests.around import around
from tests.kinds import is_ours

FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")
RECORDED = ("csr", "csc", "coo", "dia", "bsr")
N = 40


recorded = around(using, small=0)
"""Tasks for arrays of any size."""


def real(form: str = "csr", kind: str = "array") -> Any:
    rng = numpy.random.default_rng(3)
    found = scipy.sparse.random_array((N, N), density=0.2, rng=rng)
    return getattr(scipy.sparse, f"{form}_{kind}")(found)


def ours(form: str = "csr", kind: str = "array") -> Any:
    return getattr(sp, f"{form}_{kind}")(real(form, kind))


def equal(found: Any, wanted: Any) -> bool:
    return bool((numpy.asarray(found) == numpy.asarray(wanted)).all())


def waits() -> Any:
    """How often the program has waited for everything."""
    return engine.current().epoch


X = numpy.random.default_rng(4).standard_normal(N)


@pytest.mark.parametrize("form", RECORDED)
def test_products_are_recorded_and_follow_the_values(form: str) -> None:
    a, b, x = ours(form), real(form), np.array(X)
    a @ x
    before = waits()
    y = a @ x
    a.data *= 2
    z = a @ (x + 1)
    a.data = a.data + 1
    w = (a @ x) * 2 - z
    assert waits() == before
    first = b @ X
    b.data *= 2
    second = b @ (X + 1)
    b.data = b.data + 1
    assert equal(y, first) and equal(z, second) and equal(w, (b @ X) * 2 - second)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia"])
def test_matrices_are_made_of_values_that_are_not_computed_yet(form: str) -> None:
    b = real(form)
    if form == "coo":
        rest: Any = ((np.array(b.row), np.array(b.col)),)
    else:
        rest = [np.array(getattr(b, name)) for name in ("offsets", "indices", "indptr") if hasattr(b, name)]
    x, values = np.array(X), np.array(b.data)
    fresh = values * 3.0
    before = waits()
    a = getattr(sp, f"{form}_array")((fresh, *rest), shape=b.shape)
    assert a.data is fresh or form in ("dia", "bsr")
    y = a @ x
    assert (a.shape, a.dtype, a.nnz) == (b.shape, b.dtype, b.nnz)
    if form not in ("csc", "coo"):
        assert waits() == before
    b.data = b.data * 3.0
    assert equal(y, b @ X) and equal(a.toarray(), b.toarray())


def test_a_type_and_a_copy_are_taken_of_values_not_computed_yet() -> None:
    b = real()
    fresh = np.array(b.data) * 3.0
    a = sp.csr_array((fresh, np.array(b.indices), np.array(b.indptr)), b.shape, np.float32, copy=True)
    assert a.dtype == numpy.float32 and a.data is not fresh
    assert equal(a.toarray(), (b * 3.0).astype(numpy.float32).toarray())


@pytest.mark.parametrize("form", RECORDED)
def test_arithmetic_on_values_is_recorded(form: str) -> None:
    a, b, x = ours(form), real(form), np.array(X)
    a.sum_duplicates() if form != "dia" else None
    s = np.array(2.0)
    a @ x, a * 2, abs(a)
    before = waits()
    results = [a * 2, a / 3, -a, abs(a), a.astype(np.float32), a.copy(), a.sqrt(), a * (x @ x), a * s]
    assert waits() == before
    wanted = [b * 2, b / 3, -b, abs(b), b.astype(numpy.float32), b.copy(), b.sqrt(), None, b * 2.0]
    for found, want in zip(results, wanted, strict=True):
        if want is not None:
            assert equal(found.toarray(), want.toarray())
    assert numpy.allclose(numpy.asarray(results[7].toarray()), (b * (X @ X)).toarray())


def test_results_have_structure_of_their_own() -> None:
    a = ours()
    b = a * 2
    b.indices[:] = 0
    b.data[:] = 0
    assert equal(a.toarray(), real().toarray())


def test_arrays_are_the_same_objects_each_time_and_shared_with_views() -> None:
    a = ours()
    assert a.data is a.data and a.T.data is a.data and a.T.T.indices is a.indices
    assert a.tocsr() is a and a.tocoo(copy=False).data is a.data
    a.tocoo(copy=False).data[:] = 1
    assert equal(a.data, numpy.ones(a.nnz))
    b = ours("coo")
    assert b.T.row is b.col and b.coords[0] is b.row


def test_what_numpy_still_holds_is_copied() -> None:
    b = real()
    a = sp.csr_array((b.data, b.indices, b.indptr), shape=b.shape)
    x = np.array(X)
    a @ x
    before = waits()
    y = a @ x
    assert waits() == before
    b.data[:] = 0
    assert equal(y, real() @ X) and equal(a @ x, y)


BAD: dict[str, Any] = {
    "an index too large": lambda i, p: (i + N, p), "a negative index": lambda i, p: (i - 1, p),
    "falling positions": lambda i, p: (i, numpy.where(numpy.arange(len(p)) == 3, p[-1], p)),
    "positions that do not begin at zero": lambda i, p: (i, p + 1),
    "too few positions": lambda i, p: (i, p[:-1]),
    "too few indices": lambda i, p: (i[:-1], p),
}


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("what", BAD)
def test_wrong_structure_is_an_error_at_the_call(what: str, form: str) -> None:
    b = real(form)
    b.indices[0] = 0
    indices, positions = BAD[what](b.indices, b.indptr)
    with pytest.raises(ValueError, match="ind"):
        getattr(sp, f"{form}_array")((b.data, indices, positions), shape=b.shape)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("how", ["by the host", "by a task", "assigned"])
@pytest.mark.parametrize("value", [N, -1])
def test_indices_that_were_written_are_looked_through_again(form: str, how: str, value: int) -> None:
    a, x = ours(form), np.array(X)
    a @ x
    name = "indices" if form != "coo" else "col"
    part = getattr(a, name)
    if how == "by the host":
        part[1] = value
    elif how == "by a task":
        part[:] = part * 0 + value
    else:
        setattr(a, name, np.full(part.shape, value, part.dtype))
    with pytest.raises(ValueError, match=f"one is {value}"):
        a @ x
    with pytest.raises(ValueError, match=f"one is {value}"):
        x @ a
    part[:] = 0
    setattr(a, name, part)
    assert (a @ x).shape == (N,)


@pytest.mark.parametrize("form", ["csc", "coo"])
def test_the_order_by_rows_is_kept_while_the_structure_stays(form: str) -> None:
    a, x = ours(form), np.array(X)
    name = "indices" if form == "csc" else "row"
    a @ x
    (kept,) = [k.value for k in a._kept.values() if hasattr(k.value, "columns")]
    a.data *= 2
    a @ x
    assert any(k.value is kept for k in a._kept.values())
    part = getattr(a, name)
    part[:] = 0
    b = real(form)
    setattr(b, name, getattr(b, name) * 0)
    b.data *= 2
    assert equal(a @ x, b @ X)
    assert not any(k.value is kept for k in a._kept.values())


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_classes_derive_from_scipys(form: str, kind: str) -> None:
    a, b, name = ours(form, kind), real(form, kind), f"{form}_{kind}"
    assert scipy.sparse.issparse(a) and sp.issparse(a) and isinstance(a, type(b))
    assert type(a).__name__ == name and type(a) is getattr(sp, name) and isinstance(b, type(a))
    assert not isinstance(a, sp.csr_array if name != "csr_array" else sp.csc_array)
    assert issubclass(type(a), sp.sparray if kind == "array" else sp.spmatrix)
    assert repr(a) == repr(b) and str(a) == str(b)
    for x in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a), a.copy()):
        assert type(x) is type(a) and x is not a and equal(x.toarray(), b.toarray())
    for ask in (len, bool, hash):
        if not (form == "dok" and ask is len):
            with pytest.raises(ValueError if ask is bool else TypeError):
                ask(a)
    if form in ("csr", "csc", "lil"):
        rows = list(a)
        assert len(rows) == N and equal(rows[3].toarray(), list(b)[3].toarray())
    derived = type("derived", (type(a),), {"extra": 1})(b)
    assert derived.extra == 1 and equal(derived.toarray(), b.toarray()) and not isinstance(a, type(derived))


def test_copies_are_deep_or_share() -> None:
    a = ours()
    shallow, deep = copy.copy(a), copy.deepcopy(a)
    a.data[:] = 1
    assert shallow.data is a.data and equal(deep.toarray(), real().toarray())


@pytest.mark.parametrize("form", FORMATS)
def test_dense_operands_on_the_left_defer(form: str) -> None:
    a, b = ours(form), real(form)
    dense = numpy.random.default_rng(5).standard_normal((N, N))
    for d in (np.array(dense), dense):
        assert equal(d @ a, dense @ b) and equal(d + a, dense + b) and equal(d - a, dense - b)
        assert equal((d * a).toarray(), (dense * b).toarray()) and equal(d == a, dense == b)
    assert equal((np.float64(2) * a).toarray(), (2.0 * b).toarray())
    assert equal((np.array(X).sum() * a).toarray(), (float(np.array(X).sum()) * b).toarray())
    with pytest.raises(TypeError):
        a + object()
    with pytest.raises(TypeError):
        2 / a
    calls: list[Any] = [lambda m: m @ 2, lambda m: m @ numpy.ones(N + 1), lambda m: m + real()[:3],
                        lambda m: m @ numpy.ones((2, N + 1, 2))]
    for wrong in calls:
        with pytest.raises(ValueError):
            wrong(a)
        with pytest.raises(ValueError):
            wrong(b)


@pytest.mark.parametrize("form", FORMATS)
def test_scipys_own_code_takes_our_arrays(form: str) -> None:
    a, b = ours(form), real(form)
    for left in (real("csr"), real("csc"), b):
        assert equal((left @ a).toarray(), (left @ b).toarray())
        assert equal((left + a).toarray(), (left + b).toarray())
        assert equal((left - a).toarray(), (left - b).toarray())
        assert equal(scipy.sparse.hstack([left, a]).toarray(), scipy.sparse.hstack([left, b]).toarray())
    assert equal(scipy.sparse.csr_array(a).toarray(), b.toarray())
    # BLAS adds up the squares of `b` in an order that depends on the processor
    assert numpy.isclose(scipy.sparse.linalg.norm(a), scipy.sparse.linalg.norm(b), rtol=1e-14, atol=0)


def test_methods_in_place_change_the_matrix() -> None:
    a, b = ours("csr"), real("csr")
    held = a.data
    for m in (a, b):
        m[0, 0] = 5.0
        m.setdiag(numpy.arange(N) * 1.0)
        m.data[3] = 0
        m.eliminate_zeros()
        m.sort_indices()
        m.resize((N, N - 3))
    assert a.shape == b.shape and equal(a.toarray(), b.toarray())
    assert equal(a @ np.array(X[:-3]), b @ X[:-3]) and held is not a.data
    a *= 2
    a /= 4.0
    b *= 2
    b /= 4.0
    assert equal(a.toarray(), b.toarray())


def test_unsorted_duplicates_are_added_up_in_the_matrix_as_scipy_does() -> None:
    parts = [1.0, 2.0, 4.0], [2, 0, 2], [0, 3, 3]
    a, b = sp.csr_array(parts[:1] + parts[1:], shape=(2, 3)), scipy.sparse.csr_array(parts, shape=(2, 3))
    assert equal(abs(a).toarray(), abs(b).toarray())
    assert (a.nnz, a.has_canonical_format) == (b.nnz, b.has_canonical_format) == (2, True)
    assert equal(a.indices, b.indices) and equal(a @ np.ones(3), b @ numpy.ones(3))


@pytest.mark.parametrize("form", ["lil", "dok"])
def test_formats_to_build_with(form: str) -> None:
    a, b = [getattr(m, f"{form}_matrix")((N, N)) for m in (sp, scipy.sparse)]
    for m in (a, b):
        for k in range(N):
            m[k, (3 * k) % N] = k + 0.5
        m[2, :] = 1.0
    assert equal(a.toarray(), b.toarray()) and equal(a.tocsr() @ np.array(X), b.tocsr() @ X)
    assert type(a.tocsr()) is sp.csr_matrix and a[2, 5] == 1.0
    if form == "dok":
        assert dict(a.items()) == dict(b.items()) and (0, 0) in a and a.get((0, 1), 7) == 7
    else:
        assert a.rows[3] == b.rows[3]


def test_arrays_of_more_and_fewer_dimensions_are_scipys() -> None:
    dense = numpy.arange(24.0).reshape(2, 3, 4)
    a, b = sp.coo_array(dense), scipy.sparse.coo_array(dense)
    assert a.shape == b.shape and equal(a.sum(axis=1), b.sum(axis=1)) and len(a.coords) == 3
    one, other = sp.csr_array(np.arange(5.0)), scipy.sparse.csr_array(numpy.arange(5.0))
    assert one.shape == (5,) and one @ np.arange(5.0) == other @ numpy.arange(5.0)


def test_numpys_real_arrays_and_diffuses_give_the_same() -> None:
    a, b = ours(), real()
    assert equal(a @ X, b @ X) and equal(X @ a, X @ b) and is_ours(a @ X)
    assert equal(a @ X.tolist(), b @ X) and equal(a @ X.reshape(-1, 1), b @ X.reshape(-1, 1))
    assert isinstance(ours("csr", "matrix") @ numpy.matrix(X).T, numpy.matrix)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint32", "float64", "int8"])
def test_indices_of_other_types(form: str, dtype: str) -> None:
    a, b = ours(form), real(form)
    name = "indices" if form != "coo" else "col"
    for m in (a, b):
        setattr(m, name, getattr(m, name).astype(dtype))
    results: list[Any] = []
    calls: list[Any] = [lambda: a @ np.array(X), lambda: np.array(X) @ a, lambda: b @ X, lambda: X @ b]
    for ask in calls:
        try:
            results.append(numpy.asarray(ask()))
        except (TypeError, ValueError) as error:
            results.append(type(error))
    for found, wanted in zip(results[:2], results[2:], strict=True):
        assert found is wanted if isinstance(wanted, type) else equal(found, wanted)


def test_values_and_kinds_that_kernels_have_not_are_scipys() -> None:
    for dtype in (numpy.longdouble, numpy.clongdouble):
        a, b = ours().astype(dtype), real().astype(dtype)
        assert a.dtype == dtype and type(a.data) is numpy.ndarray
        assert equal(a @ np.array(X), b @ X) and equal((a.T * 2).toarray(), (b.T * 2).toarray())
        assert equal(sp.coo_array(a).T.toarray(), scipy.sparse.coo_array(b).T.toarray())


def test_a_dense_operand_whose_elements_no_task_can_name() -> None:
    z = np.array(X + 1j)
    part = z.view(np.float64).reshape(N, 2)[:, 0]
    assert equal(ours() @ part, real() @ X)


def _write_an_element(matrix: Any) -> None:
    matrix.data[0] = 5.0


def _scale(matrix: Any) -> None:
    matrix.data *= 2.0


def _replace_values(matrix: Any) -> None:
    matrix.data = matrix.data + 1.0


def _set_an_item(matrix: Any) -> None:
    matrix[1, 2] = 3.0


def _drop_zeros(matrix: Any) -> None:
    matrix.data[:5] = 0.0
    matrix.eliminate_zeros()


@pytest.mark.parametrize("change", [_write_an_element, _scale, _replace_values, _set_an_item, _drop_zeros])
@pytest.mark.parametrize("size", [60, 900])
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_products_of_a_small_matrix_see_every_change(
        change: Callable[[Any], None], size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "small", 1 << 14)
    plain = scipy.sparse.random(size, size, density=5 / size, format="csr", random_state=1)
    matrix, theirs = sp.csr_matrix(plain), scipy.sparse.csr_matrix(plain)
    x = np.arange(size) * 0.5
    for _ in range(3):
        for _ in range(2):
            assert numpy.array_equal(numpy.asarray(matrix @ x), theirs @ (numpy.arange(size) * 0.5))
        change(matrix)
        change(theirs)


@pytest.mark.parametrize("size", [40, 126])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_matrices_of_few_rows_multiply_long_vectors(
        kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "small", 1 << 14)
    many = 30_000
    wide = scipy.sparse.random(size, many, density=0.01, format="csr", random_state=3)
    square = scipy.sparse.random(size, size, density=0.2, format="csr", random_state=4)
    ours, small = (getattr(sp, f"{kind}_matrix")(m) for m in (wide, square))
    x = np.ones(many) + np.arange(many)
    first = ours @ x
    plain = wide @ (1.0 + numpy.arange(many))
    assert numpy.allclose(numpy.asarray(small @ first), square @ plain, rtol=1e-12)
    assert numpy.allclose(numpy.asarray(ours.T @ first), wide.T @ plain, rtol=1e-12)
    assert numpy.allclose(numpy.asarray(small.sum(axis=1)), square.sum(axis=1), rtol=1e-12)
    assert numpy.allclose(numpy.asarray(ours.sum(axis=1)), wide.sum(axis=1), rtol=1e-12)
