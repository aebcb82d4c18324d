"""Programs that read a value after every few operations: these are done at once, and no bit depends on it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.kernels.body import operations
from diffuse.numpy.arrays import core, soon
from diffuse.numpy.small import native
from diffuse.stream import engine
from diffuse.stream.brevity import LONGEST, OFTEN
from tests.around import around
from tests.at_once import allowed, counted, noticed
from tests.jobs import python
from tests.outcomes import unwarned, warned

pytestmark = [pytest.mark.local_only("every rank records the same, whatever is at hand there"),
              pytest.mark.skipif(native is None, reason="the extension does these operations")]

N = 20_000
RANDOM = numpy.random.default_rng(11)
TYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64",
         "complex128"]


brevity = around(noticed)


def values(name: str, seed: int = 0) -> Any:
    """Elements of every kind that a type has."""
    random = numpy.random.default_rng(seed)
    dtype = numpy.dtype(name)
    if dtype.kind == "b":
        return random.random(N) < 0.5
    if dtype.kind in "iu":
        bounds = numpy.iinfo(dtype)
        return random.integers(bounds.min, bounds.max, N, dtype, endpoint=True)
    found = random.standard_normal(N) * 10.0 ** random.integers(-4, 5, N)
    found[::97], found[1::97], found[2::97] = 0.0, -0.0, numpy.inf
    if dtype.kind == "c":
        found = found + 1j * random.standard_normal(N)
    return found.astype(dtype)


def test_after_a_few_waits_operations_are_done_at_once() -> None:
    plain = RANDOM.integers(0, 2, (180, 180)).astype(numpy.uint8)

    def turn(m: Any, board: Any) -> tuple[Any, int]:
        around = sum(m.roll(m.roll(board, i, axis=0), j, axis=1)
                     for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        board = ((around == 3) | ((board == 1) & (around == 2))).astype(m.uint8)
        return board, int(board.sum())

    board, counts = np.array(plain), []
    for k in range(3 * OFTEN):
        results: list[Any] = []
        counts.append(counted(lambda: results.append(turn(np, board)))[0])  # noqa: B023
        board = results[0][0]
        plain, alive = turn(numpy, plain)
        assert results[0][1] == alive
        assert k < 2 * OFTEN or counts[-1] == 0
    assert counts[0] > 16 and numpy.asarray(board).tobytes() == plain.tobytes()


def test_a_chain_on_broad_arrays_stays_with_two_threads() -> None:
    plain = RANDOM.integers(0, 8, (900, 900)).astype(numpy.int32)

    def turn(m: Any, heaps: Any) -> bool:
        falls = heaps // 4
        heaps -= 4 * falls
        heaps[1:] += falls[:-1]
        heaps[:-1] += falls[1:]
        heaps[:, 1:] += falls[:, :-1]
        heaps[:, :-1] += falls[:, 1:]
        lost = int(falls[0].sum() + falls[-1].sum() + falls[:, 0].sum() + falls[:, -1].sum())
        return bool((heaps >= 4).any()) and lost > 0

    with settings.using(threads=2):
        heaps, expected, counts = np.array(plain), plain.copy(), []
        for _ in range(5 * OFTEN):
            counts.append(counted(lambda: turn(np, heaps))[0])
            turn(numpy, expected)
    assert numpy.asarray(heaps).tobytes() == expected.tobytes()
    assert min(counts) > 4


def test_a_chain_that_does_not_fuse_into_one_loop_is_done_at_once() -> None:
    plain = RANDOM.integers(0, 2, (400, 400)).astype(numpy.uint8)

    def turn(m: Any, board: Any) -> Any:
        around = sum(m.roll(m.roll(board, i, axis=0), j, axis=1)
                     for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return ((around == 3) | ((board == 1) & (around == 2))).astype(m.uint8)

    board = np.array(plain)
    for _ in range(2 * OFTEN):
        board, plain = turn(np, board), turn(numpy, plain)
        assert int(board.sum()) == int(plain.sum())
    assert counted(lambda: int(turn(np, board).sum()))[0] == 0


def test_a_chain_whose_fusion_saves_less_than_the_wait_takes_is_done_at_once() -> None:
    x = np.array(RANDOM.random(100_000))

    def turn() -> float:
        y = x
        for _ in range(5):
            y = y * 0.5 + 1.0
        return float(y.max())

    for _ in range(2 * OFTEN):
        turn()
    assert counted(turn) == (0, 11)


def test_correlations_are_done_at_once() -> None:
    """Their copies, means and products are, too."""
    x = np.array(RANDOM.random((2, 40_000)))

    def turn() -> float:
        return float(np.corrcoef(x[0], x[1])[0, 1])

    for _ in range(2 * OFTEN):
        turn()
    assert counted(turn)[0] == 0


def test_long_chains_are_recorded_once_more() -> None:
    x = np.array(RANDOM.random(N))

    def short() -> float:
        return float(((x * 0.5 + 1.0) * x + 1.0).max())

    def long() -> float:
        y = x
        for _ in range(LONGEST):
            y = y / 2.0 - 1.0
        return float(y.max())

    for _ in range(2 * OFTEN):
        short()
    assert counted(short) == (0, 5)
    recorded = [counted(long)[0] for _ in range(3)]
    assert recorded[0] > 0 and recorded[1:] == [2 * LONGEST + 1] * 2


def test_chains_half_as_long_again_are_done_at_once() -> None:
    x = np.array(RANDOM.random(200_000))

    def chain(length: int) -> float:
        y = x
        for _ in range(length):
            y = y / 2.0
        return float(y.max())

    for _ in range(2 * OFTEN):
        chain(6)
    assert counted(lambda: chain(9))[0] == counted(lambda: chain(6))[0] == 0


def test_a_chain_with_a_routine_of_its_own_is_recorded() -> None:
    x = np.array(RANDOM.random(N))
    counts = [counted(lambda: float((np.exp(x - 0.5) / 3.0).max())) for _ in range(4 * OFTEN)]
    assert counts == [(4, 0)] * 4 * OFTEN


MIB = 1 << 20


def test_operations_on_trial_are_done_at_once_until_the_bytes_are_used_up() -> None:
    x = np.array(RANDOM.random(MIB // 8))
    with allowed(10 * MIB, trial=True):
        assert counted(lambda: (x + 1.0) * 2.0 - 3.0) == (0, 3)
        y = x + 1.0
        assert counted(lambda: [y * 2.0 for _ in range(4)]) == (4, 0)
        assert native.allowance() == 0


def test_what_lies_between_two_values_on_trial_is_free_up_to_a_bound() -> None:
    x = np.array(RANDOM.random(MIB // 8))

    def turn(times: int) -> float:
        y = x
        for _ in range(times):
            y = y * 0.5 + 1.0
        return float(y.max())

    with allowed(64 * MIB, trial=True):
        assert [counted(lambda: turn(5)) for _ in range(10)] == [(0, 11)] * 10
        assert native.allowance() == 64 * MIB
        assert counted(lambda: turn(9)) == (0, 19)
        left = native.allowance()
        assert 0 < left < 64 * MIB
        assert counted(lambda: turn(5)) == (0, 11) and native.allowance() == left


def test_large_operations_are_recorded_on_trial_too() -> None:
    x, few = np.array(RANDOM.random(2 * MIB)), np.array(RANDOM.random(N))
    with allowed(64 * MIB, trial=True):
        assert counted(lambda: x + 1.0)[0] == 1
        assert counted(lambda: few + 1.0) == (0, 1)


PROGRAM = """
import diffuse.numpy as np
from diffuse.observe import trace

x = np.arange(100_000.0)
y = (x - 1.0) * (x + 1.0)
first = trace.snapshot()
for _ in range(100):
    y = y * 0.5 + x
last = trace.snapshot()
print(first["recorded"], last["recorded"] > 100, float(y[7]))
"""


def test_the_beginning_of_a_program_is_on_trial() -> None:
    run = python(PROGRAM)
    y = 48.0
    for _ in range(100):
        y = y * 0.5 + 7.0
    assert run.stdout.split() == ["0", "True", str(y)]


BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and_", "or_", "xor", "lt",
          "le", "eq", "ne", "gt", "ge"]


@pytest.mark.parametrize("name", TYPES)
def test_no_bit_of_an_operator_depends_on_it(name: str) -> None:
    one, other = values(name), values(name, 1)
    calls: list[tuple[Any, tuple[Any, ...]]]
    calls = [(getattr(operator, op), (a, b)) for op in BINARY for a, b in
             ((one, other), (one, 3), (2, other), (one, 0.75), (one, numpy.float32(1.5)), (one, one[:1]),
              (one, 1.5 - 0.25j), (one[::-1], other))]
    calls += [(getattr(operator, op), (one,)) for op in ("neg", "pos", "abs", "invert")]
    calls += [(operator.pow, (one, 2)), (operator.pow, (one, 2.0)), (operator.pow, (one, 3))]
    with unwarned():
        for function, operands in calls:
            agree(lambda: function(*[np.array(x) if isinstance(x, numpy.ndarray) else x for x in operands]))  # noqa: B023


@pytest.mark.skipif(not operations.products_fused(), reason="NumPy rounds products in another way")
def test_products_of_double_complex_numbers_are_done_at_once() -> None:
    x, y = np.array(values("complex128")), np.array(values("complex128", 1))
    single, real = np.array(values("complex64")[7:]), np.array(values("float32")[7:])  # extents of its own
    with allowed(), numpy.errstate(all="ignore"):
        assert counted(lambda: [x * y, x * 1.5j, 2.0 * x, x**2, np.square(x), -x]) == (0, 6)
        assert counted(lambda: [single * single, real * 1.5j, single * 2j]) == (3, 0)


def test_roots_are_done_at_once_where_they_are_fast() -> None:
    """NumPy's float32 takes a third of a nanosecond for an element, its float64 three times as long."""
    single, double = np.array(values("float32")[5:]), np.array(values("float64")[5:])  # extents of their own
    with allowed(), numpy.errstate(all="ignore"):
        assert counted(lambda: np.sqrt(single)) == (0, 1)
        assert counted(lambda: np.sqrt(double)) == (1, 0)


UNARY = ["sqrt", "absolute", "rint", "floor", "isnan", "square", "reciprocal", "negative", "exp", "sin",
         "conjugate", "logical_not", "signbit", "cbrt", "log1p"]
FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: np.roll(x, 5), lambda x: np.where(x > 0, x, 1), lambda x: x.astype("f4"), lambda x: x.sum(),
    lambda x: np.cumsum(x), lambda x: x.prod(), lambda x: np.clip(x, 1, 3), lambda x: np.diff(x),
    lambda x: np.concatenate([x, x[::2]]), lambda x: x.max(), lambda x: x.argmin(), lambda x: (x > 1).any(),
    lambda x: np.pad(x, 3), lambda x: x.copy(), lambda x: np.count_nonzero(x),
    lambda x: np.maximum(x, x[::-1]),
    lambda x: np.arctan2(x, x[::-1]), lambda x: np.hypot(x, 2.0), lambda x: np.fmod(x, 3), lambda x: x.mean(),
    lambda x: np.array(x), lambda x: np.array(x[::2], "f4", ndmin=2), lambda x: np.array(x, copy=None),
    lambda x: np.array([x, x[::-1]]), lambda x: np.array(x.reshape(100, -1).T, order="C"),
    lambda x: np.array_equal(x, x), lambda x: np.logaddexp(x, x), lambda x: x[3:] + x[:-3],
    lambda x: x.reshape(100, -1).sum(axis=1), lambda x: x.reshape(100, -1).sum(axis=0)]


@pytest.mark.parametrize("name", TYPES)
def test_no_bit_of_a_function_depends_on_it(name: str) -> None:
    plain = values(name)
    calls = [*FUNCTIONS, *[lambda x, f=getattr(np, function): f(x) for function in UNARY]]
    with unwarned():
        for call in calls:
            agree(lambda: call(np.array(plain)))  # noqa: B023


def agree(call: Callable[[], Any]) -> None:
    """A call gives the same, recorded and done at once."""
    engine.fence()
    recorded = outcome(call)
    with allowed():
        found = outcome(call)
    assert found == recorded


def outcome(call: Callable[[], Any]) -> Any:
    """The bits of a result, with the type and the layout, or the error."""
    try:
        found = call()
    except (TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)
    plain = numpy.asarray(found)
    return plain.dtype, plain.shape, plain.strides, plain.tobytes()


WRITES: list[Callable[[Any, Any, Any], Any]] = [
    lambda m, x, y: x.__iadd__(y), lambda m, x, y: x.__imul__(0.5), lambda m, x, y: x.__isub__(x[::-1]),
    lambda m, x, y: x[1:].__iadd__(x[:-1]), lambda m, x, y: x.__setitem__(slice(None, None, 2), 0.25),
    lambda m, x, y: x.__setitem__(slice(1, None), x[:-1]),
    lambda m, x, y: x.__setitem__(slice(1, -1), y[1:-1]),
    lambda m, x, y: x.__itruediv__(y[:1])]


@pytest.mark.parametrize("write", WRITES)
def test_arrays_are_written_at_once_and_views_see_it(write: Callable[[Any, Any, Any], Any]) -> None:
    plain, other = RANDOM.random(2 * N), RANDOM.random(2 * N)
    x, y = np.array(plain), np.array(other)
    view, pending = x[10:], x * 2.0
    with allowed():
        write(np, x, y)                                  # a task reads what was there
        float(x[0])
        assert counted(lambda: write(np, x, y)) == (0, 1)
    for _ in range(2):
        write(numpy, plain, other)
    assert numpy.asarray(view).tobytes() == plain[10:].tobytes()
    assert numpy.asarray(x).tobytes() == plain.tobytes() and pending.shape == (2 * N,)


def test_parts_are_written_at_once_before_a_reduction_was() -> None:
    """Reductions at hand tell the extension, too, that the memory of arrays is that of their stores."""
    x, y = np.array(RANDOM.random(3 * N)) * 1.0, np.array(RANDOM.random(3 * N))
    assert x[0] >= 0.0
    core.see(False)
    try:
        soon.allow(1 << 30)
        assert counted(lambda: x.__setitem__(slice(5, None), y[:-5])) == (0, 1)
    finally:
        soon.allow(0)
    assert numpy.array_equal(numpy.asarray(x)[5:], numpy.asarray(y)[:-5])


def test_pending_operands_are_not_waited_for() -> None:
    x, z = np.array(RANDOM.random(N)), np.array(RANDOM.random(N))
    y = np.exp(x)
    with allowed():
        assert counted(lambda: y + z) == (1, 0)
        assert counted(lambda: z[1:] * z[:-1]) == (1, 0)
        engine.fence()
        assert counted(lambda: z[1:] * z[:-1]) == (0, 1)


def test_no_more_is_done_at_once_than_was_allowed() -> None:
    x = np.array(RANDOM.random(N))
    with allowed(2_000_000):                             # three sums of 0.56 MB
        assert counted(lambda: [x + x for _ in range(8)]) == (5, 3)
        engine.fence()
        assert counted(lambda: x + x) == (1, 0)
    engine.fence()
    with allowed(2_000_000):
        assert counted(lambda: [float((x + x)[0]) for _ in range(8)]) == (0, 8)


def test_errors_and_warnings_are_numpys_at_the_programs_line() -> None:
    x = np.array(values("float64"))
    whole = np.arange(N)
    with allowed():
        with warned() as caught:
            _ = x / 0.0
        assert {(w.category, w.filename) for w in caught} == {(RuntimeWarning, __file__)}
        with numpy.errstate(all="raise"), pytest.raises(FloatingPointError):
            _ = x / 0.0
        with pytest.raises(ValueError, match="could not be broadcast together"):
            _ = x + x[1:]
        with pytest.raises(numpy._core._exceptions._UFuncOutputCastingError):
            whole += 0.5


@pytest.mark.parametrize("points, single", [(2, 0), (1, 6)])
def test_what_is_so_large_that_threads_share_it_is_recorded(points: int, single: int,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array(numpy.random.default_rng(1).random(1 << 20))
    monkeypatch.setattr(engine.current().runtime, "points", points)

    def turns() -> None:
        for _ in range(6):
            y = x + x
            engine.fence()
            del y

    turns()
    assert counted(turns) == (6 - single, single)


def test_where_everything_is_recorded_nothing_is_done_at_once() -> None:
    with settings.using(small=0):
        x = np.array(RANDOM.random(N))
        assert {counted(lambda: float((x + 1.0).max())) for _ in range(3 * OFTEN)} == {(2, 0)}


def test_a_loop_over_slices_counts_as_a_value_that_is_read() -> None:
    plain = RANDOM.random((100, N // 100))
    x = np.array(plain)

    def turn(y: Any) -> Any:
        y = y * 0.5 + 1.0
        for k in range(1, 90):
            y[k] = y[k - 1] * 0.5 + y[k]
        return y

    def faces(y: Any) -> Any:
        y = y * 0.5 + 1.0
        y[0] = y[1] * 2.0
        return y

    few = 6 * plain.nbytes + 4 * 80_000
    for step, most in ((turn, 0), (faces, 8)):
        with allowed(few):
            y, z, recorded = x, plain, 0
            for _ in range(4):
                results: list[Any] = []
                recorded += counted(lambda: results.append(step(y)))[0]  # noqa: B023
                y, z = results[0], step(z)
        assert (recorded == 0) if most == 0 else recorded >= most
        assert numpy.asarray(y).tobytes() == z.tobytes()


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_narrow_integers_that_numpy_converts_to_wide_ones_count_as_these(name: str) -> None:
    plain = numpy.arange(400_000).astype(numpy.uint8) % 3 + 1
    found: list[Any] = []
    for allowance, done in ((8, (1, 0)), (32, (0, 1))):
        x = np.array(plain)
        with allowed(allowance * x.size):
            assert counted(lambda: found.append(getattr(x, name)())) == done  # noqa: B023
    expected = getattr(plain, name)()
    assert all(numpy.asarray(one).tobytes() == expected.tobytes() for one in found)
