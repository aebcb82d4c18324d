"""Plans layouts and grids: from a graph and a mesh to the layouts of its arrays and the grids of its
operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from diffuse.planning.beam import beam
from diffuse.planning.eliminate import eliminate, solve
from diffuse.planning.graph import Graph
from diffuse.planning.integer import integer_program
from diffuse.planning.layouts import PENDING, Layout, Mesh, parts
from diffuse.planning.problem import WORK, States, build

METHODS = ("auto", "eliminate", "integer", "beam", "recursive")


@dataclass(frozen=True)
class GraphPlan:
    """The chosen layouts and assignments, and the communication that they cause."""

    graph: Graph
    mesh: Mesh
    layouts: tuple[Layout, ...]
    """For each array, the dimension that each axis of the mesh cuts; -1: none."""
    assignments: tuple[Layout, ...]
    """For each operator, the loop that each axis cuts; -1: none."""
    words: float
    """The elements that all ranks together receive."""

    def grid(self, operator: int) -> dict[str, int]:
        """The grid of an operator: the number of points of each loop that is cut."""
        spec, chosen = self.graph.operators[operator].spec, self.assignments[operator]
        return {loop.name: n for k, loop in enumerate(spec.loops) if (n := parts(chosen, self.mesh, k)) > 1}

    def __str__(self) -> str:
        lines = [f"{self.words:,.0f} words over {'x'.join(map(str, self.mesh))} ranks"]
        for k, operator in enumerate(self.graph.operators):
            grid = " ".join(f"{name}:{n}" for name, n in self.grid(k).items())
            arrays = ", ".join(f"{self.graph.names[a]}{self._tiles(a)}" for a in operator.arrays)
            lines.append(f"  {operator.name}  {grid or 'repeated'}  on {arrays}")
        return "\n".join(lines)

    def _tiles(self, array: int) -> str:
        """The parts that each dimension of an array is cut into, as `[4, 1]`; `[+4]` has the terms of a
        sum."""
        layout, terms = self.layouts[array], parts(self.layouts[array], self.mesh, PENDING)
        cut = [str(parts(layout, self.mesh, d)) for d in range(len(self.graph.shapes[array]))]
        return f"[{', '.join(cut)}]" if terms == 1 else f"[+{terms}]" if set(cut) == {"1"} else \
            f"[+{terms}, {', '.join(cut)}]"


def plan(graph: Graph, mesh: Mesh, method: str = "auto", repeats: bool = False,
         held: Mapping[int, Sequence[Layout]] | None = None,
         run: Mapping[int, Sequence[Layout]] | None = None, sums: Collection[int] = (), work: float = WORK
         ) -> GraphPlan:
    """Choose the partitioning of a graph over a mesh that communicates the fewest elements.

    `method` is "eliminate" (exact), "integer" (an integer program), "auto" (the first, or the second where
    its tables would be too large), or one of the papers' own: "beam", and "recursive", which decides one axis
    after another.  `repeats`, `held`, `run`, `sums` and `work` are those of `problem.build`; the recursion
    adds sums up at once.  Raises ValueError for another method, and for a mesh without axes or with axes of
    one rank.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: choose one of {', '.join(METHODS)}")
    if not mesh or min(mesh) < 2:
        raise ValueError(f"mesh {mesh}: expected one axis or more, each of at least 2 ranks")
    if method == "recursive":
        return _recursive(graph, mesh, repeats, held, run)
    states = build(graph, mesh, repeats, held, run, sums, work)
    if method == "beam":
        return _plan(graph, mesh, states, beam(states.problem, order=graph.order()))
    if method == "integer":
        return _plan(graph, mesh, states, integer_program(states.problem))
    exact = eliminate if method == "eliminate" else solve
    return _plan(graph, mesh, states, exact(states.problem))


def _plan(graph: Graph, mesh: Mesh, states: States, choice: Sequence[int]) -> GraphPlan:
    arrays = len(graph.shapes)
    return GraphPlan(graph, mesh,
                     tuple([layouts[k] for layouts, k in zip(states.layouts, choice[:arrays], strict=True)]),
                     tuple([found[k] for found, k in zip(states.assignments, choice[arrays:], strict=True)]),
                     states.problem.cost(choice))


def _recursive(graph: Graph, mesh: Mesh, repeats: bool, held: Mapping[int, Sequence[Layout]] | None,
               run: Mapping[int, Sequence[Layout]] | None) -> GraphPlan:
    """Decide one axis after another, each optimally given the earlier decisions (papers/002, section 5.2)."""
    found: GraphPlan | None = None
    for axes in range(1, len(mesh) + 1):
        layouts, assignments = [_begun(each, axes) for each in (held or {}, run or {})]
        everything = build(graph, mesh[:axes], repeats, layouts, assignments)
        if found is not None:
            everything = build(graph, mesh[:axes], repeats,
                               _extending(everything.layouts, found.layouts),
                               _extending(everything.assignments, found.assignments))
        found = _plan(graph, mesh[:axes], everything, eliminate(everything.problem))
    assert found is not None
    return found


def _begun(states: Mapping[int, Sequence[Layout]], axes: int) -> dict[int, list[Layout]]:
    """Return the decisions for the first axes that these states make."""
    return {k: list(dict.fromkeys(layout[:axes] for layout in layouts)) for k, layouts in states.items()}


def _extending(states: Sequence[Sequence[Layout]], decided: Sequence[Layout]) -> dict[int, list[Layout]]:
    """The states that extend the decisions for all axes but the last."""
    return {k: [layout for layout in layouts if layout[:-1] == begun]
            for k, (layouts, begun) in enumerate(zip(states, decided, strict=True))}
