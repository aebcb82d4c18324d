"""Arrays that Legate has no room to move: they lie apart from its stores, on the ranks, where every operation
works that works over MPI."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests import large
from tests.jobs import SECONDS, SEVERAL, TINY, diffuse, script

pytestmark = [pytest.mark.ranks, pytest.mark.skipif(SEVERAL is not None, reason=str(SEVERAL))]


def test_what_is_larger_than_a_rank_works() -> None:
    names = ["assign", "folds_of_axes", "halo", "roll", "pad", "trace", "place", "choice", "shuffle", "fft",
             "unique_few", "argsort", "partition", "row_read", "apply_along_axis", "printing", "median"]
    verdicts = large.table(argparse.Namespace(megabytes=8.0, memory="4M", width=500, ranks=4,
                                              runtime="legate", seconds=SECONDS, names=names))
    assert verdicts == {name: "close" if name == "fft" else "works" for name in names}


MOVING = """
import warnings

import diffuse
import numpy as np
from diffuse.runtime.legate import calls

runtime = diffuse.stream.engine.current().runtime
x, y = np.arange(300_000) * 0.5, np.arange(600_000).reshape(2, -1) * 3
view = y[1, 3:9]
diffuse.fence()
print("stores", float(x.sum()), float(view.sum()))
calls.PARTS, kept = 1 << 60, calls.PARTS  # as if memory were short
x[5:-5] = x[10:] + y[0, :299_990]
print("apart", float(x[::-1][:1000].sum()), x[[7, 299_999]], float(y[:, 5].sum()))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(float((x[:100_000] / (y[0, :100_000] - 6)).max()))
print(*[str(each.message).partition("\\n")[0] for each in told])
calls.PARTS, runtime._leaves = kept, False
z = np.sqrt(np.arange(2_000_000.0))  # stores of Legate's again, which are larger than what is apart
z[:300_000] += x
z[-600_000:] -= y.reshape(-1)
print("stores", float(z.sum()), float(np.cumsum(z)[-1]), view)
x[:] = 1
print(float(x.sum()), float(y.sum()))
if runtime.ranks > 1:
    print("moved", runtime._apart is not None and runtime._apart.ranks)
    print("beside Legate" in str(diffuse.explain()).rpartition("totals:")[2])
"""


def test_arrays_move_between_stores_and_ranks(tmp_path: Path) -> None:
    path = script(tmp_path, MOVING)
    plain = diffuse("run", path, cwd=tmp_path, DIFFUSE_RUNTIME="local", **TINY)
    assert plain.returncode == 0 and "divide by zero" in plain.stdout, plain.tail
    done = diffuse("run", "--ranks", "3", "--cpus", "1", path, cwd=tmp_path, **TINY)
    assert done.stdout == f"{plain.stdout}moved 3\nTrue\n", done.tail


APART = """
import numpy as np
from diffuse.runtime.ranks import launcher

x = np.arange(2e6) * 2
print(float(x[::-1].sum()))
n = 5 if launcher.rank() else 6
x = x[n:] - x[:-n]
print(float((x[::-1] + 1).sum()))
"""


def test_ranks_that_diverge_apart_end_with_both_lines(tmp_path: Path) -> None:
    path = script(tmp_path, APART)
    done = diffuse("run", "--ranks", "2", "--cpus", "1", "--memory", "16M", path, cwd=tmp_path, **TINY)
    assert done.returncode and "went different ways" in done.stderr, done.tail
    assert "x.py:8" in done.stderr, done.tail
