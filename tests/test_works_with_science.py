"""Pictures, learning and graphs: libraries that take Diffuse arrays (the table of docs/libraries.md)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
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
