"""The heap that NumPy's arrays come from: the next array gets what was freed, without page faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy
{imports}

def faults(turns):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(turns):
        y = (x * 2.0 - x) * x + (x + 1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

x = numpy.ones(100_000)
faults(3)
print(faults(100))
"""


def faults(imports: str) -> int:
    """Page faults of 100 turns of a loop with temporaries of 800 KB."""
    words = [sys.executable, "-c", PROGRAM.format(imports=imports)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_temporaries_of_numpy_cost_no_page_faults() -> None:
    if faults("") < 5_000:
        pytest.skip("a C library that keeps freed memory by itself")
    assert faults("import diffuse.numpy") < 1_000
