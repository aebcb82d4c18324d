"""Random bodies with the memory that they run on, and what they mean on whole arrays, op by op."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import Privilege
from diffuse.ir.loops import NEAR, REPEATS, SHORT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.body.operations import EXTREMES, FOLDS, INDEXED, TRUTH
from diffuse.kernels.grid import schedule
from diffuse.kernels.meaning import functions
from diffuse.kernels.meaning.reduce import STEP, definition

Array = NDArray[Any]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16")
COMPLEX = ("complex64", "complex128")
DTYPES = ("float64", "float64", "float32", "float16", "bool", *INTEGERS, *COMPLEX)

COMPARE = "equal not_equal less less_equal greater greater_equal".split()
LOGIC = "logical_and logical_or logical_xor".split()
BITS = "bitwise_and bitwise_or bitwise_xor".split()
BINARY = {
    "f": """add subtract multiply divide floor_divide remainder fmod maximum minimum fmax fmin copysign
         nextafter heaviside""".split(),
    "i": ["add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "maximum", "minimum",
          "left_shift", "right_shift", "gcd", "lcm", *BITS],
    "b": [*LOGIC, *BITS, "maximum", "minimum"],
    "c": ["add", "subtract"],
}
UNARY = {
    "f": """negative positive absolute fabs sign rint floor ceil trunc sqrt square reciprocal spacing degrees
         radians modf_0 modf_1 frexp_0""".split(),
    "i": "negative positive absolute sign square invert".split(),
    "b": ["logical_not", "invert"],
    "c": ["negative", "conjugate"],
}
PREDICATES = {"f": ["isfinite", "isinf", "isnan", "signbit"], "i": [], "b": [], "c": ["isnan", "isfinite"]}
TRANSCENDENTAL = {
    "f": """exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh
         arccosh arctanh cbrt erf erfc power3 power5 power-2 power-1.5""".split(),
    "c": "exp log sin cos sqrt square tanh".split(), "i": [], "b": [],
}


def family(dtype: str) -> str:
    kind = np.dtype(dtype).kind
    return "i" if kind == "u" else kind


def folds(dtype: str) -> list[str]:
    """The operators of reductions and scans that values of an element type have."""
    arithmetic, bits = {"sum", "prod"}, {name for name in FOLDS if name.startswith("bit")}
    real = arithmetic | EXTREMES
    by_family = {"b": TRUTH | bits, "c": arithmetic, "f": real, "i": real | bits}
    return [name for name in FOLDS if name in by_family[family(dtype)]]


class Case:
    """A body, its arrays, and the values that launch it."""

    def __init__(self, seed: int, transcendental: bool = False, rank: int | None = None,
                 flat: bool = False, rows: bool = False) -> None:
        self.random = random.Random(seed)
        self.rows = rows
        """Does each point complete reductions, which are of whole rows, and do later loops read them?"""
        self.flat = flat
        """Are most arrays whole, of a short last dimension, and loops plain?"""
        self.transcendental = transcendental
        self.rank = self.random.randrange(2 if flat or rows else 0, 4) if rank is None else rank
        self.extents = self._extents()
        self.memory: list[Array] = []
        self.views: list[Array] = []
        self.arguments: list[Argument] = []
        self.scalars: list[tuple[str, Any]] = []
        self.stored: list[int] = []
        self.reducing: set[int] = set()
        self.folded: list[int] = []
        """Results of reductions that loops may read after the one that reduces."""
        self.scanning: set[int] = set()
        self.turning: set[int] = set()
        """Arguments that are read shifted: a loop that writes them, too, would depend on itself."""
        loops = tuple(self._loop() for _ in range(self.random.choice([2, 3] if rows else [1, 1, 2, 3])))
        cuts = self._split()
        self.axes, self.tiles, self.domain = (tuple(x) for x in zip(*cuts, strict=True))
        self.points = prod(self.domain)
        flat = self.rank > 1 and 1 < self.extents[-1] <= SHORT and self.rank - 1 not in self.axes
        self.body = Body((Space(self.rank, self.axes, int(flat)),), tuple(self.arguments),
                         tuple(d for d, _ in self.scalars), loops)
        if rows and self.axes[0] >= 0:
            self.body = replace(self.body, whole=tuple(range(len(abi.reductions(self.body)))))
        elif not rows and seed % 2:
            count = range(len(abi.reductions(self.body)))
            self.body = replace(self.body, parts=tuple([k for k in count if abi.leaf_runs(self.body, k)]))

    def _extents(self) -> tuple[int, ...]:
        r = self.random
        outer = [r.choice([1, 2, 3, 5, 33, 40]) for _ in range(self.rank)]
        if self.rank:
            outer[-1] = r.choice([1, 3, 8, 31, 33, 100, 1024, 2500 if self.rank == 1 else 7])
        if self.flat:
            outer[-2:] = r.choice([1, 2, 5, 33, 100]), r.choice([2, 3, 5, 7, 8, 9, 15, 17, 26, 32])
        if self.rank and r.random() < 0.03:
            outer[r.randrange(self.rank)] = 0
        while np.prod(outer, dtype=int) > 6000:
            outer[r.randrange(self.rank)] = 2
        return tuple(int(n) for n in outer)

    def _split(self) -> list[tuple[int, int, int]]:
        """For each launch dimension the axis that it cuts, a tile that cuts no leaf of a reduction, and how
        many points: now and then some without iterations, and a dimension that cuts nothing."""
        r = self.random
        free = [d for d in range(self.rank) if d not in self.scanning]
        free = [d for d in free if d not in self.reducing] if self.rows else free
        if not free or r.random() < (0.1 if self.rows else 0.3) or 0 in self.extents:
            return [(-1, 0, 1)]
        cuts = []
        for axis in r.sample(free, r.randint(1, len(free))):
            unit = 1 if axis not in self.reducing else 1024 if axis == self.rank - 1 else 32
            tile = unit * r.choice([1, 2, 7])
            cuts.append((axis, tile, -(-self.extents[axis] // tile) + r.choice([0, 0, 2])))
        if r.random() < 0.1 and not self.rows:
            cuts.insert(r.randint(0, len(cuts)), (-1, 0, 2))
        return cuts

    # memory

    def array(self, dtype: str, followed: Sequence[bool], blank: bool) -> Array:
        """A view with random steps and order of dimensions, over memory of its own."""
        r = self.random
        whole = self.flat and (blank or r.random() < 0.6)
        steps = [1 if whole else r.choice([1, 1, 1, 2, -1, -2]) for _ in self.extents]
        if whole and followed[-1]:
            steps[-1] = r.choice([1, 1, 1, 1, 2, 3, 4])
        order = list(range(self.rank))
        if not whole and r.random() < 0.3:
            r.shuffle(order)
        shape = [self.extents[d] * abs(steps[d]) if followed[d] else 1 for d in order]
        memory = self.fill(dtype, shape, blank)
        self.memory.append(memory)
        view = memory[(*(slice(None, None, steps[d]) if followed[d] else slice(None) for d in order), ...)]
        view = view.transpose([order.index(d) for d in range(self.rank)])
        exact = [slice(None, n) if f else slice(None) for n, f in zip(self.extents, followed, strict=True)]
        return view[(*exact, ...)]

    def fill(self, dtype: str, shape: Sequence[int], blank: bool) -> Array:
        draw = np.random.default_rng(self.random.randrange(1 << 30))
        kind = family(dtype)
        if blank:
            return np.zeros(shape, dtype)
        if kind == "b":
            return np.asarray(draw.random(shape) < 0.5)
        if kind == "i":
            low, high = (0, 100) if dtype.startswith("u") else (-100, 100)
            return np.asarray(draw.integers(low, high, shape), dtype)
        values = np.asarray(draw.standard_normal(shape) * draw.choice([1, 30], shape))
        special = np.asarray(draw.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0], shape))
        values = np.where(draw.random(shape) < 0.1, special, values)
        if kind == "c":
            return np.asarray(values + 1j * draw.standard_normal(shape), dtype)
        return np.asarray(values, dtype)

    def argument(self, dtype: str, followed: Sequence[bool], privilege: Privilege, view: Array | None = None,
                 slot: int | None = None) -> int:
        view = self.array(dtype, followed, privilege is not Privilege.READ) if view is None else view
        classes = "".join("0" if not f else "1" if s == view.itemsize else "s"
                          for f, s in zip(followed, view.strides, strict=True))
        step = view.strides[-1] // view.itemsize if view.ndim else 0
        nears = (2, 3, 4) if self.flat else (2,)
        if classes[-1:] == "s" and step in nears and len(self.arguments) % 2:
            classes = classes[:-1] + str(step)
        rows = len(classes) > 1 and self.extents[-1] * view.strides[-1] == view.strides[-2]
        if classes[-1:] in (*"1", *NEAR) and rows and followed[-2]:
            classes = classes[:-2] + "c" + classes[-1]
        for letter, times in REPEATS.items():
            one = 4 <= view.itemsize <= 8 and view.dtype.kind != "c"
            if classes[-2:] == "10" and one and self.extents[-1] == times and self.flat:
                classes = classes[:-2] + letter + "0"
        slot = len(self.arguments) if slot is None else slot
        self.arguments.append(Argument(slot, 0, dtype, 0, classes, privilege))
        self.views.append(view)
        return len(self.arguments) - 1

    # ops

    def _loop(self) -> Loop:
        r = self.random
        self.ops: list[Op] = []
        for _ in range(r.randrange(1, 4)):
            self._source()
        for _ in range(r.randrange(1, 12)):
            step: Any = r.choice([self._compute] * 3 + [self._source, self._store, self._cast])
            step()
        for _ in range(0 if self.flat else r.choice([1, 2] if self.rows else [0, 0, 1, 2])):
            self._reduce()
        reduces = any(op.kind == "reduce" for op in self.ops)
        scanned = self._scan() if not self.flat and r.random() < 0.1 and self.rank and not reduces else None
        self._store()
        order = list(range(self.rank))
        if not reduces and not self.flat and r.random() < 0.3:
            r.shuffle(order)
        if scanned is not None:
            order.sort(key=lambda d: d == scanned)  # a compiled scan runs along the innermost loop
        return Loop(0, tuple(order), tuple(self.ops))

    def emit(self, kind: str, dtype: str, *args: int, attribute: Any = None) -> int:
        self.ops.append(Op(kind, dtype, args, attribute))
        return len(self.ops) - 1

    def value(self, dtype: str | None = None) -> int:
        """A value computed before, of this element type if there is one."""
        found = [i for i, op in enumerate(self.ops) if op.kind not in ("store", "reduce")
                 and dtype in (None, op.dtype)]
        return self.random.choice(found) if found else self._source(dtype)

    def _source(self, dtype: str | None = None) -> int:
        r = self.random
        form = r.random()
        if dtype is None and self.stored and form < 0.3:
            argument = r.choice(self.stored)
            return self.emit("load", self.arguments[argument].dtype, attribute=self._again(argument))
        if dtype is None and self.folded and form < 0.5:
            argument = r.choice(self.folded)
            return self.emit("load", self.arguments[argument].dtype, attribute=self._again(argument))
        if dtype is None and form < 0.4 and self.rank and not self.flat:
            return self.emit("index", "int64", attribute=r.randrange(self.rank))
        dtype = dtype or r.choice(DTYPES)
        if form < 0.55:
            literal = self.fill(dtype, (), False).item()
            if form < 0.45:
                return self.emit("const", dtype, attribute=literal)
            self.scalars.append((dtype, literal))
            return self.emit("scalar", dtype, attribute=len(self.scalars) - 1)
        followed = [r.random() < 0.85 for _ in range(self.rank)]
        if form > 0.9 and self.rank and 0 not in self.extents and not self.flat:
            return self._turned(dtype, self.argument(dtype, followed, Privilege.READ))
        return self.emit("load", dtype, attribute=self.argument(dtype, followed, Privilege.READ))

    def _turned(self, dtype: str, argument: int) -> int:
        """The elements of an argument, shifted cyclically."""
        r, shifts = self.random, list[int]()
        self.turning.add(argument)
        along = tuple(r.sample(range(self.rank), r.randint(1, self.rank)))
        for d in along:
            self.scalars.append(("int64", r.randrange(self.extents[d])))
            shifts.append(self.emit("scalar", "int64", attribute=len(self.scalars) - 1))
        return self.emit("turn", dtype, *shifts, attribute=(argument, along))

    def _again(self, argument: int) -> int:
        """The same elements once more, as an argument that is read."""
        a = self.arguments[argument]
        followed = [c != "0" for c in a.classes]
        return self.argument(a.dtype, followed, Privilege.READ, self.views[argument], a.slot)

    def _compute(self) -> None:
        r = self.random
        first = self.value()
        dtype = self.ops[first].dtype
        kind = family(dtype)
        form = r.random()
        if self.transcendental and TRANSCENDENTAL[kind] and form < 0.4:
            self.emit(r.choice(TRANSCENDENTAL[kind]), dtype, first)
        elif form < 0.5:
            self.emit(r.choice(BINARY[kind]), dtype, first, self.value(dtype))
        elif form < 0.7:
            self.emit(r.choice(UNARY[kind]), dtype, first)
        elif form < 0.8:
            names = COMPARE if kind != "c" else ["equal", "not_equal"]
            self.emit(r.choice(names), "bool", first, self.value(dtype))
        elif form < 0.85 and PREDICATES[kind]:
            self.emit(r.choice(PREDICATES[kind]), "bool", first)
        elif form < 0.9 and kind == "c":
            self.emit(r.choice(["real", "imag"]), np.empty(0, dtype).real.dtype.name, first)
        elif form < 0.95:
            self.emit("where", dtype, self.value("bool"), first, self.value(dtype))
        elif kind in "fi":
            self.emit("clip", dtype, first, self.value(dtype), self.value(dtype))

    def _cast(self) -> None:
        value, dtype = self.value(), self.random.choice(DTYPES)
        source = self.ops[value].dtype
        if dtype == source:
            return
        if family(source) in "fc" and family(dtype) == "i":  # outside its range the result is undefined
            if family(source) == "c":
                source = np.empty(0, source).real.dtype.name
                value = self.emit("real", source, value)
            low, high, zero = (self.emit("const", source, attribute=float(x)) for x in (0, 100, 0))
            bad = self.emit("isnan", "bool", value)
            value = self.emit("where", source, bad, zero, self.emit("clip", source, value, low, high))
        self.emit("cast", dtype, value)

    def _store(self) -> None:
        """To memory of its own, or over an array that was read."""
        r = self.random
        value = self.value()
        dtype = self.ops[value].dtype
        read = [k for k, a in enumerate(self.arguments) if a.dtype == dtype and a.privilege is Privilege.READ
                and "0" not in a.classes and k not in self.turning]
        if read and r.random() < 0.4:
            k = r.choice(read)
            slot = self.arguments[k].slot
            target = self.argument(dtype, [True] * self.rank, Privilege.WRITE, self.views[k], slot)
        else:
            target = self.argument(dtype, [True] * self.rank, Privilege.WRITE)
            self.stored.append(target)
        self.emit("store", dtype, value, attribute=target)

    def _reduce(self) -> None:
        r = self.random
        value = self.value()
        dtype = self.ops[value].dtype
        operator = r.choice([*folds(dtype), *([] if family(dtype) in "bc" else sorted(INDEXED))])
        if dtype == "float16" or 0 in self.extents:
            return
        followed = [r.random() < 0.5 for _ in range(self.rank)]
        if self.rows:
            followed = [True] * (self.rank - 1) + [False]
        self.reducing |= {d for d in range(self.rank) if not followed[d]}
        result = "int64" if operator.startswith("arg") else dtype
        target = self.argument(result, followed, Privilege.WRITE)
        if self.rows:
            self.folded.append(target)
        self.emit("reduce", dtype, value, attribute=(operator, target))

    def _scan(self) -> int | None:
        value, dim = self.value(), self.random.randrange(self.rank)
        dtype = self.ops[value].dtype
        if dtype == "float16":
            return None
        self.scanning.add(dim)
        self.emit("scan", dtype, value, attribute=(self.random.choice(folds(dtype)), dim))
        return dim

    # running

    def values(self, points: int, partials: Sequence[Array]) -> list[int | float]:
        many = len(self.domain)
        words: list[int | float] = [*self.domain, *self.tiles, *self.extents]
        if points == 1:
            words[:2 * many] = [1] * many + [max(1, *self.extents, 1)] * many
        for argument, view in zip(self.arguments, self.views, strict=True):
            words.append(view.ctypes.data)
            words += [0 if c == "0" else s for c, s in zip(argument.classes, view.strides, strict=True)]
        for dtype, value in self.scalars:
            words += [value.real, value.imag] if family(dtype) == "c" else [value]
        return words + [p.ctypes.data for p in partials]

    def partials(self) -> list[Array]:
        return [np.full(abi.partial_bytes(self.body, reduction, self.extents) + 16, 0xAB, "uint8")
                for reduction in abi.reductions(self.body)]

    def save(self) -> list[Array]:
        return [m.copy() for m in self.memory]

    def restore(self, saved: Sequence[Array]) -> None:
        for m, s in zip(self.memory, saved, strict=True):
            m[...] = s

    def evaluate(self) -> None:
        """The meaning of the body, on whole arrays."""
        with np.errstate(all="ignore"):
            for loop in self.body.loops:
                env: list[Any] = []
                late = []
                for op in loop.ops:
                    env.append(self._evaluate(op, env))
                    if op.kind == "reduce":
                        late.append((op, env[op.args[0]]))
                for op, value in late:
                    operator, target = op.attribute
                    kept = [d for d, c in enumerate(self.arguments[target].classes) if c != "0"]
                    reduced = [d for d in range(self.rank) if d not in kept]
                    out = self.views[target].transpose(kept + reduced)[(..., *[0] * len(reduced))]
                    out[...] = definition(operator, np.broadcast_to(value, self.extents), reduced)

    def _evaluate(self, op: Op, env: list[Any]) -> Any:
        match op.kind:
            case "load":
                return np.broadcast_to(self.views[op.attribute], self.extents).copy()
            case "turn":
                argument, along = op.attribute
                shifts = [-env[a].flat[0] for a in op.args]
                return np.roll(np.broadcast_to(self.views[argument], self.extents), shifts, along)
            case "scalar":
                return np.full(self.extents, self.scalars[op.attribute][1], op.dtype)
            case "const":
                return np.full(self.extents, op.attribute, op.dtype)
            case "index":
                return np.indices(self.extents, "int64")[op.attribute]
            case "store":
                self.views[op.attribute][...] = env[op.args[0]]
            case "reduce":
                pass
            case "scan":
                out = np.moveaxis(env[op.args[0]].copy(), op.attribute[1], 0)
                step = STEP[op.attribute[0]]
                for k in range(1, len(out)):
                    step(out[k - 1, ...], out[k, ...], out=out[k, ...])
                return np.moveaxis(out, 0, op.attribute[1])
            case _:
                out = np.empty(self.extents, op.dtype)
                functions.function(op.kind)(*[env[a] for a in op.args], out=out)
                return out
        return None


def differences(a: Sequence[Array], b: Sequence[Array]) -> list[str]:
    """Where two memories differ in a bit; one NaN is as good as another."""
    found = []
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        x, y = _canonical(x), _canonical(y)
        if x.tobytes() != y.tobytes():
            same = (x == y) | ((x != x) & (y != y))
            if x.dtype.kind == "f":
                same &= np.signbit(x) == np.signbit(y)
            at = np.flatnonzero(~same.ravel())
            found.append(f"array {k} {x.dtype.name}{x.shape}: {len(at)} differ, "
                         f"first at {at[0]}: {x.ravel()[at[0]]!r} and {y.ravel()[at[0]]!r}")
    return found


def _canonical(x: Array) -> Array:
    x = x.copy()
    if x.dtype.kind == "c":
        x = x.reshape(*x.shape, 1).view(x.real.dtype)
    if x.dtype.kind == "f":
        x[np.isnan(x)] = np.nan
    return x


def agreeing(seeds: Iterable[int], disagreement: Callable[[Case], tuple[set[str], Any]]) -> set[str]:
    """The forms of kernels that random bodies have on a GPU; `disagreement` gives those of one, and what
    differs from the interpreter's results, which is nothing."""
    seen: set[str] = set()
    for seed in seeds:
        case = Case(seed, transcendental=seed % 5 == 0)
        try:
            forms, found = disagreement(case)
        except schedule.Refused:
            continue
        assert not found, f"seed {seed}\n{case.body}"
        seen |= forms
    return seen
