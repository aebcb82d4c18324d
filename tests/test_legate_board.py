"""The memory in which ranks of a machine say what they have begun, made by threads in place of ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int64
from pathlib import Path
from threading import Barrier

import pytest

from diffuse.runtime.legate import board as boards
from diffuse.runtime.legate.board import LINE, Board, board


def made(folder: Path, hosts: Sequence[str], crowded: bool = True) -> list[Board | None]:
    """What each rank gets, on hosts of these names."""
    words, barrier = [0] * len(hosts), Barrier(len(hosts), timeout=120)

    def gather(rank: int) -> Callable[[int], list[int]]:
        def all_of(word: int) -> list[int]:
            words[rank] = word
            barrier.wait()
            found = list(words)
            barrier.wait()
            return found
        return all_of

    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(lambda rank: board(rank, gather(rank), crowded, folder, hosts[rank]),
                             range(len(hosts))))


def test_ranks_of_a_machine_see_what_others_have_begun(tmp_path: Path) -> None:
    found = made(tmp_path, ["a", "b", "a", "a"])
    ours = [each for each in found if each is not None]
    assert found[1] is None and [(each.place, each.ranks) for each in ours] == [(0, 3), (1, 3), (2, 3)]
    for each in ours:
        c_int64.from_address(each.address + each.place * LINE).value = 7 + each.place
    for each in ours:
        assert [c_int64.from_address(each.address + k * LINE).value for k in range(3)] == [7, 8, 9]
    assert not list(tmp_path.iterdir())


def test_ranks_with_processors_to_spare_have_none(tmp_path: Path) -> None:
    assert made(tmp_path, ["a", "a"], crowded=False) == [None, None] and not list(tmp_path.iterdir())


def test_none_has_one_if_a_rank_cannot_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = boards._mapped

    def refused(path: Path, nbytes: int, new: bool) -> object:
        if not new:
            raise OSError("no such file")
        return mapped(path, nbytes, new)

    monkeypatch.setattr(boards, "_mapped", refused)
    assert made(tmp_path, ["a", "a"]) == [None, None] and not list(tmp_path.iterdir())


def test_a_file_that_exists_already_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "diffuse-5").touch()
    with pytest.raises(FileExistsError):
        boards._mapped(tmp_path / "diffuse-5", 64, True)


def test_a_file_of_somebody_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    other = tmp_path / "diffuse-0"
    other.write_text("not ours")
    assert made(tmp_path, ["a", "a"]) == [None, None] and other.read_text() == "not ours"


def test_a_killed_job_of_the_same_process_number_left_its_file(tmp_path: Path) -> None:
    (tmp_path / f"diffuse-{os.getpid()}").touch()
    assert None not in made(tmp_path, ["a", "a"])
