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
@pytest.mark.parametrize("matrix_first", [True, False])
def test_a_matrix_and_a_vector(name: str, small: int, matrix_first: bool) -> None:
    def product(library: Any, matrix: Any, vector: Any) -> Any:
        if matrix_first:
            return getattr(library, name)(matrix, vector)
        return getattr(library, name)(vector, matrix if name == "inner" else matrix.T)

    with using(small=small):
        plain, ours = operands(numpy), operands(np)
        for of_matrix in plain[0]:
            for of_vector in plain[1]:
                expected = product(numpy, plain[0][of_matrix], plain[1][of_vector])
                found = product(np, ours[0][of_matrix], ours[1][of_vector])
                assert (expected == numpy.array(found)).all(), (of_matrix, of_vector)
