"""Generators of the operations that are no ops: bodies of casts, rolls, gathers, scatters and folds."""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.body.expr import Builder

Generator = Callable[[Builder], None]


def copy(b: Builder) -> None:
    """NumPy's assignment: the input, cast; a fill when the input is a scalar."""
    b.store(b.input(0))


def arange(b: Builder) -> None:
    """start + i * step along the last dimension, as NumPy's fill loops compute it."""
    start, step = b.input(0), b.input(1)
    dtype = b.signature[-1]
    i = b.cast(b.index(b.outputs[0].rank - 1), dtype)
    b.store(b.emit("add", dtype, start, b.emit("multiply", dtype, i, step)))


def rows(b: Builder) -> None:
    """Multiply a sparse matrix, given by first and last positions, values and columns, by a dense operand;
    or, given values alone, sum those between the positions.  An empty sum is zero."""
    bounds = b.input(0), b.input(1)
    operands = tuple([b.argument(k) for k in range(2, len(b.inputs))])
    b.store(b.emit("spmv", b.signature[-1], *bounds, attribute=operands))


def roll(b: Builder) -> None:
    """The input, cyclically shifted along the dimensions at the end of the operation's name: `roll:1`."""
    along = tuple([int(d) for d in b.attribute.split(",")])
    shifts = [b.input(k + 1) for k in range(len(along))]
    b.store(b.emit("turn", b.inputs[0].dtype, *shifts, attribute=(b.argument(0), along)))


def gather(b: Builder) -> None:
    """Elements of the input at data-dependent coordinates.  For each indexed dimension there are an index
    (negative ones count from the end), the dimension's extent, and its stride in elements.  The name ends
    with a letter for each: 1 for stride 1, else s."""
    distance = -1
    for k, letter in enumerate(b.attribute):
        index, extent, pitch = range(1 + 3 * k, 4 + 3 * k)
        at = b.input(index)
        if not b.inputs[index].dtype.startswith(("uint", "bool")):
            negative = b.emit("less", "bool", at, b.const(0, "int64"))
            at = b.emit("where", "int64", negative, b.emit("add", "int64", at, b.input(extent)), at)
        if letter != "1":
            at = b.emit("multiply", "int64", at, b.input(pitch))
        distance = at if k == 0 else b.emit("add", "int64", distance, at)
    b.store(b.cast(b.emit("pick", b.inputs[0].dtype, distance, attribute=b.argument(0)), b.signature[0]))


def nth(b: Builder) -> None:
    """Positions of the true elements of a mask; the second input counts the true elements before each
    block."""
    b.store(b.emit("nth", "int64", b.input(2), b.input(3), attribute=(b.argument(0), b.argument(1))))


def scatter(operator: str) -> Generator:
    """Write to the first input, which is also the output, at indices (the second input) along the dimension
    at the end of the operation's name, behind a letter: `a` where NumPy goes from element to element.  The
    third input has the values; then come their number, how far they lie apart, and whether the indices are
    known to ascend."""
    def body(b: Builder) -> None:
        arguments = b.outputs[0].argument, b.argument(1), b.argument(2)
        b.emit("scatter", b.outputs[0].dtype, b.input(3), b.input(4), b.input(5),
               attribute=(operator, *arguments, int(b.attribute[1:]), b.attribute[0]))
    return body


def dot(b: Builder) -> None:
    """Sum of products, in the computing type of the signature."""
    b.reduce(b.emit("multiply", b.signature[0], b.input(0), b.input(1)), "sum")


def fold(operator: str, truth: bool) -> Generator:
    """A body that reduces its input; `truth`: the truth of its elements."""
    def body(b: Builder) -> None:
        value = b.input(0)
        b.reduce(b.cast(value, "bool") if truth else value, operator)
    return body


def applying(name: str) -> Generator:
    """A body that applies another op of two inputs, for an operation with a name of its own in NumPy's
    warnings."""
    def body(b: Builder) -> None:
        b.store(b.emit(name, b.signature[-1], b.input(0), b.input(1)))
    return body


def scan(operator: str, truth: bool) -> Generator:
    """A body that writes the running values of its input; `truth`: of the truth of its elements."""
    def body(b: Builder) -> None:
        value = b.cast(b.input(0), "bool") if truth else b.input(0)
        b.store(b.emit("scan", b.ops[value].dtype, value, attribute=(operator, int(b.attribute))))
    return body
