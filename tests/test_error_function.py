"""The approximations of erf and erfc, against series and continued fractions in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from diffuse.kernels.llvm.math import error_function
from tests import precise
from tests.precise import LONG, long, polynomial, root_pi


def erf_exponent(coefficients: tuple[float, ...], x: Any) -> Any:
    if coefficients is not error_function.ERF_ABOVE:
        return polynomial(coefficients, x) * x
    below = polynomial(error_function.ERF_BELOW, x)
    return (polynomial(coefficients, x) / below * x + LONG(error_function.ERF_SLOPE)) * x


def erf_error(coefficients: tuple[float, ...]) -> Any:
    """1 - e^-p against erf, from its series in integers scaled by 2^200."""
    errors, one = [], 1 << 200
    for x in np.linspace(0.01, 6 if coefficients is error_function.ERF_ABOVE else 4, 60).tolist():
        term = total = int(Fraction(x) * one)
        square, k = Fraction(x) * Fraction(x), 0
        while term:
            k += 1
            term = int(-term * square / k)
            total += term // (2 * k + 1)
        exact = Fraction(2 * total, one) / root_pi()
        p = erf_exponent(coefficients, LONG(x))
        errors.append(float((np.expm1(-p) + long(exact)) / long(exact)))
    return np.array(errors)


def scaled_tail(x: Fraction, size: int = 1 << 240) -> Fraction:
    """e^(x^2) erfc x = 2 / sqrt pi / (2 x + 2 / (2 x + 4 / (2 x + 6 / ...))), in fractions of `size`."""
    twice, below = int(2 * x * size), size
    for k in range(400 + int(2000 / x), 0, -1):
        below = twice + 2 * k * size * size // below
    return Fraction(2 * size, below)


def erfc_error(coefficients: tuple[float, ...]) -> Any:
    wide = coefficients is error_function.ERFC_ABOVE
    divisor = error_function.ERFC_BELOW if wide else error_function.ERFC_SHORT_BELOW
    errors: list[float] = []
    for x in np.linspace(0.5, 26.7 if wide else 10.1, 40).tolist():
        q = polynomial(coefficients, LONG(x)) / polynomial(divisor, LONG(x)) * x
        scale = 1 + Fraction(error_function.ROOT_PI) * Fraction(x)
        errors.append(float((q - long(scaled_tail(Fraction(x)) / root_pi() * scale - 1)) / (1 + q)))
    return np.array(errors)


@pytest.mark.parametrize("error, coefficients, bound", [
    (erf_error, error_function.ERF_ABOVE, -53.8), (erf_error, error_function.ERF_SHORT, -27.8),
    (erfc_error, error_function.ERFC_ABOVE, -57.0), (erfc_error, error_function.ERFC_SHORT_ABOVE, -32.0),
])
def test_approximations(error: Callable[[tuple[float, ...]], Any], coefficients: tuple[float, ...],
                        bound: float) -> None:
    worst = float(np.abs(error(coefficients)).max())
    assert bound - 1.5 < math.log2(worst) < bound


def test_references() -> None:
    x = np.array([-3.0, -0.5, 0.0, 1e-20, 0.5, 1.75, 2.25, 5.0, 20.0])
    for found, function in ((precise.erf(x), math.erf), (precise.erfc(x), math.erfc)):
        want = np.array([function(v) for v in x.tolist()])
        assert (abs(found - want) <= 2 * np.spacing(abs(want))).all()
