"""The functions of `scipy.sparse` and of `csgraph`: SciPy's results as arrays of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import scipy.sparse
import scipy.sparse.csgraph

import diffuse.numpy as np
import diffuse.scipy.sparse as sp
from diffuse.scipy.sparse import csgraph
from tests.each import for_each
from tests.kinds import is_ours


def same(found: Any, wanted: Any) -> None:
    """The class of ours for SciPy's, and its elements."""
    if scipy.sparse.issparse(wanted):
        assert type(found) is getattr(sp, type(wanted).__name__)
        assert found.format == wanted.format and found.dtype == wanted.dtype
        found, wanted = found.toarray(), wanted.toarray()
    assert numpy.asarray(found).shape == numpy.asarray(wanted).shape
    assert (numpy.asarray(found) == numpy.asarray(wanted)).all()


CALLS: dict[str, Any] = {
    "eye": lambda m, n: m.eye(4, 5, k=1), "eye_array": lambda m, n: m.eye_array(4, dtype=n.float32),
    "identity": lambda m, n: m.identity(3, format="csr"),
    "diags": lambda m, n: m.diags([n.arange(1.0, 5.0), [1, 2, 3]], [0, 1]),
    "diags_array": lambda m, n: m.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(6, 6)),
    "spdiags": lambda m, n: m.spdiags(n.arange(12.0).reshape(3, 4), n.array([0, -1, 2]), 4, 4),
    "kron": lambda m, n: m.kron(m.eye_array(2), n.arange(4.0).reshape(2, 2)),
    "kronsum": lambda m, n: m.kronsum(m.eye_array(2), m.eye_array(3), format="csr"),
    "hstack": lambda m, n: m.hstack([m.eye_array(3), n.ones((3, 2))]),
    "vstack": lambda m, n: m.vstack([m.eye_array(3).tocsr(), m.eye_array(3).tocsr()]),
    "bmat": lambda m, n: m.bmat([[m.eye(2), None], [None, m.eye(3)]]),
    "block_array": lambda m, n: m.block_array([[m.eye_array(2), None], [None, n.ones((1, 1))]], format="csc"),
    "block_diag": lambda m, n: m.block_diag([m.eye_array(2), n.ones((2, 3)), 5.0]),
    "tril": lambda m, n: m.tril(n.arange(9.0).reshape(3, 3)),
    "triu": lambda m, n: m.triu(m.csr_array(n.arange(9.0).reshape(3, 3)), k=1),
    "random": lambda m, n: m.random(9, 8, density=0.3, random_state=7),
    "random_array": lambda m, n: m.random_array((9, 8), density=0.3, rng=7, format="csr"),
    "rand": lambda m, n: m.rand(9, 8, density=0.3, random_state=7),
    "swapaxes": lambda m, n: m.swapaxes(m.coo_array(n.arange(6.0).reshape(2, 3)), 0, 1),
    "permute_dims": lambda m, n: m.permute_dims(m.coo_array(n.arange(6.0).reshape(2, 3)), (1, 0)),
    "expand_dims": lambda m, n: m.expand_dims(m.coo_array(n.arange(6.0)), axis=0),
    "dense": lambda m, n: m.csr_array(n.eye(3)), "matrix of": lambda m, n: m.csc_matrix(m.eye(3)),
    "triplets": lambda m, n: m.csr_matrix((n.ones(4), (n.array([0, 1, 1, 2]), n.array([0, 0, 0, 2])))),
    "asformat": lambda m, n: m.csr_array(n.eye(4)).asformat("bsr"), "empty": lambda m, n: m.dok_array((2, 3)),
}


@for_each("name", CALLS)
def test_functions_are_scipys(name: str) -> None:
    same(CALLS[name](sp, np), CALLS[name](scipy.sparse, numpy))


def test_find_gives_three_arrays() -> None:
    dense = numpy.eye(4) * 3
    for found, wanted in zip(sp.find(sp.csr_array(dense)), scipy.sparse.find(dense), strict=True):
        assert is_ours(found)
        same(found, wanted)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia", "bsr"])
def test_files(form: str, tmp_path: Path) -> None:
    a = getattr(sp, f"{form}_array")(numpy.diag([1.0, 2.0, 3.0]))
    sp.save_npz(tmp_path / "a.npz", a * 2)
    same(sp.load_npz(tmp_path / "a.npz"), scipy.sparse.load_npz(tmp_path / "a.npz"))
    assert (numpy.asarray(sp.load_npz(tmp_path / "a.npz").toarray()) == numpy.diag([2.0, 4.0, 6.0])).all()


def test_every_public_name_is_there() -> None:
    names: dict[str, Any] = {}
    exec("from diffuse.scipy.sparse import *", names)
    missing = [name for name in scipy.sparse.__all__ if name not in names]
    assert missing == [] and sorted(dir(sp)) == sorted(scipy.sparse.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        sp.nonsense


def test_kinds_of_matrices_are_told_apart() -> None:
    a = sp.csr_matrix(numpy.eye(2))
    assert sp.isspmatrix(a) and sp.isspmatrix_csr(a) and not sp.isspmatrix_csc(a)
    assert not sp.isspmatrix(sp.csr_array(numpy.eye(2)))
    assert sp.get_index_dtype((a.indices,)) == numpy.int32


def test_graphs() -> None:
    dense = numpy.array([[0, 1, 0, 0], [1, 0, 2, 0], [0, 2, 0, 0], [0, 0, 0, 0.0]])
    ours, real = sp.csr_array(dense), scipy.sparse.csr_array(dense)
    for name in ("connected_components", "minimum_spanning_tree", "shortest_path", "laplacian"):
        found, wanted = (getattr(m, name)(a) for m, a in ((csgraph, ours), (scipy.sparse.csgraph, real)))
        for one, other in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, wanted)], strict=True):
            same(one, other)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("int32", "float32"), ("float64", "complex128")])
def test_kronecker_sums_in_blocks_are_scipys(kind: str, dtypes: tuple[str, str],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffuse.scipy.sparse.construct.BLOCK", 20)
    draw = numpy.random.default_rng(11)
    for n, m in ((1, 40), (6, 7), (13, 4), (40, 1), (50, 3)):
        a, b = (scipy.sparse.random_array((k, k), density=0.3, rng=draw).astype(dtype)
                for k, dtype in zip((n, m), dtypes, strict=True))
        a, b = (getattr(scipy.sparse, f"csr_{kind}")(x) for x in (a, b))
        found, wanted = sp.kronsum(a, b, format="csr"), scipy.sparse.kronsum(a, b, format="csr")
        assert type(found) is getattr(sp, type(wanted).__name__)
        for name in ("data", "indices", "indptr"):
            ours, theirs = numpy.asarray(getattr(found, name)), getattr(wanted, name)
            assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes(), (name, n, m)
    with pytest.raises(ValueError, match="not square"):
        sp.kronsum(scipy.sparse.csr_array((30, 2)), scipy.sparse.csr_array((3, 3)), format="csr")
