"""The lowering rules: operation and input dtypes -> LLVM instructions whose results are NumPy's.

`RULES[operation](code, input dtypes, result dtype, values)` writes the instructions and returns the value.
`supported` says beforehand whether there is a rule; what has none is left to NumPy.
"""

from __future__ import annotations

import math
from functools import cache

from diffuse.kernels.llvm.code import COMPONENT, ELEMENT, Code, Value
from diffuse.kernels.llvm.ops import bits, complex_math, complexes, floats, integers, powers
from diffuse.kernels.llvm.ops.casts import cast, half
from diffuse.kernels.llvm.ops.instructions import Dtypes, Rule, letter, real, width
from diffuse.kernels.llvm.ops.integers import COMPARISONS

__all__ = ["RULES", "cast", "fold", "identity", "supported"]

BINARY = frozenset({
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "float_power",
    "arctan2", "hypot", "logaddexp", "logaddexp2", "heaviside", "gcd", "lcm", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift", "logical_and", "logical_or", "logical_xor", "maximum",
    "minimum", "fmax", "fmin", "copysign", "nextafter", "ldexp", *COMPARISONS,
})

PREDICATES = frozenset({"isfinite", "isinf", "isnan", "signbit", "logical_not", "logical_and", "logical_or",
                        "logical_xor", *COMPARISONS})


def _assemble() -> dict[tuple[str, str], Rule]:
    """(operation, letter) -> rule; a second rule for one pair is an error."""
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


def _result(operation: str, inputs: Dtypes) -> str:
    """The dtype that NumPy's loop for these (equal) inputs gives."""
    if operation in PREDICATES:
        return "bool"
    if operation in ("real", "imag") or (operation == "absolute" and inputs[0] in COMPONENT):
        return COMPONENT.get(inputs[0], inputs[0])
    return {"bitwise_count": "uint8", "frexp_1": "int32", "where": inputs[-1]}.get(operation, inputs[0])


@cache
def supported(operation: str, inputs: Dtypes, result: str) -> bool:
    """Is there a rule for NumPy's loop from these dtypes to that one?"""
    arity = 3 if operation in ("where", "clip") else 2 if operation in BINARY else 1
    if len(inputs) != arity or any(d not in ELEMENT for d in (*inputs, result)):
        return False
    if (operation, _family(operation, inputs)) not in _RULES or _result(operation, inputs) != result:
        return False
    if operation == "where":
        return inputs[0] == "bool" and inputs[1] == inputs[2]
    if operation == "ldexp":
        return inputs[1] in ("int32", "int64")
    if operation in COMPARISONS and set(inputs) == {"int64", "uint64"}:
        return True
    return all(d == inputs[0] for d in inputs)


def _dispatch(operation: str) -> Rule:
    """The rules of one operation as one; the result of a float16 computation is rounded to float16."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        if not supported(operation, inputs, result):
            raise NotImplementedError(f"no rule for {operation}{inputs} -> {result}")
        value = _RULES[operation, _family(operation, inputs)](code, inputs, result, values)
        return half(code, real(value)) if result == "float16" and operation not in _EXACT else value
    return rule


_EXACT = frozenset({"where", "copy", "positive", "negative", "absolute", "fabs", "sign", "maximum", "minimum",
                    "fmax", "fmin", "clip", "conjugate", "copysign", "rint", "floor", "ceil", "trunc", "real",
                    "heaviside"})
"""Operations whose result is a float16 whenever their inputs are."""

RULES: dict[str, Rule] = {name: _dispatch(name) for name, _ in _RULES}

_FOLDS = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum", "any": "logical_or",
          "all": "logical_and"}


def fold(code: Code, operator: str, dtype: str, a: Value, b: Value) -> Value:
    """One step of a reduction whose accumulator has this dtype: `a` so far, then `b`."""
    operation = _FOLDS[operator]
    return RULES[operation](code, (dtype, dtype), _result(operation, (dtype, dtype)), (a, b))


def identity(operator: str, dtype: str) -> object:
    """What a reduction starts from: `fold(identity, x)` is x, to the bit.

    A float sum starts from -0.0, so that a sum of negative zeros stays one.  (A complex product of 1 and an
    infinity is NaN: that identity is one of finite numbers only.)
    """
    if operator in ("any", "all"):
        return operator == "all"
    if operator in ("sum", "prod"):
        return _NEUTRAL[operator][letter(dtype)]
    least, most = _range(dtype)
    return least if operator == "max" else most


_NEUTRAL: dict[str, dict[str, object]] = {
    "sum": {"b": False, "i": 0, "u": 0, "f": -0.0, "c": complex(-0.0, -0.0)},
    "prod": {"b": True, "i": 1, "u": 1, "f": 1.0, "c": complex(1.0, 0.0)},
}


def _range(dtype: str) -> tuple[object, object]:
    """The least and the greatest value."""
    match letter(dtype):
        case "b":
            return False, True
        case "u":
            return 0, 2 ** width(dtype) - 1
        case "i":
            return -(2 ** (width(dtype) - 1)), 2 ** (width(dtype) - 1) - 1
        case "f":
            return -math.inf, math.inf
    return complex(-math.inf, -math.inf), complex(math.inf, math.inf)
