"""The public way into the stream: operations, stores and tasks of a library that is not NumPy or SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from apps import lattice
from diffuse import library
from diffuse.library import Access, AccessMap, Decomposition, IndexTask, Operation, Privilege, Scalar, Split
from diffuse.observe import trace
from tests.around import around, fenced

READ, WRITE = Privilege.READ, Privilege.WRITE
N = 40_000


quiet = around(fenced, compile="off", window="auto")


def declared(name: str, **options: Any) -> Operation:
    """An operation of this file, declared once."""
    row = Operation(f"test_library.{name}", **options)
    if not library.operations.known(row.name):
        library.declare(row)
    return row


def axpy(b: library.Builder) -> None:
    b.store(b.emit("add", "float64", b.input(0), b.emit("multiply", "float64", b.input(1), b.input(2))))


def vector(values: Any) -> library.Storage:
    return library.attach(numpy.array(values, dtype="float64"))


def task(out: library.Storage, x: library.Storage, y: library.Storage, **changes: Any) -> IndexTask:
    declared("axpy", arity=3, body=axpy)
    accesses = tuple([Access(s.store, library.whole(s), p) for s, p in ((x, READ), (y, READ), (out, WRITE))])
    made = IndexTask("test_library.axpy", ("float64",) * 4, x.store.shape, accesses,
                     (Scalar(1, "float64", 2.0),))
    return made._replace(**changes)


def test_a_task_of_anybody_is_computed() -> None:
    x, y = vector(numpy.arange(N)), vector(numpy.ones(N))
    out = library.create((N,), "float64")
    library.submit(task(out, x, y), [x, y, out])
    numpy.testing.assert_array_equal(library.value(out), numpy.arange(N) + 2.0)
    assert not library.value(out).flags.writeable


def test_it_fuses_with_numpys_tasks_around_it() -> None:
    x, y = np.arange(N) * 1.0, np.ones(N)
    library.fence()
    already, launched = len(diffuse.explain().plans), trace.counters["launched"]
    twice = y * 2.0
    out = library.create((N,), "float64")
    storages = [x.__diffuse__()[0], twice.__diffuse__()[0], out]
    library.submit(task(out, storages[0], storages[1]), storages)
    result = np.sqrt(np.asarray(lattice.Field(out)))
    del twice, out, storages
    library.flush()
    assert trace.counters["launched"] == launched + 1
    (plan,) = diffuse.explain().plans[already:]
    assert plan.operations == ("multiply", "test_library.axpy", "sqrt") and plan.loops == 1
    assert all(where.startswith(__file__) for where in plan.where)
    numpy.testing.assert_array_equal(numpy.array(result), numpy.sqrt(numpy.arange(N) + 4.0))


def test_equal_tasks_are_replayed() -> None:
    x, y = vector(numpy.arange(N)), vector(numpy.ones(N))
    plans = set()
    for _ in range(3):
        out = library.create((N,), "float64")
        library.submit(task(out, x, y), [x, y, out])
        library.fence()
        plans.add(trace.counters["plans"])
    assert len(plans) == 1


def test_a_decomposition_of_its_own_is_taken() -> None:
    x, y, out = vector(numpy.arange(N)), vector(numpy.ones(N)), library.create((N,), "float64")
    library.submit(task(out, x, y, decomposition=Decomposition((4,), (Split(0, N // 4),))), [x, y, out])
    (held,) = library.current().window.open.tasks
    assert held.domain == (4,) and len(held.splits) == 1
    numpy.testing.assert_array_equal(library.value(out), numpy.arange(N) + 2.0)


def test_maps_need_no_views() -> None:
    """Every second element backwards, as the IR writes it."""
    x, y, out = vector(numpy.arange(N)), vector(numpy.ones(N)), library.create((N // 2,), "float64")
    declared("axpy", arity=3, body=axpy)
    backwards = AccessMap(((N - 1, ((0, -2),)),))
    straight = AccessMap(((0, ((0, 1),)),))
    accesses = (Access(x.store, backwards, READ), Access(y.store, straight, READ),
                Access(out.store, straight, WRITE))
    library.submit(IndexTask("test_library.axpy", ("float64",) * 4, (N // 2,), accesses,
                             (Scalar(1, "float64", 2.0),)), [x, y, out])
    numpy.testing.assert_array_equal(library.value(out), numpy.arange(N)[::-2] + 2.0)


@pytest.mark.parametrize("index", [..., slice(3, 17, 2), (slice(None, None, -1), 2), (1, 2),
                                   (..., slice(1, 3))])
def test_parts_are_what_numpy_slices(index: Any) -> None:
    values = numpy.arange(200.0).reshape(20, 10)
    storage, want = library.attach(values), values[index]
    view = library.part(storage, index)
    out = library.create(view.shape, "float64")
    library.record("copy", ("float64", "float64"), view.shape, ((storage, view),),
                   ((out, library.whole(out)),))
    numpy.testing.assert_array_equal(library.value(out), want)


def test_a_part_of_a_store_is_described_and_never_read() -> None:
    storage = library.create((1_000_000, 1_000_000), "float64")         # eight terabytes, without memory
    for index, shape, offset in [((999_999, 5), (), 999_999 * 8_000_000 + 40), (7, (1_000_000,), 56_000_000),
                                 ((..., 3), (1_000_000,), 24), ((numpy.int64(-1), slice(0, 3)), (3,), None)]:
        found = library.part(storage, index)
        assert found.shape == shape and offset in (None, found.offset)


@pytest.mark.parametrize("index, error, words", [
    ([1, 2], TypeError, "index [1, 2] of a store of shape (4, 5): expected slices"),
    ((slice(None), numpy.array([0, 1])), TypeError, "expected slices, integers"),
    (True, TypeError, "index True"), ("x", TypeError, "index 'x'"), (1.5, TypeError, "index 1.5"),
    (4, IndexError, "out of bounds"), ((0, 0, 0), IndexError, "too many indices"),
])
def test_indices_that_are_no_views_are_refused(index: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        library.part(library.create((4, 5), "float64"), index)
    assert words in str(raised.value)


def test_bad_tasks_are_refused_at_the_call() -> None:
    x, y, out = vector(numpy.arange(N)), vector(numpy.ones(N)), library.create((N,), "float64")
    good = task(out, x, y)
    first = AccessMap(((0, ()),))
    for wrong, storages, words in [
        (good, [x, y], f"store {out.id} of task 'test_library.axpy' is not among the handles"),
        (good._replace(operation="test_library.nothing"), [x, y, out], "declare it first"),
        (good._replace(accesses=(*good.accesses[:2], good.accesses[2]._replace(map=first)),
                       decomposition=Decomposition((4,), (Split(0, N // 4),))), [x, y, out],
         "disjoint writes: "),
        (good._replace(shape=(N + 1,)), [x, y, out], "keep the view within its store"),
        (good._replace(signature=("float64",)), [x, y, out], "1 element types for 3 accesses"),
        (good._replace(accesses=(good.accesses[0]._replace(store=x.store._replace(shape=(2 * N,))),
                                 *good.accesses[1:])), [x, y, out], "larger than the store of shape"),
    ]:
        with pytest.raises(ValueError) as raised:  # noqa: PT011
            library.submit(wrong, storages)
        assert words in str(raised.value), str(raised.value)
    library.submit(good, [x, y, out])       # the session goes on
    numpy.testing.assert_array_equal(library.value(out), numpy.arange(N) + 2.0)


@pytest.mark.parametrize("name, words", [
    ("untyped", "float64 in argument 1 of int32"), ("short", "takes 2 inputs, not 1"),
    ("unknown", "'no_such_op' is no op"), ("greedy", "its body is not well formed"),
    ("idle", "leaves an output as it is"), ("binary", "'test_library.binary' takes 2 inputs, not 1")])
def test_a_body_that_does_not_type_check_is_refused_at_the_call(name: str, words: str) -> None:
    def body(b: library.Builder) -> None:
        x = b.input(0)
        match name:
            case "untyped":
                b.emit("store", "float64", b.emit("exp", "float64", x), attribute=b.outputs[0].argument)
            case "short":
                b.store(b.emit("add", "float64", x))
            case "unknown":
                b.store(b.emit("no_such_op", "float64", x))
            case "greedy":
                b.store(b.input(7))
            case "idle":
                b.emit("exp", "float64", x)

    declared(name, arity=2 if name == "binary" else 1, body=body)
    x, out = vector(numpy.ones(N)), library.create((N,), "int32" if name == "untyped" else "float64")
    for _ in range(2):
        with pytest.raises(TypeError) as raised:
            library.record(f"test_library.{name}", ("float64", "float64"), (N,), ((x, library.whole(x)),),
                           ((out, library.whole(out)),))
        assert words in str(raised.value) and f"test_library.{name}" in str(raised.value), str(raised.value)
    numpy.testing.assert_array_equal(library.value(x), 1.0)     # the session goes on


def test_an_operation_is_declared_once() -> None:
    row = declared("axpy", arity=3, body=axpy)
    with pytest.raises(ValueError, match="'test_library.axpy' is declared already.*choose another name"):
        library.declare(row)
    with pytest.raises(ValueError, match="'test_library.empty' has no body: write it in other operations"):
        library.declare(Operation("test_library.empty"))


THREE: Any = 3
WRONG: list[tuple[Any, str]] = [
    (lambda: library.declare(THREE), "declare: 3 is no operation; give it Operation"),
    (lambda: library.join(THREE), r"join: 3 is no name of a package; write join\(__name__\)"),
    (lambda: library.whole(THREE), "3 is no handle of a store: give the one that `create`"),
    (lambda: library.value(THREE), "3 is no handle of a store: give the one that `create`"),
    (lambda: library.create(THREE, "float64"), "no store has shape 3 and dtype 'float64': give a tuple"),
    (lambda: library.create((3,), "f8"), r"shape \(3,\) and dtype 'f8': .* one of bool, int8"),
    (lambda: library.submit(THREE, ()), "submit: 3 is no task; make an IndexTask"),
    (lambda: library.call("x", THREE, (), ()), "call: 3 is no function; give one"),
    (lambda: library.attach(numpy.zeros(3, ">f8")), "dtype >f8: .* or swapped bytes; pass np.ascontig"),
    (lambda: library.attach(THREE), r"attach: 3 is no array of NumPy's; give it numpy.asarray\(it\)"),
    (lambda: library.record(THREE), r"record: operation 3 is no name; write record\(operation, signature"),
    (lambda: library.record("add"), r"record: signature \(\) of operation 'add'; give a tuple of the names"),
    (lambda: library.record("add", ("float64",) * 3, THREE), "record: shape 3 .*; give the tuple of the ext"),
    (lambda: library.record("sin", ("float64",) * 2, (3,), THREE), "record: inputs 3 .*; give a tuple of"),
    (lambda: library.record("sin", ("float64",) * 2, (3,), (THREE,), (THREE,)),
     r"record: 3 among the inputs of operation 'sin'; .* such as \(x, whole\(x\)\), or a Scalar"),
    (lambda: library.record("sin", ("float64",) * 2, (3,), (Scalar(0, "float64", 1.),)),
     r"record: outputs \(\) of operation 'sin'; give a tuple of operands"),
    (lambda: diffuse.schedule(THREE), r"schedule: the grid 3 is no sequence .*; write grid=\(3,\), or i=3"),
    (lambda: diffuse.explain(THREE), r"explain: 3 is given, .*then print\(diffuse.explain\(\)\)"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_wrong_arguments_are_named_with_what_to_do(wrong: Callable[[], Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        wrong()


def test_a_field_is_an_array_to_numpy_and_back() -> None:
    values = numpy.arange(60.0).reshape(6, 10)
    field = lattice.Field.of(np.array(values))
    inner = np.asarray(field.inside)
    numpy.testing.assert_array_equal(numpy.array(inner), values[1:-1, 1:-1])
    inner += 1.0
    numpy.testing.assert_array_equal(numpy.array(np.asarray(field))[1:-1, 1:-1], values[1:-1, 1:-1] + 1.0)
    assert float(np.sum(field)) == numpy.array(np.asarray(field)).sum()


def test_the_lattice_library_computes_what_numpy_does() -> None:
    size = 64
    field = lattice.start(size)
    plain = numpy.array(np.asarray(field))
    for _ in range(5):
        picture = numpy.array(lattice.step(field))
        u = plain[1:-1, 1:-1]
        total = (plain[:-2, 1:-1] + plain[2:, 1:-1]) + (plain[1:-1, :-2] + plain[1:-1, 2:])
        change = total - 4.0 * u + u - u * u * u
        u += 0.1 * change
        numpy.testing.assert_allclose(picture, 1 / (1 + numpy.exp(-8.0 * u)), rtol=1e-12)
    numpy.testing.assert_array_equal(numpy.array(np.asarray(field)), plain)


def test_its_operations_join_those_of_numpy_and_scipy() -> None:
    field = lattice.start(300)
    already = len(diffuse.explain().plans)
    for _ in range(2):
        lattice.step(field)
    library.fence()
    together = [set(plan.operations) for plan in diffuse.explain().plans[already:]]
    assert any({"lattice.laplacian", "multiply", "subtract"} <= found for found in together)
    assert any({"lattice.relaxed", "special.expit"} <= found for found in together)
