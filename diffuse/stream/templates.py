"""Memoises the templates of the operations that a program records, and checks each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from diffuse.bounded import Recurring
from diffuse.ir import ONE, IndexTask, Point, Privilege, Scalar
from diffuse.ir.template import Recorded, Template, Use, recorded, template
from diffuse.ir.template import overlap as overlap_of
from diffuse.ir.view import View
from diffuse.kernels.body import operations
from diffuse.kernels.body.compose import verify
from diffuse.stream.stores import Operand, Storage

READ, WRITE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.REDUCE


class Templates:
    """The templates of one engine."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], Template] = Recurring()
        """The templates, keyed by everything that they depend on, views by their tokens."""
        self._verified: set[tuple[str, tuple[str, ...]]] = set()
        """Operations and element types whose bodies were verified to be well formed."""
        self._places: dict[Any, Any] = Recurring()
        """The places in the program with which tasks were submitted: one object for equal ones."""
        self._overlaps: dict[tuple[int, int], str] = Recurring()
        """The relations of two views of one store, by their tokens."""

    def make(self, key: tuple[Any, ...], operation: str, signature: tuple[str, ...], shape: Point,
             inputs: Sequence[Operand | Scalar], outputs: Sequence[Operand], operator: str | None = None
             ) -> Template:
        """Make the template of an operation on views and scalars, and cache it under `key`.  `operator` is
        that of a reduction."""
        reads = [Use.of(operand[1], READ) for operand in inputs if not isinstance(operand, Scalar)]
        privilege = WRITE if operator is None else REDUCE
        uses = (*reads, *[Use.of(view, privilege, operator) for _, view in outputs])
        scalars = [operand for operand in inputs if isinstance(operand, Scalar)]
        found = Template(operation, signature, shape, uses, tuple([(s.position, s.dtype) for s in scalars]))
        if signature:  # a host function has none, and no body
            stores = tuple([operand[0].id for operand in (*inputs, *outputs)
                            if not isinstance(operand, Scalar)])
            self._verify((found, stores, tuple([s.value for s in scalars]), None))
        self.known[key] = found
        return found

    def of_task(self, task: IndexTask) -> Recorded:
        """Split an index task into its template and its recorded values."""
        made = template(task)
        key = (*made.key, "submitted")
        own = recorded(task, self.known.get(key) or made)
        self._verify(own)
        self.known[key] = own[0]
        with suppress(TypeError):  # a place may be any printable object
            place = self._places.get(own[3])
            if place is None:
                place = self._places[own[3]] = own[3]
            return (*own[:3], place)
        return own

    def _verify(self, task: Recorded) -> None:
        """Raise TypeError unless the operation writes a well-formed body for these element types.

        Checked once, for operations that are written in terms of others: a single op has NumPy's types.
        """
        made = task[0]
        name = made.operation, made.signature
        if name not in self._verified and operations.find(made.operation).body is not None:
            verify(made.under(ONE).task(task))
            self._verified.add(name)

    def overlap(self, a: Operand, b: Operand) -> str:
        """The relation of two operands: "same" view, "apart", or "overlap"."""
        (one, view), (other, theirs) = a, b
        if one.id != other.id:
            return "apart"
        name = view.token, theirs.token
        found = self._overlaps.get(name)
        if found is None:
            found = self._overlaps[name] = overlap_of(view, theirs)
        return found


def check_arguments(operation: Any, signature: Any, shape: Any, inputs: Any, outputs: Any) -> None:
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
