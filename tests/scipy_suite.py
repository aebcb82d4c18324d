"""SciPy's own tests of `scipy.sparse` with Diffuse in the place of NumPy and SciPy: how many pass.

    python tests/scipy_suite.py                    all test files that the installed SciPy has
    python tests/scipy_suite.py test_csr.py -k sum  some of them; options are pytest's
    python tests/scipy_suite.py --real ...          the same files with NumPy and SciPy, for comparison

The files are copied with their imports changed.  Counts are printed and nothing is asserted: some tests ask
what only NumPy's arrays can answer (`x.base is y`, say).
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse

TESTS = Path(scipy.sparse.__file__).parent / "tests"
EARLIER = [(r"asdense = (array|asmatrix|np\.\w+)$", r"asdense = staticmethod(\1)"),
           (r"^from \.\._(\w+) import", r"from scipy.sparse._\1 import"),
           (r"^from scipy\.sparse import (_\w+) as (\w+)$", r"import scipy.sparse.\1 as \2")]
CHANGES = [
    (r"^import numpy as np$", "import diffuse.numpy as np"),
    (r"^from numpy(\.testing)? import", r"from diffuse.numpy\1 import"),
    (r"^import numpy\.testing as", "import diffuse.numpy.testing as"),
    (r"^from scipy\.sparse(\._csr)? import", "from diffuse.scipy.sparse import"),
    (r"^import scipy\.sparse as sparse$", "import diffuse.scipy.sparse as sparse"),
    (r"^import scipy\.sparse$", "import diffuse.scipy as scipy, diffuse.scipy.sparse"),
    (r"^import scipy as sp$", "import diffuse.scipy as sp, diffuse.scipy.sparse"),
    (r"^from scipy import sparse$", "from diffuse.scipy import sparse"),
    (r"^import scipy\.sparse\.linalg as", "import diffuse.scipy.sparse.linalg as"),
    (r"^from scipy\.sparse\.linalg import", "from diffuse.scipy.sparse.linalg import"),
]


class Counts:
    """What became of each test, and the last line of each failure."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = {}
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = report.outcome if report.when == "call" or report.skipped else "error"
            outcome = "xfailed" if hasattr(report, "wasxfail") else outcome
            file = Path(report.location[0]).name
            self.outcomes.setdefault(file, Counter())[outcome] += 1
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                self.reasons[str(crash.message if crash else report.longrepr).split("\n")[0][:150]] += 1

    def show(self) -> None:
        for file, counts in sorted(self.outcomes.items()):
            print(f"{file:26}", "  ".join(f"{n} {what}" for what, n in sorted(counts.items())))
        total = sum(self.outcomes.values(), Counter())
        print(f"{'in all':26}", "  ".join(f"{n} {what}" for what, n in sorted(total.items())))
        for reason, n in self.reasons.most_common(40):
            print(f"{n:5}  {reason}")


def prepared(folder: Path, real: bool) -> None:
    """The test files in `folder`, their imports changed unless they are to run as they are."""
    shutil.copytree(TESTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for pattern, replacement in EARLIER + ([] if real else CHANGES):
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        file.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> None:
    real = "--real" in arguments
    options = [a for a in arguments if a != "--real"]
    counts = Counts()
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / "sparse_tests"
        prepared(folder, real)
        chosen = [str(folder / a) if a.endswith(".py") else a for a in options]
        if not any(a.endswith(".py") for a in options):
            chosen.append(str(folder))
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:warnings", "--no-header", "--tb=no", "-rN",
                     "--rootdir", room, *chosen], plugins=[counts])
    counts.show()


if __name__ == "__main__":
    main(sys.argv[1:])
