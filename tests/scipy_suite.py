"""SciPy's own tests of a package with Diffuse in the place of NumPy and SciPy: how many pass.

    python tests/scipy_suite.py                      all test files of scipy.sparse
    python tests/scipy_suite.py test_csr.py -k sum   some of them; options are pytest's
    python tests/scipy_suite.py --package signal     those of another package, as under `diffuse run`
    python tests/scipy_suite.py --real ...           the same files with NumPy and SciPy, for comparison

The files are copied, those of scipy.sparse with their imports changed.  Counts are printed, and each test
that fails, with its reason if `REASONS` has one.  Nothing is asserted.  With `DIFFUSE_SMALL=0` small arrays
are Diffuse's, too.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from pathlib import Path

import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from diffuse.intercept import numpy_replaced
from tests import suites

REASONS = {
    r"test_setulb_floatround": "calls private C code of SciPy, which takes NumPy's own arrays alone",
    r"test_downcast_intp": "replaces a private function of SciPy that sums of Diffuse's matrices do not call",
    r"test__numdiff.*::test_equivalence|test_chandrupatla.*::test_vectorization":
        "compares last bits of powers and exponentials, which NumPy's libraries round otherwise",
}
"""Why tests fail with Diffuse, by their names."""
TESTS = Path(scipy.sparse.__file__).parent / "tests"
FAST = "not slow and not xslow"
"""The tests that are run; one of the others takes 20 GB."""
EARLIER = (
    (r"asdense = (array|asmatrix|np\.\w+)$", r"asdense = staticmethod(\1)"),
    (r"^from \.\._(\w+) import", r"from scipy.sparse._\1 import"),
    (r"^from scipy\.sparse import (_\w+) as (\w+)$", r"import scipy.sparse.\1 as \2"),
)
SCIPY = (
    (r"^from scipy\.sparse(\._csr)? import", "from diffuse.scipy.sparse import"),
    (r"^import scipy\.sparse as sparse$", "import diffuse.scipy.sparse as sparse"),
    (r"^import scipy\.sparse$", "import diffuse.scipy as scipy, diffuse.scipy.sparse"),
    (r"^import scipy as sp$", "import diffuse.scipy as sp, diffuse.scipy.sparse"),
    (r"^from scipy import sparse$", "from diffuse.scipy import sparse"),
    (r"^import scipy\.sparse\.linalg as", "import diffuse.scipy.sparse.linalg as"),
    (r"^from scipy\.sparse\.linalg import", "from diffuse.scipy.sparse.linalg import"),
)


CONFTEST = """
import sys
import numpy
import pytest
from scipy._lib._array_api import array_namespace, xp_capabilities_table as table
from scipy.conftest import *
from scipy.conftest import skip_or_xfail_xp_backends

ours = numpy.__name__ == "diffuse.numpy"
if ours:  # tests ask for the library by its name, and what functions can do by the functions of the library
    import importlib
    import pkgutil
    import scipy._lib._array_api as array_api
    from diffuse.scipy.fallback import MIRRORED

    packages = [importlib.import_module("scipy." + name) for name in MIRRORED]
    for theirs in [*packages, *[importlib.import_module(f"{p.__name__}.{m.name}") for p in packages
                                for m in pkgutil.iter_modules(p.__path__) if not m.name.startswith("_")
                                and m.name != "tests" and hasattr(p, m.name)]]:
        for name in dir(theirs):
            function = known = getattr(theirs, name)
            while callable(known) and known not in table and hasattr(known, "__wrapped__"):
                known = known.__wrapped__
            if callable(known) and known in table:
                stands = getattr(importlib.import_module("diffuse." + theirs.__name__), name)
                table[stands] = table[function] = table[known]
    named = array_api.is_numpy
    array_api.is_numpy = lambda xp: xp is numpy or named(xp)

@pytest.fixture(params=[pytest.param(sys.modules["numpy"], id="numpy", marks=pytest.mark.array_api_backends)])
def xp(request):
    skip_or_xfail_xp_backends(request, "skip")
    skip_or_xfail_xp_backends(request, "xfail")
    return numpy if ours else array_namespace(numpy.empty(0))
"""
"""For other packages: the tests' own fixtures, with Diffuse as the array library that they are given.  It
counts as NumPy, whose own errors and skipped tests are expected of it."""


def of_package(name: str, real: bool, files: list[str], options: list[str]) -> suites.Outcomes:
    """Run the tests of a package as part of a program, whose imports of NumPy and SciPy mean Diffuse."""
    tests = Path(str(importlib.import_module(f"scipy.{name}").__file__)).parent / "tests"
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / f"{name}_tests"
        suites.copied(tests, folder, (
            (r"^from \.\.(\w+) import", rf"from scipy.{name}.\1 import"),
            (rf"from scipy\.{name}\.tests\b", f"from {name}_tests")))
        (Path(room) / "conftest.py").write_text(CONFTEST)
        chosen = [str(folder / file) for file in files or [""]]
        given = ["--tb=no", "-p", "no:warnings", "-m", FAST, *options, *chosen]
        if real:
            return suites.run(Path(room), given)
        with numpy_replaced():
            return suites.run(Path(room), given)


def main() -> None:
    parser = suites.parser(__doc__)
    parser.add_argument("--package", default="sparse", metavar="NAME", help="a package of SciPy (sparse)")
    given, files, options = suites.parsed(parser)
    if given.package != "sparse":
        outcomes = of_package(given.package, given.real, files, options)
        _show(outcomes)
        return
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        folder = room / "sparse_tests"
        suites.copied(TESTS, folder, EARLIER if given.real else (*EARLIER, *suites.NUMPY, *SCIPY))
        chosen = [str(folder / file) for file in files or [""]]
        outcomes = suites.run(room, ["--tb=no", "-p", "no:warnings", "-m", FAST, *options, *chosen])
    _show(outcomes)


def _show(outcomes: suites.Outcomes) -> None:
    suites.show(outcomes.of, outcomes.reasons)
    for test, outcome in outcomes.of.items():
        if outcome in ("failed", "error"):
            known = [why for name, why in REASONS.items() if re.search(name, test)]
            print(f"{test}: {known[0] if known else 'no reason is known'}")


if __name__ == "__main__":
    main()
