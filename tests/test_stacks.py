"""Stacks of small matrices are multiplied and inverted with NumPy's bits, and NumPy's errors and warnings."""

import warnings
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.ops import elementwise, stacks
from diffuse.numpy.small import native
from tests.each import for_each

COUNT = 5000
needs_extension = pytest.mark.skipif(native is None, reason="the extension is not there")


def matrices(seed: int, *shape: int) -> Any:
    return numpy.random.default_rng(seed).standard_normal(shape)


def layouts(x: Any) -> tuple[Any, ...]:
    """The same matrices, laid out in several ways."""
    turned = numpy.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    wide = numpy.zeros((*x.shape[:2], x.shape[2] + 3))
    wide[:, :, 1:1 + x.shape[2]] = x
    part = wide[:, :, 1:1 + x.shape[2]]
    return x, turned, part, numpy.repeat(x, 2, axis=2)[:, :, ::2], x[:1], x[0], turned[0]


@needs_extension
@pytest.mark.parametrize(("m", "k", "n"), [(4, 4, 4), (4, 2, 2), (2, 2, 2), (3, 3, 3), (6, 5, 3), (2, 8, 4)])
def test_products_have_numpys_bits(m: int, k: int, n: int) -> None:
    done = 0
    for x in layouts(matrices(m, COUNT, m, k)):
        for y in layouts(matrices(n + 100, COUNT, k, n)):
            found = stacks.product(x, y)
            if found is not None:
                done += 1
                assert found.tobytes() == numpy.matmul(x, y).tobytes()
    assert done or not stacks._multiplies("dd", m, k, n, (True, True, False), (True, True, False))


@needs_extension
def test_a_matrix_with_its_own_transpose_is_left_to_numpy() -> None:
    x = matrices(1, COUNT, 4, 4)
    assert stacks.product(x, x.transpose(0, 2, 1)) is None


@needs_extension
@for_each("n", [2, 3, 4])
@for_each("kind", ["any", "symmetric", "diagonal", "permuted", "integers", "near"])
def test_inverses_have_numpys_bits(n: int, kind: str) -> None:
    x = matrices(n, 6000, n, n)
    if kind == "symmetric":
        x = x @ x.transpose(0, 2, 1) + numpy.eye(n)
    elif kind == "diagonal":
        x = x * numpy.eye(n)
    elif kind == "permuted":
        x = (x * numpy.eye(n))[:, ::-1]
    elif kind == "integers":
        x = numpy.round(3.0 * x)
        x = x[numpy.abs(numpy.linalg.det(x)) > 0.5]
    elif kind == "near":
        x = x * 1e-9 + numpy.ones((n, n))
    expected = numpy.linalg.inv(x)
    for given in layouts(x)[:4]:
        found = stacks.inverse(given)
        assert found is not None or not stacks._inverts(n)
        if found is not None:
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("spoil", ["singular", "zeros", "nan", "infinite", "tiny"])
def test_other_matrices_are_inverted_as_numpy_does(spoil: str) -> None:
    x = matrices(5, COUNT, 2, 2)
    x[1234] = {"singular": 1.0, "zeros": 0.0, "nan": numpy.nan, "infinite": numpy.inf, "tiny": 0.0}[spoil]
    if spoil == "tiny":
        x[1234] = 1e-310 * numpy.eye(2)
    said: list[Any] = []
    for library, given in ((numpy, x), (np, np.array(x))):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found: Any
            try:
                found = numpy.asarray(library.linalg.inv(given)).tobytes()
            except numpy.linalg.LinAlgError as error:
                found = str(error)
        said.append((found, [str(one.message) for one in heard]))
    assert said[0] == said[1]


def test_products_warn_as_numpys() -> None:
    x, y = matrices(6, 20_000, 4, 4), matrices(7, 20_000, 4, 4)
    x[77, 1, 2], y[77, 2, 3] = numpy.inf, 0.0
    said: list[Any] = []
    for library, one, other in ((numpy, x, y), (np, np.array(x), np.array(y))):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found = numpy.asarray(library.matmul(one, other))
        said.append((found.tobytes(), [str(one.message) for one in heard]))
    assert said[0] == said[1]


def test_a_program_gets_numpys_results_and_goes_on_recording() -> None:
    x, y = matrices(8, 20_000, 4, 4), matrices(9, 4, 4)
    expected = numpy.linalg.inv(y @ x @ y.T)[:, :, :2]
    ours = np.array(x)
    found = np.linalg.inv(y @ ours @ y.T)[:, :, :2]
    assert not elementwise.eager_errors
    assert numpy.asarray(found).tobytes() == expected.tobytes()


def complexes(seed: int, *shape: int) -> Any:
    return matrices(seed, *shape) + 1j * matrices(seed + 1, *shape)


@needs_extension
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("m", [3, 8])
def test_complex_products_of_few_elements_have_numpys_bits(m: int, n: int) -> None:
    """The left operand is a part of a large array, the right one complex or real, a matrix or a stack; some
    have zeros of both signs, numbers that are not finite, or no imaginary part."""
    large = complexes(n, 30, 20, m, 6)
    ours = np.array(large)
    unit = numpy.eye(6)[:, :n]
    rights = [complexes(m, 6, n), matrices(m, 6, n), complexes(m, 30, 6, n), matrices(m, n, 6).T, unit,
              -unit + 0j, numpy.zeros((6, n)), numpy.where(unit == 1, numpy.inf, 1.0)]
    for left in (slice(None), slice(None, None, -1), slice(1, 25)):
        for right in rights:
            if right.ndim == 3:
                right = right[left]
            with numpy.errstate(all="ignore"):
                expected = large[left, 3] @ right
                found = numpy.asarray(ours[left, 3] @ np.array(right, order="K"))
            assert found.tobytes() == expected.tobytes() and found.strides == expected.strides
    zeros = numpy.where(large[:, 4].real > 0.5, large[:, 4], 0.0)
    for matrix in (zeros, -zeros, zeros.real + 0j):
        expected = matrix @ rights[0]
        ours[:, 4] = matrix
        assert numpy.asarray(ours[:, 4] @ np.array(rights[0])).tobytes() == expected.tobytes()


@needs_extension
def test_large_complex_stacks_are_multiplied_here() -> None:
    x = complexes(11, COUNT, 5, 7)
    for y in (complexes(12, 7, 6), matrices(13, 7, 6)):
        found = stacks.product(x, y)
        assert found is not None or not stacks.agrees("D" + y.dtype.char, 5, 7, 6, 3, 2)
        assert found is None or found.tobytes() == numpy.matmul(x, y).tobytes()
    assert stacks.product(x, matrices(14, 6, 7).T) is None  # NumPy copies the matrix first
    assert stacks.product(matrices(15, COUNT, 5, 7), complexes(12, 7, 6)) is None
