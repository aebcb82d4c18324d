"""The tests of the array API standard with `diffuse.numpy` and with NumPy: what fails with Diffuse alone?

    git clone --recursive https://github.com/data-apis/array-api-tests
    pip install -r array-api-tests/requirements.txt
    python tests/array_api_suite.py array-api-tests               with small arrays as NumPy computes them
    DIFFUSE_SMALL=0 python tests/array_api_suite.py array-api-tests    with every operation recorded
    python tests/array_api_suite.py array-api-tests -k test_roll       some of them; options are pytest's

The tests are run under NumPy first, and those that fail with Diffuse alone again, with other examples:
some ask for more than NumPy holds, and only some examples show it.  Prints the counts of both and each test
that fails with Diffuse and not with NumPy; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+?::.+?)(?: - .*)?$", re.M)


def outcomes(tests: Path, module: str, options: list[str], chosen: Sequence[str] = ("array_api_tests",)
             ) -> dict[str, str]:
    """What became of each test of the suite, or of those chosen, with this module as the array library."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--tb=line",
               "--show-capture=no", "--disable-deadline", "--hypothesis-seed=3", *chosen, *options]
    run = subprocess.run(command, cwd=tests, env=os.environ | {"ARRAY_API_TESTS_MODULE": module},
                         capture_output=True, text=True)
    found = {test: outcome.lower() for outcome, test in OUTCOME.findall(run.stdout)}
    if run.returncode not in (0, 1) or not found:
        sys.exit(f"{module}: pytest ended with {run.returncode}\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     usage="%(prog)s TESTS [options of pytest]",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", metavar="TESTS", type=Path,
                        help="a checkout of array-api-tests with its submodule")
    arguments, options = parser.parse_known_args()
    if not (arguments.tests / "array_api_tests").is_dir():
        parser.error(f"{arguments.tests} has no folder array_api_tests: give a checkout of array-api-tests")
    plain, ours = (outcomes(arguments.tests, module, options) for module in ("numpy", "diffuse.numpy"))
    for name, found in (("numpy", plain), ("diffuse.numpy", ours)):
        print(name, "  ".join(f"{n} {what}" for what, n in sorted(Counter(found.values()).items())))
    worse = [test for test, outcome in ours.items()
             if outcome in ("failed", "error") and plain.get(test) not in ("failed", "error")]
    for seed in range(10):  # some depend on what is drawn: does NumPy fail as well on other examples?
        if worse:
            other = [*options, "--max-examples=1000", f"--hypothesis-seed={seed}"]
            again = outcomes(arguments.tests, "numpy", other, worse)
            worse = [test for test in worse if again.get(test) not in ("failed", "error")]
    for test in worse:
        print(f"fails with Diffuse alone: {test}")
    print(f"{len(worse)} tests fail with Diffuse alone")
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
