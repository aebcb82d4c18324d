"""`diffuse export`: writes a stand-alone program for the processes of MPI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from diffuse.spmd import Program, SparseProduct


def numbers(said: str, option: str) -> dict[str, int]:
    """Loops and their numbers, as `m=4,n=2` names them."""
    found: dict[str, int] = {}
    for word in filter(None, said.replace(" ", "").split(",")):
        name, equals, number = word.partition("=")
        if not equals or not re.fullmatch("[0-9]+", number) or name in found:
            raise click.UsageError(f"{option} {said}: expected each loop once, such as m=4,n=2")
        found[name] = int(number)
    return found


def program(what: str, sizes: dict[str, int]) -> Program | SparseProduct:
    """The program of a name, or of the subscripts of `einsum`."""
    from diffuse.spec import einsum
    from diffuse.spmd import KNOWN, of_spec

    if what in KNOWN:
        make, loops = KNOWN[what]
    elif "->" in what:
        loops = sorted({letter for letter in what if letter.isalpha()})
    else:
        raise ValueError(f"{what!r}: expected {', '.join(KNOWN)} or subscripts such as 'mk,kn->mn'")
    if set(sizes) != set(loops):
        raise ValueError(f"--sizes: expected the extents of the loops {', '.join(loops)}, and of no others")
    if what in KNOWN:
        return make(**sizes)
    terms = what.replace(" ", "").partition("->")[0].split(",")
    return of_spec(einsum(what, *[tuple([sizes[x] for x in term]) for term in terms]))


@click.command(name="export")
@click.option("--spmd", "what", metavar="PROGRAM", required=True,
              help="matmul, softmax, attention, spmv, or subscripts of einsum such as 'mk,kn->mn'.")
@click.option("--sizes", metavar="m=8192,...", required=True, help="The extent of each loop.")
@click.option("--grid", metavar="m=2,...", required=True, help="Processes along each loop that is cut.")
@click.option("-o", "--output", metavar="FILE", help="Where to write it; default: standard output.")
def command(what: str, sizes: str, grid: str, output: str | None) -> int:
    """Write a program with mpi4py that computes PROGRAM on a grid of processes."""
    from diffuse.spmd import write

    try:
        text = write(program(what, numbers(sizes, "--sizes")), numbers(grid, "--grid"))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if output is None:
        print(text, end="")
    else:
        Path(output).write_text(text)
    return 0
