"""The disk cache: whatever happens to its files, an answer is right or there is none."""

from __future__ import annotations

import inspect
import os
import random
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diffuse.service.cache import Cache

CONTENT = bytes(range(256)) * 20


def test_what_was_put_is_got(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "a" / "b")
    assert cache.get("k") is None
    assert cache.put("k", CONTENT)
    assert Cache(tmp_path / "a" / "b").get("k") == CONTENT
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert cache.entries() == (1, len(CONTENT) + 32)
    assert [p.name for p in cache.folder.iterdir()] == ["k.kernel"]


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 100, len(CONTENT) + 31])
def test_a_truncated_entry_is_gone(tmp_path: Path, length: int) -> None:
    cache = Cache(tmp_path)
    cache.put("k", CONTENT)
    os.truncate(cache.path("k"), length)
    assert cache.get("k") is None
    assert not cache.path("k").exists()
    assert cache.put("k", CONTENT) and cache.get("k") == CONTENT


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    cache, draw = Cache(tmp_path), random.Random(1)
    for _ in range(200):
        cache.put("k", CONTENT)
        entry = bytearray(cache.path("k").read_bytes())
        entry[draw.randrange(len(entry))] ^= 1 << draw.randrange(8)
        cache.path("k").write_bytes(entry)
        assert cache.get("k") is None


def test_a_folder_that_cannot_be_used_is_an_empty_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "folder")
    assert not cache.put("k", CONTENT)
    assert cache.get("k") is None
    assert cache.entries() == (0, 0) and cache.clear() == 0


def test_a_failing_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr(os, "replace", full)
    assert not cache.put("k", CONTENT)
    assert list(tmp_path.iterdir()) == []
    assert cache.trouble == "No space left on device"


def test_a_killed_process_of_the_same_number_left_its_temporary_file(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f".k-{os.getpid()}-{number}.partial").touch()
    anew: Any = runpy.run_path(str(inspect.getsourcefile(Cache)))["Cache"]
    assert all(anew(tmp_path).put("k", CONTENT) for _ in range(3)) and Cache(tmp_path).get("k") == CONTENT


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=10 * 1032)
    for k in range(10):
        cache.put(f"k{k}", bytes(1000))
        os.utime(cache.path(f"k{k}"), (1000 + k, 1000 + k))
    assert cache.entries()[0] == 10
    assert cache.get("k0") is not None  # a use an age after the last one is noted
    cache.put("k10", bytes(1000))
    kept = {p.name.removesuffix(".kernel") for p in tmp_path.iterdir()}
    assert {"k0", "k10", "k9"} <= kept and "k1" not in kept
    assert cache.entries()[1] <= 10 * 1032


def test_an_entry_beyond_the_limit_is_not_kept(tmp_path: Path) -> None:
    assert not Cache(tmp_path, limit=100).put("k", CONTENT)
    assert Cache(tmp_path, limit=None).put("k", CONTENT)


def test_clear_removes_entries_and_nothing_else(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (tmp_path / "other").write_text("")
    cache.put("a", CONTENT)
    cache.put("b", CONTENT)
    assert cache.clear() == 2
    assert [p.name for p in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_to_is_none(tmp_path: Path, mode: int) -> None:
    cache = Cache(tmp_path)
    cache.put("k", CONTENT)
    assert cache.path("k").stat().st_mode & 0o777 == 0o600
    cache.path("k").chmod(mode)
    assert cache.get("k") is None and cache.path("k").exists()
    assert cache.put("k", CONTENT) and cache.get("k") == CONTENT


@pytest.mark.parametrize("owner, trusted", [(os.geteuid(), True), (0, True), (65534, False)])
def test_an_entry_of_another_user_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int,
                                          trusted: bool) -> None:
    def owned(handle: int) -> os.stat_result:
        found = real(handle)
        return os.stat_result((*found[:4], owner, *found[5:]))

    cache, real = Cache(tmp_path), os.fstat
    cache.put("k", CONTENT)
    monkeypatch.setattr(os, "fstat", owned)
    assert (cache.get("k") == CONTENT) is trusted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_nothing_is_written_to_a_folder_of_another_user(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    cache = Cache(tmp_path)
    assert not cache.put("k", CONTENT) and cache.trouble == "it belongs to another user"
    assert list(tmp_path.iterdir()) == []


def test_an_entry_under_another_key_is_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("k", CONTENT)
    os.rename(cache.path("k"), cache.path("other"))
    assert cache.get("other") is None


def test_what_is_no_file_is_no_entry(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    os.mkfifo(cache.path("pipe"))
    cache.path("folder").mkdir()
    assert cache.get("pipe") is None and cache.get("folder") is None


WRITER = """
import sys
from diffuse.service.cache import Cache
cache, wrong = Cache(sys.argv[1], limit=40_000), 0
for i in range(150):
    key = f"k{i % 7}"
    cache.put(key, key.encode() * 2000)
    for k in range(7):
        found = cache.get(f"k{k}")
        wrong += found is not None and found != f"k{k}".encode() * 2000
print(wrong)
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) for _ in range(3)]
    assert [w.communicate(timeout=300)[0].strip() for w in writers] == [b"0"] * 3
