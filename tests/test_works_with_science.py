"""Pictures, learning and graphs: libraries that take Diffuse arrays (the table of docs/libraries.md)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.arrays import core
from tests.kinds import is_ours


@pytest.fixture(params=[20, 300])
def grid(request: pytest.FixtureRequest) -> Any:
    """A square array, small or with operations still to be done."""
    n = request.param
    return np.sin(np.arange(float(n * n)).reshape(n, n) / n) * 0.5 + 0.5


def test_matplotlib(grid: Any, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots(2, 3)
    line, = axes[0, 0].plot(grid[0], grid[1] * 2)
    assert numpy.array_equal(line.get_ydata(), numpy.asarray(grid[1] * 2))
    image = axes[0, 1].imshow(grid)
    assert numpy.array_equal(image.get_array(), numpy.asarray(grid))
    counts, _, _ = axes[0, 2].hist(grid.ravel(), bins=5)
    assert counts.sum() == grid.size
    axes[1, 0].contourf(grid)
    axes[1, 1].scatter(grid[0], grid[1], c=grid[2], s=grid[3] * 10)
    axes[1, 2].errorbar(np.arange(len(grid)), grid[0], yerr=grid[1])
    figure.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
    pyplot.close(figure)


def test_scikit_learn(grid: Any) -> None:
    KMeans = pytest.importorskip("sklearn.cluster").KMeans
    PCA = pytest.importorskip("sklearn.decomposition").PCA
    Forest = pytest.importorskip("sklearn.ensemble").RandomForestClassifier
    LinearRegression = pytest.importorskip("sklearn.linear_model").LinearRegression
    StandardScaler = pytest.importorskip("sklearn.preprocessing").StandardScaler
    check_random_state = pytest.importorskip("sklearn.utils").check_random_state

    X, y = grid[:, :10], grid[:, :10] @ np.arange(10.0) + 1
    fitted = LinearRegression().fit(X, y)
    assert numpy.allclose(fitted.predict(X), numpy.asarray(y))
    assert numpy.allclose(StandardScaler().fit_transform(X).mean(axis=0), 0)
    assert PCA(2).fit_transform(X).shape == (len(grid), 2)
    labels = KMeans(2, n_init=1, random_state=0).fit_predict(X)
    assert set(labels) == {0, 1}
    forest = Forest(3, random_state=0).fit(X, y > y.mean())
    expected = Forest(3, random_state=0).fit(numpy.asarray(X), numpy.asarray(y > y.mean()))
    assert numpy.array_equal(forest.predict(X), expected.predict(numpy.asarray(X)))
    np.random.seed(3)
    drawn = check_random_state(np.random).rand(3)
    assert numpy.array_equal(drawn, numpy.random.RandomState(3).rand(3))


def test_scikit_image(grid: Any) -> None:
    filters, measure, morphology, transform = [
        pytest.importorskip(f"skimage.{name}") for name in ("filters", "measure", "morphology", "transform")]
    plain = numpy.asarray(grid)
    assert numpy.array_equal(numpy.asarray(filters.sobel(grid)), filters.sobel(plain))
    assert filters.threshold_otsu(grid) == filters.threshold_otsu(plain)
    assert numpy.array_equal(measure.label(grid > 0.5), measure.label(plain > 0.5))
    assert numpy.array_equal(morphology.dilation(grid), morphology.dilation(plain))
    assert numpy.array_equal(transform.resize(grid, (10, 10)), transform.resize(plain, (10, 10)))


def test_pil(grid: Any) -> None:
    Image = pytest.importorskip("PIL.Image")
    pixels = (grid * 255).astype(np.uint8)
    image = Image.fromarray(pixels)
    assert numpy.array_equal(numpy.asarray(image), numpy.asarray(pixels))
    assert image.size == pixels.shape[::-1]
    assert numpy.array_equal(numpy.asarray(Image.fromarray(pixels[::2].T)), numpy.asarray(pixels[::2].T))
    back = np.array(image) / 255
    assert is_ours(back) and float(abs(back - grid).max()) < 1 / 255


def test_networkx(grid: Any) -> None:
    networkx = pytest.importorskip("networkx")
    near = (grid > grid.mean()).astype(int)
    ours = networkx.from_numpy_array(near)
    theirs = networkx.from_numpy_array(numpy.asarray(near))
    assert sorted(ours.edges) == sorted(theirs.edges)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(np.asarray(networkx.to_numpy_array(ours)), networkx.to_numpy_array(theirs))
    np.random.seed(3)
    edges = networkx.gnp_random_graph(8, 0.5, seed=np.random).edges
    places = networkx.random_layout(ours, seed=np.random)
    numpy.random.seed(3)
    assert sorted(edges) == sorted(networkx.gnp_random_graph(8, 0.5, seed=numpy.random).edges)
    again = networkx.random_layout(ours, seed=numpy.random)
    assert all(numpy.array_equal(places[node], again[node]) for node in ours)


@pytest.mark.parametrize("n", [20, 300])
def test_scipy_optimize(n: int) -> None:
    """Gradients and Jacobians of the program reach C code, and code that looks for `numpy.ndarray`."""
    optimize = pytest.importorskip("scipy.optimize")
    target = np.arange(n) / n

    def distance(p: Any) -> Any:
        return ((p - target) ** 2).sum()

    for method in "L-BFGS-B", "SLSQP", "TNC", "BFGS", "CG", "trust-constr":
        found = optimize.minimize(distance, np.zeros(n), jac=lambda p: 2 * (p - target), method=method)
        assert numpy.allclose(found.x, target, atol=1e-4), method
    both = optimize.minimize(lambda p: (distance(p), 2 * (p - target)), np.zeros(n), jac=True)
    bound = {"type": "ineq", "fun": lambda p: p - 0.1, "jac": lambda p: np.eye(n)}
    bounded = optimize.minimize(distance, np.zeros(n), jac=lambda p: 2 * (p - target), method="SLSQP",
                                constraints=bound)
    assert numpy.allclose(both.x, target) and numpy.allclose(bounded.x, numpy.maximum(target, 0.1))
    for method in "trf", "dogbox", "lm":
        fitted = optimize.least_squares(lambda p: p - target, np.zeros(n), lambda p: np.eye(n), method=method)
        assert numpy.allclose(fitted.x, target), method
    assert numpy.allclose(optimize.root(lambda p: p - target, np.zeros(n), jac=lambda p: np.eye(n)).x, target)


def test_scipys_own_solvers_take_dense_matrices(grid: Any) -> None:
    linalg = pytest.importorskip("scipy.sparse.linalg")
    matrix = grid @ grid.T + np.eye(len(grid))
    right, plain = np.ones(len(grid)), numpy.asarray(matrix)
    assert numpy.allclose(linalg.eigsh(matrix, k=3)[0], numpy.linalg.eigvalsh(plain)[-3:])
    for solve in linalg.cg, linalg.gmres, linalg.minres:
        assert numpy.allclose(plain @ solve(matrix, right, rtol=1e-9)[0], 1.0, atol=1e-5), solve.__name__
    assert numpy.allclose(linalg.aslinearoperator(matrix * 2) @ right, 2 * plain.sum(1))


OUTPUTS = {
    "label": ("output", "i4"), "sobel": ("output", "f8"), "binary_closing": ("output", "?"),
    "binary_fill_holes": ("output", "?"), "morphological_gradient": ("output", "f8"),
    "distance_transform_edt": ("distances", "f8"), "distance_transform_cdt": ("distances", "i4"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_scipys_ndimage_writes_outputs(name: str, grid: Any) -> None:
    function = getattr(pytest.importorskip("scipy.ndimage"), name)
    key, dtype = OUTPUTS[name]
    options = {"size": 3} if "morph" in name else {}
    image = (grid * 7 % 1 > 0.4).astype("?" if "binary" in name else "f8")
    target = np.zeros(grid.shape, dtype) + np.ones(grid.shape, dtype)
    real = numpy.array(target)
    expected = function(numpy.asarray(image), **options, **{key: real})
    found = function(image, **options, **{key: target})
    assert numpy.array_equal(numpy.asarray(target), real)
    assert (found is target) == (expected is real)


def test_scipys_distances_are_written_into_outputs(grid: Any) -> None:
    distance = pytest.importorskip("scipy.spatial.distance")
    target = np.zeros(grid.shape) + 1
    assert distance.cdist(grid, grid, out=target) is target
    assert numpy.array_equal(numpy.asarray(target), distance.cdist(numpy.asarray(grid), numpy.asarray(grid)))


@pytest.mark.parametrize("name", ["splu", "spilu", "factorized"])
def test_scipys_factorisations_solve_for_our_vectors(name: str) -> None:
    linalg, sparse = (pytest.importorskip(f"scipy.sparse{part}") for part in (".linalg", ""))
    n = 500
    matrix = sparse.csc_array(sparse.diags_array([numpy.full(n, 4.0), -numpy.ones(n - 1)], offsets=[0, 1]))
    vector = np.ones(n) * 2
    factors = getattr(linalg, name)(matrix)
    solve = factors if name == "factorized" else factors.solve
    assert numpy.array_equal(solve(vector), solve(numpy.full(n, 2.0)))
    assert name == "factorized" or isinstance(factors, linalg.SuperLU) and factors.shape == (n, n)


@pytest.mark.parametrize("n", [5, 500])
def test_factorisations_solve_for_numpys_own_vectors(n: int) -> None:
    import scipy.sparse

    import diffuse.scipy.sparse.linalg as ours

    matrix = scipy.sparse.csc_array(numpy.diag(numpy.arange(1.0, n + 1)) - numpy.eye(n, k=1))
    real, lu = scipy.sparse.linalg.splu(matrix), ours.splu(matrix)
    vector = numpy.linspace(0.0, 1.0, n)
    for right in (vector, numpy.stack([vector, -vector], axis=1), vector[::-1]):
        for trans in "NT":
            expected, found = real.solve(numpy.asarray(right), trans), lu.solve(right, trans)
            assert isinstance(found, np.ndarray) and numpy.array_equal(numpy.asarray(found), expected)
            assert (type(found) is numpy.ndarray) == (found.size < core.TINY)
    with pytest.raises(ValueError, match="incompatible size"):
        lu.solve(numpy.ones(n + 1))
