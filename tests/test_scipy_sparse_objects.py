"""Sparse arrays as Python objects: what `vars` shows, pickles, copies, powers, wide indices of matrices."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse.numpy as np
import diffuse.scipy.sparse as sp
import diffuse.scipy.sparse.linalg  # noqa: F401
from diffuse import settings
from tests.each import for_each

DENSE = [[1.5, 2.0, 0.0], [0.0, 4.0, 7.0]]
NAMES = [f"{form}_{kind}" for form in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
         for kind in ("array", "matrix")]


def both(name: str, values: Any = None) -> tuple[Any, Any]:
    """The same matrix, ours and SciPy's."""
    values = DENSE if values is None else values
    return getattr(sp, name)(np.array(values)), getattr(scipy.sparse, name)(numpy.array(values))


@for_each("name", NAMES)
def test_vars_shows_what_scipys_objects_have(name: str) -> None:
    ours, real = both(name)
    ours.note = real.note = "mine"
    assert vars(ours).keys() == vars(real).keys()
    assert vars(ours)["note"] == "mine"
    for key, value in vars(real).items():
        found = vars(ours)[key]
        for one, other in zip(*[v if key == "coords" else (v,) for v in (found, value)], strict=True):
            assert type(one) is (np.ndarray if type(other) is numpy.ndarray and other.dtype != object
                                 else type(other))
            numpy.testing.assert_array_equal(one, other)


def test_vars_shows_the_arrays_themselves() -> None:
    ours = sp.csr_array(np.array(DENSE))
    assert np.may_share_memory(vars(ours)["data"], ours.data)
    vars(ours)["data"][0] = 9.0
    assert ours[0, 0] == 9.0


@for_each("name", NAMES)
def test_attributes_of_the_program_are_kept(name: str) -> None:
    ours, _ = both(name)
    ours.note = ["mine"]
    for other in (pickle.loads(pickle.dumps(ours)), copy.copy(ours), copy.deepcopy(ours)):
        assert type(other) is type(ours) and other.note == ["mine"]
        numpy.testing.assert_array_equal(other.toarray(), ours.toarray())
    assert copy.copy(ours).note is ours.note
    assert copy.deepcopy(ours).note is not ours.note


class Derived(sp.csr_array):  # type: ignore[misc]
    """A class of the program."""


def test_a_derived_class_survives_a_pickle() -> None:
    ours = Derived(np.array(DENSE))
    for other in (pickle.loads(pickle.dumps(ours)), copy.copy(ours), copy.deepcopy(ours)):
        assert type(other) is Derived


@for_each("name", [name for name in NAMES if name.endswith("array")])
@for_each("exponent", [1, 2, 2.2, 1 + 3j, numpy.float32(1.3), True])
def test_a_power_has_the_bits_of_the_dense_one(name: str, exponent: Any) -> None:
    """Arrays of all formats raise their elements as dense arrays do, not by another routine."""
    values = numpy.random.default_rng(0).uniform(1, 9, (4, 4))
    ours, _ = both(name, values)
    dense = np.array(values) ** exponent
    for found in (ours ** exponent, ours.power(exponent)):
        assert found.dtype == dense.dtype
        assert found.toarray().tolist() == dense.tolist()


def test_a_power_may_be_computed_in_another_type() -> None:
    ours, real = both("csr_array", [[1, 2], [0, 3]])
    found = ours.power(2, dtype=np.float32)
    assert found.dtype == np.float32 and found.toarray().tolist() == real.power(2).toarray().tolist()
    for wrong, error in ((0, NotImplementedError), (-1, ValueError)):
        with pytest.raises(error):
            ours ** wrong


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_matrices_with_wide_indices_use_our_kernels(form: str) -> None:
    """SciPy makes the indices of a new matrix as small as they may be, and so do we."""
    values = numpy.random.default_rng(1).uniform(0.1, 1, (5, 5))
    ours, real = both(f"{form}_matrix", values)
    for a, numbers in ((ours, np), (real, numpy)):
        if form == "coo":
            a.coords = tuple([numbers.asarray(c).astype(numpy.int64) for c in a.coords])
        elif form == "dia":
            a.offsets = a.offsets.astype(numpy.int64)
        else:
            a.indices, a.indptr = a.indices.astype(numpy.int64), a.indptr.astype(numpy.int64)
    found, expected = ours.sin(), real.sin()
    assert found.toarray().tolist() == np.sin(np.array(values)).tolist()
    for name in ("indices", "indptr", "offsets", "row", "col"):
        if hasattr(expected, name):
            assert getattr(found, name).dtype == getattr(expected, name).dtype
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_values_past_the_last_position_are_cut_off_as_scipy_does() -> None:
    def made(numbers: Any, library: Any) -> Any:
        a = library.csr_matrix((numbers.array([1.0, 2.0, 3.0]), numbers.array([0, 1, 0]),
                                numbers.array([0, 1, 2])), shape=(2, 2))
        a.data, a.indices = numbers.array([1.0, 2.0, 3.0]), numbers.array([0, 1, 0])  # int64
        return (-a).data

    assert made(np, sp).tolist() == made(numpy, scipy.sparse).tolist() == [-1.0, -2.0]


@pytest.mark.parametrize("wide", ["int32", "int64"])
def test_coordinates_that_are_columns_of_a_table(wide: str) -> None:
    """They are not contiguous, which SciPy keeps and kernels do not read."""
    table = numpy.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1]], wide)
    x = numpy.array([1.0, 2.0])
    for change in ("coords", "col", "row"):
        ours, real = both("coo_array", [[1.0, 2.0], [3.0, 4.0], [0.0, 5.0]])
        for one in ours, real:
            given = tuple(table.T) if change == "coords" else table[:, int(change == "col")]
            setattr(one, change, given)
        with settings.using(small=0):
            numpy.testing.assert_array_equal(ours @ np.array(x), real @ x, change)


def test_tfqmr_of_an_integer_matrix() -> None:
    real = scipy.sparse.csr_array([[1, 2], [3, 4]])
    with settings.using(small=0):
        found, info = sp.linalg.tfqmr(sp.csr_array(real), np.array([1, 2]), atol=1e-5)
        assert info == 0
        numpy.testing.assert_allclose(found, [0, 0.5], atol=1e-6)
