"""Products of a vector and a matrix have the bits of NumPy's function of the same name.

Where an operand has elements at equal distances, in reverse order, or of another type, `dot` and `inner` copy
it and leave the product to BLAS, while `matmul` may add up in an order of its own.
"""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.settings import using

ROWS, COLUMNS = 70, 300


def operands(library: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Matrices and vectors in several layouts."""
    random = numpy.random.default_rng(0)
    matrix = library.array(random.standard_normal((2 * ROWS, 2 * COLUMNS)))
    vector = library.array(random.standard_normal(2 * COLUMNS))
    part = matrix[:ROWS, :COLUMNS]
    matrices = {"part": part, "whole": part.copy(), "turned": part.T.copy().T, "reversed": part[:, ::-1],
                "every other": matrix[::2, ::2], "pending": part + 0, "single": part.astype("f4")}
    vectors = {"whole": vector[:COLUMNS], "every other": vector[::2], "reversed": vector[:COLUMNS][::-1],
               "pending": vector[:COLUMNS] + 0, "column": matrix[0].reshape(-1, 2)[:, 1]}
    return matrices, vectors


@pytest.mark.parametrize("small", [0, 100])
@pytest.mark.parametrize("name", ["dot", "inner", "matmul"])
def test_a_matrix_and_a_vector(name: str, small: int) -> None:
    with using(small=small):
        plain, ours = operands(numpy), operands(np)
        for of_matrix in plain[0]:
            for of_vector in plain[1]:
                expected = getattr(numpy, name)(plain[0][of_matrix], plain[1][of_vector])
                found = getattr(np, name)(ours[0][of_matrix], ours[1][of_vector])
                assert (expected == numpy.array(found)).all(), (of_matrix, of_vector)


@pytest.mark.parametrize("small", [0, 100])
@pytest.mark.parametrize("name", ["dot", "inner", "matmul"])
def test_a_vector_and_a_matrix(name: str, small: int) -> None:
    with using(small=small):
        plain, ours = operands(numpy), operands(np)
        for of_matrix in plain[0]:
            for of_vector in plain[1]:
                turned = [m[0][of_matrix] if name == "inner" else m[0][of_matrix].T for m in (plain, ours)]
                expected = getattr(numpy, name)(plain[1][of_vector], turned[0])
                found = getattr(np, name)(ours[1][of_vector], turned[1])
                assert (expected == numpy.array(found)).all(), (of_matrix, of_vector)
