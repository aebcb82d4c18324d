"""Legate's GPUs over a driver without a device (libcuda.c), and when Legate's tasks would run on them."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diffuse.kernels.build.compiler import Kernel
from diffuse.runtime.legate import copying, libraries, message, prepare
from diffuse.runtime.legate.gpus import Gpus, find
from tests.grid_devices import ALLOCATOR, STREAM, Given, driver
from tests.test_cuda import library, needs_compiler
from tests.test_grid import reduction

__all__ = ["library"]


@needs_compiler
def test_what_legate_is_told_of_gpus(library: Path) -> None:
    gpus = Gpus(4, str(library))
    assert (gpus.number, gpus.target, gpus.memory) == (4, "sm_90 tiles", 4 * (64 << 20))
    assert len(set(gpus.copying)) == len(copying.NAMES) and all(gpus.copying)
    kernel = Kernel(reduction("s0"), gpus.target)
    kernel.advance(None)
    found: Any = kernel.native
    assert sorted(gpus.functions(found)) == ["chunks0", "loop0", "results0", "together", "trees0"]
    assert gpus.functions(found) is gpus.functions(found)
    with pytest.raises(RuntimeError, match="NVIDIA's driver: cuLibraryLoadData returned the error 218"):
        gpus._kernels(b"nonsense", ())


@needs_compiler
def test_the_driver_gets_the_block_with_the_argument_behind_it(library: Path) -> None:
    """The second of two points: element 3 of an input of which it has those from 2 on; an empty output."""
    gpus = Gpus(1, str(library))
    tail = message.words([message.INPUT, 0, 1, 8, 0, 40, message.OUTPUT, 0, 1, 8, 0, 0,
                          1, 1, 0, 1, 3, 1, 3, 1, 1, 1, 0, 1])
    said = message.Message(message.RUN, 2, 1, 0, 2, 2, 0, tail)
    function = gpus.copying[0]
    words = said.launching(gpus.copying, 1, [(function, 17, 5)], [(function, 1, 6)])
    data = words.pack(gpus.launcher, words.listed, False, (), message.words([2, 0, 0, 0, 0, 99]))
    given = (Given * 2)(Given(message.INPUT, 0, 0, 1000, (2,), (40,), (8,)),
                        Given(message.OUTPUT, 0, 1, 0, (), (), ()))
    none = ALLOCATOR(lambda nbytes: 0)
    gpus._driver.cuCtxSetCurrent(ctypes.c_void_p(1))  # as Legate does
    assert not driver().drive(data, len(data), STREAM, none, ctypes.addressof(given), 2, 1, 2)
    room, groups, count = ctypes.create_string_buffer(1 << 16), ctypes.c_uint(), ctypes.c_long()
    size = gpus._driver.noted(room, ctypes.byref(groups), ctypes.byref(count))
    assert size == 7 * 8 and (groups.value, count.value) == (1, 2)
    assert room.raw[:size] == message.words([1, 1008, 8, 0, 0, 99, 6])


def test_a_machine_without_gpus_has_none() -> None:
    class Core:
        class TaskTarget:
            GPU = 1

        def get_machine(self) -> Any:
            return self

        def count(self, target: int) -> int:
            return 0

    assert find(Core()) is None


@needs_compiler
@pytest.mark.parametrize("said, words", [
    ("", "not used: LEGATE_CONFIG does not ask for them (--gpus 1)"),
    ("--cpus 2", "used: all that Legate finds, each a processor of Legate's"),
    ("--gpus 2", "used: 2, each a processor of Legate's"),
    ("--cpus 1 --gpus 0", "not used: LEGATE_CONFIG does not ask for them (--gpus 1)"),
])
def test_gpus_are_used_where_legate_has_them(said: str, words: str, library: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "DRIVER", str(library))
    monkeypatch.setenv("LEGATE_CONFIG", said)
    assert prepare.gpus(replace(prepare.find(), driver="there")) == words


def test_without_a_driver_no_gpu_is_used() -> None:
    found = prepare.Installed(None, Path(), None, None, None, None, None, None)
    assert prepare.gpus(found) == "not used: there is no NVIDIA driver"


def test_with_a_gpu_tasks_do_not_run_inline() -> None:
    assert prepare.one_processor(["--cpus", "1", "--gpus", "0"])
    assert not prepare.one_processor(["--cpus", "1"])
    assert not prepare.one_processor(["--cpus", "1", "--gpus", "1"])
    assert not prepare.one_processor(["--cpus", "2", "--gpus", "0"])
