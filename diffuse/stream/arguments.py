"""What `record` takes: arguments of other kinds are named, with the rule and what to give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diffuse.ir import Scalar
from diffuse.ir.view import View
from diffuse.stream.stores import Storage


def check(operation: Any, signature: Any, shape: Any, inputs: Any, outputs: Any) -> None:
    """Raise TypeError for an argument of `record` that is of another kind than that takes."""
    if not isinstance(operation, str):
        raise TypeError(f"record: operation {operation!r} is no name; write record(operation, signature, "
                        "shape, inputs, outputs) with the name that `declare` was given")
    if not _all(signature, str) or not signature:
        raise TypeError(f"record: signature {signature!r} of operation {operation!r}; give a tuple of the "
                        "names of element types, those of the inputs and then those of the outputs")
    if not _all(shape, int):
        raise TypeError(f"record: shape {shape!r} of operation {operation!r}; give the tuple of the extents "
                        "of its iteration space")
    for word, operands in ("inputs", inputs), ("outputs", outputs):
        for operand in _sequence(word, operands, operation):
            if isinstance(operand, Scalar) and operands is inputs:
                continue
            if not (isinstance(operand, tuple) and len(operand) == 2 and isinstance(operand[0], Storage)
                    and isinstance(operand[1], View)):
                raise TypeError(f"record: {operand!r} among the {word} of operation {operation!r}; give a "
                                "tuple of a handle and a view of it, such as (x, whole(x))"
                                + ", or a Scalar" * (operands is inputs))


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, tuple) and all([isinstance(value, kind) for value in values])


def _sequence(word: str, operands: Any, operation: str) -> Iterable[Any]:
    if not isinstance(operands, tuple | list) or word == "outputs" and not operands:
        raise TypeError(f"record: {word} {operands!r} of operation {operation!r}; give a tuple of operands, "
                        "each a tuple of a handle and a view of it")
    return operands
