"""Random NumPy programs, run by NumPy and by Diffuse side by side, live arrays compared after every step.

A program works on a handful of arrays of all element types: views of views, in-place operators, assignments
that overlap, broadcasting, empty and 0-d arrays.  All of it is exact arithmetic, so results must be equal
bit by bit; where NumPy raises, Diffuse must raise the same exception with the same words.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuse.numpy.arrays.array import ndarray
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.ops.operands import wrap
from diffuse.numpy.small import native
from diffuse.settings import config
from tests.each import rounds
from tests.kinds import is_ours
from tests.outcomes import unwarned
from tests.test_fuzz_stream import stream

DTYPES = (
    "float64",
    "float64",
    "float64",
    "int64",
    "int32",
    "int8",
    "uint8",
    "uint16",
    "bool",
    "float32",
    "complex128",
    "complex64",
    "float16",
    "uint64",
)
SHAPES: tuple[tuple[int, ...], ...] = (
    (5,),
    (4, 5),
    (3, 4, 5),
    (1,),
    (4, 1),
    (1, 5),
    (0,),
    (4, 0),
    (),
    (6, 6),
    (17,),
)
BINARY: tuple[str, ...] = (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "less",
    "less_equal",
    "greater",
    "equal",
    "not_equal",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
    "logical_xor",
    "divide",
    "floor_divide",
    "remainder",
    "fmax",
    "fmin",
    "copysign",
)
UNARY: tuple[str, ...] = (
    "negative",
    "absolute",
    "square",
    "logical_not",
    "invert",
    "sign",
    "isnan",
    "isfinite",
    "floor",
    "sqrt",
    "signbit",
    "conjugate",
    "positive",
    "rint",
)
if os.environ.get("DIFFUSE_RUNTIME") == "cuda":  # NaNs that a GPU makes are positive, those of x86 negative
    BINARY = tuple([name for name in BINARY if name != "copysign"])
    UNARY = tuple([name for name in UNARY if name != "signbit"])
INPLACE: dict[str, Callable[[Any, Any], Any]] = {}
for _name, _text in {"iadd": "+", "isub": "-", "imul": "*", "itruediv": "/", "ifloordiv": "//", "iand": "&",
                     "ior": "|"}.items():
    _scope: dict[str, Any] = {}
    exec(f"def f(a, b):\n    a {_text}= b\n    return a", _scope)
    INPLACE[_name] = _scope["f"]
EXACT_FOLDS = ("max", "min", "any", "all", "argmax", "argmin")
EXTREMES = ("max", "min", "fmin", "fmax", "maximum", "minimum")
"""Of two zeros with different signs NumPy takes now one, now the other: not tried on those."""


class Pair:
    """The same array twice."""

    def __init__(self, plain: Any, ours: Any) -> None:
        self.plain, self.ours = plain, ours


class Program:
    """A random program; its text is kept so that a failure can be read."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.live: list[Pair] = []
        for _ in range(3):
            self.create()

    def create(self) -> None:
        shape, dtype = self.random.choice(SHAPES), self.random.choice(DTYPES)
        count = int(numpy.prod(shape))
        values = [self.random.choice((0, 1, 2, 3, -1, -7, 5, 100, 0.5, -0.0, 1.25)) for _ in range(count)]
        plain = numpy.array(values).reshape(shape).astype(dtype)
        order = self.random.choice("CCF")
        plain = numpy.asfortranarray(plain) if order == "F" else plain
        self.lines.append(f"x{len(self.live)} = {shape} {dtype} {order} {plain.tolist()}")
        self.live.append(Pair(plain, wrap(plain.copy(order="K"))))

    def index(self, shape: tuple[int, ...]) -> Any:
        """A basic index of a shape, sometimes out of bounds."""
        pick = self.random
        parts: list[Any] = []
        for n in shape[:pick.randint(0, len(shape))]:
            kind = pick.random()
            if kind < 0.2:
                parts.append(pick.randint(-n, n) if n else pick.randint(-1, 0))
            else:
                first, last = (pick.choice((None, pick.randint(-n - 1, n + 1))) for _ in range(2))
                parts.append(slice(first, last, pick.choice((None, None, 1, 2, -1, -2, 3))))
        if pick.random() < 0.2:
            parts.insert(pick.randint(0, len(parts)), None)
        if pick.random() < 0.2:
            parts.append(Ellipsis)
        return tuple(parts) if len(parts) != 1 or pick.random() < 0.5 else parts[0]

    def operand(self) -> tuple[Any, Any, str]:
        pick = self.random
        if pick.random() < 0.25:
            value = pick.choice(
                (2, -3, 0, 1.5, True, 7, 300, 1j, numpy.float32(1.5), numpy.int8(3), numpy.float64(-2))
            )
            return value, value, repr(value)
        k = pick.randrange(len(self.live))
        return self.live[k].plain, self.live[k].ours, f"x{k}"

    def step(self) -> None:
        """One statement, run on both; results join the live arrays."""
        pick = self.random
        k = pick.randrange(len(self.live))
        a = self.live[k]
        run, text = self.statement(a, f"x{k}")
        self.lines.append(text)
        (first, error), (second, other) = attempt(run, 0), attempt(run, 1)
        if error is not None or other is not None:
            self.same_error(error, other)
        elif isinstance(first, numpy.ndarray):
            of_numpy = type(a.ours) is numpy.ndarray  # whose methods are NumPy's, and so are their results
            assert of_numpy or is_ours(second), self.text(f"{type(second)} is no array")
            if first.size < 400:
                self.live.append(Pair(first, second))
        elif first is not None:
            self.compare(first, second, "the result")
        if len(self.live) > 8:
            self.live.pop(pick.randrange(len(self.live)))
        self.check()

    def statement(self, a: Pair, name: str) -> tuple[Callable[[int], Any], str]:
        pick = self.random
        both = (a.plain, a.ours)
        kind = pick.randrange(13)
        if kind <= 1:
            at = self.index(a.plain.shape)
            return lambda s: both[s][at], f"{name}[{at}]"
        if kind <= 3:
            at = self.index(a.plain.shape)
            value = self.operand()
            return lambda s: both[s].__setitem__(at, value[s]), f"{name}[{at}] = {value[2]}"
        if kind <= 5:
            operation, value = pick.choice(BINARY), self.operand()
            operation = _settled(operation, a.plain, value[0])
            return (lambda s: function(operation, s)(both[s], value[s])), f"{operation}({name}, {value[2]})"
        if kind == 6:
            operation = pick.choice(UNARY)
            return (lambda s: function(operation, s)(both[s])), f"{operation}({name})"
        if kind <= 8:
            operation, value = pick.choice(list(INPLACE)), self.operand()
            return (lambda s: _quiet(INPLACE[operation], both[s], value[s])), \
                f"{operation}({name}, {value[2]})"
        if kind == 9:
            at, value = self.index(a.plain.shape), self.operand()
            operation = pick.choice(list(INPLACE))
            return (lambda s: _update(INPLACE[operation], both[s], at, value[s])), \
                f"{operation}({name}[{at}], {value[2]})"
        if kind == 10:
            return self.view(a, name)
        if kind == 11:
            operation = _settled(pick.choice(EXACT_FOLDS), a.plain, 0, "any")
            axis = pick.choice((None, 0, -1, 1, 5))
            keep = pick.random() < 0.3
            return (lambda s: getattr(both[s], operation)(axis=axis, keepdims=keep)), \
                f"{name}.{operation}(axis={axis}, keepdims={keep})"
        operation, value = pick.choice(BINARY), self.operand()
        operation = _settled(operation, a.plain, value[0])
        target = pick.randrange(len(self.live))
        outs = (self.live[target].plain, self.live[target].ours)
        return (lambda s: _quiet(function(operation, s), both[s], value[s], out=outs[s])), \
            f"{operation}({name}, {value[2]}, out=x{target})"

    def view(self, a: Pair, name: str) -> tuple[Callable[[int], Any], str]:
        pick = self.random
        both = (a.plain, a.ours)
        dtype = pick.choice(DTYPES)
        shape = pick.choice(((-1,), (2, -1), (4, 5), (5, 4), (3, 20), ()))
        choices: list[tuple[str, Callable[[Any], Any]]] = [
            ("T", lambda x: x.T),
            (f"reshape({shape})", lambda x: x.reshape(shape)),
            ("ravel()", lambda x: x.ravel()),
            ("copy()", lambda x: x.copy()),
            (f"astype({dtype})", lambda x: x.astype(dtype)),
            ("real", lambda x: x.real),
            ("imag", lambda x: x.imag),
            ("squeeze()", lambda x: x.squeeze()),
            ("swapaxes(0, -1)", lambda x: x.swapaxes(0, -1)),
            ("diagonal()", lambda x: x.diagonal()),
            ("flatten()", lambda x: x.flatten()),
            (f"view({dtype})", lambda x: x.view(dtype)),
            ("sum() of integers", lambda x: x.sum() if x.dtype.kind in "iub" else None),
            ("x > 0 as mask = 7", lambda x: x.__setitem__(x == x, 7)),
        ]
        text, run = pick.choice(choices)
        return lambda s: run(both[s]), f"{name}.{text}"

    def same_error(self, error: Any, other: Any) -> None:
        assert error is not None, self.text(f"only Diffuse raised {other!r}")
        assert other is not None, self.text(f"only NumPy raised {error!r}")
        assert type(error).__name__ == type(other).__name__, self.text(f"{error!r} became {other!r}")
        assert str(error).strip() == str(other).strip(), self.text(f"{error!r} became {other!r}")

    def check(self) -> None:
        for k, pair in enumerate(self.live):
            if self.random.random() < 0.3 or k == len(self.live) - 1:
                self.compare(pair.plain, pair.ours, f"live {k}")

    def compare(self, plain: Any, ours: Any, what: str) -> None:
        got = numpy.array(ours) if isinstance(ours, Array) else ours
        assert getattr(got, "dtype", None) == getattr(plain, "dtype", None), self.text(f"{what}: {got!r}")
        assert numpy.shape(got) == numpy.shape(plain), self.text(f"{what}: {numpy.shape(got)}")
        assert same_bits(plain, got), self.text(f"{what}:\n{plain!r}\n{got!r}")
        if isinstance(ours, Array) and plain.size:
            assert pitches(ours) == pitches(plain), self.text(
                f"{what}: strides {ours.form.strides} and NumPy's {plain.strides}")

    def text(self, problem: str) -> str:
        return "\n".join([*self.lines, problem])


def pitches(array: Any) -> list[int]:
    """The strides that say where elements lie: not those of dimensions with a single index."""
    return [stride for stride, n in zip(array.strides, array.shape, strict=True) if n > 1]


def same_bits(a: Any, b: Any) -> bool:
    """Equal, NaN for NaN, with the signs of zeros."""
    a, b = numpy.asarray(a), numpy.asarray(b)
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool(numpy.array_equal(a, b))
    nan = numpy.isnan(a)
    return bool((nan == numpy.isnan(b)).all() and (a[~nan] == b[~nan]).all()
                and (numpy.signbit(a)[~nan] == numpy.signbit(b)[~nan]).all())


def attempt(run: Callable[[int], Any], side: int) -> tuple[Any, Any]:
    try:
        return run(side), None
    except Exception as error:
        return None, error


def function(name: str, side: int) -> Any:
    from diffuse.numpy.ops.ufuncs import UFUNCS

    return getattr(numpy, name) if side == 0 else UFUNCS[name]


def _settled(operation: str, a: Any, b: Any, instead: str = "add") -> str:
    """The operation, or another where its result depends on how NumPy's loops meet zeros of both signs."""
    parts = [numpy.asarray(x, complex) for x in (a, b)]
    minus = any((numpy.signbit(x.real) & (x.real == 0)).any() or (numpy.signbit(x.imag) & (x.imag == 0)).any()
                for x in parts)
    return instead if minus and operation in EXTREMES else operation


def _quiet(operation: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    operation(*args, **kwargs)


def _update(operation: Callable[[Any, Any], Any], array: Any, at: Any, value: Any) -> None:
    array[at] = operation(array[at], value)


@pytest.fixture(params=[0, None], ids=["recorded", "small"])
def threshold(request: Any) -> Any:
    before = config.small
    config.small = before if request.param is None else request.param
    yield
    config.small = before


def test_results_of_methods_of_empty_arrays_are_numpys() -> None:
    """With a threshold of one element an empty array is NumPy's own; what it reduces to has one."""
    with stream(2, small=1, compile="off"):
        run(3256, 16)


def run(seed: int, steps: int = 12) -> None:
    with unwarned():
        program = Program(seed)
        for _ in range(steps):
            program.step()


@pytest.mark.usefixtures("threshold")
def test_random_programs_agree_with_numpy() -> None:
    @settings(max_examples=rounds(75, 150), deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 10**9))
    def programs(seed: int) -> None:
        run(seed)

    programs()


UNDER: tuple[dict[str, Any], ...] = (
    dict(points=1, window=1, compile="off", min_chunk=1),
    dict(points=3, window="auto", compile="off", min_chunk=2),
    dict(points=3, window=3, compile="off", min_chunk=4, seed=7),
    dict(points=2, window="auto", compile="off", min_chunk=3),
)


@pytest.mark.parametrize("number", range(len(UNDER)))
def test_random_programs_under_other_settings(number: int) -> None:
    """Points of a few elements, so that cuts fall everywhere; points shuffled."""
    with stream(small=0, **UNDER[number]):
        for seed in range(number, 240, len(UNDER)):
            run(seed, 16)


@pytest.mark.not_legate("every rank records the same, whatever is at hand there")
@pytest.mark.skipif(native is None, reason="the extension does operations at once on large arrays")
@pytest.mark.parametrize("small", [1, 3, 10])
def test_random_programs_that_look_after_every_few_operations(small: int) -> None:
    """What is at hand is done at once, as long as it is (arrays/soon.py)."""
    with stream(2, small=small, compile="off"):
        for seed in range(small, 240, 4):
            native.set_allowance(random.Random(seed).choice((1 << 40, 2_000_000)))
            run(seed, 16)
        native.set_allowance(0)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_assignment_to_a_view_of_another_type_is_cut_along_an_inner_dimension(dtype: str) -> None:
    """In a flat frame the points' tiles mesh, and no element belongs to two of them."""
    plain = numpy.arange(60.0).reshape(3, 4, 5).astype(complex)
    with stream(3, small=0, window="auto", compile="off", min_chunk=2):
        ours = wrap(plain.copy())
        for a in (plain, ours):
            part = a.view(dtype)
            part[...] = 7
            part[1] *= 3
        assert same_bits(plain.view("uint64"), numpy.array(ours).view("uint64"))


def test_a_program_can_fail() -> None:
    """The comparison sees a wrong bit."""
    program = Program(1)
    program.live = [Pair(numpy.array([1.0, -0.0]), wrap(numpy.array([1.0, 0.0])))]
    assert isinstance(program.live[0].ours, ndarray)
    with pytest.raises(AssertionError, match="live 0"):
        program.compare(program.live[0].plain, program.live[0].ours, "live 0")
