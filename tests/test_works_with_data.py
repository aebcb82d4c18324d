"""Tables, files and labelled arrays: libraries that take Diffuse arrays (the table of docs/libraries.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.arrays import core
from diffuse.settings import using
from tests.kinds import is_ours

ROOT = Path(__file__).parent.parent


@pytest.fixture(params=[500, 100_000])
def x(request: pytest.FixtureRequest) -> Any:
    """A small array, and one whose last operation is still to be done."""
    return np.arange(float(request.param)) * 2


def same(found: Any, expected: Any) -> None:
    assert numpy.array_equal(numpy.asarray(found), numpy.asarray(expected))


def test_pandas(x: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": x, "b": x % 10})
    same(frame["a"], x)
    same(pandas.DataFrame(x.reshape(-1, 2))[1], x[1::2])
    assert pandas.Series(x).sum() == float(x.sum())
    frame["c"] = x + 1
    frame.loc[:, "a"] = -x
    same(frame["c"] + frame["a"], np.ones(x.size))
    assert frame.groupby("b")["c"].count().sum() == x.size
    assert frame[x > 10]["c"].min() == 13 and frame.loc[x > 20, "c"].min() == 23
    assert frame["c"][x > 30].min() == 33 and frame.index[x > 30][0] == 16
    frame.loc[x < 4, "b"] = x[:2] + 0.5
    assert frame["b"][1] == 2.5 and frame.iloc[(x < 6).nonzero()[0]].shape == (3, 3)
    assert frame.groupby(x % 4)["c"].count().sum() == x.size and frame.set_index(x).index[3] == 6
    assert pandas.unique(x % 4).size == 2 and pandas.factorize(x % 4)[0].max() == 1
    same((frame[["a"]] + x[:, None])["a"], frame["a"] + x)
    back = np.asarray(frame["c"]) * 2
    assert is_ours(back + np.zeros(x.size)) and back[3] == 14
    same(np.sqrt(frame["c"].to_numpy()), numpy.sqrt(numpy.asarray(x) + 1))


def test_polars(x: Any) -> None:
    polars = pytest.importorskip("polars")
    assert polars.Series("a", x).sum() == float(x.sum())
    assert polars.Series(values=x).len() == x.size and polars.Series(x[::2])[1] == 4
    frame = polars.DataFrame({"a": x, "b": numpy.asarray(x)})
    assert frame.select((polars.col("a") - polars.col("b")).sum()).item() == 0
    assert polars.DataFrame(x.reshape(-1, 2)).shape == (x.size // 2, 2)
    same(np.asarray(frame["a"]) + 1, x + 1)


def summary(library: Any) -> dict[str, Any]:
    """Numbers of large arrays, which Diffuse has not computed yet."""
    x = library.arange(3000) * 0.5
    return {"mean": x.mean(), "most": x.max(), "count": (x > 3).sum()}


@pytest.mark.parametrize("made", [
    lambda pandas, row: pandas.DataFrame([row, row]), lambda pandas, row: pandas.Series(row),
    lambda pandas, row: pandas.DataFrame({"a": [*row.values()], "b": row["mean"]}),
    lambda pandas, row: pandas.DataFrame.from_records([(*row.values(),)]),
    lambda pandas, row: pandas.DataFrame([[*row.values()]], columns=["a", "b", "c"]).assign(d=row["count"]),
    lambda pandas, row: pandas.Series([1, 2]).map(lambda v: row["mean"]),
    lambda pandas, row: pandas.Series([1, 2, 3]).groupby([0, 0, 1]).agg(lambda v: row["most"]),
    lambda pandas, row: pandas.Index([row["mean"], row["most"]]),
    lambda pandas, row: pandas.to_numeric([row["mean"], row["most"]]),
])
def test_tables_of_pending_numbers_have_the_numbers_types(made: Any) -> None:
    pandas = pytest.importorskip("pandas")
    with using(small=0):
        pending = summary(np)
        assert all(type(x) in core.PENDING for x in pending.values())
        ours, theirs = made(pandas, pending), made(pandas, summary(numpy))
        kinds = [str(x.dtypes if isinstance(x, pandas.DataFrame) else x.dtype) for x in (ours, theirs)]
        assert kinds[0] == kinds[1]
        same(ours, theirs)


@pytest.mark.parametrize("made", [
    lambda pandas, row: pandas.Timedelta(row["mean"], "s"),
    lambda pandas, row: pandas.Timedelta(days=row["count"]),
    lambda pandas, row: pandas.Timestamp(row["count"]),
    lambda pandas, row: pandas.to_timedelta([row["mean"]], unit="s"),
    lambda pandas, row: pandas.Series(range(9999)).head(row["count"]),
    lambda pandas, row: pandas.Series(range(9999)).iloc[row["count"]:],
    lambda pandas, row: pandas.Series(range(9999)).nlargest(row["count"]),
    lambda pandas, row: pandas.Series(range(9999)).rolling(row["count"]).sum(),
    lambda pandas, row: pandas.api.types.infer_dtype([*row.values()]),
    lambda pandas, row: pandas.api.types.infer_dtype([row["most"], 1.0]),
    lambda pandas, row: pandas.interval_range(0, row["count"], periods=3),
])
def test_calls_with_pending_numbers_say_what_they_say_with_the_numbers(made: Any) -> None:
    pandas = pytest.importorskip("pandas")
    with using(small=0):
        assert repr(made(pandas, summary(np))) == repr(made(pandas, summary(numpy)))


@pytest.mark.parametrize("made", [
    lambda pandas, column, z: column * z, lambda pandas, column, z: z - pandas.Index(column),
    lambda pandas, column, z: column.to_frame("a")["a"] // z, lambda pandas, column, z: column.add(z),
    lambda pandas, column, z: numpy.multiply(column, z), lambda pandas, column, z: pandas.RangeIndex(4) + z,
    lambda pandas, column, z: pandas.Index([1, 2]).insert(1, z), lambda pandas, column, z: column.loc[z],
    lambda pandas, column, z: column.where(column > 3).fillna(z),
    lambda pandas, column, z: column.clip(upper=z),
    lambda pandas, column, z: column.reindex(range(12), fill_value=z * 1),
    lambda pandas, column, z: pandas.isna(z), lambda pandas, column, z: pandas.isna(z * numpy.nan),
    lambda pandas, column, z: pandas.api.types.is_scalar(z),
])
@pytest.mark.parametrize("name", ["an array without dimensions", "a pending number"])
def test_operations_of_tables_with_single_numbers_have_the_types_of_numpys(name: str, made: Any) -> None:
    pandas = pytest.importorskip("pandas")
    column, found = pandas.Series(numpy.arange(10, dtype="f4")), []
    with using(small=0):
        for library in np, numpy:
            numbers = library.arange(300)
            z = numbers[3, ...] if name.startswith("an array") else numbers[:4].max()
            assert library is numpy or type(z) is core.array_class or type(z) in core.PENDING
            found.append(made(pandas, column, z))
    kinds = [str(x.dtype) if hasattr(x, "dtype") else type(x) for x in found]
    assert kinds[0] == kinds[1]
    assert numpy.array_equal(numpy.asarray(found[0]), numpy.asarray(found[1]), equal_nan=True)


@pytest.mark.parametrize("made", [
    lambda pandas, x: pandas.Series(x), lambda pandas, x: pandas.Index(x),
    lambda pandas, x: pandas.DataFrame(x)[0],
    lambda pandas, x: pandas.Series(x, copy=False), lambda pandas, x: pandas.Series(0, index=x).index,
    lambda pandas, x: pandas.Series(x, dtype="Float64"),
    lambda pandas, x: pandas.arrays.FloatingArray(x, x < 0),
])
def test_pandas_copies_what_it_copies_of_numpys_arrays(x: Any, made: Any) -> None:
    pandas = pytest.importorskip("pandas")
    found = []
    for values in (x, numpy.array(x)):
        column = made(pandas, values)
        values[1] = -5.0
        found.append(numpy.asarray(column)[1])
    assert found[0] == found[1]


def test_lists_of_arrays_are_keys_of_pandas(x: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": x, "k": x % 4})
    assert frame.groupby([x % 4, x % 6])["a"].count().sum() == x.size
    assert frame.groupby(["k", x % 6])["a"].count().sum() == x.size
    same(frame.set_index([x % 4, x]).index.get_level_values(1), x)


def test_numpys_functions_call_the_methods_of_a_series(x: Any) -> None:
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(numpy.arange(3000.0))
    for found in (np.repeat(column, 2), np.take(column, np.arange(300), axis=0)):
        assert type(found) is pandas.Series
    pandas.testing.assert_series_equal(np.repeat(column, 2), numpy.repeat(column, 2))


def test_statsmodels() -> None:
    tsa = pytest.importorskip("statsmodels.tsa.api")
    values = numpy.cumsum(numpy.random.default_rng(0).standard_normal(300))
    found = [tsa.AutoReg(x, 2).fit().params for x in (np.array(values), values)]
    numpy.testing.assert_allclose(numpy.asarray(found[0]), found[1], rtol=1e-10)


def test_einops(x: Any) -> None:
    einops = pytest.importorskip("einops")
    grid = x.reshape(10, -1)
    same(einops.rearrange(grid, "(b c) d -> b d c", b=2), grid.reshape(2, 5, -1).transpose(0, 2, 1))
    same(einops.reduce(grid, "a b -> a", "max"), grid.max(axis=1))
    same(einops.rearrange([x, x], "n a -> (n a)"), np.concatenate([x, x]))
    assert is_ours(einops.repeat(grid, "a b -> a b c", c=2) + 1)


def test_pyarrow(x: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    column = pyarrow.array(x)
    assert len(column) == x.size and column[3].as_py() == 6.0
    same(np.asarray(column) + 1, x + 1)
    table = pyarrow.table({"a": x})
    same(table["a"].to_numpy(), x)
    assert pyarrow.array(x, mask=x > 2).null_count == x.size - 2


def test_pyarrow_finds_the_types_of_pending_numbers() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with using(small=0):
        row = summary(np)
        assert pyarrow.array([row["mean"], row["most"]]).type == pyarrow.float64()
        assert pyarrow.scalar(row["count"]).type == pyarrow.int64()
        assert pyarrow.table({"a": [row["mean"]]}).schema.field("a").type == pyarrow.float64()


def test_xarray(x: Any) -> None:
    xarray = pytest.importorskip("xarray")
    grid = x.reshape(10, -1)
    labelled = xarray.DataArray(grid, dims=("y", "x"), coords={"y": np.arange(10)})
    same(labelled.mean("x"), numpy.asarray(grid).mean(axis=1))
    assert float(labelled.sel(y=3).sum()) == float(grid[3].sum())
    same((labelled + labelled.isel(y=0)).data, grid + grid[0])
    stored = xarray.Dataset({"v": labelled, "w": labelled * 2})
    same(stored["w"] - stored["v"], grid)
    same(stored["v"].rolling(y=2).mean().dropna("y"), (grid[1:] + grid[:-1]) / 2)


@pytest.mark.parametrize("key", [([0, 1], [2, 3]), {"y": [1, 2], "x": [0, 4]}, (3, slice(None)),
                                 (slice(2, 4), [1, 5]), "points", "masks"], ids=str)
def test_xarrays_indices(x: Any, key: Any) -> None:
    xarray = pytest.importorskip("xarray")
    points = {name: xarray.DataArray(found, dims="p") for name, found in (("y", [0, 1, 2]), ("x", [3, 4, 5]))}
    both = []
    for library, values in ((np, x), (numpy, numpy.array(x))):
        masks = library.arange(10) > 4, library.arange(values.size // 10) < 3
        where = points if key == "points" else masks if key == "masks" else key
        labelled = xarray.DataArray(values.reshape(10, -1) * 1.0, dims=("y", "x"))
        read = labelled[where]
        labelled[where] = -1.0
        assert float(labelled.isel(labelled.argmin(...))) == -1
        both.append((read, labelled))
    for ours, theirs in zip(*both, strict=True):
        assert ours.dims == theirs.dims
        same(ours.data, theirs.data)


def test_h5py(x: Any, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = x
        file["x"][:3] = x[3:6]
        data = file["x"]
        assert data[0] == 6
        y = np.zeros(x.size)
        y += 1
        data.read_direct(y)
        assert y[0] == 6 and float(y[5] + y[-1]) == 10 + float(x[-1])
        data.read_direct(y, numpy.s_[:10], numpy.s_[10:20])
        assert y[10] == 6
        data.write_direct(y * 2)
        assert data[10] == 12
        same(np.asarray(data) / 2, y)


NETCDF4 = """
import netCDF4
import numpy as np
x = np.arange(100000.0) * 2
with netCDF4.Dataset("a.nc", "w") as file:
    file.createDimension("n", x.size)
    data = file.createVariable("x", "f8", ("n",))
    data[:] = x
    assert isinstance(file, netCDF4.Dataset) and float(file["x"][5]) == 10
    data[:10] = x[10:20] + 1
    whole = file.variables["x"][:]
    print(type(whole).__name__, float((np.asarray(whole) - x).sum()))
"""


def test_netcdf4_takes_numpys_arrays(x: Any, tmp_path: Path) -> None:
    import diffuse

    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", x.size)
        data = file.createVariable("x", "f8", ("n",))
        data[:] = diffuse.to_numpy(x)
        same(np.asarray(data[:]) * 2, x * 2)


def test_netcdf4_as_a_module_that_sees_numpy(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    found = subprocess.run([sys.executable, "-m", "diffuse", "run", "--real", "netCDF4", "-c", NETCDF4],
                           cwd=tmp_path, capture_output=True, text=True, timeout=300,
                           env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}"
                                                            f"{os.environ.get('PYTHONPATH', '')}"})
    assert found.stdout == "MaskedArray 210.0\n", found.stderr


def test_dask(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # a file of these tests has its name
    dask = pytest.importorskip("dask.array")
    threads = {"scheduler": "threads"}
    parts = dask.from_array(x, chunks=x.size // 5)
    assert float(parts.sum().compute(**threads)) == float(x.sum())
    same((parts * 2 + 1).compute(**threads), x * 2 + 1)
    same(np.asarray(parts[::2].compute(**threads)) + 1, x[::2] + 1)
    doubled = dask.map_blocks(lambda part: np.sqrt(part), parts, dtype=float)
    same(doubled.compute(**threads), numpy.sqrt(numpy.asarray(x)))
