"""Modules of SciPy that are written in Python, executed a second time with Diffuse as their NumPy and SciPy.

The solvers and operators of `scipy.sparse.linalg` are array programs.  Their code is read from where SciPy is
installed and executed in modules of our own, in which `import numpy` gives `diffuse.numpy` and `import scipy`
gives `diffuse.scipy`: their operations are recorded, and fuse with the program's.  Names that Diffuse lacks
are SciPy's own.  The class `LinearOperator` that they define derives from SciPy's, whose other modules
(`scipy.optimize`) ask for it.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import scipy.sparse.linalg

import diffuse.numpy as np
from diffuse.scipy.sparse.linalg import basis, watch

ROOM = "scipy.sparse.linalg."
MODULES = ("_interface", "_norm", "_isolve.utils", "_isolve.iterative", "_isolve.minres", "_isolve.lsqr",
           "_isolve.lsmr", "_isolve.tfqmr")
"""The modules that are executed again, by their names below `ROOM`."""


class Namespace(ModuleType):
    """A Diffuse module with some of its functions replaced."""

    def __init__(self, real: Any, **replaced: Any) -> None:
        super().__init__(real.__name__)
        self._real = real
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        setattr(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        """NumPy's module is equal, in which SciPy's own operators compute: operators of both kinds add up."""
        return other is self or getattr(other, "__name__", "").endswith("numpy")

    __hash__ = ModuleType.__hash__


_linalg = Namespace(np.linalg, norm=watch.norm)
NUMPY = {"numpy.linalg": _linalg,
         "numpy": Namespace(np, linalg=_linalg, dot=watch.dot, vdot=watch.vdot, empty=basis.empty,
                            zeros=basis.zeros)}
"""The NumPy of the modules executed here: norms and dot products are watched (see `watch`)."""


def _asarray(array: Any, dtype: Any = None, order: Any = None, copy: bool | None = None, *, xp: Any = None,
             subok: bool = False, **options: Any) -> Any:
    """`asarray` as SciPy's modules call it that work on several array libraries."""
    convert = np.asanyarray if subok else np.asarray
    return np.array(array, dtype, order=order, subok=subok) if copy else convert(array, dtype, order)


def _libraries(name: str) -> Any:
    """SciPy's module for several array libraries, in which Diffuse's NumPy stands for all of them.

    From version 1.18 on SciPy's operators take arrays of any library and ask this module for its functions.
    """
    numpy = NUMPY["numpy"]
    return Namespace(importlib.import_module(name), np_compat=numpy, array_namespace=lambda *_, **__: numpy,
                     xp_result_type=lambda *types, **_: np.result_type(*types), _asarray=_asarray,
                     xp_copy=lambda x, **_: np.array(x))


def load(name: str) -> Any:
    """Execute the module `scipy.sparse.linalg.<name>` over Diffuse's arrays, once."""
    ours = f"diffuse.{ROOM}{name}"
    if ours not in sys.modules:
        spec: Any = importlib.util.find_spec(ROOM + name)
        module = sys.modules[ours] = ModuleType(ours)
        module.__spec__ = ModuleSpec(ours, None, origin=spec.origin)
        module.__file__, module.__package__ = spec.origin, ours.rpartition(".")[0]
        vars(module)["__builtins__"] = vars(builtins) | {
            "__import__": _import, "type": _type, "__build_class__": _build_class}
        exec(spec.loader.get_code(spec.name), vars(module))
    return sys.modules[ours]


def _import(name: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
            fromlist: Sequence[str] | None = (), level: int = 0) -> Any:
    """`__import__` for these modules: gives Diffuse's module if there is one, else the real one."""
    if level:
        assert globals is not None
        name = importlib.util.resolve_name("." * level + name, globals["__package__"])
        name = name.removeprefix("diffuse.")
    if name.startswith(ROOM) and name.removeprefix(ROOM) in MODULES:
        return load(name.removeprefix(ROOM))
    if name.partition(".")[0] == "numpy":
        name = name if fromlist else "numpy"
        return NUMPY.get(name) or importlib.import_module("diffuse." + name)
    if name.partition(".")[0] != "scipy":
        return builtins.__import__(name, globals, locals, fromlist, level)
    if not fromlist:
        return importlib.import_module("diffuse.scipy")
    if name == "scipy._lib._array_api":
        return _libraries(name)
    try:
        return importlib.import_module("diffuse." + name)
    except ModuleNotFoundError:
        return importlib.import_module(name)


class OperatorKind(type):
    """The metaclass of `LinearOperator`, of which operators that SciPy returns are instances, too."""

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(
            value) or cls is LinearOperator and isinstance(value, scipy.sparse.linalg.LinearOperator)


def _build_class(body: Any, name: str, *bases: Any, **options: Any) -> Any:
    """Execute a class statement of these modules; `LinearOperator` derives from SciPy's class."""
    if name == "LinearOperator":
        bases, options = (scipy.sparse.linalg.LinearOperator,), {"metaclass": OperatorKind}
    return builtins.__build_class__(body, name, *bases, **options)


def _type(x: Any, *more: Any) -> Any:
    """`type`, except that a pending number has the NumPy type that it stands for."""
    return type(x, *more) if more else x.__class__


if TYPE_CHECKING:
    class LinearOperator:
        """The declaration of SciPy's class for type checkers."""

        dtype: Any
        shape: Any
        matvec: Any
        rmatvec: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """A subclass passes (dtype, shape), other callers a shape and functions."""

        def __getattr__(self, name: str) -> Any:
            """Products, adjoints and sums."""
else:
    LinearOperator = load("_interface").LinearOperator
MatrixLinearOperator: Any = load("_interface").MatrixLinearOperator
