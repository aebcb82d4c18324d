"""Descriptions of operators: which loops they run, and how these index the operands.

A description is written (`describe`), read from Einstein's notation (`einsum`), derived from a recorded task
(`of_task`), or found by running the operator (`discover`); `mismatches` checks any of them by execution, and
`verified` raises what it finds.  With a grid over its loops it becomes an index task (`tiled`).
"""

from diffuse.spec.check import Mismatch, mismatches, verified
from diffuse.spec.derive import of_task
from diffuse.spec.discover import Discovery, discover
from diffuse.spec.einsum import einsum
from diffuse.spec.opspec import Indexing, Loop, OpSpec
from diffuse.spec.tdl import Max, Min, Opaque, Prod, Sum, describe, function
from diffuse.spec.tiling import tiled
from diffuse.spec.views import Carried, reshaped

__all__ = ["Carried", "Discovery", "Indexing", "Loop", "Max", "Min", "Mismatch", "OpSpec", "Opaque", "Prod",
           "Sum", "describe", "discover", "einsum", "function", "mismatches", "of_task", "reshaped", "tiled",
           "verified"]
