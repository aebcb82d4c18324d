"""From bodies to callable code, through the disk and in several threads."""

from __future__ import annotations

import gc
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from diffuse import settings
from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import codegen, jit
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.llvm import nest
from diffuse.kernels.targets.host import host
from diffuse.service import code
from tests import machine_code


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    compiler.wait()  # what an earlier test left to the background would be kept here
    with settings.using(cache_dir=str(tmp_path)):
        yield tmp_path


def plus(constant: float, dtype: str = "float64") -> Body:
    ops = (Op("load", dtype, (), 0), Op("const", dtype, (), constant), Op("add", dtype, (0, 1)),
           Op("store", dtype, (2,), 1), Op("reduce", dtype, (2,), ("max", 2)))
    arguments = tuple(Argument(k, 0, dtype, 0, c, p) for k, (c, p) in enumerate(
        [("1", Privilege.READ), ("1", Privilege.WRITE), ("0", Privilege.WRITE)]))
    return Body((Space(1, (0,)),), arguments, (), (Loop(0, (0,), ops),))


def works(native: jit.Native, constant: float) -> bool:
    x, y, top, partials = np.arange(11.0), np.empty(11), np.empty(1), np.empty(8)
    at = [a.ctypes.data for a in (x, y, top, partials)]
    machine_code.run(native, plus(constant), (1, 11, 11, at[0], 8, at[1], 8, at[2], 0, at[3]), 1)
    return np.array_equal(y, x + constant) and top[0] == 10 + constant


def test_a_kept_kernel_is_loaded_without_writing_or_compiling_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not jit.cached(plus(1.0))
    jit.compile(plus(1.0))
    assert jit.cached(plus(1.0)) and not jit.cached(plus(2.0))

    def refuse(*_: object) -> str:
        raise AssertionError("compiled again")

    monkeypatch.setattr(nest, "emit", refuse)
    assert works(jit.compile(plus(1.0)), 1.0)


def test_a_damaged_entry_is_compiled_again_and_mended(folder: Path) -> None:
    draw = random.Random(2)
    jit.compile(plus(1.0))
    (entry,) = folder.glob("*.kernel")
    whole = entry.read_bytes()
    for _ in range(10):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        entry.write_bytes(damaged[:draw.randrange(len(whole)) if draw.random() < 0.3 else None])
        assert works(jit.compile(plus(1.0)), 1.0)
        assert entry.read_bytes() == whole


def test_object_code_of_another_body_is_compiled_again() -> None:
    body = plus(1.0)
    code.disk().put(jit.key_of(body), codegen.object_code(Body((Space(0, (-1,)),), (), (), ())))
    assert works(jit.compile(body), 1.0)


@pytest.mark.filterwarnings("ignore:compiled kernels are not kept")
def test_without_a_usable_folder_kernels_compile_all_the_same(folder: Path) -> None:
    (folder / "file").write_text("")
    with settings.using(cache_dir=str(folder / "file" / "x")):
        assert works(jit.compile(plus(3.0)), 3.0)
        assert not jit.cached(plus(3.0))


def test_threads_compile_at_once() -> None:
    natives: dict[int, jit.Native] = {}

    def build(k: int) -> None:
        natives[k] = jit.compile(plus(float(k % 3)))

    threads = [threading.Thread(target=build, args=(k,)) for k in range(9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(natives) == 9 and all(works(native, float(k % 3)) for k, native in natives.items())


def test_a_kernel_lives_as_long_as_it_is_kept() -> None:
    first = jit.compile(plus(1.0))
    for k in range(20):
        assert works(jit.compile(plus(float(k))), float(k))
    gc.collect()
    assert works(first, 1.0)


def test_the_key_holds_the_body_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {jit.key_of(plus(c, d)) for c in (0.0, -0.0, 1.0) for d in ("float32", "float64")}
    assert len(keys) == 6
    assert jit.key_of(plus(1.0)) == jit.key_of(plus(1.0))
    monkeypatch.setattr(jit, "_circumstances", lambda: "another machine")
    assert jit.key_of(plus(1.0)) not in keys


def test_a_changed_source_file_of_the_emitter_counts(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "__pycache__").mkdir()
    file = tmp_path / "ops" / "code.py"
    file.write_text("x = 1")
    (tmp_path / "ops" / "__pycache__" / "code.py").write_text("")
    first = list(jit._sources(str(tmp_path), "llvm"))
    assert [(name, size) for name, size, _ in first] == [("llvm/ops/code.py", 5)]
    os.utime(file, ns=(0, first[0][2] + 1000))
    second = list(jit._sources(str(tmp_path), "llvm"))
    file.write_text("x = 10")
    assert first != second != list(jit._sources(str(tmp_path), "llvm"))


def test_an_operation_without_a_rule_is_refused() -> None:
    ops = Op("const", "float64", (), 1.0), Op("juggle", "float64", (0,))
    body = Body((Space(0, (-1,)),), (), (), (Loop(0, (), ops),))
    with pytest.raises(NotImplementedError, match="juggle"):
        jit.compile(body)


def test_the_target_is_named() -> None:
    assert os.uname().machine in host().triple
