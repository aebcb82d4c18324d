"""The allocator: sizes, reuse along the stream, memory given back, refusals."""

from __future__ import annotations

import ctypes
import os
import random
import threading
from pathlib import Path

import pytest

from diffuse import settings
from diffuse.runtime import heap, machine
from diffuse.runtime.local import allocator as allocator_module
from diffuse.runtime.local import system as system_module
from diffuse.runtime.local.allocator import KEPT, RESERVE, Allocator, MemoryBlock, size_class
from diffuse.runtime.local.keeping import SHARE
from diffuse.runtime.local.system import ALIGNMENT, HUGE, MAPPED, Host
from tests.moments import interrupted
from tests.outcomes import run_all

MIB = 1 << 20
PLENTY = 1 << 50


class Stream:
    """A stream that a test moves by hand."""

    def __init__(self) -> None:
        self.submitted = self.completed = self.fences = 0

    def fence(self) -> None:
        self.fences += 1
        self.completed = self.submitted


def mappings() -> int:
    """Bytes of address space this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("nbytes, size", [
    (0, 64), (1, 64), (64, 64), (65, 128), (512, 512), (513, 576), (1000, 1024), (1025, 1152),
    (100_000, 106_496), (MAPPED - 1, MAPPED), (MAPPED, MAPPED), (MAPPED + 1, MAPPED + 65536),
])
def test_size_classes(nbytes: int, size: int) -> None:
    assert size_class(nbytes) == size


def test_size_classes_are_aligned_and_waste_an_eighth_at_most() -> None:
    for nbytes in [*range(1, 5000), *(random.Random(1).randrange(1 << 30) for _ in range(5000))]:
        size = size_class(nbytes)
        assert nbytes <= size <= max(nbytes + nbytes / 8 + 1, nbytes + ALIGNMENT)
        assert size % ALIGNMENT == 0 and size_class(size) == size


@pytest.mark.parametrize("nbytes", [0, 1, 100, 5000, MIB, 5 * MIB, 33 * MIB + 17])
def test_a_block_can_be_written_to_its_end(nbytes: int) -> None:
    allocator = Allocator()
    blocks = [allocator.take(nbytes) for _ in range(3)]
    for k, block in enumerate(blocks):
        assert block.address % (HUGE if nbytes >= MAPPED else ALIGNMENT) == 0
        ctypes.memset(block.address, k + 1, max(block.size, 1))
    for k, block in enumerate(blocks):
        ends = (block.address, block.address + block.size - 1)
        assert [ctypes.string_at(end, 1)[0] for end in ends] == [k + 1, k + 1]
        allocator.give(block)


@pytest.mark.parametrize("nbytes", [10, 100_000, 8 * MIB])
def test_a_block_given_back_is_the_next_one_of_its_size(nbytes: int) -> None:
    stream = Stream()
    allocator = Allocator(stream)
    first = allocator.take(nbytes)
    stream.submitted = 5            # nothing of it done: whoever gets the memory next runs later
    allocator.give(first)
    assert allocator.take(3 * nbytes + 64).address != first.address
    assert allocator.take(nbytes).address == first.address
    assert allocator.take(nbytes).address != first.address
    assert stream.fences == 0


def test_a_block_that_is_taken_again_at_once_stays_in_use() -> None:
    allocator = Allocator()
    first = allocator.take(1000)
    other = allocator.take(5000)
    before = allocator.usage()
    for _ in range(3):
        allocator.give(first)
        assert allocator.take(1000) is first
    assert allocator.usage() == before
    allocator.give(other)
    allocator.give(first)
    assert allocator.take(1000) is first and allocator.take(5000) is other
    assert allocator.usage() == before


def test_a_mapped_block_serves_requests_of_a_quarter_of_its_size_or_more() -> None:
    allocator = Allocator(kept=KEPT)
    blocks = [allocator.take(size * MIB) for size in (64, 32)]
    for block in blocks:
        allocator.give(block)
    other = allocator.take(7 * MIB)
    assert other.address not in (blocks[0].address, blocks[1].address)
    assert allocator.take(16 * MIB).address == blocks[1].address   # the smallest that is large enough
    assert allocator.take(16 * MIB).address == blocks[0].address


def test_what_a_block_has_beyond_a_request_counts_as_cached() -> None:
    allocator = Allocator(kept=40 * MIB)
    block = allocator.take(32 * MIB)
    others = [allocator.take(8 * MIB) for _ in range(8)]
    allocator.give(block)
    assert allocator.take(12 * MIB) is block
    assert allocator.usage() == (76 * MIB, 96 * MIB, 0)
    for other in others:
        allocator.give(other)
    assert allocator.usage() == (12 * MIB, 96 * MIB, 16 * MIB)     # 20 of 43 are in the block
    allocator.give(block)
    assert allocator.usage().cached == 40 * MIB
    assert allocator.take(32 * MIB) is block
    assert allocator.usage() == (32 * MIB, 96 * MIB, 8 * MIB)


def test_arrays_that_shrink_in_every_turn_take_few_fresh_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = Allocator._make

    def counted(allocator: Allocator, size: int, nbytes: int) -> MemoryBlock:
        made.append(size)
        return make(allocator, size, nbytes)

    monkeypatch.setattr(Allocator, "_make", counted)
    allocator = Allocator()
    for _ in range(3):
        held = allocator.take(64 * MIB)
        for size in range(60, 16, -4):
            following = allocator.take(size * MIB)
            allocator.give(held)
            held = following
        allocator.give(held)
    assert len(made) <= 9


def test_pages_that_malloc_holds_for_nobody_go_back_before_a_mapping_is_made() -> None:
    libc = heap.glibc()
    if libc is None:
        pytest.skip("malloc is not glibc's")
    malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
    malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    pieces = [malloc(100_000) for _ in range(1000)]      # below the threshold of malloc's own mappings
    for piece in pieces:
        ctypes.memset(piece, 1, 100_000)
    for piece in pieces[:-1]:                            # what follows the last one could go by itself
        free(piece)
    assert libc.mallinfo2().fordblks > 90 * MIB
    before = resident()
    allocator = Allocator()
    allocator.give(allocator.take(2 * MIB))
    assert resident() > before - 10 * MIB
    allocator.give(allocator.take(8 * MIB))
    assert resident() < before - 80 * MIB
    free(pieces[-1])


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_usage_counts_bytes_in_use_the_peak_and_the_cache() -> None:
    allocator = Allocator()
    blocks = [allocator.take(MIB) for _ in range(4)]
    assert allocator.usage() == (4 * MIB, 4 * MIB, 0)
    for block in blocks[:3]:
        allocator.give(block)
    assert allocator.usage() == (MIB, 4 * MIB, 3 * MIB)
    allocator.take(MIB)
    assert allocator.usage() == (2 * MIB, 4 * MIB, 2 * MIB)


def test_trim_gives_memory_back_but_not_under_running_launches() -> None:
    stream = Stream()
    allocator = Allocator(stream, kept=KEPT)
    blocks = [allocator.take(64 * MIB) for _ in range(4)]
    full = mappings()
    stream.submitted = 2
    for block in blocks[:2]:
        allocator.give(block)
    stream.submitted = 3
    for block in blocks[2:]:
        allocator.give(block)
    assert allocator.trim() == 0
    stream.completed = 2
    assert allocator.trim() == 128 * MIB
    stream.completed = 3
    assert allocator.trim(keep=64 * MIB) == 64 * MIB
    assert allocator.usage().cached == 64 * MIB
    assert mappings() <= full - 180 * MIB


def test_the_cache_is_bounded_and_drops_the_oldest_first() -> None:
    allocator = Allocator(kept=20 * MIB)
    blocks = [allocator.take(8 * MIB) for _ in range(5)]
    for block in blocks:
        allocator.give(block)
    assert allocator.usage().cached == 16 * MIB
    assert {allocator.take(8 * MIB).address for _ in range(2)} == {b.address for b in blocks[3:]}


def test_sizes_that_do_not_come_again_are_not_kept() -> None:
    allocator = Allocator()
    for size in range(64, 16, -4):                       # a loop whose arrays shrink
        allocator.give(allocator.take(size * MIB))
        assert allocator.usage().cached <= 32 * MIB      # half of the peak


def test_sizes_that_come_again_are_kept_from_their_second_time_on() -> None:
    allocator = Allocator()
    addresses = []
    for _ in range(4):
        blocks = [allocator.take(size * MIB) for size in (40, 20)]
        addresses.append([block.address for block in blocks])
        for block in blocks:
            allocator.give(block)
    assert allocator.usage() == (0, 60 * MIB, 60 * MIB)
    assert sorted(addresses[-1]) == sorted(addresses[-2])


def test_small_blocks_beside_large_ones_do_not_push_these_out() -> None:
    allocator = Allocator()
    addresses = []
    for _ in range(6):
        blocks = [allocator.take(16 * MIB) for _ in range(2)]
        addresses.append({block.address for block in blocks})
        for block in blocks:
            allocator.give(block)
        allocator.give(allocator.take(MIB))              # not in use together with them: above the peak
    assert allocator.usage() == (0, 32 * MIB, 33 * MIB)
    assert addresses[-1] == addresses[-2] == addresses[-3]


def test_the_heap_is_not_trimmed_in_every_turn_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(heap, "trim", lambda: trims.append(1))
    allocator = Allocator(kept=8 * MIB)
    counts = []
    for _ in range(4):                                   # more than is kept, so that it is mapped anew
        blocks = [allocator.take(size * MIB) for size in (40, 30, 20)]
        while blocks:
            allocator.give(blocks.pop())
        counts.append(len(trims))
    assert counts[0] > 3 and counts[-1] == counts[0]
    allocator.give(allocator.take(120 * MIB))            # more than ever
    assert len(trims) > counts[-1]


def test_for_these_a_share_of_the_machine_s_memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks are never touched: they take no memory."""
    monkeypatch.setattr(machine, "memory_total", lambda: 400 * MIB * SHARE)
    allocator = Allocator()
    cached = []
    for _ in range(12):
        for block in [allocator.take(50 * MIB) for _ in range(6)]:
            allocator.give(block)
        cached.append(allocator.usage().cached)
    assert cached[0] <= KEPT and cached[-1] == 300 * MIB


def test_a_quarter_of_what_is_in_use_may_be_cached() -> None:
    allocator = Allocator(kept=0)
    held = allocator.take(64 * MIB)
    blocks = [allocator.take(8 * MIB) for _ in range(4)]
    for block in blocks:
        allocator.give(block)
    assert allocator.usage() == (64 * MIB, 96 * MIB, 16 * MIB)
    allocator.give(held)


def test_too_much_is_refused_by_name_and_the_next_request_served() -> None:
    allocator = Allocator(kept=KEPT, system=Host(lambda: 100 * MIB + RESERVE))
    with pytest.raises(MemoryError, match=rf"{200 * MIB} bytes requested, {100 * MIB} bytes available"):
        allocator.take(200 * MIB)
    allocator.give(allocator.take(80 * MIB))
    assert allocator.usage() == (0, 80 * MIB, 80 * MIB)


def test_a_size_no_machine_has_is_refused() -> None:
    for available in (machine.memory_available, lambda: PLENTY):
        with pytest.raises(MemoryError, match=f"{1 << 48} bytes requested"):
            Allocator(system=Host(available)).take(1 << 48)


def test_memory_handed_out_and_not_touched_yet_counts() -> None:
    stream = Stream()
    allocator = Allocator(stream, system=Host(lambda: (40 if stream.completed else 100) * MIB + RESERVE))
    allocator.take(60 * MIB)
    stream.submitted = 1            # will touch it; the system still shows everything as available
    with pytest.raises(MemoryError, match=f"{60 * MIB} bytes requested, {40 * MIB} bytes available"):
        allocator.take(60 * MIB)
    assert stream.fences == 1 and allocator.take(30 * MIB).size == 30 * MIB


def test_pressure_empties_the_cache_before_it_refuses() -> None:
    stream = Stream()
    before = mappings()
    allocator = Allocator(stream, system=Host(lambda: 100 * MIB + RESERVE - (mappings() - before)))
    small = allocator.take(60 * MIB)
    stream.submitted = 1
    allocator.give(small)
    big = allocator.take(90 * MIB)
    assert stream.fences == 1 and big.size == 90 * MIB
    assert allocator.usage().cached == 0


def test_many_small_blocks_are_checked_too() -> None:
    allocator = Allocator(system=Host(lambda: RESERVE + MIB))
    with pytest.raises(MemoryError):
        for _ in range(1000):
            allocator.take(MIB)
    assert allocator.usage().in_use <= 64 * MIB
    assert allocator.take(100).size == 128


def test_the_setting_memory_is_a_limit() -> None:
    allocator = Allocator()
    with settings.using(memory=10 * MIB):
        held = allocator.take(8 * MIB)
        with pytest.raises(MemoryError, match="DIFFUSE_MEMORY"):
            allocator.take(4 * MIB)
        allocator.give(held)
        allocator.take(8 * MIB)


def test_blocks_come_back_from_any_thread() -> None:
    allocator = Allocator()

    def work(seed: int) -> None:
        choose = random.Random(seed)
        mine: list[MemoryBlock] = []
        for _ in range(2000):
            if mine and choose.random() < 0.5:
                allocator.give(mine.pop())
            else:
                mine.append(allocator.take(choose.choice([64, 1000, 5 * MIB])))
        addresses.append({b.address for b in mine})
        for block in mine:
            allocator.give(block)

    addresses: list[set[int]] = []
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    run_all(threads)
    assert len(addresses) == 3
    assert allocator.usage().in_use == 0


def test_an_allocator_that_is_dropped_gives_its_cache_back() -> None:
    allocator = Allocator(kept=KEPT)
    allocator.give(allocator.take(200 * MIB))
    full = mappings()
    del allocator
    assert mappings() <= full - 190 * MIB


class Owner:
    """Who takes a block, as `local.Memory` does."""

    def __init__(self, allocator: Allocator, nbytes: int) -> None:
        self.allocator, self._block = allocator, None
        allocator.take(nbytes, self)

    _block: MemoryBlock | None

    def give(self) -> None:
        assert self._block is not None
        block, self._block = self._block, None
        self.allocator.give(block)


@pytest.mark.parametrize("nbytes, smaller", [(1000, 1000), (5 * MIB, 5 * MIB), (10 * MIB, 5 * MIB)])
def test_an_interrupt_at_any_line_hands_no_block_out_twice(nbytes: int, smaller: int) -> None:
    """Nor does it lose one of the cache, nor miscount: taking, giving back, sorting and trimming."""
    moment = 0
    while True:
        moment += 1
        allocator = Allocator(kept=3 * nbytes)
        held = [Owner(allocator, nbytes) for _ in range(6)]

        def work() -> None:
            for owner in [held.pop() for _ in range(4)]:
                owner.give()
            held.append(Owner(allocator, smaller))
            held.pop().give()
            held.append(Owner(allocator, nbytes))
            allocator.trim(nbytes)
            held.append(Owner(allocator, smaller))

        if not interrupted(work, moment, {allocator_module.__file__, system_module.__file__}, {"_libc"}):
            break
        held = [owner for owner in held if owner._block]
        taken = [Owner(allocator, nbytes) for _ in range(6)]
        blocks = [owner._block for owner in (*held, *taken) if owner._block]
        assert len({block.address for block in blocks}) == len(held) + 6, moment
        for block in blocks:
            for begin in (0, block.size - 8):
                ctypes.memset(block.address + begin, 1, 8)
        usage = allocator.usage()
        spare = sum(allocator._spare.values())
        assert usage.in_use >= sum(block.size for block in blocks) - spare
        assert usage.in_use + usage.cached + spare == allocator._total
        assert usage.cached == sum(block.size for block in allocator._order.values())
        assert not allocator._lock.locked()
        for owner in (*held, *taken):
            owner.give()
        allocator.trim()
        assert allocator.usage().cached == 0
    assert moment > 50
