"""Regions: grids that the program names by hand, what cannot be planned, and the boxes of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import settings
from diffuse.planning.boxes import common, everything, hull, touched, volumes
from diffuse.planning.forecast import Turn
from diffuse.planning.windows import preferred
from tests.around import around
from tests.jobs import TINY, over_mpi, script
from tests.jobs import diffuse as command

recorded = around(settings.using, small=0)


# -- by hand -----------------------------------------------------------------------------------------------

a, b = numpy.arange(48.0).reshape(6, 8), numpy.ones((8, 4))


@pytest.mark.parametrize("grid, said", [
    ({}, "name the points of each loop"),
    ({"grid": (2,), "i": 2}, "name each loop once"),
    ({"i": 0}, "loop i has 0 points; give it at least 1"),
    ({"j": -1}, "loop j has -1 points"),
])
def test_a_grid_that_is_none(grid: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        diffuse.schedule(**grid)


@pytest.mark.parametrize("grid, said", [
    ({"i": 4}, r"matmul has 6 indices along i, which 4 points do not divide"),
    ({"x": 2}, r"matmul has no loop x; it has i \(6\), j \(4\), k \(8\)"),
    ({"grid": (2, 2, 1, 1)}, r"matmul has no loop l"),
])
def test_a_grid_that_a_product_cannot_have(grid: dict[str, Any], said: str) -> None:
    x, y = np.asarray(a) + 0.0, np.asarray(b) + 0.0
    with pytest.raises(ValueError, match=said), diffuse.schedule(**grid):
        x @ y
    with diffuse.schedule(i=2, j=2):
        assert numpy.array_equal(numpy.asarray(x @ y), a @ b), "nothing is left of what was refused"


def test_loops_of_other_operations() -> None:
    x = np.asarray(a) + 0.0
    with diffuse.schedule(j=4):
        y, s = x * 2.0, x.sum(axis=0)
        with pytest.raises(ValueError, match=r"no loop j; it has i \(8\)"):
            s + 1.0
        with pytest.raises(ValueError, match="within leaves of the reduction tree"):
            x.sum(axis=1)
        with diffuse.schedule(i=4):
            z = s + 1.0
    assert numpy.array_equal(numpy.asarray(z), a.sum(axis=0) + 1.0)
    assert numpy.array_equal(numpy.asarray(y), a * 2.0)


@pytest.mark.parametrize("n", [3, 10, 1500])
def test_a_grid_that_does_not_divide(n: int) -> None:
    """Tiles are then uneven, if the program says so; numbers have no loops."""
    plain = numpy.arange(float(n))
    x = np.asarray(plain) + 0.0
    with diffuse.schedule(i=4, uneven=True):
        y, total = x * 2.0, x.sum()
        share = total / 2.0 + x[0]
    z = np.asarray(numpy.ones((7, 7))) + 0.0
    said = r"k=2, uneven=True\): matmul has 7 indices along k, which 2 points do not divide"
    with pytest.raises(ValueError, match=said), diffuse.schedule(k=2, uneven=True):
        z @ z
    assert numpy.array_equal(numpy.asarray(y), plain * 2.0) and float(share) == plain.sum() / 2.0


UNEVEN = """
    import hashlib
    import numpy as np
    import scipy.sparse
    import diffuse

    for n in 3, 10, 1500, 4001:
        x = np.sin(np.arange(n * 1.0))
        a = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
        for turn in range(2):
            with diffuse.schedule(i=4, uneven=True):
                y = x * 2.0 + a @ x
                s = np.dot(y, x) / y.sum()
                z = (y - s)[:, None] * x[:5]
            with diffuse.schedule(i=2, j=2, uneven=True):
                z = z @ z.T[:, :7] + 1.0
        print(n, [hashlib.sha256(np.asarray(each).tobytes()).hexdigest() for each in (y, s, z)])
"""


@pytest.mark.ranks("mpi")
def test_ranks_have_uneven_tiles(tmp_path: Path) -> None:
    path = script(tmp_path, UNEVEN)
    plain = command("run", path, **TINY)
    done = over_mpi(4, path, **TINY)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail


def test_a_decorated_function_may_call_itself() -> None:
    @diffuse.schedule(i=2)
    def power(x: Any, n: int) -> Any:
        return x * 1.0 if n == 1 else power(x, n - 1) * x

    assert numpy.array_equal(numpy.asarray(power(np.asarray(a) + 0.0, 3)), a * a * a)


def test_what_cannot_be_planned() -> None:
    text: Any = "1G"
    half: Any = 2.5
    with pytest.raises(TypeError, match="jit: 3 is no function"):
        diffuse.jit(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"plan: 3 is given without a name; write plan\(memory=N\)"):
        diffuse.plan(3)
    with pytest.raises(ValueError, match="memory=0 bytes; give it at least 1"):
        diffuse.plan(memory=0)
    with pytest.raises(TypeError, match="plan: memory='1G'; give a whole number of bytes"):
        diffuse.plan(memory=text)
    with pytest.raises(TypeError, match="schedule: loop i has 2.5 points; give it a whole number"):
        diffuse.schedule(i=half)


def test_boxes_of_ranks() -> None:
    from diffuse.ir import AccessMap, Split, Store, tiling

    rows = AccessMap(((1, ((0, 1),)), (0, ((1, 1),))))
    partition = tiling(Store(1, (10, 4), "float64"), rows, (8, 4), (Split(0, 3),))
    found = touched(partition, (3,), (10, 4), 4)
    assert found[:, 0].tolist() == [[1, 4], [4, 7], [7, 9], [0, 0]]
    assert volumes(found).tolist() == [12, 12, 8, 0] and volumes(hull(found)).tolist() == [32] * 4
    assert common(found, everything((5, 2), 4)).tolist() == [6, 2, 0, 0]


@pytest.mark.parametrize("seconds, moved, taken", [
    (0.93, 100, False), (0.91, 100, True), (0.91, 101, False), (0.87, 101, True), (0.97, 74, True),
    (0.99, 74, False), (1.01, 0, False)])
def test_a_plan_has_to_save_more_than_the_model_errs_by(seconds: float, moved: int, taken: bool) -> None:
    """Of more bytes than the stream moves a plan has to save more, of far fewer bytes less."""
    default, found = Turn((0,), 100, 0.5, 1.0), Turn((1,), moved, 0.5, seconds)
    assert preferred(default, [found]) is (found if taken else default)
