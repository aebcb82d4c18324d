"""Copies through pinned memory, over a driver that does them as late as it may (libcuda.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from diffuse.memory import address
from diffuse.runtime.device import staging
from diffuse.runtime.device.driver import Driver
from tests.test_cuda import library as library
from tests.test_cuda import needs_compiler

pytestmark = needs_compiler

MEBIBYTE = 1 << 20


class Copies(NamedTuple):
    """What the driver copied."""

    all: int
    ended: int
    pageable: int
    waits: int


@pytest.fixture
def driver(library: Path) -> Iterator[Any]:
    found: Any = Driver(str(library))
    yield found
    found._library.limit(ctypes.c_size_t(1 << 30))


def since(driver: Any) -> Callable[[], Copies]:
    """A function that tells what was copied since now."""
    def now() -> list[int]:
        found = [ctypes.c_long() for _ in Copies._fields]
        driver._library.copied(*[ctypes.byref(x) for x in found])
        return [x.value for x in found]

    before = now()
    return lambda: Copies(*[x - y for x, y in zip(now(), before, strict=True)])


def there(driver: Any, place: int, count: int) -> Any:
    """What the device's memory holds, when all has ended."""
    driver.wait()
    return np.frombuffer(ctypes.string_at(place, count), np.uint8)


@pytest.mark.parametrize("nbytes", [1, 63, 4096, 5 * MEBIBYTE + 3, 40 * MEBIBYTE + 17])
def test_what_is_written_may_change_before_the_copy_has_ended(driver: Any, nbytes: int) -> None:
    place, copies = driver.allocate(nbytes), since(driver)
    given = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
    mine = given.copy()
    driver.upload(place, address(mine), nbytes)
    mine[:] = 0
    assert copies().all > copies().ended and not copies().pageable
    assert np.array_equal(there(driver, place, nbytes), given)
    back = np.empty(nbytes, np.uint8)
    driver.download(address(back), place, nbytes)
    assert np.array_equal(back, given)
    driver.free(place)


def test_many_copies_wait_for_the_ring_alone(driver: Any) -> None:
    count, nbytes = 200, 300_000
    places = [driver.allocate(nbytes) for _ in range(count)]
    mine, copies = np.empty(nbytes, np.uint8), since(driver)
    for k, place in enumerate(places):
        mine[:] = k
        driver.upload(place, address(mine), nbytes)
    assert copies().all == count and 0 < copies().waits < count and not copies().pageable
    for k, place in enumerate(places):
        assert (there(driver, place, nbytes) == k).all()
        driver.free(place)


def test_small_copies_do_not_wait(driver: Any) -> None:
    place, copies = driver.allocate(8000), since(driver)
    for k in range(1000):
        driver.upload(place + 8 * k, address(np.array([k])), 8)
    assert copies().waits == copies().ended == 0
    assert there(driver, place, 8000).view(np.int64).tolist() == [*range(1000)]
    driver.free(place)


def test_downloads_and_uploads_share_the_ring(driver: Any) -> None:
    nbytes = 9 * MEBIBYTE
    places = [driver.allocate(nbytes) for _ in range(2)]
    rng = np.random.default_rng(1)
    kept: list[Any] = [None, None]
    for k in range(20):
        which, n = k % 2, int(rng.integers(1, nbytes))
        kept[which] = rng.integers(0, 256, n, np.uint8)
        mine = kept[which].copy()
        driver.upload(places[which], address(mine), n)
        mine[:] = 0
        other = kept[1 - which]
        if other is not None:
            back = np.empty(other.size, np.uint8)
            driver.download(address(back), places[1 - which], other.size)
            assert np.array_equal(back, other)
    for place in places:
        driver.free(place)


def test_an_interrupted_copy_leaves_its_piece_of_the_ring_alone(driver: Any) -> None:
    nbytes = 3 * MEBIBYTE
    places = [driver.allocate(nbytes) for _ in range(8)]
    mine = np.full(nbytes, 1, np.uint8)
    real, driver.record = driver.record, interrupted
    with pytest.raises(KeyboardInterrupt):
        driver.upload(places[0], address(mine), nbytes)
    driver.record = real
    for k, place in enumerate(places[1:], 2):
        mine[:] = k
        driver.upload(place, address(mine), nbytes)
    for k, place in enumerate(places, 1):
        assert set(there(driver, place, nbytes)) == {k}
        driver.free(place)


def interrupted(event: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("limit, pageable", [(2 * MEBIBYTE, False), (MEBIBYTE // 2, True)])
def test_without_pinned_memory_copies_are_pageable(driver: Any, limit: int, pageable: bool) -> None:
    driver._library.limit(ctypes.c_size_t(limit))
    nbytes = 3 * MEBIBYTE
    place, copies = driver.allocate(nbytes), since(driver)
    mine = np.full(nbytes, 7, np.uint8)
    driver.upload(place, address(mine), nbytes)
    mine[:] = 0
    assert set(there(driver, place, nbytes)) == {7}
    driver.download(address(mine), place, nbytes)
    assert set(mine) == {7} and (copies().pageable == 2) is pageable
    driver.free(place)


def test_the_ring_is_made_for_the_first_copy(driver: Any) -> None:
    ring = driver._staging
    assert ring._base is None
    place = driver.allocate(8)
    driver.upload(place, address(np.zeros(1)), 8)
    assert ring._base and ring._size == staging.SIZES[0]
    driver.free(place)
