"""SciPy's own tests of `scipy.sparse` with Diffuse in the place of NumPy and SciPy: how many pass.

    python tests/scipy_suite.py                    all test files that the installed SciPy has
    python tests/scipy_suite.py test_csr.py -k sum  some of them; options are pytest's
    python tests/scipy_suite.py --real ...          the same files with NumPy and SciPy, for comparison

The files are copied with their imports changed.  Counts are printed and nothing is asserted: some tests ask
what only NumPy's arrays can answer (`x.base is y`, say).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests import suites

TESTS = Path(scipy.sparse.__file__).parent / "tests"
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


def main() -> None:
    given, files, options = suites.parsed(suites.parser(__doc__))
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        folder = room / "sparse_tests"
        suites.copied(TESTS, folder, EARLIER if given.real else (*EARLIER, *suites.NUMPY, *SCIPY))
        chosen = [str(folder / file) for file in files or [""]]
        outcomes = suites.run(room, ["--tb=no", "-p", "no:warnings", *options, *chosen])
    suites.show(outcomes.of, outcomes.reasons)


if __name__ == "__main__":
    main()
