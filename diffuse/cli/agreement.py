"""Compares two runs of a program: printed text, saved files and arrays; differences are described in
sentences.

Half of the digits have to agree, for two correct runs differ by rounding.  Numbers in text agree to
`PRINTED`, integers exactly; times, which are numbers followed by a unit of time, are not compared.
"""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

PRINTED = 1e-5
"""The relative difference allowed between printed numbers."""
NOTHING = 1e-12
"""Printed numbers below this count as zero, as residuals do."""
PIXELS = 0.01
"""The root mean square difference allowed between pictures, where 1 is from black to white."""

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\d)|[-+]?\b(?:nan|inf)\b")
TIME = re.compile(r"\s*(?:[numµμ]?s|secs?|seconds?|minutes?|it/s)\b")
DURATION = re.compile(f"(?:{NUMBER.pattern}){TIME.pattern}")


def same_text(plain: str, ours: str) -> bool:
    """Are two printed texts equal but for times and spaces?"""
    one, other = (DURATION.sub(" ", text).split() for text in (plain, ours))
    return one == other


def texts(plain: str, ours: str) -> str | None:
    """Describe the first difference of two printed texts in a sentence; None if they agree."""
    ones, others = plain.splitlines(), ours.splitlines()
    for number, (one, other) in enumerate(zip(ones, others, strict=False), 1):
        if one != other and not _lines(one, other):
            return f"line {number} is {one.strip()!r} under NumPy and {other.strip()!r} under Diffuse"
    if len(ones) != len(others):
        return f"{len(ones)} lines under NumPy and {len(others)} under Diffuse"
    return None


def _lines(one: str, other: str) -> bool:
    """Do two lines have the same words, and numbers that agree?  Spaces are ignored, as numbers may be
    longer."""
    if [w.split() for w in NUMBER.split(one)] != [w.split() for w in NUMBER.split(other)]:
        return False
    return all(TIME.match(one, x.end()) or _numbers(x.group(), y.group())
               for x, y in zip(NUMBER.finditer(one), NUMBER.finditer(other), strict=True))


def _numbers(one: str, other: str) -> bool:
    if one == other:
        return True
    if one.lstrip("+-").isdigit() and other.lstrip("+-").isdigit():
        return int(one) == int(other)
    a, b = float(one), float(other)
    if a != a or b != b or abs(a) == float("inf"):
        return a == b or (a != a and b != b)
    return abs(a - b) <= max(NOTHING, PRINTED * max(abs(a), abs(b)), _last_place(one, other))


def _last_place(one: str, other: str) -> float:
    """One unit in the last printed place of numbers with at least four digits, which may be rounded; else
    0."""
    mantissas = [re.split("[eE]", text) for text in (one, other)]
    if min(sum(c.isdigit() for c in m[0].lstrip("+-0.")) for m in mantissas) < 4:
        return 0.0
    places = [len(m[0].partition(".")[2]) - (int(m[1]) if len(m) > 1 else 0) for m in mantissas]
    return 1.001 * 10.0 ** -min(places)


def arrays(plain: Any, ours: Any) -> str | None:
    """Describe the difference of two NumPy arrays, as the rest of a sentence; None if they agree."""
    import numpy

    if plain.shape != ours.shape or plain.dtype != ours.dtype:
        return (f"is {plain.dtype}{list(plain.shape)} under NumPy and {ours.dtype}{list(ours.shape)} "
                "under Diffuse")
    if plain.dtype.names is not None:
        found = ((name, arrays(plain[name], ours[name])) for name in plain.dtype.names)
        return next((f"has a field {name!r} that {said}" for name, said in found if said), None)
    with numpy.errstate(all="ignore"):
        differ = _unequal(plain, ours)
        if plain.dtype.kind in "fc" and differ.any():
            tolerance = float(numpy.finfo(plain.dtype).eps) ** 0.5
            finite = numpy.abs(plain[numpy.isfinite(plain)])
            # elements that are small beside the others consist mostly of their rounding errors
            floor = float(finite.max()) / 100 if finite.size else 0.0
            gap = numpy.abs(plain - ours)
            differ &= ~(gap <= tolerance * numpy.maximum(numpy.abs(plain), floor))
    if not differ.any():
        return None
    first = tuple(int(i) for i in numpy.argwhere(differ)[0])
    where = f"[{', '.join(map(str, first))}]" if first else ""
    return (f"differs in {int(differ.sum())} of {plain.size} elements; {where or 'it'} is {plain[first]} "
            f"under NumPy and {ours[first]} under Diffuse")


def _unequal(plain: Any, ours: Any) -> Any:
    """Return a mask of the elements that differ, where NaN equals NaN."""
    return ~((plain == ours) | ((plain != plain) & (ours != ours)))


def gap(plain: Any, ours: Any) -> float | None:
    """The largest difference of two arrays; None if they differ in shape or are not numeric."""
    import numpy

    if plain.shape != ours.shape or not (numpy.can_cast(plain.dtype, complex)
                                         and numpy.can_cast(ours.dtype, complex)):
        return None
    differ = _unequal(plain, ours)
    with numpy.errstate(all="ignore"):
        found = numpy.abs(plain[differ].astype(complex) - ours[differ].astype(complex))
    return float(found.max()) if found.size else 0.0


def same_files(plain: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Were the same files saved, with the same bytes?"""
    return plain.keys() == ours.keys() and all(filecmp.cmp(plain[path], ours[path], False) for path in plain)


def files(plain: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[str]:
    """Describe each saved file that differs in a sentence.  Each mapping gives the copies of the saved
    files."""
    for path in sorted({*plain, *ours}):
        if path not in plain or path not in ours:
            yield f"{path} was saved under {'NumPy' if path in plain else 'Diffuse'} alone"
        elif said := _file(path, plain[path], ours[path]):
            yield f"{path} {said}"


def _file(path: str, one: str, other: str) -> str | None:
    with open(one, "rb") as a, open(other, "rb") as b:
        plain, ours = a.read(), b.read()
    if plain == ours:
        return None
    kind = os.path.splitext(path)[1].lower()
    try:
        if kind in (".npy", ".npz"):
            return _saved_arrays(one, other)
        if kind in (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif"):
            return _pictures(one, other)
        said = texts(plain.decode(), ours.decode())
        return f"differs: {said}" if said else None
    except (ValueError, ImportError, OSError):  # objects in an array, no library for pictures, no text
        return f"differs: {len(plain)} bytes under NumPy and {len(ours)} under Diffuse, not all the same"


def _saved_arrays(one: str, other: str) -> str | None:
    import numpy

    plain, ours = numpy.load(one), numpy.load(other)
    if isinstance(plain, numpy.ndarray):
        return arrays(plain, ours)
    with plain, ours:
        if set(plain.files) != set(ours.files):
            return f"holds {', '.join(plain.files)} under NumPy and {', '.join(ours.files)} under Diffuse"
        found = ((name, arrays(plain[name], ours[name])) for name in plain.files)
        return next((f"holds {name!r}, which {said}" for name, said in found if said), None)


def _pictures(one: str, other: str) -> str | None:
    import numpy
    from PIL import Image

    with Image.open(one) as a, Image.open(other) as b:
        plain, ours = (numpy.asarray(image.convert("RGBA"), float) / 255 for image in (a, b))
    if plain.shape != ours.shape:
        return f"is a picture of {plain.shape[:2]} under NumPy and of {ours.shape[:2]} under Diffuse"
    distance = float(numpy.sqrt(numpy.mean((plain - ours) ** 2)))
    return f"differs by {distance:.1%}, root mean square" if distance > PIXELS else None
