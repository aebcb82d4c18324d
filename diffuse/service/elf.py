"""Loads relocatable object files (ELF64 for x86-64) into memory, without LLVM.

The emitter's object code is simple: sections of code and constants, nothing that is written to, and absolute
64-bit addresses for whatever is not in the same section.  Anything else is refused with a `LoadError`, which
leaves the kernel interpreted.

The image is laid out and relocated in Python, copied into fresh pages, and only then made executable, so no
page is ever writable and executable at once.  Nothing is registered with an unwinder: no exception passes
through a kernel, and tables for one (`.eh_frame`) are left out.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from diffuse.interrupts import suppress

HEADER = Struct("<4sBB10xHHIQQQIHHHHHH")
SECTION = Struct("<IIQQQQIIQQ")
SYMBOL = Struct("<IBBHQQ")
RELOCATION = Struct("<QIIq")

OBJECT, X86_64 = 1, 62
NOBITS, SYMBOLS, ADDENDS, NO_ADDENDS = 8, 2, 4, 9
WRITTEN, LOADED = 1, 2
UNDEFINED, ABSOLUTE, RESERVED = 0, 0xFFF1, 0xFF00
"""Section numbers of symbols that are in no section."""

R_64, R_PC32, R_PLT32, R_PC64 = 1, 2, 4, 24

LIBRARIES = ("libm.so.6",)
"""Libraries in which symbols are looked up that the process itself lacks."""


class LoadError(RuntimeError):
    """The reason why object code cannot be loaded."""


class Pages(NamedTuple):
    """Executable memory with functions in it."""

    addresses: Mapping[str, int]
    keep: mmap.mmap
    """Its destructor unmaps the memory; a finalizer in Python would swallow an interrupt that comes in it."""


class Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def load(image: bytes, names: Sequence[str]) -> Pages:
    """Load object code; the result has the addresses of the functions `names`."""
    try:
        return _load(image, names)
    except (StructError, LookupError, ValueError, OverflowError) as error:
        raise LoadError(f"the object code is malformed ({error})") from None


def _load(image: bytes, names: Sequence[str]) -> Pages:
    sections = _sections(image)
    places, size = _layout(image, sections)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    content = bytearray(size)
    for number, place in places.items():
        section = sections[number]
        content[place:place + section.size] = image[section.offset:section.offset + section.size]
    table = next((s for s in sections if s.kind == SYMBOLS), None)
    if table is None:
        raise LoadError("the object code has no symbols")
    symbols = _Symbols(image, sections, table, {n: start + place for n, place in places.items()})
    for section in sections:
        if section.kind == NO_ADDENDS and section.info in places:
            raise LoadError("the object code has relocations without addends")
        if section.kind == ADDENDS and section.info in places:
            _relocate(content, start, places[section.info], section, symbols)
    addresses = symbols.named(names)
    pages[:] = bytes(content)
    if _protect()(start, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise LoadError("this system refuses executable memory")
    return Pages(addresses, pages)


def _sections(image: bytes) -> list[Section]:
    magic, width, order, kind, machine, _, _, _, at, *_, count, _ = HEADER.unpack_from(image)
    if (magic, width, order, kind, machine) != (b"\x7fELF", 2, 1, OBJECT, X86_64):
        raise LoadError("this is no relocatable object code for x86-64")
    return [Section(*SECTION.unpack_from(image, at + SECTION.size * n)) for n in range(count)]


def _layout(image: bytes, sections: list[Section]) -> tuple[dict[int, int], int]:
    """The offset in the pages of each section that the program needs, and the bytes of whole pages."""
    names = sections[HEADER.unpack_from(image)[-1]].offset
    places: dict[int, int] = {}
    size = 0
    for number, section in enumerate(sections):
        if not section.flags & LOADED or not section.size:
            continue
        name = _text(image, names + section.name)
        if name == ".eh_frame":
            continue
        if section.flags & WRITTEN or section.kind == NOBITS:
            raise LoadError(f"the object code writes to its section {name}")
        if section.offset + section.size > len(image):
            raise LoadError("the object code is cut off")
        if section.alignment > mmap.PAGESIZE:
            raise LoadError(f"the object code aligns its section {name} to more than a page")
        size += -size % max(1, section.alignment)
        places[number] = size
        size += section.size
    return places, max(1, -(-size // mmap.PAGESIZE)) * mmap.PAGESIZE


class _Symbols:
    """The symbol table of an image whose sections lie at known addresses."""

    def __init__(self, image: bytes, sections: list[Section], table: Section, bases: dict[int, int]) -> None:
        self._image, self._table, self._bases = image, table, bases
        self._names = sections[table.link].offset

    def _entry(self, number: int) -> tuple[str, int, int]:
        """The name, section and value of a symbol."""
        if not 0 <= number < self._table.size // SYMBOL.size:
            raise LoadError(f"the object code has no symbol {number}")
        name, _, _, section, value, _ = SYMBOL.unpack_from(self._image,
                                                           self._table.offset + number * SYMBOL.size)
        return _text(self._image, self._names + name), section, value

    def address(self, number: int) -> int:
        name, section, value = self._entry(number)
        if section == UNDEFINED:
            return _external(name)
        if section == ABSOLUTE:
            return value
        if section >= RESERVED or section not in self._bases:
            raise LoadError(f"the object code refers to {name or 'a section'}, which is not loaded")
        return self._bases[section] + value

    def named(self, wanted: Sequence[str]) -> dict[str, int]:
        found = {}
        for number in range(1, self._table.size // SYMBOL.size):
            name, section, value = self._entry(number)
            if section in self._bases:
                found[name] = self._bases[section] + value
        missing = [name for name in wanted if name not in found]
        if missing:
            raise LoadError(f"the object code lacks the function {', '.join(missing)}")
        return {name: found[name] for name in wanted}


def _relocate(content: bytearray, start: int, place: int, section: Section, symbols: _Symbols) -> None:
    """Fill in the addresses to which one section refers."""
    image = symbols._image
    for at in range(section.offset, section.offset + section.size, RELOCATION.size):
        offset, kind, symbol, addend = RELOCATION.unpack_from(image, at)
        value = symbols.address(symbol) + addend
        where = place + offset
        if kind == R_64:
            size, signed = 8, False
            value &= (1 << 64) - 1
        elif kind in (R_PC32, R_PLT32, R_PC64):
            size, signed = (8 if kind == R_PC64 else 4), True
            value -= start + where
        else:
            raise LoadError(f"the object code has a relocation of the unknown type {kind}")
        if where + size > len(content):
            raise LoadError("the object code has a relocation outside of its section")
        try:
            content[where:where + size] = value.to_bytes(size, "little", signed=signed)
        except OverflowError:
            raise LoadError("the object code refers to an address that is too far away") from None


def _text(image: bytes, start: int) -> str:
    return image[start:image.index(0, start)].decode()


@cache
def _external(name: str) -> int:
    """The address of a function of the process or of the mathematical libraries."""
    for library in _libraries():
        try:
            return ctypes.cast(library[name], ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    raise LoadError(f"neither this process nor {' nor '.join(LIBRARIES)} has the function {name}")


@cache
def _libraries() -> list[Any]:
    found = [ctypes.CDLL(None)]
    for name in LIBRARIES:
        with suppress(OSError):
            found.append(ctypes.CDLL(name))
    return found


@cache
def _protect() -> Any:
    """The C library's `mprotect`; a call keeps Python's lock, as it is short."""
    function = ctypes.PyDLL(None).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
