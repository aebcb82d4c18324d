"""NumPy's namespace: maps each of its names to Diffuse's own object, NumPy's, or a wrapped function.

A name is looked up once.  Functions that Diffuse implements come from its own modules; constants, element
types and classes are NumPy's own; every other function is wrapped by `fallback`.  Submodules of NumPy without
a file here (`ma`, `testing`, `polynomial`, `lib.stride_tricks`, ...) are mirrors with the same rules.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge import fallback, mirrors, overrides
from diffuse.numpy.ops.lowering import FAR, lowered, raised
from diffuse.numpy.ops.ufuncs import UFUNCS

MODULES = {name: module for module, names in (
    ("ops.creation", "arange empty eye frombuffer fromfunction full identity indices linspace ones zeros"),
    ("ops.like", "empty_like full_like ones_like zeros_like"),
    ("ops.conversion", "array asanyarray asarray ascontiguousarray asfortranarray copy from_dlpack"),
    ("ops.reductions", """all any argmax argmin count_nonzero cumprod cumsum max mean min prod ptp std sum
        var"""),
    ("ops.manipulation", """array_split atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to
        diagonal dsplit expand_dims flip fliplr flipud hsplit imag matrix_transpose may_share_memory moveaxis
        ndim ravel real reshape rollaxis rot90 shape shares_memory size split squeeze swapaxes transpose
        unstack vsplit"""),
    ("ops.joining", """append block column_stack concatenate dstack hstack pad repeat roll row_stack stack
        tile vstack"""),
    ("ops.logic", "allclose array_equal array_equiv isclose iscomplex isneginf isposinf isreal"),
    ("ops.functions", """astype clip copyto fix meshgrid nan_to_num nanprod nansum round trace tri tril triu
        where"""),
    ("ops.calculus", "average cross diff gradient trapezoid"),
    ("ops.products", "dot inner outer vdot"),
    ("ops.positions", "ravel_multi_index unravel_index"),
    ("ops.contraction", "einsum"),
    ("ops.indexing", "argwhere compress extract flatnonzero nonzero take take_along_axis"),
    ("ops.placing", "fill_diagonal place put put_along_axis putmask"),
    ("ops.choosing", "choose delete diag insert piecewise select"),
    ("order.sorting", "sort argsort lexsort partition argpartition"),
    ("order.selection", "median percentile quantile nanmedian nanpercentile nanquantile"),
    ("order.searching", "searchsorted digitize interp"),
    ("order.histograms", "histogram histogramdd histogram2d"),
    ("order.tallies", "bincount"),
    ("order.filters", "convolve correlate"),
    ("order.sets", """unique unique_all unique_counts unique_inverse intersect1d union1d setdiff1d setxor1d
        isin"""),
) for name in names.split()}
"""The functions of NumPy that Diffuse implements under their own names, and the module of each, which is
imported when one of them is used."""

DESCRIPTION = """iscomplexobj isrealobj typename mintypecode common_type result_type
promote_types issubdtype isdtype isfortran
tril_indices_from triu_indices_from diag_indices_from""".split()
TEXT = """array2string array_repr array_str format_float_positional format_float_scientific save savez
savez_compressed savetxt datetime_as_string base_repr binary_repr info""".split()
TESTS = """broadcast_shapes array_equiv can_cast min_scalar_type isscalar iterable""".split()
LIBRARY = "einsum_path polyfit roots packbits unpackbits".split()
ORDER = "histogram_bin_edges unique_values sort_complex".split()
SOURCES = """load loadtxt genfromtxt fromfile fromregex fromstring frombuffer fromiter
tril_indices triu_indices mask_indices diag_indices bartlett blackman hamming hanning
kaiser geomspace logspace vander ix_""".split()
SILENT = {f"numpy.{name}": reason
          for reason, names in (("description", DESCRIPTION), ("text", TEXT), ("test", TESTS),
                                ("library", LIBRARY), ("source", SOURCES), ("order", ORDER))
          for name in names}
REBOUND = frozenset(f"numpy.{name}" for name in """nanmin nanmax nanargmin nanargmax nancumsum nancumprod
    nanmean nanvar nanstd angle sinc i0 unwrap cov corrcoef ediff1d polyval real_if_close cumulative_sum
    cumulative_prod kron tensordot vander resize diagflat asarray_chkfinite apply_over_axes trim_zeros require
    polyadd polysub polymul polyder polyint""".split())
"""Functions whose own code runs over Diffuse's arrays (`bridge/rebound.py`)."""
SILENT_MODULES = {"numpy.linalg": "library", "numpy.fft": "library", "numpy.random": "source",
                  "numpy.testing": "test", "numpy.ctypeslib": "test", "numpy.char": "text",
                  "numpy.strings": "text", "numpy.rec": "text", "numpy.polynomial": "library"}
"""Modules whose functions lose nothing by running in NumPy."""

ALIASES = {"amin": "min", "amax": "max", "around": "round", "concat": "concatenate",
           "permute_dims": "transpose"}
"""Alternative names that NumPy keeps for functions."""

STAND_INS: dict[type, type] = {}
"""Replacements for classes of NumPy from which a module of this package derives others."""

INDEXERS = ("r_", "c_", "mgrid", "ogrid")


class Indexer:
    """`np.r_`, `np.c_`, `np.mgrid`, `np.ogrid`: NumPy's, with Diffuse arrays in and out."""

    def __init__(self, name: str, real: Any) -> None:
        self._name, self._real = name, real

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return _bmat(key, sys._getframe(1))
        arrays: list[Any] = []
        plain = lowered((key,), arrays)
        if arrays and plain is not FAR:
            return raised(self._real[plain[0]], arrays)
        return fallback.call(self._real.__getitem__, (key,), {}, f"numpy.{self._name}", "source")

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return repr(self._real)


def bmat(obj: Any, ldict: Any = None, gdict: Any = None) -> Any:
    """NumPy's `bmat`, with the names in a text looked up where the program calls it."""
    if isinstance(obj, str):
        return _bmat(obj, sys._getframe(1)) if gdict is None else numpy.bmat(obj, ldict, gdict)
    return fallback.call(numpy.bmat, (obj, ldict, gdict), {})


def _bmat(text: str, frame: FrameType) -> Any:
    return numpy.bmat(text, frame.f_locals, frame.f_globals)


def _vectorize() -> type:
    """`np.vectorize` whose calls accept and return Diffuse arrays."""
    class vectorize(numpy.vectorize):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return fallback.call(super().__call__, args, kwargs, "numpy.vectorize")

    vectorize.__module__ = "diffuse.numpy"
    vectorize.__qualname__ = "vectorize"
    vectorize.__doc__ = numpy.vectorize.__doc__
    return vectorize


@cache
def native(name: str) -> Any:
    """Diffuse's own object of this name in NumPy's main namespace, or None."""
    original = ALIASES.get(name, name)
    if original != name and getattr(numpy, name) is getattr(numpy, original):
        return native(original)
    if name == "ndarray":
        return core.array_class
    found = UFUNCS.get(name)
    if found is not None:
        return found
    if original not in MODULES:
        return None
    ours = _postponed(name) if MODULES[original].startswith("order.") else _implementation(original)
    return gated(ours, getattr(numpy, name), "diffuse.numpy")


def _implementation(name: str) -> Any:
    return getattr(importlib.import_module(f"diffuse.numpy.{MODULES[name]}"), name)


def _postponed(name: str) -> Callable[..., Any]:
    """Make a function that imports our function of this name when it is first called, as its gate does not on
    small arrays, and puts it behind that gate."""
    @cache
    def found() -> Any:
        function, gate = _implementation(name), native(name)
        if hasattr(gate, "ours"):  # it is the extension's
            _module("native_gates").put_behind(gate, function)
        return function

    def ours(*args: Any, **kwargs: Any) -> Any:
        return found()(*args, **kwargs)

    ours.__name__ = name
    return ours


def gated(ours: Any, real: Any, module: str) -> Any:
    """Put a gate in front of our function that calls NumPy's for small arrays (ops/gates.py), with NumPy's
    documentation."""
    gate: Any = _module("gates").function(real, ours)
    if gate is not ours:
        gate.__name__ = gate.__qualname__ = getattr(real, "__name__", ours.__name__)
        gate.__module__ = module
    return fallback.standing_for(gate, real)


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(f"diffuse.numpy.ops.{name}")


def resolve(name: str) -> Any:
    """The object `diffuse.numpy.<name>`."""
    if name in numpy.__numpy_submodules__ and importlib.util.find_spec("numpy." + name) is not None:
        return importlib.import_module(f"diffuse.numpy.{name}")
    try:
        real = getattr(numpy, name)
    except AttributeError as error:
        raise AttributeError(str(error), name=name) from None
    if name.startswith("__"):
        return real
    ours = native(name)
    if ours is not None:
        return like_builtin(ours, real, "diffuse.numpy")
    if name in INDEXERS:
        return Indexer(name, real)
    if name == "bmat":
        return fallback.dressed(bmat, real, "diffuse.numpy")
    if name == "vectorize":
        return _vectorize()
    return converted(real, f"numpy.{name}")


def converted(real: Any, path: str) -> Any:
    """Convert a value of NumPy's namespace: functions are wrapped, everything else stays as it is."""
    if isinstance(real, ModuleType):
        mirrored = real.__name__.startswith("numpy.")
        return importlib.import_module("diffuse." + real.__name__) if mirrored else real
    kind: Any = real
    if isinstance(real, type) and issubclass(real, numpy.ndarray):
        overrides.acquaint(kind)
    if isinstance(real, type):
        return STAND_INS.get(kind, real)
    if not callable(real) or type(real).__module__ in ("typing", "types"):
        return real  # annotations (`numpy.typing.NDArray`) can be called
    if path.startswith("numpy.lib.stride_tricks."):
        return fallback.standing_for(getattr(_module("manipulation"), path.rpartition(".")[2]), kind)
    reason = SILENT.get(path) or SILENT_MODULES.get(path.rpartition(".")[0])
    if isinstance(real, numpy.ufunc) or type(real).__module__ in ("numpy.ma.core", "numpy.ma.extras"):
        return FallbackUfunc(real, path)
    if path in fallback.in_pieces:
        importlib.import_module("diffuse.numpy.bridge.ranks.pieces")
    private = "._" in path
    if path in REBOUND:
        from diffuse.numpy.bridge.rebound import rebound

        return gated(rebound(kind, path, reason), kind, "diffuse.numpy")
    ours = _with_methods(real, path, reason) if private else gated(
        fallback.wrapped(real, path, reason), real, "diffuse." + path.rpartition(".")[0])
    return like_builtin(ours, real, "diffuse." + path.rpartition(".")[0])


def _with_methods(real: Callable[..., Any], path: str, reason: str | None) -> Callable[..., Any]:
    """Wrap a function of a private module.  It may return objects of a private C class, whose methods only
    accept NumPy's arrays; these methods are wrapped, too."""
    def run(*args: Any, **kwargs: Any) -> Any:
        found = fallback.call(real, args, kwargs, path, reason)
        kind = type(found)
        private = kind.__module__ == "numpy" and kind.__name__.startswith("_") and not isinstance(found, type)
        return FallbackUfunc(found, f"{path}()") if private else found

    return fallback.dressed(run, real, path.rpartition(".")[0].replace("numpy", "diffuse.numpy", 1))


class Builtin(staticmethod):  # type: ignore[type-arg]
    """A function that does not become a method as an attribute of a class, like NumPy's own functions written
    in C."""

    def __init__(self, function: Callable[..., Any], module: str) -> None:
        super().__init__(function)
        self.__module__ = module
        text = getattr(getattr(function, "__wrapped__", None), "__text_signature__", None)
        if text is not None:
            self.__text_signature__ = text

    def __reduce__(self) -> str:
        return self.__name__


def like_builtin(ours: Any, real: Any, module: str) -> Any:
    """Make `ours` behave like NumPy's `real` as an attribute of classes: as a method, or not."""
    binds = hasattr(type(real), "__get__") or not isinstance(ours, FunctionType)
    return ours if binds else Builtin(ours, module)


class Standing:
    """Base of objects that stand for a `_real` one, and are instances of its class."""

    __slots__ = ()
    _real: Any

    @property
    def __class__(self) -> Any:
        """The class of the real one: `isinstance(scipy.special.jv, np.ufunc)`."""
        return type(self._real)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        self._real.__class__ = kind  # raises


class FallbackUfunc(Standing):
    """A ufunc that only NumPy has, or another callable object, with its attributes and methods."""

    def __init__(self, real: Any, path: str) -> None:
        self._real, self._path = real, path
        self.__name__, self.__doc__ = path.rpartition(".")[2], real.__doc__
        self.__wrapped__ = real  # which has its signature
        self.__module__ = getattr(real, "__module__", "numpy")

    def __reduce__(self) -> Any:
        return named, (self._path,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, known: Any) -> Any:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return fallback.call(self._real, args, kwargs, self._path)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        return fallback.wrapped(value, f"{self._path}.{name}") if callable(value) else value

    def __eq__(self, other: Any) -> Any:
        """Equal NumPy's own object, which libraries may have in tables."""
        return self._real is (other._real if isinstance(other, FallbackUfunc) else other)

    def __hash__(self) -> int:
        return hash(self._real)

    def __repr__(self) -> str:
        return repr(self._real)


def named(path: str) -> Any:
    """Diffuse's object for a name of a library's module, from a pickle."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"diffuse.{module}"), name)


def member(real: ModuleType, name: str) -> Any:
    """The mirror's object for a name of a submodule of NumPy."""
    overrides.acquaint_all(real)
    if real.__name__ == "numpy.ma":
        from diffuse.numpy.bridge.rebound import acquaint_masked

        acquaint_masked(real.MaskedArray)
    theirs = getattr(real, name)
    same = callable(theirs) and vars(numpy).get(name) is theirs  # the main namespace has it, too
    ours = sys.modules["diffuse.numpy"]
    return getattr(ours, name) if same else converted(theirs, f"{real.__name__}.{name}")


def fill(module: dict[str, Any], real: ModuleType) -> None:
    """Give one of our modules (`linalg`, `fft`) the names that NumPy's has and ours does not define, each on
    first use: few programs use many."""
    module["__path__"] = []  # its submodules are mirrors
    sys.modules[module["__name__"]].__class__ = mirrors.Whole
    names = module["__all__"] = public(real)

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}", name=name)
        found = converted(getattr(real, name), f"{real.__name__}.{name}")
        return module.setdefault(name, found) if name in names else found

    module["__getattr__"] = missing
    module["__dir__"] = lambda: sorted({*module, *names})
    for name in names:
        ours = module.get(name)
        if isinstance(ours, FunctionType):
            module[name] = gated(ours, getattr(real, name), module["__name__"])


def public(real: ModuleType) -> list[str]:
    return list(getattr(real, "__all__", None) or [n for n in dir(real) if not n.startswith("_")])
