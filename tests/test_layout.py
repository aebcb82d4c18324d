"""The floors: an import goes to a strictly lower floor, and the two links are links.

Read from the source with `ast`; an import inside a function counts like any other.  Only what stands under
`if TYPE_CHECKING` does not: nothing runs it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINKS = {"runtime": "../runtime", "kernels": "../kernels"}
HEAVY = {"numpy", "llvmlite", "numba", "scipy", "jax"}
PURE = 10       # floors below this are plain data and functions over it
"""Rooms: 0 the IR and its analyses; 10 kernels, and runtime beside them; 30 the stream; 50 numpy; 63 scipy;
80 cli."""

FLOORS: dict[str, int] = {
    "diffuse.interrupts": 0, "diffuse.ir": 0, "diffuse.settings": 0, "diffuse.substitute": 0,
    "diffuse.worker": 0,
    "diffuse.dependence": 1, "diffuse.launch": 1, "diffuse.pattern": 1,
    "diffuse.pretty": 1, "diffuse.provenance": 1, "diffuse.temporaries": 1, "diffuse.trace": 1,
    "diffuse.view": 1,
    "diffuse.canonical": 2, "diffuse.check": 2, "diffuse.fusion": 2, "diffuse.verify": 3,
    "diffuse.memo": 3,
    "diffuse.kernels": 10, "diffuse.kernels.cache": 10, "diffuse.kernels.code": 10,
    "diffuse.kernels.expr": 10, "diffuse.kernels.powers": 10, "diffuse.kernels.quiet": 10,
    "diffuse.runtime.base": 10,
    "diffuse.runtime.loops": 10, "diffuse.runtime.machine": 10,
    "diffuse.kernels.abi": 11, "diffuse.kernels.generators": 11, "diffuse.kernels.llvm_memory": 11,
    "diffuse.kernels.interpret_ops": 11, "diffuse.kernels.llvm_pairwise": 11,
    "diffuse.kernels.lowering_instructions": 11, "diffuse.kernels.lowering_libm": 11,
    "diffuse.runtime.allocator": 11, "diffuse.runtime.native": 11, "diffuse.runtime.reference": 11,
    "diffuse.kernels.compose": 12, "diffuse.kernels.expansion": 12, "diffuse.kernels.interpret_reduce": 12,
    "diffuse.kernels.llvm_block": 12, "diffuse.kernels.lowering_cast": 12, "diffuse.runtime.pool": 12,
    "diffuse.kernels.interpret_sparse": 13, "diffuse.kernels.llvm_flat": 13,
    "diffuse.kernels.lowering_power": 13,
    "diffuse.kernels.loops": 13, "diffuse.kernels.lowering_bits": 13, "diffuse.kernels.lowering_integer": 13,
    "diffuse.kernels.vectormath": 13, "diffuse.runtime.ahead": 13, "diffuse.runtime.local": 14,
    "diffuse.runtime.legate": 10, "diffuse.runtime.legate.prepare": 11, "diffuse.runtime.legate.ranks": 11,
    "diffuse.runtime.legate.requirements": 11, "diffuse.runtime.legate.reuse": 11,
    "diffuse.runtime.legate.mpi": 12, "diffuse.runtime.legate.instances": 12,
    "diffuse.runtime.legate.message": 12, "diffuse.runtime.legate.agreement": 13,
    "diffuse.runtime.legate.task": 13,
    "diffuse.runtime.legate.reading": 14, "diffuse.runtime.legate.trampoline": 14,
    "diffuse.runtime.legate.variant": 15, "diffuse.runtime.legate.placement": 16,
    "diffuse.runtime.legate.exchange": 17, "diffuse.runtime.legate.runtime": 17,
    "diffuse.kernels.lowering_complex": 14, "diffuse.kernels.lowering_float": 14,
    "diffuse.kernels.llvm_flags": 14, "diffuse.kernels.target": 14, "diffuse.runtime": 18,
    "diffuse.kernels.lowering_complex_math": 15,
    "diffuse.kernels.lowering": 16,
    "diffuse.kernels.llvm_reduce": 17,
    "diffuse.kernels.llvm_sparse": 18,
    "diffuse.kernels.llvm": 19,
    "diffuse.kernels.jit": 20,
    "diffuse.kernels.pipeline": 21, "diffuse.kernels.routines": 21,
    "diffuse.kernels.interpret_plan": 22, "diffuse.kernels.small_folds": 22,
    "diffuse.kernels.interpret": 23,
    "diffuse.kernels.compiler": 24,
    "diffuse.floaterrors": 30, "diffuse.stores": 30, "diffuse.warmup": 30, "diffuse.window": 30,
    "diffuse.plan": 31, "diffuse.zeros": 31,
    "diffuse.layout": 32, "diffuse.pipeline": 32, "diffuse.replay": 32,
    "diffuse.forward": 33,
    "diffuse.engine": 34,
    "diffuse.explanation": 35,
    "diffuse": 36,
    "diffuse.numpy.forms": 45,
    "diffuse.numpy.lending": 46,
    "diffuse.numpy.base": 47,
    "diffuse.numpy.elementwise": 48, "diffuse.numpy.legate": 48,
    "diffuse.numpy.operands": 49,
    "diffuse.numpy.arguments": 50, "diffuse.numpy.distributed": 50, "diffuse.numpy.readers": 50,
    "diffuse.numpy.errors": 50, "diffuse.numpy.overrides": 50,
    "diffuse.numpy.fallback": 51, "diffuse.numpy.flags": 51, "diffuse.numpy.flat": 51,
    "diffuse.numpy.inplace": 51, "diffuse.numpy.interface": 51, "diffuse.numpy.subclasses": 51,
    "diffuse.numpy.conversion": 52,
    "diffuse.numpy.creation": 53,
    "diffuse.numpy.views": 54,
    "diffuse.numpy.assign": 55, "diffuse.numpy.folds": 55, "diffuse.numpy.manipulation": 55,
    "diffuse.numpy.joining": 56, "diffuse.numpy.moments": 56, "diffuse.numpy.ufuncs": 56,
    "diffuse.numpy.calculus": 57, "diffuse.numpy.functions": 57, "diffuse.numpy.logic": 57,
    "diffuse.numpy.namespace": 57, "diffuse.numpy.reductions": 57,
    "diffuse.numpy.fft": 58, "diffuse.numpy.interop": 58, "diffuse.numpy.products": 58,
    "diffuse.numpy.random": 58,
    "diffuse.numpy.linalg": 59, "diffuse.numpy.operators": 59, "diffuse.numpy.powers": 57,
    "diffuse.numpy.methods": 60, "diffuse.numpy.scalar": 60,
    "diffuse.numpy.array": 61,
    "diffuse.numpy": 62,
    "diffuse.scipy.fallback": 63, "diffuse.scipy.special_coefficients": 63, "diffuse.scipy.special_terms": 63,
    "diffuse.scipy": 64, "diffuse.scipy.fft": 64, "diffuse.scipy.linalg": 64, "diffuse.scipy.ndimage": 64,
    "diffuse.scipy.special_elementary": 64, "diffuse.scipy.special_error": 64,
    "diffuse.scipy.special_gamma": 64,
    "diffuse.scipy.special_bessel": 65, "diffuse.scipy.special_ufuncs": 66, "diffuse.scipy.special": 67,
    "diffuse.scipy.sparse.construct": 62, "diffuse.scipy.sparse.products": 62,
    "diffuse.scipy.sparse.state": 62,
    "diffuse.scipy.sparse.checks": 63, "diffuse.scipy.sparse.conversion": 63, "diffuse.scipy.sparse.rows": 63,
    "diffuse.scipy.sparse.delegation": 64, "diffuse.scipy.sparse.functions": 64,
    "diffuse.scipy.sparse.narrow": 64,
    "diffuse.scipy.sparse.matmul": 65,
    "diffuse.scipy.sparse.arithmetic": 66, "diffuse.scipy.sparse.csgraph": 66,
    "diffuse.scipy.sparse.reductions": 67,
    "diffuse.scipy.sparse.classes": 68,
    "diffuse.scipy.sparse": 69,
    "diffuse.scipy.sparse.linalg.convergence": 70, "diffuse.scipy.sparse.linalg.conversion": 70,
    "diffuse.scipy.sparse.linalg.interface": 71, "diffuse.scipy.sparse.linalg.norm": 71,
    "diffuse.scipy.sparse.linalg.matrices": 72, "diffuse.scipy.sparse.linalg.system": 73,
    "diffuse.scipy.sparse.linalg.conjugate": 74, "diffuse.scipy.sparse.linalg.least": 74,
    "diffuse.scipy.sparse.linalg.generalized": 75, "diffuse.scipy.sparse.linalg.minimal": 75,
    "diffuse.scipy.sparse.linalg.squared": 75, "diffuse.scipy.sparse.linalg": 76,
    "diffuse.cli": 80, "diffuse.cli.agreement": 79, "diffuse.cli.compare": 80, "diffuse.cli.launch": 80,
    "diffuse.cli.info": 80, "diffuse.cli.measure": 80,
    "diffuse.__main__": 81, "diffuse.cli.cache": 81, "diffuse.cli.run": 81,
    "diffuse.cli.explain": 82,
}


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


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports in a tree but for those that only a type-checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from statements(child)


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of the modules that a source imports; `from package import module` names the module."""
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
    floor = FLOORS[name]
    for target in sorted(set(imports(tree)) - {name}):
        top = target.partition(".")[0]
        if top in HEAVY and floor < PURE:
            yield f"{name} (floor {floor}) imports {target}: floors below {PURE} are plain Python"
        if target not in MODULES:
            continue
        rooms = {".".join(module.split(".")[:2]) for module in (name, target)}
        if rooms == {"diffuse.kernels", "diffuse.runtime"}:
            yield f"{name} imports {target}: kernels and runtime never meet; hand it over as a callable"
        elif target in FLOORS and FLOORS[target] >= floor:
            yield (f"{name} (floor {floor}) imports {target} (floor {FLOORS[target]}): "
                   "move the shared part down, or pass it in as an argument")


def test_every_module_has_a_floor() -> None:
    missing = sorted(MODULES.keys() - FLOORS.keys())
    gone = sorted(FLOORS.keys() - MODULES.keys())
    assert not missing, f"give these a floor in {Path(__file__).name}, above all that they import: {missing}"
    assert not gone, f"these are no modules any more; take them out of {Path(__file__).name}: {gone}"


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down(name: str) -> None:
    if name in FLOORS:
        found = list(violations(name, ast.parse(MODULES[name].read_text())))
        assert not found, "\n".join(found)


@pytest.mark.parametrize("source, complaint", [
    ("from diffuse import engine", "move the shared part down"),
    ("def f():\n    import diffuse.engine", "move the shared part down"),
    ("import numpy as np", "plain Python"),
    ("def f():\n    from numpy import ndarray", "plain Python"),
])
def test_a_wrong_import_is_found(source: str, complaint: str) -> None:
    (found,) = violations("diffuse.fusion", ast.parse(source))
    assert complaint in found


def test_kernels_and_runtime_do_not_meet() -> None:
    (found,) = violations("diffuse.kernels.jit", ast.parse("from diffuse.runtime import base"))
    assert "never meet" in found


def test_what_only_a_type_checker_sees_is_no_import() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from diffuse.engine import Storage"
    assert not list(violations("diffuse.fusion", ast.parse(source)))


@pytest.mark.parametrize("name, target", LINKS.items())
def test_links_are_links(name: str, target: str) -> None:
    link = ROOT / "diffuse" / name
    assert link.is_symlink(), f"diffuse/{name} is to be a link: ln -s {target} diffuse/{name}"
    assert str(link.readlink()) == target
    assert (link / "__init__.py").is_file()


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_does(name: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[name].read_text())), f"{name} wants a docstring"


def test_the_readme_lists_the_settings() -> None:
    from diffuse import settings

    table = settings.table()
    assert table in (ROOT / "README.md").read_text(), f"put this table into README.md:\n{table}"
