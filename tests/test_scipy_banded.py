"""`scipy.linalg.solve_banded` with a tridiagonal matrix has SciPy's bits, layout and errors."""

import importlib
import warnings
from typing import Any

import numpy
import pytest

linalg = pytest.importorskip("scipy.linalg")

import diffuse.numpy as np  # noqa: E402
from diffuse.numpy.small import native  # noqa: E402
from diffuse.scipy import banded  # noqa: E402

ours = importlib.import_module("diffuse.scipy.linalg")

pytestmark = pytest.mark.filterwarnings("ignore:scipy.linalg")


def system(n: int, sides: int, seed: int, dominant: bool) -> tuple[Any, Any]:
    rng = numpy.random.default_rng(seed)
    bands = rng.standard_normal((3, n))
    if dominant:
        bands[1] += 4.0
    return bands, rng.standard_normal((n, sides))


def solved_there(bands: Any, b: Any) -> Any:
    """What the extension solves, without SciPy."""
    return banded.solved(bands, b) if banded._fits(bands, b) else None


@pytest.mark.skipif(native is None, reason="the extension is not there")
@pytest.mark.parametrize("dominant", [True, False])
@pytest.mark.parametrize(("n", "sides"), [
    (2, 9000), (3, 6001), (7, 3000), (1000, 17), (257, 133), (300, 500)])
def test_bits_are_those_of_lapack(n: int, sides: int, dominant: bool) -> None:
    bands, b = system(n, sides, n + sides, dominant)
    expected = linalg.solve_banded((1, 1), bands, b)
    for given in (b, numpy.asfortranarray(b), numpy.repeat(b, 2, axis=1)[:, ::2], b[::-1, ::-1][::-1, ::-1]):
        found = solved_there(bands, given)
        assert found is not None
        assert found.flags.f_contiguous == expected.flags.f_contiguous
        assert found.tobytes() == expected.tobytes()


@pytest.mark.skipif(native is None, reason="the extension is not there")
def test_zeros_keep_their_signs() -> None:
    bands, b = system(300, 64, 5, False)
    b[::2] = -0.0
    b[1::4] = 0.0
    bands[0, ::3] = 0.0
    bands[2, ::5] = -0.0
    assert solved_there(bands, b).tobytes() == linalg.solve_banded((1, 1), bands, b).tobytes()


def test_a_program_gets_scipys_solutions_and_layout() -> None:
    bands, b = system(400, 90, 8, True)
    expected = linalg.solve_banded((1, 1), bands, b)
    found = ours.solve_banded((1, 1), np.array(bands), np.array(b) * 1.0)
    assert type(found) is np.ndarray
    assert found.strides == expected.strides
    assert numpy.asarray(found).tobytes() == expected.tobytes()


def test_right_hand_sides_are_not_written() -> None:
    bands, b = system(400, 90, 9, True)
    mine = np.array(b) + 0.0
    ours.solve_banded((1, 1), bands, mine)
    assert numpy.array_equal(numpy.asarray(mine), b)


@pytest.mark.parametrize("spoil", ["nan", "infinite", "singular", "unused", "huge"])
def test_errors_are_scipys(spoil: str) -> None:
    bands, b = system(400, 90, 10, True)
    if spoil == "nan":
        b[33, 44] = numpy.nan
    elif spoil == "infinite":
        b[399, 89] = numpy.inf
    elif spoil == "singular":
        bands[:, 200] = 0.0
        bands[2, 199] = 0.0
    elif spoil == "unused":
        bands[0, 0] = numpy.nan
    else:
        b[0] = 1e308
        bands[1] = 1e-3
        bands[0] = bands[2] = 0.0
    said: list[Any] = []
    for function, side in ((linalg.solve_banded, b), (ours.solve_banded, np.array(b))):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said.append(numpy.asarray(function((1, 1), bands, side)).tobytes())
        except Exception as error:
            said.append((type(error), str(error)))
    assert said[0] == said[1]


@pytest.mark.skipif(native is None, reason="the extension is not there")
def test_a_solver_with_other_bits_solves_itself() -> None:
    bands, b = system(400, 90, 11, True)

    def other(both: tuple[int, int], given: Any, sides: Any) -> Any:
        return linalg.solve_banded(both, given, sides) * (1 + 2**-52)

    assert banded.has_same_bits(linalg.solve_banded)
    assert not banded.has_same_bits(other)
    found = banded.tridiagonal(other)((1, 1), bands, b)
    assert numpy.array_equal(found, other((1, 1), bands, b))
