"""The floors: an import goes to a strictly lower floor, and the two links are links.

Read from the source with `ast`; an import inside a function counts like any other.  Only what stands under
`if TYPE_CHECKING` does not: nothing runs it.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.each import for_each

ROOT = Path(__file__).resolve().parent.parent
LINKS = {"runtime": "../runtime", "kernels": "../kernels"}
HEAVY = {"numpy", "llvmlite", "numba", "scipy", "jax"}

FLOORS = [
    ["diffuse.settings", "diffuse.interrupts", "diffuse.worker", "diffuse.bounded"],
    ["diffuse.ir"],
    ["diffuse.fusion", "diffuse.movement"],
    ["diffuse.observe", "diffuse.memory"],
    ["diffuse.service"],
    ["diffuse.kernels", "diffuse.runtime"],
    ["diffuse.spec", "diffuse.stream"],
    ["diffuse.planning", "diffuse.spmd"],
    ["diffuse.library"],
    ["diffuse.numpy"],
    ["diffuse.gradients"],
    ["diffuse"],
    ["diffuse.scipy"],
    ["diffuse.intercept"],
    ["diffuse.cli"],
    ["diffuse.__main__"],
]
"""Rooms from the ground up.  A module imports its own room, without cycles, and the rooms on floors below."""

SYSTEMS = ("diffuse.runtime.legate", "diffuse.runtime.local", "diffuse.runtime.mpi",
           "diffuse.runtime.reference")
"""Single runtimes: only the command line knows that there are such."""

PLAIN = 3
"""Rooms on floors below this one know no NumPy, no LLVM and no runtime."""


CHECKOUT = frozenset(""".ci .gitignore LICENSE Makefile README.md apps bench diffuse docs kernels
pyproject.toml runtime setup.py tests""".split())
"""What git keeps in the top folder."""


def room(name: str) -> str:
    """The room that a module belongs to."""
    owners = [owner for floor in FLOORS for owner in floor
              if name == owner or (name.startswith(owner + ".") and owner != "diffuse")]
    return max(owners, key=len, default="")


def floor(name: str) -> int:
    """The floor of a module, counted from the ground."""
    return next(number for number, rooms in enumerate(FLOORS) if room(name) in rooms)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package by its one name."""
    for room in ("diffuse", "kernels", "runtime"):
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if room == "diffuse" and parts[1] in LINKS:
                continue
            parts = parts if room == "diffuse" else ("diffuse", *parts)
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(modules())


@cache
def parsed(name: str) -> ast.Module:
    """The source of a module."""
    return ast.parse(MODULES[name].read_text())


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports in a tree but for those that only a type-checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from statements(child)


@cache
def imports(tree: ast.AST) -> list[str]:
    """Names of the modules that a source imports; `from package import module` names the module."""
    return list(named(tree))


def named(tree: ast.AST) -> Iterator[str]:
    """The same, one after the other."""
    for statement in statements(tree):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
            continue
        assert not statement.level, f"write the whole name: from {'.' * statement.level}{statement.module}"
        for alias in statement.names:
            whole = f"{statement.module}.{alias.name}"
            yield whole if whole in MODULES else str(statement.module)


def violations(name: str, tree: ast.AST) -> Iterator[str]:
    """What is wrong with the imports of one module, as sentences."""
    for target in sorted(set(imports(tree)) - {name}):
        if target.partition(".")[0] in HEAVY and floor(name) < PLAIN:
            yield f"{name} imports {target}: rooms on floors below {PLAIN} are plain Python"
        if target not in MODULES or room(target) == room(name):
            continue
        if target.startswith(SYSTEMS) and room(name) not in ("diffuse.runtime", "diffuse.cli"):
            yield f"{name} imports {target}: ask the runtime by its protocol, diffuse.runtime.base"
        elif {room(name), room(target)} == {"diffuse.kernels", "diffuse.runtime"}:
            yield f"{name} imports {target}: kernels and runtime never meet; hand it over as a callable"
        elif floor(target) >= floor(name):
            yield (f"{name} (floor {floor(name)}) imports {target} (floor {floor(target)}): "
                   "move the shared part down, or pass it in as an argument")


def test_the_top_folder_has_no_other_files() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    other = {line.partition("/")[0] for line in listed.stdout.splitlines()} - CHECKOUT
    assert not other, f"move these, or add them to CHECKOUT in {Path(__file__).name}: {sorted(other)}"


def test_every_module_has_a_room() -> None:
    homeless = sorted(name for name in MODULES if not room(name))
    assert not homeless, f"move these into a room of {Path(__file__).name}, or give them one: {homeless}"


def test_rooms_have_modules() -> None:
    empty = [name for rooms in FLOORS for name in rooms if name not in MODULES]
    assert not empty, f"these are no modules any more; take them out of {Path(__file__).name}: {empty}"


@for_each("name", MODULES)
def test_imports_point_down(name: str) -> None:
    found = list(violations(name, parsed(name)))
    assert not found, "\n".join(found)


def test_there_are_no_cycles() -> None:
    """A package stands for its `__init__` alone here: what it imports, its modules may not import it for."""
    graph = {name: {target for target in imports(parsed(name)) if target in MODULES} - {name}
             for name in MODULES}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError("these import each other: " + " -> ".join(error.args[1])) from None


@pytest.mark.parametrize("source, complaint", [
    ("from diffuse.stream import engine", "move the shared part down"),
    ("def f():\n    import diffuse.stream.engine", "move the shared part down"),
    ("import numpy as np", "plain Python"),
    ("def f():\n    from numpy import ndarray", "plain Python"),
])
def test_a_wrong_import_is_found(source: str, complaint: str) -> None:
    (found,) = violations("diffuse.fusion.constraints", ast.parse(source))
    assert complaint in found


LIBRARIES = [name for name in MODULES if room(name) in ("diffuse.numpy", "diffuse.scipy")]


@for_each("name", LIBRARIES)
def test_array_libraries_use_the_public_way_in(name: str) -> None:
    allowed = ("diffuse.library", "diffuse.settings", "diffuse.numpy", "diffuse.scipy")
    found = [target for target in imports(parsed(name))
             if target.startswith("diffuse.") and not target.startswith(allowed)]
    assert not found, f"{name} imports {found}: what a library needs has to be public, in diffuse/library.py"


def test_the_definition_of_redistribution_is_for_tests() -> None:
    users = {name for name in MODULES if not name.startswith("diffuse.movement.definition")
             for target in imports(parsed(name))
             if target.startswith("diffuse.movement.definition")}
    assert not users, f"{users} import what is as slow as it looks: the planner has boxes and parts"


def test_what_is_one_runtimes_own_is_asked_by_the_protocol() -> None:
    (found,) = violations("diffuse.stream.engine", ast.parse("from diffuse.runtime.legate import sharing"))
    assert "ask the runtime by its protocol" in found
    assert not list(violations("diffuse.cli.info", ast.parse("from diffuse.runtime.legate import prepare")))


def test_kernels_and_runtime_do_not_meet() -> None:
    (found,) = violations("diffuse.kernels.build.jit", ast.parse("from diffuse.runtime import base"))
    assert "never meet" in found


def test_what_only_a_type_checker_sees_is_no_import() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from diffuse.stream import engine"
    assert not list(violations("diffuse.fusion.constraints", ast.parse(source)))


@pytest.mark.parametrize("name, target", LINKS.items())
def test_links_are_links(name: str, target: str) -> None:
    link = ROOT / "diffuse" / name
    assert link.is_symlink(), f"diffuse/{name} is to be a link: ln -s {target} diffuse/{name}"
    assert str(link.readlink()) == target
    assert (link / "__init__.py").is_file()


@for_each("name", MODULES)
def test_a_module_says_what_it_does(name: str) -> None:
    assert ast.get_docstring(parsed(name)), f"{name} wants a docstring"


def test_the_settings_are_listed() -> None:
    from diffuse import settings

    table, page = settings.table(), ROOT / "docs" / "settings.md"
    assert table in page.read_text(), f"put this table into docs/settings.md:\n{table}"


WORDS = [line.strip("|").split("|") for line in (ROOT / "docs" / "words.md").read_text().splitlines()
         if line.startswith("| ") and ".py`" in line]


@pytest.mark.parametrize("words, files", [(words, files) for words, _, files in WORDS])
def test_words_are_where_the_page_says(words: str, files: str) -> None:
    sources = "".join([(ROOT / name).read_text().lower() for name in re.findall(r"`(\S+)`", files)])
    missing = [word for word in words.strip().replace("`", "").split(", ") if word.lower() not in sources]
    assert not missing, f"docs/words.md says that {missing} are defined in {files}"
