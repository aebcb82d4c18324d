"""Other projects' tests with Diffuse in the place of NumPy: copied, their imports rewritten, run and counted.

`scipy_suite.py` and `numpy_suite.py` are the commands.  Nothing is asserted: some tests ask what only NumPy's
own arrays can answer.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

Changes = Sequence[tuple[str, str]]
"""Regular expressions for lines of a test file, and what stands there instead."""

NUMPY: Changes = (
    (r"^( *)import numpy as (\w+)$", r"\1import diffuse.numpy as \2"),
    (r"^( *)import numpy$", r"\1import diffuse.numpy as numpy"),
    (r"^( *)from numpy((?:\.[a-z]\w*)*) import", r"\1from diffuse.numpy\2 import"),
    (r"^( *)import numpy((?:\.[a-z]\w*)+) as", r"\1import diffuse.numpy\2 as"),
)
"""NumPy's public modules become Diffuse's; what begins with an underscore stays NumPy's own."""


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """Make the parser of a command that runs test files, whose other options are pytest's."""
    found = argparse.ArgumentParser(description=documentation, allow_abbrev=False,
                                    usage="%(prog)s [options] [FILE.py ...] [options of pytest]",
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--real", action="store_true", help="the libraries themselves, without Diffuse")
    return found


def parsed(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Read the command line: the command's own options, the test files, and pytest's options."""
    given, rest = parser.parse_known_args()
    return given, [a for a in rest if a.endswith(".py")], [a for a in rest if not a.endswith(".py")]


def copied(tests: Path, folder: Path, changes: Changes) -> None:
    """Copy the test files to `folder` with these changes."""
    shutil.copytree(tests, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in folder.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for pattern, replacement in changes:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        file.write_text(text, encoding="utf-8")


class Outcomes:
    """A plugin of pytest: what became of each test, and the last line of each failure.

    With a file, each test is noted there when it begins and when it ended, so that a run that a test crashed
    can be taken up behind that test.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.of: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self._file = file
        for line in file.read_text().splitlines() if file is not None and file.exists() else ():
            test, outcome, reason = json.loads(line)
            self.of[test] = outcome
            self.reasons.pop(test, None)
            if reason:
                self.reasons[test] = reason
        self._before = frozenset(self.of)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._before]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._note(nodeid, "crashed", "the process crashed or was ended")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._note(nodeid, self.of[nodeid], self.reasons.get(nodeid, ""))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        outcome = report.outcome if report.when == "call" or report.skipped else "error"
        self.of[report.nodeid] = "xfailed" if hasattr(report, "wasxfail") else outcome
        if report.failed:
            self._explain(report)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.of[report.nodeid] = "error"
            self._explain(report)
            self._note(report.nodeid, "error", self.reasons[report.nodeid])

    def _explain(self, report: Any) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        lines = str(crash.message if crash else report.longrepr).strip().split("\n")
        self.reasons[report.nodeid] = " ".join(" ".join(lines if crash else lines[-1:]).split())[:150]

    def _note(self, test: str, outcome: str, reason: str) -> None:
        if self._file is not None:
            with open(self._file, "a") as file:
                file.write(json.dumps([test, outcome, reason]) + "\n")


def run(room: Path, options: Sequence[str], file: Path | None = None) -> Outcomes:
    """Run pytest in this process over files below `room`, but for the tests that `file` knows already."""
    outcomes = Outcomes(file)
    pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "--show-capture=no", "-rN",
                 "--rootdir", str(room), *options], plugins=[outcomes])
    return outcomes


def show(of: dict[str, str], reasons: dict[str, str]) -> None:
    """Print counts by file and in all, and the most frequent reasons of failures."""
    files: dict[str, Counter[str]] = {}
    for test, outcome in of.items():
        files.setdefault(test.partition("::")[0], Counter())[outcome] += 1
    width = max(map(len, files), default=0)
    files = {**dict(sorted(files.items())), "in all": sum(files.values(), Counter())}
    for file, counts in files.items():
        print(f"{file:{width}}", "  ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    for reason, n in Counter(reasons.values()).most_common(40):
        print(f"{n:5}  {reason}")
