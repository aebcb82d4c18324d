"""Native operations are described, execution confirms the descriptions, and discovery finds the same ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import scipy.sparse
import scipy.special

import diffuse.numpy
import diffuse.scipy.sparse
import diffuse.scipy.special
from diffuse import library
from diffuse.ir import IndexTask
from diffuse.kernels.body import operations
from diffuse.spec import discover, mismatches, of_task
from tests.around import around, fenced
from tests.each import for_each
from tests.operators import labels

ROWS, COLUMNS = 7, 9
Function = Callable[..., Any]


class Case(NamedTuple):
    """How a program comes to an operation."""

    make: Callable[[Any], Function]
    """The function, of NumPy's module or ours, or of SciPy's functions or ours."""
    kinds: str = "d"
    """The operands: d(ouble) p(ositive) i(nteger) b(oolean) c(omplex), all of 7 x 9; v(ector) of 9; k, three
    places among 7."""
    modules: tuple[Any, Any] = (numpy, diffuse.numpy)


def ufunc(name: str, kinds: str, *at: int) -> Case:
    return Case(lambda m: lambda *x: getattr(m, name)(*x)[at[0]] if at else getattr(m, name)(*x), kinds)


def special(name: str) -> Case:
    count = getattr(scipy.special, name).nin
    return Case(lambda m: getattr(m, name), "p" * count, (scipy.special, diffuse.scipy.special))


def method(name: str, way: str, kinds: str = "i") -> Case:
    return Case(lambda m: lambda x: getattr(getattr(m, name), way)(x, 1), kinds)


def at(name: str) -> Case:
    def make(m: Any) -> Function:
        def changed(x: Any, places: Any, values: Any) -> Any:
            found = x.copy()
            if name == "put":
                found[places] = values[places]
            else:
                getattr(m, name).at(found, places, values[places])
            return found
        return changed
    return Case(make, "iki")


def raised(exponent: float) -> Case:
    return Case(lambda m: lambda x: x ** exponent, "p")


INTEGERS = {"gcd": "ii", "lcm": "ii", "left_shift": "ii", "right_shift": "ii", "invert": "i",
            "bitwise_count": "i", "bitwise_and": "ii", "bitwise_or": "ii", "bitwise_xor": "ii", "ldexp": "di"}
COMPLEX = {"conjugate": "c"}
SCANS = {"cumall": "logical_and", "cumany": "logical_or", "cumbitand": "bitwise_and",
         "cumbitor": "bitwise_or", "cumbitxor": "bitwise_xor", "cummax": "maximum", "cummin": "minimum",
         "cumnanmax": "fmax", "cumnanmin": "fmin", "cumparity": "logical_xor", "cumprod": "multiply",
         "cumsum": "add"}
FOLDS = {"all": "logical_and", "any": "logical_or", "bitand": "bitwise_and", "bitor": "bitwise_or",
         "bitxor": "bitwise_xor", "max": "maximum", "min": "minimum", "nanmax": "fmax", "nanmin": "fmin",
         "parity": "logical_xor", "prod": "multiply", "sum": "add"}
BOOLEAN = ("cumall", "cumany", "cumparity", "all", "any", "parity")

CASES: dict[str, Case] = {
    **{name: ufunc(name, INTEGERS.get(name) or COMPLEX.get(name) or "p" * getattr(numpy, name).nin)
       for name, row in operations.TABLE.items()
       if isinstance(getattr(numpy, name, None), numpy.ufunc)},
    **{f"{name}_{k}": ufunc(name, "p" * getattr(numpy, name).nin, k)
       for name in ("divmod", "frexp", "modf") for k in (0, 1)},
    **{name: special(name.removeprefix("special.")) for name in operations.TABLE
       if name.startswith("special.")},
    **{name: method(of, "accumulate", "b" if name in BOOLEAN else "i") for name, of in SCANS.items()},
    **{name: method(of, "reduce", "b" if name in BOOLEAN else "i") for name, of in FOLDS.items()},
    **{name: raised(float(name.removeprefix("power"))) for name in operations.EXPONENTS
       if name not in ("power-1", "power0.5", "power2")},
    **{f"scatter_{name}": at(name) for name in operations.SCATTERED},
    "scatter": at("put"),
    "gather1": Case(lambda m: lambda x, k: x[k], "dk"),
    "gather2": Case(lambda m: lambda x, k, n: x[k, n], "dkk"),
    "where": Case(lambda m: m.where, "bdd"),
    "clip": Case(lambda m: lambda x: m.clip(x, -0.5, 0.5)),
    "copy": Case(lambda m: lambda x: x.copy()),
    "argmax": Case(lambda m: lambda x: m.argmax(x, 1)),
    "argmin": Case(lambda m: lambda x: m.argmin(x, 1)),
    "dot": Case(lambda m: m.dot, "vv"),
    "vdot": Case(lambda m: m.vdot, "vv"),
    "roll": Case(lambda m: lambda x: m.roll(x, 2, 1)),
    "roll2": Case(lambda m: lambda x: m.roll(x, (2, 1), (0, 1))),
}
del CASES["scatter_subtract"]

WITHOUT = {
    "arange": "has no operands",
    "erf": "is recorded as special.erf",
    "erfc": "is recorded as special.erfc",
    "gather3": "is gather2 with one more array of places",
    "gather4": "is gather2 with two more",
    "imag": "is a view of the operand's memory",
    "real": "is a view of the operand's memory",
    "nth": "is a part of reading through a mask",
    "power-1": "is recorded as reciprocal",
    "power0.5": "is recorded as sqrt",
    "power2": "is recorded as square",
    "reduceat": "is a part of finding the sums of a sparse matrix' rows",
    "scatter_subtract": "is recorded as scatter_add of the negative where values are alike, else by NumPy",
    "spmv": "takes a matrix of three arrays: see the test below",
}
"""Operations of the table without a case, and why."""


MORE = ("scatter_maximum", "scatter_minimum", "scatter_bitwise_and", "scatter_bitwise_or")
"""Operations for which discovery finds one loop more: each part of the places may be written to a copy of the
array and the copies folded, because to fold an element twice does no harm.  A task copies nothing."""


recorded = around(fenced, compile="off", small=0, fallback="silent")


def operands(kinds: str, seed: int) -> list[Any]:
    rng = numpy.random.default_rng(seed)
    shape = ROWS, COLUMNS
    made: dict[str, Callable[[], Any]] = {
        "d": lambda: rng.standard_normal(shape), "p": lambda: rng.uniform(0.1, 0.9, shape),
        "i": lambda: rng.integers(1, 9, shape), "b": lambda: rng.integers(0, 2, shape) > 0,
        "c": lambda: rng.standard_normal(shape) + 1j * rng.standard_normal(shape),
        "v": lambda: rng.standard_normal(COLUMNS), "k": lambda: rng.permutation(ROWS)[:3]}
    return [made[kind]() for kind in kinds]


def task(name: str, function: Function, given: list[Any]) -> IndexTask:
    """The task of an operation that a function of our arrays records."""
    ours = [diffuse.numpy.array(each) for each in given]
    library.fence()
    result = function(*ours)
    window = library.current().window
    found = [each for group in (*window.closed, window.open) for each in group.tasks
             if each.operation.partition(":")[0] == name]
    del result
    assert found, f"{name} is not recorded"
    return found[0]


@for_each("name", CASES)
def test_an_operation(name: str) -> None:
    if name.partition("_")[0] == "scatter" and not library.current().host_sees:
        return  # NumPy writes at places, over a copy
    make, kinds, (theirs, ours) = CASES[name]
    given = operands(kinds, 1)
    spec = of_task(task(name, make(ours), given))
    with numpy.errstate(all="ignore"):
        for seed in (1, 2):
            assert mismatches(spec, make(theirs), operands(kinds, seed)) == []
        found = labels(discover(make(theirs), *given).spec)
    assert found == labels(spec) if name not in MORE else len(found - labels(spec)) == 1


def test_a_sparse_product() -> None:
    """Each row reads where it begins and ends; the matrix' entries and the vector are read as a whole."""
    rng = numpy.random.default_rng(1)
    matrix = scipy.sparse.random_array((ROWS, COLUMNS), density=0.5, rng=rng, format="csr")
    (vector,) = operands("v", 1)
    ours = diffuse.scipy.sparse.csr_array(matrix)
    spec = of_task(task("spmv", lambda x: ours @ x, [vector]))

    def product(begins: Any, ends: Any, values: Any, columns: Any, x: Any) -> Any:
        if len(begins) > ROWS:  # the whole array, twice
            begins, ends = begins[:-1], ends[1:]
        return numpy.array([values[low:high] @ x[columns[low:high]]
                            for low, high in zip(begins, ends, strict=True)])

    places = matrix.indptr
    assert str(spec) == "i0:7 | %0[i0] %1[i0+1] %2[:] %3[:] %4[:] -> %5[i0]"
    assert mismatches(spec, product, [places, places, matrix.data, matrix.indices, vector]) == []


def test_every_operation_has_a_case() -> None:
    native = {name for row in operations._ROWS for name in row.name.split()}
    native |= {name for name in operations.TABLE if name.startswith("special.")}
    assert native - set(CASES) == set(WITHOUT)
