"""Links a body's kernels to machine code, several of them at once.

NVIDIA's linker takes longer than LLVM for large kernels, and uses one processor for each call.  So the PTX of
a body is cut into parts with some kernels each, which are linked by threads of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from diffuse.runtime import machine

PART = 8000
"""The bytes of PTX that are worth a call of their own."""
MOST = 16
"""The most calls at once."""


def parts(text: bytes) -> list[bytes]:
    """The modules with the kernels of one, some in each; what stands before the first kernel is in all."""
    head, *kernels = re.split(rb"(?=^\t// \.globl\t\S+[^\n]*\n\n?\.visible \.entry)", text, flags=re.M)
    many = min(len(kernels), MOST, machine.processors(), len(text) // PART)
    if many < 2 or b"\n.func" in text or b"\n.visible .func" in text:
        return [text]
    found, sizes = [b""] * many, [0] * many
    for kernel in sorted(kernels, key=len, reverse=True):
        least = sizes.index(min(sizes))
        found[least] += kernel
        sizes[least] += len(kernel)
    return [head + part for part in found]


def names(part: bytes) -> tuple[str, ...]:
    """The kernels of a module."""
    return tuple([name.decode() for name in re.findall(rb"^\.visible \.entry (\w+)\(", part, re.M)])


def linked(texts: list[bytes], link: Callable[[bytes], bytes]) -> list[bytes]:
    """The machine code of each of these modules."""
    if len(texts) < 2:
        return [link(text) for text in texts]
    try:
        from concurrent.futures import ThreadPoolExecutor  # which cannot be imported by an exit handler

        threads = ThreadPoolExecutor(len(texts))
        found = [threads.submit(link, text) for text in texts]
    except RuntimeError:  # Python ends, and starts no threads any more
        return [link(text) for text in texts]
    with threads:
        return [one.result() for one in found]
