"""Arrays larger than a rank's memory: which operations of NumPy work on them, and with which bits.

    python tests/large.py [--megabytes 40] [--memory 16M] [--ranks 4] [--runtime mpi] [NAME ...]

Each operation runs by itself on arrays that, with its large results, take so many megabytes together, on
ranks of which each may have so much.  The table says of each whether all ranks find the local runtime's
bits ("works"), or of transforms of one dimension the same values but for rounding ("close"), whether all
raise MemoryError at the same line ("memory"), or what else they do, and by how many megabytes the largest
process grew.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Operation = Callable[[Any], Any]
"""Called with an array: of one dimension if the argument's name is `x`, a matrix if it is `a`."""
OPERATIONS: dict[str, tuple[float, Operation]] = {}
"""By name: how many times the elements of its operand an operation and its result take, and itself."""


def rows(count: float, **named: Operation) -> None:
    OPERATIONS.update({name: (count, function) for name, function in named.items()})


def changed(function: Operation) -> Operation:
    """An operation in place, of which the operand is the result: it is done when its words are looked at."""
    def run_x(x: Any) -> Any:
        function(x)
        return Stored(x)

    def run_a(a: Any) -> Any:
        function(a)
        return Stored(a)

    return run_x if of_line(function) else run_a


class Stored:
    """An array that lies in memory, so that its words need no copy."""

    def __init__(self, value: Any) -> None:
        self.value = value


def of_line(function: Any) -> bool:
    """Does an operation take an array of one dimension?"""
    return bool(function.__code__.co_varnames[0] == "x")


class Close:
    """A result whose rounding may be another one on ranks."""

    def __init__(self, value: Any) -> None:
        self.value = value


def close(function: Operation) -> Operation:
    return lambda x: Close(function(x))


def apart(x: Any, kth: int) -> Any:
    """What is determined of a partition: an element, whether it divides the others, and these in order."""
    return x[kth], bool((x[:kth] <= x[kth]).all() & (x[kth:] >= x[kth]).all()), np.sort(x)


def few(x: Any) -> Any:
    return (np.arange(3000) * 7919) % x.size


def many(x: Any) -> Any:
    """As many indices as there are elements, in no order."""
    return (np.arange(x.size) * 7919 + 5) % x.size


def small(x: Any) -> Any:
    return (x * 3).astype(np.int64) % 1000


rows(1, elementwise=changed(lambda x: np.multiply(np.sin(x), 2.0, out=x)),
     assign=changed(lambda x: x.__setitem__(slice(100, -100, 3), 1.0)),
     folds=lambda x: (x.sum(), x.mean(), x.std(), x.min(), x.argmax(), np.ptp(x), np.nansum(x),
                         np.count_nonzero(x > 0), (x > 0).any(), np.allclose(x, x), np.array_equal(x, x)),
     folds_of_axes=lambda a: (a.sum(axis=0), a.max(axis=1), a.argmin(axis=0), a.var(axis=1)),
     norm=lambda a: (np.linalg.norm(a), np.linalg.norm(a, axis=1), np.vdot(a, a)),
     element=lambda a: (a[-1, 3], a[5]),
     printing=lambda a: (str(a), repr(a.reshape(-1)), str(a > 1)),
     median=lambda x: np.median(x), percentile=lambda x: np.percentile(x, [1.0, 50.0, 99.5]),
     median_of_rows=lambda a: (np.median(a, axis=1), np.quantile(a, 0.3, axis=1)),
     nanmedian=lambda x: np.nanmedian(x),
     sort_in_place=changed(lambda x: x.sort()),
     sort_rows_in_place=changed(lambda a: a.sort(axis=1)),
     partition_in_place=changed(lambda x: (x.partition(1000), x.sort())),
     shuffle=changed(lambda x: np.random.default_rng(3).shuffle(x)),
     histogram=lambda x: np.histogram(x, 50), histogram_edges=lambda x: np.histogram(x, [0, 1, 9]),
     trace=lambda a: (np.trace(a), a.diagonal()),
     read_few=lambda x: (x[few(x)], x.take(few(x))),
     read_rows=lambda a: (a[[3, 1, 5]], a[few(a) % len(a), 7], a[few(a) % len(a), few(a) % a.shape[1]]),
     read_columns=lambda a: a[:, [5, 2]],
     write_few=changed(lambda x: x.__setitem__(few(x), -1.0)),
     put_few=changed(lambda x: np.put(x, few(x), [1.0, 2.0])),
     add_at_few=changed(lambda x: np.add.at(x, few(x) // 2, 1.5)),
     fill_diagonal=changed(lambda a: np.fill_diagonal(a, 5.0)),
     choice=lambda x: np.random.default_rng(2).choice(x, 1000),
     matrix_vector=lambda a: a @ np.cos(np.arange(a.shape[1] * 1.0)),
     vector_matrix=lambda a: np.cos(np.arange(len(a) * 1.0)) @ a,
     gram=lambda a: a.reshape(-1, 200).T @ a.reshape(-1, 200),
     gram_einsum=lambda a: np.einsum("ij,ij->i", a, a),
     tensordot=lambda a: np.tensordot(a, a[:, :3], axes=(0, 0)),
     dot=lambda a: np.dot(a, np.ones(a.shape[1])),
     cov=lambda a: np.cov(a[:, :40], rowvar=False),
     apply_along_axis=lambda a: np.apply_along_axis(np.sum, 1, a[:2000]),
     searchsorted_few=lambda x: np.searchsorted((x.sort(), x)[1], np.arange(-300.0, 700.0)),
     bytes=lambda a: hashlib.sha256(a[:50].tobytes()).hexdigest())
rows(1.2, mask_of_write=changed(lambda x: x.__setitem__(x > 100.0, 0.5)),
     place=changed(lambda x: np.place(x, x > 100.0, [1.0, 2.0])),
     putmask=changed(lambda x: np.putmask(x, x > 100.0, -x[:1])),
     mask_reads_few=lambda x: x[x > 695.0], nonzero_few=lambda a: np.nonzero(a > 695.0),
     argwhere_few=lambda x: (np.argwhere(x > 695.0), np.flatnonzero(x > 690)),
     mask_of_rows=lambda a: a[a[:, 0] > 690.0], compress=lambda a: a.compress(a[:, 0] > 690.0, axis=0),
     extract=lambda x: np.extract(x > 695.0, x), packbits=lambda x: np.packbits(x > 0))
rows(2, halo=changed(lambda a: a.__setitem__(slice(1, -1), (a[:-2] + a[2:]) / 2)),
     copies=lambda x: x.astype(np.float64) + 1.0, ufuncs=lambda x: np.where(x > 0, x, -x),
     transpose=lambda a: a.T.copy(), flip=lambda x: x[::-1] + 0.0, roll=lambda x: np.roll(x, 1001),
     roll_rows=lambda a: np.roll(a, 3, axis=0), cumsum=lambda x: np.cumsum(x),
     cumsum_of_columns=lambda a: np.cumsum(a, axis=0), cumsum_of_rows=lambda a: np.cumsum(a, axis=1),
     diff=lambda x: np.diff(x), gradient=lambda x: np.gradient(x), pad=lambda a: np.pad(a, 2),
     tril=lambda a: np.tril(a, -3), reshape=lambda a: a.reshape(a.shape[0] * 8, -1) + 1,
     clip=lambda x: x.clip(0),
     sort=lambda x: np.sort(x), sort_stable=lambda x: np.sort(x, kind="stable"),
     sort_of_columns=lambda a: np.sort(a, axis=0), sort_of_rows=lambda a: np.sort(a, axis=1),
     sort_flat=lambda a: np.sort(a, axis=None),
     argsort=lambda x: np.argsort(x, kind="stable"), argsort_rows=lambda a: np.argsort(a, kind="stable"),
     argsort_floor=lambda x: np.argsort(np.floor(x / 50.0), kind="stable"),
     median_of_columns=lambda a: np.median(a, axis=0),
     searchsorted_many=lambda x: np.searchsorted(np.arange(1000.0) - 300.0, x),
     digitize=lambda x: np.digitize(x, np.arange(1000.0) - 300.0),
     interp=lambda x: np.interp(x, np.arange(1000.0) - 300.0, np.cos(np.arange(1000.0))),
     bincount=lambda x: np.bincount(small(x)), isin=lambda x: np.isin(x, np.arange(700.0)),
     mask_read=lambda x: x[x > 0.0], mask_read_matrix=lambda a: a[a > 0.0],
     nonzero=lambda x: np.flatnonzero(x > 0.0),
     delete=lambda x: np.delete(x, few(x)), delete_slice=lambda x: np.delete(x, slice(5, 900)),
     insert=lambda x: np.insert(x, 7, 1.0), append=lambda x: np.append(x, 1.0),
     permutation=lambda x: np.random.default_rng(3).permutation(x),
     shuffle_rows=changed(lambda a: np.random.default_rng(3).shuffle(a)),
     permutation_rows=lambda a: np.random.default_rng(3).permutation(a),
     repeat=lambda x: np.repeat(x[::2], 2), tile=lambda x: np.tile(x[: x.size // 2], 2),
     concatenate=lambda a: np.concatenate([a[:300], a[300:]]),
     row_read=lambda a: a[(np.arange(len(a)) * 37) % len(a)],
     column_read=lambda a: a[:, (np.arange(a.shape[1]) * 37) % a.shape[1]],
     matmul=lambda a: a @ np.cos(np.arange(40.0 * a.shape[1])).reshape(a.shape[1], -1),
     convolve=lambda x: np.convolve(x, [1.0, 2.0, 1.0]),
     outer=lambda x: np.outer(x[:1000], x[: x.size // 1000]),
     kron=lambda a: np.kron(a[::2], np.ones((1, 2))))
rows(3, unique_few=lambda x: np.unique(np.floor(x)),
     unique_counts=lambda x: np.unique(np.floor(x), return_counts=True),
     lexsort=lambda x: np.lexsort((x, np.floor(x / 100.0))),
     unique=lambda x: np.unique(x),
     fft=close(lambda x: np.fft.fft(x)), rfft=close(lambda x: np.fft.rfft(x)),
     ifft=close(lambda x: np.fft.ifft(x)), irfft=close(lambda x: np.fft.irfft(x)),
     fft_of_rows=lambda a: np.fft.fft(a, axis=1), fft_of_columns=lambda a: np.fft.fft(a, axis=0),
     rfft2=lambda a: np.fft.rfft2(a), fftn=lambda a: np.fft.fftn(a.reshape(10, 10, -1)),
     read_many=lambda x: x[many(x)], take_many=lambda x: np.take(x, many(x)),
     write_many=changed(lambda x: x.__setitem__(many(x), x * 2.0)),
     add_at_many=changed(lambda x: np.add.at(x, many(x) // 3, 1.0)),
     take_along_axis=lambda a: np.take_along_axis(a, small(a) % a.shape[1], axis=1),
     put_along_axis=changed(lambda a: np.put_along_axis(a, small(a) % a.shape[1], 1.0, axis=1)),
     unravel_index=lambda x: np.unravel_index(small(x), (10, 100)),
     unique_inverse=lambda x: np.unique(np.floor(x), return_inverse=True),
     meshgrid=lambda x: np.meshgrid(x[:1000], x[: x.size // 1000]))
rows(4, partition=lambda x: apart(np.partition(x, 1000), 1000),
     argpartition=lambda x: apart(x[np.argpartition(x, 1000)], 1000))
rows(5, union=lambda x: np.union1d(x, x + 0.25))
rows(2, random=lambda x: np.random.default_rng(1).random(x.size),
     normal=lambda x: np.random.default_rng(1).normal(size=x.size),
     integers=lambda x: np.random.default_rng(1).integers(0, 1000, x.size),
     creation=lambda x: (np.linspace(0, 1, x.size) + np.arange(x.size)))


def operand(elements: int, width: int, line: bool) -> Any:
    """Numbers from -300 to 700 in no order, mostly different, of which ranks have parts."""
    rows = elements // (100 * width) * 100
    flat = np.arange(rows * width) if line else np.arange(rows)[:, None] * width + np.arange(width)
    return flat * 2654435761 % 1000000007 / 1000000.0 - 300.0


def digest(value: Any, copy: bool = True) -> str:
    """A digest of a result, of which no rank needs more than its part.  The words of a pending result are a
    copy, which fuses with what computes it."""
    if isinstance(value, Stored):
        import diffuse

        diffuse.fence()
        return digest(value.value, copy=False)
    if isinstance(value, tuple | list):
        return " ".join(map(digest, value))
    if isinstance(value, Close):
        found = value.value
        parts = (found, found) if found.dtype.kind == "f" else (found.real, found.imag)
        turned = [float((part * np.cos(np.arange(found.size))).sum()) for part in parts]
        sums = float(abs(found).sum()), *turned
        return f"close {found.dtype}{found.shape} {sums[0]!r} {sums[1]!r} {sums[2]!r}"
    if not isinstance(value, np.ndarray) or value.size < 1 << 14:
        value = np.asarray(value)
        text = value.tolist() if value.dtype.kind == "U" else value.tobytes()
        return f"{value.dtype}{value.shape}" + hashlib.sha256(str(text).encode()).hexdigest()[:8]
    if value.ndim == 2 and value.flags.f_contiguous and not value.flags.c_contiguous:
        return "transposed " + digest(value.T)  # in the order in which ranks have its parts
    if value.dtype.kind == "c":
        return digest(value.real) + digest(value.imag)
    return f"{value.dtype}{value.shape}{int((words(value, copy) * (places(value.shape) * 2 + 1)).sum()):x}"


def words(value: Any, copy: bool) -> Any:
    """The bits of numbers, as integers."""
    bits = value.view(f"i{value.itemsize}") if value.dtype.kind == "f" else value
    return bits.astype(np.int64, copy=copy)


def places(shape: tuple[int, ...]) -> Any:
    """The places of elements in C order, which nobody but an expression holds: they take no memory."""
    if len(shape) == 1:
        return np.arange(shape[0])
    return places(shape[:-1])[..., None] * shape[-1] + np.arange(shape[-1])


def peak() -> float:
    """The most megabytes that this process had since it was asked for last."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def found(megabytes: float, width: int, names: list[str]) -> Iterator[tuple[str, str, float]]:
    """What each operation finds, and by how much the process grew."""
    import diffuse

    for name in names:
        count, function = OPERATIONS[name]
        gc.collect()
        peak()
        before = peak()
        try:
            said = digest(function(operand(int(megabytes * 1e6 / 8 / count), width, of_line(function))))
            diffuse.fence()
        except MemoryError as error:
            assert error.__traceback__ is not None
            said = f"memory: {error} line {error.__traceback__.tb_lineno}"
        except Exception as error:  # what is to be told
            said = f"error: {type(error).__name__}: {error}"
        yield name, said, peak() - before


def on_ranks(args: argparse.Namespace, *words: str) -> dict[str, set[tuple[str, float]]]:
    """What the processes of a run say of each operation."""
    from tests.jobs import diffuse

    done = diffuse("run", "--output", "all", *words, __file__, "--inside", "--megabytes",
                   str(args.megabytes), "--width", str(args.width), *args.names, seconds=args.seconds,
                   OPENBLAS_NUM_THREADS="1", DIFFUSE_FALLBACK="silent", DIFFUSE_SMALL="16384",
                   DIFFUSE_MIN_CHUNK="1024")
    said: dict[str, set[tuple[str, float]]] = {}
    for line in done.stdout.splitlines():
        if line.count("\t") == 2:
            name, text, grown = line.split("\t")
            said.setdefault(name.split("] ")[-1], set()).add((text, float(grown)))
    if done.returncode:
        print(done.tail)
    return said


def verdict(local: set[tuple[str, float]], ranks: set[tuple[str, float]]) -> str:
    texts = {text for text, _ in ranks}
    if len(texts) != 1:
        return "differs between ranks" if texts else "ends"
    (text,) = texts
    if text.startswith(("memory", "error")):
        return text.partition(":")[0] if text.startswith("memory") else text[:90]
    if texts == {text for text, _ in local}:
        return "works"
    return "close" if any([near(text, other) for other, _ in local]) else "wrong"


def near(one: str, other: str) -> bool:
    """Do two digests of `Close` tell of values that are the same but for rounding?"""
    first, second = one.split(), other.split()
    if first[0] != "close" or first[:-3] != second[:-3]:
        return False
    return all([abs(float(a) - float(b)) < 1e-13 * abs(float(second[-3]))
                for a, b in zip(first[-3:], second[-3:], strict=True)])


def table(args: argparse.Namespace) -> dict[str, str]:
    """Print what each operation does on ranks, and return it."""
    plain = on_ranks(args)
    ranks = on_ranks(args, "--runtime", args.runtime, "--ranks", str(args.ranks), "--cpus", "1", "--memory",
                     args.memory)
    verdicts = {name: verdict(plain.get(name, set()), ranks.get(name, set()))
                for name in args.names or OPERATIONS}
    for name, said in verdicts.items():
        grown = max([grown for _, grown in ranks.get(name, {("", 0.0)})])
        print(f"{name:24} {said:9} {grown:6.1f} MB")
    print({said: list(verdicts.values()).count(said) for said in verdicts.values()})
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=40.0,
                        help="what an operation's arrays take together")
    parser.add_argument("--memory", default="16M", help="what each rank may have")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--runtime", default="mpi")
    parser.add_argument("--width", type=int, default=2000, help="columns of matrices")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long a run may take")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", metavar="NAME", nargs="*", help="operations; all if none is named")
    args = parser.parse_args()
    if not args.inside:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
        table(args)
        return
    for name, said, grown in found(args.megabytes, args.width, args.names or list(OPERATIONS)):
        print(f"{name}\t{' '.join(said.split())}\t{grown:.1f}", flush=True)


if __name__ == "__main__":
    main()
