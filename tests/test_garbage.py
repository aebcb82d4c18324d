"""Python's garbage collector and what imports leave behind (diffuse/numpy/bridge/garbage.py)."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, weakref

class Held:
    pass

held = Held()
held.itself, seen = held, weakref.ref(held)
before = [Held() for _ in range(5000)]
import diffuse.numpy as np
from diffuse.numpy.small import native

youngest, oldest = len(gc.get_objects(0)), len(gc.get_objects(2))
assert native is None or (youngest < 700 and oldest > 5000), (youngest, oldest)
del held
assert seen() is not None
gc.collect()
assert native is None or seen() is None
del before[2500:]  # their places in the collector's lists close again
gc.collect()
print(len(before))
"""


def test_what_the_program_has_is_collected_and_not_looked_at_by_the_first_collections() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert run.stdout == "2500\n", run.stderr
