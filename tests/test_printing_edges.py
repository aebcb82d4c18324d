"""Printing a large array that is on several ranks fetches its edges alone, and prints what NumPy prints."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.jobs import diffuse, script

PROGRAM = """
    import numpy as np

    def shapes():
        for shape, dtype in (((60000,), "f8"), ((300, 200), "f4"), ((7, 9000), "i8"), ((6, 9000), "f8"),
                             ((40, 5, 300), "c16"), ((9, 8, 10, 90), "i4"), ((2, 30000), "?")):
            x = (np.arange(float(np.prod(shape))) * 1.5 - 700).reshape(shape).astype(dtype)
            yield x * x if dtype != "?" else ~x

    for x in shapes():
        print(x)
        print(repr(x))
        print(repr(x.T[1:]))
        with np.printoptions(edgeitems=1, precision=2, linewidth=60):
            print(f"{x[::-1]}", [x])
    x = np.linspace(0, 1, 40000).reshape(200, 200)
    x[100, 100] = 1e300  # which nobody sees
    print(x, repr(x[:3, :4]))
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What NumPy prints."""
    scope: dict[str, object] = {}
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(textwrap.dedent(PROGRAM), scope)
    return said.getvalue()


def test_the_edges_print_as_the_whole_array(tmp_path: Path, expected: str) -> None:
    path = script(tmp_path, PROGRAM)
    done = diffuse("run", "--predict", "4", "--json", path, DIFFUSE_SMALL="0", DIFFUSE_MIN_CHUNK="64")
    assert (done.returncode, done.stdout) == (0, expected), done.tail


def test_little_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("import numpy as np\nx = np.ones((2000, 2000)) + 1\nprint(x, repr(x))\n")
    done = diffuse("run", "--predict", "4", "--json", str(path))
    assert done.returncode == 0, done.tail
    rows = json.loads(done.stderr)["rows"]
    assert 0 < sum(row["bytes"] for row in rows) < 40_000 * 8, rows  # of 96 MB for all of it on all ranks
