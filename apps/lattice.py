"""A library of lattice fields with names of its own, on the same stream as NumPy and SciPy.

`Field`, `laplacian`, `relax` and `energy` use the public calls of `diffuse.library` alone.  The program below
mixes them with NumPy and SciPy: a field obeys the Allen-Cahn equation u' = laplace(u) + u - u**3 between
borders that stay at zero, so that it separates into regions near 1 and near -1.  Operations of the three
libraries join the same fused tasks:

    python apps/lattice.py --size 1000
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import diffuse
import diffuse.numpy as np
from diffuse import library
from diffuse.library import Access, Builder, IndexTask, Operation, Privilege, Scalar, Storage, View
from diffuse.scipy.special import expit

TYPE = "float64"


def _laplacian(b: Builder) -> None:
    """north + south + west + east - 4 centre"""
    north, south, west, east, centre = (b.input(k) for k in range(5))
    total = b.emit("add", TYPE, b.emit("add", TYPE, north, south), b.emit("add", TYPE, west, east))
    b.store(b.emit("subtract", TYPE, total, b.emit("multiply", TYPE, b.const(4.0, TYPE), centre)))


def _relaxed(b: Builder) -> None:
    """field + rate * change"""
    b.store(b.emit("add", TYPE, b.input(0), b.emit("multiply", TYPE, b.input(2), b.input(1))))


library.declare(Operation("lattice.laplacian", arity=5, body=_laplacian))
library.declare(Operation("lattice.relaxed", arity=3, body=_relaxed))


INSIDE = slice(1, -1), slice(1, -1)
NEIGHBOURS = ((slice(0, -2), INSIDE[1]), (slice(2, None), INSIDE[1]),
              (INSIDE[0], slice(0, -2)), (INSIDE[0], slice(2, None)))


class Field:
    """A real number on every site of a rectangular lattice, the part `view` of a store."""

    def __init__(self, storage: Storage, view: View | None = None) -> None:
        self.storage = storage
        self.view = library.whole(storage) if view is None else view

    @staticmethod
    def of(values: Any) -> Field:
        """The field over the elements of an array, which are not copied if they are float64 and not few: an
        array of few elements is NumPy's own."""
        array = np.asarray(values, dtype=TYPE)
        if hasattr(array, "__diffuse__"):
            return Field(*array.__diffuse__())
        return Field(library.attach(array.copy()))

    @property
    def inside(self) -> Field:
        """The sites that have four neighbours."""
        return Field(self.storage, library.part(self.storage, INSIDE))

    def __diffuse__(self) -> tuple[Storage, View]:
        """What makes the field an array to NumPy and SciPy under Diffuse."""
        return self.storage, self.view


def laplacian(field: Field) -> Field:
    """For each site inside of a whole store, the sum of its four neighbours less four times itself.

    It is submitted as an index task that is built by hand.
    """
    rows, columns = field.storage.store.shape
    made = Field(library.create((rows - 2, columns - 2), TYPE))
    reads = [Access(field.storage.store, library.part(field.storage, part), Privilege.READ)
             for part in (*NEIGHBOURS, INSIDE)]
    write = Access(made.storage.store, made.view, Privilege.WRITE)
    library.submit(IndexTask("lattice.laplacian", (TYPE,) * 6, (rows - 2, columns - 2), (*reads, write)),
                   [field.storage, made.storage])
    return made


def relax(field: Field, change: Field, rate: float) -> None:
    """Move the field by a step of this length along the change, in place."""
    target = field.__diffuse__()
    library.record("lattice.relaxed", (TYPE,) * 4, field.view.shape,
                   (target, change.__diffuse__(), Scalar(2, TYPE, rate)), (target,))


def energy(field: Field, change: Field) -> Any:
    """Minus half the sum of field times change over all sites: a 0-d array, not waited for."""
    made, shape = library.create((), TYPE), field.view.shape
    library.record("dot", (TYPE,) * 3, shape, (field.__diffuse__(), change.__diffuse__()),
                   ((made, library.whole(made).kept(shape, ())),), "sum")
    return -0.5 * np.asarray(Field(made))


def step(field: Field) -> Any:
    """One step of the equation; a smooth picture of where the field is positive."""
    u = np.asarray(field.inside)
    change = np.asarray(laplacian(field)) + u - u * u * u       # this library's, then NumPy's
    relax(field.inside, Field.of(change), 0.1)                  # this library's
    return expit(8.0 * u)                                       # SciPy's


def start(size: int) -> Field:
    values = np.zeros((size, size))
    values[INSIDE] = 0.1 * np.random.default_rng(1).standard_normal((size - 2, size - 2))
    return Field.of(values)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="a lattice library beside NumPy and SciPy")
    parser.add_argument("--size", type=int, default=1000, help="sites along each side")
    parser.add_argument("--iterations", type=int, default=50)
    args = parser.parse_args(argv)
    field = start(args.size)
    for iteration in range(1, args.iterations + 1):
        picture = step(field)
        if iteration % 10 == 0:
            walls = float(energy(field.inside, laplacian(field)))
            print(f"iteration {iteration:4}  positive {float(picture.mean()):.4f}  walls {walls:.6g}")
    for plan in sorted(diffuse.explain().plans, key=lambda plan: -plan.launches)[:2]:
        print(" + ".join(plan.operations), f"ran as one task {plan.launches} times")
    if not float(abs(np.asarray(field)).max()) <= 1.0:
        sys.exit("check failed: the field left the range of its two phases")


if __name__ == "__main__":
    main()
