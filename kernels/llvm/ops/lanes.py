"""Single lanes of vectors, and calls of functions of one lane."""

from __future__ import annotations

from diffuse.kernels.llvm.code import ELEMENT, Code

Parts = tuple[str, str]


def extract(code: Code, dtype: str, value: str, lane: int) -> str:
    """One lane of a value."""
    return value if code.lanes == 1 else code.let(f"extractelement {code.type(dtype)} {value}, i64 {lane}")


def insert(code: Code, dtype: str, value: str, element: str, lane: int) -> str:
    return code.let(f"insertelement {code.type(dtype)} {value}, {ELEMENT[dtype]} {element}, i64 {lane}")


def lanewise(code: Code, part: str, function: str, values: tuple[str, ...]) -> Parts:
    """Call `{part, part} function(part, ...)` for each lane."""
    element = ELEMENT[part]
    found = ("poison", "poison")
    for lane in range(code.lanes):
        given = ", ".join(f"{element} {extract(code, part, v, lane)}" for v in values)
        pair = code.let(f"call {{ {element}, {element} }} @{function}({given})")
        a, b = (code.let(f"extractvalue {{ {element}, {element} }} {pair}, {k}") for k in (0, 1))
        if code.lanes == 1:
            return a, b
        found = insert(code, part, found[0], a, lane), insert(code, part, found[1], b, lane)
    return found
