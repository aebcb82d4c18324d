"""Under a limit on address space (`ulimit -v`, batch systems), Diffuse leaves it to the program's arrays."""

from __future__ import annotations

import pytest

from tests.jobs import python

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
import numpy
import diffuse.numpy as np

a, plain = np.arange(60_000.0).reshape(200, 300), numpy.arange(60_000.0).reshape(200, 300)
for x, m in ((a, np), (plain, numpy)):
    x[1:, ::2] = x[:-1, ::2].T.copy().T * 2 + m.flip(x[1:, 1::2], 1)
    x += m.broadcast_to(x[0], x.shape)
assert numpy.array_equal(numpy.array(a), plain) and np.iscomplexobj(a) is False
assert numpy.array_equal(np.median(a, axis=0), numpy.median(plain, axis=0))
large = np.empty(1 << 27)
large[5] = 3.0
assert large[5] == 3.0 and large[::2].strides == (16,)
for failing in (lambda: float(np.ones(1 << 30)[0]), lambda: np.empty(1 << 45)):
    try:
        failing()
    except MemoryError:
        continue
    raise AssertionError("more than the limit allows")
assert float((a * 0.0 + 1.0).sum()) == a.size
turned = (np.ones((1500, 1500)) * 2).T  # recorded: nobody may look for its elements
try:
    turned.shape = -1
except AttributeError:
    assert float(turned[3, 5]) == 2.0
print("done")
"""


@pytest.mark.local_only("every rank has a runtime of its own that asks for more")
def test_two_gigabytes_of_address_space_are_the_programs() -> None:
    program = PROGRAM.format(limit=2 << 30)
    found = python(program)
    assert (found.returncode, found.stdout) == (0, "done\n"), found.stderr


NEAR = """
import ctypes, ctypes.util, mmap
import diffuse.numpy
pages = mmap.mmap(-1, 1 << 31, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
here = ctypes.addressof(ctypes.c_char.from_buffer(pages))
there = ctypes.cast(ctypes.CDLL(ctypes.util.find_library('c')).free, ctypes.c_void_p).value
assert abs(here - there) < 16 << 30, (hex(here), hex(there))
"""


@pytest.mark.local_only("other runtimes map memory of their own")
def test_what_is_mapped_later_lies_near_the_c_library() -> None:
    """Calls of functions more than 4 GB away are slower, and libraries are loaded where there is room next.

    Small mappings may lie in gaps between others."""
    found = python(NEAR)
    assert found.returncode == 0, found.stderr
