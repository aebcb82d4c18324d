"""The times that a machine of several ranks needs: one model for routes, plans and `diffuse machine`.

`diffuse machine` measures it and keeps it as one file in the folder of the cache; a machine that was not
measured is taken for a cluster with a fast network.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path

FILE = "machine.json"
"""The file of the measured machine in the folder of the cache."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The time that messages and work take: so many seconds each, or so many bytes or operations a second."""

    latency: float = 5e-6
    """Seconds per message."""
    bandwidth: float = 5e9
    """Bytes a second that one rank can send and receive."""
    reduction: float = 1e10
    """Bytes a second of partial results that one rank adds to others."""
    compute: float = 2e10
    """Bytes of results a second that one rank computes within a fused kernel."""
    memory: float = 1e10
    """Bytes a second that one rank reads from or writes to memory, where operations do not fuse."""
    products: float = 2e10
    """Multiplications and additions a second in one rank's products of matrices."""
    levels: tuple[tuple[int, float, float], ...] = ()
    """(ranks, latency, bandwidth) of groups of so many ranks that are nearer to each other than all ranks
    are, such as those of one node, the smallest group first."""

    def over(self, ranks: int) -> Machine:
        """The machine as so many ranks see it: with the network of the smallest group that has them all."""
        for size, latency, bandwidth in self.levels:
            if ranks <= size:
                return Machine(latency, bandwidth, self.reduction, self.compute, self.memory, self.products)
        return self

    def seconds(self, messages: float, moved: float) -> float:
        """Return the time of so many messages one after the other, with so many bytes in all."""
        return messages * self.latency + moved / self.bandwidth

    def numbers(self) -> list[float]:
        """Return all numbers in a fixed order, from which `of_numbers` makes the machine again."""
        plain = [getattr(self, field.name) for field in fields(self)[:-1]]
        return [*plain, *[float(number) for level in self.levels for number in level]]


def of_numbers(numbers: list[float]) -> Machine:
    """Return the machine of these numbers; ValueError if they are none, or not all positive and finite."""
    plain = len(fields(Machine)) - 1
    rest = numbers[plain:]
    if len(numbers) < plain or len(rest) % 3 or not all([isfinite(n) and n > 0 for n in numbers]):
        raise ValueError(f"these are not the numbers of a machine: {numbers}")
    levels = [(int(rest[k]), rest[k + 1], rest[k + 2]) for k in range(0, len(rest), 3)]
    latency, bandwidth, reduction, compute, memory, products = numbers[:plain]
    return Machine(latency, bandwidth, reduction, compute, memory, products, tuple(levels))


def measured(folder: str | Path) -> Machine | None:
    """Return the machine that was measured, from the folder of the cache; None if there is none, or its file
    is damaged."""
    try:
        text = json.loads(Path(folder, FILE).read_text(encoding="utf-8"))
        plain = [float(text[field.name]) for field in fields(Machine)[:-1]]
        return of_numbers([*plain, *[float(number) for level in text["levels"] for number in level]])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(machine: Machine, folder: str | Path) -> Path:
    """Write a measured machine into the folder of the cache, and return its file."""
    target = Path(folder, FILE)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.urandom(8).hex()}")
    draft.write_text(json.dumps(asdict(machine), indent=2) + "\n", encoding="utf-8")
    os.replace(draft, target)
    return target
