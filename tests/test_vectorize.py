"""`diffuse.vectorize` against `numpy.vectorize`, and against itself: compiled and interpreted, alone and
fused, small and large; and what runs by NumPy instead."""

from __future__ import annotations

import copy
import gc
import hashlib
import math
import pickle
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from apps import kepler
from diffuse import vectorize, worker
from diffuse.kernels.build import numba_frontend
from diffuse.observe import trace
from diffuse.settings import config, using
from tests.jobs import python
from tests.outcomes import silent

SIZE = 40_000


def branches(x: float, y: float) -> float:
    if x > y:
        return math.exp(-x * x) * math.sqrt(y) + x / y
    return x - y


def escape(x: float) -> int:
    z, n = 0.0, 0
    while z < 4.0 and n < 50:
        z = z * z + x
        n += 1
    return n


def nested(x: float, y: float) -> float:
    """Loops in loops that are left early, at several places."""
    total = 0.0
    for i in range(6):
        if x < i:
            continue
        j = 0
        while j < i and total < 20.0:
            total += x / (j + 1)
            j += 1
            if total * y > 7.0:
                return -total
        if total > 15.0:
            break
    return total


def integers(n: int, k: int) -> int:
    if k != 0:
        return n // k + n % k - (n << 2) ^ (n & k)
    return -abs(n)


def numbers(x: complex) -> complex:
    return x * x + 1j if abs(x) > 1 else x


def logic(a: bool, x: float) -> bool:
    return (a and not x > 0.5) or x < -0.5


def remainders(x: float, y: float) -> float:
    return x % 3.0 + y // 2 + max(x, y) - x ** -2 + min(y, 1.0) ** 3


TRIED: dict[Callable[..., Any], str] = {
    branches: "dd", escape: "d", nested: "dd", integers: "qq", numbers: "D", logic: "?d", remainders: "dd"}
"""Functions, with the element types that they are tried with."""

VECTORIZED = {function: vectorize(function) for function in TRIED}


def arguments(types: str, size: int = 203) -> list[Any]:
    """Numbers with few digits, so that comparisons of all kinds come true; zeros only as integers."""
    random, found = numpy.random.default_rng(5), []
    for letter in types:
        x = numpy.round(random.normal(size=size) * 2, 1)
        x[x == 0] = 0.1
        found.append({"d": x, "q": random.integers(-6, 7, size), "?": x > 0, "D": x + 1j * x[::-1]}[letter])
    return found


def both_ways(function: Any, *arrays: Any) -> list[Any]:
    """The results for arrays that are recorded, and for arrays that are computed at once."""
    found, before = [], config.small
    try:
        for small in (0, 1 << 30):
            config.small = small
            found.append(numpy.asarray(function(*[np.array(a) for a in arrays])))
    finally:
        config.small = before
    return found


@pytest.mark.parametrize("function", TRIED, ids=lambda f: str(f.__name__))
def test_values_are_those_of_numpy_vectorize(function: Callable[..., Any]) -> None:
    arrays = arguments(TRIED[function])
    with numpy.errstate(all="ignore"):
        large, small = both_ways(VECTORIZED[function], *arrays)
    if function is branches:  # the square root of a negative number is an error in Python
        arrays = [numpy.abs(a) for a in arrays]
        large, small = both_ways(VECTORIZED[function], *arrays)
    wanted = numpy.vectorize(function)(*arrays)
    assert large.tobytes() == small.tobytes() and large.dtype == wanted.dtype
    exact = function not in (branches, remainders)  # of which one is rounded otherwise, within an ulp or so
    assert large.tolist() == wanted.tolist() if exact else numpy.allclose(large, wanted, rtol=1e-15)


def test_a_function_is_one_more_operation_of_a_task() -> None:
    x = np.linspace(0.1, 3.0, SIZE) + 0.0
    diffuse.fence()
    already = len(diffuse.explain().plans)
    y = (VECTORIZED[branches](x * 2, x[::-1] + 1) * 3).sum()
    found = float(y)
    plain = numpy.asarray(x)
    wanted = numpy.vectorize(branches)(plain * 2, plain[::-1] + 1) * 3
    assert found == pytest.approx(wanted.sum(), rel=1e-12)
    plans = diffuse.explain().plans[already:]
    names = [name for plan in plans for name in plan.operations]
    assert len(plans) == 1 and [n.split(".")[1] for n in names if n.startswith("user.")] == ["branches"]
    assert plans[0].vanished >= 3 and " user.branches." in str(diffuse.explain())


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(numpy.asarray(a).tobytes() for a in arrays)).hexdigest()


def computed(x: Any) -> list[Any]:
    """Some functions of the elements of an array, beside other operations."""
    y = x[::-1]
    return [VECTORIZED[branches](x, y) + 0.5, VECTORIZED[escape](x) + 1, VECTORIZED[nested](x, y) * 2]


def test_bits_are_the_same_interpreted_compiled_and_in_pieces_and_other_processes_find_the_kernels(
        tmp_path: Path) -> None:
    """Numba is imported by the first call.  LLVM is called by the worker alone, also when what Numba left
    behind is collected."""
    program = """
        import gc, sys, threading
        import numpy, diffuse.numpy as np
        from diffuse.observe import trace
        from tests.test_vectorize import computed, digest
        assert "numba" not in sys.modules
        from llvmlite.binding import ffi

        class Watched(ffi._lib_fn_wrapper):
            __slots__ = ()
            def __call__(self, *args):
                callers.add(threading.get_ident())
                return super().__call__(*args)

        callers = set()
        for function in ffi.lib._fntab.values():
            function.__class__ = Watched
        print(digest(*computed(np.array(numpy.random.default_rng(2).random(40_011) * 3))))
        gc.collect()
        assert "numba" in sys.modules
        assert len(callers) == 1 and threading.main_thread().ident not in callers
        print(trace.snapshot().get("compilations", 0))
    """
    printed = []
    for _ in range(2):
        done = python(program, DIFFUSE_CACHE_DIR=str(tmp_path), DIFFUSE_COMPILE="wait",
                      DIFFUSE_NUM_THREADS="2", DIFFUSE_MIN_CHUNK="1000")
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert int(printed[0][1]) > 0 == int(printed[1][1])

    x = numpy.random.default_rng(2).random(40_011) * 3
    with using(compile="off"):
        before = trace.counters["interpreted"]
        interpreted = digest(*computed(np.array(x)))
        assert trace.counters["interpreted"] > before
    few = computed(np.array(numpy.concatenate([x[:2000], x[-2000:]])))  # elements keep their opposites
    assert [a[:2000].tolist() for a in few] == [a[:2000].tolist() for a in computed(np.array(x))]
    assert printed[0][0] == printed[1][0] == interpreted


@pytest.mark.not_device("no floating-point flags are kept")
def test_guards_keep_errors_away_and_others_are_reported_by_name(threshold: None) -> None:
    x = np.array(numpy.linspace(-1.0, 1.0, 201))
    guarded = vectorize(lambda x: 1.0 / x if x != 0 else math.sqrt(x))
    with silent():
        assert float(guarded(x).max()) > 99

    def inverse(x: float) -> float:
        return 1.0 / x

    with pytest.warns(RuntimeWarning, match="^divide by zero encountered in inverse") as caught:
        assert float(vectorize(inverse)(x).max()) == math.inf
    assert caught[0].filename == __file__
    with numpy.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero .* inverse"):
        vectorize(inverse)(x)
    noted: list[Any] = []
    with numpy.errstate(all="call", call=lambda *what: noted.append(what)):
        vectorize(inverse)(x)
    assert noted == [("divide by zero", 1)]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint32", "int64", "float16", "float32",
                                   "float64", "complex64", "complex128"])
def test_elements_arrive_as_pythons_numbers(dtype: str, threshold: None) -> None:
    x = numpy.array([0, 1, 3, 7]).astype(dtype)
    found = DOUBLED(np.array(x), 2)
    wanted = numpy.vectorize(double)(x, 2)
    assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()


def double(x: Any, y: Any) -> Any:
    return x * y + x


DOUBLED = vectorize(double)


def test_types_that_are_asked_for(threshold: None) -> None:
    x = numpy.array([0.5, 1.5, -2.5])
    for otypes in ("f", "i", [numpy.int8], ["bool"], "D", [numpy.float16]):
        found = vectorize(double, otypes=otypes)(np.array(x), 1)
        wanted = numpy.vectorize(double, otypes=otypes)(x, 1)
        assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()
    assert vectorize(double, otypes="d")(np.ones((0, 3)), 1).shape == (0, 3)
    with pytest.raises(ValueError, match="size 0 inputs"):
        DOUBLED(np.ones(0), 1)


def test_shapes_layouts_and_scalars(threshold: None) -> None:
    x, y = numpy.linspace(0, 1, 24).reshape(4, 6), numpy.linspace(1, 2, 6)
    for a, b in ((x, y), (x.T, 2), (x[::-1, ::2], 0.5), (numpy.asfortranarray(x), y), (x[:, :1], y), (3, y)):
        found = DOUBLED(*[np.array(v) if isinstance(v, numpy.ndarray) else v for v in (a, b)])
        wanted = numpy.vectorize(double)(a, b)
        assert numpy.array_equal(numpy.asarray(found), wanted) and found.strides == wanted.strides
    assert DOUBLED(np.array(x), y=2).tolist() == DOUBLED(x=np.array(x), y=2).tolist() == (x * 3).tolist()
    assert DOUBLED([1, 2], (3, 4)).tolist() == [4, 10]
    for point in (DOUBLED(2, 3), DOUBLED(np.array(2), 3)):
        assert point == 8 and point.shape == () and point.dtype == int
    with pytest.raises(ValueError, match="could not be broadcast"):
        DOUBLED(np.ones(3), np.ones(4))
    with pytest.raises(TypeError, match="missing 1 required"):
        DOUBLED(np.ones(3))


def test_decorators_defaults_and_copies() -> None:
    @vectorize(otypes=[float])
    def scaled(x: Any, by: Any = 3) -> Any:
        """Documented."""
        return x * by

    assert scaled.__name__ == "scaled" and scaled.__doc__ == "Documented."
    assert scaled(np.arange(3)).tolist() == [0, 3, 6] and scaled(np.arange(3), by=1.5).tolist() == [0, 1.5, 3]
    assert isinstance(scaled, numpy.vectorize)
    assert copy.copy(scaled)(2).tolist() == 6
    assert pickle.loads(pickle.dumps(VECTORIZED[escape]))(-0.5).tolist() == 50


def test_variables_of_the_program_are_read_at_each_call() -> None:
    factor = 2.0
    scaled = vectorize(lambda x: x * factor)
    assert scaled(np.ones(3)).tolist() == scaled(np.ones((3, 1))).ravel().tolist() == [2.0] * 3
    factor = 5.0
    assert scaled(np.ones(3)).tolist() == scaled(np.ones((3, 1))).ravel().tolist() == [5.0] * 3


def test_variables_that_are_diffuses_are_numpys_to_numba() -> None:
    from diffuse.numpy import exp

    x = np.linspace(0.0, 1.0, 50)
    mean = x.mean()
    with silent():
        found = vectorize(lambda v: np.sin(v) * exp(v) + np.pi - mean)(x)
    plain = numpy.asarray(x)
    assert numpy.allclose(numpy.asarray(found), numpy.sin(plain) * numpy.exp(plain) + numpy.pi - plain.mean())


def test_integers_wrap_around() -> None:
    """Numba lets LLVM suppose that they do not, so that a divisor is no zero where it is one."""
    least = -(1 << 63)
    found = vectorize(lambda n: 7 % (n * -2) if n + n != 1 else n + 1)(np.array([least, 3, 0, least + 1]))
    assert found.tolist() == [0, -5, 0, -1]


def several(x: float) -> tuple[float, float]:
    return x, x + 1


def raising(x: float) -> float:
    if x < 0:
        raise ValueError("negative")
    return x


def named(x: float, *, by: float) -> float:
    return x * by


STEPS = numpy.array([1.0, 2.0, 4.0])

REFUSED: list[tuple[str, Callable[..., Any], dict[str, Any], Any]] = [
    ("may raise an exception", raising, {}, numpy.ones(3)),
    ("returns UniTuple", several, {}, numpy.ones(3)),
    ("no Python function", math.sin, {}, numpy.ones(3)),
    ("Numba cannot compile it .*fsum", lambda x: math.fsum((x, 1.0)), {}, numpy.ones(3)),
    ("integers beyond int64", lambda x: x + 1, {}, numpy.ones(3, "uint64")),
    ("neither a number", lambda x: x, {}, numpy.array([1, 2], object)),
    ("work on whole arrays", lambda x: x.sum(), {"signature": "(n)->()"}, numpy.ones((2, 3))),
    ("memory", lambda x: STEPS[int(x)], {}, numpy.ones(3)),
]


@pytest.mark.parametrize("reason, function, options, array", REFUSED, ids=[row[0] for row in REFUSED])
def test_what_is_not_compiled_runs_by_numpy_and_says_so_once(
        reason: str, function: Callable[..., Any], options: dict[str, Any], array: Any) -> None:
    ours = vectorize(function, **options)
    given = np.array(array) if array.dtype != object else array
    with pytest.warns(RuntimeWarning, match=f"runs element by element.*{reason}") as caught:
        found = ours(given)
    assert len(caught) == 1 and caught[0].filename == __file__
    wanted = numpy.vectorize(function, **options)(array)
    for one, other in zip(*[(v if isinstance(v, tuple) else (v,)) for v in (found, wanted)], strict=True):
        assert one.dtype == other.dtype and one.tolist() == other.tolist()
    with silent():
        ours(given)
    with using(fallback="error"), pytest.raises(NotImplementedError, match=reason):
        vectorize(function, **options)(given)


def test_a_refusal_keeps_no_array() -> None:
    ours, array = vectorize(several), np.ones(3)
    with pytest.warns(RuntimeWarning, match="returns UniTuple"):
        ours(array)
    ours(array)
    kept = weakref.ref(array)
    del array
    gc.collect()
    assert kept() is None


def test_errors_of_the_function_are_the_programs() -> None:
    with pytest.warns(RuntimeWarning, match="exception"), pytest.raises(ValueError, match="negative"):
        vectorize(raising)(np.array([1.0, -1.0]))
    with pytest.raises(TypeError, match=r"vectorize: 3 is no function; write diffuse.vectorize\(function\)"):
        vectorize(3)


def test_numpys_own_calls_the_function(recwarn: pytest.WarningsRecorder) -> None:
    called: list[float] = []

    def counted(x: float) -> float:
        called.append(x)
        return x + 1

    assert np.vectorize is not vectorize and not isinstance(np.vectorize(counted), vectorize)
    assert np.vectorize.__doc__ == numpy.vectorize.__doc__
    assert np.vectorize(counted)(np.arange(3.0)).tolist() == [1, 2, 3] and len(called) >= 3
    assert numpy.vectorize(counted)(numpy.arange(3.0)).tolist() == [1, 2, 3]


def test_translation_is_done_by_the_thread_that_owns_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    real = numba_frontend._translate

    def noted(*args: Any) -> Any:
        threads.append(threading.get_ident())
        return real(*args)

    monkeypatch.setattr(numba_frontend, "_translate", noted)
    assert vectorize(lambda x: x + 17)(np.ones(2)).tolist() == [18, 18]
    assert threads == [worker.call(threading.get_ident)] != [threading.get_ident()]


def test_the_application(capsys: pytest.CaptureFixture[str]) -> None:
    diffuse.fence()
    already = len(diffuse.explain().plans)
    kepler.main(["--size", "20000", "--iterations", "3"])
    assert capsys.readouterr().out.splitlines()[-1].startswith("check: ")
    plans = diffuse.explain().plans[already:]
    calls = [[name for name in plan.operations if name.startswith("user.")] for plan in plans]
    assert sum(len(found) for found in calls) == 3 and max(len(plan.operations) for plan in plans) > 15
