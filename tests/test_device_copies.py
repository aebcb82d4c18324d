"""What a runtime with memory of its own copies between there and the host: no more than is read."""

from __future__ import annotations

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse.stream import engine
from tests.interpreted_gpu import Interpreted

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")

N = 100_000


def test_an_element_is_copied_alone(gpu: Interpreted) -> None:
    x = dnp.arange(float(N)) + 1
    assert x[7] == 8.0 and x[-1] == N and float(x[3]) == 4.0
    assert gpu.downloads == [8, 8, 8] and not gpu.launched[1:]
    x[7] = -1.0
    assert x[7] == -1.0 and x[8] == 9.0


def test_short_slices_are_copied_alone(gpu: Interpreted) -> None:
    x = dnp.arange(float(N)) + 1
    assert x[10:20].tolist() == [*range(11, 21)]
    assert x[30:20:-2].tolist() == [31, 29, 27, 25, 23]
    assert bool(x[4:5]) and "array([2., 3.])" in repr(x[1:3])
    assert gpu.downloads == [80, 72, 8, 16]


def test_parts_of_a_matrix(gpu: Interpreted) -> None:
    x = (dnp.arange(float(N)) + 1).reshape(250, 400)
    assert x[3, 10:12].tolist() == [1211, 1212]
    assert x[3:5, 10:12].tolist() == [[1211, 1212], [1611, 1612]]
    assert x[200, 1] == 80002
    assert gpu.downloads == [16, 402 * 8, 8]


def test_a_column_is_gathered_before_it_is_copied(gpu: Interpreted) -> None:
    x = (dnp.arange(float(N)) + 1).reshape(250, 400)
    assert x[:, 3].tolist() == [4.0 + 400 * k for k in range(250)]
    assert gpu.downloads == [250 * 8]


def test_many_parts_are_one_copy_of_the_whole(gpu: Interpreted) -> None:
    x = dnp.arange(float(N)) + 1
    assert [float(x[k]) for k in range(100)] == [*range(1, 101)]
    assert gpu.downloads == [8] * 12 + [8 * N]
    x += 1.0
    assert x[5] == 7.0
    assert gpu.downloads[13:] == [8]


def test_what_is_at_hand_is_not_copied(gpu: Interpreted) -> None:
    x = dnp.arange(float(N)) + 1
    assert x.sum() == N * (N + 1) / 2
    assert float(np.asarray(x.copy())[5]) == 6.0
    whole = x.tolist()
    before = len(gpu.downloads)
    assert x[7] == whole[7] and x[3:5].tolist() == whole[3:5]
    assert len(gpu.downloads) == before


def test_a_part_that_numpy_holds_is_the_arrays_own(gpu: Interpreted) -> None:
    x = dnp.arange(float(N)) + 1
    held = np.asarray(x[5:8])
    held[0] = -1.0
    assert x[5] == -1.0 and float((x + 1)[5]) == 0.0
    dnp.sort(x)
    y = x[20:30]
    y.sort()
    np.put(y, [0], -2.0)
    assert x[20] == -2.0


def test_copies_are_not_to_be_written(gpu: Interpreted) -> None:
    from diffuse.numpy.arrays.access import host

    x = dnp.arange(float(N)) + 1
    assert not host(x[3:5]).flags.writeable


def test_parts_of_what_was_not_computed_raise_why(gpu: Interpreted) -> None:
    x = dnp.arange(float(N)) + 1
    engine.flush()
    room = gpu.memory()[0]
    gpu.used[-1] = room  # nothing is left
    y = x * 2
    try:
        with pytest.raises(MemoryError):
            engine.flush()
    finally:
        del gpu.used[-1]
    with pytest.raises(MemoryError):
        y[3]
    assert x[3] == 4.0


def test_known_numbers_stay_known_while_tasks_read_them(gpu: Interpreted) -> None:
    total = (dnp.arange(float(N)) + 1).sum()
    assert float(total) == N * (N + 1) / 2
    kept = dnp.broadcast_to(dnp.asarray(total), (5,)) * dnp.arange(5.0)
    before = len(gpu.downloads)
    assert engine.look(total.storage) is not None
    assert float(total) == N * (N + 1) / 2 and len(gpu.downloads) == before
    assert kept[1] == N * (N + 1) / 2


def test_memory_of_numpys_is_watched_no_longer_than_it_is_held(gpu: Interpreted) -> None:
    given = np.arange(float(N))
    x = dnp.asarray(given)
    x += 1.0
    assert given[0] == 1.0  # at once
    copies = len(gpu.uploads), len(gpu.downloads)
    del given
    x += 1.0
    x *= 2.0
    assert not x.storage.exported
    engine.flush()
    x -= 1.0
    engine.flush()
    assert len(gpu.uploads) <= copies[0] + 1 and len(gpu.downloads) == copies[1]
    assert x[4] == 11.0


def test_lent_memory_is_watched_no_longer_than_it_is_held(gpu: Interpreted) -> None:
    x = dnp.arange(float(N)) + 1
    held = np.asarray(x)
    x += 1.0
    assert held[3] == 5.0
    del held
    x += 1.0
    before = len(gpu.downloads)
    x += 1.0
    engine.flush()
    assert len(gpu.downloads) == before and x[3] == 7.0
