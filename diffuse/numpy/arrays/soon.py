"""Operations on large arrays at hand that are done at once, while the program reads a value after every few.

Which programs those are the engine finds (stream/brevity.py): it allows a number of bytes that operations may
read and write between two values that the program reads.  Only operations that have NumPy's bits are done so,
and no bit depends on the rule.  The extension does it (small/soon.c); without that such operations are
recorded, or done one by one (ops/single.py).
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
"""May an operation that reads and writes so many bytes be done at once?  If so, they are counted."""


def allow(allowance: int) -> bool:
    """Let operations read and write so many bytes between two values; -1 asks whether they exceeded what they
    were allowed last."""
    if allowance < 0:
        return bool(native.allowance() == 0)
    native.set_allowance(allowance if config.small else 0)
    return False


if native is not None:
    looked, spend = native.looked, native.spend
    library.current().brevity.listener = allow
    watch("small", lambda _: native.set_allowance(0))
    watch("runtime", lambda _: native.set_allowance(0))
