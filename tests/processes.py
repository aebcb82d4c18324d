"""Programs in processes of their own, as tests of ranks and of Legate need them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from diffuse.runtime.legate import prepare

ROOT = Path(__file__).resolve().parent.parent
LAUNCHERS = ("OMPI_", "PMIX_", "MV2_", "SLURM_", "LEGATE_", "REALM_", "UCX_")
SECONDS = 240

ONE, SEVERAL = prepare.find().refusal(), prepare.find().refusal(several=True)
if SEVERAL is None and not Path(sys.prefix, "bin", "mpirun").exists():
    SEVERAL = "no mpirun beside this Python"
needs_legate = pytest.mark.skipif(ONE is not None, reason=str(ONE))
needs_ranks = pytest.mark.skipif(SEVERAL is not None, reason=str(SEVERAL))

FILL = """
import os, sys
from diffuse.runtime.legate import prepare, ranks
core = prepare.start()
assert prepare.start() is core
ranks.settle_in(prepare.rank(), prepare.ranks())
import numpy
legate = core.get_legate_runtime()
store = legate.create_store(core.types.float64, (1000,))
store.fill(3.0)
assert numpy.asarray(store.get_physical_store())[999] == 3.0
print(legate.node_count, prepare.inline(), prepare.memory_given() > 0)
if sys.argv[1:] == ["fail"] and prepare.rank() == 1:
    raise ValueError("boo")
"""
"""A store of Legate's, filled and read back."""


def environment(**variables: str) -> dict[str, str]:
    """Ours, without what some launcher around the tests has said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


def process(*words: str, cwd: Path | None = None, **variables: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=cwd,
                          env=environment(**variables))


def python(text: str, *words: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    """Run program text."""
    return process(sys.executable, "-c", textwrap.dedent(text), *words, **variables)


def diffuse(*words: str, cwd: Path | None = None, **variables: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return process(sys.executable, "-m", "diffuse", *words, cwd=cwd, **variables)
