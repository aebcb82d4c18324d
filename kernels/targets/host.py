"""What the emitter asks of the machine it writes for.

`Target` is the question, `Host` the answer for the processor this process runs on.  A target is a value:
its `repr` is part of the key that compiled code is kept under.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

from diffuse.kernels.build import llvm_c
from diffuse.kernels.llvm.code import Code
from diffuse.kernels.targets import vectormath


class Target(Protocol):
    @property
    def lanes(self) -> int:
        """Elements that a loop without scans computes at once."""

    @property
    def masks_bytes(self) -> bool:
        """Does it load and store vectors of bytes under a mask?"""

    @property
    def quiet(self) -> bool:
        """Has it orderings of vectors of floats that are false for NaN and raise no flag?"""

    @property
    def sse(self) -> bool:
        """Does SSE's control and status register keep the flags of its arithmetic?"""

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        """Write a call of a transcendental function of float32 or float64 values."""


@dataclass(frozen=True)
class Host:
    """The processor of this process: LLVM's names for it, and its vector math library."""

    triple: str
    cpu: str
    features: str
    sets: tuple[str, ...]
    """Instruction sets of libmvec that it can run: "e" AVX-512, "d" AVX2."""
    symbols: frozenset[str]
    """What libmvec has."""
    halves: bool
    """Does it convert to and from float16?"""
    lanes: int = 8
    quiet: bool = True
    """Such as AVX's `vcmplt_oq`; SSE's `cmplt` takes any NaN for an invalid operand."""

    def __repr__(self) -> str:
        described = (self.triple, self.cpu, self.features, self.sets, sorted(self.symbols), self.lanes,
                     self.quiet)
        return f"Host{described}"

    @property
    def sse(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def masks_bytes(self) -> bool:
        return "+avx512bw" in self.features.split(",")

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        return vectormath.call(code, self.sets, self.symbols, name, dtype, values)


@cache
def host() -> Host:
    """Look at this machine, once."""
    triple, cpu, features = _asked()
    sets = [name for name, needs in (("e", ("avx512f", "avx512dq", "avx512vl")), ("d", ("avx2", "fma")))
            if all(features.get(f) for f in needs)]
    x86 = triple.startswith("x86_64")
    symbols = vectormath.probe(tuple(sets)) if x86 else frozenset()
    named = ",".join([f"{'+' if has else '-'}{name}" for name, has in sorted(features.items())])
    return Host(triple, cpu, named, tuple(sets), symbols, not x86 or bool(features.get("f16c")),
                quiet=x86 and bool(features.get("avx")))


def _asked() -> tuple[str, str, dict[str, bool]]:
    """LLVM's names for this machine, its processor, and the features of that."""
    llvm = llvm_c.library()
    if llvm is not None:
        return (llvm.string("GetProcessTriple").decode(), llvm.string("GetHostCPUName").decode(),
                llvm_c.features(llvm))
    import llvmlite.binding

    return (llvmlite.binding.get_process_triple(), llvmlite.binding.get_host_cpu_name(),
            llvmlite.binding.get_host_cpu_features())
