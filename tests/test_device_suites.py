"""A part of the suite once more on the simulated device, in processes of its own.

`DIFFUSE_RUNTIME=simt pytest` runs all of it there.
"""

from __future__ import annotations

import sys

import pytest

from tests.jobs import ROOT, job

SECONDS = 400
GROUPS = {
    "arrays": ["test_numpy_views.py", "test_numpy_lending.py", "test_numpy_lent_views.py"],
    "calls": ["test_numpy_ufuncs.py"],
    "fuzz": ["test_fuzz_numpy.py"],
    "reductions": ["test_numpy_reductions.py", "-k", "not every_axis or float64 or bool"],
    "sparse": ["test_fuzz_sparse.py", "-k", "0-"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_the_suite_on_the_simulated_device(group: str) -> None:
    files = [str(ROOT / "tests" / word) if word.endswith(".py") else word for word in GROUPS[group]]
    done = job(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-rfE", *files,
               seconds=SECONDS, cwd=ROOT, DIFFUSE_RUNTIME="simt")
    assert done.returncode == 0 and " passed" in done.stdout, done.tail
