"""`import numpy` answered by Diffuse, for the user's files only; programs that run as Python runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m diffuse words...` in a folder."""
    return subprocess.run([sys.executable, "-m", "diffuse", *words], cwd=folder, capture_output=True,
                          text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return str(path)


def test_every_form_of_import_in_the_program_and_its_modules(tmp_path: Path) -> None:
    written(tmp_path, "beside.py", """
        import numpy as np
        from numpy import linalg as la
        def module(): return np.__name__, la.__name__
        """)
    written(tmp_path, "package/__init__.py", "from numpy.random import rand\nname = rand.__module__\n")
    program = written(tmp_path, "program.py", """
        import numpy
        import numpy as np
        import numpy.linalg
        import numpy.fft as fft
        from numpy import sin, linalg
        from numpy.linalg import norm
        from numpy.lib.stride_tricks import sliding_window_view
        from numpy.polynomial import Polynomial
        from numpy import *
        import beside, package
        assert numpy is np and numpy.__name__ == "diffuse.numpy", numpy
        assert fft.__name__ == "diffuse.numpy.fft" and linalg is np.linalg
        assert sin is np.sin and norm is linalg.norm and array is np.array
        assert beside.module() == ("diffuse.numpy", "diffuse.numpy.linalg")
        assert package.name == "diffuse.numpy.random"
        assert type(np.ones(500)).__module__.startswith("diffuse"), type(np.ones(500))
        def inner():
            import numpy as late
            return late
        assert inner() is np
        print("done", float(norm(np.ones(16))))
        """)
    found = run(tmp_path, program)
    assert found.stdout == "done 4.0\n", found.stderr


def test_every_form_of_import_of_scipy(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    written(tmp_path, "beside.py", """
        from scipy.special import gamma
        import scipy.linalg as la
        name = la.__name__
        """)
    program = written(tmp_path, "program.py", """
        import scipy.special
        import scipy.special as sc
        import scipy.linalg.blas as blas
        import scipy.fft, scipy.ndimage
        import scipy.constants
        import scipy
        from scipy import linalg, special, stats
        from scipy.special import erf, gamma
        from scipy.linalg import norm, LinAlgError
        from scipy.optimize import minimize
        import scipy.optimize as so
        import numpy as np, beside
        assert scipy.__name__ == "diffuse.scipy", scipy
        assert sc is special is scipy.special and sc.__name__ == "diffuse.scipy.special"
        assert gamma is sc.gamma is beside.gamma and type(gamma(np.ones(500))) is np.ndarray
        assert linalg is scipy.linalg and beside.name == linalg.__name__ == "diffuse.scipy.linalg"
        assert scipy.fft.__name__ == "diffuse.scipy.fft" and scipy.ndimage.__name__ == "diffuse.scipy.ndimage"
        assert blas is scipy.linalg.blas and float(blas.ddot(np.ones(3), np.ones(3))) == 3
        assert stats is scipy.stats and stats.__name__ == "scipy.stats"
        assert scipy.constants.pi > 3 and so is scipy.optimize and so.minimize is minimize
        found = minimize(lambda v: ((v - 1) ** 2).sum(), np.zeros(2)).x
        print("done", round(float(found.sum()), 3), float(norm(np.ones(16))), float(erf(0.0)))
        """)
    found = run(tmp_path, program)
    assert found.stdout == "done 2.0 4.0 0.0\n", found.stderr


def test_sparse_modules_of_scipy_are_diffuses(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("diffuse.scipy.sparse")
    program = written(tmp_path, "program.py", """
        import scipy
        import scipy.sparse as sp
        from scipy.sparse.linalg import cg
        from scipy.sparse import csgraph
        assert sp is scipy.sparse and sp.__name__ == "diffuse.scipy.sparse"
        assert scipy.sparse.csr_array is sp.csr_array and sp.csr_array.__module__.startswith("diffuse.")
        assert cg is scipy.sparse.linalg.cg and scipy.sparse.linalg.__name__ == "diffuse.scipy.sparse.linalg"
        print("done")
        """)
    found = run(tmp_path, program)
    assert found.stdout == "done\n", found.stderr


def test_scipys_own_code_and_installed_libraries_keep_the_real_scipy(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    installed = tmp_path / "lib" / "site-packages"
    written(installed, "installed.py", """
        import scipy.special, scipy.linalg as la
        from scipy import fft
        names = scipy.__name__, scipy.special.__name__, la.__name__, fft.__name__
        """)
    program = written(tmp_path, "program.py", """
        import importlib, sys
        sys.path.append(sys.argv[1])
        import scipy.special, scipy.stats, installed
        assert installed.names == ("scipy", "scipy.special", "scipy.linalg", "scipy.fft"), installed.names
        assert importlib.import_module("scipy").__name__ == "scipy"
        assert sys.modules["scipy.stats"].__name__ == "scipy.stats"
        print("done", round(scipy.stats.norm.cdf(0.0), 3))
        """)
    found = run(tmp_path, program, str(installed))
    assert found.stdout == "done 0.5\n", found.stderr


def test_a_program_finds_that_scipy_is_not_installed(tmp_path: Path) -> None:
    program = written(tmp_path, "program.py", """
        import sys
        for name in [n for n in sys.modules if n.partition(".")[0] == "scipy"]:
            del sys.modules[name]
        sys.modules["scipy"] = None
        for statement in ("import scipy", "import scipy.special", "from scipy.linalg import norm",
                          "import scipy.stats"):
            try:
                exec(statement)
            except ImportError as error:
                print(error.name, "pip install" in str(error))
        """)
    assert run(tmp_path, program).stdout == "scipy True\n" * 4


def test_installed_libraries_and_c_code_keep_the_real_numpy(tmp_path: Path) -> None:
    installed = tmp_path / "lib" / "site-packages"
    written(installed, "installed.py", "import numpy\nname = numpy.__name__\n")
    program = written(tmp_path, "program.py", """
        import importlib, pickle, sys
        sys.path.append(sys.argv[1])
        import installed, numpy as np
        assert installed.name == "numpy"
        assert importlib.import_module("numpy").__name__ == "numpy"
        real = importlib.import_module("numpy").arange(5.0)
        assert type(pickle.loads(pickle.dumps(real))).__module__ == "numpy"
        mine = pickle.loads(pickle.dumps(np.arange(500.0)))
        assert type(mine) is np.ndarray and float(mine.sum()) == 124750.0
        print("done")
        """)
    assert run(tmp_path, program, str(installed)).stdout == "done\n"


def test_scipy_works_on_diffuse_arrays(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    program = written(tmp_path, "program.py", """
        import numpy as np
        from scipy import integrate, linalg
        x = np.linspace(0, 1, 101)
        print(round(float(integrate.simpson(x**2, x=x)), 6), linalg.inv(np.eye(3) * 2)[0, 0])
        """)
    found = run(tmp_path, program, DIFFUSE_FALLBACK="silent")
    assert found.stdout.split() == ["0.333333", "0.5"], found.stderr


def test_a_program_sees_what_python_would_show_it(tmp_path: Path) -> None:
    program = written(tmp_path, "sub/program.py", """
        import os, pickle, sys
        name = os.path.basename
        print(__name__, name(__file__), sys.argv[1:], name(sys.path[0]), __spec__, __doc__)
        assert sys.modules["__main__"].__dict__ is globals() and sys.argv[0] == __file__
        class Thing: pass
        assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
        """)
    ours = run(tmp_path, "run", "--threads", "2", program, "--threads", "x", "-h")
    plain = subprocess.run([sys.executable, program, "--threads", "x", "-h"], capture_output=True, text=True)
    assert ours.stdout == plain.stdout and ours.returncode == plain.returncode == 0, ours.stderr


@pytest.mark.parametrize("text", [
    "def f():\n    raise ValueError('wrong')\nf()\n",
    "x = (1,\n",
    "1 / 0\n",
    "import nothing_of_this_name\n",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n",
])
def test_tracebacks_are_pythons(tmp_path: Path, text: str) -> None:
    program = written(tmp_path, "program.py", text)
    ours = run(tmp_path, program)
    plain = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert ours.returncode == plain.returncode == 1

    def shown(error: str) -> list[str]:  # marks under a line are drawn where the line is not wholly at fault
        return [line for line in error.splitlines() if set(line.strip()) - set("^~")]

    assert shown(ours.stderr) == shown(plain.stderr)


@pytest.mark.parametrize("text, status, said", [
    ("import sys; sys.exit(7)", 7, ""), ("raise SystemExit", 0, ""),
    ("raise SystemExit('bad luck')", 1, "bad luck\n"),
    ("import sys; sys.exit(None)", 0, ""), ("import atexit; atexit.register(print, 'bye')", 0, ""),
])
def test_exit_statuses_pass_through(tmp_path: Path, text: str, status: int, said: str) -> None:
    found = run(tmp_path, written(tmp_path, "program.py", text))
    assert (found.returncode, found.stderr) == (status, said)


def test_modules_and_code(tmp_path: Path) -> None:
    text = "import sys, numpy\nprint(__name__, numpy.__name__, sys.argv[1:])\n"
    written(tmp_path, "package/__main__.py", text)
    written(tmp_path, "package/__init__.py", "")
    assert run(tmp_path, "run", "-m", "package", "--window", "x").stdout == (
        "__main__ diffuse.numpy ['--window', 'x']\n")
    assert run(tmp_path, "-m", "package").stdout == "__main__ diffuse.numpy []\n"
    assert run(tmp_path, "-c", "import sys, numpy; print(numpy.__name__, sys.argv)", "--json").stdout == (
        "diffuse.numpy ['-c', '--json']\n")


def test_a_missing_program_is_said_so(tmp_path: Path) -> None:
    found = run(tmp_path, "run", "nowhere.py")
    assert found.returncode == 2 and "can't open file" in found.stderr and "nowhere.py" in found.stderr


@pytest.mark.local_only("a store is busy until the host fetches it")
def test_pending_work_is_done_at_the_end(tmp_path: Path) -> None:
    program = written(tmp_path, "program.py", """
        import numpy as np, importlib
        real = importlib.import_module("numpy").zeros(2000000)
        x = np.ones(2000000) * 2
        import atexit
        from diffuse.stream import engine
        atexit.register(lambda: print(engine.busy(x.storage)))
        """)
    assert run(tmp_path, program).stdout == "False\n"


def test_outside_the_block_import_is_pythons() -> None:
    import builtins

    from diffuse import intercept

    before = builtins.__import__
    with intercept.numpy_replaced():
        assert builtins.__import__ is not before
        names = {"__name__": "__main__", "__file__": str(ROOT / "apps" / "stencil.py")}
        exec("import numpy as np", names)
        assert names["np"].__name__ == "diffuse.numpy"  # type: ignore[attr-defined]
        installed = {"__name__": "json", "__file__": os.path.abspath(os.__file__)}
        exec("import numpy as np", installed)
        assert installed["np"].__name__ == "numpy"  # type: ignore[attr-defined]
    assert builtins.__import__ is before
