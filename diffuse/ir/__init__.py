"""The data model of Diffuse (stores, tasks, partitions, views), and what follows from descriptions alone."""

from diffuse.ir.alias import Relation, relation
from diffuse.ir.partition import (
    Coordinate,
    Partition,
    Projection,
    Replicated,
    Tiling,
    covers,
    disjoint,
    tiling,
)
from diffuse.ir.task import (
    ITEMSIZE,
    ONE,
    Access,
    AccessMap,
    Decomposition,
    Frame,
    IndexTask,
    Point,
    Privilege,
    Scalar,
    Split,
    Store,
    Where,
    is_epilogue,
    volume,
)

__all__ = [
    "ITEMSIZE", "ONE", "Access", "AccessMap", "Coordinate", "Decomposition", "Frame", "IndexTask",
    "Partition", "Point", "Privilege", "Projection", "Relation", "Replicated", "Scalar", "Split",
    "Store", "Tiling", "Where", "is_epilogue", "covers", "disjoint", "relation", "tiling", "volume",
]
