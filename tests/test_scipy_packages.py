"""SciPy's packages that Diffuse wraps because their code asks whether an argument is NumPy's own array, or is
compiled for one: arrays in and out, no warning."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

pytest.importorskip("scipy")

import scipy.cluster.vq  # noqa: E402 (these may not be there)
import scipy.fft  # noqa: E402
import scipy.integrate  # noqa: E402
import scipy.interpolate  # noqa: E402
import scipy.optimize  # noqa: E402
import scipy.signal  # noqa: E402
import scipy.sparse.linalg  # noqa: E402
import scipy.spatial.distance  # noqa: E402
import scipy.stats  # noqa: E402

import diffuse.numpy as np  # noqa: E402
import diffuse.scipy  # noqa: E402
import diffuse.scipy.sparse as sp  # noqa: E402
from diffuse import settings  # noqa: E402
from diffuse.numpy.bridge import adapters  # noqa: E402
from diffuse.settings import using  # noqa: E402
from tests.jobs import python
from tests.outcomes import silent


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    with using(small=0, fallback="warn"), silent():
        yield


def wave(m: Any) -> Any:
    return m.sin(m.linspace(0, 40, 600)) * m.linspace(0.5, 2, 600)


def scaled(x: Any) -> Any:
    return np.asarray(x) * 2.5


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    # `find_peaks` selects the elements of limits that are arrays, if they are NumPy's
    "limits that are arrays": lambda m, s, x: s.signal.find_peaks(
        x, height=(m.linspace(-1, 1.2, 600), None))[0],
    "a limit that is an array": lambda m, s, x: s.signal.find_peaks(x, height=m.abs(x) / 2, width=3)[0],
    "resample_poly": lambda m, s, x: s.signal.resample_poly(x, 3, 2),
    "lfilter": lambda m, s, x: s.signal.lfilter(m.ones(3), m.array([1.0, 0.2]), x),
    "filtfilt": lambda m, s, x: s.signal.filtfilt(*s.signal.butter(3, 0.2), x),
    "fftconvolve": lambda m, s, x: s.signal.fftconvolve(x, x[:50], mode="same"),
    "hann": lambda m, s, x: s.signal.windows.hann(300),
    "cumulative_simpson": lambda m, s, x: s.integrate.cumulative_simpson(x, dx=0.5),
    "trapezoid": lambda m, s, x: s.integrate.trapezoid(x.reshape(300, 2), axis=0),
    "splev": lambda m, s, x: s.interpolate.splev(m.linspace(0, 1, 200), s.interpolate.splrep(
        m.linspace(0, 1, 600), x)),
    "a spline's class": lambda m, s, x: s.interpolate.CubicSpline(m.arange(600.0), x)(m.linspace(3, 9, 150)),
    "cdist": lambda m, s, x: s.spatial.distance.cdist(x.reshape(-1, 3), x.reshape(-1, 3)),
    "whiten": lambda m, s, x: s.cluster.vq.whiten(x.reshape(-1, 3)),
    "vq": lambda m, s, x: s.cluster.vq.vq(x.reshape(-1, 3), x[:9].reshape(3, 3))[0],
}
"""Calls with a module of NumPy, of SciPy, and a wave."""


@pytest.mark.parametrize("library", [diffuse.scipy, scipy], ids=lambda m: m.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_scipys(name: str, library: Any) -> None:
    """Also where the program imports SciPy itself beside `diffuse.numpy`."""
    want = CALLS[name](numpy, scipy, numpy.asarray(wave(np)))
    got = CALLS[name](np, library, wave(np))
    assert got.dtype == want.dtype and numpy.array_equal(numpy.asarray(got), want)


def test_the_program_goes_on_with_its_own_arrays() -> None:
    found = diffuse.scipy.signal.lfilter(np.ones(3), np.ones(1), wave(np))
    assert type(found) is np.ndarray and type(diffuse.scipy.signal.windows.hann(300)) is np.ndarray
    assert numpy.array_equal(numpy.asarray(found * 2), numpy.asarray(found) * 2)


def test_outputs_and_functions_of_the_program() -> None:
    target, points = np.zeros((200, 200)), wave(np).reshape(-1, 3)
    assert diffuse.scipy.spatial.distance.cdist(points, points, out=target) is target
    assert float(target[0, 0]) == 0 and float(target.sum()) > 0
    solved = diffuse.scipy.integrate.solve_ivp(lambda t, y: -y * np.ones(200), (0, 1), np.ones(200))
    assert solved.success and abs(float(solved.y[0, -1]) - numpy.exp(-1)) < 1e-3


@pytest.mark.parametrize("library", [diffuse.scipy, scipy], ids=lambda m: m.__name__)
def test_arguments_of_blas_and_lapack_stay_as_they_are(library: Any) -> None:
    """These functions were made by f2py, which wrote into the memory of arrays that are not NumPy's own."""
    matrix, x = np.eye(200) * 3 + np.ones((200, 200)), np.arange(200.0)
    with using(fallback="silent"):
        solve, = library.linalg.get_blas_funcs(("trsv",), (matrix, x))
        first, second = solve(matrix, x), library.linalg.blas.dtrsv(matrix, a_x := x)
        *_, third, info = library.linalg.lapack.dgesv(matrix, x)
    assert a_x is x and numpy.array_equal(numpy.asarray(x), numpy.arange(200.0))
    assert solve.typecode == "d" and info == 0

    class Holder:
        function = library.linalg.blas.dasum  # f2py's functions are no methods of objects that hold them

    with using(fallback="silent"):
        assert Holder().function(x) == float(x.sum()) and "dasum" in Holder.function.__doc__
    assert numpy.array_equal(numpy.asarray(first), numpy.asarray(second))
    assert numpy.allclose(numpy.asarray(matrix @ np.asarray(third)), numpy.arange(200.0))


@pytest.mark.parametrize("library", [diffuse.scipy, scipy], ids=lambda m: m.__name__)
def test_functions_of_the_program_may_return_diffuses_arrays(library: Any) -> None:
    def halved(t: Any) -> Any:
        return np.asarray(t) * 0.5

    with using(fallback="silent"):
        found = library.linalg.funm(np.diag(np.arange(1.0, 4.0)), halved)
        exponents = library.linalg.funm(np.diag(np.arange(1.0, 4.0)), np.exp)
    assert numpy.allclose(numpy.asarray(found), numpy.diag([0.5, 1.0, 1.5]))
    assert numpy.allclose(numpy.diag(numpy.asarray(exponents)), numpy.exp([1, 2, 3]))
    again = pickle.loads(pickle.dumps(adapters.taken(scaled)))
    assert type(again(numpy.ones(300))) is numpy.ndarray and again.__name__ == "scaled"
    with using(fallback="silent"):
        assert library.linalg.schur(np.diag(np.arange(1.0, 4.0)), sort=lambda x, y=0.0: x > 1.5)[2] == 2
    values = library.integrate.solve_ivp(lambda t, y: -np.asarray(y), (0, 1), np.ones(200)).y
    assert numpy.allclose(values[:, -1], numpy.exp(-1), rtol=1e-3)


@pytest.mark.parametrize("name", ["mean", "std", "median", "sum", "min", "max"])
@pytest.mark.parametrize("m", [np, numpy], ids=["diffuse", "numpy"])
def test_statistics_of_bins_know_the_functions_of_numpy(name: str, m: Any) -> None:
    # SciPy asks `statistic in {np.std}`: it computes that itself, with other bits, and dtype if it is complex
    x, values = m.linspace(0, 3, 600) % 1, wave(m) * (1 + 2j)
    found = scipy.stats.binned_statistic(x, values, getattr(np, name), bins=7).statistic
    wanted = scipy.stats.binned_statistic(numpy.asarray(x), numpy.asarray(values), name, bins=7).statistic
    assert found.dtype == wanted.dtype and numpy.array_equal(found, wanted)
    direct = scipy.stats.binned_statistic_dd([x], values, statistic=getattr(np, name), bins=7)
    assert direct.statistic.dtype == wanted.dtype and numpy.array_equal(direct.statistic, wanted)


def test_the_module_of_random_numbers_stands_for_the_global_generator() -> None:
    util = importlib.import_module("scipy._lib._util")
    assert util.check_random_state(np.random) is numpy.random.mtrand._rand
    assert util.check_random_state(seed=numpy.random) is numpy.random.mtrand._rand
    with pytest.raises(ValueError, match="cannot be used to seed"):
        util.check_random_state(np.linalg)


def test_submodules_and_missing_names() -> None:
    assert importlib.import_module("diffuse.scipy.signal.windows") is diffuse.scipy.signal.windows
    assert diffuse.scipy.signal.lti is scipy.signal.lti
    assert set(scipy.signal.__all__) <= set(dir(diffuse.scipy.signal))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        diffuse.scipy.signal.nothing


@pytest.mark.parametrize("function", [
    scipy.signal.lfilter, scipy.integrate.quad, scipy.spatial.distance.cdist, diffuse.scipy.signal.lfilter,
    diffuse.scipy.signal.windows.hann], ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_functions_can_be_sent_to_other_processes(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function


def test_ufuncs_that_scipy_computes_are_ufuncs() -> None:
    special = importlib.import_module("diffuse.scipy.special")
    for function in special.jv, special.agm, special.gamma:
        assert isinstance(function, np.ufunc) and special.__dict__[function.__name__] is function
        sent = pickle.loads(pickle.dumps(function))
        assert sent is copy.deepcopy(function) is copy.copy(function) is function
    assert isinstance(np.ma.add, type(numpy.ma.add)) and pickle.loads(pickle.dumps(np.ma.add))(1, 2) == 3
    fused = importlib.import_module("diffuse.scipy.special.cython_special").jv
    assert fused["double"](1, 2.0) == special.jv(1, 2.0)


def test_points_are_added_to_triangulations() -> None:
    # SciPy's object in C, given an array of another class by its own method, ends the process
    from scipy.spatial import ConvexHull, Delaunay, HalfspaceIntersection, Voronoi

    def found(np: Any) -> list[Any]:
        points = np.asarray(numpy.random.default_rng(3).random((300, 2))) * 1.0
        angles = np.asarray(numpy.random.default_rng(4).random(100)) * 6.28
        lines = np.stack([np.cos(angles), np.sin(angles), -np.ones(100)], 1)
        both = HalfspaceIntersection(lines, np.zeros(20_000)[:2], incremental=True)
        both.add_halfspaces(lines - np.asarray([0, 0, 0.01]), restart=True)
        counts: list[Any] = [len(both.intersections)]
        for kind in Delaunay, Voronoi, ConvexHull:
            for restart in False, True:
                made = kind(points[:100], incremental=True)
                made.add_points(points[100:], restart=restart)
                corners = numpy.asarray(getattr(made, "simplices", [0])).ravel()
                counts += [made.npoints, numpy.sort(corners).tolist()]
        return counts

    assert found(np) == found(numpy)


def test_data_of_a_fit_is_converted_and_looked_through_as_numpys_is() -> None:
    types = []

    def line(x: Any, slope: float) -> Any:
        types.append((type(x), x.dtype))
        return slope * x

    x = np.arange(300)
    found, _ = scipy.optimize.curve_fit(line, x, 3.0 * x)
    assert abs(found[0] - 3) < 1e-9 and set(types) == {(np.ndarray, np.dtype(float))}
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        scipy.optimize.curve_fit(line, np.full(300, np.nan), x)
    with pytest.raises(TypeError, match="ydata"):
        scipy.optimize.curve_fit(line, x)


def test_a_jacobian_may_be_our_matrix() -> None:
    eye = np.eye(200) * 2.0
    for jacobian in eye, lambda x: eye:
        found = scipy.optimize._nonlin.nonlin_solve(lambda x: x * 2 - 1, np.zeros(200), jacobian)
        assert numpy.allclose(numpy.asarray(found), 0.5)
    found = scipy.optimize.least_squares(lambda x: x**2 - 1, np.full(20, 2.0), jac_sparsity=np.eye(20)).x
    assert numpy.allclose(numpy.asarray(found), 1)


def test_a_solver_of_a_spline_is_known() -> None:
    points, values = numpy.arange(20.0), np.ones((20, 20))
    for solver in scipy.sparse.linalg.spsolve, importlib.import_module("diffuse.scipy.sparse.linalg").spsolve:
        spline = scipy.interpolate.RegularGridInterpolator((points, points), values, method="cubic",
                                                           solver=solver)
        assert numpy.allclose(numpy.asarray(spline([[3.5, 4.5]])), 1)


def test_libraries_that_were_imported_before_take_the_module_of_random_numbers() -> None:
    program = """
import numpy, scipy.sparse, scipy.stats
import diffuse.numpy as np
np.random.seed(3)
found = scipy.stats.norm.rvs(size=3, random_state=np.random)
assert scipy.sparse.random(5, 5, random_state=np.random).shape == (5, 5)
numpy.random.seed(3)
assert numpy.array_equal(found, scipy.stats.norm.rvs(size=3, random_state=numpy.random))
"""
    done = python(program)
    assert done.returncode == 0, done.tail


class Doubling:
    """A back-end that knows one function, by the object that the program has for it."""

    __ua_domain__ = "numpy.scipy.fft"
    known: Any = None

    @classmethod
    def __ua_function__(cls, method: Any, args: Any, kwargs: Any) -> Any:
        return args[0] * 2 if method is cls.known else NotImplemented


def test_a_backend_of_the_program_is_asked_for_the_programs_function() -> None:
    fft = importlib.import_module("diffuse.scipy.fft")
    x = np.ones(300)
    with using(fallback="silent"):
        for known in fft.fft, scipy.fft.fft:
            Doubling.known = known
            with fft.set_backend(Doubling):
                assert fft.fft(x)[3] == 2 and fft.ifft(x)[0] == 1
                with fft.skip_backend(Doubling):
                    assert abs(fft.fft(x)[3]) < 1e-9
            with pytest.raises(NotImplementedError), fft.set_backend(Doubling, only=True):
                fft.ifft(x)
        assert abs(fft.fft(x)[3]) < 1e-9


def test_roots_and_bounds_from_arrays_of_diffuse() -> None:
    """SciPy asks whether a bracket, a bound and a Jacobian are NumPy's arrays, or sparse ones."""
    with settings.using(small=0):
        bracket = np.array([0.5, 2.0])
        assert type(bracket) is not numpy.ndarray
        assert abs(scipy.optimize.root_scalar(lambda x: x**2 - 1, bracket=bracket).root - 1) < 1e-9
        bounds = [(-np.inf, np.inf), (np.array([2]), np.array([3]))]
        found = scipy.optimize.fmin_slsqp(lambda z: np.sum(z**2 - 1), [2.5, 2.5], bounds=bounds, iprint=0)
        numpy.testing.assert_allclose(found, [0, 2], atol=1e-7)
        A, b = sp.csr_array([[1.0, 2.0], [2.0, 1.0]]), np.array([1.0, -1.0])
        for jacobian in (A, lambda x: A):
            found = scipy.optimize._nonlin.nonlin_solve(lambda x: A @ x - b, np.zeros(2), jacobian)
            numpy.testing.assert_allclose(found, [-1, 1])
