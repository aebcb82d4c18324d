"""The namespaces of modules that look names up when they are used: whole when somebody reads them."""

from __future__ import annotations

import importlib
import pickle
from types import ModuleType
from typing import Any

import pytest

MODULES = ["numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.lib", "numpy.polynomial"]


@pytest.mark.parametrize("name", MODULES)
def test_a_namespace_has_every_name_of_numpys_module(name: str) -> None:
    # libraries that wrap all of NumPy, as autograd does, go through it
    ours, theirs = importlib.import_module("diffuse." + name), importlib.import_module(name)
    public = {name: value for name, value in vars(theirs).items() if not name.startswith("__")}
    found = vars(ours)
    assert not public.keys() - found.keys()
    assert all(found[name] is getattr(ours, name) for name in public)
    assert ours.__dict__ is found


def test_a_namespace_keeps_what_a_program_puts_there() -> None:
    np: Any = importlib.import_module("diffuse.numpy")
    before = np.tanh
    try:
        np.tanh = "the program's"
        assert vars(np)["tanh"] == "the program's"
    finally:
        np.tanh = before


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_pickled_by_name_where_plain_modules_are(name: str) -> None:
    # cloudpickle, with which joblib and dask send functions, has a rule for `ModuleType` itself
    module = importlib.import_module("diffuse." + name)
    assert isinstance(module, ModuleType)
    assert pickle.loads(pickle.dumps(module)) is module


def test_annotations_are_numpys() -> None:
    ours, theirs = importlib.import_module("diffuse.numpy.typing"), importlib.import_module("numpy.typing")
    for name in theirs.__all__:
        assert getattr(ours, name) is getattr(theirs, name)
    np = importlib.import_module("diffuse.numpy")
    annotations = [np.typing.NDArray[np.float64], ours.ArrayLike | None, np.ndarray | None,
                   np.ndarray[tuple[int, ...], np.dtype[np.float64]]]
    real = importlib.import_module("numpy")
    assert str(annotations[0]) == str(theirs.NDArray[real.float64])


def test_a_copy_of_the_function_that_finds_names_knows_no_list_of_them() -> None:
    # autograd's own namespace has it, and `from autograd.numpy import *` asks for such a list
    np: Any = importlib.import_module("diffuse.numpy")
    with pytest.raises(AttributeError, match="module 'numpy' has no attribute '__all__'"):
        np.__getattr__("__all__")
    assert "add" in np.__all__ and np.concat is np.concatenate and np.permute_dims is np.transpose


def test_a_mirror_has_what_every_module_has() -> None:
    # pytest asks all names of SciPy's tests for it
    pytest.importorskip("scipy")
    for name in "numpy.lib.array_utils", "scipy.special._ufuncs":
        assert hasattr(importlib.import_module("diffuse." + name), "__builtins__")
