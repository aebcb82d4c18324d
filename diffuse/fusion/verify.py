"""`DIFFUSE_CHECK`: verifies a group of tasks that is about to run against the analyses; errors raise.

The fusion that the window took from its memo is analysed anew each time.  Small groups are compared with the
definitions of `definition`, element by element, which takes milliseconds where the analysis takes
microseconds.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from diffuse.fusion import definition
from diffuse.fusion.constraints import Opaque, prefix
from diffuse.fusion.temporaries import temporaries
from diffuse.ir import IndexTask

AFFORDABLE = 1 << 18
"""The most elements examined to compare one group with the definitions; about a tenth of a second."""


def verify(tasks: Sequence[IndexTask], opaque: Opaque, live: Container[int], vanished: set[int],
           by_definition: bool) -> None:
    """Raise RuntimeError unless these tasks may run as one, without memory for the stores in `vanished`."""
    fused, refusal = prefix(tasks, opaque)
    if len(fused) < len(tasks):
        raise RuntimeError(f"DIFFUSE_CHECK: {_named(tasks)} were fused, but the analysis refuses: {refusal}")
    needed = vanished - temporaries(tasks, (), live)
    if needed:
        raise RuntimeError(f"DIFFUSE_CHECK: stores {sorted(needed)} have no memory in {_named(tasks)}, but "
                           "the analysis says that they are used elsewhere")
    if by_definition and steps(tasks) <= AFFORDABLE:
        if not definition.fusible(tasks):
            raise RuntimeError(f"DIFFUSE_CHECK: {_named(tasks)} were fused, but by definition a point "
                               "depends on another one")
        needed = vanished - definition.temporaries(tasks, (), live)
        if needed:
            raise RuntimeError(f"DIFFUSE_CHECK: stores {sorted(needed)} have no memory in {_named(tasks)}, "
                               "but by definition they are used elsewhere")


def steps(tasks: Sequence[IndexTask]) -> int:
    """The approximate number of elements that the definitions examine: each pair of tasks, points and
    accesses."""
    most = max(len(task.accesses) for task in tasks)
    touched = sum(prod(task.shape) * len(task.accesses) * _spread(task) for task in tasks)
    return len(tasks) * max(prod(task.domain) for task in tasks) * most * touched


def _spread(task: IndexTask) -> int:
    """The number of elements that one iteration accesses through one access: several if a coordinate is
    data."""
    return max((prod(access.store.shape[d] for d in access.map.free) * prod(n for _, n in access.map.turned)
                for access in task.accesses), default=1)


def _named(tasks: Sequence[IndexTask]) -> str:
    return "the tasks " + ", ".join(f"{task.operation} ({task.where})" for task in tasks)
