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
    first_points,
    is_epilogue,
    tile_length,
    volume,
)

__all__ = [
    "ITEMSIZE", "ONE", "Access", "AccessMap", "Coordinate", "Decomposition", "Frame", "IndexTask",
    "Partition", "Point", "Privilege", "Projection", "Relation", "Replicated", "Scalar", "Split",
    "Store", "Tiling", "Where", "covers", "disjoint", "first_points", "is_epilogue", "relation",
    "tile_length", "tiling", "volume",
]
