"""Host functions on the parts of Legate's ranks: local bits, and no rank has more than its part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs import SEVERAL, TINY, diffuse, script

pytestmark = [pytest.mark.ranks, pytest.mark.skipif(SEVERAL is not None, reason=str(SEVERAL))]

PROGRAM = """
import hashlib
import numpy
import diffuse.numpy as np
from diffuse import library
from diffuse.numpy.arrays import base
from diffuse.runtime.legate.calls import Calls

Calls.in_parts = lambda runtime, nbytes: runtime.ranks > 1  # as if memory were short

def say(name, value):
    value = numpy.asarray(value)
    print(name, value.dtype, value.shape, hashlib.sha256(value.tobytes()).hexdigest()[:16])

seen = []
def scaled(x, out):
    seen.append(len(x))
    out[...] = x * 3.0

for n in 5003, 65:
    x = np.sin(np.arange(n) * 1.7) * 100
    a = (np.arange(n // 4 * 4) * 3.7 % 11).reshape(4, -1)
    y, out = np.arange(n) * 1.0, np.empty(n)
    y[(np.arange(n) * 5) % n] = -x  # by request and reply
    say("put", y)
    y[3:-3].sort()  # in a box of the store
    say("box", y)
    y[::-1].sort()  # parts that Legate cannot express
    say("turned", y)
    say("sort", np.sort(x)), say("argsort", np.argsort(x, kind="stable")), say("unique", np.unique(x // 9))
    say("mask", x[x > 3]), say("take", x[(np.arange(n) * 7) % n]), say("nonzero", np.nonzero(x > 50)[0])
    say("percentile", np.percentile(x, [3, 70])), say("median", np.median(a, axis=0))
    say("rows", np.sort(a, axis=1)), say("columns", np.sort(a, axis=0)), say("fft", np.fft.fft(a, axis=1))
    say("random", np.random.default_rng(1).random(n)), say("same", np.random.default_rng(1).permutation(x))
    say("searchsorted", np.searchsorted(np.arange(50.0), x))
    say("bincount", np.bincount((x + 200).astype(int)))
    say("words", x.view(np.int64) // 3)  # in the store's own coordinates, as another type
    library.call("scaled", library.Independent(scaled, ((0, 0),)), (base.argument(x),), (base.argument(out),))
    say("scaled", out)
print("parts", *seen)
"""


def said(folder: Path, ranks: int) -> tuple[set[str], list[list[int]]]:
    """What a program prints on so many ranks, and how many elements its function got at each call."""
    path = script(folder, PROGRAM)
    words = ("--ranks", str(ranks), "--cpus", "1", "--output", "all") if ranks > 1 else ()
    done = diffuse("run", *words, path, cwd=folder, **{**TINY, "DIFFUSE_FALLBACK": "silent"})
    assert done.returncode == 0, done.tail
    lines = [line.split("] ")[-1] for line in done.stdout.splitlines()]
    parts = [list(map(int, line.split()[1:])) for line in lines if line.startswith("parts")]
    assert len(parts) == ranks, done.tail
    return {line for line in lines if not line.startswith("parts")}, parts


def test_functions_get_the_parts_of_their_rank_and_find_the_local_bits(tmp_path: Path) -> None:
    expected, whole = said(tmp_path, 1)
    assert whole == [[5003, 65]] and len(expected) > 30
    for ranks in 2, 3:
        found, parts = said(tmp_path, ranks)
        assert found == expected
        assert sum([each[0] for each in parts]) == 5003 and max([each[0] for each in parts]) < 5003


MEMORY = """
import diffuse
import diffuse.numpy as np

x = np.arange(3_000_000) * 0.5
diffuse.fence()
for what in "reading", "product":
    try:
        y = diffuse.to_numpy(x) if what == "reading" else x[::-1] * x
        diffuse.fence()
    except MemoryError as error:
        print(what, error.__traceback__.tb_lineno)
print("sum", float(x.sum()), float(np.sort(np.cos(x[:100_000]))[:10].sum()))
"""


def test_an_array_that_no_rank_has_room_for_is_a_memory_error_and_the_session_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(MEMORY)
    local = diffuse("run", str(path), cwd=tmp_path)
    done = diffuse("run", "--ranks", "3", "--cpus", "1", "--memory", "20M", "--output", "all", str(path),
                   cwd=tmp_path)
    assert done.returncode == 0, done.tail
    lines = [line.split("] ")[-1] for line in done.stdout.splitlines()]
    (total,) = local.stdout.splitlines()
    assert sorted(lines) == sorted(["reading 9", "product 10", total] * 3), done.tail
