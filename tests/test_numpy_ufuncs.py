"""diffuse.numpy.ops.ufuncs: every ufunc on every type, with all its arguments, against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse.numpy.arrays.array import ndarray
from diffuse.numpy.ops.creation import arange, ones, zeros
from diffuse.numpy.ops.operands import wrap
from diffuse.numpy.ops.ufuncs import UFUNCS, ufunc
from tests.each import for_each
from tests.outcomes import silent, unwarned

pytestmark = pytest.mark.usefixtures("threshold")

TYPES = "?bBhHiIlLefdFD"
ULP = {"e": 2.0**-9, "f": 2.0**-20, "d": 2.0**-49, "F": 2.0**-18, "D": 2.0**-46}
"""Allowed relative error by result type, where NumPy's rounding is not the specification."""


def sample(kind: str) -> Any:
    values = numpy.array([1, 2, 3, 0, 1, 5, 2, 100, 7, 1.0])
    if kind in "efdFD":
        values = values / 8 - numpy.array([0, 0, 0, 0, 1, 1, 0.5, 0, 0.25, 0])
    return values.astype(kind)


def close(ours: Any, plain: Any) -> None:
    assert isinstance(ours, ndarray), type(ours)
    got = numpy.array(ours)
    assert got.dtype == plain.dtype and got.shape == plain.shape
    if plain.dtype.kind not in "fc":
        assert numpy.array_equal(got, plain)
        return
    tolerance = ULP[plain.dtype.char]
    assert numpy.allclose(got, plain, rtol=tolerance, atol=tolerance, equal_nan=True), (got, plain)


@for_each("name", sorted({f.__name__ for f in UFUNCS.values() if f.recordable and f.nout == 1}))
def test_every_ufunc_on_every_type(name: str) -> None:
    function, real = UFUNCS[name], getattr(numpy, name)
    with unwarned():
        for signature in {s.partition("->")[0] for s in real.types}:
            if not set(signature) <= set(TYPES):
                continue
            args = [sample(kind) for kind in signature]
            if name in ("left_shift", "right_shift", "power", "ldexp") and args[1].dtype.kind in "iu":
                args[1] = args[1] % 3
            close(function(*[wrap(a.copy()) for a in args]), real(*args))


@pytest.mark.parametrize("name", ["divmod", "modf", "frexp"])
def test_two_results(name: str) -> None:
    args = [sample("d") + 1] * getattr(numpy, name).nin
    for ours, plain in zip(
        UFUNCS[name](*[wrap(a.copy()) for a in args]), getattr(numpy, name)(*args), strict=True
    ):
        close(ours, plain)


OPERANDS = [
    2,
    -3,
    2.5,
    True,
    1j,
    numpy.float32(2),
    numpy.int8(3),
    numpy.uint64(7),
    numpy.float64(-1.5),
    numpy.True_,
]
OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: b - a,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: b / (a + 200),
    lambda a, b: a < b,
    lambda a, b: a == b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: a**b,
    lambda a, b: a & b,
    lambda a, b: b | a,
    lambda a, b: a << b,
    lambda a, b: b >= a,
    lambda a, b: -a + +a,
    lambda a, b: abs(a),
    lambda a, b: ~a,
    lambda a, b: b**a,
    lambda a, b: divmod(a, b)[0],
    lambda a, b: a ^ b,
]


@pytest.mark.parametrize("dtype", TYPES)
@for_each("number", OPERANDS)
def test_scalars_promote_as_numpys_do(dtype: str, number: Any) -> None:
    plain = sample(dtype)
    with unwarned():
        for operation in OPERATORS:
            try:
                expected, error = operation(plain, number), None
            except Exception as problem:
                expected, error = None, problem
            if error is None:
                close(operation(wrap(plain.copy()), number), expected)
            else:
                with pytest.raises(type(error)) as raised:
                    operation(wrap(plain.copy()), number)
                assert str(raised.value) == str(error)


def test_out_where_dtype_casting_and_order() -> None:
    plain = numpy.arange(12.0).reshape(3, 4)
    mask = plain % 3 == 0
    for np, x, m in ((numpy, plain, mask), (None, wrap(plain.copy()), wrap(mask.copy()))):
        f: Any = numpy if np else type("Ours", (), dict(UFUNCS))
        out = x * 0
        returned = f.add(x, 5, out=out)
        assert returned is out
        f.multiply(x, 2, out=out, where=m)
        f.add(x, 1, out=(out,), where=m, casting="same_kind")
        narrow = f.add(x, 1, dtype=numpy.float32)
        whole = f.true_divide(x, 3, out=(x * 0).astype(numpy.float32))
        turned = f.add(x.T, 1)
        ordered = f.add(x.T, 1, order="C")
        results = [out, narrow, whole, turned, ordered, f.add(x, x, x * 0), f.subtract(x[0], 1, out=x * 0)]
        if np:
            expected = results
    for ours, real in zip(results, expected, strict=True):
        close(ours, real)
        assert ours.strides == real.strides
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output from"):
        UFUNCS["add"](arange(3.0), 1, out=arange(3))
    with pytest.raises(ValueError, match="non-broadcastable output operand with shape"):
        UFUNCS["add"](arange(3.0), 1, out=zeros(1))


def test_masked_lanes_raise_no_warning() -> None:
    x, mask = wrap(numpy.array([1.0, 0.0, 4.0])), wrap(numpy.array([True, False, True]))
    out = zeros(3)
    with silent():
        UFUNCS["divide"](1.0, x, out=out, where=mask)
        assert out.tolist() == [1, 0, 0.25]


def test_out_may_be_a_numpy_array() -> None:
    plain = numpy.zeros(5)
    assert UFUNCS["add"](arange(5.0), 1, out=plain) is plain
    assert plain.tolist() == [1, 2, 3, 4, 5]


def test_methods() -> None:
    x, plain = arange(12.0).reshape(3, 4), numpy.arange(12.0).reshape(3, 4)
    for name in ("add", "multiply", "maximum", "minimum"):
        ours, real = UFUNCS[name], getattr(numpy, name)
        close(ours.reduce(x), real.reduce(plain))
        close(ours.reduce(x, axis=1, keepdims=True), real.reduce(plain, axis=1, keepdims=True))
        close(ours.accumulate(x, axis=1), real.accumulate(plain, axis=1))
        close(ours.outer(x[0], x[1]), real.outer(plain[0], plain[1]))
        close(ours.reduceat(x, [0, 2], axis=1), real.reduceat(plain, [0, 2], axis=1))
    UFUNCS["add"].at(x, ([0, 0], [1, 1]), 5)
    assert x[0, 1] == 11


def test_attributes_are_numpys() -> None:
    add = UFUNCS["add"]
    assert isinstance(add, ufunc) and repr(add) == "<ufunc 'add'>" and add.__name__ == "add"
    assert (add.nin, add.nout, add.nargs, add.identity, add.types) == (2, 1, 3, 0, numpy.add.types)
    assert UFUNCS["absolute"] is UFUNCS["abs"] and add.resolve_dtypes is not None


def test_powers() -> None:
    plain = numpy.array([0.5, 1.5, -2.0, 3.25])
    for exponent in (2, 3, 0.5, -1, 2.0, 1, 0):
        with numpy.errstate(invalid="ignore"):
            close(wrap(plain.copy()) ** exponent, plain ** exponent)
    assert (arange(5) ** 2).tolist() == [0, 1, 4, 9, 16]
    for wrong in (-1, wrap(numpy.array([1, -1, 1]))):
        with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
            (arange(3) + 1) ** wrong


def test_matmul() -> None:
    a, b = numpy.arange(6.0).reshape(2, 3), numpy.arange(12.0).reshape(3, 4)
    close(wrap(a.copy()) @ wrap(b.copy()), a @ b)
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        wrap(a.copy()) @ wrap(a.copy())


def test_errors_shown_at_once_when_asked() -> None:
    with (
        numpy.errstate(divide="raise"),
        pytest.raises(FloatingPointError, match="divide by zero encountered in divide"),
    ):
        ones(5) / zeros(5)
    seen: list[str] = []
    with numpy.errstate(all="call"):
        before = numpy.seterrcall(lambda text, flag: seen.append(text))
        ones(5) / zeros(5)
        numpy.seterrcall(before)
    assert seen == ["divide by zero"]


def test_other_libraries_may_answer() -> None:
    class Other:
        __array_ufunc__ = None

        def __radd__(self, x: Any) -> str:
            return "answered"

    assert arange(3) + Other() == "answered"


def test_lists_and_objects() -> None:
    assert (arange(3) + [1, 2, 3]).tolist() == [1, 3, 5] and numpy.asarray(
        [1, 2, 3] * arange(3)
    ).tolist() == [0, 2, 6]
    assert (arange(2) + numpy.array([None, 1], object)[1:]).tolist() == [1, 2]
    assert (arange(3) == None).tolist() == [False] * 3  # noqa: E711
    assert (arange(3) == "text").tolist() == [False] * 3


@pytest.mark.parametrize("name", ["exp", "sin", "arctan2"])
def test_an_output_array_does_not_change_the_bits(name: str) -> None:
    """NumPy's own function, whose last place differs, is not taken for small arrays."""
    plain = numpy.random.default_rng(8).uniform(-3, 3, (2, 4000))
    arrays = [diffuse.numpy.array(row) for row in plain[:2 if name == "arctan2" else 1]]
    out, double = diffuse.numpy.empty(4000), diffuse.numpy.empty(4000, complex)
    function = getattr(diffuse.numpy, name)
    assert function(*arrays, out=out) is out
    function(*arrays, out=double)
    want = numpy.asarray(function(*arrays))
    assert numpy.array_equal(numpy.asarray(out), want) and numpy.array_equal(numpy.asarray(double).real, want)
    target = arrays[0][::-1]
    function(*arrays, out=target)
    assert numpy.array_equal(numpy.asarray(target), want)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_any_number_of_decimals_rounds_as_numpy(dtype: str) -> None:
    values = numpy.random.default_rng(2).standard_normal(300) * 1e3
    for decimals in (0, 1, -2, 22, 23, 29, -26, 300, 400, -400, numpy.int8(3), True):
        found = diffuse.numpy.round(wrap(values.astype(dtype)), decimals)
        assert numpy.array_equal(found, numpy.round(values.astype(dtype), decimals), equal_nan=True), decimals


@pytest.mark.parametrize("exponent", [-2, 2, 0.5, 3])
def test_powers_refuse_casts_as_numpy(exponent: Any) -> None:
    """NumPy 2.4 itself would crash if it was asked for the types."""
    for m in (numpy, diffuse.numpy):
        with pytest.raises(TypeError, match="under the casting rule 'equiv'"):
            m.power(m.ones(300, "f2"), exponent, casting="equiv", where=m.ones(300, bool))
