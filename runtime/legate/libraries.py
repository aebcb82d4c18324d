"""Builds the native libraries that Diffuse needs for Legate, each once, in the cache folder.

* `driver`: a stand-in for NVIDIA's libcuda.so.1, where there is none.  Its soname makes the dynamic linker
  take it for the driver.
* `yielding`: lets the thread that polls for other ranks' messages yield its processor.
* `trampoline`: the one task that Legate runs for Diffuse.

One C++ compiler builds all of them; no compiler is needed where they exist already.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from diffuse.settings import config

SOURCES = Path(__file__).parent / "native"
DRIVER = "libcuda.so.1"
C = ("-x", "c", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-Wl,--as-needed")
CXX = ("-std=c++17", "-O2", "-fPIC", "-shared")
COMPILERS = ("g++", "clang++", "c++")
SECONDS = 300


@dataclass(frozen=True)
class Library:
    """A source file and how it is compiled."""

    source: Path
    flags: tuple[str, ...]
    """Compiler flags before the source."""
    links: tuple[str, ...] = ()
    """Linker flags after the source."""
    release: str = ""
    """Anything else that the result depends on."""

    @property
    def path(self) -> Path:
        """The library's path, whether it exists or not; its name is a digest of all that it depends on."""
        words = "\n".join((self.release, *self.flags, *self.links)).encode()
        digest = sha256(words + self.source.read_bytes()).hexdigest()[:16]
        return Path(config.cache_dir, "legate", f"{self.source.stem}-{digest}.so")

    def build(self) -> Path:
        """Compile the library unless it exists.  All ranks of a first run come here at once: one of them
        compiles, and the others wait for the result, which appears atomically."""
        path = self.path
        if not path.exists():
            command = compiler()
            if command is None:
                raise RuntimeError(no_compiler())
            with _alone(_folder_of(path)):
                if not path.exists():
                    run([*shlex.split(command), *self.flags, str(self.source), *self.links], path)
        return path


def _folder_of(path: Path) -> Path:
    """The folder of a library, which is made."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(path.parent, error) from None
    return path.parent


def _not_writable(folder: Path, error: OSError) -> RuntimeError:
    return RuntimeError(f"cannot write {folder}: {error.strerror}; name another folder in DIFFUSE_CACHE_DIR")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold other processes back that want to compile into this folder, where the file system has locks."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def run(command: list[str], path: Path) -> None:
    """Run a compiler that writes `path`."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=".", dir=_folder_of(path))
    except OSError as error:
        raise _not_writable(path.parent, error) from None
    with folder:
        made = Path(folder.name, path.name)
        done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True, timeout=SECONDS,
                              check=False)
        if done.returncode:
            said = "\n".join(done.stderr.splitlines()[:20])
            raise RuntimeError(f"{shlex.join(command)} failed with status {done.returncode}:\n{said}\n"
                               "Name a C++17 compiler that works in CXX.")
        os.replace(made, path)


def compiler() -> str | None:
    """The command of the C++ compiler: CXX, or the first usual name that exists; None if there is none."""
    if "CXX" in os.environ:
        said = shlex.split(os.environ["CXX"])
        return shlex.join(said) if said and shutil.which(said[0]) else None
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)


def no_compiler() -> str:
    """The error message for a missing compiler."""
    said = f"CXX={os.environ['CXX']!r} names none" if "CXX" in os.environ else "found none"
    return ("the runtime 'legate' needs a C++ compiler once, to build its task and what replaces missing "
            f"drivers, and {said}: install g++ or clang (apt install g++, dnf install gcc-c++, conda install "
            "gxx), or name one in CXX")


driver = Library(SOURCES / "libcuda.c", (*C, f"-Wl,-soname,{DRIVER}"))
yielding = Library(SOURCES / "progress.c", C)


def trampoline(site: Path, release: str, name: str = "trampoline") -> Library:
    """The library of a task, compiled against the headers of the Legate wheel in the folder `site`."""
    include, libraries, shadow = site / "include" / "legate", site / "lib64", SOURCES / "without_cuda"
    folders = (shadow, include, include / "deps", include / "deps" / "realm", site / "include" / "rapids")
    headers = [shadow / "legate_defines.h", *sorted(SOURCES.glob("*.h"))]
    content = "\n".join([release, *[header.read_text(encoding="ascii") for header in headers]])
    return Library(SOURCES / f"{name}.cc", (*CXX, *(f"-I{folder}" for folder in folders)),
                   (str(libraries / "liblegate.so"), f"-Wl,-rpath,{libraries}"), content)
