"""Arrays that no rank has room for: transforms of one dimension, partitions, and sorts of what NumPy alone
orders as it does."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy
import pytest

from diffuse.numpy.bridge.ranks import four_step, oversize
from tests.jobs import diffuse, over_mpi, script
from tests.test_far import together

Array = numpy.ndarray[Any, Any]
LENGTHS = 1, 2, 12, 35, 97, 100, 509 * 2
"""Of which some have divisors near the square root, and some have none."""


def transformed(name: str, x: Array, n: int, ranks: int, norm: Any = None) -> Array:
    """What so many ranks find, each with a tile of the input and of the result."""
    want = getattr(numpy.fft, name)(x, n, norm=norm)
    out = numpy.full(len(want), numpy.nan, want.dtype)
    sign, half = oversize.SIGNS[name], name in ("irfft", "hfft")
    factor = {None: 1.0 if sign < 0 else 1 / n, "ortho": 1 / sqrt(n)}[norm]
    plan = four_step.Transform(n, sign, factor, x.dtype.kind != "c" and not half, half)
    tiles = -(-len(x) // ranks), -(-len(out) // ranks)
    together(lambda peers, given, target: four_step.run(peers, plan, given, target), tiles, ranks, x, out)
    return out


def numbers(count: int, dtype: str) -> Array:
    random = numpy.random.default_rng(count)
    x = (9 * random.normal(size=count)).astype(dtype)
    if x.dtype.kind == "c":
        x.imag = random.normal(size=count)
    return x


@pytest.mark.parametrize("name", oversize.SIGNS)
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4", "?"])
def test_transforms_are_numpys_but_for_rounding(name: str, dtype: str) -> None:
    if name in ("rfft", "ihfft") and dtype.startswith("c"):
        return
    for n in LENGTHS:
        for count in (n, n // 3 + 1, n + 5):  # as it is, with zeros behind it, and without its end
            x = numbers(count, dtype)
            want = getattr(numpy.fft, name)(x, n)
            found = [transformed(name, x, n, ranks) for ranks in (1, 4)]
            assert len({each.tobytes() for each in found}) == 1
            error = numpy.linalg.norm(found[0] - want) / max(float(numpy.linalg.norm(want)), 1e-30)
            assert error < (1e-6 if dtype in ("f4", "c8") else 2e-15), (n, count, error)


def test_transforms_of_real_numbers_are_symmetric() -> None:
    for n in (12, 35, 100, 1024, 36 * 35):
        found = transformed("fft", numbers(n, "f8"), n, 3, "ortho")
        assert (found[1:] == found[1:][::-1].conj()).all() and found[0].imag == 0
        assert n % 2 or found[n // 2].imag == 0


def test_the_divisor_that_is_next_to_the_square_root() -> None:
    def plainly(n: int) -> int | None:
        best = max([d for d in range(1, n + 1) if n % d == 0 and d * d <= n])
        return best if best ** 3 >= n else None

    assert [four_step.divisor(n) for n in range(1, 700)] == [plainly(n) for n in range(1, 700)]
    assert four_step.divisor(1 << 40) == 1 << 20 and four_step.divisor(10_000_019) is None


def test_roots_of_unity_are_exact_to_a_unit_in_the_last_place() -> None:
    for n in (1, 2, 3, 8, 12, 1023):
        k = numpy.arange(n)
        angle = numpy.longdouble(2) * k * (numpy.longdouble(4) * numpy.arctan(numpy.longdouble(1))) / n
        want = numpy.cos(angle) + 1j * numpy.sin(angle)
        assert abs(four_step.roots(k, n, 1) - want).max() < 2.3e-16
        assert abs(four_step.roots(k, n, -1) - want.conj()).max() < 2.3e-16


def test_a_length_that_nothing_divides_has_a_bound() -> None:
    plan = four_step.Transform(2 ** 31 + 11, -1, 1.0, False, False)  # a prime number
    with pytest.raises(MemoryError, match="needs a divisor"):
        together(lambda peers, given, out: four_step.run(peers, plan, given, out), (4, 4), 1, numpy.ones(4),
                 numpy.ones(4) + 0j)


PROGRAM = """
    import hashlib
    import sys
    import numpy as np
    import scipy.fft

    n = 240000
    x = np.sin(np.arange(n * 1.0) ** 1.5)

    def say(name, found):
        one, other = (found, found) if found.dtype.kind == "f" else (found.real, found.imag)
        sums = [float(abs(found).sum()), float((one * np.cos(np.arange(found.size))).sum()),
                float((other * np.cos(np.arange(found.size))).sum())]
        print(name, found.dtype, found.shape, *sums)
        print("bits", hashlib.sha256((found[::997] * 1).tobytes()).hexdigest(), file=sys.stderr)

    say("complex", np.fft.ifft(x * (1 + 2j), 100000))
    for module in (np.fft, scipy.fft):
        for name in ("fft", "ifft", "rfft", "ihfft", "fftn", "rfftn"):
            say(name, getattr(module, name)(x))
        say("prime", module.fft(x, 59999, norm="ortho"))
        say("irfft", module.irfft(x[:120001], n - 1))
        say("hfft", module.hfft(x, 160000, norm="forward"))

    say("single", np.fft.rfft(x.astype(np.float32)))
    x = x * 1.0  # without what ranks have read of it
    say("integers", np.fft.fft((x * 100).astype(np.int32)))
    for wrong in (dict(norm="no"), dict(n=0), dict(n=2.5), dict(axis=1), dict(what=1)):
        try:
            print(np.fft.fft(x, **wrong))
        except Exception as error:
            print(type(error).__name__, error)
    try:
        np.fft.rfft(x * 1j)
    except Exception as error:
        print(type(error).__name__)

    def parted(found, *kth):
        print(found.dtype, round(float(found.sum()), 6))
        for k in kth:
            print(float(found[k]), bool((found[:k] <= found[k]).all() & (found[k:] >= found[k]).all()))

    parted(np.partition(x, 5), 5)
    parted(np.partition(x, (-7, 100)), -7 + n, 100)
    parted(x[np.argpartition(x, np.array([3, 9]))], 3, 9)
    parted(np.partition(x.reshape(400, -1), 77, axis=None), 77)
    y = x * 1.0
    del x
    y.partition(1234)
    parted(y, 1234)
    y.sort()
    y[::3], y[1::3] = 0.0, -0.0  # equal, with different bits
    y[:50] = np.nan
    print(int((y[np.argsort(y)] == 0.0).sum()))
    z = np.sort(y)
    print(int(np.isnan(z[-50:]).sum()), bool((z[1:-50] >= z[:-51]).all()), int(np.signbit(z).sum()))
    y.sort()
    print(bool((y[:-50] == z[:-50]).all()))
    y.flags.writeable = False
    for wrong in (lambda: np.partition(y, n), lambda: np.argpartition(y, [1, -n - 1]), lambda: y.partition(3),
                  lambda: np.partition(y, 1.5), lambda: z.partition(True), lambda: z.partition(3, axis=1),
                  lambda: np.partition(y, 3, kind="no"), lambda: np.partition(y, [[1]]),
                  lambda: np.argpartition(y, None)):
        try:
            print(wrong())
        except Exception as error:
            print(type(error).__name__, error)
"""


@pytest.mark.ranks("mpi")
def test_ranks_compute_what_none_has_room_for(tmp_path: Path) -> None:
    """The array takes 1.9 MB, its transform 3.8 MB; the results are the same on 4 and on 5 ranks."""
    path = script(tmp_path, PROGRAM)
    settings = {"DIFFUSE_FALLBACK": "silent", "DIFFUSE_MIN_CHUNK": "1024"}
    plain = diffuse("run", path, **settings)
    assert plain.returncode == 0 and plain.stdout.count("\n") > 40, plain.tail
    bits = set()
    for ranks, memory in ((4, "1850K"), (5, "1800K")):
        done = over_mpi(ranks, "--memory", memory, path, **settings)
        assert done.returncode == 0, done.tail
        for found, want in zip(done.stdout.splitlines(), plain.stdout.splitlines(), strict=True):
            assert found == want or near(found, want), (found, want)
        bits.add("\n".join([line for line in done.stderr.splitlines() if "bits" in line]))
    assert len(bits) == 1 and bits.pop().count("bits") == 21


def near(found: str, want: str) -> bool:
    """Do the last three numbers of two lines differ by rounding alone?"""
    one, other = found.split(), want.split()
    least = (1e-6 if "single" in want else 1e-13) * abs(float(other[-3]))
    return one[:-3] == other[:-3] and all([abs(float(a) - float(b)) < least
                                           for a, b in zip(one[-3:], other[-3:], strict=True)])
