"""The registry: from an operation's name to the fragment that computes it.

A library adds an operation with one call::

    @generator("lerp")
    def lerp(b: Builder) -> None:
        x, y, t = b.input(0), b.input(1), b.input(2)
        way = b.emit("subtract", "float64", y, x)
        b.store(b.emit("add", "float64", x, b.emit("multiply", "float64", t, way)))

An operation without a generator still runs, as the host function it was issued with (`engine.call`); it
is fused with nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.body.expr import Builder
from diffuse.kernels.body.powers import EXPONENTS

Generator = Callable[[Builder], None]

REDUCTIONS = frozenset({"sum", "prod", "min", "max", "any", "all", "argmin", "argmax"})

ELEMENTWISE = frozenset(
    """add subtract multiply divide floor_divide remainder fmod power negative positive absolute fabs sign
    rint floor ceil trunc sqrt square cbrt reciprocal gcd lcm heaviside hypot degrees radians deg2rad rad2deg
    exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 erf
    sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh
    bitwise_and bitwise_or bitwise_xor bitwise_count invert left_shift right_shift
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not
    maximum minimum fmax fmin clip where isfinite isinf isnan signbit copysign nextafter spacing ldexp
    conjugate real imag modf_0 modf_1 frexp_0 frexp_1""".split()) | EXPONENTS.keys()
"""Operations that apply one op of the kernel language to their inputs and store the result."""

_generators: dict[str, Generator] = {}


def generator(name: str) -> Callable[[Generator], Generator]:
    """Register the fragment of an operation; a second entry for one name is an error."""
    def register(function: Generator) -> Generator:
        if name in _generators:
            raise ValueError(f"operation {name!r} already has a generator, {_generators[name].__qualname__}: "
                             "choose another name")
        _generators[name] = function
        return function
    return register


def fusible(operation: str) -> bool:
    return operation in _generators or operation.partition(":")[0] in _generators


def find(operation: str) -> Generator:
    """The generator of an operation; `cumsum:1` is found under `cumsum`, its attribute is after the colon."""
    found = _generators.get(operation) or _generators.get(operation.partition(":")[0])
    if found is None:
        raise KeyError(f"operation {operation!r} has no generator: "
                       f"register one with @generator({operation!r})")
    return found


def _apply(name: str) -> Generator:
    def body(b: Builder) -> None:
        values = [b.input(k) for k in range(len(b.inputs))]
        b.store(b.emit(name, b.signature[-1], *values))
    return body


def _fold(name: str) -> Generator:
    def body(b: Builder) -> None:
        value = b.input(0)
        b.reduce(b.cast(value, "bool") if name in ("any", "all") else value, name)
    return body


for _name in sorted(ELEMENTWISE):
    _generators[_name] = _apply(_name)
for _name in sorted(REDUCTIONS):
    _generators[_name] = _fold(_name)


@generator("copy")
def copy(b: Builder) -> None:
    """NumPy's assignment: the input, cast; a fill when the input is a scalar."""
    b.store(b.input(0))


@generator("dot")
def dot(b: Builder) -> None:
    """Sum of products, in the computing type of the signature."""
    b.reduce(b.emit("multiply", b.signature[0], b.input(0), b.input(1)), "sum")


@generator("arange")
def arange(b: Builder) -> None:
    """start + i * step along the last dimension, as NumPy's fill loops compute it."""
    start, step = b.input(0), b.input(1)
    dtype = b.signature[-1]
    rank = b.outputs[0].rank
    i = b.cast(b.index(rank - 1), dtype)
    b.store(b.emit("add", dtype, start, b.emit("multiply", dtype, i, step)))


def _scan(name: str, operator: str) -> None:
    @generator(name)
    def body(b: Builder) -> None:
        value = b.input(0)
        b.store(b.emit("scan", b.ops[value].dtype, value, attribute=(operator, int(b.attribute))))


@generator("spmv")
def spmv(b: Builder) -> None:
    """Rows of a sparse matrix (first and last positions, values, columns) times a dense operand."""
    bounds = b.input(0), b.input(1)
    operands = (b.argument(2), b.argument(3), b.argument(4))
    b.store(b.emit("spmv", b.signature[-1], *bounds, attribute=operands))


@generator("reduceat")
def reduceat(b: Builder) -> None:
    """Sums of the elements between first and last positions; of none, zero."""
    bounds = b.input(0), b.input(1)
    b.store(b.emit("spmv", b.signature[-1], *bounds, attribute=(b.argument(2),)))


_scan("cumsum", "sum")
_scan("cumprod", "prod")
