"""Adapts other libraries to Diffuse's arrays when they are imported: which functions, and the import hook."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from diffuse.library import start
from diffuse.settings import config

OPERATORS = """
    sparse.linalg._interface sparse.linalg._isolve.utils sparse.linalg._isolve.lsqr
    sparse.linalg._isolve.lsmr sparse.linalg._eigen.arpack.arpack sparse.linalg._eigen._svds
    sparse.linalg._eigen.lobpcg.lobpcg sparse.linalg._svdp sparse.linalg._expm_multiply
    sparse.linalg._onenormest optimize._lsq.common optimize._lsq.dogbox optimize._nonlin""".split()
"""The modules of SciPy that have `aslinearoperator` under their own name."""
PACKAGES = """
    cluster.hierarchy cluster.vq integrate interpolate linalg.interpolative ndimage signal spatial
    spatial.distance""".split()
"""The packages of SciPy all of whose functions are adapted.  Some ask whether an argument is NumPy's own
array, some are C code, and some leave outputs of other classes as they were, without an error."""
BLAS = ("=> get_blas_funcs", "=> get_lapack_funcs", "=> blas.get_blas_funcs", "=> lapack.get_lapack_funcs")
"""The functions that return functions of BLAS and LAPACK."""
ADAPTED = {
    **{f"scipy.{name}": ("aslinearoperator",) for name in OPERATORS},
    "einops._backends": ("NumpyBackend.is_appropriate_type",),
    "h5py": ("Dataset.read_direct", "Dataset.write_direct"),
    "networkx.utils.misc": ("is create_random_state", "is create_py_random_state"),
    "numba": ("@njit",),
    "numpy.ctypeslib": ("_ndptr.from_param",),
    "numpy.random": ("@generators",),
    "pandas": ("factorize", "unique", "Series.__init__", "Index.__new__", "RangeIndex.__new__",
               "DataFrame.__init__", "DataFrame.insert", "DataFrame.set_index", "DataFrame.groupby",
               "Series.groupby", "DataFrame._align_for_op", "DataFrame.__getitem__", "DataFrame.__setitem__",
               "Series.__getitem__", "Series.__setitem__", "Index.__getitem__", "core.common.is_bool_indexer",
               "core.common.random_state", "core.arrays.numeric.NumericArray.__init__",
               "core.arrays.boolean.BooleanArray.__init__", "Timedelta.__new__", "Timestamp.__new__",
               "Period.__new__", "core.generic.NDFrame.rolling", "core.generic.NDFrame.interpolate",
               "to_timedelta", "interval_range", "api.types.infer_dtype",
               "core.indexing._LocationIndexer.__getitem__", "core.indexing._LocationIndexer.__setitem__"),
    "pandas._libs.lib": ("# maybe_convert_objects", "# maybe_convert_numeric", "() item_from_zerodim",
                         "() is_scalar", "() is_list_like", "() is_integer", "() is_float", "() is_bool",
                         "() is_int_or_none", "infer_dtype"),
    "pandas._libs.missing": ("() checknull", "() is_matching_na"),
    "pandas.core.dtypes.cast": ("infer_dtype_from_scalar", "np_can_hold_element"),
    "PIL.Image": ("fromarray",),
    **dict.fromkeys(("pyarrow", "pyarrow.lib"), ("array", "scalar")),
    "polars": ("Series.__init__", "DataFrame.__init__"),
    **{f"scipy.{name}": ("*",) for name in PACKAGES},
    "scipy._lib._util": ("is check_random_state",),
    **dict.fromkeys(("scipy.interpolate._ndbspline", "scipy.interpolate._rgi"), ("is make_ndbspl",)),
    "scipy.linalg": ("funm", "blas.*", "lapack.*", *BLAS),
    "scipy.sparse.linalg": ("aslinearoperator", "spsolve", "=> splu", "=> spilu"),
    "scipy.sparse.linalg._dsolve.linsolve": ("spsolve", "=> splu", "=> spilu"),
    **dict.fromkeys(("scipy.optimize", "scipy.optimize._minpack_py", "scipy.optimize._root_scalar"),
                    ("~ curve_fit", "root_scalar")),
    **dict.fromkeys(("scipy.optimize._constraints", "scipy.optimize._slsqp_py"), ("_arr_to_scalar",)),
    "scipy.optimize._nonlin": ("aslinearoperator", "asjacobian", "_array_like"),
    "scipy.optimize._numdiff": ("group_dense", "group_sparse"),
    "scipy.optimize._remove_redundancy": ("interp_decomp",),
    "scipy.optimize._differentiable_functions": (
        "-> _ScalarGradWrapper.__call__", "-> _VectorFunWrapper.__call__", "-> _VectorJacWrapper.__call__",
        "-> VectorFunction.jac"),
    "scipy.spatial._qhull": ("_QhullUser.add_points", "_QhullUser._add_points",
                             "HalfspaceIntersection.__init__", "HalfspaceIntersection.add_halfspaces"),
    **dict.fromkeys(("scipy.stats", "scipy.stats._binned_statistic"), ("is binned_statistic_dd",)),
    "sklearn.utils.validation": ("is check_random_state",),
    "statsmodels.base.data": ("handle_data",),
    "torch": ("from_numpy",),
    "xarray.core.indexing": ("@indexing",),
}
"""Functions that accept only NumPy's arrays, or would treat other arrays differently. `*` is all public ones.
Behind `->` are those whose results, which are those of a function of the program, are to be NumPy's arrays,
behind `=>` those whose results have methods that accept only NumPy's arrays, behind `#` those that look for
numbers in an array of objects, behind `()` those in C that ask whether a value is a number, and behind `is`
those that compare an argument with functions or modules of NumPy or SciPy, behind `~` those that convert
their second argument only if it is NumPy's (adapters.py)."""


class _Watch:
    """Starts Legate with Diffuse's options before an import of cuPyNumeric does; adapts other libraries once
    they are imported."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == "cupynumeric":
            start(config.runtime)
        if fullname not in ADAPTED or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec: Any = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Adapting(spec.loader)
        return spec


class _Adapting:
    """A library's own loader, followed by the adapter."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _adapt(module)


def adapt_imported() -> None:
    """Adapt the libraries that were imported before Diffuse."""
    for name in ADAPTED.keys() & sys.modules.keys():
        _adapt(sys.modules[name])


def _adapt(module: Any) -> None:
    from diffuse.numpy.bridge import adapters  # only programs with such a library need it

    adapters.adapt(module, ADAPTED[module.__name__])


sys.meta_path.insert(0, _Watch())
