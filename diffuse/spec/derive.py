"""Derives descriptions of recorded operations: an index task has loops and access maps itself."""

from __future__ import annotations

from diffuse.ir import AccessMap, IndexTask, Privilege
from diffuse.kernels.body import operations
from diffuse.spec.opspec import REDUCERS, Indexing, Loop, OpSpec

FOLDED = {**dict(zip(REDUCERS, REDUCERS, strict=True)), "dot": "sum", "dot:matmul": "sum",
          "vdot": "sum"}
"""Operations that fold dimensions, with how they fold values."""

LINEAR = {"copy": {0}, "negative": {0}, "positive": {0}, "multiply": {0, 1}, "divide": {0}, "real": {0},
          "imag": {0}, "conjugate": {0}, "sum": {0}, "dot": {0, 1}, "dot:matmul": {0, 1},
          "vdot": {0, 1}}
"""Operations that are linear in some inputs while the others stay constant, with the positions of these
inputs."""


def of_task(task: IndexTask) -> OpSpec:
    """Describe what an index task computes; its loops are called `i0`, `i1`, ... as its dimensions.

    Inputs passed by value are not operands.  A dimension along which the operation accumulates, as `cumsum`,
    or writes where data say, is not a loop, as each iteration needs the whole of it; nor is one that the
    operation folds other than by a reducer, as `argmax` does.
    """
    whole = _whole(task)
    names = [k for k in range(len(task.shape)) if k not in whole]
    numbers = {k: n for n, k in enumerate(names)}
    results = [a for a in task.accesses if a.privilege is not Privilege.READ]
    loops = tuple(Loop(f"i{k}", task.shape[k], not results[0].map.follows(k)) for k in names)
    uses = [(a.privilege, Indexing(n, _map(a.map, numbers))) for n, a in enumerate(task.accesses)]
    given = {scalar.position for scalar in task.scalars}
    stores = [p for p in range(len(task.accesses) + len(given)) if p not in given]
    linear = LINEAR.get(task.operation, set())
    reads = [use for privilege, use in uses if privilege.reads]
    return OpSpec(loops, tuple(reads), tuple(use for privilege, use in uses if not privilege.reads
                                             or privilege is Privilege.READ_WRITE),
                  FOLDED[task.operation] if any(loop.reduced for loop in loops) else None,
                  frozenset(use.operand for use in reads if stores[use.operand] in linear))


def _whole(task: IndexTask) -> frozenset[int]:
    """The dimensions that a task traverses sequentially or cyclically shifted, in which it writes where data
    say, or that it folds other than by a reducer."""
    turned = {k for access in task.accesses for k, _ in access.map.turned}
    name, _, attribute = task.operation.partition(":")
    if name.startswith("scatter"):  # "scatter:d0", where the dimension is the last number
        attribute = attribute[1:]
    scans = attribute.isdigit() and not operations.find(task.operation).elementwise
    folded = {k for k in range(len(task.shape)) for access in task.accesses
              if access.privilege is not Privilege.READ and not access.map.follows(k)}
    return frozenset(turned | ({int(attribute)} if scans else set())
                     | (folded if task.operation not in FOLDED else set()))


def _map(map: AccessMap, numbers: dict[int, int]) -> AccessMap:
    """The access map over the remaining loops; dimensions that follow other loops are needed whole."""
    free = {d for d, (_, terms) in enumerate(map.rows) if any(k not in numbers for k, _ in terms)}
    free |= {*map.free}
    rows = [(0, ()) if d in free else (offset, tuple([(numbers[k], step) for k, step in terms]))
            for d, (offset, terms) in enumerate(map.rows)]
    return AccessMap(tuple(rows), tuple(sorted(free)))
