"""Functions that the program defines itself, as operations of the kernel language.

A `UserFunction` is a scalar program in static single assignment form: basic blocks of LLVM's instructions,
without memory, calls of other code, exceptions or anything that depends on a machine.  Each is an op in the
table of operations.  Its name ends with a digest of its content, so that kernels with equal ops are equal.

    UserFunction ::= word, parameters, result, blocks
    BasicBlock   ::= phis, instructions, exit
    Exit         ::= condition, targets             (no target: `values` are the results)

A complex parameter or result is two values.  Values are numbered: parameters first, then the phis and
instructions of the blocks in their order.  An operand is the number of a value, or the text of a literal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from diffuse.kernels.body import operations
from diffuse.kernels.body.operations import NONE, RANGE, Operation
from diffuse.observe.floaterrors import DIVIDE, INVALID

Operand = int | str

ERRORS = DIVIDE | RANGE | INVALID


class Phi(NamedTuple):
    dtype: str
    incoming: tuple[tuple[int, Operand], ...]
    """For each predecessor block, by its number, the value that it passes."""


class Instruction(NamedTuple):
    kind: str
    """LLVM's name of the instruction; `intrinsic`; or `apply`, an operation of the kernel language."""
    dtype: str
    """The element type of the result."""
    operands: tuple[Operand, ...]
    source: str
    """Element type of the operands (of a `select`: of the last two)."""
    attribute: str = ""
    """The predicate of a comparison, or the name of an intrinsic or operation."""


class Exit(NamedTuple):
    targets: tuple[int, ...]
    """The successors of the block: none, one, or two."""
    condition: Operand = ""
    """With two targets: whether the first is taken."""
    values: tuple[Operand, ...] = ()
    """The results, if there is no target."""


class BasicBlock(NamedTuple):
    phis: tuple[Phi, ...]
    instructions: tuple[Instruction, ...]
    exit: Exit


@dataclass(frozen=True)
class UserFunction:
    """A scalar function with one result, which may be complex."""

    word: str
    """The function's name in the program."""
    parameters: tuple[str, ...]
    result: str
    blocks: tuple[BasicBlock, ...]

    @cached_property
    def name(self) -> str:
        """The name of the operation; equal names mean equal content."""
        import re
        from hashlib import sha256

        content = repr((self.word, self.parameters, self.result, self.blocks))
        word = re.sub(r"\W", "_", self.word)
        return f"user.{word}.{sha256(content.encode()).hexdigest()[:24]}"


FUNCTIONS: dict[str, UserFunction] = {}
"""Every declared function, by the name of its operation."""


def declare(function: UserFunction) -> None:
    """Give the function a row in the table of operations."""
    if function.name not in FUNCTIONS:
        FUNCTIONS[function.name] = function
        operations.declare(Operation(
            function.name, len(function.parameters), function.result, "any", NONE, ERRORS, ERRORS,
            sum(len(block.phis) + len(block.instructions) for block in function.blocks), word=function.word))
