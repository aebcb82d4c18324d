"""The words of a routine and the elements that they point to."""

from __future__ import annotations

from diffuse.kernels.llvm.code import ELEMENT, Code

SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


def word(code: Code, position: int) -> str:
    """The value of a word, an i64."""
    return code.let(f"load i64, ptr {at(code, '%words', 8 * position)}, align 8")


def put(code: Code, position: int, value: str) -> None:
    """Set a word, through which a result is returned."""
    code.do(f"store i64 {value}, ptr {at(code, '%words', 8 * position)}, align 8")


def at(code: Code, pointer: str, offset: int) -> str:
    """A pointer `offset` bytes after another."""
    return code.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def pointer(code: Code, position: int) -> str:
    """The value of a word that is an address."""
    return code.let(f"load ptr, ptr {at(code, '%words', 8 * position)}, align 8")


def place(code: Code, dtype: str, base: str, index: str) -> str:
    """A pointer to an element of an array that begins at a pointer."""
    return code.let(f"getelementptr {ELEMENT[dtype]}, ptr {base}, i64 {index}")


def load(code: Code, dtype: str, pointer: str) -> str:
    return code.let(f"load {code.type(dtype)}, ptr {pointer}, align {SIZES[ELEMENT[dtype]]}")


def store(code: Code, dtype: str, value: str, pointer: str) -> None:
    code.do(f"store {code.type(dtype)} {value}, ptr {pointer}, align {SIZES[ELEMENT[dtype]]}")
