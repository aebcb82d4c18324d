"""Redirects the user's import statements: `numpy` means `diffuse.numpy`, and the like.

Only import statements in the program and its modules are redirected; the standard library and installed
packages keep the real modules.  Modules that Diffuse lacks (`scipy.stats`, say) are the real ones for the
program, too.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from diffuse.settings import config

Importer = Callable[..., Any]

CUPYNUMERIC = ("cupynumeric", "cunumeric")
MEANT = {
    "numpy": "diffuse.numpy", "scipy": "diffuse.scipy", **dict.fromkeys(CUPYNUMERIC, "diffuse.numpy"),
    "legate_sparse": "diffuse.scipy.sparse", "legate.sparse": "diffuse.scipy.sparse",
    "legate.timing": "diffuse.intercept.legate", "legate.core": "diffuse.intercept.legate",
}
"""Modules that programs import, and the Diffuse modules that they get.  `--as NAME` adds names."""

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = (OWN, *[os.path.join(os.path.dirname(OWN), room) for room in ("kernels", "runtime")])
"""The folders of Diffuse's own modules."""
OURS = tuple([folder + os.sep for folder in ROOMS])


def _installed_folders() -> tuple[str, ...]:
    found = [*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages(), *ROOMS]
    roots = {sys.prefix, sys.base_prefix, sysconfig.get_path("scripts")}  # programs live beside these, too
    return tuple(sorted({os.path.realpath(f) + os.sep for f in found if f not in roots}))


_folders = _installed_folders()
_users: dict[str, bool] = {}


def users(names: Mapping[str, Any] | None) -> bool:
    """Do these globals belong to the user's own code, rather than to an installed module?"""
    if names is None:
        return False
    file = names.get("__file__")
    if file is None:
        return names.get("__name__") == "__main__"
    known = _users.get(file)
    if known is None and file.startswith(OURS):  # the real path takes 50 us to find
        known = _users[file] = False
    if known is None:
        path = os.path.realpath(file)
        known = not (path.startswith(_folders) or f"{os.sep}site-packages{os.sep}" in path
                     or f"{os.sep}dist-packages{os.sep}" in path)
        _users[file] = known
    return known


def chosen() -> dict[str, str]:
    """The redirections under the settings: `MEANT` with the names of `--as`, without those of `--real`."""
    names = dict(MEANT)
    if config.runtime == "legate":  # Legate's own module, which runs beside Diffuse
        del names["legate.core"]
    for word in filter(None, config.aliases.split(",")):
        name, _, module = word.partition("=")
        names[name] = "diffuse." + (module or "numpy")
        if not _has(names[name]):
            raise ValueError(f"--as {word}: Diffuse has no module {names[name]!r}; expected NAME, which then "
                             "means NumPy, or NAME=scipy.sparse or another module that `import` finds below "
                             "diffuse.numpy or diffuse.scipy")
    real = tuple(filter(None, config.real.split(",")))
    return {name: module for name, module in names.items()
            if not any(name == other or name.startswith(other + ".") for other in real)}


class Answers:
    """An `__import__` that redirects the user's statements, and passes others to Python's own."""

    def __init__(self, plain: Importer, realm: Any) -> None:
        self._plain, self._realm, self._names = plain, realm, chosen()
        self._stems: dict[str, Stem] = {}

    def import_(self, name: str, globals: Mapping[str, Any] | None = None,
                locals: Mapping[str, Any] | None = None, fromlist: Sequence[str] | None = (), level: int = 0
                ) -> Any:
        # a list comes from C code (pickle and others), which then looks up the real module by its name
        if isinstance(fromlist, list) or not users(globals):
            return self._plain(name, globals, locals, fromlist, level)
        if self._realm is not None:
            return self._realm.answer(self._plain, self._answer, name, globals, locals, fromlist, level)
        return self._answer(name, globals, locals, fromlist, level)

    def import_module(self, name: str, package: str | None = None) -> Any:
        """`importlib.import_module`, which redirects the user's calls like the statement, except for `numpy`
        and `scipy`: so a program can get the real ones."""
        caller = sys._getframe(1).f_globals
        if name.partition(".")[0] in ("numpy", "scipy", "") or not users(caller):
            return python_import_module(name, package)
        return self.import_(name, caller, None, ("__name__",), 0)

    def _answer(self, name: str, globals: Any, locals: Any, fromlist: Any, level: int) -> Any:
        root = name.partition(".")[0]
        meant = None if level else self.meant(name)
        if meant is None:
            if level or not self.stem(root):
                return self._plain(name, globals, locals, fromlist, level)
            if self.stem(name):
                return self._stem(name)
            found = self._plain(name, globals, locals, fromlist, level)
            return found if fromlist else self._stem(root)
        if root == "scipy" and not _has(meant):
            found = self._plain(name, globals, locals, fromlist, level)
            return found if fromlist else importlib.import_module("diffuse.scipy")
        try:
            found = self._plain(meant, None, None, fromlist or ("__name__",), 0)
        except ModuleNotFoundError as error:
            if error.name is None or not (meant + ".").startswith(error.name + "."):
                raise
            raise ModuleNotFoundError(self._missing(name), name=name) from None
        if root in CUPYNUMERIC:
            importlib.import_module("diffuse.intercept.legate").hints()
        if fromlist:
            return found
        return sys.modules[self._names[root]] if root in self._names else self._stem(root)

    def _missing(self, name: str) -> str:
        other = next((whole for whole in self._names if name.startswith(whole + ".")), "numpy")
        said = f"No module named {name!r}"
        return said if other in ("numpy", "scipy") else (
            f"{said}: under `diffuse run` {other} means {self._names[other]}, which has no such module; with "
            f"--real {other.partition('.')[0]} it is the library itself")

    def meant(self, name: str) -> str | None:
        """The Diffuse module that a name is redirected to, or None."""
        whole = name
        while whole:
            if whole in self._names:
                return self._names[whole] + name[len(whole):]
            whole = whole.rpartition(".")[0]
        return None

    def stem(self, name: str) -> bool:
        """Is the name a prefix of redirected names, without being redirected itself?"""
        return name not in self._names and any(other.startswith(name + ".") for other in self._names)

    def _stem(self, name: str) -> Stem:
        if name not in self._stems:
            self._stems[name] = Stem(name, self)
        return self._stems[name]

    def below(self, name: str) -> Any:
        """The module that the program gets below a stem; None if it is the library's own."""
        meant = self.meant(name)
        return importlib.import_module(meant) if meant else self._stem(name) if self.stem(name) else None


class Stem(ModuleType):
    """A package some of whose modules are redirected (`legate`); the others are its own, if it is
    installed."""

    def __init__(self, name: str, answers: Answers) -> None:
        super().__init__(name)
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        found = self._answers.below(f"{self.__name__}.{name}")
        if found is not None:
            return found
        try:
            return getattr(python_import_module(self.__name__), name)
        except ModuleNotFoundError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name) from None


def _has(meant: str) -> bool:
    """Does Diffuse have this module?  Without SciPy, `diffuse.scipy` itself reports that."""
    if meant == "diffuse.scipy":
        return True
    try:
        return importlib.util.find_spec(meant) is not None
    except ModuleNotFoundError as error:
        if error.name == "scipy":
            raise
        return False


python_import_module = importlib.import_module
