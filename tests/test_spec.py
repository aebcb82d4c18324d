"""Descriptions of operators, and the index tasks that a grid makes of them."""

from __future__ import annotations

import pytest

from diffuse.ir import Access, Privilege, Replicated, Store
from diffuse.ir.check import check
from diffuse.movement.boxes import tile
from diffuse.spec import Carried, Max, Opaque, OpSpec, Sum, describe, einsum, function, reshaped, tiled
from diffuse.spec.opspec import Loop, plain


def boxes(access: Access, *point: int) -> str:
    """The part of its store that a point sees: `0:2, 4:8`."""
    return ", ".join(f"{r.start}:{r.stop}" for r in tile(access.partition, point, access.store.shape))


def stores(*shapes: tuple[int, ...]) -> list[Store]:
    return [Store(k, shape, "float64") for k, shape in enumerate(shapes)]


CONVOLUTION = describe(lambda data, filters: lambda b, co, x:
                       Sum(lambda ci, dx: data[b, ci, x + dx] * filters[ci, co, dx]), (8, 4, 34), (4, 16, 3))


def test_a_convolution_in_words() -> None:
    assert str(CONVOLUTION) == ("b:8 co:16 x:32 | sum ci:4 dx:3 | "
                                "%0[b,ci,x+dx] %1[ci,co,dx] -> %2[b,co,x]")
    assert CONVOLUTION.linear == {0, 1}


@pytest.mark.parametrize(("loop", "data", "filters", "result"), [
    ("b", "4:8, 0:4, 0:34", "0:4, 0:16, 0:3", "4:8, 0:16, 0:32"),
    ("co", "0:8, 0:4, 0:34", "0:4, 8:16, 0:3", "0:8, 8:16, 0:32"),
    ("x", "0:8, 0:4, 16:34", "0:4, 0:16, 0:3", "0:8, 0:16, 16:32"),
    ("ci", "0:8, 2:4, 0:34", "2:4, 0:16, 0:3", "0:8, 0:16, 0:32"),
    ("dx", "0:8, 0:4, 2:34", "0:4, 0:16, 2:3", "0:8, 0:16, 0:32"),
])
def test_the_five_strategies_of_a_convolution(loop: str, data: str, filters: str, result: str) -> None:
    """papers/002, section 4.3, with the exact extents of the border."""
    task = tiled(CONVOLUTION, stores((8, 4, 34), (4, 16, 3), (8, 16, 32)), {loop: 2})
    assert [boxes(access, 1) for access in task.accesses] == [data, filters, result]
    reduced = loop in ("ci", "dx")
    assert task.accesses[2].privilege is (Privilege.REDUCE if reduced else Privilege.WRITE)
    assert task.accesses[2].operator == ("sum" if reduced else None)


def test_extents_and_linearity_of_descriptions() -> None:
    assert str(describe(lambda a: lambda i: a[i + 2], (12,))) == "i:10 | %0[i+2] -> %1[i]"
    softmax = describe(lambda x: lambda i, j: function(x[i, j]) / Sum(lambda k: function(x[i, k])), (6, 8))
    assert str(softmax) == "i:6 j:8 | %0[i,j] %0[i,:] -> %1[i,j]"
    cholesky = describe(lambda a: lambda b, i, j: Opaque(a[b, :, :])[i, j], (4, 5, 5))
    assert str(cholesky) == "b:4 | %0[b,:,:] -> %1[b,:,:]"
    turned = describe(lambda x, w: lambda i: Sum(lambda k: x[i - k + 2] * w[k]), (10,), (3,))
    assert str(turned) == "i:8 | sum k:3 | %0[i-k+2] %1[k] -> %2[i]"
    assert describe(lambda x: lambda i: Max(lambda k: x[i, k]), (4, 5)).linear == frozenset()
    assert describe(lambda x, y: lambda i: x[i] + y[i], (4,), (4,)).linear == frozenset()
    assert describe(lambda x, y: lambda i: x[i] / y[i] * 2.0, (4,), (4,)).linear == {0}


def test_grids_of_a_sum_of_two_arrays() -> None:
    """papers/000: x[4,8,16] + y[8,16] under (2,2,1)."""
    add = describe(lambda x, y: lambda i, j, k: x[i, j, k] + y[j, k], (4, 8, 16), (8, 16))
    task = tiled(add, stores((4, 8, 16), (8, 16), (4, 8, 16)), {"i": 2, "j": 2, "k": 1})
    assert task.domain == (2, 2)
    assert [boxes(access, 1, 0) for access in task.accesses] == [
        "2:4, 0:4, 0:16", "0:4, 0:16", "2:4, 0:4, 0:16"]
    check(task)


def test_grids_of_a_matrix_product() -> None:
    product = einsum("mk,kn->mn", (8, 6), (6, 4))
    shapes = stores((8, 6), (6, 4), (8, 4))
    by_rows = tiled(product, shapes, {"m": 2})
    assert [boxes(a, 1) for a in by_rows.accesses] == ["4:8, 0:6", "0:6, 0:4", "4:8, 0:4"]
    assert isinstance(by_rows.accesses[1].partition, Replicated)
    by_terms = tiled(product, shapes, {"k": 2})
    assert [boxes(a, 1) for a in by_terms.accesses] == ["0:8, 3:6", "3:6, 0:4", "0:8, 0:4"]
    assert by_terms.accesses[2].privilege is Privilege.REDUCE
    grid = tiled(product, shapes, {"m": 2, "n": 2, "k": 3})
    assert grid.domain == (2, 2, 3)
    assert [boxes(a, 1, 0, 2) for a in grid.accesses] == ["4:8, 4:6", "4:6, 0:2", "4:8, 0:2"]
    assert tiled(product, shapes, {}).domain == (1,)


def test_extents_that_the_grid_does_not_divide() -> None:
    copy = describe(lambda x: lambda i: x[i], (10,))
    task = tiled(copy, stores((10,), (10,)), {"i": 4})
    assert [boxes(task.accesses[1], p) for p in range(4)] == ["0:3", "3:6", "6:9", "9:10"]
    few = tiled(describe(lambda x: lambda i: x[i], (2,)), stores((2,), (2,)), {"i": 4})
    assert [len(tile(few.accesses[0].partition, (p,), (2,))[0]) for p in range(4)] == [1, 1, 0, 0]


def test_reshape_by_rule() -> None:
    assert reshaped((8, 12), (96,)) == [Carried(0, 0, 1), Carried(1, 0, 8)]
    assert reshaped((2, 3, 4), (6, 4)) == [Carried(0, 0, 1), Carried(1, 0, 2), Carried(2, 1, 1)]
    assert reshaped((8, 12), (4, 24)) == [Carried(0, 0, 1)]
    assert reshaped((4, 1, 6), (4, 6)) == [Carried(0, 0, 1), Carried(2, 1, 1)]
    with pytest.raises(ValueError, match="has 96 elements"):
        reshaped((8, 12), (95,))


def test_bad_descriptions_are_refused() -> None:
    loops = (Loop("i", 4), Loop("j", 6))
    with pytest.raises(ValueError, match="a result does not follow it"):
        OpSpec(loops, (plain(0, (0, 1)),), (plain(1, (0,)),))
    with pytest.raises(ValueError, match="name one if loops are reduced"):
        OpSpec((Loop("i", 4, True),), (plain(0, (0,)),), (plain(1, ()),))
    with pytest.raises(ValueError, match="choose one of sum, prod"):
        OpSpec((Loop("i", 4, True),), (plain(0, (0,)),), (plain(1, ()),), "median")
    with pytest.raises(ValueError, match="a result follows it"):
        OpSpec((Loop("i", 4, True),), (plain(0, (0,)),), (plain(1, (0,)),), "sum")
    with pytest.raises(ValueError, match="no loop 'z': the loops are b, co"):
        tiled(CONVOLUTION, stores((8, 4, 34), (4, 16, 3), (8, 16, 32)), {"z": 2})
    with pytest.raises(ValueError, match="0 points along loop b"):
        tiled(CONVOLUTION, stores((8, 4, 34), (4, 16, 3), (8, 16, 32)), {"b": 0})
    with pytest.raises(ValueError, match="2 stores are given"):
        tiled(CONVOLUTION, stores((8, 4, 34), (4, 16, 3)), {"b": 2})
    with pytest.raises(ValueError, match="has extents 6 and 5"):
        einsum("ij,jk->ik", (8, 6), (5, 4))
    with pytest.raises(ValueError, match="names 2 dimensions of an operand that has 3"):
        einsum("ij->i", (8, 6, 2))
    with pytest.raises(ValueError, match="runs from 2 to 13, the dimension from 0 to 11"):
        describe(lambda a: lambda i: a[i + 2], (12,), i=12)
    with pytest.raises(ValueError, match="no index tells its extent; give it, as j=8"):
        describe(lambda a: lambda i, j: a[i], (12,))
    with pytest.raises(TypeError, match="an index is an affine expression"):
        describe(lambda a: lambda i: a[i * 0.5], (12,))
