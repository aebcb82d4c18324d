"""What goes wrong: no wrong value, no hanging process, no broken session; an error where its cause is."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.kernels.build import compiler as compiling
from diffuse.kernels.build import jit
from diffuse.service import code
from diffuse.stream import engine
from tests.around import around, fenced
from tests.outcomes import pending

ROOT = Path(__file__).parent.parent


nothing_held = around(fenced, compile="off", window="auto", small=0, min_chunk=1000)
"""Everything is recorded; each test starts and ends with nothing held."""


def run(program: str, *, expect: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, under the settings given."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True,
                          timeout=240,
                          cwd=ROOT, env={**os.environ, "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1000",
                                         "DIFFUSE_NUM_THREADS": "2", **environment})
    assert done.returncode == expect, done.stderr
    return done


def works() -> None:
    """Does the session still compute?"""
    a = np.arange(5000.0)
    b = a * 2 + 1
    numpy.testing.assert_array_equal(numpy.array(b), numpy.arange(5000.0) * 2 + 1)
    assert not engine.current().window.held and not pending()


# -- kernels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["background", "wait"])
def test_a_kernel_that_does_not_compile_runs_interpreted_with_one_warning(
        monkeypatch: pytest.MonkeyPatch, when: str, tmp_path: Path) -> None:
    def fails(body: Any) -> Any:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(jit.Compilation, "compile", fails)
    compiling.compiler.forget()
    engine.current().window.forget()
    with settings.using(compile=when, cache_dir=str(tmp_path)), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(5):
            a = np.arange(4000.0)
            numpy.testing.assert_array_equal(numpy.array(np.sqrt(a) - a * 3),
                                             numpy.sqrt(numpy.arange(4000.0)) - numpy.arange(4000.0) * 3)
        compiling.compiler.wait()
    ours = [w for w in said if "did not compile" in str(w.message)]
    assert len(ours) == len({str(w.message) for w in ours}) >= 1
    assert "no such instruction" in str(ours[0].message)
    compiling.compiler.forget()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "rubbish"])
def test_a_damaged_cache_entry_costs_a_recompile(damage: str, tmp_path: Path) -> None:
    def turn() -> None:
        compiling.compiler.forget()
        engine.current().window.forget()
        a = np.arange(4000.0)
        numpy.testing.assert_array_equal(numpy.array(np.sqrt(a) - a * 5),
                                         numpy.sqrt(numpy.arange(4000.0)) - numpy.arange(4000.0) * 5)

    with settings.using(compile="wait"):
        turn()  # which loads the thread pool, once a process
    with settings.using(compile="wait", cache_dir=str(tmp_path)):
        turn()
        entries = list(tmp_path.glob("*.kernel"))
        assert entries
        for entry in entries:
            whole = entry.read_bytes()
            entry.write_bytes({"cut": whole[:-100], "empty": b"", "rubbish": b"x" * 3000,
                               "flipped": whole[:99] + bytes([whole[99] ^ 1]) + whole[100:]}[damage])
        turn()
        assert list(tmp_path.glob("*.kernel")) and not list(tmp_path.glob("*.partial"))
        assert all(code.disk().get(entry.stem) for entry in entries)
    compiling.compiler.forget()


def test_processes_share_a_cache(tmp_path: Path) -> None:
    program = """
        import numpy, diffuse.numpy as np
        a = np.arange(20000.0)
        for k in range(4):
            b = (a + k) * (a - 1) if k % 2 else (a - 2).sum() + a
            print(repr(float(numpy.array(b).sum())))
        """
    environment = {**os.environ, "DIFFUSE_SMALL": "0", "DIFFUSE_COMPILE": "wait",
                   "DIFFUSE_CACHE_DIR": str(tmp_path)}
    several = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)],
                                stdout=subprocess.PIPE, text=True,
                                cwd=ROOT, env=environment) for _ in range(3)]
    said = {process.communicate(timeout=240)[0] for process in several}
    assert len(said) == 1 and all(process.returncode == 0 for process in several)
    assert list(tmp_path.glob("*.kernel")) and not list(tmp_path.glob(".*.partial"))


# -- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda m: m.zeros(1 << 50), lambda m: m.ones((1 << 30, 1 << 22)),
                                  lambda m: m.empty(1 << 50, "int8"), lambda m: m.full(1 << 50, 1.5),
                                  lambda m: m.arange(1 << 50), lambda m: m.eye(1 << 24),
                                  lambda m: m.broadcast_to(m.ones(3), (1 << 48, 3)) + 1])
def test_absurd_sizes_are_a_memory_error_at_the_call(make: Any) -> None:
    with pytest.raises(MemoryError) as theirs:
        make(numpy)
    with pytest.raises(MemoryError) as ours:
        make(np)
    assert str(ours.value) == str(theirs.value)
    works()


class Scarce:
    """A runtime without memory for so many requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: int = 1) -> None:
        self.left, runtime = failures, engine.current().runtime
        create = runtime.create

        def scarce(nbytes: int, *store: Any) -> Any:
            if self.left:
                self.left -= 1
                raise MemoryError("no more")
            return create(nbytes, *store)

        monkeypatch.setattr(runtime, "create", scarce)


def test_no_memory_while_forwarding_loses_no_more_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    a, other = np.arange(3000.0), np.arange(3000.0)
    engine.fence()
    Scarce(monkeypatch)
    b = a + 1
    with pytest.raises(MemoryError) as caught:
        engine.flush()
    assert "test_failures.py" in "".join(caught.value.__notes__)
    c = b * 2
    d = other * 3
    with pytest.raises(MemoryError):
        numpy.array(b)
    with pytest.raises(MemoryError):
        numpy.array(c)
    with pytest.raises(MemoryError):
        float(c.sum())
    numpy.testing.assert_array_equal(numpy.array(d), numpy.arange(3000.0) * 3)
    b[...] = 5
    numpy.testing.assert_array_equal(numpy.array(b * 2), numpy.full(3000, 10.0))
    works()


@pytest.mark.parametrize("failures", [
    pytest.param(1, id="once", marks=pytest.mark.not_legate("groups that lack memory are lost as they are")),
    pytest.param(100, id="on")])
def test_no_memory_for_one_of_two_groups(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that were taken together run task by task, and are lost together if that fails, too."""
    gc.collect()  # while arrays of another test are lost, no groups are taken together
    with settings.using(compile="wait", min_chunk=64):
        values = numpy.arange(8000.0).reshape(200, 40)
        p = np.array(values)
        engine.fence()
        assert not engine.current().stores.lost
        old = p * 2
        q = np.empty_like(p)
        q[1:-1] = old[2:] + old[:-2]
        r = q[3:-3, 3:-3] * 2
        del old
        scarce = Scarce(monkeypatch, failures)
        if failures == 1:
            engine.flush()
            expected = 2 * (values[2:] + values[:-2])
            numpy.testing.assert_array_equal(numpy.array(q)[1:-1], expected)
            numpy.testing.assert_array_equal(numpy.array(r), 2 * expected[2:-2, 3:-3])
        else:
            with pytest.raises(MemoryError):
                engine.flush()
            for lost in (q, r):
                with pytest.raises(MemoryError):
                    numpy.array(lost)
        scarce.left = 0
        numpy.testing.assert_array_equal(numpy.array(p), values)
    works()


# -- errors at the call ------------------------------------------------------------------------------------


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "shapes": lambda m, a: a + m.ones(7),
    "in-place shapes": lambda m, a: a.__iadd__(m.ones((3, *a.shape))),
    "assigned shapes": lambda m, a: a.__setitem__(slice(1, 5), m.ones(7)),
    "dtype": lambda m, a: m.zeros(4000, dtype="float65"),
    "cast": lambda m, a: m.arange(4000).__iadd__(0.5),
    "axis": lambda m, a: a.sum(axis=3),
    "negative axis": lambda m, a: m.max(a, axis=-4),
    "doubled axis": lambda m, a: a.reshape(50, 80).sum(axis=(0, 0)),
    "index": lambda m, a: a[4000],
    "too many indices": lambda m, a: a[1, 2],
    "index type": lambda m, a: a["x"],
    "assigned index": lambda m, a: a.__setitem__(-4001, 1),
    "fancy index": lambda m, a: a[[1, 9999]],
    "mask": lambda m, a: a[m.ones(7, dtype=bool)],
    "reshape": lambda m, a: a.reshape(7, -1),
    "transpose": lambda m, a: a.transpose(1, 0),
    "concatenate": lambda m, a: m.concatenate([a, m.ones((3, 3))]),
    "matmul": lambda m, a: m.matmul(a, m.ones(7)),
    "bits of floats": lambda m, a: a & a,
    "out": lambda m, a: m.add(a, a, out=m.zeros(3)),
    "negative size": lambda m, a: m.zeros(-1),
    "empty maximum": lambda m, a: a[:0].max(),
    "truth": lambda m, a: bool(a),
    "integer powers": lambda m, a: m.arange(4000) ** -1,
    "step": lambda m, a: a[::0],
    "broadcast_to": lambda m, a: m.broadcast_to(a, (7,)),
    "float": lambda m, a: float(a),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise_at_the_call_what_numpy_raises(name: str) -> None:
    with pytest.raises(Exception) as theirs:
        WRONG[name](numpy, numpy.arange(4000.0))
    a = np.arange(4000.0) + 0.0
    recorded = engine.current().window.held
    assert recorded
    with pytest.raises(Exception) as ours:
        WRONG[name](np, a)
    assert type(ours.value).__name__ == type(theirs.value).__name__
    assert isinstance(ours.value, type(theirs.value).__mro__[1])
    assert str(ours.value) == str(theirs.value)
    numpy.testing.assert_array_equal(numpy.array(a), numpy.arange(4000.0))
    works()


@pytest.mark.parametrize(("name", "value"), [
    ("window", 0), ("compile", "maybe"), ("small", -1), ("runtime", "cluster"),
    pytest.param("memory", "much", marks=pytest.mark.not_legate("DIFFUSE_LEGATE_MEMORY has its place")),
    pytest.param("threads", "many", marks=pytest.mark.not_device("no threads run")),
    ("check", "perhaps")])
def test_wrong_settings(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"diffuse.config.{name}=.*expected"):
        setattr(settings.config, name, value)
    with pytest.raises(AttributeError, match="no setting"):
        settings.config.windows = 3
    done = run("import diffuse.numpy as np; print(np.ones(5000).sum())", expect=1,
               **{settings.SETTINGS[name].variable: str(value)})
    assert settings.SETTINGS[name].variable in done.stderr
    works()


# -- host functions ----------------------------------------------------------------------------------------


def test_an_error_in_a_host_function_comes_out_and_the_session_goes_on() -> None:
    from diffuse.ir import view

    def whole(storage: Any) -> Any:
        return storage, view.of((3000,), "float64", "float64", 8, 0, (8,), (3000,))

    def fails(source: Any, target: Any) -> None:
        raise LookupError("not in there")

    a = engine.attach(numpy.arange(3000.0))
    b, c = (engine.create((3000,), "float64") for _ in range(2))
    engine.call("lookup", fails, (whole(a),), (whole(b),))
    engine.record("add", ("float64",) * 3, (3000,), (whole(b), whole(a)), (whole(c),))
    with pytest.raises(LookupError, match="not in there"):
        engine.flush()
    for lost in (b, c):
        with pytest.raises(LookupError):
            engine.fetch(lost)
    numpy.testing.assert_array_equal(engine.fetch(a).view("float64"), numpy.arange(3000.0))
    works()


# -- floating-point errors ---------------------------------------------------------------------------------


ERRORS = {
    "divide by zero": lambda m, a: a / (a - a[0] + 0 * a),
    "invalid value": lambda m, a: m.sqrt(a - 1e6),
    "overflow": lambda m, a: m.exp(a + 1000),
    "log": lambda m, a: m.log(a - a),
}


@pytest.mark.not_device("no floating-point flags are kept")
@pytest.mark.parametrize("compile", ["off", "wait"])
@pytest.mark.parametrize("name", ERRORS)
def test_floating_point_errors_warn_once_at_the_line(name: str, compile: str) -> None:
    with settings.using(compile=compile):
        a = np.arange(1.0, 4001.0)
        engine.fence()
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            expected = ERRORS[name](numpy, numpy.arange(1.0, 4001.0))
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            found = numpy.array(ERRORS[name](np, a))
        # one flag for a fused task: where several of its operations could have raised it, all are named
        for plain, fused in zip(theirs, ours, strict=True):
            words, culprit = str(plain.message).rsplit(" ", 1)
            assert str(fused.message).startswith(words)
            assert culprit in str(fused.message).partition(" (")[0][len(words):].split()
        for plain, fused in zip(theirs, ours, strict=True):
            assert (plain.filename, plain.lineno, plain.category) == (
                fused.filename, fused.lineno, fused.category)
        numpy.testing.assert_allclose(found, expected, rtol=1e-14)
        with warnings.catch_warnings(record=True) as none, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            numpy.array(ERRORS[name](np, a))
        assert not none
        with np.errstate(all="raise"), pytest.raises(FloatingPointError) as raised:
            ERRORS[name](np, a)
        with numpy.errstate(all="raise"), pytest.raises(FloatingPointError) as known:
            ERRORS[name](numpy, numpy.arange(1.0, 4001.0))
        assert str(raised.value) == str(known.value)
    works()


def test_errors_recorded_under_one_state_and_run_under_another() -> None:
    """The state that counts is the one at the call."""
    a = np.arange(4000.0)
    engine.fence()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with np.errstate(all="ignore"):
            b = 1 / a
        engine.fence()
        assert not said
        c = 1 / a
        with np.errstate(all="ignore"):
            engine.fence()
        assert len(said) == 1
    assert numpy.isinf(numpy.array(b)[0]) and numpy.isinf(numpy.array(c)[0])


def test_no_flag_where_numpy_has_none() -> None:
    """Tail lanes, dead branches of where, and comparisons with NaN raise nothing."""
    for n in (1, 7, 8, 9, 31, 1025, 4097):
        a = np.ones(n) * 2
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            b = np.sqrt(a) / a + np.log(a) + 1 / a
            c = np.where(a > np.nan, a, b)
            d = np.maximum(a, np.nan)
            numpy.array(c + 1), numpy.array(d), float(b.max())
        assert not said, [str(w.message) for w in said]
