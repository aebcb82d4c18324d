"""Every public name of NumPy is there, and every function gives NumPy's answer.

Each call of CALLS is evaluated with NumPy, and with `diffuse.numpy` on Diffuse arrays: once computed at once,
once recorded.
"""

from __future__ import annotations

import importlib
import inspect
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy
import pytest

import diffuse.numpy as ours
from diffuse.numpy.bridge import namespace
from diffuse.settings import using
from tests.each import for_each
from tests.jobs import python
from tests.kinds import is_ours
from tests.numpy_calls import CALLS, ELSEWHERE, lines

NUMPY = numpy.lib.NumpyVersion(numpy.__version__)


def arrays(np: Any, made: Any) -> dict[str, Any]:
    """The operands: the same values for NumPy and for Diffuse."""
    source = numpy.random.default_rng(5)
    x = source.random(64) * 4
    n = x.copy()
    n[[3, 9, 12]] = numpy.nan, numpy.inf, -numpy.inf
    plain = {"x": x, "n": n, "m": source.random((8, 16)) * 4, "t": source.random((4, 4, 4)), "b": x > 2,
             "i": source.integers(0, 9, 64), "c": x[:33] + 1j * source.random(33), "q": source.random((8, 8))}
    names = {name: getattr(np, name) for name in numpy.__all__}
    return {**names, **{name: made(value) for name, value in plain.items()}, "N": 64}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, numpy.ndarray) or isinstance(expected, numpy.generic):
        value = numpy.asarray(found)
        assert value.shape == expected.shape and value.dtype == expected.dtype, (value.dtype, value.shape)
        if expected.dtype.kind in "fc":
            numpy.testing.assert_allclose(value, numpy.asarray(expected), rtol=1e-11, atol=1e-12)
        else:
            numpy.testing.assert_array_equal(value, expected)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, numpy.poly1d) or not hasattr(type(expected), "__eq__"):
        assert repr(found) == repr(expected)
    else:
        assert found == expected


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("small", [8192, 4], ids=["small", "recorded"])
@for_each("call", lines())
def test_a_function_gives_numpys_answer(call: str, small: int) -> None:
    expected = eval(call, {}, arrays(numpy, numpy.array))
    with using(small=small):
        found = eval(call, {}, arrays(ours, ours.array))
        if type(expected) is numpy.ndarray and expected.dtype.kind in "biufc":
            assert is_ours(found), type(found)
        same(found, expected)


UFUNCS = sorted(name for name in numpy.__all__ if isinstance(getattr(numpy, name), numpy.ufunc))


@for_each("name", UFUNCS)
def test_a_ufunc_gives_numpys_answer(name: str) -> None:
    real, function = getattr(numpy, name), getattr(ours, name)
    if real.signature is not None:
        pytest.skip("takes matrices; it is among CALLS")
    kinds = next((t for t in real.types if set(t[:real.nin]) <= {"d"}), None) or next(
        (t for t in real.types if set(t[:real.nin]) <= set("lLqQd")), real.types[0])
    values = [operand(kind) for kind in kinds[:real.nin]]
    expected = real(*values)
    with using(small=4):
        found = function(*[ours.asarray(v.copy()) for v in values])
        for a, b in zip(found, expected, strict=True) if real.nout > 1 else [(found, expected)]:
            assert numpy.asarray(a).dtype == b.dtype
            numpy.testing.assert_allclose(numpy.asarray(a), b, rtol=1e-14)


def operand(kind: str) -> Any:
    """Values that every ufunc of this type takes."""
    if kind == "d":
        return numpy.linspace(0.1, 0.9, 64)
    return numpy.arange(64, dtype=kind) if kind in "lLqQbB?" else numpy.zeros(64, "M8[s]")


def test_every_public_name_is_there() -> None:
    missing = [name for name in numpy.__all__ if not hasattr(ours, name)]
    assert not missing
    assert set(ours.__all__) >= set(numpy.__all__)
    assert set(dir(ours)) >= set(numpy.__all__)


@pytest.mark.parametrize("module", [
    "linalg", "fft", "random", "ma", "char", "strings", "testing", "polynomial", "rec", "lib.stride_tricks",
    "exceptions", "typing", "dtypes", "ctypeslib"])
def test_every_public_name_of_a_submodule_is_there(module: str) -> None:
    real = importlib.import_module("numpy." + module)
    mirror = importlib.import_module("diffuse.numpy." + module)
    names = getattr(real, "__all__", None) or [n for n in dir(real) if not n.startswith("_")]
    assert not [name for name in names if not hasattr(mirror, name)]


def test_every_function_is_called_by_some_line() -> None:
    text = CALLS
    elsewhere = set(" ".join(ELSEWHERE.values()).split())
    functions = {name for name in numpy.__all__ if callable(getattr(numpy, name))
                 and not isinstance(getattr(numpy, name), (type, numpy.ufunc, ModuleType))}
    assert not [name for name in functions - elsewhere - {"row_stack"} if name + "(" not in text]
    for module in ("linalg", "fft"):
        for name in getattr(numpy, module).__all__:
            value = getattr(getattr(numpy, module), name)
            assert isinstance(value, type) or f"{module}.{name}(" in text, f"{module}.{name}"


DRAWS: dict[str, tuple[Any, ...]] = {
    "choice": (9, 5), "multinomial": (9, [.5, .5], 5), "dirichlet": ([1., 2.], 5), "permutation": (9,),
    "multivariate_normal": ([0., 0.], [[1., 0.], [0., 1.]], 5), "bytes": (9,), "rand": (5,), "randn": (5,),
    "hypergeometric": (5, 5, 3, 5), "random_integers": (1, 9, 5), "randint": (0, 9, 5), "zipf": (2., 5),
    "triangular": (0., 1., 2., 5), "binomial": (9, .5, 5), "negative_binomial": (9, .5, 5),
    "noncentral_f": (3., 3., 1., 5),
    **dict.fromkeys(["random", "random_sample", "ranf", "sample", "standard_cauchy", "standard_exponential",
                     "standard_normal"], (5,)),
    **dict.fromkeys(["exponential", "geometric", "logseries", "poisson", "rayleigh", "chisquare", "pareto",
                     "power", "weibull", "standard_gamma", "standard_t", "gamma"], (.5, 5)),
    **dict.fromkeys(["beta", "f", "gumbel", "laplace", "logistic", "lognormal", "noncentral_chisquare",
                     "normal", "uniform", "vonmises", "wald"], (.5, .5, 5)),
}


def test_every_function_of_random_is_drawn_from() -> None:
    functions = {n for n in numpy.random.__all__ if not isinstance(getattr(numpy.random, n), type)}
    assert functions - set(DRAWS) == {"default_rng", "seed", "shuffle", "get_state", "set_state"}


@for_each("name", DRAWS)
def test_random_gives_numpys_numbers_as_our_arrays(name: str) -> None:
    numpy.random.seed(3)
    expected = getattr(numpy.random, name)(*DRAWS[name])
    state = ours.random.get_state()
    ours.random.seed(3)
    found = getattr(ours.random, name)(*DRAWS[name])
    ours.random.set_state(state)
    if type(expected) is numpy.ndarray:
        assert is_ours(found)
        numpy.testing.assert_array_equal(numpy.asarray(found), expected)
    else:
        assert found == expected


def test_generators_give_numpys_numbers_as_our_arrays() -> None:
    real, rng = numpy.random.default_rng(7), ours.random.default_rng(7)
    assert isinstance(rng, numpy.random.Generator) and ours.random.default_rng(rng) is rng
    for draw in ("normal(size=9)", "random((3, 4))", "integers(0, 9, 5)", "permutation(9)", "choice(9, 4)",
                 "spawn(1)[0].random(3)"):
        found, expected = eval("rng." + draw), eval("real." + draw)
        numpy.testing.assert_array_equal(numpy.asarray(found), expected)
    assert is_ours(rng.normal(size=9)) and isinstance(rng.normal(), float)
    rng, real = ours.random.default_rng(8), numpy.random.default_rng(8)
    a, b = ours.arange(40.0), numpy.arange(40.0)
    rng.shuffle(a)
    real.shuffle(b)
    numpy.testing.assert_array_equal(numpy.asarray(a), b)
    out = ours.zeros(9)
    assert rng.random(out=out) is out and float(out.sum()) > 0
    state = ours.random.RandomState(3)
    numpy.testing.assert_array_equal(numpy.asarray(state.rand(4)), numpy.random.RandomState(3).rand(4))


def test_functions_that_change_an_argument() -> None:
    for small in (8192, 4):
        with using(small=small):
            results = []
            for np in (numpy, ours):
                x, m = np.arange(64.0), np.arange(64.0).reshape(8, 8)
                np.copyto(x, 7.0, where=x > 30)
                np.copyto(m, np.arange(8))
                np.putmask(x, x < 5, -x)
                np.put(x, [10, 11], [1.5, 2.5])
                np.place(x, x > 6.5, [1.0, 2.0])
                np.fill_diagonal(m, 100)
                np.put_along_axis(m, np.argmin(m, 1)[:, None], -1.0, 1)
                results.append((numpy.asarray(x).copy(), numpy.asarray(m).copy()))
            for a, b in zip(*results, strict=True):
                numpy.testing.assert_array_equal(a, b)


def test_files() -> None:
    x = ours.arange(50.0).reshape(5, 10)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        ours.save(path, x)
        assert is_ours(ours.load(path)) and bool((ours.load(path) == x).all())
        ours.savez(os.path.join(folder, "x.npz"), a=x)
        numpy.testing.assert_array_equal(ours.load(os.path.join(folder, "x.npz"))["a"], numpy.asarray(x))
        ours.savez_compressed(os.path.join(folder, "y.npz"), x)
        ours.savetxt(os.path.join(folder, "x.txt"), x)
        for read in (ours.loadtxt, ours.genfromtxt):
            assert bool((read(os.path.join(folder, "x.txt")) == x).all())
        numpy.asarray(x).tofile(os.path.join(folder, "raw"))
        assert bool((ours.fromfile(os.path.join(folder, "raw")) == x.ravel()).all())
    text = io.StringIO()
    ours.savetxt(text, x[:1, :2])
    assert text.getvalue().startswith("0.0")


def test_state_is_numpys() -> None:
    with ours.printoptions(precision=2):
        assert str(ours.array([1.23456])) == "[1.23]"
        assert ours.get_printoptions()["precision"] == 2
    assert ours.getbufsize() == numpy.getbufsize()
    before = ours.seterr(divide="raise")
    try:
        assert numpy.geterr()["divide"] == "raise" == ours.geterr()["divide"]
    finally:
        ours.seterr(**before)


def test_errors_show_at_the_line_inside_errstate_only() -> None:
    with using(small=4):
        one, zero = ours.ones(64), ours.zeros(64)
        with ours.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            one / zero
        with ours.errstate(divide="ignore"):
            assert bool(ours.isinf(one / zero).all())

        @ours.errstate(invalid="raise")  # type: ignore[untyped-decorator]
        def nothing_by_nothing() -> Any:
            return zero / zero

        with pytest.raises(FloatingPointError):
            nothing_by_nothing()


def test_an_element_type_is_found_without_the_modules_of_functions() -> None:
    code = ("import sys, diffuse.numpy as np\nbefore = set(sys.modules)\nnp.int32, np.float64\n"
            "print(*(set(sys.modules) - before))")
    done = python(code)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_classes_and_constants_are_numpys() -> None:
    for name in ("float64", "dtype", "finfo", "newaxis", "pi", "inf", "integer", "generic", "ufunc"):
        expected = getattr(numpy, name)
        assert name == "ufunc" or getattr(ours, name) is expected
    assert ours.ndarray is not numpy.ndarray
    assert ours.__version__ == numpy.__version__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        ours.nonsense


@for_each("call", [
    "concatenate((m,x))", "concatenate([])", "concatenate((x,x),axis=3)", "concatenate((x,c),dtype='f8')",
    "stack((x,m))", "stack([])", "reshape(x,(3,5))", "moveaxis(m,5,0)", "squeeze(m,0)", "split(x,7)",
    "flip(m,4)",
    "where(b,x)", "where(b,x,m)", "clip(x,1)", "dot(m,m)", "matmul(m,m)", "matmul(2.,m)", "diff(x,-1)",
    "diff(3.)",
    "tile(m,'a')", "roll(x,1,axis=4)", "pad(x,-1)", "pad(x,1,'nonsense')", "pad(m,((1,2),(3,4),(5,6)))",
    "broadcast_to(x,(3,))", "repeat(x,-1)", "repeat(x,2,axis=3)", "copyto(i,x)", "copyto(x,m)",
    "trapezoid(x,m)", "cross(x,x)",
    "average(x,weights=x*0)", "average(x,weights=m)", "gradient(x[:1])", "linalg.inv(m)",
    "linalg.norm(x,'fro')", "fft.fft(3.)",
    "swapaxes(m,0,7)", "expand_dims(m,9)", "transpose(m,(0,0))", "sum(x,axis=4)", "block([x,[x]])",
    "broadcast_arrays(x,m[:,:3])", "vdot(x,m)", "outer(x,x,out=m)", "linspace(0,1,-5)",
    "meshgrid(x,indexing='no')",
])
def test_wrong_calls_raise_what_numpy_raises(call: str) -> None:
    with pytest.raises(Exception) as expected:
        eval(call, {}, arrays(numpy, numpy.array))
    for small in (8192, 4):
        with using(small=small), pytest.raises(type(expected.value)):
            eval(call, {}, arrays(ours, ours.array))


@for_each("call", [
    "transpose(m)", "m[1:3]", "reshape(m,-1)", "squeeze(m[None])", "flip(m,0)", "rot90(m)", "split(m,2)[1]",
    "moveaxis(t,0,-1)", "diagonal(t)", "real(c)", "ravel(m)", "lib.stride_tricks.sliding_window_view(x,3)",
    "expand_dims(m,0)", "atleast_3d(m)", "broadcast_arrays(m,m[:1])[0]", "vsplit(m,2)[0]"])
@for_each("small", [8192, 4])
def test_views_see_later_writes_as_numpys_do(call: str, small: int) -> None:
    with using(small=small):
        results = []
        for np in (numpy, ours):
            names = arrays(np, np.array)
            view = eval(call, {}, names)
            for name in "mtcx":
                names[name] *= 3
            results.append(numpy.asarray(view).copy())
        numpy.testing.assert_array_equal(results[0], results[1])


def test_submodules_answer_their_own_getattribute() -> None:
    assert ours.ma.__getattribute__("sum")([1, 2]) == 3


def test_star_import() -> None:
    names: dict[str, Any] = {}
    exec("from diffuse.numpy import *", names)
    assert names["array"] is ours.array and names["sin"] is ours.sin and names["linalg"] is ours.linalg


def test_methods_have_numpys_signatures_and_documentation() -> None:
    for name in ("sum", "nansum", "min", "concatenate", "zeros", "std"):
        assert inspect.signature(getattr(ours, name)) == inspect.signature(getattr(numpy, name))
        assert getattr(ours, name).__doc__ == getattr(numpy, name).__doc__
    for name in ("sum", "astype", "copy", "choose", "round", "view", "__copy__", "__array_ufunc__"):
        mine, theirs = getattr(ours.ndarray, name), getattr(numpy.ndarray, name)
        assert inspect.signature(mine) == inspect.signature(theirs)
        assert mine.__doc__


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("dtype", ["M8[ms]", "m8[s]", "O", "S2"])
def test_triangles_of_arrays_that_are_numpys(name: str, dtype: str) -> None:
    x = numpy.arange(1, 10).reshape(3, 3).astype(dtype)
    found = getattr(ours, name)(x)
    assert found.dtype == x.dtype and numpy.array_equal(found, getattr(numpy, name)(x))


def test_objects_that_are_called_keep_their_methods() -> None:
    x = ours.ma.array([3, 1, 2], mask=[0, 1, 0])
    assert ours.ma.minimum.reduce(x) == 2 and ours.ma.add.reduce(x) == 5
    assert ours.ma.multiply.outer(x, x).shape == (3, 3)
    assert isinstance(ours.ma.empty((2,)), numpy.ma.MaskedArray)


def test_submodules_of_own_modules() -> None:
    found = importlib.import_module("diffuse.numpy.random.bit_generator")
    assert found.SeedSequence is ours.random.SeedSequence
    assert ours.random.get_bit_generator() is numpy.random.mtrand.get_bit_generator()
    with pytest.raises(AttributeError):
        ours.random.nonsense  # noqa: B018


@pytest.mark.parametrize("small", [8192, 0], ids=["small", "recorded"])
def test_casts_that_keep_values(small: int) -> None:
    with using(small=small):
        assert ours.arange(5.0).astype("i4", casting="same_value").tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="could not cast 'same_value'"):
            (ours.arange(5.0) + 0.5).astype("i4", casting="same_value")


def test_methods_of_what_a_private_function_returns_take_our_arrays() -> None:
    core = importlib.import_module("diffuse.numpy._core._multiarray_umath")
    cast = core._get_castingimpl(numpy.dtypes.Float64DType, numpy.dtypes.Int64DType)
    out = ours.zeros(4, int)
    cast._simple_strided_call((ours.arange(4.0), out))
    assert out.tolist() == [0, 1, 2, 3]


def test_private_modules_have_the_functions_of_the_main_namespace() -> None:
    core = importlib.import_module("diffuse.numpy._core")
    file = importlib.import_module("diffuse.numpy.lib._shape_base_impl")
    assert core.concatenate is ours.concatenate
    assert file.kron is ours.kron and "_shape_base_impl" in str(file.__file__)


@pytest.mark.skipif(NUMPY >= "2.5.0", reason="these names are gone")
def test_each_use_of_a_deprecated_name_warns() -> None:
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match="chararray"):
            assert ours.chararray is numpy.char.chararray
        with pytest.warns(DeprecationWarning, match="math"):
            assert ours.lib.math.pi == numpy.pi


def test_names_in_the_text_of_a_block_matrix_are_those_of_the_caller() -> None:
    x = ours.arange(4.0).reshape(2, 2)
    for found in (ours.bmat("x, x; x, x"), ours.r_["x, x; x, x"], ours.bmat("y, y; y, y", {"y": x}, {})):
        assert numpy.array_equal(numpy.asarray(found), numpy.tile(numpy.arange(4.0).reshape(2, 2), (2, 2)))


def test_deprecated_calls_warn_as_in_numpy() -> None:
    x = ours.ones(3)
    for name, args in (("maximum", (x, 0, x)), ("minimum", (x, x, x)), ("row_stack", ([x],))):
        if NUMPY >= "2.5.0" and name == "row_stack":
            continue
        with pytest.warns(DeprecationWarning) as caught:
            getattr(ours, name)(*args)
        assert [warning.filename for warning in caught] == [__file__]


def test_arguments_that_numpy_refuses_or_knows_better() -> None:
    x = ours.arange(5)
    with pytest.raises(ValueError, match="_CopyMode enum is not allowed"):
        x.astype(float, copy=numpy._CopyMode.NEVER)
    for item in ((), (int, int, int)):
        with pytest.raises(TypeError, match="arguments"):
            ours.ndarray[item]
    with pytest.raises(ValueError, match="Maximum allowed size exceeded"):
        ours.arange(2**64)
    seconds = ours.arange(numpy.timedelta64(3, "s"), 10, 2, dtype="m8")
    assert seconds.dtype == "m8[s]" and seconds.astype(int).tolist() == [3, 5, 7, 9]


def test_an_index_may_be_an_object_whose_array_is_ours() -> None:
    class Index:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return ours.array(1)

    x = ours.arange(6).reshape(2, 3)
    assert x[0, Index()] == 1
    x[0, Index()] = 7
    assert x.tolist() == [[0, 7, 2], [3, 4, 5]]


@pytest.mark.parametrize("module", sorted({*namespace.MODULES.values()}))
def test_the_table_has_the_functions_of_each_module(module: str) -> None:
    found = importlib.import_module(f"diffuse.numpy.{module}")
    defined = {name for name, value in vars(found).items()
               if name in numpy.__all__ and getattr(value, "__module__", None) == found.__name__
               and name not in namespace.ALIASES}
    table = {name for name, place in namespace.MODULES.items() if place == module}
    assert defined <= table
    assert all(inspect.isfunction(getattr(found, name)) for name in table)
