"""The drawing in the README is the running path: one `np.add` is followed along it, function by function."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATION = re.compile(r"^ [│▼]  (\w+) +((?:diffuse|kernels|runtime)/\S+\.py)", re.MULTILINE)

FOLLOWED = """
import sys
from pathlib import Path

seen = {}
def profile(frame, event, argument):
    if event == "call":
        code = frame.f_code
        seen.setdefault((code.co_filename, code.co_name), len(seen))

import diffuse
from diffuse.service import client
client.BOOT = client.BOOT.replace("import sys", COMPILING)
import diffuse.numpy as np

x, y = np.arange(2_000_000.0), np.ones(2_000_000)
diffuse.fence()
sys.setprofile(profile)
z = np.add(x, y)
diffuse.fence()
sys.setprofile(None)
for (path, name), _ in sorted(seen.items(), key=lambda item: item[1]):
    if Path(path).is_file():
        print(Path(path).resolve(), name)
        if name == "compile" and Path(path).name == "jit.py":
            print(Path(sys.argv[1]).read_text(), end="")
"""

COMPILING = """
    import sys, threading
    from pathlib import Path
    seen = set()
    def profile(frame, event, argument):
        if event == "call" and frame.f_code not in seen:
            seen.add(frame.f_code)
            if Path(frame.f_code.co_filename).is_file():
                with open({notes!r}, "a") as notes:
                    print(Path(frame.f_code.co_filename).resolve(), frame.f_code.co_name, file=notes)
    sys.setprofile(profile)
    threading.setprofile(profile)
"""


def stations() -> list[tuple[str, str]]:
    """The functions of the drawing with their files, in its order."""
    return [(file, name) for name, file in STATION.findall((ROOT / "README.md").read_text())]


def test_every_station_is_a_function_of_its_file() -> None:
    found = stations()
    assert len(found) >= 10
    for file, name in found:
        assert re.search(rf"^\s*def {name}\(", (ROOT / file).read_text(), re.MULTILINE), (file, name)


def test_an_addition_passes_the_stations_in_their_order(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "DIFFUSE_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT),
                   "DIFFUSE_COMPILE": "wait", "DIFFUSE_NUM_THREADS": "2"}
    notes = str(tmp_path / "notes")
    program = f"COMPILING = {COMPILING.format(notes=notes).strip()!r}\n{FOLLOWED}"
    done = subprocess.run([sys.executable, "-c", program, notes], capture_output=True, text=True, timeout=300,
                          cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    called = [tuple(line.rsplit(" ", 1)) for line in done.stdout.splitlines()]
    places = [called.index((str(ROOT / file), name)) for file, name in stations()]
    assert places == sorted(places), (stations(), places)
