"""The lowering rules: operation and input dtypes -> LLVM instructions whose results are NumPy's.

`RULES[operation](code, input dtypes, result dtype, values)` writes the instructions and returns the value.
`supported` says beforehand whether there is a rule; what has none is left to NumPy.
"""

from __future__ import annotations

from functools import cache

from diffuse.kernels.body import operations
from diffuse.kernels.llvm.code import ELEMENT, Code, Value
from diffuse.kernels.llvm.ops import bits, complex_math, complexes, floats, integers, powers
from diffuse.kernels.llvm.ops.casts import cast, half
from diffuse.kernels.llvm.ops.instructions import Dtypes, Rule, letter, real

__all__ = ["RULES", "cast", "fold", "supported"]

def _assemble() -> dict[tuple[str, str], Rule]:
    """The table (operation, letter) -> rule; a second rule for one pair is an error."""
    found: dict[tuple[str, str], Rule] = {}
    for module in (integers, floats, complexes, complex_math, bits,
                   powers):
        for operation, rows in module.TABLE.items():
            for letters, rule in rows.items():
                for kind in letters:
                    assert (operation, kind) not in found, (operation, kind)
                    found[operation, kind] = rule
    return found


_RULES = _assemble()


def _family(operation: str, inputs: Dtypes) -> str:
    return letter(inputs[1] if operation == "where" and len(inputs) == 3 else inputs[0])


@cache
def supported(operation: str, inputs: Dtypes, result: str) -> bool:
    """Is there a rule for NumPy's loop with these input dtypes and this result?"""
    try:
        return (operations.result(operation, inputs) == result and result in ELEMENT
                and (operation, _family(operation, inputs)) in _RULES)
    except TypeError:
        return False


def _dispatch(operation: str) -> Rule:
    """One rule that dispatches to the rules of an operation; float16 results are rounded to float16."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        if not supported(operation, inputs, result):
            raise NotImplementedError(f"no rule for {operation}{inputs} -> {result}")
        value = _RULES[operation, _family(operation, inputs)](code, inputs, result, values)
        return half(code, real(value)) if result == "float16" and operations.op(operation).rounded else value
    return rule


RULES: dict[str, Rule] = {name: _dispatch(name) for name, _ in _RULES}

def fold(code: Code, operator: str, dtype: str, a: Value, b: Value) -> Value:
    """One step of a reduction whose accumulator has this dtype: folds `b` into `a`."""
    operation = operations.FOLDS[operator]
    return RULES[operation](code, (dtype, dtype), operations.result(operation, (dtype, dtype)), (a, b))
