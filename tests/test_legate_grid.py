"""Legate's task for GPUs, run by its processors: the local runtime's bits, from programs down to messages.

What is simulated is the driver's launch function, and that a GPU has memory of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.jobs import needs_legate, python
from tests.test_legate_trampoline import EVERYTHING, RECORDED, START

pytestmark = needs_legate

MODES: dict[str, dict[str, Any]] = {
    "one": {"LEGATE_INLINE_TASK_LAUNCH": "0"},
    "two": {"LEGATE_CONFIG": "--cpus 2 --gpus 0"},
    "three": {"LEGATE_CONFIG": "--cpus 3 --gpus 0"},
}
HERE = "from tests import legate_grid\nlegate_grid.install()\n" + START
COUNT = """
from diffuse.observe import trace
print(trace.counters["interpreted"], runtime.placement.devices.launched() > 200)
"""


def child(text: str, mode: str, **variables: str) -> list[str]:
    """Lines of a program's output."""
    done = python(HERE + text, **{**RECORDED, **MODES[mode], **variables})
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """What the same program prints on this machine's threads."""
    done = python(START + EVERYTHING, **{**RECORDED, "DIFFUSE_RUNTIME": "local"}, DIFFUSE_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", MODES)
def test_the_same_bits_as_on_processors(mode: str, expected: list[str]) -> None:
    *found, counted = child(EVERYTHING + COUNT, mode)
    assert len(found) > 60 and counted == "0 True"
    flags = "['divide by zero', 'invalid value']"  # a GPU keeps none
    assert [line for line in found if line != "[]"] == [line for line in expected if line != flags]
