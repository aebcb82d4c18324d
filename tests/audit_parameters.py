"""Arguments of the audit's calls, as text, by the names of the parameters of NumPy's functions.

Most of it makes sense for the arrays of the call; some is of the wrong type or shape, or out of
range.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

from tests import audit_operands as operands

DTYPES = """'f8' 'f4' 'i8' 'i4' 'u1' '?' 'c16' 'c8' 'f2' float int bool complex np.float32 np.dtype('i2') None
'>f8' object 'U5' 'M8[s]' 'x9' np.floating""".split()
NUMBERS = """0 1 2 3 -1 -2 7 0.5 2.0 -0.0 1.5 True False 1j 300 -300 1<<40 1<<70 np.nan np.inf np.float32(1.5)
np.float64(2) np.int8(3) np.uint8(200) np.int64(2) np.bool_(True)
np.complex64(1+1j) np.float16(.1) None np.longdouble(1.5) 'a' np.timedelta64(3,'D') np.array(2.5)
np.array([2])""".split()
STRANGE = """True 2.5 -1 1j 'x' '' b'x' None ... {} [] () (1,) [[1]] [True] (None,) slice(1) float 'f8'
'i4,f8' len np.float64(2.5) np.int64(2) np.array(1) np.array([0,1]) np.array(2.5) np.str_('C') np.True_
np.zeros(300) np.arange(9).sum() np.arange(9.)""".split()
"""Arguments that any parameter gets now and then, whatever it means."""
TINY = "0 1 2 3 -1 -2 1.5 True np.int64(1) None 5".split()


class Draft:
    """One call as it is being made up: the operands so far, and text for the next argument."""

    def __init__(self, pick: Random, mode: str) -> None:
        self.pick, self.mode = pick, mode
        self.lines: list[str] = []
        self.tame = False
        """Are NaN and infinities left out?  LAPACK may search for eigenvalues of such matrices for ever."""
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, str] = {}
        self.first: str | None = None
        """The result of an earlier call, which takes the place of the first new array."""
        self.lead = "a"
        """The operand whose shape other arguments are made for."""

    # -- arrays ------------------------------------------------------------------------------------------

    def new(self, shape: tuple[int, ...], dtype: str | None = None, layout: str | None = None) -> str:
        """One more array, by a line of its own."""
        if self.first is not None:
            self.lead, self.first = self.first, None
            return self.lead
        pick, name = self.pick, "abcdefgh"[len(self.shapes)]
        if dtype is None:
            dtype = pick.choice(operands.SELDOM if pick.random() < 0.06 else operands.DTYPES)
        layout = layout or pick.choice(operands.LAYOUTS)
        seed = pick.randrange(800)
        if self.tame and seed % 8 in (0, 7):
            seed += 2
        self.lines.append(f"{name} = array({shape}, {dtype!r}, {layout!r}, {seed})")
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name

    def keep(self, text: str, shape: tuple[int, ...], dtype: str) -> None:
        """Make an operand of the result of a call: the first one of the next call."""
        name = "abcdefgh"[len(self.shapes)]
        self.lines.append(f"{name} = {text}")
        self.shapes[name], self.dtypes[name], self.first = shape, dtype, name

    def forget(self) -> None:
        """Remove all operands."""
        self.first, self.lead = None, "a"
        self.lines.clear()
        self.shapes.clear()
        self.dtypes.clear()

    def stay_small(self) -> None:
        """Make small arrays from now on, and begin anew if there are large ones."""
        self.mode = "small"
        if any(prod(shape) > 1000 for shape in self.shapes.values()):
            self.forget()

    def view(self, name: str) -> str:
        """Another view of the memory of an operand that is there."""
        shape = self.shapes[name]
        if not shape:
            return name
        forms = [f"{name}[...]", f"{name}[::-1]", f"{name}.view()"]
        if self.mode != "large" or 1 not in shape:  # a column and a row make a large square
            forms += [f"{name}.T", f"{name}.ravel()"]
        if shape[0] > 1:
            forms += [f"{name}[1:]", f"{name}[:-1]", f"{name}[::2]", f"{name}[0]", f"{name}[:1]"]
        return self.pick.choice(forms)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first operand, which other arguments go by."""
        if not self.shapes:
            return self.any_shape()
        return self.shapes[self.lead]

    def any_shape(self) -> tuple[int, ...]:
        if self.mode == "large" and self.pick.random() < 0.9:
            return self.pick.choice(operands.MANY)
        return self.pick.choice(operands.FEW)

    def operand(self) -> str:
        """An array, a view of one that is there, a number or a list."""
        kind = self.pick.randrange(20)
        if not self.shapes:
            return self.new(self.any_shape()) if kind else self.number()
        if kind < 9 and len(self.shapes) < 5:
            same = self.dtypes[self.lead] if self.pick.random() < 0.5 else None
            return self.new(operands.shape_like(self.pick, self.shape), same)
        if kind < 13:
            return self.view(self.pick.choice([*self.shapes]))
        if kind < 18:
            return self.number()
        if self.pick.random() < 0.4:
            name = self.pick.choice([*self.shapes])
            return self.pick.choice((f"np.ma.array({name}, mask={name} == {name})", f"np.ma.array({name})",
                                     f"numpy.matrix({name}.tolist())", "memoryview(bytes(8))", "range(3)"))
        return self.pick.choice(("[1, 2, 3]", "[1.5]", "(1, 2)", "[[1], [2]]", "numpy.arange(3.)", "[]",
                                 "[300, -300]", "[1e30]", "(np.nan,)"))

    def number(self) -> str:
        return self.pick.choice(NUMBERS)

    def small(self) -> str:
        return self.pick.choice(TINY)

    # -- what goes by the first operand ------------------------------------------------------------------

    def axis(self) -> str:
        rank, pick = len(self.shape), self.pick
        kind = pick.randrange(12)
        if kind == 0:
            return pick.choice((str(rank), str(-rank - 1), "1.5", "[0]", "(0, 0)", "'x'", "(0, 7)", "None",
                                "True", "numpy.True_", "(True,)", "numpy.int64(0)", "(numpy.int8(0),)", "0.0",
                                "numpy.array(0)", "np.array([0])"))
        if kind < 3:
            return "None"
        if kind < 6 and rank > 1:
            return repr(tuple(pick.sample(range(-1, rank - 1), pick.randrange(rank + 1))))
        return str(pick.randrange(-rank, rank)) if rank else pick.choice(("0", "-1", "None"))

    def one_axis(self) -> str:
        rank = len(self.shape)
        return str(self.pick.randrange(-rank, rank)) if rank and self.pick.random() < 0.9 else self.axis()

    def axes(self) -> str:
        rank = len(self.shape)
        order = self.pick.sample(range(rank), rank)
        return repr(tuple(order)) if self.pick.random() < 0.7 else self.axis()

    def mask(self) -> str:
        kind = self.pick.randrange(8)
        if kind < 5 and len(self.shapes) < 6:
            return self.new(operands.shape_like(self.pick, self.shape), "?")
        return self.pick.choice(("True", "False", "[True]", self.operand()))

    def indices(self) -> str:
        """Positions along the first axis, or of the whole, mostly in range."""
        most = max(1, min([n for n in self.shape if n], default=1))
        if self.pick.random() < 0.5 and len(self.shapes) < 6:
            like = (5,) if self.mode == "large" and len(self.shape) > 1 else self.shape
            name = self.new(operands.shape_like(self.pick, like), self.pick.choice(("i8", "i8", "i4", "u1")))
            return f"{name}%{most}"
        return self.pick.choice(("0", "-1", "[0]", f"[0, {most - 1}]", "[0, -1, 0]", str(most), "[]",
                                 "[[0], [0]]",
                                 "1.5", "True", self.operand()))

    def extents(self) -> str:
        size, pick = 1, self.pick
        for n in self.shape:
            size *= n
        forms = ["-1", "(-1,)", f"({size},)", f"(1, {size})", f"({size}, 1)", "(-1, 1)",
                 repr(self.shape[::-1]),
                 "(2, -1)", "(3, -1)", "3", "(2, 3)", "(0,)", "(-1, -1)", "()", "(2, 2.5)"]
        return pick.choice(forms)

    def sequence(self) -> str:
        """A tuple or list of arrays of like shapes."""
        count, parts = self.pick.randrange(1, 4), [self.operand()]
        for _ in range(count - 1):
            like = self.shape if self.pick.random() < 0.7 else operands.shape_like(self.pick, self.shape)
            parts.append(self.new(like) if self.pick.random() < 0.8 else self.operand())
        text = ", ".join(parts) + ("," if count == 1 else "")
        return f"({text})" if self.pick.random() < 0.6 else f"[{text}]"

    def square(self) -> str:
        """A stack of square matrices."""
        shape = self.pick.choice(((3, 3), (3, 3), (2, 3, 3), (1, 1), (0, 0), (3, 4)))
        return self.new(shape, self.pick.choice(("f8", "f8", "f4", "c16",
                                                 "i8"))) if self.pick.random() < 0.9 else self.operand()

    def vector(self) -> str:
        return self.new((self.pick.choice((1, 3, 4, 5)),), self.pick.choice(("f8", "f8", "i8", "f4", "c16")))

    def points(self) -> str:
        """Points of few dimensions."""
        self.forget()
        return self.new(self.pick.choice(((7,), (4, 3), (7, 2), (0, 3))))

    def increasing(self) -> str:
        return self.pick.choice(("[-2., 0., 1., 3.]", "np.array([-1., 0.5, 2.])", "np.array([0, 2, 4])",
                                 "np.arange(4.)"))


def of(*choices: str) -> Callable[[Draft], str]:
    """One of a few texts."""
    return lambda d: d.pick.choice(choices)


BOOL = of("True", "False", "True", "False", "1", "None")
ARRAYS = "a x x1 x2 arr ary m array y z ar b ar1 ar2 a1 a2 val f prototype object data dst src u w " \
         "element test_elements A choices vals obj to_end to_begin prepend append fill_value sample self " \
         "other value values v p filt M1 weights".split()
PARAMETERS: dict[str, Callable[[Draft], str]] = {
    **{name: Draft.operand for name in ARRAYS},
    "axis": Draft.axis, "axes": Draft.axes, "axis1": Draft.one_axis, "axis2": Draft.one_axis,
    "axisa": Draft.one_axis, "axisb": Draft.one_axis, "axisc": Draft.one_axis, "source": Draft.one_axis,
    "destination": Draft.one_axis, "start": Draft.one_axis,
    "dtype": of(*DTYPES), "where": Draft.mask, "mask": Draft.mask, "condition": Draft.mask,
    "casting": of(*"'no' 'equiv' 'safe' 'same_kind' 'same_kind' 'unsafe' 'unsafe' 'x'".split()),
    "order": of(*"'C' 'F' 'A' 'K' 'c' None 'Q'".split()),
    "keepdims": BOOL, "subok": BOOL, "initial": Draft.number, "like": of("a", "a", "None", "3", "[1]"),
    "ddof": of("0", "1", "0.5", "50", "np.int64(1)"), "correction": of("0", "1", "0.5"), "mean": Draft.number,
    "shape": Draft.extents, "newshape": Draft.extents, "new_shape": Draft.extents,
    "indices": Draft.indices, "ind": Draft.indices, "mode": of("'raise'", "'wrap'", "'clip'", "'x'"),
    "k": of("0", "1", "-1", "2", "-3", "50"), "offset": of("0", "1", "-1", "3", "-50"),
    "n": of("0", "1", "2", "3", "4", "-1"), "N": of("0", "1", "3", "4", "5", "2.5"),
    "M": of("0", "1", "4", "None"),
    "decimals": of("0", "1", "-1", "2", "20", "-20"), "nan": Draft.number, "posinf": Draft.number,
    "neginf": Draft.number, "copy": of("True", "False", "None", "True"), "kind": of(
        "None", "'stable'", "'quicksort'", "'heapsort'", "'mergesort'", "'x'"),
    "stable": of("None", "True", "False"), "kth": of("0", "1", "-1", "[0, 2]", "50", "1.5"),
    "side": of("'left'", "'right'", "'x'"), "sorter": of("None", "None", "[0]"), "right": BOOL,
    "arrays": Draft.sequence, "tup": Draft.sequence, "arys": Draft.sequence, "keys": Draft.sequence,
    "condlist": lambda d: f"[{d.mask()}, {d.mask()}]",
    "choicelist": lambda d: f"[{d.operand()}, {d.operand()}]",
    "default": Draft.number, "a_min": Draft.operand, "a_max": Draft.operand, "min": Draft.operand,
    "max": Draft.operand, "repeats": of("0", "1", "2", "3", "[1, 2]", "[2]", "-1", "1.5"),
    "reps": of("0", "1", "2", "(2, 1)", "(1, 2, 1)", "-1", "()", "(2,)", "2.5"),
    "shift": of("0", "1", "-1", "3", "(1, -1)", "100", "[2]", "1.5"), "q": of(
        "30", "0.5", "[0.1, 0.9]", "50", "0", "100", "1", "-1", "200", "np.array([0.25])"),
    "method": of("'linear'", "'lower'", "'nearest'", "'median_unbiased'", "'x'", "'hazen'"),
    "overwrite_input": BOOL, "rtol": of("1e-5", "0", "0.1"), "atol": of("1e-8", "0", "0.1", "np.float32(.1)"),
    "equal_nan": BOOL, "bins": of("3", "[-3, 0, 2]", "'auto'", "0", "np.array([0., 1, 5])", "(2, 3)"),
    "range": of("None", "(-2, 2)", "(2, -2)", "[0, 1]"), "density": BOOL, "minlength": of("0", "5", "-1"),
    "indices_or_sections": of("1", "2", "[1]", "[1, 2]", "0", "[0, 9]", "(2,)"), "pad_width": of(
        "1", "0", "(1, 2)", "((0, 1),)", "-1", "((1, 0), (0, 2))"), "dx": of("1.0", "0.5", "2"),
    "edge_order": of("1", "2", "3"), "period": of("None", "5.", "6.28"), "discont": of("None", "1."),
    "left": Draft.number, "bitorder": of("'big'", "'little'", "'x'"),
    "assume_unique": BOOL, "invert": BOOL, "return_index": BOOL, "return_inverse": BOOL,
    "return_counts": BOOL,
    "sorted": BOOL, "return_indices": BOOL, "returned": BOOL, "include_initial": BOOL, "wrap": BOOL,
    "increasing": BOOL, "rowvar": BOOL, "bias": BOOL, "deg": of("1", "2", "True"), "endpoint": BOOL,
    "retstep": BOOL, "num": of("0", "1", "5", "7", "-1", "2.5", "20000"), "stop": Draft.number, "step": of(
        "1", "2", "-1", "0.5", "0"), "base": of("10.", "2", "np.array([2., 3.])"), "sparse": BOOL,
    "indexing": of("'xy'", "'ij'", "'x'"), "trim": of("'f'", "'b'", "'fb'"),
    "device": of("None", "'cpu'", "'gpu'"),
    "ndmin": of("0", "1", "3", "5"), "ndmax": of("0", "1", "2"), "tol": of("100", "1", "1e-9"),
    "norm": of("None", "'ortho'", "'forward'", "'backward'", "'x'"), "s": of("None", "(4, 3)", "(5,)"),
    "ord": of("None", "1", "2", "np.inf", "'fro'", "0", "3", "-np.inf", "'nuc'", "-1"),
    "UPLO": of("'L'", "'U'"),
    "full_matrices": BOOL, "compute_uv": BOOL, "hermitian": BOOL, "upper": BOOL,
    "xp": Draft.increasing, "fp": Draft.increasing, "dims": of("(4, 5)", "(100, 100)", "3", "(2, 2)"),
    "multi_index": of("([0, 1], [1, 0])", "(0, 1)", "a"), "ndim": of("1", "2", "3"),
    "max_work": of("0", "1", "None"),
    "inplace": BOOL, "write": BOOL, "align": BOOL, "count": of("None", "3", "-1"), "choices": Draft.sequence,
    "to": of(*DTYPES), "from_": of("a", "a.dtype", *DTYPES), "refcheck": of("False"),
    "start_or_stop": of("0", "3", "5.5", "np.array(4)", "20000", "-2"),
    "requirements": of("None", "'C'", "'F'", "['A', 'W']", "'O'", "'E'"), "seq_of_zeros": Draft.vector,
    "fweights": of("None", "None", "[1, 2, 3]"), "aweights": of("None", "None", "[1., 2, 3, 1]"),
    "rcond": of("None", "1e-9"), "varargs": of("1.", "2", "[1., 2.]"), "op": Draft.operand,
    "number": of("3", "-7"),
    "func1d": of("np.sum", "np.sort", "lambda v: v * 2"), "func": of("np.sum", "np.max"), "xi": Draft.operand,
    "funclist": of("[1, 2]", "[0, lambda v: v * 2]", "[1, 2, 3]"), "args": Draft.operand, "dimensions": of(
        "(3, 4)", "(2,)", "(150, 130)", "()"), "type1": of(*DTYPES), "type2": of(*DTYPES),
    "typechars": of("'fd'", "['f', a]"), "char": of("'f'", "'?'"), "arrays_and_dtypes": Draft.operand,
    "function": of("lambda i, j: i + j", "np.add"), "iter": of("[1, 2, 3]", "a", "iter(a)"),
    "buffer": of("b'12345678'", "a", "bytes(16)"), "beta": of("1.", "14"), "d": of("1.0", "0.5", "2"),
    "operands": Draft.operand, "full": BOOL, "cov": BOOL,
    "optimize": of("True", "False", "'optimal'", "'greedy'"),
    "window_shape": of("2", "3", "(2, 2)", "0", "99"), "writeable": BOOL,
    "strides": of("None", "(8,)", "(0,)"),
    "mask_func": of("np.triu", "np.tril"),
    "signature": of("None", "'d'", "'f'", "'dd->d'", "'d->d'", "(None, None, 'f4')", "'l'"),
    "size": of("3"), "unit": of("None", "'D'"), "sep": of("' '"),
    "nin": of("1"), "nout": of("1"),
    "flags": of("['multi_index']"),
}
"""Each parameter's name, and what is given for it."""

OF_FUNCTION: dict[str, Callable[[Draft], str]] = {
    "atleast_1d.arys": Draft.operand, "atleast_2d.arys": Draft.operand, "atleast_3d.arys": Draft.operand,
    "take_along_axis.indices": lambda d: d.pick.choice(("np.argsort(a, axis=0)", "np.argsort(a)",
                                                        d.indices())),
    "choose.mode": lambda d: d.pick.choice(("'raise'", "'clip'", "'x'", "'wrap'")  # NumPy wraps by and by
                                           if d.dtypes.get(d.lead) in ("?", "i1", "u1") else ("'raise'",
                                                                                           "'clip'")),
    "histogramdd.sample": Draft.points,
    "pad.mode": of(*"""'constant' 'edge' 'wrap' 'reflect' 'symmetric' 'mean' 'maximum' 'linear_ramp' 'empty'
                   'x'""".split()),
    "convolve.mode": of("'full'", "'same'", "'valid'", "'x'"),
    "correlate.mode": of("'full'", "'same'", "'valid'", "'x'"),
    "qr.mode": of("'reduced'", "'r'", "'complete'"),
    "extract.condition": Draft.mask, "delete.obj": lambda d: d.pick.choice((d.indices(), "slice(0, 2)",
                                                                            d.mask())),
    "insert.values": lambda d: d.pick.choice((d.number(), d.number(), "[1, 2]", "a[:1]", d.new((1,)))),
    "insert.obj": lambda d: d.pick.choice((d.indices(), "slice(0, 2)")),
    "bincount.x": lambda d: f"{d.new((7,), 'u1')}",
    "unpackbits.a": lambda d: d.new(d.any_shape(), "u1"), "digitize.bins": Draft.increasing,
    "polyval.p": Draft.vector, "poly.seq_of_zeros": Draft.vector, "roots.p": Draft.vector,
    "vander.N": of("None", "3", "0"),
    "polyder.p": Draft.vector, "polyint.p": Draft.vector, "polydiv.v": Draft.vector,
    "polydiv.u": Draft.vector,
    "polyint.k": of("None", "1", "[1]"), "tensordot.axes": of("0", "1", "2", "([0], [0])", "(0, 0)",
                                                              "([0, 1], [1, 0])"),
    "einsum.operands": lambda d: d.pick.choice((f"'i...->...', {d.operand()}",
                                                f"'...,...', {d.operand()}, {d.operand()}",
                                                f"'ij->ji', {d.operand()}",
                                                f"'ij,jk', {d.operand()}, {d.operand()}",
                                                f"'ii', {d.operand()}", f"'ij->', {d.operand()}",
                                                f"'ij->i', {d.operand()}",
                                                f"'ij,jk,kl', {d.operand()}, {d.operand()}, {d.operand()}",
                                                f"'i,i', {d.operand()}, {d.operand()}",
                                                f"{d.operand()}, [0, 1], [1, 0]")),
    "where.x": Draft.operand, "where.y": Draft.operand, "histogramdd.bins": of("2", "3"),
    "fromiter.dtype": of("float", "int"),
    "array.copy": of("True", "False", "None"), "trim_zeros.axis": of("None", "0", "-1"),
    "matrix_power.n": of("0", "1", "2", "3", "-1"), "fftfreq.n": of("0", "1", "4", "5", "2.5"),
    "rfftfreq.n": of("1", "4", "5"), "tensorsolve.axes": of("None", "(0,)"),
    "rot90.axes": of("(0, 1)", "(1, 0)", "(0, 0)"),
    "full.fill_value": Draft.number, "full_like.fill_value": Draft.operand, "polyfit.deg": of("1", "2"),
    "item.args": of("0", "-1", "(0,)", "100", "1.5"), "transpose.axes": Draft.axes,
    "view.args": of(*DTYPES, "'i8'", "'u1'"), "view.kwargs": of(),
    "reshape.shape": Draft.extents, "fill.value": Draft.number, "setflags.write": BOOL,
    "searchsorted.a": Draft.increasing,
    "isin.kind": of("None", "'sort'", "'table'"), "to_device.device": of("'cpu'", "'gpu'"),
    "eye.k": of("0", "1", "-2"),
    "unravel_index.indices": of("0", "[0, 3]", "a", "3"),
    "unravel_index.shape": of("(4, 5)", "(100, 200)", "3"),
    "split.indices_or_sections": of("1", "2", "[1]", "[1, 2]"), "sort.order": of("None", "None", "'f'"),
    "argsort.order": of("None"), "partition.order": of("None"), "argpartition.order": of("None"),
    "expand_dims.axis": of("0", "-1", "1", "(0, 1)", "(0, 0)", "9"), "stack.axis": of("0", "-1", "1", "5"),
    "broadcast_to.shape": lambda d: d.pick.choice((f"(2, *np.shape({d.shapes and 'a' or '3'}))",
                                                   d.extents())),
    "broadcast_shapes.args": of("(3, 1)", "(1, 4)", "3", "(2, 3)"), "from_dlpack.x": Draft.operand,
    **{f"{name}.a": Draft.square for name in
       """inv det slogdet eig eigh eigvals eigvalsh cholesky solve lstsq matrix_power qr svd pinv
       tensorinv""".split()},
    "solve.b": Draft.square, "lstsq.b": Draft.square, "correlate.a": Draft.vector,
    "correlate.v": Draft.vector,
    "convolve.a": Draft.vector, "convolve.v": Draft.vector, "histogram2d.x": Draft.vector,
    "histogram2d.y": lambda d: "a",
    "cross.a": lambda d: d.new(d.pick.choice(((3,), (4, 3), (2, 4, 3)))),
    "cross.b": lambda d: d.new(d.pick.choice(((3,), (4, 3), (2, 4, 3)))),
    "cross.x1": lambda d: d.new((4, 3)), "cross.x2": lambda d: d.new((4, 3)), "fill_diagonal.a": Draft.square,
    "diag_indices_from.arr": Draft.square, "apply_along_axis.axis": of("0", "-1"),
    "apply_along_axis.args": of("0"),
    "put_along_axis.indices": lambda d: "np.argsort(a, axis=0)", "put_along_axis.axis": of("0"),
    "tensorsolve.a": lambda d: "np.eye(6).reshape(2, 3, 6)", "tensorsolve.b": lambda d: d.new((2, 3), "f8"),
    "dsplit.ary": lambda d: d.new((2, 3, 4)), "common_type.arrays": lambda d: d.new(d.any_shape(), "f4"),
    "multi_dot.arrays": lambda d: f"[{d.square()}, {d.square()}]",
    "isnat.x": lambda d: d.new(d.any_shape(), "M8[D]"),
}
"""The same for a parameter of one function."""
