"""`diffuse run --real MODULE`: that module sees NumPy itself, and the program Diffuse's arrays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diffuse import settings
from diffuse.cli import launch
from diffuse.intercept.real import check
from tests.test_substitute import run, written

SOLVER = """
    import contextlib
    import enum
    import numpy as np
    from numpy import sin
    import helper

    class Bad(ValueError): pass
    class Colour(enum.Enum): RED = 1
    TABLE = np.arange(300.0)
    events = []

    @contextlib.contextmanager
    def changed(x):
        assert type(x) is np.ndarray
        events.append("in")
        try: yield x + 1
        except Bad: events.append("bad")

    def names(): return np.__name__, helper.NAME
    def same(x): return x
    def rest(x): return x[1:]
    def fail(): raise Bad("no")
    def into(x, out):
        assert type(x) is type(out) is np.ndarray
        out[...] = x + 1
        return out
    def nested(given):
        assert type(given["a"][0]) is np.ndarray
        return {"twice": (given["a"][0] * 2, 5)}
    def calls(function, x):
        found = function(x)
        assert type(found) is np.ndarray
        return found

    class Model:
        "A model."
        count = 0
        def __init__(self, x):
            assert type(x) is np.ndarray
            self.x = x
        def step(self, y):
            assert type(y) is np.ndarray
            self.x = self.x + y
            return self
        __iadd__ = step
        def __add__(self, y): return self.x + (y.x if isinstance(y, Model) else y)
        def __getitem__(self, i): return self.x[i]
        def __setitem__(self, i, y):
            assert type(y) is np.ndarray
            self.x[i] = y
        def __len__(self): return len(self.x)
        def __array__(self, dtype=None, copy=None): return self.x
        def __enter__(self): return self
        def __exit__(self, *_): pass
        @property
        def twice(self): return self.x * 2
        @classmethod
        def ones(cls, n): return cls(np.ones(n))

    def inside(model):
        assert type(model) is Model
        return model.x
    """
HELPER = "import numpy as np\nNAME = np.__name__\ndef double(x): return x * 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path, "solver.py", SOLVER)
    written(tmp_path, "helper.py", HELPER)
    return tmp_path


def program(folder: Path, text: str, *options: str, **environment: str) -> str:
    path = written(folder, "program.py", "import numpy as np\nours = type(np.ones(500))\n" + text)
    found = run(folder, "run", *options, path, **environment)
    assert found.returncode == 0, found.stderr
    assert not found.stderr
    return found.stdout


CALLS = """
import solver
from solver import into, Bad
x = np.arange(100000.0)
assert solver.names() == ("numpy", "numpy") and np.__name__ == "diffuse.numpy"
assert solver.same(x) is x
out = np.zeros(100000)
assert into(x, out=out) is out and out[5] == 6
rest = solver.rest(x)
assert type(rest) is ours
rest[0] = 77
x[2] = 55
assert x[1] == 77 and rest[1] == 55
found = solver.nested({"a": [x], "b": 1})["twice"]
assert type(found[0]) is ours and found[1] == 5
def back(y):
    assert type(y) is ours
    return np.sqrt(y)
assert type(solver.calls(back, x)) is ours
try: solver.fail()
except Bad as error: assert str(error) == "no"
assert type(solver.TABLE) is ours and solver.Colour.RED is solver.Colour(1)
solver.TABLE = x
assert solver.TABLE is not x and solver.TABLE[2] == 55
assert type(solver.sin(x)) is ours
assert solver.into is into and solver.into.__name__ == "into"
import inspect, pickle
assert str(inspect.signature(into)) == "(x, out)"
assert pickle.loads(pickle.dumps(into)).__module__ == "solver"
print("done")
"""

CONTEXTS = """
import solver
x = np.arange(100000.0)
with solver.changed(x) as y:
    assert type(y) is ours and y[1] == 2
with solver.changed(x):
    raise solver.Bad
@solver.changed(x)
def inside(): return x * 2
assert type(inside()) is ours
assert solver.events == ["in", "in", "bad", "in"]
print("done")
"""


@pytest.mark.parametrize("environment", [{}, {"DIFFUSE_SMALL": "0"}], ids=["default", "recorded"])
def test_arrays_are_converted_at_calls(folder: Path, environment: dict[str, str]) -> None:
    assert program(folder, CALLS, "--real", "solver", **environment) == "done\n"


def test_context_managers_that_a_function_makes(folder: Path) -> None:
    """They decorate functions, too, and so are callable."""
    assert program(folder, CONTEXTS, "--real", "solver") == "done\n"


def test_objects_of_its_classes_are_seen_through_views(folder: Path) -> None:
    assert program(folder, """
from solver import Model, inside
x = np.arange(100000.0)
m = Model(x)
assert isinstance(m, Model) and m.step(x) is m
before = m
m += x
assert m is before and float(m[1]) == 3
assert type(m + x) is type(m + m) is type(m[:]) is type(m.twice) is type(m.x) is ours
m[2:3] = x[:1]
assert m[2] == 0 and len(m) == 100000
with m as same:
    assert same is m
m.x = x * 3
assert type(inside(m)) is ours and float(inside(m)[5]) == 15
assert float(np.asarray(m)[5]) == 15
assert len(Model.ones(1000)) == 1000 and Model.__doc__ == "A model."
Model.count = 7
assert Model.count == 7 and str(Model | None) == "solver.Model | None"
class Mine(Model):
    pass
assert issubclass(Mine, Model) and isinstance(Mine(x.__array__()), Model)
print("done")
""", "--real", "solver") == "done\n"


def test_what_it_imports_first_sees_numpy_too_and_else_is_named(folder: Path) -> None:
    text = ("import {}\nimport {}\n"
            "print(helper.NAME, *solver.names(), type(helper.double(np.ones(500))) is ours)")
    assert program(folder, text.format("solver", "helper"), "--real", "solver") == "numpy numpy numpy True\n"
    path = written(folder, "other.py", text.format("helper", "solver").replace(", type(", ", len(").replace(
        "np.ones(500))) is ours", "[1]))"))
    found = run(folder, "run", "--real", "solver", path)
    assert found.stdout == "diffuse.numpy numpy diffuse.numpy 2\n"
    assert "gets helper with Diffuse's NumPy" in found.stderr and "Add --real helper" in found.stderr


def test_one_module_of_a_package(folder: Path) -> None:
    written(folder, "package/__init__.py", "import numpy\nfrom . import inner\nNAME = numpy.__name__\n")
    written(folder, "package/inner.py", "import numpy\nNAME = numpy.__name__\ndef kind(x): return type(x)\n")
    assert program(folder, """
import package, package.inner as by_name, importlib
from package import inner
assert inner.kind is by_name.kind is package.inner.kind is importlib.import_module("package.inner").kind
print(package.NAME, inner.NAME, inner.kind(np.ones(500)).__module__)
""", "--real", "package.inner") == "diffuse.numpy numpy numpy\n"


def test_a_library_whose_cython_code_asks_for_numpys_array(folder: Path) -> None:
    """No method of an extension's class can be changed from outside."""
    pytest.importorskip("h5py")
    text = """
import h5py
x = np.arange(100000.0)
with h5py.File("data.h5", "w") as file:
    data = file.create_dataset("x", data=x * 2)
    y = np.zeros(100000)
    try:
        data.id.read(h5py.h5s.ALL, h5py.h5s.ALL, y)
    except TypeError:
        print("refused")
    print(float(y[3]))
"""
    assert program(folder, text) == "refused\n0.0\n"
    assert program(folder, text, "--real", "h5py") == "6.0\n"


def test_scipy_itself(folder: Path) -> None:
    pytest.importorskip("scipy")
    assert program(folder, """
from scipy.linalg import solve
found = solve(np.eye(200) * 2, np.ones(200))
print(type(found) is ours, float(found[0]))
""", "--real", "scipy") == "True 0.5\n"


@pytest.mark.parametrize("name, said", [
    ("nosuch", "--real nosuch: there is no module 'nosuch' beside the program or installed"),
    ("json.nope", "--real json.nope: there is no module 'json.nope'"),
    ("numpy.linalg", "expected a module that the program imports, other than NumPy"),
])
def test_a_wrong_name_is_said_so(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check([name])


def test_wrong_names_are_said_so_before_the_program_runs(folder: Path) -> None:
    path = written(folder, "program.py", "print('ran')")
    for words, said in ((["--real", "nosuch"], "--real nosuch: there is no module"),
                        (["--real", "3x"], "expected names of modules, with commas between them")):
        found = run(folder, "run", *words, path)
        assert found.returncode == 2 and said in found.stderr and not found.stdout
        assert "Traceback" not in found.stderr


def test_ranks_and_comparisons_take_the_options_along() -> None:
    with settings.using(real="solver", aliases="mine"):
        assert settings.source("real") == "code"
        assert launch.chosen().items() >= {"DIFFUSE_REAL": "solver", "DIFFUSE_ALIASES": "mine"}.items()
