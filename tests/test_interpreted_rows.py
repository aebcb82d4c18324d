"""Interpreted rows, however they are computed: folds, sums of sparse rows, and elements read by index."""

from __future__ import annotations

import numpy as np
import pytest

from diffuse.kernels.body.operations import FOLDS
from diffuse.kernels.meaning import reduce, sparse
from diffuse.kernels.meaning.indexed import Counted, Picked
from diffuse.kernels.meaning.launched import memory
from diffuse.kernels.meaning.reduce import PART, SHORT, Array
from diffuse.kernels.meaning.sparse import SparseRows
from diffuse.memory import address


@pytest.mark.parametrize("operator", ["sum", "prod", "min", "max", "nanmin", "nanmax"])
@pytest.mark.parametrize("n", [33, 40, SHORT - 1, SHORT])
def test_many_short_rows_have_the_bits_of_one(operator: str, n: int) -> None:
    values = np.random.default_rng(n).standard_normal((PART // n + 3, n))
    values[2] = -0.0
    values[3, 5], values[4, :] = np.nan, 0.0
    values[4, ::3] = -0.0
    found = reduce.rows(operator, values)
    assert found.shape == (len(values), 1)
    for k in (0, 2, 3, 4, len(values) - 1):
        expected = reduce.definition(operator, values[k], [0])
        assert found[k, 0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_no_rows_have_no_leaves(dtype: str) -> None:
    assert reduce.rows("sum", np.empty((0, 40), dtype)).shape == (0, 1)
    assert reduce.rows("sum", np.empty((3, 0), dtype)).shape == (3, 0)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64"])
@pytest.mark.parametrize("n", [33, 512, 1100])
def test_leaves_of_integers_and_booleans_keep_their_type(dtype: str, n: int) -> None:
    values = np.random.default_rng(n).integers(0, 2 if dtype == "bool" else 100, (3, n)).astype(dtype)
    for operator in FOLDS:
        if dtype != "bool" and operator in ("any", "all", "parity"):
            continue
        found = reduce.rows(operator, values)
        assert found.dtype == dtype
        for k, row in enumerate(values):
            leaves = [reduce.definition(operator, row[j:j + 512], [0]) for j in range(0, n, 512)]
            np.testing.assert_array_equal(found[k], np.array(leaves))


def _summed(low: Array, high: Array, values: Array, columns: Array, dense: Array) -> Array:
    """Each row, element by element from zero."""
    found = np.zeros(len(low), dense.dtype)
    for row, (begin, end) in enumerate(zip(low, high, strict=True)):
        for k in range(begin, end):
            found[row] += values[k] * dense[columns[k]]
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("longest", [0, 3, 100])
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("most", [0, sparse.TERMS])
def test_sparse_rows_are_summed_in_order(dtype: str, longest: int, step: int, most: int,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that follow one another, and rows of which two in three are left out; few and many products."""
    monkeypatch.setattr(sparse, "TERMS", most)
    rng = np.random.default_rng(longest)
    ends = np.concatenate(([5], 5 + rng.integers(0, longest + 1, 90).cumsum()))
    values = (rng.standard_normal(ends[-1]) * 100).astype(dtype)
    columns, dense = rng.integers(0, 50, ends[-1]).astype("int32"), (rng.random(50) * 9).astype(dtype)
    low, high, out = ends[:-1][::step], ends[1:][::step], np.empty(len(ends[:-1][::step]), dtype)
    operands = [(address(values), dtype), (address(columns), "int32"), (address(dense), dtype)]
    SparseRows(memory, operands, [(0, len(out))], None)(low, high, out)
    assert out.tobytes() == _summed(low, high, values, columns, dense).tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int16", "float64", "complex128"])
def test_picked_elements_are_those_at_the_distances(dtype: str) -> None:
    table = (np.random.default_rng(3).random((50, 6)) * 3).astype(dtype)
    places = np.array([7, 3, 49, 3, 0])
    out = np.empty(5, dtype)
    Picked(address(table), dtype, [0], [(0, 5)])(places, out)
    np.testing.assert_array_equal(out, table.ravel()[places])
    rows = np.empty((5, 4), dtype)  # whole rows: the distances are those of their first elements
    Picked(address(table), dtype, [0, table.itemsize], [(0, 5), (1, 5)])(places[:, None] * 6, rows)
    np.testing.assert_array_equal(rows, table[places, 1:5])


def test_any_byte_but_zero_counts_as_true() -> None:
    mask, out = np.array([0, 1, 0, 2, 255], "uint8"), np.empty(2, "int64")
    Counted(address(mask), [(1, 3)])(np.array(5), np.array(0), out)
    np.testing.assert_array_equal(out, [3, 4])
