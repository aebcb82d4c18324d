"""Programs on small arrays, which need no runtime, make none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.jobs import python

SMALL = """
import numpy as np
rng = np.random.default_rng(3)
a = rng.random((20, 20)) @ np.eye(20)
a[3:, 4] -= a[3:, :4] @ a[3, :4]
print(float(np.angle(np.exp(1j * a)).sum()), float(np.sort(a.ravel())[7]), np.linalg.eigvalsh(a @ a.T)[0] < 1)
"""
LARGE = "import numpy as np; print(float((np.ones(2_000_000) + 1).sum()))"
ASKED = "\nimport sys; print('runtime' if 'diffuse.runtime.local.runtime' in sys.modules else 'none')"


pytestmark = pytest.mark.local_only("other runtimes are made at once")


@pytest.mark.parametrize("program, made", [(SMALL, "none"), (LARGE, "runtime")], ids=["small", "large"])
def test_a_runtime_is_made_for_large_arrays_only(program: str, made: str) -> None:
    words = [sys.executable, "-m", "diffuse", "run", "-c", program + ASKED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.stdout.split()[-1] == made, done.stderr


def test_a_fence_makes_no_runtime() -> None:
    code = "import diffuse.numpy, diffuse\ndiffuse.numpy.zeros(300)\ndiffuse.fence()" + ASKED
    done = python(code)
    assert done.stdout.split() == ["none"], done.stderr
