"""A body's kernels are linked in parts, several at once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse.runtime import machine
from diffuse.runtime.device import linking
from diffuse.stream import engine
from tests.interpreted_gpu import Interpreted
from tests.jobs import python

HEAD = b"//\n// Generated\n.version 8.1\n.target sm_90\n\n"


def kernel(name: str, size: int) -> bytes:
    return (f"\t// .globl\t{name}\n\n.visible .entry {name}(\n)\n{{\n".encode() + b"// \n" * size + b"}\n")


def test_each_kernel_is_in_one_part_with_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "processors", lambda *_: 8)
    kernels = {f"loop{k}": kernel(f"loop{k}", 500 * (1 + k % 4)) for k in range(12)}
    text = HEAD + b"".join(kernels.values())
    parts = linking.parts(text)
    assert len(parts) == len(text) // linking.PART and all(part.startswith(HEAD) for part in parts)
    assert sorted(name for part in parts for name in linking.names(part)) == sorted(kernels)
    for part in parts:
        assert part == HEAD + b"".join([kernels[name] for name in linking.names(part)])


def test_small_modules_and_those_with_functions_are_linked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "processors", lambda *_: 8)
    small = HEAD + kernel("loop0", 5) + kernel("loop1", 5)
    called = HEAD + b"\n.func f()\n{\n}\n" + kernel("loop0", 9000) + kernel("loop1", 9000)
    assert linking.parts(small) == [small] and linking.parts(called) == [called]


def test_parts_are_linked_by_threads() -> None:
    meeting = threading.Barrier(3, timeout=30)

    def link(text: bytes) -> bytes:
        meeting.wait()
        return text * 2

    assert linking.linked([b"a", b"b", b"c"], link) == [b"aa", b"bb", b"cc"]


def test_a_program_whose_kernels_are_linked_in_parts(gpu: Interpreted, monkeypatch: pytest.MonkeyPatch
                                                     ) -> None:
    monkeypatch.setattr(linking, "PART", 100)
    monkeypatch.setattr(machine, "processors", lambda *_: 4)
    linked: list[Any] = []
    functions = gpu.functions

    def noted(image: bytes, names: tuple[str, ...]) -> dict[str, int]:
        linked.append(names)
        return functions(image, names)

    monkeypatch.setattr(gpu, "functions", noted)
    x = dnp.arange(3000.0).reshape(60, 50)
    y = x[1:] * 2.0 - x[:-1]
    z = y.sum(axis=0) + y[3] * x.sum()
    engine.flush()
    given = np.arange(3000.0).reshape(60, 50)
    wanted = given[1:] * 2.0 - given[:-1]
    assert np.allclose(np.asarray(z), wanted.sum(axis=0) + wanted[3] * given.sum())
    assert len(linked) > 1


def test_kernels_are_linked_in_exit_handlers() -> None:
    """Where Python starts no threads any more."""
    code = """
        import atexit
        import diffuse.numpy
        def late():
            from diffuse.runtime.device import linking
            print(linking.linked([b"a", b"b"], bytes.upper))
        atexit.register(late)
        """
    done = python(code)
    assert done.stdout.strip() == "[b'A', b'B']", done.stderr
