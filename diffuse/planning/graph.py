"""Graphs of described operators on arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

from diffuse.ir import Point
from diffuse.spec.opspec import OpSpec


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its description, and the array of each of its operands, read and written."""

    name: str
    spec: OpSpec
    arrays: tuple[int, ...]


@dataclass
class Graph:
    """Operators in the order in which they run, and the arrays that they share.

    Element-wise operators need not be included: their operands are one array here (papers/002, section 5.1,
    coalesces them).
    """

    shapes: list[Point] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def array(self, name: str, *shape: int) -> int:
        """Add an array, and return its number."""
        self.shapes.append(shape)
        self.names.append(name)
        return len(self.shapes) - 1

    def add(self, name: str, spec: OpSpec, *arrays: int) -> None:
        """Add an operator on these arrays: those that it reads, then those that it writes.

        Raises ValueError if their shapes do not fit the description.
        """
        for use in (*spec.reads, *spec.writes):
            if use.operand >= len(arrays):
                raise ValueError(f"operator {name}: {len(arrays)} arrays for operand {use.operand} of {spec}")
            shape = self.shapes[arrays[use.operand]]
            if len(shape) != len(use.map.rows):
                array = self.names[arrays[use.operand]]
                raise ValueError(f"operator {name}: array {array} has shape {shape}, operand {use.operand} "
                                 f"of {spec} {len(use.map.rows)} dimensions")
        self.operators.append(Operator(name, spec, arrays))

    def cut(self) -> list[list[int]]:
        """For each array, the dimensions that some operator cuts with a loop."""
        found: list[set[int]] = [set() for _ in self.shapes]
        for operator in self.operators:
            for use in (*operator.spec.reads, *operator.spec.writes):
                found[operator.arrays[use.operand]] |= {
                    d for d, (_, terms) in enumerate(use.map.rows) if terms}
        return [sorted(dimensions) for dimensions in found]

    def order(self) -> list[int]:
        """Arrays and operators, numbered consecutively, in the order in which the program meets them."""
        found: dict[int, None] = {}
        for k, operator in enumerate(self.operators):
            found |= dict.fromkeys([*operator.arrays, len(self.shapes) + k])
        return list(found | dict.fromkeys(range(len(self.shapes))))
