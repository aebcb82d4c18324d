"""Chooses which loops of operators to cut over the axes of a mesh, so that the least data move.

A graph of described operators (`graph`) becomes a problem of choosing one state for each operator and each
array (`layouts`, `words`, `problem`).  It is solved exactly by elimination, or by an integer program where
tables would grow too large; the papers' recursion over the axes and beam search are there for comparison.
"""

from diffuse.planning.beam import beam
from diffuse.planning.eliminate import TooWide, eliminate
from diffuse.planning.graph import Graph, Operator
from diffuse.planning.integer import integer_program
from diffuse.planning.plan import GraphPlan, plan
from diffuse.planning.problem import Problem

__all__ = ["Graph", "GraphPlan", "Operator", "Problem", "TooWide", "beam", "eliminate", "integer_program",
           "plan"]
