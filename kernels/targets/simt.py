"""The target of kernels that run thread by thread on the host, as a GPU would run them."""

from __future__ import annotations

from dataclasses import dataclass

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.targets.base import OneLane
from diffuse.kernels.targets.host import Host, host


@dataclass(frozen=True)
class Simt(OneLane):
    """A target with one lane, the host's routines and no floating-point flags."""

    host: Host
    tiles: bool = False

    @property
    def fma(self) -> bool:
        return self.host.fma

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        return self.host.math(code, name, dtype, values)


def simt(tiles: bool = False) -> Simt:
    return Simt(host(), tiles)
