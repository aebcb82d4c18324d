"""Calls of the C library's functions lane by lane, where NumPy's bits are wanted and come from there.

The System V convention passes a complex128 as two doubles and a complex64 as one vector of two floats.
"""

from __future__ import annotations

from diffuse.kernels.llvm.code import ELEMENT, Code

Parts = tuple[str, str]


def extract(code: Code, dtype: str, value: str, lane: int) -> str:
    """One lane of a value."""
    return value if code.lanes == 1 else code.let(f"extractelement {code.type(dtype)} {value}, i64 {lane}")


def insert(code: Code, dtype: str, value: str, element: str, lane: int) -> str:
    return code.let(f"insertelement {code.type(dtype)} {value}, {ELEMENT[dtype]} {element}, i64 {lane}")


def real_function(code: Code, name: str, dtype: str, *values: str) -> str:
    """`name`, or `namef` for float32, of real floats."""
    element = ELEMENT[dtype]
    name = name if element == "double" else name + "f"
    code.declare(f"declare {element} @{name}({', '.join([element] * len(values))}) nounwind")
    found = "poison"
    for lane in range(code.lanes):
        given = ", ".join(f"{element} {extract(code, dtype, v, lane)}" for v in values)
        one = code.let(f"call {element} @{name}({given})")
        if code.lanes == 1:
            return one
        found = insert(code, dtype, found, one, lane)
    return found


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


def complex_function(code: Code, part: str, name: str, arity: int) -> str:
    """The name of a function `{part, part} (part, part, ...)` that is libm's complex function `name`."""
    if part == "float64":
        doubles = ", ".join(["double"] * 2 * arity)
        code.declare(f"declare {{ double, double }} @{name}({doubles}) nounwind")
        return name
    pair = "<2 x float>"
    code.declare(f"declare {pair} @{name}f({', '.join([pair] * arity)}) nounwind")
    lines = []
    for k in range(arity):
        lines += [f"  %p{k} = insertelement {pair} poison, float %a{k}, i64 0",
                  f"  %q{k} = insertelement {pair} %p{k}, float %b{k}, i64 1"]
    head = ", ".join(f"float %a{k}, float %b{k}" for k in range(arity))
    given = ", ".join(f"{pair} %q{k}" for k in range(arity))
    lines += [f"  %r = call {pair} @{name}f({given})",
              f"  %x = extractelement {pair} %r, i64 0",
              f"  %y = extractelement {pair} %r, i64 1",
              "  %s = insertvalue { float, float } poison, float %x, 0",
              "  %t = insertvalue { float, float } %s, float %y, 1",
              "  ret { float, float } %t"]
    body = "\n".join(lines)
    code.declare(f"define internal {{ float, float }} @diffuse.{name}({head}) {{\n{body}\n}}")
    return f"diffuse.{name}"
