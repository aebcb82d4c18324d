"""Writes a program as text for MPI, with mpi4py and NumPy alone, for people to read and to change."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from diffuse.spmd.helpers import HELPERS, PART, PIECES, WHOLE, stored
from diffuse.spmd.program import Names, Program, Statement, cut, sharing, words
from diffuse.spmd.sparse import SparseProduct

OPERATORS = {"sum": "MPI.SUM", "max": "MPI.MAX", "min": "MPI.MIN", "prod": "MPI.PROD"}
STARTS = {"max": ", initial=-np.inf", "min": ", initial=np.inf"}
"""The neutral element of a fold, which a process without elements contributes."""


def write(program: Program | SparseProduct, grid: Mapping[str, int]) -> str:
    """The text of a program whose processes form this grid: how many there are along each loop that is cut.

    ValueError if the grid names a loop that there is not, or cuts arrays that operators read otherwise."""
    if isinstance(program, SparseProduct):
        return program.text(grid)
    return Writer(program, cut(program, grid)).text()


class Writer:
    """Writes one program for one grid of processes."""

    def __init__(self, program: Program, grid: dict[str, int]) -> None:
        self.program, self.grid = program, grid
        self.extents = program.extents
        self.ranks = prod(grid.values())
        self.alias = _aliases(program, grid)
        self.communicators: dict[Names, dict[str, list[str]]] = {}
        """The cut loops along which processes talk, and the arrays that they share or fold there."""
        self.helpers: dict[str, str] = {"part": PART} if grid else {}
        last = program.operations[-1]
        self.folded = tuple([name for name in last.reduced if name in grid])
        """The cut loops over which the result is summed up."""
        self.scatters = bool(self.folded and last.result)

    def text(self) -> str:
        """The whole program."""
        load, gather = self._operands()
        body = [line for one in self.program.operations for line in self._operation(one)]
        store = self._store()
        made = self.program.operations[-1].makes
        main = ["", "", "def main():", *[f"    {line}" for line in (*load, *gather, *body, *store)]]
        helpers = [self.helpers[name].rstrip("\n").split("\n") for name in HELPERS if name in self.helpers]
        lines = [*self._head(made), *[line for each in helpers for line in ("", *each)], *self._grid(), *main,
                 "", "", "if __name__ == \"__main__\":", "    main()", ""]
        return "\n".join(lines)

    # -- what processes have at first ----------------------------------------------------------------------

    def _operands(self) -> tuple[list[str], list[str]]:
        """The lines that load operands, and those that gather their blocks."""
        load, gather = [], []
        paths = {one.name: k for k, one in enumerate(self.program.sources, 1)}
        for one in self.program.operands:
            if one.name in self.alias:
                continue
            shape = tuple([self.extents[name] for name in one.loops])
            path, where = f"sys.argv[{paths[one.source]}], {shape}", _block(one.loops, self.grid)
            others = sharing(one.loops, self.grid)
            if not others:
                self._help("opened", "load")
                load.append(f"{one.name} = load({path}, {where})")
                continue
            self._help("opened", "rows", "load_piece", "gathered", "counts")
            along = self._along(others, "share", one.name)
            load.append(f"{one.name}, length_{one.name} = load_piece({path}, {where}, {along})")
            gather.append(f"{one.name} = gathered({one.name}, length_{one.name}, {along})")
        return load, gather

    # -- what they compute ---------------------------------------------------------------------------------

    def _operation(self, one: Statement) -> list[str]:
        """The lines of one operator on blocks."""
        names = [self.alias.get(name, name) for name in one.reads]
        if one.formula:
            return [f"{one.makes} = " + one.formula.format(**{
                name: self.alias.get(name, name) + _spread(one.loops(k), one.result)
                for k, name in enumerate(one.reads)})]
        fold = one.spec.reducer or "sum"
        over = tuple([name for name in one.reduced if name in self.grid])
        start = STARTS.get(fold, "") if over else ""
        made = _folded(one, names[0], fold, start) if len(names) == 1 else _product(one, names)
        lines = [f"{one.makes} = {made}"]
        if over:
            along = self._along(over, "fold", one.makes)
            scatters = one is self.program.operations[-1] and self.scatters
            self._help(*(("rows", "counts", "scattered") if scatters else ("combined",)))
            call = "scattered" if scatters else "combined"
            lines.append(f"{one.makes} = {call}({one.makes}, {along}, {OPERATORS[fold]})")
        return lines

    def _store(self) -> list[str]:
        """The lines that store the result."""
        last = self.program.operations[-1]
        shape = tuple([self.extents[name] for name in last.result])
        others = sharing(last.result, self.grid)
        again = [name for name in others if not (self.scatters and name in self.folded)]
        lines: tuple[str, ...] = PIECES if self.scatters else WHOLE
        if again:
            first = " and ".join([f"{self._index(name)} == 0" for name in again])
            lines = f"if {first}:", *[f"    {line}" for line in lines]
        self.helpers["store"] = stored("piece of a block" if self.scatters else "block",
                                       "piece, comm" if self.scatters else "piece", lines)
        comm = f", {_named(self.folded)}" if self.scatters else ""
        return [f"store(sys.argv[{len(self.program.sources) + 1}], {shape}, {last.makes}.dtype, "
                f"{_block(last.result, self.grid)}, {last.makes}{comm})"]

    # -- the text around it --------------------------------------------------------------------------------

    def _head(self, made: str) -> list[str]:
        program = self.program
        shape = " x ".join([f"{parts} along {name}" for name, parts in self.grid.items()]) or "1"
        paths = " ".join([f"{one.name}.npy" for one in program.sources])
        total = words(program, self.grid)
        return [f'"""{program.said}, on {self.ranks} processes: {shape}.', "",
                f"    mpiexec -n {self.ranks} python {program.name}.py {paths} {made}.npy", "",
                "Every process computes one block of the loops that are cut.  It begins with its piece of",
                "the blocks that it needs of the operands: processes that need the same block gather it.",
                f"All together receive {total:,.0f} elements.  Written by `diffuse export --spmd`.", '"""',
                "", "import sys", "", "import numpy as np", "from mpi4py import MPI"]

    def _grid(self) -> list[str]:
        sizes = list(self.grid.values()) or [1]
        lines = ["", "", f"if MPI.COMM_WORLD.size != {self.ranks}:",
                 f"    sys.exit(f\"expected {self.ranks} processes, not {{MPI.COMM_WORLD.size}}\")",
                 f"grid = MPI.COMM_WORLD.Create_cart({sizes})"]
        lines += [f"{name} = part({self.extents[name]}, {parts}, {self._index(name)})"
                  for name, parts in self.grid.items()]
        if self.communicators:
            lines.append("# the processes that share blocks, or fold partial values, of these arrays")
        for loops, uses in self.communicators.items():
            kept = [name in loops for name in self.grid]
            why = "; ".join([f"{verb} {', '.join(names)}" for verb, names in uses.items()])
            lines.append(f"{_named(loops)} = grid.Sub({kept})  # {why}")
        return lines

    def _index(self, loop: str) -> str:
        """Write the process's index along a loop."""
        return f"grid.coords[{list(self.grid).index(loop)}]"

    def _along(self, loops: Names, verb: str, name: str) -> str:
        """Return the name of the communicator of the processes along some loops, which share or fold an
        array."""
        self.communicators.setdefault(loops, {}).setdefault(verb, []).append(name)
        return _named(loops)

    def _help(self, *names: str) -> None:
        """Have the program define these helper functions."""
        for name in names:
            self.helpers.setdefault(name, HELPERS[name])


def _aliases(program: Program, grid: Mapping[str, int]) -> dict[str, str]:
    """Map each operand whose blocks equal those of an earlier operand to that operand."""
    known: dict[tuple[str, Names], str] = {}
    found = {}
    for one in program.operands:
        key = one.source, tuple([name if name in grid else "" for name in one.loops])
        if known.setdefault(key, one.name) != one.name:
            found[one.name] = known[key]
    return found


def _named(loops: Names) -> str:
    return "along_" + "".join(loops)


def _block(loops: Names, grid: Mapping[str, int]) -> str:
    """The block of an array as indices."""
    words = [name if name in grid else ":" for name in loops]
    while words and words[-1] == ":":
        words.pop()
    return f"np.s_[{', '.join(words)}]" if words else "..."


def _spread(loops: Names, result: Names) -> str:
    """Return the index that aligns an operand's block with the dimensions of the result; empty if none is
    needed."""
    words = [":" if name in loops else "None" for name in result]
    if "None" not in words:
        return ""
    while words[-1:] == [":"]:
        words.pop()
    if ":" in words and "None" not in words[:-1]:
        return "[..., None]"
    return f"[{', '.join(words)}]"


def _folded(one: Statement, name: str, fold: str, start: str) -> str:
    """The fold of one operand over loops, in the order of the result's dimensions."""
    loops = one.loops(0)
    axes = tuple([k for k, loop in enumerate(loops) if loop in one.reduced])
    left = [loop for loop in loops if loop not in one.reduced]
    turned = "" if list(one.result) == left else f".transpose({tuple([left.index(x) for x in one.result])})"
    if not axes:
        return name + turned
    axis = axes if len(axes) > 1 else -1 if axes[0] == len(loops) - 1 else axes[0]
    return f"{name}.{fold}(axis={axis}{start}){turned}"


def _product(one: Statement, names: list[str]) -> str:
    """Write a product of blocks: by `@` if it is a product of matrices, else by `einsum`."""
    terms = [one.loops(k) for k in range(len(names))]
    result = one.result
    if len(names) == 2 and len(result) >= 2 and len(one.reduced) == 1:
        *batch, i, j = result
        (k,) = one.reduced
        left, right = [_matrix(term, tuple(batch), pair, name) for term, pair, name in
                       zip(terms, ((i, k), (k, j)), names, strict=True)]
        if left and right:
            return f"{left} @ {right}"
    subscripts = ",".join(["".join(term) for term in terms]) + "->" + "".join(result)
    return f"np.einsum(\"{subscripts}\", {', '.join(names)}, optimize=True)"


def _matrix(term: Names, batch: Names, pair: Names, name: str) -> str | None:
    """Write an operand as a matrix, or a stack of matrices, with these rows and columns; None if it is not
    one."""
    if term == (*batch, *pair):
        return name
    if term == (*batch, *reversed(pair)):
        return f"{name}.swapaxes(-1, -2)" if batch else f"{name}.T"
    return None
