"""Lets NumPy compute at once on large arrays at hand, in programs that read a value after every few
operations.

The engine detects such programs (stream/brevity.py) and grants a number of bytes that operations may read and
write at once between two values that the program reads.  Only operations with NumPy's bits are done at once,
so that results do not depend on this rule.  The extension does it (small/soon.c); without the extension such
operations are recorded, or done one by one (ops/single.py).
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse import library
from diffuse.numpy.small import native
from diffuse.settings import config, watch


def _nothing() -> None:
    pass


def _no(_: int) -> bool:
    return False


looked: Callable[[], None] = _nothing
"""Note that the program reads a value."""
spend: Callable[[int], bool] = _no
"""May an operation that reads and writes so many bytes be done at once?  If so, deducts them."""


def allow(allowance: int) -> bool:
    """Set how many bytes operations may read and write at once between two reads.  -1 sets nothing; returns
    whether the last allowance was exceeded."""
    if allowance < 0:
        return bool(native.allowance() == 0)
    native.set_allowance(allowance if config.small else 0)
    return False


if native is not None:
    looked, spend = native.looked, native.spend
    library.current().brevity.listener = allow
    watch("small", lambda _: native.set_allowance(0))
    watch("runtime", lambda _: native.set_allowance(0))
