"""Floating-point warnings: raised where NumPy raises them, and nowhere else, compiled and interpreted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import settings
from diffuse.numpy.bridge import errors as modes_followed
from diffuse.stream import engine
from tests.each import for_each
from tests.outcomes import silent, warned

pytestmark = pytest.mark.not_device("no floating-point flags are kept")

ORDINARY = numpy.random.default_rng(0).standard_normal(5001)
SPECIAL = numpy.array([numpy.inf, -numpy.inf, numpy.nan, 0.0, -0.0, 1e300, -1e300, 5e-324] * 8)
UNARY = """exp log sqrt sin cos tan arctan tanh sinh cosh arcsin arccosh log1p expm1 cbrt exp2 log2 log10
square reciprocal floor rint sign isfinite absolute negative""".split()
BINARY = """add subtract multiply divide maximum minimum fmax fmin less greater equal arctan2 hypot power
floor_divide remainder fmod copysign heaviside""".split()
COMPLEX = "exp log sqrt sin cos tanh arcsin arctanh log1p square absolute sign conjugate".split()


@pytest.fixture(params=["wait", "off"], autouse=True)
def recorded(request: pytest.FixtureRequest) -> Iterator[None]:
    engine.fence()
    with settings.using(compile=request.param, small=0, min_chunk=1000):
        yield
        engine.fence()


def said(np: Any, call: Callable[[Any], Any]) -> list[str]:
    """The kinds of warnings of a call, when its result is looked at."""
    with warned() as caught:
        result = call(np)
        if np is not numpy:
            engine.fence()
        del result
    return sorted(str(w.message).partition(" encountered")[0] for w in caught)


@pytest.mark.parametrize("values", [ORDINARY, SPECIAL, ORDINARY.astype("f4")],
                         ids=["ordinary", "special", "single"])
@for_each("name", UNARY)
def test_one_operand(name: str, values: Any) -> None:
    def call(np: Any) -> Any:
        return getattr(np, name)(np.array(values))

    assert said(diffuse.numpy, call) == said(numpy, call)


@pytest.mark.parametrize("values", [ORDINARY, SPECIAL], ids=["ordinary", "special"])
@for_each("name", BINARY)
def test_two_operands(name: str, values: Any) -> None:
    def call(np: Any) -> Any:
        return getattr(np, name)(np.array(values), np.array(numpy.roll(values, 9)))

    assert said(diffuse.numpy, call) == said(numpy, call)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", ["floor_divide", "divmod"])
def test_a_quotient_beyond_all_floats_overflows(name: str, kind: str) -> None:
    for values in ((1.0, 0.0), (1.0, numpy.finfo(kind).tiny / 4), (numpy.finfo(kind).max, 0.5), (3.0, 2.0)):
        def call(np: Any, values: Any = values) -> Any:
            return getattr(np, name)(*[np.full(3000, x, kind) for x in values])

        assert said(diffuse.numpy, call) == said(numpy, call), values


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["spacing", "modf", "nextafter", "floor_divide"])
def test_an_operation_beside_others_raises_none_of_their_flags(name: str, kind: str) -> None:
    """The flags of a task count for all operations in it that may raise them."""
    values = numpy.array([numpy.inf, -numpy.inf, numpy.nan, 1.5] * 8, kind)
    divisors = numpy.array([0.0, 0.0, numpy.nan, 1.5] * 8, kind) if name == "floor_divide" else values

    def call(np: Any) -> Any:
        operands = [np.array(x) for x in (values, divisors)]
        return getattr(np, name)(*operands[:getattr(numpy, name).nin]), operands[0][3::4] / operands[0][3::4]

    theirs = [] if name == "spacing" else said(numpy, call)
    assert said(diffuse.numpy, call) == theirs


@pytest.mark.parametrize("values", [ORDINARY + 1j * ORDINARY[::-1], numpy.zeros(5000, complex)],
                         ids=["ordinary", "zero"])
@for_each("name", COMPLEX)
def test_complex_operands(name: str, values: Any) -> None:
    def call(np: Any) -> Any:
        return getattr(np, name)(np.array(values))

    assert said(diffuse.numpy, call) == said(numpy, call)


def test_the_warning_is_at_the_users_line() -> None:
    x = diffuse.numpy.array(ORDINARY)
    with warned() as caught:
        y = diffuse.numpy.sqrt(x)
        engine.fence()
        del y
    assert [w.filename for w in caught] == [__file__]
    assert str(caught[0].message) == "invalid value encountered in sqrt"


def test_ignored_errors_are_silent() -> None:
    with silent():
        with diffuse.numpy.errstate(all="ignore"):
            y = diffuse.numpy.log(diffuse.numpy.array(-numpy.ones(5000)))
        engine.fence()
        assert numpy.isnan(numpy.asarray(y)).all()


def test_an_error_that_raises_raises_at_the_call() -> None:
    x = diffuse.numpy.zeros(5000)
    with diffuse.numpy.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        1.0 / x
    assert float((x + 1).sum()) == 5000.0


def test_the_warning_is_at_the_line_of_this_call_not_of_the_first_like_it() -> None:
    lines: list[int] = []
    for _ in range(2):
        with warned() as caught:
            x = diffuse.numpy.array(ORDINARY)
            if not lines:
                y = diffuse.numpy.arcsin(x)
            else:
                y = diffuse.numpy.arcsin(x)
            engine.fence()
            del y
        lines += [w.lineno for w in caught]
    assert lines[1] == lines[0] + 2


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_nan_is_found_without_a_warning(name: str) -> None:
    x = numpy.arange(40000.0)
    x[777] = numpy.nan
    with silent():
        assert int(getattr(diffuse.numpy.array(x), name)()) == 777
        engine.fence()


INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
DIVISIONS = "floor_divide remainder fmod divmod".split()


def messages(call: Callable[[Any], Any], np: Any) -> tuple[list[str], list[bytes]]:
    """The warnings of a call, and the bytes of its results."""
    with warned() as caught:
        found = call(np)
        parts = found if isinstance(found, tuple) else (found,)
        values = [numpy.asarray(part).tobytes() for part in parts]
    return sorted(str(w.message).partition(" (")[0] for w in caught), values


def one(dtype: str, ordinary: int, special: int) -> Any:
    """2003 elements, one of which is special."""
    found = numpy.full(2003, ordinary, dtype)
    found[777] = special
    return found


@for_each("dtype", INTEGERS)
@for_each("name", DIVISIONS)
def test_divisions_of_integers(name: str, dtype: str) -> None:
    least, most = numpy.iinfo(dtype).min, numpy.iinfo(dtype).max
    for a, b in [(7, 3), (7, 0), (0, 0), (most, most), *([(least, -1), (7, -1)] if least else [])]:
        x, y = one(dtype, 5, a), one(dtype, 2, b)
        for first, second in ((x, y), (x, b), (a, y)):
            def call(np: Any) -> Any:
                return getattr(np, name)(*[np.array(v) if isinstance(v, numpy.ndarray) else v
                                           for v in (first, second)])

            (ours, ours_values), (theirs, values) = messages(call, diffuse.numpy), messages(call, numpy)
            assert ours_values == values
            if name == "divmod":  # two operations to us
                ours = [w.replace("floor_divide or remainder", name).replace("floor_divide", name)
                        for w in ours]
            assert ours == theirs


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_reciprocal_of_an_integer(dtype: str) -> None:
    for special in (0, 1, numpy.iinfo(dtype).min, numpy.iinfo(dtype).max):
        def call(np: Any) -> Any:
            return np.reciprocal(np.array(one(dtype, 5, special)))

        assert messages(call, diffuse.numpy) == messages(call, numpy)


@pytest.mark.parametrize("small", [0, 16384])
@pytest.mark.parametrize("call", [
    lambda np, x: x // 0, lambda np, x: x % 0, lambda np, x: np.fmod(x, 0),
    lambda np, x: (x - 2 ** 62 - 2 ** 62) // -1,
    lambda np, x: np.reciprocal(x),
], ids=["floor_divide", "remainder", "fmod", "over", "reciprocal"])
def test_error_modes_of_integers(call: Callable[[Any, Any], Any], small: int) -> None:
    """Every mode does with integers what it does in NumPy, recorded and at once."""
    def run(np: Any, mode: str) -> tuple[Any, ...]:
        heard: list[Any] = []
        before = numpy.seterrcall(lambda text, flag: heard.append((text, flag)))
        try:
            with np.errstate(all=mode), warned() as caught:
                numpy.asarray(call(np, np.arange(5000)))
        except FloatingPointError as error:
            heard.append(str(error))
        finally:
            numpy.seterrcall(before)
        return heard, sorted(str(w.message) for w in caught)

    with settings.using(small=small):
        for mode in ("ignore", "warn", "raise", "call"):
            assert run(diffuse.numpy, mode) == run(numpy, mode)


@pytest.mark.parametrize("call", [
    lambda np, x: x.astype("f4"), lambda np, x: x.astype(int), lambda np, x: x.sum(),
    lambda np, x: x.prod(), lambda np, x: x.cumsum(), lambda np, x: x.cumprod(),
    lambda np, x: np.nextafter(x, np.inf),
    lambda np, x: np.full(5001, np.nan, dtype=int), lambda np, x: np.full_like(x, -np.inf, dtype="i4"),
], ids="cast invalid sum prod cumsum cumprod nextafter full full_like".split())
def test_warnings_name_the_operation_as_numpy_does(call: Callable[[Any, Any], Any]) -> None:
    def ours(np: Any) -> Any:
        return call(np, np.full(5001, numpy.finfo(float).max))

    assert messages(ours, diffuse.numpy)[0] == messages(ours, numpy)[0]


@pytest.mark.parametrize("n", [4999, 5003])
def test_there_are_no_errors_behind_the_last_index(n: int) -> None:
    def call(np: Any) -> Any:
        return 1 // (np.arange(n) - n), 1 / (np.arange(float(n)) - n)

    assert messages(call, diffuse.numpy)[0] == []


def test_a_half_by_itself_raises_no_flag_of_what_else_is_in_its_register() -> None:
    values = numpy.random.default_rng(1).standard_normal((60, 96)).astype("float16")
    with settings.using(small=0, compile="wait"), silent():
        x, largest = diffuse.numpy.array(values), diffuse.numpy.array(values.max(-1, keepdims=True))
        found = diffuse.numpy.exp(x - largest).sum(-1)
        expected = numpy.exp(values - values.max(-1, keepdims=True)).sum(-1)
        assert numpy.allclose(numpy.asarray(found), expected, 1e-2)


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_casts_in_writes_through_indices_warn_of_nan(source: str) -> None:
    for dtype in "int8", "uint16", "int32", "uint32", "uint64":
        def call(np: Any, dtype: str = dtype) -> Any:
            x, values = np.zeros(40, dtype), np.array(numpy.full(30, numpy.nan, source))
            x[np.arange(30)] = values
            return x

        assert said(diffuse.numpy, call) == said(numpy, call) == ["invalid value"]


@pytest.mark.filterwarnings("ignore")
def test_blocks_that_record_warnings_are_told_of_results_that_nobody_kept() -> None:
    np = diffuse.numpy
    x = np.array([numpy.nan, 1.0, 0.0])

    def forgotten() -> None:
        x.astype("int32")
        y = 1 / x
        np.sqrt(y, out=y)

    for errors in (), ("divide by zero", "invalid value"):
        with warnings.catch_warnings(record=bool(errors)) as caught:
            warnings.simplefilter("always")
            forgotten()
        if errors:
            assert caught is not None
            assert sorted(str(w.message).partition(" encountered")[0] for w in caught) == list(errors)
        assert not engine._engine.stores.instances.keys() - engine._engine.stores.alive


def test_blocks_that_record_warnings_are_told_of_results_that_were_overwritten() -> None:
    def overwritten(np: Any, dtype: str, shape: tuple[int, ...]) -> list[str]:
        a, kept = np.zeros(shape, dtype), np.ones(shape, dtype)
        with warned() as caught:
            a //= a
            b = ~a
            a[...] = 0
            a += kept
        assert numpy.array_equal(numpy.asarray(a), numpy.ones(shape))
        repr(b)
        return [str(w.message).partition(" (")[0] for w in caught]

    with settings.using(small=0):
        for case in ("int8", ()), ("int64", (3,)), ("uint16", (300,)):
            assert overwritten(diffuse.numpy, *case) == overwritten(numpy, *case)


@pytest.mark.parametrize("name", ["degrees", "rad2deg"])
def test_degrees_beyond_all_floats(name: str) -> None:
    caught: list[Any] = []
    for library, small in ((numpy, 0), (diffuse.numpy, 0)):
        with settings.using(small=small), warned() as found:
            repr(getattr(library, name)(library.full(7, 1e308)))
        caught.append([str(w.message) for w in found])
    assert caught[0] == caught[1] == [f"overflow encountered in {name}"]


def test_a_number_beyond_the_type_of_the_array_warns_once() -> None:
    with settings.using(small=0), warned() as caught:
        for number in (1.5e300, 70_000):
            repr(diffuse.numpy.ones(11, dtype="f2") * number)
    assert [str(w.message) for w in caught] == 2 * ["overflow encountered in cast"]


def test_a_product_of_matrices_warns_at_its_line() -> None:
    def multiply() -> int:
        factor = diffuse.numpy.ones((300, 300)) * 1e300
        product = factor @ factor
        repr(product)
        return multiply.__code__.co_firstlineno + 2

    with settings.using(small=0), warned() as caught:
        line = multiply()
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]


@pytest.mark.parametrize("small", [0, 16384])
@pytest.mark.parametrize("call", [
    lambda np, x, m: x @ x, lambda np, x, m: np.matmul(x, x), lambda np, x, m: np.dot(x, x),
    lambda np, x, m: x.dot(x), lambda np, x, m: np.inner(x, x), lambda np, x, m: m @ m,
    lambda np, x, m: m.dot(m), lambda np, x, m: np.dot(m, m[0]), lambda np, x, m: m[0] @ m,
    lambda np, x, m: np.inner(m[0], m), lambda np, x, m: np.dot(m * 1j, m),
], ids="@ matmul dot method inner matrices dot2 dot21 @12 inner12 complex".split())
def test_warnings_of_products_name_the_function_that_was_called(call: Callable[..., Any], small: int) -> None:
    def ours(np: Any) -> Any:
        return call(np, np.full(40000, 1e200), np.full((200, 200), 1e200))

    with settings.using(small=small):
        assert messages(ours, diffuse.numpy)[0] == messages(ours, numpy)[0]


@pytest.mark.parametrize("method, options", [("mean", {"where": False}), ("var", {"ddof": 99}),
                                             ("std", {"ddof": 99})])
def test_warnings_of_moments_are_where_numpys_are(method: str, options: Any) -> None:
    def call(library: Any) -> Any:
        x = library.ones(7)
        return repr((getattr(x, method)(**options), getattr(library, method)(x, **options)))

    told = []
    for library in (numpy, diffuse.numpy):
        with settings.using(small=0), warned() as caught:
            call(library)
        told.append([(str(w.message), w.filename, w.lineno) for w in caught])
    assert told[0] == told[1] and told[0]


def test_the_modes_of_linalg_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It enters them around single functions in C; a mode that holds around its functions is followed."""
    np = diffuse.numpy
    monkeypatch.setattr(modes_followed, "_watching", False)
    with numpy.errstate(all="ignore"):
        pending = np.ones(30_000) / 0.0
    modes = numpy.geterr()
    for call in (np.linalg.inv, np.linalg.eigvalsh, np.linalg.cholesky, np.linalg.svd, np.linalg.qr):
        call(np.eye(3) * 2.0)
    with pytest.raises(numpy.linalg.LinAlgError, match="Singular"):
        np.linalg.inv(np.zeros((3, 3)))
    assert numpy.geterr() == modes and not modes_followed._watching
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert numpy.isinf(numpy.asarray(pending)).all()
    with numpy.errstate(divide="raise"):
        assert numpy.array_equal(np.linalg.inv(np.eye(3)), numpy.eye(3))
        with pytest.raises(FloatingPointError):
            np.ones(30_000) / 0.0
