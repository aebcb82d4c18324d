"""Rows to aligned text, and numbers to the few digits that a noisy machine allows."""

from __future__ import annotations

from collections.abc import Sequence


def render(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with its first column to the left and all others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                       for i, (cell, w) in enumerate(zip(row, widths, strict=True))).rstrip()
             for row in (header, ["-" * w for w in widths], *rows)]
    return "\n".join(["", title, "=" * len(title), *lines])


def seconds(value: float | None) -> str:
    if value is None:
        return "-"
    for limit, unit, scale in ((1e-6, "ns", 1e9), (1e-3, "us", 1e6), (1.0, "ms", 1e3)):
        if value < limit:
            return f"{value * scale:.3g} {unit}"
    return f"{value:.3g} s"


def megabytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.0f} MB"


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}x"


def count(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def reached(value: bool) -> str:
    return "yes" if value else "NO"
