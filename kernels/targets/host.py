"""The processor that this process runs on, as a target of the emitter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from diffuse.kernels.build import llvm_c
from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.math import table


@dataclass(frozen=True)
class Host:
    """The processor of this process, by LLVM's names."""

    triple: str
    cpu: str
    features: str
    halves: bool
    """Does it convert to and from float16?"""
    lanes: int = 8
    tiles: bool = False
    flags: bool = True
    library: bool = True
    seeds: bool = False
    fma: bool = True
    quiet: bool = True
    """Does it have AVX, whose `vcmplt_oq` raises no flag for a NaN?  SSE's `cmplt` treats any as an invalid
    operand."""

    def __repr__(self) -> str:
        described = self.triple, self.cpu, self.features, self.lanes, self.quiet
        return f"Host{described}"

    def _has(self, feature: str) -> bool:
        return f"+{feature}" in self.features.split(",")

    @property
    def sse(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def masks_bytes(self) -> bool:
        return self._has("avx512bw")

    @property
    def counts(self) -> bool:
        """Does one instruction convert an int64 to a float64?"""
        return self._has("avx512dq")

    @property
    def packs(self) -> bool:
        """Does one instruction move chosen lanes of 32 or 64 bits to the front of a vector of 512 bits?"""
        return self._has("avx512f")

    @property
    def permutes(self) -> bool:
        return self._has("avx512f")

    @property
    def passes(self) -> bool:
        """Prefetches bypass the caches on AMD's Zen: on Zen 5, 5e6 writes at random places then take two
        thirds of the time.  On a Xeon, which fetches such lines again if they are not used at once, they take
        twice as long."""
        return self.cpu.startswith("znver")

    @property
    def ahead(self) -> bool:
        """Loops fetch ahead except on Zen, where it was not measured; on a Xeon it saves 2 to 30 % of the
        time of large loops."""
        return not self.cpu.startswith("znver")

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        return table.call(code, name, dtype, values)


@cache
def host() -> Host:
    """The target of this machine, determined once."""
    triple, cpu, features = _asked()
    x86 = triple.startswith("x86_64")
    named = ",".join([f"{'+' if has else '-'}{name}" for name, has in sorted(features.items())])
    return Host(triple, cpu, named, not x86 or bool(features.get("f16c")),
                quiet=x86 and bool(features.get("avx")), fma=not x86 or bool(features.get("fma")))


def _asked() -> tuple[str, str, dict[str, bool]]:
    """LLVM's names for this machine and its processor, and the processor's features."""
    llvm = llvm_c.library()
    if llvm is not None:
        return (llvm.string("GetProcessTriple").decode(), llvm.string("GetHostCPUName").decode(),
                llvm_c.features(llvm))
    import llvmlite.binding

    return (llvmlite.binding.get_process_triple(), llvmlite.binding.get_host_cpu_name(),
            llvmlite.binding.get_host_cpu_features())
